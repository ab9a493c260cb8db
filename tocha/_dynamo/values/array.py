"""NumPy arrays and scalars: a tensor with NumPy's manners (arrays.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocha._dynamo.values.base import Value
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_ATTRIBUTES = ("shape", "ndim", "size", "itemsize", "nbytes", "dtype", "T", "real", "imag")


class ArrayValue(Value):
    has_identity = True

    def __init__(self, tensor: TensorValue, source: Any = None, real: Any = None, scalar: bool = False) -> None:
        self.tensor, self.source, self.real, self.scalar = tensor, source, real, scalar

    def python_type(self) -> type:
        from tocha._dynamo import arrays

        return arrays._BACK[self.tensor.fact.dtype].type if self.scalar else arrays.np.ndarray

    def get_attribute(self, f: Frame, name: str) -> Value:
        from tocha._dynamo import arrays

        return arrays.attribute(f, self, name) if name in _ATTRIBUTES else NativeMethod(self, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        from tocha._dynamo import arrays

        return arrays.method(f, self, name, args, kwargs)

    def truth(self, f: Frame) -> bool:
        self.refuse("data_dependent_branch", "the truth")

    def length(self, f: Frame) -> int:
        return self.tensor.length(f)

    def iterate(self, f: Frame) -> Value:
        from tocha._dynamo import arrays

        items = self.tensor.iterate(f).unpack(f)
        scalar = self.tensor.fact.ndim == 1
        return f.iterator([ArrayValue(t, scalar=scalar) for t in items if isinstance(t, TensorValue)], type(iter(arrays.np.empty(1))))  # fmt: skip

    def item(self, f: Frame, key: Value) -> Value:
        from tocha._dynamo import arrays

        return arrays.item(f, self, key)

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        from tocha._dynamo import arrays

        arrays.set_item(f, self, key, value)

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(to_scalar if self.scalar else to_array)
        cg.load(self.tensor)
        cg.end_call(1)


def to_array(tensor: Any) -> Any:
    return tensor.detach().numpy()


def to_scalar(tensor: Any) -> Any:
    return to_array(tensor)[()]
