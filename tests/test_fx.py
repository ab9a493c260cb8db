"""Graphs: nodes and their places, text that runs, tracing, interpreting. tests/parity/test_fx.py holds them against PyTorch."""

from __future__ import annotations

import copy
import dataclasses
import enum
import gc
import importlib
import io
import linecache
import math
import operator
import os
import pickle
import subprocess
import sys
import traceback
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocha
import tocha.nn.functional as F
from tocha import fx, nn
from tocha.fx import Graph, GraphModule, Interpreter, Proxy, Tracer, Transformer, symbolic_trace
from tocha.fx import traceback as fx_traceback
from tocha.fx.proxy import MetaProxy, TraceError
from tocha.nn.functional import dropout as imported_dropout

Point = namedtuple("Point", "x y")


@fx.wrap
def wrapped_by_decorator(x, y=1):
    return x.item() + y


def wrapped_by_name(x):
    return int(x)


fx.wrap("wrapped_by_name")
fx.wrap("len")


class Mode(enum.Enum):
    FAST = 1


def code_of(module):
    return module.code.strip()


def relu_graph():
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(tocha.relu, (x,))
    out = graph.output(relu)
    return graph, x, relu, out


# -- nodes ------------------------------------------------------------------------------------------------


def check_consistency(graph):
    nodes = list(graph.nodes)
    assert len(nodes) == len(graph.nodes) and list(reversed(graph.nodes)) == nodes[::-1]
    assert sorted(nodes, key=lambda n: n._sort_key) == nodes
    for n in nodes:
        assert all(n in i.users for i in n.all_input_nodes) and all(n in u.all_input_nodes for u in n.users)
        assert n.next.prev is n and n.prev.next is n
    for op in {n.op for n in nodes} - {"call_function"}:
        assert graph.find_nodes(op=op) == [n for n in nodes if n.op == op]
    for target in {n.target for n in nodes if n.op == "call_function"}:
        assert graph.find_nodes(op="call_function", target=target) == [n for n in nodes if n.target is target]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_any_sequence_of_changes_keeps_a_graph_consistent(steps):
    graph = Graph()
    graph.placeholder("x")
    for kind, i, j in steps:
        nodes = list(graph.nodes)
        a, b = nodes[i % len(nodes)], nodes[j % len(nodes)]
        if kind == 0:
            with graph.inserting_before(a):
                graph.call_function(tocha.add, (b, [a, {"k": slice(b, None)}]))
        elif kind == 1:
            with graph.inserting_after(a):
                graph.call_method("relu", (b,))
        elif kind == 2 and not a.users and len(nodes) > 1:
            graph.erase_node(a)
        elif kind == 3:
            a.prepend(b)
        elif kind == 4:
            a.append(b)
        elif a is not b and a not in b.all_input_nodes:
            a.replace_all_uses_with(b)
            if a.op == "call_function":
                a.target = tocha.sub
        check_consistency(graph)


def test_inserting_at_one_place_many_times_keeps_the_order():
    graph, x, _, _ = relu_graph()
    made = []
    for _ in range(200):
        with graph.inserting_after(x):
            made.append(graph.call_method("abs", (x,)))
    assert list(graph.nodes)[1:201] == made[::-1] and made[1] < made[0] and sorted(made) == made[::-1]


def test_nodes_may_be_erased_and_added_while_one_iterates():
    graph = Graph()
    x = graph.placeholder("x")
    for _ in range(5):
        graph.call_method("abs", (x,))
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node.name in ("abs_1", "abs_2"):
            graph.erase_node(node)
        if node.name == "abs_3":
            graph.erase_node(node.next)
            with graph.inserting_after(node):
                graph.call_method("neg", (x,))
    assert seen == ["x", "abs_1", "abs_2", "abs_3", "neg", "abs_5"]


def test_arguments_are_immutable_and_assigning_updates_users():
    graph, x, relu, _ = relu_graph()
    y = graph.placeholder("y")
    relu.args = ([x, {"k": (y, slice(y, 1))}],)
    assert relu.all_input_nodes == [x, y] and relu in y.users
    with pytest.raises(TypeError, match="does not support mutation"):
        relu.args[0].append(3)
    relu.args = (3,)
    assert not x.users and not y.users
    assert pickle.loads(pickle.dumps(relu.kwargs)) == {} and hash(fx.immutable_collections.immutable_list([1])) == hash(
        (1,)
    )


def test_nodes_take_attributes_of_others():
    _, x, _, _ = relu_graph()
    x.tag = "mine"
    assert x.tag == "mine" and not hasattr(x, "other")


def test_changing_a_target_moves_the_node_in_the_index():
    graph, _, relu, _ = relu_graph()
    relu.target = tocha.sigmoid
    assert graph.find_nodes(op="call_function", target=tocha.sigmoid) == [relu]
    relu.op = "call_method"
    relu.target = "sigmoid"
    assert graph.find_nodes(op="call_method") == [relu] and not graph.find_nodes(
        op="call_function", target=tocha.sigmoid
    )


def test_impurity():
    graph, x, relu, out = relu_graph()
    calls = [(tocha.rand, (2,)), (operator.setitem, (x, 0, 1)), (tocha._assert, (x, "m")), (tocha.relu_, (x,))]
    impure = [graph.call_function(f, a).is_impure() for f, a in calls]
    assert impure == [True, True, True, False] and x.is_impure() and out.is_impure() and not relu.is_impure()

    @fx.has_side_effect
    def effect(x):
        return x

    assert graph.call_function(effect, (x,)).is_impure()
    assert not graph.call_function(tocha.rand, (2,)).is_impure(impure_random=False)


def test_dead_code_goes_and_effects_stay():
    def f(x):
        tocha._assert(x.sum() > 0, "positive")
        unused = tocha.relu(x) + 1  # noqa: F841
        return x * 2

    module = symbolic_trace(f)
    assert module.graph.eliminate_dead_code() and not module.graph.eliminate_dead_code()
    module.recompile()
    assert [n.name for n in module.graph.nodes] == ["x", "sum_1", "gt", "_assert", "mul", "output"]
    with pytest.raises(AssertionError, match="positive"):
        module(-tocha.ones(2))


# -- text -------------------------------------------------------------------------------------------------


def test_everything_an_argument_can_be_prints_and_runs():
    def same(*args, **kwargs):
        return args, kwargs

    values = (
        math.inf, -math.inf, 1e-7, 1 + 2j, True, None, ..., "it's \"quoted\"\n", b"bytes", slice(1, None, 2), range(3),
        tocha.float16, tocha.device("cpu"), tocha.channels_last, tocha.strided, [1, (2,), {"k": [3]}], Point(1, 2), Mode.FAST,
        tocha.relu, F.softmax, operator.add, math.sqrt, len, int, tocha.Tensor, tocha.Tensor.relu, nn.Linear, list[int], (),
    )  # fmt: skip
    graph = Graph()
    graph.output(graph.call_function(same, values, {"class": 1, "ok": 2}))
    args, kwargs = GraphModule(nn.Module(), graph)()
    assert args == values and kwargs == {"class": 1, "ok": 2}


def test_text_keeps_what_operators_mean():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(
        (
            graph.call_function(operator.pow, (-2, x)),
            graph.call_method("bit_length", (5,)),
            graph.call_function(operator.neg, (-1,)),
            graph.call_function(getattr, (x, "real")),
            graph.call_function(operator.getitem, ([7, 8], 1)),
            graph.call_function(tocha.Tensor.T.__get__, (tocha_constant(graph),)),
        )
    )
    module = GraphModule({"constant": tocha.ones(2, 3)}, graph)
    assert module(2)[:5] == (4, 3, 1, 2, 8) and module(2)[5].shape == (3, 2)


def tocha_constant(graph):
    return graph.get_attr("constant")


def test_names_do_not_clash_with_what_the_text_needs():
    graph = Graph()
    nodes = [graph.placeholder(n) for n in ("nan", "device", "math_sqrt", "inf", "x", "mathSqrt", "print")]
    used = graph.call_function(math.sqrt, (nodes[4],))
    graph.output((used, *nodes, tocha.device("cpu"), math.inf))
    result = GraphModule(nn.Module(), graph)(1, 2, 3, 4, 16.0, 6, 7)
    assert result == (4.0, 1, 2, 3, 4, 16.0, 6, 7, tocha.device("cpu"), math.inf)


def test_what_is_known_of_values_is_printed():
    def f(x):
        return tocha.relu(x).to(tocha.bfloat16)

    module = symbolic_trace(f)
    relu, to = list(module.graph.nodes)[1:3]
    relu.meta["val"] = tocha.ones(2, 3)
    to.meta["val"] = tocha.ones(2, 3, dtype=tocha.bfloat16).t()
    relu.meta["stack_trace"] = '  File "model.py", line 3, in f\n    return tocha.relu(x)\n'
    text = module.print_readable(print_output=False, include_stride=True, include_device=True)
    assert text == (
        "class f(tocha.nn.Module):\n"
        "    def forward(self, x):\n"
        "        # File: model.py:3 in f, code: return tocha.relu(x)\n"
        '        relu: "f32[2, 3][3, 1]cpu" = tocha.relu(x);  x = None\n'
        "\n"
        "        # No stacktrace found for following nodes\n"
        '        to: "bf16[3, 2][1, 3]cpu" = relu.to(tocha.bfloat16);  relu = None\n'
        "        return to\n"
    )
    assert "\033[" in module.print_readable(print_output=False, colored=True)
    fx.config.do_not_emit_stack_traces = True
    try:
        assert "# File" not in module.print_readable(print_output=False)
    finally:
        fx.config.do_not_emit_stack_traces = False


def test_table(capsys):
    relu_graph()[0].print_tabular()
    assert capsys.readouterr().out.splitlines()[2].split() == ["placeholder", "x", "x", "()", "{}"]


PROGRAM = """
import tocha
from tocha.fx import symbolic_trace
class M(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = tocha.nn.Sequential(tocha.nn.Linear(2, 2), tocha.nn.ReLU())
    def forward(self, x):
        return {name: tocha.add(self.layers(x), i) for i, name in enumerate({"b", "a"} and ("b", "a"))}
g = symbolic_trace(M())
from tocha.fx.passes.graph_drawer import FxGraphDrawer
print(g.code, g.graph, FxGraphDrawer(g, "m").get_dot_graph().to_string(), [str(n.users) for n in g.graph.nodes])
"""


def test_text_does_not_depend_on_the_hash_seed():
    texts = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(texts) == 1 and "relu" in texts.pop().lower()


def test_tracebacks_show_the_generated_line(capsys):
    module = symbolic_trace(lambda x: tocha.relu(x @ x))
    with pytest.raises(RuntimeError) as error:
        module(tocha.ones(2, 3))
    assert any("matmul = x @ x" in (f.line or "") for f in traceback.extract_tb(error.value.__traceback__))
    linecache.checkcache()
    assert "matmul = x @ x" in "".join(traceback.format_exception(error.value))
    assert "Call using an FX-traced Module, line 5" in capsys.readouterr().err


def test_code_generators():
    class ListGen(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
            return f"def forward(self, args_list){maybe_return_annotation}:\n    {', '.join(free_vars)}, = args_list"

        def additional_globals(self):
            return [("magic", 41)]

        def process_inputs(self, *inputs):
            return inputs[0]

        def generate_output(self, output_args, *, descs=None, repr_fn=None):
            return f"return {repr_fn(output_args)} + magic"

        def process_outputs(self, out):
            return out + 41

    module = symbolic_trace(lambda x: x + 1)
    module.graph.set_codegen(ListGen())
    module.recompile()
    assert module([tocha.tensor(1)]).item() == 43 == Interpreter(module).run([tocha.tensor(1)]).item()


def test_lines_can_be_transformed():
    module = symbolic_trace(lambda x: x + 1)
    before = module.code
    with module.graph.on_generate_code(lambda old: lambda body: ["x = x * 10\n", *body]):
        module.recompile()
        assert module(tocha.tensor(1)).item() == 11
    assert module.recompile().src == before


# -- modules ----------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.scale = nn.Parameter(tocha.full((2,), 3.0))
        self.register_buffer("shift", tocha.ones(2))
        self.inner = nn.Sequential(nn.Tanh(), nn.Linear(2, 2))
        self.plain = tocha.full((2,), 5.0)

    def forward(self, x):
        return self.inner(self.first(x) * self.scale + self.shift) + self.plain


def test_copies_share_nothing_and_keep_everything():
    net = symbolic_trace(Net())
    net.note = "kept"
    net.meta["m"] = 1
    other = copy.deepcopy(net)
    x = tocha.ones(1, 2)
    assert tocha.equal(net(x), other(x)) and other.note == "kept" and other.meta == {"m": 1}
    other.scale.data.zero_()
    assert not tocha.equal(net(x), other(x)) and other.graph is not net.graph
    shallow = copy.copy(net)
    assert shallow.scale is net.scale and shallow.graph is net.graph and net.graph.owning_module is net


def test_pickles():
    net = symbolic_trace(Net()).eval()
    loaded = pickle.loads(pickle.dumps(net))
    x = tocha.ones(1, 2)
    assert tocha.equal(net(x), loaded(x)) and loaded.code == net.code and not loaded.training
    buffer = io.BytesIO()
    tocha.save(net, buffer)
    buffer.seek(0)
    assert tocha.equal(tocha.load(buffer, weights_only=False)(x), net(x))


def test_long_graphs_are_copied_and_pickled():
    graph = Graph()
    node = graph.placeholder("x")
    for _ in range(3000):
        node = graph.call_function(operator.add, (node, 1))
    graph.output(node)
    for again in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert str(again) == str(graph)
        check_lengths = (len(again.nodes), len(again.find_nodes(op="call_function", target=operator.add)))
        assert check_lengths == (3002, 3000)
    assert GraphModule(nn.Module(), graph)(1) == 3001


def test_folders_are_packages(tmp_path, monkeypatch):
    net = symbolic_trace(Net())
    net.to_folder(tmp_path / "saved_net", "SavedNet")
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = importlib.import_module("saved_net").SavedNet()
    assert tocha.equal(loaded(tocha.ones(1, 2)), net(tocha.ones(1, 2)))


def test_submodules():
    net = symbolic_trace(Net())
    assert net.add_submodule("a.b.c", nn.ReLU()) and not net.add_submodule("scale.c", nn.ReLU())
    assert net.delete_submodule("a.b.c") and not net.delete_submodule("a.b.c") and not net.delete_submodule("scale")
    net.delete_all_unused_submodules()
    assert [n for n, _ in net.named_modules()] == ["", "first", "inner", "inner.0", "inner.1"]
    net.graph.lint()
    net.train()
    assert net.inner[1].training if isinstance(net.inner, nn.Sequential) else net.get_submodule("inner.1").training


def test_lint_finds_what_is_wrong():
    graph, x, relu, _ = relu_graph()
    x.prepend(relu)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()
    _other, foreign, _, _ = relu_graph()
    graph, x, relu, _ = relu_graph()
    relu.args = (foreign,)
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        graph.lint()
    net = symbolic_trace(Net())
    net.delete_submodule("first")
    with pytest.raises(RuntimeError, match="references nonexistent attribute first"):
        net.graph.lint()


def test_hooks_see_changes():
    net = symbolic_trace(lambda x: tocha.relu(x) + 1)
    seen = []
    net._register_create_node_hook(lambda n: seen.append(("create", n.name)))
    net._register_erase_node_hook(lambda n: seen.append(("erase", n.name)))
    with net._set_replace_hook(lambda old, new, user: seen.append(("replace", old.name, new, user.name))):
        relu = list(net.graph.nodes)[1]
        with net.graph.inserting_after(relu):
            new = net.graph.call_method("abs", (relu.args[0],))
        relu.replace_all_uses_with(new)
        net.graph.erase_node(relu)
    assert seen == [("create", "abs_1"), ("replace", "relu", "abs_1", "add"), ("erase", "relu")]


# -- tracing ----------------------------------------------------------------------------------------------


def test_functions_imported_by_name_are_seen():
    module = symbolic_trace(lambda x: imported_dropout(x, 0.3))
    assert code_of(module).splitlines()[1].strip().startswith("dropout = tocha.nn.functional.dropout(x, p = 0.3")
    assert imported_dropout is F.dropout and imported_dropout.__module__.startswith("tocha.nn")


def test_wrapped_functions_are_leaves():
    module = symbolic_trace(lambda x: wrapped_by_decorator(x, y=2) + wrapped_by_name(x) + len(x))
    assert [n.name for n in module.graph.nodes] == [
        "x",
        "wrapped_by_decorator",
        "wrapped_by_name",
        "add",
        "len_1",
        "add_1",
        "output",
    ]
    assert module(tocha.tensor([4])) == 4 + 2 + 4 + 1
    assert pickle.loads(pickle.dumps(module)).code == module.code
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap("something")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def test_a_failed_trace_leaves_nothing_behind():
    call, attribute, dropout, zeros = nn.Module.__call__, nn.Module.__getattr__, F.dropout, tocha.zeros
    with pytest.raises(TraceError, match="cannot be used as inputs to control flow"):
        symbolic_trace(lambda x: x if F.dropout(x).sum() else len(x))
    assert (nn.Module.__call__, nn.Module.__getattr__, F.dropout, tocha.zeros) == (call, attribute, dropout, zeros)
    assert not fx._symbolic_trace.is_fx_tracing()


def test_module_paths_are_noted():
    nodes = {n.name: n for n in symbolic_trace(Net()).graph.nodes}
    assert list(nodes["inner_1"].meta["nn_module_stack"]) == ["inner", "inner.1"]
    assert nodes["inner_1"].meta["nn_module_stack"]["inner.1"] == ("inner.1", nn.Linear)
    assert "nn_module_stack" not in nodes["mul"].meta


def test_calls_of_one_module_are_told_apart():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x):
            return self.part(self.part(x))

    stacks = [list(n.meta["nn_module_stack"]) for n in symbolic_trace(Twice()).graph.nodes if n.op == "call_module"]
    assert stacks == [["part", "part.0"], ["part@1", "part.0@1"]]


def test_stack_traces_lead_to_the_program():
    class Recording(Tracer):
        record_stack_traces = True

    def f(x):
        return tocha.relu(x) + 1

    graph = Recording().trace(f)
    traces = {n.name: n.stack_trace for n in graph.nodes if n.op == "call_function"}
    assert "return tocha.relu(x) + 1" in traces["relu"] and "tocha/fx" not in traces["relu"]
    text = GraphModule(nn.Module(), graph).print_readable(print_output=False)
    assert "# File: " in text and "code: return tocha.relu(x) + 1" in text


def test_asserts_can_be_traced():
    class Asserting(Tracer):
        trace_asserts = True

    names = {}
    exec("def f(x):\n    assert x.sum() > 0\n    return x * 2", names)  # pytest writes assert statements its own way
    module = GraphModule(nn.Module(), Asserting().trace(names["f"]))
    assert module(tocha.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError):
        module(-tocha.ones(2))


def test_buffers_and_parameters_as_proxies():
    class Buffers(Tracer):
        proxy_buffer_attributes = True

    class Shapes(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(tocha.ones(2, 3))
            self.register_buffer("b", tocha.ones(2, 3))

        def forward(self, x):
            return x + self.b if self.w.shape[0] == 2 else x

    graph = Buffers(param_shapes_constant=True).trace(Shapes())
    assert [n.target for n in graph.nodes if n.op == "get_attr"] == ["w", "b"]
    with pytest.raises(TraceError):
        Tracer().trace(Shapes())


def test_dataclasses_and_own_arguments():
    @dataclasses.dataclass
    class Pair:
        a: object
        b: int

    class Own:
        def __init__(self, proxy):
            self.proxy = proxy

        def __fx_create_arg__(self, tracer):
            return tracer.create_node("call_function", tocha.neg, (self.proxy.node,), {})

    def f(x):
        return Pair(x, 1), x + Own(x)

    module = symbolic_trace(f)
    pair, total = module(tocha.ones(1))
    assert pair.b == 1 and total.item() == 0


class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def total(self, x):
        return self.left + self.right + x


def test_classes_may_be_made_of_proxies():
    constant = Pair(1, 2)
    module = symbolic_trace(lambda x: (Pair(x, 3).total(x), tocha.neg(x).apply_pair(constant)))
    assert [n.op for n in module.graph.nodes if n.op == "get_attr" or n.target is Pair] == ["call_function", "get_attr"]
    assert Interpreter(symbolic_trace(lambda x: Pair(x, 3).total(x))).run(2) == 7


def test_trees_are_checked_at_their_fixed_places():
    module = symbolic_trace(lambda d: d["a"] + d["b"][0], concrete_args={"d": {"a": fx.PH, "b": [fx.PH, 3]}})
    one = tocha.ones(1)
    assert module({"a": one, "b": [one, 3]}).item() == 2
    with pytest.raises(AssertionError, match="d has been specialized to have value 3"):
        module({"a": one, "b": [one, 4]})
    again = pickle.loads(pickle.dumps(module))
    assert again({"a": one, "b": [one, 3]}).item() == 2


def test_a_proxy_of_two_tracers_is_refused():
    a, b = (Proxy(Graph().placeholder("x")) for _ in range(2))
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        tocha.add(a, b)


def test_meta_proxies_know_their_values():
    graph = Graph()
    node = graph.placeholder("x")
    node.meta["val"] = tocha.empty(2, 3, device="meta")
    x = MetaProxy(node)
    assert tocha.matmul(x, tocha.empty(3, 4, device="meta")).node.meta["val"].shape == (2, 4)


def test_notes_are_taken_over():
    with fx_traceback.preserve_node_meta(), fx_traceback.annotate({"stage": 1}):
        module = symbolic_trace(lambda x: x + 1)
    assert all(n.meta["custom"] == {"stage": 1} for n in module.graph.nodes) and fx_traceback.get_current_meta() == {}

    class Renaming(Transformer):
        pass

    node = list(module.graph.nodes)[1]
    node.stack_trace = '  File "m.py", line 1, in f\n    x + 1\n'
    assert list(Renaming(module).transform().graph.nodes)[1].stack_trace == node.stack_trace


# -- interpreting -----------------------------------------------------------------------------------------


def test_values_are_freed_after_their_last_use():
    module = symbolic_trace(lambda x: tocha.relu(x + 1) * 2)
    alive = []

    class Counting(Interpreter):
        def run_node(self, n):
            alive.append(len(self.env))
            return super().run_node(n)

    Counting(module).run(tocha.ones(1))
    assert alive == [0, 1, 1, 1, 1]
    alive.clear()
    Counting(module, garbage_collect_values=False).run(tocha.ones(1))
    assert alive == [0, 1, 2, 3, 4]


def test_interpreters_start_where_they_are_told_to():
    module = symbolic_trace(lambda x: tocha.relu(x) + 1)
    relu = list(module.graph.nodes)[1]
    assert (
        Interpreter(module).run(initial_env={relu: tocha.tensor(5), next(iter(module.graph.nodes)): None}).item() == 6
    )
    args = [tocha.tensor(2)]
    assert Interpreter(module).boxed_run(args).item() == 3 and args == []


def test_errors_name_the_node():
    module = symbolic_trace(lambda x: tocha.relu(x @ x))
    with pytest.raises(RuntimeError, match=r"While executing %matmul : .* = call_function\[target=operator.matmul\]"):
        Interpreter(module).run(tocha.ones(2, 3))
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        Interpreter(module).run()


def test_defaults_and_extra_arguments():
    module = symbolic_trace(lambda x, y=3, *rest: x + y + rest[0])
    assert Interpreter(module).run(1, 2, 3) == 6 == module(1, 2, 3)
    assert Interpreter(symbolic_trace(lambda x, y=3: x + y)).run(1) == 4


def test_graphs_in_graphs_are_cleaned_and_printed():
    inner = symbolic_trace(lambda x: (x + 1, tocha.relu(x))[1])
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("part", (x,)))
    outer = GraphModule({"part": inner}, graph)
    assert "class part(tocha.nn.Module):" in outer.print_readable(print_output=False)
    assert outer.graph.eliminate_dead_code() and len(inner.graph.nodes) == 3
    inner.recompile()
    assert outer(tocha.ones(1)).item() == 1


def test_the_text_of_generated_code_dies_with_it():
    def sources():
        gc.collect()
        return sum(name.startswith("<eval_with_key>") for name in linecache.cache)

    def f(x):
        return x.sin() + 1

    traced, before = fx.symbolic_trace(f), sources()
    assert "sin" in "".join(linecache.getlines(type(traced).forward.__code__.co_filename))
    for _ in range(5):
        fx.symbolic_trace(f)
    assert sources() <= before
