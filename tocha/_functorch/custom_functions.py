"""autograd.Function and custom operators inside transforms: each level makes of a call what it makes of an operator.

Registered with tocha.autograd.function and tocha._library.registry, which know nothing of levels (`install`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from tocha import _C
from tocha._functorch.levels import RANDOMNESS, VMAP, level
from tocha.autograd import function
from tocha.autograd.function import Function
from tocha.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten

Tensor = _C.Tensor
SEE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a rule for batches is told of the vmap."""

    batch_size: int
    randomness: str


def innermost(values: Any) -> tuple | None:
    """(id, kind, size, randomness, grad mode before) of the innermost open level of the tensors among values."""
    rows = _C._levels()
    if not rows:
        return None
    held = {found[0] for v in tree_flatten(values)[0] if (found := _C._level_of(v)) is not None}
    return next((row for row in reversed(rows) if row[0] in held), None)


def info_of(row: tuple) -> VmapInfo:
    return VmapInfo(row[2], RANDOMNESS[row[3]])


def apart(tree: Any, at: int) -> tuple[Any, Any]:
    """Values of the level outside, and the batch dim of each, None where it has none."""
    values = tree_map(lambda v: leave_once(v, at), tree)
    dims = tree_map(lambda v: dim_of(v, at), tree)
    return values, dims


def leave_once(v: Any, at: int) -> Any:
    found = _C._unwrap_level(v, at)
    return v if found is None else found[0]


def dim_of(v: Any, at: int) -> int | None:
    found = _C._unwrap_level(v, at)
    return None if found is None else found[1]


def together(output: Any, dims: Any, at: int, complain: Callable[[Any, Any], None]) -> Any:
    """Results with their batch dims as tensors of the level."""
    flat, spec = tree_flatten(output)
    each = [dims] * len(flat) if dims is None or isinstance(dims, int) else _broadcast_to_and_flatten(dims, spec)
    if each is None:
        complain(tree_flatten(dims)[1], spec)
    assert each is not None
    wrapped = [
        v if d is None or not isinstance(v, Tensor) else _C._wrap_level(v, at, d % v.ndim)
        for v, d in zip(flat, each, strict=True)
    ]
    return tree_unflatten(wrapped, spec)


# ---- autograd.Function -------------------------------------------------------------------------------


def apply(cls: type[Function], args: tuple, kwargs: dict) -> Any:
    """A Function on tensors of levels; NotImplemented where there are none."""
    row = innermost(args)
    if row is None:
        return NotImplemented
    if cls.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
            f"setup_context staticmethod. {SEE}"
        )
    args = function._with_defaults(cls.forward, args, kwargs)
    return mapped(cls, row, args) if row[1] == VMAP else differentiated(cls, row, args)


def differentiated(cls: type[Function], row: tuple, args: tuple) -> Any:
    """Recorded at the level; what it computes is the Function on the values."""
    at = row[0]
    inside = tuple(
        v if not isinstance(v, Tensor) or dim_of(v, at) is not None else _C._wrap_level(v, at, -1) for v in args
    )
    ctx = cls._backward_cls()
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in inside)
    recording = any(ctx.needs_input_grad) and _C.is_grad_enabled()
    values = tuple(leave_once(v, at) for v in inside)
    whose = {id(v): a for v, a in zip(values, inside, strict=True) if isinstance(v, Tensor)}
    output = _C._outside(at, lambda: cls.apply(*values))
    output = tree_map(lambda v: whose.get(id(v), _C._wrap_level(v, at, -1)) if isinstance(v, Tensor) else v, output)
    return finished(cls, ctx, inside, output, recording)


def finished(cls: type[Function], ctx: Any, args: tuple, output: Any, recording: bool) -> Any:
    """What forward leaves for backward, and the node."""
    before = _C.is_grad_enabled()
    _C._set_grad_enabled(False)
    try:
        cls.setup_context(ctx, args, output)
    finally:
        _C._set_grad_enabled(before)
    return function._recorded(ctx, args, output, recording)


def mapped(cls: type[Function], row: tuple, args: tuple) -> Any:
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
            f"Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. {SEE}"
        )
    if not own and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True. {SEE}"
        )
    at = row[0]
    values, dims = apart(args, at)
    if cls.generate_vmap_rule:
        made, out_dims = _C._outside(at, lambda: generated(cls, info_of(row), dims, values))
        return together(made, out_dims, at, lambda *_: None)
    found = _C._outside(at, lambda: cls.vmap(info_of(row), dims, *values))
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
            f"output. Got a {type(found)} instead"
        )
    output, out_dims = found

    def complain(given: Any, spec: Any) -> None:
        raise RuntimeError(
            f"The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected out_dims={out_dims} "
            f"to be compatible with the structure of `output`. out_dims has structure {given} but output has structure {spec}. {SEE}"
        )

    return together(output, out_dims, at, complain)


# ---- generate_vmap_rule: the parts of a Function under vmaps of their own ------------------------------


def run_mapped(info: VmapInfo, f: Callable, *groups: tuple[Any, Any]) -> tuple[Any, Any]:
    """f on groups of (values, dims), inside a vmap; its results and their dims."""
    with level(VMAP, info.batch_size, info.randomness) as at:
        given = [put_in(values, dims, at) for values, dims in groups]
        return apart(f(*given), at)


def put_in(values: Any, dims: Any, at: int) -> Any:
    flat, spec = tree_flatten(values)
    each = tree_flatten(dims, is_leaf=lambda d: d is None)[0]
    return tree_unflatten([v if d is None else _C._wrap_level(v, at, d) for v, d in zip(flat, each, strict=True)], spec)


class _Ctx:
    """The context that the parts of a Function see inside the vmap: what it keeps is batched there."""

    def __init__(self, real: Any, saved: tuple = ()):
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "saved_tensors", saved)

    def save_for_backward(self, *tensors: Any) -> None:
        object.__setattr__(self, "_kept", tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        object.__setattr__(self, "_kept_forward", tensors)

    def mark_dirty(self, *tensors: Any) -> None:
        raise RuntimeError("NYI: generate_vmap_rule=True with ctx.mark_dirty")

    def mark_non_differentiable(self, *tensors: Any) -> None:
        object.__setattr__(self, "_constants", tensors)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_real"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def generated(cls: type[Function], info: VmapInfo, in_dims: tuple, values: tuple) -> tuple[Any, Any]:
    """The Function over a batch, as a Function: its parts run under vmap."""
    state: dict[str, Any] = {}

    def forward(*args: Any) -> Any:
        output, state["out_dims"] = run_mapped(info, lambda a: cls.forward(*a), (args, in_dims))
        return output

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        def inner(args: Any, out: Any) -> tuple:
            seen = _Ctx(ctx)
            cls.setup_context(seen, args, out)
            return getattr_own(seen, "_kept"), getattr_own(seen, "_kept_forward")

        (kept, forward_kept), (dims, forward_dims) = run_mapped(
            info, inner, (inputs, in_dims), (output, state["out_dims"])
        )
        ctx.save_for_backward(*kept)
        ctx._kept_dims = dims
        ctx._forward = (forward_kept or kept, forward_dims if forward_kept else dims)

    def backward(ctx: Any, *grads: Any) -> Any:
        def inner(saved: Any, given: Any) -> Any:
            return cls.backward(_Ctx(ctx, tuple(saved)), *given)

        flat_dims = tree_flatten(state["out_dims"], is_leaf=lambda d: d is None)[0]
        found, dims = run_mapped(info, inner, (ctx.saved_tensors, ctx._kept_dims), (grads, tuple(flat_dims)))
        found = found if isinstance(found, tuple) else (found,)
        dims = dims if isinstance(dims, tuple) else (dims,)
        return tuple(reduced(g, d, i, v) for g, d, i, v in zip(found, dims, in_dims, values, strict=False))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        saved, saved_dims = ctx._forward

        def inner(kept: Any, given: Any) -> Any:
            seen = _Ctx(ctx, tuple(kept))
            object.__setattr__(seen, "saved_for_forward", tuple(kept))
            return cls.jvp(seen, *given)

        given_dims = tuple(None if t is None else d for t, d in zip(tangents, in_dims, strict=True))
        found, dims = run_mapped(info, inner, (saved, saved_dims), (tangents, given_dims))
        wanted = state["out_dims"]
        return at_dims(found, dims, wanted, info.batch_size)

    members = {"forward": forward, "setup_context": setup_context, "backward": backward, "jvp": jvp}
    made: Any = type(f"Vmapped{cls.__name__}", (Function,), {k: staticmethod(f) for k, f in members.items()})
    return made.apply(*values), state["out_dims"]


def getattr_own(o: Any, name: str) -> tuple:
    return o.__dict__.get(name, ())


def reduced(g: Any, dim: int | None, in_dim: int | None, like: Any) -> Any:
    """A gradient in the layout of the argument: with its batch dim, or summed over the samples that share it."""
    if not isinstance(g, Tensor):
        return g
    if in_dim is None:
        return g if dim is None else g.sum(dim)
    if dim is None:
        return g.unsqueeze(in_dim).expand(like.shape)
    return g.movedim(dim, in_dim)


def at_dims(values: Any, dims: Any, wanted: Any, size: int) -> Any:
    if isinstance(values, tuple):
        return tuple(at_dims(v, d, w, size) for v, d, w in zip(values, dims, wanted, strict=True))
    if not isinstance(values, Tensor) or wanted is None:
        return values
    if dims is None:
        shape = list(values.shape)
        shape.insert(wanted, size)
        return values.unsqueeze(wanted).expand(shape)
    return values.movedim(dims, wanted)


# ---- custom operators --------------------------------------------------------------------------------


def custom_call(target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A custom operator on a batch; NotImplemented where the innermost level of its tensors is none of a vmap."""
    row = innermost((args, kwargs))
    if row is None or row[1] != VMAP:
        return NotImplemented
    at = row[0]
    rule = target.known.vmap
    values, dims = apart(args, at)
    named = tree_map(lambda v: leave_once(v, at), kwargs)
    if rule is None:
        return sample_by_sample(target, row, args, kwargs)
    output, out_dims = _C._outside(at, lambda: rule(info_of(row), dims, *values, **named))

    def complain(given: Any, spec: Any) -> None:
        raise RuntimeError(f"register_vmap of {target.full_name}: out_dims {given} does not fit the output {spec}")

    return together(output, out_dims, at, complain)


def sample_by_sample(target: Any, row: tuple, args: tuple, kwargs: dict[str, Any]) -> Any:
    name = target.full_name
    if not target.known.kernels.get("CompositeImplicitAutograd"):
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for {name}. Please file us an issue "
            "on GitHub so that we can prioritize its implementation.",
            UserWarning,
            stacklevel=2,
        )
    at, size = row[0], row[2]

    def one(v: Any, i: int) -> Any:
        found = _C._unwrap_level(v, at)
        return v if found is None else found[0].select(found[1], i)

    def run() -> list:
        return [
            target.handle(*tree_map(lambda v, i=i: one(v, i), args), **tree_map(lambda v, i=i: one(v, i), kwargs))
            for i in range(size)
        ]

    results = _C._outside(at, run)
    flat = [tree_flatten(r) for r in results]
    stacked = [
        _C._outside(at, lambda v=v: _C.stack(list(v))) if isinstance(v[0], Tensor) else v[0]
        for v in zip(*(f for f, _ in flat), strict=True)
    ]
    return tree_unflatten([_C._wrap_level(v, at, 0) if isinstance(v, Tensor) else v for v in stacked], flat[0][1])


def custom_compute(target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A custom operator on tensors of a level of differentiation, below its own recording: the call on the values."""
    row = innermost((args, kwargs))
    if row is None or row[1] == VMAP:
        return NotImplemented
    at = row[0]
    values = tree_map(lambda v: leave_once(v, at), (args, kwargs))
    whose = {
        id(v): a
        for v, a in zip(tree_flatten(values)[0], tree_flatten((args, kwargs))[0], strict=True)
        if isinstance(v, Tensor)
    }
    result = _C._outside(at, lambda: target.handle(*values[0], **values[1]))
    return tree_map(lambda v: whose.get(id(v), _C._wrap_level(v, at, -1)) if isinstance(v, Tensor) else v, result)


def install() -> None:
    from tocha._library import registry

    function.across_levels = apply
    registry.across_levels = (custom_call, custom_compute)
