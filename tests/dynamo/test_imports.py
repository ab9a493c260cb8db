"""Imports inside captured code: one graph, whether what they name is loaded yet or not."""

import importlib
import sys

import pytest

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter

X = tocha.ones(2)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of modules that nobody has loaded; they write down that they run."""
    inside = tmp_path / "captured_package"
    inside.mkdir()
    (inside / "__init__.py").write_text("ran = []\n")
    (inside / "double.py").write_text(
        "from . import ran\nran.append('double')\nscale = 2\ndef twice(x):\n    from .more import deep\n    return x * scale + deep.shift\n"
    )
    (inside / "more").mkdir()
    (inside / "more" / "__init__.py").write_text("")
    (inside / "more" / "deep.py").write_text(
        "from .. import ran\nran.append('deep')\nimport tocha\nshift = float(tocha.ones(3).sum())\n"
    )
    (inside / "broken.py").write_text("from . import ran\nran.append('broken')\nraise ValueError('not today')\n")
    (inside / "late.py").write_text(
        "import importlib\ndef __getattr__(name):\n    if name == 'deep':\n        return importlib.import_module('.more.deep', 'captured_package')\n    raise AttributeError(name)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "captured_package"
    for name in [n for n in sys.modules if n.split(".")[0] == "captured_package"]:
        del sys.modules[name]


def from_a_package(x):
    from captured_package.double import scale, twice

    return twice(x) + scale


def of_a_module_in_a_package(x):
    import captured_package.double

    return captured_package.double.twice(x)


def by_another_name(x):
    import captured_package.more.deep as d

    return x + d.shift


def modules_of_a_package(x):
    from captured_package import double, more

    return double.twice(x) + len(more.__name__)


def by_a_function(x):
    return importlib.import_module(".double", "captured_package").twice(x)


def of_a_package_that_loads_late(x):
    from captured_package.late import deep

    return x + deep.shift


@pytest.mark.parametrize(
    "function",
    [from_a_package, of_a_module_in_a_package, by_another_name, modules_of_a_package, by_a_function, of_a_package_that_loads_late],
)  # fmt: skip
def test_what_is_not_loaded_yet(package, function):
    counter = CompileCounter()
    compiled = tocha.compile(function, backend=counter, fullgraph=True)
    first, second = compiled(X), compiled(X)
    assert first.tolist() == second.tolist() == function(X).tolist()
    assert counter.frame_count == 1
    ran = importlib.import_module(package).ran
    assert len(ran) == len(set(ran))


def test_imports_in_functions_that_are_inlined(package):
    def inner(x):
        import captured_package.double as d

        return d.twice(x)

    with_break = CompileCounter()
    assert tocha.compile(lambda x: inner(x.sin()).cos(), backend=with_break)(X).shape == X.shape
    assert with_break.frame_count == 1


def test_imports_of_the_standard_library(check):
    def f(x):
        import math
        import os.path as paths
        from collections import OrderedDict, deque
        from math import pi as P

        return OrderedDict(a=x * P)["a"] + math.sqrt(4) + len(paths.join("a", "b")) + len(deque([1]))

    check(f, X)


def test_names_that_a_module_does_not_have(package, check):
    def f(x):
        seen = []
        try:
            from math import nothing
        except ImportError as e:
            seen += [str(e), e.name, e.path]
        try:
            from captured_package import nothing  # noqa: F401
        except ImportError as e:
            seen += [str(e), e.name, e.path]
        return x + 1, seen

    check(f, X)


def test_what_cannot_be_imported(package):
    """The program's own import raises, and may be caught; under fullgraph it is refused."""

    def f(x):
        try:
            import captured_nowhere

            return captured_nowhere.scale(x)
        except ImportError as e:
            return x + len(e.name)

    def broken(x):
        import captured_package.broken as b

        return b.twice(x)

    compiled = tocha.compile(f, backend="eager")
    assert [compiled(X).tolist() for _ in range(2)] == [[17.0, 17.0]] * 2
    with pytest.raises(Unsupported, match="import of captured_nowhere: ModuleNotFoundError"):
        tocha.compile(f, backend="eager", fullgraph=True)(X)
    with pytest.raises(ValueError, match="not today"):
        tocha.compile(broken, backend="eager")(X)


def test_a_module_that_is_replaced(package, monkeypatch):
    def f(x):
        import captured_package.more as m

        return x * m.scale

    def g(x):
        from captured_stand_in import scale

        return x * scale

    more, other = importlib.import_module("captured_package.more"), type(sys)("captured_stand_in")
    more.scale, other.scale = 3, 5
    compiled = tocha.compile(f, backend="eager", fullgraph=True)
    assert compiled(X).tolist() == [3, 3]
    monkeypatch.setattr(importlib.import_module("captured_package"), "more", other)
    assert compiled(X).tolist() == [5, 5]
    monkeypatch.setitem(sys.modules, "captured_stand_in", other)
    compiled = tocha.compile(g, backend="eager", fullgraph=True)
    assert compiled(X).tolist() == [5, 5]
    monkeypatch.setitem(sys.modules, "captured_stand_in", more)
    assert compiled(X).tolist() == [3, 3]
    monkeypatch.setitem(sys.modules, "captured_stand_in", None)
    with pytest.raises(Unsupported, match="import of captured_stand_in halted"):
        compiled(X)


def test_modules_that_compile_while_they_are_loaded(package, tmp_path):
    (tmp_path / "captured_package" / "compiles.py").write_text(
        "import tocha\nready = tocha.compile(lambda x: x.sin() + 1, backend='eager')(tocha.zeros(2))\n"
    )

    def f(x, y):
        z = x * y
        from captured_package.compiles import ready

        return z + ready

    counter = CompileCounter()
    assert tocha.compile(f, backend=counter, fullgraph=True)(X, X * 3).tolist() == [4, 4]
    assert counter.frame_count == 1
