"""What functions of tocha do with masked tensors: pointwise operators, reductions, views and joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tocha import _C, autograd
from tocha._core.forms import read_natively, registrar
from tocha._core.pointwise_names import is_in_place, plain_name, pointwise_names
from tocha.masked import _functions as masked
from tocha.masked.maskedtensor.core import (
    FALLBACK,
    FORMS,
    MaskedTensor,
    Tensor,
    build,
    data_of,
    is_masked_tensor,
    make,
)
from tocha.nn import functional
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.sparse._compressed_construct import sparse_csr_tensor
from tocha.sparse._construct import sparse_coo_tensor

form_of = registrar(FORMS)
read_natively(FORMS, "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "grad", "retains_grad")
read_natively(
    FORMS, "output_nr", "_version", "_base", "_backward_hooks", "_post_accumulate_grad_hooks", "itemsize", "is_cpu"
)
read_natively(
    FORMS, "is_meta", "is_cuda", "is_quantized", "dim", "ndimension", "numel", "nelement", "element_size", "size"
)
read_natively(FORMS, "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg", "is_inference", "get_device")
read_natively(
    FORMS, "requires_grad_", "retain_grad", "register_hook", "_bump_version", "__len__", "__format__", "__dir__"
)
read_natively(FORMS, "storage_offset", "detach_", "register_post_accumulate_grad_hook", "_register_hook_dict")
form_of("layout")(lambda self: self._masked_data.layout)
form_of("is_nested")(lambda self: False)
form_of("stride")(lambda self, dim=None: MaskedTensor.stride(self, dim))
form_of("is_contiguous")(lambda self, memory_format=None: self._masked_data.is_contiguous())
form_of("item")(lambda self: MaskedTensor.item(self))
form_of("__bool__")(lambda self: MaskedTensor.__bool__(self))
form_of("detach")(lambda self: make(self._masked_data, self._masked_mask))


def _set_data(self: MaskedTensor, new: MaskedTensor) -> None:
    with DisableTorchFunctionSubclass():
        Tensor.data.__set__(self, new)
    self._masked_data, self._masked_mask = new._masked_data, new._masked_mask


MaskedTensor.data = property(lambda self: make(self._masked_data, self._masked_mask), _set_data)  # type: ignore[assignment]


@form_of("backward")
def _backward(
    self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    if gradient is None and self.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    whole = make(_C.ones(tuple(self.shape), dtype=self.dtype), self._masked_mask) if gradient is None else gradient  # type: ignore[attr-defined]
    autograd.backward(self, whole, retain_graph, create_graph, inputs=inputs)


def refuse(name: str) -> NoReturn:
    """Says that an operation has no form for masked tensors."""
    raise TypeError(
        f"[{name}] Multiple dispatch failed for 'torch._ops.aten.{name}': masked tensors have no form of it; to_tensor() gives an ordinary one"
    )


# -- pointwise -------------------------------------------------------------------------------------------


def same_mask(a: Tensor, b: Tensor) -> bool:
    """Whether two masks are one."""
    if a is b:
        return True
    if a.layout != b.layout or a.shape != b.shape:
        return False
    dense = [t.to_dense() if t.layout != _C.strided else t for t in (a, b)]
    return bool(_C.equal(*dense))


def check_same_mask(first: MaskedTensor, other: Any) -> None:
    """Refuses operands with another mask."""
    if is_masked_tensor(other) and not same_mask(first._masked_mask, other._masked_mask):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")


def apply(func: Any, args: tuple, kwargs: dict) -> Any:
    """A function without a form of its own: on the data if it is pointwise, else refused."""
    name = plain_name(func)
    if name not in pointwise_names():
        refuse(name)
    first: MaskedTensor = next(a for a in (*args, *kwargs.values()) if is_masked_tensor(a))
    for a in (*args, *kwargs.values()):
        check_same_mask(first, a)
    if first._masked_data.layout != _C.strided:
        return _on_values(func, first, args, kwargs)
    plain = [data_of(a) if is_masked_tensor(a) else a for a in args]
    named = {k: data_of(a) if is_masked_tensor(a) else a for k, a in kwargs.items()}
    result = func(*plain, **named)
    if is_in_place(func):
        return args[0]
    mask = first._masked_mask
    if not isinstance(result, Tensor) or result.dim() < mask.dim():
        refuse(name)  # max() of one tensor is no pointwise operator
    return build(result, mask.expand(result.shape) if result.shape != mask.shape else mask)


FALLBACK.append(apply)


def _on_values(func: Any, first: MaskedTensor, args: tuple, kwargs: dict) -> Any:
    """A pointwise operator on sparse data: on the values, which lie where the mask does."""

    def values(a: Any) -> Any:
        if is_masked_tensor(a):
            return data_of(a).values()
        if isinstance(a, Tensor) and a.dim() > 0:
            refuse(plain_name(func))
        return a

    result = func(*map(values, args), **{k: values(v) for k, v in kwargs.items()})
    if is_in_place(func):
        return args[0]
    data, mask = first._masked_data, first._masked_mask
    if data.layout == _C.sparse_coo:
        made = sparse_coo_tensor(data.indices(), result, tuple(data.shape), is_coalesced=True)
    else:
        made = sparse_csr_tensor(data.crow_indices(), data.col_indices(), result, tuple(data.shape))
    return build(made, mask)


@form_of("where")
def where(condition: Tensor, input: Any = None, other: Any = None, **rest: Any) -> Tensor:
    """input where the condition holds, else other: the elements of both that are chosen count if they did."""
    if is_masked_tensor(condition) or not is_masked_tensor(input) or not is_masked_tensor(other):
        raise ValueError("where(): expected a condition that is no MaskedTensor, and two MaskedTensors")
    mask = _C.where(condition, input._masked_mask, other._masked_mask)
    return build(_C.where(condition, data_of(input), data_of(other)), mask)


@form_of("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Gives self the data and the mask of src."""
    if not is_masked_tensor(self) or not is_masked_tensor(src):
        raise ValueError("copy_(): expected two MaskedTensors")
    self._masked_data.copy_(src._masked_data)
    self._masked_mask = src._masked_mask
    self._bump_version()
    return self


@form_of("ones_like")
def ones_like(input: MaskedTensor, **kwargs: Any) -> Tensor:
    """Ones with the same mask."""
    return make(_C.ones_like(input._masked_data, **kwargs), input._masked_mask)


# -- reductions ------------------------------------------------------------------------------------------


def _kept(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Which results come from at least one element that counts."""
    if dim is None:
        return mask.any()
    kept = mask
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in sorted((d % mask.dim() for d in dims), reverse=True):
        kept = kept.any(d, keepdim)
    return kept


def _reductions(*names: str) -> None:
    for name in names:
        _reduction(name)


def _reduction(name: str) -> None:
    function = getattr(masked, name, None)

    def reduce(input: MaskedTensor, dim: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], bool):
            kwargs["keepdim"] = args[0]
        keepdim = bool(kwargs.get("keepdim", False))
        if input._masked_data.layout != _C.strided:
            input = to_dense(input)
        data, mask = data_of(input), input._masked_mask
        if name == "all":
            made = (data.to(_C.bool) | ~mask).all() if dim is None else (data.to(_C.bool) | ~mask).all(dim, keepdim)
        elif name in ("argmax", "argmin"):
            flat = data.reshape(-1) if dim is None else data
            made = function(
                flat, 0 if dim is None else dim, keepdim=keepdim, mask=mask.reshape(-1) if dim is None else mask
            )  # type: ignore[misc]
            made = made.to(data.dtype)
        else:
            named = {k: v for k, v in kwargs.items() if k in ("dtype", "unbiased", "correction") and v is not None}
            if name in ("var", "std"):
                data = _C.where(mask, data, _C.zeros((), dtype=data.dtype))  # nan - mean would be in its gradient
                correction = named.pop("correction", None)
                named.setdefault("unbiased", correction != 0 if correction is not None else True)
            made = function(data, dim, keepdim=keepdim, mask=mask, **named)  # type: ignore[misc]
        return build(made, _kept(mask, dim, keepdim))

    form_of(name)(reduce)


_reductions("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "all", "var", "std")


@form_of("softmax")
def softmax(input: MaskedTensor, dim: int, dtype: Any = None) -> Tensor:
    """The softmax over the elements that count."""
    return build(masked.softmax(data_of(input), dim, dtype=dtype, mask=input._masked_mask), input._masked_mask)


@form_of("log_softmax")
def log_softmax(input: MaskedTensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of softmax over the elements that count."""
    return build(masked.log_softmax(data_of(input), dim, dtype=dtype, mask=input._masked_mask), input._masked_mask)


FORMS[functional.softmax] = lambda input, dim, _stacklevel=3, dtype=None: softmax(input, dim, dtype)
FORMS[functional.log_softmax] = lambda input, dim, _stacklevel=3, dtype=None: log_softmax(input, dim, dtype)


# -- views, joins and layouts ----------------------------------------------------------------------------


def _on_both(*names: str) -> None:
    """Functions that only move elements: on data and mask alike."""
    for name in names:
        form_of(name)(_moving(name))


def _moving(name: str) -> Callable:
    def move(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_masked_tensor(input):
            refuse(name)
        data = getattr(data_of(input), name)
        mask = getattr(input._masked_mask, name)
        if callable(data):
            data, mask = data(*args, **kwargs), mask(*args, **kwargs)
        if isinstance(data, Tensor):
            return build(data, mask)
        return tuple(build(d, m) for d, m in zip(data, mask, strict=True))

    return move


_on_both(
    "t", "transpose", "swapaxes", "permute", "reshape", "view", "flatten", "unsqueeze", "squeeze", "expand", "select"
)
_on_both(
    "split", "chunk", "unbind", "narrow", "index_select", "contiguous", "clone", "unfold", "movedim", "flip", "T", "mT"
)
_on_both("diagonal", "roll", "repeat", "broadcast_to", "ravel", "unflatten", "__getitem__")
form_of("expand_as")(lambda self, other: self.expand(other.shape))
form_of("view_as")(lambda self, other: self.view(other.shape))


@form_of("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Masked tensors joined, data and masks."""
    _check_all("cat", tensors)
    return build(_C.cat([data_of(t) for t in tensors], dim), _C.cat([t._masked_mask for t in tensors], dim))  # type: ignore[arg-type, attr-defined]


@form_of("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Masked tensors side by side, data and masks."""
    _check_all("stack", tensors)
    return build(_C.stack([data_of(t) for t in tensors], dim), _C.stack([t._masked_mask for t in tensors], dim))  # type: ignore[arg-type, attr-defined]


def _check_all(name: str, tensors: Sequence[Tensor]) -> None:
    if not all(is_masked_tensor(t) for t in tensors):
        raise TypeError(f"{name}(): expected all tensors to be MaskedTensors")


def _converting(name: str) -> None:
    def convert(self: MaskedTensor, *args: Any, **kwargs: Any) -> Tensor:
        if getattr(self._masked_data, name)(*args, **kwargs) is self._masked_data:
            return self
        return build(getattr(data_of(self), name)(*args, **kwargs), self._masked_mask)

    form_of(name)(convert)


for _name in ("to", "double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu"):
    _converting(_name)


@form_of("to_dense")
def to_dense(self: MaskedTensor, dtype: Any = None, **rest: Any) -> MaskedTensor:
    """The same elements in strided tensors."""
    if self._masked_data.layout == _C.strided:
        return self
    return build(data_of(self).to_dense(), self._masked_mask.to_dense())


@form_of("to_sparse", "to_sparse_coo")
def to_sparse(self: MaskedTensor, *args: Any, **kwargs: Any) -> Tensor:
    """The same elements in coordinate form, held where they count."""
    return _in_layout(self, _C.sparse_coo)


@form_of("to_sparse_csr")
def to_sparse_csr(self: MaskedTensor, dense_dim: int | None = None) -> Tensor:
    """The same elements in rows, held where they count."""
    return _in_layout(self, _C.sparse_csr)


def _in_layout(t: MaskedTensor, layout: Any) -> Tensor:
    if t._masked_data.layout == layout:
        return t
    t = to_dense(t)
    mask = t._masked_mask.to_sparse(layout=layout)
    return build(data_of(t).sparse_mask(mask), mask)


for _name in ("to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr", "__getitem__"):
    setattr(MaskedTensor, _name, FORMS[getattr(Tensor, _name)])
