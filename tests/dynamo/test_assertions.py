"""`assert` of a tensor: the graph checks it, and the error is PyTorch's; tensors made of numbers that are known when the program runs."""

import random

import pytest
from asserting import any_sum, large_maximum, two_found, with_made_words, with_words, without_words

import tocha
from tocha._dynamo.testing import CompileCounter


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("f", "words"), [(with_words, "positive"), (without_words, "assertion error")])
def test_the_graph_checks_it(f, words, backend, fullgraph):
    compiled = tocha.compile(f, backend=backend, fullgraph=fullgraph)
    good = tocha.tensor([1.0, 2.0])
    assert tocha.equal(compiled(good), f(good))
    with pytest.raises(RuntimeError, match=words):
        compiled(tocha.zeros(2))
    assert tocha.equal(compiled(good), f(good))


def test_it_does_not_break():
    counter = CompileCounter()
    compiled = tocha.compile(with_words, backend=counter)
    compiled(tocha.ones(2))
    assert counter.frame_count == 1


def test_words_that_have_to_be_made_are_pythons():
    compiled = tocha.compile(with_made_words, backend="eager")
    assert compiled(tocha.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="not 2"):
        compiled(tocha.zeros(2))


def of_numbers(x):
    return (
        tocha.tensor([x.sum().item(), 2.0]), tocha.tensor(x.shape), tocha.tensor([[x.shape[0], 1], [2, x.shape[0] * 2]], dtype=tocha.float32),
        tocha.tensor(x.sum().item()), tocha.as_tensor([x.shape[0]]), x.new_tensor([x.shape[0], 3]), tocha.tensor([x[0], x[1]]), tocha.tensor([1, x.shape[0] / 2]),
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_tensors_of_numbers_from_data_and_sizes(backend):
    counter = CompileCounter()
    compiled = tocha.compile(of_numbers, backend=backend, fullgraph=True, dynamic=True)
    shapes = tocha.compile(lambda x: tocha.tensor(x.shape), backend=counter, dynamic=True)
    for n in (3, 4, 7):
        x = tocha.arange(float(n))
        for a, b in zip(of_numbers(x), compiled(x), strict=True):
            assert a.dtype == b.dtype and tocha.equal(a, b)
        assert shapes(x).tolist() == [n]
    assert counter.frame_count == 1


def test_too_many_elements_for_a_number():
    with pytest.raises(ValueError, match="only one element tensors"):
        tocha.compile(lambda x: tocha.tensor([x, x]), backend="eager", fullgraph=True)(tocha.ones(2))


def test_generators_without_a_seed():
    def f(x):
        drawn = random.Random()
        return x * 0 + drawn.random(), drawn.randint(3, 5), random.Random(None).uniform(1, 2)

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    seen = [compiled(tocha.zeros(1)) for _ in range(20)]
    assert all(0 <= a.item() < 1 and 3 <= b <= 5 and 1 <= c <= 2 for a, b, c in seen)
    assert len({a.item() for a, _, _ in seen}) > 10
    state = random.getstate()
    compiled(tocha.zeros(1))
    assert random.getstate() == state


def test_what_an_operator_of_the_program_does_is_not_captured():
    @tocha.library.custom_op("seen_by_capture::positive", mutates_args=())
    def positive(x: tocha.Tensor) -> tocha.Tensor:
        return x[x > 0].clone()

    @positive.register_fake
    def _(x):
        return x.new_empty(tocha.library.get_ctx().new_dynamic_size())

    counter = CompileCounter()
    compiled = tocha.compile(lambda x: positive(x) * 2, backend=counter)
    assert compiled(tocha.tensor([1.0, -1.0, 3.0])).tolist() == [2, 6]
    assert counter.frame_count == 1


def test_truth_of_tensors_as_a_value():
    compiled = tocha.compile(lambda x: (x + 1, bool(x.any()), bool(tocha.tensor(2))), backend="eager", fullgraph=True)
    assert [compiled(tocha.full((2,), n))[1:] for n in (0.0, 1.0)] == [(False, True), (True, True)]

    def f(x):
        return x + 1 if tocha.tensor(True) else x

    assert tocha.compile(f, backend="eager", fullgraph=True)(tocha.zeros(1)).item() == 1


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_scalars_of_numpy_beside_tensors(backend):
    np = pytest.importorskip("numpy")

    def f(x, i):
        return x * np.float32(2.5) + np.int64(3), i * np.float64(1.5), x + np.float64("inf")

    x, i = tocha.ones(2), tocha.arange(2)
    for a, b in zip(f(x, i), tocha.compile(f, backend=backend)(x, i), strict=True):
        assert a.dtype == b.dtype and tocha.equal(a, b)


def test_tangents_are_not_captured():
    ad = tocha.autograd.forward_ad

    def f(x, t):
        with ad.dual_level():
            return ad.unpack_dual(ad.make_dual(x, t).sin() * 2)

    def inner(x):
        return x.sin() * 2

    x = tocha.tensor([1.0, 2.0])
    got, compiled = tocha.compile(f)(x, tocha.ones(2)), tocha.compile(inner)
    with ad.dual_level():
        outer = ad.unpack_dual(compiled(ad.make_dual(x, tocha.ones(2))))
    for found in (got, outer):
        assert tocha.allclose(found.primal, x.sin() * 2) and tocha.allclose(found.tangent, x.cos() * 2)


def test_anomaly_mode_around_compiled_code():
    x = tocha.tensor([1.0, 2.0], requires_grad=True)
    with tocha.autograd.set_detect_anomaly(True):
        tocha.compile(lambda x: x.sin())(x).sum().backward()
        assert tocha.is_anomaly_check_nan_enabled()
    assert tocha.allclose(x.grad, x.detach().cos())


def test_the_same_way_of_compiling_shares_what_was_captured():
    class Own:
        count = 0

        def backend(self, module, examples, options=None):
            self.count += 1
            return module.forward

    own = Own()

    def f(x):
        return x + 1

    for _ in range(3):
        tocha.compile(f, backend=own.backend)(tocha.ones(1))
    assert own.count == 1
    for _ in range(3):
        tocha.compile(f, backend=own.backend, options={"a": 1})(tocha.ones(1))
    assert own.count == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_another_default_dtype_for_a_while(backend):
    def f(x):
        tocha.set_default_dtype(tocha.float64)
        y = tocha.ones(2) + tocha.rand(2) * 0
        tocha.set_default_dtype(tocha.float32)
        return x + y, tocha.zeros(2)

    got = tocha.compile(f, backend=backend, fullgraph=True)(tocha.ones(2))
    assert [t.dtype for t in got] == [tocha.float64, tocha.float32] and got[0].tolist() == [2, 2]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("f", [two_found, any_sum, large_maximum])
def test_numbers_that_come_from_data_are_asserted_in_the_graph(f, backend, monkeypatch):
    monkeypatch.setattr(tocha._dynamo.config, "capture_scalar_outputs", True)
    monkeypatch.setattr(tocha._dynamo.config, "capture_dynamic_output_shape_ops", True)
    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    good, bad = tocha.tensor([1, 0, 2]), tocha.tensor([0, 0, 0])
    assert tocha.equal(compiled(good), f(good))
    with pytest.raises(AssertionError):
        compiled(bad)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_asserted_by_a_function(backend):
    def f(x):
        tocha._assert_async(x.sum() > 0, "must be positive")
        tocha._assert_async(x[0])
        return x + 1

    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    assert compiled(tocha.ones(2)).tolist() == [2, 2]
    for bad, words in (((-1.0, 0.0), "must be positive"), ((0.0, 1.0), "single nonzero value")):
        with pytest.raises(RuntimeError, match=words):
            compiled(tocha.tensor(bad))
