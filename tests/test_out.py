"""out= where an operator has rules of its own for it: sequences keep its sizes, joins may be wider, truths are bool or uint8."""

import warnings

import pytest

import tocha

SEQUENCES = {
    "arange": lambda out: tocha.arange(6, out=out),
    "arange from": lambda out: tocha.arange(0, 6, out=out),
    "arange by": lambda out: tocha.arange(0, 12, 2, out=out),
    "linspace": lambda out: tocha.linspace(0, 5, 6, out=out),
    "logspace": lambda out: tocha.logspace(0, 5, 6, base=2.0, out=out),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_fill_an_out_of_as_many_elements_in_its_own_sizes(name):
    call = SEQUENCES[name]
    flat = call(tocha.empty(6))
    for out in (tocha.empty(2, 3), tocha.empty(3, 2).t(), tocha.empty(1, 6, 1)):
        sizes, strides = out.shape, out.stride()
        assert call(out) is out
        assert (out.shape, out.stride()) == (sizes, strides)
        assert out.flatten().tolist() == flat.tolist()
    wrong = tocha.empty(0, 4)
    assert call(wrong).shape == (6,)


def test_an_arange_of_another_length_resizes_with_a_warning():
    out = tocha.empty(2, 2)
    with pytest.warns(UserWarning, match="The number of elements in the out tensor"):
        tocha.arange(0, 6, out=out)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


def test_compiled_sequences_keep_the_sizes_of_out():
    out = tocha.empty(2, 3)
    assert tocha.compile(lambda out: tocha.arange(0, 6, out=out), fullgraph=True)(out) is out
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_joins_go_into_wider_outs_and_no_others():
    parts = [tocha.tensor([1, 2]), tocha.tensor([3, 4])]
    out = tocha.empty(4, dtype=tocha.float64)
    assert tocha.cat(parts, out=out).tolist() == [1, 2, 3, 4] and out.dtype is tocha.float64
    assert tocha.stack(parts, out=tocha.empty(2, 2)).tolist() == [[1, 2], [3, 4]]
    for join, sizes in ((tocha.cat, 4), (tocha.hstack, 4), (tocha.stack, (2, 2)), (tocha.vstack, (2, 2))):
        kept = tocha.zeros(sizes, dtype=tocha.bool)
        with pytest.raises(TypeError, match="input types can't be cast to the desired output type Bool"):
            join(parts, out=kept)
        assert not kept.any()


@pytest.mark.parametrize("truth", [tocha.any, tocha.all])
def test_truths_go_into_bool_or_uint8(truth):
    x = tocha.tensor([[1, 0], [1, 1]])
    for dtype in (tocha.bool, tocha.uint8):
        assert truth(x, 0, out=tocha.empty(2, dtype=dtype)).dtype is dtype
    with pytest.raises(RuntimeError, match="only supports bool tensor for result, got: Float"):
        truth(x, 0, out=tocha.empty(2))


def test_outs_of_another_dtype_are_refused_where_only_the_results_own_will_do():
    x, wide = tocha.eye(3), tocha.float64
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        tocha.abs(x, out=tocha.empty(3, 3, dtype=wide))
    assert tocha.abs(x + 0j, out=tocha.empty(3, 3, dtype=wide)).dtype is wide
    with pytest.raises(RuntimeError, match="Expected the output tensor to have dtype Float"):
        tocha.inner(x, x, out=tocha.empty(3, 3, dtype=wide))
    for decompose in (tocha.linalg.eigh, tocha.linalg.qr, tocha.linalg.svd):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
            decompose(x, out=tuple(r.to(wide) for r in decompose(x)))
    assert tocha.cholesky_inverse(x, out=tocha.empty(3, 3, dtype=wide)).dtype is wide


def test_pools_of_averages_take_out():
    x, out = tocha.rand(1, 1, 4, 4), tocha.empty(1, 1, 2, 2)
    assert tocha.nn.functional.avg_pool2d(x, 2, out=out) is out
    assert out.equal(tocha.nn.functional.avg_pool2d(x, 2))


def test_no_warning_where_the_sizes_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tocha.arange(0, 6, out=tocha.empty(2, 3))


def test_compiled_outs_are_refused_as_uncompiled_ones():
    x, wide = tocha.rand(3, 3), tocha.float64

    def compiled(call):
        return tocha.compile(call, backend="aot_eager")

    for call in (
        lambda x, out: tocha.mm(x, x, out=out),
        lambda x, out: tocha.argmax(x, 0, out=out),
        lambda x, out: tocha.amax(x, 0, out=out),
        lambda x, out: tocha.arange(0, 6, dtype=tocha.float32, out=out),
        lambda x, out: tocha.fft.fft(x, out=out),
        lambda x, out: tocha.stack([x, x], out=out.to(tocha.bool)),
    ):
        refused = []
        for run in (call, compiled(call)):
            with pytest.raises((RuntimeError, TypeError)) as e:
                run(x, tocha.empty(3, 3, dtype=wide))
            refused.append(str(e.value).splitlines()[0])
        assert refused[0] in refused[1] or refused[1] in refused[0], refused


def test_a_compiled_factory_takes_the_dtype_that_out_has():
    out = tocha.empty(2, 3)
    call = tocha.compile(lambda out: tocha.arange(0, 6, dtype=tocha.float32, out=out), fullgraph=True)
    assert call(out).tolist() == [[0, 1, 2], [3, 4, 5]]
