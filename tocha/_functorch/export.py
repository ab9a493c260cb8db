"""Exported modules: the graph of a module as one function of parameters, buffers and inputs, and what each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha import _C, autograd
from tocha._functorch.functionalize import Functionalizer
from tocha._functorch.joint import Tracing, refuse_fake_constants
from tocha._functorch.wrapping import Mutation
from tocha.func import functional_call
from tocha.fx import GraphModule, Node
from tocha.fx._lazy_graph_module import _LazyGraphModule
from tocha.nn import Module
from tocha.utils import _pytree as pytree

Tensor = _C.Tensor


@dataclass
class BackwardSignature:
    """Which results of a joint graph are gradients, and of what."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """What the inputs and results of an exported graph are, by the names of their nodes."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)


def check_loss(outs: Sequence[Any], index: int | None) -> None:
    """A joint graph has one loss, and nothing else to differentiate."""
    if index is None:
        raise RuntimeError(
            "If trace_joint=True it is required that one of your forward outputs must be a scalar loss.\n"
            "You must specify the which (index) output is the loss with output_loss_index."
        )
    for i, o in enumerate(outs):
        if i != index and isinstance(o, Tensor) and o.requires_grad:
            raise RuntimeError(
                "Found an output of the forward that requires gradients, that was not the scalar loss.\n"
                "We require all outputs to the forward that are not the scalar loss to not require gradient,\n"
                "because we will only compute a backward graph against the scalar loss.\n"
                "You can fix this by calling .detach() on each of your forward outputs that is not the loss.\n"
                f"You specified that output index {index} is the loss, but we found that the output at index {i} requires gradients."
            )
    loss = outs[index]
    if not loss.requires_grad:
        raise RuntimeError(f"The output at index {index} was marked as the loss, but it does not require gradients")
    if loss.numel() != 1:
        raise RuntimeError(
            f"We require the output marked as the loss (at index {index}) to be a scalar, but it has shape {loss.shape}"
        )


def traced(
    fn: Any, args: Sequence[Any], decompositions: Mapping | None, joint: bool, loss: int | None, above_autograd: bool
) -> tuple[GraphModule, list[Mutation], int, list[int]]:
    """The graph without writes: new values of written inputs, results, gradients; how many results, and whose gradients."""
    t = Tracing(fn, args, decompositions, False, above_autograd)
    for i, value in enumerate(t.given):
        t.placeholder(f"arg{i}_1", value)
    with autograd.set_grad_enabled(joint or (above_autograd and _C.is_grad_enabled())):
        outs, mutations = t.run()
    grads: list[Any] = []
    wanted = [i for i, leaf in enumerate(t.leaves) if joint and isinstance(leaf, Tensor) and leaf.requires_grad]
    if joint:
        check_loss(outs, loss)
        with t.active():
            grads = list(autograd.grad(outs[loss], [t.leaves[i] for i in wanted], allow_unused=True))  # type: ignore[index]
    nodes = [t.node_of(v) for v in (*(t.given[m.input] for m in mutations), *outs, *grads)]
    t.tracer.graph.output(tuple(nodes))
    module = _LazyGraphModule(t.tracer.root, t.tracer.graph, "joint_helper" if joint else "forward")
    pass_ = Functionalizer(module, keep_input_writes=False)
    pass_.read_all()
    pass_.tracer.graph.output(tuple(pass_.tracer.create_arg(pass_.current(n)) for n in nodes))
    pass_.tracer.graph.eliminate_dead_code()
    made = GraphModule(module, pass_.tracer.graph, "GraphModule")
    refuse_fake_constants(made)
    return made, mutations, len(outs), wanted


def aot_export_module(
    mod: Module,
    args: Sequence[Any],
    *,
    decompositions: Mapping | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[GraphModule, GraphSignature]:
    """A module as one graph: parameters, buffers and inputs in, new values of buffers, results and gradients out.

    The graph writes to nothing. With trace_joint it also gives the gradients of the loss, the result at output_loss_index.

    >>> from tocha import nn, rand
    >>> class Layer(nn.Linear):
    ...     def forward(self, x):
    ...         return (super().forward(x),)
    >>> graph, signature = aot_export_module(Layer(2, 3), [rand(4, 2)], trace_joint=False)
    >>> signature.inputs_to_parameters, signature.user_inputs
    ({'arg0_1': 'weight', 'arg1_1': 'bias'}, ['arg2_1'])
    """
    if pre_dispatch and trace_joint:
        raise RuntimeError("pre_dispatch is not supported when trace_joint is True.")
    parameters = dict(mod.named_parameters(remove_duplicate=False))
    buffers = dict(mod.named_buffers(remove_duplicate=False))
    state = {**parameters, **buffers}
    inner, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    out_spec: Any = None

    def flat_fn(*flat: Any) -> list[Any]:
        nonlocal out_spec
        given, named = pytree.tree_unflatten(list(flat[len(state) :]), spec)
        results, out_spec = pytree.tree_flatten(
            functional_call(mod, dict(zip(state, flat, strict=False)), given, named)
        )
        return results

    flat = [*state.values(), *inner]
    graph, mutations, count, wanted = traced(
        flat_fn, flat, decompositions, trace_joint, output_loss_index, pre_dispatch
    )
    if out_spec.type not in (tuple, list):
        raise RuntimeError(
            "[aot_export_module] Graph output must be a (). This is so that we can avoid pytree processing of the outputs."
            " Please change the module to have tuple outputs or use aot_module instead."
        )
    places = [n.name for n in graph.graph.find_nodes(op="placeholder")]
    results = [n.name if isinstance(n, Node) else n for n in graph.graph.output_node().args[0]]  # type: ignore[union-attr]
    names = [*state, *places[len(state) :]]
    written = {results[k]: (m.input, names[m.input]) for k, m in enumerate(mutations)}
    user_outputs = results[len(mutations) : len(mutations) + count]
    gradients = dict(zip(results[len(mutations) + count :], wanted, strict=True))
    first, second = len(parameters), len(state)

    def those(found: dict, low: int, high: int) -> dict[str, str]:
        return {k: name for k, (i, name) in found.items() if low <= i < high}

    of = {g: (i, names[i]) for g, i in gradients.items()}
    backward = None
    if trace_joint:
        assert output_loss_index is not None
        backward = BackwardSignature(those(of, 0, first), those(of, second, len(flat)), user_outputs[output_loss_index])
    return graph, GraphSignature(
        parameters=list(parameters),
        buffers=list(buffers),
        user_inputs=places[second:],
        user_outputs=user_outputs,
        inputs_to_parameters=dict(zip(places, parameters, strict=False)),
        inputs_to_buffers=dict(zip(places[first:], buffers, strict=False)),
        buffers_to_mutate=those(written, first, second),
        parameters_to_mutate=those(written, 0, first),
        user_inputs_to_mutate=those(written, second, len(flat)),
        in_spec=pytree.tree_flatten((tuple(flat), dict(kwargs or {})))[1],
        out_spec=out_spec,
        backward_signature=backward,
    )
