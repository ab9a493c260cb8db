"""Factories: new tensors with given contents. The binding adds layout, pin_memory and requires_grad (tag "factory")."""

from __future__ import annotations

import math

from tocha.ir import dtypes as dt
from tocha.operators.held import check_fill
from tocha.operators.record import composite, facts, native, op, rule
from tocha.operators.rules import (
    Out,
    complex_dtype,
    contiguous_strides,
    default_dtype,
    device_or_default,
    format_strides,
    like_strides,
    refuse_dtype,
    scalar_dtype,
    warn,
)

_FACTORY = frozenset({"factory"})
_FILLED = _FACTORY | {"by_table"}
_EMPTY = _FILLED | {"uninitialized"}
_MAKER = "function, out"


@rule
def dtype_or_default(dtype: "dtype?") -> "dtype":
    return default_dtype() if dtype is None else dtype


# -- uninitialised -----------------------------------------------------------------------------------


@native(
    "empty(SymInt[] size, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="memory",
    variants=_MAKER,
    tags=_EMPTY,
    aten=("empty.memory_format", "empty.out"),
    core=True,
)
def empty(size, dtype, device, memory_format):
    """A tensor whose elements are not initialised."""
    if memory_format is None:
        return Out(size, dtype_or_default(dtype), device=device_or_default(device))
    return Out(
        size, dtype_or_default(dtype), device=device_or_default(device), strides=format_strides(size, memory_format)
    )


@rule
def check_strided(size: "int[]", stride: "int[]", name: "str") -> "none":
    if len(size) != len(stride):
        raise RuntimeError(
            f"[{name}] dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    for s in stride:
        if s < 0:
            raise RuntimeError(f"[{name}] negative strides are not supported, got {stride}")


@native(
    "empty_strided(SymInt[] size, SymInt[] stride, *, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="memory",
    variants="function",
    tags=_EMPTY,
    samples=lambda t: [(((2, 3), (1, 2)), {})],
    core=True,
)
def empty_strided(size, stride, dtype, device):
    """An uninitialised tensor with these strides."""
    check_strided(size, stride, "empty_strided")
    return Out(size, dtype_or_default(dtype), device=device_or_default(device), strides=stride)


@native(
    "empty_permuted(SymInt[] size, int[] physical_layout, *, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="memory",
    variants="function",
    tags=_EMPTY,
    samples=lambda t: [(((2, 3, 4), (2, 0, 1)), {})],
)
def empty_permuted(size, physical_layout, dtype, device):
    """An uninitialised tensor whose dims lie in memory in the order of physical_layout, outermost first."""
    n = len(size)
    if len(physical_layout) != n:
        raise RuntimeError(
            f"[empty_permuted] Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    for i in range(n):
        if physical_layout[i] < 0 or physical_layout[i] >= n:
            raise RuntimeError(
                f"[empty_permuted] Dimension out of range (expected to be between 0 and {n - 1}, but got {physical_layout[i]} at index {i}). NB: negative dims not currently supported"
            )
        if physical_layout[i] in physical_layout[:i]:
            raise RuntimeError(f"[empty_permuted] Duplicate dim not allowed: {physical_layout}")
    steps = contiguous_strides([size[d] for d in physical_layout])
    strides = [0] * n
    for i in range(n):
        strides[physical_layout[i]] = steps[i]
    return Out(size, dtype_or_default(dtype), device=device_or_default(device), strides=strides)


@native(
    "empty_like(Tensor self, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="memory",
    variants="function",
    tags=_EMPTY,
)
def empty_like(self, dtype, device, memory_format):
    """An uninitialised tensor of self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@composite(
    "new_empty(Tensor self, SymInt[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="method",
    tags=_EMPTY,
    whole=True,
)
def new_empty(self, size, dtype, device):
    """An uninitialised tensor with self's dtype and device."""
    return op.empty(
        size, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device
    )


@composite(
    "new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="method",
    tags=_EMPTY,
    samples=lambda t: [((t(3, 4), (2, 3), (1, 2)), {})],
    whole=True,
)
def new_empty_strided(self, size, stride, dtype, device):
    """An uninitialised tensor with these strides and self's dtype and device."""
    return op.empty_strided(
        size, stride, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device
    )


# -- constants ---------------------------------------------------------------------------------------


@native("zeros(SymInt[] size, *, dtype? dtype=None, device? device=None) -> Tensor", variants=_MAKER, tags=_FILLED)
def zeros(size, dtype, device):
    """A tensor of zeros."""
    return Out(size, dtype_or_default(dtype), device=device_or_default(device))


@native("ones(SymInt[] size, *, dtype? dtype=None, device? device=None) -> Tensor", variants=_MAKER, tags=_FILLED)
def ones(size, dtype, device):
    """A tensor of ones."""
    return Out(size, dtype_or_default(dtype), device=device_or_default(device))


@native(
    "full(SymInt[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="fill",
    variants=_MAKER,
    tags=_FILLED,
    samples=lambda t: [(((2, 3), 1.5), {})],
    core=True,
)
def full(size, fill_value, dtype, device):
    """A tensor of one value; its type gives the dtype unless one is given."""
    return Out(size, scalar_dtype(fill_value) if dtype is None else dtype, device=device_or_default(device))


@facts(full)
def full_facts(size, fill_value, dtype, device):
    return holding(full.body(size, fill_value, dtype, device), fill_value)


def holding(made, number):
    """What a shape rule says, of a tensor that can hold the number."""
    check_fill(made.sizes, made.dtype, number.value)
    return made


@native(
    "scalar_tensor(Scalar s, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FILLED,
    core=True,
)
def scalar_tensor(s, dtype, device):
    """A 0-d tensor."""
    return Out([], dtype_or_default(dtype), device=device_or_default(device))


@facts(scalar_tensor)
def scalar_facts(s, dtype, device):
    return holding(scalar_tensor.body(s, dtype, device), s)


@native(
    "zeros_like(Tensor self, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    variants="function",
    tags=_FILLED,
)
def zeros_like(self, dtype, device, memory_format):
    """Zeros in self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@native(
    "ones_like(Tensor self, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    variants="function",
    tags=_FILLED,
)
def ones_like(self, dtype, device, memory_format):
    """Ones in self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@native(
    "full_like(Tensor self, Scalar fill_value, *, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    variants="function",
    tags=_FILLED,
    core=True,
)
def full_like(self, fill_value, dtype, device, memory_format):
    """One value in self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@facts(full_like)
def full_like_facts(self, fill_value, dtype, device, memory_format):
    return holding(full_like.body(self, fill_value, dtype, device, memory_format), fill_value)


@composite(
    "new_zeros(Tensor self, SymInt[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="method",
    tags=_FACTORY,
    whole=True,
)
def new_zeros(self, size, dtype, device):
    """Zeros with self's dtype and device."""
    return op.zeros(
        size, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device
    )


@composite(
    "new_ones(Tensor self, SymInt[] size, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="method",
    tags=_FACTORY,
    whole=True,
)
def new_ones(self, size, dtype, device):
    """Ones with self's dtype and device."""
    return op.ones(size, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device)


@composite(
    "new_full(Tensor self, SymInt[] size, Scalar fill_value, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="method",
    tags=_FACTORY,
    whole=True,
)
def new_full(self, size, fill_value, dtype, device):
    """One value with self's dtype and device."""
    return op.full(
        size, fill_value, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device
    )


@native(
    "eye(SymInt n, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_MAKER,
    tags=_FILLED,
    samples=lambda t: [((3,), {})],
    word="eye",
)
def eye(n, dtype, device):
    """The n by n identity matrix."""
    if n < 0:
        raise RuntimeError(f"[eye] n must be greater or equal to 0, got {n}")
    if dtype_or_default(dtype) == dt.complex32:
        refuse_dtype("eye", dt.complex32)
    return Out([n, n], dtype_or_default(dtype), device=device_or_default(device))


@native(
    "eye.m(SymInt n, SymInt m, *, dtype? dtype=None, device? device=None) -> Tensor",
    kernel="eye_m",
    variants=_MAKER,
    tags=_FILLED,
    samples=lambda t: [((2, 3), {})],
)
def eye_m(n, m, dtype, device):
    """An n by m matrix with ones on its diagonal."""
    if n < 0:
        raise RuntimeError(f"[eye] n must be greater or equal to 0, got {n}")
    if m < 0:
        raise RuntimeError(f"[eye] m must be greater or equal to 0, got {m}")
    if dtype_or_default(dtype) == dt.complex32:
        refuse_dtype("eye", dt.complex32)
    return Out([n, m], dtype_or_default(dtype), device=device_or_default(device))


# -- sequences ---------------------------------------------------------------------------------------

# out= of as many elements keeps its sizes, whatever they are.
_SEQUENCE = _FACTORY | {"out_of_count"}


@rule
def arange_dtype(start: "Scalar", end: "Scalar", step: "Scalar", dtype: "dtype?") -> "dtype":
    """int64 as long as every number is an integer."""
    if dtype is not None:
        return dtype
    if start.is_complex() or end.is_complex() or step.is_complex():
        raise RuntimeError("[arange] complex bounds are not supported")
    if start.is_floating() or end.is_floating() or step.is_floating():
        return default_dtype()
    return dt.int64


@rule
def arange_length(start: "Scalar", end: "Scalar", step: "Scalar", dtype: "dtype") -> "int":
    """How many steps fit before the end; counted in integers where the result is integral."""
    if step == 0:
        raise RuntimeError("[arange] step must be nonzero")
    whole = start.is_integral() and end.is_integral() and step.is_integral()
    if not whole:
        a, b, s = start.to_double(), end.to_double(), step.to_double()
        if math.isnan(s):
            raise RuntimeError("[arange] step must be nonzero")
        if math.isnan(a) or math.isinf(a) or math.isnan(b) or math.isinf(b):
            raise RuntimeError(f"[arange] unsupported range: {start} -> {end}")
        if (s > 0 and b < a) or (s < 0 and b > a):
            raise RuntimeError(
                f"[arange] upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}"
            )
        if dtype != dt.int64:
            return math.ceil((b - a) / s)
    first, last, pace = start.to_int(), end.to_int(), step.to_int()
    if pace == 0:
        raise ValueError(f"[arange] step must be nonzero: {step} rounds to zero")
    if whole and ((pace > 0 and last < first) or (pace < 0 and last > first)):
        raise RuntimeError(
            f"[arange] upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}"
        )
    return (last - first + pace - 1) // pace if pace > 0 else (first - last - pace - 1) // -pace


@native(
    "arange(Scalar end, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_MAKER,
    tags=_SEQUENCE | {"computed_length"},
)
def arange(end, dtype, device):
    """The numbers from 0 up to (not including) end."""
    kind = arange_dtype(0, end, 1, dtype)
    return Out([arange_length(0, end, 1, kind)], kind, device=device_or_default(device))


@native(
    "arange.start(Scalar start, Scalar end, *, dtype? dtype=None, device? device=None) -> Tensor",
    kernel="arange_start",
    variants="function",
    tags=_SEQUENCE | {"computed_length"},
)
def arange_start(start, end, dtype, device):
    """The numbers from start up to (not including) end."""
    kind = arange_dtype(start, end, 1, dtype)
    return Out([arange_length(start, end, 1, kind)], kind, device=device_or_default(device))


@native(
    "arange.step(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="fill",
    kernel="arange_step",
    variants=_MAKER,
    tags=_SEQUENCE | {"computed_length"},
    aten=("arange.start_step(Scalar start, Scalar end, Scalar step=1) -> Tensor", "arange.start_out"),
    core=True,
)
def arange_step(start, end, step, dtype, device):
    """The numbers from start up to (not including) end, step apart."""
    kind = arange_dtype(start, end, step, dtype)
    return Out([arange_length(start, end, step, kind)], kind, device=device_or_default(device))


@native(
    "range(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_MAKER,
    tags=_SEQUENCE,
    aten=("range.step", "range(Scalar start, Scalar end) -> Tensor", "range.out", "range.out_"),
)
def range_(start, end, step, dtype, device):
    """The numbers from start to end, both included. Deprecated in favour of arange."""
    kind = dtype_or_default(dtype)
    warn(
        "tocha.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range builtin. Instead, use tocha.arange, which produces values in [start, end)."
    )
    if step == 0:
        raise RuntimeError("[range] step must be nonzero")
    a, b, s = start.to_double(), end.to_double(), step.to_double()
    if math.isnan(s):
        raise RuntimeError("[range] step must be nonzero")
    if math.isnan(a) or math.isinf(a) or math.isnan(b) or math.isinf(b):
        raise RuntimeError(f"[range] unsupported range: {start} -> {end}")
    if (s > 0 and b < a) or (s < 0 and b > a):
        raise RuntimeError(
            f"[range] upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}"
        )
    return Out([math.floor((b - a) / s) + 1], kind, device=device_or_default(device))


@rule
def spaced_dtype(start: "Scalar", end: "Scalar", dtype: "dtype?", name: "str") -> "dtype":
    """The default dtype, or its complex counterpart."""
    if start.is_complex() or end.is_complex():
        if dtype is None:
            return complex_dtype(default_dtype())
        if not dtype.is_complex:
            raise RuntimeError(
                f"[{name}] torch.{name}(): inferred dtype {complex_dtype(default_dtype())} can't be safely cast to passed dtype {dtype}"
            )
    return dtype_or_default(dtype)


@native(
    "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_MAKER,
    tags=_SEQUENCE,
    samples=lambda t: [((0, 1, 5), {})],
    aten=(
        "linspace",
        "linspace.Tensor_Tensor(Tensor start, Tensor end, int steps) -> Tensor",
        "linspace.Tensor_Scalar(Tensor start, Scalar end, int steps) -> Tensor",
        "linspace.Scalar_Tensor(Scalar start, Tensor end, int steps) -> Tensor",
    ),
)
def linspace(start, end, steps, dtype, device):
    """steps numbers from start to end, both included, evenly spaced."""
    if steps < 0:
        raise RuntimeError(f"[linspace] number of steps must be non-negative, got {steps}")
    return Out([steps], spaced_dtype(start, end, dtype, "linspace"), device=device_or_default(device))


@native(
    "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_MAKER,
    tags=_SEQUENCE,
    samples=lambda t: [((0, 2, 5), {})],
    aten=(
        "logspace",
        "logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.) -> Tensor",
        "logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.) -> Tensor",
        "logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.) -> Tensor",
    ),
)
def logspace(start, end, steps, base, dtype, device):
    """base to the power of steps evenly spaced numbers from start to end."""
    if steps < 0:
        raise RuntimeError(f"[logspace] number of steps must be non-negative, got {steps}")
    return Out([steps], spaced_dtype(start, end, dtype, "logspace"), device=device_or_default(device))
