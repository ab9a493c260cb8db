"""Builds with AddressSanitizer and UndefinedBehaviorSanitizer and runs the native tests and the Python tests under them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1"]
# GCC before 14 gives frames on the fake stack 32 bytes of alignment and then stores 64 of them aligned (GCC bug 110027): a crash of
# its own making, so frames stay on the stack.
ASAN_OPTIONS = ":".join(
    [
        "detect_leaks=0",
        "abort_on_error=1",
        "handle_sigbus=0",
        "allocator_may_return_null=1",
        "detect_stack_use_after_return=0",
    ]
)


def run(command: list[str], **environment: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environment})


def library(name: str) -> str:
    return subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    tests = sys.argv[1:] or ["tests"]
    run([sys.executable, "tools/native_tests.py", *FLAGS], ASAN_OPTIONS=ASAN_OPTIONS)
    cmake = [
        "cmake",
        "-G",
        "Ninja",
        "-S",
        ".",
        "-B",
        str(BUILD),
        "-DTOCHA_SANITIZE=ON",
        "-DTOCHA_SINGLE_ISA=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    run(cmake)
    run(["cmake", "--build", str(BUILD), "--parallel", os.environ.get("JOBS", str(os.cpu_count()))])
    # A package made of links: the Python sources, the sanitized module and the headers that compiled graphs include.
    package = BUILD / "package" / "tocha"
    package.mkdir(parents=True, exist_ok=True)
    items = [i for i in (ROOT / "tocha").iterdir() if not i.name.startswith("_C.")]
    for item, link in [*((i, package / i.name) for i in items), (ROOT / "csrc", package.parent / "csrc")]:
        if not link.exists():
            link.symlink_to(item)
    module = f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    link = package / module
    link.unlink(missing_ok=True)
    link.symlink_to(BUILD / module)
    environment = {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": ASAN_OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": str(BUILD / "package"),
        "PYTHONSAFEPATH": "1",  # the plain build lies in the current folder
        "PYTHONMALLOC": "malloc",
        "TOCHA_SANITIZED": "1",
    }
    check = f"import tocha._C as c; assert c.__file__.startswith({str(BUILD)!r}), c.__file__"
    run([sys.executable, "-c", check], **environment)
    # Reports go to the process's own stderr, which pytest must not take.
    run([sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--capture=sys", *tests], **environment)


if __name__ == "__main__":
    main()
