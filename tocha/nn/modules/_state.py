"""state_dict and load_state_dict: the part of Module that reads and writes its state by name."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from tocha import _C, overrides
from tocha.autograd.grad_mode import no_grad
from tocha.nn.modules._hooks import WrappedHook, add_hook
from tocha.nn.parameter import Parameter, is_lazy
from tocha.utils.hooks import RemovableHandle

Tensor = _C.Tensor
EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict returns: the names that were missing and those nobody expected."""

    __slots__ = ()
    __module__ = "tocha.nn.modules.module"

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateDict:
    """The state of a module by name, and its way back."""

    dump_patches: ClassVar[bool] = False
    _version: int = 1

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def _replicate_for_data_parallel(self) -> Any:
        """A shallow copy without parameters, for tocha.nn.parallel to fill with those of another device."""
        replica = type(self).__new__(type(self))
        replica.__dict__.update(self.__dict__)
        replica.__dict__.update(
            _parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True
        )
        return replica

    def get_extra_state(self) -> Any:
        """What a module wants in its state_dict besides parameters and buffers; define set_extra_state too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue "
            "to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes back what get_extra_state gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please file an issue "
            "to report this bug."
        )

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) runs after state_dict and may change it in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As register_state_dict_post_hook, and what the hook returns replaces the result."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, prefix, keep_vars) runs before state_dict reads the module."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        """hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before loading."""
        wrapped = WrappedHook(hook, self if with_module else None)  # type: ignore[arg-type]
        return add_hook(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) runs before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, incompatible_keys) runs after loading and may change the keys in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not StateDict.get_extra_state

    def _persistent(self) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers of this very module that its state_dict holds, by name; some are None."""
        yield from self._parameters.items()
        for name, buffer in self._buffers.items():
            if name not in self._non_persistent_buffers_set:
                yield name, buffer

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Writes the state of this very module, not of its children; subclasses may save more."""
        for name, value in self._persistent():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if self._has_extra_state():
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The parameters and persistent buffers of the module and its children, by name.

        The values share memory with the module; keep_vars=True gives the very parameters instead of detached
        tensors.

        >>> import tocha
        >>> m = tocha.nn.ParameterList([tocha.ones(2)])
        >>> dict(m.state_dict())
        {'0': tensor([1., 1.])}
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to the documentation of "
                "tocha.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = [destination, prefix, keep_vars]
            given[: len(args)] = args
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            returned = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if returned is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif returned is not None:
                destination = returned
        return destination

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Reads the state of this very module, not of its children; subclasses may convert older versions here."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, value in self._persistent():
            key = prefix + name
            if value is None:
                continue
            if key in state_dict:
                self._load_one(name, key, value, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys.extend(self._unknown_keys(state_dict, prefix))

    def _load_one(self, name: str, key: str, value: Any, given: Any, assign: bool, errors: list[str]) -> None:
        if not overrides.is_tensor_like(given):
            errors.append(
                f'While copying the parameter named "{key}", expected tocha.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
            return
        lazy = is_lazy(value)
        if not lazy and value.dim() == 0 and given.dim() == 1:  # scalars were saved as one-element vectors once
            given = given[0]
        if not lazy and given.shape != value.shape:
            errors.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {value.shape}."
            )
            return
        if value.is_meta and not given.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=3,
            )
        try:
            with no_grad():
                if assign:
                    self._assign(name, value, given)
                else:
                    value.copy_(given)
        except Exception as error:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {value.size()} and whose '
                f"dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
            )

    def _assign(self, name: str, value: Any, given: Any) -> None:
        """Puts a tensor of the state_dict itself in the place of a parameter or buffer."""
        if isinstance(value, Parameter):
            if isinstance(given, Parameter):
                given.requires_grad_(value.requires_grad)
            else:
                given = Parameter(given, requires_grad=value.requires_grad)
        setattr(self, name, given)

    def _load_extra_state(
        self, state_dict: Mapping[str, Any], prefix: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _unknown_keys(self, state_dict: Mapping[str, Any], prefix: str) -> Iterator[str]:
        known = {name for name, value in self._persistent() if value is not None}
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            first, *rest = key[len(prefix) :].split(".", 1)
            if first not in self._modules if rest else first not in known:
                yield key

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copies a state_dict into the parameters and buffers of the module and its children.

        strict: names must match exactly, else the error tells all that do not. assign: the tensors of the
        state_dict are used themselves instead of being copied. Returns the missing and the unexpected names.

        >>> import tocha
        >>> m = tocha.nn.ParameterList([tocha.ones(2)])
        >>> m.load_state_dict({"0": tocha.zeros(2)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loader = _Loader(getattr(state_dict, "_metadata", None), strict, assign)
        copied = OrderedDict(state_dict)
        if loader.metadata is not None:
            copied._metadata = loader.metadata  # type: ignore[attr-defined]
        loader.load(self, copied, "")
        return loader.result(type(self).__name__)


class _Loader:
    """One load_state_dict: walks the modules and collects what does not fit."""

    def __init__(self, metadata: Mapping | None, strict: bool, assign: bool) -> None:
        self.metadata, self.strict, self.assign = metadata, strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Any, state_dict: Mapping[str, Any], prefix: str) -> None:
        local = dict(self.metadata.get(prefix[:-1], {})) if self.metadata else {}
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(state_dict, prefix, local, True, self.missing, self.unexpected, self.errors)
        for name, child in module._modules.items():
            if child is not None:
                inner = prefix + name + "."
                self.load(child, {k: v for k, v in state_dict.items() if k.startswith(inner)}, inner)
        keys = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace."
                )

    def result(self, model: str) -> _IncompatibleKeys:
        if self.strict:
            for keys, kind in ((self.missing, "Missing"), (self.unexpected, "Unexpected")):
                if keys:
                    names = ", ".join(f'"{k}"' for k in keys)
                    self.errors.insert(
                        kind == "Unexpected" and bool(self.missing), f"{kind} key(s) in state_dict: {names}. "
                    )
        if self.errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {model}:\n\t" + "\n\t".join(self.errors))
        return _IncompatibleKeys(self.missing, self.unexpected)
