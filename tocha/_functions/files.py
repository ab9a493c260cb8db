"""Tensors whose memory is a file."""

from __future__ import annotations

import mmap
import os
from typing import Any

from tocha import _C

Tensor = _C.Tensor


def from_file(
    filename: str | os.PathLike,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of `size` elements that lies in a file. With shared=True changes go to the file, which is made and
    grown as needed; else they stay with the tensor.

    >>> import os, tempfile, tocha
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> from_file(path, shared=True, size=3).copy_(tocha.arange(3.0))
    tensor([0., 1., 2.])
    >>> from_file(path, size=2)
    tensor([0., 1.])
    """
    if pin_memory:
        raise RuntimeError("[from_file] tensors constructed from a file cannot be pinned")
    if layout not in (None, _C.strided):
        raise RuntimeError(f"[from_file] Only strided tensors can be mapped to files: got layout={layout}")
    if device is not None and _C.device(device).type != "cpu":
        raise NotImplementedError(f"Could not run 'aten::from_file' with arguments from the '{device}' backend")
    kind = _C.get_default_dtype() if dtype is None else dtype
    count = 0 if size is None else size
    if count < 0:
        raise RuntimeError(f"[from_file] size must not be negative: got {count}")
    found = _mapped(os.fspath(filename), bool(shared), count * kind.itemsize)
    return found.view(kind).requires_grad_(requires_grad)


def _mapped(path: str, shared: bool, nbytes: int) -> Tensor:
    """The first bytes of a file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{path}> in {'read-write' if shared else 'read-only'} mode: {error.strerror} ({error.errno})") from None  # fmt: skip
    try:
        held = os.fstat(handle).st_size
        if nbytes > held:
            if not shared:
                raise RuntimeError(f"file <{path}> size <{held}> is smaller than the required mapping size <{nbytes}>")
            os.ftruncate(handle, nbytes)
        if nbytes == 0:
            return _C.empty(0, dtype=_C.uint8)
        memory = mmap.mmap(handle, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    finally:
        os.close(handle)
    return _C.frombuffer(memory, dtype=_C.uint8)
