"""Fake tensors held against PyTorch: over the samples of its operator database, which result is on which argument's memory,
and which result is an argument itself; programs, what they print and what they raise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode as TheirMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv as TheirEnv
from torch.testing._internal.common_methods_invocations import op_db

import tocha
from tocha._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from tocha.fx.experimental.symbolic_shapes import ShapeEnv

MOST = 3  # samples of one operator


def function_in(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def ours(v: Any) -> Any:
    """The same value on this side: tensors in memory of their own, laid out alike."""
    if isinstance(v, torch.Tensor):
        if v.layout != torch.strided or v.is_conj() or v.is_neg():
            raise NotImplementedError
        flat = v.detach().as_strided([v.untyped_storage().nbytes() // v.element_size()], [1], 0)
        flat = flat.view(torch.int16) if v.dtype == torch.bfloat16 else flat
        made = tocha.from_numpy(flat.numpy().copy())
        made = made.view(tocha.bfloat16) if v.dtype == torch.bfloat16 else made
        return tocha.empty(0, dtype=made.dtype).set_(made, v.storage_offset(), tuple(v.shape), v.stride())
    if isinstance(v, torch.dtype | torch.layout | torch.memory_format):
        return getattr(tocha, str(v).split(".")[1])
    if isinstance(v, torch.device):
        return tocha.device(str(v))
    if isinstance(v, torch.nn.Module):
        raise NotImplementedError
    if isinstance(v, torch.Generator):
        return tocha.Generator()
    if isinstance(v, list | tuple):
        return type(v)([ours(x) for x in v]) if type(v) in (list, tuple) else tuple(ours(x) for x in v)
    return {k: ours(x) for k, x in v.items()} if isinstance(v, dict) else v


def flat(v: Any, kind: type) -> list[Any]:
    if isinstance(v, kind):
        return [v]
    if isinstance(v, dict):
        v = list(v.values())
    return [x for item in v for x in flat(item, kind)] if isinstance(v, list | tuple) else []


def sharing(results: Any, given: Any, kind: type) -> list[tuple[int, int]]:
    """Per result: the argument that it is, and the first one on whose memory it is."""
    inputs = flat(given, kind)

    def place(holds: Callable[[Any], bool]) -> int:
        return next((i for i, t in enumerate(inputs) if holds(t)), -1)

    return [
        (
            place(lambda t, r=r: t is r),
            place(lambda t, r=r: t.untyped_storage()._cdata == r.untyped_storage()._cdata),
        )
        for r in flat(results, kind)
        if r.numel()
    ]


OPERATORS = [
    (o, f, g)
    for o in op_db
    if o.supports_dtype(torch.float32, "cpu") and "sparse" not in o.name
    if callable(f := function_in(tocha, o.name))
    and (g := function_in(torch, o.name)) is o.op  # others take their arguments in another order
]


@pytest.mark.parametrize(
    ("o", "f", "g"), [pytest.param(o, f, g, id=f"{o.name}/{o.variant_test_name}") for o, f, g in OPERATORS]
)
def test_what_shares_memory(o: Any, f: Callable, g: Callable) -> None:
    warnings.simplefilter("ignore")
    every = list(o.sample_inputs("cpu", torch.float32))
    for sample in every[:: max(1, len(every) // MOST)][:MOST]:
        given = [sample.input, *sample.args], sample.kwargs
        try:
            mine = ours(list(given))
            theirs = g(*given[0], **given[1])
        except (NotImplementedError, RuntimeError):
            continue
        mode = FakeTensorMode()

        def fake(v: Any, mode: FakeTensorMode = mode) -> Any:
            if isinstance(v, tocha.Tensor):
                return mode.from_tensor(v)
            if isinstance(v, dict):
                return {k: fake(x) for k, x in v.items()}
            return type(v)([fake(x) for x in v]) if type(v) in (list, tuple) else v

        args, kwargs = fake(mine[0]), fake(mine[1])
        try:
            with mode:
                found = f(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            continue
        assert sharing(found, [args, kwargs], tocha.Tensor) == sharing(theirs, list(given), torch.Tensor)


def test_most_operators_are_compared() -> None:
    assert len(OPERATORS) > 350


# ---- programs ------------------------------------------------------------------------------------


class Side:
    """One of the two libraries, under one name each."""

    def __init__(self, t: Any, mode: Any):
        self.t, self.mode = t, mode

    def ones(self, *sizes: int, **options: Any) -> Any:
        return self.mode.from_tensor(self.t.ones(*sizes, **options))


def sides(symbolic: bool) -> list[Side]:
    if symbolic:
        return [Side(tocha, FakeTensorMode(shape_env=ShapeEnv())), Side(torch, TheirMode(shape_env=TheirEnv()))]
    return [Side(tocha, FakeTensorMode()), Side(torch, TheirMode())]


def inside(f: Callable) -> Callable:
    def run(s: Side) -> Any:
        with s.mode:
            return f(s)

    return run


PROGRAMS: dict[str, Callable[[Side], Any]] = {
    "printing": lambda s: [repr(s.ones(2, 3)), repr(s.ones(2).long()), repr(s.ones(2, requires_grad=True) * 2)],
    "parameter": lambda s: repr(s.mode.from_tensor(s.t.nn.Parameter(s.t.ones(2)))),
    "devices": inside(lambda s: [str(s.t.ones(2, device=d).device) for d in ("cpu", "cuda", "cuda:1", "meta")]),
    "item": lambda s: s.ones(()).item(),
    "tolist": lambda s: s.ones(3).tolist(),
    "truth": lambda s: bool(s.ones(())),
    "nonzero": lambda s: s.ones(3).nonzero(),
    "mask": lambda s: s.ones(3)[s.ones(3) > 0],
    "constant mask": inside(lambda s: s.t.ones(3)[[True, False, True]]),
    "numpy": lambda s: s.ones(3).numpy(),
    "equal": lambda s: s.t.equal(s.ones(2), s.ones(2)),
    "constants": inside(lambda s: [s.t.tensor(3).item(), (s.t.tensor(3) * 2).item(), s.t.tensor([5])[0].item()]),
    "constant writes": inside(lambda s: s.t.tensor(2.0).add_(1).item()),
    "no constant": inside(lambda s: s.t.zeros(()).item()),
    "real operand": lambda s: s.ones(2) + s.t.ones(2),
    "real target": lambda s: s.t.ones(2).add_(s.ones(2)),
    "two modes": lambda s: s.ones(2) + type(s.mode)().from_tensor(s.t.ones(2)),
    "bad shapes": lambda s: s.ones(2) + s.ones(3),
    "bad product": lambda s: s.ones(2, 3) @ s.ones(2, 3),
    "data": lambda s: [s.ones(2).data._is_view(), s.ones(2).detach()._is_view(), s.ones(2).view(2)._is_view()],
    "data pointer": lambda s: s.ones(2).data_ptr(),
    "versions": inside(lambda s: [s.t.ones(2).add_(1)._version, s.t.ones(2, 2).t_()._version]),
    "leaf write": lambda s: s.ones(2, requires_grad=True).add_(1),
    "bool index": inside(lambda s: [list(s.t.ones(2)[True].shape), list(s.t.ones(2)[False].shape)]),
    "length": lambda s: len(s.ones(2, 3)),
    "steps": lambda s: [n.name() for n, _ in ((s.ones(2, requires_grad=True).exp() * 2).sum()).grad_fn.next_functions],
}
PHRASES = ("Please convert all Tensors", "Mixing fake modes", "leaf Variable", "not supported for tensor subclasses")


def outcome(f: Callable, s: Side) -> Any:
    warnings.simplefilter("ignore")
    try:
        found = f(s)
    except Exception as e:
        return type(e).__name__, next((p for p in PHRASES if p in str(e)), "")
    return described(found)


def described(v: Any) -> Any:
    if isinstance(v, tocha.Tensor | torch.Tensor):
        known = [n if type(n) is int else "?" for n in v.shape]
        return known, str(v.dtype).split(".")[1], str(v.device)
    if isinstance(v, str):
        return v.replace("torch.", "tocha.")
    if isinstance(v, list | tuple):
        return [described(x) for x in v]
    return str(v) if hasattr(v, "__sym_float__") else v


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, symbolic: bool) -> None:
    if symbolic and name in ("printing", "parameter", "steps"):
        pytest.skip("symbols have other names")
    mine, theirs = (outcome(PROGRAMS[name], s) for s in sides(symbolic))
    assert mine == theirs
