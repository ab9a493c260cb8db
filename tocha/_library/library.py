"""`Library`: operators defined by schema, their kernels given by dispatch key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tocha._library import registry
from tocha._library.registry import IMPLICIT, CustomTarget
from tocha._library.tags import Tag
from tocha.operators.function_schema import SchemaTextError, parse_schema
from tocha.operators.overloads import table

KINDS = ("DEF", "IMPL", "FRAGMENT")
RESERVED = ("prim",)
# Keys under which a program may give kernels of built-in operators: those of its own device.
OWN_DEVICE = ("PrivateUse1", "AutogradPrivateUse1")

_defined: dict[str, str] = {}  # namespaces with a DEF library, and where


def fallthrough_kernel() -> None:
    """Given as a kernel: the key has none, and the next layer is asked.

    >>> lib = tocha.library.Library("doc_through", "DEF")
    >>> _ = lib.define("f(Tensor x) -> Tensor")
    >>> lib.impl("f", lambda x: x + 1, "CPU")
    >>> lib.impl("f", tocha.library.fallthrough_kernel, "Autograd")
    >>> tocha.ops.doc_through.f(tocha.tensor([1.0]))
    tensor([2.])
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def here() -> str:
    """The line of the program that is at work."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("tocha._library", "tocha.library")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """Definitions (`DEF`, or `FRAGMENT` where others define in the namespace too) or kernels (`IMPL`) of a namespace.

    >>> import tocha
    >>> lib = Library("doc_library", "DEF")
    >>> lib.define("thrice(Tensor x) -> Tensor")
    'thrice'
    >>> lib.impl("thrice", lambda x: x * 3, "CPU")
    >>> tocha.ops.doc_library.thrice(tocha.ones(1))
    tensor([3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        if kind not in KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            if ns in _defined:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a "
                    "single TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL "
                    "(which can be duplicated).  If you really intended to define operators for a single namespace in a distributed "
                    f"way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY was "
                    f"registered at {_defined[ns]}; latest registration was registered at {here()}"
                )
            _defined[ns] = here()
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defs: list[str] = []  # full names
        self._undo: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    # -- definitions

    def define(self, schema: str, alias_analysis: str = "", *, tags: Tag | Sequence[Tag] = ()) -> str:
        """Defines an operator; returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        return self._define(schema, [tags] if isinstance(tags, Tag) else list(tags), None)

    def _define(self, schema: str, tags: list[Tag], definition: Any) -> str:
        name = schema.partition("(")[0].strip()
        if self.kind == "IMPL":
            raise RuntimeError(
                f'def("{name}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed in the '
                "(unique) TORCH_LIBRARY block for their namespace."
            )
        space, colons, _ = name.rpartition("::")
        if colons and space != self.ns:
            raise RuntimeError(
                f"Explicitly provided namespace ({space}) in schema string does not match namespace of enclosing TORCH_LIBRARY block "
                f"({self.ns}).  Move this definition to the (unique) TORCH_LIBRARY block corresponding to this namespace (and consider "
                "deleting the namespace from your schema string.)"
            )
        try:
            parsed = parse_schema(schema if colons else f"{self.ns}::{schema}")
        except (SchemaTextError, ValueError) as e:
            raise RuntimeError(
                f"unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar: {e} in {schema}"
            ) from None
        full = f"{parsed.name}.{parsed.overload_name}" if parsed.overload_name else parsed.name
        overloads = registry.definitions.setdefault(parsed.name, {})
        short = parsed.name.partition("::")[2]
        if parsed.overload_name in overloads or (self.ns == "aten" and parsed.overload_name in table().get(short, ())):
            first = getattr(overloads.get(parsed.overload_name), "place", "tocha/operators")
            raise RuntimeError(
                f"Tried to register an operator ({parsed}) with the same name and overload name multiple times. Each overload's schema "
                f"should only be registered with a single call to def(). Duplicate registration: registered at {here()}. Original "
                f"registration: registered at {first}"
            )
        target = CustomTarget(parsed, tags, definition)
        target.place = here()
        overloads[parsed.overload_name] = target
        self._defs.append(full)
        self._tell(parsed.name)
        return parsed.name if colons else short

    def _tell(self, name: str) -> None:
        for heard in registry.changed:
            heard(name)

    # -- kernels

    def impl(
        self,
        op_name: Any,
        fn: Callable,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Gives the kernel of an operator for a dispatch key; without one, for all of them, gradients included."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key or IMPLICIT
        full = self._full_name(op_name)
        if full.startswith("aten::") and key not in OWN_DEVICE and full not in self._all_defined():
            raise NotImplementedError(
                f"[Library.impl] {full} is built in, and its kernel for {key} cannot be replaced: a TorchFunctionMode or a "
                "TorchDispatchMode takes calls over"
            )
        kernels = registry.of(full).kernels
        before = kernels.get(key)
        if fn is fallthrough_kernel:
            kernels.pop(key, None)
        elif with_keyset:
            kernels[key] = lambda *args, **kwargs: fn(key, *args, **kwargs)
        else:
            kernels[key] = fn
        self._undo.append(lambda: kernels.__setitem__(key, before) if before else kernels.pop(key, None))

    def _full_name(self, op_name: Any) -> str:
        name = op_name if isinstance(op_name, str) else op_name.name()
        space, colons, _ = name.rpartition("::")
        if colons and space != self.ns:
            raise RuntimeError(
                f"Explicitly provided namespace ({space}) in operator name does not match namespace of enclosing TORCH_LIBRARY block "
                f"({self.ns})."
            )
        return name if colons else f"{self.ns}::{name}"

    def _all_defined(self) -> set[str]:
        return {t.full_name for overloads in registry.definitions.values() for t in overloads.values()}

    def fallback(self, fn: Callable, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """What runs for a dispatch key where an operator has no kernel: `fn(op, *args, **kwargs)`."""
        key = dispatch_key or self.dispatch_key
        if self.ns != "_":
            raise RuntimeError(
                f'Fallback can only be registered using library fragment on the global namespace "_" but it is {self.ns}'
            )
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if not key:
            raise RuntimeError("[Library.fallback] a dispatch key must be given")
        registry.fallbacks[key] = (lambda *args, **kwargs: fn(key, *args, **kwargs)) if with_keyset else fn
        self._undo.append(lambda: registry.fallbacks.pop(key, None))

    def _register_fake(self, op_name: Any, fn: Callable, _stacklevel: int = 1, *, allow_override: bool = False) -> None:
        known = registry.of(self._full_name(op_name))
        known.fake = fn
        self._undo.append(lambda: setattr(known, "fake", None))

    def _register_torch_dispatch_rule(self, op_name: Any, torch_dispatch_class: type, fn: Callable) -> None:
        registry.of(self._full_name(op_name)).torch_dispatch[torch_dispatch_class] = fn

    # -- the end

    def _destroy(self) -> None:
        """Takes back what this library defined and registered."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        for full in self._defs:
            name, _, overload = full.partition(".")
            overloads = registry.definitions.get(name, {})
            overloads.pop(overload, None)
            if not overloads:
                registry.definitions.pop(name, None)
            registry.registrations.pop(full, None)
            self._tell(name)
        self._defs.clear()
        if self.kind == "DEF":
            _defined.pop(self.ns, None)


def defined(full_name: str) -> CustomTarget | None:
    name, _, overload = full_name.partition(".")
    return registry.definitions.get(name, {}).get(overload)
