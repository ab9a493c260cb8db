"""Back ends by type of device: how loops are put into kernels, the language of kernels, and what calls them.

A graph is compiled by the back end of the device that all of its values lie on. Where there is none, or where they lie on several, it runs
operator by operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tocha import fx
from tocha._inductor import config
from tocha._inductor.schedule import schedule
from tocha._inductor.tuning import choose_ways, prepare_convolutions
from tocha._subclasses.fake import FakeTensor
from tocha.codegen.cpp_many import writer_of
from tocha.codegen.cpp_program import ProgramWriter
from tocha.codegen.triton_loops import triton_kernel
from tocha.ir.assumptions import Assumptions
from tocha.ir.kernels import Item, Kernel
from tocha.ir.loops import Call, NotLowered, Program
from tocha.ir.memory import MemoryPlan, plan_memory
from tocha.utils import _pytree as pytree


class Backend(ABC):
    """What a type of device needs; the scheduler's hooks are those of the loops' order and fusion unless it has its own."""

    def schedule(self, program: Program, module: fx.GraphModule) -> list[Item]:
        """Kernels, products and calls in the order in which they run."""
        return schedule(program, module.meta.get("written_inputs"), bool(module.meta.get("given_away")))

    @abstractmethod
    def tune(self, program: Program, items: list[Item], module: fx.GraphModule) -> None:
        """Chooses between ways of computing the same."""

    def plan(self, program: Program, items: list[Item], module: fx.GraphModule) -> MemoryPlan:
        """Where results lie."""
        if not config.runs("reuse"):
            return MemoryPlan()
        return plan_memory(program, items, module.meta.get("written_inputs"), getattr(config, "triton.cudagraphs"))

    @abstractmethod
    def kernel_text(self, kernel: Kernel, known: Assumptions) -> str:
        """One kernel in the language of the device."""

    @abstractmethod
    def write(self, program: Program, items: list[Item], memory: MemoryPlan) -> tuple[str, list[Call]]:
        """The source of the whole program, and the operators that it calls, as it numbers them."""


class CppBackend(Backend):
    """Processors: kernels and what calls them are one C++ source."""

    def tune(self, program: Program, items: list[Item], module: fx.GraphModule) -> None:
        frozen = bool(module.meta.get("frozen"))
        choose_ways(program, items, frozen)
        prepare_convolutions(program, items, frozen)

    def kernel_text(self, kernel: Kernel, known: Assumptions) -> str:
        return writer_of(kernel, known).write()

    def write(self, program: Program, items: list[Item], memory: MemoryPlan) -> tuple[str, list[Call]]:
        writer = ProgramWriter(program, items, memory)
        return writer.write(), writer.calls


class TritonBackend(Backend):
    """GPUs: kernels are functions of Triton. There is nothing yet that calls them."""

    def tune(self, program: Program, items: list[Item], module: fx.GraphModule) -> None:
        return None  # products have one way

    def kernel_text(self, kernel: Kernel, known: Assumptions) -> str:
        return triton_kernel(kernel, known)

    def write(self, program: Program, items: list[Item], memory: MemoryPlan) -> tuple[str, list[Call]]:
        raise NotLowered("kernels for GPUs can be printed, and not be run yet")


BACKENDS: dict[str, Backend] = {"cpu": CppBackend(), "cuda": TritonBackend()}


def backend_for(module: fx.GraphModule) -> Backend:
    """Of the device of a graph's values; raises NotLowered where there is none."""
    types = sorted({v.device.type for n in module.graph.nodes for v in values_of(n)})
    if len(types) > 1:
        raise NotLowered(f"its values lie on several devices: {', '.join(types)}")
    backend = BACKENDS.get(types[0] if types else "cpu")
    if backend is None:
        raise NotLowered(f"there is no back end for {types[0]}")
    return backend


def values_of(n: fx.Node) -> list[FakeTensor]:
    value: Any = n.meta.get("val")
    if isinstance(value, FakeTensor):
        return [value]
    return (
        [v for v in pytree.tree_leaves(value) if isinstance(v, FakeTensor)] if isinstance(value, list | tuple) else []
    )
