"""Which lines of a program compiled code comes from: stack traces on nodes ahead of time, comments on kernels."""

from __future__ import annotations

import inspect

import pytest

import tocha
from tocha._dynamo.backends.common import aot_autograd
from tocha._inductor import codecache
from tocha.codegen.cpp_source import without_lines
from tocha.fx.graph import parse_stack_trace

pytestmark = pytest.mark.usefixtures("kernel_cache")


def wave(x):
    return x.sin() * 2


def program(x, linear):
    y = wave(linear(x))
    y.add_(1)
    z = y + \
        x  # fmt: skip
    return z.softmax(-1).sum()


def line(function, text: str) -> str:
    """How a line of a function is named."""
    lines, first = inspect.getsourcelines(function)
    at = next(i for i, found in enumerate(lines) if text in found)
    return f"File: {__file__}:{first + at} in {function.__name__}, code: {lines[at].strip()}"


@pytest.fixture
def graphs():
    """The graphs of operators that `program` becomes: forward and backward."""
    found = []

    def keep(graph, inputs):
        found.append(graph)
        return graph

    f = tocha.compile(program, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))
    f(tocha.randn(3, 4, requires_grad=True), tocha.nn.Linear(4, 4)).backward()
    assert len(found) == 2
    return found


def traced(graph) -> dict[str, set[str]]:
    """By operator, the lines that its nodes came from."""
    found: dict[str, set[str]] = {}
    for n in graph.graph.nodes:
        if n.op == "call_function" and n.stack_trace:  # sums of the gradients of one value come from no line
            frame = parse_stack_trace(n.stack_trace)
            found.setdefault(n.target._schema.name, set()).add(frame.get_summary_str())
    return found


def test_operators_ahead_of_time_know_the_lines_they_came_from(graphs):
    forward = traced(graphs[0])
    assert forward["aten::sin"] == {line(wave, "sin()")}
    assert forward["aten::_softmax"] == {line(program, "softmax")}
    assert any("F.linear" in text for text in forward["aten::addmm"])
    assert line(program, "add_(1)") in forward["aten::add"]  # a write that became a value


def test_gradients_know_the_lines_of_what_they_are_gradients_of(graphs):
    backward = traced(graphs[1])
    assert backward["aten::cos"] == {line(wave, "sin()")}
    assert backward["aten::_softmax_backward_data"] == {line(program, "softmax")}
    assert all("F.linear" in text for text in backward["aten::mm"])


def test_stack_traces_are_whole(graphs):
    (node,) = graphs[0].graph.find_nodes(op="call_function", target=tocha.ops.aten.sin.default)
    first, second = (frame for frame in node.stack_trace.split('  File "') if frame)
    assert first.endswith("in program\n    y = wave(linear(x))\n") and second.endswith(
        "in wave\n    return x.sin() * 2\n"
    )


def test_kernels_name_the_lines_of_the_program(programs):
    tocha.compile(program)(tocha.randn(3, 4, requires_grad=True), tocha.nn.Linear(4, 4)).backward()
    forward, backward = (p.source for p in programs)
    for text in (line(wave, "sin()"), line(program, "add_(1)"), line(program, "softmax"), line(program, "y +").rstrip("\\ ")):  # fmt: skip
        assert f"//   {text}\n" in forward
    assert line(wave, "sin()") in backward
    # What the library's own lines call is the user's line.
    assert "linear.py" not in forward and line(program, "wave(linear(x))") in backward


def test_a_line_that_goes_on_does_not_swallow_code(programs):
    f = tocha.compile(program)
    x, linear = tocha.randn(3, 4), tocha.nn.Linear(4, 4)
    tocha.testing.assert_close(f(x, linear), program(x, linear))
    (made,) = programs
    assert not any(text.rstrip().endswith("\\") for text in made.source.splitlines() if text.startswith("//"))


def test_libraries_do_not_depend_on_where_the_program_stands():
    source = "// sin\n//   File: a.py:3 in f, code: x.sin()\nvoid kernel_0() {}\n"
    assert without_lines(source) == "// sin\nvoid kernel_0() {}\n"
    assert codecache.key_parts(source) == codecache.key_parts(source.replace("a.py:3", "b.py:4"))
