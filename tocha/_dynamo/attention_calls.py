"""flex_attention and the makers of its masks in captured code: the user's functions are captured as graphs of their own.

A call is one node, which calls the library's function with these graphs; backends that trace see the operator it becomes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo import facts
from tocha._dynamo.native_calls import LATE
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.subgraphs import Body, Given, apply_to, filled, structure_of
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import NamedTupleValue, TupleValue
from tocha._dynamo.values.functions import FunctionValue, MethodValue, PartialValue
from tocha._dynamo.values.objects import ObjectValue
from tocha._dynamo.values.tensor import TensorValue

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame

HOME = "tocha.nn.attention.flex_attention"


def _parameters(f: Frame, function: Value) -> int:
    """How many positional arguments a function has to be given."""
    function = function.realize()
    if isinstance(function, FunctionValue):
        return function.code.co_argcount - len(function.defaults)
    if isinstance(function, MethodValue):
        return _parameters(f, function.function) - 1
    if isinstance(function, PartialValue):
        return _parameters(f, function.function) - len(function.args)
    if isinstance(function, ObjectValue):
        return _parameters(f, function.get_attribute(f, "__call__"))
    raise Unsupported("value", f"{function.describe()} as a function of attention scores")


def _mod_body(f: Frame, function: Value, score: Any, device: Any) -> Body:
    """A score_mod (of a score of this dtype) or a mask_mod, of single positions."""
    mods = importlib.import_module("tocha.nn.attention._mods")

    def number(dtype: Any) -> Value:
        fact = facts.run(f.out.fake_mode, "call_function", tocha.zeros, ((),), {"dtype": dtype, "device": device})
        return TensorValue(None, fact)

    args = [number(tocha.int64) for _ in range(4)]
    if score is not None:
        args.insert(0, number(score))
    with mods.PositionsAreTensors():
        return Body(f, function.realize(), args)


def _of_positions(function: Callable) -> Callable:
    """A captured mask_mod with a signature that says so."""
    return lambda b, h, q, k: function(b, h, q, k)


def _of_scores(function: Callable) -> Callable:
    return lambda score, b, h, q, k: function(score, b, h, q, k)


class _Mask:
    """A tracked BlockMask: the structure of what it keeps, to be made again from tensors inside of the node."""

    def __init__(self, f: Frame, mask: Value, given: list[Given]) -> None:
        home = importlib.import_module("tocha.nn.attention._block_mask")
        self.cls, tensors = home.BlockMask, (*home._TENSORS, *home._WRITE_ORDER)
        names = ("seq_lengths", *tensors, "BLOCK_SIZE", "dq_kv_order_spt")
        self.parts = {n: structure_of(f, mask.get_attribute(f, n), given) for n in names}
        self.mod = mask.get_attribute(f, "mask_mod").realize()
        if getattr(self.mod, "real", None) is home._sliced_mask_mod_error:
            raise Unsupported("call", "mask_mod of a sliced BlockMask")

    def made(self, items: Any, mask_mod: Callable) -> Any:
        parts = filled(self.parts, items)
        return self.cls(parts.pop("seq_lengths"), mask_mod=_of_positions(mask_mod), **parts)


def _flex_attention(real: Callable) -> Callable:
    home = importlib.import_module(HOME)
    working_dtype = importlib.import_module("tocha.nn.attention._flex_kernel").working_dtype

    def flex_attention(
        f: Frame,
        query: Value,
        key: Value,
        value: Value,
        score_mod: Value | None = None,
        block_mask: Value | None = None,
        scale: Value | None = None,
        enable_gqa: Value | None = None,
        return_lse: Value | None = None,
        kernel_options: Value | None = None,
        *,
        return_aux: Value | None = None,
    ) -> Value:
        given: list[Given] = []
        at = tuple(structure_of(f, v, given) for v in (query, key, value))
        like = given[0].fact
        options = {"scale": scale, "enable_gqa": enable_gqa, "return_lse": return_lse, "kernel_options": kernel_options}
        plain = {k: v.realize().constant() for k, v in options.items() if v is not None}
        wanted = None if _is_none(return_aux) else home.AuxRequest(*(v.constant() for v in return_aux.realize().unpack(f)))  # type: ignore[union-attr]  # fmt: skip
        bodies, mask = [], None
        if not _is_none(score_mod):
            dtype = facts.run(f.out.fake_mode, "call_function", _dtype_of_scores, (working_dtype, like), {})
            bodies.append(_mod_body(f, score_mod, dtype, like.device))  # type: ignore[arg-type]
        if not _is_none(block_mask):
            mask = _Mask(f, block_mask.realize(), given)  # type: ignore[union-attr]
            bodies.append(_mod_body(f, mask.mod, None, like.device))

        def use(items: Any, *functions: Callable) -> Any:
            score = None if _is_none(score_mod) else _of_scores(functions[0])
            blocks = None if mask is None else mask.made(items, functions[-1])
            found = real(*filled(at, items), score, blocks, **plain, return_aux=wanted)
            return (found[0], tuple(found[1])) if wanted is not None else found

        found = apply_to(f, bodies, given, use)
        if wanted is None:
            return found
        out, more = found.unpack(f)
        return TupleValue([out, NamedTupleValue(home.AuxOutput, more.realize().unpack(f))])

    return flex_attention


def _dtype_of_scores(working_dtype: Callable, query: Any) -> Any:
    """In an autocast region scores have the dtype of what the inputs are cast to."""
    kind = query.device.type
    if tocha.is_autocast_enabled(kind) and query.dtype is not tocha.float64:
        query = query.to(tocha.get_autocast_dtype(kind))
    return working_dtype(query)


def _is_none(value: Value | None) -> bool:
    if value is None:
        return True
    value = value.realize()
    return isinstance(value, Constant) and value.value is None


def _create_block_mask(real: Callable) -> Callable:
    home = importlib.import_module("tocha.nn.attention._block_mask")
    names = (*home._TENSORS, *home._WRITE_ORDER, "dq_kv_order_spt")

    def create_block_mask(f: Frame, mask_mod: Value, *args: Value, **kwargs: Value) -> Value:
        body = _mod_body(f, mask_mod, None, None)
        plain = [a.realize().constant() for a in args]
        named = {k: v.realize().constant() for k, v in kwargs.items()}
        made: dict[str, Any] = {}

        def use(items: Any, function: Callable) -> Any:
            mask = real(_of_positions(function), *plain, **named)
            made.update(sizes=(mask.seq_lengths, mask.BLOCK_SIZE))
            return tuple(getattr(mask, n) for n in names)

        parts = dict(zip(names, apply_to(f, [body], [], use).unpack(f)))
        lengths, sizes = (f.wrap_known(s) for s in made["sizes"])
        return f.wrap_known(home.BlockMask).call(
            f, [lengths], {**parts, "BLOCK_SIZE": sizes, "mask_mod": mask_mod}
        )  # fmt: skip

    return create_block_mask


def _create_mask(real: Callable) -> Callable:
    def create_mask(f: Frame, mod_fn: Value, *args: Value, **kwargs: Value) -> Value:
        of_scores = _parameters(f, mod_fn) == 5
        body = _mod_body(f, mod_fn, tocha.float32 if of_scores else None, None)
        plain = [a.realize().constant() for a in args]
        named = {k: v.realize().constant() for k, v in kwargs.items()}
        signed = _of_scores if of_scores else _of_positions
        return apply_to(f, [body], [], lambda items, fn: real(signed(fn), *plain, **named))

    return create_mask


LATE[HOME, "flex_attention"] = _flex_attention
LATE[HOME, "create_block_mask"] = _create_block_mask
LATE[HOME, "create_mask"] = _create_mask
