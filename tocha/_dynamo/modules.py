"""What every use of a module passes through, gone through directly: the tables of `nn.Module.__getattr__`, the hooks of
`nn.Module.__call__`. Values and guards are those of going through the two functions step by step.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo.refusals import Changes, Unsupported
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.objects import ObjectValue
from tocha._dynamo.values.tensor import TensorValue
from tocha.nn import _Module as Module
from tocha.nn.modules.lazy import LazyModuleMixin

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = ("global_forward_hooks", "global_forward_pre_hooks", "global_backward_hooks", "global_backward_pre_hooks")  # fmt: skip
_PLAIN = (dict, collections.OrderedDict)


def _table(found: Value | None) -> DictValue | None:
    return found if isinstance(found, DictValue) and found.cls in _PLAIN else None


def _attribute(f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    module = args[0].realize()
    if len(args) != 2 or not isinstance(module, ObjectValue):
        return None
    name = args[1].realize()
    for place in _TABLES:
        table = _table(module.own(f, place))
        if table is None or not isinstance(name, Constant):
            return None
        found = table.find(f, name)
        if found is not None:
            return found
    return None


def initialize(f: Frame, module: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
    """The first call of a module whose parameters have no shapes yet gives them, before anything is captured."""
    given = tuple(sample(f, a) for a in args)
    named = {k: sample(f, a) for k, a in kwargs.items()}
    raise Changes("parameters get their shapes", lambda: module._infer_parameters(module, given, named))


def sample(f: Frame, value: Value) -> Any:
    """Something of the same sizes."""
    value = value.realize()
    if isinstance(value, TensorValue):
        sizes = [n if isinstance(n, int) else n.env.hint(n.expr) for n in value.fact.shape]
        if None in sizes:
            raise Unsupported("subclass", "a parameter that has no shape yet, and will have one that comes from data")
        return tocha.empty(sizes, dtype=value.fact.dtype, device="meta")
    if value.python_type() in (tuple, list):
        return value.python_type()(sample(f, v) for v in value.unpack(f))
    return value.constant()


def _call(f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    module = args[0].realize()
    if not isinstance(module, ObjectValue):
        return None
    if isinstance(module.real, LazyModuleMixin) and not module.new and "_initialize_hook" in module.real.__dict__:
        initialize(f, module.real, args[1:], kwargs)
    for name in _HOOKS:
        table = _table(module.own(f, name))
        if table is None or table.truth(f):
            return None
    scope = Module.__call__.__globals__
    for name in _GLOBAL_HOOKS:
        if f.load_from(scope, name).truth(f):
            return None
    return module.get_attribute(f, "forward").call(f, args[1:], kwargs)


_SHORT: dict[Any, Any] = {Module.__getattr__: _attribute, Module.__call__: _call}


def shortened(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The result of a call of one of the two; None where it is to be gone through."""
    short = _SHORT.get(function) if args else None
    return short(f, args, kwargs) if short is not None else None
