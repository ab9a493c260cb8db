"""Collectives that gradients go through: over one rank each gives a copy of its tensor, and the gradient comes back as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha.autograd.function import Function
from tocha.distributed import collectives
from tocha.distributed._types import ReduceOp, group

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip


class _Exchange(Function):
    """A collective as a node of the history: forward writes to a tensor of its own, backward exchanges the gradient."""

    @staticmethod
    def forward(ctx: Any, exchange: Callable[[Any, Any], object], tensor: Any) -> Any:
        out = tensor.new_empty(tensor.shape)
        exchange(out, tensor.contiguous())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple:
        return None, grad


def _exchanged(exchange: Callable[[Any, Any], object], tensor: Any) -> Any:
    return _Exchange.apply(exchange, tensor)


def broadcast(tensor: Any, src: int, group: Any = group.WORLD) -> Any:
    """Rank src's tensor."""
    return _exchanged(lambda out, given: collectives.scatter(out, [given], src, group), tensor)


def gather(tensor: Any, dst: int = 0, group: Any = group.WORLD) -> tuple:
    """The tensors of all ranks, at rank dst."""
    return (_exchanged(lambda out, given: collectives.gather(given, [out], dst, group), tensor),)


def scatter(tensors: Any, src: int = 0, group: Any = group.WORLD) -> Any:
    """This rank's of the tensors that rank src has."""
    given = collectives._only("scatter", tensors)
    return _exchanged(lambda out, t: collectives.scatter(out, [t], src, group), given)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = group.WORLD) -> Any:
    """The sum (mean, product, ...) of the ranks' tensors, at rank dst."""
    collectives._check_rank("reduce", dst)
    return all_reduce(tensor, op, group)


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = group.WORLD) -> Any:
    """This rank's part of the sum."""
    given = collectives._only("reduce_scatter", input_list)
    return _exchanged(lambda out, t: collectives.reduce_scatter(out, [t], op, group), given)


def all_gather(tensor: Any, group: Any = group.WORLD) -> tuple:
    """The tensors of all ranks.

    >>> import tocha, tocha.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = tocha.ones(2, requires_grad=True)
    >>> (all_gather(x)[0] * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> dist.destroy_process_group()
    """
    return (_exchanged(lambda out, given: collectives.all_gather([out], given, group), tensor),)


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = group.WORLD) -> Any:
    """The tensors of all ranks in one."""
    return _exchanged(lambda out, given: collectives.all_gather_into_tensor(out, given, group), input_tensor)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = group.WORLD) -> tuple:
    """A tensor to every rank, and one from every rank in return."""
    collectives._only("all_to_all", output_tensor_list)
    given = collectives._only("all_to_all", input_tensor_list)
    return (_exchanged(lambda out, t: collectives.all_to_all([out], [t], group), given),)


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = group.WORLD
) -> Any:
    """Parts of a tensor to the ranks, and theirs in return."""
    return _exchanged(lambda out, given: collectives.all_to_all_single(out, given, group=group), input)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = group.WORLD) -> Any:
    """The sum (mean, product, ...) of the ranks' tensors."""
    return _exchanged(lambda out, given: collectives.all_reduce(out.copy_(given), op, group), tensor)
