"""The command `tocha`: runs PyTorch programs on tocha, and makes an environment do so always."""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import io
import os
import runpy
import sys
import sysconfig
import types
from collections.abc import Sequence
from pathlib import Path

from tocha._alias.finder import PATH
from tocha._alias.real_torch import FORCE, installed_torch

_PTH = "tocha-as-torch.pth"


# -- run ---------------------------------------------------------------------------------------------------


def _fresh_main() -> types.ModuleType:
    """The module that a program runs in: its own, as if Python had been started with it."""
    main = types.ModuleType("__main__")
    vars(main)["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _run_script(path: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = [path, *arguments]
    main = _fresh_main()
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        sys.path[0] = path
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    with io.open_code(os.path.abspath(path)) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)  # nor `annotations` from here
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(main).update(__file__=path, __cached__=None, __loader__=loader, __spec__=None, __package__=None)
    exec(code, vars(main))


def _run_module(name: str, arguments: Sequence[str]) -> None:
    sys.argv[:] = [name, *arguments]
    sys.path[0] = os.getcwd()
    _fresh_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run(arguments: list[str]) -> int:
    """tocha run [--force] script.py ..., tocha run [--force] -m module ..., tocha run -c "..."."""
    if arguments[:1] == ["--force"]:
        os.environ[FORCE] = "force"
        arguments = arguments[1:]
    if not arguments or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        print("usage: tocha run [--force] (script.py | -m module | -c code) [argument ...]", file=sys.stderr)
        return 2
    importlib.import_module("tocha.as_torch")
    if arguments[0] == "-m":
        _run_module(arguments[1], arguments[2:])
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec", dont_inherit=True), vars(_fresh_main()))
    else:
        _run_script(arguments[0], arguments[1:])
    return 0


# -- alias -------------------------------------------------------------------------------------------------


def _pth() -> Path:
    return Path(sysconfig.get_paths()["purelib"]) / _PTH


def _install(force: bool) -> int:
    """Writes a .pth: PATH is searched for torch after everything else, or, where PyTorch is installed, before."""
    real = installed_torch()
    if real and not force:
        print(
            f"PyTorch is installed ({real}): use --force to have `import torch` mean tocha all the same",
            file=sys.stderr,
        )
        return 1
    first = f"import os, sys; os.environ.setdefault({FORCE!r}, 'force'); sys.path.insert(0, {PATH!r})"
    _pth().write_text((first if real else PATH) + "\n")
    print(f"`import torch` means tocha in {sys.prefix} ({_pth()})")
    return 0


def _remove() -> int:
    if not _pth().exists():
        print(f"no alias is installed in {sys.prefix}")
        return 1
    _pth().unlink()
    print(f"`import torch` does not mean tocha any more in {sys.prefix}")
    return 0


def _status() -> int:
    installed, real = _pth().exists(), installed_torch()
    print(f"alias: {'installed' if installed else 'not installed'} in {sys.prefix}")
    print(f"PyTorch: {real or 'not installed'}")
    return 0 if installed else 1


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["run"]:
        return _run(arguments[1:])  # its own parsing: what follows belongs to the program
    parser = argparse.ArgumentParser(prog="tocha", description="Runs PyTorch programs on tocha.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run a script (or -m module, or -c code) in which `import torch` means tocha")
    alias = commands.add_parser("alias", help="make `import torch` mean tocha in this environment")
    alias.add_argument("action", choices=("install", "remove", "status"))
    alias.add_argument("--force", action="store_true", help="even where PyTorch is installed")
    chosen = parser.parse_args(arguments)
    return {"install": lambda: _install(chosen.force), "remove": _remove, "status": _status}[chosen.action]()
