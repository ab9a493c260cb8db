"""`opcheck`: whether an operator does what its schema and registrations say. It does not check the gradients' values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._library import registry
from tocha._library.arguments import tensors_in
from tocha._subclasses.fake_tensor import FakeTensorMode, MetadataMismatchError
from tocha.autograd import grad
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import Symbolic

Tensor = _C.Tensor


class OpCheckError(Exception):
    """An operator that does not do what it says.

    >>> issubclass(tocha.library.OpCheckError, Exception)
    True
    """


def opcheck(
    op: Any,
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] | None = None,
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, Any]:
    """Runs the checks on sample arguments; "SUCCESS" or the exception by the name of the check.

    >>> import tocha
    >>> opcheck(tocha.ops.aten.sin.default, (tocha.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    names = DEFAULT if test_utils is None else (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(CHECKS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of {tuple(CHECKS)} but it was not"
        )
    handle = overload_of(op)
    results: dict[str, Any] = {}
    for name in names:
        try:
            CHECKS[name](handle, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as e:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {e}") from e
            results[name] = e
    return results


def overload_of(op: Any) -> Any:
    """The one overload that a definition, a packet or a handle means."""
    if hasattr(op, "_opoverload"):
        return op._opoverload
    if hasattr(op, "_schema"):
        return op
    names = op.overloads()
    if len(names) != 1:
        raise RuntimeError(f"opcheck can only test operators without overloads. Got the following overloads: {names}")
    return getattr(op, names[0])


def mapped(f: Callable[[Tensor], Tensor], value: Any) -> Any:
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, list | tuple):
        return type(value)(mapped(f, v) for v in value)
    return {k: mapped(f, v) for k, v in value.items()} if isinstance(value, dict) else value


def copied(value: Any) -> Any:
    """The same arguments in memory of their own, with the strides they have."""

    def copy(t: Tensor) -> Tensor:
        made = t.detach().clone()
        if made.stride() != t.stride() and t.numel():
            made = _C.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t.detach())
        return made.requires_grad_(t.requires_grad) if t.is_leaf else made * 1 if t.requires_grad else made

    return mapped(copy, value)


def by_name(handle: Any, args: tuple, kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The schema's arguments with their values, those that were given."""
    found = []
    for i, a in enumerate(handle._schema._arguments):
        if not a.kwarg_only and i < len(args):
            found.append((a, args[i]))
        elif a.name in kwargs:
            found.append((a, kwargs[a.name]))
    return found


def storages(value: Any) -> set[int]:
    return {t.untyped_storage()._cdata for t in tensors_in([value]) if registry.has_memory(t)}


def same_elements(a: Tensor, b: Tensor) -> bool:
    x, y = a.detach(), b.detach()
    if x.shape != y.shape:
        return False
    differ = (x != y) & ~((x != x) & (y != y))
    return not bool(differ.any())


# ---- the checks ----------------------------------------------------------------------------------


def test_schema(handle: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Only what the schema says is written to, and results share memory only as it says."""
    args, kwargs = copied(args), copied(kwargs)
    before = [(a, v, copied(v)) for a, v in by_name(handle, args, kwargs)]
    result = handle(*args, **kwargs)
    for a, value, was in before:
        changed = any(not same_elements(x, y) for x, y in zip(tensors_in([value]), tensors_in([was]), strict=True))
        if changed and not a.is_write:
            raise RuntimeError(f"Argument {a.name} is not defined as mutable but was mutated")
    returns = handle._schema._returns
    outputs = list(result) if len(returns) > 1 else [result]
    for a, value, _ in before:
        for r, out in zip(returns, outputs, strict=False):
            if storages(value) & storages(out) and not (a.alias and r.alias):
                raise RuntimeError(f"Argument {a.name} is not defined to alias output but was aliasing")
    flat = tensors_in([result])
    for i, x in enumerate(flat):
        for j in range(i + 1, len(flat)):
            if storages(x) & storages(flat[j]) and not any(r.alias for r in returns):
                raise RuntimeError(f"Outputs {i} and {j} alias unexpectedly")


def test_autograd_registration(handle: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Results that want gradients come from an operator that says how they go back."""
    args, kwargs = copied(args), copied(kwargs)
    if not any(t.requires_grad for t in tensors_in([args, list(kwargs.values())])):
        return
    known = getattr(handle._target, "known", None)
    if known is None:  # a record
        return
    says = known.formula is not None or handle._target.definition is not None
    says = says or any(k.startswith("Autograd") or k == registry.IMPLICIT for k in known.kernels)
    if not says and any(t.requires_grad for t in tensors_in([handle(*args, **kwargs)])):
        raise AssertionError(
            f"{handle.name()}: at least one output of this operator has requires_grad=True but the operator does not have an autograd "
            "kernel defined at an autograd key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered an "
            "autograd kernel to a non-Autograd DispatchKey, which may lead to silently incorrect results. If your operator consists of "
            "regular tocha operations, consider not using an operator at all or registering your operator as CompositeImplicitAutograd. "
            "If you have an autograd.Function registered to a backend (CPU/CUDA/XPU) key, the correct location for it is the Autograd key."
        )


def test_faketensor(handle: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """The rule for results without elements gives what the kernel gives: sizes, strides, dtype."""
    real = handle(*copied(args), **copied(kwargs))
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    fakes, named = mapped(mode.from_tensor, args), mapped(mode.from_tensor, kwargs)
    with mode:
        faked = handle(*fakes, **named)
    compare(f"When comparing the output of {handle} on FakeTensor and concrete Tensors, ", real, faked)


def compare(what: str, real: Any, faked: Any) -> None:
    theirs, mine = tensors_in([real]), tensors_in([faked])
    if len(theirs) != len(mine):
        raise MetadataMismatchError(f"{what}found {len(theirs)} and {len(mine)} tensors")
    for r, f in zip(theirs, mine, strict=True):
        why = difference(r, f)
        if why:
            raise MetadataMismatchError(f"{what}found mismatched tensor metadata: {why}")


def agree(real: int, faked: Any) -> bool:
    """A size or stride that depends on elements may be any."""
    return isinstance(faked, Symbolic) or real == faked


def difference(r: Tensor, f: Tensor) -> str:
    if r.dim() != f.dim() or not all(agree(n, m) for n, m in zip(r.shape, f.shape, strict=True)):
        return f"Shapes {r.shape} and {f.shape} are not equal!"
    if r.dtype != f.dtype:
        return f"Dtypes {r.dtype} and {f.dtype} are not equal!"
    strides = [
        (i, a, b)
        for i, (n, a, b) in enumerate(zip(r.shape, r.stride(), f.stride(), strict=True))
        if n > 1 and not agree(a, b)
    ]
    if strides and r.numel():
        return f"Stride mismatch! Strides are {r.stride()} and {f.stride()} (mismatched at {strides[0][0]})!"
    return ""


def test_aot_dispatch(handle: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """The operator can be differentiated ahead of time: its formula gives gradients of the arguments' form."""
    args, kwargs = copied(args), copied(kwargs)
    wanted = [t for t in tensors_in([args, list(kwargs.values())]) if t.requires_grad]
    result = handle(*args, **kwargs)
    outputs = [t for t in tensors_in([result]) if t.requires_grad]
    if not wanted or not outputs:
        return
    grads = grad(outputs, wanted, [_C.ones_like(t) for t in outputs], allow_unused=True)
    for t, g in zip(wanted, grads, strict=True):
        if g is not None and (g.shape != t.shape or g.dtype != t.dtype):
            raise RuntimeError(
                f"the gradient of a {t.dtype} tensor of shape {tuple(t.shape)} is {g.dtype}, {tuple(g.shape)}"
            )


CHECKS: dict[str, Callable[[Any, tuple, dict[str, Any]], None]] = {
    "test_schema": test_schema,
    "test_autograd_registration": test_autograd_registration,
    "test_faketensor": test_faketensor,
    "test_aot_dispatch_static": test_aot_dispatch,
    "test_aot_dispatch_dynamic": test_aot_dispatch,
}
DEFAULT = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
