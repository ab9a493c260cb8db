"""Tensors that are made of others (`__tensor_flatten__`): graphs hold them as they are, and backends take them apart.

Their facts are wrappers around fakes, so that their class itself says what operators do. Sizes are numbers, not symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha import _C
from tocha._dynamo import facts
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.tensor import TensorValue
from tocha.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.output import Output
    from tocha._dynamo.source import Source


def is_kind(cls: type) -> bool:
    return is_traceable_wrapper_subclass_type(cls) and hasattr(cls, "__torch_dispatch__")


def input_of(out: Output, tensor: Any, source: Source) -> TensorValue:
    before = _C._set_overrides(2)  # what is looked at here is nothing that the program asked for
    try:
        _guard(out, tensor, source)
    finally:
        _C._set_overrides(before)
    node = out.graph.placeholder(out.input_name(source))
    fact = node.meta["example_value"] = facts.of(out.fake_mode, tensor, None)
    value = TensorValue(node, fact, source, tensor)
    value.written_before = facts.version(fact)
    out.by_fact[id(fact)] = value
    out.inputs.append(value)
    return value


def _guard(out: Output, tensor: Any, source: Source) -> None:
    """Its class, its own sizes and those of its parts, and what it says that it is made of."""
    out.guards.add(source, "type", type(tensor))
    out.guards.add_tensor(source, tensor, tuple(tensor.shape), tensor.stride())
    if not is_traceable_wrapper_subclass(tensor):
        return
    names, context = tensor.__tensor_flatten__()
    out.guards.add(source, "holds", _made_alike(type(tensor), list(names), context))
    for name in names:
        _guard(out, getattr(tensor, name), source.attribute(name))


def _made_alike(cls: Any, names: list[str], context: Any) -> Callable[[Any], bool]:
    same = getattr(cls, "__metadata_guard__", None) or (lambda a, b: a == b)

    def made_alike(tensor: Any) -> bool:
        found, other = tensor.__tensor_flatten__()
        return list(found) == names and bool(same(context, other))

    return made_alike


def parts(tensor: Any) -> list[Any]:
    """The plain tensors that a real tensor is made of, and it itself."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [tensor, *(p for n in names for p in parts(getattr(tensor, n)))]


def attribute(f: Frame, tensor: TensorValue, name: str) -> Value | None:
    """A part, or what the class keeps besides; None of other attributes."""
    kept = tensor.fact.__dict__
    if name not in kept:
        return None
    if name in tensor.fact.__tensor_flatten__()[0]:
        return f.out.call(f, "call_function", getattr, [tensor, Constant(name)], {})
    if tensor.real is not None and tensor.source is not None:
        return f.wrap(tensor.real.__dict__[name], tensor.source.attribute(name))
    return f.wrap_known(kept[name])


def make(f: Frame, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A wrapper that captured code makes: a node, for backends to see what it is made of."""
    return f.out.call(f, "call_function", cls, args, kwargs)
