"""Module, the base of all networks and layers: its parts, its walks, its conversions, its call.

Hooks are in _hooks.py, state_dict in _state.py.
"""

from __future__ import annotations

import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from tocha import _C
from tocha._functions.basics import typename as _typename
from tocha.nn.modules import _hooks
from tocha.nn.modules._conversion import converted as _converted
from tocha.nn.modules._conversion import parse_to as _parse_to
from tocha.nn.modules._hooks import (
    CompiledTable,
    add_hook,
    call_hooks,
    call_with_hooks,
    global_backward_hooks,
    global_backward_pre_hooks,
    global_buffer_registration_hooks,
    global_forward_hooks,
    global_forward_pre_hooks,
    global_module_registration_hooks,
    global_parameter_registration_hooks,
    passed_through,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from tocha.nn.modules._state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from tocha.nn.modules._state import StateDict, _IncompatibleKeys
from tocha.nn.parameter import Buffer, Parameter, is_lazy
from tocha.utils.hooks import RemovableHandle

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Tensor = _C.Tensor
T_destination = TypeVar("T_destination", bound=dict[str, Any])


def _addindent(text: str, spaces: int) -> str:
    """text with every line but the first indented."""
    return text.replace("\n", "\n" + " " * spaces)


def _forward_unimplemented(self: Any, *input: Any) -> NoReturn:
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(StateDict):
    """A network or a part of one: parameters, buffers, children, and a forward.

    Parameters and modules become parts of a module when they are assigned to its attributes.

    >>> import tocha
    >>> class Scale(tocha.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = tocha.nn.Parameter(tocha.tensor(2.0))
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> net = Scale()
    >>> net(tocha.ones(2)).tolist()
    [2.0, 2.0]
    >>> [name for name, _ in net.named_parameters()]
    ['factor']
    """

    call_super_init: bool = False
    T_destination: ClassVar = T_destination

    _modules: dict[str, Module | None]
    training: bool
    _backward_pre_hooks: OrderedDict[int, Callable]
    _backward_hooks: OrderedDict[int, Callable]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Written past __setattr__, which would look for parts that are not there yet.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---- the call ----

    _compiled_call_impl: Any = None  # set by compile()

    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it. Call the module itself rather than forward."""
        _forward_unimplemented(self)  # not the inputs: a traced one cannot be spread

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__  # one look-up instead of four: attributes of modules are slow to read
        try:
            hooked = (
                state["_backward_hooks"]
                or state["_backward_pre_hooks"]
                or state["_forward_hooks"]
                or state["_forward_pre_hooks"]
                or global_forward_hooks
                or global_forward_pre_hooks
                or global_backward_hooks
                or global_backward_pre_hooks
            )
        except KeyError as missing:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {missing}") from None
        if hooked:
            return call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_hooks(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles calls of this very module; the arguments are tocha.compile's."""
        compiled = sys.modules["tocha"].compile(
            self._call_impl, *args, **kwargs
        )  # the compiler is opened when asked for
        self.__dict__["_compiled_call_impl"] = compiled
        self.__dict__["_backward_hooks"] = CompiledTable(self.__dict__["_backward_hooks"])

    # ---- attributes: parameters, buffers and children live in tables of their own ----

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        # Written out, not a loop: every use of a weight passes here.
        if (parameters := state.get("_parameters")) is not None and name in parameters:
            return parameters[name]
        if (buffers := state.get("_buffers")) is not None and name in buffers:
            return buffers[name]
        if (modules := state.get("_modules")) is not None and name in modules:
            return modules[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if isinstance(value, Tensor):
            if isinstance(value, Parameter):
                if "_parameters" not in state:
                    raise AttributeError("cannot assign parameters before Module.__init__() call")
                self._forget(name, "_parameters")
                self.register_parameter(name, value)
                return
            if isinstance(value, Buffer):
                self._set_buffer(name, value)
                return
        elif isinstance(value, Module):
            if "_modules" not in state:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if name not in state["_parameters"]:
                self._forget(name, "_modules")
                state["_modules"][name] = passed_through(global_module_registration_hooks, self, name, value)
                return
        if name in state.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' (tocha.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' (tocha.nn.Module or None expected)"
                )
            state["_modules"][name] = passed_through(global_module_registration_hooks, self, name, None)
        elif name in state.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as buffer '{name}' "
                    "(tocha.nn.Buffer, tocha.Tensor or None expected)"
                )
            state["_buffers"][name] = passed_through(global_buffer_registration_hooks, self, name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        state = self.__dict__
        if "_buffers" not in state:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if name in state["_parameters"]:
            raise TypeError(
                f"cannot assign '{_typename(value)}' as parameter '{name}' (tocha.nn.Parameter or None expected)"
            )
        self._forget(name, "_buffers")
        self.register_buffer(name, value, getattr(value, "persistent", True))

    def _forget(self, name: str, keep: str) -> None:
        """A name that becomes a part of one kind (the table `keep`) is no longer one of another, nor an attribute."""
        state = self.__dict__
        state.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != keep:
                state[table].pop(name, None)
        if keep != "_buffers":
            state["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        if state.pop("_compiled_call_impl", None) is not None:
            state["_backward_hooks"] = OrderedDict(state["_backward_hooks"])
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        for table in _HOOK_TABLES:  # modules pickled before these existed
            if table not in self.__dict__:
                self.__dict__[table] = OrderedDict()
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # ---- registration ----

    def _check_name(self, kind: str, name: object, table: str, dot: str = "") -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."{dot}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that belongs to the module's state but is not trained, such as a running mean.

        persistent=False leaves it out of state_dict.

        >>> import tocha
        >>> m = tocha.nn.Module()
        >>> m.register_buffer("mean", tocha.zeros(2))
        >>> m.mean
        tensor([0., 0.])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (tocha Tensor or None required)"
            )
        self._buffers[name] = passed_through(global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter under a name; None marks a parameter that this module does without.

        >>> import tocha
        >>> m = tocha.nn.Module()
        >>> m.register_parameter("bias", None)
        >>> m.bias is None
        True
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, "_parameters")
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (tocha.nn.Parameter or None required)"
            )
        if not is_lazy(param) and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = passed_through(global_parameter_registration_hooks, self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child under a name.

        >>> import tocha
        >>> m = tocha.nn.Module()
        >>> m.add_module("inner", tocha.nn.Module())
        >>> m.inner
        Module()
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        if "_modules" not in self.__dict__:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_modules'")
        self._check_name("module", name, "_modules", f", got: {name}")
        self._modules[name] = passed_through(global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of add_module."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """The module at a path of names: "encoder.0.norm". The empty path is the module itself."""
        found: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(found, name):
                raise AttributeError(f"{found._get_name()} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts a module at a path of names. strict: something must already be there."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_at(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        return parent, name, getattr(parent, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path of names: "encoder.0.weight"."""
        _, name, found = self._get_at(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path of names."""
        parent, name, found = self._get_at(target)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # ---- walks ----

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Members of one kind of the module (and of those below), with their paths."""
        seen: set[Any] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once; what optimizers are given."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The modules directly below this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, with their names."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths; memo holds those already seen."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls fn on every module below this one, children first, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes and gradients ----

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of the module and all below it: training, or (mode=False) use."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets the module and all below it to use: train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters are to get gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes the gradients of the parameters away, or (set_to_none=False) fills them with zeros."""
        if getattr(self, "_is_replica", False):
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are "
                "copied (in a differentiable manner) from the original module. This means they are not leaf nodes in "
                "autograd and so don't accumulate gradients. If you need gradients in your forward method, consider "
                "using autograd.grad instead.",
                stacklevel=2,
            )
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
                continue
            if p.grad.grad_fn is not None:
                p.grad.detach_()
            else:
                p.grad.requires_grad_(False)
            p.grad.zero_()

    # ---- conversions ----

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces every parameter, its gradient and every buffer by fn of it; the parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = _converted(param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _apply_to_floating(self, dtype: _C.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Floating parameters and buffers to float32."""
        return self._apply_to_floating(_C.float32)

    def double(self) -> Self:
        """Floating parameters and buffers to float64."""
        return self._apply_to_floating(_C.float64)

    def half(self) -> Self:
        """Floating parameters and buffers to float16."""
        return self._apply_to_floating(_C.float16)

    def bfloat16(self) -> Self:
        """Floating parameters and buffers to bfloat16."""
        return self._apply_to_floating(_C.bfloat16)

    def type(self, dst_type: _C.dtype | str) -> Self:
        """All parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> Self:
        """All parameters and buffers to the memory of the processor."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: int | _C.device | None = None) -> Self:
        """All parameters and buffers to a CUDA device."""
        return self._move_to("cuda", device)

    def xpu(self, device: int | _C.device | None = None) -> Self:
        """All parameters and buffers to an XPU device."""
        return self._move_to("xpu", device)

    def ipu(self, device: int | _C.device | None = None) -> Self:
        """All parameters and buffers to an IPU device."""
        return self._move_to("ipu", device)

    def mtia(self, device: int | _C.device | None = None) -> Self:
        """All parameters and buffers to an MTIA device."""
        return self._move_to("mtia", device)

    def _move_to(self, kind: str, device: int | _C.device | None) -> Self:
        where = f"{kind}:{device}" if isinstance(device, int) else device if device is not None else kind
        return self._apply(lambda t: t.to(where))

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves and converts parameters and buffers in place: to(device), to(dtype), to(tensor), to(memory_format=).

        A dtype is for floating and complex parameters and buffers only, so it must be such a one.

        >>> import tocha
        >>> m = tocha.nn.ParameterList([tocha.ones(2)])
        >>> m.to(tocha.float64)[0].dtype
        tocha.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected when using complex tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, wanted, non_blocking, memory_format=memory_format)
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use tocha.nn.Module.to_empty() instead of "
                    "tocha.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(device, wanted, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves parameters and buffers to a device without their values: memory only, for what fills it later."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Moves parameters and buffers to memory that other processes can share."""
        return self._apply(lambda t: t.share_memory_())

    # ---- hooks ----

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """hook(module, args) runs before forward; what it returns replaces args.

        with_kwargs: hook(module, args, kwargs), which returns None or new (args, kwargs). prepend: before the others.

        >>> import tocha
        >>> m = tocha.nn.Sequential()
        >>> handle = m.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> m(1)
        2
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """hook(module, args, output) runs after forward; what it returns replaces output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also when forward fails. prepend: before the
        others.

        >>> import tocha
        >>> m = tocha.nn.Sequential()
        >>> handle = m.register_forward_hook(lambda module, args, output: output * 10)
        >>> m(1)
        10
        >>> handle.remove()
        >>> m(1)
        1
        """
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) runs before the module's gradients are computed; returns None or new gradients."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) runs when the gradients for the inputs are there.

        What it returns replaces grad_input. Values that are no tensors have None as their gradient.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The old kind of backward hook: sees the module's last operation only. Use register_full_backward_hook."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        return _hooks.backward_hooks(self)

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return _hooks.backward_pre_hooks(self)

    # ---- text ----

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's text; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()]
        head = self._get_name() + "("
        if not children and len(extra_lines) <= 1:
            return head + extra + ")"
        lines = extra_lines + children
        return head + "\n  " + "\n  ".join(lines) + "\n)" if lines else head + ")"


_HOOK_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
