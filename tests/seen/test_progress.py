"""The line of a compilation that takes long: on a terminal, and nowhere else."""

import io
import os
import pty
import subprocess
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


PROGRAM = """
import tocha
from tocha._logging import progress
progress.PATIENCE, progress.PERIOD = 0.0, 0.01
def f(x):
    for _ in range(100):
        x = (x + 1).sin()
    return x
tocha.compile(f)(tocha.ones(4))
"""


def test_a_real_terminal(tmp_path):
    """What a program writes to its terminal, and to a file."""
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "program.py")]
    ours, theirs = pty.openpty()
    started = subprocess.Popen(command, stderr=theirs, env=env)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert started.wait() == 0
    assert b"[tocha] " in said and b" f, " in said and said.endswith(b"\r\x1b[K")
    env["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "other")
    assert subprocess.run(command, env=env, check=True, capture_output=True).stderr == b""
