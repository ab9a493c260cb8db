"""What learning-rate schedules are built on: the base class, and the handling of groups' options."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.optim.optimizer import Optimizer

Tensor = _C.Tensor
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form "
    "is used instead of the new chainable form, where available. Please open an issue if you are unable to replicate your "
    "use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def per_group(name: str, optimizer: Optimizer, value: Any) -> list:
    """A value for each group: the given ones, or one for all."""
    if isinstance(value, list | tuple):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. "
                f"{name} has {len(value)} values, param_groups has {len(optimizer.param_groups)}."
            )
        return list(value)
    return [value] * len(optimizer.param_groups)


def set_option(group: dict[str, Any], name: str, value: Any) -> None:
    """Changes an option of a group; a tensor keeps its identity."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[name] = value


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class LRScheduler:
    """What schedules are built on: a subclass gives `get_lr`, the rates of all groups at step `last_epoch`.

    `last_epoch` other than -1 resumes: the groups must know their `initial_lr` then.

    >>> class Halving(tocha.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = Halving(opt)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125, 0.0625]
    """

    __module__ = "tocha.optim.lr_scheduler"

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[Any] = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        optimizer.__dict__.setdefault("_opt_called", False)
        self._initial_step()

    def _initial_step(self) -> None:
        """The first rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """What the scheduler remembers, as plain data; not the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step gave."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of step `last_epoch`; for subclasses."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Gives the groups their next rates; call it after the optimizer's step."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        if not getattr(self.optimizer.step, "hooked", False):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make "
                f"sure to call `optimizer.step()` before `lr_scheduler.step()`. {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
                "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
                f"PyTorch skipping the first value of the learning rate schedule. {_ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", lr)
        self._last_lr: list[Any] = self._current()

    def _current(self, name: str = "lr") -> list[Any]:
        return [copied(group[name]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
