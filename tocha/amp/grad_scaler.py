"""GradScaler: a factor on the loss, so that small gradients survive in float16."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.optim.optimizer import Optimizer

__all__ = ["GradScaler", "OptState"]

Tensor = _C.Tensor


class OptState(Enum):
    """What has been done for an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Multiplies losses by a factor that is as great as the gradients allow, and takes it out before the step.

    `step` leaves a step out when a gradient is infinite or no number; `update` then makes the factor smaller, and greater again after
    growth_interval good steps.

    >>> w = tocha.nn.Parameter(tocha.ones(2))
    >>> optimizer = tocha.optim.SGD([w], lr=0.5)
    >>> scaler = tocha.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    Parameter containing:
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if self._device == "cuda" and enabled and not _cuda_is_available():
            warnings.warn("tocha.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    def _scale_and_tracker(self, what: str) -> tuple[Tensor, Tensor]:
        reason = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        if self._scale is None:
            raise AssertionError(f"Attempted {what} but _scale is None.  {reason}")
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {what} but _growth_tracker is None.  {reason}")
        return self._scale, self._growth_tracker

    def _begin(self, device: Any) -> None:
        self._scale = _C.full((), self._init_scale, dtype=_C.float32, device=device)
        self._growth_tracker = _C.full((), self._init_growth_tracker, dtype=_C.int32, device=device)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or the tensors of lists and other iterables, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._begin(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(device=outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    @no_grad()
    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        by_kind: dict[Any, list[Tensor]] = {}
        devices: dict[str, Any] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not allow_fp16 and p.grad.dtype == _C.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                devices[str(p.grad.device)] = p.grad.device
                by_kind.setdefault((str(p.grad.device), p.grad.dtype), []).append(p.grad)
        found = {name: found_inf.to(device=device, copy=True) for name, device in devices.items()}
        for (name, _), grads in by_kind.items():
            _C._amp_foreach_non_finite_check_and_unscale_(grads, found[name], inv_scale.to(device=devices[name]))
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Takes the factor out of the optimizer's gradients, before they are clipped or looked at; `step` does it otherwise."""
        if not self._enabled:
            return
        scale, _ = self._scale_and_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        found = _C.full((), 0.0, dtype=_C.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step with the unscaled gradients, if they are all finite; returns what that returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._scale_and_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_scaled(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            finite = not any(found.item() for found in state["found_inf_per_device"].values())
            result = optimizer.step(*args, **kwargs) if finite else None
        state["stage"] = OptState.STEPPED
        return result

    def _step_scaled(self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """For optimizers that take the factor out themselves."""
        scale, _ = self._scale_and_tracker("step")
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = list(state["found_inf_per_device"].values())
        optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else scale
        optimizer.found_inf = sum((f.to(scale.device) for f in found[1:]), start=found[0].to(scale.device))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale
            del optimizer.found_inf

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        scale, _ = self._scale_and_tracker("_check_inf_per_device")
        one = _C.full((), 1.0, dtype=_C.float32, device=scale.device)
        found = _C.full((), 0.0, dtype=_C.float32, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return state["found_inf_per_device"]

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Makes the factor smaller if a step was left out, greater after enough good ones; or sets it to new_scale."""
        if not self._enabled:
            return
        scale, tracker = self._scale_and_tracker("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [f for s in self._per_optimizer_states.values() for f in s["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            combined = sum((f.to(scale.device) for f in found[1:]), start=found[0].to(scale.device))
            _C._amp_update_scale_(
                scale, tracker, combined, self._growth_factor, self._backoff_factor, self._growth_interval
            )
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _set_scale(self, scale: Tensor, value: float | Tensor) -> None:
        if isinstance(value, float):
            scale.fill_(value)
            return
        reason = "new_scale should be a float or a 1-element tocha.cuda.FloatTensor or tocha.FloatTensor with requires_grad=False."
        if not isinstance(value, Tensor) or value.numel() != 1 or value.requires_grad:
            raise AssertionError(reason)
        scale.copy_(value)

    def get_scale(self) -> float:
        """The factor as a number; 1 when scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the factor is multiplied by after enough good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by after enough good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor is multiplied by after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor is multiplied by after a step that was left out."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row make the factor grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many good steps in a row make the factor grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The factor and how it changes, as plain data; empty when scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _cuda_is_available() -> bool:
    from tocha import cuda

    return cuda.is_available()
