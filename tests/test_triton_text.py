"""The loops of the compiler as Triton's text; nothing here runs it."""

from __future__ import annotations

import ast

import pytest

import tocha
from tocha._inductor.graph import lower_graph
from tocha._inductor.schedule import schedule
from tocha.codegen.triton_loops import triton_kernel
from tocha.fx.experimental.proxy_tensor import make_fx
from tocha.ir.loops import NotLowered


def flat(found):
    return list(found) if isinstance(found, tuple) else [found]


def text_of(f, *args) -> str:
    program = lower_graph(make_fx(lambda *a: flat(f(*a)), tracing_mode="fake")(*args))
    (kernel,) = schedule(program)
    kernel.name = "kernel"
    text = triton_kernel(kernel, program.known)
    ast.parse(text)
    return text


def body(text: str) -> list[str]:
    return [line.strip() for line in text[text.index("def kernel") :].splitlines()]


def test_points():
    lines = body(text_of(lambda x, y: (x + y) * 2, tocha.ones(6, 4), tocha.ones(4)))
    assert lines[0] == "def kernel(ptr0, ptr1, ptr2, XBLOCK: tl.constexpr):"
    assert lines[1] == "xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)"
    assert lines[2] == "xmask = xindex < 24"
    assert any("tl.load(ptr1 + ((xindex % 4)), mask=xmask)" in line for line in lines)
    assert lines[-1].startswith("tl.store(ptr2 + (") and lines[-1].endswith("mask=xmask)")


def test_guarded_loads():
    text = text_of(lambda x: tocha.nn.functional.pad(x, (1, 2), value=3.0) * 2, tocha.ones(4, 8))
    assert "other=0" in text and "tl.where" in text


def test_rows_are_reduced_in_registers():
    text = text_of(lambda x: x.softmax(-1), tocha.ones(5, 70))
    assert text.count("tl.reduce(") == 2 and text.count("tl.load(") == text.count("ptr0 + ")
    assert "rmask = rindex < 70" in text and "xmask = xindex < 5" in text
    assert text.count("tl.store(") == 1


def test_several_states():
    text = text_of(lambda x: x.max(-1), tocha.ones(5, 70))
    assert "_merge(a0, a1, a2, b0, b1, b2)" in text or "_merge(a0, a1, b0, b1)" in text


def test_what_has_no_form_is_refused():
    with pytest.raises(NotLowered):
        text_of(lambda x: x.sum(0), tocha.ones(300, 300))
