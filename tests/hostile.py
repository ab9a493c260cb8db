"""Hand-made hostile and damaged checkpoints: pickles that want to run code, fill memory or overflow the stack, and archives
that lie about themselves. tests/fuzz_serialization.py loads each of them and mutates them further.

A case is (name, bytes, pattern): the pattern is searched for in the error's text; None if the file may also load.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator

Case = tuple[str, bytes, str | None]
P2, P4 = b"\x80\x02", b"\x80\x04"
DEEP = 100_000

# -- a little assembler of pickles ---------------------------------------------------------------------------


def text(s: str) -> bytes:
    raw = s.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(n: int) -> bytes:
    raw = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw if len(raw) < 256 else b"\x8b" + struct.pack("<i", len(raw)) + raw


def value(v: object) -> bytes:
    """Data as opcodes; bytes are taken for opcodes already."""
    if isinstance(v, bytes):
        return v
    if isinstance(v, str):
        return text(v)
    if v is None or isinstance(v, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[v]
    if isinstance(v, float):
        return b"G" + struct.pack(">d", v)
    if isinstance(v, tuple):
        return b"(" + b"".join(map(value, v)) + b"t"
    if isinstance(v, list):
        return b"](" + b"".join(map(value, v)) + b"e"
    if isinstance(v, dict):
        return b"}(" + b"".join(value(k) + value(x) for k, x in v.items()) + b"u"
    assert isinstance(v, int)
    return number(v)


def named(full: str) -> bytes:
    module, _, name = full.rpartition(".")
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def stack_named(full: str) -> bytes:
    module, _, name = full.rpartition(".")
    return text(module) + text(name) + b"\x93"


def call(full: str, *arguments: object) -> bytes:
    return named(full) + value(tuple(arguments)) + b"R"


def storage(key: str = "0", kind: str = "torch.FloatStorage", location: object = "cpu", count: object = 4) -> bytes:
    return value(("storage", named(kind), key, location, count)) + b"Q"


def tensor(offset: object = 0, size: object = (4,), stride: object = (1,), on: bytes | None = None, more=()) -> bytes:
    on = storage() if on is None else on
    hooks = call("collections.OrderedDict")
    return call("torch._utils._rebuild_tensor_v2", on, offset, size, stride, False, hooks, *more)


# -- archives ------------------------------------------------------------------------------------------------


def archive(records: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in records:
            z.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def checkpoint(pickled: bytes, byteorder: bytes = b"little", data: bytes = struct.pack("<4f", 1, 2, 3, 4)) -> bytes:
    """A checkpoint with that pickle and one storage of 16 bytes."""
    return archive([("a/data.pkl", pickled), ("a/byteorder", byteorder), ("a/data/0", data), ("a/version", b"3\n")])


# -- code ----------------------------------------------------------------------------------------------------

FUNCTIONS = [
    "os.system", "posix.system", "nt.system", "os.popen", "os.execv", "os._exit", "subprocess.Popen", "subprocess.call",
    "subprocess.check_output", "builtins.eval", "builtins.exec", "builtins.compile", "builtins.getattr", "builtins.open",
    "builtins.__import__", "builtins.setattr", "builtins.globals", "builtins.type", "builtins.object", "builtins.map",
    "builtins.print", "builtins.list", "builtins.dict", "builtins.int", "builtins.input", "builtins.breakpoint",
    "builtins.range", "builtins.property", "__builtin__.eval", "__builtin__.getattr", "copyreg._reconstructor",
    "copyreg.__newobj__", "copyreg.add_extension", "copy_reg._reconstructor", "functools.partial", "functools.reduce",
    "operator.attrgetter", "operator.methodcaller", "operator.itemgetter", "types.FunctionType", "types.CodeType",
    "importlib.import_module", "runpy.run_path", "runpy._run_code", "timeit.timeit", "ctypes.CDLL", "ctypes.string_at",
    "pickle.loads", "_pickle.loads", "marshal.loads", "code.interact", "pdb.set_trace", "pty.spawn", "shutil.rmtree",
    "socket.socket", "webbrowser.open", "sys.exit", "sys.modules", "signal.raise_signal", "faulthandler._sigsegv",
    "_codecs.decode", "codecs.open", "codecs.encode", "collections.defaultdict", "collections.deque",
    "collections.namedtuple", "torch.load", "torch.save", "torch.hub.load", "torch.serialization.load", "torch.empty",
    "torch.jit.load", "torch.ops.load_library", "torch.storage._load_from_bytes", "torch._C._initExtension",
    "torch._tensor._rebuild", "torch.nn.modules.linear.Linear", "torch.utils.data.DataLoader", "tocha.load", "tocha.empty",
    "tocha.serialization.add_safe_globals", "tocha.serialization.machine.load", "tocha._C.frombuffer", "tocha.from_file",
    "tocha._utils._set_state", "tocha._utils._placed", "tocha._utils.ForeignBytes", "tocha.nn.parameter._rebuild_parameter",
    "numpy.core.multiarray._reconstruct", "numpy.fromfile", "numpy.load", "__main__.canary", "os.path.join",
]  # fmt: skip
ALLOWED = [
    "collections.OrderedDict", "collections.Counter", "builtins.set", "builtins.frozenset", "builtins.complex",
    "builtins.bytearray", "_codecs.encode", "torch.Size", "torch.device", "torch.Tensor", "torch.nn.parameter.Parameter",
    "torch.FloatStorage", "torch.LongStorage", "torch.storage.UntypedStorage", "torch.storage.TypedStorage",
    "torch._tensor._rebuild_from_type_v2", "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_meta_tensor_no_storage", "torch.float32", "torch.complex64", "torch.uint16", "torch.strided",
]  # fmt: skip


def routes(function: bytes, in_lines: bytes, argument: bytes) -> dict[str, bytes]:
    """A call by every opcode that can make one."""
    alone = b"(" + argument + b"t"
    return {
        "reduce": function + alone + b"R",
        "newobj": function + alone + b"\x81",
        "newobj_ex": function + alone + b"}\x92",
        "obj": b"(" + function + argument + b"o",
        "inst": b"(" + argument + b"i" + in_lines,
        "build": function + b"}" + text("__setstate__") + function + b"sb" + argument + b"b",
        "persistent": function + b"Q",
        "persistent tuple": b"(" + text("storage") + function + text("0") + text("cpu") + b"K\x04tQ",
        "rebuild": named("torch._tensor._rebuild_from_type_v2")
        + b"(" + function + named("torch.Tensor") + alone + b"}tR",
        "class of a tensor": named("torch._tensor._rebuild_from_type_v2")
        + b"(" + named("torch._utils._rebuild_tensor_v2") + function + b"()tR",
    }  # fmt: skip


def code_cases(canary: str) -> Iterator[Case]:
    command = f"touch {canary}"
    for full in FUNCTIONS:
        module, _, name = full.rpartition(".")
        argument = text(f"open({canary!r}, 'w')" if "eval" in full or "exec" in full else command)
        lines = module.encode() + b"\n" + name.encode() + b"\n"
        for route, body in routes(named(full), lines, argument).items():
            yield f"{full} by {route}", checkpoint(P2 + body + b"."), rf"{module}\.{name}"
        yield f"{full} by stack_global", checkpoint(P4 + stack_named(full) + text(command) + b"\x85R."), rf"\.{name}"
        as_key = P2 + b"}" + call(full, command) + b"K\x01s."
        yield f"{full} as a key", checkpoint(as_key), rf"\.{name}"
    for full in ("torch.Tensor", "torch.FloatStorage", "torch.storage.UntypedStorage", "torch.storage.TypedStorage"):
        yield f"{full} called with a size", checkpoint(P2 + call(full, 2**40) + b"."), "calls a"
        yield f"{full} made with a size", checkpoint(P2 + named(full) + value((2**40,)) + b"\x81."), "makes an object"
    for code in (b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"):
        yield f"extension {code[0]:#x}", checkpoint(P2 + code + b")R."), "opcode EXT"
    for code in (
        b"2",
        b"P0\n",
        b"I1\n",
        b"L1L\n",
        b"F1.0\n",
        b"S'a'\n",
        b"Va\n",
        b"p0\n",
        b"g0\n",
        b"\x97",
        b"\x98",
        b"\xff",
    ):
        yield f"opcode {code[0]:#x}", checkpoint(P2 + b"N" + code + b"."), "is not supported|is no opcode"
    yield from attribute_cases()


def attribute_cases() -> Iterator[Case]:
    """BUILD, and states with names that are no attributes."""
    hooks = value({"__class__": named("collections.Counter")})
    od = call("collections.OrderedDict")
    yield "build a list", checkpoint(P2 + b"]}b."), "Can only build"
    yield "build a tensor", checkpoint(P2 + tensor() + value({"data": 1}) + b"b."), "Can only build"
    yield "build a name", checkpoint(P2 + named("torch.Tensor") + value({"__setstate__": 1}) + b"b."), "Can only build"
    yield "build a parameter class", checkpoint(P2 + named("torch.nn.parameter.Parameter") + b"}b."), "Can only build"
    yield "class of an ordered dict", checkpoint(P2 + od + hooks + b"b."), None
    yield "attributes with numbers", checkpoint(P2 + od + value({1: 2}) + b"b."), "names as keys"
    yield "attributes in slots", checkpoint(P2 + od + value((None, {"__class__": 1})) + b"b."), "has no slot"
    yield "attributes that are none", checkpoint(P2 + od + b"K\x01b."), "must be a dict"
    yield "build of nothing", checkpoint(P2 + b"}b."), "giving attributes"
    for slots in ({"data": tensor()}, {"__class__": named("torch.nn.parameter.Parameter")}, {"grad_fn": None}):
        state = (None, slots)
        body = call("torch._utils._rebuild_parameter_with_state", tensor(), True, od, state)
        yield f"slot {next(iter(slots))} of a parameter", checkpoint(P2 + body + b"."), "has no slot"
    for state in ([1], "x", 7, ({}, {}, {}), ({}, 3)):
        body = call("torch._utils._rebuild_parameter_with_state", tensor(), True, od, state)
        yield f"state {state} of a parameter", checkpoint(P2 + body + b"."), "must be a dict"
    yield (
        "setstate of a tensor",
        checkpoint(
            P2
            + call(
                "torch._tensor._rebuild_from_type_v2",
                named("torch._utils._rebuild_tensor_v2"),
                named("torch.Tensor"),
                (storage(), 0, (4,), (1,), False, od),
                {"__setstate__": named("collections.OrderedDict"), "__class__": named("torch.Size"), "tolist": 1},
            )
            + b"."
        ),
        None,
    )


# -- memory, stack and time ------------------------------------------------------------------------------------


def size_cases() -> Iterator[Case]:
    for code, form in (
        (b"\x8b", "<i"),
        (b"X", "<I"),
        (b"\x8d", "<Q"),
        (b"B", "<I"),
        (b"\x8e", "<Q"),
        (b"\x96", "<Q"),
        (b"T", "<i"),
    ):
        for n in (2**31 - 1, 2**32 - 1, 2**62, 2**64 - 1, -1, -(2**31), 1000):
            try:
                length = struct.pack(form, n)
            except struct.error:
                continue
            yield f"opcode {code[0]:#x} of {n} bytes", checkpoint(P4 + code + length + b"abc."), "truncated"
    yield "frame of 2**63 bytes", checkpoint(P4 + b"\x95" + struct.pack("<Q", 2**63) + b"N."), None
    yield "memo 2**32-1 put", checkpoint(P2 + b"Nr\xff\xff\xff\xff."), None
    yield "memo 2**32-1 got", checkpoint(P2 + b"j\xff\xff\xff\xff."), "has not made"
    yield "memo of nothing", checkpoint(P2 + b"q\x00."), "remembering a value"
    yield "number of 3,000,000 digits as a size", checkpoint(P2 + tensor(size=(2**10_000_000,)) + b"."), "2\\*\\*63-1"
    many = b"(" + number(2**62) + b"q\x00" + b"h\x00" * 300_000 + b"t"
    yield "300,000 large dimensions", checkpoint(P2 + tensor(size=many, stride=many) + b"."), "2\\*\\*63-1 elements"
    yield "number of 3,000,000 digits as a key", checkpoint(P2 + value({2**10_000_000: 1}) + b"."), None
    yield "protocol 255", checkpoint(b"\x80\xff."), "unsupported pickle protocol"
    long = "x" * 1_000_000
    yield "name of a million letters", checkpoint(P4 + text(long) + text(long) + b"\x93."), "characters"
    yield "key of a million letters", checkpoint(P2 + storage(key=long) + b"."), "characters"
    yield "location of a million letters", checkpoint(P2 + storage(location=long) + b"."), "characters"
    for full in ("builtins.set", "builtins.frozenset", "collections.OrderedDict", "collections.Counter", "torch.Size"):
        view = tensor(size=(10**12,), stride=(0,))
        yield f"{full} of a trillion elements", checkpoint(P2 + call(full, view) + b"."), "not Tensor"
        yield f"{full} of pairs of a trillion", checkpoint(P2 + call(full, [view]) + b"."), None
        yield f"{full} made of a trillion", checkpoint(P2 + named(full) + value((view,)) + b"\x81."), "makes an object"
        yield f"{full} of a number", checkpoint(P2 + call(full, 2**40) + b"."), "not int"
    yield "bytearray of a trillion", checkpoint(P2 + call("builtins.bytearray", 10**12) + b"."), "not int"
    yield "bytes of a trillion", checkpoint(P2 + call("builtins.bytes", 10**12) + b"."), "bytes.* argument"
    yield "bytearray of a list", checkpoint(P2 + call("builtins.bytearray", [1, 2]) + b"."), "not list"
    yield "encode to idna", checkpoint(P2 + call("_codecs.encode", "a" * 9999, "idna") + b"."), "latin1"
    yield "complex of text", checkpoint(P2 + call("builtins.complex", "1j") + b"."), "not str"
    big = P4 + b"\x8e" + struct.pack("<Q", 1_000_000) + b"a" * 1_000_000 + b"q\x00"
    again = named("builtins.bytearray") + b"q\x01(" + b"h\x01h\x00\x85R" * 20_000 + b"t."
    yield "bytearray copied 20,000 times", checkpoint(big + b"0" + again), "copies more values"


def nest(levels: int, opcode: bytes, inner: bytes = b"N") -> bytes:
    return inner + opcode * levels


def deep_cases() -> Iterator[Case]:
    tuples = nest(DEEP, b"\x85")
    lists = b"]" * DEEP + b"a" * (DEEP - 1)
    # frozensets cannot be compared when nested, but hashing them is no recursion: the inner one's hash is kept
    frozen = b"(" * DEEP + b"\x91" * DEEP
    yield "deep tuples", checkpoint(P2 + tuples + b"."), None
    yield "deep lists", checkpoint(P2 + lists + b"."), None
    yield "deep frozensets", checkpoint(P4 + frozen + b"."), None
    yield "two deep frozensets in a set", checkpoint(P4 + b"\x8f(" + frozen + frozen + b"\x90."), None
    yield "deep dicts", checkpoint(P2 + b"}K\x01" * DEEP + b"N" + b"s" * DEEP + b"."), None
    yield (
        "deep ordered dicts",
        checkpoint(
            P2 + named("collections.OrderedDict") + b"q\x00" + b"h\x00)RK\x01" * DEEP + b"N" + b"s" * DEEP + b"."
        ),
        None,
    )
    yield "deep marks", checkpoint(P2 + b"(" * DEEP + b"t" * DEEP + b"."), None
    chain = named("torch._utils._rebuild_parameter_with_state") + b"q\x00" + tensor() + b"q\x01" + b"N"
    link = b"q\x02h\x00(h\x01\x89N}" + text("a") + b"h\x02stR"
    yield "deep attributes", checkpoint(P2 + chain + link * 20_000 + b"."), None
    yield "deep key of a dict", checkpoint(P2 + b"}" + tuples + b"Ns."), "nested more than"
    yield "deep key of a dict in one go", checkpoint(P2 + b"}(" + tuples + b"Nu."), "nested more than"
    yield "deep key of a made dict", checkpoint(P2 + b"(" + tuples + b"Nd."), "nested more than"
    yield "deep item of a set", checkpoint(P4 + b"\x8f(" + tuples + b"\x90."), "nested more than"
    yield "deep item of a frozenset", checkpoint(P4 + b"(" + tuples + b"\x91."), "nested more than"
    for full in ("builtins.set", "builtins.frozenset"):
        yield f"deep item of {full}", checkpoint(P2 + call(full, [tuples]) + b"."), "nested more than"
    yield (
        "deep key of an ordered dict",
        checkpoint(P2 + call("collections.OrderedDict", [(tuples, 1)]) + b"."),
        "nested more than",
    )
    yield "deep counter", checkpoint(P2 + call("collections.Counter", [tuples]) + b"."), "not list"
    yield "deep size", checkpoint(P2 + call("torch.Size", tuples) + b"."), "Size"
    yield "deep size of a tensor", checkpoint(P2 + tensor(size=tuples) + b"."), "must be a tuple of numbers"
    yield "deep reference", checkpoint(P2 + tuples + b"Q."), "no storage"
    yield "deep arguments", checkpoint(P2 + named("collections.OrderedDict") + tuples + b"R."), None
    yield "deep state", checkpoint(P2 + call("collections.OrderedDict") + tuples + b"b."), "must be a dict"
    laughs = b"Nq\x000" + (b"(" + b"h\x00" * 200 + b"tq\x000") * 15 + b"h\x00"
    yield "a key of 200**15 values", checkpoint(P2 + b"}" + laughs + b"Ns."), "more than"
    yield "200**15 values", checkpoint(P2 + laughs + b"."), None
    yield "a list in itself", checkpoint(P2 + b"]q\x00h\x00a."), None
    yield "a dict in itself", checkpoint(P2 + b"}q\x00K\x01h\x00s."), None
    yield "a list as a key", checkpoint(P2 + b"}]Ns."), "unhashable"
    yield "a tensor as a key", checkpoint(P2 + b"}" + tensor() + b"Ns."), None


# -- tensors -------------------------------------------------------------------------------------------------

EDGES = [0, 1, 3, 4, 5, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, -1, -(2**63), 2**200, True, None, 1.0, "4", (1,), [1]]


def tensor_cases() -> Iterator[Case]:
    for edge in EDGES:
        fine = type(edge) is int and 0 <= edge <= 4
        yield f"count {edge!r}", checkpoint(P2 + storage(count=edge) + b"."), None if fine else "storage|record"
        yield (
            f"offset {edge!r}",
            checkpoint(P2 + tensor(offset=edge, size=(1,)) + b"."),
            None if fine else "fit|numbers",
        )
        yield f"size {edge!r}", checkpoint(P2 + tensor(size=(edge,)) + b"."), None if fine else "fit|numbers|elements"
        yield f"stride {edge!r}", checkpoint(P2 + tensor(stride=(edge,)) + b"."), None if fine else "fit|numbers"
        yield (
            f"sizes {edge!r}",
            checkpoint(P2 + tensor(size=edge) + b"."),
            None if edge in ([1], (1,)) else "fit|numbers|strides",
        )
        yield (
            f"metadata {edge!r}",
            checkpoint(P2 + tensor(more=(edge,)) + b"."),
            None if edge is None else "must be a dict",
        )
        yield (
            f"key {edge!r}",
            checkpoint(P2 + value(("storage", named("torch.FloatStorage"), edge, "cpu", 4)) + b"Q."),
            "no text|record",
        )
        yield f"location {edge!r}", checkpoint(P2 + storage(location=edge) + b"."), "no text|data location"
        meta = call("torch._utils._rebuild_meta_tensor_no_storage", named("torch.float32"), (edge, 2), (2, 1), False)
        yield f"meta size {edge!r}", checkpoint(P2 + meta + b"."), None
        v3 = call(
            "torch._utils._rebuild_tensor_v3",
            storage(kind="torch.storage.UntypedStorage", count=16),
            0,
            (edge,),
            (1,),
            False,
            None,
            named("torch.uint16"),
        )
        yield f"bytes, size {edge!r}", checkpoint(P2 + v3 + b"."), None
    yield "overlapping view", checkpoint(P2 + tensor(size=(2, 3), stride=(1, 1)) + b"."), None
    yield "view beyond its storage", checkpoint(P2 + tensor(size=(2, 3), stride=(2, 1)) + b"."), "does not fit"
    yield (
        "2**80 elements on one",
        checkpoint(P2 + tensor(size=(2**40, 2**40), stride=(0, 0)) + b"."),
        "2\\*\\*63-1 elements",
    )
    yield (
        "a trillion conjugated",
        checkpoint(P2 + tensor(size=(10**12,), stride=(0,), more=({"conj": True},)) + b"."),
        None,
    )
    yield "a trillion negated", checkpoint(P2 + tensor(size=(10**12,), stride=(0,), more=({"neg": True},)) + b"."), None
    yield "two counts of one storage", checkpoint(P2 + value([storage(), storage(count=2)]) + b"."), "two ways"
    yield (
        "two dtypes of one storage",
        checkpoint(P2 + value([storage(), storage(kind="torch.IntStorage")]) + b"."),
        "two ways",
    )
    yield "a storage that is missing", checkpoint(P2 + storage(key="1") + b"."), "has no record"
    yield "a storage on cuda", checkpoint(P2 + storage(location="cuda:0") + b"."), "CUDA|^$"
    yield (
        "a tensor as storage class",
        checkpoint(P2 + value(("storage", tensor(), "0", "cpu", 4)) + b"Q."),
        "no storage's",
    )
    yield (
        "a tensor as 'storage'",
        checkpoint(P2 + value((tensor(), named("torch.FloatStorage"), "0", "cpu", 4)) + b"Q."),
        "no storage",
    )
    yield "a tensor on a tensor", checkpoint(P2 + tensor(on=tensor()) + b"."), "typed storage"
    yield (
        "a tensor on bytes",
        checkpoint(P2 + tensor(on=storage(kind="torch.storage.UntypedStorage", count=16)) + b"."),
        "typed storage",
    )
    yield (
        "a parameter of a list",
        checkpoint(P2 + call("torch._utils._rebuild_parameter", [1], True, None) + b"."),
        "made of a tensor",
    )
    yield "too few arguments", checkpoint(P2 + call("torch._utils._rebuild_tensor_v2", storage()) + b"."), "TypeError"
    yield (
        "v3 without dtype",
        checkpoint(P2 + call("torch._utils._rebuild_tensor_v3", storage(), 0, (1,), (1,), False, None, 3) + b"."),
        "a dtype",
    )
    yield (
        "gradient of integers",
        checkpoint(
            P2 + call("torch._utils._rebuild_parameter", tensor(on=storage(kind="torch.IntStorage")), True, None) + b"."
        ),
        "RuntimeError",
    )
    for kind in ("torch.Tensor", "torch.float32", "torch.storage.TypedStorage", "collections.OrderedDict"):
        yield f"storage class {kind}", checkpoint(P2 + storage(kind=kind) + b"."), "no storage's"
    yield "text as a reference", checkpoint(P2 + text("storage") + b"Q."), "no storage"


# -- the archive -----------------------------------------------------------------------------------------------

GOOD = P2 + tensor() + b"."


def _edited(data: bytes, at: int, new: bytes) -> bytes:
    at = at if at >= 0 else len(data) + at
    return data[:at] + new + data[at + len(new) :]


def directory_fields(data: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, place, bytes) of every field in the headers, the directory and its end."""
    for signature, fields in (
        (b"PK\x03\x04", (("flags", 6, 2), ("method", 8, 2), ("crc", 14, 4), ("size", 18, 4), ("full size", 22, 4), ("name length", 26, 2), ("extra length", 28, 2))),
        (b"PK\x01\x02", (("flags", 8, 2), ("method", 10, 2), ("crc", 16, 4), ("size", 20, 4), ("full size", 24, 4), ("name length", 28, 2), ("extra length", 30, 2), ("comment length", 32, 2), ("disk", 34, 2), ("offset", 42, 4))),
        (b"PK\x05\x06", (("disk", 4, 2), ("entries", 8, 2), ("all entries", 10, 2), ("size", 12, 4), ("offset", 16, 4), ("comment length", 20, 2))),
    ):  # fmt: skip
        at = data.find(signature)
        while at >= 0:
            for name, offset, n in fields:
                yield f"{name} of {signature[2:].hex()} at {at}", at + offset, n
            at = data.find(signature, at + 4)


def archive_cases() -> Iterator[Case]:
    good = checkpoint(GOOD)
    for name, at, n in directory_fields(good):
        for new in (b"\xff" * n, b"\0" * n, b"\xff" * (n - 1) + b"\x7f", b"\x01" + b"\0" * (n - 1)):
            yield f"{name} set to {new.hex()}", _edited(good, at, new), None
    records = [("a/data.pkl", GOOD), ("a/data/0", bytes(16))]
    yield "no records", b"PK\x05\x06" + bytes(18), "no checkpoint"
    yield "no data.pkl", archive(records[1:]), "no data.pkl"
    yield "empty data.pkl", archive([("a/data.pkl", b""), records[1]]), "truncated"
    yield "code inside", archive([*records, ("a/constants.pkl", b"")]), "TorchScript"
    yield "byte order of nothing", checkpoint(GOOD, b"middle"), "byte order"
    yield "byte order of a megabyte", checkpoint(GOOD, b"x" * 1_000_000), "byte order"
    yield (
        "twice the same record",
        _renamed(archive([*records, ("a/data/1", bytes(16))]), b"data/1", b"data/0"),
        "two records",
    )
    yield "twice the pickle", archive([*records, ("b/data.pkl", GOOD)]), "two records"
    for name in (
        "../../../tmp/x",
        "/etc/passwd",
        "a/../../x",
        "a/data/../0",
        "C:\\x",
        "a\0b",
        "",
        "/",
        "a/" * 5000,
        "é/\u202e",
    ):
        yield f"record named {name[:20]!r}", archive([*records, (name, b"hi")]), None
    yield "folders differ", archive([("x/data.pkl", GOOD), ("../data/0", bytes(16))]), None
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield (
            f"bomb, method {method}",
            archive([("a/data.pkl", P2 + b"N." + bytes(2_000_000)), records[1]], method),
            "compressed",
        )
    yield (
        "bomb for a storage",
        _mixed(GOOD.replace(b"\x8a\x01\x04", number(2_500_000)), bytes(10_000_000)),
        "compressed|bytes where",
    )
    yield "bomb of overlapping records", overlapping(1000), "goes beyond"
    yield "directory of 20,000 records", archive([*records, *((f"a/{i}", b"") for i in range(20_000))]), None
    yield "2**60 records", _zip64(good, 2**60), None
    yield "storage shorter than said", checkpoint(GOOD, data=bytes(15)), "15 bytes where"
    yield "storage longer than said", checkpoint(GOOD, data=bytes(17)), "17 bytes where"
    yield "checksum of the storage", good.replace(struct.pack("<4f", 1, 2, 3, 4), struct.pack("<4f", 1, 2, 3, 5)), None
    yield "junk before", b"junk" * 100 + good, "no checkpoint"
    yield "junk after", good + b"junk" * 100, None
    yield "an archive in an archive", archive([("a/data.pkl", good), records[1]]), "no opcode|not supported"
    for n in (0, 1, 2, 3, 4, 5, 29, 30, 31, 40, 41):
        yield f"the first {n} bytes", good[:n], "."
    for n in (1, 4, 21, 22, 23, 60, 100, len(good) // 2):
        yield f"without the last {n} bytes", good[:-n], "directory cannot be read"
    for junk in (
        b"hello",
        b"\x80",
        b"\x80\x02",
        b"\x80\x02.",
        b"\0" * 100,
        b"\xff" * 100,
        b"PK\x03\x04",
        b"%PDF-1.4",
        b"\x7fELF",
        b"{}",
        b"PK\x03\x04" + b"a" * 99,
    ):
        yield f"a file of {junk[:8]!r}", junk, "."


def _renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    return data.replace(old, new)


def _mixed(pickled: bytes, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a/data.pkl", pickled)
        z.writestr("a/data/0", data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def overlapping(count: int) -> bytes:
    """One megabyte that many records claim for themselves."""
    tensors = [tensor(size=(250_000,), on=storage(key=str(i), count=250_000)) for i in range(count)]
    data = archive([("a/data.pkl", P2 + value(tensors) + b"."), ("a/data/0", bytes(1_000_000))])
    at = data.rfind(b"PK\x01\x02")
    end = data.rfind(b"PK\x05\x06")
    entry = data[at:end]
    entries = b"".join(
        entry[:28] + struct.pack("<H", len(name)) + entry[30:46] + name
        for i in range(1, count)
        for name in [f"a/data/{i}".encode()]
    )
    directory = data[data.find(b"PK\x01\x02") : end] + entries
    start = data.find(b"PK\x01\x02")
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count + 1, count + 1, len(directory), start, 0)
    return data[:start] + directory + tail


def _zip64(data: bytes, entries: int) -> bytes:
    end = data.rfind(b"PK\x05\x06")
    start = data.find(b"PK\x01\x02")
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, end - start, start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:end] + record + locator + tail


# -- the older format ------------------------------------------------------------------------------------------


def old(pickled: bytes, keys: object = ("0",), rest: bytes | None = None, magic: int = 0x1950A86A20F9469CFC6C) -> bytes:
    head = b"".join(pickle.dumps(v, 2) for v in (magic, 1001, {"little_endian": True}))
    tail = struct.pack("<q", 4) + struct.pack("<4f", 1, 2, 3, 4) if rest is None else rest
    return head + pickled + pickle.dumps(keys if not isinstance(keys, tuple) else list(keys), 2) + tail


def old_reference(key: str = "0", count: object = 4, view: object = None, kind: str = "torch.FloatStorage") -> bytes:
    return value(("storage", named(kind), key, "cpu", count, view)) + b"Q"


def old_cases(canary: str) -> Iterator[Case]:
    good = P2 + tensor(on=old_reference()) + b"."
    system = call("posix.system", f"touch {canary}")
    yield "old: good", old(good), None
    yield "old: system", old(P2 + system + b"."), r"posix\.system"
    yield "old: system for the magic number", P2 + system + b".", r"posix\.system"
    yield "old: system for the keys", old(good)[: len(old(good)) - 60] + P2 + system + b".", None
    yield "old: another magic number", old(good, magic=7), "magic"
    yield "old: huge count", old(P2 + old_reference(count=2**60) + b"."), "larger than the file"
    yield (
        "old: many storages of the file's size",
        old(P2 + value([old_reference(str(i), 100) for i in range(999)]) + b"."),
        "larger than the file",
    )
    yield "old: a storage nobody fills", old(good, keys=()), "not those"
    yield "old: a storage nobody uses", old(P2 + b"N."), "not those"
    yield "old: a storage filled twice", old(good, keys=("0", "0")), "not those"
    yield "old: keys that are none", old(good, keys=3), "list of storages"
    yield "old: keys that are numbers", old(good, keys=(0,)), "list of storages"
    yield "old: part of a storage", old(P2 + old_reference(view=("1", 0, 2)) + b"."), "part of another"
    yield "old: negative count in the data", old(good, rest=struct.pack("<q", -4) + bytes(16)), "cut off"
    yield "old: cut off", old(good)[:-1], "cut off"
    yield "old: two counts", old(P2 + value([old_reference(), old_reference(count=2)]) + b"."), "two ways"
    yield "old: reference in the head", P2 + old_reference() + b".", "head of the file"
    whole = old(good)
    for n in range(0, len(whole), 7):
        yield f"old: the first {n} bytes", whole[:n], "."


def cases(canary: str) -> Iterator[Case]:
    """All of them; canary is the path of a file that code inside would make."""
    yield from code_cases(canary)
    yield from size_cases()
    yield from deep_cases()
    yield from tensor_cases()
    yield from archive_cases()
    yield from old_cases(canary)


def sealed(data: bytes) -> bytes:
    """The archive with checksums that match its records, so that damage inside is met by the readers of the records."""
    found = []
    at = data.find(b"PK\x01\x02")
    while 0 <= at <= len(data) - 46:  # the file may be cut off within an entry
        size, offset = struct.unpack("<I", data[at + 20 : at + 24])[0], struct.unpack("<I", data[at + 42 : at + 46])[0]
        lengths = struct.unpack("<2H", data[offset + 26 : offset + 30]) if offset + 30 <= len(data) else (0, 0)
        begin = offset + 30 + sum(lengths)
        found.append((at + 16, zlib.crc32(data[begin : begin + size])))
        at = data.find(b"PK\x01\x02", at + 4)
    for at, crc in found:
        data = _edited(data, at, struct.pack("<I", crc))
    return data
