"""Modules as functions of their parameters, in the older way of functorch: tuples of tensors beside a module without state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._functorch.functional_call import functional_call
from tocha.nn import Module, Parameter

Tensor = _C.Tensor
NamesMap = dict[str, list[str]]


def names_of(named: Callable) -> NamesMap:
    """Every name of a tensor, by its first: tied ones are one tensor."""
    first: dict[int, str] = {}
    found: NamesMap = {}
    for name, t in named(remove_duplicate=False):
        found.setdefault(first.setdefault(id(t), name), []).append(name)
    return found


def emptied(model: Module) -> Module:
    """A copy of a module whose tensors hold nothing."""
    made = copy.deepcopy(model)
    for module in made.modules():
        for table in (module._parameters, module._buffers):
            for name, t in table.items():
                if t is not None:
                    table[name] = (
                        t.to("meta")
                        if not isinstance(t, Parameter)
                        else Parameter(t.detach().to("meta"), t.requires_grad)
                    )
    return made


def state_of(named: Callable, names: NamesMap, tracked: bool) -> tuple[Tensor, ...]:
    """Copies of tensors, each once; parameters are leaves."""
    found = dict(named(remove_duplicate=False))
    memo: dict[int, Any] = {}
    made = tuple(copy.deepcopy(found[n], memo) for n in names)
    if not tracked:
        for t in made:
            t.requires_grad_(False)
    return made


def called(model: Module, maps: Sequence[NamesMap], states: Sequence[Any], args: tuple, kwargs: dict) -> Any:
    given: dict[str, Tensor] = {}
    for names, state in zip(maps, states, strict=True):
        for alike, t in zip(names.values(), state, strict=True):
            given.update(dict.fromkeys(alike, t))
    return functional_call(model, given, args, kwargs, tie_weights=False)


class FunctionalModule(Module):
    """A module as a function of its parameters."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], names_map: NamesMap):
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, dict(names_map)

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
        names = names_of(model.named_parameters)
        params = state_of(model.named_parameters, names, not disable_autograd_tracking)
        return FunctionalModule(emptied(model), tuple(names), names), params

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        return called(self.stateless_model, [self.names_map], [params], args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers."""

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: NamesMap,
        buffer_names_map: NamesMap,
    ):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
        names, buffer_names = names_of(model.named_parameters), names_of(model.named_buffers)
        params = state_of(model.named_parameters, names, not disable_autograd_tracking)
        buffers = state_of(model.named_buffers, buffer_names, True)
        made = FunctionalModuleWithBuffers(emptied(model), tuple(names), tuple(buffer_names), names, buffer_names)
        return made, params, buffers

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        maps = [{n: self.all_names_map[n] for n in names} for names in (self.param_names, self.buffer_names)]
        return called(self.stateless_model, maps, [params, buffers], args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """(function of parameters and arguments, parameters) of a module without buffers.

    >>> import tocha
    >>> from tocha._functorch.make_functional import make_functional
    >>> f, params = make_functional(tocha.nn.Linear(2, 3))
    >>> f(params, tocha.ones(2)).shape
    tocha.Size([3])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(function of parameters, buffers and arguments, parameters, buffers) of a module."""
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def transpose_stack(states: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    return tuple(_C.stack(list(ts)).detach() for ts in zip(*states, strict=True))


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """(function, parameters, buffers) of several modules of one form, their tensors stacked: for vmap over the first dim."""
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made = [make_functional_with_buffers(m) for m in models]
    return made[0][0], transpose_stack([p for _, p, _ in made]), transpose_stack([b for _, _, b in made])
