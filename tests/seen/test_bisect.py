"""A planted wrong kernel: verify finds it, bisect locates it, the minifier reduces it."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import tocha
from tocha import _dynamo
from tocha._dynamo import config as dynamo_config
from tocha._dynamo.repro import check
from tocha._functorch.fx_minifier import minifier
from tocha._inductor import config
from tocha.codegen.cpp_program import ProgramWriter
from tocha.fx.experimental.proxy_tensor import make_fx


def program(x, w):
    y = (x @ w).relu()
    return (y.sin() * 2 + y.exp()).sum(-1)


@pytest.fixture
def arguments():
    return [tocha.randn(8, 8), tocha.randn(8, 8, requires_grad=True)]


@pytest.fixture
def wrong_sine(monkeypatch):
    write = ProgramWriter.write
    monkeypatch.setattr(ProgramWriter, "write", lambda self: write(self).replace("sin(", "cos("))


@pytest.fixture
def wrong_fusion(monkeypatch):
    """Code is wrong only where loops share a kernel."""
    write = ProgramWriter.write

    def planted(self):
        shared = any(len(getattr(k, "members", ())) > 1 for k in self.items)
        return write(self).replace("exp(", "-exp(") if shared else write(self)

    monkeypatch.setattr(ProgramWriter, "write", planted)


def test_where_all_is_right(arguments):
    found = tocha.compiler.bisect(program, arguments)
    assert not found and found.tried == {"eager": "agrees", "aot_eager": "agrees", "inductor": "agrees"}
    assert str(found).startswith("Compiled and eager agree")


def test_verify_finds_it(wrong_sine, arguments):
    with config.patch(verify="sample"), pytest.warns(UserWarning, match=r"differ in aten.sin.default"):
        got = tocha.compile(program)(*arguments)
    assert tocha.allclose(got, program(*arguments))  # eager's results are kept


def test_bisect_locates_it(wrong_sine, arguments):
    found = tocha.compiler.bisect(program, arguments)
    assert found.backend == "inductor" and found.passes == []
    assert found.operators == ["aten.sin.default"]
    assert found.kernel.startswith("kernel_") and "cos(" in found.source
    assert "At fault: the back end" in str(found)


def test_the_minifier_reduces_it_to_a_few_lines(wrong_sine, arguments):
    found = tocha.compiler.bisect(program, arguments)
    lines = Path(found.script).read_text().splitlines()
    assert len(lines) <= 10, lines
    assert any("aten.sin.default" in line for line in lines)
    # Without the planted bug, in a process of its own, the script runs and finds that all is well.
    done = subprocess.run([sys.executable, found.script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "compiled and eager agree" in done.stdout, done.stderr
    # With it, the script's own check sees the difference.
    held = {}
    text = "\n".join(line for line in lines if not line.startswith("check("))
    exec(compile(text, "script", "exec"), held)
    assert not check(held["forward"], [tocha.randn(8, 8)])


def test_the_pass_at_fault(wrong_fusion):
    def fused(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)

    found = tocha.compiler.bisect(fused, [tocha.randn(4, 40)])
    assert found.backend == "inductor" and "fuse" in found.passes


def test_an_error_of_the_back_end(monkeypatch, arguments):
    def fail(self):
        raise ValueError("planted")

    monkeypatch.setattr(ProgramWriter, "write", fail)
    found = tocha.compiler.bisect(program, arguments)
    assert found.backend == "inductor" and "planted" in found.error


def bad_backend(module, examples):
    if any(n.op == "call_method" and n.target == "sin" for n in module.graph.nodes):
        raise KeyError("sin is not known")
    return module.forward


def test_scripts_of_graphs_that_do_not_compile(tmp_path, arguments, caplog):
    for level, most in ((1, 20), (2, 10)):
        _dynamo.reset()
        with (
            dynamo_config.patch(repro_after="dynamo", repro_level=level, debug_dir_root=str(tmp_path / str(level))),
            pytest.raises(_dynamo.exc.BackendCompilerFailed),
            caplog.at_level(logging.ERROR),
        ):
            tocha.compile(program, backend=bad_backend)(*arguments)
        (script,) = (tmp_path / str(level) / "repros").glob("*.py")
        text = script.read_text()
        assert len(text.splitlines()) <= most and ".sin()" in text
        assert (".exp()" in text) == (level == 1)
    assert "a script that shows it" in caplog.text


def test_results_that_differ_after_capture(tmp_path, caplog):
    def wrong(module, examples):
        return lambda *args: [r + 1 for r in module.forward(*args)] if "sin" in module.code else module.forward(*args)

    with dynamo_config.patch(repro_after="dynamo", repro_level=4, debug_dir_root=str(tmp_path)), caplog.at_level(logging.ERROR):  # fmt: skip
        tocha.compile(lambda x: (x + 1).sin().exp(), backend=wrong)(tocha.ones(3))
    assert "compiled and eager differ" in caplog.text
    (script,) = (tmp_path / "repros").glob("*.py")
    assert len(script.read_text().splitlines()) <= 10


def test_graphs_are_written_before_they_are_compiled(tmp_path, caplog):
    with dynamo_config.patch(repro_after="dynamo", repro_level=3, debug_dir_root=str(tmp_path)):
        tocha.compile(lambda x: x.sin(), backend="eager")(tocha.ones(2))
    assert len(list((tmp_path / "repros").glob("*.py"))) == 1 and "compiled next" in caplog.text


def test_repro_after_is_one_of_two():
    with dynamo_config.patch(repro_after="later"), pytest.raises(Exception, match=r"repro_after is 'dynamo' or 'aot'"):
        tocha.compile(lambda x: x.sin(), backend="eager")(tocha.ones(2))


def test_the_minifier_by_itself():
    graph = make_fx(lambda x: ((x + 1).sin() * 2).exp(), tracing_mode="fake")(tocha.ones(3))
    with pytest.raises(RuntimeError, match="did not fail"):
        minifier(graph, [tocha.ones(3)], lambda module, inputs: False)

    def needs_both(module, inputs):
        names = [str(n.target) for n in module.graph.nodes]
        return "aten.sin.default" in names and "aten.exp.default" in names

    told = []
    small, inputs = minifier(graph, [tocha.ones(3)], needs_both, lambda *found: told.append(found))
    assert [str(n.target) for n in small.graph.nodes if n.op == "call_function"] == ["aten.sin.default", "aten.exp.default"]  # fmt: skip
    assert len(inputs) == 2 and len(told) == 1
