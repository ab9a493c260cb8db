"""Containers of classes that derive from list and dict: whose own [] says something else, and which keep an order of their own."""

import collections

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounter


class Doubled(list):
    def __getitem__(self, i):
        return super().__getitem__(i) * 2


class Looked(collections.OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1


def items(x, held):
    return [x + v for v in held.values()], list(held), next(iter(held.items()))


def test_items_are_fetched_past_the_class_that_answers_for_them():
    doubled, looked = Doubled([tocha.ones(2), 3]), Looked(a=tocha.ones(2))
    for f, held in ((lambda held: (held[0], held[1], list(held)), doubled), (lambda held: held["a"] - 3, looked)):
        assert same(tocha.compile(f, backend="eager", fullgraph=True)(held), f(held))


def test_parameters_of_a_module_in_a_dict_that_says_how_they_are_read():
    class Noted(collections.OrderedDict):
        def __getitem__(self, key):
            return super().__getitem__(key)

    model = tocha.nn.Linear(2, 2)
    model._parameters = Noted(model._parameters)
    x = tocha.ones(2)
    assert tocha.allclose(tocha.compile(model, backend="eager")(x), model(x))


@pytest.mark.parametrize("cls", [collections.OrderedDict, type("Derived", (collections.OrderedDict,), {})])
def test_the_order_of_an_ordered_dict_is_seen_and_guarded(cls):
    held, counter, x = cls(a=1, b=2, c=3), CompileCounter(), tocha.zeros(1)
    captured = tocha.compile(items, backend=counter, dynamic=False)
    assert same(captured(x, held), items(x, held))
    held.move_to_end("a")
    assert same(captured(x, held), items(x, held)) and items(x, held)[1] == ["b", "c", "a"]
    assert same(captured(x, held), items(x, held)) and counter.frame_count == 2
