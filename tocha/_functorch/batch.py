"""A vmap's level as the rules of operators see it: which tensors are of the batch, and in what shape an operator wants them."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._functorch.bodies import decompose
from tocha.operators.overloads import INPLACE
from tocha.operators.record import Operator

Tensor = _C.Tensor


class Batch:
    """A vmap's level, as rules see it."""

    __slots__ = ("form", "level", "randomness", "record", "size")

    def __init__(self, level: int, size: int, randomness: int, record: Operator, form: str):
        self.level, self.size, self.randomness = level, size, randomness
        self.record, self.form = record, form

    def has(self, x: Any) -> bool:
        return _C._unwrap_level(x, self.level) is not None

    @staticmethod
    def is_tensor(x: Any) -> bool:
        return isinstance(x, Tensor)

    def value(self, x: Any) -> tuple[Any, int | None]:
        found = _C._unwrap_level(x, self.level)
        return (x, None) if found is None else found

    def first(self, x: Any) -> Any:
        """A tensor of the batch with its batch dim in front; another as it is."""
        value, dim = self.value(x)
        return value if dim is None or dim == 0 else value.movedim(dim, 0)

    def all(self, x: Any) -> Any:
        """The same, where one that is not of the batch is repeated for each sample."""
        if x is None:
            return None
        value, dim = self.value(x)
        if dim is None:
            return value.expand([self.size, *value.shape])
        return value if dim == 0 else value.movedim(dim, 0)

    def repeated(self, x: Any) -> Any:
        """A tensor of the batch, whether or not it was one."""
        return x if self.has(x) else _C._wrap_level(self.all(x), self.level, 0)

    def aligned(self, x: Any, rank: int) -> Any:
        """With the batch dim in front and ones up to `rank` dims besides: as broadcasting wants it."""
        if not isinstance(x, Tensor):
            return x
        value, dim = self.value(x)
        if dim is None:
            return value
        value = value if dim == 0 else value.movedim(dim, 0)
        missing = rank - (value.ndim - 1)
        return value.reshape([value.shape[0], *[1] * missing, *value.shape[1:]]) if missing > 0 else value

    def wrap(self, result: Any, dim: int = 0) -> Any:
        """Results with the batch dim in front, as tensors of the level."""
        if isinstance(result, Tensor):
            return _C._wrap_level(result, self.level, dim)
        if isinstance(result, list | tuple):
            return type(result)(self.wrap(r, dim) for r in result) if type(result) in (list, tuple) else tuple(
                self.wrap(r, dim) for r in result
            )  # fmt: skip
        return result

    def run(self, *values: Any) -> Any:
        """The operator itself, in its functional form."""
        return _C._call_record(self.record.full_name, values)

    def counted(self, model: Any) -> Any:
        """The number of each sample, on the model's device."""
        return _C.arange(self.size, device=model.device)

    def decomposed(self, *values: Any) -> Any:
        """By the kernel's body in other operators: they run on the batch, inside a level of their own that stands for it."""
        level = _C._push_level(0, self.size, self.randomness)
        try:
            given = moved_to(self, values, level)
            return taken_out(decompose(self.record, given), level, self.size)
        finally:
            _C._pop_level()

    def call(self, record: Operator, *values: Any) -> Any:
        return _C._call_record(record.full_name, values)


def any_batched(b: Batch, values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(any_batched(b, v) for v in values)
    return isinstance(values, Tensor) and b.has(values)


def tensors_in(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, list | tuple):
        return [t for v in values for t in tensors_in(v)]
    return []


def native_name(record: Operator, form: str) -> str:
    if form != INPLACE or record.name.endswith("_"):
        return record.full_name
    return f"{record.name}_.{record.schema.overload}".rstrip(".")


def looped_silently(b: Batch, values: tuple, i: int) -> Any:
    """One sample."""
    return _C._call_record(native_name(b.record, b.form), tuple(sample(b, v, i) for v in values))


def sample(b: Batch, v: Any, i: int) -> Any:
    if isinstance(v, list | tuple):
        return type(v)(sample(b, x, i) for x in v)
    if not isinstance(v, Tensor):
        return v
    value, dim = b.value(v)
    return value if dim is None else value.select(dim, i)


def moved_to(b: Batch, values: Any, level: int) -> Any:
    if isinstance(values, list | tuple):
        return [moved_to(b, v, level) for v in values]
    found = _C._unwrap_level(values, b.level)
    return values if found is None else _C._wrap_level(found[0], level, found[1])


def taken_out(result: Any, level: int, size: int) -> Any:
    if isinstance(result, list | tuple):
        return tuple(taken_out(r, level, size) for r in result)
    if not isinstance(result, Tensor):
        return result
    found = _C._unwrap_level(result, level)
    if found is None:
        return result.expand([size, *result.shape])
    value, dim = found
    return value if dim == 0 else value.movedim(dim, 0)
