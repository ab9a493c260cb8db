"""Compilers that are not there or do not work, and disks that take nothing: what is said, and what runs all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tocha._inductor import codecache, store

PROGRAM = """
import sys, warnings
import tocha
from tocha._inductor import config
config.fallback_to_eager = "fall back" in sys.argv
x = tocha.ones(3, requires_grad=True)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    result = tocha.compile(lambda x: x * 2.5 + 1, backend="inductor")(x)
    result.sum().backward()
print(result.tolist(), x.grad.tolist(), *("operator by operator" in str(w.message) for w in said))
"""


def run(tmp_path, *arguments, **environment):
    around = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), **os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, env={k: v for k, v in around.items() if v}
    )  # fmt: skip


def script(tmp_path, text):
    path = tmp_path / "c++"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


VERSION = 'if [ "$1" = --version ]; then echo "c++ 1"; exit 0; fi'
MISSING = {
    "nothing": lambda _: ({"PATH": "/nonexistent", "CXX": ""}, "no C++ compiler found"),
    "no such program": lambda _: ({"CXX": "no-such-compiler"}, "CXX is 'no-such-compiler', which is not there"),
    "no compiler": lambda t: ({"CXX": script(t, "exit 1")}, "is no C++ compiler"),
    "refuses": lambda t: ({"CXX": script(t, VERSION + "\necho no >&2; exit 1")}, "refused the generated code:\nno"),
    "makes nothing": lambda t: ({"CXX": script(t, VERSION)}, "made no library"),
}


@pytest.mark.parametrize("what", MISSING)
def test_a_missing_compiler_is_an_error_that_says_so(what, tmp_path):
    environment, words = MISSING[what](tmp_path)
    ran = run(tmp_path, **environment)
    assert ran.returncode and "CompilerError: [compile] " in ran.stderr and words in ran.stderr


@pytest.mark.parametrize("what", MISSING)
def test_without_a_compiler_graphs_run_operator_by_operator(what, tmp_path):
    environment, _ = MISSING[what](tmp_path)
    ran = run(tmp_path, "fall back", **environment)
    assert ran.stdout.split("] ") == ["[3.5, 3.5, 3.5", "[2.5, 2.5, 2.5", "True True\n"], ran.stderr


def test_a_compiler_may_have_arguments_and_lie_where_names_have_spaces(tmp_path, monkeypatch):
    folder = tmp_path / "my compilers"
    folder.mkdir()
    path = script(folder, "")
    for named, command in ((path, (path,)), (f"'{path}' -pipe", (path, "-pipe"))):
        monkeypatch.setenv("CXX", named)
        assert codecache.compiler.__wrapped__() == command


SOURCE = f'#include "{codecache.PRELUDE}"\n'


def test_a_disk_without_room_for_the_prelude_is_done_without(folder, monkeypatch):
    start = codecache.start_compiler
    full = ["-include", "/no/space/left"]
    monkeypatch.setattr(codecache, "start_compiler", lambda a: start([*full, *a] if a[0] == "-x" else a))
    assert codecache.built(SOURCE)
    assert not list(folder.rglob("*.gch"))


def test_a_damaged_prelude_is_dropped(folder):
    assert codecache.precompiled_flags()
    (made,) = folder.rglob("*.gch")
    os.truncate(made, made.stat().st_size // 2)
    assert codecache.built(SOURCE) and not made.exists()


def test_memory_without_room_for_files_is_done_without(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(codecache, "work_folder", lambda: str(tmp_path / "is not there"))
    assert codecache.built(SOURCE)


def test_temporary_files_of_the_compiler_lie_where_it_works(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "is not there"))
    monkeypatch.setattr(codecache, "work_folder", lambda: str(tmp_path))
    command = script(tmp_path, 'echo "$TMPDIR" >&2; exit 1')
    monkeypatch.setattr(codecache, "compiler", lambda: (command,))
    said = codecache.start_compiler(["x.cpp", "-o", str(tmp_path / "work" / "x.o")]).communicate()[1]
    assert said.strip() == str(tmp_path / "work")


def test_a_library_that_is_loaded_is_not_written_to(folder, monkeypatch):
    monkeypatch.setattr(store, "put", lambda *_: False)
    parts = codecache.key_parts(SOURCE)
    assert codecache.compile_source(SOURCE, parts) != codecache.compile_source(SOURCE, parts)


def test_a_fork_leaves_its_parents_folder(monkeypatch, tmp_path):
    mine = store.private_folder()
    child = os.fork()
    if not child:
        store.remove_folder_of(os.getppid(), mine)
        os._exit(mine == store.private_folder())
    assert os.waitpid(child, 0)[1] == 0 and mine.is_dir()


def test_folders_of_somebody_else_are_not_used(folder, monkeypatch):
    entries = store.Folder("tests", ".json")
    entries.directory()
    monkeypatch.setattr(store.os, "getuid", lambda: -1)
    assert folder not in entries.directory().parents
