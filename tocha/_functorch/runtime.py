"""Running compiled graphs: one autograd node for the whole graph, writes to inputs after it, views of inputs made outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, autograd
from tocha._functorch.joint import CONSTANT, INPUT, RAW, VIEW_OF_INPUT, Output, Traced
from tocha._subclasses.fake import FakeTensor
from tocha.fx import GraphModule

Tensor = _C.Tensor


def call(compiled: Callable, args: Sequence[Any]) -> list[Any]:
    """What a compiler returned takes a list (boxed) or arguments."""
    out = compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
    return list(out) if isinstance(out, list | tuple) else [out]


class Backward:
    """The backward graph, compiled when it is first needed."""

    def __init__(self, module: GraphModule, compiler: Callable):
        self.module, self.compiler = module, compiler
        self.compiled: Callable | None = None

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        if self.compiled is None:
            self.compiled = self.compiler(self.module, list(args))
        return call(self.compiled, args)


def laid_out(grad: Tensor, like: Any) -> Tensor:
    """A gradient in the layout that backward was traced with."""
    if like._symbolic or grad.stride() == like.stride() or grad.layout is not _C.strided:
        return grad if not like._symbolic else grad.contiguous()
    made = _C.empty_strided(like.shape, like.stride(), dtype=grad.dtype, device=grad.device)
    return made.copy_(grad)


def node_for(traced: Traced, forward: Callable, backward: Backward, num_saved: int) -> type[autograd.Function]:
    """The autograd function whose forward and backward are the compiled graphs."""
    mutated = {m.input for m in traced.mutations}

    class CompiledFunctionBackward(autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            return tuple(backward(args))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            raise RuntimeError("tocha.compile with aot_autograd does not currently support double backward")

    class CompiledFunction(autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            found = call(forward, args)
            raw, saved = found[: traced.num_raw], found[traced.num_raw :]
            for i in mutated:  # written to after this, while backward needs what they are now
                saved = [s.clone() if s is args[i] else s for s in saved]
            ctx.save_for_backward(*(s for s in saved if isinstance(s, Tensor)))
            ctx.numbers = [s for s in saved if not isinstance(s, Tensor)]
            ctx.mark_non_differentiable(
                *(r for i, r in enumerate(raw) if isinstance(r, Tensor) and i not in traced.differentiable)
            )
            return tuple(raw)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            tangents = [
                laid_out(grads[i], like) for i, like in zip(traced.differentiable, traced.tangents, strict=True)
            ]
            args = [*ctx.numbers, *ctx.saved_tensors, *tangents]
            if _C.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
                return CompiledFunctionBackward.apply(*args)
            return tuple(backward(args))

    return CompiledFunction


class Compiled:
    """A function of flat arguments: the graph, and what is done around it."""

    def __init__(self, traced: Traced, run: Callable[[Sequence[Any]], Sequence[Any]]):
        self.traced, self.run = traced, run

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        raw = self.run(args)
        for m in self.traced.mutations:
            self.write(m, args[m.input], raw[m.raw])
        return [self.result(o, args, raw) for o in self.traced.outputs]

    def write(self, m: Any, target: Tensor, new: Tensor) -> None:
        if m.geometry is not None:
            with autograd.no_grad():
                target.as_strided_(*m.geometry)
        if m.recorded:
            target.copy_(new)
            return
        with autograd.no_grad():
            target.copy_(new)

    def result(self, o: Output, args: Sequence[Any], raw: Sequence[Any]) -> Any:
        if o.kind == CONSTANT:
            return o.value
        if o.kind == RAW:
            return raw[o.index]
        if o.kind == INPUT:
            return args[o.index]
        base = args[o.index] if o.kind == VIEW_OF_INPUT else raw[o.index]
        with autograd.set_grad_enabled(_C.is_grad_enabled() and o.recorded):
            for step in o.chain:
                base = step.apply(base)
        return base


def compile_traced(
    traced: Traced, fw_compiler: Callable, bw_compiler: Callable, partition_fn: Callable, inference_compiler: Callable
) -> Compiled:
    """Partitions and compiles a traced function."""
    if not traced.is_joint:
        compiled = inference_compiler(traced.module, traced.fakes)

        def infer(args: Sequence[Any]) -> Sequence[Any]:
            with autograd.no_grad():
                return call(compiled, args)

        return Compiled(traced, infer)
    inputs = [*traced.fakes, *traced.tangents]
    forward, backward = partition_fn(traced.module, inputs, num_fwd_outputs=traced.num_raw)
    compiled_forward = fw_compiler(forward, traced.fakes)
    saved = len(forward.graph.output_node().args[0]) - traced.num_raw
    function = node_for(traced, compiled_forward, Backward(backward, bw_compiler), saved)
    return Compiled(traced, lambda args: function.apply(*args))


def is_fake(t: object) -> bool:
    return isinstance(t, FakeTensor)
