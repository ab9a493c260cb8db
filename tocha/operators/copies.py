"""Copies, fills and conversions of dtype, device and layout."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.ir.devices import CPU
from tocha.ir.layout import MemoryFormat
from tocha.operators import interpreter
from tocha.operators.facts import Facts
from tocha.operators.held import check_fill
from tocha.operators.record import composite, facts, gradient, native, op
from tocha.operators.rules import Out, like_strides

_FREE = frozenset({"any_device", "dynamic"})


@native(
    "copy_(Tensor self, Operand src, bool non_blocking=False) -> Tensor",
    algorithm="memory",
    aten=("copy_",),
    variants="method",
    node="CopyBackwards",
    tags=frozenset({"any_device", "across_devices", "any_overlap"}),  # self may be src
)
def copy_(self, src, non_blocking):
    """Copies src into self, broadcasting and converting."""


@facts(copy_)
def copied_facts(self, src, non_blocking):
    interpreter.check_takes("copy_", self, src.sizes)
    return interpreter.written(self)


@gradient(copy_, "self")
def copied_over_gradient(grad):
    return op.zeros_like(grad)


@gradient(copy_, "src")
def copied_gradient(grad, src):
    return op.to(grad, src.device, grad.dtype)


@native(
    "fill_(Tensor self, Operand value) -> Tensor",
    algorithm="fill",
    node="FillBackward3|value=FillBackward2",
    variants="method, function",
    tags=frozenset({"any_device", "any_overlap", "across_devices"}),
    samples=lambda t: [((t(3, 4), 2), {}), ((t(3, 4), t()), {})],
)
def fill_(self, value):
    """Sets every element."""


@facts(fill_)
def filled_facts(self, value):
    if value.ndim != 0:
        raise RuntimeError(
            f"[fill_] fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
        )
    if value.number is not None:
        check_fill(self.sizes, self.dtype, value.number)
    return interpreter.written(self)


@gradient(fill_, "self")
def filled_gradient(grad):
    return op.zeros_like(grad)


@gradient(fill_, "value")
def fill_value_gradient(grad):
    return grad.sum()


@composite(
    "fill(Tensor self, Operand value) -> Tensor",
    variants="function",
    samples=lambda t: [((t(3, 4), 2), {}), ((t(3, 4), t()), {})],
    core=("fill.Scalar",),
)
def fill(self, value):
    """A tensor of self's size and dtype with one value everywhere."""
    out = op.empty_like(self)
    return out.fill_(value)


@gradient(fill, "self")
def replaced_gradient(grad):
    return op.zeros_like(grad)


@gradient(fill, "value")
def replacing_gradient(grad):
    return grad.sum()


@composite(
    "fill_diagonal_(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor",
    variants="method",
    tags=frozenset({"any_overlap"}),
    samples=lambda t: [((t(3, 4), 2), {}), ((t(7, 2), 2, True), {}), ((t(2, 2, 2), 2), {})],
)
def fill_diagonal_(self, fill_value, wrap):
    """Sets the elements whose indices are all equal; with wrap, the diagonal of a tall matrix begins again below."""
    if self.ndim < 2:
        raise RuntimeError(f"[fill_diagonal_] dimensions must larger than 1: got {self.shape}")
    rows, n = self.shape[0], self.shape[1]
    for size in self.shape:
        if self.ndim > 2 and size != rows:
            raise RuntimeError(f"[fill_diagonal_] all dimensions of input must be of equal length: got {self.shape}")
    start = self.storage_offset()
    step = sum(self.strides)
    self.as_strided([min(rows, n)], [step], start).fill_(fill_value)
    if wrap and self.ndim == 2 and n > 0 and rows > n + 1:
        turn = (n + 1) * self.strides[0]
        whole = (rows - n) // (n + 1)
        last = rows - (whole + 1) * (n + 1)
        self.as_strided([whole, n], [turn, step], start + turn).fill_(fill_value)
        if last > 0:
            self.as_strided([last], [step], start + (whole + 1) * turn).fill_(fill_value)
    return self


@native("zero_(Tensor self) -> Tensor", variants="method, function", tags=frozenset({"any_device", "any_overlap"}))
def zero_(self):
    """Sets every element to zero."""


@gradient(zero_, "self")
def zeroed_gradient(grad):
    return op.zeros_like(grad)


@native(
    "clone(Tensor self, *, memory_format? memory_format=None) -> Tensor",
    algorithm="memory",
    tags=frozenset({"by_table"}),
    core=True,
)
def clone(self, memory_format):
    """A copy with memory of its own."""
    return Out(self.shape, self.dtype, strides=like_strides(self, memory_format))


@gradient(clone, "self")
def clone_gradient(grad):
    return grad


@composite(
    "contiguous(Tensor(a) self, *, memory_format? memory_format=contiguous_format) -> Tensor(a)",
    variants="method",
    aten=("contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",),
)
def contiguous(self, memory_format):
    """self if it is already laid out so, else a copy that is."""
    if op._is_laid_out(self, memory_format):
        return self
    return self.clone(memory_format=memory_format)


@native(
    "_is_laid_out(Tensor self, memory_format? memory_format=None) -> bool",
    algorithm="answer",
    variants="",
    tags=frozenset({"any_device"}),
)
def _is_laid_out(self, memory_format):
    """Whether self has this memory format."""


@facts(_is_laid_out)
def is_laid_out_facts(self, memory_format):
    return self.is_contiguous(memory_format)


@native(
    "to.dtype(Tensor(a) self, dtype dtype, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None) -> Tensor(a)",
    algorithm="memory",
    kernel="to_dtype",
    node="ToCopyBackward0",
    tags=_FREE | {"cast"},
    variants="method",
    aten=(
        "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    ),
)
def to_dtype(self, dtype, non_blocking, copy, memory_format):
    """self in another dtype; self itself when nothing changes."""


@facts(to_dtype)
def to_dtype_facts(self, dtype, non_blocking, copy, memory_format):
    return converted(self, self.device, dtype, copy, memory_format)


def converted(x, device, dtype, copy, format):
    """x itself where nothing changes, else the facts of its copy."""
    same = x.dtype is dtype and x.device == device and not copy
    if same and format in (None, MemoryFormat.preserve_format, layout.suggested_format(x.sizes, x.steps)):
        return x
    return Facts(x.sizes, dtype, device, layout.like_strides(x.sizes, x.steps, format))


@gradient(to_dtype, "self")
def to_dtype_gradient(grad):
    return grad  # cast where it arrives, and complex ones made real


@native(
    "to.device(Tensor(a) self, device? device=None, dtype? dtype=None, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None) -> Tensor(a)",
    algorithm="memory",
    kernel="to_device",
    node="ToCopyBackward0",
    tags=_FREE,
    variants="method",
    aten=(
        "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
        "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    ),
)
def to_device(self, device, dtype, non_blocking, copy, memory_format):
    """self on another device and in another dtype; self itself when nothing changes."""


@facts(to_device)
def to_device_facts(self, device, dtype, non_blocking, copy, memory_format):
    return converted(self, device or self.device, dtype or self.dtype, copy, memory_format)


@gradient(to_device, "self")
def to_device_gradient(grad, self):
    return op.to(grad, self.device, grad.dtype)


@composite(
    "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, *, memory_format? memory_format=None) -> Tensor(a)",
    variants="method",
    aten=(
        "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    ),
)
def to_other(self, other, non_blocking, copy, memory_format):
    """self on other's device and in its dtype."""
    return op.to(self, other.device, other.dtype, non_blocking, copy, memory_format=memory_format)


@composite("type_as(Tensor self, Tensor other) -> Tensor", variants="method")
def type_as(self, other):
    """self in other's dtype, on its device."""
    return self.to(other)


@composite(
    "cpu(Tensor(a) self, *, memory_format? memory_format=None) -> Tensor(b|a)",
    variants="method",
    tags=frozenset({"reads_values"}),
    aten=("cpu(Tensor(a) self) -> Tensor(b|a)",),
)
def cpu(self, memory_format):
    """self in the CPU's memory."""
    return op._to_cpu(self, memory_format)


@composite(
    "_to_copy(Tensor self, *, dtype? dtype=None, device? device=None, bool non_blocking=False, memory_format? memory_format=None) -> Tensor",
    variants="",
    node="ToCopyBackward0",
    aten=(
        "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    core=True,
)
def _to_copy(self, dtype, device, non_blocking, memory_format):
    """A copy of self in another dtype or on another device: what `to` is where something changes."""
    out = op.empty_like(self, dtype=dtype, device=device, memory_format=memory_format)
    return op.copy_(out, self, non_blocking)


@gradient(_to_copy, "self")
def to_copy_gradient(grad, self):
    return op.to(grad, self.device, self.dtype)


@native(
    "_local_scalar_dense(Tensor self) -> Scalar",
    algorithm="answer",
    variants="",
    tags=frozenset({"data_dependent_output"}),
    core=True,
)
def _local_scalar_dense(self):
    """The one element as a number: what `item` is."""


@native(
    "_to_cpu(Tensor self, memory_format? memory_format=None) -> Tensor",
    algorithm="memory",
    tags=_FREE,
    variants="",
    aten=(),
)
def _to_cpu(self, memory_format):
    """self in the CPU's memory."""


@facts(_to_cpu)
def to_cpu_facts(self, memory_format):
    return converted(self, CPU, self.dtype, False, memory_format)


@gradient(_to_cpu, "self")
def to_cpu_gradient(grad, self):
    return op.to(grad, self.device, grad.dtype)


@composite("double.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def double(self, memory_format):
    """self as float64."""
    return self.to(dt.float64, memory_format=memory_format)


@composite("float.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def float_(self, memory_format):
    """self as float32."""
    return self.to(dt.float32, memory_format=memory_format)


@composite("half.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def half(self, memory_format):
    """self as float16."""
    return self.to(dt.float16, memory_format=memory_format)


@composite("bfloat16.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def bfloat16(self, memory_format):
    """self as bfloat16."""
    return self.to(dt.bfloat16, memory_format=memory_format)


@composite("long.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def long(self, memory_format):
    """self as int64."""
    return self.to(dt.int64, memory_format=memory_format)


@composite("int.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def int_(self, memory_format):
    """self as int32."""
    return self.to(dt.int32, memory_format=memory_format)


@composite("short.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def short(self, memory_format):
    """self as int16."""
    return self.to(dt.int16, memory_format=memory_format)


@composite("char.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def char(self, memory_format):
    """self as int8."""
    return self.to(dt.int8, memory_format=memory_format)


@composite("byte.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def byte(self, memory_format):
    """self as uint8."""
    return self.to(dt.uint8, memory_format=memory_format)


@composite("bool.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def bool_(self, memory_format):
    """self as bool: whether each element is not zero."""
    return self.to(dt.bool_, memory_format=memory_format)


@composite("cfloat.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def cfloat(self, memory_format):
    """self as complex64."""
    return self.to(dt.complex64, memory_format=memory_format)


@composite(
    "chalf.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor",
    variants="method",
    aten=("chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",),
)
def chalf(self, memory_format):
    """self as complex32."""
    return self.to(dt.complex32, memory_format=memory_format)


@composite("cdouble.cast(Tensor self, *, memory_format? memory_format=None) -> Tensor", variants="method")
def cdouble(self, memory_format):
    """self as complex128."""
    return self.to(dt.complex128, memory_format=memory_format)
