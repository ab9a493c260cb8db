"""Writes to views that conjugate, negate or show parts of complex numbers: compiled programs do what eager ones do."""

import pytest

import tocha


def imaginary_parts(x):
    y = x * 1
    tocha.imag(y).mul_(3)
    return y


def some_real_parts(x):
    y = x * 1
    tocha.real(y)[1:].mul_(3)
    return y * 2


def imaginary_parts_of_conjugates(x):
    y = (x * 1).conj()
    tocha.imag(y).mul_(3)
    return y


def a_row_of_conjugates(x):
    y = x * (1 + 2j)
    y.conj()[0].mul_(2j)
    return y


def negated_rows(x):
    y = (x * 1).conj()
    tocha.imag(y)[1:].exp_()
    return y


def negated_view(x):
    y = x * 2
    tocha._neg_view(y)[1].add_(1)
    return y


def conjugates_expanded(x):
    y = x[0] * 2
    y.conj().expand(3, 4)[1].add_(1j)
    return y


def parts_of_pairs(x):
    y = x * (1 + 2j)
    tocha.view_as_real(y)[..., 0].exp_()
    return y


def pairs_as_complex(x):
    y = tocha.view_as_real(x) * 2
    tocha.view_as_complex(y)[1].mul_(1j)
    return y


def another_view_returned(x):
    y = (x * 1).t()
    y[1:].mul_(3)
    return y


def another_conjugate_returned(x):
    y = (x * 1).conj()
    y[1:].mul_(3)
    return y


PROGRAMS = [
    imaginary_parts,
    some_real_parts,
    imaginary_parts_of_conjugates,
    a_row_of_conjugates,
    negated_rows,
    negated_view,
    conjugates_expanded,
    parts_of_pairs,
    pairs_as_complex,
    another_view_returned,
    another_conjugate_returned,
]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_written_through_as_in_eager_mode(program, dynamic, backend, kernel_cache):
    tocha.manual_seed(5)
    x = tocha.randn(3, 4, dtype=tocha.complex64, requires_grad=True)
    expected = program(x)
    tangent = tocha.randn_like(expected)
    compiled = tocha.compile(program, backend=backend, dynamic=dynamic, fullgraph=True)
    found = compiled(x)
    assert found.stride() == expected.stride()
    tocha.testing.assert_close(found, expected)
    tocha.testing.assert_close(*(tocha.autograd.grad(r, x, tangent)[0] for r in (found, expected)))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_input_that_is_detached_is_no_leaf_any_longer(backend, kernel_cache):
    """Which inputs are leaves is not for graphs to change: the call runs outside of them."""

    def program(x):
        x.detach_()
        return x * 2

    x = tocha.ones(3, requires_grad=True)
    assert not tocha.compile(program, backend=backend)(x).requires_grad
    assert not x.requires_grad
