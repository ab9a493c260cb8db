"""What load refuses, what is left when saving fails, and what damaged and hostile files do: nothing."""

from __future__ import annotations

import collections
import io
import os
import pickle
import resource
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import fuzz_serialization
import hostile
import pytest
from checkpoints import FORMATS, again, loaded, saved

import tocha
from tocha import serialization


@pytest.fixture(autouse=True)
def no_added_globals():
    yield
    serialization.clear_safe_globals()


# -- what is refused ---------------------------------------------------------------------------------


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_code_is_refused_by_name_and_does_not_run(tmp_path, protocol, zipped):
    canary = tmp_path / "canary"
    data = saved(
        {"w": tocha.ones(2), "x": Evil(canary)}, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped
    )
    with pytest.raises(pickle.UnpicklingError, match=rf"{os.name}\.system was not an allowed global"):
        loaded(data)
    assert not canary.exists()
    loaded(data, weights_only=False)
    assert canary.exists()  # the file was able to


def test_whole_objects_need_trust():
    data = saved(tocha.nn.Parameter)
    assert loaded(data) is tocha.nn.Parameter
    thing = collections.deque([tocha.ones(2)])
    with pytest.raises(pickle.UnpicklingError, match=r"collections\.deque"):
        again(thing)
    assert again(thing, weights_only=False)[0].tolist() == [1, 1]


def test_pickle_module():
    class Loud(pickle.Unpickler):
        used = 0

        def load(self):
            Loud.used += 1
            return super().load()

    module = type(pickle)("loud")
    module.Unpickler = Loud
    assert again([1], weights_only=False, pickle_module=module) == [1] and Loud.used == 1
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        again([1], pickle_module=module)


def test_encoding_of_python_2():
    data = hostile.checkpoint(hostile.P2 + b"U\x02a\xe9.")
    assert loaded(data, encoding="latin1") == "aé" and loaded(data, encoding="bytes") == b"a\xe9"
    assert loaded(data, encoding="latin1", weights_only=False) == "aé"
    with pytest.raises(pickle.UnpicklingError, match="utf-8"):
        loaded(data)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return vars(self) == vars(other)


class Compact:
    __slots__ = ("x",)


class Restored:
    def __setstate__(self, state):
        self.state = state

    def __getstate__(self):
        return [1, 2]


class Dict(dict):
    pass


def test_safe_globals():
    compact, own = Compact(), Dict(a=1)
    compact.x, own.extra = 3, "e"
    obj = [Point(1, tocha.ones(1)), compact, Restored(), own, collections.deque([1])]
    data = saved(obj[0])
    with pytest.raises(pickle.UnpicklingError, match="Point was not an allowed global"):
        loaded(data)
    assert serialization.get_safe_globals() == []
    kinds = [Point, Compact, Restored, Dict, collections.deque, object, (_rebuilt, "copyreg._reconstructor")]
    for protocol in (2, 4):
        with serialization.safe_globals(kinds):
            assert Point in serialization.get_safe_globals()
            result = again(obj, protocol)
        assert result[0] == obj[0] and result[1].x == 3 and result[2].state == [1, 2]
        assert result[3] == {"a": 1} and type(result[3]) is Dict and result[3].extra == "e" and result[4] == obj[4]
    assert serialization.get_safe_globals() == []
    with pytest.raises(pickle.UnpicklingError, match="Point"):
        loaded(data)
    serialization.add_safe_globals([Point])
    assert loaded(data) == obj[0]
    with serialization.safe_globals([Compact]):
        pass
    assert serialization.get_safe_globals() == [Point]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


def _rebuilt(*args):
    raise AssertionError("not named by these protocols")


def test_safe_globals_under_another_name():
    data = hostile.checkpoint(hostile.P2 + hostile.call("lost.module.Point", 1, 2) + b".")
    with serialization.safe_globals([(Point, "lost.module.Point")]):
        assert loaded(data) == Point(1, 2)


def test_an_allowed_class_that_fails_names_itself():
    data = hostile.checkpoint(hostile.P2 + hostile.call("lost.Point", 1) + b".")
    with (
        serialization.safe_globals([(Point, "lost.Point")]),
        pytest.raises(pickle.UnpicklingError, match=r"Point cannot .*TypeError"),
    ):
        loaded(data)


def test_an_allowed_class_is_not_given_another():
    """Attributes go where pickle puts them: not to the class, not to properties."""
    body = hostile.call("lost.Point", 1, 2) + hostile.value((None, {"__class__": hostile.named("lost.Other")})) + b"b"
    with (
        serialization.safe_globals([(Point, "lost.Point"), (Compact, "lost.Other")]),
        pytest.raises(pickle.UnpicklingError, match="no slot"),
    ):
        loaded(hostile.checkpoint(hostile.P2 + body + b"."))


def test_unsafe_globals_in_checkpoint(tmp_path):
    path = tmp_path / "a.pt"
    tocha.save([tocha.ones(2), Evil(tmp_path / "canary"), Point(1, 2), collections.OrderedDict(), Point(3, 4)], path)
    found = serialization.get_unsafe_globals_in_checkpoint(path)
    assert found == [f"{os.name}.system", f"{__name__}.Point"]
    with serialization.safe_globals([Point]):
        assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(path.read_bytes())) == [f"{os.name}.system"]
    tocha.save([Point(1, 2)] * 2, path, pickle_protocol=4)
    assert serialization.get_unsafe_globals_in_checkpoint(path) == [f"{__name__}.Point"]
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(saved({"a": 1}))) == []
    inst = hostile.checkpoint(hostile.P2 + b"(iposix\nsystem\n.")
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(inst)) == ["posix.system"]
    with pytest.raises(ValueError, match="zip format"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"hello"))
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(hostile.checkpoint(b"\x80\x02\xff")))


# -- when something goes wrong -------------------------------------------------------------------------


class Unpicklable:
    def __reduce__(self):
        raise ZeroDivisionError("cannot be saved")


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
def test_a_failed_save_leaves_the_old_file(tmp_path, zipped):
    path = tmp_path / "a.pt"
    with pytest.raises(ZeroDivisionError):
        tocha.save([tocha.ones(2), Unpicklable()], path, _use_new_zipfile_serialization=zipped)
    assert os.listdir(tmp_path) == []
    tocha.save("old", path)
    for bad, error in (
        (Unpicklable(), ZeroDivisionError),
        (lambda: 0, (pickle.PicklingError, AttributeError)),
        (threading.Lock(), TypeError),
    ):
        with pytest.raises(error):
            tocha.save([tocha.ones(2), bad], path, _use_new_zipfile_serialization=zipped)
        assert tocha.load(path) == "old" and os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.parametrize("zipped", FORMATS.values(), ids=FORMATS.keys())
def test_a_full_disk_leaves_the_old_file(tmp_path, zipped):
    path = tmp_path / "a.pt"
    tocha.save("old", path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            tocha.save(tocha.ones(100_000), path, _use_new_zipfile_serialization=zipped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert tocha.load(path) == "old" and os.listdir(tmp_path) == ["a.pt"]


def test_a_crash_midway_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    tocha.save("old", path)
    program = """
        import os, sys, tocha
        from tocha.serialization.archive import Writer
        write = Writer.write
        def crash(self, name, data):
            write(self, name, data)
            if name == "data/1":
                os._exit(7)
        Writer.write = crash
        tocha.save([tocha.ones(100_000), tocha.zeros(100_000), tocha.ones(5)], sys.argv[1])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert done.returncode == 7
    assert tocha.load(path) == "old"
    left = [p for p in os.listdir(tmp_path) if p != "a.pt"]
    assert len(left) == 1 and left[0].endswith(".part") and os.path.getsize(tmp_path / left[0]) > 400_000
    tocha.save("new", path)  # what a crash left behind is in nobody's way
    assert tocha.load(path) == "new"


def test_modes_are_kept(tmp_path):
    path = tmp_path / "a.pt"
    before = os.umask(0o027)
    try:
        tocha.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o666, 0o444):
            path.chmod(mode)
            tocha.save(2, path)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert tocha.load(path) == 2


def test_links_are_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.pt").symlink_to("real/a.pt")
    for n in (1, 2):  # first a link to nothing
        tocha.save(n, tmp_path / "link.pt")
        assert (tmp_path / "link.pt").is_symlink() and tocha.load(tmp_path / "real/a.pt") == n


def test_devices_are_written_to(tmp_path):
    tocha.save(tocha.ones(10), "/dev/null")
    assert not Path("/dev/null").is_file()
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    tocha.save(tocha.arange(3.0), tmp_path / "pipe")
    reader.join()
    assert loaded(read[0]).tolist() == [0, 1, 2]


def test_a_missing_folder(tmp_path):
    with pytest.raises(RuntimeError, match=r"Parent directory .*nowhere does not exist"):
        tocha.save(1, tmp_path / "nowhere" / "a.pt")


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "a.pt"
    for zipped in (True, False):
        data = saved({"x": tocha.arange(10.0), "y": 3}, _use_new_zipfile_serialization=zipped)
        for n in range(0, len(data), 13):
            with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError), match=r"\[load\] the file: .{10}"):
                loaded(data[:n])
    path.write_bytes(saved(tocha.ones(3))[:-30])
    with pytest.raises(RuntimeError, match=r"a\.pt: .*cut off or damaged"):
        tocha.load(path)


def test_every_changed_byte_of_a_record_is_noticed():
    data = saved({"x": tocha.arange(10.0)})
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        infos = [i for i in z.infolist() if "data" in i.filename and "serialization" not in i.filename]
    for info in infos:
        begin = (
            info.header_offset + 30 + sum(struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30]))
        )
        for at in range(begin, begin + info.file_size, 5):
            damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
            with pytest.raises(RuntimeError, match="damaged: its checksum"):
                loaded(damaged)


def test_a_changed_bit_is_noticed_or_harmless():
    """What an archive with a flipped bit gives, if anything, is what was saved."""
    x = tocha.arange(6.0).view(2, 3)
    data = saved({"x": x.t(), "n": [1, "a"]})
    outcomes = set()
    for at in range(0, len(data), 3):
        damaged = data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
        try:
            result = loaded(damaged)
        except (RuntimeError, pickle.UnpicklingError, EOFError):
            outcomes.add("noticed")
            continue
        outcomes.add("harmless")
        assert result["n"] == [1, "a"] and result["x"].tolist() == x.t().tolist() and result["x"].stride() == (1, 3)
    assert outcomes == {"noticed", "harmless"}


def test_damaged_and_hostile_files():
    assert fuzz_serialization.run(600, seed=1, step=6) == []


def test_the_fuzzer_notices(tmp_path, monkeypatch):
    """Each kind of finding is one."""
    check = fuzz_serialization.load_complaint
    assert check(io.BytesIO(saved(1)), "anything") == "it loaded"
    assert "another message" in check(io.BytesIO(b"hello there"), "posix")
    for error, finding in (
        (KeyError(3), "accident: KeyError"),
        (RuntimeError("x"), "accident"),
        (EOFError("x"), "poor message"),
    ):

        def fail(*args, error=error, **options):
            raise error

        monkeypatch.setattr(tocha, "load", fail, raising=False)
        assert finding in check(io.BytesIO(b""), None)
