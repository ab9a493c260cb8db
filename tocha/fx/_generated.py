"""Running generated text: functions made from source that tracebacks can show, and the imports such text needs."""

from __future__ import annotations

import itertools
import linecache
import re
import types
import weakref
from collections.abc import Callable
from typing import Any

from tocha._core.library_name import ours, spoken
from tocha.fx._codegen import CUSTOM_BUILTINS
from tocha.fx._names import qualified_name

FILE_PREFIX = "fx_generated_"
_numbers = itertools.count()


class _Source:
    """linecache asks the module's __loader__ for the text of files that are not on disk, also after checkcache()."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, text: str, module_globals: dict[str, Any], origin: str = "") -> str:
        name = f"<eval_with_key>.{next(_numbers)}{origin}"
        self.texts[name] = text
        module_globals["__name__"] = name
        module_globals["__loader__"] = self
        linecache.lazycache(name, module_globals)
        return name

    def forget(self, name: str) -> None:
        self.texts.pop(name, None)
        linecache.cache.pop(name, None)

    def get_source(self, name: str) -> str | None:
        return self.texts.get(name)


_source = _Source()


def exec_with_source(src: str, module_globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:
    """Returns the name of the file that the text goes by."""
    origin = ""
    if co_fields:
        file, line, name = (co_fields.get(k) for k in ("co_filename", "co_firstlineno", "co_name"))
        # linecache takes names in angle brackets for files without text
        origin = f" from {file}:{line} in {str(name).strip('<>')}"
    key = _source.add(src, module_globals, origin)
    exec(compile(src, key, "exec"), module_globals)
    return key


def method_from_source(
    name: str, src: str, module_globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable:
    scope = dict(module_globals)
    key = exec_with_source(src, scope, co_fields)
    function = scope.pop(name)
    # Tracebacks hold the code: the text lives as long as somebody can show it.
    weakref.finalize(function.__code__, _source.forget, key).atexit = False
    return function


def import_statement(name: str, obj: Any) -> str:
    """The line that gives an object a name."""
    if ours(name) in CUSTOM_BUILTINS:
        return re.sub(r"\btocha\b", spoken(), CUSTOM_BUILTINS[ours(name)].import_str)
    if isinstance(obj, types.ModuleType):
        return f"import {obj.__name__} as {name}"
    module, _, attribute = qualified_name(obj).rpartition(".")
    if not module:
        return ""
    return f"from {module} import {attribute} as {name}"


def import_block(names: dict[str, Any]) -> str:
    """All imports that a generated function needs, in an order of their own."""
    lines = {import_statement(name, obj) for name, obj in names.items()}
    return "\n".join(sorted(line for line in lines if line))
