"""Short-time Fourier transforms: the spectra of overlapping windows of a signal, and the signal of such spectra."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, op, rule
from tocha.operators.rules import computes, real_dtype, warn_once

_COMPLEX_SIDES = "Cannot have onesided output if window or input is complex"


@rule
def padded_window(window: "Tensor?", n_fft: "int", win_length: "int", like: "Tensor") -> "Tensor":
    """The window, ones where none is given, in the middle of n_fft points."""
    given = op.ones([win_length], dtype=real_dtype(like.dtype), device=like.device) if window is None else window
    left = (n_fft - win_length) // 2
    return given if win_length == n_fft else op.constant_pad_nd(given, [left, n_fft - win_length - left], 0)


@rule
def check_window_device(name: "str", self: "Tensor", window: "Tensor?") -> "none":
    if window is not None and window.device != self.device:
        raise RuntimeError(
            f"[{name}] {name} input and window must be on the same device but got self on {self.device} and window on {window.device}"
        )


@rule
def check_stft(self: "Tensor", n_fft: "int", hop_length: "int", win_length: "int", window: "Tensor?") -> "none":
    if not self.is_complex() and not self.is_floating_point():
        raise RuntimeError(f"[stft] expected a tensor of floating point or complex values: got {self.dtype}")
    if self.ndim != 1 and self.ndim != 2:
        raise RuntimeError(f"[stft] expected a 1D or 2D tensor: got {self.shape}")
    length = self.shape[-1]
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(
            f"[stft] expected 0 < n_fft < {length}, but got n_fft={win_length}: n_fft={n_fft} and input {self.shape}"
        )
    if hop_length <= 0:
        raise RuntimeError(f"[stft] expected hop_length > 0, but got hop_length={hop_length}")
    if win_length <= 0 or win_length > n_fft:
        raise RuntimeError(f"[stft] expected 0 < win_length <= n_fft, but got win_length={win_length}: n_fft={n_fft}")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(
            f"[stft] expected a 1D window tensor of size equal to win_length={win_length}, but got window with size {window.shape}"
        )


@rule
def centred(self: "Tensor", n_fft: "int", pad_mode: "str") -> "Tensor":
    """The signal continued at both ends, so that the first window has its beginning in the middle."""
    half = n_fft // 2
    if self.ndim > 2:
        return op.nn_pad(self, [half, half], pad_mode, None)
    framed = op.nn_pad(self.view([*([1] * (3 - self.ndim)), *self.shape]), [half, half], pad_mode, None)
    return framed.view(framed.shape[3 - self.ndim :])


@composite(
    "stft.inside(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, "
    "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    dtypes=(dt.float32, dt.float64, dt.complex64, dt.complex128),
    aten=("stft",),
    autocast="float32",
    variants="",
    samples=lambda t: [((t(2, 20), 8), {"return_complex": True})],
)
def stft_inside(self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window):
    """stft of windows that lie within the signal."""
    return op.stft(
        self,
        n_fft,
        hop_length,
        win_length,
        window,
        False,
        "reflect",
        normalized,
        onesided,
        return_complex,
        align_to_window,
    )


@composite(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
    'str pad_mode="reflect", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor',
    dtypes=(dt.float32, dt.float64, dt.complex64, dt.complex128),
    aten=("stft.center",),
    autocast="float32",
    samples=lambda t: [
        ((t(2, 20), 8), {"return_complex": True}),
        ((t(20), 8, 3, 6, t(6)), {"center": False, "return_complex": True, "align_to_window": True}),
    ],
)
def stft(
    self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window
):
    """The spectra of windows of n_fft points, hop_length apart: (batch, frequencies, windows)."""
    if center and align_to_window is not None:
        raise RuntimeError("[stft] stft align_to_window should only be set when center = false")
    signal = centred(self, n_fft, pad_mode) if center else self
    check_window_device("stft", self, window)
    complex_parts = self.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not complex_parts:
        raise RuntimeError(
            "[stft] stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release."
        )
    if return_complex is not None and not return_complex:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors for all inputs, and return_complex=False will raise an error.\nNote: you can still call tocha.view_as_real on the complex output to recover the old return format."
        )
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. Other windows such as tocha.hann_window or tocha.hamming_window are recommended to reduce spectral leakage.To suppress this warning and use a rectangular window, explicitly set `window=tocha.ones(n_fft, device=<device>)`."
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    aligned = False if align_to_window is None else align_to_window
    check_stft(signal, n_fft, hop, width, window)
    if aligned:
        left = (n_fft - width) // 2
        signal = op.constant_pad_nd(signal, [left, n_fft - width - left], 0)
    frames = signal.unfold(-1, n_fft, hop)
    if window is not None or width < n_fft:
        frames = frames * padded_window(window, n_fft, width, signal)
    one = not frames.is_complex() if onesided is None else onesided
    if one and frames.is_complex():
        raise RuntimeError(f"[stft] {_COMPLEX_SIDES}: got {frames.dtype}")
    code = 1 if normalized else 0
    last = frames.ndim - 1
    spectra = op._fft_c2c(frames, [last], code, True) if frames.is_complex() else op._fft_r2c(frames, [last], code, one)
    found = spectra.transpose(-2, -1)
    return op.view_as_real(found) if return_complex is not None and not return_complex else found


@rule
def check_istft(
    self: "Tensor", n_fft: "int", hop_length: "int", win_length: "int", window: "Tensor?", onesided: "bool"
) -> "none":
    if self.numel() == 0:
        raise RuntimeError(f"[istft] input tensor cannot be empty.: got {self.shape}")
    if self.ndim != 2 and self.ndim != 3:
        raise RuntimeError(f"[istft] expected a tensor with 3 or 4 dimensions, but got {self.ndim + 1}")
    bins = self.shape[-2]
    if onesided and bins != n_fft // 2 + 1:
        raise RuntimeError(
            f"[istft] expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when onesided=True, but got {bins}: n_fft={n_fft}"
        )
    if not onesided and bins != n_fft:
        raise RuntimeError(
            f"[istft] expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=False, but got {bins}: n_fft={n_fft}"
        )
    if hop_length <= 0 or hop_length > win_length:
        raise RuntimeError(f"[istft] expected 0 < hop_length <= win_length: got {hop_length} and {win_length}")
    if win_length <= 0 or win_length > n_fft:
        raise RuntimeError(f"[istft] expected 0 < win_length <= n_fft: got {win_length} and {n_fft}")
    if window is not None and (window.ndim != 1 or window.shape[0] != win_length):
        raise RuntimeError(
            f"[istft] Invalid window shape. window has to be 1D and length of `win_length`: got {window.shape} and {win_length}"
        )


@rule
def overlap_added(frames: "Tensor", hop: "int") -> "Tensor":
    """(batch, windows, points) added up where the windows lie."""
    n, width = frames.shape[1], frames.shape[2]
    length = width + hop * (n - 1)
    added = op.nn_col2im(frames.transpose(1, 2), [1, length], [1, width], [1, 1], [0, 0], [1, hop])
    return added.view([frames.shape[0], length])


@composite(
    "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, "
    "bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor",
    dtypes=(dt.float32, dt.float64),
    samples=lambda t: [((t(2, 5, 6, dtype="complex"), 8, 2), {"window": t(8)})],
)
def istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    """The signal whose windows have these spectra, by least squares: the inverse of stft."""
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly set `window=tocha.ones(n_fft, device=<device>)`."
        )
    check_window_device("istft", self, window)
    if not self.is_complex():
        raise RuntimeError(
            f"[istft] istft requires a complex-valued input tensor matching the output from stft with return_complex=True.: got {self.dtype}"
        )
    if self.ndim < 2:
        raise IndexError(
            f"[istft] Dimension out of range (expected to be in range of [{-self.ndim - 1}, {self.ndim}], but got -3)"
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    one = self.shape[-2] != n_fft if onesided is None else onesided
    check_istft(self, n_fft, hop, width, window, one)
    spectra = (self.unsqueeze(0) if self.ndim == 2 else self).transpose(1, 2)
    shape = padded_window(window, n_fft, width, self)
    code = 1 if normalized else 2
    frames = spectra
    if return_complex:
        if one:
            raise RuntimeError(f"[istft] {_COMPLEX_SIDES}")
        frames = op._fft_c2c(spectra, [2], code, False)
    else:
        if shape.is_complex():
            raise RuntimeError("[istft] Complex windows are incompatible with return_complex=False")
        half = spectra if one else spectra.narrow(2, 0, n_fft // 2 + 1)
        frames = op._fft_c2r(half, [2], code, n_fft)
    full = n_fft + hop * (self.shape[-1] - 1)
    signal = overlap_added(frames * shape, hop)
    squares = shape * shape
    weights = overlap_added(squares.expand([1, self.shape[-1], n_fft]), hop)
    start = n_fft // 2 if center else 0
    # Without a length the end is counted from the back; a half of no points leaves nothing.
    end = full if not center else full - start if start > 0 else 0
    if length is not None:
        end = start + length
    count = max(min(end, full) - start, 0)
    signal = signal.narrow(1, min(start, full), count)
    weights = weights.narrow(1, min(start, full), count)
    if computes(weights) and not op.equal(
        weights.abs().min().lt(1e-11), op.zeros([], dtype=dt.bool_, device=self.device)
    ):
        raise RuntimeError(f"[istft] window overlap add min: 1: the windows leave points of {full} uncovered")
    found = signal / weights
    if end > full:
        warn_once(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your center and hop_length settings."
        )
        found = op.constant_pad_nd(found, [0, end - full], 0)
    return found.squeeze(0) if self.ndim == 2 else found
