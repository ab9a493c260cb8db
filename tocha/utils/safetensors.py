"""Reads and writes safetensors files: named tensors and nothing that could run, mapped into memory where they lie.

The functions are those of the `safetensors.torch` module. A file is the length of a header (8 bytes), the header (JSON: for
each tensor its dtype, shape and place; free text under "__metadata__"), and the tensors' bytes without a gap.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections import Counter
from itertools import pairwise
from typing import IO, Any, NamedTuple

from tocha import _C
from tocha._utils import _count_elements
from tocha.serialization.atomic import replace
from tocha.serialization.errors import brief

__all__ = ["SafetensorError", "Slice", "load", "load_file", "safe_open", "save", "save_file"]

Tensor = _C.Tensor
Path = str | os.PathLike

_METADATA = "__metadata__"
_LARGEST_HEADER = 100_000_000
_LENGTH = struct.Struct("<Q")
# In the order in which tensors lie in a file, last first: large elements come first, so that all are aligned.
_DTYPES: dict[str, _C.dtype] = {
    "BOOL": _C.bool,
    "U8": _C.uint8,
    "I8": _C.int8,
    "F8_E5M2": _C.float8_e5m2,
    "F8_E4M3": _C.float8_e4m3fn,
    "F8_E8M0": _C.float8_e8m0fnu,
    "F8_E4M3FNUZ": _C.float8_e4m3fnuz,
    "F8_E5M2FNUZ": _C.float8_e5m2fnuz,
    "I16": _C.int16,
    "U16": _C.uint16,
    "F16": _C.float16,
    "BF16": _C.bfloat16,
    "I32": _C.int32,
    "U32": _C.uint32,
    "F32": _C.float32,
    "C64": _C.complex64,
    "F64": _C.float64,
    "I64": _C.int64,
    "U64": _C.uint64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_RANK = {name: rank for rank, name in enumerate(_DTYPES)}


class SafetensorError(RuntimeError):
    """A file that is no safetensors file, or a damaged one, or a tensor it does not hold.

    >>> from tocha.utils.safetensors import SafetensorError, load
    >>> try:
    ...     load(b"not a file")
    ... except SafetensorError as error:
    ...     print(type(error).__name__)
    SafetensorError
    """


# -- writing -----------------------------------------------------------------------------------------


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The file's bytes.

    >>> from tocha.utils import safetensors
    >>> data = safetensors.save({"weight": tocha.ones(2)}, metadata={"made": "by hand"})
    >>> safetensors.load(data)
    {'weight': tensor([1., 1.])}
    """
    header, ordered = _layout(tensors, metadata)
    return header + b"".join(_bytes_of(t) for t in ordered)


def save_file(tensors: dict[str, Tensor], filename: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes named tensors to a file, which is replaced when the new one is whole.

    Tensors must be contiguous and not overlap in memory: the format cannot say that they do.

    >>> import os, tempfile
    >>> from tocha.utils.safetensors import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_file({"w": tocha.ones(2)}, path, metadata={"format": "pt"})
    >>> os.path.getsize(path) > 8
    True
    """
    header, ordered = _layout(tensors, metadata)

    def write(file: IO[bytes]) -> None:
        file.write(header)
        for t in ordered:
            file.write(_bytes_of(t))

    replace(filename, write)


def _layout(tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> tuple[bytes, list[Tensor]]:
    """The header with its length, and the tensors in the order in which they follow it."""
    _check_tensors(tensors)
    header: dict[str, Any] = {}
    if metadata is not None:
        header[_METADATA] = _check_metadata(metadata, TypeError)
    names = sorted(tensors, key=lambda name: (-_RANK[_NAMES[tensors[name].dtype]], name))
    at = 0
    for name in names:
        t = tensors[name]
        end = at + t.numel() * t.element_size()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text, [tensors[name] for name in names]


def _check_tensors(tensors: dict[str, Tensor]) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, tocha.Tensor] but received {type(tensors)}")
    for name, t in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors must be text, not {type(name).__name__}")
        if name == _METADATA:
            raise ValueError(f"a tensor cannot be called {_METADATA}, where the header keeps its free text")
        if not isinstance(t, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected tocha.Tensor but received {type(t)}")
        if t.dtype not in _NAMES:
            raise ValueError(f"`{name}` is of dtype {t.dtype}, which the format does not have")
        if t.is_meta:
            raise ValueError(f"`{name}` is on the meta device and has no data to save")
        if not t.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. Call `.contiguous()` on it "
                "first; if it is a view of another tensor that is saved too, save only that one and slice it after loading."
            )
    _check_apart(tensors)


def _check_apart(tensors: dict[str, Tensor]) -> None:
    """Contiguous tensors overlap if one begins before the one below it in memory ends."""
    spans = sorted(
        (str(t.device), t.data_ptr(), t.data_ptr() + t.numel() * t.element_size(), name)
        for name, t in tensors.items()
        if t.numel()
    )
    for (device, _, end, name), (next_device, begin, _, next_name) in pairwise(spans):
        if device == next_device and begin < end:
            raise RuntimeError(
                "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when "
                f"loading them again: [{{{name!r}, {next_name!r}}}]. Save one of them, or a `.clone()` of the other."
            )


def _check_metadata(metadata: Any, error: type[Exception]) -> dict[str, str]:
    texts = isinstance(metadata, dict) and all(isinstance(v, str) for pair in metadata.items() for v in pair)
    if not texts:
        raise error("metadata must be a dict of text to text")
    return metadata


def _bytes_of(t: Tensor) -> memoryview:
    plain = t.detach().resolve_conj().resolve_neg().cpu().reshape(-1)
    return memoryview(plain.view(_C.uint8).numpy())


# -- reading -----------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    dtype: _C.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file whose bytes are at hand.

    >>> from tocha.utils.safetensors import load, save
    >>> load(save({"w": tocha.tensor([1.0, 2.0])}))
    {'w': tensor([1., 2.])}
    """
    return _File(data, copy=True).all_tensors()


def load_file(filename: Path, device: str | int | _C.device = "cpu") -> dict[str, Tensor]:
    """The tensors of a file. On the CPU they lie in the file until they are touched; changes stay private.

    >>> import os, tempfile
    >>> from tocha.utils.safetensors import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_file({"w": tocha.tensor([1.0, 2.0])}, path)
    >>> load_file(path)
    {'w': tensor([1., 2.])}
    """
    with safe_open(filename, device=device) as file:
        return file.get_tensors()


class safe_open:
    """A file whose tensors are read when they are asked for.

    >>> import os, tempfile
    >>> from tocha.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save_file({"weight": tocha.arange(6.0).view(2, 3)}, path)
    >>> with safe_open(path) as file:
    ...     print(file.keys(), file.get_slice("weight")[:, 1:])
    ['weight'] tensor([[1., 2.],
            [4., 5.]])
    """

    def __init__(self, filename: Path, framework: str = "pt", device: str | int | _C.device = "cpu"):
        if framework not in ("pt", "torch", "pytorch", "tocha"):
            raise SafetensorError(f"framework must be 'pt', got {framework!r}: tensors here are tocha's")
        self._device = _C.device(device)
        self._name = os.fspath(filename)
        try:
            with open(filename, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                # A file of no bytes cannot be mapped.
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
            self._file: _File | None = _File(data)
        except SafetensorError as error:
            raise SafetensorError(f"[safe_open] {self._name}: {error}") from error

    def _opened(self) -> _File:
        if self._file is None:
            raise SafetensorError(f"[safe_open] {self._name} is closed")
        return self._file

    def __enter__(self) -> safe_open:
        self._opened()
        return self

    def __exit__(self, *exception: object) -> None:
        self._file = None

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._opened().entries)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, as they lie in the file."""
        return list(self._opened().entries)

    def metadata(self) -> dict[str, str] | None:
        """The free text in the header."""
        return self._opened().metadata

    def get_tensor(self, name: str) -> Tensor:
        """One tensor."""
        return self._opened().tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, Tensor]:
        """All of them by name."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        """A tensor to take parts of: only those are read."""
        return Slice(self._opened().tensor(name), self._device)


class Slice:
    """A tensor in a file; indexing it gives a part as a tensor.

    >>> import os, tempfile
    >>> from tocha.utils.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "w.safetensors")
    >>> save_file({"w": tocha.arange(6.0).view(2, 3)}, path)
    >>> with safe_open(path, framework="pt") as f:
    ...     f.get_slice("w")[:, 1]
    tensor([1., 4.])
    """

    def __init__(self, whole: Tensor, device: _C.device):
        self._whole = whole
        self._device = device

    def get_shape(self) -> list[int]:
        return list(self._whole.shape)

    def get_dtype(self) -> str:
        """The format's name of the dtype: F32, ..."""
        return _NAMES[self._whole.dtype]

    def __getitem__(self, index: Any) -> Tensor:
        return self._whole[index].contiguous().to(self._device)


class _File:
    """A file's header, checked, and its bytes."""

    def __init__(self, data: bytes | mmap.mmap, copy: bool = False):
        self._data = data
        self._copy = copy
        self._start, header = _read_header(data)
        self.metadata: dict[str, str] | None = None
        if _METADATA in header:
            self.metadata = _check_metadata(header.pop(_METADATA), SafetensorError)
        entries = {name: _entry(name, described) for name, described in header.items()}
        in_order = sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end))
        self.entries = dict(in_order)
        self._check_cover(len(data) - self._start)

    def _check_cover(self, size: int) -> None:
        """Every byte belongs to one tensor."""
        at = 0
        for name, entry in self.entries.items():
            if entry.begin != at:
                what = "overlaps the one before it" if entry.begin < at else "leaves a gap before it"
                raise SafetensorError(f"tensor {brief(name)!r} begins at {entry.begin} and {what}, which ends at {at}")
            at = entry.end
        if at != size:
            what = "is cut off" if at > size else "goes on after them"
            raise SafetensorError(f"the tensors need {at} bytes, there are {size}: the file {what}")

    def tensor(self, name: str) -> Tensor:
        if name not in self.entries:
            raise SafetensorError(f"File does not contain tensor {brief(name)}")
        dtype, shape, begin, end = self.entries[name]
        at = self._start + begin
        if begin == end:
            return _C.empty(shape, dtype=dtype)
        if self._copy or at % dtype.itemsize:
            flat = _C.frombuffer(bytearray(memoryview(self._data)[at : self._start + end]), dtype=dtype)
        else:
            flat = _C.frombuffer(self._data, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=at)
        return flat.view(shape)

    def all_tensors(self) -> dict[str, Tensor]:
        return {name: self.tensor(name) for name in self.entries}


def _read_header(data: bytes | mmap.mmap) -> tuple[int, dict[str, Any]]:
    """Where the tensors' bytes begin, and the header."""
    if len(data) < _LENGTH.size:
        raise SafetensorError(f"a file of {len(data)} bytes is too short to say how long its header is")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size])
    start = _LENGTH.size + length
    if length > _LARGEST_HEADER:
        raise SafetensorError(
            f"the header is said to have {length} bytes, more than {_LARGEST_HEADER}: no safetensors file"
        )
    if start > len(data):
        raise SafetensorError(f"the header of {length} bytes goes beyond the end of the file, {len(data)}")
    try:
        header = json.loads(data[_LENGTH.size : start].decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"the header is no JSON: {brief(error)}") from error
    if not isinstance(header, dict):
        raise SafetensorError("the header is no JSON object")
    return start, header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise SafetensorError(f"the header names {brief(twice)!r} twice")
    return found


def _entry(name: str, described: Any) -> _Entry:
    shown = repr(brief(name))
    if not isinstance(described, dict) or not {"dtype", "shape", "data_offsets"} <= described.keys():
        raise SafetensorError(f"tensor {shown} must have dtype, shape and data_offsets")
    dtype = _DTYPES.get(described["dtype"]) if isinstance(described["dtype"], str) else None
    if dtype is None:
        raise SafetensorError(f"tensor {shown} is of dtype {brief(described['dtype'])}, which tocha does not have")
    shape, offsets = described["shape"], described["data_offsets"]
    if not _are_sizes(shape):
        raise SafetensorError(f"tensor {shown} has a shape that is no list of sizes: {brief(shape)}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise SafetensorError(f"tensor {shown} has data_offsets that are no beginning and end: {brief(offsets)}")
    begin, end = offsets
    try:
        nbytes = _count_elements(shape) * dtype.itemsize
    except ValueError as error:
        raise SafetensorError(f"tensor {shown}: {error}") from error
    if end - begin != nbytes:
        raise SafetensorError(
            f"tensor {shown} of shape {brief(shape)} and {dtype} does not fill bytes {begin} to {end}"
        )
    return _Entry(dtype, tuple(shape), begin, end)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)
