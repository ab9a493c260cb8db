"""Backends that compute what the program computes, one stage of the compiler after another: to find which one errs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import fx
from tocha._dynamo.backends.registry import register_debug_backend, register_experimental_backend


@register_debug_backend
def eager(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The captured graph as it is."""
    return gm.forward


@register_debug_backend
def eager_noexcept(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The captured graph; what it raises is an error of capture."""

    def inner(*args: Any) -> Any:
        try:
            return gm(*args)
        except Exception as error:
            raise tocha_error(error) from error

    return inner


def tocha_error(error: Exception) -> RuntimeError:
    return RuntimeError(f"[eager_noexcept] Unexpected exception when running generated GraphModule: {error}")


@register_experimental_backend
def eager_debug(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The captured graph, node by node, with checks of every schema."""
    gm.graph.lint()
    return fx.Interpreter(gm).run


def boxed_nop(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A compiler that runs its graph."""

    def run(args: Sequence[Any]) -> Any:
        return forward(*args)

    forward = gm.forward
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _aot(gm: fx.GraphModule, examples: Sequence[Any], **settings: Any) -> Callable[..., Any]:
    from tocha._dynamo.backends.common import aot_autograd  # the stages behind capture load when they are asked for

    return aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, **settings)(gm, examples)


@register_debug_backend
def aot_eager(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Through ahead-of-time autograd: its two graphs run as they are."""
    from tocha._functorch.partitioners import min_cut_rematerialization_partition

    return _aot(gm, fake_tensor_inputs, partition_fn=min_cut_rematerialization_partition, **kwargs)


@register_debug_backend
def aot_eager_default_partitioner(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:  # fmt: skip
    """The same; the forward graph saves all that the backward graph needs."""
    return _aot(gm, fake_tensor_inputs, **kwargs)


@register_debug_backend
def aot_eager_decomp_partition(gm: fx.GraphModule, fake_tensor_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:  # fmt: skip
    """The same, with operators taken apart as the compiler does, and cut where the fewest bytes cross."""
    if kwargs:
        raise RuntimeError(f"aot_eager_decomp_partition: Unexpected options {sorted(kwargs)}")
    from tocha._decomp import core_aten_decompositions
    from tocha._functorch.partitioners import min_cut_rematerialization_partition

    table = core_aten_decompositions()
    return _aot(gm, fake_tensor_inputs, decompositions=table, partition_fn=min_cut_rematerialization_partition)
