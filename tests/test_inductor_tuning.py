"""How products and convolutions of compiled programs are computed: constant weights laid out once, ways that are measured and kept."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tocha
import tocha.nn.functional as F
from tocha import _C, nn
from tocha._inductor import config, store, tuning
from tocha._logging import events
from tocha.ir.loops import Convolution, Product
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("empty_kernel_cache")


@pytest.fixture
def told():
    """What was chosen, and what was measured for it."""
    seen = []

    def listen(e):
        if isinstance(e, events.ProductTuned):
            seen.append(e)

    with events.listening(listen, thorough=False):
        yield seen


def randn(*shape, seed=0):
    return tocha.randn(shape, generator=tocha.Generator().manual_seed(seed))


SHAPES = [(1, 5, 7), (2, 3, 4), (4, 1000, 64), (17, 33, 70), (130, 97, 520), (120, 1100, 40), (33, 24, 2100)]


@pytest.mark.parametrize("m, n, k", SHAPES)
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.bfloat16, tocha.float16, tocha.float64])
def test_every_way_gives_the_product(m, n, k, dtype):
    a, b, bias = randn(m, k).to(dtype), randn(n, k, seed=1).to(dtype).t(), randn(n, seed=2).to(dtype)
    want = (a.double() @ b.double() + bias.double()).to(dtype)
    ways = [(tuning.ANY, tuning.USUAL), (tuning.BLAS, tuning.USUAL)]
    for engine, tiling in [*ways, *((tuning.TILES, t) for t in (tuning.USUAL, *tuning.TILINGS, (1, 1)))]:
        for packed in {None, _C._pack_right(b)}:
            c = tocha.full((m, n), float("nan"), dtype=dtype)
            _C._multiply(c, a, b, bias, packed, engine, *tiling)
            assert_close(c, want, rtol=2e-5 if dtype in (tocha.float32, tocha.float64) else 2e-2, atol=2e-4 if dtype is tocha.float32 else 2e-2)  # fmt: skip


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeError, match="do not fit"):
        _C._multiply(tocha.empty(2, 2), tocha.empty(2, 3), tocha.empty(2, 2), None, None, 0, 0, 0)
    with pytest.raises(TypeError, match="takes tensors"):
        _C._multiply(1, 2, 3, None, None, 0, 0, 0)


def test_constant_weights_of_few_rows_are_packed(programs):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 40)).eval()
    x = randn(4, 64)
    with tocha.no_grad():
        assert_close(tocha.compile(model, options={"freezing": True})(x), model(x))
        plain = tocha.compile(model)
        assert tocha.equal(plain(x), model(x))
    frozen, other = ([i for i in c.items if isinstance(i, Product)] for c in programs)
    assert all(p.packed is not None and p.engine == tuning.TILES for p in frozen)
    assert all(p.packed is None and p.engine == tuning.ANY for p in other)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(2, 16, 16), (4, 6, 6), (1, 40, 24)])
def test_transformed_weights_are_made_once_and_change_nothing(programs, size, bias):
    n, h, w = size
    conv = nn.Conv2d(48, 64, 3, padding=1, bias=bias)
    x = randn(n, 48, h, w)
    with tocha.no_grad():
        assert tocha.equal(tocha.compile(conv, options={"freezing": True})(x), conv(x))
    assert [i.packed is not None for i in programs[0].items if isinstance(i, Convolution)] == [True]


def test_other_convolutions_are_called_as_they_are(programs):
    model = nn.Sequential(nn.Conv2d(3, 8, 5), nn.Conv2d(8, 8, 3, groups=8), nn.ConvTranspose2d(8, 4, 3)).eval()
    x = randn(2, 3, 12, 12)
    with tocha.no_grad():
        assert tocha.equal(tocha.compile(model, options={"freezing": True})(x), model(x))
    found = [i for i in programs[0].items if isinstance(i, Convolution)]
    assert len(found) == 2 and all(i.packed is None for i in found)


def test_other_sizes_get_weights_of_their_own():
    conv = nn.Conv2d(32, 32, 3)
    f = tocha.compile(conv, options={"freezing": True}, dynamic=False)
    with tocha.no_grad():
        for h in (9, 20, 33):
            x = randn(2, 32, h, h)
            assert tocha.equal(f(x), conv(x))


def test_ways_are_measured_once(told):
    x, w = randn(24, 48), randn(40, 48, seed=1)
    with tocha.no_grad():
        for _ in range(2):
            f = tocha.compile(lambda x, w: F.linear(x, w).relu(), mode="max-autotune-no-cudagraphs")
            assert_close(f(x, w), F.linear(x, w).relu())
            tocha.compiler.reset()
            with config.patch(fx_graph_cache=False):
                f(x, w)
    assert len(told) >= 2 and told[0].seconds and set(told[0].seconds) >= {"any", "tiles", "blas"}
    assert all(not e.seconds and e.chosen == told[0].chosen for e in told[1:])


def test_constant_operands_have_more_ways(told):
    model, x = nn.Linear(48, 40).eval(), randn(24, 48)
    with tocha.no_grad():
        f = tocha.compile(model, options={"freezing": True, "max_autotune_gemm": True})
        assert_close(f(x), model(x))
    assert {"any, b rows", "tiles, b packed"} <= set(told[0].seconds)


def test_tilings_that_cut_a_product_in_another_way_are_measured(told, programs, monkeypatch):
    x, w = randn(240, 600), randn(600, 64, seed=1)
    with tocha.no_grad():
        f = tocha.compile(lambda x, w: x @ w, options={"max_autotune_gemm": True})
        assert_close(f(x, w), x @ w, rtol=1e-4, atol=1e-4)
        tiled = {way for way in told[0].seconds if way.startswith("tiles of")}
        assert tiled == {"tiles of 56 x 512", "tiles of 224 x 512", "tiles of 112 x 256", "tiles of 224 x 256", "tiles of 448 x 128"}  # fmt: skip
        wanted = tuning.Way(tuning.TILES, tiling=(224, 256))
        monkeypatch.setattr(tuning, "measured", lambda p, constant: {tuning.Way(): 1.0, wanted: 0.1})
        for _ in range(2):  # the second is told by the disk
            tocha.compiler.reset()
            with config.patch(fx_graph_cache=False):
                g = tocha.compile(lambda x, w: x @ w + 1, options={"max_autotune_gemm": True})
                assert_close(g(x[1:], w), x[1:] @ w + 1, rtol=1e-4, atol=1e-4)
            (p,) = (i for i in programs[-1].items if isinstance(i, Product))
            assert (p.engine, p.tiling) == (tuning.TILES, (224, 256))


@pytest.mark.parametrize("layout", [tuning.ROWS, tuning.PACKED])
def test_the_chosen_layout_is_taken(programs, monkeypatch, layout):
    wanted = tuning.Way(tuning.ANY if layout == tuning.ROWS else tuning.TILES, layout)
    monkeypatch.setattr(tuning, "measured", lambda p, constant: {tuning.Way(): 1.0, wanted: 0.1})
    model, x = nn.Linear(48, 40).eval(), randn(24, 48)
    with tocha.no_grad():
        f = tocha.compile(model, options={"freezing": True, "max_autotune": True})
        assert_close(f(x), model(x))
    (p,) = programs[0].calls
    assert (p.packed is not None) == (layout == tuning.PACKED)
    assert (p.tensors[1].strides == (40, 1)) == (layout == tuning.ROWS)


def test_a_way_that_is_hardly_faster_is_not_taken(monkeypatch, told):
    monkeypatch.setattr(tuning, "measured", lambda p, constant: {tuning.Way(): 1.0, tuning.Way(tuning.TILES): 0.99})
    with tocha.no_grad():
        tocha.compile(lambda x, w: x @ w, options={"max_autotune": True})(randn(20, 30), randn(30, 25))
    assert told[0].chosen == "any"


SCRIPT = """
import tocha
from tocha._logging import events
seen = []
def listen(e):
    if isinstance(e, events.ProductTuned): seen.append(e)
events.add(listen)
from tocha._inductor import config
config.fx_graph_cache = False
f = tocha.compile(lambda x, w: x @ w, options={"max_autotune": True})
with tocha.no_grad():
    f(tocha.ones(40, 50), tocha.ones(50, 60))
(e,) = seen
print(e.chosen, bool(e.seconds))
"""


def test_another_process_finds_the_choice(tmp_path):
    def run() -> list[str]:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "shared")}
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env, check=True)
        return done.stdout.split()

    first, second = run(), run()
    assert first[1] == "True" and second == [first[0], "False"]


def test_what_a_choice_is_known_by():
    keys = []
    x, w = randn(24, 48), randn(48, 40)
    with config.patch(max_autotune=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "tuned", lambda p, constant: keys.append(tuning.key_of(p, constant)) or tuning.Way())
        with tocha.no_grad():
            tocha.compile(lambda x, w: x @ w)(x, w)
            tocha.compile(lambda x, w: x @ w)(x, w.t().contiguous().t())
    assert set(keys[0]) == {"product", "processor", "threads", "tocha"}
    assert keys[0]["product"] != keys[1]["product"] and store.digest(keys[0]) != store.digest(keys[1])
