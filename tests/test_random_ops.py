"""Random operators: known numbers, streams and states, layouts, the meta device, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import tocha


@pytest.fixture(autouse=True)
def seeded():
    tocha.manual_seed(0)


def test_known_numbers():
    assert tocha.rand(3).tolist() == pytest.approx([0.4962565899, 0.7682217956, 0.0884774327])
    tocha.manual_seed(0)
    assert tocha.randn(3).tolist() == pytest.approx([1.5409960747, -0.2934288979, -2.1787893772])
    tocha.manual_seed(0)
    assert tocha.randint(10, (5,)).tolist() == [4, 9, 3, 0, 3]


def test_a_state_repeats_what_follows_it():
    tocha.randn(3)  # leaves half a pair of normals behind
    state = tocha.get_rng_state()
    first = [tocha.randn(5), tocha.rand(7), tocha.randperm(9)]
    tocha.set_rng_state(state)
    again = [tocha.randn(5), tocha.rand(7), tocha.randperm(9)]
    assert all((a == b).all() for a, b in zip(first, again, strict=True))


def test_a_generator_of_ones_own_leaves_the_default_alone():
    state = tocha.get_rng_state()
    g = tocha.Generator().manual_seed(3)
    a = tocha.rand(4, generator=g)
    assert (tocha.get_rng_state() == state).all()
    assert (tocha.rand(4, generator=g.manual_seed(3)) == a).all()


def test_fork_rng():
    with tocha.random.fork_rng():
        tocha.rand(10)
    assert tocha.rand(1).item() == pytest.approx(0.4962565899)


@pytest.mark.parametrize("fill", ["uniform_", "random_", "exponential_"])
def test_elements_are_filled_in_the_order_of_their_addresses(fill):
    whole = getattr(tocha.empty(4, 6), fill)()
    tocha.manual_seed(0)
    turned = getattr(tocha.empty(6, 4).t(), fill)()
    assert np.array_equal(turned.t().numpy().ravel(), whole.numpy().ravel())
    tocha.manual_seed(0)
    base = tocha.zeros(4, 12)
    getattr(base[:, ::2], fill)()
    assert np.array_equal(base.numpy()[:, ::2], whole.numpy()) and (base.numpy()[:, 1::2] == 0).all()


def test_in_place_fills_return_self_and_count_as_writes():
    x = tocha.zeros(3)
    for name in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_"):
        before = x._version
        assert getattr(x, name)() is x and x._version == before + 1


def test_distributions_have_their_moments():
    n = 200_000
    for x, mean, std in [
        (tocha.rand(n), 0.5, 12**-0.5),
        (tocha.randn(n), 0, 1),
        (tocha.empty(n).exponential_(2.0), 0.5, 0.5),
        (tocha.empty(n).geometric_(0.25), 4, 12**0.5),
        (tocha.poisson(tocha.full((n,), 30.0)), 30, 30**0.5),
        (tocha.binomial(tocha.full((n,), 40.0), tocha.full((n,), 0.3)), 12, 8.4**0.5),
        (tocha.normal(tocha.full((n,), 3.0), 2.0), 3, 2),
        (tocha.bernoulli(tocha.full((n,), 0.2)), 0.2, 0.4),
    ]:
        a = x.numpy().astype(np.float64)
        assert abs(a.mean() - mean) < 5 * std / n**0.5
        assert abs(a.std() - std) < 0.02 * std


def test_permutations_and_integers():
    assert sorted(tocha.randperm(100).tolist()) == list(range(100))
    assert set(tocha.randint(-2, 3, (1000,)).tolist()) == {-2, -1, 0, 1, 2}
    assert tocha.randint(5, (3,), dtype=tocha.float32).dtype == tocha.float32
    assert tocha.randint_like(tocha.zeros(3, dtype=tocha.int16), 5).dtype == tocha.int16


def test_multinomial():
    p = tocha.tensor([[0.0, 3.0, 1.0], [1.0, 0.0, 0.0]])
    drawn = tocha.multinomial(p, 4000, replacement=True).numpy()
    assert (drawn[1] == 0).all() and abs((drawn[0] == 1).mean() - 0.75) < 0.05 and not (drawn[0] == 0).any()
    once = tocha.multinomial(tocha.ones(50), 50)
    assert sorted(once.tolist()) == list(range(50))


def test_normal_numbers_may_be_complex():
    z = tocha.randn(100_000, dtype=tocha.complex64).numpy()
    assert abs(np.mean(np.abs(z) ** 2) - 1) < 0.02 and abs(z.real.std() - 0.5**0.5) < 0.01


def test_out():
    out = tocha.empty(0)
    assert tocha.rand(3, out=out) is out and out.shape == (3,)
    wide = tocha.empty(3, dtype=tocha.float64)
    tocha.manual_seed(0)
    tocha.normal(tocha.zeros(3), 1.0, out=wide)
    tocha.manual_seed(0)
    assert (wide == tocha.randn(3, dtype=tocha.float64)).all()


def test_meta_tensors_draw_nothing():
    state = tocha.get_rng_state()
    m = tocha.empty(2, 3, device="meta")
    for r in (
        tocha.rand(2, 3, device="meta"),
        m.normal_(),
        tocha.bernoulli(m),
        tocha.dropout(m, 0.5, True),
        tocha.poisson(m),
        tocha.rand_like(m),
    ):
        assert r.device.type == "meta" and r.shape == (2, 3)
    assert tocha.multinomial(m, 2).shape == (2, 2)
    assert (tocha.get_rng_state() == state).all()


def test_a_refusal_draws_nothing():
    state = tocha.get_rng_state()
    for call in (
        lambda: tocha.zeros(3).uniform_(1, 0),
        lambda: tocha.zeros(3).normal_(0, -1),
        lambda: tocha.randint(5, 3, (2,)),
        lambda: tocha.bernoulli(tocha.full((3,), 2.0)),
        lambda: tocha.multinomial(tocha.zeros(3), 1),
        lambda: tocha.normal(tocha.zeros(3), -tocha.ones(3)),
        lambda: tocha.poisson(-tocha.ones(3)),
        lambda: tocha.zeros(1).expand(3).normal_(),
    ):
        with pytest.raises(RuntimeError):
            call()
    assert (tocha.get_rng_state() == state).all()


def test_dropout():
    x = tocha.ones(1000)
    assert tocha.dropout(x, 0.5, False) is x and tocha.dropout(x, 0.0, True) is x
    kept = tocha.nn.functional.dropout(x, 0.25).numpy()
    assert set(kept.tolist()) == {0.0, np.float32(4 / 3)} and abs((kept > 0).mean() - 0.75) < 0.06
    channels = tocha.nn.functional.dropout2d(tocha.ones(8, 16, 3, 3)).numpy().reshape(128, 9)
    assert (channels == channels[:, :1]).all() and 0 < (channels[:, 0] > 0).mean() < 1
    same = tocha.nn.functional.dropout(x, 0.5, inplace=True)
    assert same is x and (x == 0).any()
    normal = tocha.nn.functional.alpha_dropout(tocha.randn(200_000), 0.3, True).numpy()
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01
    with pytest.raises(ValueError):
        tocha.nn.functional.dropout(x, 1.5)
