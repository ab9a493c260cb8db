"""What every use of a module passes through, gone through directly: the tables of `nn.Module.__getattr__`, the hooks of
`nn.Module.__call__`. Values and guards are those of going through the two functions step by step.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.mappings import DictValue
from tocha._dynamo.values.objects import ObjectValue
from tocha.nn import _Module as Module

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


def _call(f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    module = args[0].realize()
    if not isinstance(module, ObjectValue):
        return None
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
