"""Which types are containers of trees (`_pytree_nodes.node_of_type`): what a look-up says is guarded, not what others were looked up."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha.utils._pytree_nodes import SUPPORTED_NODES, is_namedtuple_class

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_PLACE = Source("object", SUPPORTED_NODES, None, "SUPPORTED_NODES")


class NodesOfTypes(Value):
    def __init__(self, real: Any, source: Any) -> None:
        self.real, self.source = real, source

    def python_type(self) -> type:
        return type(self.real)

    def item(self, f: Frame, key: Value) -> Value:
        cls = key.constant()
        kind = namedtuple if is_namedtuple_class(cls) else cls
        if kind not in SUPPORTED_NODES:
            f.out.guards.add(_PLACE, "without", kind)
            return Constant(None)
        return f.wrap(SUPPORTED_NODES[kind], _PLACE.dict_item(kind))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_constant(self.real)


def wrap(f: Frame, real: Any, source: Any) -> Value:
    if source is not None:
        f.out.guards.add(source, "same", real)
    return NodesOfTypes(real, source)
