"""Window functions: symmetric by default (sym=True), for filters; periodic (sym=False), for spectra."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tocha import _C

Tensor = _C.Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


_SUMS_OF_COSINES = ("general_hamming", "hamming", "hann", "nuttall")  # refused in the name of general_cosine


def _checked(name: str, M: int, options: dict[str, Any]) -> dict[str, Any]:
    """The factory options, once the length and the dtype are known to make sense."""
    said = "general_cosine" if name in _SUMS_OF_COSINES else name
    unknown = options.keys() - {"dtype", "layout", "device", "requires_grad"}
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{min(unknown)}'")
    if M < 0:
        raise ValueError(f"[{name}] {said} requires non-negative window length, got M={M}")
    if options.get("layout") not in (None, _C.strided):
        layout = str(options["layout"]).rpartition(".")[2]
        raise ValueError(f"[{name}] {said} is implemented for strided tensors only, got: torch.{layout}")
    dtype = options.get("dtype")
    if dtype is not None and dtype not in (_C.float32, _C.float64):
        kind = str(dtype).rpartition(".")[2]
        raise ValueError(f"[{name}] {said} expects float32 or float64 dtypes, got: torch.{kind}")
    return options


def _window(M: int, first: float, last: float, options: dict[str, Any], value: Callable[[Tensor], Tensor]) -> Tensor:
    """What `value` makes of M numbers from first to last."""
    return value(_C.linspace(first, last, M, **options)) if M else _C.empty((0,), **options)


def _period_of(
    M: int, last: float, options: dict[str, Any], value: Callable[[Tensor], Tensor], first: float = 0
) -> Tensor:
    """_window of a curve that ends where it began: a single sample is 1."""
    return _C.ones((1,), **options) if M == 1 else _window(M, first, last, options, value)


def _in_double(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The function, rounded once."""
    return function(x.double()).to(x.dtype)


def _centred(M: int, sym: bool) -> float:
    """Half of what lies between the first sample and the last of the symmetric window."""
    return (M if not sym and M > 1 else M - 1) / 2.0


def _period(M: int, sym: bool, length: float) -> float:
    """The step of a window whose symmetric form is so long."""
    return length / max(M - 1 if sym else M, 1)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle from 0 to 1 and back.

    >>> import tocha
    >>> tocha.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    _checked("bartlett", M, options)
    return _period_of(M, -1 + (M - 1) * _period(M, sym, 2.0), options, lambda x: 1 - x.abs(), first=-1)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(x) + 0.08 cos(2 x).

    >>> tocha.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **_checked("blackman", M, options))


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a period of a sine.

    >>> tocha.signal.windows.cosine(5)
    tensor([0.3090, 0.8090, 1.0000, 0.8090, 0.3090])
    """
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _window(M, 0.5 * step, (M - 0.5) * step, _checked("cosine", M, options), lambda x: _in_double(_C.sin, x))


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-|n - center| / tau).

    >>> tocha.signal.windows.exponential(5, tau=1.0)
    tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    _checked("exponential", M, options)
    if tau <= 0:
        raise ValueError(f"[exponential] Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("[exponential] Center must be None for symmetric windows")
    start, step = -_centred(M, sym) if center is None else -center, 1 / tau
    return _window(M, start * step, (start + (M - 1)) * step, options, lambda x: _in_double(_C.exp, -x.abs()))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-(n - center)^2 / (2 std^2)).

    >>> tocha.signal.windows.gaussian(5, std=1.0)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    _checked("gaussian", M, options)
    if std <= 0:
        raise ValueError(f"[gaussian] Standard deviation must be positive, got: {std} instead.")
    start, step = -_centred(M, sym), 1 / (std * math.sqrt(2))
    return _window(M, start * step, (start + (M - 1)) * step, options, lambda x: _in_double(_C.exp, -(x * x)))


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ...

    >>> tocha.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    _checked("general_cosine", M, options)
    if not isinstance(a, Iterable):
        raise TypeError("[general_cosine] Coefficients must be a list/tuple")
    coefficients = _C.tensor(list(a), dtype=_C.float64).tolist()  # which refuses what is no number
    if not coefficients:
        raise ValueError("[general_cosine] Coefficients cannot be empty")

    def summed(x: Tensor) -> Tensor:
        total = _C.full_like(x, coefficients[0])
        for k, factor in enumerate(coefficients[1:], 1):
            total = total + _in_double(_C.cos, x * k) * (-factor if k % 2 else factor)
        return total

    return _period_of(M, (M - 1) * _period(M, sym, 2 * math.pi), options, summed)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(x).

    >>> tocha.signal.windows.general_hamming(5, alpha=0.6)
    tensor([0.2000, 0.6000, 1.0000, 0.6000, 0.2000])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **_checked("general_hamming", M, options))


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.54 - 0.46 cos(x).

    >>> tocha.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_hamming(M, sym=sym, **_checked("hamming", M, options))


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.5 - 0.5 cos(x).

    >>> tocha.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    >>> tocha.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **_checked("hann", M, options))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """I0(beta sqrt(1 - x^2)) / I0(beta).

    >>> tocha.signal.windows.kaiser(5, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348, 0.4387])
    """
    _checked("kaiser", M, options)
    if beta < 0:
        raise ValueError(f"[kaiser] beta must be non-negative, got: {beta} instead.")
    return _C.kaiser_window(M, not sym, beta, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A sum of four cosines with small side lobes.

    >>> tocha.signal.windows.nuttall(5)
    tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **_checked("nuttall", M, options))
