"""Which public functions go through __torch_function__: found by looking at the functions themselves.

Native functions say in their signature whether they take tensors; functions in Python do it if they call
handle_torch_function. tocha.overrides re-exports what is public here.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import keyword
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from tocha import _C
from tocha._core.library_name import ours, spoken

_NAMESPACES = ("tocha", "tocha.functional", "tocha.nn.functional", "tocha.linalg", "tocha.special", "tocha.fft")
_NATIVE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_HANDLER = "handle_torch_function"


def _parameters(f: Any) -> list[str]:
    """The parameters of a native function, as the first line of its docstring has them: "Tensor input", "*", ..."""
    found = re.match(r"\w+\((.*)\)", (f.__doc__ or "").partition("\n")[0])
    if not found:
        return []
    plain = re.sub(r" = (\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^,]*)", "", found.group(1))  # defaults may hold commas
    return [p for p in plain.split(", ") if p]


def _is_overridable(f: Any) -> bool:
    if isinstance(f, _NATIVE):
        return any("Tensor" in p for p in _parameters(f) if not p.endswith(" out"))
    code = getattr(inspect.unwrap(f) if callable(f) else f, "__code__", None)
    return code is not None and (_HANDLER in code.co_names or f is not inspect.unwrap(f))


def _functions_of(namespace: Any) -> Iterator[tuple[str, Callable]]:
    for name in dir(namespace):
        f = getattr(namespace, name)
        if not name.startswith("_") and isinstance(f, (types.FunctionType, types.BuiltinFunctionType)):
            yield name, f


def _public_namespaces() -> Iterator[types.ModuleType]:
    for name in _NAMESPACES:
        if importlib.util.find_spec(name) is not None:
            yield importlib.import_module(name)


def _members_of_tensor() -> Iterator[tuple[str, Any]]:
    for name, member in vars(_C.Tensor).items():
        if not name.startswith("_") or (name.startswith("__") and isinstance(member, types.WrapperDescriptorType)):
            yield name, member


def _methods() -> dict[str, Callable]:
    """Methods of Tensor: those in native code all ask overrides, those in Python where add_method made them."""
    native = (types.MethodDescriptorType, types.WrapperDescriptorType)
    return {
        name: m
        for name, m in _members_of_tensor()
        if (isinstance(m, native) and not hasattr(object, name)) or (inspect.isfunction(m) and _is_overridable(m))
    }


def _properties() -> dict[str, Any]:
    return {name: m for name, m in _members_of_tensor() if isinstance(m, types.GetSetDescriptorType | property)}


@functools.cache
def _named() -> dict[Callable, str]:
    """Every overridable function with its public name."""
    found: dict[Callable, str] = {}
    for namespace in _public_namespaces():
        for name, f in _functions_of(namespace):
            if _is_overridable(f):
                found.setdefault(f, f"{namespace.__name__}.{name}")
    found |= {f: f"{spoken()}.Tensor.{name}" for name, f in _methods().items()}
    found |= {p.__get__: f"{spoken()}.Tensor.{name}.__get__" for name, p in _properties().items()}
    return found


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions that __torch_function__ is asked about, by the module or class they are found in.

    >>> import tocha
    >>> tocha.add in get_overridable_functions()[tocha]
    True
    """
    found: dict[Any, list[Callable]] = {
        namespace: [f for _, f in _functions_of(namespace) if _is_overridable(f)] for namespace in _public_namespaces()
    }
    found[_C.Tensor] = list(_methods().values())
    return found | {p: [p.__get__] for p in _properties().values()}


def get_ignored_functions() -> set[Callable]:
    """The public functions that __torch_function__ is not asked about: most take no tensors.

    >>> import tocha
    >>> tocha.manual_seed in get_ignored_functions(), tocha.add in get_ignored_functions()
    (True, False)
    """
    own = {m for _, m in _members_of_tensor() if isinstance(m, types.FunctionType) and not _is_overridable(m)}
    return own | {f for n in _public_namespaces() for _, f in _functions_of(n) if not _is_overridable(f)}


def get_testing_overrides() -> dict[Callable, Callable]:
    """For every overridable function one with its parameters that returns -1, to test types that override with.

    >>> import tocha
    >>> import inspect
    >>> fake = get_testing_overrides()[tocha.add]
    >>> fake(1, 2), inspect.signature(fake)
    (-1, <Signature (input, other=None, *, alpha=None, out=None)>)
    """
    return {f: _fake(f, name.rpartition(".")[2]) for f, name in _named().items()}


def _fake(f: Callable, name: str) -> Callable:
    def fake(*args: Any, **kwargs: Any) -> int:
        return -1

    fake.__name__ = fake.__qualname__ = name
    fake.__signature__ = _signature(f)  # type: ignore[attr-defined]
    return fake


def _signature(f: Callable) -> inspect.Signature:
    """Of native functions names are known, not which of them may be left out: all but the first may here."""
    if isinstance(f, types.FunctionType):
        return inspect.signature(f)
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found: list[inspect.Parameter] = []
    if not isinstance(f, types.BuiltinFunctionType):
        found.append(inspect.Parameter("self", kind))
    for parameter in _parameters(f):
        if parameter == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        name = parameter.rpartition(" ")[2]
        name += "_" if keyword.iskeyword(name) else ""
        default = None if found else inspect.Parameter.empty
        if name.isidentifier() and all(name != p.name for p in found):
            found.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(found)


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether func is a method of Tensor, or the __get__ of one of its properties.

    >>> import tocha
    >>> is_tensor_method_or_property(tocha.Tensor.add), is_tensor_method_or_property(tocha.add)
    (True, False)
    """
    owners = [getattr(f, "__objclass__", None) for f in (func, getattr(func, "__self__", None))]
    return _C.Tensor in owners or any(func is m for _, m in _members_of_tensor())


def resolve_name(f: Callable) -> str | None:
    """The public name of a function or method.

    >>> import tocha
    >>> resolve_name(tocha.Tensor.add), resolve_name(tocha.linalg.solve)
    ('tocha.Tensor.add', 'tocha.linalg.solve')
    """
    if f in _named():
        return _named()[f]
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None)
    if name is None:
        return None
    if getattr(f, "__objclass__", None) is not None:
        return f"{spoken()}.Tensor.{f.__name__}"
    module = getattr(f, "__module__", None) or spoken()
    return f"{spoken() if ours(module).startswith('tocha._') else module}.{name}"
