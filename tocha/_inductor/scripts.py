"""A compiled graph as a Python file that runs by itself: its C++, and what the program needs beside it."""

from __future__ import annotations

import json
from typing import Any

HEAD = '''"""A compiled graph: `python` calls it on random inputs, and says how long a call takes."""

import json

import tocha
from tocha._dynamo.testing import rand_strided
from tocha._inductor.output_code import load, measure

inf, nan = float("inf"), float("nan")
SOURCE = {source}
'''
BODY = """# The operators that it calls, constants, and what its steps are called: as the cache on disk keeps them.
REST = json.loads({rest})
call = load(SOURCE, REST)


def get_args():
    return [
{given}
    ]


def benchmark_compiled_module(times=10, repeat=10):
    return measure(call, get_args, times, repeat)


if __name__ == "__main__":
    benchmark_compiled_module()
"""


def quoted(text: str) -> str:
    """A text as a literal that can be read, if it has one."""
    return f'r"""\n{text.strip()}\n"""' if '"""' not in text else repr(text)


def script_of(kept: dict[str, Any]) -> str:
    """Of a program in the form in which it is kept."""
    rest = {k: v for k, v in kept.items() if k not in ("source", "given")}
    given = "\n".join(f"        {text},  # {name}" for name, text in kept["given"])
    return HEAD.format(source=quoted(kept["source"])) + BODY.format(rest=quoted(json.dumps(rest)), given=given)


def script_without(source: str, reason: str) -> str:
    """Of one that has no such form."""
    missing = f"[output_code] this program does not run by itself: it has {reason}"
    return HEAD.format(source=quoted(source)) + f"raise SystemExit({missing!r})\n"
