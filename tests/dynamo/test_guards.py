"""Guards: captured code is used again while nothing it depends on has changed, and only then."""

import gc
import sys
import threading

import pytest

import tocha
from tocha import _C, _dynamo
from tocha._dynamo.testing import CompileCounter, CompileCounterWithBackend

SCALE = 2


def counted(f, **settings):
    counter = CompileCounter()
    return tocha.compile(f, backend=counter, fullgraph=True, **settings), counter


def test_tensors():
    f, counter = counted(lambda x: x + 1)
    x = tocha.ones(2, 3)
    for other, graphs in ((x, 1), (tocha.zeros(2, 3), 1), (x.double(), 2), (tocha.ones(3, 2).T, 3), (tocha.ones(2, 3, requires_grad=True), 4)):  # fmt: skip
        assert (f(other) == other + 1).all()
        assert counter.frame_count == graphs


def test_the_same_tensor_twice():
    f, counter = counted(lambda x, y: x.mul_(2) + y)
    a, b = tocha.ones(2), tocha.ones(2)
    assert f(a, b).tolist() == [3.0, 3.0]
    assert f(a, a).tolist() == [8.0, 8.0]
    assert counter.frame_count == 2


def test_what_nobody_asks_for_is_not_guarded():
    f, counter = counted(lambda x, config, unused: x * config["k"])
    f(tocha.ones(2), {"k": 2, "other": 1}, 1)
    f(tocha.ones(2), {"k": 2, "other": 5}, "text")
    assert counter.frame_count == 1
    assert f(tocha.ones(2), {"k": 3, "other": 5}, 1).tolist() == [3.0, 3.0]
    assert counter.frame_count == 2


def test_globals_closures_attributes_defaults(monkeypatch):
    k = 3

    class Config:
        rate = 2

    config = Config()

    def helper(x, by=4):
        return x * by * k

    f, counter = counted(lambda x: helper(x) * SCALE * config.rate)
    x = tocha.ones(1)
    assert f(x).item() == f(x).item() == 48.0
    assert counter.frame_count == 1
    config.rate = 3
    assert f(x).item() == 72.0
    k = 1
    assert f(x).item() == 24.0
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 1)
    assert f(x).item() == 12.0
    helper.__defaults__ = (1,)
    assert f(x).item() == 3.0
    assert counter.frame_count == 5


def test_a_method_is_replaced():
    class Thing:
        def run(self, x):
            return x + 1

    thing = Thing()
    f, _ = counted(lambda x: thing.run(x))
    assert f(tocha.zeros(1)).item() == 1.0
    Thing.run = lambda self, x: x + 2
    assert f(tocha.zeros(1)).item() == 2.0


def test_constants_by_type_and_bits():
    f, counter = counted(lambda x, k: (x + 1, k))
    x = tocha.ones(1)
    for k in (1, True, 1.0, -0.0, 0.0, float("nan")):
        out = f(x, k)[1]
        assert type(out) is type(k) and str(out) == str(k)
    f(x, float("nan"))
    assert counter.frame_count == 3  # an int, a bool, any float


def test_grad_mode_and_default_dtype():
    f, counter = counted(lambda x: x + tocha.ones(1))
    x = tocha.ones(1, requires_grad=True)
    assert f(x).requires_grad
    with tocha.no_grad():
        assert not f(x).requires_grad
    assert counter.frame_count == 2
    assert f(x).requires_grad
    assert counter.frame_count == 2


def test_the_limit(recwarn):
    counter = CompileCounter()
    f = tocha.compile(lambda x, n: x + n, backend=counter, dynamic=False)
    for n in range(12):
        assert f(tocha.zeros(1), n).item() == n
    assert counter.frame_count == _dynamo.config.recompile_limit
    assert any("recompile_limit" in str(w.message) for w in recwarn.list)
    with _dynamo.config.patch(error_on_recompile=True), pytest.raises(RuntimeError, match="Recompiling function"):
        tocha.compile(lambda x, n: (f, x + n)[1], backend="eager")(tocha.zeros(1), 1)
        g = tocha.compile(lambda x, n: x - n, backend="eager")
        g(tocha.zeros(1), 1)
        g(tocha.zeros(1), 2)


def test_a_tree_by_hand():
    tree = ("root", None, "", (), (("local", 0, "x exists", (("type", int, "an int"),), (("attribute", "real", "x.real", (("constant", 3, "is 3"),), ()),)),))  # fmt: skip
    guards = _C._capture.Guards(tree, (), ())
    assert guards.first_failure((3,), {}, None) is None
    assert guards.first_failure((4,), {}, None) == "is 3"
    assert guards.first_failure(("s",), {}, None) == "an int"
    assert guards.first_failure((), {}, None) == "x exists"
    with pytest.raises(ValueError, match="no such guard"):
        _C._capture.Guards(("root", None, "", (("nonsense", 1, ""),), ()), (), ())


def test_threads_capture_on_their_own():
    f, counter = counted(lambda x: x.sin() + 1)
    results, plain = [], []

    def work():
        results.append(f(tocha.zeros(2)))
        plain.append(_C._capture.get_callback())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(r.tolist() == [1.0, 1.0] for r in results)
    assert plain == [None] * 4
    assert counter.frame_count == 1


def test_recursion_settrace_and_profiling():
    def f(x, n):
        return x if n == 0 else f(x + 1, n - 1)

    compiled, counter = counted(f)
    lines = []
    sys.settrace(lambda frame, event, arg: lines.append(event))
    try:
        assert compiled(tocha.zeros(1), 5).item() == 5.0
    finally:
        sys.settrace(None)
    assert counter.frame_count == 1 and lines


def test_nothing_is_left_behind():
    def build():
        f, _ = counted(lambda x: x * 2 + 1)
        f(tocha.ones(2))
        _dynamo.reset()

    build()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        build()
    gc.collect()
    assert len(gc.get_objects()) - before < 400


def test_importing_tocha_imports_none_of_it():
    import subprocess

    code = "import sys, tocha; print([m for m in sys.modules if m.startswith(('tocha._dynamo', 'tocha.compiler', 'tocha.fx'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_guards_on_constants_name_them():
    def f(x, on):
        return x + 1 if on else x

    compiled = tocha.compile(f, backend="eager")
    compiled(tocha.ones(1), True)
    [entry] = tocha._C._capture.code_entries(f.__code__)
    assert entry[1].first_failure((tocha.ones(1), False), f.__globals__, None) == "L['on'] is True"


def test_what_tensors_say_of_themselves(monkeypatch):
    def f(x):
        said = (x._version, x.is_leaf, x.output_nr, x.retains_grad, x._is_view(), x.is_inference(), x.storage_offset())
        return x * 2, said, getattr(x, "tag", None), hasattr(x, "other")

    g = tocha.compile(f, backend="eager", fullgraph=True)
    plain, leaf = tocha.ones(2), tocha.ones(2, requires_grad=True)
    kept = leaf * 1
    kept.retain_grad()
    monkeypatch.setattr(_dynamo.config, "recompile_limit", 20)
    for x in (plain, leaf, leaf * 1, kept, leaf * 1, plain[:], tocha.ones(2, 2).unbind()[1]):
        assert g(x)[1:] == f(x)[1:]
    plain.add_(1)
    assert g(plain)[1:] == f(plain)[1:]
    plain.tag = 3
    assert g(plain)[1:] == f(plain)[1:]
    plain.other = 4
    assert g(plain)[1:] == f(plain)[1:]
    with tocha.inference_mode():
        made_for_inference = tocha.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        g(made_for_inference)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_who_shares_memory_with_what_is_written_to_is_guarded(backend):
    def f(a, b):
        a.add_(1)
        return a + b

    def two():
        return tocha.arange(6.0).view(2, 3), tocha.ones(2, 3)

    def views():
        x = tocha.arange(6.0)
        return x.view(2, 3), x.view(2, 3)

    def neighbours():
        x = tocha.arange(12.0).view(4, 3)
        return x[:2], x[2:]

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter)
    for make in (two, views, two, neighbours, views):
        assert compiled(*make()).tolist() == f(*make()).tolist()
    assert counter.frame_count == 2


SETTINGS = {
    "threads": (lambda: tocha.get_num_threads(), tocha.set_num_threads, (1, 2)),
    "anomaly": (lambda: tocha.is_anomaly_enabled(), tocha.set_anomaly_enabled, (False, True)),
    "precision": (
        lambda: tocha.get_float32_matmul_precision(),
        tocha.set_float32_matmul_precision,
        ("highest", "high"),
    ),
    "warnings": (lambda: tocha.is_warn_always_enabled(), tocha.set_warn_always, (False, True)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_are_asked_for_are_guarded(name):
    read, write, (usual, other) = SETTINGS[name]
    before = read()
    compiled, counter = counted(lambda x: (x + 1, read())[1])
    try:
        for value in (usual, other, usual, other):
            write(value)
            assert compiled(tocha.ones(2)) == value
    finally:
        write(before)
    assert counter.frame_count == 2


def test_a_view_with_a_history_is_no_leaf_after_a_write_to_its_base():
    def f(base, view):
        base.mul_(2)
        with tocha.no_grad():
            view.add_(1)
        return view.is_leaf, base.is_leaf, view * 3

    base = tocha.ones(2, 3, requires_grad=True) * 1
    said = tocha.compile(f, backend="eager", fullgraph=True)(base, base.view(6))
    assert said[:2] == (False, False) and tocha.equal(said[2], tocha.full((6,), 9.0))


def test_arguments_that_are_what_the_code_names():
    """A builtin, or the key of a dict, is met without a way to it; the argument that is the same object has one."""

    def by_name(kind, x):
        return x + 1 if kind is bool else x + 2 if kind is int else x + 3

    table = {int: 1.0, abs: 2.0, frozenset((1,)): 3.0}

    def by_key(key, x):
        return x + table.get(key, 9.0)

    for function, given in ((by_name, (bool, int, float, bool)), (by_key, (int, abs, float, len, frozenset((2,))))):
        f, _ = counted(function)
        for one in given:
            assert f(one, tocha.zeros(1)).tolist() == function(one, tocha.zeros(1)).tolist()
    f, counter = counted(by_key)
    f(int, tocha.zeros(1)), f(int, tocha.ones(1))
    assert counter.frame_count == 1


class Named:
    """Objects that are equal if they are one."""


ONE, OTHER, LIST = Named(), Named(), [1]
TABLE = {OTHER: 5}


@pytest.mark.parametrize(
    "function",
    [
        lambda p, x: x * (2 if p is OTHER else 3),
        lambda p, x: x * (2 if p != OTHER else 3),
        lambda p, x: x * (2 if p in [OTHER] else 3),
        lambda p, x: x * [OTHER, p].index(p),
        lambda p, x: x * TABLE.get(p, 1),
        lambda p, x: x * (2 if p is LIST else 3),
    ],
)
def test_objects_that_were_two_may_be_one(function):
    f, _ = counted(function)
    given = ([1], LIST, [1]) if "LIST" in function.__code__.co_names else (ONE, OTHER, Named(), ONE)
    for p in given:
        assert f(p, tocha.ones(1)).tolist() == function(p, tocha.ones(1)).tolist()


def test_two_arguments_that_were_two_objects():
    f, counter = counted(lambda p, q, x: x * (2 if p is q else 3))
    for p, q in ((ONE, OTHER), (OTHER, OTHER), (ONE, ONE), (OTHER, ONE)):
        assert f(p, q, tocha.ones(1)).item() == (2 if p is q else 3)
    f, counter = counted(lambda p, x: x * (2 if p is ONE else 3))
    for _ in range(5):
        f(Named(), tocha.ones(1))
    assert counter.frame_count == 1  # what is not ONE may be anything else


class WithMethod:
    def call(self, x):
        return x


def adder(n):
    return lambda x: x + n


FIRST, SECOND = WithMethod(), WithMethod()
ADD_ONE, ADD_TWO = adder(1), adder(2)


def test_methods_are_equal_if_they_are_of_one_object():
    f, _ = counted(lambda p, x: x * (2 if p == FIRST.call else 3))
    g, _ = counted(lambda p, x: x * {FIRST.call: 5}.get(p, 7))
    for owner in (SECOND, FIRST, WithMethod()):
        assert f(owner.call, tocha.ones(1)).item() == (2 if owner is FIRST else 3)
        assert g(owner.call, tocha.ones(1)).item() == (5 if owner is FIRST else 7)


def test_functions_of_one_code_are_other_keys():
    f, _ = counted(lambda p, x: x * {ADD_ONE: 5}.get(p, 7))
    for function in (ADD_TWO, ADD_ONE, adder(1)):
        assert f(function, tocha.ones(1)).item() == (5 if function is ADD_ONE else 7)


def test_who_asked_is_told_which_guard_failed():
    told = []
    f = _dynamo.optimize("eager", guard_fail_fn=told.append)(lambda x: x + 1)
    f(tocha.ones(2)), f(tocha.ones(2))
    assert told == []
    f(tocha.ones(3))
    ((reason, code),) = told
    assert "x" in reason
    assert code.co_name == "<lambda>"


def test_forgetting_code_alone():
    f, counter = counted(lambda x: x + 1)
    f(tocha.ones(2)), f(tocha.ones(3)), f(tocha.ones(4))
    assert counter.frame_count == 2  # sizes have become symbols
    _dynamo.reset_code_caches()
    f(tocha.ones(5)), f(tocha.ones(6))
    assert counter.frame_count == 3
