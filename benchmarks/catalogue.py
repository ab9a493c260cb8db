"""Operators of every family at three sizes, from which hundred.py draws. Nothing here imports tocha or PyTorch."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Size = tuple[int, ...]
SIZES = ("small", "medium", "large")

VECTOR: tuple[Size, ...] = ((100,), (20_000,), (1_000_000,))
SQUARE: tuple[Size, ...] = ((16, 16), (200, 200), (1024, 1024))
BATCH: tuple[Size, ...] = ((4, 8, 16), (8, 64, 128), (32, 128, 512))
IMAGES: tuple[Size, ...] = ((1, 3, 16, 16), (4, 16, 32, 32), (8, 64, 56, 56))


class Arrays:
    """Random arrays; the same ones for the same seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def uniform(self, *shape: int, low: float = 0.1, high: float = 0.9) -> np.ndarray:
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def below(self, limit: int, *shape: int) -> np.ndarray:
        return self.rng.integers(0, limit, shape)

    def mask(self, *shape: int) -> np.ndarray:
        return self.rng.random(shape) < 0.5

    def complex(self, *shape: int) -> np.ndarray:
        return (self.normal(*shape) + 1j * self.normal(*shape)).astype(np.complex64)

    def positive_definite(self, *shape: int) -> np.ndarray:
        a = self.normal(*shape)
        return a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1], dtype=np.float32)


@dataclass(frozen=True)
class Operator:
    """call(module, *tensors of arrays(Arrays, *size)); `derived`: its gradients by the floating-point tensors are timed too."""

    family: str
    name: str
    sizes: tuple[Size, ...]
    arrays: Callable[..., list[np.ndarray]]
    call: Callable[..., object]
    derived: bool = True


@dataclass(frozen=True)
class Case:
    operator: Operator
    size: int  # place in operator.sizes
    backward: bool

    @property
    def name(self) -> str:
        shape = "x".join(map(str, self.operator.sizes[self.size]))
        return f"{self.operator.name} {shape}" + (", backward too" if self.backward else "")

    def make(self, m) -> Callable[[], object]:
        """The call to time, on module m."""
        arrays = Arrays(zlib.crc32(self.name.encode()))
        tensors = [m.tensor(a) for a in self.operator.arrays(arrays, *self.operator.sizes[self.size])]
        call = self.operator.call
        if not self.backward:
            return lambda: call(m, *tensors)
        leaves = [t.requires_grad_() for t in tensors if t.is_floating_point() or t.is_complex()]

        def results() -> list:
            found = call(m, *tensors)
            return [t for t in (found if isinstance(found, (tuple, list)) else [found]) if t.requires_grad]

        grads = [m.ones_like(t.detach()) for t in results()]
        return lambda: m.autograd.grad(results(), leaves, grads, allow_unused=True)


def one(sizes=SQUARE, **options) -> tuple:
    """Sizes and arrays of an operator of one tensor."""
    if options:
        return sizes, lambda a, *s: [a.uniform(*s, **options)]
    return sizes, lambda a, *s: [a.normal(*s)]


def two(sizes=SQUARE) -> tuple:
    return sizes, lambda a, *s: [a.normal(*s), a.normal(*s)]


def elementwise() -> list[Operator]:
    unit = {"low": 0.05, "high": 0.95}
    ops = [
        Operator(family, name, *one(SQUARE, **unit), lambda m, x, name=name: getattr(m, name)(x))
        for family, names in {
            "exponential": ("exp", "log", "sigmoid", "log1p", "expm1", "exp2"),
            "trigonometric": ("sin", "tanh", "atan", "acos", "tan", "asinh"),
            "special": ("erf", "lgamma", "digamma", "erfinv", "i0"),
            "rounding": ("round", "floor"),
            "arithmetic": ("sqrt", "abs", "reciprocal", "square", "neg"),
        }.items()
        for name in names
    ]
    ops += [
        Operator("activations", name, *one(), lambda m, x, name=name: getattr(m.nn.functional, name)(x))
        for name in ("relu", "gelu", "silu", "leaky_relu", "elu", "softplus", "hardswish", "mish", "glu")
    ]
    ops += [
        Operator("arithmetic", name, *two(), lambda m, x, y, name=name: getattr(m, name)(x, y))
        for name in ("add", "mul", "div", "maximum", "hypot", "atan2", "fmod")
    ]
    ops += [
        Operator("arithmetic", "add a row", SQUARE, lambda a, n, k: [a.normal(n, k), a.normal(k)], lambda m, x, y: x + y),
        Operator(
            "arithmetic", "add a column", SQUARE, lambda a, n, k: [a.normal(n, k), a.normal(n, 1)], lambda m, x, y: x + y
        ),
        Operator("arithmetic", "pow 3", *one(), lambda m, x: x**3),
        Operator("arithmetic", "pow tensor", *one(**unit), lambda m, x: m.pow(x, x)),
        Operator("arithmetic", "int64 remainder", SQUARE, lambda a, *s: [a.below(1000, *s)], lambda m, x: x % 7, False),
        Operator("arithmetic", "add transposed", *two(), lambda m, x, y: x + y.t()),
        Operator("blend", "where", SQUARE, lambda a, *s: [a.mask(*s), a.normal(*s), a.normal(*s)], lambda m, *t: m.where(*t)),
        Operator("blend", "clamp", *one(), lambda m, x: m.clamp(x, -0.5, 0.5)),
        Operator("blend", "lerp", *two(), lambda m, x, y: m.lerp(x, y, 0.3)),
        Operator("blend", "addcmul", *two(), lambda m, x, y: m.addcmul(x, x, y, value=0.5)),
        Operator("blend", "nan_to_num", *one(), lambda m, x: m.nan_to_num(x)),
        Operator("comparison", "lt", *two(), lambda m, x, y: x < y, False),
        Operator("comparison", "isfinite", *one(), lambda m, x: m.isfinite(x), False),
        Operator("comparison", "equal", *one(), lambda m, x: m.equal(x, x), False),
        Operator("logic", "logical_and", SQUARE, lambda a, *s: [a.mask(*s), a.mask(*s)], lambda m, *t: m.logical_and(*t), False),
        Operator("logic", "bitwise_xor", SQUARE, lambda a, *s: [a.below(99, *s), a.below(99, *s)], lambda m, x, y: x ^ y, False),
        Operator("complex", "complex mul", SQUARE, lambda a, *s: [a.complex(*s), a.complex(*s)], lambda m, x, y: x * y),
        Operator("complex", "complex abs", SQUARE, lambda a, *s: [a.complex(*s)], lambda m, x: m.abs(x)),
        Operator("complex", "polar", *two(), lambda m, x, y: m.polar(x, y)),
        Operator("complex", "angle", SQUARE, lambda a, *s: [a.complex(*s)], lambda m, x: m.angle(x)),
    ]  # fmt: skip
    return ops


def reducing() -> list[Operator]:
    ops = [
        Operator("reductions", f"{name} {where}", *one(), call)
        for name in ("sum", "mean", "amax", "logsumexp", "prod")
        for where, call in (
            ("of rows", lambda m, x, name=name: getattr(m, name)(x, 1)),
            ("of columns", lambda m, x, name=name: getattr(m, name)(x, 0)),
        )
    ]
    ops += [
        Operator("reductions", "sum of all", *one(VECTOR), lambda m, x: x.sum()),
        Operator("reductions", "sum of the middle", *one(BATCH), lambda m, x: x.sum(1)),
        Operator("reductions", "max of rows", *one(), lambda m, x: x.max(1)[0]),
        Operator("reductions", "argmax of columns", *one(), lambda m, x: x.argmax(0), False),
        Operator("reductions", "any of rows", SQUARE, lambda a, *s: [a.mask(*s)], lambda m, x: x.any(1), False),
        Operator("reductions", "int64 sum", SQUARE, lambda a, *s: [a.below(99, *s)], lambda m, x: x.sum(), False),
        Operator("statistics", "var of rows", *one(), lambda m, x: x.var(1)),
        Operator("statistics", "std of columns", *one(), lambda m, x: x.std(0)),
        Operator("statistics", "median of rows", *one(), lambda m, x: x.median(1)[0]),
        Operator("statistics", "quantile of rows", *one(), lambda m, x: x.quantile(0.3, 1)),
        Operator(
            "statistics", "mode of rows", SQUARE, lambda a, *s: [a.below(9, *s)], lambda m, x: x.mode(1)[0], False
        ),
        Operator("statistics", "bincount", VECTOR, lambda a, n: [a.below(100, n)], lambda m, x: m.bincount(x), False),
        Operator("statistics", "histc", *one(VECTOR), lambda m, x: m.histc(x, 50), False),
        Operator("statistics", "cov", *one(((4, 16), (64, 256), (256, 2048))), lambda m, x: m.cov(x)),
        Operator("norms", "vector_norm of rows", *one(), lambda m, x: m.linalg.vector_norm(x, dim=1)),
        Operator("norms", "norm of all", *one(VECTOR), lambda m, x: x.norm()),
        Operator("norms", "normalize", *one(), lambda m, x: m.nn.functional.normalize(x)),
        Operator("norms", "cosine_similarity", *two(), lambda m, x, y: m.nn.functional.cosine_similarity(x, y)),
        Operator("scans", "cumsum of rows", *one(), lambda m, x: x.cumsum(1)),
        Operator("scans", "cumsum of columns", *one(), lambda m, x: x.cumsum(0)),
        Operator("scans", "cumprod", *one(low=0.9, high=1.1), lambda m, x: x.cumprod(1)),
        Operator("scans", "cummax", *one(), lambda m, x: x.cummax(1)[0]),
        Operator("scans", "logcumsumexp", *one(), lambda m, x: x.logcumsumexp(1)),
        Operator("calculus", "diff", *one(), lambda m, x: x.diff()),
        Operator("calculus", "trapezoid", *one(), lambda m, x: m.trapezoid(x)),
        Operator("softmax", "softmax of rows", *one(), lambda m, x: x.softmax(1)),
        Operator("softmax", "softmax of the middle", *one(BATCH), lambda m, x: x.softmax(1)),
        Operator("softmax", "log_softmax of rows", *one(), lambda m, x: x.log_softmax(1)),
    ]
    return ops


def moving() -> list[Operator]:
    """Copies, gathers, scatters, joins, sorts."""
    tables = ((50, 8), (2000, 64), (50_000, 128))
    ops = [
        Operator("copies", "clone", *one(), lambda m, x: x.clone()),
        Operator("copies", "transpose copy", *one(), lambda m, x: x.t().contiguous()),
        Operator("copies", "permute copy", *one(BATCH), lambda m, x: x.permute(2, 0, 1).contiguous()),
        Operator("copies", "to bfloat16", *one(), lambda m, x: x.to(m.bfloat16)),
        Operator("copies", "to float64", *one(), lambda m, x: x.double()),
        Operator("copies", "strided copy", *one(), lambda m, x: x[:, ::2].contiguous()),
        Operator("copies", "fill_", *one(), lambda m, x: x.fill_(2.0), False),
        Operator("view_copies", "slice_copy", *one(), lambda m, x: m.slice_copy(x, 1, 2, -2)),
        Operator("views", "select and transpose", *one(), lambda m, x: x[1:].transpose(0, 1)[2]),
        Operator("views", "diagonal", *one(), lambda m, x: x.diagonal()),
        Operator("rearrange", "flip of rows", *one(), lambda m, x: x.flip(1)),
        Operator("rearrange", "flip of columns", *one(), lambda m, x: x.flip(0)),
        Operator("rearrange", "flip of images", *one(IMAGES), lambda m, x: x.flip(3)),
        Operator("rearrange", "roll", *one(), lambda m, x: x.roll((3, 5), (0, 1))),
        Operator("rearrange", "repeat", *one(), lambda m, x: x.repeat(2, 2)),
        Operator("rearrange", "repeat_interleave", *one(), lambda m, x: x.repeat_interleave(2, 1)),
        Operator("rearrange", "pad constant", *one(IMAGES), lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1))),
        Operator("rearrange", "pad reflect", *one(IMAGES), lambda m, x: m.nn.functional.pad(x, (2, 2, 2, 2), "reflect")),
        Operator("rearrange", "pixel_shuffle", *one(((1, 4, 8, 8), (4, 16, 32, 32), (8, 64, 64, 64))), lambda m, x: m.pixel_shuffle(x, 2)),
        Operator("rearrange", "rot90", *one(), lambda m, x: x.rot90()),
        Operator("joins", "cat of rows", *two(), lambda m, x, y: m.cat([x, y])),
        Operator("joins", "cat of columns", *two(), lambda m, x, y: m.cat([x, y], 1)),
        Operator("joins", "stack", *two(), lambda m, x, y: m.stack([x, y], -1)),
        Operator("joins", "kron", *one(((4, 4), (16, 16), (32, 32))), lambda m, x: m.kron(x, x)),
        Operator("splits", "chunk", *one(), lambda m, x: m.chunk(x, 4, 1)),
        Operator("triangles", "tril", *one(), lambda m, x: x.tril()),
        Operator("triangles", "diag_embed", *one(((4, 8), (16, 64), (16, 512))), lambda m, x: m.diag_embed(x)),
        Operator("masks", "masked_fill", SQUARE, lambda a, *s: [a.normal(*s), a.mask(*s)], lambda m, x, c: x.masked_fill(c, 0.0)),
        Operator("masks", "masked_select", SQUARE, lambda a, *s: [a.normal(*s), a.mask(*s)], lambda m, x, c: x.masked_select(c)),
        Operator("masks", "nonzero", SQUARE, lambda a, *s: [a.mask(*s)], lambda m, x: x.nonzero(), False),
        Operator("indexing", "index_select", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n // 2)], lambda m, x, i: x.index_select(0, i)),
        Operator("indexing", "x[i]", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n // 2)], lambda m, x, i: x[i]),
        Operator("indexing", "x[i, j]", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n), a.below(k, n)], lambda m, x, i, j: x[i, j]),
        Operator("indexing", "index_add", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n // 2), a.normal(n // 2, k)], lambda m, x, i, y: x.index_add(0, i, y)),
        Operator("indexing", "index_put accumulate", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n // 2), a.normal(n // 2, k)], lambda m, x, i, y: x.index_put((i,), y, accumulate=True)),
        Operator("indexing", "take", tables, lambda a, n, k: [a.normal(n, k), a.below(n * k, n)], lambda m, x, i: x.take(i)),
        Operator("indexing", "one_hot", ((16,), (256,), (4096,)), lambda a, n: [a.below(100, n)], lambda m, i: m.nn.functional.one_hot(i, 100), False),
        Operator("scatter", "gather of rows", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(k, n, k)], lambda m, x, i: x.gather(1, i)),
        Operator("scatter", "gather of columns", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(n, n, k)], lambda m, x, i: x.gather(0, i)),
        Operator("scatter", "scatter_add of rows", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(k, n, k), a.normal(n, k)], lambda m, x, i, y: x.scatter_add(1, i, y)),
        Operator("scatter", "scatter_add of columns", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(n, n, k), a.normal(n, k)], lambda m, x, i, y: x.scatter_add(0, i, y)),
        Operator("scatter", "scatter_add to a vector", VECTOR, lambda a, n: [a.normal(n // 10), a.below(n // 10, n), a.normal(n)], lambda m, x, i, y: x.scatter_add(0, i, y)),
        Operator("scatter", "scatter_add of expanded rows", tables, lambda a, n, k: [a.normal(n, k), a.below(n, n), a.normal(n, k)], lambda m, x, i, y: x.scatter_add(0, i[:, None].expand_as(y), y)),
        Operator("scatter", "scatter", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(k, n, k), a.normal(n, k)], lambda m, x, i, y: x.scatter(1, i, y)),
        Operator("scatter", "scatter_reduce amax", SQUARE, lambda a, n, k: [a.normal(n, k), a.below(k, n, k), a.normal(n, k)], lambda m, x, i, y: x.scatter_reduce(1, i, y, "amax")),
        Operator("sorting", "sort of rows", *one(), lambda m, x: x.sort(1)[0]),
        Operator("sorting", "sort of a vector", *one(((100,), (20_000,), (300_000,))), lambda m, x: x.sort()[0]),
        Operator("sorting", "argsort of columns", *one(), lambda m, x: x.argsort(0), False),
        Operator("sorting", "topk", *one(), lambda m, x: x.topk(5)[0]),
        Operator("sorting", "unique", ((100,), (20_000,), (300_000,)), lambda a, n: [a.below(n // 10, n)], lambda m, x: x.unique(), False),
        Operator("searching", "searchsorted", *one(((100,), (20_000,), (300_000,))), lambda m, x: m.searchsorted(m.arange(100.0), x), False),
        Operator("searching", "isin", VECTOR, lambda a, n: [a.below(1000, n)], lambda m, x: m.isin(x, x[:50]), False),
    ]  # fmt: skip
    return ops


def multiplying() -> list[Operator]:
    square = ((8,), (64,), (512,))
    systems = ((8,), (128,), (512,))
    spectra = ((8,), (64,), (256,))
    batches = ((4, 4, 4), (16, 32, 32), (32, 128, 128))

    def system(a: Arrays, n: int, k: int = 8) -> list[np.ndarray]:
        return [a.normal(n, n) + 4 * np.eye(n, dtype=np.float32), a.normal(n, k)]

    return [
        Operator("products", "mm", square, lambda a, n: [a.normal(n, n), a.normal(n, n)], lambda m, x, y: x @ y),
        Operator("products", "mm with a transpose", square, lambda a, n: [a.normal(n, n), a.normal(n, n)], lambda m, x, y: x @ y.t()),
        Operator("products", "float64 mm", square, lambda a, n: [a.normal(n, n).astype(np.float64)], lambda m, x: x @ x),
        Operator("products", "mv", *one(SQUARE), lambda m, x: x @ x[0]),
        Operator("products", "bmm", batches, lambda a, *s: [a.normal(*s), a.normal(*s)], lambda m, x, y: m.bmm(x, y)),
        Operator("products", "matmul of heads", ((2, 2, 8, 8), (4, 4, 64, 32), (8, 12, 128, 64)), lambda a, *s: [a.normal(*s), a.normal(*s)], lambda m, x, y: x @ y.mT),
        Operator("products", "linear", ((4, 16, 16), (32, 256, 64), (512, 512, 512)), lambda a, n, i, o: [a.normal(n, i), a.normal(o, i), a.normal(o)], lambda m, *t: m.nn.functional.linear(*t)),
        Operator("products", "linear of tokens", ((2, 8, 16), (8, 64, 128), (4, 256, 512)), lambda a, b, t, c: [a.normal(b, t, c), a.normal(4 * c, c), a.normal(4 * c)], lambda m, *t: m.nn.functional.linear(*t)),
        Operator("products", "addmm", square, lambda a, n: [a.normal(n), a.normal(n, n), a.normal(n, n)], lambda m, *t: m.addmm(*t)),
        Operator("products", "einsum bij,bkj->bik", batches, lambda a, *s: [a.normal(*s), a.normal(*s)], lambda m, x, y: m.einsum("bij,bkj->bik", x, y)),
        Operator("products", "outer", *one(((16,), (200,), (2000,))), lambda m, x: m.outer(x, x)),
        Operator("products", "dot", *one(VECTOR), lambda m, x: m.dot(x, x)),
        Operator("products", "matrix_exp", *one(((8, 8), (64, 64), (256, 256)), low=0.0, high=0.1), lambda m, x: m.linalg.matrix_exp(x)),
        Operator("solvers", "inv", systems, lambda a, n: system(a, n)[:1], lambda m, x: m.linalg.inv(x)),
        Operator("solvers", "inv of a batch", ((4, 4, 4), (64, 16, 16), (64, 64, 64)), lambda a, *s: [a.positive_definite(*s)], lambda m, x: m.linalg.inv(x)),
        Operator("solvers", "solve", systems, system, lambda m, x, y: m.linalg.solve(x, y)),
        Operator("solvers", "solve for a vector", systems, lambda a, n: system(a, n, 1), lambda m, x, y: m.linalg.solve(x, y[:, 0])),
        Operator("solvers", "solve for a matrix", systems, lambda a, n: system(a, n, n), lambda m, x, y: m.linalg.solve(x, y)),
        Operator("solvers", "det", systems, lambda a, n: [a.normal(n, n) / n**0.5], lambda m, x: m.linalg.det(x)),
        Operator("solvers", "solve_triangular", systems, system, lambda m, x, y: m.linalg.solve_triangular(x, y, upper=False)),
        Operator("solvers", "cholesky_solve", systems, lambda a, n: [a.normal(n, 8), a.positive_definite(n, n)], lambda m, x, y: m.cholesky_solve(x, y)),
        Operator("decompositions", "cholesky", systems, lambda a, n: [a.positive_definite(n, n)], lambda m, x: m.linalg.cholesky(x)),
        Operator("decompositions", "qr", systems, lambda a, n: system(a, n)[:1], lambda m, x: m.linalg.qr(x)[0]),
        Operator("decompositions", "lu_factor", systems, lambda a, n: system(a, n)[:1], lambda m, x: m.linalg.lu_factor(x)[0]),
        Operator("spectra", "eigh", spectra, lambda a, n: [a.positive_definite(n, n)], lambda m, x: m.linalg.eigh(x)),
        Operator("spectra", "eigvalsh", spectra, lambda a, n: [a.positive_definite(n, n)], lambda m, x: m.linalg.eigvalsh(x)),
        Operator("spectra", "svd", spectra, lambda a, n: [a.normal(n, n)], lambda m, x: m.linalg.svd(x, full_matrices=False)),
        Operator("spectra", "svdvals", spectra, lambda a, n: [a.normal(2 * n, n)], lambda m, x: m.linalg.svdvals(x)),
        Operator("spectra", "eig", ((8,), (64,), (128,)), lambda a, n: [a.normal(n, n)], lambda m, x: m.linalg.eig(x)[0], False),
        Operator("pseudoinverse", "pinv", ((8,), (64,), (200,)), lambda a, n: [a.normal(n, n // 2)], lambda m, x: m.linalg.pinv(x)),
        Operator("pseudoinverse", "lstsq", systems, lambda a, n: [a.normal(n, n // 2), a.normal(n, 4)], lambda m, x, y: m.linalg.lstsq(x, y)[0]),
        Operator("distances", "cdist", ((8, 3), (200, 16), (1000, 64)), lambda a, *s: [a.normal(*s), a.normal(*s)], lambda m, x, y: m.cdist(x, y)),
        Operator("distances", "pdist", *one(((8, 3), (100, 16), (400, 64))), lambda m, x: m.nn.functional.pdist(x)),
        Operator("distances", "cross", *two(((16, 3), (1000, 3), (100_000, 3))), lambda m, x, y: m.linalg.cross(x, y)),
        Operator("attention", "attention", ((1, 2, 16, 16), (4, 4, 64, 32), (4, 8, 256, 64)), lambda a, *s: [a.normal(*s) for _ in range(3)], lambda m, *t: m.nn.functional.scaled_dot_product_attention(*t)),
        Operator("attention", "causal attention", ((1, 2, 16, 16), (4, 4, 64, 32), (2, 8, 512, 64)), lambda a, *s: [a.normal(*s) for _ in range(3)], lambda m, *t: m.nn.functional.scaled_dot_product_attention(*t, is_causal=True)),
    ]  # fmt: skip


def layers() -> list[Operator]:
    """Operators of neural networks; F stands for nn.functional."""

    def of_images(a: Arrays, n: int, c: int, *size: int) -> list[np.ndarray]:
        return [a.normal(n, c, *size), a.normal(c), a.normal(c)]

    def convolution(name: str, dims: int, sizes: tuple[Size, ...], kernel: int, **options) -> Operator:
        """Sizes are samples, channels in, channels out, and the image's side or sides."""
        groups = options.get("groups", 1)

        def arrays(a: Arrays, n: int, i: int, o: int, *side: int) -> list[np.ndarray]:
            per_group = 1 if groups == "channels" else i // groups
            shape = (i, o, *[kernel] * dims) if "transpose" in name else (o, per_group, *[kernel] * dims)
            return [a.normal(n, i, *side), a.normal(*shape), a.normal(o)]

        def call(m, x, w, b):
            given = {**options, "groups": x.shape[1]} if groups == "channels" else options
            function = f"conv_transpose{dims}d" if "transpose" in name else f"conv{dims}d"
            return getattr(m.nn.functional, function)(x, w, b, **given)

        return Operator("convolution", name, sizes, arrays, call)

    def recurrent(kind: str, gates: int) -> Operator:
        def arrays(a: Arrays, steps: int, n: int, width: int) -> list[np.ndarray]:
            weights = [a.normal(gates * width, width) * 0.1, a.normal(gates * width, width) * 0.1]
            biases = [a.normal(gates * width), a.normal(gates * width)]
            return [a.normal(steps, n, width), a.normal(1, n, width), *weights, *biases]

        def call(m, x, h, *params):
            state = (h, h) if kind == "lstm" else h
            return getattr(m, kind)(x, state, params, True, 1, 0.0, True, False, False)[0]

        return Operator("recurrent", kind, ((4, 2, 8), (16, 8, 64), (32, 16, 256)), arrays, call)

    pooled: tuple[Size, ...] = ((1, 4, 16, 16), (4, 32, 32, 32), (8, 64, 112, 112))
    tables = ((100, 16, 8), (10_000, 128, 64), (100_000, 64, 512))

    def table(a: Arrays, n: int, width: int, bags: int) -> list[np.ndarray]:
        return [a.below(n, bags, 32), a.normal(n, width)]

    return [
        convolution("conv1d 3", 1, ((1, 4, 4, 32), (4, 32, 32, 256), (8, 128, 128, 1024)), 3, padding=1),
        convolution("conv1d 9 stride 2", 1, ((1, 4, 4, 32), (4, 16, 32, 256), (8, 64, 128, 1024)), 9, stride=2, padding=4),
        convolution("conv1d 25 of 1 channel", 1, ((1, 1, 4, 64), (4, 1, 16, 1024), (8, 1, 32, 16_000)), 25),
        convolution("conv1d depthwise", 1, ((1, 4, 4, 32), (4, 32, 32, 256), (8, 128, 128, 1024)), 5, padding=2, groups="channels"),
        convolution("conv2d 3x3", 2, ((1, 3, 8, 8, 8), (4, 32, 32, 28, 28), (8, 64, 64, 56, 56)), 3, padding=1),
        convolution("conv2d 1x1", 2, ((1, 4, 8, 8, 8), (4, 64, 32, 28, 28), (8, 256, 64, 28, 28)), 1),
        convolution("conv2d 7x7 stride 2", 2, ((1, 3, 8, 16, 16), (2, 3, 32, 64, 64), (4, 3, 64, 224, 224)), 7, stride=2, padding=3),
        convolution("conv2d 3x3 stride 2", 2, ((1, 4, 8, 8, 8), (4, 32, 64, 28, 28), (8, 128, 128, 28, 28)), 3, stride=2, padding=1),
        convolution("conv2d depthwise", 2, ((1, 4, 4, 8, 8), (4, 32, 32, 28, 28), (8, 128, 128, 56, 56)), 3, padding=1, groups="channels"),
        convolution("conv2d grouped", 2, ((1, 8, 8, 8, 8), (4, 32, 32, 28, 28), (8, 128, 128, 28, 28)), 3, padding=1, groups=4),
        convolution("conv2d dilated", 2, ((1, 4, 8, 16, 16), (2, 16, 32, 28, 28), (4, 64, 64, 56, 56)), 3, padding=2, dilation=2),
        convolution("conv3d 3", 3, ((1, 2, 4, 4, 8, 8), (2, 8, 16, 8, 16, 16), (2, 32, 32, 16, 28, 28)), 3, padding=1),
        convolution("conv3d 1", 3, ((1, 2, 4, 4, 8, 8), (2, 16, 32, 8, 16, 16), (2, 64, 64, 16, 28, 28)), 1),
        convolution("conv3d 3 stride 2", 3, ((1, 2, 4, 4, 8, 8), (2, 8, 16, 8, 16, 16), (2, 32, 64, 16, 28, 28)), 3, stride=2, padding=1),
        convolution("conv_transpose2d 4 stride 2", 2, ((1, 4, 4, 4, 4), (4, 32, 16, 14, 14), (8, 128, 64, 28, 28)), 4, stride=2, padding=1),
        convolution("conv_transpose1d 4 stride 2", 1, ((1, 4, 4, 16), (4, 32, 16, 128), (8, 128, 64, 512)), 4, stride=2, padding=1),
        Operator("pooling", "max_pool2d", *one(pooled), lambda m, x: m.nn.functional.max_pool2d(x, 3, 2, 1)),
        Operator("pooling", "avg_pool2d", *one(pooled), lambda m, x: m.nn.functional.avg_pool2d(x, 2)),
        Operator("pooling", "adaptive_avg_pool2d", *one(pooled), lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, 4)),
        Operator("pooling", "max_pool1d", *one(((1, 4, 32), (4, 32, 512), (16, 128, 4096))), lambda m, x: m.nn.functional.max_pool1d(x, 2)),
        Operator("pooling", "max_pool3d", *one(((1, 2, 4, 8, 8), (2, 16, 8, 16, 16), (2, 32, 16, 56, 56))), lambda m, x: m.nn.functional.max_pool3d(x, 2)),
        Operator("batch_norm", "batch_norm training", IMAGES, of_images, lambda m, x, w, b: m.nn.functional.batch_norm(x, None, None, w, b, training=True)),
        Operator("batch_norm", "instance_norm", IMAGES, of_images, lambda m, x, w, b: m.nn.functional.instance_norm(x, weight=w, bias=b)),
        Operator("normalization", "layer_norm", BATCH, lambda a, *s: [a.normal(*s), a.normal(s[-1]), a.normal(s[-1])], lambda m, x, w, b: m.nn.functional.layer_norm(x, w.shape, w, b)),
        Operator("normalization", "rms_norm", BATCH, lambda a, *s: [a.normal(*s), a.normal(s[-1])], lambda m, x, w: m.nn.functional.rms_norm(x, w.shape, w)),
        Operator("normalization", "group_norm", ((1, 4, 8, 8), (4, 16, 32, 32), (8, 64, 56, 56)), of_images, lambda m, x, w, b: m.nn.functional.group_norm(x, 2, w, b)),
        Operator("embedding", "embedding", tables, table, lambda m, i, w: m.nn.functional.embedding(i, w)),
        Operator("embedding", "embedding_bag mean", tables, table, lambda m, i, w: m.nn.functional.embedding_bag(i, w)),
        Operator("embedding", "embedding_bag sum", tables, table, lambda m, i, w: m.nn.functional.embedding_bag(i, w, mode="sum")),
        Operator("embedding", "embedding_bag max", tables, table, lambda m, i, w: m.nn.functional.embedding_bag(i, w, mode="max")),
        Operator("resampling", "bilinear x2", *one(IMAGES), lambda m, x: m.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")),
        Operator("resampling", "nearest x2", *one(IMAGES), lambda m, x: m.nn.functional.interpolate(x, scale_factor=2)),
        Operator("resampling", "bicubic x2", *one(((1, 3, 8, 8), (2, 3, 32, 32), (4, 3, 128, 128))), lambda m, x: m.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")),
        Operator("resampling", "grid_sample", ((1, 3, 8, 8), (4, 3, 64, 64), (4, 32, 64, 64)), lambda a, n, c, h, w: [a.normal(n, c, h, w), a.uniform(n, h, w, 2, low=-1, high=1)], lambda m, x, g: m.nn.functional.grid_sample(x, g, align_corners=False)),
        Operator("patches", "unfold", *one(((1, 2, 8, 8), (4, 16, 28, 28), (8, 32, 56, 56))), lambda m, x: m.nn.functional.unfold(x, 3, padding=1)),
        Operator("patches", "fold", *one(((1, 18, 64), (4, 72, 784), (8, 288, 3136))), lambda m, x: m.nn.functional.fold(x, (int(x.shape[2] ** 0.5),) * 2, 3, padding=1)),
        Operator("losses", "cross_entropy", ((8, 10), (128, 100), (512, 10_000)), lambda a, n, c: [a.normal(n, c), a.below(c, n)], lambda m, x, y: m.nn.functional.cross_entropy(x, y)),
        Operator("losses", "mse_loss", *two(), lambda m, x, y: m.nn.functional.mse_loss(x, y)),
        Operator("losses", "smooth_l1_loss", *two(), lambda m, x, y: m.nn.functional.smooth_l1_loss(x, y)),
        Operator("losses", "bce with logits", SQUARE, lambda a, *s: [a.normal(*s), a.uniform(*s)], lambda m, x, y: m.nn.functional.binary_cross_entropy_with_logits(x, y)),
        Operator("losses", "kl_div", *two(), lambda m, x, y: m.nn.functional.kl_div(x, y, reduction="batchmean", log_target=True)),
        Operator("losses", "ctc_loss", ((10, 2, 5), (50, 8, 20), (200, 16, 50)), lambda a, t, n, c: [a.normal(t, n, c), a.below(c - 1, n, t // 4) + 1], lambda m, x, y: m.nn.functional.ctc_loss(x.log_softmax(2), y, [x.shape[0]] * x.shape[1], [y.shape[1]] * x.shape[1])),
        Operator("dropout", "dropout", *one(), lambda m, x: m.nn.functional.dropout(x, 0.1)),
        recurrent("lstm", 4),
        recurrent("gru", 3),
        recurrent("rnn_tanh", 1),
    ]  # fmt: skip


def making() -> list[Operator]:
    """Factories, random numbers, windows, lists of tensors."""

    def made(family: str, name: str, sizes: tuple[Size, ...], call: Callable) -> Operator:
        """call(module, *size) of the first tensor's size."""
        return Operator(
            family, name, sizes, lambda a, *s: [np.zeros(s, np.float32)], lambda m, x: call(m, *x.shape), False
        )

    def parameters(a: Arrays, count: int, width: int) -> list[np.ndarray]:
        return [a.normal(width, width) for _ in range(count)]

    lists = ((4, 8), (20, 64), (40, 256))
    return [
        made("factories", "zeros", SQUARE, lambda m, *s: m.zeros(s)),
        made("factories", "arange", VECTOR, lambda m, n: m.arange(n)),
        made("factories", "linspace", VECTOR, lambda m, n: m.linspace(0, 1, n)),
        made("factories", "eye", ((16, 1), (200, 1), (1000, 1)), lambda m, n, _: m.eye(n)),
        made("random", "randn", SQUARE, lambda m, *s: m.randn(s)),
        made("random", "rand", SQUARE, lambda m, *s: m.rand(s)),
        made("random", "randint", SQUARE, lambda m, *s: m.randint(0, 100, s)),
        made("random", "randperm", VECTOR, lambda m, n: m.randperm(n)),
        made("random", "bernoulli", SQUARE, lambda m, *s: m.empty(s).bernoulli_(0.3)),
        Operator("random", "multinomial", SQUARE, lambda a, *s: [a.uniform(*s)], lambda m, x: m.multinomial(x, 4), False),
        made("windows", "hann_window", VECTOR, lambda m, n: m.hann_window(n)),
        Operator("foreach", "foreach add", lists, parameters, lambda m, *t: m._foreach_add(t, 1.0), False),
        Operator("foreach", "foreach mul_", lists, parameters, lambda m, *t: m._foreach_mul_(t, 1.0), False),
        Operator("foreach", "foreach norm", lists, parameters, lambda m, *t: m._foreach_norm(t), False),
    ]  # fmt: skip


def operators() -> list[Operator]:
    return [*elementwise(), *reducing(), *moving(), *multiplying(), *layers(), *making()]


def cases() -> list[Case]:
    return [
        Case(op, size, backward)
        for op in operators()
        for size in range(len(op.sizes))
        for backward in ((False, True) if op.derived else (False,))
    ]
