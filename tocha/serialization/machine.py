"""A pickle machine that builds tensors and plain containers and runs nothing else.

Python's own unpickler calls whatever a pickle names. This one knows the opcodes that data needs, looks every name up in
a table of what is allowed (safe.py), and refuses the rest by name.
"""

from __future__ import annotations

import collections
import pickle
import pickletools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tocha._utils import _set_state
from tocha.serialization import safe
from tocha.serialization.errors import Refused, brief

HIGHEST_PROTOCOL = 5
ADVICE = (
    "Weights only load failed. A checkpoint of tensors and plain containers loads as it is; this one names something else. "
    "If you trust where the file comes from, load it with weights_only=False, or allow the name with "
    "tocha.serialization.add_safe_globals([...])."
)
_MARK = object()


class Machine:
    """Runs one pickle, which begins at a place in the data. `persistent` is asked for what lies outside (storages)."""

    def __init__(self, data: bytes, persistent: Callable[[Any], Any], encoding: str = "utf-8", at: int = 0):
        self.data = data
        self.at = at
        self.persistent = persistent
        self.encoding = encoding
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.named: dict[int, Any] = {}  # what names were looked up, by identity
        self.copied = 0

    def run(self) -> Any:
        while True:
            if self.at >= len(self.data):
                raise Refused("pickle data was truncated: it ends without saying so")
            code = self.data[self.at]
            self.at += 1
            if code == STOP:
                return self.pop()
            handler = HANDLERS.get(code)
            if handler is None:
                raise _unknown(code, self.at - 1)
            handler(self)

    # -- reading -----------------------------------------------------------------------------------

    def take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self.data):
            raise Refused(f"pickle data was truncated: {n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise Refused("pickle data was truncated in the middle of a name")
        text = self.take(end - self.at)
        self.at += 1
        return text.decode()

    # -- the stack ---------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused(f"the pickle takes more from its stack than it put there, at byte {self.at}")
        return self.stack.pop()

    def top(self, kind: type, what: str) -> Any:
        if not self.stack or self.stack[-1] is _MARK or not isinstance(self.stack[-1], kind):
            raise Refused(f"{what} expects a {kind.__name__}, at byte {self.at} of the pickle")
        return self.stack[-1]

    def to_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise Refused(f"the pickle has no mark to go back to, at byte {self.at}")

    # -- names and calls ---------------------------------------------------------------------------

    def look_up(self, module: str, name: str) -> None:
        try:
            found = safe.allowed(module, name)
        except KeyError:
            full = brief(f"{module}.{name}")
            raise Refused(f"{ADVICE} Unsupported global: GLOBAL {full} was not an allowed global by default.") from None
        self.named[id(found)] = found
        self.push(found)

    def call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(arguments, tuple):
            raise Refused(f"the arguments of a call must be a tuple, at byte {self.at} of the pickle")
        allowed = safe.callable_for(function) if self.named.get(id(function), _MARK) is function else None
        if allowed is None:
            what = getattr(function, "__name__", None) if isinstance(function, type) else None
            raise Refused(
                f"{ADVICE} The pickle calls a {what or type(function).__name__}, which is no allowed function."
            )
        self.copied += safe.copied_by(function, arguments)
        if self.copied > len(self.data):
            raise Refused("the pickle copies more values than it holds")
        return self.guarded(allowed.__name__, allowed, *arguments)

    def new(self, cls: Any, arguments: Any, keywords: Any) -> Any:
        """An object of a class that the user allowed; no other kind is written this way."""
        if not isinstance(cls, type) or not safe.is_buildable(cls):
            what = f"class {cls.__name__}" if isinstance(cls, type) else type(cls).__name__
            raise Refused(
                f"{ADVICE} The pickle makes an object of a {what}, which was not allowed by add_safe_globals."
            )
        if not isinstance(arguments, tuple) or type(keywords) is not dict:
            raise Refused(f"the arguments of a call must be a tuple and a dict, at byte {self.at} of the pickle")
        return self.guarded(cls.__name__, cls.__new__, cls, *arguments, **keywords)

    def guarded(self, what: str, function: Callable, *arguments: Any, **keywords: Any) -> Any:
        """A call whose failure is the file's fault."""
        try:
            return function(*arguments, **keywords)
        except Exception as error:
            cause = f"{type(error).__name__}: {brief(error)}"
            raise Refused(f"{what} cannot be made from what the file holds, at byte {self.at}: {cause}") from error

    def build(self) -> None:
        """Gives the object on top its attributes."""
        state = self.pop()
        target = self.top(object, "giving attributes")
        kind = type(target)
        if kind is collections.OrderedDict:
            self.guarded("an OrderedDict", _set_state, target, state)
        elif safe.is_buildable(kind):
            restore = getattr(target, "__setstate__", None)
            self.guarded(kind.__name__, *((restore, state) if restore else (_set_state, target, state)))
        else:
            raise Refused(
                f"{ADVICE} Can only build OrderedDict or types allowlisted via add_safe_globals, but got {kind.__name__}"
            )

    def recall(self, key: int) -> None:
        if key not in self.memo:
            raise Refused(f"the pickle refers to value {key}, which it has not made")
        self.push(self.memo[key])

    def remember(self, key: int) -> None:
        self.memo[key] = self.top(object, "remembering a value")


# -- opcodes -----------------------------------------------------------------------------------------

STOP = pickle.STOP[0]


def _protocol(m: Machine) -> None:
    version = m.number("<B")
    if version > HIGHEST_PROTOCOL:
        raise Refused(f"unsupported pickle protocol: {version}")


def _text(form: str) -> Callable[[Machine], None]:
    return lambda m: m.push(m.take(m.number(form)).decode("utf-8", "surrogatepass"))


def _bytes(form: str, kind: type = bytes) -> Callable[[Machine], None]:
    return lambda m: m.push(kind(m.take(m.number(form))))


def _old_text(form: str) -> Callable[[Machine], None]:
    """Python 2's str."""

    def load(m: Machine) -> None:
        raw = m.take(m.number(form))
        m.push(raw if m.encoding == "bytes" else raw.decode(m.encoding))

    return load


def _long(form: str) -> Callable[[Machine], None]:
    return lambda m: m.push(int.from_bytes(m.take(m.number(form)), "little", signed=True))


def _tuple(count: int) -> Callable[[Machine], None]:
    def load(m: Machine) -> None:
        items = [m.pop() for _ in range(count)]
        m.push(tuple(reversed(items)))

    return load


def _append_all(m: Machine, items: list[Any]) -> None:
    target = m.top(object, "append")
    if not isinstance(target, list) and not safe.is_added(type(target)):
        raise Refused(f"append expects a list, not {type(target).__name__}, at byte {m.at} of the pickle")

    def fill() -> None:
        for item in items:
            target.append(item)

    m.guarded(type(target).__name__, fill)


def _set_items(m: Machine, items: list[Any]) -> None:
    target = m.top(dict, "setting an item")
    if len(items) % 2:
        raise Refused("the pickle sets a key without a value")

    def fill() -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            safe.check_key(key)
            target[key] = value

    m.guarded(f"a {type(target).__name__}", fill)


def _set_item(m: Machine) -> None:
    value, key = m.pop(), m.pop()
    _set_items(m, [key, value])


def _add_items(m: Machine) -> None:
    items = m.to_mark()
    target = m.top(set, "adding items")

    def fill() -> None:
        for item in items:
            safe.check_key(item)
            target.add(item)

    m.guarded("a set", fill)


def _dict(m: Machine) -> None:
    items = m.to_mark()
    m.push({})
    _set_items(m, items)


def _stack_global(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise Refused("a name in the pickle is no text")
    m.look_up(module, name)


def _reduce(m: Machine) -> None:
    arguments, function = m.pop(), m.pop()
    m.push(m.call(function, arguments))


def _new(m: Machine) -> None:
    arguments, cls = m.pop(), m.pop()
    m.push(m.new(cls, arguments, {}))


def _new_with_keywords(m: Machine) -> None:
    keywords, arguments, cls = m.pop(), m.pop(), m.pop()
    m.push(m.new(cls, arguments, keywords))


def _inst(m: Machine) -> None:
    """Makes an object the way Python 1 did; only the name is looked at, for the message."""
    m.look_up(m.line(), m.line())
    raise Refused(f"{ADVICE} INST at byte {m.at} of the pickle is not supported.")


def _pop(m: Machine) -> None:
    if not m.stack:
        raise Refused("the pickle pops an empty stack")
    m.stack.pop()


HANDLERS: dict[int, Callable[[Machine], None]] = {
    code[0]: handler
    for code, handler in {
        pickle.PROTO: _protocol,
        pickle.FRAME: lambda m: void(m.number("<Q")),
        pickle.MARK: lambda m: m.push(_MARK),
        pickle.POP: _pop,
        pickle.POP_MARK: lambda m: void(m.to_mark()),
        pickle.NONE: lambda m: m.push(None),
        pickle.NEWTRUE: lambda m: m.push(True),
        pickle.NEWFALSE: lambda m: m.push(False),
        pickle.BININT: lambda m: m.push(m.number("<i")),
        pickle.BININT1: lambda m: m.push(m.number("<B")),
        pickle.BININT2: lambda m: m.push(m.number("<H")),
        pickle.LONG1: _long("<B"),
        pickle.LONG4: _long("<i"),
        pickle.BINFLOAT: lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        pickle.SHORT_BINUNICODE: _text("<B"),
        pickle.BINUNICODE: _text("<I"),
        pickle.BINUNICODE8: _text("<Q"),
        pickle.SHORT_BINBYTES: _bytes("<B"),
        pickle.BINBYTES: _bytes("<I"),
        pickle.BINBYTES8: _bytes("<Q"),
        pickle.BYTEARRAY8: _bytes("<Q", bytearray),
        pickle.SHORT_BINSTRING: _old_text("<B"),
        pickle.BINSTRING: _old_text("<i"),
        pickle.EMPTY_DICT: lambda m: m.push({}),
        pickle.EMPTY_LIST: lambda m: m.push([]),
        pickle.EMPTY_SET: lambda m: m.push(set()),
        pickle.EMPTY_TUPLE: lambda m: m.push(()),
        pickle.TUPLE1: _tuple(1),
        pickle.TUPLE2: _tuple(2),
        pickle.TUPLE3: _tuple(3),
        pickle.TUPLE: lambda m: m.push(tuple(m.to_mark())),
        pickle.LIST: lambda m: m.push(m.to_mark()),
        pickle.DICT: _dict,
        pickle.FROZENSET: lambda m: m.push(m.guarded("a frozenset", safe.frozenset_of, m.to_mark())),
        pickle.ADDITEMS: _add_items,
        pickle.APPEND: lambda m: _append_all(m, [m.pop()]),
        pickle.APPENDS: lambda m: _append_all(m, m.to_mark()),
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: lambda m: _set_items(m, m.to_mark()),
        pickle.GLOBAL: lambda m: m.look_up(m.line(), m.line()),
        pickle.STACK_GLOBAL: _stack_global,
        pickle.INST: _inst,
        pickle.REDUCE: _reduce,
        pickle.NEWOBJ: _new,
        pickle.NEWOBJ_EX: _new_with_keywords,
        pickle.BUILD: Machine.build,
        pickle.BINPERSID: lambda m: m.push(m.persistent(m.pop())),
        pickle.BINPUT: lambda m: m.remember(m.number("<B")),
        pickle.LONG_BINPUT: lambda m: m.remember(m.number("<I")),
        pickle.MEMOIZE: lambda m: m.remember(len(m.memo)),
        pickle.BINGET: lambda m: m.recall(m.number("<B")),
        pickle.LONG_BINGET: lambda m: m.recall(m.number("<I")),
    }.items()
}


def void(_: object) -> None:
    """For opcodes whose value is not needed."""


def _unknown(code: int, at: int) -> Refused:
    name = next((op.name for op in pickletools.opcodes if ord(op.code) == code), None)
    if name is None:
        return Refused(f"the pickle is damaged: {code:#04x} at byte {at} is no opcode")
    return Refused(f"{ADVICE} The opcode {name} at byte {at} of the pickle is not supported.")


def load(data: bytes, persistent: Callable[[Any], Any], encoding: str = "utf-8", at: int = 0) -> tuple[Any, int]:
    """The object of the pickle that begins at a place, and where the pickle ends."""
    m = Machine(data, persistent, encoding, at)
    try:
        return m.run(), m.at
    except (UnicodeError, RecursionError, MemoryError, OverflowError, struct.error) as error:
        raise Refused(f"the pickle is damaged near byte {m.at}: {type(error).__name__}: {brief(error)}") from error


def globals_named(data: bytes) -> Iterator[tuple[str, str]]:
    """Every name (module, name) that a pickle looks up, found without running anything."""
    texts: list[str] = []
    memo: dict[int, str | None] = {}
    last: str | None = None  # the text that the opcode before put on the stack
    argument: Any
    for code, argument, _ in pickletools.genops(data):
        if code.name == "MEMOIZE":
            memo[len(memo)] = last
            continue
        if code.name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = last
            continue
        last = memo.get(argument) if code.name in ("BINGET", "LONG_BINGET") else None
        if code.name in ("GLOBAL", "INST"):
            module, _, name = argument.partition(" ")
            yield module, name
        elif code.name == "STACK_GLOBAL" and len(texts) >= 2:
            yield texts[-2], texts[-1]
        elif isinstance(argument, str):
            last = argument
        if last is not None:
            texts.append(last)


def unsafe_globals(data: bytes) -> list[str]:
    """Those names that `weights_only=True` would refuse, in order."""
    found: dict[str, None] = {}
    try:
        for module, name in globals_named(data):
            try:
                safe.allowed(module, name)
            except KeyError:
                found[f"{module}.{name}"] = None
    except (ValueError, IndexError, struct.error) as error:  # what pickletools raises for a damaged pickle
        raise Refused(f"the pickle is damaged: {brief(error)}") from error
    return list(found)


__all__ = ["Machine", "Refused", "globals_named", "load", "unsafe_globals"]
