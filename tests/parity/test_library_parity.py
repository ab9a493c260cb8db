"""tocha.library beside torch.library: the same programs, what they give and what they refuse."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import tocha

# ---- schemas from annotations ------------------------------------------------------------------------


def annotated(lib: Any) -> list[tuple[Callable, Any]]:
    T = lib.Tensor

    def a(
        x: T, y: int, z: float = 1.0, w: bool = True, s: str = "a", d: lib.dtype = None, e: lib.device = None
    ) -> T: ...
    def b(
        x: T | None, xs: list[T], i: list[int], q: Sequence[int], o: int | None = None,
        n: int | float | bool = 2, ol: list[int] | None = None, *, k: float = 0.5, t: lib.dtype = lib.float32,
    ) -> tuple[T, T]: ...  # fmt: skip
    def c(x: T) -> None: ...
    def d(x: T) -> list[T]: ...
    def e(x: T) -> tuple[T, int, float, bool]: ...
    def f(x: T) -> int: ...
    def g(x: list[T], z: T | None, q: Sequence[T], r: list[T | None]) -> list[T]: ...
    def h(x: T, y: int = 2) -> T: ...
    def i(x) -> T: ...
    def j(x: T): ...
    def k(x: dict) -> T: ...
    def m(*x: T) -> T: ...
    def n(x: T) -> dict: ...
    def o(x: T, y: int = object) -> T: ...
    def p(x: int) -> T: ...
    def q(x: tuple[int, ...]) -> T: ...

    h.__globals__["T"] = T
    return [
        (a, ()), (b, {"xs"}), (c, {"x"}), (c, "unknown"), (d, ()), (e, ()), (f, ()), (g, ()), (g, {"x", "z"}), (h, ()), (i, ()), (j, ()),
        (k, ()), (m, ()), (n, ()), (o, ()), (p, {"x"}), (p, {"y"}), (q, ()),
    ]  # fmt: skip


@pytest.mark.parametrize("case", range(len(annotated(tocha))))
def test_schemas_from_annotations(case: int) -> None:
    def inferred(lib: Any) -> str:
        f, mutated = annotated(lib)[case]
        try:
            return lib.library.infer_schema(f, mutates_args=mutated)
        except ValueError as e:
            return str(e).split(". ")[0].replace("torch", "tocha").split(" Got func")[0]

    assert inferred(tocha) == inferred(torch)


# ---- programs ----------------------------------------------------------------------------------------


def plain(lib: Any, v: Any) -> Any:
    """A result in a form that compares."""
    if isinstance(v, lib.Tensor):
        values = None if v.device.type == "meta" else v.detach().tolist()
        return (tuple(v.shape), str(v.dtype).split(".")[1], v.requires_grad, values)
    if isinstance(v, list | tuple):
        return [plain(lib, x) for x in v]
    return v if v is None or isinstance(v, int | float | str) else str(v).replace("torch", "tocha")


def op(lib: Any, schema: str, kernel: Callable, name: str = "parity_lib::op", **more: Any) -> Any:
    return lib.library.custom_op(name, kernel, schema=schema, **{"mutates_args": (), **more})


def differentiated(lib: Any, f: Callable, *shape: int) -> Any:
    x = lib.ones(*shape, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return [y, x.grad, type(y.grad_fn).__name__]


def with_formula(lib: Any) -> Any:
    made = op(lib, "(Tensor x, float k=3.) -> Tensor", lambda x, k=3.0: x * k)
    made.register_autograd(
        lambda ctx, g: (g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1])
    )
    return made


def written_twice(lib: Any) -> Any:
    made = op(lib, "(Tensor(a0!) x, Tensor y) -> ()", lambda x, y: x.add_(y) is None or None, mutates_args={"x"})
    x = lib.zeros(2)
    before = x._version
    made(x, lib.ones(2))
    return [x, x._version - before]


def lists(lib: Any) -> Any:
    made = op(lib, "(Tensor[] xs, float k) -> Tensor[]", lambda xs, k: [x * k for x in xs])
    made.register_autograd(lambda ctx, gs: ([g * 2 for g in gs], None))
    a, b = lib.ones(2, requires_grad=True), lib.ones(3)
    out = made([a, b], 2)
    out[0].sum().backward()
    return [out, a.grad]


def library(lib: Any, *steps: Callable) -> Any:
    made = lib.library.Library("parity_ns", "DEF")
    try:
        return [step(made) for step in steps][-1]
    finally:
        made._destroy()


def ns(lib: Any) -> Any:
    return lib.ops.parity_ns


SQUARE = (lambda m: m.define("sq(Tensor x) -> Tensor"), lambda m: m.impl("sq", lambda x: x * x, "CPU"))
PROGRAMS: dict[str, Callable] = {
    "call": lambda lib: op(lib, "(Tensor x, int y=2) -> Tensor", lambda x, y=2: x * y)(lib.ones(2)),
    "keywords": lambda lib: op(lib, "(Tensor x, int y=2) -> Tensor", lambda x, y=2: x * y)(lib.ones(2), y=5),
    "through ops": lambda lib: (op(lib, "(Tensor x) -> Tensor", lambda x: x * 2), lib.ops.parity_lib.op(lib.ones(2)))[
        1
    ],
    "schema": lambda lib: op(lib, "(Tensor x, int[2] y=3) -> Tensor", lambda x: x)._opoverload._schema,
    "name": lambda lib: (op(lib, "(Tensor x) -> Tensor", lambda x: x), lib.ops.parity_lib.op.default)[1],
    "gradient": lambda lib: differentiated(lib, with_formula(lib), 2),
    "an int for a float": lambda lib: differentiated(lib, lambda x: with_formula(lib)(x, 2), 2),
    "no formula": lambda lib: differentiated(lib, op(lib, "(Tensor x) -> Tensor", lambda x: x * 2), 2),
    "no fake": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x * 2)(lib.empty(2, device="meta")),
    "few gradients": lambda lib: (
        m := op(lib, "(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y),
        m.register_autograd(lambda ctx, g: g),
        m(lib.ones(2, requires_grad=True), lib.ones(2)).sum().backward(),
    ),
    "the argument itself": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x)(lib.ones(2)),
    "a view": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x[:1])(lib.ones(2)),
    "an empty view": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x.clone()[:0])(lib.ones(2)),
    "nothing": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: None)(lib.ones(2)),
    "a number": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: 3)(lib.ones(2)),
    "one of two": lambda lib: op(lib, "(Tensor x) -> (Tensor, Tensor)", lambda x: x * 2)(lib.ones(2)),
    "two": lambda lib: op(lib, "(Tensor x) -> (Tensor, Tensor)", lambda x: (x * 2, x * 3))(lib.ones(2)),
    "written": written_twice,
    "a formula for a writer": lambda lib: op(
        lib, "(Tensor(a0!) x) -> ()", lambda x: None, mutates_args={"x"}
    ).register_autograd(lambda ctx: None),
    "lists": lists,
    "a string for a tensor": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x * 2)("x"),
    "no arguments": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x * 2)(),
    "too many": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x * 2)(lib.ones(1), 2),
    "a float for an int": lambda lib: op(lib, "(Tensor x, int y) -> Tensor", lambda x, y: x * 2)(lib.ones(1), 2.5),
    "no kernel here": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x * 2, device_types="cuda")(lib.ones(1)),
    "mutates_args and schema": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x, mutates_args=("x",)),
    "bad schema": lambda lib: op(lib, "(Tenser x) -> Tensor", lambda x: x),
    "a dot in the name": lambda lib: op(lib, "(Tensor x) -> Tensor", lambda x: x, name="parity_lib::a.b"),
    "library": lambda lib: library(lib, *SQUARE, lambda m: ns(lib).sq(lib.full((2,), 3.0))),
    "library, gradient": lambda lib: library(lib, *SQUARE, lambda m: differentiated(lib, ns(lib).sq, 2)),
    "library, meta": lambda lib: library(lib, *SQUARE, lambda m: ns(lib).sq(lib.empty(2, device="meta"))),
    "library, no kernel": lambda lib: library(lib, SQUARE[0], lambda m: ns(lib).sq(lib.ones(2))),
    "library, twice": lambda lib: library(lib, SQUARE[0], SQUARE[0]),
    "library, overloads": lambda lib: library(
        lib, *SQUARE, lambda m: m.define("sq.Int(Tensor x, int y) -> Tensor"), lambda m: ns(lib).sq.overloads()
    ),
    "library, implicit": lambda lib: library(
        lib, SQUARE[0], lambda m: m.impl("sq", lambda x: x * x), lambda m: differentiated(lib, ns(lib).sq, 2)
    ),
    "library, autograd key": lambda lib: library(
        lib, *SQUARE, lambda m: m.impl("sq", lambda x: x + 5, "Autograd"), lambda m: ns(lib).sq(lib.ones(2))
    ),
    "library, another namespace": lambda lib: library(lib, lambda m: m.define("other::f(Tensor x) -> Tensor")),
    "library, no function": lambda lib: library(lib, SQUARE[0], lambda m: m.impl("sq", 3, "CPU")),
    "library, alias analysis": lambda lib: library(lib, lambda m: m.define("f(Tensor x) -> Tensor", "ODD")),
    "library, kind": lambda lib: lib.library.Library("parity_ns", "ODD"),
    "library, reserved": lambda lib: lib.library.Library("prim", "DEF"),
    "library, second": lambda lib: library(lib, lambda m: lib.library.Library("parity_ns", "DEF")),
    "library, define in impl": lambda lib: lib.library.Library("parity_ns", "IMPL").define("f(Tensor x) -> Tensor"),
    "library, destroyed": lambda lib: (library(lib, *SQUARE), ns(lib).sq)[1],
    "define, schema": lambda lib: lib.library.define("parity_ns::f", "Tensor x -> Tensor"),
    "define, name": lambda lib: lib.library.define("f", "(Tensor x) -> Tensor"),
    "impl, device": lambda lib: lib.library.impl("parity_ns::f", "abacus")(lambda x: x),
    "autograd of nothing": lambda lib: lib.library.register_autograd("parity_ns::none", lambda ctx, g: g),
    "kernel of nothing": lambda lib: lib.library.get_kernel("parity_ns::none", "CPU"),
}


def outcome(lib: Any, program: Callable) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(lib, program(lib))
        except Exception as e:
            return e


# Refusals that are worded otherwise, because PyTorch's words are about its insides.
OWN_WORDS = {"bad schema", "few gradients", "the argument itself", "a view", "kernel of nothing"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    theirs, mine = outcome(torch, PROGRAMS[name]), outcome(tocha, PROGRAMS[name])
    if not isinstance(theirs, Exception):
        assert mine == theirs
        return
    assert type(mine) is type(theirs), (mine, theirs)
    if name not in OWN_WORDS:
        said = str(theirs).replace("torch", "tocha").splitlines()[0].split(". ")[0]
        assert said[:110] in str(mine)


# ---- opcheck -----------------------------------------------------------------------------------------


def checked(lib: Any, kernel: Callable, fake: Callable | None, formula: Callable | None, grad: bool) -> Any:
    made = op(lib, "(Tensor x) -> Tensor", kernel, name="parity_check::op")
    if fake is not None:
        made.register_fake(fake)
    if formula is not None:
        made.register_autograd(formula)
    found = lib.library.opcheck(made, (lib.ones(3, 4, requires_grad=grad),), raise_exception=False)
    return {k: v if v == "SUCCESS" else str(v).replace("torch", "tocha") for k, v in found.items()}


def writes(x: Any) -> Any:
    x.mul_(3)
    return x.clone()


DEFECTS: dict[str, Callable] = {
    "none": lambda lib: checked(lib, lambda x: x * 2, lib.empty_like, lambda ctx, g: g * 2, True),
    "writes": lambda lib: checked(lib, writes, lib.empty_like, None, False),
    "another shape": lambda lib: checked(lib, lambda x: x.sum(), lib.empty_like, None, False),
    "another dtype": lambda lib: checked(
        lib, lambda x: x * 2, lambda x: lib.empty_like(x, dtype=lib.float64), None, False
    ),
    "other strides": lambda lib: checked(lib, lambda x: (x * 2).t().contiguous().t(), lib.empty_like, None, False),
    "no rule": lambda lib: checked(lib, lambda x: x * 2, None, None, False),
    "no formula": lambda lib: checked(lib, lambda x: x * 2, lib.empty_like, None, True),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_opcheck_says_the_same(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = DEFECTS[name](tocha), DEFECTS[name](torch)
    assert {k: v == "SUCCESS" for k, v in mine.items()}["test_schema"] == (theirs["test_schema"] == "SUCCESS")
    for check in ("test_schema", "test_autograd_registration", "test_faketensor"):
        assert mine[check].split("Please")[0] == theirs[check].split("Please")[0]
    assert (mine["test_aot_dispatch_dynamic"] == "SUCCESS") >= (theirs["test_aot_dispatch_dynamic"] == "SUCCESS")


def test_numpy_kernels_agree() -> None:
    def run(lib: Any) -> Any:
        made = op(lib, "(Tensor x) -> Tensor", lambda x: lib.from_numpy(np.sin(x.detach().numpy())))
        return plain(lib, made(lib.linspace(0, 1, 5)))

    np.testing.assert_allclose(run(tocha)[3], run(torch)[3], rtol=1e-6)
