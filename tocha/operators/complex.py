"""Complex numbers: their parts as views, conjugation, and how they are made from real ones."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.ir import scalar as s
from tocha.operators.record import COMPLEX, FLOATS, INT_TO_FLOAT, UNARY, composite, gradient, native, op, pointwise

VIEW = frozenset({"any_device", "dynamic", "view"})  # the kernel makes a view
EXACT = frozenset({"exact_out"})

# Parts


@native("real(Tensor self) -> Tensor", variants="function, property", tags=VIEW)
def real(self):
    """The real parts, as a view; a real tensor itself."""


@gradient(real, "self")
def real_gradient(grad):
    return grad  # becomes complex where self is


@native(
    "imag(Tensor self) -> Tensor",
    variants="function, property",
    tags=VIEW,
    samples=lambda t: [((t(3, 4, dtype="complex"),), {})],
)
def imag(self):
    """The imaginary parts, as a view."""


@gradient(imag, "self")
def imag_gradient(grad):
    return op.complex(op.zeros_like(grad), grad)


@native(
    "view_as_real(Tensor self) -> Tensor",
    variants="function",
    tags=VIEW,
    samples=lambda t: [((t(3, 4, dtype="complex"),), {})],
)
def view_as_real(self):
    """The real and imaginary parts as a last dim of size 2, sharing memory."""


@gradient(view_as_real, "self")
def view_as_real_gradient(grad):
    return op.view_as_complex(grad.contiguous())


@native(
    "view_as_complex(Tensor self) -> Tensor",
    autocast="float32",
    variants="function",
    tags=VIEW | {"memory_order"},
    samples=lambda t: [((t(3, 4, 2),), {})],
)
def view_as_complex(self):
    """A last dim of size 2 as complex numbers, sharing memory."""


@gradient(view_as_complex, "self")
def view_as_complex_gradient(grad):
    return op.view_as_real(grad.resolve_conj())


@pointwise(
    "angle(Tensor self) -> Tensor",
    dtypes=(*FLOATS, *COMPLEX),
    types={"out": ("real",)},
    promote=INT_TO_FLOAT,
    variants="function, method, out",
    expensive=True,
)
def angle(x):
    """The angle of a complex number; pi for a negative real one."""
    return s.angle(x)


# Conjugation


@native("conj(Tensor self) -> Tensor", tags=VIEW)
def conj(self):
    """The complex conjugate, as a view that conjugates when it is read; a real tensor itself."""


@gradient(conj, "self")
def conj_gradient(grad):
    return grad.conj()


@native("_neg_view(Tensor self) -> Tensor", variants="function", tags=VIEW)
def _neg_view(self):
    """A view that negates when it is read."""


@gradient(_neg_view, "self")
def neg_view_gradient(grad):
    return grad.neg()


@composite("resolve_conj(Tensor self) -> Tensor")
def resolve_conj(self):
    """self with its conjugation, if it is a conjugating view, written out."""
    if self.is_conj():
        return self.clone()
    return self


@composite("resolve_neg(Tensor self) -> Tensor")
def resolve_neg(self):
    """self with its negation, if it is a negating view, written out."""
    if self.is_neg():
        return self.clone()
    return self


@pointwise("_conjugate(Tensor self) -> Tensor", dtypes=COMPLEX, variants="function")
def conjugate(x):
    """The complex conjugate."""
    return s.conj(x)


@composite("conj_physical(Tensor self) -> Tensor", variants=UNARY)
def conj_physical(self):
    """The complex conjugate in memory of its own; a real tensor itself."""
    if self.is_complex():
        return op._conjugate(self)
    return self


# Construction


def check_parts(real, imag):
    if real.dtype not in (dt.float32, dt.float64) or imag.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"[complex] Expected both inputs to be Half, Float or Double tensors but got {real.dtype} and {imag.dtype}"
        )
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"[complex] Expected object of scalar type {real.dtype} but got scalar type {imag.dtype} for second argument"
        )


@pointwise(
    "complex(Tensor real, Tensor imag) -> Tensor",
    dtypes=(dt.float32, dt.float64),
    types={"out": ("complex",), "check": check_parts},
    variants="function, out",
    tags=EXACT,
)
def complex(real, imag):
    """Complex numbers from their parts."""
    return s.make_complex(real, imag)


def check_polar(abs, angle):
    if abs.dtype not in (dt.float32, dt.float64) or angle.dtype not in (dt.float32, dt.float64):
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
)
def polar(abs, angle):
    """Complex numbers from distances and angles."""
    return s.make_complex(abs * s.cos(angle), abs * s.sin(angle))
