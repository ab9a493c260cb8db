"""The public names: what a page is made of, before it is one."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import tocha
from tocha.operators import examples
from tocha.operators.record import OPERATORS, Operator

# In the order of the site's navigation.
MODULES = (
    "tocha", "tocha.Tensor", "tocha.nn", "tocha.nn.functional", "tocha.nn.init", "tocha.nn.parameter", "tocha.nn.utils", "tocha.nn.utils.rnn",
    "tocha.nn.utils.parametrize", "tocha.nn.utils.parametrizations", "tocha.nn.utils.prune", "tocha.nn.attention", "tocha.nn.attention.flex_attention",
    "tocha.optim", "tocha.optim.lr_scheduler", "tocha.optim.swa_utils", "tocha.autograd", "tocha.autograd.functional", "tocha.autograd.forward_ad",
    "tocha.autograd.graph", "tocha.func", "tocha.linalg", "tocha.fft", "tocha.special", "tocha.signal.windows", "tocha.distributions",
    "tocha.distributions.constraints", "tocha.sparse", "tocha.masked", "tocha.nested", "tocha.quasirandom", "tocha.utils", "tocha.utils.data",
    "tocha.utils.checkpoint", "tocha.utils.safetensors", "tocha.utils.dlpack", "tocha.utils.benchmark", "tocha.utils.hooks", "tocha.utils.model_zoo",
    "tocha.serialization", "tocha.storage", "tocha.amp", "tocha.random", "tocha.fx", "tocha.compiler", "tocha.library", "tocha.testing", "tocha.hub",
    "tocha.jit", "tocha.distributed", "tocha.profiler", "tocha.overrides", "tocha.multiprocessing", "tocha.accelerator", "tocha.cpu",
    "tocha.backends", "tocha.futures",
)  # fmt: skip
OPERATOR_MODULE = "tocha.ops.aten"
SPACES = {"tocha": "", "tocha.nn.functional": "nn", "tocha.linalg": "linalg", "tocha.fft": "fft", "tocha.special": "special"}  # fmt: skip
# Imported for a module's own use, where it lists no public names.
NOT_NAMES = (
    "annotations", "TYPE_CHECKING", "assert_int_or_pair", "boolean_dispatch", "has_torch_function_unary", "has_torch_function_variadic",
)  # fmt: skip
WRITTEN_IN_C = ("builtin_function_or_method", "method_descriptor", "getset_descriptor")


@dataclass
class Entry:
    """A public name: `tocha.nn.Linear` is of the module `tocha.nn`, and `value` is the class."""

    name: str
    module: str
    value: Any
    records: list[Operator] = field(default_factory=list)  # that it calls
    inplace: bool = False
    first: Entry | None = None  # the same object under its first name

    @property
    def short(self) -> str:
        return self.name.removeprefix(self.module + ".")

    @property
    def doc(self) -> str:
        """What its docstring says, without a native signature. Constants have their type's, which says nothing of them."""
        if self.records:
            return self.records[0].doc
        value = self.value
        text = inspect.getdoc(value) or ""
        own = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
        if not own or (not callable(value) and not _is_descriptor(value) and type(value).__module__ == "builtins"):
            return ""
        if type(value).__name__ in ("dtype", "layout", "memory_format", "Generator"):
            return ""
        return re.sub(r"\A(\w+\([^\n]*\)[^\n]*\n)+\n", "", text)


def _is_descriptor(value: Any) -> bool:
    return inspect.isdatadescriptor(value) or inspect.ismethoddescriptor(value)


def module(name: str) -> Any:
    """The module of that name, or the class: tocha.Tensor."""
    try:
        return importlib.import_module(name)
    except ImportError:
        parent, _, last = name.rpartition(".")
        return getattr(importlib.import_module(parent), last)


def _is_foreign(value: Any) -> bool:
    """Of the standard library, imported by the way or handed on (multiprocessing)."""
    home = getattr(value, "__module__", None) or ""
    return not home.startswith("tocha") and isinstance(home, str) and home not in ("", "builtins")


def _is_of_overrides(owner: Any, value: Any) -> bool:
    return owner is not tocha.overrides and value in (
        tocha.overrides.has_torch_function,
        tocha.overrides.handle_torch_function,
    )


def public(owner: Any) -> list[tuple[str, Any]]:
    """What a module says is public, else what it defines; of a class, its methods and properties."""
    listed = getattr(owner, "__all__", None)
    found = []
    for name in sorted(set(listed or dir(owner))):
        if name.startswith("_") or name in NOT_NAMES:
            continue
        value = inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name, None)
        if isinstance(value, ModuleType) or (not isinstance(owner, type) and _is_foreign(value)):
            continue
        if owner is not tocha and (value is tocha.Tensor or (not listed and _is_of_overrides(owner, value))):
            continue
        found.append((name, value))
    return found


@cache
def records_by_path() -> dict[str, tuple[list[Operator], bool]]:
    """The records behind each public path of an operator, and whether the path is a form in place."""
    examples.load()
    found: dict[str, tuple[list[Operator], bool]] = {}
    for o in OPERATORS.values():
        for path, inplace in paths(o):
            known, _ = found.setdefault(path, ([], inplace))
            if o not in known:
                known.append(o)
    return found


def paths(o: Operator) -> Iterator[tuple[str, bool]]:
    """Where a record is bound: tocha.special.erf, tocha.Tensor.erf_."""
    spaces = {space: home for home, space in SPACES.items()}
    aliases = [alias.rpartition(".")[::2] for alias in o.aliases]
    for space, name in [(o.namespace, o.public_name), *aliases]:
        home = spaces.get(space, "tocha")
        always = name.endswith("_")  # exists in place only
        if "function" in o.variants:
            yield f"{home}.{name}", always
            if "inplace" in o.variants and "inplace_method" not in o.variants:
                yield f"{home}.{name}_", True
    for name in [o.name, *(name for space, name in aliases if not space)]:
        if {"method", "property"} & o.variants:
            yield f"tocha.Tensor.{name}", name.endswith("_")
            if "inplace" in o.variants:
                yield f"tocha.Tensor.{name}_", True


def entries() -> list[Entry]:
    """All of them, module by module; then the operators that have no other name than their handle."""
    known = records_by_path()
    found: dict[str, Entry] = {}
    by_object: dict[int, Entry] = {}
    for home in MODULES:
        for short, value in public(module(home)):
            entry = Entry(f"{home}.{short}", home, value)
            if type(value).__name__ in WRITTEN_IN_C:
                entry.records, entry.inplace = known.get(entry.name, ([], False))
            if callable(value) or isinstance(value, tocha.Generator):
                entry.first = by_object.setdefault(id(value), entry)
            if entry.first is not None and not entry.records:
                entry.records, entry.inplace = entry.first.records, entry.first.inplace
            found[entry.name] = entry
    return [*found.values(), *_handles(found)]


def _handles(found: dict[str, Entry]) -> Iterator[Entry]:
    """Operators that Python has under no other name."""
    bound = {o.name for e in found.values() for o in e.records}
    bound |= {o.name for path, (records, _) in records_by_path().items() for o in records if path in found}
    for name in dict.fromkeys(o.name for o in OPERATORS.values() if not o.name.startswith("_") and o.name not in bound):
        records = [o for o in OPERATORS.values() if o.name == name]
        handle = name.removeprefix("nn_") if records[0].namespace == "nn" else name
        yield Entry(f"{OPERATOR_MODULE}.{handle}", OPERATOR_MODULE, getattr(tocha.ops.aten, handle), records)
