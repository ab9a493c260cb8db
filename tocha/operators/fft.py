"""Discrete Fourier transforms. Three primitives have kernels (csrc/cpu/fft/fft.cpp): complex to complex, real to complex
and back. They are each other's gradients; everything else here only prepares their arguments."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import (
    Out,
    complex_dtype,
    contiguous_strides,
    default_dtype,
    device_or_default,
    is_integral,
    like_strides,
    real_dtype,
    wrap_dim,
)

_FFT = (dt.float32, dt.float64, dt.complex64, dt.complex128)
_REAL = (dt.float32, dt.float64)
_COMPLEX = (dt.complex64, dt.complex128)
_PRIMITIVE = "function, out"
# normalization: 0 none, 1 by the square root of the number of points, 2 by that number.


# -- primitives ----------------------------------------------------------------------------------------


@rule
def check_transform(dim: "int[]", ndim: "int", normalization: "int", name: "str") -> "int[]":
    """The dims counted from the front."""
    if normalization < 0 or normalization > 2:
        raise RuntimeError(f"[{name}] Unsupported normalization type{normalization}")
    dims = [wrap_dim(d, ndim) for d in dim]
    for i in range(len(dims)):
        if dims[i] in dims[:i]:
            raise RuntimeError(f"[{name}] axis specified repeatedly: got {dim}")
    return dims


@rule
def check_last_dim(dim: "int[]", name: "str") -> "none":
    if len(dim) == 0:
        raise RuntimeError(f"[{name}] must transform at least one dim: got {dim}")


@rule
def half_length(n: "int") -> "int":
    """How many frequencies of n real points have no mirror image before them."""
    return n // 2 + 1


@native(
    "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    kernel="fft_c2c",
    algorithm="fft",
    dtypes=_COMPLEX,
    variants=_PRIMITIVE,
    node="FftC2CBackward0",
    samples=lambda t: [
        ((t(3, 4, dtype="complex"), [1], 0, True), {}),
        ((t(3, 4, dtype="complex"), [1, 0], 1, False), {}),
    ],
)
def _fft_c2c(self, dim, normalization, forward):
    """The transform of complex numbers along dims; backward, with the sign of the exponents turned round."""
    if not self.is_complex():
        raise RuntimeError(f"[_fft_c2c] Only supports complex dtypes, but found: {self.dtype}")
    check_transform(dim, self.ndim, normalization, "_fft_c2c")
    strides = like_strides(self, None) if len(dim) == 0 else contiguous_strides(self.shape)
    return Out(self.shape, self.dtype, strides=strides)


@gradient(_fft_c2c, "self")
def c2c_gradient(grad, dim, normalization, forward):
    return op._fft_c2c(grad, dim, normalization, not forward)


@native(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    kernel="fft_r2c",
    algorithm="fft",
    core=True,
    dtypes=_REAL,
    variants=_PRIMITIVE,
    node="FftR2CBackward0",
    samples=lambda t: [((t(3, 4), [1], 0, True), {}), ((t(3, 5), [0, 1], 1, True), {}), ((t(3, 4), [0], 2, False), {})],
)
def _fft_r2c(self, dim, normalization, onesided):
    """The transform of real numbers along dims; one sided, without the mirror images in the last of them."""
    if not self.is_floating_point():
        raise RuntimeError(f"[_fft_r2c] Only supports floating-point dtypes, but found: {self.dtype}")
    if self.dtype != dt.float32 and self.dtype != dt.float64:
        raise RuntimeError(f"[_fft_r2c] expected scalar type Double but found {self.dtype}")
    check_last_dim(dim, "_fft_r2c")
    dims = check_transform(dim, self.ndim, normalization, "_fft_r2c")
    sizes = list(self.shape)
    if self.ndim > 0:
        n = sizes[dims[-1]]
        if n == 0:
            raise RuntimeError(f"[_fft_r2c] Invalid number of data points ({n}) specified: got {self.shape}")
        if onesided:
            sizes[dims[-1]] = half_length(n)
    return Out(sizes, complex_dtype(self.dtype))


@rule
def mirror_weights(like: "Tensor", dim: "int", n: "int", mirrored: "float") -> "Tensor":
    """1 for the frequencies of n points that are their own mirror images, `mirrored` for the others."""
    m = half_length(n)
    weights = op.full([m], mirrored, dtype=real_dtype(like.dtype), device=like.device)
    weights.narrow(0, 0, 1).fill_(1)
    if n % 2 == 0:
        weights.narrow(0, m - 1, 1).fill_(1)
    shape = [1] * like.ndim
    shape[dim] = m
    return weights.view(shape)


@gradient(_fft_r2c, "self")
def r2c_gradient(grad, self, dim, normalization, onesided):
    if not onesided or self.ndim == 0:
        return op.real(op._fft_c2c(grad, dim, normalization, False))
    # The real part of the sum over one side only: what stands for a pair counts half.
    last = wrap_dim(dim[-1], self.ndim)
    n = self.shape[last]
    return op._fft_c2r(grad * mirror_weights(grad, last, n, 0.5), dim, normalization, n)


@native(
    "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    kernel="fft_c2r",
    algorithm="fft",
    core=True,
    dtypes=_COMPLEX,
    variants=_PRIMITIVE,
    node="FftC2RBackward0",
    samples=lambda t: [((t(3, 4, dtype="complex"), [1], 0, 6), {}), ((t(3, 4, dtype="complex"), [0, 1], 1, 7), {})],
)
def _fft_c2r(self, dim, normalization, last_dim_size):
    """The backward transform to real numbers, from one side of the frequencies of the last dim."""
    if not self.is_complex():
        raise RuntimeError(f"[_fft_c2r] expected scalar type ComplexDouble but found {self.dtype}")
    check_last_dim(dim, "_fft_c2r")
    dims = check_transform(dim, self.ndim, normalization, "_fft_c2r")
    sizes = list(self.shape)
    given = sizes[dims[-1]] if self.ndim > 0 else 1
    if last_dim_size < 0 or (last_dim_size > 0 and half_length(last_dim_size) > given):
        raise RuntimeError(
            f"[_fft_c2r] Invalid number of data points ({last_dim_size}) specified: got {given} frequencies in {self.shape}"
        )
    if self.ndim > 0:
        sizes[dims[-1]] = last_dim_size
    return Out(sizes, real_dtype(self.dtype))


@gradient(_fft_c2r, "self")
def c2r_gradient(grad, self, dim, normalization, last_dim_size):
    if self.ndim == 0 or last_dim_size == 0:
        return op.zeros(self.shape, dtype=self.dtype, device=self.device)
    last = wrap_dim(dim[-1], self.ndim)
    found = op._fft_r2c(grad, dim, normalization, True) * mirror_weights(grad, last, last_dim_size, 2.0)
    unused = self.shape[last] - half_length(last_dim_size)
    if unused == 0:
        return found
    pad = [0] * (2 * self.ndim)
    pad[2 * (self.ndim - 1 - last) + 1] = unused
    return op.constant_pad_nd(found, pad, 0)


# -- arguments -----------------------------------------------------------------------------------------


@rule
def spectral_dtype(name: "str", dtype: "dtype", to_complex: "bool") -> "dtype":
    """Integers become the default float; only single and double precision are transformed."""
    if dtype.is_complex:
        return dtype
    kind = default_dtype() if is_integral(dtype) else dtype
    if kind != dt.float32 and kind != dt.float64:
        raise RuntimeError(f"[{name}] Unsupported dtype {kind}")
    return complex_dtype(kind) if to_complex else kind


@rule
def norm_code(name: "str", norm: "str?", forward: "bool") -> "int":
    mode = "backward" if norm is None else norm
    if mode == "backward":
        return 0 if forward else 2
    if mode == "forward":
        return 2 if forward else 0
    if mode == "ortho":
        return 1
    raise RuntimeError(f'[{name}] Invalid normalization mode: "{mode}"')


@rule
def spectral_dim(name: "str", dim: "int", ndim: "int") -> "int":
    if ndim == 0:
        raise IndexError(f"[{name}] Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


@rule
def check_point_count(name: "str", n: "int") -> "none":
    if n < 1:
        raise RuntimeError(f"[{name}] Invalid number of data points ({n}) specified")


@rule
def fitted(x: "Tensor", dims: "int[]", sizes: "int[]") -> "Tensor":
    """x cut or continued with zeros to the given sizes of dims."""
    out = x
    pad = [0] * (2 * x.ndim)
    short = False
    for i in range(len(dims)):
        n = x.shape[dims[i]]
        if sizes[i] < n:
            out = out.narrow(dims[i], 0, sizes[i])
        elif sizes[i] > n:
            pad[2 * (x.ndim - 1 - dims[i]) + 1] = sizes[i] - n
            short = True
    return op.constant_pad_nd(out, pad, 0) if short else out


@rule
def transformed_dims(name: "str", shape: "int[]", s: "int[]?", dim: "int[]?") -> "int[]":
    """Which dims a transform of several is along: those given, or as many as s has, or all."""
    ndim = len(shape)
    every = list(range(ndim))
    given = every if dim is None else dim
    lengths = every if s is None else s
    dims: "int[]" = []
    for d in given:
        at = spectral_dim(name, d, ndim)
        if at in dims:
            raise RuntimeError(f"[{name}] FFT dims must be unique: got {given}")
        dims.append(at)
    if s is None:
        return dims
    if dim is not None and len(given) != len(lengths):
        raise RuntimeError(
            f"[{name}] When given, dim and shape arguments must have the same length: got {len(given)} and {len(lengths)}"
        )
    if len(lengths) > ndim:
        raise RuntimeError(
            f"[{name}] Got shape with {len(lengths)} values but input tensor only has {ndim} dimensions."
        )
    return dims if dim is not None else dims[ndim - len(lengths) :]


@rule
def transformed_sizes(name: "str", shape: "int[]", s: "int[]?", dims: "int[]") -> "int[]":
    """How many points each dim gets; -1 leaves it as it is."""
    own = [shape[d] for d in dims]
    given = own if s is None else s
    sizes = [given[i] if given[i] != -1 else own[i] for i in range(len(dims))]
    for n in sizes:
        check_point_count(name, n)
    return sizes


@rule
def check_axes(name: "str", said: "str", dims: "int[]") -> "none":
    if len(dims) == 0:
        raise RuntimeError(f"[{name}] {said} must transform at least one axis")


# -- along one dim -------------------------------------------------------------------------------------


@rule
def to_complex_line(name: "str", self: "Tensor", n: "int?", dim: "int", norm: "str?", forward: "bool") -> "Tensor":
    """Complex or real points to all frequencies."""
    kind = spectral_dtype(name, self.dtype, False)
    at = spectral_dim(name, dim, self.ndim)
    length = self.shape[at] if n is None else n
    check_point_count(name, length)
    code = norm_code(name, norm, forward)
    x = fitted(self.to(kind), [at], [length])
    if kind.is_complex:
        return op._fft_c2c(x, [at], code, forward)
    found = op._fft_r2c(x, [at], code, False)
    return found if forward else found.conj()


@rule
def from_real_line(said: "str", self: "Tensor", n: "int?", dim: "int", norm: "str?", forward: "bool") -> "Tensor":
    """Real points to one side of the frequencies."""
    name = f"fft.{said}"
    if self.is_complex():
        raise RuntimeError(f"[{name}] {said} expects a real input tensor, but got {self.dtype}")
    kind = spectral_dtype(name, self.dtype, False)
    at = spectral_dim(name, dim, self.ndim)
    length = self.shape[at] if n is None else n
    check_point_count(name, length)
    code = norm_code(name, norm, forward)
    found = op._fft_r2c(fitted(self.to(kind), [at], [length]), [at], code, True)
    return found if forward else found.conj()


@rule
def to_real_line(name: "str", self: "Tensor", n: "int?", dim: "int", norm: "str?", forward: "bool") -> "Tensor":
    """One side of the frequencies to real points."""
    kind = spectral_dtype(name, self.dtype, True)
    at = spectral_dim(name, dim, self.ndim)
    length = 2 * (self.shape[at] - 1) if n is None else n
    check_point_count(name, length)
    code = norm_code(name, norm, forward)
    x = fitted(self.to(kind), [at], [half_length(length)])
    return op._fft_c2r(x.conj() if forward else x, [at], code, length)


_ONE = "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"
_OUT = "function, out"


@composite(f"fft_fft{_ONE}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("fft", "complex")})
def fft_fft(self, n, dim, norm):
    """The discrete Fourier transform along one dim, of the first n points or of as many zeros more."""
    return to_complex_line("fft.fft", self, n, dim, norm, True)


@composite(f"fft_ifft{_ONE}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("ifft", "complex")})
def fft_ifft(self, n, dim, norm):
    """The inverse of fft."""
    return to_complex_line("fft.ifft", self, n, dim, norm, False)


@composite(f"fft_rfft{_ONE}", dtypes=_REAL, variants=_OUT, autocast="float32", types={"out_kind": ("rfft", "complex")})
def fft_rfft(self, n, dim, norm):
    """The transform of real points: only the frequencies that are no mirror images of others."""
    return from_real_line("rfft", self, n, dim, norm, True)


@composite(
    f"fft_irfft{_ONE}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("irfft", "floating point")}
)
def fft_irfft(self, n, dim, norm):
    """The inverse of rfft: n real points, an even number unless n says otherwise."""
    return to_real_line("fft.irfft", self, n, dim, norm, False)


@composite(
    f"fft_hfft{_ONE}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("hfft", "floating point")}
)
def fft_hfft(self, n, dim, norm):
    """The real transform of points of which only one half is given, the others being its conjugate mirror image."""
    return to_real_line("fft.hfft", self, n, dim, norm, True)


@composite(
    f"fft_ihfft{_ONE}", dtypes=_REAL, variants=_OUT, autocast="float32", types={"out_kind": ("ihfft", "complex")}
)
def fft_ihfft(self, n, dim, norm):
    """The inverse of hfft: one half of what becomes real points."""
    return from_real_line("ihfft", self, n, dim, norm, False)


# -- along several dims --------------------------------------------------------------------------------


@rule
def to_complex(name: "str", self: "Tensor", s: "int[]?", dim: "int[]?", norm: "str?", forward: "bool") -> "Tensor":
    dims = transformed_dims(name, self.shape, s, dim)
    sizes = transformed_sizes(name, self.shape, s, dims)
    kind = spectral_dtype(name, self.dtype, True)
    code = norm_code(name, norm, forward)
    return op._fft_c2c(fitted(self.to(kind), dims, sizes), dims, code, forward)


@rule
def from_real(self: "Tensor", s: "int[]?", dim: "int[]?", norm: "str?") -> "Tensor":
    name = "fft.rfftn"
    if self.is_complex():
        raise RuntimeError(f"[{name}] rfftn expects a real-valued input tensor, but got {self.dtype}")
    dims = transformed_dims(name, self.shape, s, dim)
    check_axes(name, "rfftn", dims)
    sizes = transformed_sizes(name, self.shape, s, dims)
    kind = spectral_dtype(name, self.dtype, False)
    code = norm_code(name, norm, True)
    return op._fft_r2c(fitted(self.to(kind), dims, sizes), dims, code, True)


@rule
def to_real(said: "str", self: "Tensor", s: "int[]?", dim: "int[]?", norm: "str?", forward: "bool") -> "Tensor":
    name = f"fft.{said}"
    dims = transformed_dims(name, self.shape, s, dim)
    check_axes(name, said, dims)
    sizes = transformed_sizes(name, self.shape, s, dims)
    given = [-1] if s is None else s
    last = given[-1] if given[-1] != -1 else 2 * (self.shape[dims[-1]] - 1)
    check_point_count(name, last)
    sizes[-1] = half_length(last)
    kind = spectral_dtype(name, self.dtype, True)
    code = norm_code(name, norm, forward)
    x = fitted(self.to(kind), dims, sizes)
    return op._fft_c2r(x.conj() if forward else x, dims, code, last)


@rule
def half_from_real(self: "Tensor", s: "int[]?", dim: "int[]?", norm: "str?") -> "Tensor":
    name = "fft.ihfftn"
    dims = transformed_dims(name, self.shape, s, dim)
    check_axes(name, "ihfftn", dims)
    sizes = transformed_sizes(name, self.shape, s, dims)
    kind = spectral_dtype(name, self.dtype, False)
    code = norm_code(name, norm, False)
    found = op._fft_r2c(fitted(self.to(kind), dims, sizes), [dims[-1]], code, True).conj()
    if len(dims) == 1:
        return found
    return op._fft_c2c(found, dims[:-1], code, False)


_SEVERAL = "(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"
_TWO = "(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"


@composite(
    f"fft_fftn{_SEVERAL}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("fftn", "complex")}
)
def fft_fftn(self, s, dim, norm):
    """The transform along several dims; without dim and s, along all."""
    return to_complex("fft.fftn", self, s, dim, norm, True)


@composite(
    f"fft_ifftn{_SEVERAL}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("fftn", "complex")}
)
def fft_ifftn(self, s, dim, norm):
    """The inverse of fftn."""
    return to_complex("fft.ifftn", self, s, dim, norm, False)


@composite(
    f"fft_rfftn{_SEVERAL}", dtypes=_REAL, variants=_OUT, autocast="float32", types={"out_kind": ("rfftn", "complex")}
)
def fft_rfftn(self, s, dim, norm):
    """The transform of real points along several dims, without the mirror images in the last of them."""
    return from_real(self, s, dim, norm)


@composite(
    f"fft_irfftn{_SEVERAL}",
    dtypes=_FFT,
    variants=_OUT,
    autocast="float32",
    types={"out_kind": ("irfftn", "floating point")},
)
def fft_irfftn(self, s, dim, norm):
    """The inverse of rfftn."""
    return to_real("irfftn", self, s, dim, norm, False)


@composite(f"fft_hfftn{_SEVERAL}", dtypes=_FFT, variants=_OUT, types={"out_kind": ("hfftn", "floating point")})
def fft_hfftn(self, s, dim, norm):
    """The real transform along several dims of points of which only one half of the last dim is given."""
    return to_real("hfftn", self, s, dim, norm, True)


@composite(f"fft_ihfftn{_SEVERAL}", dtypes=_REAL, variants=_OUT, types={"out_kind": ("ihfftn", "complex")})
def fft_ihfftn(self, s, dim, norm):
    """The inverse of hfftn."""
    return half_from_real(self, s, dim, norm)


@composite(f"fft_fft2{_TWO}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("fftn", "complex")})
def fft_fft2(self, s, dim, norm):
    """The transform along two dims, the last ones unless dim names others."""
    return to_complex("fft.fft2", self, s, dim, norm, True)


@composite(f"fft_ifft2{_TWO}", dtypes=_FFT, variants=_OUT, autocast="float32", types={"out_kind": ("fftn", "complex")})
def fft_ifft2(self, s, dim, norm):
    """The inverse of fft2."""
    return to_complex("fft.ifft2", self, s, dim, norm, False)


@composite(
    f"fft_rfft2{_TWO}", dtypes=_REAL, variants=_OUT, autocast="float32", types={"out_kind": ("rfftn", "complex")}
)
def fft_rfft2(self, s, dim, norm):
    """The transform of real points along two dims, without the mirror images in the last of them."""
    return from_real(self, s, dim, norm)


@composite(
    f"fft_irfft2{_TWO}",
    dtypes=_FFT,
    variants=_OUT,
    autocast="float32",
    types={"out_kind": ("irfftn", "floating point")},
)
def fft_irfft2(self, s, dim, norm):
    """The inverse of rfft2."""
    return to_real("irfftn", self, s, dim, norm, False)


@composite(f"fft_hfft2{_TWO}", dtypes=_FFT, variants=_OUT, types={"out_kind": ("hfftn", "floating point")})
def fft_hfft2(self, s, dim, norm):
    """The real transform along two dims of points of which only one half of the last dim is given."""
    return to_real("hfftn", self, s, dim, norm, True)


@composite(f"fft_ihfft2{_TWO}", dtypes=_REAL, variants=_OUT, types={"out_kind": ("ihfftn", "complex")})
def fft_ihfft2(self, s, dim, norm):
    """The inverse of hfft2."""
    return half_from_real(self, s, dim, norm)


# -- frequencies ---------------------------------------------------------------------------------------


@rule
def frequency_dtype(name: "str", dtype: "dtype?") -> "dtype":
    kind = default_dtype() if dtype is None else dtype
    if is_integral(kind):
        raise RuntimeError(f"[fft.{name}] {name} requires a floating point or complex dtype: got {kind}")
    return kind


@rule
def frequency_step(n: "int", d: "float") -> "float":
    span = n * d
    if span == 0:
        return -float("inf") if d < 0 else float("inf")
    return 1.0 / span


@composite(
    "fft_fftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_OUT,
    tags={"factory", "computed_length"},
    whole=True,
)
def fft_fftfreq(n, d, dtype, device):
    """The frequencies of fft for n points that lie d apart: 0 and up, then the negative ones."""
    kind = frequency_dtype("fftfreq", dtype)
    if n < 0:
        raise RuntimeError(f"[fft.fftfreq] Trying to create tensor with negative dimension {n}: [{n}]")
    half = n // 2
    out = op.arange(n, dtype=kind, device=device_or_default(device))
    if half > 0:
        out.narrow(0, n - half, half).sub_(n)
    return out.mul_(frequency_step(n, d))


@composite(
    "fft_rfftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants=_OUT,
    tags={"factory", "computed_length"},
    whole=True,
)
def fft_rfftfreq(n, d, dtype, device):
    """The frequencies of rfft for n points that lie d apart."""
    kind = frequency_dtype("rfftfreq", dtype)
    count = n // 2 + 1 if n >= 0 else 1 - -n // 2
    if count < 0:
        raise RuntimeError(f"[fft.rfftfreq] Trying to create tensor with negative dimension {count}: [{count}]")
    return op.arange(count, dtype=kind, device=device_or_default(device)).mul_(frequency_step(n, d))


@rule
def shifted_dims(self: "Tensor", dim: "int[]?") -> "int[]":
    given = list(range(self.ndim)) if dim is None else dim
    return [spectral_dim("fft.fftshift", d, self.ndim) for d in given]


@composite("fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", variants="function")
def fft_fftshift(self, dim):
    """Frequencies in ascending order, zero in the middle."""
    dims = shifted_dims(self, dim)
    return self.roll([self.shape[d] // 2 for d in dims], dims)


@composite("fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", variants="function")
def fft_ifftshift(self, dim):
    """The inverse of fftshift."""
    dims = shifted_dims(self, dim)
    return self.roll([(self.shape[d] + 1) // 2 for d in dims], dims)
