"""`assert` of a tensor: the graph checks it, and the error is PyTorch's; tensors made of numbers that are known when the program runs."""

import random

import pytest
from asserting import with_made_words, with_words, without_words

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
