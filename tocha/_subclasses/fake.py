"""FakeTensor: a Tensor for every check, with sizes, strides, dtype, device and history, and without elements.

Its facts (tocha.operators.facts) are the truth; the native part repeats them where they are plain ints, and holds what
autograd knows. Where a size is a symbol the native part has no shape that anybody could read.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._subclasses.convert import bytes_needed, is_symbolic_geometry, native_device, native_dtype, normalised
from tocha._subclasses.history import record_as_part
from tocha.operators.facts import Facts, Memory

Tensor = _C.Tensor
CONSTANT_NUMEL_LIMIT = 1  # how many elements are kept of a tensor whose values are known


def version_of(t: Any) -> int:
    """How often a tensor was written to; those of inference mode do not count it."""
    return 0 if t.is_inference() else t._version


class outside:
    """Calls made here are real: no mode takes them."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _C._set_fake_mode(False)
        _C._disable_dispatch(1)

    def __exit__(self, *_: object) -> None:
        _C._disable_dispatch(-1)
        _C._set_fake_mode(self.before)


META = _C.device("meta")


class FakeStorage(_C.UntypedStorage):
    """Memory that is not there. It may have a symbolic size, which is computed when somebody asks."""

    first: Facts | None = None  # the tensor that it was made for

    def nbytes(self) -> Any:
        f = self.first
        return super().nbytes() if f is None else bytes_needed(f.sizes, f.steps, f.offset, f.dtype.itemsize)

    size = nbytes


def storage_of(f: Facts) -> Any:
    """What shows a tensor's memory in Python, made when it is first shown."""
    memory = f.memory
    if memory.storage is None:
        n = memory.nbytes
        if n is None and not is_symbolic_geometry(f):
            n = bytes_needed(f.sizes, f.steps, f.offset, f.dtype.itemsize)
        memory.storage = FakeStorage(n if type(n) is int else 0, device=META)
        if type(n) is not int:
            memory.storage.first = f
    return memory.storage


class FakeTensor(Tensor):
    """A tensor of a FakeTensorMode.

    >>> import tocha
    >>> from tocha._subclasses import FakeTensorMode
    >>> with FakeTensorMode():
    ...     tocha.ones(2, 3) @ tocha.ones(3, 4)
    FakeTensor(..., size=(2, 4))
    """

    fake_mode: Any
    _facts: Facts
    _symbolic: bool
    _constant: Any = None
    lifted_from: Any = None  # the real tensor of Python's data that it was made for
    item_memo: Any = None
    item_version: int = -1

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(
        cls,
        fake_mode_or_elem: Any = None,
        elem: Tensor | None = None,
        device: Any = None,
        constant: Tensor | None = None,
        *,
        fake_mode: Any = None,
        fake_device: Any = None,
        requires_grad: bool | None = None,
        **others: Any,
    ) -> FakeTensor:
        """A fake of a meta tensor, as if it were on a device."""
        mode = fake_mode if fake_mode is not None else fake_mode_or_elem
        shown = elem if elem is not None else fake_mode_or_elem
        if not isinstance(shown, Tensor) or mode is shown:
            raise TypeError("FakeTensor(fake_mode, elem, device): a mode and a meta tensor are needed")
        where = device if device is not None else fake_device
        f = mode.facts_of(shown)
        if where is not None:
            f.device = normalised(_C.device(where))
        made = new(mode, f)
        if constant is not None:
            made.constant = constant
        wants = shown.requires_grad if requires_grad is None else requires_grad
        if wants:
            made.requires_grad_()
        return made

    @property
    def fake_device(self) -> _C.device:
        return self.device

    @property
    def constant(self) -> Tensor | None:
        """The real tensor, where its elements are known and nobody has written to it since."""
        memory = self._facts.memory
        return self._constant if memory.known_at == memory.version else None

    @constant.setter
    def constant(self, value: Tensor | None) -> None:
        self._constant = value
        if value is not None:
            self._facts.memory.known_at = self._facts.memory.version

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Operators below autograd: the same interpreter, nothing recorded. Wrappers around fakes know better."""
        if any(not issubclass(t, FakeTensor) for t in types):
            return NotImplemented
        found = [
            v
            for given in (*args, *(kwargs or {}).values())
            for v in (given if isinstance(given, list | tuple) else [given])
        ]
        mode = next(v.fake_mode for v in found if isinstance(v, FakeTensor))
        return mode.dispatch(func, types, args, kwargs or {})

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: Any) -> FakeTensor:
        return fake_mode.from_tensor(t)

    @classmethod
    def _kept_gradient(cls, grad: FakeTensor, variable: Tensor) -> Tensor:
        """A gradient as a leaf keeps it: laid out as the leaf is where that is dense."""
        if _C.is_grad_enabled():
            return grad
        return laid_out_as(grad, variable)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        parts = ["..."]
        if self.device.type != "cpu":
            parts.append(f"device='{self.device}'")
        sizes = ", ".join(map(str, self._facts.sizes))
        parts.append(f"size=({sizes},)" if len(self._facts.sizes) == 1 else f"size=({sizes})")
        default = _C.get_default_dtype()
        if self.dtype not in (default, _C.bool) or (self.dtype is _C.bool and default is not _C.bool):
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            name = self.grad_fn.name() if hasattr(self.grad_fn, "name") else type(self.grad_fn).__name__
            parts.append(f"grad_fn=<{name}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _renew_history(self) -> None:
        record_as_part(self)

    def _settle(self) -> None:
        """Makes symbols of the geometry plain numbers, with a guard for each: native code is to read them."""
        f = self._facts
        f.sizes, f.steps, f.offset = tuple(map(int, f.sizes)), tuple(map(int, f.steps)), int(f.offset)
        refresh(self)

    __hash__ = Tensor.__hash__

    def __deepcopy__(self, memo: dict) -> FakeTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        f = self._facts
        copied = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, Memory(f.memory.nbytes), f.conjugated, f.negated)
        made = new(self.fake_mode, copied)
        if self.constant is not None:
            with outside():
                made.constant = self.constant.clone()
        made.requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            made._is_param = True  # type: ignore[attr-defined]
        if self.grad is not None:
            made.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        raise AttributeError("Can't pickle a FakeTensor: it has no elements, and its mode belongs to this process")


def new(mode: Any, f: Facts, view_of: Tensor | None = None, shares: bool = False) -> FakeTensor:
    """The tensor with these facts; `view_of` is one on the same memory, of which it is a view or, with `shares`, not."""
    storage = storage_of(f)
    made = _C._new_fake(
        FakeTensor, f.sizes, f.steps, f.offset, native_dtype(f.dtype), native_device(f.device), storage, view_of,
        f.conjugated, f.negated, shares,
    )  # fmt: skip
    state = made.__dict__
    state["fake_mode"] = mode
    state["_facts"] = f
    state["_symbolic"] = is_symbolic_geometry(f)
    return made


def refresh(t: FakeTensor) -> None:
    """The native part takes the geometry that the facts have now."""
    f = t._facts
    t._symbolic = is_symbolic_geometry(f)
    _C._set_fake_geometry(t, f.sizes, f.steps, f.offset, storage_of(f))


def laid_out_as(grad: FakeTensor, variable: Tensor) -> Tensor:
    f = grad._facts
    wanted = variable._facts.steps if isinstance(variable, FakeTensor) else variable.stride()
    if tuple(f.steps) == tuple(wanted) and f.base is None:
        return grad.detach() if grad.requires_grad else grad
    made = Facts(f.sizes, f.dtype, f.device, wanted if dense(variable) else None)
    return new(grad.fake_mode, made)


def dense(t: Tensor) -> bool:
    f = t._facts if isinstance(t, FakeTensor) else None
    if f is not None and t._symbolic:
        return f.is_contiguous()
    if t.is_contiguous():
        return True
    order = sorted((i for i in range(t.dim()) if t.shape[i] != 1), key=lambda i: t.stride(i))
    step = 1
    for i in order:
        if t.stride(i) != step:
            return False
        step *= t.shape[i]
    return True
