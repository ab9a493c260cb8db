"""Helpers that shape rules, view rules and composites share. Those marked `rule` are translated to C++
like the records' bodies; those marked `intrinsic` exist in C++ by hand, and here for facts.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import layout, promotion
from tocha.ir.sym_types import Symbolic
from tocha.operators import interpreter, record
from tocha.operators.facts import Out, Scalar, View  # noqa: F401  (records import them from here)
from tocha.operators.held import check_held
from tocha.operators.record import intrinsic, rule


@intrinsic("wrap_dim")
def wrap_dim(dim: "int", ndim: "int") -> "int":
    n = max(ndim, 1)
    if dim < -n or dim >= n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim + n if dim < 0 else dim


@intrinsic("product")
def product(sizes: "int[]") -> "int":
    n = 1
    for s in sizes:
        n *= s
    return n


@intrinsic("contiguous_strides")
def contiguous_strides(sizes: "int[]") -> "int[]":
    return layout.contiguous_strides(sizes)


@intrinsic("format_strides_for")
def format_strides(sizes: "int[]", format: "memory_format?") -> "int[]":
    return layout.format_strides(sizes, format)


@intrinsic("like_strides_for")
def like_strides(self: "Tensor", format: "memory_format?") -> "int[]":
    return layout.like_strides(self.sizes, self.steps, format)


@intrinsic("default_dtype")
def default_dtype() -> "dtype":
    return interpreter.current().default_dtype()


@intrinsic("default_device_for")
def device_or_default(device: "device?") -> "device":
    return device if device is not None else interpreter.current().default_device()


@intrinsic("promote_types")
def promote_types(a: "dtype", b: "dtype") -> "dtype":
    return promotion.promote_types(a, b)


@intrinsic("result_type")
def result_type(a: "Tensor", b: "Tensor") -> "dtype":
    return interpreter.result_type_of([a, b])


@intrinsic("result_type")
def result_type_of(tensors: "Tensor[]") -> "dtype":
    return interpreter.result_type_of(tensors)


@intrinsic("can_cast")
def can_cast(source: "dtype", target: "dtype") -> "bool":
    return promotion.can_cast(source, target)


@intrinsic("real_dtype")
def real_dtype(d: "dtype") -> "dtype":
    return dt.real_of(d) if d.is_complex else d


@intrinsic("complex_dtype")
def complex_dtype(d: "dtype") -> "dtype":
    return d if d.is_complex else dt.complex_of(d)


@intrinsic("is_integral_dtype")
def is_integral(d: "dtype") -> "bool":
    """Integers and bool."""
    return not d.is_differentiable


@intrinsic("is_float8")
def is_float8(d: "dtype") -> "bool":
    return d.is_float8


@intrinsic("c_name_of")
def c_name(d: "dtype") -> "str":
    """The dtype in the words of C, as PyTorch has them in messages about out=: long int."""
    return d.cpp


@intrinsic("kernel_word")
def kernel_word(op: "str") -> "str":
    return record.kernel_word(op)


@rule
def refuse_dtype(op: "str", d: "dtype") -> "none":
    raise NotImplementedError(f"[{op}] \"{kernel_word(op)}\" not implemented for '{d}'")


@intrinsic("scalar_dtype")
def scalar_dtype(s: "Scalar") -> "dtype":
    """The dtype a number alone would give a tensor."""
    return promotion.number_dtype(s.value, interpreter.current().default_dtype())


@intrinsic("is_wrapped")
def is_number(x: "Operand") -> "bool":
    """Whether an operand is a Python number."""
    return x.number is not None


@intrinsic("number_of")
def number(x: "Operand") -> "Scalar":
    """The Python number that an operand is."""
    return Scalar(x.number)


@intrinsic("[](const Scalar&) { return true; }")
def is_known(number: "Scalar") -> "bool":
    """Whether somebody knows the number: not where a graph is made, if it comes from data."""
    v = number.value
    return not isinstance(v, Symbolic) or v.env.hint(v.expr) is not None


@intrinsic("fill_value")
def fill_value(value: "Operand", dtype: "dtype") -> "Tensor":
    """What a fill writes, in the dtype of what it is written to; a number must be one that the dtype can hold."""
    if value.number is not None:
        check_held(dtype, value.number)
    return value.to(dtype)


@intrinsic("check_same_device_list")
def check_same_device(op: "str", tensors: "Tensor[]") -> "none":
    interpreter.common_device(op, tensors)


@intrinsic("check_storage_bounds")
def check_storage_bounds(self: "Tensor", sizes: "int[]", strides: "int[]", offset: "int") -> "none":
    """Refuses a view that reaches beyond self's memory."""


@intrinsic("cat_strides")
def cat_strides(sizes: "int[]", tensors: "Tensor[]") -> "int[]":
    """The layout of a join: channels_last when every part is laid out so."""
    return layout.joined_strides(sizes, [(t.sizes, t.steps) for t in tensors])


@intrinsic("warn")
def warn(text: "str") -> "none":
    import warnings

    warnings.warn(text, stacklevel=2)


@intrinsic("warn_once")
def warn_once(text: "str") -> "none":
    import warnings

    warnings.warn(text, stacklevel=2)


@intrinsic("recording")
def recording() -> "bool":
    """Whether operators are being recorded: in a gradient, whether its own derivative may be asked for."""
    return interpreter.current().recording()


@intrinsic("wants_gradient")
def wants_gradient(t: "Tensor") -> "bool":
    """Whether what is computed from t will be differentiated, or may carry tangents along."""
    return interpreter.current().wants_gradient(t)


@intrinsic("computes")
def computes(t: "Tensor") -> "bool":
    """Whether t has elements that can be looked at: not on the meta device, nor for those who know only its shape."""
    return interpreter.current().computes(t)


@intrinsic("autograd::asked")
def asked(t: "Tensor") -> "bool":
    """Whether anybody is told of operators on t, to record them or to take them over: then no element decides which."""
    return True


@rule
def apart(t: "Tensor") -> "Tensor":
    """A result whose node keeps it, for users who may write over theirs: then a copy. Graphs have writes as new values."""
    return t.clone() if wants_gradient(t) and computes(t) else t


@intrinsic("sparse_rows")
def sparse_rows(grads: "Tensor", indices: "Tensor", rows: "int", padding_idx: "int") -> "Tensor":
    """The sparse gradient of a matrix of which rows were taken: grads[i] belongs to row indices[i], if that is no padding."""
    raise NotImplementedError("[embedding] sparse gradients have no facts")


@intrinsic("ints_of")
def ints_of(t: "Tensor") -> "int[]":
    """The elements of an int64 tensor on the CPU."""
    return interpreter.current().elements("ints_of", t)


@rule
def broadcast_shapes(a: "int[]", b: "int[]", op: "str") -> "int[]":
    n = max(len(a), len(b))
    out = [1] * n
    for i in range(n):
        x = a[i - n + len(a)] if i >= n - len(a) else 1
        y = b[i - n + len(b)] if i >= n - len(b) else 1
        if x != y and x != 1 and y != 1:
            raise RuntimeError(
                f"[{op}] The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}: {a} and {b}"
            )
        out[i] = y if x == 1 else x
    return out


@rule
def column_strides(sizes: "int[]") -> "int[]":
    """Strides of a batch of matrices that are stored column by column."""
    if len(sizes) < 2:
        return contiguous_strides(sizes)
    strides = contiguous_strides([*sizes[:-2], sizes[-1], sizes[-2]])
    strides[-1], strides[-2] = strides[-2], strides[-1]
    return strides


@rule
def column_major(sizes: "int[]", dtype: "dtype") -> "Out":
    """A result that LAPACK writes: a batch of matrices, column by column."""
    return Out(sizes, dtype, strides=column_strides(sizes))


@rule
def wrap_dims(dims: "int[]", ndim: "int") -> "int[]":
    """Dims counted from the front, each at most once."""
    out = [wrap_dim(d, ndim) for d in dims]
    for i in range(len(out)):
        for j in range(i):
            if out[i] == out[j]:
                raise RuntimeError(f"dim {out[i]} appears multiple times in the list of dims")
    return out


@rule
def infer_size(shape: "int[]", numel: "int") -> "int[]":
    """Fills in one -1."""
    out = list(shape)
    known = 1
    unknown = -1
    for i in range(len(out)):
        if out[i] == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif out[i] < -1:
            raise RuntimeError(f"invalid shape dimension {out[i]} at index {i} of shape {shape}")
        else:
            known *= out[i]
    if unknown >= 0:
        if known == 0 and numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {numel} elements into shape {shape} because the unspecified dimension size -1 can be any value and is ambiguous"
            )
        if known == 0 or numel % known != 0:
            raise RuntimeError(f"shape '{shape}' is invalid for input of size {numel}")
        out[unknown] = numel // known
    elif known != numel:
        raise RuntimeError(f"shape '{shape}' is invalid for input of size {numel}")
    return out


@rule
def view_strides(sizes: "int[]", strides: "int[]", shape: "int[]") -> "int[]?":
    """Strides that show the same memory in another shape, or None if there are none."""
    if product(sizes) == 0:
        if sizes == shape:
            return strides
        return contiguous_strides(shape)
    if len(sizes) == 0:
        return [1] * len(shape)
    out = [0] * len(shape)
    view_dim = len(shape) - 1
    chunk_stride = strides[-1]  # the stride of the innermost dim of the run being cut up
    tensor_numel = 1
    view_numel = 1
    for dim in reversed(range(len(sizes))):
        tensor_numel *= sizes[dim]
        # the run ends where the next outer dim does not continue it
        if dim == 0 or (sizes[dim - 1] != 1 and strides[dim - 1] != tensor_numel * chunk_stride):
            # what the outer runs left is the outermost one's: no sizes need be compared
            while view_dim >= 0 and (dim == 0 or view_numel < tensor_numel or shape[view_dim] == 1):
                out[view_dim] = view_numel * chunk_stride
                view_numel *= shape[view_dim]
                view_dim -= 1
            if view_numel != tensor_numel:
                return None
            if dim > 0:
                chunk_stride = strides[dim - 1]
                tensor_numel = 1
                view_numel = 1
    if view_dim != -1:
        return None
    return out
