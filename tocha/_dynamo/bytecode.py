"""Code objects as lists of instructions and back: names instead of numbers, jumps as references. Python 3.11 to 3.13."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

VERSION = sys.version_info[:2]
_FAST_PAIRS = ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST")


@dataclass(eq=False, repr=False, slots=True)
class Instruction:
    """`arg` is the raw number, except for locals and cells, where it is the variable's name, and constants, the object."""

    name: str
    arg: Any = None
    target: Instruction | None = None
    positions: tuple[int | None, int | None, int | None, int | None] | None = None
    offset: int = -1

    def __repr__(self) -> str:
        shown = f" -> {self.target.offset}" if self.target else "" if self.arg is None else f" {self.arg!r}"
        return f"<{self.offset}: {self.name}{shown}>"


@dataclass(eq=False, repr=False, slots=True)
class Handler:
    """A row of the exception table: instructions from start to end (included) are covered."""

    start: Instruction
    end: Instruction
    target: Instruction
    depth: int
    lasti: bool


@dataclass(eq=False, repr=False, slots=True)
class Body:
    """A function's instructions, with what a code object keeps beside them."""

    instructions: list[Instruction]
    handlers: list[Handler] = field(default_factory=list)


def caches_of(opcode: int) -> int:
    entries = dis._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(entries, dict):
        return entries.get(dis.opname[opcode], 0)
    return entries[opcode]


_LOCALS = {dis.opmap[n] for n in dis.opmap if "_FAST" in n and n not in _FAST_PAIRS}
_CELLS = {dis.opmap[n] for n in ("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "MAKE_CELL", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_CLOSURE") if n in dis.opmap}  # fmt: skip
_CONSTANTS = {dis.opmap[n] for n in ("LOAD_CONST", "RETURN_CONST", "KW_NAMES") if n in dis.opmap}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def fast_names(code: types.CodeType) -> tuple[str, ...]:
    """The variables in the order in which instructions number them."""
    cells = tuple(c for c in code.co_cellvars if c not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


def decode(code: types.CodeType) -> Body:
    names, raw = fast_names(code), code.co_code
    positions = list(code.co_positions())
    found: list[Instruction] = []
    by_offset: dict[int, Instruction] = {}
    jumps: list[tuple[Instruction, int]] = []
    i, extended, start = 0, 0, 0
    while i < len(raw):
        opcode, arg = raw[i], raw[i + 1] | extended
        if dis.opname[opcode] == "EXTENDED_ARG":
            extended = arg << 8
            i += 2
            continue
        extended = 0
        name = dis.opname[opcode]
        instruction = Instruction(name, arg if opcode >= dis.HAVE_ARGUMENT else None, None, positions[i // 2], i)
        after = i + 2 + 2 * caches_of(opcode)
        if opcode in _JUMPS:
            jumps.append((instruction, after + 2 * (-arg if "BACKWARD" in name else arg)))
        elif name in _FAST_PAIRS:
            instruction.arg = (names[arg >> 4], names[arg & 15])
        elif opcode in _LOCALS or opcode in _CELLS:
            instruction.arg = names[arg]
        elif opcode in _CONSTANTS:
            instruction.arg = code.co_consts[arg]
        found.append(instruction)
        for at in range(start, i + 2, 2):  # a jump may lead to the EXTENDED_ARG before it
            by_offset[at] = instruction
        i = start = after
    for instruction, offset in jumps:
        instruction.target = by_offset[offset]
    ends = {found[k].offset: found[k - 1] for k in range(1, len(found))}
    handlers = []
    for start_at, end_at, target, depth, lasti in read_exception_table(code.co_exceptiontable):
        last = ends.get(by_offset[end_at].offset, found[-1]) if end_at in by_offset else found[-1]
        handlers.append(Handler(by_offset[start_at], last, by_offset[target], depth, lasti))
    return Body(found, handlers)


_TO_BOOL = 16  # in the argument of 3.13's COMPARE_OP: its result is turned into a bool


def decode_apart(code: types.CodeType) -> Body:
    """Decoded, with a comparison and asking for its truth as two instructions: of tensors, the first is part of a graph."""
    body = decode(code)
    if VERSION < (3, 13):
        return body
    found: list[Instruction] = []
    last: dict[int, Instruction] = {}
    for i in body.instructions:
        found.append(i)
        if i.name == "COMPARE_OP" and i.arg & _TO_BOOL:
            i.arg &= ~_TO_BOOL
            last[id(i)] = Instruction("TO_BOOL", 0, None, i.positions, i.offset)
            found.append(last[id(i)])
    handlers = [Handler(h.start, last.get(id(h.end), h.end), h.target, h.depth, h.lasti) for h in body.handlers]
    return Body(found, handlers)


# ---- the exception table: numbers in groups of six bits, the first of an entry marked


def read_exception_table(table: bytes) -> list[tuple[int, int, int, int, bool]]:
    numbers: list[int] = []
    i = 0
    while i < len(table):
        value = table[i] & 63
        while table[i] & 64:
            i += 1
            value = value << 6 | table[i] & 63
        numbers.append(value)
        i += 1
    rows = []
    for k in range(0, len(numbers), 4):
        start, length, target, depth = numbers[k : k + 4]
        rows.append((2 * start, 2 * (start + length), 2 * target, depth >> 1, bool(depth & 1)))
    return rows


def _six_bits(value: int, mark: int) -> bytes:
    groups = [value & 63]
    while value := value >> 6:
        groups.append(value & 63)
    groups = [g | 64 for g in groups[:0:-1]] + [groups[0]]
    groups[0] |= mark
    return bytes(groups)


def write_exception_table(rows: Iterable[tuple[int, int, int, int, bool]]) -> bytes:
    out = b""
    for start, end, target, depth, lasti in rows:
        out += _six_bits(start // 2, 128) + _six_bits((end - start) // 2, 0)
        out += _six_bits(target // 2, 0) + _six_bits(depth << 1 | lasti, 0)
    return out


# ---- the line table (PEP 626, "locations" of CPython): one entry for up to eight units


def _varint(value: int) -> bytes:
    out = b""
    while value >= 64:
        out += bytes([64 | value & 63])
        value >>= 6
    return out + bytes([value])


def _signed(value: int) -> bytes:
    return _varint((-value << 1) | 1 if value < 0 else value << 1)


def write_line_table(places: Iterable[tuple[tuple | None, int]], first_line: int) -> bytes:
    """From (positions, number of code units) of each instruction."""
    out, line = b"", first_line
    for position, units in places:
        while units > 0:
            piece = min(units, 8)
            units -= piece
            if not position or position[0] is None:
                out += bytes([128 | 15 << 3 | piece - 1])
                continue
            start, end, column, end_column = position
            if end is None or column is None or end_column is None:
                out += bytes([128 | 13 << 3 | piece - 1]) + _signed(start - line)
            else:
                out += bytes([128 | 14 << 3 | piece - 1]) + _signed(start - line)
                out += _varint(end - start) + _varint(column + 1) + _varint(end_column + 1)
            line = start
    return out


# ---- assembling


class _Constants:
    """Numbers for constants: by identity, so that 1, True and 1.0 stay what they are."""

    def __init__(self, first: tuple) -> None:
        self.items = list(first)
        self.index = {id(c): i for i, c in reversed(list(enumerate(first)))}

    def number(self, value: object) -> int:
        if id(value) not in self.index:
            self.index[id(value)] = len(self.items)
            self.items.append(value)
        return self.index[id(value)]


class Names:
    """Numbers for the names of attributes and globals."""

    def __init__(self, first: tuple[str, ...]) -> None:
        self.items = list(first)
        self.index = {n: i for i, n in enumerate(first)}

    def number(self, name: str) -> int:
        if name not in self.index:
            self.index[name] = len(self.items)
            self.items.append(name)
        return self.index[name]


def _units(arg: int) -> int:
    return 1 + (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF)


def _encode(instructions: list[Instruction], constants: _Constants, fast: dict[str, int]) -> list[int]:
    args = []
    for i in instructions:
        opcode = dis.opmap[i.name]
        if i.name in _FAST_PAIRS:
            args.append(fast[i.arg[0]] << 4 | fast[i.arg[1]])
        elif opcode in _LOCALS or opcode in _CELLS:
            args.append(fast[i.arg])
        elif opcode in _CONSTANTS:
            args.append(constants.number(i.arg))
        else:
            args.append(i.arg or 0)
    return args


def split_wide_pairs(instructions: list[Instruction], fast: dict[str, int]) -> list[Instruction]:
    """Instructions on two locals number them with four bits each: where that does not do, they become two."""
    out = []
    for i in instructions:
        if i.name in _FAST_PAIRS and max(fast[i.arg[0]], fast[i.arg[1]]) > 15:
            first, second = i.name.split("_FAST")[0], i.name.split("_FAST_")[1].removesuffix("_FAST")
            other = Instruction(f"{second}_FAST", i.arg[1], None, i.positions)
            i.name, i.arg = f"{first}_FAST", i.arg[0]
            out += [i, other]
        else:
            out.append(i)
    return out


def assemble(
    body: Body, code: types.CodeType, *, fast: tuple[str, ...], names: tuple[str, ...], **changes: Any
) -> types.CodeType:
    """`code` with this body; `fast` are its variables in order, `changes` go to code.replace."""
    constants = _Constants(code.co_consts[:1])
    numbers = {n: i for i, n in enumerate(fast)}
    instructions = split_wide_pairs(body.instructions, numbers)
    args = _encode(instructions, constants, numbers)
    opcodes = [dis.opmap[i.name] for i in instructions]
    caches = [caches_of(o) for o in opcodes]
    place = {id(i): k for k, i in enumerate(instructions)}
    width = [_units(a) for a in args]
    settled = False
    while not settled:  # a jump that needs more bytes moves what follows it
        offsets, at = [], 0
        for units, cache in zip(width, caches):
            offsets.append(at)
            at += 2 * (units + cache)
        ends = [o + 2 * (w + c) for o, w, c in zip(offsets, width, caches)]
        settled = True
        for k, i in enumerate(instructions):
            if i.target is None:
                continue
            distance = (offsets[place[id(i.target)]] - ends[k]) // 2
            args[k] = -distance if "BACKWARD" in i.name else distance
            assert args[k] >= 0, f"a jump the wrong way: {i}"
            if _units(args[k]) > width[k]:
                width[k], settled = _units(args[k]), False
    raw = b""
    for opcode, arg, units, cache in zip(opcodes, args, width, caches):
        for shift in range(8 * (units - 1), 0, -8):
            raw += bytes([dis.opmap["EXTENDED_ARG"], arg >> shift & 0xFF])
        raw += bytes([opcode, arg & 0xFF]) + bytes(2 * cache)
    rows = [(offsets[place[id(h.start)]], ends[place[id(h.end)]], offsets[place[id(h.target)]], h.depth, h.lasti) for h in body.handlers]  # fmt: skip
    lines = write_line_table(
        ((i.positions, (e - o) // 2) for i, o, e in zip(instructions, offsets, ends)), code.co_firstlineno
    )
    return code.replace(
        co_code=raw,
        co_consts=tuple(constants.items),
        co_names=names,
        co_linetable=lines,
        co_exceptiontable=write_exception_table(rows),
        **changes,
    )


def stack_size(body: Body) -> int:
    """The deepest that the stack gets, over all ways through the instructions."""
    place = {id(i): k for k, i in enumerate(body.instructions)}
    depth_at = [-1] * len(body.instructions)
    work = [(0, 0)]
    deepest = 0
    while work:
        k, depth = work.pop()
        while k < len(body.instructions) and depth > depth_at[k]:
            depth_at[k] = depth
            i = body.instructions[k]
            opcode = dis.opmap[i.name]
            plain = isinstance(i.arg, int) and i.name not in ("LOAD_CONST", "RETURN_CONST")  # whose arg is the object
            arg = None if opcode < dis.HAVE_ARGUMENT else i.arg if plain else 0
            for h in body.handlers:
                if place[id(h.start)] <= k <= place[id(h.end)]:
                    work.append((place[id(h.target)], h.depth + h.lasti + 1))
            if i.target is not None:
                work.append((place[id(i.target)], depth + dis.stack_effect(opcode, arg, jump=True)))
            depth += dis.stack_effect(opcode, arg, jump=False) + (i.name == "RETURN_GENERATOR")  # what is sent first
            deepest = max(deepest, depth, depth_at[k])
            if i.name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE") or i.name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD")):  # fmt: skip
                break
            k += 1
    return deepest + 2
