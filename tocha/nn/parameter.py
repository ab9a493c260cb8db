"""Parameter and Buffer: tensors that modules register; and those whose shape is not known yet."""

from __future__ import annotations

from typing import Any

from tocha import _C

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]

Tensor = _C.Tensor


class _ParameterMeta(type):
    # A custom tensor marked with _is_param counts as a Parameter.
    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that requires gradients and belongs to a module's parameters when assigned to it.

    >>> import tocha
    >>> tocha.nn.Parameter(tocha.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True):
        if data is None:
            data = _C.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if not isinstance(marked, Parameter):
            marked._is_param = True  # type: ignore[attr-defined]
        return marked

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.detach().clone(memory_format=_C.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object):
        return _rebuild_parameter, (self.detach(), self.requires_grad, self.__dict__ or None)

    __torch_function__ = _C._disabled_torch_function_impl


def _rebuild_parameter(data: Tensor, requires_grad: bool, state: dict | None = None) -> Parameter:
    p = Parameter(data, requires_grad)
    if state:
        p.__dict__.update(state)
    return p


class _BufferMeta(type):
    # Buffers are plain tensors with a mark.
    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False):
            return True
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    >>> import tocha
    >>> m = tocha.nn.Module()
    >>> m.mean = Buffer(tocha.zeros(2), persistent=False)
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True):
        if data is None:
            data = _C.empty(0)
        marked: Any = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked

    __torch_function__ = _C._disabled_torch_function_impl


_NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` "
    "when trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters "
    "before accessing their attributes."
)
_NOT_YET = (
    "Attempted to use an uninitialized parameter in {}. This error happens when you are using a `LazyModule` or "
    "explicitly manipulating `tocha.nn.parameter.{}` objects. When using LazyModules Call `forward` with a dummy batch "
    "to initialize the parameters before calling tocha functions"
)


class UninitializedTensorMixin:
    """What parameters and buffers without a shape share: `materialize` gives them one.

    >>> isinstance(tocha.nn.UninitializedParameter(), tocha.nn.parameter.UninitializedTensorMixin)
    True
    """

    cls_to_become: type
    data: Any
    # What can be asked of them before they have a shape.
    _allowed_methods = frozenset(
        {
            "__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char", "short", "int",
            "long", "cuda", "cpu", "to", "get_device", "__get__", "__set__", "__delete__",
        }
    )  # fmt: skip

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives the tensor memory of a shape, of its own device and dtype unless told others; its values are arbitrary.

        >>> import tocha
        >>> p = UninitializedParameter()
        >>> p.materialize((2, 3))
        >>> p.shape
        tocha.Size([2, 3])
        """
        data = self.data
        self.data = _C.empty(shape, device=device or data.device, dtype=dtype or data.dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> Any:
        raise RuntimeError(_NO_SHAPE)

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: object) -> Any:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if getattr(func, "__name__", "") not in cls._allowed_methods:
            raise ValueError(_NOT_YET.format(func, cls.__name__))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]


def is_lazy(param: object) -> bool:
    """Whether a parameter or buffer has no shape yet.

    >>> tocha.nn.parameter.is_lazy(tocha.nn.LazyLinear(3).weight), tocha.nn.parameter.is_lazy(tocha.nn.Linear(2, 3).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc, override]
    """A parameter whose shape the first input tells; see LazyModuleMixin.

    >>> UninitializedParameter()
    <UninitializedParameter>
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Tensor._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc, override]
    """A buffer whose shape the first input tells; see LazyModuleMixin.

    >>> UninitializedBuffer()
    <UninitializedBuffer>
    """

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        marked = Tensor._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked
