"""Window functions: symmetric by default (sym=True), for filters; periodic (sym=False), for spectra."""

from __future__ import annotations

from collections.abc import Iterable
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


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle from 0 to 1 and back.

    >>> import tocha
    >>> tocha.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _C.bartlett_window(M, not sym, **_checked("bartlett", M, options))


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(x) + 0.08 cos(2 x).

    >>> tocha.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _C._cosine_sum_window(M, not sym, [0.42, 0.5, 0.08], **_checked("blackman", M, options))


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a period of a sine.

    >>> tocha.signal.windows.cosine(5)
    tensor([0.3090, 0.8090, 1.0000, 0.8090, 0.3090])
    """
    return _C._sine_window(M, not sym, **_checked("cosine", M, options))


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
    return _C._exponential_window(M, not sym, center, tau, **options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-(n - center)^2 / (2 std^2)).

    >>> tocha.signal.windows.gaussian(5, std=1.0)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    _checked("gaussian", M, options)
    if std <= 0:
        raise ValueError(f"[gaussian] Standard deviation must be positive, got: {std} instead.")
    return _C._gaussian_window(M, not sym, std, **options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ...

    >>> tocha.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    _checked("general_cosine", M, options)
    if not isinstance(a, Iterable):
        raise TypeError("[general_cosine] Coefficients must be a list/tuple")
    coefficients = list(a)
    if not coefficients:
        raise ValueError("[general_cosine] Coefficients cannot be empty")
    return _C._cosine_sum_window(M, not sym, coefficients, **options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(x).

    >>> tocha.signal.windows.general_hamming(5, alpha=0.6)
    tensor([0.2000, 0.6000, 1.0000, 0.6000, 0.2000])
    """
    return _C._cosine_sum_window(M, not sym, [alpha, 1.0 - alpha], **_checked("general_hamming", M, options))


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.54 - 0.46 cos(x).

    >>> tocha.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _C._cosine_sum_window(M, not sym, [0.54, 0.46], **_checked("hamming", M, options))


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """0.5 - 0.5 cos(x).

    >>> tocha.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    >>> tocha.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _C._cosine_sum_window(M, not sym, [0.5, 0.5], **_checked("hann", M, options))


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
    return _C._cosine_sum_window(
        M, not sym, [0.3635819, 0.4891775, 0.1365995, 0.0106411], **_checked("nuttall", M, options)
    )
