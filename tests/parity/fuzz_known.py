"""Random programs in lockstep with PyTorch, less the differences that fuzz_accepted.txt names with their reasons.

    python tests/parity/fuzz_known.py FUZZ.PY --seed 1 2 3 4 5 --count 20000 [--unused]

FUZZ.PY makes, runs and shrinks the programs. Its own --known looks for substrings of a signature, and a signature of
gradients holds every operator of the shrunk program: the same difference beside another operator looks new. Here an
entry `kind | operator` covers a report of that kind when the operator takes part in the shrunk program (or, where a line
differs, is that line's), and `kind | operator | words | words` only when the report also holds the words.
The programs run in a process of their own. One that kills it is run again on tocha alone: if it kills that too, it is new
(`crash`), else the crash is PyTorch's, and is named.
A report of a line that writes into memory which another of its tensors reads, too, ends with the words `shares memory`; one
of elements that were written in another dtype, and are looked at through a view, with the words `another dtype`; one of a
program with a NaN or an infinity among its elements, with the words `not finite`.
Exit status: 0 nothing new, 1 new signatures, each printed once with its program.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import multiprocessing
import random
import re
import resource
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

ACCEPTED = Path(__file__).with_name("fuzz_accepted.txt")
PYTORCH_CRASHED = "PyTorch crashed"


class Entry(NamedTuple):
    """A difference that is accepted."""

    kind: str
    operator: str
    words: tuple[str, ...]

    def covers(self, kind: str, operators: set[str], text: str) -> bool:
        return self.kind == kind and self.operator in operators and all(w in text for w in self.words)


def entries(path: Path = ACCEPTED) -> list[Entry]:
    found = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            kind, operator, *words = (part.strip() for part in line.split(" | "))
            found.append(Entry(kind, operator, tuple(words)))
    return found


def operator_of(signature: str) -> str:
    """The operator that a signature names: its name, or the sign between or before operands (`//` of `x // N`)."""
    name = signature.split(" | ", 1)[1]
    sign = re.fullmatch(r"(?:\S+ )?([^\w\s]+) ?\S+", name)
    return sign[1] if sign else name


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("fuzz", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    compare_complex32(module)
    return module


def compare_complex32(fuzz: Any) -> None:
    """NumPy has no complex32: such tensors are compared as complex64, to the precision of their parts."""
    to_numpy = fuzz.tonp
    fuzz.tonp = lambda t: to_numpy(t.cfloat() if t.dtype in (fuzz.torch.complex32, fuzz.tocha.complex32) else t)
    fuzz.TOL["complex32"] = 2 * fuzz.TOL["float16"]


class Found(NamedTuple):
    """The first difference in the program of a seed, shrunk; a crash has the signal for a report and no program."""

    seed: int
    kind: str
    line: str
    report: str
    lines: list[str]
    special: bool = False
    mode: int = 0


def mismatch(fuzz: Any, seed: int, special_share: float) -> Found | None:
    rng = random.Random(seed)
    special = rng.random() < special_share
    maker = fuzz.Maker(rng, special, False)
    mode = rng.choice([0, 1, 1, 1, 2, 3])
    try:
        for _ in range(rng.randrange(3, 13)):
            maker.run.step(maker.line())
            if any(v.numel() > 20000 for v in maker.run.tensors().values()):
                break
        maker.run.finish(mode)
    except fuzz.Mismatch as found:
        lines, mode = fuzz.shrink(maker.run.lines, mode, special, found.kind)
        report = fuzz.replay(lines, mode, special) or found
        told = str(report) + noticed(fuzz, lines, report.line, report.detail) + not_finite(fuzz, lines)
        return Found(seed, report.kind, report.line, told, lines, special, mode)
    return None


def ran(fuzz: Any, lines: list[str]) -> dict[str, Any]:
    """PyTorch's names after these lines."""
    env = fuzz.Run().env["torch"]
    for line in lines:
        with contextlib.suppress(Exception):
            exec(line, env)
    return env


def not_finite(fuzz: Any, lines: list[str]) -> str:
    tensors = (t for name, t in ran(fuzz, lines).items() if re.fullmatch(r"x\d+", name) and fuzz.is_t(t))
    return "; not finite" if any(not fuzz.torch.isfinite(t).all() for t in tensors) else ""


def noticed(fuzz: Any, lines: list[str], line: str, detail: Any) -> str:
    """What else is to be said of a line that writes into a tensor."""
    written = re.match(r"(x\d+)(?:\.\w+_\(|\[.*\] [^=]*=|\.\w+ = | [^\s\w]*= )", line)
    if line not in lines or not written:
        return ""
    env = ran(fuzz, lines[: lines.index(line)])
    target, read = written[1], set(re.findall(r"\bx\d+\b", line[written.end() :]))
    memory = {name: env[name].untyped_storage().data_ptr() for name in {target, *read} if fuzz.is_t(env.get(name))}
    shares = any(memory.get(name) == memory.get(target) for name in read - {target})
    seen = re.match(r"(x\d+) \w+\(", str(detail))
    tensors = [env.get(name) for name in (target, seen[1] if seen else target)]
    views = all(map(fuzz.is_t, tensors)) and tensors[0].dtype != tensors[1].dtype
    return "; shares memory" * shares + "; another dtype" * views


def surveyed(fuzz: Any, seeds: range, special_share: float, send: Connection) -> None:
    """In the child: what is found, and before each program its seed, so that the parent knows which one was the last."""
    resource.setrlimit(resource.RLIMIT_AS, (10 << 30, 10 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in seeds:
        send.send(seed)
        if found := mismatch(fuzz, seed, special_share):
            send.send(found)


def survey(fuzz: Any, seeds: range, special_share: float) -> Iterator[Found]:
    context = multiprocessing.get_context("fork")
    while seeds:
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=surveyed, args=(fuzz, seeds, special_share, send))
        child.start()
        send.close()
        at = seeds.start
        with contextlib.suppress(EOFError):
            while True:
                message = receive.recv()
                if isinstance(message, Found):
                    yield message
                else:
                    at = message
        child.join()
        if child.exitcode == 0:
            return
        yield Found(at, crashed_alone(fuzz, at, special_share), "", f"exit status {child.exitcode}", [])
        seeds = range(at + 1, seeds.stop)


def crashed_alone(fuzz: Any, seed: int, special_share: float) -> str:
    """Whose crash it is: `crash` if the program kills the process also with tocha on both sides."""

    def alone() -> None:
        fuzz.LIBS["torch"] = fuzz.tocha
        mismatch(fuzz, seed, special_share)

    child = multiprocessing.get_context("fork").Process(target=alone)
    child.start()
    child.join()
    return "crash" if child.exitcode else PYTORCH_CRASHED


def operators(fuzz: Any, found: Found) -> set[str]:
    plain = [re.sub(r"float\('\w+'\)", "9", line) for line in found.lines]  # float is no operator
    at_fault = plain if found.line.startswith("<grad") else [found.line]
    return {operator_of(fuzz.signature(fuzz.Mismatch("", line, ""))) for line in at_fault if line} - {"mk", "x", "x0"}


def show(signature: str, found: Found) -> None:
    program = "\n   ".join(found.lines)
    seed = f"seed {found.seed} special {found.special} mode {found.mode}"
    print(f"== {signature}\n   {seed}\n   {program}\n   -> {found.report}\n", flush=True)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("fuzz", help="fuzz.py")
    p.add_argument("--seed", type=int, nargs="+", default=[0])
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--special", type=float, default=0.2, help="share of programs with inf, nan, -0.0")
    p.add_argument("--unused", action="store_true", help="name the entries that covered nothing")
    a = p.parse_args()
    fuzz = load(a.fuzz)
    fuzz.torch.set_num_threads(1)
    fuzz.tocha.set_num_threads(1)
    known, used, new = entries(), collections.Counter[Entry](), collections.Counter[str]()
    for seed in a.seed:
        before = sum(new.values()), sum(used.values())
        first = seed * 1_000_003
        for found in survey(fuzz, range(first, first + a.count), a.special):
            if found.kind == PYTORCH_CRASHED:
                print(f"PyTorch crashed alone: seed {found.seed} {found.report}", flush=True)
                continue
            names = operators(fuzz, found)
            text = "\n".join((*found.lines, found.report))
            entry = next((e for e in known if e.covers(found.kind, names, text)), None)
            if entry:
                used[entry] += 1
                continue
            signature = f"{found.kind} | {' '.join(sorted(names))}"
            new[signature] += 1
            if new[signature] == 1:
                show(signature, found)
        print(
            f"seed {seed}: programs {a.count} accepted {sum(used.values()) - before[1]} new {sum(new.values()) - before[0]}",
            flush=True,
        )
    if a.unused:
        print(*(f"unused: {' | '.join((e.kind, e.operator, *e.words))}" for e in known if not used[e]), sep="\n")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
