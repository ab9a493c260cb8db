"""autocast: regions in which operators choose their own precision, as their records say (`autocast=`)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tocha import _C

Tensor = _C.Tensor
# A region can be named for a device that is not there: it then covers no tensor.
_NAMES = ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "ipu", "mtia", "maia")
_SUPPORTED = dict.fromkeys(_NAMES, (_C.bfloat16, _C.float16))


def is_autocast_available(device_type: str) -> bool:
    """Whether there is mixed precision for this kind of device.

    >>> is_autocast_available("cpu")
    True
    """
    return _C.device(device_type).type in _SUPPORTED


watchers: list[Any] = []  # those who write programs down: told of regions that begin (`entered`) and end (`left`)


class autocast:
    """A region of mixed precision, as a context or a decorator: matrix products and convolutions run in `dtype`, what
    needs the range (losses, decompositions) in float32, the rest in what it is given.

    >>> import tocha
    >>> a = tocha.ones(2, 2)
    >>> with tocha.autocast("cpu"):
    ...     (a @ a).dtype, (a + a).dtype
    (tocha.bfloat16, tocha.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: _C.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = _C.device(device_type).type
        if self.device not in _SUPPORTED:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        self.fast_dtype = _C.get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._has_device() and self._is_usable()
        self._before: list[tuple[bool, _C.dtype, bool]] = []

    def _has_device(self) -> bool:
        """Warns where a region is for devices that are not there."""
        if self.device != "cuda":
            return True
        from tocha import cuda

        if cuda.is_available():
            return True
        warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
        return False

    def _is_usable(self) -> bool:
        """Warns, and leaves the region without effect, where mixed precision cannot be had."""
        name = self.device.upper()
        if self.fast_dtype not in _SUPPORTED[self.device]:
            names = ", ".join(str(d) for d in _SUPPORTED[self.device])
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {names} currently.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        for w in watchers:
            w.entered(self)
        device = self.device
        self._before.append(
            (_C.is_autocast_enabled(device), _C.get_autocast_dtype(device), _C.is_autocast_cache_enabled())
        )
        _C.set_autocast_enabled(device, self._enabled)
        _C.set_autocast_dtype(device, self.fast_dtype)
        _C.autocast_increment_nesting()
        _C.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        for w in watchers:
            w.left(self)
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        enabled, dtype, cache = self._before.pop()
        _C.set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, dtype)
        _C.set_autocast_cache_enabled(cache)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def _cast(value: Any, device_type: str, dtype: _C.dtype) -> Any:
    """Floating tensors of the device, also those inside containers, in another dtype; float64 stays."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _checked_device(device_type: object) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: _C.dtype | None = None) -> Callable:
    """Decorates the forward of an autograd.Function: with cast_inputs it runs outside mixed precision on inputs cast to
    that dtype, else in the state that is found; custom_bwd gives backward the same state.

    >>> class Square(tocha.autograd.Function):
    ...     @staticmethod
    ...     @tocha.amp.custom_fwd(device_type="cpu", cast_inputs=tocha.float32)
    ...     def forward(ctx, x):
    ...         return x * x
    >>> with tocha.autocast("cpu"):
    ...     Square.apply(tocha.ones(1, dtype=tocha.float16)).dtype
    tocha.float32
    """
    device = _checked_device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = _C.is_autocast_enabled(device)
        ctx._dtype = _C.get_autocast_dtype(device)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        with autocast(device, enabled=False):
            return fwd(ctx, *_cast(args, device, cast_inputs), **_cast(kwargs, device, cast_inputs))

    return forward


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorates the backward of an autograd.Function whose forward has custom_fwd: it runs in forward's state.

    >>> class Square(tocha.autograd.Function):
    ...     @staticmethod
    ...     @tocha.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @tocha.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * ctx.saved_tensors[0] * grad
    >>> x = tocha.tensor([3.0], requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor([6.])
    """
    device = _checked_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any) -> Any:
        with autocast(device, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args)

    return backward


__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def _enter_autocast(*vals: Any) -> autocast:
    """Begins a region, as a call in a graph."""
    region = autocast(*vals)
    region.__enter__()
    return region


def _exit_autocast(mode: autocast) -> None:
    """Ends a region that _enter_autocast began."""
    mode.__exit__(None, None, None)
