"""The layout of convolution networks: whether pictures lie with channels last, which is measured, the copies that it takes counted.

In graphs without gradients (`config.layout_optimization`, with `max_autotune`). Every convolution is measured on pictures that lie as they do and on
pictures with channels last; so are the copies between the two. The graph keeps its results' layouts whatever is chosen in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import tocha
from tocha import _C, fx
from tocha._inductor import tuning
from tocha._logging import events
from tocha._ops import ops
from tocha._subclasses.fake import FakeTensor
from tocha.fx.passes.fake_tensor_prop import FakeTensorProp
from tocha.fx.passes.functional.nodes import is_view, value_of

CONVOLUTION = ops.aten.convolution.default
CLONE = ops.aten.clone.default
FORMATS = {4: _C.channels_last, 5: _C.channels_last_3d}


def with_best_layout(graph: fx.GraphModule) -> fx.GraphModule:
    """The graph, or one that computes the same with channels last where that is faster."""
    if not any(is_measured(n) for n in graph.graph.nodes):
        return graph
    other = with_channels_last(graph)
    if other is None:
        return graph
    given, last = (sum(map(seconds_of, measured_nodes(g))) for g in (graph, other))
    copies = sum(is_copy(n) for n in other.graph.nodes)
    chosen = last * tuning.CLOSE < given
    events.tell(events.LayoutChosen("channels last" if chosen else "as given", copies, given, last))
    return other if chosen else graph


def is_measured(node: fx.Node) -> bool:
    """Whether it is a convolution of pictures whose sizes are known."""
    if node.target is not CONVOLUTION:
        return False
    picture, weight = (value_of(a) for a in node.args[:2])
    return all(is_static(t) and t.dim() in FORMATS and not t.is_conj() for t in (picture, weight))


def is_static(t: Any) -> bool:
    return isinstance(t, _C.Tensor) and all(type(n) is int for n in (*t.shape, *t.stride()))


def is_copy(node: fx.Node) -> bool:
    return bool(node.meta.get("layout_copy"))


def measured_nodes(graph: fx.GraphModule) -> Iterator[fx.Node]:
    return (n for n in graph.graph.nodes if is_measured(n) or is_copy(n))


# ---- the other graph -------------------------------------------------------------------------------


def with_channels_last(graph: fx.GraphModule) -> fx.GraphModule | None:
    """A copy whose convolutions are given pictures with channels last; None where its results cannot have the layouts of before."""
    other = fx.GraphModule(graph, deepcopy(graph.graph))
    other.meta = dict(graph.meta)
    for node in list(other.graph.nodes):
        if is_measured(node):
            picture = node.args[0]
            copy = copied(node, picture, FORMATS[value_of(node).dim()])
            # Whoever reads the picture later reads the copy: a sum of the two layouts would have the first one's.
            picture.replace_all_uses_with(
                copy, delete_user_cb=lambda user, copy=copy: copy < user and user.op != "output"
            )
    output = other.graph.output_node()
    wanted = [value_of(n) for n in output.args[0]]
    output.args = ([copied(output, n, _C.preserve_format) if is_picture(n) else n for n in output.args[0]],)
    Layouts(other, wanted).propagate_dont_convert_inputs(
        *(value_of(n) for n in other.graph.find_nodes(op="placeholder"))
    )
    other.graph.lint()
    same = all(map(lies_alike, wanted, (value_of(n) for n in output.args[0])))
    other.recompile()
    return other if same else None


def is_picture(node: Any) -> bool:
    value = value_of(node)
    return isinstance(value, FakeTensor) and value.dim() in FORMATS


def copied(before: fx.Node, node: Any, memory_format: Any) -> fx.Node:
    with before.graph.inserting_before(before):
        copy = before.graph.call_function(CLONE, (node,), {"memory_format": memory_format})
    copy.meta["layout_copy"] = True
    return copy


def lies_alike(a: Any, b: Any) -> bool:
    return not isinstance(a, FakeTensor) or a.stride() == b.stride()


class Layouts(FakeTensorProp):
    """Finds how every value lies now, and takes out copies that change nothing."""

    def __init__(self, module: fx.GraphModule, wanted: list[Any]) -> None:
        mode = next(v.fake_mode for n in module.graph.nodes if isinstance(v := value_of(n), FakeTensor))
        super().__init__(module, mode)
        self.garbage_collect_values, self.user_to_last_uses = False, {}  # values of copies that go are read later
        results = module.graph.output_node().args[0]
        self.wanted = {n: v for n, v in zip(results, wanted, strict=True) if isinstance(n, fx.Node) and is_copy(n)}

    def run_node(self, n: fx.Node) -> Any:
        if not is_copy(n):
            return self.viewed(n) if is_view(n) else super().run_node(n)
        given = self.env[n.args[0]]
        if n in self.wanted:
            given_back = self.wanted[n]
            n.kwargs = {"memory_format": format_of(given_back)}
            needless = given.stride() == given_back.stride()
        else:
            needless = given.is_contiguous(memory_format=n.kwargs["memory_format"])
        if not needless:
            return super().run_node(n)
        n.replace_all_uses_with(n.args[0])
        n.graph.erase_node(n)
        return given

    def viewed(self, n: fx.Node) -> Any:
        """A view; of a contiguous copy where there is none of the new layout."""
        try:
            return super().run_node(n)
        except RuntimeError:
            copy = copied(n, n.args[0], _C.contiguous_format)
            self.env[copy] = super().run_node(copy)
            n.args = (copy, *n.args[1:])
            return super().run_node(n)


def format_of(t: _C.Tensor) -> Any:
    last = FORMATS[t.dim()]
    return last if t.is_contiguous(memory_format=last) and not t.is_contiguous() else _C.contiguous_format


# ---- measuring -------------------------------------------------------------------------------------


def seconds_of(node: fx.Node) -> float:
    """How long a node takes on tensors that lie as its own do: known from before, or measured now."""
    tensors = [value_of(a) for a in node.args if is_static(value_of(a))]
    words = [f"{t.dtype} {tuple(t.shape)} {tuple(t.stride())}" for t in tensors]
    others = [str(a) for a in (*node.args, *node.kwargs.values()) if not isinstance(a, fx.Node)]
    parts = tuning.machine_parts("layout", " ".join([str(node.target), *words, *others]))
    known = tuning.CHOICES.read(parts)
    if known is not None:
        return float(json.loads(known)["seconds"])
    args = [real(value_of(a)) if isinstance(a, fx.Node) else a for a in node.args]
    with tocha.no_grad():
        seconds = tuning.shortest(lambda: node.target(*args, **node.kwargs))
    tuning.CHOICES.write(parts, json.dumps({"seconds": seconds}).encode())
    return seconds


def real(t: Any) -> _C.Tensor:
    return tocha.empty_strided(t.shape, t.stride(), dtype=t.dtype).fill_(1)
