"""Higher-order operators: operators whose arguments are functions, recorded as nodes with subgraphs.

On plain tensors an operator runs its functions as Python. Where somebody traces, or on fakes, its functions become graphs first (subgraph.py); the
call is one node of the surrounding graph, and where gradients are wanted one node of autograd, whose backward is a higher-order operator again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, _ops, autograd
from tocha._higher_order_ops.subgraph import fake_mode_for, fresh
from tocha._subclasses.fake import FakeTensor
from tocha._subclasses.reader import active_mode
from tocha.autograd._held import Held
from tocha.fx import GraphModule
from tocha.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, track_tensor_tree
from tocha.ir.sym_types import Symbolic
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor


class HigherOrderOperator(_ops.OperatorBase):
    """`tocha.ops.higher_order.NAME`."""

    only_calls = (
        False  # whether all that it does with its functions is to call them with tensors: they may be compiled then
    )

    def __init__(self, name: str):
        self._name = self.__name__ = self.__qualname__ = name
        self.__module__ = "tocha.ops.higher_order"
        self.namespace = "higher_order"
        setattr(_ops.ops.higher_order, name, self)

    def name(self) -> str:
        return self._name

    def __reduce__(self) -> tuple:
        return find, (self._name,)

    def __repr__(self) -> str:
        return f"<HigherOrderOperator(op='higher_order.{self._name}')>"

    __str__ = name


def find(name: str) -> HigherOrderOperator:
    return getattr(_ops.ops.higher_order, name)


def is_staged(values: Any) -> bool:
    """Whether a call is to be a node: somebody traces, or tensors have no elements."""
    if get_proxy_mode() is not None or active_mode() is not None:
        return True
    return any(isinstance(v, FakeTensor) for v in pytree.tree_leaves(values))


# ---- nodes -----------------------------------------------------------------------------------------


def attribute(root: Any, prefix: str, module: GraphModule) -> str:
    """The name under which a subgraph is kept: the first that is free."""
    i = 0
    while hasattr(root, f"{prefix}_{i}"):
        i += 1
    setattr(root, f"{prefix}_{i}", module)
    return f"{prefix}_{i}"


def emit(
    op: HigherOrderOperator,
    args: tuple,
    prefixes: Sequence[str],
    run: Callable[[], Sequence[Any]],
    facts: Callable[[], Sequence[Any]],
) -> tuple:
    """The results of a call below autograd: `run` computes them from real tensors, `facts` describes them on fakes.

    Where somebody traces, a node is added; `prefixes` name the subgraphs among the arguments, in order.
    """
    mode = get_proxy_mode()
    leaves = pytree.tree_leaves(args)
    real = not any(isinstance(v, FakeTensor) for v in leaves) and active_mode() is None
    with disable_proxy_modes_tracing():
        out = tuple(run() if real else facts())
    if mode is None:
        return out
    tracer: Any = mode.tracer
    names = iter(prefixes)

    def shown(v: Any) -> Any:
        if isinstance(v, GraphModule):
            return tracer.create_proxy("get_attr", attribute(tracer.root, next(names), v), (), {})
        return tracer.unwrap_proxy(v)

    proxy = tracer.create_proxy("call_function", op, pytree.tree_map(shown, args), {}, name=op._name)
    track_tensor_tree(out, proxy, tracer=tracer)
    return out


def fresh_results(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """Fakes of results, on memory of their own."""
    mode = fake_mode_for(values)
    return [fresh(mode, v) for v in like]


# ---- gradients -------------------------------------------------------------------------------------


class Differentiable(autograd.Function):
    """A call as one node. forward(*values) gives results and what backward needs of them; backward(values, kept, grads) the gradients."""

    @staticmethod
    def forward(ctx: Any, forward: Callable, backward: Callable, *values: Any) -> Any:
        results, kept = forward(*values)
        ctx.rule = backward
        ctx.count = len(values)
        ctx.held = Held([*values, *kept])
        ctx.save_for_backward(*ctx.held.tensors)
        ctx.held.tensors = []
        ctx.mark_non_differentiable(*(r for r in results if isinstance(r, Tensor) and not is_differentiable(r)))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        everything = ctx.held.restored(ctx.saved_tensors)
        values, kept = everything[: ctx.count], everything[ctx.count :]
        return None, None, *ctx.rule(values, kept, grads)


def is_differentiable(v: Any) -> bool:
    return isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())


def wants_gradient(values: Sequence[Any]) -> bool:
    return _C.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in values)


def wanted_of(values: Sequence[Any]) -> list[bool]:
    return [is_differentiable(v) and v.requires_grad for v in values]


def gradient_function(
    function: Callable, wanted: Sequence[bool], lifted: Sequence[Any], differentiable: Sequence[bool]
) -> Callable:
    """A function of (operands, gradients of results) that gives the gradients of the wanted operands, then of the lifted tensors.

    It is to be captured: its operands are fakes that require a gradient, its lifted tensors those of the program around.
    """

    def gradients(*given: Any) -> list[Any]:
        operands, tangents = given[: len(wanted)], given[len(wanted) :]
        with autograd.enable_grad():
            results = [r for r, d in zip(pytree.tree_leaves(function(*operands)), differentiable, strict=True) if d]
        pairs = [(r, t) for r, t in zip(results, tangents, strict=True) if r.requires_grad]
        inputs = [v for v, w in zip(operands, wanted, strict=True) if w]
        around = [v if isinstance(v, FakeTensor) else fake_mode_for(operands).from_tensor(v) for v in lifted]
        if not pairs:
            return [_C.zeros_like(v) for v in (*inputs, *around)]
        found = autograd.grad([r for r, _ in pairs], [*inputs, *around], [t for _, t in pairs], allow_unused=True)
        # Zeros where nothing flows, and copies of what came in: results have memory of their own.
        return own_memory(
            [_C.zeros_like(v) if g is None else g for g, v in zip(found, (*inputs, *around), strict=True)], given
        )

    gradients.wanted = [*wanted, *([False] * sum(differentiable))]  # type: ignore[attr-defined]
    return gradients


def own_memory(values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Tensors none of which shares memory with another or with an input."""
    taken: set[Any] = {v._facts.memory for v in inputs if isinstance(v, FakeTensor)}
    out = []
    for v in values:
        memory = v._facts.memory if isinstance(v, FakeTensor) else None
        out.append(v.clone() if memory in taken or is_from_outside(v) else v)
        taken.add(out[-1]._facts.memory if isinstance(out[-1], FakeTensor) else None)
    return out


def is_from_outside(v: Any) -> bool:
    """Whether a value is one of the program around, not one that was computed here."""
    mode = get_proxy_mode()
    known = mode.tracer.slots.get(v) if mode is not None and isinstance(v, Tensor) else None
    return known is None or known.proxy.node.op == "placeholder"


def is_number(v: Any) -> bool:
    return isinstance(v, int | float | bool | Symbolic)
