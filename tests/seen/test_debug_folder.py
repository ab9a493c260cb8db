"""TORCH_COMPILE_DEBUG: a folder for each compilation; its graphs run."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import tocha
from tocha import _dynamo
from tocha._dynamo.debug_mode import debug_folder
from tocha._inductor import config

weight = tocha.nn.Linear(4, 4)


def program(x):
    y = tocha.softmax(weight(x), -1)
    print("between")
    return (y + tocha.tensor([1.0, 2.0, 3.0, 4.0])).sum()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The folder of two captures of a program with a break."""
    monkeypatch.chdir(tmp_path)
    with config.patch({"trace.enabled": True, "trace.graph_diagram": True}):
        compiled = tocha.compile(program)
        compiled(tocha.ones(3, 4)).backward()
        compiled(tocha.ones(5, 4)).backward()
        found = debug_folder().root
    _dynamo.reset()
    tocha.compile(lambda x: x + 1, backend="eager")(tocha.ones(1))
    assert debug_folder() is None
    return found


def test_every_stage_is_there(written):
    assert written.parent.name == "torch_compile_debug"
    assert sorted(p.name for p in written.iterdir()) == ["0_0_program", "0_1_program", "1_0_program", "1_1_program"]
    names = {p.name for p in (written / "0_0_program").iterdir()}
    for kind in ("captured", "joint", "forward", "backward", "post_grad"):
        assert f"{kind}_graph.py" in names and f"{kind}_graph.svg" in names
    assert {
        "README.md", "guards.txt", "bytecode.txt", "timings.txt", "graph_breaks.txt", "loops_before_fusion.txt", "loops_after_fusion.txt", "output_code.cpp",
        "output_code_2.cpp", "output_code_script.py", "output_code_script_2.py", "kernels.txt",
    } <= names  # fmt: skip
    again = {p.name for p in (written / "0_1_program").iterdir()}
    assert {"recompiles.txt", "symbols.txt"} <= again


def test_the_readme_says_what_is_what(written):
    text = (written / "0_1_program" / "README.md").read_text()
    assert "`program`" in text and "this guard failed: `tensor(L['x']" in text
    for p in (written / "0_1_program").iterdir():
        if p.suffix not in (".pt", ".md"):
            assert f"`{p.name}`" in text


def test_graphs_run_as_they_are(written):
    scripts = sorted(written.rglob("*_graph*.py"))
    assert len(scripts) >= 20
    for path in scripts:
        held = runpy.run_path(str(path))
        held["Graph"]()(*held["inputs"])
    done = subprocess.run([sys.executable, str(scripts[0])], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "tensor(" in done.stdout


def test_guards_times_and_code(written):
    folder = written / "0_0_program"
    assert "# an input of the graph" in (folder / "guards.txt").read_text()
    assert "lowering" in (folder / "timings.txt").read_text()
    assert "tocha_program(" in (folder / "output_code.cpp").read_text()
    assert "in its place:" in (folder / "bytecode.txt").read_text()
    assert (folder / "captured_graph.svg").read_text().startswith("<svg ")


def test_programs_run_and_measure_themselves(written):
    scripts = sorted((written / "0_0_program").glob("output_code_script*.py"))
    assert len(scripts) == 2  # forward and backward
    for path in scripts:
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
        seconds, _, rest = done.stdout.partition(" s, ")
        assert float(seconds) > 0 and rest == "the least of 10 rounds of 10 calls\n"
    held = runpy.run_path(str(scripts[0]))
    x = held["get_args"]()
    assert all(isinstance(v, tocha.Tensor) for v in held["call"](*x))


def test_by_the_environment(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import tocha\ntocha.compile(lambda x: x.sin(), backend='eager')(tocha.ones(2))\n")
    env = {**os.environ, "TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(tmp_path)}
    subprocess.run([sys.executable, str(program)], env=env, check=True)
    assert list(Path(tmp_path).rglob("captured_graph.py"))
