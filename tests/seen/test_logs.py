"""Every artifact says what it is for."""

import json
import logging
import subprocess
import sys

import pytest

import tocha
from tocha import _dynamo, _logging
from tocha._logging.artifacts import ARTIFACTS, WITHOUT_OUTPUT

changed = []


def helper(x):
    return x.sin() * 2


def program(x, n):
    y = helper(x)
    changed.append(n)
    print("between")
    return (y + n).sum()


def run():
    """A break, a recompilation, symbols, gradients."""
    changed.clear()
    compiled = tocha.compile(program)
    compiled(tocha.ones(300, 1200, requires_grad=True), 2).backward()
    changed.clear()
    compiled(tocha.ones(301, 1200), 3)


EXPECTED = {
    "graph_breaks": ["Graph break in user code at", "Graph Break Reason: print()", "Hint: Print outside"],
    "recompiles": ["Recompiling function program", "triggered by the following guard failure(s)", "size=[300, 1200]"],
    "recompiles_verbose": ["guard failures of each earlier capture", "0: "],
    "guards": ["GUARDS of program", "tensor(L['x'], tocha.float32"],
    "verbose_guards": ["# an input of the graph"],
    "bytecode": ["ORIGINAL BYTECODE program", "MODIFIED BYTECODE program", "LOAD_FAST"],
    "graph": ["TRACED GRAPH", "opcode", "placeholder", "call_method"],
    "graph_code": ["TRACED GRAPH", "l_x_.sin()"],
    "graph_code_verbose": ["# sin:", "in helper"],
    "graph_sizes": ["TRACED GRAPH TENSOR SIZES", "float32[300, 1200]"],
    "trace_source": ["TRACE starts_line", "in helper"],
    "trace_call": ["TRACE inlined call helper"],
    "trace_bytecode": ["TRACE LOAD_FAST x"],
    "side_effects": ["SIDE EFFECTS of program", "changed"],
    "trace_shape_events": ["create_symbol s0 = 301 for L['x'].size()[0]"],
    "sym_node": ["create_symbol s0 = 301"],
    "aot_graphs": ["Forward graph", "Backward graph", "aten.cos.default"],
    "aot_graphs_effects": ["Forward graph"],
    "aot_joint_graph": ["Joint graph", "tangents_1"],
    "pre_grad_graphs": ["BEFORE DIFFERENTIATION", "l_x_.sin()"],
    "post_grad_graphs": ["AFTER POST GRAD", "aten.sin.default"],
    "ir_pre_fusion": ["BEFORE FUSION", "inputs:"],
    "ir_post_fusion": ["AFTER FUSION", "kernel_0"],
    "schedule": ["SCHEDULE", "0: kernel_0"],
    "fusion": ["kernel_0 fuses 2: sin, mul", "stay out of memory"],
    "compute_dependencies": [" from primals_1"],
    "loop_ordering": ["kernel_0: ", "rows"],
    "loop_tiling": ["kernel_0: "],
    "output_code": ["Output code:", "tocha_program("],
    "kernel_code": ["void kernel_0("],
    "inductor_metrics": ["1 kernels, 0 calls", "FLOPs"],
    "node_runtime_estimation": ["kernel_0: ", "FLOPs"],
    "cudagraphs": ["temporaries"],
    "cudagraph_static_inputs": ["static inputs: none of"],
    "caching": ["cache "],
    "perf_hints": ["a graph break costs fusion across it"],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_every_artifact_says_what_it_is_for(name, capfd):
    _logging.set_logs(**{name: True})
    run()
    said = capfd.readouterr().err
    for part in EXPECTED[name]:
        assert part in said
    assert all(f"[__{name}]" in line for line in said.splitlines())


@pytest.mark.parametrize("name", ["compiled_autograd", "compiled_autograd_verbose"])
def test_backward_that_is_compiled(name, capfd):
    _logging.set_logs(**{name: True})
    x = tocha.ones(2, requires_grad=True)
    with _dynamo.compiled_autograd._enable(lambda m: m):
        x.sin().sum().backward()
    assert "Compiled autograd graph" in capfd.readouterr().err


def test_ways_of_products_that_are_measured(capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    _logging.set_logs(autotuning=True)
    with tocha.no_grad():
        tocha.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs")(tocha.ones(64, 64), tocha.ones(64, 64))
    said = capfd.readouterr().err
    assert "AUTOTUNE float32" in said and " us" in said and all("[__autotuning]" in line for line in said.splitlines())


def test_no_artifact_is_forgotten():
    assert set(ARTIFACTS) == {*EXPECTED, "autotuning", "compiled_autograd", "compiled_autograd_verbose"}


def test_memory_that_is_kept_between_calls(capfd):
    _logging.set_logs(cudagraphs=True)
    tocha.compile(lambda x: (x.sum(1, keepdim=True) - x).sum(), mode="reduce-overhead")(tocha.ones(3000, 4))
    assert "temporaries" in capfd.readouterr().err


def test_components_at_their_levels(capfd):
    _logging.set_logs(dynamo=logging.INFO)
    run()
    said = capfd.readouterr().err
    assert "capture of program" in said and "goes to the backend" in said and "GUARDS" not in said
    _dynamo.reset()
    _logging.set_logs(dynamo=logging.DEBUG)
    run()
    said = capfd.readouterr().err
    assert "GUARDS" in said and "MODIFIED BYTECODE" in said and "Output code" not in said
    _dynamo.reset()
    _logging.set_logs(inductor=logging.INFO, aot=logging.INFO, symbolic_shapes=logging.INFO)
    run()
    said = capfd.readouterr().err
    assert "1 kernels, 0 native calls" in said and "joint graph of" in said and "create_symbol s0 = 301" in said
    _dynamo.reset()
    _logging.set_logs(dynamic=logging.INFO)
    run()
    assert "create_symbol s0 = 301" in capfd.readouterr().err


def test_nothing_is_said_without_being_asked(capfd):
    _logging.set_logs()
    run()
    assert capfd.readouterr().err == ""


def test_what_is_not_known_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unrecognized log or artifact name passed to set_logs: guadrs .*did you mean 'guards'"):  # fmt: skip
        _logging.set_logs(guadrs=True)
    with pytest.raises(ValueError, match=r"Expected bool to enable artifact guards, received 10"):
        _logging.set_logs(guards=10)
    with pytest.raises(ValueError, match=r"Unrecognized log level for log dynamo: 7"):
        _logging.set_logs(dynamo=7)


def test_names_that_say_nothing_here_say_so(caplog):
    _logging._said.clear()
    _logging.set_logs(**dict.fromkeys(WITHOUT_OUTPUT, True))
    assert len(caplog.records) == len(WITHOUT_OUTPUT)
    assert "has nothing to say here" in caplog.text


PROGRAM = """
import tocha
def f(x):
    y = x.sin()
    print("between")
    return y + 1
tocha.compile(f, backend="eager")(tocha.ones(2))
"""


def started(tmp_path, **env):
    import os

    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return subprocess.run([sys.executable, str(path)], env={**os.environ, **env}, capture_output=True, text=True, check=False)  # fmt: skip


def test_the_environment_chooses(tmp_path):
    said = started(tmp_path, TORCH_LOGS="graph_breaks,+dynamo,-inductor", TORCH_LOGS_OUT=str(tmp_path / "out.txt"))
    assert said.returncode == 0 and "Graph break in user code at" in said.stderr and "GUARDS of f" in said.stderr
    assert (tmp_path / "out.txt").read_text() == said.stderr
    said = started(tmp_path, TOCHA_LOGS="guards", TORCH_LOGS_FORMAT="<%(message)s>")
    assert said.stderr.startswith("<GUARDS of f")


def test_help(tmp_path):
    said = started(tmp_path, TORCH_LOGS="help")
    assert said.returncode == 0
    assert all(name in said.stderr for name in ARTIFACTS)
    said = started(tmp_path, TORCH_LOGS="+help")
    assert all(name in said.stderr for name in WITHOUT_OUTPUT)


def test_bad_settings_in_the_environment(tmp_path):
    said = started(tmp_path, TORCH_LOGS="grahp_breaks")
    assert said.returncode == 1 and "Invalid log settings: grahp_breaks" in said.stderr
    assert "did you mean 'graph_breaks'" in said.stderr


def test_long_messages(tmp_path):
    def inner(x):
        print("between")
        return x

    def outer(x):
        return inner(x.sin()) + 1

    texts = []
    for verbose in (False, True):
        _dynamo.reset()
        with _dynamo.config.patch(verbose=verbose):
            texts.append("\n".join(break_texts(outer)))
    assert len(texts[1]) >= len(texts[0])
    assert started(tmp_path, TORCHDYNAMO_VERBOSE="1", TORCH_LOGS="graph_breaks").stderr.count("[__graph_breaks]") > 3


def break_texts(f):
    from tocha._logging import events

    found = []
    with events.listening(lambda e: found.extend(ARTIFACTS["graph_breaks"].text(e))):
        tocha.compile(f, backend="eager")(tocha.ones(2))
    return found


def test_structured_trace(tmp_path):
    assert started(tmp_path, TORCH_TRACE=str(tmp_path / "trace")).returncode == 0
    (file,) = (tmp_path / "trace").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [r["event"] for r in rows]
    assert kinds.count("GraphBroke") == 1 and kinds.count("GraphCaptured") == 2
    (broke,) = [r for r in rows if r["event"] == "GraphBroke"]
    assert (broke["name"], broke["compile_id"], broke["stack"][-1]["line"]) == ("print", "0/0", 5)
    assert [r["time"] for r in rows] == sorted(r["time"] for r in rows)


def test_artifact_loggers():
    assert _logging.getArtifactLogger("torch._dynamo.utils", "guards").name == "tocha._dynamo.utils.__guards"
    with pytest.raises(ValueError, match="not registered"):
        _logging.getArtifactLogger("torch._dynamo", "gaurds")
