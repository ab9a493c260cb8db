"""ShapeProp: runs a graph on example inputs and notes the shape, dtype and layout of every value in its node."""

from __future__ import annotations

from typing import Any, NamedTuple

import tocha
from tocha.fx.graph_module import GraphModule
from tocha.fx.interpreter import Interpreter
from tocha.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]

_FORMATS = (tocha.contiguous_format, tocha.channels_last, tocha.channels_last_3d)


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: tocha.Size
    dtype: tocha.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: tocha.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: tocha.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """
    >>> import tocha
    >>> _extract_tensor_metadata(tocha.zeros(2, 3)).stride
    (3, 1)
    """
    strided = result.layout == tocha.strided
    formats = _FORMATS if include_contiguity and strided else ()
    memory_format = next((f for f in formats if _has_format(result, f)), None)
    stride = result.stride() if strided else ()
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, stride, memory_format, False, {})


def _has_format(result: tocha.Tensor, memory_format: tocha.memory_format) -> bool:
    dims = {tocha.channels_last: 4, tocha.channels_last_3d: 5}.get(memory_format)
    return (dims is None or result.dim() == dims) and result.is_contiguous(memory_format=memory_format)


class ShapeProp(Interpreter):
    """Runs a module and keeps what it sees in `node.meta["tensor_meta"]` and `node.meta["type"]`.

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x).t())
    >>> _ = ShapeProp(module).propagate(tocha.ones(2, 3))
    >>> [(n.name, tuple(n.meta["tensor_meta"].shape)) for n in module.graph.nodes]
    [('x', (2, 3)), ('relu', (2, 3)), ('t', (3, 2)), ('output', (3, 2))]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module: Any = None
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        try:
            if self.fake_mode is not None:
                with self.fake_mode:
                    result = super().run_node(n)
            else:
                result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        seen = False

        def metadata(value: Any) -> Any:
            nonlocal seen
            if isinstance(value, tocha.Tensor):
                seen = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, metadata)
        if seen:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the module on these arguments; gives its result."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(a) if isinstance(a, tocha.Tensor) else a for a in args)
        return super().run(*args)
