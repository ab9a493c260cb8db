"""Parameter: a tensor that modules register and optimizers train."""

from __future__ import annotations

from tocha import _C

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
        marked._is_param = True  # type: ignore[attr-defined]
        return marked

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=_C.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: object):
        return _rebuild_parameter, (self.data, self.requires_grad, self.__dict__ or None)

    __torch_function__ = _C._disabled_torch_function_impl


def _rebuild_parameter(data: Tensor, requires_grad: bool, state: dict | None = None) -> Parameter:
    p = Parameter(data, requires_grad)
    if state:
        p.__dict__.update(state)
    return p
