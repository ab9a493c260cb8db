"""Signatures of functions that graphs call, and arguments put into their order."""

from __future__ import annotations

import builtins
import inspect
import numbers
import re
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import tocha
from tocha._core.library_name import is_ours
from tocha.overrides._overridable import _parameters

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op", "normalize_function",
    "normalize_module", "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


_TYPES = {
    "Tensor": tocha.Tensor, "int": int, "float": float, "bool": builtins.bool, "str": str, "Number": numbers.Number,
    "tocha.dtype": tocha.dtype, "tocha.device": tocha.device, "tocha.layout": tocha.layout,
    "tocha.memory_format": tocha.memory_format, "tuple of ints": list[int], "tuple of Tensors": list[tocha.Tensor],
}  # fmt: skip
_PARAMETER = re.compile(r"(?:(?P<type>[\w. ]+?) )?(?P<name>\w+)(?:=(?P<default>.+))?$")


def _native_parameter(text: str, kind: Any) -> inspect.Parameter | None:
    found = _PARAMETER.match(text)
    if found is None:
        return None
    default: Any = inspect.Parameter.empty
    if found["default"] is not None:
        try:
            default = eval(found["default"], {"tocha": tocha, **vars(builtins)})
        except (NameError, SyntaxError, AttributeError):
            default = None
    annotation = _TYPES.get(found["type"] or "", inspect.Parameter.empty)
    return inspect.Parameter(found["name"], kind, default=default, annotation=annotation)


def _native_signature(f: Callable) -> inspect.Signature | None:
    """From the first line of a native function's docstring: relu(Tensor input)."""
    texts = _parameters(f)
    if not texts:
        return None
    made: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for text in texts:
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        parameter = _native_parameter(text, kind)
        if parameter is None:
            return None
        if made and made[-1].default is not inspect.Parameter.empty and parameter.default is inspect.Parameter.empty:
            parameter = parameter.replace(default=None)
        made.append(parameter)
    return inspect.Signature(made)


def _signature(f: Callable) -> inspect.Signature | None:
    if isinstance(f, types.BuiltinFunctionType | types.MethodDescriptorType):
        return _native_signature(f)
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None


def get_signature_for_torch_op(op: Callable, return_schemas: bool = False) -> Any:
    """The signatures a function of the library can be called with, or None.

    >>> import tocha
    >>> [list(s.parameters) for s in get_signature_for_torch_op(tocha.relu)]
    [['input']]
    """
    found = _signature(op) if is_ours(getattr(op, "__module__", "")) else None
    signatures = None if found is None else [found]
    schema = getattr(op, "_schema", None)
    return (signatures, [schema] if schema is not None else None) if return_schemas else signatures


def check_for_mutable_operation(target: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises for a function that writes to its arguments: one whose name ends in _, or called with out=."""
    if not is_ours(getattr(target, "__module__", "")):
        return
    name = getattr(target, "__name__", "")
    schema = getattr(target, "_schema", None)
    writes = (name.endswith("_") and not name.endswith("__")) or kwargs.get("out") is not None
    if writes or (schema is not None and schema.is_mutable):
        raise RuntimeError(
            f"Tried to trace mutable operation {schema or name}. FX only supports functional code, so operations that mutate "
            "operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x: object) -> object:
    """The type of a list or tuple of types: [int, int] is list[int]; other values are types already."""
    if not isinstance(x, list | tuple):
        return x
    inside = [create_type_hint(v) for v in x]
    if not inside:
        shared: Any = Any
    elif all(i == inside[0] for i in inside):
        shared = inside[0]
    else:
        bases = [i for i in inside if isinstance(i, type)]
        shared = next((b for b in bases if all(isinstance(i, type) and issubclass(i, b) for i in inside)), Any)
    return list[shared] if isinstance(x, list) else tuple[shared, ...]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of one type may be passed for a parameter of the other."""
    origin = typing.get_origin(signature_type)
    if signature_type is argument_type or signature_type is inspect.Parameter.empty or signature_type is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(c, argument_type) for c in typing.get_args(signature_type))
    if origin is list:
        element = (typing.get_args(signature_type) or (Any,))[0]
        if element is int and argument_type is int:
            return True
        arguments = typing.get_args(argument_type)
        same_kind = typing.get_origin(argument_type) in (list, tuple)
        return same_kind and all(type_matches(element, a) for a in arguments if a is not ...)
    if signature_type is numbers.Number and argument_type in (int, float, complex, bool):
        return True
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        return issubclass(argument_type, signature_type) or (signature_type is float and argument_type is int)
    return signature_type == argument_type


def _in_order(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    """The call's arguments by the signature, defaults filled in."""
    kinds = {p.kind for p in signature.parameters.values()}
    supported = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    if not kinds <= supported:
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    new_args: list[Any] = []
    new_kwargs: dict[str, Any] = {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if not only_kwargs and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and i < len(args):
            new_args.append(bound.arguments[name])
        else:
            new_kwargs[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(new_args), new_kwargs)


def normalize_function(
    target: Callable,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a library function in its signature's order with defaults; None if it has no signature.

    >>> import tocha
    >>> normalize_function(tocha.nn.functional.dropout, (1,), {"training": False}, normalize_to_only_use_kwargs=True).kwargs
    {'input': 1, 'p': 0.5, 'training': False, 'inplace': False}
    """
    signature = _signature(target)
    if signature is None:
        return None
    try:
        return _in_order(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
    except TypeError:
        return None


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The same for the call of one of tocha.nn's modules."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(tocha.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(module.forward)
    try:
        return _in_order(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
    except TypeError:
        return None
