"""What captured code asks of symbols by name, and what it is told: questions that add no guard, whether it is being captured."""

import enum
import functools
import inspect
import typing

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounter
from tocha.fx.experimental import symbolic_shapes as shapes


def marked(n):
    x = tocha.zeros(n)
    tocha._dynamo.mark_dynamic(x, 0)
    return x


def test_questions_about_sizes_add_no_guards():
    def f(x):
        n = x.shape[0]
        before = shapes.statically_known_true(n > 9)
        tocha._check(n >= 10)
        known = (
            shapes.statically_known_true(n > 9),
            shapes.statically_known_false(n < 10),
            shapes.statically_known_true(n > 20),
        )
        return x + 1, before, known, shapes.has_static_value(n), shapes.has_static_value(4), shapes.is_concrete_int(n)

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for n in (10, 12, 30):
        assert compiled(marked(n))[1:] == (False, (True, True, False), False, True, False)
    assert counter.frame_count == 1


def test_questions_that_are_guarded():
    def f(x):
        n = x.shape[0]
        return x + n if shapes.guard_or_false(n > 5) else x - shapes.guard_int(n)

    counter = CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True, dynamic=True)
    assert [compiled(tocha.zeros(n))[0].item() for n in (3, 7, 8, 4, 3)] == [-3, 7, 8, -4, -3]
    assert counter.frame_count == 3


def test_numbers_from_data_have_the_answer_that_is_given_for_them():
    def f(x, i):
        n = (i + 1).item()
        tocha._check(n >= 0)
        return shapes.guard_or_false(n == 4), shapes.guard_or_true(n == 5), shapes.statically_known_true(n >= 0), x + n

    with tocha._dynamo.config.patch(capture_scalar_outputs=True):
        assert tocha.compile(f, backend="eager", fullgraph=True)(tocha.ones(2), tocha.tensor(3))[:3] == (
            False,
            True,
            True,
        )


@pytest.mark.parametrize("ask", [tocha._utils.is_compiling, tocha.compiler.is_compiling])
def test_captured_code_is_told_so(ask):
    assert tocha.compile(lambda x: (x + 1, ask()), backend="eager", fullgraph=True)(tocha.ones(1))[1] and not ask()


@pytest.mark.parametrize("root", [lambda f: f, lambda f: lambda x: f(x) + x])
def test_compiled_functions_under_a_symbolic_trace(root):
    x = tocha.ones(2)
    compiled = tocha.compile(lambda x: x + x, backend="eager")
    compiled(x)
    with pytest.raises(RuntimeError, match="Detected that you are using FX to symbolically trace a dynamo-optimized"):
        tocha.fx.symbolic_trace(root(compiled))
    with tocha._dynamo.config.patch(error_on_nested_fx_trace=False):
        assert tocha.equal(tocha.fx.symbolic_trace(root(compiled))(x), root(lambda x: x + x)(x))


def test_attributes_of_partials():
    def added(x, y):
        return x + y

    named = functools.update_wrapper(functools.partial(added, y=3), added)
    names = ("__name__", "__wrapped__", "__call__", "__hash__", "__annotations__", "__code__", "func", "__doc__")

    def f(x, p):
        own = functools.partial(added, y=2)
        asked = [[hasattr(q, n) for n in names] for q in (p, own)]
        return p(x) + own.__call__(x), asked, getattr(p, "__name__", "none"), p.__class__ is functools.partial

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for p in (named, functools.partial(added, y=3), named):
        found, expected = compiled(tocha.ones(1), p), f(tocha.ones(1), p)
        assert found[1:] == expected[1:] and found[0].item() == expected[0].item()


class Named:
    def scale(self, x, factor=2):
        return x * factor

    @classmethod
    def make(cls, *sizes):
        return cls()

    def everything(*args, **kwargs):
        return args


def test_signatures_of_methods():
    named = Named()

    def f(x):
        asked = (named.scale, Named.scale, Named.make, named.everything)
        shown = [[(p.name, str(p.kind), p.default) for p in inspect.signature(a).parameters.values()] for a in asked]
        return x + 1, shown, str(inspect.signature(named.scale))

    x = tocha.ones(1)
    assert tocha.compile(f, backend="eager", fullgraph=True)(x)[1:] == f(x)[1:]


def test_names_of_typing_are_classes_too():
    def f(x, kind):
        found = isinstance({}, typing.Mapping), isinstance(x, (int, typing.Hashable)), issubclass(list, typing.Sequence)
        return x + 1, found, isinstance([], kind)

    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    for kind in (typing.Iterable, typing.Mapping, list):
        assert compiled(tocha.ones(1), kind)[1:] == f(tocha.ones(1), kind)[1:]


VERSION = tocha.torch_version.TorchVersion("2.13.0+tocha")


def test_the_version_of_the_library():
    def f(x, other):
        asked = VERSION >= "1", VERSION < (9, 0), str(VERSION) == VERSION, VERSION.split(".")[0], other < VERSION
        return x + 1, asked, f"{VERSION}"

    counter, x = CompileCounter(), tocha.ones(1)
    assert same(tocha.compile(f, backend=counter, fullgraph=True)(x, "0.0"), f(x, "0.0")) and counter.frame_count == 1


class Unit(enum.Enum):
    A = 1

    def __add__(self, other):
        return self.name, other

    def __lt__(self, other):
        return "less", other

    def __eq__(self, other):
        return other == [1]

    __hash__ = object.__hash__


def test_operators_of_constants_with_methods_in_python():
    def f(x):
        return Unit.A + (x,), {"k": x} > Unit.A, [x.shape[0]] == Unit.A, [x.shape[0], x] != Unit.A

    x = tocha.ones(1)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x), f(x))
