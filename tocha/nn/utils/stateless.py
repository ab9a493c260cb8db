"""Calling a module with other parameters and buffers than its own."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from tocha import _C
from tocha.nn.modules.module import Module

__all__ = ["functional_call"]

Tensor = _C.Tensor


def _owner(module: Module, path: str) -> tuple[Any, str]:
    parent, _, name = path.rpartition(".")
    return module.get_submodule(parent), name


def _tied(module: Module) -> list[set[str]]:
    """Names of parameters and buffers that are the same tensor."""
    names: dict[int, set[str]] = {}
    members = (
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    )
    for name, tensor in members:
        names.setdefault(id(tensor), set()).add(name)
    return [group for group in names.values() if len(group) > 1]


def _untie(module: Module, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """given, with a value for every name of a tensor that has one under any of its names."""
    completed = dict(given)
    for group in _tied(module):
        values = {id(given[name]): given[name] for name in group if name in given}
        if len(values) > 1:
            shown = sorted(name for name in group if name in given)
            raise ValueError(
                f"functional_call got multiple values for keys {shown}, which are tied. Consider using tie_weights=False"
            )
        for value in values.values():
            completed.update(dict.fromkeys(group, value))
    return completed


def _check_names(module: Module, given: dict[str, Tensor]) -> None:
    known = {
        *(n for n, _ in module.named_parameters(remove_duplicate=False)),
        *(n for n, _ in module.named_buffers(remove_duplicate=False)),
    }
    unexpected = sorted(given.keys() - known)
    missing = sorted(known - given.keys())
    messages = []
    if unexpected:
        messages.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        messages.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if messages:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(messages))


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Tensor], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """While active, module has these tensors in the place of its own."""
    given = _untie(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, given)
    swapped: list[tuple[dict[str, Any], str, Any, str]] = []
    try:
        for path, value in given.items():
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value!r} is not an instance of tocha.Tensor")
            owner, name = _owner(module, path)
            table = _table(owner, name)
            swapped.append((table, name, table.get(name, _NOTHING), path))
            table[name] = value
        yield
    finally:
        for table, name, own, path in reversed(swapped):
            if path in parameters_and_buffers:  # what forward assigned to buffers is the caller's
                parameters_and_buffers[path] = table[name]
            if own is _NOTHING:
                del table[name]
            else:
                table[name] = own


_NOTHING: Any = object()


def _table(owner: Any, name: str) -> dict[str, Any]:
    """Where owner keeps what it calls by that name."""
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table
    return owner.__dict__


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated place of tocha.func.functional_call."""
    warnings.warn(
        "`tocha.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `tocha.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with these tensors in the place of its own."""
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
