"""Matrix products and convolutions in programs: calls that tell of finished rows, and the kernels that follow them row by row.

`product_call` makes a Product or a Convolution of an operator that is one. `attach_epilogues` finds for each the kernel that reads its result row by
row (a bias, an activation, a residual, a norm of the rows; the rows of a convolution are its planes): the threads run it on blocks of rows as they are finished, while they are in the
cache, and start once for both. Call and kernel are those of before, so that values are the same bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir import symbolic as s
from tocha.ir.assumptions import Assumptions
from tocha.ir.devices import CPU
from tocha.ir.kernels import LANES, MANY, POINTS, ROWS, Item, Kernel, Member, refine
from tocha.ir.loops import Bindings, Buffer, Call, Convolution, Followed, Geometry, Product, index_of, plain
from tocha.operators.facts import Facts, Scalar
from tocha.operators.record import Operator

DTYPES = (dt.float32, dt.float64, dt.bfloat16, dt.float16)
KERNELS = {"matmul": 2, "add_product": 3}  # native kernels that are products, and how many tensors they take
CONVOLUTION = "convolution"  # the native kernel
FEW_ROWS = 16  # products with fewer are cut by columns: what follows would run on one thread
MUCH = 1 << 14  # elements


# ---- lowering --------------------------------------------------------------------------------------


def product_call(o: Operator, arguments: dict[str, Any], made: Any, geometry: Callable[[Facts], Geometry]) -> Followed | None:  # fmt: skip
    """An operator as a product of matrices, of batches of them, or as a convolution; None where it is something else, or needs more than those do."""
    if o.kernel == CONVOLUTION:
        return convolution_call(o, arguments, made, geometry)
    if o.algorithm != "product" or o.kernel not in KERNELS or not isinstance(made, Facts):
        return None
    tensors = [v for v in arguments.values() if isinstance(v, Facts)]
    numbers = [v.value if isinstance(v, Scalar) else v for v in arguments.values() if not isinstance(v, Facts)]
    if len(tensors) != KERNELS[o.kernel] or any(v != 1 for v in numbers):
        return None
    if not all(is_plain(t, made) for t in (*tensors, made)) or made.ndim not in (2, 3):
        return None
    *addend, a, b = tensors
    if a.ndim != made.ndim or b.ndim != made.ndim or not all(map(is_row, addend, [made])):
        return None
    if made.ndim == 3 and 1 in (plain(made.sizes[1]), plain(made.sizes[2])):
        return None  # vectors, which the operator may gather into one matrix
    return Product(o.full_name, None, (), (), (), (geometry(a), geometry(b), *map(geometry, addend)))


def convolution_call(o: Operator, arguments: dict[str, Any], made: Any, geometry: Callable[[Facts], Geometry]) -> Convolution | None:  # fmt: skip
    input, weight, bias, stride, padding, dilation, transposed, _, groups = arguments.values()
    tensors = [t for t in (input, weight, bias) if t is not None]
    if transposed or not isinstance(made, Facts) or not all(isinstance(t, Facts) and is_plain(t, made) for t in tensors):  # fmt: skip
        return None
    numbers = [tuple(plain(n) for n in values) for values in (stride, padding, dilation)]
    if not all(isinstance(n, int) for n in (*sum(numbers, ()), groups)):
        return None
    names = ("stride", "padding", "dilation")
    given = dict(zip(names, numbers, strict=True), groups=groups)
    return Convolution(o.full_name, None, (), (), (), tuple(map(geometry, tensors)), **given)


def is_plain(t: Facts, like: Facts) -> bool:
    same = t.dtype is like.dtype and t.dtype in DTYPES and t.device == CPU
    return same and t.number is None and not t.conjugated and not t.negated


def is_row(t: Facts, made: Facts) -> bool:
    """Whether it is added to every row as it lies."""
    n, own = plain(made.sizes[-1]), [plain(x) for x in t.sizes]
    return len(own) == 1 and (own[0] is n or own[0] == n) and plain(t.steps[0]) == 1


# ---- scheduling ------------------------------------------------------------------------------------


def attach_epilogues(
    items: Sequence[Item], known: Assumptions, split: Callable[[Member, Any], Member | None], look_back: int, bindings: Bindings
) -> list[Item]:  # fmt: skip
    """Items with kernels moved behind the calls whose rows they go on with."""
    out = list(items)
    for p in [i for i in items if isinstance(i, Followed) and has_rows(i)]:
        at = out.index(p)
        near = out[at + 1 : at + 1 + look_back]
        kernel = next((k for k in near if isinstance(k, Kernel) and p.result in k.reads()), None)
        if kernel is None or kernel.after is not None or kernel.in_place or too_few_rows(p) or not is_there(kernel, out[at + 1 :], bindings):  # fmt: skip
            continue
        members = by_rows(kernel, p, known, split)
        if members is None:
            continue
        kernel.kind, kernel.members, kernel.after = ROWS, members, p
        out.remove(kernel)
        out.insert(at + 1, kernel)
    return out


def has_rows(p: Followed) -> bool:
    """Whether the elements of a row lie side by side: those of a convolution that has channels last do not."""
    if not isinstance(p, Convolution):
        return True
    step: Any = 1
    for n, stride in zip(p.result.sizes[::-1], p.result.strides[::-1], strict=True):
        if n != 1 and stride is not step and stride != step:
            return False
        step = s.mul(step, n)
    return True


def too_few_rows(p: Followed) -> bool:
    rows, elements = p.rows, p.result.numel()
    return isinstance(rows, int) and rows < FEW_ROWS and not (isinstance(elements, int) and elements <= MUCH)


def is_there(kernel: Kernel, later: Sequence[Item], bindings: Bindings) -> bool:
    """Whether all that a kernel reads is made before the call's result is, and nothing else waits for memory in between."""
    made = {b for i in later if i is not kernel for b in (i.results() if isinstance(i, Kernel) else i.results)}
    bound = {a for i in later if isinstance(i, Call) for a in i.binds}
    return not made & kernel.reads() and not bound & bindings.needed(kernel.loops)


def by_rows(kernel: Kernel, p: Followed, known: Assumptions, split: Callable[[Member, Any], Member | None]) -> list[Member] | None:  # fmt: skip
    """The kernel's members over the call's rows; None where it needs more of the result than the row at hand."""
    if kernel.kind in (LANES, MANY):
        return None
    rows = p.rows if kernel.kind == POINTS else s.product(kernel.members[0].row_sizes)
    if rows is not p.rows and rows != p.rows:
        return None
    members = [split(m, rows) for m in kernel.members] if kernel.kind == POINTS else kernel.members
    found = [m for m in members if m is not None]
    if len(found) < len(members) or not fit_together(found):
        return None
    return found if all(reads_its_rows(m, p, known) for m in found) else None


def fit_together(members: Sequence[Member]) -> bool:
    """Whether rows are gone through together, and columns of the same number too."""
    for sizes_of in (lambda m: m.row_sizes, lambda m: m.column_sizes):
        groups: dict[Any, list[Any]] = {}
        for m in members:
            sizes = sizes_of(m)
            n = s.product(sizes)
            found = refine(groups[n], sizes) if n in groups else [x for x in sizes if x != 1]
            if found is None:
                return False
            groups[n] = found
    return True


def reads_its_rows(m: Member, p: Followed, known: Assumptions) -> bool:
    here = known.simplify(m.row_number(m.loop.variables))
    c: Buffer = p.result
    for load in m.loop.loads():
        if load.buffer is not c:
            continue
        index = index_of(load.address, c.sizes, c.strides, known)
        there: Any = 0
        for n, i in zip(c.sizes[: p.row_dims], index[: p.row_dims], strict=True):
            there = s.add(s.mul(there, n), i)
        there = known.simplify(there)
        if load.guard is not True or (there is not here and there != here):
            return False
    return True
