"""Exceptions in captured code: what native classes keep, chains, notes, groups, and where they are let go."""

import weakref

import asserting
import pytest

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter

X = tocha.ones(2)


class Coded(Exception):
    def __init__(self, code, hint="none"):
        super().__init__(code)
        self.hint = hint


class Forgetful(Exception):
    def __init__(self, code, hint):
        self.hint = hint


class Empty:
    pass


class Marked(Exception):
    def __new__(cls, *args):
        made = super().__new__(cls, *args)
        made.mark = 7
        return made


def keeps_of_import_errors(x):
    try:
        raise ImportError("m", name="n", path="p")
    except ImportError as e:
        return x + 1, e.name, e.path, e.msg, str(e), e.args


def keeps_of_system_errors(x):
    try:
        raise OSError(2, "no such", "f.txt")
    except FileNotFoundError as e:
        return x + 1, e.errno, e.strerror, e.filename, str(e), e.args


def keeps_of_others(x):
    decoding = UnicodeDecodeError("utf8", b"abc", 0, 1, "why")
    return x + 1, SystemExit(3).code, decoding.reason, str(decoding), StopIteration(x).value + 1


def classes_of_the_program(x):
    found = []
    for e in (Coded(1, hint="h"), Forgetful(1, "h")):
        try:
            raise e
        except Exception as caught:
            found.append((caught.args, caught.hint, str(caught), repr(caught)))
    try:
        raise Marked(4)
    except Marked as e:
        return x + e.mark, e.args, found


def chains(x):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            raise KeyError("b")  # noqa: B904
    except KeyError as e:
        return x + 1, type(e.__context__), e.__context__.args, e.__cause__, e.__suppress_context__


def notes(x):
    e = ValueError("a")
    e.add_note("n")
    e.add_note("m")
    return x + 1, e.__notes__


def tracebacks(x):
    e = ValueError()
    before = e.__traceback__
    try:
        raise e
    except ValueError:
        return x + 1, before, e.__traceback__ is None, e.with_traceback(None).__traceback__


def missing_names(x):
    empty = Empty()
    try:
        return empty.foo
    except AttributeError as e:
        return x + 1, e.name, e.obj is empty


def groups_are_split(x):
    group = ExceptionGroup("eg", [ValueError(1), TypeError(2), ExceptionGroup("in", [ValueError(3)])])
    values, others = group.split(ValueError)
    plain = BaseExceptionGroup("x", [ValueError()])
    return x + len(values.exceptions), values.message, str(others), type(plain), group.subgroup(KeyError)


def clauses_take_their_parts(x):
    taken = []
    try:
        raise ExceptionGroup("eg", [ValueError(1), TypeError(2), ExceptionGroup("in", [ValueError(3)])])
    except* ValueError as e:
        taken.append([type(one) for one in e.exceptions])
        x = x + 1
    except* TypeError as e:
        taken.append(e.exceptions[0].args)
    return x, taken


def a_clause_takes_one_that_is_no_group(x):
    taken = []
    try:
        raise ValueError("alone")
    except* ValueError as e:
        taken.append((type(e), e.exceptions[0].args))
    return x + 1, taken


def stops_inside_of_generators(x):
    def stops():
        yield 1
        raise StopIteration("early")

    try:
        return list(stops())
    except RuntimeError as e:
        return x + 1, str(e), repr(e.__cause__), e.__context__ is e.__cause__, e.__suppress_context__


PROGRAMS = [
    keeps_of_import_errors, keeps_of_system_errors, keeps_of_others, classes_of_the_program, chains, notes, tracebacks, missing_names,
    groups_are_split, clauses_take_their_parts, a_clause_takes_one_that_is_no_group,
    stops_inside_of_generators,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_in_one_graph(f):
    counter = CompileCounter()
    assert str(tocha.compile(f, backend=counter, fullgraph=True)(X)) == str(f(X))
    assert counter.frame_count == 1


def rest_of_a_group(x):
    try:
        raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])
    except* ValueError:
        x = x + 1


def raised_by_clauses(x):
    try:
        raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])
    except* ValueError:
        raise KeyError(x.shape) from None
    except* TypeError:
        raise


def catching_groups_by_clauses(x):
    try:
        raise ValueError
    except* ExceptionGroup:
        x = x + 1


def shown(e):
    inside = [shown(one) for one in getattr(e, "exceptions", ())]
    return type(e), str(e), inside, type(e.__cause__), type(e.__context__)


def unknown_keywords(x):
    return x + 1, ValueError(a=1)


@pytest.mark.parametrize("f", [rest_of_a_group, raised_by_clauses, catching_groups_by_clauses, unknown_keywords])
def test_what_leaves_the_function(f):
    with pytest.raises(BaseException) as expected:
        f(X)
    with pytest.raises(type(expected.value)) as found:
        tocha.compile(f, backend="eager")(X)
    assert shown(found.value) == shown(expected.value)


def test_metaclasses_have_no_say_in_what_a_clause_takes():
    class Meta(type):
        def __subclasscheck__(cls, other):
            raise ValueError

    class Own(Exception, metaclass=Meta):
        pass

    def f(x):
        try:
            raise KeyError
        except Own:
            return x
        except KeyError:
            return x + 1

    assert tocha.compile(f, backend="eager")(X).tolist() == [2, 2]


def test_frames_of_an_exception_are_let_go_after_its_handler():
    class Local:
        pass

    kept = []

    def inner():
        local = Local()
        kept.append(weakref.ref(local))
        tocha._dynamo.graph_break()
        raise ValueError

    def f(x):
        try:
            inner()
        except ValueError:
            x = x + 1
        tocha._dynamo.graph_break()
        return x + (kept[-1]() is None)

    assert tocha.compile(f, backend="eager")(X).tolist() == [3, 3]


def test_objects_that_say_when_they_die_do():
    said = []

    class Dying:
        def __del__(self):
            said.append("dead")

    def f(x):
        Dying()
        return x + 1

    tocha.compile(f, backend="eager")(X)
    assert said == ["dead"]


def test_lines_of_errors_are_those_of_their_instructions():
    def f(x):
        numbers = {}
        x = x + 1
        return x, numbers["missing"]

    with pytest.raises(KeyError) as found:
        tocha.compile(f, backend="eager")(X)
    last = found.traceback[-1]
    assert last.lineno + 1 == f.__code__.co_firstlineno + 3


def test_wrong_arguments():
    def none(): ...
    def two(a, b=1): ...
    def many(a, b, c, *, d, e): ...
    def placed(a, b, /, c): ...

    calls = [
        (none, (1,), {}), (none, (1, 2), {}), (two, (), {}), (two, (1, 2, 3), {}), (many, (), {}), (many, (1,), {}),
        (many, (1, 2, 3), {}), (many, (1, 2, 3), {"d": 1}), (many, (1, 2, 3, 4), {"d": 1}), (many, (1, 2, 3, 4), {"d": 1, "e": 2}),
        (placed, (), {"a": 1, "b": 2, "c": 3}), (placed, (1, 2, 3), {"c": 4}), (two, (1,), {"a": 2}), (two, (1,), {"c": 2}),
    ]  # fmt: skip

    def messages(x):
        found = []
        for function, args, kwargs in calls:
            try:
                function(*args, **kwargs)
            except TypeError as error:
                found.append(str(error))
        return found, x + 1

    assert tocha.compile(messages, backend="eager", fullgraph=True)(tocha.ones(1))[0] == messages(tocha.ones(1))[0]


def _refuses(x):
    raise Coded(len(x), hint="h")


class Unfinished(tocha.nn.Module):
    def forward(self, x):
        return self.layer(x)


def _finally_raises(x):
    try:
        return x + 1
    finally:
        raise ValueError("at the end")


@pytest.mark.parametrize(
    "function, said, lines",
    [
        (_refuses, "Coded(2)", ["_refuses"]),
        (lambda x: _refuses(x.sin()) + 1, "Coded(2)", ["<lambda>", "_refuses"]),
        (lambda x: [x][3], "IndexError('list index out of range')", ["<lambda>"]),
        (Unfinished(), "AttributeError(\"'Unfinished' object has no attribute 'layer'\")", ["forward", "__getattr__"]),
        (asserting.of_three, "AssertionError('three')", ["of_three"]),
        (_finally_raises, "ValueError('at the end')", ["_finally_raises"]),
    ],
)
def test_an_exception_that_leaves_a_whole_graph_is_refused(function, said, lines):
    """fullgraph=True promises one graph: a program that raises has none. Without it the exception is the program's."""
    with pytest.raises(Unsupported) as caught:
        tocha.compile(function, backend="eager", fullgraph=True)(X)
    text = str(caught.value)
    assert f"Observed exception: {said}" in text
    places = text.split("from user code:")[1].strip().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in places] == lines
    with pytest.raises(Exception) as caught:
        tocha.compile(function, backend="eager")(X)
    assert not isinstance(caught.value, Unsupported)
