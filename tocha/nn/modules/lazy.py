"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tocha.autograd.grad_mode import no_grad
from tocha.nn.parameter import is_lazy

if TYPE_CHECKING:
    from tocha.nn.modules.module import Module as _Base
else:
    _Base = object

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(_Base):
    """Comes before a module class and lets it have UninitializedParameters until its first call.

    The class defines `initialize_parameters`, which gets what forward is given and materializes them; then the
    module becomes one of `cls_to_become`, if that is set.

    >>> import tocha
    >>> class Scale(tocha.nn.Module):
    ...     def forward(self, x):
    ...         return self.weight * x
    >>> class LazyScale(LazyModuleMixin, Scale):
    ...     cls_to_become = Scale
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = tocha.nn.UninitializedParameter()
    ...     def initialize_parameters(self, x):
    ...         self.weight.materialize(x.shape)
    ...         tocha.nn.init.ones_(self.weight)
    >>> net = LazyScale()
    >>> net
    LazyScale()
    >>> net(tocha.ones(2)).tolist()
    [1.0, 1.0]
    >>> net
    Scale()
    """

    cls_to_become: type | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Parameters without a shape are saved as they are: there is nothing to detach."""
        for name, value in self._persistent():
            if value is not None:
                destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()

    def _lazy_load_hook(self, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
        """What is loaded tells the shapes too."""
        for name, value in self._persistent():
            given = state_dict.get(prefix + name)
            if value is not None and given is not None and is_lazy(value) and not is_lazy(given):
                with no_grad():
                    value.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materializes the parameters for what forward is given; subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        """The hook before the first forward."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
