"""Derivatives of functions: vjp, jvp, jacobian, hessian, and products with a Hessian."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha.autograd._backward import grad
from tocha.autograd.grad_mode import set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensor = _C.Tensor


def _tuple(value: Any, name: str, where: str) -> tuple[tuple, bool]:
    """value as a tuple of tensors, and whether it was one."""
    was = isinstance(value, tuple)
    found = value if was else (value,)
    for i, t in enumerate(found):
        if not isinstance(t, Tensor):
            whose = "outputs of the user-provided function" if name == "outputs" else name
            found_at = f"the value at index {i}" if was else f"the given {whose}"
            raise TypeError(
                f"[{where}] The {whose} given to {where} must be either a Tensor or a tuple of Tensors but {found_at} has type {type(t)}."
            )
    return tuple(found), was


def _plain(value: tuple, was: bool) -> Any:
    return value if was else value[0]


def _leaves(inputs: tuple, create_graph: bool, need_graph: bool = True) -> tuple:
    """Fresh tensors to differentiate by; with create_graph still tied to the given ones."""
    return tuple(
        (t.view_as(t) if t.requires_grad else t.detach().requires_grad_(need_graph))
        if create_graph
        else t.detach().requires_grad_(need_graph)
        for t in inputs
    )


def _finished(values: tuple, create_graph: bool) -> tuple:
    return values if create_graph else tuple(None if t is None else t.detach() for t in values)


def _grad(
    outputs: tuple, inputs: tuple, grads: tuple | None, create_graph: bool, retain_graph: bool | None = None
) -> tuple:
    """autograd.grad, where outputs that need no gradient give none."""
    given = (None,) * len(outputs) if grads is None else grads
    kept = [(o, g) for o, g in zip(outputs, given, strict=True) if o is not None and o.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return grad(
        tuple(o for o, _ in kept),
        inputs,
        tuple(g for _, g in kept),
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
    )


def _filled(grads: tuple, like: tuple, strict: bool, create_graph: bool, where: str, stage: str) -> tuple:
    """Zeros for gradients that are not there, or an error."""
    found = []
    for i, (g, t) in enumerate(zip(grads, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(
                    f"[{where}] The output of the user-provided function is independent of input {i}. This is not allowed in strict mode. ({stage})"
                )
            g = _C.zeros_like(t)
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"[{where}] The {stage} of the user-provided function is independent of input {i}. This is not allowed in strict mode when create_graph=True."
            )
        found.append(g)
    return tuple(found)


def _check_v(v: tuple, other: tuple, v_was: bool, other_was: bool, where: str, name: str) -> None:
    if len(v) != len(other) and (v_was or other_was):
        raise RuntimeError(f"[{where}] v is a tuple of invalid length: should be {len(other)} but got {len(v)}.")
    for i, (a, b) in enumerate(zip(v, other, strict=True)):
        if a.size() != b.size():
            at = f"Entry {i} in " if len(v) > 1 else ""
            raise RuntimeError(
                f"[{where}] {at}v has invalid size: should be {b.size()} but got {a.size()} (as {name})."
            )


def _run(func: Callable, inputs: tuple, where: str) -> tuple[tuple, bool]:
    return _tuple(func(*inputs), "outputs", where)


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and v times its Jacobian.

    >>> import tocha
    >>> vjp(lambda x: x.exp(), tocha.zeros(2), tocha.ones(2))
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    with _enabled():
        given, was = _tuple(inputs, "inputs", "vjp")
        given = _leaves(given, create_graph)
        outputs, out_was = _run(func, given, "vjp")
        if v is None:
            if len(outputs) != 1 or outputs[0].nelement() != 1:
                raise RuntimeError(
                    "[vjp] The vector v can only be None if the user-provided function returns a single Tensor with a single element."
                )
            vs: tuple | None = None
        else:
            vs, v_was = _tuple(v, "v", "vjp")
            _check_v(vs, outputs, v_was, out_was, "vjp", "the output")
    with _enabled(create_graph or _C.is_grad_enabled()):
        grads = _filled(_grad(outputs, given, vs, create_graph), given, strict, create_graph, "vjp", "back")
    return _plain(_finished(outputs, create_graph), out_was), _plain(_finished(grads, create_graph), was)


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and its Jacobian times v: by differentiating v^T J by v.

    >>> import tocha
    >>> jvp(lambda x: x * x, tocha.tensor([1.0, 2.0]), tocha.ones(2))[1]
    tensor([2., 4.])
    """
    with _enabled():
        given, was = _tuple(inputs, "inputs", "jvp")
        given = _leaves(given, create_graph)
        vs = _vector(v, given, was, "jvp")
        outputs, out_was = _run(func, given, "jvp")
        dummies = tuple(_C.zeros_like(o, requires_grad=True) for o in outputs)
        inner = _filled(_grad(outputs, given, dummies, True), given, strict, True, "jvp", "grad_input")
        grads = _filled(_grad(inner, dummies, vs, create_graph), outputs, strict, create_graph, "jvp", "jacobian")
    return _plain(_finished(outputs, create_graph), out_was), _plain(_finished(grads, create_graph), out_was)


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for each output and input a tensor of shape (*output.shape, *input.shape).

    >>> import tocha
    >>> jacobian(lambda x: x * x, tocha.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f'Expected strategy to be either "forward-mode" or "reverse-mode". Got strategy={strategy}.'
        )
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("[jacobian] create_graph=True is not supported with strategy='forward-mode'")
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            'For now, `jacobian` only supports `strategy="forward-mode"` in conjunction with `vectorize=True`.'
        )
    if strict and vectorize:
        raise RuntimeError("[jacobian] `strict=True` and `vectorized=True` are not supported together.")
    if vectorize:
        return _at_once(func, inputs, create_graph, strategy)
    with _enabled():
        given, was = _tuple(inputs, "inputs", "jacobian")
        given = _leaves(given, create_graph)
        outputs, out_was = _run(func, given, "jacobian")
        rows = []
        for i, out in enumerate(outputs):
            per_input: list[list] = [[] for _ in given]
            flat = out.reshape(-1)
            for j in range(out.nelement()):
                found = _grad((flat[j],), given, None, create_graph, True)
                for k, (g, t) in enumerate(zip(found, given, strict=True)):
                    if g is None:
                        if strict:
                            raise RuntimeError(
                                f"[jacobian] Output {i} of the user-provided function is independent of input {k}. This is not allowed in strict mode."
                            )
                        g = _C.zeros_like(t)
                    elif strict and create_graph and not g.requires_grad:
                        raise RuntimeError(
                            "[jacobian] The jacobian of the user-provided function is independent of input "
                            + str(k)
                            + ". This is not allowed in strict mode when create_graph=True."
                        )
                    per_input[k].append(g)
            rows.append(
                tuple(
                    _C.stack(parts).view(out.size() + t.size()) if parts else out.new_zeros(out.size() + t.size())
                    for parts, t in zip(per_input, given, strict=True)
                )
            )
        result = tuple(_finished(r, create_graph) for r in rows)
    return _arranged(result, was, out_was)


def _basis(tensors: list[Tensor], start: int = 0, stop: int | None = None) -> tuple[Tensor, ...]:
    """Unit vectors of all the tensors' elements together, one per row; rows start to stop."""
    total = sum(t.numel() for t in tensors)
    stop = total if stop is None else stop
    rows = stop - start
    found, before = [], 0
    for t in tensors:
        n = t.numel()
        part = _C.zeros([rows, n], dtype=t.dtype, device=t.device)
        part.diagonal(start - before).fill_(1)
        found.append(part.view([rows, *t.shape]))
        before += n
    return tuple(found)


def _at_once(func: Callable, inputs: Any, create_graph: bool, strategy: str) -> Any:
    """The Jacobian with all its rows, or in forward mode all its columns, computed together."""
    func_module = importlib.import_module("tocha.func")
    given, was = _tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        kind: list[bool] = []

        def run(*xs: Tensor) -> tuple:
            outputs, out_was = _run(func, xs, "jacobian")
            kind[:] = [out_was]
            return outputs

        rows = func_module.jacfwd(run, argnums=tuple(range(len(given))))(*given)
        return _arranged(tuple(_finished(r, create_graph) for r in rows), was, kind[0])
    with _enabled():
        given = _leaves(given, create_graph)
        outputs, out_was = _run(func, given, "jacobian")
        sizes = [o.nelement() for o in outputs]
        tracked = [o.requires_grad for o in outputs]
        basis = _basis(list(outputs))
        pairs = [(o, b) for o, b, t in zip(outputs, basis, tracked, strict=True) if t]
        found: tuple = (None,) * len(given)
        if pairs:
            found = grad(
                tuple(o for o, _ in pairs), given, tuple(b for _, b in pairs),
                create_graph=create_graph, allow_unused=True, is_grads_batched=True,
            )  # fmt: skip
        total = sum(sizes)
        whole = [
            _C.zeros([total, *t.shape], dtype=t.dtype) if g is None else g for g, t in zip(found, given, strict=True)
        ]
        parts = [g.split(sizes, 0) for g in whole]
        rows = tuple(
            tuple(p[i].view(out.size() + t.size()) for p, t in zip(parts, given, strict=True))
            for i, out in enumerate(outputs)
        )
        rows = tuple(_finished(r, create_graph) for r in rows)
    return _arranged(rows, was, out_was)


def _arranged(rows: tuple, was: bool, out_was: bool) -> Any:
    """Jacobians by output and input, without the tuples that were not given."""
    if out_was:
        return tuple(r if was else r[0] for r in rows)
    return rows[0] if was else rows[0][0]


def _one_number(func: Callable, where: str) -> Callable:
    def checked(*inputs: Tensor) -> Tensor:
        out = func(*inputs)
        outs, was = _tuple(out, "outputs", where)
        if was and len(outs) != 1:
            raise RuntimeError(f"[{where}] The function given to {where} should return a single Tensor")
        if outs[0].nelement() != 1:
            raise RuntimeError(
                f"[{where}] The Tensor returned by the function given to {where} should contain a single element"
            )
        return outs[0].squeeze()

    return checked


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one number as its result.

    >>> import tocha
    >>> hessian(lambda x: (x**3).sum(), tocha.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    given, was = _tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    single = _one_number(func, "hessian")

    def gradient(*xs: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":  # tangents go through levels of transforms
            return importlib.import_module("tocha.func").jacrev(single, tuple(range(len(xs))))(*xs)
        return jacobian(single, xs, create_graph=True, strict=strict)

    rows = jacobian(
        gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize, strategy=outer_jacobian_strategy
    )
    return rows if was else rows[0][0]


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and v times its Hessian.

    >>> value, product = tocha.autograd.functional.vhp(lambda x: (x**3).sum(), tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 1.0]))
    >>> product
    tensor([ 6., 12.])
    """
    with _enabled():
        given, was = _tuple(inputs, "inputs", "vhp")
        given = _leaves(given, create_graph)
        vs = _vector(v, given, was, "vhp")
        out = _one_number(func, "vhp")(*given)
        first = _filled(_grad((out,), given, None, True), given, strict, True, "vhp", "jacobian")
        grads = _filled(_grad(first, given, vs, create_graph), given, strict, create_graph, "vhp", "hessian")
    return _finished((out,), create_graph)[0], _plain(_finished(grads, create_graph), was)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """func(*inputs), and its Hessian times v: differentiated twice, the second time by a vector that stands in for v.

    >>> value, product = tocha.autograd.functional.hvp(lambda x: (x**3).sum(), tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 1.0]))
    >>> value, product
    (tensor(9.), tensor([ 6., 12.]))
    """
    with _enabled():
        given, was = _tuple(inputs, "inputs", "hvp")
        given = _leaves(given, create_graph)
        vs = _vector(v, given, was, "hvp")
        out = _one_number(func, "hvp")(*given)
        first = _filled(_grad((out,), given, None, True), given, strict, True, "hvp", "jacobian")
        dummies = tuple(_C.zeros_like(g, requires_grad=True) for g in first)
        back = _filled(_grad(first, given, dummies, True), given, strict, True, "hvp", "jacobian")
        grads = _filled(_grad(back, dummies, vs, create_graph), given, strict, create_graph, "hvp", "hessian")
    return _finished((out,), create_graph)[0], _plain(_finished(grads, create_graph), was)


def _vector(v: Any, given: tuple, was: bool, where: str) -> tuple | None:
    if v is None:
        if len(given) != 1 or given[0].nelement() != 1:
            raise RuntimeError(
                f"[{where}] The vector v can only be None if the input to the user-provided function is a single Tensor with a single element."
            )
        return None
    vs, v_was = _tuple(v, "v", where)
    _check_v(vs, given, v_was, was, where, "the input")
    return vs


def _enabled(on: bool = True) -> Any:
    return set_grad_enabled(on)
