"""Graphs compiled by themselves: artifacts are called, saved as a file or a folder, and loaded by another process."""

import copy
import subprocess
import sys

import pytest

import tocha
from tocha._inductor import CompiledArtifact, config, standalone_compile
from tocha.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.usefixtures("kernel_cache")
X = tocha.ones(3)


def traced(f, *args, **how):
    return make_fx(f, **how)(*args)


def test_an_artifact_returns_a_list():
    for f in (lambda x: (x.cos() + 1,), lambda x: [x.cos() + 1], lambda x: x.cos() + 1):
        assert [t.tolist() for t in standalone_compile(traced(f, X), [X])(tocha.zeros(3))] == [[2.0] * 3]


@pytest.mark.parametrize("format", ["binary", "unpacked"])
def test_saved_and_loaded(format, tmp_path):
    y = tocha.ones(3)
    made = standalone_compile(traced(lambda x, y: (x * 2 + y, y.view(-1)), X, y), [X, y])
    made.save(path=str(tmp_path / "a"), format=format)
    found = CompiledArtifact.load(path=str(tmp_path / "a"), format=format)(X, tocha.zeros(3))
    assert [t.tolist() for t in found] == [[2.0] * 3, [0.0] * 3]


def test_another_process_needs_no_compiler(tmp_path, folder):
    path = str(tmp_path / "a")
    standalone_compile(traced(lambda x: (x * 2 + 1,), X), [X]).save(path=path)
    program = f"""
import os
os.environ["TORCHINDUCTOR_CACHE_DIR"] = {str(tmp_path / "other")!r}
import tocha
from tocha._inductor import CompiledArtifact, codecache
codecache.compile_source = None
print(CompiledArtifact.load(path={path!r})(tocha.ones(3))[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[3.0, 3.0, 3.0]", done.stderr


def test_gradients_and_writes(tmp_path):
    path, x = str(tmp_path / "a"), tocha.ones(3, requires_grad=True)
    made = standalone_compile(traced(lambda x: ((x * 3).sin(),), X), [x])
    made.save(path=path)  # before backward was asked for
    for artifact in (made, CompiledArtifact.load(path=path)):
        x.grad = None
        artifact(x)[0].sum().backward()
        tocha.testing.assert_close(x.grad, 3 * (3 * X).cos())
    made = standalone_compile(traced(lambda x: (x.add_(1) * 2,), X.clone()), [X])
    made.save(path=path)
    for artifact in (made, CompiledArtifact.load(path=path)):
        y = tocha.ones(3)
        assert artifact(y)[0].tolist() == [4.0] * 3 and y.tolist() == [2.0] * 3


def test_sizes_of_the_graph_or_of_the_examples(tmp_path):
    graph = traced(lambda x: (x * x.shape[0],), X, tracing_mode="symbolic")
    made = standalone_compile(graph, [X])
    made.save(path=str(tmp_path / "a"))
    for artifact in (made, CompiledArtifact.load(path=str(tmp_path / "a"))):
        assert artifact(tocha.ones(5))[0].tolist() == [5.0] * 5
    fixed = standalone_compile(graph, [X], dynamic_shapes="from_example_inputs")
    assert fixed(X)[0].tolist() == [3.0] * 3
    with pytest.raises(RuntimeError, match="laid out as when it was compiled"):
        fixed(tocha.ones(5))
    with pytest.raises(ValueError, match="unsupported `dynamic_shapes` value"):
        standalone_compile(graph, [X], dynamic_shapes="none")


def test_the_graph_that_was_given_stays_as_it_was():
    graph = traced(lambda x: (x.sin(),), X)
    before = graph.code

    def cosines(g):
        for n in g.nodes:
            n.target = tocha.ops.aten.cos.default if n.target is tocha.ops.aten.sin.default else n.target

    with config.patch(post_grad_custom_post_pass=cosines):
        assert standalone_compile(graph, [X])(tocha.zeros(3))[0].tolist() == [1.0] * 3
    assert graph.code == before and standalone_compile(graph, [X])(tocha.zeros(3))[0].tolist() == [0.0] * 3


def test_a_backend_made_of_artifacts():
    made = []

    def backend(graph, inputs):
        made.append(standalone_compile(graph, inputs, options={"max_autotune": False}))
        return lambda *args: made[-1](*args)

    f = tocha.compile(lambda x: x * x.shape[0] + 1, backend=backend, dynamic=True)
    assert f(tocha.ones(3)).tolist() == [4.0] * 3 and f(tocha.ones(4)).tolist() == [5.0] * 4
    assert len(made) == 1


def test_what_cannot_be_saved_or_loaded(tmp_path):
    path = str(tmp_path / "a")
    layer = tocha.fx.symbolic_trace(tocha.nn.Linear(3, 2))
    made = standalone_compile(layer, [X])
    tocha.testing.assert_close(made(X)[0], layer(X))
    with pytest.raises(RuntimeError, match="without parameters of their own"):
        made.save(path=path)
    with pytest.raises(ValueError, match="'binary' or 'unpacked'"):
        made.save(path=path, format="zip")
    with pytest.raises(FileNotFoundError):
        CompiledArtifact.load(path=path)
    standalone_compile(traced(lambda x: (x + 1,), X), [X]).save(path=path)
    damaged = bytearray((tmp_path / "a").read_bytes())
    damaged[100] ^= 1
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(RuntimeError, match="damaged"):
        CompiledArtifact.load(path=path)


def test_an_artifact_of_another_version_is_refused(tmp_path, monkeypatch):
    path = str(tmp_path / "a")
    made = standalone_compile(traced(lambda x: (x + 1,), X), [X])
    with monkeypatch.context() as m:
        m.setattr("tocha._inductor.standalone.made_for", lambda: {"processor": "another"})
        made.save(path=path)
    with pytest.raises(RuntimeError, match="made for another processor"):
        CompiledArtifact.load(path=path)


def test_graphs_with_symbols_are_copied():
    graph = copy.deepcopy(traced(lambda x: x.sin() * x.shape[0], X, tracing_mode="symbolic"))
    tocha.testing.assert_close(graph(tocha.ones(4)), tocha.ones(4).sin() * 4)
