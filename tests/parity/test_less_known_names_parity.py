"""Names that few programs use, against PyTorch: the same programs, the same answers or errors."""

from __future__ import annotations

import sys
import types
import warnings
from pathlib import Path

import pytest
import torch

import tocha

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import name_table

REARRANGED = [
    "a b c -> c (a b)", "a b c -> a 1 b c", "a ... -> ... a", "a b (c d) -> a b c d|c=2", "a b (c d) -> a b c d|c=3", "a b c -> a b",
    "a b c -> a b c d", "a a b -> a b", "a b c", "a b -> b a", "a () b c-> a b c", "a (...) -> a ...", "a b c -> (a ...) b c",
    "a _b c -> c _b a", "a b c -> a b c|d=3", "a b (c d) -> d a b c|c=2,d=2", "a b (c d)) -> d", "a b $ -> a", "... -> (...)",
    "a (b c) d -> a b c d|b=2", "a ... -> (... a)", "a b (c d -> a", "a (b (c)) d -> a b c d", "a 2 b -> a b",
]  # fmt: skip
SPARSE = [
    "s.smm(d)", "s.sparse_resize_((3, 4), 2, 0)", "s.sparse_resize_((3, 4), 2, 0).is_coalesced()", "s.sparse_resize_((1, 4), 2, 0)",
    "s.sparse_resize_((3, 4), 1, 1)", "s.sparse_resize_((3, 4, 2), 2, 1)", "s.sparse_resize_and_clear_((3, 4, 2), 2, 1)",
    "s.sparse_resize_and_clear_((3, 4, 2), 2, 0)", "s.resize_as_sparse_(m.sparse_coo_tensor(size=(4, 5)))",
    "m.sparse_coo_tensor(size=(4, 5)).resize_as_sparse_(s)", "m.eye(2).to_sparse().sspaddmm(s, d, beta=2, alpha=3)", "m.dsmm(s, d)",
    "m.hsmm(s, d)", "m.saddmm(m.eye(2).to_sparse(), s, d)", "m.crow_indices_copy(s.to_sparse_csr())",
    "m.col_indices_copy(s.to_sparse_csr())", "m.row_indices_copy(s.to_sparse_csc())", "m.ccol_indices_copy(s.to_sparse_csc())",
]  # fmt: skip
HELPERS = [
    "ser.check_module_version_greater_or_equal(ns(__version__='1.2.3'), (1, 2))",
    "ser.check_module_version_greater_or_equal(ns(__version__='1.2.3'), (1, 3))",
    "ser.normalize_storage_type(m.FloatStorage)", "str(ser.StorageType('HalfStorage'))", "m.random.thread_safe_generator()",
    "m.thread_safe_generator()", "m.wait(m.fork(lambda x: x + 1, m.ones(2)))",
]  # fmt: skip


def told(m, work):
    """What a piece of work gives: the text of its value, or the type and first words of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = repr(work())
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    return text.replace("torch", "tocha")


def evaluated(m, expression):
    s = m.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).coalesce()
    names = {"m": m, "s": s, "d": m.arange(6.0).reshape(3, 2), "ser": m.serialization, "ns": types.SimpleNamespace}
    return told(m, lambda: eval(expression, names))


@pytest.mark.parametrize("pattern", REARRANGED)
def test_rearrange(pattern):
    text, _, sizes = pattern.partition("|")
    lengths = {k: int(v) for k, _, v in (part.partition("=") for part in sizes.split(",") if part)}
    ours, theirs = (
        told(m, lambda m=m: m.func.rearrange(m.arange(24.0).reshape(2, 3, 4), text, **lengths)) for m in (tocha, torch)
    )
    assert ours == theirs


@pytest.mark.parametrize("expression", SPARSE + HELPERS)
def test_expressions(expression):
    assert evaluated(tocha, expression) == evaluated(torch, expression)


def redispatched(m):
    seen = []

    class Logs(m.overrides.TorchFunctionMode):
        def __torch_function__(self, func, kinds, args, kwargs=None):
            seen.append(func.__name__)
            with self:
                return m.overrides.redispatch_function(func, kinds, args, kwargs)

    def scaled(a, b):
        if m.overrides.has_torch_function((a, b)):
            return m.overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    a, b = m.tensor([3.0]), m.tensor([4.0])
    with Logs():
        found = scaled(a, b)
    return seen, found.tolist()


def test_redispatch_function():
    assert redispatched(tocha) == redispatched(torch) == (["scaled", "mul", "add"], [13.0])


def grouped(m, overlap):
    runs = []

    def f(t):
        runs.append(1)
        return t.sin(), t.exp()

    x = m.ones(2, requires_grad=True)
    a, b = m.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    with m.utils.checkpoint.GraphExecGroup():
        a.sum().backward(retain_graph=overlap)
        (a if overlap else b).sum().backward()
    return len(runs), [round(v, 5) for v in x.grad.tolist()]


def test_groups_of_backwards_compute_regions_again_once():
    assert grouped(tocha, False) == grouped(torch, False)
    for m in (tocha, torch):
        with pytest.raises(m.utils.checkpoint.CheckpointError, match="already unpacked once"):
            grouped(m, True)
        groups = m.utils.checkpoint.GraphExecGroup(), m.utils.checkpoint.GraphExecGroup()
        with pytest.raises(RuntimeError, match="cannot be nested"), groups[0], groups[1]:
            pass


def test_throughput():
    for m in (tocha, torch):
        bench = m.utils.ThroughputBenchmark(m.nn.Linear(2, 3))
        bench.add_input(m.ones(1, 2))
        assert bench.run_once(m.ones(1, 2)).shape == (1, 3)
        stats = bench.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=10)
        assert stats.num_iters == 10 and stats.latency_avg_ms > 0 and "Average latency per example" in str(stats)


def test_the_table_of_names_is_the_documents():
    found = name_table.rows()
    assert name_table.PAGE.read_text() == name_table.page(found), "run tools/name_table.py"
    here, counted = sum(len(row.names("present")) for row in found), sum(len(row.counted) for row in found)
    assert here >= 0.97 * counted
