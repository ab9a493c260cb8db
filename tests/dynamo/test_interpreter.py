"""What else works inside the interpreter works while functions are compiled: coroutines, threads, tracing, debuggers."""

import asyncio
import bdb
import contextlib
import faulthandler
import io
import sys
import threading
import trace

import pytest
from comparing import same

import tocha
from tocha._dynamo.testing import CompileCounter

ONES = tocha.ones(2)


def plain(x, k):
    y = x.sin()
    if k > 1:
        y = y * k
    return y + 1


def test_coroutines_call_compiled_functions_and_are_called_by_them():
    counter = CompileCounter()
    f = tocha.compile(plain, backend=counter)

    async def one(k):
        await asyncio.sleep(0)
        found = f(ONES, k)
        await asyncio.sleep(0)
        return found

    async def several():
        return await asyncio.gather(*(one(k) for k in (1, 2, 2, 1)))

    assert same(list(asyncio.run(several())), [plain(ONES, k) for k in (1, 2, 2, 1)])
    assert counter.frame_count == 2


def test_a_compiled_function_makes_coroutines_and_generators():
    async def later(x):
        return x * 2

    def agen(x):
        yield x + 1
        return x

    def f(x):
        return later(x + 1), agen(x * 3)

    coroutine, generator = tocha.compile(f, backend="eager")(ONES)
    assert same(asyncio.run(coroutine), (ONES + 1) * 2) and same(list(generator), [ONES * 3 + 1])


def test_a_compiled_coroutine_function():
    async def f(x):
        y = x.sin()
        await asyncio.sleep(0)
        return y + 1

    assert same(asyncio.run(tocha.compile(f, backend="eager")(ONES)), ONES.sin() + 1)


def test_threads_capture_and_run_side_by_side():
    f, found, errors = tocha.compile(plain, backend="eager"), {}, []

    def work(k):
        try:
            for _ in range(20):
                found[k] = f(ONES, k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and all(same(found[k], plain(ONES, k)) for k in range(6))


def test_a_thread_started_in_compiled_code_is_not_captured():
    seen = []

    def work(x):
        seen.append(tocha.compiler.is_compiling())

    def f(x):
        t = threading.Thread(target=work, args=(x,))
        t.start()
        t.join()
        return x + 1

    assert same(tocha.compile(f, backend="eager")(ONES), ONES + 1) and seen == [False]


def test_tracing_sees_the_lines_of_what_runs_uncaptured():
    def rest(x):
        value = 1
        return value

    f = tocha.compile(lambda x: tocha._dynamo.disable(rest)(x + 1), backend="eager")
    f(ONES)
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code is rest.__code__:
            seen.append((event, frame.f_lineno - rest.__code__.co_firstlineno))
        return tracer

    sys.settrace(tracer)
    try:
        assert f(ONES) == 1
    finally:
        sys.settrace(None)
    assert seen == [("call", 0), ("line", 1), ("line", 2), ("return", 2)]


def test_capturing_while_tracing():
    sys.settrace(lambda frame, event, arg: None)
    try:
        assert same(tocha.compile(plain, backend="eager")(ONES, 2), plain(ONES, 2))
    finally:
        sys.settrace(None)


def test_profiling_counts_calls():
    f, events = tocha.compile(plain, backend="eager"), []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        found = f(ONES, 2)
    finally:
        sys.setprofile(None)
    assert same(found, plain(ONES, 2)) and events


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_monitoring_sees_lines():
    def rest(x):
        value = 1
        return value

    f = tocha.compile(lambda x: tocha._dynamo.disable(rest)(x + 1), backend="eager")
    f(ONES)
    tool, seen = sys.monitoring.DEBUGGER_ID, []
    sys.monitoring.use_tool_id(tool, "test")
    try:
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, lambda code, line: seen.append(line - code.co_firstlineno))  # fmt: skip
        sys.monitoring.set_local_events(tool, rest.__code__, sys.monitoring.events.LINE)
        assert f(ONES) == 1
    finally:
        sys.monitoring.set_local_events(tool, rest.__code__, 0)
        sys.monitoring.free_tool_id(tool)
    assert seen == [1, 2]


def test_a_debugger_stops_at_a_breakpoint():
    def rest(x):
        value = 1
        return value

    f, stops = tocha.compile(lambda x: tocha._dynamo.disable(rest)(x + 1), backend="eager"), []

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            if frame.f_code is rest.__code__:
                stops.append(frame.f_locals.get("value"))
            self.set_continue() if len(stops) > 1 else self.set_step()

    debugger = Debugger()
    debugger.set_break(__file__, rest.__code__.co_firstlineno + 2)
    found = debugger.runcall(f, ONES)
    assert found == 1 and 1 in stops


def test_line_coverage():
    counted = trace.Trace(count=1, trace=0)
    f = tocha.compile(plain, backend="eager")
    with contextlib.redirect_stdout(io.StringIO()):
        assert same(counted.runfunc(f, ONES, 2), plain(ONES, 2))


def test_faulthandler_prints_the_stack_of_compiled_code(tmp_path):
    with (tmp_path / "stack").open("w+") as file:

        @tocha._dynamo.disable
        def dump(x):
            faulthandler.dump_traceback(file)
            return x

        def compiled_frame(x):
            return dump(x + 1) * 2

        assert same(tocha.compile(compiled_frame, backend="eager")(ONES), ONES * 4)
        file.seek(0)
        assert "in compiled_frame" in file.read()


def test_the_hook_is_gone_when_nothing_compiled_runs():
    f = tocha.compile(plain, backend="eager")
    f(ONES, 2)
    assert tocha._C._capture.get_callback() is None

    def fails(x):
        raise KeyError(tocha._C._capture.get_callback() is not None)

    with pytest.raises(KeyError):
        tocha.compile(fails, backend="eager")(ONES)
    assert tocha._C._capture.get_callback() is None


def test_tracebacks_show_the_program_s_lines():
    def inner(x):
        raise ValueError("inside")

    def outer(x):
        y = x + 1
        return inner(y)

    with pytest.raises(ValueError, match="inside") as raised:
        tocha.compile(outer, backend="eager")(ONES)
    names = [entry.name for entry in raised.traceback]
    assert "outer" in names and "inner" in names


def test_deep_recursion_ends_in_recursion_error():
    def down(x, n):
        return down(x + 1, n + 1)

    with pytest.raises(RecursionError):
        tocha.compile(down, backend="eager")(ONES, 0)
