"""Window functions for signal processing; tocha.signal.windows and the older *_window functions call them."""

from __future__ import annotations

from tocha.operators.record import composite, native, op, rule
from tocha.operators.rules import Out, default_dtype, device_or_default

_FACTORY = frozenset({"factory"})


@rule
def window_dtype(dtype: "dtype?", name: "str") -> "dtype":
    kind = default_dtype() if dtype is None else dtype
    if not kind.is_floating_point:
        raise RuntimeError(f"[{name}] expects floating point dtypes, got: {kind}")
    return kind


@rule
def check_window_length(n: "int", name: "str") -> "none":
    if n < 0:
        raise RuntimeError(f"[{name}] requires non-negative window_length, got window_length={n}")


@native(
    "_cosine_sum_window(int window_length, bool periodic, float[]? a, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY | {"called_whole"},
    samples=lambda t: [((5, True, [0.5, 0.5]), {})],
)
def _cosine_sum_window(window_length, periodic, a, dtype, device):
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., over one period."""
    check_window_length(window_length, "window")
    return Out([window_length], window_dtype(dtype, "window"), device=device_or_default(device))


@native(
    "bartlett_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY,
    aten=(
        "bartlett_window(int window_length) -> Tensor",
        "bartlett_window.periodic(int window_length, bool periodic) -> Tensor",
    ),
)
def bartlett_window(window_length, periodic, dtype, device):
    """A triangle from 0 to 1 and back."""
    check_window_length(window_length, "bartlett_window")
    return Out([window_length], window_dtype(dtype, "bartlett_window"), device=device_or_default(device))


@native(
    "kaiser_window(int window_length, bool periodic=True, float beta=12.0, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY,
    aten=(
        "kaiser_window(int window_length) -> Tensor",
        "kaiser_window.periodic(int window_length, bool periodic) -> Tensor",
        "kaiser_window.beta(int window_length, bool periodic, float beta) -> Tensor",
    ),
)
def kaiser_window(window_length, periodic, beta, dtype, device):
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""
    check_window_length(window_length, "kaiser_window")
    return Out([window_length], window_dtype(dtype, "kaiser_window"), device=device_or_default(device))


@composite(
    "hann_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY,
    aten=(
        "hann_window(int window_length) -> Tensor",
        "hann_window.periodic(int window_length, bool periodic) -> Tensor",
    ),
    whole=True,
)
def hann_window(window_length, periodic, dtype, device):
    """0.5 - 0.5 cos(x) over one period."""
    check_window_length(window_length, "hann_window")
    return op._cosine_sum_window(window_length, periodic, [0.5, 0.5], dtype=dtype, device=device)


@composite(
    "hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY,
    aten=(
        "hamming_window(int window_length) -> Tensor",
        "hamming_window.periodic(int window_length, bool periodic) -> Tensor",
        "hamming_window.periodic_alpha(int window_length, bool periodic, float alpha) -> Tensor",
        "hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta) -> Tensor",
    ),
    whole=True,
)
def hamming_window(window_length, periodic, alpha, beta, dtype, device):
    """alpha - beta cos(x) over one period."""
    check_window_length(window_length, "hamming_window")
    return op._cosine_sum_window(window_length, periodic, [alpha, beta], dtype=dtype, device=device)


@composite(
    "blackman_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
    variants="function",
    tags=_FACTORY,
    aten=(
        "blackman_window(int window_length) -> Tensor",
        "blackman_window.periodic(int window_length, bool periodic) -> Tensor",
    ),
    whole=True,
)
def blackman_window(window_length, periodic, dtype, device):
    """0.42 - 0.5 cos(x) + 0.08 cos(2 x) over one period."""
    check_window_length(window_length, "blackman_window")
    return op._cosine_sum_window(window_length, periodic, [0.42, 0.5, 0.08], dtype=dtype, device=device)
