"""Dear functions in compiled loops: on packs or in runs with shortcuts as eager kernels compute them, and with eager's bits."""

from __future__ import annotations

import math

import pytest

import tocha
from tocha._inductor import codecache
from tocha.codegen.cpp_packs import PACKS
from tocha.codegen.cpp_scalar import Names, emit
from tocha.ir import dtypes as dt
from tocha.ir import scalar
from tocha.ir.packed import COMPILED_LANEWISE, LANEWISE, PACKED
from tocha.ir.scalar import Input

pytestmark = pytest.mark.usefixtures("kernel_cache")

ENDS = [
    math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-40, 3e38, -3e38, 65536.0, 65537.0, -1e5, 3e9, 1e30, 0.5, -0.5, 1.0, -1.0,
    2.0, -2.5, 88.8, -104.5, 1e-8, -3.0, 1.5707964, -7.0000005,
]  # fmt: skip
OTHERS = [1.0, -0.0, math.inf, 3.0, math.nan, -2.5, 1e-30, 7.0, -math.inf, 0.5, 1e-45, 2.0]
BITS = {tocha.float64: tocha.int64, tocha.float32: tocha.int32, tocha.float16: tocha.int16, tocha.bfloat16: tocha.int16}

DEAR = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "lgamma",
    "digamma",
]
UNARY = [
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "erfc",
    "erfinv",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "isinf",
    "isfinite",
]
BINARY = ["pow", "atan2", "hypot", "fmod", "remainder", "floor_divide", "copysign", "maximum", "fmin"]
SHORTCUTS = ["sin", "cos", "tan", "lgamma", "digamma", "erfinv"]


def operands(dtype: tocha.dtype) -> tuple[tocha.Tensor, tocha.Tensor]:
    """No multiple of a pack, and longer than a run."""
    generator = tocha.Generator().manual_seed(0)
    x = tocha.randn(700, generator=generator, dtype=tocha.float64) * 4
    x = tocha.cat((x, tocha.tensor(ENDS, dtype=tocha.float64).repeat_interleave(len(OTHERS))))
    y = tocha.tensor(OTHERS, dtype=tocha.float64).repeat(len(x) // len(OTHERS) + 1)[: len(x)]
    y = tocha.where(tocha.arange(len(x)) < 600, tocha.rand(len(x), generator=generator, dtype=tocha.float64) + 0.3, y)
    return x.to(dtype), y.to(dtype)


def bits(x: tocha.Tensor) -> tocha.Tensor:
    """The bits of numbers, all NaNs alike."""
    if x.dtype not in BITS:
        return x
    return tocha.where(x.isnan(), tocha.full_like(x, math.nan), x).view(BITS[x.dtype])


@pytest.fixture
def sources(monkeypatch) -> list[str]:
    """The sources of what is compiled."""
    found: list[str] = []
    library_of = codecache.library_of

    def keep(source):
        found.append(source)
        return library_of(source)

    monkeypatch.setattr(codecache, "library_of", keep)
    return found


def assert_eager_bits(f, *args) -> None:
    tocha._dynamo.reset()
    want, got = f(*args), tocha.compile(f)(*args)
    for i, (w, g) in enumerate(zip(want, got, strict=True)):
        assert tocha.equal(bits(w), bits(g)), i


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.bfloat16, tocha.float16], ids=str)
def test_dear_functions_go_by_packs(dtype, sources):
    assert_eager_bits(lambda x: [getattr(tocha, name)(x) for name in DEAR], operands(dtype)[0])
    assert sources and all("vec::Part" in s or "vec::Whole" in s for s in sources)


@pytest.mark.parametrize("dtype", [tocha.float32, tocha.bfloat16], ids=str)
def test_a_function_without_packs_keeps_no_formula_off_them(dtype, sources):
    x, y = operands(dtype)
    assert_eager_bits(lambda x: [x.exp(), *(getattr(tocha, name)(x) for name in UNARY)], x)
    assert_eager_bits(lambda x, y: [y.exp(), *(getattr(tocha, name)(x, y) for name in BINARY)], x, y)
    assert sources and all("vec::Part" in s or "vec::Whole" in s for s in sources)


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.float32], ids=str)
def test_shortcuts_are_taken_in_runs(dtype, sources):
    x, y = operands(dtype)
    if dtype is tocha.float64:
        assert_eager_bits(lambda x: [getattr(tocha, name)(x) * 2 for name in SHORTCUTS], x)
    assert_eager_bits(lambda x, y: [tocha.fmod(x, y) + 1, tocha.remainder(x, y), tocha.floor_divide(x, y)], x, y)
    assert_eager_bits(lambda x: [tocha.special.polygamma(1, x), tocha.special.polygamma(3, x)], x)
    assert sources and all("long_way" in s and "_fast(" in s for s in sources)


def test_runs_read_what_they_write_over(sources):
    """Elements that cannot take the shortcut are read again."""
    x, y = operands(tocha.float64)
    want = tocha.fmod(x * 2, y)
    tocha.compile(lambda x, y: x.mul_(2).fmod_(y))(x, y)
    assert tocha.equal(bits(x), bits(want))
    assert "long_way" in sources[0] and "held0" in sources[0]


def test_a_shortcut_of_a_shortcut():
    x, y = operands(tocha.float64)
    assert_eager_bits(lambda x, y: [tocha.fmod(x.tan(), y).sin(), tocha.fmod(y[:1], y[3:4]) + x.tan()], x, y)


def test_runs_in_tiles(sources):
    x, y = (t[:720].view(24, 30) for t in operands(tocha.float64))
    assert_eager_bits(lambda x, y: [x.t().contiguous().tan() + y.reshape(30, 24)], x, y)
    x = tocha.cat((x, x, x, x, x), 1)
    assert_eager_bits(lambda x, y: [x.t().tan() + y], x, tocha.ones(150, 24, dtype=tocha.float64))
    assert any("transpose_tile" in s and "long_way" in s for s in sources)


def test_runs_of_what_is_gathered_and_scattered(sources):
    x, y = operands(tocha.float64)
    at = tocha.randperm(len(x), generator=tocha.Generator().manual_seed(1))

    def scattered(x, y, at):
        made = tocha.zeros_like(x)
        made[at] = tocha.fmod(x, y)
        return [made]

    assert_eager_bits(lambda x, y, at: [tocha.fmod(x[at], y)], x, y, at)
    assert "long_way" in sources[0]
    assert_eager_bits(scattered, x, y, at)


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.float32, tocha.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [9, 1])
def test_dear_elements_are_folded_across_rows_from_strips(dtype, rows, sources):
    x, y = (t.repeat(rows)[: rows * 300].view(rows, 300).nan_to_num(1.5) for t in operands(dtype))
    assert_eager_bits(
        lambda x, y: [tocha.fmod(x, y).amax(0), x.tan().argmin(0), (x[:, None].tan() + y[:, None]).amax((0, 1))], x, y
    )
    assert rows == 1 or any("fill(" in s and ("long_way" in s or "vec::pack" in s) for s in sources)


def test_truths_are_stored_beside_runs():
    x, y = operands(tocha.float64)
    assert_eager_bits(lambda x, y: [x.tan() > y, tocha.polar(y.abs(), x).real, x.tan().to(tocha.bfloat16)], x, y)


def test_choices_of_doubles_keep_bits():
    x, y = operands(tocha.float64)
    assert_eager_bits(lambda x, y: [x.nan_to_num(), tocha.where(x > 0.5, x, 0.0), tocha.where(x < y, -0.0, y)], x, y)


def test_packs_have_every_primitive_they_claim(tmp_path):
    lines = []
    for op in sorted(PACKED | LANEWISE | COMPILED_LANEWISE, key=str):
        truths = op in (scalar.bitwise_and, scalar.bitwise_or, scalar.bitwise_xor, scalar.bitwise_not)
        types = [dt.bool_ if truths or (op is scalar.where and i == 0) else dt.float32 for i in range(3)]
        args = tuple(Input(i, types[i]) for i in range(op.arity))
        node = op(*args)
        code = emit([node], Names([f"{'m' if t is dt.bool_ else 'x'}{i}" for i, t in enumerate(types)]), vector=PACKS)
        lines.append("{ " + " ".join(code.body) + f" (void){code.results[0]}; }}")
    source = tmp_path / "packs.cpp"
    truths, packs = "vec::Mask m0, vec::Mask m1", "vec::Pack x0, vec::Pack x1, vec::Pack x2"
    source.write_text(
        f'#include "{codecache.PRELUDE}"\nusing namespace tocha;\nvoid all({truths}, {packs}) {{\n'
        + "\n".join(lines)
        + "\n}\n"
    )
    codecache.run_compiler(["-fsyntax-only", *codecache.precompiled_flags(), str(source)])


def test_long_blocks_are_not_scheduled_twice():
    short = codecache.source_flags("  const auto a = math::exp(x);\n" * 4)
    assert short == () and codecache.source_flags("  const auto a = math::exp(x);\n" * 64) == codecache.UNSCHEDULED


@pytest.mark.parametrize("dtype", [tocha.complex64, tocha.complex128])
@pytest.mark.parametrize("name", ["pow", "log", "log10", "tanh", "asin", "atan", "sinh", "acosh"])
def test_functions_of_what_a_pad_puts_there(name, dtype):
    """The C++ compiler knows these operands, and would compute the function itself: 0 to the power of 0 is 1 to it, NaN to the library."""

    def f(x, value):
        x = tocha.nn.functional.pad(x, (3, 5), value=value)
        return x**x if name == "pow" else getattr(x, name)()

    x = tocha.full((2, 20), 0.4 + 0.3j, dtype=dtype)
    for value in (0.0, 0.3, 0.77, -1.9, 2.5):
        found, expected = tocha.compile(f)(x, value), f(x, value)
        assert [str(v) for v in found[0].tolist()] == [str(v) for v in expected[0].tolist()]
