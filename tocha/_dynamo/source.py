"""Sources: where a value comes from. They print as Python, are fetched by guards, and are loaded by generated code."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tocha

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen


class once:
    """An attribute that is computed when first asked for: functools.cached_property without its lock."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute, self.name = compute, compute.__name__

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        found = owner.__dict__[self.name] = self.compute(owner)
        return found


_NUMBERS: dict[tuple, int] = {}
_next_number = itertools.count().__next__


def forget_identities() -> None:
    """Before a capture: numbers are never given twice, so that sources of other captures are just others."""
    _NUMBERS.clear()


class Source:
    """`fetch` is a way that csrc/capture/guards.cpp knows, `key` what it takes, `base` the source it starts from.
    For locals and cells `shown` is the variable's name."""

    def __init__(self, fetch: str, key: Any, base: Source | None = None, shown: str = "") -> None:
        self.fetch, self.key, self.base, self.shown = fetch, key, base, shown
        self.past: Any = None  # a builtin class whose own [] is meant, where the object's class has another

    def way(self) -> Iterator[Source]:
        """It and what it starts from, one after the other."""
        source: Source | None = self
        while source is not None:
            yield source
            source = source.base

    @once
    def name(self) -> str:
        base = self.base.name if self.base else ""
        match self.fetch:
            case "local" | "free":
                return f"L[{self.shown!r}]"
            case "global":
                return f"G[{self.key!r}]"
            case "object":
                return self.shown or repr(self.key)
            case "attribute":
                return f"{base}.{self.key}" if self.key.isidentifier() else f"getattr({base}, {self.key!r})"
            case "type":
                return f"type({base})"
            case "instance_dict":
                return f"{base}.__dict__"
            case "closure":
                return f"{base}.__closure__[{self.key}].cell_contents"
            case "cell":
                return f"{base}.cell_contents"
            case "call":
                return f"{self.key.__name__}({base})"
            case "size" | "stride":
                return f"{base}.{self.fetch}()[{self.key}]"
            case "dict_key":
                return f"list({base})[{self.key}]"
            case "dict_item" if isinstance(self.key, tocha.Tensor):
                return f"{base}[tensor]"
            case _:
                return f"{base}[{self.key!r}]"

    @once
    def identity(self) -> int:
        """Equal for sources that are the same way to the same value. A number: ways are long, and asked for often."""
        key = self.key if isinstance(self.key, (str, int)) else id(self.key)
        way = (self.fetch, type(self.key), key, self.base.identity if self.base else None)
        known = _NUMBERS.get(way)
        if known is None:
            known = _NUMBERS[way] = _next_number()
        return known

    @once
    def counts(self) -> bool:
        """Whether keys of a dict are counted on the way: what that takes grows with the dict."""
        return self.fetch == "dict_key" or (self.base is not None and self.base.counts)

    @property
    def root(self) -> Source:
        return self if self.base is None else self.base.root

    def __repr__(self) -> str:
        return self.name

    # ---- steps from here

    def attribute(self, name: str) -> Source:
        return Source("attribute", name, self)

    def dict_item(self, key: Any) -> Source:
        return Source("dict_item", key, self)

    def item(self, key: Any) -> Source:
        return Source("item", key, self)

    def list_item(self, i: int) -> Source:
        return Source("list_item", i, self)

    def tuple_item(self, i: int) -> Source:
        return Source("tuple_item", i, self)

    def dict_key(self, i: int) -> Source:
        return Source("dict_key", i, self)

    def type(self) -> Source:
        return Source("type", None, self)

    def closure(self, i: int) -> Source:
        return Source("closure", i, self)

    def size(self, dim: int) -> Source:
        return Source("size", dim, self)

    def stride(self, dim: int) -> Source:
        return Source("stride", dim, self)

    def call(self, function: Any) -> Source:
        return Source("call", function, self)

    # ---- in generated code

    def load(self, cg: Codegen) -> None:
        """Emits instructions that push the value."""
        if self.fetch in _ROOTS:
            _ROOTS[self.fetch](self, cg)
            return
        if self.past is not None:
            _load_dim(self.past.__getitem__, self, cg)
            return
        if self.fetch in _CALLS:
            _CALLS[self.fetch](self, cg)
            return
        assert self.base is not None
        cg.load_source(self.base)
        match self.fetch:
            case "attribute":
                cg.load_attribute(self.key)
            case "instance_dict":
                cg.load_attribute("__dict__")
            case "cell":
                cg.load_attribute("cell_contents")
            case _:
                cg.load_constant(self.key)
                cg.emit("BINARY_SUBSCR")

    def items_of(self, base: Any, real: Any) -> Callable[[Any], Source]:
        """Ways to items of an object whose class derives from list or dict: past its own [], which answers as it likes."""
        step = self.dict_item if base is dict else self.list_item
        if type(real).__getitem__ is base.__getitem__:  # type: ignore[attr-defined]
            return step

        def past(key: Any) -> Source:
            made = step(key)
            made.past = base
            return made

        return past


def _load_call(function: Any, s: Source, cg: Codegen) -> None:
    assert s.base is not None
    cg.start_call(function)
    cg.load_source(s.base)
    cg.end_call(1)


def _load_dim(method: Any, s: Source, cg: Codegen) -> None:
    assert s.base is not None
    cg.start_call(method)
    cg.load_source(s.base)
    cg.load_constant(s.key)
    cg.end_call(2)


def _dict_key(d: dict, i: int) -> Any:
    return next(itertools.islice(d, i, None))


def _load_closure(s: Source, cg: Codegen) -> None:
    assert s.base is not None
    cg.load_source(s.base)
    cg.load_attribute("__closure__")
    cg.load_constant(s.key)
    cg.emit("BINARY_SUBSCR")
    cg.load_attribute("cell_contents")


_CALLS = {
    "type": lambda s, cg: _load_call(type, s, cg),
    "call": lambda s, cg: _load_call(s.key, s, cg),
    "closure": _load_closure,
    "dict_key": lambda s, cg: _load_dim(_dict_key, s, cg),
    "size": lambda s, cg: _load_dim(tocha.Tensor.size, s, cg),
    "stride": lambda s, cg: _load_dim(tocha.Tensor.stride, s, cg),
}
_ROOTS = {
    "local": lambda s, cg: cg.load_argument(s.key),
    "free": lambda s, cg: cg.emit("LOAD_DEREF", s.shown),
    "global": lambda s, cg: cg.load_global(s.key),
    "object": lambda s, cg: cg.load_constant(s.key),
}


def argument(i: int, name: str) -> Source:
    return Source("local", i, None, name)


def free_variable(i: int, name: str) -> Source:
    return Source("free", i, None, name)
