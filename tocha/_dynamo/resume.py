"""Resume functions: the rest of a function after a graph break, as a function of the stack and of the variables in use."""

from __future__ import annotations

import types
from dataclasses import dataclass

from tocha._dynamo.bytecode import Body, Handler, Instruction, assemble, decode_apart
from tocha._dynamo.codegen import code_flags

_ENDS = (
    "RETURN_VALUE",
    "RETURN_CONST",
    "RAISE_VARARGS",
    "RERAISE",
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
)


@dataclass(frozen=True)
class Resumption:
    """Where to go on (an instruction's number), with what on the stack (False: a NULL, HELD: in a list), and which locals."""

    at: int
    stack: tuple[bool | str, ...]
    locals: tuple[str, ...]
    first: str | None = None  # what super() without arguments takes, as the first argument


# An exception comes in a list, out of which the rest takes it: whoever calls holds on to what it calls with, and an exception
# to the frames it came through.
HELD = "held"
FIRST = "___first"  # an argument whose own variable is a cell
_SHOWING = frozenset({"locals", "vars", "dir", "eval", "exec"})
_MADE: dict[int, tuple[types.CodeType, dict[Resumption, types.CodeType]]] = {}
_RESUMES: dict[int, types.CodeType] = {}  # a resume function's code -> the function's own, by id; kept alive below


def forget() -> None:
    _MADE.clear()
    _RESUMES.clear()


def is_resume(code: types.CodeType) -> bool:
    return id(code) in _RESUMES


def first_argument(code: types.CodeType) -> str | None:
    """The variable that super() without arguments reads, unseen by any instruction."""
    return code.co_varnames[0] if "super" in code.co_names and "__class__" in code.co_freevars and code.co_argcount else None  # fmt: skip


def shows_locals(code: types.CodeType) -> bool:
    """May it ask for all of its variables, by calling locals() and its kin?"""
    return not _SHOWING.isdisjoint(code.co_names)


def original(code: types.CodeType) -> types.CodeType:
    """The function's own code, of a resume function."""
    while id(code) in _RESUMES:
        code = _RESUMES[id(code)]
    return code


def cells_of(code: types.CodeType) -> tuple[str, ...]:
    return (*code.co_cellvars, *code.co_freevars)


def resume_code(code: types.CodeType, how: Resumption) -> types.CodeType:
    """Made once, so that guards of one break do not compile the rest anew."""
    kept, made = _MADE.setdefault(id(code), (code, {}))
    assert kept is code
    if how not in made:
        made[how] = _make(code, how)
        _RESUMES[id(made[how])] = code
    return made[how]


def _make(code: types.CodeType, how: Resumption) -> types.CodeType:
    body = decode_apart(code)
    cells = cells_of(code)
    stack = [f"___stack{k}" for k, real in enumerate(how.stack) if real]
    taken = [*([how.first] if how.first else []), *stack, *how.locals]
    others = [n for n in code.co_varnames if n not in taken and n not in cells]
    start: list[Instruction] = [Instruction("COPY_FREE_VARS", len(cells))] if cells else []
    start.append(Instruction("RESUME", 0))
    for k, real in enumerate(how.stack):
        start.append(Instruction("LOAD_FAST", f"___stack{k}") if real else Instruction("PUSH_NULL"))
        if real == HELD:
            start += [Instruction("LOAD_CONST", 0), Instruction("BINARY_SUBSCR", 0)]
            start += [
                Instruction("LOAD_FAST", f"___stack{k}"),
                Instruction("LOAD_CONST", 0),
                Instruction("DELETE_SUBSCR", 0),
            ]
        if real and shows_locals(code):
            start.append(Instruction("DELETE_FAST", f"___stack{k}"))
    start.append(Instruction("JUMP_FORWARD", 0, body.instructions[how.at]))
    # Cells come from outside; those that a comprehension makes for itself come after RESUME.
    begun = next(k for k, i in enumerate(body.instructions) if i.name == "RESUME")
    rest = [i for i in body.instructions[:begun] if i.name not in ("MAKE_CELL", "COPY_FREE_VARS")] + body.instructions[
        begun:
    ]
    varnames = (*taken, *others)
    return assemble(
        Body([*start, *rest], body.handlers),
        code,
        fast=(*varnames, *cells),
        names=code.co_names,
        co_varnames=varnames,
        co_nlocals=len(varnames),
        co_cellvars=(),
        co_freevars=cells,
        co_argcount=len(taken),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code_flags(code),
        co_stacksize=code.co_stacksize + len(how.stack) + 2,
        co_name=code.co_name,
    )


# ---- liveness


def _uses(i: Instruction) -> tuple[set[str], set[str]]:
    """Locals that an instruction reads and writes, in that order (reads first)."""
    match i.name:
        case "LOAD_FAST" | "LOAD_FAST_CHECK" | "DELETE_FAST" | "LOAD_FAST_AND_CLEAR":
            return {i.arg}, set()
        case "STORE_FAST" | "STORE_FAST_MAYBE_NULL":
            return set(), {i.arg}
        case "LOAD_FAST_LOAD_FAST":
            return {*i.arg}, set()
        case "STORE_FAST_STORE_FAST":
            return set(), {*i.arg}
        case "STORE_FAST_LOAD_FAST":
            return {i.arg[1]} - {i.arg[0]}, {i.arg[0]}
    return set(), set()


def live_locals(body: Body, at: int) -> set[str]:
    """Locals whose value at that instruction may still be read."""
    instructions = body.instructions
    place = {id(i): k for k, i in enumerate(instructions)}
    after: list[list[int]] = []
    for k, i in enumerate(instructions):
        nexts = [place[id(i.target)]] if i.target is not None else []
        if i.name not in _ENDS and k + 1 < len(instructions):
            nexts.append(k + 1)
        after.append(nexts)
    for h in body.handlers:
        for k in range(place[id(h.start)], place[id(h.end)] + 1):
            after[k].append(place[id(h.target)])
    live: list[set[str]] = [set() for _ in instructions]
    changed = True
    while changed:
        changed = False
        for k in range(len(instructions) - 1, -1, -1):
            reads, writes = _uses(instructions[k])
            found = reads | (set().union(*(live[n] for n in after[k])) - writes if after[k] else set())
            if found != live[k]:
                live[k] = found
                changed = True
    return live[at]


def in_loop(body: Body, at: int) -> bool:
    """Is the instruction inside a loop?"""
    place = {id(i): k for k, i in enumerate(body.instructions)}
    return any(
        i.target is not None and "BACKWARD" in i.name and place[id(i.target)] <= at <= k
        for k, i in enumerate(body.instructions)
    )


__all__ = ["Handler", "Resumption", "cells_of", "first_argument", "forget", "in_loop", "is_resume", "live_locals", "original", "resume_code", "shows_locals"]  # fmt: skip
