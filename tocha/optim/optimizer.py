"""Optimizer: parameter groups, state, hooks and saving; what every optimizer of tocha.optim is built on."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from tocha import _C
from tocha.autograd._record_function import record_function
from tocha.autograd.grad_mode import enable_grad, set_grad_enabled
from tocha.utils.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Tensor = _C.Tensor
ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Closure: TypeAlias = Callable[[], Any] | None
StateDict: TypeAlias = dict[str, Any]

_global_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable] = OrderedDict()
_HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _RequiredParameter:
    """Stands for an option that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) before each step of every optimizer."""
    return _added(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) after each step of every optimizer."""
    return _added(_global_post_hooks, hook)


def _added(hooks: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _with_hooks(step: Callable) -> Callable:
    """A class's step that calls the hooks around it."""

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        if _C._profiler_is_watching():
            with record_function(f"Optimizer.step#{type(args[0]).__name__}.step"):
                return stepped(*args, **kwargs)
        return stepped(*args, **kwargs)

    def stepped(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        if "_opt_called" in self.__dict__:  # schedulers ask, of steps after they were made
            self._opt_called = True
        for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
        out = step(*args, **kwargs)
        for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return out

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


class Optimizer:
    """Holds groups of parameters with their options, and a state for each parameter.

    A subclass gives `defaults`, the options with their default values, and a `step` that changes the parameters.
    `params` is an iterable of tensors, of (name, tensor) pairs, or of dicts: `{"params": [...], "lr": 0.1}`.

    >>> class Descent(tocha.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @tocha.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> w = tocha.nn.Parameter(tocha.tensor([1.0, -2.0]))
    >>> opt = Descent([w], lr=0.1)
    >>> (w**2).sum().backward()
    >>> opt.step()
    >>> w.detach()
    tensor([ 0.8000, -1.6000])
    """

    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Tensors or dicts, but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # Packages' own optimizers, written after PyTorch's, call these in their steps.

    def _accelerator_graph_capture_health_check(self) -> None:
        """Graphs of kernels are not captured here: there is nothing to check."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> dict:
        return importlib.import_module("tocha.utils._foreach_utils")._group_tensors_by_device_and_dtype(
            tensorlistlist, with_indices
        )

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """A step that calls the hooks and that the profiler sees."""
        return func if getattr(func, "hooked", False) else _with_hooks(func)

    def _patch_step_function(self) -> None:
        """Hooks for an optimizer that was made without __init__."""
        self._prepare()

    def _prepare(self) -> None:
        """What is not saved: hooks, and a step that calls them."""
        for name in _HOOKS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    def step(self, closure: Closure = None) -> Any:
        """Changes the parameters once; `closure` computes the loss anew where the algorithm needs that."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or (set_to_none=False) makes them zero."""
        if _C._profiler_is_watching():
            with record_function(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                return self._zero_grad(set_to_none)
        return self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        grads = []
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    grads.append(p.grad.detach_() if p.grad.grad_fn is not None else p.grad.requires_grad_(False))
        if grads:
            _C._foreach_zero_(grads)

    # -- groups ------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own; options that are not given have their defaults.

        >>> import tocha
        >>> weight, bias = (tocha.nn.Parameter(tocha.ones(2)) for _ in range(2))
        >>> optimizer = tocha.optim.SGD([weight], lr=0.1)
        >>> optimizer.add_param_group({"params": [bias], "lr": 0.2})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.2]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        self._take_names(param_group)
        for p in param_group["params"]:
            self._check_parameter(p)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_new(param_group["params"])
        self.param_groups.append(param_group)

    def _take_names(self, group: dict[str, Any]) -> None:
        """Named parameters become parameters and a list of names."""
        params = group["params"]
        named = [isinstance(p, tuple) for p in params]
        if any(named):
            if not all(named):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            group["params"] = [p[1] for p in params]
            group["param_names"] = [p[0] for p in params]
        if not self.param_groups:
            return
        if ("param_names" in self.param_groups[0]) != ("param_names" in group):
            which = "with" if "param_names" in group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {which} names to the optimizer"
            )

    def _check_parameter(self, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_type_name(p)}")
        if not self.defaults.get("differentiable", None) and not (p.is_leaf or p.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_new(self, params: list[Tensor]) -> None:
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=4,
            )
        known = {p for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")

    # -- saving ------------------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """The state and the options as plain data: parameters are numbered in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(p, len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            groups.append({**packed, "params": [numbers[p] for p in group["params"]]})
        state = {(numbers[k] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        saved: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            saved = hook(self, saved) or saved
        return saved

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over what `state_dict` of an optimizer with the same groups returned."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            state_dict = hook(self, state_dict) or state_dict
        groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        pairs = [(group, k, p) for group, s in zip(groups, saved_groups) for k, p in zip(s["params"], group["params"])]
        owner = {k: (group, p) for group, k, p in pairs}
        state: defaultdict[Any, Any] = defaultdict(dict)
        for k, v in state_dict["state"].items():
            if k in owner:
                group, p = owner[k]
                state[p] = _fitted(v, p, group)
            else:
                state[k] = v
        for group, saved in zip(groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    # -- hooks -------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) before each step; it may return new (args, kwargs)."""
        return _added(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls hook(optimizer, args, kwargs) after each step."""
        return _added(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) before state_dict."""
        return _added(self._optimizer_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) after state_dict; what it returns is the result."""
        return _added(self._optimizer_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer, state_dict) before load_state_dict, with a shallow copy; it may return another."""
        return _added(self._optimizer_load_state_dict_pre_hooks, hook, prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls hook(optimizer) after load_state_dict."""
        return _added(self._optimizer_load_state_dict_post_hooks, hook, prepend)  # type: ignore[attr-defined]


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _fitted(value: Any, p: Tensor, group: dict[str, Any], key: Hashable = None) -> Any:
    """A loaded state in the dtype and on the device of its parameter; steps stay as they are, but where the device counts them."""
    if isinstance(value, Tensor):
        if key == "step":
            on_device = group.get("capturable") or group.get("fused")
            return value.to(dtype=_C.float32, device=p.device) if on_device else value
        return value.to(dtype=p.dtype, device=p.device) if p.is_floating_point() else value.to(device=p.device)
    if isinstance(value, dict):
        return {k: _fitted(v, p, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_fitted(v, p, group) for v in value)  # type: ignore[call-arg]
    return value


_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


@functools.cache
def _option_names(cls: type[GroupOptimizer]) -> tuple[str, ...]:
    """What the class that knows how to update was made with, besides the parameters."""
    owner = next(c for c in cls.__mro__ if "_update" in vars(c))
    code = owner.__init__.__code__  # type: ignore[misc]
    return code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount]


class GroupOptimizer(Optimizer):
    """An optimizer that changes the parameters of a group together, from their gradients and their states.

    A subclass says which states there are (`_state_names`), what they begin as (`_new_state`), and what happens to the
    tensors of a group (`_update`).
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():  # options that older saved states lack
                group.setdefault(name, value)
            for p in group["params"]:
                own = self.state.get(p)
                if own and "step" in own and not isinstance(own["step"], Tensor):
                    own["step"] = step_counter(float(own["step"]))

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The states of a parameter in the order in which `_update` takes them."""
        return ()

    def _new_state(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        """The states of a parameter before its first step."""
        return {}

    grad_scale: Tensor | None = None  # a GradScaler gives these to optimizers that take its factor out themselves
    found_inf: Tensor | None = None

    def _options(self, group: dict[str, Any], *without: str, **more: Any) -> dict[str, Any]:
        """A group's options under the names that functional forms have for them. Others that a user put into
        `defaults` or a group are the user's business."""
        options: dict[str, Any] = {}
        for name in _option_names(type(self)):  # type: ignore[arg-type]
            if name in _PAIRS:
                options.update(zip(_PAIRS[name], group[name], strict=True))
            elif name not in without:
                options[name] = group[name]
        return options | more

    def _update(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        """Changes parameters, given with their gradients and states: a list of tensors for each."""
        raise NotImplementedError

    def _update_sparse(self, group: dict[str, Any], has_complex: bool, *tensors: Any) -> None:
        """The same where some of the gradients are sparse; refuses unless an optimizer knows what to do with them."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def step(self, closure: Closure = None) -> Any:
        """Changes the parameters that have gradients once; returns the loss of `closure` where that is given."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(self.defaults.get("differentiable", False)):
            for group in self.param_groups:
                has_complex, has_sparse, params, *rest = self._gather(group)
                if has_sparse:
                    self._update_sparse(group, has_complex, params, *rest)
                elif params:
                    self._update(group, has_complex, params, *rest)
        return loss

    def _gather(self, group: dict[str, Any]) -> tuple:
        names = self._state_names(group)
        found = _C._gather_state(group["params"], self.state, names)
        if found is None:
            for p in group["params"]:
                if p.grad is None:
                    continue
                own = self.state[p]
                if any(name not in own for name in names):
                    own.update({k: v for k, v in self._new_state(group, p).items() if k not in own})
            found = _C._gather_state(group["params"], self.state, names)
        return found


def step_counter(value: float = 0.0) -> Tensor:
    """The number of steps so far, as states keep it."""
    return _C.tensor(value, dtype=_C.float64 if _C.get_default_dtype() == _C.float64 else _C.float32)


def zeros_like(p: Tensor) -> Tensor:
    """Zeros in the shape, dtype and layout of a parameter."""
    return _C.zeros_like(p, memory_format=_C.preserve_format)


def check_lr(lr: Any, foreach: bool | None = None, capturable: bool | None = None) -> None:
    """Refuses learning rates that are tensors of several elements."""
    if not isinstance(lr, Tensor):
        return
    if foreach and capturable is False:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    if lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_not_negative(**options: float) -> None:
    """Refuses negative options; the names are those of the messages."""
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {_SPOKEN.get(name, name + ' value')}: {value}")


_SPOKEN = {"lr": "learning rate", "eps": "epsilon value"}


def check_betas(betas: tuple[Any, Any]) -> None:
    """Refuses rates of decay outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Refuses flags that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


_CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone", "xla"]


def check_capturable(
    capturable: bool,
    params: list[Tensor],
    what: str = "params and state_steps",
    devices: list[str] = _CAPTURABLE_DEVICES,
) -> None:
    """Refuses capturable steps of parameters on devices that have no graphs."""
    if capturable and any(p.device.type not in devices for p in params):
        raise AssertionError(f"If capturable=True, {what} must be on supported devices: {devices}.")


# -- helpers that packages' own optimizers take from here ---------------------------------------------------


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """A step that records gradients where the optimizer's option `differentiable` asks for it, and else none."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether a step is fused or goes over lists where nobody said: neither, for parameters in memory of the CPU."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Devices whose steps graphs can hold."""
    return ["cuda", "xpu", "hpu", *(["xla"] if supports_xla else [])]


def _is_compiling() -> bool:
    return importlib.import_module("tocha.compiler").is_compiling()


def _get_value(x: Any) -> Any:
    """A tensor of one element as a number, so that a step does not stay on its device; in captured code the tensor."""
    return x if not isinstance(x, Tensor) or _is_compiling() else x.item()


def _stack_if_compiling(x: Any) -> Any:
    """Numbers of a list as one tensor in captured code, else the list."""
    return _C.stack(x) if _is_compiling() else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dims; numbers as they are."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> _C.dtype:
    """The dtype in which steps are counted."""
    return _C.float64 if not is_fused and _C.get_default_dtype() == _C.float64 else _C.float32


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Puts views on real numbers in the place of complex parameters, and of what belongs to them."""
    for i, p in enumerate(params):
        if p.is_complex():
            params[i] = _C.view_as_real(p)
            for others in state_and_grads:
                others[i] = _C.view_as_real(others[i])


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable[[Callable], Callable]:
    """A decorator that changes nothing: what capture cannot take ends its graph by itself."""
    return lambda func: func
