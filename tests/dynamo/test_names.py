"""What programs call by name: stances, marks, comptime, filters of guards, limits, and callbacks."""

import logging
import operator

import pytest
from comparing import same

import tocha
from tocha import _dynamo
from tocha._dynamo import comptime
from tocha._dynamo.backends.registry import InvalidBackend
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import (
    AotEagerAndRecordGraphs,
    CompileCounter,
    normalize_gm,
    rand_strided,
    reduce_to_scalar_loss,
)
from tocha.fx import traceback as fx_traceback
from tocha.utils._pytree import register_pytree_node


@pytest.fixture
def counter():
    return CompileCounter()


@pytest.fixture
def added(counter):
    return tocha.compile(lambda x: x + 1, backend=counter)


def test_nothing_is_captured_where_that_must_fail(added, counter):
    with (
        tocha.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"Detected recompile when torch.compile stance is 'fail_on_recompile'"),
    ):
        added(tocha.ones(2))
    added(tocha.ones(2))
    with tocha.compiler.set_stance("fail_on_recompile"):
        added(tocha.ones(2))
        with pytest.raises(RuntimeError, match="Detected recompile"):
            added(tocha.ones(3))
    assert counter.frame_count == 1


def test_what_was_captured_runs_and_the_rest_is_eager(added, counter):
    added(tocha.ones(2))
    with tocha.compiler.set_stance("eager_on_recompile"):
        assert same(added(tocha.ones(4)), tocha.ones(4) + 1)
    assert counter.frame_count == 1
    assert same(_dynamo.run(added)(tocha.ones(5)), tocha.ones(5) + 1) and counter.frame_count == 1
    added(tocha.ones(4))
    assert counter.frame_count == 2


def test_the_first_call_is_eager(added, counter):
    seen = []
    with tocha.compiler.set_stance("eager_then_compile"):
        for n in (2, 2, 3):
            added(tocha.ones(n))
            seen.append(counter.frame_count)
    assert seen == [0, 1, 2]


def test_a_stance_as_a_decorator_holds_in_calls_only(added, counter):
    @tocha.compiler.set_stance("force_eager")
    def f(x):
        return added(x)

    f(tocha.ones(2))
    assert counter.frame_count == 0
    added(tocha.ones(2))
    assert counter.frame_count == 1


def test_another_backend_is_forced(added, counter):
    other = CompileCounter()
    with tocha.compiler.set_stance(force_backend=other):
        added(tocha.ones(2))
    assert (other.frame_count, counter.frame_count) == (1, 0)
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        tocha.compiler.set_stance("force_eager", force_backend="eager")
    with pytest.raises(RuntimeError, match=r"invalid torch.compile stance"):
        tocha.compiler.set_stance("upright")


def test_breaks_are_errors_within_a_block():
    def f(x):
        y = x + 1
        with _dynamo.error_on_graph_break(True):
            _dynamo.graph_break()
        return y

    def g(x):
        with _dynamo.error_on_graph_break(True):
            y = x + 1
        _dynamo.graph_break()
        return y * 2

    with pytest.raises(Unsupported):
        tocha.compile(f, backend="eager")(tocha.ones(2))
    assert same(tocha.compile(g, backend="eager")(tocha.ones(2)), tocha.full((2,), 4.0))


def test_breaks_are_errors_in_a_marked_function():
    @_dynamo.error_on_graph_break(True)
    def inner(x):
        _dynamo.graph_break()
        return x + 1

    with pytest.raises(Unsupported):
        tocha.compile(lambda x: inner(x), backend="eager")(tocha.ones(2))
    assert same(inner(tocha.ones(2)), tocha.ones(2) + 1)


def test_functions_that_must_not_stand_in_graphs(counter):
    _dynamo.disallow_in_graph(tocha.sub)
    try:
        f = tocha.compile(lambda a: tocha.sub(tocha.add(a, 1), 1) + 1, backend=counter)
        assert same(f(tocha.ones(2)), tocha.ones(2) + 1) and counter.frame_count == 2
    finally:
        _dynamo.allow_in_graph(tocha.sub)
    with pytest.raises(AssertionError, match=r"allow_in_graph expects a callable"):
        _dynamo.allow_in_graph(3)


def test_a_function_that_stands_in_graphs_as_it_is():
    seen = []

    @_dynamo.nonstrict_trace
    def odd(x):
        seen.append(type(x))
        return x.sin() if x.shape[0] > 1 else x

    backend = AotEagerAndRecordGraphs()
    x = tocha.ones(2, requires_grad=True)
    tocha.compile(lambda a: odd(a) * 2, backend=backend, fullgraph=True)(x).sum().backward()
    assert seen and same(x.grad, 2 * tocha.ones(2).cos())
    assert tocha.ops.aten.sin.default in [n.target for n in backend.fw_graphs[0].graph.nodes]
    assert len(backend.bw_graphs) == 1


def test_frames_are_skipped_on_demand(counter):
    def f(x):
        _dynamo.skip_frame()
        return x + 1

    assert same(tocha.compile(f, backend=counter)(tocha.ones(2)), tocha.ones(2) + 1) and counter.frame_count == 0


def test_code_that_runs_while_capturing(capsys):
    seen = []

    @tocha.compile(backend="eager", fullgraph=True)
    def f(x, n):
        y = x + n
        comptime.print_locals()
        comptime.print_graph()
        comptime.print_guards()
        comptime.print_bt()
        comptime.print(y)
        comptime.assert_static(x)
        comptime(lambda ctx: seen.append((ctx.get_local("y").as_fake().shape, ctx.get_local("n").as_python_constant())))
        return y

    for _ in range(2):
        assert same(f(tocha.ones(2), 3), tocha.full((2,), 4.0))
    assert seen == [(tocha.Size([2]), 3)]
    shown = capsys.readouterr().out
    assert "y = Tensor(add" in shown and "L['n'] == 3" in shown and "test_names.py" in shown


def test_polyfills_of_programs_are_checked():
    with pytest.raises(TypeError, match="substitute_in_graph expects a function"):
        tocha.compiler.substitute_in_graph(3)
    with pytest.raises(TypeError, match="Signature mismatch between"):
        tocha.compiler.substitute_in_graph(operator.indexOf)(lambda a: 1)


def test_the_backend_of_those_who_name_none():
    assert tocha.compiler.get_default_backend() == "inductor"
    try:
        tocha.compiler.set_default_backend("eager")
        assert same(tocha.compile(lambda x: x + 1)(tocha.ones(2)), tocha.ones(2) + 1)
        with pytest.raises(InvalidBackend):
            tocha.compiler.set_default_backend("no_such_backend")
    finally:
        tocha.compiler.set_default_backend(None)
    assert tocha.compiler.get_default_backend() == "inductor"


def test_guards_are_filtered(counter):
    kinds = []

    def only_tensors(entries):
        kinds.extend(e.guard_type for e in entries)
        return tocha.compiler.keep_tensor_guards_unsafe(entries)

    f = tocha.compile(lambda x, n: x * n, backend=counter, options={"guard_filter_fn": only_tensors})
    assert same(f(tocha.ones(2), 2), tocha.full((2,), 2.0))
    assert same(f(tocha.ones(2), 3), tocha.full((2,), 2.0))  # nobody looks at the number any longer
    assert {"TENSOR_MATCH", "CONSTANT_MATCH"} <= set(kinds) and counter.frame_count == 1


def test_arguments_of_compile_are_checked():
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        tocha.compile(lambda x: x, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        tocha.compile(lambda x: x, backend="eager", mode="default", options={})
    with pytest.raises(AssertionError, match="A callable function is expected"):
        tocha.compile(3, backend="eager")


def test_a_limit_of_its_own(counter):
    f = tocha.compile(lambda x: x + 1, backend=counter, dynamic=False, recompile_limit=1)
    f(tocha.ones(2))
    with pytest.warns(UserWarning, match=r"recompile_limit \(1\)"):
        f(tocha.ones(3))
    assert counter.frame_count == 1


def test_callbacks_around_captures():
    from tocha._dynamo import callbacks

    seen = []
    _dynamo.on_compile_start(lambda args: seen.append("start"))
    _dynamo.on_compile_end(lambda args: seen.append("end"))
    try:
        f = tocha.compile(lambda x: x + 1, backend="eager")
        f(tocha.ones(2))
        f(tocha.ones(2))
    finally:
        callbacks.clear()
    assert seen == ["start", "end"]


def test_helpers_of_tests():
    made = rand_strided((2, 3), (1, 2))
    assert made.stride() == (1, 2) and made.shape == (2, 3)
    assert same(reduce_to_scalar_loss([tocha.ones(2), {"a": tocha.ones(2)}]), tocha.tensor(1.0))
    assert normalize_gm("a = 1  # one\n\n# two\nb = 2 ") == "a = 1\nb = 2"


def test_hooks_of_a_compiled_module_are_its_own():
    inner, seen = tocha.nn.Linear(2, 2), []
    outer = tocha.compile(inner, backend="eager")
    handle = outer.register_forward_hook(lambda *args: seen.append("after"))
    outer(tocha.ones(2)), inner(tocha.ones(2))
    handle.remove()
    outer(tocha.ones(2))
    assert seen == ["after"]


def test_a_function_that_is_not_captured_while_what_it_calls_is():
    def below(x):
        return x + 5

    @_dynamo.disable(recursive=False)
    def middle(x):
        return below(x) * 2

    counter = CompileCounter()
    f = tocha.compile(lambda x: middle(x + 1) + 1, backend=counter)
    assert f(tocha.ones(2)).tolist() == [15, 15]
    assert (counter.frame_count, counter.op_count) == (3, 3)


def test_what_the_first_uncaptured_call_saw_is_dynamic_at_the_next():
    counter = CompileCounter()
    f = tocha.compile(lambda x: x + 1, backend=counter)
    with tocha.compiler.set_stance("eager_then_compile"):
        for n in (2, 3, 4):
            f(tocha.ones(n))
    assert counter.frame_count == 1


def test_a_module_that_was_never_compiled_says_so():
    assert tocha.nn.Linear(2, 2)._compiled_call_impl is None


def test_forbidden_functions_fail_and_optimize_is_no_context():
    def g(x):
        return x

    _dynamo.forbid_in_graph(g)
    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        tocha.compile(lambda x: g(x), backend="eager")(tocha.ones(2))
    with pytest.raises(RuntimeError, match="is used with a context manager"), _dynamo.optimize("eager"):
        pass


def test_decorators_have_their_module():
    from tocha._dynamo import decorators

    for name in [
        "allow_in_graph",
        "disable",
        "disallow_in_graph",
        "graph_break",
        "mark_dynamic",
        "mark_static",
        "mark_unbacked",
        "maybe_mark_dynamic",
        "run",
        "set_stance",
    ]:
        assert getattr(decorators, name) is getattr(tocha._dynamo, name)


def test_globals_as_a_dict():
    scope = {"tocha": tocha, "A": 2}
    exec(
        "def f(x):\n"
        "    names = globals()\n"
        "    names['C'] = 5\n"
        "    return x * names['A'] + names.get('B', 1) + ('B' in names), names is globals(), C",
        scope,
    )
    f = tocha.compile(scope["f"], backend="eager", fullgraph=True)
    x = tocha.ones(1)
    assert f(x) == (tocha.tensor([3.0]), True, 5) and scope["C"] == 5
    scope["A"] = 4
    assert f(x)[0].item() == 5
    scope["B"] = 10
    assert f(x)[0].item() == 15


def test_variables_after_a_break():
    def f(x, a=1, *rest, k=2, **named):
        held = lambda: x  # noqa: E731
        before = sorted(locals())
        tocha._dynamo.graph_break()
        later = 5
        after = sorted(locals())
        tocha._dynamo.graph_break()
        del later
        return before, after, sorted(locals()), eval("a + k"), held()

    x = tocha.ones(1)
    assert tocha.compile(f, backend="eager")(x, 7) == f(x, 7)


class Scaled(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = tocha.nn.Linear(2, 2), 1

    def forward(self, x):
        return self.linear(x) * self.scale


SCALE_IS_NOT_GUARDED = ("skip_guard_on_all_nn_modules_unsafe", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe")  # fmt: skip
SCALE_IS_GUARDED = ("skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_globals_unsafe")


@pytest.mark.parametrize("name", SCALE_IS_NOT_GUARDED + SCALE_IS_GUARDED)
def test_what_lies_in_modules_is_guarded_or_not(name, counter):
    module = Scaled()
    f = tocha.compile(module, backend=counter, options={"guard_filter_fn": getattr(tocha.compiler, name)})
    x = tocha.ones(1, 2)
    before = f(x)
    module.scale = 5
    assert same(f(x), before) == (name in SCALE_IS_NOT_GUARDED)
    f(tocha.ones(3, 2))  # sizes always are
    assert counter.frame_count == 2 + (name in SCALE_IS_GUARDED)


@pytest.mark.parametrize("mark", [_dynamo.mark_dynamic, _dynamo.maybe_mark_dynamic, _dynamo.decorators.mark_unbacked])
def test_sizes_are_not_marked_by_captured_code(mark):
    def f(x):
        mark(x, 0)
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        tocha.compile(f, backend="eager")(tocha.ones(2))


def test_captured_code_calls_nothing_of_another_stance():
    inner = tocha.compiler.set_stance("force_eager")(lambda x: x + 1)
    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        tocha.compile(lambda x: inner(x), backend="eager")(tocha.ones(2))


def broken_sine(x):
    y = x.sin()
    _dynamo.graph_break()
    return y.sin()


def test_captured_code_marks_a_function_that_stands_in_graphs():
    f = tocha.compile(lambda x: _dynamo.nonstrict_trace(broken_sine)(x) * 2, backend="aot_eager", fullgraph=True)
    for n in (2, 3):
        assert same(f(tocha.ones(n)), tocha.ones(n).sin().sin() * 2)


@tocha.compile(backend="eager", fullgraph=True)
def broken_whole(x):
    return broken_sine(x)


def test_no_breaks_in_a_whole_function_that_captured_code_calls():
    with pytest.raises(Unsupported):
        tocha.compile(lambda x: broken_whole(x), backend="eager")(tocha.ones(2))


def test_breaks_around_a_whole_function(counter):
    whole = tocha.compile(lambda x: x + x.sum().item(), backend=counter, fullgraph=True)

    def f(x):
        y = whole(x)
        _dynamo.graph_break()
        return whole(y)

    assert same(tocha.compile(f, backend=counter)(tocha.ones(2)), tocha.full((2,), 9.0)) and counter.frame_count == 2


def test_notes_of_nodes():
    def f(x):
        y = x.sin()
        with fx_traceback.annotate({"stage": 1}):
            y = y.exp()
            with fx_traceback.annotate({"part": 2}):
                return (y.cos() + 1).sum()

    backend = AotEagerAndRecordGraphs()
    x = tocha.ones(2, requires_grad=True)
    tocha.compile(f, backend=backend, fullgraph=True)(x).backward()
    inner = {"stage": 1, "part": 2}
    expected = {"sin": None, "exp": {"stage": 1}, "cos": inner, "add": inner}
    for graph in (backend.graphs[0], backend.fw_graphs[0]):
        found = {n.name: n.meta.get("custom") for n in graph.graph.nodes}
        assert {name: found[name] for name in expected} == expected
    assert [n.meta["custom"] for n in backend.bw_graphs[0].graph.nodes if n.name.startswith("neg")] == [inner]
    assert fx_traceback.get_current_meta() == {}


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


register_pytree_node(Pair, lambda p: ((p.first, p.second), None), lambda children, _: Pair(*children))


@_dynamo.nonstrict_trace
def broken_pair(pair, *, module, many):
    _dynamo.graph_break()
    return {"pair": Pair(module(pair.first), pair.second), "many": [m * 2 for m in many], "n": 3}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_structures_and_modules_of_functions_that_stand_in_graphs(backend):
    module = tocha.nn.Linear(2, 2)

    def f(x):
        found = broken_pair(Pair(x, x + 1), module=module, many=(x, x))
        return (found["pair"].first + found["pair"].second + found["many"][1]).sum() * found["n"]

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    x = tocha.ones(1, 2)
    for _ in range(2):
        module.zero_grad()
        compiled(x).backward()
        assert same(compiled(x), ((module(x) + x + 1 + x * 2).sum() * 3))
        assert same(module.weight.grad, tocha.full((2, 2), 3.0))
        with tocha.no_grad():
            module.bias.add_(1)  # read anew


def test_control_flow_takes_what_pytrees_know():
    def f(x):
        return tocha.cond(x.sum() > 0, lambda p: p.first + 1, lambda p: p.second * 2, (Pair(x, x * 3),))

    for x in (tocha.ones(2), -tocha.ones(2)):
        assert same(tocha.compile(f, backend="aot_eager", fullgraph=True)(x), f(x))


def test_methods_of_one_logger_are_ignored(monkeypatch, caplog):
    quiet, loud = logging.getLogger("quiet"), logging.getLogger("loud")
    monkeypatch.setattr(_dynamo.config, "ignore_logging_functions", {quiet.warning})

    def f(x, logger):
        logger.warning("captured")
        return x + 1

    assert same(tocha.compile(f, backend="eager", fullgraph=True)(tocha.ones(2), quiet), tocha.ones(2) + 1)
    assert not caplog.records
    assert same(tocha.compile(f, backend="eager")(tocha.ones(2), loud), tocha.ones(2) + 1)
    assert [r.name for r in caplog.records] == ["loud"]
