"""The caches of the compiler: what is found again, what a key holds, what damage and full disks do, artifacts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

import tocha
from tocha import compiler
from tocha._functorch.runtime import Compiled
from tocha._functorch.views import Step
from tocha._functorch.wrapping import Output, Wrapping
from tocha._inductor import codecache, config, entries, graph_cache, programs, store, utils
from tocha.testing import assert_close


@pytest.fixture
def compilations(monkeypatch):
    """How often graphs were lowered and sources compiled."""
    seen = {"lowered": 0, "compiled": 0}
    lower, compile_source = programs.lower_graph, codecache.compile_source

    def lowering(*args):
        seen["lowered"] += 1
        return lower(*args)

    def compiling(source, parts):
        seen["compiled"] += 1
        return compile_source(source, parts)

    monkeypatch.setattr(programs, "lower_graph", lowering)
    monkeypatch.setattr(codecache, "compile_source", compiling)
    return seen


def parts(**other: str) -> store.Parts:
    return {"source": "int x;", "compiler": "g++", "processor": "this", **other}


ENTRIES = store.Folder("tests", ".json")


def test_entries_come_back(folder):
    assert ENTRIES.read(parts()) is None
    ENTRIES.write(parts(), b"content")
    assert ENTRIES.read(parts()) == b"content"
    assert ENTRIES.read(parts(compiler="clang")) is None


def test_folders_are_the_users_own(folder):
    ENTRIES.write(parts(), b"content")
    for made in (folder, folder / "tests"):
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o700


def test_a_miss_says_which_part_changed(folder):
    ENTRIES.write(parts(), b"content")
    assert ENTRIES.what_changed(parts(processor="another")) == "changed: processor"
    assert ENTRIES.what_changed(parts(processor="another", compiler="clang")) == "changed: compiler, processor"
    assert ENTRIES.what_changed({"source": "int y;"}) == "the source is new"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"x" + b[1:], lambda b: b""])
def test_damaged_entries_are_dropped(folder, damage):
    path = ENTRIES.write(parts(), b"content")
    path.write_bytes(damage(path.read_bytes()))
    assert ENTRIES.read(parts()) is None and not path.exists()


def test_what_was_not_used_goes_first(folder):
    paths = [ENTRIES.write(parts(compiler=str(i)), bytes(1000)) for i in range(4)]
    for i, path in enumerate(paths):
        os.utime(path, (i, i))
    ENTRIES.find(parts(compiler="0"))  # used now
    store.shrink(folder, 3000)
    assert [p.exists() for p in paths] == [True, False, False, True]
    assert len(list((folder / "tests").iterdir())) == 4  # what lies beside an entry goes with it


def test_a_disk_that_takes_nothing_is_done_without(folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.tempfile, "mkstemp", full)
    assert ENTRIES.write(parts(), b"content") is None
    f = tocha.compile(lambda x: x * 1.25 - 7, backend="inductor")
    assert_close(f(tocha.ones(3)), tocha.full((3,), -5.75))


def test_caches_can_be_switched_off(folder, compilations):
    with config.patch(force_disable_caches=True):
        for _ in range(2):
            tocha._dynamo.reset()
            tocha.compile(lambda x: x * 1.5 - 7, backend="inductor")(tocha.ones(3))
    assert compilations == {"lowered": 2, "compiled": 2}
    assert not [path for path in folder.rglob("*") if path.is_file()]  # nothing is kept either


def step(x, w, b):
    return ((x @ w + b).relu() * 1.5).sum()


def gradients(*tensors, function=step):
    given = [t.clone().requires_grad_() for t in tensors]
    loss = tocha.compile(function, backend="inductor")(*given)
    loss.backward()
    return loss.detach(), [g.grad for g in given]


def test_a_known_graph_is_neither_differentiated_nor_lowered_nor_compiled(folder, compilations, monkeypatch):
    tensors = tocha.randn(4, 6), tocha.randn(6, 5), tocha.randn(5)
    want = gradients(*tensors)
    assert compilations == {"lowered": 2, "compiled": 2}
    tocha._dynamo.reset()
    from tocha._functorch import aot_autograd

    monkeypatch.setattr(aot_autograd, "trace", None)
    assert_close(gradients(*tensors), want)
    assert compilations == {"lowered": 2, "compiled": 2}


def test_a_backward_that_was_never_made_is_made(folder, compilations):
    tensors = [t.requires_grad_() for t in (tocha.randn(4, 6), tocha.randn(6, 5), tocha.randn(5))]
    f = lambda x, w, b: step(x, w, b) * 3.25  # noqa: E731
    tocha.compile(f, backend="inductor")(*tensors)
    assert compilations["lowered"] == 1
    tocha._dynamo.reset()
    loss, grads = gradients(*(t.detach() for t in tensors), function=f)
    want = f(*tensors)
    want.backward()
    assert_close(loss, want.detach())
    assert_close(grads, [t.grad for t in tensors])


def test_writes_and_constants_come_back(folder, compilations):
    def f(x, count):
        count.add_(1)
        return x + tocha.tensor([1.0, 2.0]), x

    for _ in range(2):
        tocha._dynamo.reset()
        x, count = tocha.ones(2), tocha.zeros(1)
        y, same = tocha.compile(f, backend="inductor")(x, count)
        assert same is x and count.item() == 1 and count._version == 1
        assert_close(y, tocha.tensor([2.0, 3.0]))
    assert compilations["lowered"] == 1


def test_views_come_back(folder, compilations):
    def parts(x):
        return *x.split([1, 2], dim=1), (x * 2).view(dtype=tocha.int32), x.diagonal(offset=-1)

    x = tocha.arange(9.0).view(3, 3)
    for _ in range(2):
        tocha._dynamo.reset()
        own = tocha.compile(parts)(x)
        for a, b in zip(own, parts(x), strict=True):
            assert a.stride() == b.stride() and tocha.equal(a, b)
        assert own[3].data_ptr() == x[1].data_ptr()
    assert compilations["lowered"] == 1


def test_views_that_came_back_are_of_calls_of_their_own():
    """Where tensors that others take over are given, views are made one by one in Python."""
    split = tocha.ops.aten.split.Tensor
    outputs = [Output("view of input", 0, (Step(split, (size,), {}, k),)) for k, size in enumerate((1, 2))]
    back = entries.decode_wrapping(entries.encode_wrapping(Wrapping(0, outputs, [])))
    found = Compiled(back, lambda *args: ())([tocha.arange(4)])
    assert [t.tolist() for t in found] == [[0], [2, 3]]


def test_other_facts_are_other_entries(folder, compilations):
    f = lambda x: x * 2.25  # noqa: E731
    for x in (tocha.ones(3), tocha.ones(3, dtype=tocha.float64), tocha.ones(3, 4), tocha.ones(4, 3).t()):
        tocha._dynamo.reset()
        assert_close(tocha.compile(f, backend="inductor")(x), x * 2.25)
    assert compilations["lowered"] == 4


def test_functions_of_the_user_are_not_kept(folder):
    graph = tocha.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(lambda t: t, (x,)))
    assert graph_cache.key_of(tocha.fx.GraphModule(tocha.nn.Module(), graph), [tocha.ones(1)]) is None


def test_functions_with_a_backward_are_those_of_the_user(folder):
    """Their `apply` is the library's; two of them are two functions all the same."""

    def times(factor):
        class Times(tocha.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * factor

        return Times

    for factor in (17, 23):
        made, x = times(factor), tocha.ones(1, requires_grad=True)
        with pytest.raises(graph_cache.NotKept):
            graph_cache.function_text(made.apply)
        y = tocha.compile(lambda x, made=made: made.apply(x), fullgraph=True)(x)
        y.backward()
        assert y.item() == x.grad.item() == factor


def test_methods_of_objects_are_not_kept():
    with pytest.raises(graph_cache.NotKept):
        graph_cache.function_text(tocha.nn.Linear(1, 1).forward)


def test_an_entry_that_nobody_understands_is_as_good_as_none(folder, compilations):
    f = lambda x: x * 2.5 + 3  # noqa: E731
    tocha.compile(f, backend="inductor")(tocha.ones(3))
    (path,) = (folder / "graphs").glob("*.json")
    path.write_bytes(store.sealed(json.dumps({"around": {}}).encode()))
    tocha._dynamo.reset()
    assert_close(tocha.compile(f, backend="inductor")(tocha.ones(3)), tocha.full((3,), 5.5))
    assert compilations["lowered"] == 2


PROGRAM = """
import sys, tocha
from tocha._inductor import codecache
if sys.argv[1:]:
    tocha.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
    codecache.run_compiler = None
x = tocha.arange(6.0, requires_grad=True)
def f(x):
    return (x.sin() * x).sum()
tocha.compile(f, backend="inductor")(x).backward()
print(x.grad.tolist())
compiler = {"tocha._inductor.compilation", "tocha._inductor.lowering", "tocha._functorch.functionalize", "tocha._functorch.batching"}
if sys.argv[1:]:
    assert not compiler & sys.modules.keys(), "a warm start loads the compiler"
else:
    sys.stdout.flush()
    open("artifacts", "wb").write(tocha.compiler.save_cache_artifacts()[0])
"""


def test_artifacts_move_to_another_folder(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    said = []
    for k, arguments in enumerate(([], ["artifacts"])):
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"cache{k}")}
        command = [sys.executable, str(script), *arguments]
        made = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        said.append(made.stdout)
    assert said[0] == said[1]


def test_artifacts_are_refused_when_made_elsewhere(folder, monkeypatch):
    tocha.compile(lambda x: x * 4.5, backend="inductor")(tocha.ones(3))
    content, info = compiler.save_cache_artifacts()
    assert info.aot_autograd_artifacts and info.inductor_artifacts
    with pytest.warns(UserWarning, match="damaged"):
        assert compiler.load_cache_artifacts(content[:-3]) is None
    monkeypatch.setattr(codecache, "processor", lambda: "another")
    with pytest.warns(UserWarning, match="another processor"):
        assert compiler.load_cache_artifacts(content) is None


def test_what_is_known_of_numbers_makes_other_entries(folder):
    f = tocha.compile(lambda x, p: tocha.nn.functional.dropout(x, p))
    x = tocha.ones(2)
    for p in (0.5, 0.25):
        f(x, p)
    assert f(x, 1.0).tolist() == [0.0, 0.0]
    assert f(x, 0.0).tolist() == [1.0, 1.0]


def test_sources_of_what_a_call_compiles(folder):
    f = tocha.compile(lambda x: x.sin() + 1)
    for _ in range(2):  # also what has been compiled before
        result, (source,) = utils.run_and_get_code(f, tocha.zeros(4))
        assert "sin" in source and tocha.equal(result, tocha.ones(4))
    x = tocha.zeros(4, requires_grad=True)
    result, (_, backward) = utils.run_fw_bw_and_get_code(lambda: f(x))
    assert "cos" in backward and tocha.equal(x.grad, tocha.ones(4))
    assert utils.run_and_get_cpp_code(f, tocha.zeros(4))[1] == source


def test_a_cache_for_a_while(folder, compilations):
    for times in (1, 2):
        found = {}
        with utils.fresh_cache(found):
            tocha._dynamo.reset()
            tocha.compile(lambda x: x.sin() + 1)(tocha.zeros(4))
        assert compilations["compiled"] == times and any(name.endswith(".so") for name in found)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(folder) and not list(folder.rglob("*.so"))


def test_the_prelude_is_precompiled_while_a_graph_is_traced(folder, monkeypatch):
    told, start, lower = [], codecache.start_compiler, programs.lower_graph
    monkeypatch.setattr(
        codecache, "start_compiler", lambda a: (told.append(a[1] if a[0] == "-x" else "source"), start(a))[1]
    )
    monkeypatch.setattr(programs, "lower_graph", lambda *a: (told.append("lowering"), lower(*a))[1])
    assert_close(tocha.compile(lambda x: x * 7.5)(tocha.ones(3)), tocha.full((3,), 7.5))
    assert told == ["c++-header", "lowering", "source"]
    assert not codecache.under_way
    (made,) = (folder / "headers").rglob("*.gch")
    assert made.parts[-3:] == ("cpu", "engine", "program_prelude.h.gch")


def test_a_prelude_that_nobody_waits_for_leaves_nothing_behind(folder):
    started = codecache.Precompiling(folder / "headers" / "x")
    started.stop()
    assert started.process.returncode is not None
    assert not [p for p in (folder / "headers").rglob("*") if p.is_file()]
