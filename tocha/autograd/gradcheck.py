"""gradcheck: gradients against finite differences."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tocha import _C
from tocha.autograd import forward_ad
from tocha.autograd._backward import grad
from tocha.autograd.grad_mode import enable_grad, no_grad

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """A gradient that finite differences do not confirm."""


@dataclass(frozen=True)
class _Tolerance:
    """How far apart gradients and differences may be, and the step of the differences."""

    eps: float
    atol: float
    rtol: float
    nondet: float


def _tuple(values: Any) -> tuple:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _is_differentiable(v: Any) -> bool:
    return isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())


def _outputs(value: Any) -> tuple[Tensor, ...]:
    return tuple(v for v in _tuple(value) if _is_differentiable(v))


def _wanted(values: Any) -> list[Tensor]:
    return [v for v in _tuple(values) if _is_differentiable(v) and v.requires_grad]


# -- Jacobians: a row for every real number of the input, a column for every one of the output ------


def _numbers(t: Tensor) -> Tensor:
    """All the real numbers of t in a row."""
    t = t.detach()
    return (_C.view_as_real(t.resolve_conj()) if t.is_complex() else t).reshape(-1)


def _units(t: Tensor) -> Iterator[Tensor]:
    """One tensor like t for each of its real numbers: 1 (or i) there and 0 elsewhere."""
    for place in product(*(range(n) for n in t.shape)):
        for axis in (1, 1j) if t.is_complex() else (1,):
            unit = _C.zeros(t.shape, dtype=t.dtype, device=t.device)
            unit[place] = axis
            yield unit


def _matrix(rows: list[Tensor], columns: int, like: Tensor) -> Tensor:
    if rows:
        return _C.stack(rows)
    real = _C.zeros(0, dtype=like.dtype).real.dtype if like.is_complex() else like.dtype
    return _C.zeros(0, columns, dtype=real, device=like.device)


def _difference(f: Callable, inputs: tuple, target: Tensor, step: Tensor, eps: float) -> list[Tensor]:
    """The change of every output per unit of step, around the inputs as they are."""
    data = target.data  # has a version of its own: writing here does not spoil what graphs have saved
    with no_grad():
        before = data.clone()
        data.copy_(before + eps * step)
        up = [_numbers(o).clone() for o in _outputs(f(*inputs))]
        data.copy_(before - eps * step)
        down = [_numbers(o).clone() for o in _outputs(f(*inputs))]
        data.copy_(before)
        return [(u - d) / (2 * eps) for u, d in zip(up, down, strict=True)]


def _numerical(f: Callable, inputs: tuple, target: Tensor, outputs: tuple, eps: float) -> list[Tensor]:
    """The Jacobian of every output by target, from central differences."""
    rows = [_difference(f, inputs, target, unit, eps) for unit in _units(target)]
    return [_matrix([r[k] for r in rows], _numbers(out).numel(), out) for k, out in enumerate(outputs)]


def _gradients(out: Tensor, wanted: list, cotangent: Tensor) -> tuple:
    return grad(out, wanted, cotangent, retain_graph=True, allow_unused=True)


def _analytical(out: Tensor, wanted: list, dtypes: bool) -> list[Tensor]:
    """The Jacobian of out by each of the inputs, from backward."""
    columns: list[list[Tensor]] = [[] for _ in wanted]
    for unit in _units(out):
        for j, (g, t) in enumerate(zip(_gradients(out, wanted, unit), wanted, strict=True)):
            if g is None:
                g = _C.zeros(t.shape, dtype=t.dtype, device=t.device)
            if g.shape != t.shape or (dtypes and g.dtype != t.dtype):
                raise GradcheckError(
                    f"the gradient of input {j} has shape {list(g.shape)} and dtype {g.dtype}, "
                    f"the input {list(t.shape)} and {t.dtype}"
                )
            columns[j].append(_numbers(g))
    return [_matrix(c, _numbers(t).numel(), t).t() for c, t in zip(columns, wanted, strict=True)]


def _compare(numerical: Tensor, analytical: Tensor, tolerance: _Tolerance, what: str) -> None:
    near = _C.isclose(
        analytical, numerical.to(analytical.dtype), rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True
    )
    if not bool(near.all()):
        raise GradcheckError(f"{what},\nnumerical:{numerical}\nanalytical:{analytical}\n")


# -- the checks ------------------------------------------------------------------------------------


def _check_inputs(inputs: tuple) -> list[Tensor]:
    wanted = _wanted(inputs)
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for t in wanted:
        if t.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                "Input requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex.",
                stacklevel=4,
            )
        if any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)):
            raise RuntimeError(
                "The input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to "
                "be able to compute the numerical gradients correctly. You should call .contiguous on the input "
                "before passing it to gradcheck."
            )
    return wanted


def _check_backward(f: Callable, inputs: tuple, outputs: tuple, tolerance: _Tolerance, dtypes: bool) -> None:
    wanted = _wanted(inputs)
    numerical = [_numerical(f, inputs, t, outputs, tolerance.eps) for t in wanted]
    for k, out in enumerate(outputs):
        if not out.requires_grad:
            continue
        analytical = _analytical(out, wanted, dtypes)
        for j, found in enumerate(analytical):
            what = f"Jacobian mismatch for output {k} with respect to input {j}"
            _compare(numerical[j][k], found, tolerance, what)
        if tolerance.nondet < math.inf:
            _check_repeatable(analytical, _analytical(out, wanted, dtypes), tolerance.nondet)


def _check_repeatable(first: list[Tensor], again: list[Tensor], most: float) -> None:
    for a, b in zip(first, again, strict=True):
        if not bool(_C.isclose(a, b, rtol=0.0, atol=most, equal_nan=True).all()):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient. The tolerance for "
                f"nondeterminism was {most}."
            )


def _random_unit(t: Tensor) -> Tensor:
    v = _C.randn(t.shape, dtype=t.dtype, device=t.device)
    return v / v.norm() if t.numel() else v


def _check_backward_fast(f: Callable, inputs: tuple, outputs: tuple, tolerance: _Tolerance) -> None:
    """One random direction in, one out: v'Ju both ways. What disagrees is explained by the whole Jacobian."""
    wanted = _wanted(inputs)
    along = [_random_unit(t) for t in wanted]
    changes = [
        _difference(f, inputs, t, u, tolerance.eps) if t.numel() else None for t, u in zip(wanted, along, strict=True)
    ]
    for k, out in enumerate(outputs):
        if not out.requires_grad:
            continue
        v = _random_unit(out)
        for t, u, change, g in zip(wanted, along, changes, _gradients(out, wanted, v), strict=True):
            if change is None:
                continue
            numerical = (change[k] * v.reshape(-1)).sum()
            analytical = (g * u).sum() if g is not None else _C.zeros((), dtype=t.dtype)
            scale = max(1.0, math.sqrt(t.numel() * out.numel()))
            near = _C.isclose(
                analytical.to(numerical.dtype),
                numerical,
                rtol=tolerance.rtol,
                atol=tolerance.atol * scale,
                equal_nan=True,
            )
            if not bool(near):
                _check_backward(f, inputs, outputs, tolerance, False)
                raise GradcheckError(
                    f"Fast gradcheck: v'Ju of output {k} is {numerical.item()} numerically and "
                    f"{analytical.item()} analytically, although the Jacobians agree"
                )


def _check_undefined(outputs: tuple, wanted: list) -> None:
    """Gradients that never come count as zeros."""
    roots = [o for o in outputs if o.requires_grad]
    if len(roots) < 2:
        return
    for k, out in enumerate(roots):
        for g in _gradients(out, wanted, _C.zeros_like(out)):
            if g is not None and bool((g != 0).any()):
                raise GradcheckError(f"Expected zero gradients for a zero gradient of output {k}, but got {g}")


def _check_batched(outputs: tuple, wanted: list, tolerance: _Tolerance) -> None:
    """Backward under vmap gives for two cotangents at once what it gives for each."""
    for out in outputs:
        if not out.requires_grad:
            continue
        rows = [_C.randn(out.shape, dtype=out.dtype, device=out.device) for _ in range(2)]
        each = [_gradients(out, wanted, r) for r in rows]
        try:
            found = grad(out, wanted, _C.stack(rows), is_grads_batched=True, allow_unused=True, retain_graph=True)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\nPlease look at the formulas of the operators that were used."
            ) from error
        for i, got in enumerate(found):
            _compare_rows(got, [e[i] for e in each], f"output by input {i} with batched gradients", tolerance)


def _compare_rows(got: Tensor | None, each: list, what: str, tolerance: _Tolerance) -> None:
    if got is None or each[0] is None:
        same = got is None and all(e is None or not bool((e != 0).any()) for e in each)
    else:
        same = bool(_C.isclose(got, _C.stack(each), rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True).all())
    if not same:
        raise GradcheckError(
            f"For {what}: the batched gradients do not agree with those computed one by one.\ngot: {got}\nexpected: {each}"
        )


def _check_batched_forward(f: Callable, inputs: tuple, tolerance: _Tolerance) -> None:
    """Forward mode under vmap gives for two tangents at once what it gives for each."""
    vmap = importlib.import_module("tocha.func").vmap
    for j, target in enumerate(_wanted(inputs)):
        rows = _C.stack([_C.randn(target.shape, dtype=target.dtype, device=target.device) for _ in range(2)])

        def moved(tangent: Tensor, target: Tensor = target) -> tuple:
            return tuple(_tangents(f, inputs, target, tangent, plain=True))

        each = [moved(rows[0]), moved(rows[1])]
        try:
            found = vmap(moved)(rows)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for k, got in enumerate(found):
            _compare_rows(got, [e[k] for e in each], f"output {k} by input {j} with batched tangents", tolerance)


def _tangents(f: Callable, inputs: tuple, target: Tensor, tangent: Tensor, plain: bool = False) -> list[Tensor]:
    """The tangents of the outputs when target has this one and no other input has any."""

    def entering(t: Any) -> Any:
        if t is target:
            return forward_ad.make_dual(t.detach(), tangent)
        return t.detach() if isinstance(t, Tensor) else t

    with forward_ad.dual_level():
        found = [forward_ad.unpack_dual(o) for o in _outputs(f(*map(entering, inputs)))]
    if plain:
        return [_C.zeros_like(d.primal) if d.tangent is None else d.tangent for d in found]
    return [_numbers(d.primal) * 0 if d.tangent is None else _numbers(d.tangent) for d in found]


def _check_forward(f: Callable, inputs: tuple, outputs: tuple, tolerance: _Tolerance) -> None:
    for j, target in enumerate(_wanted(inputs)):
        numerical = _numerical(f, inputs, target, outputs, tolerance.eps)
        rows = [_tangents(f, inputs, target, unit) for unit in _units(target)]
        for k, out in enumerate(outputs):
            analytical = _matrix([r[k] for r in rows], _numbers(out).numel(), out)
            what = f"Jacobian computed with forward mode mismatch for output {k} with respect to input {j}"
            _compare(numerical[k], analytical, tolerance, what)


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

    With `fast_mode`, real functions are compared along one random direction instead of element by element;
    `nondet_tol=float("inf")` spares the second backward that looks for results that vary.

    >>> import tocha
    >>> gradcheck(tocha.sin, (tocha.rand(3, dtype=tocha.float64, requires_grad=True),))
    True
    """
    inputs = _tuple(inputs)
    tolerance = _Tolerance(eps, atol, rtol, nondet_tol)
    try:
        wanted = _check_inputs(inputs)
        outputs = _outputs(func(*inputs))
        real = not any(t.is_complex() for t in (*wanted, *outputs))
        if check_backward_ad:
            if fast_mode and real:
                _check_backward_fast(func, inputs, outputs, tolerance)
            else:
                _check_backward(func, inputs, outputs, tolerance, check_grad_dtypes)
            if check_undefined_grad:
                _check_undefined(outputs, wanted)
            if check_batched_grad:
                _check_batched(outputs, wanted, tolerance)
        if check_forward_ad:
            _check_forward(func, inputs, outputs, tolerance)
        if check_batched_forward_grad:
            _check_batched_forward(func, inputs, tolerance)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _made_cotangents(outputs: list[Tensor], non_contiguous: bool) -> tuple[Tensor, ...]:
    made = []
    for o in outputs:
        g = _C.randn(o.shape, dtype=o.dtype, device=o.device)
        if non_contiguous and g.dim():
            g = _C.stack([g, g], -1)[..., 0]
        made.append(g.requires_grad_())
    return tuple(made)


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
    """gradcheck of the gradients: second derivatives against finite differences.

    >>> x = tocha.tensor([0.5], dtype=tocha.float64, requires_grad=True)
    >>> tocha.autograd.gradgradcheck(tocha.sin, (x,))
    True
    """
    given = _tuple(inputs)
    if grad_outputs is None:
        made = _made_cotangents(_wanted(_outputs(func(*given))), gen_non_contig_grad_outputs)
    else:
        made = _tuple(grad_outputs)
    n = len(made)

    def gradients(*args: Any) -> tuple:
        xs, cotangents = args[: len(args) - n], args[len(args) - n :]
        for x, y in zip(xs, given, strict=True):
            if isinstance(x, Tensor) and y.requires_grad and not x.requires_grad:
                x.requires_grad_()  # forward mode comes with tensors of its own
        with enable_grad():
            outs = _wanted(_outputs(func(*xs)))
            found = grad(outs, _wanted(xs), cotangents, create_graph=True, allow_unused=True)
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
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


# -- Jacobians for those who still ask for them ----------------------------------------------------


def _check_deprecated_call(name: str, outputs: tuple, grad_out: float) -> None:
    warnings.warn(
        f"`{name}` was part of a private API and not meant to be exposed. We are deprecating it and it will be removed "
        "in a future version.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")
    if any(o.is_complex() for o in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return complex outputs."
        )


def get_numerical_jacobian(
    fn: Callable, inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Tensor, ...]:
    """Deprecated: the Jacobian of fn's first output by each tensor of target, or of inputs, by differences.

    fn is called with the inputs in one tuple. A row for each number of the input, a column for each of the output.
    """
    given = _tuple(inputs)
    outputs = _outputs(fn(given))
    _check_deprecated_call("get_numerical_jacobian", outputs, grad_out)
    wanted = _wanted(inputs if target is None else target)
    return tuple(_numerical(lambda *values: fn(values), given, t, outputs, eps)[0] for t in wanted)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable, input_idx: int, inputs: Any, outputs: Any, eps: float, input: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The Jacobian of every output of fn by one of its inputs, by differences."""
    given = _tuple(inputs)
    return tuple(_numerical(fn, given, given[input_idx] if input is None else input, _outputs(outputs), eps))


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Deprecated: the Jacobian of output by each input from backward; and whether backward gives the same twice, and
    gradients of the inputs' sizes and dtypes."""
    _check_deprecated_call("get_analytical_jacobian", (output,), grad_out)
    wanted = _wanted(inputs)
    first, again = (tuple(_analytical(output, wanted, dtypes=False)) for _ in range(2))
    same = all(bool(((a - b).abs() <= nondet_tol).all()) for a, b in zip(first, again, strict=True))
    return first, same, True, all(g is None or g.dtype == t.dtype for g, t in _of_ones(output, wanted))


def _of_ones(output: Tensor, wanted: list) -> Iterator[tuple[Tensor | None, Tensor]]:
    return zip(_gradients(output, wanted, _C.ones_like(output)), wanted, strict=True)
