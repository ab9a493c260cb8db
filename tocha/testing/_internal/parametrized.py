"""Tests that run once for each of several arguments.

>>> class Tests:
...     @parametrize("n", [1, 2.5])
...     def test_it(self, n):
...         print(n)
>>> _ = instantiate_parametrized_tests(Tests)
>>> Tests().test_it_n_2_5()
2.5
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tocha import _C


class subtest:
    """Arguments with a name, or decorators, of their own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Callable] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or ())


class _Case(NamedTuple):
    name: str
    arguments: dict[str, Any]
    decorators: list[Callable]


def dtype_name(dtype: Any) -> str:
    """Without the library's.

    >>> import tocha
    >>> dtype_name(tocha.float32)
    'float32'
    """
    return str(dtype).split(".")[1]


def _text(name: str, value: Any, number: int) -> str:
    if isinstance(value, _C.dtype):
        return dtype_name(value)
    if isinstance(value, (int, float, str)):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{number}"


class parametrize:
    """A decorator: the test takes each of these values for its argument (of several, "a,b", tuples of them)."""

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.names = [n.strip() for n in arg_str.split(",") if n.strip()]
        self.values, self.name_fn = arg_values, name_fn

    def _case(self, number: int, given: Any) -> _Case:
        own = given if isinstance(given, subtest) else subtest(given)
        values = [own.arg_values] if len(self.names) == 1 else list(own.arg_values)
        if len(values) != len(self.names):
            raise RuntimeError(f"Expected # values == # arg names, but got: {len(values)} values and {len(self.names)} names for test")  # fmt: skip
        if own.name is not None:
            name = own.name
        elif self.name_fn is not None:
            name = self.name_fn(*values)
        else:
            name = "_".join(_text(n, v, number) for n, v in zip(self.names, values))
        return _Case(name, dict(zip(self.names, values)), own.decorators)

    def __call__(self, test: Callable) -> Callable:
        cases = [self._case(number, given) for number, given in enumerate(self.values)]
        test._parametrized = [cases, *getattr(test, "_parametrized", [])]  # type: ignore[attr-defined]
        return test


def _together(levels: list[list[_Case]]) -> Iterator[_Case]:
    if not levels:
        yield _Case("", {}, [])
        return
    for first in levels[0]:
        for rest in _together(levels[1:]):
            name = "_".join(filter(None, (first.name, rest.name)))
            yield _Case(name, {**first.arguments, **rest.arguments}, [*first.decorators, *rest.decorators])


def _bound(test: Callable, name: str, case: _Case) -> Callable:
    @functools.wraps(test)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return test(self, *args, **case.arguments, **kwargs)

    vars(run).pop("_parametrized", None)
    run.__name__ = name
    made: Callable = run
    for decorator in case.decorators:
        made = decorator(made)
    return made


def instantiate_parametrized_tests(generic_cls: type) -> type:
    """Puts a test for each combination of arguments in the place of those that take several."""
    for name, test in list(vars(generic_cls).items()):
        levels = getattr(test, "_parametrized", None)
        if levels is None:
            continue
        delattr(generic_cls, name)
        for case in _together(levels):
            full = f"{name}_{case.name}"
            if hasattr(generic_cls, full):
                raise RuntimeError(f"Redefinition of test {full}")
            setattr(generic_cls, full, _bound(test, full, case))
    return generic_cls
