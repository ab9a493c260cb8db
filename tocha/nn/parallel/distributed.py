"""DistributedDataParallel over a group of one rank: the mean of gradients over one rank is the gradient."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from tocha.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Wraps a module as PyTorch does: parameters under `module.`, a group that must exist, hooks that see no other rank."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, broadcast_buffers: bool = True,
        init_sync: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False, **kwargs: Any,
    ):  # fmt: skip
        super().__init__()
        distributed = importlib.import_module("tocha.distributed")
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        self.process_group = process_group or distributed.collectives._check_member(None)
        self.module = module
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients are not exchanged within: with one rank they never are."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """For ranks with different numbers of batches: one rank has its own."""
        yield

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Refused: with one rank nothing is exchanged that a hook could see."""
        raise NotImplementedError("[register_comm_hook] a group of one process exchanges no gradients")
