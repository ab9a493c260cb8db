"""Python's random numbers in captured code: the same numbers, in the same order, at every call."""

import random

import pytest

import tocha
from tocha._dynamo.testing import CompileCounter


def both(f, graphs, calls=4):
    """The compiled function and the plain one draw the same; afterwards the generators stand at the same place."""
    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter)
    x = tocha.ones(2)
    found = []
    for run in (f, compiled):
        random.seed(5)
        found.append(([run(x) for _ in range(calls)], random.random()))
    (plain, after), (got, then) = found
    assert after == then
    for a, b in zip(plain, got):
        assert tocha.equal(a[0], b[0]) and a[1:] == b[1:]
    assert counter.frame_count == graphs


def test_functions_of_the_module():
    both(lambda x: (x * random.uniform(0, 1) + random.random(), random.gauss(0.0, 2.0)), 1)
    both(lambda x: (x * random.randint(1, 6), random.randrange(10), random.getrandbits(7)), 1)


def test_drawn_and_not_used():
    def f(x):
        random.random()
        return x + random.random(), 0

    both(f, 1)


def test_a_branch_on_a_drawn_number():
    both(lambda x: (x + 1 if random.random() < 0.5 else x - 1, 0), 2)


@pytest.mark.parametrize("make", [lambda: random.Random(3)])
def test_a_generator_of_the_program(make):
    plain, ours = make(), make()
    counter = CompileCounter()
    compiled = tocha.compile(lambda x: x * ours.random(), backend=counter)
    for _ in range(4):
        assert compiled(tocha.ones(1)).item() == pytest.approx(plain.random())
    assert counter.frame_count == 1


def test_what_is_done_with_the_generator_itself_breaks():
    def f(x):
        random.seed(1)
        return x * random.random(), 0

    both(f, 1)


def test_errors():
    compiled = tocha.compile(lambda x: x * random.randint(5, 1), backend="eager")
    with pytest.raises(ValueError, match="empty range"):
        compiled(tocha.ones(1))


def seeded(x):
    r = random.Random(3)
    return x + r.random() + r.randint(1, 5) + r.uniform(2, 3) + r.gauss(0, 1), r.getrandbits(9)


def seeded_by_text(x):
    r, values = random.Random("seed"), [1, 2, 3, 4, 5]
    r.shuffle(values)
    return x + values[0] + r.choice(values) * 10, sum(r.sample(values, 2))


def broken(x):
    r = random.Random(7)
    y = x + r.random()
    tocha._dynamo.graph_break()
    return y + r.random(), r.random()


def test_generators_of_a_known_seed():
    both(seeded, 1)
    both(seeded_by_text, 1)
    both(broken, 2)


def test_a_generator_that_is_handed_out_goes_on():
    def f(x):
        r = random.Random(7)
        return x + r.random(), r

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        (a, r), (b, mine) = f(tocha.ones(2)), compiled(tocha.ones(2))
        assert tocha.equal(a, b) and [r.random() for _ in range(3)] == [mine.random() for _ in range(3)]
