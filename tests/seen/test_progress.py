"""The line of a compilation that takes long: on a terminal, and nowhere else."""

import io
import sys
import time

from tocha._logging import events, progress
from tocha._logging.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def compile_slowly(listener):
    code = compile_slowly.__code__
    with events.listening(listener, thorough=False):
        events.tell(events.CaptureBegan(code))
        with events.stage("capture"), events.stage("c++"):
            time.sleep(0.2)


def test_a_line_that_goes_away(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    monkeypatch.setattr(progress, "PERIOD", 0.02)
    monkeypatch.setattr(sys, "stderr", Terminal())
    compile_slowly(Progress())
    said = sys.stderr.getvalue()
    assert "[tocha] compiling C++ compile_slowly" in said
    assert said.endswith("\r\x1b[K")


def test_short_ones_say_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    compile_slowly(Progress())
    assert sys.stderr.getvalue() == ""


def test_nothing_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    compile_slowly(Progress())
    assert sys.stderr.getvalue() == ""


def test_nothing_where_it_is_not_wanted(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TOCHA_PROGRESS", "0")
    monkeypatch.setattr(sys, "stderr", Terminal())
    compile_slowly(Progress())
    assert sys.stderr.getvalue() == ""
