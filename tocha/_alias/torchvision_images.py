"""torchvision's image operators by Pillow, in place of its extension: loaded by `ops.load_library`."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from typing import Any

import numpy as np

import tocha
from tocha import Tensor
from tocha.library import Library

_library = Library("image", "DEF")
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _operator(schema: str) -> Any:
    def register(function: Any) -> Any:
        _library.define(schema)
        _library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
        return function

    return register


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageOps")
    except ImportError as error:
        raise RuntimeError("[torchvision.io] images are decoded by Pillow, which is not installed") from error


def _bytes(data: Tensor) -> bytes:
    if data.dtype != tocha.uint8 or data.dim() != 1:
        raise RuntimeError(
            f"[decode] expected a 1-dimensional uint8 tensor, got {data.dtype} of shape {tuple(data.shape)}"
        )
    return data.contiguous().numpy().tobytes()


def _gray(image: Any, image_module: Any) -> Any:
    """As libpng weighs the colours: in 15 bits, rounded down."""
    red, green, blue = (np.asarray(band).astype(np.int32) for band in image.split())
    return image_module.fromarray(((9794 * red + 19234 * green + 3740 * blue) >> 15).astype(np.uint8))


def _decoded(data: Tensor, mode: int, turn: bool, *formats: str) -> Tensor:
    """The picture as (channels, height, width)."""
    image_module, operations = _pillow()
    try:
        image = image_module.open(io.BytesIO(_bytes(data)), formats=formats or None)
    except OSError as error:
        raise RuntimeError(f"[decode] Unsupported image file, or content is not an image: {error}") from error
    if mode == 1 and image.format == "JPEG":
        image.draft("L", image.size)  # the luma as it is stored
    image = operations.exif_transpose(image) if turn else image
    if mode in _MODES:
        image = _gray(image, image_module) if mode == 1 and image.mode == "RGB" else image.convert(_MODES[mode])
    elif image.mode in ("P", "1"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB" if image.mode == "P" else "L")
    values = np.array(image)
    if values.dtype == np.int32:  # PNG of 16 bits
        values = values.astype(np.uint16)
    found = tocha.from_numpy(values)
    return found[None] if found.dim() == 2 else found.permute(2, 0, 1).contiguous()


def _encoded(data: Tensor, kind: str, **options: Any) -> Tensor:
    if data.dtype != tocha.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 3 or data.size(0) not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got shape {tuple(data.shape)}")
    values = data.permute(1, 2, 0).contiguous().numpy()
    buffer = io.BytesIO()
    _pillow()[0].fromarray(values.squeeze(-1) if values.shape[-1] == 1 else values).save(buffer, kind, **options)
    return tocha.frombuffer(bytearray(buffer.getvalue()), dtype=tocha.uint8)


@_operator("read_file(str filename) -> Tensor")
def read_file(filename: str) -> Tensor:
    data = Path(filename).read_bytes()
    if not data:
        raise RuntimeError(f"[Errno 61] Expected a non empty file: {filename!r}")
    return tocha.frombuffer(bytearray(data), dtype=tocha.uint8)


@_operator("write_file(str filename, Tensor data) -> ()")
def write_file(filename: str, data: Tensor) -> None:
    Path(filename).write_bytes(_bytes(data))


@_operator("decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor")
def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    return _decoded(data, mode, apply_exif_orientation, "PNG")


@_operator("decode_jpeg(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor")
def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    return _decoded(data, mode, apply_exif_orientation, "JPEG")


@_operator("decode_webp(Tensor encoded_data, int mode) -> Tensor")
def decode_webp(data: Tensor, mode: int) -> Tensor:
    return _decoded(data, mode, False, "WEBP")


@_operator("decode_gif(Tensor data) -> Tensor")
def decode_gif(data: Tensor) -> Tensor:
    image = _pillow()[0].open(io.BytesIO(_bytes(data)), formats=("GIF",))
    frames = []
    for frame in range(getattr(image, "n_frames", 1)):
        image.seek(frame)
        frames.append(tocha.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1))
    return frames[0].contiguous() if len(frames) == 1 else tocha.stack(frames)


@_operator("decode_image(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor")
def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    if _bytes(data[:6])[:3] == b"GIF":
        return decode_gif(data)
    return _decoded(data, mode, apply_exif_orientation, "PNG", "JPEG", "WEBP")


@_operator("encode_png(Tensor data, int compression_level) -> Tensor")
def encode_png(data: Tensor, compression_level: int) -> Tensor:
    return _encoded(data, "PNG", compress_level=compression_level)


@_operator("encode_jpeg(Tensor data, int quality) -> Tensor")
def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    return _encoded(data, "JPEG", quality=quality)
