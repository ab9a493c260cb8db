"""Averaged models: stochastic weight averaging and moving averages of a model's parameters, and the schedule that goes with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn.modules.module import Module
from tocha.optim._schedule import LRScheduler, check_optimizer, per_group
from tocha.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensor = _C.Tensor


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """A function that moves averages (a list) toward current values (a list), keeping the part `decay`.

    >>> averages = [tocha.tensor([1.0])]
    >>> tocha.optim.swa_utils.get_ema_multi_avg_fn(0.9)(averages, [tocha.tensor([2.0])], 5)
    >>> averages
    [tensor([1.1000])]
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        if ema_param_list[0].is_floating_point() or ema_param_list[0].is_complex():
            _C._foreach_lerp_(ema_param_list, current_param_list, 1 - decay)
        else:
            for ema, current in zip(ema_param_list, current_param_list, strict=True):
                ema.copy_(ema * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """A function that takes current values (a list) into plain averages (a list) of num_averaged values so far.

    >>> averages = [tocha.tensor([1.0])]
    >>> tocha.optim.swa_utils.get_swa_multi_avg_fn()(averages, [tocha.tensor([2.0])], 3)
    >>> averages
    [tensor([1.2500])]
    """

    @no_grad()
    def swa_update(averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any) -> None:
        weight = 1 / (float(num_averaged) + 1)
        if averaged_param_list[0].is_floating_point() or averaged_param_list[0].is_complex():
            _C._foreach_lerp_(averaged_param_list, current_param_list, weight)
        else:
            for average, current in zip(averaged_param_list, current_param_list, strict=True):
                average.copy_(average + (current - average) * weight)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """A function of an average and a current value: decay * average + (1 - decay) * current.

    >>> average = tocha.optim.swa_utils.get_ema_avg_fn(0.9)
    >>> average(tocha.tensor(1.0), tocha.tensor(2.0), 5)
    tensor(1.1000)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable:
    """A function of an average of num_averaged values and one more: their average.

    >>> average = tocha.optim.swa_utils.get_swa_avg_fn()
    >>> average(tocha.tensor(1.0), tocha.tensor(2.0), 3)
    tensor(1.2500)
    """

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of those that `update_parameters` was called with.

    The average is a plain one (SWA), or what `avg_fn` (of one pair of tensors) or `multi_avg_fn` (of lists) makes of it; with use_buffers
    buffers are averaged too, else they are copied.

    >>> import tocha
    >>> model = tocha.nn.Linear(1, 1, bias=False)
    >>> average = tocha.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = tocha.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _C.tensor(0, dtype=_C.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of the model into the average."""
        own, new = (self._averaged_tensors(m) for m in (self.module, model))
        pairs = [(a.detach(), b.detach().to(a.device)) for a, b in zip(own, new, strict=False)]
        if self.n_averaged == 0:
            for average, current in pairs:
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in pairs:
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for averages, currents in _by_kind(pairs):
                update(averages, currents, self.n_averaged.to(averages[0].device))
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=False):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1

    def _averaged_tensors(self, module: Module) -> list[Tensor]:
        return [*module.parameters(), *(module.buffers() if self.use_buffers else ())]


def _by_kind(pairs: list[tuple[Tensor, Tensor]]) -> Iterable[tuple[list[Tensor], list[Tensor]]]:
    """The pairs as two lists, for each device and dtype."""
    kinds: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for average, current in pairs:
        averages, currents = kinds.setdefault((str(average.device), average.dtype), ([], []))
        averages.append(average)
        currents.append(current)
    return kinds.values()


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running means and variances of the model's batch norms anew, in one pass over the data.

    Batches are tensors, or lists or tuples whose first element is one.

    >>> model = tocha.nn.BatchNorm1d(1, momentum=None)
    >>> tocha.optim.swa_utils.update_bn([tocha.tensor([[1.0], [3.0]]), tocha.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    from tocha.nn.modules.batchnorm import _BatchNorm

    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta = {m: m.momentum for m in norms}
    was_training = model.training
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # a plain average over all batches
    model.train()
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs.to(device) if device is not None else inputs)
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Brings the rates to fixed values in anneal_epochs steps, along a cosine or a line, and holds them there.

    >>> opt = tocha.optim.SGD([tocha.nn.Parameter(tocha.zeros(1))], lr=1.0)
    >>> scheduler = tocha.optim.swa_utils.SWALR(opt, swa_lr=0.1, anneal_epochs=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(round(scheduler.get_last_lr()[0], 4))
    ...     opt.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.55, 0.1, 0.1, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        for lr, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """How much of the way is done at a step, from 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The rates: each is a mixture of what it began as and its swa_lr."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(max(0, min(step - 1, self.anneal_epochs))), self._part(step)
        lrs = []
        for group in self.optimizer.param_groups:
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            lrs.append(group["swa_lr"] * now + start * (1 - now))
        return lrs
