"""Writes through views of views, compiled: results of native calls may begin anywhere in their memory."""

import pytest

import tocha


def row_of_row(x, y):
    z = x * 1
    z[1][:1] = y
    return z


def rows_of_parts(x, y):
    z = x * 1
    parts = z.unbind()
    parts[0][:3] = 3
    parts[1][1:2] = y
    parts[2][:, 1] = 5
    return z, parts[1] + 1


def padded(x, y):
    return tocha.nn.utils.rnn.pad_sequence([x[0], y, x[1][:2]], batch_first=True)


@pytest.mark.parametrize("program", [row_of_row, rows_of_parts, padded])
def test_values(program):
    x, y = tocha.randn(3, 3, 2), tocha.randn(1, 2)
    tocha.testing.assert_close(tocha.compile(program)(x, y), program(x, y), rtol=0, atol=0)


@pytest.mark.parametrize("program", [row_of_row, padded])
def test_gradients(program):
    given = tocha.randn(3, 3, 2, requires_grad=True), tocha.randn(1, 2, requires_grad=True)
    others = tuple(t.detach().clone().requires_grad_() for t in given)
    program(*given).square().sum().backward()
    tocha.compile(program)(*others).square().sum().backward()
    for a, b in zip(given, others, strict=True):
        tocha.testing.assert_close(b.grad, a.grad)


def joined(x, y):
    inner = tocha.cat([y.sin(), y.cos()], -1)
    return tocha.cat([x[0] * 2, inner, tocha.cat([inner.flip(-1), x[1]], -1)], -1)


def test_joins_of_joins():
    x, y = tocha.randn(3, 3, 2), tocha.randn(3, 3)
    tocha.testing.assert_close(tocha.compile(joined)(x, y), joined(x, y))


def test_as_strided_goes_by_the_memory_of_an_argument():
    memory = tocha.arange(30.0)

    def program(x):
        return x.as_strided((2, 2), (5, 1), 0) + 1, x.as_strided((3,), (4,)) * 2, x.as_strided((2, 3), (1, 2), 11).sum()

    for x in (memory[3::3][:7], memory[4:11], memory[:7], memory):
        tocha._dynamo.reset()
        for mine, wanted in zip(tocha.compile(program)(x), program(x), strict=True):
            assert tocha.equal(mine, wanted)
