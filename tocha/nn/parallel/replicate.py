"""Copies of a module for several devices, whose gradients flow back to the module's own parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha.nn.modules.module import Module
from tocha.nn.parallel._devices import DeviceLike, as_targets

Tensor = _C.Tensor

__all__ = ["replicate"]


def _sent(x: Tensor, device: _C.device, detach: bool) -> Tensor:
    """x on the device, sharing memory where it is there already; a copy of a parameter is no parameter."""
    if x.device.type == "cpu":
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    moved = x.to(device)
    alias = moved.view_as(moved) if moved is x else moved
    return alias.detach() if detach else alias


def _replica(modules: list[Module], device: _C.device, detach: bool) -> Module:
    """Copies of all these modules, put together as they are; the first of them is the whole."""
    copies: dict[int, Any] = {id(m): m._replicate_for_data_parallel() for m in modules}
    sent: dict[int, Tensor] = {}

    def once(x: Tensor | None, without_grad: bool) -> Tensor | None:
        """What several modules share they go on sharing."""
        if x is None:
            return None
        if id(x) not in sent:
            sent[id(x)] = _sent(x, device, without_grad)
        return sent[id(x)]

    for module in modules:
        copy = copies[id(module)]
        for name, child in module._modules.items():
            copy._modules[name] = None if child is None else copies[id(child)]
        for name, parameter in module._parameters.items():
            setattr(copy, name, once(parameter, detach))
        for name, buffer in module._buffers.items():
            copy._buffers[name] = once(buffer, detach or buffer is None or not buffer.requires_grad)
    return copies[id(modules[0])]


def replicate(network: Module, devices: Sequence[DeviceLike], detach: bool = False) -> list[Module]:
    """A copy of the network for each device. Its weights are plain tensors made from the network's parameters.

    On the device where the network is, a copy shares its memory. detach leaves gradients out.

    >>> import tocha
    >>> network = tocha.nn.Linear(2, 3, device="meta")
    >>> [tuple(copy.weight.shape) for copy in replicate(network, ["meta", "meta"])]
    [(3, 2), (3, 2)]
    """
    modules = list(network.modules())
    return [_replica(modules, device, detach) for device in as_targets(list(devices))]
