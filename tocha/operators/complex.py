"""Complex numbers: their parts as views, conjugation, and how they are made from real ones."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import (
    COMPLEX,
    COMPLEX32,
    FLOATS,
    INT_TO_FLOAT,
    UNARY,
    composite,
    facts,
    gradient,
    native,
    op,
    pointwise,
)

VIEW = frozenset({"any_device", "dynamic", "view"})  # the kernel makes a view
PART = VIEW | {"assignable"}  # x.real = v writes through it
EXACT = frozenset({"exact_out"})

# Parts


@native(
    "real(Tensor(a) self) -> Tensor(a)",
    algorithm="memory",
    node="SelectBackward0",
    variants="function, property",
    tags=PART,
)
def real(self):
    """The real parts, as a view; a real tensor itself."""


@facts(real)
def real_facts(self):
    return part_of(self, 0) if self.dtype.is_complex else self


@gradient(real, "self")
def real_gradient(grad):
    return grad  # becomes complex where self is


@native(
    "imag(Tensor(a) self) -> Tensor(a)",
    algorithm="memory",
    node="SelectBackward0",
    variants="function, property",
    tags=PART,
    samples=lambda t: [((t(3, 4, dtype="complex"),), {})],
)
def imag(self):
    """The imaginary parts, as a view."""


@facts(imag)
def imag_facts(self):
    if not self.dtype.is_complex:
        raise RuntimeError(f"[imag] is not implemented for tensors with non-complex dtypes: got {self.dtype}")
    return part_of(self, 1)


def part_of(z, which):
    """The real (0) or imaginary (1) parts of complex numbers, as facts: every other number of the same memory."""
    part = z.with_geometry(z.sizes, [2 * s for s in z.steps], 2 * z.offset + which, dt.real_of(z.dtype))
    part.negated, part.conjugated = z.negated != (z.conjugated and which == 1), False
    return part


@gradient(imag, "self")
def imag_gradient(grad):
    return op.complex(op.zeros_like(grad), grad)


@native(
    "view_as_real(Tensor(a) self) -> Tensor(a)",
    algorithm="memory",
    variants="function",
    tags=VIEW,
    samples=lambda t: [((t(3, 4, dtype="complex"),), {})],
)
def view_as_real(self):
    """The real and imaginary parts as a last dim of size 2, sharing memory."""


@facts(view_as_real)
def view_as_real_facts(self):
    if not self.dtype.is_complex or self.conjugated:
        raise RuntimeError(
            f"[view_as_real] is only defined for complex tensors whose conjugation is written out: got {self}"
        )
    return self.with_geometry(
        [*self.sizes, 2], [*(2 * s for s in self.steps), 1], 2 * self.offset, dt.real_of(self.dtype)
    )


@gradient(view_as_real, "self")
def view_as_real_gradient(grad):
    return op.view_as_complex(grad.contiguous())


@native(
    "view_as_complex(Tensor(a) self) -> Tensor(a)",
    algorithm="memory",
    autocast="float32",
    variants="function",
    tags=VIEW | {"memory_order"},
    samples=lambda t: [((t(3, 4, 2),), {})],
)
def view_as_complex(self):
    """A last dim of size 2 as complex numbers, sharing memory."""


@facts(view_as_complex)
def view_as_complex_facts(self):
    odd = any(s % 2 and n != 1 for n, s in zip(self.sizes[:-1], self.steps[:-1], strict=True))
    if not self.sizes or self.sizes[-1] != 2 or self.steps[-1] != 1 or odd:
        raise RuntimeError(
            f"[view_as_complex] Tensor must have a last dimension of size 2 and stride 1, others even strides: got {self}"
        )
    return self.with_geometry(
        self.sizes[:-1], [s // 2 for s in self.steps[:-1]], self.offset // 2, dt.complex_of(self.dtype)
    )


@gradient(view_as_complex, "self")
def view_as_complex_gradient(grad):
    return op.view_as_real(grad.resolve_conj())


@pointwise(
    "_angle(Tensor self) -> Tensor",
    dtypes=(*FLOATS, *COMPLEX),
    types={"out": ("real",)},
    promote=INT_TO_FLOAT,
    variants="function",
    expensive=True,
)
def angle_formula(x):
    """The angle of a complex number; pi for a negative real one."""
    return s.angle(x)


@composite(
    "angle(Tensor self) -> Tensor",
    node="AngleBackward0",
    variants="function, method, out",
    tags=frozenset({"pointwise"}),
    whole=True,
)
def angle(self):
    """The angle of a complex number, contiguous; pi for a negative real one."""
    return op._angle(self.contiguous() if self.is_complex() else self)


# Conjugation


@native("conj(Tensor(a) self) -> Tensor(a)", algorithm="memory", tags=VIEW)
def conj(self):
    """The complex conjugate, as a view that conjugates when it is read; a real tensor itself."""


@facts(conj)
def conj_facts(self):
    if not self.dtype.is_complex:
        return self
    view = self.with_geometry(self.sizes, self.steps, self.offset)
    view.conjugated = not self.conjugated
    return view


@gradient(conj, "self")
def conj_gradient(grad):
    return grad.conj()


@native("_conj(Tensor(a) self) -> Tensor(a)", algorithm="memory", kernel="conj", variants="", tags=VIEW)
def _conj(self):
    """conj of complex numbers: what `conj` is for them."""


facts(_conj)(conj_facts)


@gradient(_conj, "self")
def whole_conj_gradient(grad):
    return grad.conj()


@native("_neg_view(Tensor(a) self) -> Tensor(a)", algorithm="memory", variants="function", tags=VIEW)
def _neg_view(self):
    """A view that negates when it is read."""


@facts(_neg_view)
def neg_view_facts(self):
    view = self.with_geometry(self.sizes, self.steps, self.offset)
    view.negated = not self.negated
    return view


@gradient(_neg_view, "self")
def neg_view_gradient(grad):
    return grad.neg()


@composite("resolve_conj(Tensor(a) self) -> Tensor(a)")
def resolve_conj(self):
    """self with its conjugation, if it is a conjugating view, written out."""
    if self.is_conj():
        return self.clone()
    return self


@composite("resolve_neg(Tensor(a) self) -> Tensor(a)")
def resolve_neg(self):
    """self with its negation, if it is a negating view, written out."""
    if self.is_neg():
        return self.clone()
    return self


@pointwise(
    "_conjugate(Tensor self) -> Tensor",
    dtypes=(*COMPLEX, *COMPLEX32),
    types={"like_self": (*COMPLEX, *COMPLEX32)},
    variants="function",
)
def conjugate(x):
    """The complex conjugate."""
    return s.conj(x)


@composite(
    "conj_physical(Tensor self) -> Tensor",
    variants=UNARY,
    types={"out_words": "Found dtype {out} but expected {result}"},
    tags=frozenset({"maybe_aliasing_or_mutating", "pointwise"}),
)
def conj_physical(self):
    """The complex conjugate in memory of its own; a real tensor itself."""
    if self.is_complex():
        return op._conjugate(self)
    return self


# Construction


def check_parts(real, imag):
    if real.dtype not in (dt.float16, dt.float32, dt.float64) or imag.dtype not in (dt.float16, dt.float32, dt.float64):
        raise RuntimeError(
            f"[complex] Expected both inputs to be Half, Float or Double tensors but got {real.dtype} and {imag.dtype}"
        )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"[complex] Expected object of scalar type {real.dtype} but got scalar type {imag.dtype} for second argument"
        )


@pointwise(
    "complex(Tensor real, Tensor imag) -> Tensor",
    dtypes=(dt.float16, dt.float32, dt.float64),
    types={"out": ("complex",), "check": check_parts},
    variants="function, out",
    tags=EXACT,
)
def complex(real, imag):
    """Complex numbers from their parts."""
    return s.make_complex(real, imag)


def check_polar(abs, angle):
    if abs.dtype not in (dt.float16, dt.float32, dt.float64) or angle.dtype not in (dt.float16, dt.float32, dt.float64):
        raise RuntimeError(
            f"[polar] Expected both inputs to be Half, Float or Double tensors but got {abs.dtype} and {angle.dtype}"
        )
    if abs.dtype != angle.dtype:
        raise RuntimeError(
            f"[polar] Expected object of scalar type {abs.dtype} but got scalar type {angle.dtype} for second argument"
        )


@pointwise(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    autocast="float32",
    dtypes=(dt.float32, dt.float64),
    types={"out": ("complex",), "check": check_polar},
    variants="function, out",
    expensive=True,
    tags=EXACT,
    samples=lambda t: [((t(3, 4), t(3, 4, low=-3, high=3)), {})],  # distances are not negative
)
def polar(abs, angle):
    """Complex numbers from distances and angles."""
    return s.make_complex(abs * s.cos(angle), abs * s.sin(angle))


@gradient(polar, "abs")
def polar_abs_gradient(grad, result):
    size = s.abs(result)
    along = s.real(grad) * s.real(result) + s.imag(grad) * s.imag(result)
    return s.where(size == 0, s.zero_like(size), along / size)


@gradient(polar, "angle")
def polar_angle_gradient(grad, result):
    return s.imag(grad) * s.real(result) - s.real(grad) * s.imag(result)
