"""Guards: what was assumed of values from outside, collected while capturing, then made into the native tree."""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha import _C
from tocha._dynamo.relations import Numbers
from tocha._dynamo.source import Source
from tocha.ir.shape_env import ShapeEnv
from tocha.ir.sym_types import is_symbolic


class _TensorText:
    """What is said of a tensor's guard, made when asked for; a tensor in it would be kept alive."""

    __slots__ = ("facts",)

    def __init__(self, *facts: Any) -> None:
        self.facts = facts

    def __str__(self) -> str:
        source, dtype, device, grad, sizes, strides = self.facts
        return f"tensor({source.name}, {dtype}, device={str(device)!r}, requires_grad={grad}, size={list(sizes)}, stride={list(strides)})"  # fmt: skip


class Guard:
    """`test` is one that csrc/capture/guards.cpp knows, `key` what it takes. `source` is None for the surroundings as a whole."""

    __slots__ = ("_text", "key", "source", "test")

    def __init__(self, source: Source | None, test: str, key: Any, text: Any = None) -> None:
        self.source, self.test, self.key, self._text = source, test, key, text

    @property
    def text(self) -> str:
        """Made when asked for: most guards never fail."""
        if self._text is None:
            assert self.source is not None
            self._text = _TEXTS[self.test](self.source.name, self.key)
        return str(self._text)

    def __str__(self) -> str:
        return self.text

    @property
    def identity(self) -> tuple:
        where = self.source.identity if self.source else None
        key = self.key
        if self.test in ("tensor", "global_state"):
            return (where, self.test)
        if self.test in ("same", "holds"):
            return (where, self.test, id(key))
        return (where, self.test, type(key), key if type(key) in (str, int, type) else repr(key))


_TEXTS: dict[str, Callable[[str, Any], str]] = {
    "type": lambda s, k: f"type({s}) is {k.__module__}.{k.__qualname__}",
    "same": lambda s, k: f"{s} is {_shown(k)}",
    "constant": lambda s, k: f"{s} == {k!r}",
    "length": lambda s, k: f"len({s}) == {k}",
    "keys": lambda s, k: f"tuple({s}) == {k!r}",
    "contains": lambda s, k: f"{k!r} in {s}",
    "without": lambda s, k: f"{k!r} not in {s}",
    "empty_cell": lambda s, k: f"{s} is empty",
    "number": lambda s, k: f"type({s}) is {k[0].__name__}",
    "holds": lambda s, k: f"{getattr(k, '__name__', k)}({s})",
    "alias": lambda s, k: f"{s} is the same object as before",
}


def _shown(value: Any) -> str:
    if value is None or value is Ellipsis or isinstance(value, (bool, enum.Enum)):
        return str(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__ + " object"


# What PyTorch calls these tests.
_KINDS = {
    "type": "TYPE_MATCH", "same": "ID_MATCH", "constant": "CONSTANT_MATCH", "length": "SEQUENCE_LENGTH", "keys": "DICT_KEYS_MATCH",
    "contains": "DICT_CONTAINS", "without": "DICT_CONTAINS", "empty_cell": "EMPTY_CELL", "tensor": "TENSOR_MATCH", "number": "TYPE_MATCH",
    "alias": "DUPLICATE_INPUT", "holds": "LAMBDA_GUARD", "global_state": "GLOBAL_STATE",
}  # fmt: skip


@dataclass(frozen=True)
class GuardFilterEntry:
    """A guard as `guard_filter_fn` sees it."""

    name: str
    has_value: bool
    value: Any
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: Guard
    modules: tuple[type, ...]  # classes of the modules on the way to it, the nearest first

    @staticmethod
    def of(guard: Guard, modules: dict[int, type]) -> GuardFilterEntry:
        value = guard.key[0] if guard.test == "tensor" else guard.key
        known = guard.test in ("tensor", "same", "constant")
        where = guard.source.name if guard.source else ""
        is_global = guard.source is None or guard.source.root.fetch in ("global", "object")
        way = guard.source.way() if guard.source else ()
        met = tuple(modules[s.identity] for s in way if s.identity in modules)
        return GuardFilterEntry(where, known, value if known else None, _KINDS[guard.test], (), is_global, guard, met)


def filtered(keep: Callable[[list[GuardFilterEntry]], list[bool]]) -> Callable[[list[Guard], dict[int, type]], list[Guard]]:  # fmt: skip
    """What a `guard_filter_fn` leaves of a list of guards."""

    def chosen(found: list[Guard], modules: dict[int, type]) -> list[Guard]:
        answers = keep([GuardFilterEntry.of(g, modules) for g in found])
        assert len(answers) == len(found) and all(type(a) is bool for a in answers), "guard_filter_fn returns a bool for each guard"  # fmt: skip
        return [g for g, yes in zip(found, answers) if yes]

    return chosen


def own_order(real: collections.OrderedDict) -> dict[Any, None]:
    """Its keys as those of a plain dict, past what its class makes of iterating over it."""
    return dict.fromkeys(collections.OrderedDict.__iter__(real))


class Guards:
    def __init__(self, env: ShapeEnv) -> None:
        self.found: dict[tuple, Guard] = {}
        self.tensors: dict[int, int] = {}  # a tensor's id -> its slot
        self.kept: list[Any] = []
        self.settings: set[tuple[str, str]] = set()
        self.modules: dict[int, type] = {}  # sources of modules
        self.numbers = Numbers(env)
        self.written: list[int] = []  # the slots of tensors that the graph writes to
        self.pairs: tuple[tuple[int, int], ...] = ()  # those of them that share memory with others, and these

    def add(self, source: Source, test: str, key: Any) -> None:
        if source.fetch == "object" and test in ("same", "type"):
            return  # held by the tree itself
        self._insert(Guard(source, test, key))

    def add_keys(self, source: Source, keys: tuple, cls: type) -> None:
        """Which keys a dict has, in their order: an OrderedDict keeps that beside the dict that it is."""
        self.add(source.call(own_order) if issubclass(cls, collections.OrderedDict) and len(keys) > 1 else source, "keys", keys)  # fmt: skip

    def add_tensor(self, source: Source, tensor: Any, sizes: tuple, strides: tuple) -> None:
        """Sizes and strides that are symbolic may be anything, as far as the relations allow."""
        slot = self.tensors.setdefault(id(tensor), len(self.tensors))
        numbers: tuple[int, ...] = ()
        if any([type(n) is not int for n in (*sizes, *strides)]):
            steps = [*(source.size(i) for i in range(len(sizes))), *(source.stride(i) for i in range(len(sizes)))]
            numbers = tuple(self.numbers.add(s, n) if is_symbolic(n) else -1 for s, n in zip(steps, (*sizes, *strides)))
            sizes, strides = (tuple(None if is_symbolic(n) else n for n in given) for given in (sizes, strides))
            numbers = numbers if any(p >= 0 for p in numbers) else ()
        text = _TensorText(source, tensor.dtype, tensor.device, tensor.requires_grad, sizes, strides)
        self._insert(Guard(source, "tensor", (tensor, slot, sizes, strides, numbers), text))

    def add_number(self, source: Source, number: Any, kind: type) -> None:
        """An int or float that is a symbol: its type is guarded, and whatever is asked of it."""
        self.add(source, "number", (kind, self.numbers.add(source, number)))

    def add_setting(self, read: Callable[[], Any], value: Any) -> None:
        """A setting of the library that captured code asked for by a function without arguments."""
        name = getattr(read, "__name__", "setting")
        if (name, repr(value)) not in self.settings:
            self.settings.add((name, repr(value)))

            def unchanged(function: Callable[[], Any]) -> bool:
                return function() == value

            unchanged.__name__ = f"{value!r}.__eq__"
            self.add(Source("object", read, None, f"{name}()"), "holds", unchanged)

    def add_global_state(self) -> None:
        self._insert(Guard(None, "global_state", None, "the global state (grad mode, autocast, default dtype, ...)"))

    def _insert(self, guard: Guard) -> None:
        self.found.setdefault(guard.identity, guard)

    def texts(self) -> list[str]:
        return [*(g.text for g in self.found.values()), *(r[1] for r in self.numbers.relations())]

    def build(self, keep: Callable[[list[Guard], dict[int, type]], list[Guard]] | None = None) -> Any:
        """The native tree. Order: as found, which is the order in which the program would notice."""
        root = _Node("root", None, "")
        found = list(self.found.values())
        places: dict[tuple, _Node] = {}
        for guard in keep(found, self.modules) if keep else found:
            node = root.find(guard.source, places) if guard.source else root
            # One of a tensor would keep it alive.
            node.checks.append((guard.test, guard.key, guard._text if guard.test == "tensor" else guard))
        sharing = (tuple(self.written), self.pairs) if keep is None else ((), ())
        return _C._capture.Guards(root.described(), self.numbers.relations(), self.numbers.floats(), *sharing)

    def add_written(self, written: list[Any]) -> None:
        """A graph that writes to an input sees that in those that share memory with it: who does is guarded."""
        known = {g.key[1]: g.key[0] for g in self.found.values() if g.test == "tensor"}
        self.written = sorted({self.tensors[id(t)] for t in written if id(t) in self.tensors})
        self.pairs = _C._capture.meeting_pairs(tuple(known.items()), tuple(self.written)) if self.written else ()


class _Missing:
    """What is said where a source leads nowhere."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __str__(self) -> str:
        return f"{self.source.name} exists"


class _Node:
    def __init__(self, fetch: str, key: Any, text: Any) -> None:
        self.fetch, self.key, self.text = fetch, key, text
        self.checks: list[tuple] = []
        self.children: dict[tuple, _Node] = {}

    def find(self, source: Source, places: dict[tuple, _Node]) -> _Node:
        """The node of a source below the root, made where there is none yet; `places` remembers them."""
        known = places.get(source.identity)
        if known is not None:
            return known
        parent = self.find(source.base, places) if source.base else self
        made = parent.children[source.identity] = _Node(source.fetch, source.key, _Missing(source))
        places[source.identity] = made
        return made

    def described(self) -> tuple:
        children = tuple(c.described() for c in self.children.values())
        return (self.fetch, self.key, self.text, tuple(self.checks), children)
