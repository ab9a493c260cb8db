"""Steps of optimizers, compiled: their counts are elements of tensors, and stay so."""

import copy

import pytest

import tocha
from tocha import nn

OPTIMIZERS = ("Adam", "AdamW", "NAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "Rprop", "ASGD")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twelve_steps_are_one_compilation(name, caplog):
    tocha.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 8))
    other = copy.deepcopy(model)
    eager, compiled = (getattr(tocha.optim, name)(m.parameters(), lr=1e-2) for m in (model, other))
    counter = tocha._dynamo.testing.CompileCounterWithBackend("inductor")
    step = tocha.compile(compiled.step, backend=counter)
    for _ in range(12):
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            p.grad = tocha.randn_like(p)
            q.grad = p.grad.clone()
        eager.step()
        step()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        tocha.testing.assert_close(q, p, rtol=1e-5, atol=1e-6)
    assert counter.frame_count == 1
    assert not caplog.records  # nothing runs operator by operator


@pytest.mark.parametrize(
    ("name", "settings"),
    [(n, {}) for n in OPTIMIZERS] + [("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1})],
)
def test_a_step_over_all_parameters_is_one_kernel(name, settings, programs):
    params = [tocha.randn(3 + i, 4, requires_grad=True) for i in range(40)]
    others = [p.detach().clone().requires_grad_() for p in params]
    eager, compiled = (getattr(tocha.optim, name)(ps, **settings) for ps in (params, others))
    step = tocha.compile(compiled.step)
    for _ in range(3):
        for p, q in zip(params, others, strict=True):
            p.grad = tocha.randn_like(p)
            q.grad = p.grad.clone()
        eager.step()
        step()
    for p, q in zip(params, others, strict=True):
        tocha.testing.assert_close(q, p, rtol=1e-5, atol=1e-6)
    for program in programs:
        assert not program.calls
        large = [k for k in program.kernels if any(b.numel() > 1 for b in k.results())]
        assert len(large) == 1  # the others count the steps


def test_operators_on_lists_give_what_eager_gives():
    def f(xs, ys):
        sums = tocha._foreach_add(tocha._foreach_exp(xs), ys, alpha=2)
        tocha._foreach_mul_(ys, [1.0, 2.0, 3.0])
        return tocha._foreach_maximum(tocha._foreach_sqrt(tocha._foreach_abs(sums)), 0.5), tocha._foreach_norm(xs)

    xs, ys, twins = ([tocha.randn(n, 3) for n in (2, 5, 9)] for _ in range(3))
    for y, z in zip(ys, twins, strict=True):
        z.copy_(y)
    found, expected = tocha.compile(f, fullgraph=True)(xs, ys), f(xs, twins)
    tocha.testing.assert_close((found, ys), (expected, twins))


def test_a_chain_on_lists_is_one_kernel(programs):
    f = tocha.compile(
        lambda xs: tocha._foreach_mul(tocha._foreach_add(tocha._foreach_tanh(xs), xs), 2.0), fullgraph=True
    )
    f([tocha.randn(n, 3) for n in range(1, 31)])
    (program,) = programs
    assert len(program.kernels) == 1 and not program.calls


def test_a_number_of_an_element_is_computed_once():
    def f(x, count):
        count.add_(1)
        k = 1 - 0.9 ** count.item()
        return x * k, x + k, tocha.full_like(x, k)

    with tocha._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = tocha.compile(f, fullgraph=True)
        x, mine, theirs = tocha.randn(5), tocha.tensor(0.0), tocha.tensor(0.0)
        for _ in range(3):
            for found, expected in zip(compiled(x, mine), f(x, theirs), strict=True):
                tocha.testing.assert_close(found, expected)
        assert mine.item() == 3


def test_lists_that_operators_only_write_to():
    """`_foreach_zero_` and `_foreach_copy_` have no results, but return what they wrote to."""

    def f(grads, kept):
        tocha._foreach_copy_(kept, [g * 2 for g in grads])
        tocha._foreach_zero_(grads)
        return grads[0] + 1

    grads, kept = [tocha.ones(2), tocha.ones(3)], [tocha.empty(2), tocha.empty(3)]
    assert tocha.compile(f, fullgraph=True)(grads, kept).tolist() == [1, 1]
    assert [g.tolist() for g in grads] == [[0, 0], [0, 0, 0]]
    assert [k.tolist() for k in kept] == [[2, 2], [2, 2, 2]]


def test_gradients_that_are_kept_and_set_to_zero():
    parameters = [nn.Parameter(tocha.ones(2)), nn.Parameter(tocha.ones(3))]
    optimizer = tocha.optim.SGD(parameters, lr=0.5)

    @tocha.compile
    def step(scale):
        optimizer.zero_grad(set_to_none=False)
        (sum(p.sum() for p in parameters) * scale).backward()
        optimizer.step()

    for _ in range(2):
        step(tocha.tensor(1.0))
    assert [p.tolist() for p in parameters] == [[0, 0], [0, 0, 0]]
