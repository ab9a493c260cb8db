"""Changes made to modules and classes for the time of a trace, so that calls the overrides do not see are seen too."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import tocha
from tocha._core.library_name import is_ours
from tocha.fx._names import NAMESPACES, public_name
from tocha.fx.proxy import Proxy, _find_proxies
from tocha.overrides._overridable import _is_overridable, _parameters

# (id of a module's dict, name) -> the dict: functions that fx.wrap named.
wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
_MISSING = object()


class Patcher:
    """Sets names in dicts and on classes, and puts everything back at the end."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._redo: list[Callable[[], None]] = []
        self._visited: set[int] = set()

    def patch(self, names: dict[str, Any], name: str, new: Any) -> None:
        old = names.get(name, _MISSING)
        self._apply(lambda: names.__setitem__(name, new), lambda: _restore_item(names, name, old))

    def patch_method(self, cls: type, name: str, new: Any) -> None:
        old = cls.__dict__.get(name, _MISSING)
        self._apply(lambda: setattr(cls, name, new), lambda: _restore_attribute(cls, name, old))

    def _apply(self, do: Callable[[], None], undo: Callable[[], None]) -> None:
        do()
        self._redo.append(do)
        self._undo.append(undo)

    def visit_once(self, thing: Any) -> bool:
        if id(thing) in self._visited:
            return False
        self._visited.add(id(thing))
        return True

    def revert_all_patches(self) -> None:
        for undo in reversed(self._undo):
            undo()

    def reapply_all_patches(self) -> None:
        for do in self._redo:
            do()

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exc: object) -> None:
        self.revert_all_patches()
        self._undo.clear()
        self._redo.clear()


def _restore_item(names: dict[str, Any], name: str, old: Any) -> None:
    if old is _MISSING:
        names.pop(name, None)
    else:
        names[name] = old


def _restore_attribute(cls: type, name: str, old: Any) -> None:
    if old is _MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, old)


def find_proxy(*values: Any) -> Proxy | None:
    """The first proxy among values and the containers they are."""
    found: list[Proxy] = []
    _find_proxies(values, found)
    return found[0] if found else None


def wrapped_function(function: Callable) -> Callable:
    """Calls with a proxy among the arguments become nodes; others run."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


# ---- functions of the library that do not ask for overrides ----


def _library_function(function: Callable) -> Callable:
    """Calls with a proxy become a node of the public function, with the arguments its signature has."""
    signature = inspect.signature(function) if isinstance(function, types.FunctionType) else None

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        if signature is not None:
            args, kwargs = _spelled_out(signature, args, kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    return traced


def _spelled_out(signature: inspect.Signature, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Parameters without a default by position, the others by name, as PyTorch hands them to overrides."""
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional, named = [], {}
    for name, parameter in signature.parameters.items():
        if parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            positional.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return tuple(positional), named


def _functions() -> Iterator[tuple[dict[str, Any], str, Callable]]:
    """Public functions a proxy would not reach: those in Python that do not ask, and native ones without tensors."""
    for namespace in NAMESPACES:
        try:
            names = vars(importlib.import_module(namespace))
        except ImportError:
            continue
        for name, f in names.items():
            if not name.startswith("_") and _is_computation(f):
                yield names, name, f


def _is_computation(f: Any) -> bool:
    """Functions in Python of tensors, and native ones that make tensors: not questions and not settings."""
    if isinstance(f, types.FunctionType):
        of_tensors = any("Tensor" in str(a) for k, a in f.__annotations__.items() if k != "return")
        return is_ours(f.__module__) and of_tensors
    is_native = isinstance(f, types.BuiltinFunctionType) and not _is_overridable(f)
    return is_native and any("dtype dtype" in p or "Tensor" in p for p in _parameters(f))


@functools.lru_cache(maxsize=1)
def library_functions() -> list[tuple[dict[str, Any], str, Callable, Callable]]:
    public_name(tocha.add)  # names are looked up before functions are replaced
    made: dict[int, Callable] = {}
    out = []
    for names, name, f in _functions():
        if id(f) not in made:
            made[id(f)] = _library_function(f)
        out.append((names, name, f, made[id(f)]))
    return out


@functools.lru_cache(maxsize=1)
def library_functions_by_id() -> dict[int, Callable]:
    return {id(f): wrapped for _, _, f, wrapped in library_functions()}


def patch_library(patcher: Patcher) -> None:
    for names, name, _, wrapped in library_functions():
        patcher.patch(names, name, wrapped)


def patch_globals(patcher: Patcher, names: dict[str, Any], autowrapped: set[int]) -> None:
    """Functions that a module of the program has imported by name."""
    if not patcher.visit_once(names):
        return
    if is_ours(str(names.get("__name__", ""))):
        return
    library = library_functions_by_id()
    for name, value in list(names.items()):
        if name.startswith("_") or not callable(value):
            continue
        if id(value) in autowrapped:
            patcher.patch(names, name, wrapped_function(value))
        elif id(value) in library:
            patcher.patch(names, name, library[id(value)])


def patch_wrapped(patcher: Patcher) -> None:
    """What fx.wrap registered."""
    for (_, name), names in list(wrapped_functions.items()):
        function = names.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(names, name, wrapped_function(function))
