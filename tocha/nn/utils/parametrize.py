"""Parameters computed from others: `module.weight` becomes a function of what is really trained.

A parametrized module gets a class of its own, in which the tensor is a property; the originals and the functions live
in `module.parametrizations`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn.modules.container import ModuleDict, ModuleList
from tocha.nn.modules.module import Module
from tocha.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

Tensor = _C.Tensor

_cache_depth = 0
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """While active, each parametrized tensor is computed once.

    Worth it where a network uses a parametrized tensor many times in one pass.

    >>> m = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(2, 3))
    >>> with tocha.nn.utils.parametrize.cached():
    ...     m.weight is m.weight
    True
    """
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _put(target: Tensor, value: Tensor) -> None:
    """target, which stays the same object, gets value's memory."""
    if value is not target:
        target.data = value.detach()


def _differs(what: str, one: str, a: Any, other: str, b: Any) -> ValueError:
    return ValueError(f"{what}\n{one}: {a}\n{other}: {b}")


class ParametrizationList(ModuleList):
    """The functions that make a tensor, one after the other, and the tensors they start from.

    These are `original`, or `original0`, `original1`, ... where the first function takes several.

    >>> m = tocha.nn.utils.parametrizations.orthogonal(tocha.nn.Linear(2, 2))
    >>> type(m.parametrizations.weight).__name__
    'ParametrizationList'
    >>> m.parametrizations.weight.original.shape
    tocha.Size([2, 2])
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self._inverted(original)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if original.dtype != start.dtype:
                raise _differs(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.",
                    "original.dtype",
                    original.dtype,
                    "right_inverse(original).dtype",
                    start.dtype,
                )
            if original.device != start.device:
                raise _differs(
                    "When `right_inverse` outputs one tensor, it may not change the device.",
                    "original.device",
                    original.device,
                    "right_inverse(original).device",
                    start.device,
                )
            with no_grad():
                _put(original, start)
            _register(self, "original", original)
        else:
            for i, tensor in enumerate(start):
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), original.requires_grad and _can_train(tensor))
                _register(self, f"original{i}", tensor)
        if not unsafe:
            self._check_result(shape, dtype)

    def _inverted(self, value: Any) -> Any:
        """What the functions would have to start from to give value; functions that cannot tell are passed over."""
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        value = module.right_inverse(value)
        if not isinstance(value, Tensor) and not isinstance(value, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        for i, element in enumerate(() if isinstance(value, Tensor) else value):
            if not isinstance(element, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(element).__name__}."
                )
        return value

    def _check_result(self, shape: Any, dtype: _C.dtype) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        for kind, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
            if before != after:
                raise _differs(
                    f"Registering a parametrization may not change the {kind} of the tensor, unless `unsafe` flag is "
                    "enabled.",
                    f"unparametrized {kind}",
                    before,
                    f"parametrized {kind}",
                    after,
                )

    @property
    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Changes the originals so that the functions give value; each must know its right inverse."""
        found: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            if self.is_tensor:
                found = [found]
            elif not isinstance(found, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(found).__name__}.")
            elif len(found) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(found)}."
                )
            for i, (original, tensor) in enumerate(zip(self._originals, found, strict=True)):
                self._check_original(i, original, tensor)
                _put(original, tensor)

    def _check_original(self, i: int, original: Tensor, tensor: Any) -> None:
        name = "original" if self.is_tensor else f"original{i}"
        if not isinstance(tensor, Tensor):
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(tensor).__name__}")
        if original.dtype != tensor.dtype:
            raise ValueError(
                f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while `{name}` has dtype {original.dtype}"
            )

    def forward(self) -> Tensor:
        """The tensor: the functions applied to the originals."""
        found = self[0](*self._originals)
        for module in list(self)[1:]:
            found = module(found)
        return found


def _can_train(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _no_pickling(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _copy_module(self: Any, memo: dict) -> Any:
    """A deep copy with a class of its own: what is done to its parametrizations does not reach the first."""
    if id(self) in memo:
        return memo[id(self)]
    cls: Any = type(self)
    replica = cls.__new__(cls)
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    own = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    replica.__class__ = type(cls)(cls.__name__, cls.__bases__, own)
    return replica


def _inject_new_class(module: Module) -> None:
    """Gives a module a class of its own, which can have properties."""
    cls: Any = type(module)
    members: dict[str, Any] = {"__getstate__": _no_pickling, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copy_module
    module.__class__ = type(cls)(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, tensor_name: str) -> None:
    def compute(self: Any) -> Tensor:
        if not _cache_depth:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if _cache.get(key) is None:
            _cache[key] = self.parametrizations[tensor_name]()
        return _cache[key]  # type: ignore[return-value]

    def assign(self: Any, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(compute, assign))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer of module a function of what is trained; returns module.

    A parametrization with `right_inverse` starts where the tensor was and allows assigning to it. unsafe=True leaves
    out the checks that shape and dtype stay.

    >>> import tocha
    >>> class Symmetric(tocha.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).transpose(-1, -2)
    >>> m = tocha.nn.ParameterDict({"w": tocha.arange(4.0).view(2, 2)})
    >>> m = register_parametrization(m, "w", Symmetric())
    >>> m.w.tolist()
    [[0.0, 1.0], [1.0, 3.0]]
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        parts: Any = module.parametrizations
        parts[tensor_name].append(parametrization)
        parts[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    """One more function after others must take and give such a tensor."""
    now = getattr(module, name)
    then = parametrization(now)
    if not isinstance(then, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(then).__name__}.")
    for kind in ("dtype", "shape"):
        before, after = getattr(now, kind), getattr(then, kind)
        if before != after:
            raise _differs(
                f"Registering a parametrization may not change the {kind} of the tensor, unless the `unsafe` flag is "
                "enabled.",
                f"module.{name}.{kind}",
                before,
                f"parametrization(module.{name}).{kind}",
                after,
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(then)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for kind in ("shape", "dtype"):
        before, after = getattr(now, kind), getattr(back, kind)
        if before != after:
            raise _differs(
                f"The tensor returned by parametrization.right_inverse must have the same {kind} as module.{name}, unless "
                "the `unsafe` flag is enabled.",
                f"module.{name}.{kind}",
                before,
                f"returned {kind}",
                after,
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one for a tensor of that name.

    >>> m = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(2, 3))
    >>> tocha.nn.utils.parametrize.is_parametrized(m)
    True
    >>> tocha.nn.utils.parametrize.is_parametrized(m, "bias")
    False
    """
    parts = getattr(module, "parametrizations", None)
    if not isinstance(parts, ModuleDict):
        return False
    return len(parts) > 0 if tensor_name is None else tensor_name in parts


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a tensor an ordinary parameter or buffer again; returns module.

    It keeps its present value, or (leave_parametrized=False) gets that of the original.

    >>> m = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(2, 3))
    >>> tocha.nn.utils.parametrize.remove_parametrizations(m, "weight")
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parts: Any = module.parametrizations
    parametrizations = parts[tensor_name]
    if parametrizations.is_tensor:
        tensor = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _put(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del parts[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without regard to parametrizations.

    >>> m = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(2, 3))
    >>> type(m).__name__, tocha.nn.utils.parametrize.type_before_parametrizations(m).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives to_module the parametrizations of from_module (of one tensor, or of all) with their originals.

    >>> a = tocha.nn.utils.parametrizations.weight_norm(tocha.nn.Linear(2, 3))
    >>> b = tocha.nn.utils.parametrize.transfer_parametrizations_and_params(a, tocha.nn.Linear(2, 3))
    >>> tocha.equal(a.weight, b.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    parts: Any = from_module.parametrizations
    for name in list(parts) if tensor_name is None else [tensor_name]:
        given = parts[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(given.original if given.is_tensor else getattr(from_module, name)))
        for function in given:
            register_parametrization(to_module, name, function, unsafe=given.unsafe)
        received: Any = to_module.parametrizations
        with no_grad():
            for mine, theirs in zip(received[name]._originals, given._originals, strict=True):
                _put(mine, theirs.detach().clone())
    return to_module
