"""Passes over graphs: shapes, splitting, partitions, patterns, drawing, normal forms of arguments."""

from __future__ import annotations

import operator
import xml.etree.ElementTree as ElementTree

import pytest

import tocha
import tocha.nn.functional as F
from tocha import fx, nn
from tocha.fx import Graph, GraphModule, symbolic_trace
from tocha.fx.experimental.normalize import NormalizeArgs
from tocha.fx.experimental.optimization import fuse, optimize_for_inference, remove_dropout
from tocha.fx.operator_schemas import check_for_mutable_operation, normalize_function, normalize_module
from tocha.fx.passes.dialect.common.cse_pass import CSEPass
from tocha.fx.passes.graph_drawer import FxGraphDrawer
from tocha.fx.passes.graph_manipulation import get_size_of_all_nodes, replace_target_nodes_with
from tocha.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from tocha.fx.passes.operator_support import OperatorSupport, OpSupports, any_chain, chain, create_op_support
from tocha.fx.passes.shape_prop import ShapeProp, TensorMetadata
from tocha.fx.passes.split_module import split_module, split_module_simple
from tocha.fx.passes.split_utils import split_by_tags
from tocha.fx.passes.tools_common import legalize_graph
from tocha.fx.passes.utils import compare_graphs
from tocha.fx.passes.utils.fuser_utils import validate_partition
from tocha.fx.passes.utils.source_matcher_utils import get_source_partitions
from tocha.fx.subgraph_rewriter import replace_pattern_with_filters


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.scale = nn.Parameter(tocha.full((3,), 2.0))

    def forward(self, x, y):
        a = self.first(x) * self.scale
        b = tocha.relu(a)
        c = self.second(b) + y
        return c + a, b


INPUTS = (tocha.ones(2, 3), tocha.full((2, 3), 0.5))


def same_results(one, other, *inputs):
    results = [r if isinstance(r, tuple) else (r,) for r in (one(*inputs), other(*inputs))]
    return all(tocha.equal(a, b) for a, b in zip(*results))


def test_shapes_are_noted():
    module = symbolic_trace(Net())
    ShapeProp(module).propagate(*INPUTS)
    meta = {n.name: n.meta["tensor_meta"] for n in module.graph.nodes}
    assert isinstance(meta["relu"], TensorMetadata) and meta["relu"].shape == (2, 3) and meta["relu"].stride == (3, 1)
    assert meta["relu"].requires_grad and meta["scale"].dtype is tocha.float32 and isinstance(meta["output"], tuple)
    image = symbolic_trace(lambda x: tocha.relu(x))
    ShapeProp(image).propagate(tocha.ones(1, 2, 3, 3).to(memory_format=tocha.channels_last))
    assert list(image.graph.nodes)[1].meta["tensor_meta"].memory_format == tocha.channels_last
    with pytest.raises(RuntimeError, match=r"ShapeProp error for: node=%first"):
        ShapeProp(symbolic_trace(Net())).propagate(tocha.ones(2, 7), tocha.ones(1))


@pytest.mark.parametrize("cut", [lambda n: 0, lambda n: int(n.name in ("second", "add", "add_1"))])
@pytest.mark.parametrize(
    "options", [{}, {"keep_original_order": True}, {"tuple_return": True}, {"keep_original_node_name": True}]
)
def test_split_modules_compute_the_same(cut, options):
    net = symbolic_trace(Net())
    names = {}
    split = split_module(net, net, cut, names, **options)
    split.graph.lint()
    assert same_results(net, split, *INPUTS) and set(names.values()) == {"first", "second"}
    assert split.get_parameter("scale") is net.scale


def test_splitting_by_table_and_by_tags():
    net = symbolic_trace(Net())
    table = {n: int(n.name in ("second", "add", "add_1")) for n in net.graph.nodes}
    assert same_results(net, split_module_simple(net, table), *INPUTS)
    for n in net.graph.nodes:
        n.tag = "late" if table[n] else "early"
    split, names = split_by_tags(net, ["early", "late"], return_fqn_mapping=True)
    assert same_results(net, split, *INPUTS) and names["early.first"] == "first"
    with pytest.raises(AssertionError, match="order of"):
        split_by_tags(net, ["late", "early"])
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(net, net, lambda n: int(n.name in ("relu",)))


@pytest.mark.parametrize("single", [True, False])
def test_partitions_compute_the_same(single):
    functions = create_op_support(lambda modules, node: node.op == "call_function")
    net = symbolic_trace(Net())
    expected = symbolic_trace(Net())
    expected.load_state_dict(net.state_dict())
    fused = CapabilityBasedPartitioner(net, functions, allows_single_node_partition=single).partition_and_fuse()
    fused.graph.lint()
    assert same_results(expected, fused, *INPUTS) and any(n.startswith("fused_") for n, _ in fused.named_children())


def test_partitions_never_make_a_cycle():
    def f(x):
        a = tocha.relu(x)
        b = tocha.sigmoid(a)
        c = tocha.relu(b)
        return a + c

    graph = symbolic_trace(f)
    relu = create_op_support(lambda modules, node: node.target in (tocha.relu, operator.add))
    found = CapabilityBasedPartitioner(graph, relu, allows_single_node_partition=True).propose_partitions()
    assert sorted(sorted(n.name for n in p.nodes) for p in found) == [["add", "relu_1"], ["relu"]]
    assert all(validate_partition(list(p.nodes)) for p in found)
    nodes = {n.name: n for n in graph.graph.nodes}
    assert not validate_partition([nodes["relu"], nodes["relu_1"]])


def test_support():
    net = symbolic_trace(Net())
    ShapeProp(net).propagate(*INPUTS)
    nodes = {n.name: n for n in net.graph.nodes}
    table = OperatorSupport({"_operator.add": None, "tocha.relu": (((tocha.float64,),), {})})
    assert table.is_node_supported({}, nodes["add"]) and not table.is_node_supported({}, nodes["relu"])
    named = OpSupports.decline_if_node_in_names({"add"})
    assert not chain(table, named).is_node_supported({}, nodes["add"])
    assert any_chain(table, named).is_node_supported({}, nodes["add"])
    assert not OpSupports.decline_if_input_dtype(tocha.float32).is_node_supported({}, nodes["relu"])


def test_common_subexpressions_respect_effects():
    def f(x):
        a, b = x + 1, x + 1
        x.add_(1)
        return a + b, x + 1, tocha.rand_like(x) + tocha.rand_like(x), x * 1, x * 1.0, x * True

    result = CSEPass()(symbolic_trace(f))
    names = [n.name for n in result.graph_module.graph.nodes]
    assert (
        result.modified
        and names.count("add_1") == 0
        and "rand_like_1" in names
        and {"mul", "mul_1", "mul_2"} <= set(names)
    )
    x = tocha.ones(2)
    assert result.graph_module(x)[1].tolist() == [3.0, 3.0]
    assert not CSEPass()(result.graph_module).modified


def test_constants_match_only_equal_ones():
    module = symbolic_trace(lambda x: (x + 1, x + 1.0, x + True))
    done = replace_pattern_with_filters(module, lambda x: x + 1, lambda x: x.next_one())
    assert [n.target for n in module.graph.nodes if n.op == "call_method"] == ["next_one"] and len(done) == 1


def test_arguments_by_name_match_those_by_place():
    module = symbolic_trace(lambda x: F.dropout(x, 0.5, False))
    assert len(fx.replace_pattern(module, lambda x: F.dropout(x, training=False), lambda x: x)) == 1


def test_replaced_modules_bring_their_parts():
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)

        def forward(self, x):
            return self.first(x)

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.fresh = nn.Linear(3, 3)

        def forward(self, x):
            return self.fresh(x)

    net = symbolic_trace(Net())
    fx.replace_pattern(net, Old(), New())
    assert {n for n, _ in net.named_children()} == {"second", "fresh"} and net(*INPUTS)[0].shape == (2, 3)


def test_graphs_are_put_into_order():
    module = symbolic_trace(lambda x: tocha.relu(x + 1))
    _x, add, relu, out = module.graph.nodes
    out.append(add)
    out.append(relu)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        module.graph.lint()
    legalize_graph(module).graph.lint()
    assert [n.name for n in module.graph.nodes] == ["x", "add", "relu", "output"]


def test_sizes_and_targets():
    module = symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    get_size_of_all_nodes(module, [tocha.ones(1, 2)])
    assert [tuple(n.size_bytes) for n in module.graph.nodes if n.op == "call_module"] == [(12, 48), (12, 12)]
    module = symbolic_trace(lambda x: tocha.relu(x))
    replace_target_nodes_with(module, "call_function", tocha.relu, "call_method", "sigmoid")
    assert "x.sigmoid()" in module.code


def test_comparing_graphs():
    one, other = symbolic_trace(lambda x: tocha.relu(x) + 1), symbolic_trace(lambda y: tocha.relu(y) + 1)
    assert compare_graphs(one.graph, other.graph) and not compare_graphs(
        one.graph, symbolic_trace(lambda x: x + 1).graph
    )


def test_sources():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    found = get_source_partitions(symbolic_trace(net).graph, [nn.Linear])
    assert [p.output_nodes[0].name for p in found[nn.Linear]] == ["_0", "_1_0"]


def test_drawings_are_well_formed(tmp_path):
    inner = symbolic_trace(lambda x: tocha.relu(x) * 2)
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_module("part", (x,))
    graph.output([y, graph.call_function(tocha.add, (x, y), {"alpha": '<"&>'})])
    module = GraphModule({"part": inner}, graph)
    drawer = FxGraphDrawer(module, "two levels")
    assert set(drawer.get_all_dot_graphs()) == {"two levels", "two levels_part"}
    drawer.get_dot_graph().write_svg(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    kinds = [e.tag.rpartition("}")[2] for e in root.iter()]
    assert kinds.count("rect") == len(graph.nodes) and kinds.count("path") == 5 + 1
    boxes = [[float(e.get(k)) for k in ("x", "y", "width", "height")] for e in root.iter() if e.tag.endswith("rect")]
    apart = [
        a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    ]
    assert all(apart)
    text = drawer.get_submod_dot_graph("part").to_string()
    assert text.startswith('digraph "two levels_part" {') and '"relu" -> "mul";' in text
    with pytest.raises(ValueError, match="dot or svg"):
        drawer.get_dot_graph().create("png")


def test_arguments_in_their_normal_form():
    pair = normalize_function(F.dropout, (1,), {"training": False})
    assert pair.args == (1,) and pair.kwargs == {"p": 0.5, "training": False, "inplace": False}
    root = nn.Module()
    root.layer = nn.Linear(2, 2)
    assert normalize_module(root, "layer", (3,), normalize_to_only_use_kwargs=True).kwargs == {"input": 3}
    with pytest.raises(RuntimeError, match="root did not have that target"):
        normalize_module(root, "nothing", (3,))
    with pytest.raises(RuntimeError, match="Tried to trace mutable operation"):
        check_for_mutable_operation(tocha.relu_, (1,), {})
    module = symbolic_trace(lambda x: tocha.relu(x))
    assert NormalizeArgs(module).transform()(tocha.ones(1)).item() == 1


def test_inference():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.norm = nn.BatchNorm2d(2)
            self.drop = nn.Dropout()
            self.flat = nn.Flatten()
            self.lin = nn.Linear(8, 4)
            self.norm1 = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm1(self.lin(self.flat(self.drop(self.norm(self.conv(x))))))

    block = Block().eval()
    block.norm.running_mean += 0.5
    block.norm1.running_var *= 3
    x = tocha.randn(2, 1, 4, 4)
    for made in (fuse(block), remove_dropout(block), optimize_for_inference(block)):
        assert tocha.allclose(made(x), block(x), atol=1e-5)
    kinds = {type(m) for m in optimize_for_inference(block).children()}
    assert not kinds & {nn.BatchNorm1d, nn.BatchNorm2d, nn.Dropout} and isinstance(block.norm, nn.BatchNorm2d)
