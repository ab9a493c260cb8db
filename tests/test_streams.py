"""Streams and events without an accelerator, and storages in files."""

from __future__ import annotations

import pytest

import tocha


def test_the_stream_of_the_cpu():
    stream = tocha.Stream()
    with stream as entered:
        assert entered.query() and entered.device == tocha.device("cpu") and entered == tocha.Stream(device="cpu")
    stream.synchronize()
    stream.wait_event(tocha.Event())
    assert repr(stream) == "tocha.Stream device_type=cpu, device_index=-1, stream_id=0"
    with pytest.raises(RuntimeError, match="doesn't support events"):
        stream.record_event()
    with pytest.raises(RuntimeError, match="not linked with support for cuda"):
        tocha.Stream(device="cuda")
    with pytest.raises(ValueError, match="enable_timing"):
        tocha.Event().elapsed_time(tocha.Event())


def test_storages_in_files(tmp_path):
    path = str(tmp_path / "bytes")
    (tmp_path / "bytes").write_bytes(bytes(range(8)))
    private = tocha.UntypedStorage.from_file(path, False, 4)
    private[0] = 9
    assert private.tolist() == [9, 1, 2, 3] and (tmp_path / "bytes").read_bytes()[0] == 0
    shared = tocha.UntypedStorage.from_file(path, shared=True, nbytes=16)
    shared[0] = 7
    assert (tmp_path / "bytes").read_bytes()[0] == 7 and (tmp_path / "bytes").stat().st_size == 16
    with pytest.raises(RuntimeError, match="smaller than the required mapping size"):
        tocha.UntypedStorage.from_file(path, False, 64)
