"""CPython's own tests of the language with every function compiled: how many of those that pass plainly still pass.

    python tools/language_tests.py                      # the files named in FILES
    python tools/language_tests.py test_dict -v         # one of them, with what failed

A file of the interpreter's `test` package runs twice, in processes of their own: as it is, and with each test method under
tocha.compile(backend="eager"). Capture takes the test's frames, the functions they call and the resume functions in between.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

FILES = ("test_generators", "test_contextlib", "test_dict", "test_list", "test_exceptions", "test_functools", "test_itertools")  # fmt: skip
AT_LEAST = 0.9
# Tests that change what the tracer itself stands on: they count as failed.
NOT_RUN = {"test_lru_reentrancy_with_len": "replaces builtins.len by one that lists cannot be given to"}
# Tests that are known to fail (of Python 3.11), and why.
_HELD = "frames that wait for the rest of a function hold what it was called with, so that it dies later"
_KEYS = "what __hash__ and __eq__ of keys do to the dict itself is not replayed step by step"
NAMED = {
    "ContextManagerTestCase.test_nokeepref": _HELD,
    "ExceptionTests.testExceptionCleanupState": _HELD,
    "ExceptionTests.test_3114": _HELD,
    "ExceptionTests.test_generator_close_cleanup_exc_state": _HELD,
    "ExceptionTests.test_generator_del_cleanup_exc_state": _HELD,
    "ExceptionTests.test_generator_next_cleanup_exc_state": _HELD,
    "ExceptionTests.test_generator_send_cleanup_exc_state": _HELD,
    "ExceptionTests.test_generator_throw_cleanup_exc_state": _HELD,
    "ExceptionTests.test_unraisable": _HELD,
    "FinalizationTest.test_frame_resurrect": _HELD,
    "TestLRUC.test_lru_cache_weakrefable": _HELD,
    "TestLRUPy.test_lru_cache_weakrefable": _HELD,
    "TestPartialC.test_weakref": _HELD,
    "TestPartialCSubclass.test_weakref": _HELD,
    "TestPartialPy.test_weakref": _HELD,
    "TestPartialPySubclass.test_weakref": _HELD,
    "TestBasicOps.test_zip_longest_tuple_reuse": "tuples of zip are new objects, each of its own identity",
    "TestBasicOps.test_zip_tuple_reuse": "tuples of zip are new objects, each of its own identity",
    "DictTest.test_equal_operator_modifying_operand": _KEYS,
    "DictTest.test_oob_indexing_dictiter_iternextitem": _KEYS,
    "DictTest.test_pop": _KEYS,
    "DictTest.test_resize2": _KEYS,
    "DictTest.test_setdefault": _KEYS,
    "DictTest.test_fromkeys": "fromkeys of subclasses whose __new__ returns something else",
    "DictTest.test_views_mapping": "the type of a class's __dict__",
    "TestCachedProperty.test_immutable_dict": "a metaclass with __slots__",
    "TestSingleDispatch.test_cache_invalidation": "a dictionary of the standard library is replaced while it is in use",
    "TestLRUC.test_lru_reentrancy_with_len": NOT_RUN["test_lru_reentrancy_with_len"],
    "TestLRUPy.test_lru_reentrancy_with_len": NOT_RUN["test_lru_reentrancy_with_len"],
}
LIMIT = 60  # seconds of the processor's time for one test: a test that takes longer has failed


def methods(suite: Any) -> list[Any]:
    if isinstance(suite, unittest.TestSuite):
        return [m for part in suite for m in methods(part)]
    return [suite]


def everything_is_captured() -> None:
    """Without this only frames that have to do with tensors are captured, and none of the standard library."""
    from tocha._dynamo import convert

    convert.worth = lambda *args: True  # type: ignore[assignment]
    plain = convert.is_user_code

    def is_user_code(code: types.CodeType) -> bool:
        return plain(code) or f"{os.sep}test{os.sep}test_" in code.co_filename

    convert.is_user_code = is_user_code


def compiled(case: Any) -> None:
    import tocha

    name = case._testMethodName
    method = getattr(type(case), name)
    wrapped = tocha.compile(method, backend="eager")
    setattr(case, name, types.MethodType(wrapped, case))


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"{LIMIT} seconds of the processor's time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_here(file: str, compile_: bool, only: str | None) -> dict[str, str]:
    """Each test's name and how it ended: ok, or the last line of what was wrong."""
    module = importlib.import_module(f"test.{file}")
    cases = [c for c in methods(unittest.defaultTestLoader.loadTestsFromModule(module)) if hasattr(c, "_testMethodName") and type(c).__module__ == module.__name__]  # fmt: skip
    if compile_:
        everything_is_captured()
    from tocha import _dynamo

    ended = {}
    for case in cases:
        name = f"{type(case).__qualname__}.{case._testMethodName}"
        if only and only not in name:
            continue
        if compile_ and case._testMethodName in NOT_RUN:
            ended[name] = NOT_RUN[case._testMethodName]
            continue
        print(f"-> {name}", file=sys.stderr, flush=True)
        if compile_:
            _dynamo.reset()
            compiled(case)
        result = unittest.TestResult()
        with contextlib.redirect_stdout(io.StringIO()), limited():
            unittest.TestSuite([case]).run(result)
        wrong = [*result.failures, *result.errors]
        ended[name] = wrong[0][1] if wrong else "skipped" if result.skipped else "ok"
    return ended


def run_apart(file: str, compile_: bool, only: str | None = None) -> dict[str, str]:
    """In a process of its own. A test that ends the process is found by its trace, and left out of the next try."""
    command = [sys.executable, __file__, file, "--here", *(["--compiled"] if compile_ else []), *(["--only", only] if only else [])]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    last = [line for line in done.stderr.splitlines() if line.startswith("-> ")]
    return {"crashed": f"exit status {done.returncode} in {last[-1][3:] if last else '?'}: {done.stderr[-800:]}"}


def compare(file: str, verbose: bool, only: str | None) -> bool:
    plain = run_apart(file, False, only)
    other = run_apart(file, True, only)
    good = [name for name, how in plain.items() if how == "ok"]
    kept = [name for name in good if other.get(name) == "ok"]
    share = len(kept) / max(1, len(good))
    unnamed = sorted(set(good) - set(kept) - set(NAMED)) if sys.version_info[:2] == (3, 11) else []
    print(f"{file:18} {len(kept):4} / {len(good):4}  {share:.0%}" + (f"  {other['crashed']}" if "crashed" in other else ""), flush=True)  # fmt: skip
    if verbose:
        for name in good:
            if other.get(name) != "ok":
                print(
                    f"  {name}\n" + "\n".join(f"    {line}" for line in other.get(name, "not run").splitlines()[-12:])
                )
    if unnamed:
        print(f"  fail and are not named: {', '.join(unnamed)}")
    return share >= AT_LEAST and not unnamed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--only", help="tests whose name contains this")
    parser.add_argument("--here", action="store_true", help="run one file in this process")
    parser.add_argument("--compiled", action="store_true")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(run_here(options.files[0], options.compiled, options.only)))
        return
    enough = [compare(file, options.verbose, options.only) for file in options.files]
    sys.exit(not all(enough))


if __name__ == "__main__":
    main()
