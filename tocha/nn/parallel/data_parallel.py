"""DataParallel: a module whose batches are spread over the accelerators of this machine; without any, the module itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from tocha import _C
from tocha.nn.modules.module import Module
from tocha.nn.parallel._devices import DeviceLike, accelerators, as_device
from tocha.nn.parallel.parallel_apply import parallel_apply
from tocha.nn.parallel.replicate import replicate
from tocha.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]

T = TypeVar("T", bound=Module)


def _check_place(module: Module, device: _C.device) -> None:
    """Raises unless everything the module holds is on the device that copies are made from."""
    for x in itertools.chain(module.parameters(), module.buffers()):
        if x.device != device:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {device} (device_ids[0]) but found one of them "
                f"on device: {x.device}"
            )


def _spread(
    module: Module,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    device_ids: Sequence[DeviceLike],
    output_device: DeviceLike,
    dim: int,
) -> Any:
    """The module's result, each device computing that of its part of the batch."""
    _check_place(module, as_device(device_ids[0]))
    parts, named = scatter_kwargs(inputs, kwargs, device_ids, dim)
    if not parts:
        parts, named = ((),), ({},)
    if len(device_ids) == 1:
        return module(*parts[0], **named[0])
    used = device_ids[: len(parts)]
    outputs = parallel_apply(replicate(module, used), parts, named, used)
    return gather(outputs, output_device, dim)


class DataParallel(Module, Generic[T]):
    """Spreads each batch over the accelerators, one copy of the module on each, and joins what comes out.

    device_ids are the accelerators to use, all of them if not given; output_device is where results go, the first if not
    given; dim is the dim of the batch. On a machine without accelerators it calls the module.

    >>> import tocha
    >>> spread = DataParallel(tocha.nn.Linear(2, 3))
    >>> list(spread.state_dict()), tuple(spread(tocha.ones(4, 2)).shape)
    (['module.weight', 'module.bias'], (4, 3))
    """

    module: T
    device_ids: list[DeviceLike]
    output_device: DeviceLike
    dim: int

    def __init__(
        self,
        module: T,
        device_ids: Sequence[int | _C.device] | None = None,
        output_device: int | _C.device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        there = accelerators()
        self.module = module
        self.device_ids = []
        if not there:
            return
        self.device_ids = list(range(len(there)) if device_ids is None else device_ids)
        if not self.device_ids:
            raise RuntimeError("no available devices were found")
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.dim = dim
        if len(self.device_ids) == 1:
            self.module.to(as_device(self.device_ids[0]))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result for the whole batch."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return _spread(self.module, inputs, kwargs, self.device_ids, self.output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | _C.device] | None = None,
    output_device: int | _C.device | None = None,
    dim: int = 0,
    module_kwargs: Any | None = None,
) -> Any:
    """What DataParallel(module) gives for these inputs, a tuple of arguments or the only one; needs accelerators."""
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    there = accelerators()
    if not there:
        raise RuntimeError("device type could not be determined")
    ids: list[DeviceLike] = list(range(len(there)) if device_ids is None else device_ids)
    if not ids:
        raise RuntimeError("no available devices were found")
    return _spread(module, arguments, module_kwargs, ids, ids[0] if output_device is None else output_device, dim)
