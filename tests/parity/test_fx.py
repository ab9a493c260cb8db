"""tocha.fx against torch.fx: the same programs, traced, printed, changed and run by both."""

from __future__ import annotations

import builtins
import collections
import copy
import functools
import math
import operator
import pickle
import re
import typing

import numpy as np
import pytest
import torch
import torch.fx
import torch.fx.experimental.optimization
import torch.fx.passes.dialect.common.cse_pass
import torch.fx.passes.infra.partitioner
import torch.fx.passes.infra.pass_manager
import torch.fx.passes.operator_support
import torch.fx.passes.shape_prop
import torch.fx.passes.split_module
import torch.fx.passes.split_utils
import torch.fx.subgraph_rewriter
import torch.utils._pytree

import tocha
import tocha.fx
import tocha.fx.experimental.optimization
import tocha.fx.passes.dialect.common.cse_pass
import tocha.fx.passes.infra.partitioner
import tocha.fx.passes.infra.pass_manager
import tocha.fx.subgraph_rewriter
import tocha.utils._pytree

Point = collections.namedtuple("Point", "x y")

MODULES = """
class Sub(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
    def forward(self, x):
        return self.lin(x).relu()

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.p = nn.Parameter(m.ones(3))
        self.register_buffer("buf", m.zeros(3))
        self.sub = Sub()
        self.lst = nn.ModuleList([nn.Linear(3, 3)])
        self.const = m.ones(3)
    def forward(self, x):
        y = self.lin(x + self.p + self.buf) + self.seq(x) + self.sub(x) + self.const
        for layer in self.lst:
            y = layer(y)
        return y + self.sub.lin.weight.sum() + self.sub(y)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        return self.drop(m.relu(self.bn(self.conv(x))))

class Options(nn.Module):
    def forward(self, x, *, scale=2, shift=None):
        return x * scale

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = self.a
    def forward(self, x):
        return self.a(x) + self.b(x) + self.a.weight.sum()
"""


def names_of(lib):
    functional = __import__(f"{lib.__name__}.nn.functional", fromlist=["relu"])
    names = {
        "m": lib, "nn": lib.nn, "F": functional, "fx": lib.fx, "operator": operator, "math": math, "builtins": builtins,
        "typing": typing, "Point": Point, "PH": lib.fx.PH, "Graph": lib.fx.Graph, "Tracer": lib.fx.Tracer,
        "GraphModule": lib.fx.GraphModule, "st": lib.fx.symbolic_trace, "partial": functools.partial, "__name__": "__main__",
    }  # fmt: skip
    exec(MODULES, names)
    return names


NAMES = {lib: names_of(lib) for lib in (torch, tocha)}


def in_our_words(text):
    text = (
        text.replace("on pytorch.org ", "").replace("torch", "tocha").replace("tocha._C._nn.", "tocha.nn.functional.")
    )
    text = text.replace("tocha._C.TensorBase", "tocha.Tensor").replace("tocha.functional.", "tocha.")
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def both(run):
    """What a function of the library's names gives for both, as text: theirs in our words, and ours."""
    answers = []
    for lib in (torch, tocha):
        try:
            answer = run(NAMES[lib])
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        answers.append(in_our_words(answer if isinstance(answer, str) else repr(answer)))
    return answers


def check(run):
    theirs, ours = both(run)
    assert ours == theirs


def target_text(node):
    return node.target if isinstance(node.target, str) else node.target.__name__


def described(module):
    rows = [(n.op, n.name, target_text(n), str(n.args), str(n.kwargs)) for n in module.graph.nodes]
    return module.code + "\n".join(map(str, rows)) + str(module.graph)


# -- programs ---------------------------------------------------------------------------------------------

PROGRAMS = [
    "lambda x, y=2: x + y", "lambda x, *args, **kw: x + args[0] + kw['a']", "lambda x: x[1:, None, ..., ::2]",
    "lambda x: {'a': x, 'b': [x + 1, (x,)]}", "lambda x: Point(x, x + 1)", "lambda x: m.zeros(2) + x", "lambda x: m.ones(3) == x",
    "lambda x: m.ones(3) < x", "lambda x: m.ones(3)[x]", "lambda x: m.ones(3) - x", "lambda x: m.ones(3).__rsub__(x)",
    "lambda x: x.view(-1, x.size(0)).t().shape[0]", "lambda x: (2 - x, 2 ** x, 2 // x, 2 % x, 1 @ x, 2 < x, 2 >> x)",
    "lambda x: (-x, ~x, +x, abs(x), x.add_(1))", "lambda x: (x & 1, x | 1, x ^ 1, 1 & x, 1 | x, x << 1, x >> 1)",
    "lambda x: (x != 1, x <= 1, x >= 1, x == 1, x > 1)", "lambda x: (x * float('inf'), x * float('nan'), x * -float('inf'))",
    "lambda x: (x * 1e-7, x * (1 + 2j), x * True)", "lambda x: (m.cat([x, x], dim=0), m.stack((x, x)))",
    "lambda x: (x.T, x.dtype, x.shape, x.grad)", "lambda x: math.sqrt(x) + math.pi", "lambda x: m.tensor([1.0, 2]) + x",
    "lambda x: (x.to(m.float16), x.to(device=m.device('cpu')), x.to(memory_format=m.channels_last))",
    "lambda x: (operator.add(x, 1), operator.getitem(x, 0), m.add(x, 1))", "lambda x: x.foo.bar(3)", "lambda x: x(3)",
    "lambda x: None", "lambda x: ([x][0:1], 'str', 1)", "lambda x: (m.max(x, 0).values, m.max(x, 0)[1])",
    "lambda x: (x.new_zeros(3), m.zeros_like(x), m.arange(x.size(0)))", "lambda x: sum([x, x])", "lambda x: (str(x), repr(x))",
    "lambda x: isinstance(x, m.Tensor)", "lambda x, y: [a + b for a, b in [(x, y), (y, x)]]", "lambda: m.ones(3)",
    "lambda x: m.full((2,), x)", "lambda x: m.zeros((x.size(0), 3))", "lambda x: m.empty(x.shape)",
    "lambda x: m.linspace(0, x, 3)", "lambda x: x.shape.numel()", "lambda x: m.numel(x)", "lambda x: m.is_tensor(x)",
    "lambda x: m.is_floating_point(x)", "lambda x: m._assert(x, 'message')", "lambda x: m.einsum('ij->i', x)",
    "lambda x: x[Point(1, x)]", "lambda x: {1: x}", "lambda x: x.f(range(3), slice(x, 2))", "lambda x: x.sum(dim=(0, 1), keepdim=True)",
    "lambda x: getattr(x, 'T')", "lambda aB, CD: aB + CD", "lambda input, list: input + list[0]", "lambda x: x.__len__",
    "lambda x: m.relu(x).relu().relu_()", "lambda x: (x + 1, m.relu(x + 2))[0]", "lambda x: m.where(x > 0, x, -x)",
    "lambda x: m.clamp(x, min=0, max=1)", "lambda x: m.sum(x, dim=-1, keepdim=True)", "lambda x: m.matmul(x, x.transpose(0, 1))",
    "lambda x: m.bmm(x, x).unsqueeze(-1).expand(-1, 2)", "lambda x: m.isnan(x).any()", "lambda x: m.flatten(x, 1)",
    "lambda x: x.chunk(2, dim=0)[0]", "lambda x: m.chunk(x, 2)", "lambda x: m.tril(x)",
    "lambda x: m.exp(x).log().sqrt().sin().cos()", "lambda x: m.special.expit(x) if hasattr(m.special, 'zzz') else x",
    "lambda x: F.relu(x, inplace=True)", "lambda x: F.softmax(x, dim=-1)", "lambda x: F.linear(x, x)", "lambda x: F.gelu(x)",
    "lambda x: F.dropout(x)", "lambda x: F.cross_entropy(x, x)", "lambda x: F.max_pool2d(x, 2)",
    "lambda x: F.interpolate(x, scale_factor=2)", "lambda x: F.log_softmax(x, -1)", "lambda x: F.nll_loss(x, x)",
    "lambda x: F.hardtanh(x)", "lambda x: F.silu(x)", "lambda x: F.leaky_relu(x, 0.2)",
    "lambda x: F.elu(x)", "lambda x: F.pixel_shuffle(x, 2)", "lambda x: F.scaled_dot_product_attention(x, x, x)",
    "lambda x: m.split(x, 2)", "lambda x: m.unique(x)", "lambda x: F.smooth_l1_loss(x, x)", "lambda x: F.one_hot(x)",
    "Whole()", "nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU(), nn.Tanh()))", "Block()", "Options()", "Tied()",
    "nn.ReLU()", "nn.Softmax(dim=1)", "Sub()",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_traces(program):
    check(lambda n: described(n["st"](eval(program, n))))


# Functions that are native here and written in Python there: they record the arguments as they were given, not all of them.
NATIVE_HERE = [
    "lambda x: F.layer_norm(x, (3,))", "lambda x: F.batch_norm(x, x, x)", "lambda x: F.group_norm(x, 2)", "lambda x: F.pad(x, (1, 1))",
    "lambda x: F.embedding(x, x)", "lambda x: F.normalize(x)", "lambda x: m.norm(x)", "lambda x: F.mse_loss(x, x)",
    "lambda x, y: m.cdist(x, y)",
    "lambda x: F.conv2d(x, x)", "lambda x: F.glu(x)", "lambda x: F.unfold(x, 2)", "lambda x: m.tensordot(x, x)",
]  # fmt: skip


@pytest.mark.parametrize("program", NATIVE_HERE)
def test_traces_of_native_functions(program):
    check(lambda n: [(x.op, x.name, target_text(x), str(x.args)) for x in n["st"](eval(program, n)).graph.nodes])


REFUSED = [
    "lambda x: x if x.sum() > 0 else -x", "lambda x: [i for i in x]", "lambda x: len(x)", "lambda x: x.__setitem__.zz[0] and 1",
    "lambda x: int(x)", "lambda x: range(x)", "lambda x: x in [1]", "lambda x: {**x}", "lambda x: print(*x)", "lambda x: x or 1",
    "lambda x: not x", "lambda x: m.Tensor.add(x, 1)", "lambda x: divmod(x, x)", "lambda x: bool(x)", "lambda x: x + object()",
    "lambda x: (x, object())", "lambda x: {x: 1}", "lambda x: x[{1, 2}]", "lambda x: max(x, x)", "print", "m.relu", "3", "nn.Module()",
    "partial(lambda x, y: x, y=1)",
]  # fmt: skip


@pytest.mark.parametrize("program", REFUSED)
def test_refusals(program):
    theirs, ours = both(lambda n: described(n["st"](eval(program, n))))
    assert ours == theirs and ("Error" in ours.partition(":")[0] or "zz" in program)


@pytest.mark.parametrize(
    ("program", "concrete"),
    [
        ("lambda x, y, flag=True, n=3: (x + n if flag else x) * y", "{'flag': True}"),
        ("lambda x, y, flag=True, n=3: (x + n if flag else x) * y", "{'flag': False, 'n': 5}"),
        ("lambda x, y, flag=True, n=3: (x + n if flag else x) * y", "{'flag': None}"),
        ("lambda x, flag: x if flag == 's' else -x", "{'flag': 's'}"),
        ("lambda d: d['a'] + d['b'][0]", "{'d': {'a': PH, 'b': [PH, PH]}}"),
        ("lambda d: d['a'] + d['b'][0]", "{'d': {'a': PH, 'b': [PH, 3]}}"),
        ("lambda t, u: (t[0] + t[1] * u, {'q': u})", "{'t': (PH, PH)}"),
        ("lambda t, u: t.x + t.y * u", "{'t': Point(PH, PH)}"),
        ("lambda x, k=None: x if k is None else x + k", "{'k': None}"),
        ("lambda x, *args, **kw: x + args[0] + kw['z']", "{'x': PH}"),
    ],
)
def test_concrete_arguments(program, concrete):
    check(lambda n: described(n["st"](eval(program, n), concrete_args=eval(concrete, n))))


TREE = "st(lambda d, t: {'r': [t[0] + t[1], d['a']]}, concrete_args={'t': (PH, PH), 'd': {'a': PH}})"


def test_trees_run_and_are_interpreted_and_pickled():
    def run(n):
        module = eval(TREE, n)
        arguments = ({"a": n["m"].zeros(1)}, (n["m"].ones(2), n["m"].ones(2)))
        results = [module(*arguments), n["fx"].Interpreter(module).run(*arguments), copy.deepcopy(module)(*arguments)]
        return [str(r) for r in results], str(module._in_spec), str(module._out_spec)

    check(run)
    module = eval(TREE, NAMES[tocha])
    loaded = pickle.loads(pickle.dumps(module))
    arguments = ({"a": tocha.zeros(1)}, (tocha.ones(2), tocha.ones(2)))
    assert str(loaded(*arguments)) == str(module(*arguments)) and loaded.code == module.code


# -- graphs made by hand ----------------------------------------------------------------------------------

GRAPH = """
g = Graph()
x, y = g.placeholder("x", type_expr=m.Tensor), g.placeholder("y", default_value=3)
add = g.call_function(m.add, (x, y), {"alpha": 2})
items = g.call_function(m.cat, ([x, add, {"k": (x, slice(x, None, y))}],))
view = g.call_method("view", (items, -1))
attr = g.get_attr("deep.weight")
mod = g.call_module("layer.0", (view,))
out = g.output((mod, [attr, {"z": add}]))
"""
STEPS = [
    "str(g)", "[n.all_input_nodes for n in g.nodes]", "[list(n.users) for n in g.nodes]", "items.args, type(items.args[0]).__name__",
    "items.args[0].append(1)", "add.kwargs.update(a=1)", "add.update_arg(1, x), add.args, list(y.users)", "add.update_arg(5, x)",
    "add.insert_arg(1, attr), add.args", "add.insert_arg(9, attr)", "add.insert_arg(-1, attr)", "add.update_kwarg('q', y), add.kwargs",
    "x.replace_all_uses_with(y), str(g)", "x.replace_all_uses_with(y, delete_user_cb=lambda n: n is add), str(g)",
    "add.replace_input_with(x, y), add.args, list(x.users)", "view.next, view.prev, x.prev.op, out.next.op",
    "view.prepend(out), list(g.nodes)", "x.append(out), list(g.nodes)", "view.append(view), list(g.nodes)",
    "view.append(Graph().placeholder('q'))", "g.erase_node(add)", "g.erase_node(out), len(g.nodes), out._erased",
    "g.create_node('foo', 'x')", "g.inserting_before(Graph().placeholder('q'))", "g.inserting_after(Graph().placeholder('q'))",
    "g.find_nodes(op='call_function', target=m.add), g.find_nodes(op='placeholder'), g.find_nodes(op='call_method', target='t')",
    "g.find_nodes(op='call_function')", "g.output_node(), g.output_node().args", "Graph().output_node()",
    "fx.map_arg((x, [y, {'c': slice(x, y, 1)}], 3), lambda n: n.name)", "fx.map_arg(3, 4)",
    "fx.node.map_aggregate((1, [2, {'c': slice(1, 2)}], None), str)", "type(fx.node.map_aggregate({'a': 1}, str)).__name__",
    "x < y, y < x, sorted([out, x, view])", "[n.is_impure() for n in g.nodes if n.op != 'call_module']", "g.lint()",
    "view.prepend(mod), g.lint()", "[n.format_node() for n in g.nodes]", "g.python_code('self').src",
    "str(__import__('copy').deepcopy(g))", "str(__import__('pickle').loads(__import__('pickle').dumps(g)))",
    "(lambda o: (o.graph_copy(g, {}), str(o)))(Graph())", "(lambda o: (o.node_copy(x), str(o)))(Graph())", "x.stack_trace, x.type, x.meta",
    "[g.call_function(m.relu, (x,)).name for _ in range(3)]", "g.call_function(m.relu, (x,), name='add_5').name, g.call_function(m.add).name",
    "[g.placeholder(n).name for n in ('x', 'x_1', 'my-name!', '1abc', 'for', 'self', 'list', 'inf', 'aB', '__', 'HTTPServer')]",
    "(setattr(add, 'target', m.sub), g.find_nodes(op='call_function', target=m.sub), g.find_nodes(op='call_function', target=m.add))",
    "x._rename('hello'), str(g)", "GraphModule(nn.Module(), g)", "GraphModule({}, g)", "GraphModule(3, Graph())",
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_graphs_by_hand(step):
    def run(n):
        names = dict(n)
        exec(GRAPH, names)
        return eval(step, names)

    check(run)


CODE = [
    "(operator.getitem, (x, (slice(1, 2), 0)))", "(operator.and_, (x, x))", "(operator.not_, (x,))", "(operator.contains, (x, 1))",
    "(operator.imul, (x, 3))", "(operator.setitem, (x, (0, slice(None)), 1))", "(setattr, (x, 'a', 3))", "(getattr, (x, 'a b'))",
    "(getattr, (x, 'a', None))", "(print, (x, 'a\"b', None, ..., True))", "(isinstance, (x, 1))",
    "(Point, (x, 1))", "(dict, (), {'a': x})", "(math.floor, (x,))", "(m.autograd.grad, (x,))", "(len, ([x, (1,), {}],))",
    "(m.add, (x, m.float32, m.device('cpu', 0), m.strided, m.contiguous_format))", "(print, (1e400, -1e400, 1 + 2j, b'x', range(3)))",
    "(m.nn.modules.linear.Linear, (1, 2))",
]  # fmt: skip


@pytest.mark.parametrize("call", CODE)
def test_text_of_calls(call):
    def run(n):
        g = n["Graph"]()
        x = g.placeholder("x")
        g.call_function(*eval(call, {**n, "x": x}))
        g.output(x)
        return g.python_code("self").src

    check(run)


# -- modules ----------------------------------------------------------------------------------------------

MODULE_STEPS = [
    "str(g)", "[n for n, _ in g.named_parameters()]", "[n for n, _ in g.named_modules()]", "sorted(g.state_dict())", "type(g).__name__",
    "isinstance(g, GraphModule), g.graph.owning_module is g", "g.add_submodule('a.b.c', nn.ReLU()), str(g.a)",
    "g.add_submodule('p.c', nn.ReLU())", "g.delete_submodule('lin'), g.delete_submodule('nope'), g.delete_submodule('p')",
    "(g.add_submodule('new', nn.ReLU()), g.delete_all_unused_submodules(), [n for n, _ in g.named_modules()])",
    "(g.eval().training, g.sub.lin.training)", "setattr(g, 'graph', 3)", "g.recompile().src == g.code, g.recompile()._prologue_start",
    "g.print_readable(print_output=False)", "[n.meta.get('nn_module_stack') and list(n.meta['nn_module_stack']) for n in g.graph.nodes]",
    "(setattr(g.graph.output_node(), 'args', (g.graph.output_node().args[0].args[0],)), g.graph.eliminate_dead_code(), g.recompile().src)[1:2], g.code",
    "__import__('copy').deepcopy(g).code", "__import__('copy').copy(g).code", "__import__('pickle').loads(__import__('pickle').dumps(g)).code",
    "(lambda t: (t.trace(Whole()), t.path_of_module(t.root.sub.lin))[1])(Tracer())",
    "g(1, 2, 3)", "g()", "g.graph.find_nodes(op='call_module', target='lin')",
    "[(n.name, tuple(n.meta['tensor_meta'].shape)) for n in (fx.passes.shape_prop.ShapeProp(g).propagate(m.ones(2, 3)), g)[1].graph.nodes]",
    "(fx.passes.shape_prop.ShapeProp(g).propagate(m.ones(2, 3)), g.print_readable(print_output=False, include_stride=True, include_device=True))[1]",
    "fx.Transformer(g).transform().code", "[n.normalized_arguments(g) for n in g.graph.nodes if n.name == 'lin']",
]  # fmt: skip


@pytest.mark.parametrize("step", MODULE_STEPS)
def test_modules(step):
    check(lambda n: eval(step, {**n, "g": n["st"](n["Whole"]())}))


def with_the_same_weights(lib, module):
    for i, p in enumerate(module.parameters()):
        values = np.random.default_rng(i).standard_normal(tuple(p.shape)).astype(np.float32)
        p.data = lib.tensor(values)
    return module.eval()


@pytest.mark.parametrize("name", ["Whole()", "Block()", "Tied()", "nn.Sequential(nn.Linear(3, 3), nn.ReLU())"])
@pytest.mark.parametrize(
    "way",
    [
        "m",
        "fx.Interpreter(m).run",
        "copy.deepcopy(m)",
        "pickle.loads(pickle.dumps(m))",
        "fx.Transformer(m).transform()",
    ],
)
def test_values(name, way):
    results = []
    for lib in (torch, tocha):
        n = NAMES[lib]
        module = n["st"](with_the_same_weights(lib, eval(name, n)))
        x = lib.tensor(
            np.random.default_rng(9).standard_normal((2, 1, 4, 4) if "Block" in name else (3, 3)).astype(np.float32)
        )
        results.append(eval(way, {**n, "m": module, "copy": copy, "pickle": pickle})(x).detach().numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


# -- tracers ----------------------------------------------------------------------------------------------

TRACERS = [
    ("type('T', (Tracer,), {'is_leaf_module': lambda self, m, n: False})()", "Whole()"),
    ("type('T', (Tracer,), {'is_leaf_module': lambda self, m, n: True})()", "Whole()"),
    ("Tracer(param_shapes_constant=True)", "Whole()"), ("type('T', (Tracer,), {'proxy_buffer_attributes': True})()", "Whole()"),
    ("type('T', (Tracer,), {'to_bool': lambda self, p: True})()", "lambda x: x if x else -x"),
    ("type('T', (Tracer,), {'iter': lambda self, p: iter([p[0], p[1]])})()", "lambda x: sum(i for i in x)"),
    ("type('T', (Tracer,), {'check_mutable_operations': True})()", "lambda x: m.add(x, 1)"),
    ("Tracer(autowrap_functions=(lib,))", "lambda x: lib(x) + 1"), ("Tracer(autowrap_modules=(operator,))", "lambda x: operator.concat(x, x)"),
]  # fmt: skip


@pytest.mark.parametrize(("tracer", "program"), TRACERS)
def test_tracers(tracer, program):
    def run(n):
        names = dict(n)
        exec("def lib(x):\n    return 3", names)
        t = eval(tracer, names)
        graph = t.trace(eval(program, names))
        return described(n["GraphModule"](t.root, graph))

    check(run)


# -- patterns ---------------------------------------------------------------------------------------------

REWRITES = [
    ("lambda x, a, b: x + m.max(m.cat([a, b]).sum()) + m.max(m.cat([a, b]).sum())", "lambda p, q: m.cat([p, q]).sum()", "lambda p, q: m.stack([p, q])"),
    ("lambda x: (lambda a: m.relu(a + 1) + a)(m.relu(x))", "lambda x: m.relu(x)", "lambda x: m.sigmoid(x)"),
    ("lambda x: (lambda a: m.relu(a + 1) + a)(m.relu(x))", "lambda x: m.relu(x) + 1", "lambda x: m.sigmoid(x)"),
    ("lambda x: m.relu(x) + 1", "lambda x: m.relu(x) + 1", "lambda x: m.sigmoid(x)"), ("lambda x: x + 3", "lambda x: x + 1", "lambda x: x * 2"),
    ("lambda x, y: x * y + y * 3", "lambda a, b: a * b", "lambda a, b: a - b"), ("lambda x: m.relu(x)", "lambda x: m.relu(x)", "lambda x: x"),
    ("lambda x: (lambda a: a * (a + 1))(m.relu(x))", "lambda x: (lambda a: (a, a + 1))(m.relu(x))", "lambda x: (m.sigmoid(x), x - 1)"),
    ("lambda x: x.view(-1).relu()", "lambda x: x.view(-1).relu()", "lambda x: x.flatten().sigmoid()"),
    ("lambda x, y: m.add(x, y, alpha=2)", "lambda x, y: m.add(x, y, alpha=2)", "lambda x, y: x - y"),
    ("lambda x, y: m.add(x, y)", "lambda x: m.add(x, x)", "lambda x: x * 2"), ("lambda x, y: m.add(x, x)", "lambda x: m.add(x, x)", "lambda x: x * 2"),
    ("lambda x: m.relu(m.relu(m.relu(x)))", "lambda x: m.relu(m.relu(x))", "lambda x: m.relu(x)"), ("lambda x: x[0] + x[1]", "lambda x: x[0]", "lambda x: x.first()"),
    ("lambda x: m.relu(x)", "lambda x: m.relu(x)", "lambda x, y: m.sigmoid(x) + y"), ("lambda x, y: (x * y) * (x * y)", "lambda a, b: a * b", "lambda a, b: a + b"),
    ("Whole()", "Sub()", "nn.Sequential(nn.ReLU())"), ("Whole()", "lambda x: m.sin(x)", "lambda x: x"), ("lambda x: x.sin()", "lambda x: x.sin() + 1", "lambda x: x"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "pattern", "replacement"), REWRITES)
def test_patterns(program, pattern, replacement):
    def run(n):
        module = n["st"](eval(program, n))
        found = n["fx"].replace_pattern(module, eval(pattern, n), eval(replacement, n))
        return module.code, found, [name for name, _ in module.named_modules()]

    check(run)


def test_filters_and_callbacks():
    def run(n):
        seen = []

        def wanted(match, graph, pattern):
            seen.append((match.nodes_map, match.placeholder_nodes, match.returning_nodes, match.anchors))
            return len(seen) == 1

        def replacement(match, graph, pattern):
            g = n["Graph"]()
            a, b = g.placeholder("a"), g.placeholder("b")
            g.output(g.call_function(n["m"].div, (a, b)))
            return g

        rewrite = n["fx"].subgraph_rewriter.replace_pattern_with_filters
        module = n["st"](lambda x, y: x * y + y * 3)
        done = rewrite(module, lambda a, b: a * b, match_filters=[wanted], replacement_callback=replacement)
        other = n["st"](lambda x: x + 3)
        literals = rewrite(other, lambda x: x + 1, lambda x: x * 2, ignore_literals=True)
        return module.code, done, str(seen), other.code, literals

    check(run)


# -- passes -----------------------------------------------------------------------------------------------

PARTS = "{'lin': 0, 'add': 0, 'add_1': 0, 'seq_0': 1, 'seq_1': 1, 'add_2': 1}"


@pytest.mark.parametrize(
    "options", ["", ", keep_original_order=True", ", partition_affix='a'", ", keep_original_node_name=True"]
)
def test_split_module(options):
    def run(n):
        names = {**n, "split": n["fx"].passes.split_module.split_module, "g": n["st"](n["Whole"]()), "q": {}}
        split = eval(f"split(g, g, lambda node: {PARTS}.get(node.name, 2), q{options})", names)
        return (
            split.code,
            [(name, part.code) for name, part in split.named_children() if hasattr(part, "code")],
            names["q"],
        )

    check(run)


def test_split_module_refuses_cycles():
    check(
        lambda n: n["fx"].passes.split_module.split_module(
            n["st"](lambda x: (x + 1) * 2 + 3), None, lambda node: int(node.name == "mul")
        )
    )


def test_split_by_tags():
    def run(n):
        module = n["st"](n["Whole"]())
        for node in module.graph.nodes:
            node.tag = "first" if node.name in ("lin", "add", "add_1", "seq_0", "seq_1") else "second"
        split = n["fx"].passes.split_utils.split_by_tags(module, ["first", "second"])
        return split.code, [(name, part.code) for name, part in split.named_children()]

    check(run)


PARTITIONED = [
    "lambda a, b: ((lambda c: (m.sigmoid(m.relu(c) + a) + b, c))(a + b))", "lambda a, b: (m.relu(a) + 1, m.relu(b) + 2)",
    "lambda a, b: m.relu(a) + m.sigmoid(b) + m.relu(b)", "lambda a, b: (m.relu(a), m.sigmoid(m.relu(b)))",
]  # fmt: skip


@pytest.mark.parametrize("program", PARTITIONED)
@pytest.mark.parametrize("single", [True, False])
def test_partitions(program, single):
    def run(n):
        module = n["st"](eval(program, n))
        support = n["fx"].passes.operator_support.create_op_support(
            lambda _, node: node.op == "call_function" and node.target in (operator.add, n["m"].relu)
        )
        kind = n["fx"].passes.infra.partitioner.CapabilityBasedPartitioner
        partitions = kind(module, support, allows_single_node_partition=single).propose_partitions()
        groups = sorted(sorted(node.name for node in p.nodes) for p in partitions)
        fused = kind(module, support, allows_single_node_partition=single).fuse_partitions(partitions)
        return groups, fused.code, [(name, part.code) for name, part in fused.named_children()]

    check(run)


def test_common_subexpressions():
    def run(n):
        m = n["m"]
        module = n["st"](lambda x: m.relu(x) + m.relu(x) * (x + 1) * (x + 1) * x.sum(0) * x.sum(0))
        result = n["fx"].passes.dialect.common.cse_pass.CSEPass()(module)
        return result.graph_module.code, result.modified

    check(run)


def test_pass_manager():
    def run(n):
        manager = n["fx"].passes.infra.pass_manager
        out = []

        def first(module):
            return manager.PassResult(module, False) if hasattr(manager, "PassResult") else None

        def second(module):
            out.append("second")

        wrapped = [manager.pass_result_wrapper(first), manager.pass_result_wrapper(second)]
        order = manager.this_before_that_pass_constraint(wrapped[1], wrapped[0])
        runner = manager.PassManager(wrapped, constraints=[order])
        runner.solve_constraints()
        out.append([p.__name__ for p in runner.passes])
        runner(n["st"](lambda x: x + 1))
        with pytest.raises(RuntimeError, match="Circular dependency"):
            manager.PassManager(
                wrapped, constraints=[order, manager.this_before_that_pass_constraint(*wrapped)]
            ).solve_constraints()
        with pytest.raises(Exception, match="An error occurred when running the 'fails' pass"):

            def fails(module):
                raise ValueError

            manager.PassManager([manager.pass_result_wrapper(fails)])(n["st"](lambda x: x))
        return out

    check(run)


def test_batch_norms_are_folded():
    results = []
    for lib in (torch, tocha):
        block = with_the_same_weights(lib, NAMES[lib]["Block"]())
        fused = lib.fx.experimental.optimization.fuse(block)
        x = lib.ones(1, 1, 4, 4)
        assert np.allclose(fused(x).detach().numpy(), block(x).detach().numpy(), atol=1e-5)
        plain = lib.fx.experimental.optimization.remove_dropout(block)
        results.append(in_our_words(fused.code + plain.code))
    assert results[1] == results[0]
