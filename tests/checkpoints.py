"""Saving to memory and loading from it, for the tests of checkpoints."""

from __future__ import annotations

import io

import tocha

FORMATS = {"zip": True, "legacy": False}


def saved(obj, **options) -> bytes:
    buffer = io.BytesIO()
    tocha.save(obj, buffer, **options)
    return buffer.getvalue()


def loaded(data: bytes, **options):
    return tocha.load(io.BytesIO(data), **options)


def again(obj, protocol: int = 2, zipped: bool = True, **options):
    return loaded(saved(obj, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped), **options)
