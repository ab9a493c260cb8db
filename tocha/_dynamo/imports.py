"""Import statements of captured code: what is not loaded yet is loaded before the frame is captured, once."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tocha._dynamo.native_calls import known
from tocha._dynamo.refusals import Changes, Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Observed, Value

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

_TRIED: dict[tuple, str] = {}  # what was imported just now -> what it raised


def import_name(f: Frame, name: str, wanted: tuple[str, ...], level: int) -> Value:
    """`import name`, `from ..name import wanted`: the module that the instruction pushes."""
    absolute = _absolute(f, name, level)
    missing = any(_is_missing(absolute, n) for n in wanted)
    _load(absolute, wanted, missing, lambda: __import__(name, f.globals, None, wanted, level))
    return _module(f, absolute if wanted else _parts(absolute)[0])


def import_from(f: Frame, module: Value, name: str) -> Value:
    try:
        return module.get_attribute(f, name)
    except Observed as missing:
        if not missing.value.is_a(AttributeError):
            raise
    real: Any = module.constant()
    package, file = getattr(real, "__name__", None), getattr(real, "__file__", None)
    if f"{package}.{name}" in sys.modules:  # it is just being imported, in a circle
        return _module(f, f"{package}.{name}")
    text = f"cannot import name {name!r} from {package or '<unknown module name>'!r} ({file or 'unknown location'})"
    f.raise_(ImportError, text, name=package, path=file)


@known(importlib.import_module)
def import_module(f: Frame, name: Value, package: Value | None = None) -> Value:
    wanted, base = name.constant(), package.constant() if package is not None else None
    if wanted.startswith(".") and not base:
        text = f"the 'package' argument is required to perform a relative import for {wanted!r}"
        f.raise_(TypeError, text)
    absolute = importlib.util.resolve_name(wanted, base)
    _load(absolute, (), False, lambda: importlib.import_module(wanted, base))
    return _module(f, absolute)


def _absolute(f: Frame, name: str, level: int) -> str:
    if not level:
        return name
    package = f.globals.get("__package__") or (f.globals.get("__name__") or "").rpartition(".")[0]
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError as error:
        f.raise_real(error)


def _parts(name: str) -> list[str]:
    """A module and the packages around it."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _is_missing(module: str, name: str) -> bool:
    """A name of a package that nobody has set: it may be a module to be loaded."""
    package = sys.modules.get(module)
    return hasattr(package, "__path__") and name != "*" and not hasattr(package, name)


def _load(name: str, wanted: tuple[str, ...], missing: bool, load: Callable[[], object]) -> None:
    """Modules run code of their own, so they run while nothing is being captured."""
    key = (name, wanted)
    raised = _TRIED.pop(key, None)
    if raised:  # again, and out of the program's own instruction
        raise Unsupported("import", f"import of {name}: {raised}")
    loaded = all(sys.modules.get(n) is not None for n in _parts(name))  # None: one that must not be loaded
    if loaded and (not missing or raised is not None):
        return

    def happens() -> None:
        _TRIED[key] = ""
        try:
            load()
        except Exception as error:
            _TRIED[key] = f"{type(error).__name__}: {error}"

    raise Changes(f"{name} is imported", happens)


def _module(f: Frame, name: str) -> Value:
    """A loaded module, which a program may replace."""
    return f.wrap(sys.modules[name], Source("object", sys.modules, None, "sys.modules").dict_item(name))
