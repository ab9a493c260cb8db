"""Regions of mixed precision: who computes in what, nesting, the cache of cast weights, gradients."""

from __future__ import annotations

import threading

import pytest

import tocha
from tocha.operators.families import load
from tocha.operators.record import operators

bf16, f16, f32, f64 = tocha.bfloat16, tocha.float16, tocha.float32, tocha.float64


def test_products_compute_in_the_regions_dtype():
    a = tocha.rand(3, 3)
    with tocha.autocast("cpu"):
        assert (a @ a).dtype == bf16
        assert tocha.nn.functional.linear(a, a).dtype == bf16
        assert (a + a).dtype == f32
    with tocha.autocast("cpu", dtype=f16):
        assert (a @ a).dtype == f16
    assert (a @ a).dtype == f32


def test_the_value_is_that_of_cast_arguments():
    a, b = tocha.rand(4, 5), tocha.rand(5, 3)
    with tocha.autocast("cpu"):
        got = a @ b
    assert tocha.equal(got, a.to(bf16) @ b.to(bf16))


@pytest.mark.parametrize(
    ("name", "weight", "dims"),
    [("conv1d", (3, 4, 2), 1), ("conv2d", (3, 4, 2, 2), 2), ("conv3d", (3, 4, 2, 2, 2), 3), ("conv_transpose1d", (4, 3, 2), 1),
     ("conv_transpose2d", (4, 3, 2, 2), 2), ("conv_transpose3d", (4, 3, 2, 2, 2), 3)],
)  # fmt: skip
def test_convolutions_compute_in_the_regions_dtype(name, weight, dims):
    function = getattr(tocha.nn.functional, name)
    x, w, b = tocha.rand(2, 4, *(5,) * dims, requires_grad=True), tocha.rand(weight, requires_grad=True), tocha.rand(3)
    with tocha.autocast("cpu"):
        got, compiled = function(x, w, b), tocha.compile(function, fullgraph=True)(x, w, b)
    assert got.dtype == bf16 and compiled.dtype == bf16
    assert tocha.equal(got, function(x.to(bf16), w.to(bf16), b.to(bf16)))
    assert [g.dtype for g in tocha.autograd.grad(got.sum(), (x, w))] == [f32, f32]
    if not name.startswith("conv_"):
        with tocha.autocast("cpu", dtype=f16):
            assert function(x, w, padding="same").dtype == f16


def test_bilinear_maps_stay_in_their_dtype():
    a, w = tocha.rand(3, 4), tocha.rand(2, 4, 4)
    with tocha.autocast("cpu"):
        got = tocha.nn.functional.bilinear(a, a, w)
    assert tocha.equal(got, tocha.nn.functional.bilinear(a, a, w))


def test_what_needs_range_computes_in_float32():
    a = tocha.rand(3, 3).to(bf16)
    with tocha.autocast("cpu"):
        assert tocha.prod(a).dtype == f32
        assert tocha.nn.functional.mse_loss(a, a).dtype == f32
        assert tocha.nn.functional.cross_entropy(a, tocha.tensor([0, 1, 2])).dtype == f32
        assert tocha.nn.functional.pad(a, (1, 1), mode="reflect").dtype == f32
        assert tocha.nn.functional.pad(a, (1, 1), mode="circular").dtype == bf16
        assert tocha.fft.fft(a).dtype == tocha.complex64 and tocha.fft.irfft2(a).dtype == f32
        assert tocha.max_pool3d(a.expand(1, 3, 3, 3), 2).dtype == f32
        assert tocha.fake_quantize_per_tensor_affine(a, 0.1, 0, 0, 255).dtype == f32
        assert (
            tocha.nn.functional.grid_sample(a.expand(1, 1, 3, 3), tocha.zeros(1, 2, 2, 2), align_corners=False).dtype
            == f32
        )


def test_joins_take_the_widest():
    a = tocha.rand(3)
    with tocha.autocast("cpu"):
        assert tocha.cat([a, a.to(bf16)]).dtype == f32
        assert tocha.stack([a.to(bf16), a.to(bf16)]).dtype == bf16


def test_float64_and_integers_stay():
    a = tocha.rand(2, 2, dtype=f64)
    with tocha.autocast("cpu"):
        assert (a @ a).dtype == f64
        assert (tocha.ones(2, 2, dtype=tocha.int64) @ tocha.ones(2, 2, dtype=tocha.int64)).dtype == tocha.int64


def test_regions_nest_and_can_be_switched_off():
    a = tocha.rand(2, 2)
    with tocha.autocast("cpu"):
        with tocha.autocast("cpu", enabled=False):
            assert not tocha.is_autocast_enabled("cpu")
            assert (a @ a).dtype == f32
        with tocha.autocast("cpu", dtype=f16):
            assert (a @ a).dtype == f16
        assert (a @ a).dtype == bf16
    assert not tocha.is_autocast_enabled("cpu")


def test_a_region_ends_with_an_exception():
    with pytest.raises(KeyError), tocha.autocast("cpu"):
        raise KeyError
    assert not tocha.is_autocast_enabled("cpu")


def test_decorator():
    @tocha.autocast("cpu")
    def product(a):
        """doc"""
        return a @ a

    assert product(tocha.rand(2, 2)).dtype == bf16
    assert product.__name__ == "product"


def test_weights_are_cast_once_a_region():
    w = tocha.rand(4, 4, requires_grad=True)
    x = tocha.rand(2, 4)
    with tocha.autocast("cpu"):
        first, second = x @ w, x @ w
        casts = {y.grad_fn.next_functions[1][0] for y in (first, second)}
        assert len(casts) == 1
        with tocha.no_grad():
            assert not (x @ w).requires_grad
        assert (x @ w).requires_grad
    with tocha.autocast("cpu", cache_enabled=False):
        casts = {(x @ w).grad_fn.next_functions[1][0] for _ in range(2)}
        assert len(casts) == 2


def test_a_weight_changed_between_regions_is_cast_anew():
    w = tocha.ones(2, 2, requires_grad=True)
    x = tocha.ones(1, 2)
    with tocha.autocast("cpu"):
        x @ w
    with tocha.no_grad():
        w.mul_(3)
    with tocha.autocast("cpu"):
        assert (x @ w).tolist() == [[6.0, 6.0]]


def test_gradients_arrive_in_the_weights_dtype():
    w = tocha.rand(4, 4, requires_grad=True)
    x = tocha.rand(2, 4)
    with tocha.autocast("cpu"):
        loss = (x @ w).float().sum()
    loss.backward()
    assert w.grad.dtype == f32
    assert tocha.allclose(w.grad, x.sum(0)[:, None].expand(4, 4), rtol=1e-2)


def test_regions_belong_to_their_thread():
    seen = []
    with tocha.autocast("cpu"):
        t = threading.Thread(target=lambda: seen.append(tocha.is_autocast_enabled("cpu")))
        t.start()
        t.join()
    assert seen == [False]


def test_bad_arguments():
    with pytest.raises(ValueError, match="device_type"):
        tocha.autocast(3)
    with pytest.raises(RuntimeError, match="xyz"):
        tocha.autocast("xyz")
    with pytest.warns(UserWarning, match="not supported"):
        region = tocha.autocast("cpu", dtype=f64)
    with region:
        assert (tocha.rand(2, 2) @ tocha.rand(2, 2)).dtype == f32


def test_functions_of_ones_own():
    class Product(tocha.autograd.Function):
        @staticmethod
        @tocha.amp.custom_fwd(device_type="cpu", cast_inputs=f32)
        def forward(ctx, a, b):
            assert not tocha.is_autocast_enabled("cpu")
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @tocha.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            assert not tocha.is_autocast_enabled("cpu")
            a, b = ctx.saved_tensors
            return grad @ b.T, a.T @ grad

    a = tocha.rand(2, 2, requires_grad=True)
    with tocha.autocast("cpu"):
        out = Product.apply(a.to(bf16), a)
        assert out.dtype == f32
        out.sum().backward()
    assert a.grad is not None


def test_records_say_what_autocast_does():
    load()
    assert {o.autocast for o in operators()} == {"", "lower", "float32", "widest", "state"}


def all_dtypes(results):
    return [results.dtype] if isinstance(results, tocha.Tensor) else [d for r in results for d in all_dtypes(r)]


@pytest.mark.parametrize("region", [bf16, f16])
@pytest.mark.parametrize("given", [f32, bf16, f16])
def test_recurrent_networks_in_a_region(region, given):
    """Plain recurrence is in the region's dtype; gated units add to their state, whose dtype may be wider."""
    wider = region if given == region else f32

    def dtypes(module, x):
        with tocha.autocast("cpu", dtype=region):
            out = module(x)
        return set(all_dtypes(out))

    step, steps = tocha.rand(2, 3).to(given), tocha.rand(5, 2, 3).to(given)
    nn = tocha.nn
    assert dtypes(nn.RNNCell(3, 4), step) == dtypes(nn.RNNCell(3, 4, nonlinearity="relu"), step) == {region}
    assert dtypes(nn.RNN(3, 4), steps) == dtypes(nn.LSTM(3, 4), steps) == {region}
    assert dtypes(nn.GRUCell(3, 4), step) == dtypes(nn.LSTMCell(3, 4), step) == {wider}
    assert dtypes(nn.GRU(3, 4, num_layers=2, bidirectional=True), steps) == {wider}


def test_a_packed_gated_unit_follows_its_state():
    packed = tocha.nn.utils.rnn.pack_sequence([tocha.rand(3, 2), tocha.rand(2, 2)])
    gru = tocha.nn.GRU(2, 4)
    with tocha.autocast("cpu"):
        out, h = gru(packed, tocha.zeros(1, 2, 4, dtype=bf16))
        assert out.data.dtype == h.dtype == bf16
        out, h = gru(packed)
        assert out.data.dtype == h.dtype == f32


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [False, True])
def test_regions_inside_of_what_is_compiled_and_called_in_a_region(backend, grad):
    """The graph holds the casts: the region around its call does not cast again, neither forward nor backward."""

    def f(x):
        with tocha.autocast("cpu", enabled=False):
            whole = x @ x.t()
        outer = x @ x.t()
        with tocha.autocast("cpu", dtype=f16):
            inner = x @ x.t()
        return whole, outer, inner

    def outcome(call):
        x = tocha.linspace(0, 1, 9).view(3, 3).requires_grad_(grad)
        with tocha.autocast("cpu", dtype=bf16):
            results = call(x)
            if grad:
                (results[0].sum() + results[1].float().sum()).backward()
            assert tocha.is_autocast_enabled("cpu")
        return *results, x.grad

    got, expected = outcome(tocha.compile(f, backend=backend)), outcome(f)
    assert [r.dtype for r in got[:3]] == [f32, bf16, f16]
    for a, b in zip(got, expected, strict=True):
        tocha.testing.assert_close(a, b)
