"""Code objects survive being taken apart and put together."""

import argparse
import ast
import collections
import dis
import inspect
import types

import pytest

from tocha._dynamo.bytecode import assemble, decode, fast_names, read_exception_table, stack_size
from tocha._dynamo.opcodes import HANDLERS


def codes(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from codes(c)


@pytest.mark.parametrize("module", [argparse, ast, collections, dis, inspect], ids=lambda m: m.__name__)
def test_round_trip(module):
    for code in codes(compile(inspect.getsource(module), module.__file__, "exec")):
        body = decode(code)
        again = assemble(body, code, fast=fast_names(code), names=code.co_names)
        assert [i.name for i in decode(again).instructions] == [i.name for i in body.instructions]
        assert read_exception_table(again.co_exceptiontable) == read_exception_table(code.co_exceptiontable)
        assert list(again.co_positions()) == list(code.co_positions())
        assert stack_size(body) >= code.co_stacksize


def test_jumps_over_long_distances():
    lines = "\n".join(f"        y += {n}" for n in range(400))
    scope = {}
    exec(f"def f(x):\n    y = 0\n    while x:\n{lines}\n        x -= 1\n    return y", scope)
    code = scope["f"].__code__
    f = types.FunctionType(assemble(decode(code), code, fast=fast_names(code), names=code.co_names), {})
    assert f(2) == scope["f"](2)


# Of module and class bodies, of interactive use, and what the interpreter puts there itself.
NOT_OF_FUNCTIONS = {"PRINT_EXPR", "IMPORT_STAR", "SETUP_ANNOTATIONS", "DELETE_NAME", "INTERPRETER_EXIT", "RESERVED", "LOAD_LOCALS", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"}  # fmt: skip


def test_every_opcode_of_functions_has_a_handler():
    named = {n for n, code in dis.opmap.items() if code < 256 and not n.startswith("INSTRUMENTED")}
    assert named - set(HANDLERS) <= NOT_OF_FUNCTIONS
