"""Schedules of the learning rate: each step of a scheduler gives every parameter group its next rate."""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, SupportsFloat

from tocha.optim._cycles import CyclicLR, OneCycleLR
from tocha.optim._schedule import EPOCH_DEPRECATION_WARNING, LRScheduler, check_optimizer, set_option
from tocha.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


_LRScheduler = LRScheduler  # its name of old


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    """What a scheduler's get_lr says where somebody calls it who should call get_last_lr."""
    lr_scheduler._warn_outside_step()


class _enable_get_lr_call:
    """Within, get_lr of a scheduler may be called."""

    def __init__(self, o: LRScheduler):
        self.o = o

    def __enter__(self) -> _enable_get_lr_call:
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, *exception: Any) -> None:
        self.o._get_lr_called_within_step = False


class _ByFunctions(LRScheduler):
    """Rates that follow from functions of the step, one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As of every scheduler; of the functions only callable objects are kept, by their attributes."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        kept = [None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**state, "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned; functions that it does not hold stay."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if kept is not None:
                function.__dict__.update(kept)


class LambdaLR(_ByFunctions):
    """The initial rate times a function of the step.

    >>> import tocha
    >>> optimizer = tocha.optim.SGD([tocha.nn.Parameter(tocha.ones(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates += scheduler.get_last_lr()
    >>> rates
    [0.5, 0.25, 0.125]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """The last rate times a function of the step.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.MultiplicativeLR(opt, lr_lambda=lambda epoch: 0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125, 0.0625]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._current(), strict=True)]


class StepLR(LRScheduler):
    """The rate falls by gamma every step_size steps.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.1, 0.01]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate falls by gamma at each of the milestones.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.MultiStepLR(opt, milestones=[1, 3], gamma=0.1)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.1, 0.1, 0.01, 0.01]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._current()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times a factor for the first total_iters steps.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [lr * (1.0 / self.factor) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [lr * factor for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """The factor of the rate goes from start_factor to end_factor in total_iters steps.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.LinearLR(opt, start_factor=0.25, total_iters=3)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        growth = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * growth for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * factor for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate falls by gamma at every step.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125, 0.0625]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to zero in total_iters steps as (1 - step / total_iters) ** power.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.PolynomialLR(opt, total_iters=4, power=2.0)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5625, 0.25, 0.0625, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        factor = (left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [lr * factor for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate swings down to eta_min in T_max steps, and up again, along a cosine.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        t, whole, least = self.last_epoch, self.T_max, self.eta_min
        if self._step_count == 1 and t > 0:
            return [least + (base - least) * (1 + math.cos(t * math.pi / whole)) / 2 for base in self.base_lrs]
        if (t - 1 - whole) % (2 * whole) == 0:
            rise = 1 - math.cos(math.pi / whole)
            return [lr + (base - least) * rise / 2 for base, lr in zip(self.base_lrs, self._current(), strict=True)]
        ratio = (1 + math.cos(math.pi * t / whole)) / (1 + math.cos(math.pi * (t - 1) / whole))
        return [ratio * (lr - least) + least for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        swing = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * swing / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Falls along a cosine again and again: first in T_0 steps, then each time in T_mult times as many.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i: Any = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        swing = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * swing / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Gives the groups their next rates, or those at `epoch`, which may lie between steps."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = self._current()

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class ReduceLROnPlateau(LRScheduler):
    """The rate falls by `factor` when a metric has not become better for more than `patience` steps.

    >>> import tocha
    >>> optimizer = tocha.optim.SGD([tocha.nn.Parameter(tocha.ones(1))], lr=1.0)
    >>> scheduler = tocha.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    >>> for loss in (3.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != len(optimizer.param_groups):
                raise ValueError(f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}")
            self.default_min_lr: float | None = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._current()
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        """Forgets the metrics seen."""
        self.best: float = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the metric in, and lowers the rates if it has not become better for too long."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    "The number of param groups in the `optimizer` "
                    f"({len(groups)}) differs from when `ReduceLROnPlateau` was initialized "
                    f"({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether the metric does not count just now."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if self.threshold_mode == "rel" else best + self.threshold)


def _check_members(owner: str, schedulers: Sequence[Any], optimizer: Optimizer | None) -> None:
    """Schedulers that step together must step one optimizer, and need nothing but the step."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{owner} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{owner} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified "
                f"when calling `step`, but got one at index {i} in the given schedulers sequence."
            )
        if optimizer is not scheduler.optimizer:
            raise ValueError(
                f"{owner} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from {optimizer}."
            )


class _Composed(LRScheduler):
    """Schedulers that share an optimizer; saved as a list of their states."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """What all the schedulers remember."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """One scheduler after another: the next one begins at each milestone.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> warmup = tocha.optim.lr_scheduler.ConstantLR(opt, factor=0.1, total_iters=2)
    >>> decay = tocha.optim.lr_scheduler.ExponentialLR(opt, gamma=0.9)
    >>> scheduler = tocha.optim.lr_scheduler.SequentialLR(opt, [warmup, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.1, 0.1, 1.0, 0.9, 0.81]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check_members("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler has made its first step already: all of that is taken back, then the first one begins.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Takes back the step that schedulers make when they are made."""
        scheduler = self if sched is None else sched
        if isinstance(scheduler, _Composed):
            for s in scheduler._schedulers:
                self.recursive_undo(s)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Gives the groups the next rates of the scheduler whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Several schedulers at once: each changes the rates that the one before left.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> a = tocha.optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> b = tocha.optim.lr_scheduler.ExponentialLR(opt, gamma=0.9)
    >>> scheduler = tocha.optim.lr_scheduler.ChainedScheduler([a, b], optimizer=opt)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 0.45, 0.81, 0.729, 0.6561]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        _check_members("ChainedScheduler", schedulers, optimizer)
        assert optimizer is not None
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Gives the groups their next rates."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()
