"""The schema of a custom operator from its annotations: `def f(x: Tensor, n: int = 2) -> Tensor`."""

from __future__ import annotations

import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tocha import _C
from tocha._library.returned import way_of_returning
from tocha._library.tags import Tag

Tensor = _C.Tensor
_LISTS = (list, collections.abc.Sequence)
_UNIONS = (typing.Union, types.UnionType)
_BASES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _C.dtype: "ScalarType", _C.device: "Device",
    complex: "complex",
}  # fmt: skip
_NUMBERS = {int, float, bool}
# What may be in a list, and what may be absent.
_IN_LISTS = {"Tensor", "SymInt", "float", "bool", "Tensor?"}
_RETURNS = {"Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"}


def infer_schema(
    prototype_function: Callable,
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] | None = (),
) -> str:
    """The schema that a function's annotations mean.

    >>> import tocha
    >>> def f(x: tocha.Tensor, n: int = 2) -> tocha.Tensor: ...
    >>> infer_schema(f, mutates_args={"x"})
    '(Tensor(a0!) x, SymInt n=2) -> Tensor'
    """
    way = way_of_returning([tags] if isinstance(tags, Tag) else list(tags or ()))
    return _Inferring(prototype_function, mutates_args, way).schema(op_name)


def infer_tagged_schema(prototype_function: Callable, mutates_args: str | Iterable[str], way: Tag | None) -> str:
    """The same for an operator that returns what it writes to, if a tag says so."""
    return _Inferring(prototype_function, mutates_args, way).schema(None)


class _Inferring:
    def __init__(self, f: Callable, mutates_args: str | Iterable[str], way: Tag | None = None):
        self.signature = inspect.signature(f)
        self.way = way
        self.unknown = mutates_args == "unknown"
        if isinstance(mutates_args, str) and not self.unknown:
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. "
            )
        self.mutated = set() if self.unknown else set(mutates_args)
        self.annotations = self.resolved(f)

    def resolved(self, f: Callable) -> dict[str, Any]:
        """Annotations that are strings mean what they name where the function stands."""
        library = sys.modules["tocha"]
        space = {"tocha": library, "torch": library, "Tensor": Tensor, "typing": typing, **vars(typing)}
        space |= getattr(inspect.unwrap(f), "__globals__", {})
        found = {}
        raw = {n: p.annotation for n, p in self.signature.parameters.items()}
        raw["return"] = self.signature.return_annotation
        for name, annotation in raw.items():
            if isinstance(annotation, str):
                try:
                    annotation = eval(annotation, space)
                except Exception:
                    self.refuse(f"Unsupported type annotation {annotation}. It is not a type.")
            found[name] = annotation
        return found

    def refuse(self, why: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {why} Got func with signature {self.signature})")

    def schema(self, op_name: str | None) -> str:
        parts: list[str] = []
        for i, (name, p) in enumerate(self.signature.parameters.items()):
            if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                self.refuse("We do not support positional-only args, varargs, or varkwargs.")
            if p.kind is p.KEYWORD_ONLY and "*" not in parts:
                parts.append("*")
            parts.append(self.parameter(i, name, p))
        unknown = self.mutated - set(self.signature.parameters)
        if unknown:
            self.refuse(
                f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of "
                "all args that the custom op mutates, or just the string 'unknown' if you don't know."
            )
        ways = {None: self.result, Tag.inplace: self.first_argument, Tag.out: self.outputs}
        result = ways[self.way]()
        return f"{op_name or ''}({', '.join(parts)}) -> {result}"

    def first_argument(self) -> str:
        """What an operator in place returns."""
        first = next((n for n, p in self.signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD), None)
        if self.unknown or self.mutated != {first}:
            got = "unknown" if self.unknown else tuple(sorted(self.mutated))
            self.refuse(
                f"torch.Tag.inplace requires mutates_args to contain exactly the first positional argument, got {got}."
            )
        if self.annotations["return"] is not Tensor:
            self.refuse("torch.Tag.inplace requires the return annotation to be torch.Tensor.")
        return "Tensor(a0!)"

    def outputs(self) -> str:
        """What an operator returns that writes to `out=`: those, in order."""
        outs = []
        for i, (name, p) in enumerate(self.signature.parameters.items()):
            if name in self.mutated or self.unknown:
                if p.kind is not p.KEYWORD_ONLY:
                    self.refuse("torch.Tag.out requires mutable arguments to be keyword-only.")
                outs.append((name, f"Tensor(a{i}!)"))
        if not outs:
            self.refuse("torch.Tag.out requires at least one mutable keyword-only Tensor argument.")
        result = "Tensor" if len(outs) == 1 else f"({', '.join(['Tensor'] * len(outs))})"
        if self.result() != result:
            names = tuple(name for name, _ in outs)
            self.refuse(
                "torch.Tag.out requires the return annotation to match the mutable keyword-only Tensor arguments "
                f"{names}."
            )
        texts = [text for _, text in outs]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    def parameter(self, i: int, name: str, p: inspect.Parameter) -> str:
        if p.annotation is inspect.Parameter.empty:
            self.refuse(f"Parameter {name} must have a type annotation.")
        kind = type_text(self.annotations[name])
        if kind is None:
            self.refuse_type(name, p.annotation)
        if name in self.mutated or (self.unknown and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                self.refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            kind = f"Tensor(a{i}!){kind.removeprefix('Tensor')}"
        if p.default is inspect.Parameter.empty:
            return f"{kind} {name}"
        return f"{kind} {name}={self.default(name, p.default)}"

    def refuse_type(self, name: str, annotation: Any) -> typing.NoReturn:
        hint = ""
        if typing.get_origin(self.annotations[name]) is tuple:
            hint = "We do not support Tuple inputs in schema. As a workaround, please try to use List instead. "
        valid = [*_BASES.values(), "Scalar", "lists and optionals of these"]
        self.refuse(f"Parameter {name} has unsupported type {annotation}. {hint}The valid types are: {valid}.")

    def default(self, name: str, value: Any) -> str:
        if value is None or isinstance(value, int | float | bool):
            return str(value)
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, _C.dtype):
            return str(value).partition(".")[2]
        if isinstance(value, _C.device):
            return f'"{value}"'
        self.refuse(f"Parameter {name} has an unsupported default value type {type(value)}.")

    def result(self) -> str:
        annotation = self.annotations["return"]
        if annotation is inspect.Signature.empty:
            self.refuse("No return type annotation was provided. Please add one.")
        if annotation is None or annotation is type(None):
            return "()"
        if typing.get_origin(annotation) is tuple:
            kinds = [self.one_result(a) for a in typing.get_args(annotation)]
            return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        return self.one_result(annotation)

    def one_result(self, annotation: Any) -> str:
        kind = type_text(annotation)
        if kind not in _RETURNS:
            self.refuse(f"Return has unsupported type {annotation}. The valid types are: {sorted(_RETURNS)}.")
        return kind


def type_text(annotation: Any) -> str | None:
    """The schema's name of a type; None if it has none."""
    if annotation in _BASES:
        return _BASES[annotation]
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNIONS:
        rest = [a for a in inside if a is not type(None)]
        if len(rest) == len(inside):
            return "Scalar" if set(rest) == _NUMBERS else None
        inner = type_text(rest[0]) if len(rest) == 1 else "Scalar" if set(rest) == _NUMBERS else None
        return None if inner is None or inner.endswith("?") else inner + "?"
    if origin in _LISTS and len(inside) == 1:
        inner = type_text(inside[0])
        return f"{inner}[]" if inner in _IN_LISTS else None
    return None
