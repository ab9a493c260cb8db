"""Schedules that go up and down, the momentum against them: CyclicLR and OneCycleLR."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from tocha.optim._schedule import LRScheduler, check_optimizer, per_group, set_option
from tocha.optim.optimizer import Optimizer


class CyclicLR(LRScheduler):
    """The rate goes up from base_lr to max_lr and down again, over and over; momentum the other way.

    `mode` says how the height of later cycles falls: "triangular" (not), "triangular2" (by half), "exp_range" (by gamma at each step), or
    `scale_fn` does, as a function of the cycle or (scale_mode="iterations") of the step.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.CyclicLR(opt, base_lr=0.1, max_lr=1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.1, 0.55, 1.0, 0.55, 0.1]
    """

    __module__ = "tocha.optim.lr_scheduler"

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_option(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (float(step_size_down) if step_size_down is not None else up)
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _begin_momentum(self, base: Any, greatest: Any) -> None:
        options = self.optimizer.defaults
        if "momentum" not in options and "betas" not in options:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in options
        self.base_momentums = per_group("base_momentum", self.optimizer, base)
        self.max_momentums = per_group("max_momentum", self.optimizer, greatest)
        for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
            _set_momentum(group, high, self.use_beta1)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, as a part of the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        lrs = [
            base + (highest - base) * part * self.scale_fn(at)
            for base, highest in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                _set_momentum(group, high - (high - low) * part * self.scale_fn(at), self.use_beta1)
        return lrs

    def state_dict(self) -> dict[str, Any]:
        """As of every scheduler; of a scale_fn only a callable object is kept, by its attributes."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        is_object = custom is not None and not isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = custom.__dict__.copy() if is_object else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned; a scale_fn that it does not hold stays."""
        state = dict(state_dict)
        kept = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if kept is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(kept)


def _set_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * part))


def _linear(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


_ANNEALING = {"cos": _cosine, "linear": _linear}


class OneCycleLR(LRScheduler):
    """One cycle for the whole training: up from max_lr / div_factor to max_lr, then down to much less; momentum the other way.

    The number of steps is total_steps, or epochs * steps_per_epoch. With three_phase the fall first mirrors the rise.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=6)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.04, 0.9944, 0.8117, 0.4626, 0.1335]
    """

    __module__ = "tocha.optim.lr_scheduler"

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(self.total_steps, float(pct_start * self.total_steps), three_phase)
        if anneal_strategy not in _ANNEALING:
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _begin_momentum(self, base: Any, greatest: Any, last_epoch: int) -> None:
        options = self.optimizer.defaults
        if "momentum" not in options and "betas" not in options:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in options
        lows = per_group("base_momentum", self.optimizer, base)
        highs = per_group("max_momentum", self.optimizer, greatest)
        if last_epoch != -1:
            return
        for group, low, high in zip(self.optimizer.param_groups, lows, highs, strict=True):
            _set_momentum(group, high, self.use_beta1)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        phase, part = self._place()
        anneal = _ANNEALING[self._anneal_func_type]
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                momentum = anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                _set_momentum(group, momentum, self.use_beta1)
        return lrs

    def _place(self) -> tuple[dict[str, Any], float]:
        """The phase that the step lies in, and how far into it."""
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (self.last_epoch - start) / (phase["end_step"] - start)


def _total_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    given = {"total_steps": total_steps}
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return total_steps if total_steps is not None else epochs * steps_per_epoch


def _phases(total: int, rise: float, three_phase: bool) -> list[dict[str, Any]]:
    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": f"{lr[0]}_lr",
            "end_lr": f"{lr[1]}_lr",
            "start_momentum": f"{momentum[0]}_momentum",
            "end_momentum": f"{momentum[1]}_momentum",
        }

    first = phase(rise - 1, ("initial", "max"), ("max", "base"))
    if not three_phase:
        return [first, phase(total - 1, ("max", "min"), ("base", "max"))]
    second = phase(2 * rise - 2, ("max", "initial"), ("base", "max"))
    return [first, second, phase(total - 1, ("initial", "min"), ("max", "max"))]
