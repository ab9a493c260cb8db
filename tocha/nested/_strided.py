"""Nested tensors of strided layout: components of any sizes, held one after the other in one flat buffer.

The older of PyTorch's two layouts. What acts on every element runs on the buffer, the rest on one component after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeGuard

from tocha import _C, autograd
from tocha._core.forms import read_natively, registrar
from tocha._core.pointwise_names import is_in_place, plain_name, pointwise_names
from tocha.autograd.function import Function
from tocha.nested._internal.nested_tensor import Tensor, is_recorded, wrapped
from tocha.nn import functional
from tocha.overrides import DisableTorchFunctionSubclass

FORMS: dict[Any, Callable] = {}


class StridedNestedTensor(Tensor):
    """A batch of tensors whose sizes may differ in every dimension. tocha.nested.nested_tensor makes one."""

    _buffer: Tensor
    _component_sizes: tuple[tuple[int, ...], ...]

    @classmethod
    def __torch_function__(cls, func: Any, types: Sequence[type], args: tuple = (), kwargs: dict | None = None) -> Any:
        form = FORMS.get(func)
        if form is not None:
            return form(*args, **(kwargs or {}))
        return _pointwise(func, args, kwargs or {})

    layout = property(lambda self: _C.strided)
    is_nested = property(lambda self: True)
    is_sparse = property(lambda self: False)

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Refuses: sizes differ from component to component."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")

    def size(self, dim: int | None = None) -> Any:
        """The size of a dimension in which all components agree."""
        if dim is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
        d = wrapped(dim, self.dim())
        if d == 0:
            return len(self._component_sizes)
        found = {sizes[d - 1] for sizes in self._component_sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {d} is irregular and does not have a size.")
        return found.pop()

    def stride(self, dim: int | None = None) -> Any:
        """Refuses: components have strides, the batch has none."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def numel(self) -> int:
        """How many elements the components have together."""
        return self._buffer.numel()

    nelement = numel

    def is_contiguous(self, memory_format: Any = _C.contiguous_format) -> bool:
        """True: components follow each other."""
        return True

    def values(self) -> Tensor:
        """The elements of all components, one after the other."""
        return buffer_of(self) if is_recorded(self) else self._buffer.detach()

    def _nested_tensor_size(self) -> Tensor:
        return _C.tensor(self._component_sizes, dtype=_C.int64)

    def __len__(self) -> int:
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")

    def __iter__(self) -> Any:
        return iter(components(self))

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        shown = components(make(self._buffer.detach(), self._component_sizes))
        parts = ["  " + str(part.detach().requires_grad_(self.requires_grad)).replace("\n", "\n  ") for part in shown]
        ends = ""
        if self.grad_fn is not None:
            ends = f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            ends = ", requires_grad=True"
        return "nested_tensor([\n" + ",\n".join(parts) + f"\n]{ends})"

    __str__ = __repr__

    def __getitem__(self, index: Any) -> Tensor:
        first, *rest = index if isinstance(index, tuple) else (index,)
        if not isinstance(first, int):
            refuse("__getitem__")
        part = components(self)[first]
        return part[tuple(rest)] if rest else part

    def _map_components(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """f of each component."""
        return from_components([f(part) for part in components(self)])

    def __deepcopy__(self, memo: dict) -> Tensor:
        return memo.setdefault(
            id(self), make(self._buffer.clone(), self._component_sizes).requires_grad_(self.requires_grad)
        )


def rebuild(buffer: Any, sizes: Any, strides: Any, starts: Any) -> Tensor:
    """A nested tensor from a file: each component is a view of the buffer, that has to lie within it."""
    if not all(isinstance(t, Tensor) for t in (buffer, sizes, strides, starts)) or buffer.dim() != 1:
        raise ValueError("a nested tensor is made of a flat tensor, and of tensors of sizes, strides and starts")
    places = zip(sizes.tolist(), strides.tolist(), starts.tolist(), strict=True)
    if not sizes.numel():
        return make(buffer, [() for _ in range(starts.numel())])
    return from_components([_component(buffer, *place) for place in places])


def _component(buffer: Tensor, size: list, stride: list, start: int) -> Tensor:
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    if min([0, start, *size, *stride]) < 0 or start + reach > buffer.numel():
        raise ValueError(f"a component of size {size} at {start} is not within {buffer.numel()} elements")
    return buffer.as_strided(size, stride, buffer.storage_offset() + start)


def refuse(name: str) -> NoReturn:
    """Says that an operation has no form for nested tensors."""
    raise NotImplementedError(
        f"[{name}] Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend: "
        "there is no form for nested tensors; unbind() gives their components"
    )


def make(buffer: Tensor, sizes: Sequence[Sequence[int]]) -> StridedNestedTensor:
    """A nested tensor of components of these sizes, without history."""
    kept = tuple(tuple(one) for one in sizes)
    if sum(math.prod(one) for one in kept) != buffer.numel():
        raise RuntimeError(f"[nested_tensor] components of sizes {list(kept)} do not make {buffer.numel()} elements")
    dims = len(kept[0]) if kept else 0
    with DisableTorchFunctionSubclass():
        shape = _C.zeros((), dtype=buffer.dtype, device=buffer.device).expand(
            [len(kept), buffer.numel(), *[1] * dims][: dims + 1]
        )
        made: StridedNestedTensor = Tensor._make_subclass(StridedNestedTensor, shape, False)
    made._buffer, made._component_sizes = buffer.detach().reshape(-1), kept
    return made._mark_sparse()


def is_strided_nested(t: Any) -> TypeGuard[StridedNestedTensor]:
    """Whether t is a nested tensor of strided layout."""
    return isinstance(t, StridedNestedTensor)


def buffer_of(t: StridedNestedTensor) -> Tensor:
    """The elements, with the history of t."""
    return _Buffer.apply(t) if is_recorded(t) else t._buffer


def build(buffer: Tensor, sizes: Sequence[Sequence[int]]) -> StridedNestedTensor:
    """A nested tensor with the history of its elements."""
    return _Build.apply(buffer, tuple(tuple(s) for s in sizes)) if is_recorded(buffer) else make(buffer, sizes)


class _Buffer(Function):
    """A nested tensor to its elements."""

    @staticmethod
    def forward(ctx: Any, t: StridedNestedTensor) -> Tensor:
        ctx.sizes = t._component_sizes
        return t._buffer.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return build(grad, ctx.sizes)


class _Build(Function):
    """Elements to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, buffer: Tensor, sizes: tuple) -> Tensor:
        return make(buffer, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return buffer_of(grad) if is_strided_nested(grad) else None, None


def from_components(parts: Sequence[Tensor]) -> StridedNestedTensor:
    """A nested tensor of components, with their histories."""
    if not parts:
        return make(_C.empty(0), ())
    return build(_C.cat([part.reshape(-1) for part in parts]), [part.shape for part in parts])


def components(t: StridedNestedTensor) -> tuple:
    """The components, views of the buffer."""
    counts = [math.prod(sizes) for sizes in t._component_sizes]
    return (
        tuple(part.reshape(sizes) for part, sizes in zip(buffer_of(t).split(counts), t._component_sizes, strict=True))
        if counts
        else ()
    )


form_of = registrar(FORMS)
read_natively(
    FORMS, "dtype", "device", "ndim", "requires_grad", "is_leaf", "grad_fn", "grad", "retains_grad", "output_nr"
)
read_natively(
    FORMS, "_version", "_base", "_backward_hooks", "itemsize", "is_cpu", "is_meta", "is_cuda", "dim", "ndimension"
)
read_natively(FORMS, "element_size", "is_floating_point", "is_complex", "is_inference", "get_device", "requires_grad_")
read_natively(FORMS, "retain_grad", "register_hook", "_bump_version", "__format__", "__dir__", "is_quantized")
form_of("size")(lambda self, dim=None: StridedNestedTensor.size(self, dim))
form_of("numel", "nelement")(lambda self: self._buffer.numel())
form_of("is_nested")(lambda self: True)
form_of("is_sparse")(lambda self: False)
form_of("layout")(lambda self: _C.strided)
form_of("contiguous")(lambda self, memory_format=None: self)
form_of("detach")(lambda self: make(self._buffer, self._component_sizes))


@form_of("backward")
def _backward(
    self: Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _converting(name: str) -> None:
    def convert(self: StridedNestedTensor, *args: Any, **kwargs: Any) -> Tensor:
        if getattr(self._buffer, name)(*args, **kwargs) is self._buffer:
            return self
        return build(getattr(buffer_of(self), name)(*args, **kwargs), self._component_sizes)

    form_of(name)(convert)


for _name in ("to", "double", "float", "half", "bfloat16", "long", "int", "bool", "cpu"):
    _converting(_name)


@form_of("unbind")
def unbind(input: StridedNestedTensor, dim: int = 0) -> tuple:
    """The components."""
    if dim != 0:
        raise RuntimeError(f"unbind(): NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return components(input)


form_of("select")(lambda input, dim, index: components(input)[index] if dim == 0 else refuse("select"))
form_of("__getitem__")(lambda self, index: StridedNestedTensor.__getitem__(self, index))


def to_padded_tensor(self: StridedNestedTensor, padding: float, output_size: Any = None) -> Tensor:
    """All components in one tensor, filled up with `padding`."""
    parts = components(self)
    if not parts:
        return self._buffer.reshape(0)
    sizes = [max(sizes) for sizes in zip(*self._component_sizes, strict=True)]
    if output_size is not None:
        if len(output_size) != len(sizes) + 1:
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        wanted = list(output_size)[1:]
        if any(n < least for n, least in zip(wanted, sizes, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        sizes = wanted
    return _C.stack([_padded(part, sizes, padding) for part in parts])


def _padded(part: Tensor, sizes: Sequence[int], padding: float) -> Tensor:
    ends: list[int] = []
    for have, want in zip(reversed(part.shape), reversed(sizes), strict=True):
        ends += [0, want - have]
    return functional.pad(part, ends, value=padding)


StridedNestedTensor.to_padded_tensor = to_padded_tensor  # type: ignore[attr-defined]


def _pointwise(func: Any, args: tuple, kwargs: dict) -> Any:
    """A pointwise operator, on the buffer."""
    name = plain_name(func)
    if name not in pointwise_names():
        refuse(name)
    first = next(a for a in (*args, *kwargs.values()) if is_strided_nested(a))

    def flat(a: Any) -> Any:
        if is_strided_nested(a):
            if a._component_sizes != first._component_sizes:
                raise RuntimeError(
                    f"{name} does not support broadcasting when given a NestedTensor: got components of different sizes"
                )
            return buffer_of(a)
        if isinstance(a, Tensor) and a.dim() > 0:
            raise RuntimeError(
                f"Expected both self and other to be nested, but got a nested self and non-nested other, in {name}"
            )
        return a

    result = func(*map(flat, args), **{k: flat(v) for k, v in kwargs.items()})
    if is_in_place(func):
        return args[0]
    return build(result, first._component_sizes) if isinstance(result, Tensor) else result


def _by_component(name: str, home: Any = _C) -> None:
    """A function that runs on one component after the other: a dimension is one less there."""
    function = getattr(home, name)

    def run(input: StridedNestedTensor, *args: Any, **kwargs: Any) -> Tensor:
        return from_components([function(part, *args, **kwargs) for part in components(input)])

    form_of(name)(run)
    FORMS[function] = run


for _name in ("linear", "dropout", "gelu", "layer_norm"):
    if hasattr(_C._nn, _name):
        _by_component(_name, _C._nn)
for _function in (functional.dropout, functional.gelu, functional.layer_norm, functional.relu):
    FORMS.setdefault(
        _function,
        lambda input, *args, _f=_function, **kwargs: from_components(
            [_f(part, *args, **kwargs) for part in components(input)]
        ),
    )


@form_of("softmax")
def softmax(input: StridedNestedTensor, dim: int, dtype: Any = None) -> Tensor:
    """The softmax of each component along a dimension."""
    d = wrapped(dim, input.dim())
    if d == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return from_components([_C.softmax(part, d - 1, dtype=dtype) for part in components(input)])


FORMS[functional.softmax] = lambda input, dim, _stacklevel=3, dtype=None: softmax(input, dim, dtype)


@form_of("transpose")
def transpose(input: StridedNestedTensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions of each component exchanged."""
    a, b = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    if 0 in (a, b) and a != b:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    return from_components([part.transpose(a - 1, b - 1) for part in components(input)])


@form_of("bmm", "matmul", "__matmul__")
def bmm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The products of components."""
    if not is_strided_nested(input) or not is_strided_nested(other):
        raise RuntimeError("Expected both to be nested, but got a nested self and non-nested other")
    return from_components([a @ b for a, b in zip(components(input), components(other), strict=True)])


@form_of("chunk")
def chunk(input: StridedNestedTensor, chunks: int, dim: int = 0) -> tuple:
    """Pieces of each component along its last dimension."""
    if wrapped(dim, input.dim()) != input.dim() - 1:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    pieces = [part.chunk(chunks, -1) for part in components(input)]
    return tuple(from_components(group) for group in zip(*pieces, strict=True))


def _viewing(name: str) -> None:
    def view(input: StridedNestedTensor, *shape: Any) -> Tensor:
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if sizes[0] != len(input._component_sizes):
            raise RuntimeError(f"{name}: For now nested view cannot change or infer the implicit batch dimension")
        # -1 keeps a dimension that the component has
        made = []
        for part in components(input):
            inner = [part.size(i) if n == -1 and i < part.dim() else n for i, n in enumerate(sizes[1:])]
            made.append(part.reshape(inner))
        return from_components(made)

    form_of(name)(view)


_viewing("view")
_viewing("reshape")


@form_of("sum")
def sum_of_rows(input: StridedNestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum along the last dimension of each component, which is kept."""
    if dim is None:
        refuse("sum")
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    d = wrapped(dim if isinstance(dim, int) else dim[0], input.dim())
    if d != input.dim() - 1:
        raise RuntimeError("NestedTensor only allows reduction of the last dimension for now.")
    return from_components([part.sum(-1, keepdim=True, dtype=dtype) for part in components(input)])
