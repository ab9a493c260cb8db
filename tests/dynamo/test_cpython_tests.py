"""A slice of CPython's own tests of the language, each compiled: tools/language_tests.py runs all of them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "language_tests.py"
SLICE = [("test_list", None), ("test_contextlib", None), ("test_generators", "GeneratorTest"), ("test_dict", "DictTest.test_d")]  # fmt: skip


@pytest.mark.skipif(importlib.util.find_spec("test.test_list") is None, reason="CPython's tests are not installed")
@pytest.mark.parametrize("file, only", SLICE, ids=[f for f, _ in SLICE])
def test_most_of_a_file_passes(file, only):
    command = [sys.executable, str(TOOL), file, "-v", *(["--only", only] if only else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{file} " in done.stdout and " 0 /" not in done.stdout
