"""What the layers share: sizes given as a number or a tuple, text for repr, the weights' first values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

from tocha import _C
from tocha.nn import init

Tensor = _C.Tensor

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that makes n copies of a number, and a tuple of anything that can be iterated."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable, n: int) -> tuple:
    """t from its end to its beginning, each element n times: the order in which `pad` wants amounts.

    >>> _reverse_repeat_tuple((1, 2), 2)
    (2, 2, 1, 1)
    """
    return tuple(chain.from_iterable(repeat(x, n) for x in reversed(tuple(t))))


def _list_with_default(out_size: list[int], defaults: list[int]) -> list[int]:
    """out_size with the last of the defaults where it has None."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :], strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Removes the prefix from the keys of a state dict that have it, in place and in order.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == prefix.removesuffix("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key.removeprefix(prefix)] = metadata.pop(key)


def _arguments(module: object, *names: str) -> str:
    """The named attributes as a call would give them: "p=0.5, inplace=False"."""
    return ", ".join(f"{n}={getattr(module, n)}" for n in names)


def _with_inplace(text: str, inplace: bool) -> str:
    """text, with inplace=True after it where that is so."""
    return ", ".join([text] * bool(text) + ["inplace=True"] * inplace)


def _fan_in_uniform_(weight: Tensor, bias: Tensor | None) -> None:
    """The first values of linear and convolution layers: uniform within 1 / sqrt(fan_in) of 0, weight first."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is None:
        return
    fan_in = init._calculate_fan_in_and_fan_out(weight)[0]
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    init.uniform_(bias, -bound, bound)


def _check_dims(input: Tensor, *allowed: int) -> None:
    """Raises ValueError unless input has one of the allowed numbers of dims."""
    if input.dim() not in allowed:
        expected = " or ".join(f"{n}D" for n in allowed)
        raise ValueError(f"expected {expected} input (got {input.dim()}D input)")


_FACTORY_ARGUMENTS = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of a factory function among a module's keyword arguments; any other is an error.

    `factory_kwargs` among them is a dict of such arguments, for a module with a dtype of its own.

    >>> factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": None}})
    {'dtype': None, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    unexpected = kwargs.keys() - _FACTORY_ARGUMENTS - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for name in sorted(_FACTORY_ARGUMENTS & kwargs.keys()):
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = kwargs[name]
    return result
