"""Loads damaged and hostile checkpoints and holds what must be true of each: the process lives, nothing in the file runs, no
memory beyond reason is taken, and an error is one of load's own and names the cause.

Cases run in child processes, so that a crash is a finding. `python tests/fuzz_serialization.py 10000` runs that many.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import io
import os
import pickle
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hostile

SECONDS = 30  # for one case
MEMORY = 1 << 30  # more than a child has when it begins
SPREAD = 1_000_003


# -- random cases ------------------------------------------------------------------------------------------------


def good_files() -> list[bytes]:
    """Checkpoints to damage."""
    import tocha

    x = tocha.arange(6.0).view(2, 3)
    state = collections.OrderedDict(
        weight=x, bias=x[0], half=x.to(tocha.bfloat16), small=tocha.ones(3, dtype=tocha.uint16)
    )
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    objects = [
        state,
        {"step": 3, "lr": 1e-3, "names": ["a", "b"], "p": tocha.nn.Parameter(x.clone()), "set": {1, 2}, "big": 2**70},
        [
            x,
            x.t(),
            (x[1], b"bytes", bytearray(b"more"), None, True, 1j, x.dtype, x.shape, x.device),
            tocha.empty(2, device="meta"),
        ],
    ]
    files = []
    for obj, protocol in [(o, p) for o in objects for p in (2, 4, 5)]:
        files.append(io.BytesIO())
        tocha.save(obj, files[-1], pickle_protocol=protocol)
    files.append(io.BytesIO())
    tocha.save(objects[1], files[-1], _use_new_zipfile_serialization=False)
    return [f.getvalue() for f in files]


def flip(rng: random.Random, data: bytes, lo: int = 0, hi: int | None = None) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if len(out) > lo:
            out[rng.randrange(lo, min(hi or len(out), len(out)))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(rng: random.Random, data: bytes) -> bytes:
    places = [m.start() for m in re.finditer(b"PK[\x01\x03\x05][\x02\x04\x06]", data)] or [0]
    near = rng.choice(places) + rng.randrange(-3, 50)
    return data[: max(0, rng.choice((near, rng.randrange(len(data)))))]


def pickle_of(data: bytes) -> tuple[int, int]:
    """Where an archive's pickle begins and ends."""
    begin = max(data.find(b"\x80"), 0)
    return begin, data.find(b"PK\x03\x04", begin + 2) if b"PK\x03\x04" in data[begin + 2 :] else len(data)


def damage_pickle(rng: random.Random, data: bytes) -> bytes:
    """Bits, swaps, splices and opcodes within the pickle, under a checksum that matches."""
    begin, end = pickle_of(data)
    body = bytearray(data[begin:end])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other, n = rng.randrange(len(body)), rng.randrange(len(body)), rng.randrange(1, 20)
        kind = rng.randrange(4)
        if kind == 0:
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            body[at] = rng.choice(b"(.0]}ab)RQobcit\x81\x85\x86\x87\x88\x89\x8a\x8b\x8f\x90\x91\x92\x93\x94uesdhjqr2")
        elif kind == 2:
            body[at : at + n] = body[other : other + n].ljust(n, b"N")[: len(body[at : at + n])]
        else:
            body[at : at + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"))[: len(body[at : at + 4])]
    return hostile.sealed(data[:begin] + bytes(body) + data[end:])


def swap_records(rng: random.Random, data: bytes) -> bytes:
    """The names of two records exchanged, in the directory."""
    at = data.find(b"PK\x01\x02")
    names = re.findall(rb"archive/[\w./]+", data[at:])
    if len(names) < 2:
        return flip(rng, data)
    one, other = rng.sample(names, 2)
    swapped = data[at:].replace(one, b"\0" * len(one), 1)
    if len(one) == len(other):
        return data[:at] + swapped.replace(other, one, 1).replace(b"\0" * len(one), other, 1)
    return data[:at] + data[at:].replace(
        one, rng.choice((b"archive/data/0", one.upper())).ljust(len(one), b"0")[: len(one)], 1
    )


def spoil_field(rng: random.Random, data: bytes) -> bytes:
    fields = list(hostile.directory_fields(data))
    if not fields:
        return flip(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _, at, n = rng.choice(fields)
        new = rng.choice((b"\xff" * n, b"\0" * n, b"\x7f" * n, rng.randbytes(n), b"\x01" + b"\0" * (n - 1)))
        data = data[:at] + new + data[at + n :]
    return data


def random_value(rng: random.Random, depth: int = 0) -> bytes:
    full = rng.choice(hostile.ALLOWED * 2 + hostile.FUNCTIONS)
    choices = [
        lambda: hostile.value(rng.choice([e for e in hostile.EDGES if not isinstance(e, bytes)])),
        lambda: hostile.text(rng.choice(("0", "cpu", "storage", "meta", "cuda:0", "__class__", "__dict__", "x"))),
        lambda: hostile.named(full),
        lambda: hostile.storage(
            rng.choice("01"),
            rng.choice(hostile.ALLOWED),
            rng.choice(("cpu", "meta", "?")),
            rng.choice((4, 16, 0, 2**62)),
        ),
        lambda: hostile.tensor(
            *(rng.choice((0, 1, 4, -1, 2**62)),),
            size=tuple(rng.choices((0, 1, 2, 4, 10**12, -1), k=2)),
            stride=tuple(rng.choices((0, 1, 2, 2**40), k=2)),
        ),
        lambda: b"j" + rng.randbytes(4),
        lambda: b"h\x00",
    ]
    if depth < 4:
        inner = [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        choices += [
            lambda: hostile.value(tuple(inner)),
            lambda: hostile.value(list(inner)),
            lambda: b"}(" + b"".join(inner[: len(inner) // 2 * 2]) + b"u",
            lambda: hostile.call(full, *inner),
            lambda: hostile.named(full) + hostile.value(tuple(inner)) + rng.choice((b"\x81", b"}\x92", b"b")),
            lambda: b"(" + b"".join(inner) + rng.choice((b"d", b"l", b"\x91", b"o", b"1N")),
            lambda: b"\x8f(" + b"".join(inner) + b"\x90",
        ]  # fmt: skip
    return rng.choice(choices)() + rng.choice((b"", b"", b"q\x00", b"\x94"))


def soup(rng: random.Random, canary: str) -> bytes:
    """A pickle that is well formed, or nearly, and makes no sense."""
    body = rng.choice((hostile.P2, hostile.P4)) + b"Nq\x000" + random_value(rng)
    if rng.random() < 0.3:
        full = rng.choice(hostile.FUNCTIONS)
        module, _, name = full.rpartition(".")
        lines = f"{module}\n{name}\n".encode()
        found = hostile.routes(hostile.named(full), lines, hostile.text(f"touch {canary}"))
        body += rng.choice(list(found.values()))
    if rng.random() < 0.2:
        body = flip(rng, body, 2)
    return hostile.checkpoint(body + b".", rng.choice((b"little", b"little", b"big")))


def random_case(seed: int, files: list[bytes], fixed: list[hostile.Case], canary: str) -> hostile.Case:
    rng = random.Random(seed)
    data = rng.choice(files) if rng.random() < 0.8 else rng.choice([f[1] for f in fixed if len(f[1]) < 20_000])
    kinds = {
        "flip": lambda: flip(rng, data),
        "cut": lambda: cut(rng, data),
        "pickle": lambda: damage_pickle(rng, data),
        "pickle again": lambda: damage_pickle(rng, data),
        "swap": lambda: hostile.sealed(swap_records(rng, data)) if b"PK\x01\x02" in data else flip(rng, data),
        "field": lambda: spoil_field(rng, data),
        "directory": lambda: flip(rng, data, max(0, data.find(b"PK\x01\x02"))),
        "soup": lambda: soup(rng, canary),
        "soup again": lambda: soup(rng, canary),
        "grow": lambda: data[: (at := rng.randrange(len(data) + 1))] + rng.randbytes(rng.randrange(1, 9)) + data[at:],
    }
    name = rng.choice(list(kinds))
    return f"{name}, seed {seed}", kinds[name](), None


def all_cases(count: int, seed: int, canary: str, begin: int = 0, step: int = 1) -> Iterator[tuple[int, hostile.Case]]:
    """count cases from begin on: the hand-made ones (every step-th), then random ones."""
    fixed = list(hostile.cases(canary))
    files = good_files()
    chosen = fixed[::step]
    for i in range(begin, count):
        yield i, chosen[i] if i < len(chosen) else random_case(seed * SPREAD + i, files, fixed, canary)


# -- what must be true of each ---------------------------------------------------------------------------------


def complaint(data: bytes, pattern: str | None, folder: Path) -> str | None:
    """What is wrong with how load treats the file, None if nothing is."""
    wrong = load_complaint(io.BytesIO(data), pattern)
    if wrong is None and data.startswith(b"PK\x03\x04") and len(data) < 50_000:
        path = folder / "case.pt"
        path.write_bytes(data)
        wrong = load_complaint(path, None, mmap=True) or load_complaint(io.BytesIO(data), None, map_location="meta")
    return wrong


def load_complaint(file: io.BytesIO | Path, pattern: str | None, **options: object) -> str | None:
    import tocha
    from tocha.serialization.errors import ArchiveError

    try:
        tocha.load(file, **options)
    except (pickle.UnpicklingError, ArchiveError, EOFError) as error:
        return poor_message(error, pattern)
    except RuntimeError as error:  # a location that does not exist here
        return None if re.search("data location|CUDA device", str(error)) else f"an accident: {error!r}"
    except BaseException as error:
        return f"an accident: {type(error).__name__}: {error}"
    return None if pattern is None else "it loaded"


def poor_message(error: Exception, pattern: str | None) -> str | None:
    message = str(error)
    if not 25 < len(message) < 2500 or "MemoryError" in message or "allocate" in message:
        return f"a poor message: {type(error).__name__}: {message[:300]}"
    return (
        None if pattern is None or re.search(pattern, message) else f"another message than {pattern!r}: {message[:500]}"
    )


def looked_through(data: bytes) -> str | None:
    """The same of get_unsafe_globals_in_checkpoint."""
    import tocha

    try:
        tocha.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError):
        return None
    except BaseException as error:
        return f"looking through it, an accident: {type(error).__name__}: {error}"
    return None


def child(count: int, seed: int, begin: int, step: int, canary: str) -> None:
    """Runs cases, and says the number of each before it begins and what was wrong after."""
    import tocha

    tocha.set_num_threads(1)
    faulthandler.enable()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    if "TOCHA_SANITIZED" not in os.environ:  # sanitizers map terabytes of their own
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, data, pattern) in all_cases(count, seed, canary, begin, step):
            print(f"at {i} {name}", flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            wrong = complaint(data, pattern, Path(folder)) or looked_through(data)
            if os.path.exists(canary):
                wrong = "it ran code"
                os.unlink(canary)
            if wrong:
                print(f"bad {i} {name}: {wrong}".replace("\n", " "), flush=True)
    print("done", flush=True)


def run(count: int, seed: int = 0, step: int = 1) -> list[str]:
    """Runs count cases and returns what was wrong."""
    found: list[str] = []
    begin = 0
    with tempfile.TemporaryDirectory() as folder:
        while begin < count:
            arguments = [str(count), "--seed", str(seed), "--begin", str(begin), "--step", str(step)]
            command = [sys.executable, __file__, *arguments, "--canary", str(Path(folder) / "canary")]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment())
            lines = done.stdout.splitlines()
            found += [line for line in lines if line.startswith("bad ")]
            if lines and lines[-1] == "done":
                break
            last = next((line for line in reversed(lines) if line.startswith("at ")), f"at {begin} the beginning")
            found.append(f"the process ended with {done.returncode} {last}: {done.stderr[-2000:]}")
            begin = int(last.split()[1]) + 1
        with contextlib.suppress(FileNotFoundError):
            found += [f"left behind: {p}" for p in Path(folder).iterdir()]
    return found


def _environment() -> dict[str, str]:
    here = Path(__file__).resolve().parent
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here), *filter(None, sys.path)]),
        "OPENBLAS_NUM_THREADS": "1",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Loads damaged and hostile checkpoints.")
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step", type=int, default=1, help="take every step-th of the hand-made cases")
    parser.add_argument("--begin", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--canary", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.canary:
        child(options.count, options.seed, options.begin, options.step, options.canary)
        return
    found = run(options.count, options.seed, options.step)
    print("\n".join(found))
    print(f"{options.count} cases, {len(found)} findings")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
