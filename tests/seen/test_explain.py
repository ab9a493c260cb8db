"""explain: its figures are those that are counted elsewhere."""

import tocha
from tocha import _dynamo
from tocha._dynamo.testing import CompileCounter
from tocha._dynamo.utils import compile_times, counters
from tocha._inductor import store
from tocha._logging import events
from tocha._logging.collect import Collector


def broken(x, n):
    y = (x * n).exp()
    print("between")
    return y.sin().sum()


def test_graphs_and_operators_are_those_of_a_counting_backend():
    counter = CompileCounter()
    tocha.compile(broken, backend=counter)(tocha.ones(4), 2)
    found = _dynamo.explain(broken)(tocha.ones(4), 2)
    assert found.graph_count == counter.frame_count
    nodes = [n for g in found.graphs for n in g.graph.nodes]
    assert sum(n.op in ("call_function", "call_method", "call_module") for n in nodes) == counter.op_count
    functions = [n.target for n in nodes if n.op == "call_function"]  # alone are counted, as in PyTorch
    assert 0 < found.op_count == len(functions) < counter.op_count
    assert found.graph_break_count == len(found.break_reasons) == 1
    assert [op for ops in found.ops_per_graph for op in ops] == functions
    assert len(found.graphs) == 2 and all(hasattr(g, "graph") for g in found.graphs)


def test_breaks_have_line_reason_remedy_and_cost():
    (b,) = _dynamo.explain(broken)(tocha.ones(4), 2).break_reasons
    assert b.reason == "print()" and b.name == "print" and b.hint == "Print outside of compiled code."
    assert (b.user_stack[-1].file, b.user_stack[-1].line) == (__file__, broken.__code__.co_firstlineno + 2)
    assert b.bytes == 4 * 4 and not b.skipped  # y goes through memory


def test_a_function_that_runs_uncaptured_counts_what_it_loses():
    def loops(x):
        for i in range(3):
            x = x.sin()
            print(i)
        return x.cos()

    (b,) = _dynamo.explain(loops)(tocha.ones(2)).break_reasons
    assert b.skipped and b.calls == 1
    assert _dynamo.explain(loops)(tocha.ones(2)).uncaptured == {"aten::sin": 3, "aten::cos": 1}


def test_counters_agree():
    counters.clear()
    compiled = tocha.compile(broken, backend="eager")
    compiled(tocha.ones(4), 2)
    compiled(tocha.ones(5), 3)
    so_far = compiled.explain()
    assert so_far.graph_count == counters["stats"]["unique_graphs"] == 4
    assert len(so_far.break_reasons) == so_far.graph_break_count == sum(counters["graph_break"].values()) == 2
    assert so_far.op_count == sum(map(len, so_far.ops_per_graph)) and len(so_far.ops_per_graph) == 4
    assert all(so_far.ops_per_graph) and all(c.guard_count > 0 for c in so_far.compilations)
    assert f"Op Count: {so_far.op_count}" in str(so_far) and "explain(*args) has their texts" in str(so_far)
    assert len(so_far.recompilations) == sum(counters["recompiles"].values()) == 2
    assert len(so_far.compilations) == counters["frames"]["total"] == counters["frames"]["ok"]
    assert all("size=[4]" in c.recompiled for c in so_far.recompilations)


def test_guards_are_those_of_the_captured_frame():
    seen = []

    def keep(entries):
        seen.extend(entries)
        return [True for _ in entries]

    tocha.compile(lambda x: x.sin(), options={"guard_filter_fn": keep}, backend="eager")(tocha.ones(2))
    found = _dynamo.explain(lambda x: x.sin())(tocha.ones(2))
    assert len(found.out_guards) == len(seen)
    tensor = next(g for g in found.out_guards if g.kind == "tensor")
    assert tensor.text.startswith("tensor(L['x'], tocha.float32") and "input of the graph" in tensor.why


def test_kernels_bytes_and_flops():
    found = _dynamo.explain(lambda x: (x.sin() * 2 + 1).exp())(tocha.ones(100))
    (kernel,) = found.kernels
    assert kernel["operators"] == ["sin", "mul", "add", "exp"]
    assert kernel["bytes"] == 2 * 100 * 4  # one read, one written
    assert kernel["flops"] == 4 * 100
    assert kernel["us"] > 0
    assert "sin" in kernel["source"] and kernel["source"].startswith("void kernel_0(")
    product = _dynamo.explain(lambda a, b: a @ b)(tocha.ones(3, 4), tocha.ones(4, 5))
    (call,) = product.compilations[0].programs[0]["steps"]
    assert (call["kind"], call["flops"], call["bytes"]) == ("call", 2 * 3 * 4 * 5, 4 * (12 + 20 + 15))


def test_gradients_have_programs_of_their_own():
    x = tocha.ones(4, requires_grad=True)
    collector = Collector()
    with events.listening(collector):
        tocha.compile(lambda x: x.sin().sum())(x).backward()
    (c,) = collector.compilations
    assert [g.stage for g in c.graphs] == ["captured", "joint", "forward", "backward", "post_grad", "post_grad"]
    assert len(c.programs) == 2 and c.seconds("backward") > 0


def test_symbols_and_what_fixed_them():
    def grown(x):
        return x + 1 if x.shape[0] > 3 else x - 1

    compiled, collector = tocha.compile(grown, backend="eager", dynamic=True), Collector()
    with events.listening(collector):
        compiled(tocha.ones(7))
    (symbol,) = collector.compilations[0].symbols
    assert (symbol.value, symbol.sources) == ("7", ["L['x'].size()[0]"])
    assert any("s0" in g for g in collector.compilations[0].shape_guards)

    def fixed(x):
        return x.reshape(7) + 1

    collector = Collector()
    with events.listening(collector):
        tocha.compile(fixed, backend="eager", dynamic=True)(tocha.ones(7))
    (symbol,) = collector.compilations[0].symbols
    assert symbol.fixed_by.startswith("s0 == 7")


def test_the_cache_is_asked_as_often_as_it_counts():
    before = (store.counts.hits, store.counts.misses)
    found = _dynamo.explain(lambda x: x.sin() + 0.125)(tocha.ones(3))
    asked = [a for c in found.compilations for a in c.cache]
    hits, misses = sum(a.hit for a in asked), sum(not a.hit for a in asked)
    assert (store.counts.hits - before[0], store.counts.misses - before[1]) == (hits, misses)
    again = _dynamo.explain(lambda x: x.sin() + 0.125)(tocha.ones(3))
    assert [a.hit for c in again.compilations for a in c.cache if a.kind == "programs"] == [True]


def test_times_of_stages():
    events.TIMES.clear()
    found = _dynamo.explain(lambda x: x.sin())(tocha.ones(2))
    (c,) = found.compilations
    names = {s.name for s in c.stages}
    assert {"capture", "backend", "differentiate", "lowering", "scheduling", "memory", "code", "library"} <= names
    whole = c.seconds("capture")
    assert 0 < sum(c.seconds(n) for n in ("lowering", "scheduling", "memory", "code")) < c.seconds("backend") < whole
    assert "lowering" in found.compile_times
    events.TIMES["capture"] = [1.0, 2.0]
    assert "capture" in compile_times() and "3.0000" in compile_times(aggregate=True)
    assert compile_times(repr="csv")[0][0] == next(iter(events.TIMES))


def test_it_prints_well():
    text = str(_dynamo.explain(broken)(tocha.ones(4), 2))
    for part in ("Graph Count: 2", "Graph Break Count: 1", "Op Count: 1", "Reason: print()", "Hint:", "Cost: one more graph; 16 B", "Kernels: 2", "Compile Times:"):  # fmt: skip
        assert part in text


def test_compiled_functions_and_modules_explain_themselves():
    compiled = tocha.compile(broken, backend="eager")
    assert compiled.explain(tocha.ones(4), 2).graph_count == 2
    module = tocha.compile(tocha.nn.Linear(3, 3), backend="eager")
    assert module.explain(tocha.ones(2, 3)).op_count == 1


def test_a_listener_that_fails_is_taken_off(recwarn):
    def bad(event):
        raise ValueError("no")

    events.add(bad)
    assert tocha.compile(lambda x: x + 1, backend="eager")(tocha.ones(1)).item() == 2
    assert bad not in events.LISTENERS
    assert "a listener failed" in str(recwarn[0].message)


def test_nothing_is_told_while_compiled_code_runs():
    compiled = tocha.compile(lambda x: x.sin())
    compiled(tocha.ones(2))
    seen = []
    with events.listening(seen.append):
        compiled(tocha.ones(2))
    assert seen == []


def test_a_program_without_stack_left_does_not_end_the_listening():
    told = []

    def listen(event):
        told.append(event)
        if len(told) == 1:
            raise RecursionError

    with events.listening(listen):
        tocha.compile(lambda x: x.sin(), backend="eager")(tocha.ones(2))
    assert len(told) > 1
