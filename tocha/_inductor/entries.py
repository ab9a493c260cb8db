"""What a compiled graph consists of beside its library, as JSON: arguments of the operators it calls, constants, what is done around it.

Everything is written by kind and read back by kind; what has no kind here is `NotKept`, and its graph is compiled in every process.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import tocha
from tocha import _C
from tocha._functorch.views import Step
from tocha._functorch.wrapping import Mutation, Output, Refusal, Wrapping
from tocha._inductor.assembled import Assembled, Element, Real, Size, TensorPlace, Truth
from tocha._library.native_calls import change_of_memory, record_call
from tocha._subclasses.calls import record_named
from tocha.ir.loops import Call

LARGEST_CONSTANT = 1 << 16  # bytes
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


GIVEN = {TensorPlace: "tensor", Size: "size", Real: "real", Truth: "truth", Element: "element"}


class NotKept(ValueError):
    """A graph with something that has no form in the cache."""


def encode(v: Any) -> Any:
    if v is None or isinstance(v, str) or type(v) in (bool, int):
        return v
    if type(v) in GIVEN:
        return {GIVEN[type(v)]: int(v)}
    if type(v) is float:
        return v if math.isfinite(v) else {"float": repr(v)}
    if type(v) is complex:
        return {"complex": [encode(v.real), encode(v.imag)]}
    if isinstance(v, list):
        return [encode(x) for x in v]
    if type(v) in (tuple, _C.Size):
        return {"tuple": [encode(x) for x in v]}
    if isinstance(v, _C.dtype):
        return {"dtype": str(v).split(".")[-1]}
    if isinstance(v, _C.device):
        return {"device": str(v)}
    if any(v is getattr(_C, name) for name in FORMATS):
        return {"format": next(name for name in FORMATS if v is getattr(_C, name))}
    if v is _C.strided:
        return {"layout": "strided"}
    raise NotKept(f"a value that is {type(v).__name__}")


DECODERS: dict[str, Callable[[Any], Any]] = {
    "tensor": TensorPlace,
    "size": Size,
    "real": Real,
    "truth": Truth,
    "element": Element,
    "float": float,
    "complex": lambda v: complex(*map(decode, v)),
    "tuple": lambda v: tuple(map(decode, v)),
    "dtype": lambda v: getattr(_C, v),
    "device": _C.device,
    "format": lambda v: getattr(_C, v),
    "layout": lambda v: _C.strided,
}


def decode(v: Any) -> Any:
    if isinstance(v, list):
        return [decode(x) for x in v]
    if not isinstance(v, dict):
        return v
    ((kind, value),) = v.items()
    return DECODERS[kind](value)


def encode_constant(t: _C.Tensor) -> Any:
    if t.is_conj() or t.is_neg() or not t.is_contiguous() or t.nbytes > LARGEST_CONSTANT or t.device.type != "cpu":
        raise NotKept("a constant that is large or no plain tensor")
    content = t.detach().reshape(-1).view(tocha.uint8).numpy().tobytes() if t.numel() else b""
    return {"dtype": str(t.dtype).split(".")[-1], "sizes": list(t.shape), "bytes": base64.b64encode(content).decode()}


def decode_constant(v: Any) -> _C.Tensor:
    dtype, content = getattr(_C, v["dtype"]), bytearray(base64.b64decode(v["bytes"]))
    if not content:
        return tocha.empty(v["sizes"], dtype=dtype)
    return tocha.frombuffer(content, dtype=tocha.uint8).clone().view(dtype).reshape(v["sizes"])


def encode_call(c: Call) -> Any:
    function = c.function
    form: Any = None
    if isinstance(function, Assembled):
        form, names = [encode(v) for v in function.form], function.names
    else:
        names = c.keywords
    if not c.key.startswith(("record ", "in_place ", "handle aten.")):
        raise NotKept(f"a call of {c.key or c.name}")
    return {
        "key": c.key, "form": form, "names": list(names), "arguments": [encode(v) for v in c.arguments],
        "holes": list(c.holes), "sized": c.sizes is not None,
    }  # fmt: skip


def decode_call(v: Any) -> tuple:
    """What the native loader takes."""
    function = operator_named(v["key"])
    if v["form"] is not None:
        return Assembled(function, decode(v["form"]), tuple(v["names"])), (), (), None, v["sized"]
    return function, tuple(decode(v["arguments"])), tuple(v["holes"]), tuple(v["names"]) or None, v["sized"]


def operator_named(key: str) -> Callable:
    kind, name = key.split(" ", 1)
    if kind == "record":
        return record_call(record_named(name)[0], False)._op
    if kind == "in_place":
        return change_of_memory(record_named(name)[0])
    return handle_named(name)._op


def handle_named(name: str) -> Any:
    found: Any = tocha.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def encode_step(step: Step) -> Any:
    if getattr(step.handle, "namespace", "") != "aten":
        raise NotKept(f"a view by {step.handle}")
    return [str(step.handle), encode(step.args), [[k, encode(v)] for k, v in step.kwargs.items()], step.index]


def decode_step(v: Any) -> Step:
    name, args, kwargs, index = v
    return Step(handle_named(name), decode(args), {k: decode(x) for k, x in kwargs}, index)


def encode_output(o: Output) -> Any:
    return [o.kind, o.index, encode(o.value), o.recorded, [encode_step(step) for step in o.chain]]


def decode_output(v: Any) -> Output:
    kind, index, value, recorded, chain = v
    return Output(kind, index, tuple(map(decode_step, chain)), recorded, decode(value))


def encode_wrapping(w: Wrapping) -> Any:
    return {
        "raws": w.num_raw,
        "outputs": [encode_output(o) for o in w.outputs],
        "mutations": [[m.input, m.raw, m.recorded, m.writes] for m in w.mutations],
        "differentiable": list(w.differentiable),
        "layouts": [[list(sizes), list(strides)] for sizes, strides in w.layouts],
        "copied": list(w.copied),
        "sources": [list(x) for x in w.sources],
        "refusals": [[r.raw, r.inputs, r.not_implemented, r.reason] for r in w.refusals],
    }


def decode_wrapping(v: Any) -> Wrapping:
    return Wrapping(
        v["raws"],
        [decode_output(o) for o in v["outputs"]],
        [Mutation(place, raw, recorded, writes=writes) for place, raw, recorded, writes in v["mutations"]],
        v["differentiable"],
        [(tuple(sizes), tuple(strides)) for sizes, strides in v["layouts"]],
        v["copied"],
        v["sources"],
        [Refusal(*r) for r in v["refusals"]],
    )
