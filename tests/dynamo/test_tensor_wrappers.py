"""Tensors that are made of others (__tensor_flatten__) in captured code: in, out, inside, written to, differentiated."""

import functools

import pytest

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha.utils import _pytree as pytree

BACKENDS = ["eager", "aot_eager", "inductor"]


class Two(tocha.Tensor):
    """Two tensors of one shape, and a word."""

    @staticmethod
    def __new__(cls, a, b, word="w"):
        return tocha.Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), dtype=a.dtype, requires_grad=a.requires_grad
        )

    def __init__(self, a, b, word="w"):
        self.a, self.b, self.word = a, b, word

    def __tensor_flatten__(self):
        return ["a", "b"], self.word

    @staticmethod
    def __tensor_unflatten__(inner, word, size, stride):
        return Two(inner["a"], inner["b"], word)

    @property
    def total(self):
        return self.a + self.b

    def scaled(self, k):
        return self * (k if self.word == "w" else -k)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        word = next(x.word for x in pytree.tree_leaves(args) if isinstance(x, Two))
        made = []
        for name in ("a", "b"):
            given, named = pytree.tree_map_only(Two, lambda t: getattr(t, name), (args, kwargs or {}))  # noqa: B023
            made.append(func(*given, **named))
        return pytree.tree_map(lambda a, b: Two(a, b, word) if isinstance(a, tocha.Tensor) else a, *made)


def two(*size, word="w", grad=False):
    return Two(tocha.ones(*size), tocha.ones(*size) * 3, word).requires_grad_(grad)


def shown(value):
    if isinstance(value, Two):
        return ["Two", shown(value.a), shown(value.b), value.word, value.requires_grad]
    if isinstance(value, tocha.Tensor):
        return [type(value).__name__, value.tolist(), value.dtype, value.requires_grad]
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return value


def arithmetic(x):
    return (x.sin() + 1) * x.shape[0], x.dtype, type(x) is Two, isinstance(x, tocha.Tensor)


def parts(x):
    y = x * 2
    return x.a + y.b, y.word, x.word, y.a.shape, hasattr(x, "nothing"), x.a is x.a


def its_own_methods(x):
    return x.scaled(3), x.total, x.__tensor_flatten__()


def made_inside(x):
    y = Two(x.a * 2, x.b + 1, word="made")
    return y * 3, y, Two.__tensor_unflatten__({"a": x.a, "b": x.a}, "again", x.shape, x.stride())


def written(x):
    x.mul_(2)
    x.a.add_(1)
    return x + 1


def views(x):
    return tocha.cat([x, x]).view(2, -1), x.view(-1), x.to(tocha.float64)


def with_plain(x):
    return x * tocha.arange(3.0) + tocha.ones(1)


def in_containers(x):
    return [t * 2 for t in [x, x.a]], x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "f", [arithmetic, parts, its_own_methods, made_inside, written, views, with_plain, in_containers]
)
def test_in_one_graph(f, backend):
    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for _ in range(2):
        plain, given = two(2, 3), two(2, 3)
        assert shown(compiled(given)) == shown(f(plain))
        assert shown(given) == shown(plain)
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_of_a_parameter(backend):
    def train(run, module):
        optimizer, losses = tocha.optim.SGD(module.parameters(), lr=0.1), []
        for _ in range(3):
            optimizer.zero_grad()
            loss = run(tocha.ones(2, 3)).pow(2).sum()
            loss.backward()
            optimizer.step()
            losses.append(shown(loss.detach()))
        return losses, shown(module.weight)

    def made():
        module = tocha.nn.Linear(3, 2, bias=False)
        module.weight = tocha.nn.Parameter(two(2, 3))
        return module

    counter = CompileCounterWithBackend(backend)
    module = made()
    found = train(tocha.compile(module, backend=counter, fullgraph=True), module)
    again = made()
    for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(train(again, again)), strict=True):
        assert a == pytest.approx(b)
    assert counter.frame_count == 1


def test_what_is_guarded():
    def f(x):
        return x.a * 2 if isinstance(x, Two) and x.word == "w" else x * 3

    counter = CompileCounterWithBackend("eager")
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    halved = Two(tocha.ones(4, 2)[:, 0], tocha.ones(4, 2)[:, 0])
    mixed = Two(tocha.ones(4), tocha.ones(4, dtype=tocha.float64))
    given = [two(4), two(4, word="v"), tocha.ones(4), halved, mixed, two(4, grad=True)]
    for count, x in enumerate([*given, *given], 1):
        assert shown(compiled(x)) == shown(f(x))
        assert counter.frame_count == min(count, len(given))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_beside_sizes_and_numbers_that_change(backend):
    def f(x, y, k):
        return x * 2, y * k, x * k, y.unsqueeze(0)

    counter = CompileCounterWithBackend(backend)
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for n in (3, 4, 5):
        given = two(2), tocha.ones(n), n + 1
        assert shown(compiled(*given)) == shown(f(*given))


def test_breaks():
    def f(x):
        y = x + 1
        tocha._dynamo.graph_break()
        return y * 2

    def g(x):
        return x * 2 if x.sum().a > 1 else x * 3

    counter = CompileCounterWithBackend("aot_eager")
    assert shown(tocha.compile(f, backend=counter)(two(2))) == shown(f(two(2)))
    assert counter.frame_count == 2
    assert shown(tocha.compile(g, backend="eager")(two(2))) == shown(g(two(2)))
    with pytest.raises(Unsupported):
        tocha.compile(g, backend="eager", fullgraph=True)(two(2))


def test_a_class_that_says_which_contexts_serve():
    class Loose(Two):
        __metadata_guard__ = staticmethod(lambda was, now: was[0] == now[0])

        @staticmethod
        def __tensor_unflatten__(inner, word, size, stride):
            return Loose(inner["a"], inner["b"], word)

    counter = CompileCounterWithBackend("eager")
    compiled = tocha.compile(lambda x: x.a + 1, backend=counter, fullgraph=True)
    for word, count in (("one", 1), ("other", 1), ("two", 2)):
        compiled(Loose(tocha.ones(2), tocha.ones(2), word))
        assert counter.frame_count == count


def test_trees_are_captured_once_whatever_else_was_looked_up():
    counter = CompileCounterWithBackend("eager")
    compiled = tocha.compile(functools.partial(pytree.tree_map, lambda t: t * 2), backend=counter, fullgraph=True)
    tree = {"a": tocha.ones(2), "b": [tocha.ones(1), (3,)]}
    compiled(tree)
    pytree.tree_leaves([object(), type("New", (), {})(), slice(1)])
    assert compiled(tree)["b"][1] == (6,)
    assert counter.frame_count == 1


def test_trees_notice_types_that_become_containers():
    class Box:
        def __init__(self, x):
            self.x = x

        def __mul__(self, k):
            return "a leaf"

    compiled = tocha.compile(lambda b: pytree.tree_map(lambda t: t * 2, b), backend="eager")
    assert compiled([Box(tocha.ones(2)), tocha.ones(1)])[0] == "a leaf"
    pytree.register_pytree_node(Box, lambda b: ([b.x], None), lambda children, context: Box(*children))
    try:
        assert compiled([Box(tocha.ones(2)), tocha.ones(1)])[0].x.tolist() == [2.0, 2.0]
    finally:
        pytree._deregister_pytree_node(Box)
    assert compiled([Box(tocha.ones(2)), tocha.ones(1)])[0] == "a leaf"
