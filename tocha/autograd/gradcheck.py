"""gradcheck: gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tocha import _C

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """A gradient that finite differences do not confirm."""


def _differentiable(values: Any) -> list[Tensor]:
    values = values if isinstance(values, tuple | list) else (values,)
    return [
        v for v in values if isinstance(v, Tensor) and v.requires_grad and (v.is_floating_point() or v.is_complex())
    ]


def _outputs(value: Any) -> tuple[Tensor, ...]:
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    return tuple(v for v in values if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex()))


def _places(t: Tensor) -> Iterator[tuple[int, ...]]:
    from itertools import product

    yield from product(*(range(n) for n in t.shape))


def _numerical(f: Callable, inputs: tuple, target: Tensor, eps: float) -> list[list[list[Tensor]]]:
    """For each place of target, the change of every output per unit; for complex targets along both axes."""
    columns = []
    data = target.data  # has a version of its own: writing here does not spoil what graphs have saved
    with _no_grad():
        for place in _places(target):
            before = data[place].item()
            steps = (eps, eps * 1j) if target.is_complex() else (eps,)
            per_axis = []
            for step in steps:
                data[place] = before + step
                up = [o.clone() for o in _outputs(f(*inputs))]
                data[place] = before - step
                down = [o.clone() for o in _outputs(f(*inputs))]
                data[place] = before
                per_axis.append([(u - d) / (2 * eps) for u, d in zip(up, down, strict=True)])
            columns.append(per_axis)
    return columns


def _no_grad() -> Any:
    from tocha.autograd.grad_mode import no_grad

    return no_grad()


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of func by its inputs agree with central differences. Use float64.

    >>> import tocha
    >>> gradcheck(tocha.sin, (tocha.rand(3, dtype=tocha.float64, requires_grad=True),))
    True
    """
    try:
        return _check(
            func,
            inputs if isinstance(inputs, tuple | list) else (inputs,),
            eps,
            atol,
            rtol,
            nondet_tol,
            check_undefined_grad,
            check_grad_dtypes,
            check_backward_ad,
            check_forward_ad,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(
    func: Callable,
    inputs: Any,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    undefined: bool,
    dtypes: bool,
    backward: bool,
    forward: bool,
) -> bool:
    inputs = tuple(inputs)
    wanted = _differentiable(inputs)
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
        )
    for t in wanted:
        if t.dtype not in (_C.float64, _C.complex128):
            import warnings

            warnings.warn(
                "Input requires gradient and is not a double precision floating point or complex. This check will likely fail if all the inputs are not of double precision floating point or complex.",
                stacklevel=3,
            )
        if any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)):
            raise RuntimeError(
                "The input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
    outputs = tuple(o for o in _outputs(func(*inputs)))
    if backward:
        for k, out in enumerate(outputs):
            if out.requires_grad:
                _check_output(func, inputs, wanted, k, out, eps, atol, rtol, nondet_tol, dtypes)
        if undefined:
            _check_undefined(outputs, wanted)
    if forward:
        _check_forward(func, inputs, wanted, eps, atol, rtol)
    return True


def _check_output(
    func: Callable,
    inputs: tuple,
    wanted: list,
    k: int,
    out: Tensor,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    dtypes: bool,
) -> None:
    from tocha import autograd

    numerical = [_numerical(func, inputs, t, eps) for t in wanted]
    axes = (1, 1j) if out.is_complex() else (1,)
    for place in _places(out):
        for axis in axes:
            cotangent = _C.zeros_like(out)
            cotangent[place] = axis
            grads = autograd.grad(out, wanted, cotangent, retain_graph=True, allow_unused=True)
            if nondet_tol == 0.0:
                again = autograd.grad(out, wanted, cotangent, retain_graph=True, allow_unused=True)
                for a, b in zip(grads, again, strict=True):
                    if a is not None and not bool((a == b).all() | ((a != a) & (b != b)).any()):
                        raise GradcheckError(
                            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, although analytical gradient matches numerical gradient."
                        )
            for j, (g, t) in enumerate(zip(grads, wanted, strict=True)):
                if g is not None and (g.shape != t.shape or (dtypes and g.dtype != t.dtype)):
                    raise GradcheckError(
                        f"the gradient of input {j} has shape {list(g.shape)} and dtype {g.dtype}, the input {list(t.shape)} and {t.dtype}"
                    )
                for n, at in enumerate(_places(t)):
                    # d Re<c, f> along each axis of the input is the gradient's component there.
                    parts = [(_C.conj(cotangent) * col[k]).sum() for col in numerical[j][n]]
                    expected = [p.real.item() if p.is_complex() else p.item() for p in parts]
                    have: Any = 0 if g is None else g[at].item()
                    got = [have.real, have.imag] if isinstance(have, complex) else [have]
                    for ours, numeric in zip(got, expected, strict=False):
                        if not (
                            abs(ours - numeric) <= atol + rtol * abs(numeric) or (ours != ours and numeric != numeric)
                        ):
                            raise GradcheckError(
                                f"Jacobian mismatch for output {k} with respect to input {j}, at output place {place}, input place {at}: numerical {numeric}, analytical {ours}"
                            )


def _check_undefined(outputs: tuple, wanted: list) -> None:
    """Gradients that never come count as zeros."""
    from tocha import autograd

    roots = [o for o in outputs if o.requires_grad]
    if len(roots) < 2:
        return
    for k, out in enumerate(roots):
        grads = autograd.grad(out, wanted, _C.zeros_like(out), retain_graph=True, allow_unused=True)
        for g in grads:
            if g is not None and bool((g != 0).any()):
                raise GradcheckError(f"Expected zero gradients for a zero gradient of output {k}, but got {g}")


def _check_forward(func: Callable, inputs: tuple, wanted: list, eps: float, atol: float, rtol: float) -> None:
    from tocha.autograd import forward_ad

    for j, target in enumerate(wanted):
        numerical = _numerical(func, inputs, target, eps)
        for n, place in enumerate(_places(target)):
            for a, axis in enumerate((1, 1j) if target.is_complex() else (1,)):
                tangent = _C.zeros_like(target.detach())
                tangent[place] = axis
                with forward_ad.dual_level():
                    dual = [
                        forward_ad.make_dual(t.detach(), tangent)
                        if t is target
                        else t.detach()
                        if isinstance(t, Tensor)
                        else t
                        for t in inputs
                    ]
                    found = [forward_ad.unpack_dual(o).tangent for o in _outputs(func(*dual))]
                for k, (t, expected) in enumerate(zip(found, numerical[n][a], strict=True)):
                    have = _C.zeros_like(expected) if t is None else t
                    if not bool(_C.isclose(have, expected.to(have.dtype), rtol=rtol, atol=atol, equal_nan=True).all()):
                        raise GradcheckError(
                            f"forward-mode Jacobian mismatch for output {k} with respect to input {j} at {place}: numerical {expected}, analytical {have}"
                        )


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradients: second derivatives against finite differences."""
    from tocha import autograd

    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if grad_outputs is None:
        outs = _differentiable(_outputs(func(*given)))
        made = tuple(_C.randn(o.shape, dtype=o.dtype, device=o.device).requires_grad_() for o in outs)
    else:
        made = tuple(grad_outputs) if isinstance(grad_outputs, tuple | list) else (grad_outputs,)
    n = len(made)

    def gradients(*args: Any) -> tuple:
        xs, cotangents = args[: len(args) - n], args[len(args) - n :]
        xs = tuple(
            x
            if not isinstance(x, Tensor) or x.requires_grad or y is x or not y.requires_grad
            else x.detach().requires_grad_()
            for x, y in zip(xs, given, strict=True)
        )
        with autograd.enable_grad():
            outs = _differentiable(_outputs(func(*xs)))
            found = autograd.grad(
                outs,
                [x for x in xs if isinstance(x, Tensor) and x.requires_grad],
                cotangents,
                create_graph=True,
                allow_unused=True,
            )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*given, *made),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
    )
