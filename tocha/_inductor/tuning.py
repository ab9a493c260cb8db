"""How each product of a program is computed: by which kernels, on which layout of a constant operand.

By default as eager computes it. Constant weights of convolutions are transformed once. Constant matrices (`config.freezing`) are packed once for the library's own kernels where those are at least as
fast; `config.max_autotune` measures every way that a product has, when it is compiled, and keeps the fastest on disk.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import tocha
from tocha import _C
from tocha._inductor import codecache, config
from tocha._inductor.store import Folder, Parts
from tocha._logging import events
from tocha.ir import dtypes as dt
from tocha.ir.kernels import Item
from tocha.ir.loops import Buffer, Convolution, Geometry, Product, Program

log = logging.getLogger("tocha._inductor.tuning")
CHOICES = Folder("tuning", ".json")
ANY, TILES, BLAS = 0, 1, 2  # engines, see tocha_product in csrc/cpu/engine/program_api.h
GIVEN, ROWS, PACKED = "given", "rows", "packed"  # layouts of a constant operand: as it is, row by row, in panels
USUAL, OWN = (
    (0, 0),
    (112, 512),
)  # rows and depth of the blocks of the library's own kernels, unsaid and said (csrc/cpu/gemm/tiles.cpp)
TILINGS = ((56, 512), (224, 512), (112, 256), (224, 256), (448, 128))
ROUNDS, SECONDS = 7, 0.02  # measurements of each way, and how long each takes at most
CLOSE = 1.03  # the way of eager is left only for one that is faster than this
MOST_PACKED_ROWS = 8  # on processors where BLAS multiplies greater matrices


@dataclass(frozen=True)
class Way:
    """One way to compute a product."""

    engine: int = ANY
    layout: str = GIVEN
    tiling: tuple[int, int] = USUAL

    def __str__(self) -> str:
        words = [("any", "tiles", "blas")[self.engine]]
        if self.tiling != USUAL:
            words[0] += " of {} x {}".format(*self.tiling)
        return ", ".join(words if self.layout == GIVEN else [*words, f"b {self.layout}"])


def choose_ways(program: Program, items: Sequence[Item], frozen: bool) -> None:
    """Decides for every product; constants that are laid out anew are added to the program."""
    constants = {b: value for b, value in program.constants if frozen}
    made: dict[tuple, Buffer] = {}
    for p in (i for i in items if isinstance(i, Product)):
        if not is_static(p):
            continue
        constant = constant_of(p, constants)
        way = tuned(p, constant) if measures() else usual(p, constant)
        apply(program, p, way, constant, made)


def measures() -> bool:
    return bool(config.max_autotune or config.max_autotune_gemm)


def prepare_convolutions(program: Program, items: Sequence[Item], frozen: bool) -> None:
    """Convolutions with constant weights get what they make of them. They compute as before, bit by bit."""
    constants = {b: value for b, value in program.constants if frozen}
    for c in items:
        if isinstance(c, Convolution) and c.tensors[1].buffer in constants:
            prepare(program, c, constants[c.tensors[1].buffer])


def prepare(program: Program, c: Convolution, weight: _C.Tensor) -> None:
    if not c.tensors[1].is_whole or not all(all_ints(g.sizes, g.strides) for g in c.tensors[:2]):
        return
    empty = tocha.empty_strided(c.result.sizes, c.result.strides, dtype=weight.dtype)
    around = (list(c.stride), list(c.padding), list(c.dilation), c.groups)
    value = _C._prepare_convolution(empty, like(c.tensors[0]), weight, *around)
    if value is None:
        return
    there = Buffer(f"prepared_{c.tensors[1].buffer.name}", tuple(value.shape), tuple(value.stride()), dt.float32)
    program.constants.append((there, value))
    c.packed = there


def all_ints(*lists: Sequence[Any]) -> bool:
    return all(isinstance(n, int) for numbers in lists for n in numbers)


def is_static(p: Product) -> bool:
    known = all(all_ints(g.sizes, g.strides) for g in p.tensors)
    return known and 0 not in (*p.result.sizes, p.tensors[0].sizes[-1])


def constant_of(p: Product, constants: dict[Buffer, Any]) -> _C.Tensor | None:
    """The right operand, where it is known and one for all rows."""
    b = p.tensors[1]
    value = constants.get(b.buffer)
    if value is None or len(b.sizes) != 2 or not isinstance(b.offset, int):
        return None
    return value.as_strided(b.sizes, b.strides, value.storage_offset() + b.offset)


def usual(p: Product, constant: _C.Tensor | None) -> Way:
    """Without measuring: packed where the library's own kernels serve, or where BLAS would pack for a few rows."""
    if constant is None or p.result.dtype is dt.float64:
        return Way()
    own = not _C._product_prefers_blas(*p.result.sizes[-2:], p.tensors[0].sizes[-1]) or p.result.dtype is not dt.float32
    return Way(TILES, PACKED) if own or p.rows <= MOST_PACKED_ROWS else Way()


def ways(p: Product, constant: _C.Tensor | None) -> list[Way]:
    found = [Way()]
    if p.result.dtype in (dt.float32, dt.float64):
        found += [Way(BLAS), *in_tiles(p, GIVEN)]
    if constant is not None:
        found += [Way(ANY, ROWS)] if constant.stride(1) != 1 else []
        found += in_tiles(p, PACKED) if p.result.dtype is not dt.float64 else []
    return found


def in_tiles(p: Product, layout: str) -> list[Way]:
    """The library's own kernels: in the usual blocks, and in others that cut the product in another way."""
    rows, depth = p.result.sizes[-2], p.tensors[0].sizes[-1]
    cuts = {(-(rows // -r), -(depth // -d)): (r, d) for r, d in (*TILINGS, OWN)}
    return [Way(TILES, layout, USUAL if t == OWN else t) for t in cuts.values()]


def apply(program: Program, p: Product, way: Way, constant: _C.Tensor | None, made: dict[tuple, Buffer]) -> None:
    p.engine, p.tiling = way.engine, way.tiling
    if way.layout == GIVEN or constant is None:
        return
    b = p.tensors[1]
    key = (way.layout, b.buffer, b.sizes, b.strides, b.offset)
    if key not in made:
        value = laid_out(constant, way.layout)
        strides = tuple(value.stride())
        made[key] = Buffer(f"{way.layout}_{b.buffer.name}_{len(made)}", tuple(value.shape), strides, as_ir(value, b))
        program.constants.append((made[key], value))
    if way.layout == PACKED:
        p.packed = made[key]
    else:
        there = made[key]
        p.tensors = (p.tensors[0], Geometry(there, there.sizes, there.strides, 0, there.dtype), *p.tensors[2:])


def as_ir(value: _C.Tensor, b: Geometry) -> Any:
    return b.dtype if value.dim() == 2 else dt.float32


def laid_out(constant: _C.Tensor, layout: str) -> Any:
    return _C._pack_right(constant) if layout == PACKED else constant.contiguous()


# ---- measuring -------------------------------------------------------------------------------------


def tuned(p: Product, constant: _C.Tensor | None) -> Way:
    """The fastest way: known from before, or measured now."""
    parts = key_of(p, constant)
    known = CHOICES.read(parts)
    if known is not None:
        found = json.loads(known)
        way = Way(found["engine"], found["layout"], tuple(found["tiling"]))
        events.tell(events.ProductTuned(parts["product"], str(way), {}))
        return way
    times = measured(p, constant)
    way = min(times, key=lambda w: times[w] * (1 if w == Way() else CLOSE))
    CHOICES.write(parts, json.dumps(asdict(way)).encode())
    events.tell(events.ProductTuned(parts["product"], str(way), {str(w): t for w, t in times.items()}))
    log.info("[autotune] %s: %s", parts["product"], way)
    return way


def key_of(p: Product, constant: _C.Tensor | None) -> Parts:
    a, b, *bias = p.tensors
    words = [p.result.dtype.name, f"{a.sizes}{a.strides} @ {b.sizes}{b.strides}", *(["+ row"] if bias else [])]
    return machine_parts("product", " ".join([*words, *(["constant"] if constant is not None else [])]))


def machine_parts(kind: str, what: str) -> Parts:
    """The key of something that was measured: it holds for one processor, number of threads and version."""
    return {
        kind: what,
        "processor": codecache.processor(),
        "threads": str(_C.get_num_threads()),
        "tocha": f"{tocha.__version__} {codecache.headers_digest()}",
    }


def measured(p: Product, constant: _C.Tensor | None) -> dict[Way, float]:
    """Seconds of each way, on matrices that lie as the product's do; taken in turns, so that what disturbs one disturbs all."""
    a, b, *bias = (like(g) for g in p.tensors)
    c = tocha.empty_strided(p.result.sizes, p.result.strides, dtype=a.dtype)
    runs: dict[Way, Callable[[], Any]] = {}
    for way in ways(p, constant):
        right = b if way.layout != ROWS else b.contiguous()
        packed = _C._pack_right(b) if way.layout == PACKED else None
        given = (c, a, right, bias[0] if bias else None, packed, way.engine, *way.tiling)
        runs[way] = partial(_C._multiply, *given)
    counts = {way: max(1, int(SECONDS / ROUNDS / seconds(run, 1))) for way, run in runs.items()}
    times = {way: [seconds(run, counts[way])] for way, run in runs.items()}
    for _ in range(ROUNDS - 1):
        for way, run in runs.items():
            times[way].append(seconds(run, counts[way]))
    return {way: min(found) for way, found in times.items()}


def like(g: Geometry) -> _C.Tensor:
    dtype = getattr(_C, g.dtype.name)
    room = 1 + sum((n - 1) * step for n, step in zip(g.sizes, g.strides, strict=True))
    return tocha.ones(room, dtype=dtype).as_strided(g.sizes, g.strides)


def shortest(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    count = max(1, int(SECONDS / ROUNDS / seconds(run, 1)))
    return min(seconds(run, count) for _ in range(ROUNDS))


def seconds(run: Callable[[], Any], count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count
