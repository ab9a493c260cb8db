"""Graphs of recorded operators through the loop IR to fused C++: what is fused, and that the values are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tocha
from tocha._inductor.compile import compile_graph
from tocha._inductor.graph import Graph, op
from tocha._inductor.lowering import NotLowered
from tocha.ir import dtypes as dt
from tocha.ir.loops import Kernel, Load, Loop, VerificationError, verify


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TOCHA_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def normalized(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def test_layer_norm_gelu_multiply_sum_is_two_kernels():
    n = 1024
    g = Graph()
    x, m = g.input("x", (n, n), dt.float32), g.input("m", (n, n), dt.float32)
    w, b = g.input("w", (n,), dt.float32), g.input("b", (n,), dt.float32)
    g.output((op.nn_gelu(op.layer_norm(x, [n], w, b)) * m).sum())
    program = compile_graph(g)
    assert len(program.kernels) <= 2
    arrays = [uniform(n, n), uniform(n, n, seed=1), uniform(n, seed=2), uniform(n, seed=3)]
    (got,) = program(*map(tocha.tensor, arrays))
    y = normalized(arrays[0]) * arrays[2] + arrays[3]
    terms = 0.5 * y * (1 + erf(y / math.sqrt(2))) * arrays[1]
    assert got.shape == () and got.dtype == tocha.float32
    assert abs(got.item() - terms.sum()) <= 1e-5 * np.abs(terms).sum()
    eager = tocha.nn.functional.gelu(
        tocha.layer_norm(*map(tocha.tensor, (arrays[0],)), [n], *map(tocha.tensor, arrays[2:]))
    )
    assert abs((eager * tocha.tensor(arrays[1])).sum().item() - got.item()) <= 1e-5 * np.abs(terms).sum()


def test_rows_are_read_once_and_their_results_written():
    g = Graph()
    x = g.input("x", (33, 70), dt.float32)
    e = op.exp(x - op.amax(x, [-1], True))
    g.output(e / e.sum(-1, True))
    program = compile_graph(g)
    a = uniform(33, 70)
    (got,) = program(tocha.tensor(a))
    assert len(program.kernels) == 1
    np.testing.assert_allclose(got.numpy(), tocha.softmax(tocha.tensor(a), -1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16, dt.float64], ids=lambda d: d.name)
def test_other_dtypes_compute_as_eager_does(dtype):
    g = Graph()
    x = g.input("x", (5, 40), dtype)
    g.output(op.layer_norm(x, [40]))
    t = tocha.tensor(uniform(5, 40)).to(getattr(tocha, dtype.name))
    (got,) = compile_graph(g)(t)
    want = tocha.layer_norm(t, [40])
    assert got.dtype == want.dtype
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[dtype.name]
    np.testing.assert_allclose(
        got.to(tocha.float64).numpy(), want.to(tocha.float64).numpy(), rtol=tolerance, atol=tolerance
    )


def test_operands_broadcast_and_promote():
    g = Graph()
    x, y = g.input("x", (4, 1, 6), dt.int64), g.input("y", (3, 1), dt.float32)
    g.output(x * y + 2)
    a, b = np.arange(24).reshape(4, 1, 6), uniform(3, 1)
    (got,) = compile_graph(g)(tocha.tensor(a), tocha.tensor(b))
    assert got.dtype == tocha.float32
    np.testing.assert_array_equal(got.numpy(), a.astype(np.float32) * b + np.float32(2))


def test_several_outputs_share_what_they_can():
    g = Graph()
    x = g.input("x", (20, 30), dt.float32)
    y = op.sin(x)
    g.output(y)
    g.output(y.sum(-1))
    a = uniform(20, 30)
    y, s = compile_graph(g)(tocha.tensor(a))
    np.testing.assert_allclose(y.numpy(), np.sin(a), rtol=1e-6)
    np.testing.assert_allclose(s.numpy(), np.sin(a).sum(-1), rtol=1e-5, atol=1e-5)


def test_a_strided_input_is_taken_as_it_is_read():
    g = Graph()
    g.output(op.exp(g.input("x", (8, 6), dt.float32)))
    a = uniform(6, 8)
    (got,) = compile_graph(g)(tocha.tensor(a).t())
    np.testing.assert_allclose(got.numpy(), np.exp(a.T), rtol=1e-6)


def test_the_same_text_is_compiled_once():
    def program():
        g = Graph()
        g.output(op.exp(g.input("x", (7,), dt.float32)))
        return compile_graph(g)

    first, second = program(), program()
    assert first.source == second.source and first.library is second.library


def test_wrong_inputs_are_refused():
    g = Graph()
    g.output(op.exp(g.input("x", (8,), dt.float32)))
    program = compile_graph(g)
    with pytest.raises(RuntimeError, match=r"x must be float32\[8\], got tocha.float32\[9\]"):
        program(tocha.zeros(9))
    with pytest.raises(RuntimeError, match=r"got tocha.float64\[8\]"):
        program(tocha.zeros(8, dtype=tocha.float64))
    with pytest.raises(TypeError, match="takes 1 tensors, got 0"):
        program()


def test_an_operator_without_a_loop_form_says_so():
    g = Graph()
    with pytest.raises(NotLowered, match="sort"):
        op.sort(g.input("x", (8,), dt.float32))


def test_a_kernel_that_reads_what_is_not_there_is_refused():
    a = Loop("a", (4,), dt.float32, (), formula=None)
    b = Loop("b", (4,), dt.float32, (Load(a, (1,)),), formula=None)
    with pytest.raises(VerificationError, match="b reads a before it is computed"):
        verify([Kernel("k", 1, 4, (b,), (b,))])
