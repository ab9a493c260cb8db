"""What objects answer to the interpreter's questions: captured code takes the answers that the interpreter takes, and refuses the others
in its words."""

import pytest
from comparing import same

import tocha


def made(**methods):
    return type("Made", (), methods)()


NEGATIVE, WORD = made(__len__=lambda self: -1), made(__len__=lambda self: "a")
NO_TEXT = made(__str__=lambda self: 3, __repr__=lambda self: 4, __format__=lambda self, spec: 5)
NO_ITERATOR, NO_FLOAT = made(__iter__=lambda self: [1, 2]), made(__float__=lambda self: "q")
ADDING = made(__add__=lambda self, other: NotImplemented, __radd__=lambda self, other: "right")
INDEX = made(__index__=lambda self: 2)


@pytest.mark.parametrize(
    "ask",
    [lambda: len(NEGATIVE), lambda: bool(NEGATIVE), lambda: len(WORD), lambda: str(NO_TEXT), lambda: repr(NO_TEXT), lambda: f"{NO_TEXT:>3}", lambda: "%s".__mod__(NO_TEXT)]
    + [lambda: iter(NO_ITERATOR), lambda: list(NO_ITERATOR), lambda: float(NO_FLOAT), lambda: abs(INDEX), lambda: ADDING + ADDING],
)  # fmt: skip
def test_answers_that_are_none(ask):
    def f(x):
        try:
            return x, ask()
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    x = tocha.ones(1)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x), f(x))


def test_an_index_becomes_a_number_of_the_kind_that_is_asked_for():
    def f(x):
        found = float(INDEX), complex(INDEX), int(INDEX), 1 + ADDING
        return x + 1, found, [type(n) for n in found]

    x = tocha.ones(1)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x), f(x))


def test_the_dict_of_an_object_has_a_dicts_attributes():
    def f(x, o):
        return x + 1, hasattr(o.__dict__, "__next__"), hasattr(vars(o), "items"), list(vars(o))

    x, o = tocha.ones(1), made()
    o.a = 1
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x, o), f(x, o))
