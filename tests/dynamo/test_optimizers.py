"""Steps of optimizers in graphs: the counts that they keep do not make them be captured again."""

import copy

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend

NAMES = ["Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "Muon"]


def steps(name, backend, change=None, **options):
    tocha.manual_seed(0)
    net = tocha.nn.Linear(3, 2, bias=name != "Muon")
    nets = [net, copy.deepcopy(net)]
    optimizers = [getattr(tocha.optim, name)(n.parameters(), **copy.deepcopy(options)) for n in nets]
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(lambda: optimizers[1].step(), backend=counter)
    for _ in range(7):  # RAdam measures from the sixth on
        x = tocha.randn(4, 3)
        for n, o, step in zip(nets, optimizers, (optimizers[0].step, compiled)):
            n(x).sin().sum().backward()
            step()
            n.zero_grad()
            if change is not None:
                change(o)
    for p, q in zip(*(n.parameters() for n in nets)):
        assert tocha.allclose(p, q, rtol=1e-6, atol=1e-7)
    states = [list(o.state_dict()["state"].values()) for o in optimizers]
    assert len(states[0]) == len(states[1]) and all(a.keys() == b.keys() for a, b in zip(*states))
    return counter.frame_count


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", NAMES)
def test_one_graph_for_all_steps(name, backend):
    assert steps(name, backend, lr=0.1) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_momentum_begins_with_the_second_step(backend):
    assert steps("SGD", backend, lr=0.1, momentum=0.9) == 2


def test_a_learning_rate_that_changes_becomes_a_symbol():
    def halve(optimizer):
        for group in optimizer.param_groups:
            group["lr"] /= 2

    assert steps("Adam", "eager", halve, lr=0.1) == 2


def test_a_learning_rate_in_a_tensor_may_change():
    def halve(optimizer):
        for group in optimizer.param_groups:
            group["lr"].div_(2)

    assert steps("Adam", "eager", halve, lr=tocha.tensor(0.1)) == 1


def test_parameters_are_found_where_the_program_finds_them():
    p = tocha.nn.Parameter(tocha.ones(2))
    table = {p: tocha.full((2,), 3.0)}

    def f(d):
        return [k * v for k, v in d.items()]

    counter = CompileCounterWithBackend("eager")
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    assert same(compiled(table), f(table)) and same(compiled(table), f(table))
    assert counter.frame_count == 1
