"""What the native Tensor class gets from Python: printing, pickling, copying, subclass behaviour."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tocha import _C, autograd, overrides
from tocha._core.library_name import is_ours
from tocha._core.saved_state import set_state
from tocha._tensor import methods, sparse, types
from tocha._tensor_str import tensor_repr
from tocha.nn import functional
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.storage import _warn_typed_storage_removal, typed_storage
from tocha.utils.hooks import RemovableHandle

Tensor = _C.Tensor


def _rebuild(storage, dtype, offset, size, stride, requires_grad, cls=None, state=None):
    t = _C.empty(0, dtype=dtype, device=storage.device)
    t.set_(storage, offset, size, stride)
    if cls is not None and cls is not Tensor:
        t = t.as_subclass(cls)
    if requires_grad:
        t.requires_grad_(True)
    if state:
        t.__dict__.update(state)
    return t


def _reduce_ex(self, protocol: int):
    if self.is_conj() or self.is_neg():
        self = self.resolve_conj().resolve_neg()
    cls = None if type(self) is Tensor else type(self)
    args = (
        self.untyped_storage(),
        self.dtype,
        self.storage_offset(),
        tuple(self.size()),
        self.stride(),
        self.requires_grad,
        cls,
        self.__dict__ or None,
    )
    return _rebuild, args


def _rebuild_from_type_v2(function, new_type, args, state):
    """A tensor of a class of its own, or with attributes, as files hold it."""
    t = function(*args)
    if type(t) is not new_type:
        t = t.as_subclass(new_type)
    if hasattr(new_type, "__setstate__"):
        t.__setstate__(state)
        return t
    return set_state(t, state)


def _deepcopy(self, memo: dict):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    with DisableTorchFunctionSubclass():
        storage = copy.deepcopy(self.untyped_storage(), memo)
        new = _C.empty(0, dtype=self.dtype, device=self.device)
        new.set_(storage, self.storage_offset(), self.size(), self.stride())
        if self.is_conj():
            new = new.conj()
        if type(self) is not Tensor:
            new = new.as_subclass(type(self))
        if self.requires_grad:
            new.requires_grad_(True)
        if self.grad is not None:
            new.grad = copy.deepcopy(self.grad, memo)
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return new


def _convert(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor) and type(result) is not cls:
        return result.as_subclass(cls)
    if isinstance(result, tuple | list):
        items = [_convert(r, cls) for r in result]
        return type(result)(items)
    return result


def _torch_function(cls, func, types, args=(), kwargs=None):
    """The default for subclasses: run the function, give results the subclass's type."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    func = _own(func)
    if func is None:
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    if func in _returns_plain():
        return result
    return _convert(result, cls)


def _own(func):
    """PyTorch's functions ask our tensors too, by this protocol: they mean ours of the same name. None if there is none."""
    module = getattr(func, "__module__", None) or ""
    if module.partition(".")[0] != "torch" or is_ours(module):
        return func
    name = getattr(func, "__name__", "")
    return getattr(functional, name, None) or getattr(_C, name, None)


_plain: set | None = None


def _returns_plain() -> set:
    """Attributes whose value keeps its own type."""
    global _plain
    if _plain is None:
        _plain = {vars(Tensor)["grad"].__get__, vars(Tensor)["_base"].__get__}
    return _plain


def _format(self, spec: str) -> str:
    if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _dir(self) -> list[str]:
    return sorted(k for k in {*dir(type(self)), *self.__dict__})


def _array_wrap(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array)


def _typed_storage(self):
    return typed_storage(self.untyped_storage(), self.dtype)


def _storage(self):
    """The memory, as elements of self's dtype; `untyped_storage` is the one to use.

    >>> tocha.ones(2).storage().tolist()
    [1.0, 1.0]
    """
    _warn_typed_storage_removal()
    return _typed_storage(self)


def _share_memory(self):
    """Moves the storage to memory that other processes can open; returns self.

    >>> x = tocha.ones(2).share_memory_()
    >>> x.is_shared()
    True
    """
    self.untyped_storage().share_memory_()
    return self


def _is_shared(self) -> bool:
    """Whether other processes can have the same memory.

    >>> tocha.ones(2).is_shared()
    False
    >>> tocha.ones(2).share_memory_().is_shared()
    True
    """
    return False if self.is_meta else self.untyped_storage().is_shared()


def _is_pinned(self, device=None) -> bool:
    """Whether the memory is locked in place for transfers to a device.

    >>> tocha.ones(2).is_pinned()
    False
    """
    return False if self.is_meta else self.untyped_storage().is_pinned()


def _pin_memory(self, device=None):
    """A copy in memory that is locked in place for transfers to a device; needs one."""
    raise RuntimeError("[pin_memory] Cannot access accelerator device when none is available.")


def _cuda(self, device=None, non_blocking=False, memory_format=None):
    """A copy on a CUDA device."""
    where = "cuda" if device is None else _C.device(device if not isinstance(device, int) else f"cuda:{device}")
    return self.to(where, non_blocking=non_blocking)


def _reversed(self):
    return self if self.dim() == 0 else self.flip(0)


def _new(self, *args, **kwargs):
    """The old constructor with self's dtype; new_empty and new_tensor say what they do.

    >>> tocha.ones(1, dtype=tocha.float64).new([1, 2])
    tensor([1., 2.], dtype=tocha.float64)
    """
    if self.is_meta:
        return self.new_empty(*args, **kwargs)
    return types.construct(self.dtype, args, kwargs)


def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A tensor of the data, with self's dtype and device where no others are given.

    >>> tocha.ones(1, dtype=tocha.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=tocha.float64)
    """
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def _backward(self, gradient=None, retain_graph=None, create_graph: bool = False, inputs=None) -> None:
    """Adds the gradients of self to the grad of the leaves it came from."""
    if overrides.has_torch_function((self,)):
        overrides.handle_torch_function(
            Tensor.backward,
            (self,),
            self,
            gradient=gradient,
            retain_graph=retain_graph,
            create_graph=create_graph,
            inputs=inputs,
        )
        return
    autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _register_hook(self, hook):
    """hook(grad) runs when the gradient of self is complete; what it returns replaces the gradient.

    >>> x = tocha.tensor([1.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> (x * 2).backward()
    >>> x.grad
    tensor([20.])
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._backward_hooks is None:
        self._backward_hooks = OrderedDict()
        if self.grad_fn is not None:
            self._register_hook_dict()
    handle = RemovableHandle(self._backward_hooks)
    self._backward_hooks[handle.id] = hook
    return handle


def _register_post_accumulate_grad_hook(self, hook):
    """hook(tensor) runs once a backward has added to a leaf's grad.

    >>> x = tocha.tensor([1.0], requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda p: print("grad is", p.grad))
    >>> (x * 2).backward()
    grad is tensor([2.])
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_accumulate_grad_hooks is None:
        self._post_accumulate_grad_hooks = OrderedDict()
    handle = RemovableHandle(self._post_accumulate_grad_hooks)
    self._post_accumulate_grad_hooks[handle.id] = hook
    return handle


def _reinforce(self, reward):
    raise RuntimeError("reinforce() was removed: use tocha.distributions instead")


def _divided_by(self, other):
    """other / self."""
    return self.__rtruediv__(other)


def _repr(self, *, tensor_contents=None) -> str:
    return tensor_repr(self, tensor_contents=tensor_contents)


def install() -> None:
    """Puts the Python parts onto the class; called once by `import tocha`."""
    attributes = {
        "__torch_function__": classmethod(_torch_function),
        "__array_priority__": 1000,
        "__div__": Tensor.__truediv__,
        "__idiv__": Tensor.__itruediv__,
        "__module__": "tocha",
        "_typed_storage": _typed_storage,  # overrides get the untyped one that it asks for
    }
    own: dict[str, Callable] = {
        "__repr__": _repr,
        "__reduce_ex__": _reduce_ex,
        "__deepcopy__": _deepcopy,
        "__format__": _format,
        "__dir__": _dir,
        "__array_wrap__": _array_wrap,
        "__reversed__": _reversed,
        "__rdiv__": _divided_by,
        "storage": _storage,
        "share_memory_": _share_memory,
        "is_shared": _is_shared,
        "is_pinned": _is_pinned,
        "pin_memory": _pin_memory,
        "cuda": _cuda,
        "new": _new,
        "new_tensor": _new_tensor,
        "type": types.type_of,
        "register_hook": _register_hook,
        "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
        "reinforce": _reinforce,
    }
    for name, value in attributes.items():
        setattr(Tensor, name, value)
    for name, method in own.items():
        overrides.add_method(name, method)
    methods.install()
    sparse.install()
