"""Variables of all kinds, attributes, imports."""

from __future__ import annotations

from typing import Any

from tocha._dynamo import imports
from tocha._dynamo.bytecode import VERSION
from tocha._dynamo.opcodes.registry import opcode
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.resume import cells_of
from tocha._dynamo.values.base import NULL, Unbound
from tocha._dynamo.values.functions import CellValue
from tocha._dynamo.values.objects import SuperValue


def load_local(f: Any, name: str) -> None:
    if name in f.cells:  # 3.13 pushes cells as it pushes locals
        f.push(f.cells[name])
        return
    if name not in f.locals:
        f.raise_(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")
    f.push(f.locals[name])


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(f: Any, i: Any) -> None:
    load_local(f, i.arg)


@opcode("LOAD_FAST_LOAD_FAST", since=(3, 13))
def load_fast_load_fast(f: Any, i: Any) -> None:
    load_local(f, i.arg[0])
    load_local(f, i.arg[1])


@opcode("STORE_FAST")
def store_fast(f: Any, i: Any) -> None:
    store_local(f, i.arg, f.stack.pop())


def store_local(f: Any, name: str, value: Any) -> None:
    if isinstance(value, Unbound):
        f.locals.pop(name, None)
    elif isinstance(value, CellValue) and name in cells_of(f.code):
        f.cells[name] = value  # a comprehension is over
        f.locals.pop(name, None)
    else:
        f.locals[name] = value


@opcode("STORE_FAST_MAYBE_NULL", since=(3, 12))
def store_fast_maybe_null(f: Any, i: Any) -> None:
    store_local(f, i.arg, f.stack.pop())


@opcode("STORE_FAST_STORE_FAST", since=(3, 13))
def store_fast_store_fast(f: Any, i: Any) -> None:
    store_local(f, i.arg[0], f.stack.pop())
    store_local(f, i.arg[1], f.stack.pop())


@opcode("STORE_FAST_LOAD_FAST", since=(3, 13))
def store_fast_load_fast(f: Any, i: Any) -> None:
    store_local(f, i.arg[0], f.stack.pop())
    load_local(f, i.arg[1])


@opcode("LOAD_FAST_AND_CLEAR", since=(3, 12))
def load_fast_and_clear(f: Any, i: Any) -> None:
    """A comprehension's variable hides a local or a cell of the same name until the stack gives that back."""
    f.push(f.cells.pop(i.arg, None) or f.locals.pop(i.arg, None) or Unbound())


@opcode("MAKE_CELL")
def make_cell(f: Any, i: Any) -> None:
    """Frames start with their cells made; a comprehension that is part of its function makes its own."""
    if i.arg not in f.cells:
        f.cells[i.arg] = f.out.new_cell(f.locals.pop(i.arg, None), i.arg)


@opcode("DELETE_FAST")
def delete_fast(f: Any, i: Any) -> None:
    if i.arg not in f.locals:
        f.raise_(UnboundLocalError, f"cannot access local variable '{i.arg}' where it is not associated with a value")
    del f.locals[i.arg]


@opcode("LOAD_GLOBAL")
def load_global(f: Any, i: Any) -> None:
    value = f.load_global(f.code.co_names[i.arg >> 1])
    if not i.arg & 1:
        f.push(value)
    elif VERSION < (3, 13):
        f.push(NULL)
        f.push(value)
    else:
        f.push(value)
        f.push(NULL)


@opcode("STORE_GLOBAL")
def store_global(f: Any, i: Any) -> None:
    f.out.global_writes[(id(f.globals), f.code.co_names[i.arg])] = f.pop()


@opcode("DELETE_GLOBAL")
def delete_global(f: Any, i: Any) -> None:
    raise Unsupported("mutation", "deleting a global")


@opcode("LOAD_DEREF")
def load_deref(f: Any, i: Any) -> None:
    f.push(f.load_cell(i.arg))


@opcode("STORE_DEREF")
def store_deref(f: Any, i: Any) -> None:
    f.cells[i.arg].set(f, f.pop())


@opcode("DELETE_DEREF")
def delete_deref(f: Any, i: Any) -> None:
    f.load_cell(i.arg)
    f.cells[i.arg].set(f, None)


@opcode("LOAD_CLOSURE")
def load_closure(f: Any, i: Any) -> None:
    f.push(f.cells[i.arg])


@opcode("LOAD_CLASSDEREF", until=(3, 11))
def load_classderef(f: Any, i: Any) -> None:
    f.push(f.names[i.arg] if f.names and i.arg in f.names else f.load_cell(i.arg))


@opcode("LOAD_NAME")
def load_name(f: Any, i: Any) -> None:
    name = f.code.co_names[i.arg]
    f.push(f.names[name] if f.names and name in f.names else f.load_global(name))


@opcode("STORE_NAME")
def store_name(f: Any, i: Any) -> None:
    if f.names is None:
        raise Unsupported("opcode", "STORE_NAME")
    f.names[f.code.co_names[i.arg]] = f.pop()


@opcode("LOAD_ATTR")
def load_attr(f: Any, i: Any) -> None:
    if VERSION < (3, 12):
        f.push(f.pop().get_attribute(f, f.code.co_names[i.arg]))
        return
    value = f.pop().get_attribute(f, f.code.co_names[i.arg >> 1])
    if not i.arg & 1:
        f.push(value)
    elif VERSION < (3, 13):
        f.push(NULL)
        f.push(value)
    else:
        f.push(value)
        f.push(NULL)


@opcode("LOAD_METHOD", until=(3, 11))
def load_method(f: Any, i: Any) -> None:
    owner = f.pop()
    f.push(NULL)
    f.push(owner.get_attribute(f, f.code.co_names[i.arg]))


@opcode("LOAD_SUPER_ATTR", since=(3, 12))
def load_super_attr(f: Any, i: Any) -> None:
    _, cls, owner = f.pop_many(3)
    value = SuperValue(cls.constant(), owner).get_attribute(f, f.code.co_names[i.arg >> 2])
    if not i.arg & 1:
        f.push(value)
    elif VERSION < (3, 13):
        f.push(NULL)
        f.push(value)
    else:
        f.push(value)
        f.push(NULL)


@opcode("STORE_ATTR")
def store_attr(f: Any, i: Any) -> None:
    value, owner = f.pop_many(2)
    owner.set_attribute(f, f.code.co_names[i.arg], value)


@opcode("DELETE_ATTR")
def delete_attr(f: Any, i: Any) -> None:
    f.pop().delete_attribute(f, f.code.co_names[i.arg])


@opcode("IMPORT_NAME")
def import_name(f: Any, i: Any) -> None:
    level, wanted = f.pop_many(2)
    f.push(imports.import_name(f, f.code.co_names[i.arg], wanted.constant() or (), level.constant()))


@opcode("IMPORT_FROM")
def import_from(f: Any, i: Any) -> None:
    f.push(imports.import_from(f, f.top(), f.code.co_names[i.arg]))
