"""Calls every operator with some of its tensors on the meta device and the others on the CPU, in every form that writes
or makes a result. A program of its own (test_crashes.py runs it): a kernel that reads memory that is not there ends the
process, and the last line says which call that was. What is wrong without ending it is printed as WRONG.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import samples as s

import tocha
from tocha.ir import dtypes as dt


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Where the tensors of nested arguments are."""
    if isinstance(value, tocha.Tensor):
        yield path
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))


def moved(value: Any, chosen: Callable[[tuple], bool], path: tuple = ()) -> Any:
    """The same arguments, fresh, with the chosen tensors on the meta device."""
    if isinstance(value, tocha.Tensor):
        return value.to("meta") if chosen(path) else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(moved(item, chosen, (*path, i)) for i, item in enumerate(value))
    if isinstance(value, dict):
        return {key: moved(item, chosen, (*path, key)) for key, item in value.items()}
    return value


def forms(o: Any, sample: Any) -> Iterator[tuple[str, Callable]]:
    function = s.function_of(o)
    yield "function", lambda args, kwargs: function(*args, **kwargs)
    if "inplace" in o.variants:
        for f in s.inplace_forms(o):
            yield "in place", lambda args, kwargs, f=f: f(*args, **kwargs)
    if "out" in o.variants and "function" in o.variants:
        try:
            made = function(*sample.args, **sample.kwargs)
        except Exception:
            return
        for device in ("cpu", "meta"):
            outs = [t.detach().to(device, copy=True) for t in s.leaves(made)]
            out = outs[0] if isinstance(made, tocha.Tensor) else tuple(outs)
            yield f"out on {device}", lambda args, kwargs, out=out: function(*args, **kwargs, out=out)


def read(result: Any) -> None:
    for t in s.leaves(result):
        if isinstance(t, tocha.Tensor):
            repr(t)


def call(o: Any, form: str, f: Callable, args: Any, kwargs: Any, which: str) -> None:
    print(o.full_name, form, which, flush=True)
    try:
        read(f(args, kwargs))
        read((*args, *kwargs.values()))
    except SystemError as e:
        print("WRONG", e)
    except Exception:
        pass


def main() -> None:
    warnings.simplefilter("ignore")
    part, parts = int(sys.argv[1]), int(sys.argv[2])
    for number, o in enumerate(o for o in s.all_operators() if s.function_of(o) is not None):
        if number % parts != part:
            continue
        d = dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]
        for sample in s.samples(o, d):
            whole = (tuple(sample.args), dict(sample.kwargs))
            all_places = list(places(whole))
            for form, f in forms(o, sample):
                for one in all_places:
                    call(o, form, f, *moved(whole, lambda p, one=one: p == one), f"{one} on meta")
                    call(o, form, f, *moved(whole, lambda p, one=one: p != one), f"all but {one} on meta")
    print("done")


if __name__ == "__main__":
    main()
