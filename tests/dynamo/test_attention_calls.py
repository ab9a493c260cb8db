"""flex_attention and the makers of its masks in captured code: one graph, with the values and gradients of eager calls."""

import pytest

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha.nn.attention import flex_attention as flex
from tocha.nn.attention.flex_attention import AuxRequest, create_block_mask, create_mask, flex_attention
from tocha.testing import assert_close

BACKENDS = ["eager", "aot_eager", "inductor"]


def inputs(length=32, heads=2):
    tocha.manual_seed(0)
    return [tocha.rand(1, heads, length, 8).requires_grad_() for _ in range(3)]


def causal(b, h, q, k):
    return q >= k


MASK = create_block_mask(causal, None, None, 32, 32, BLOCK_SIZE=16)
BIAS = tocha.rand(2, 32).requires_grad_()


def plain(q, k, v):
    return flex_attention(q, k, v)


def relative(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))


def reads_a_tensor(q, k, v):
    return flex_attention(q, k, v, lambda s, b, h, i, j: s + BIAS[h, j])


def mask_from_outside(q, k, v):
    return flex_attention(q, k, v, block_mask=MASK, scale=0.5)


def mask_made_inside(q, k, v):
    documents = tocha.arange(32) // 10
    mask = create_block_mask(lambda b, h, i, j: (documents[i] == documents[j]) & (i >= j), None, None, 32, 32)
    return flex_attention(q, k, v, lambda s, b, h, i, j: s * 2, mask)


def dense_masks(q, k, v):
    bools = create_mask(causal, 1, 1, 32, 32)
    finite = create_mask(lambda s, b, h, i, j: tocha.where(i >= j, s, -tocha.inf), 1, 1, 32, 32)
    return q + bools.sum() - finite.sum()


def more_results(q, k, v):
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    assert isinstance(aux, flex.AuxOutput) and aux.max_scores is None
    return out + aux.lse.unsqueeze(-1)


PROGRAMS = [plain, relative, reads_a_tensor, mask_from_outside, mask_made_inside, dense_masks, more_results]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_one_graph(program, backend):
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(program, backend=counter, fullgraph=True)
    leaves = [*inputs(), BIAS]

    def outcome(call):
        out = call(*leaves[:3])
        return out, *tocha.autograd.grad(out.sin().sum(), leaves, allow_unused=True, materialize_grads=True)

    for a, b in zip(outcome(compiled), outcome(program), strict=True):
        assert_close(a, b)
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_functions_themselves(backend):
    q, k, v = inputs()
    mask = tocha.compile(create_block_mask, backend=backend, fullgraph=True)(causal, None, None, 32, 32, BLOCK_SIZE=16)
    assert mask.shape == MASK.shape and mask.mask_mod is causal
    assert_close(mask.to_dense(), MASK.to_dense())
    out = tocha.compile(flex_attention, backend=backend, fullgraph=True)(q, k, v, block_mask=mask)
    assert_close(out, flex_attention(q, k, v, block_mask=MASK))


class Attention(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.slopes = tocha.nn.Parameter(tocha.rand(2))

    def bias(self, score, b, h, i, j):
        return score + self.slopes[h] * (i - j)

    def forward(self, q, k, v, mask):
        return flex_attention(q, k, v, self.bias, mask)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_change(backend):
    module = Attention()
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(module, backend=counter, fullgraph=True)
    for length in (16, 24, 32, 40):
        mask = create_block_mask(causal, None, None, length, length, BLOCK_SIZE=8)
        args = (*inputs(length), mask)
        assert_close(compiled(*args), module(*args))
        found, expected = (tocha.autograd.grad(m(*args).sum(), module.slopes) for m in (compiled, module))
        assert_close(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_that_changes(backend):
    def capped(q, k, v, cap):
        return flex_attention(q, k, v, lambda s, b, h, i, j: cap * tocha.tanh(s / cap))

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(capped, backend=counter, fullgraph=True)
    for cap in (2.0, 3.0, 4.0, 5.0):
        assert_close(compiled(*inputs(), cap), capped(*inputs(), cap))
    assert counter.frame_count == 2


def test_refusals_are_the_programs_errors():
    def f(q, k, v):
        try:
            return flex_attention(q[0], k, v)
        except NotImplementedError as e:
            return str(e)

    assert "4D tensors" in tocha.compile(f, backend="eager")(*inputs())
