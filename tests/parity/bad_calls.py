"""Bad calls of every operator of PyTorch's table, made by spoiling good ones, and what both libraries say to them.

python tests/parity/bad_calls.py [REGEX]             # the classes of calls that are answered otherwise, most frequent first
python tests/parity/bad_calls.py [REGEX] --verbose   # every such call
python tests/parity/bad_calls.py --update            # write the ratchet: how many of fewer calls each operator answers otherwise
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import pickle
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

import tocha

RATCHET = Path(__file__).with_name("messages.json")
DTYPES = (torch.bool, torch.int64, torch.uint8, torch.complex64, torch.float16)
RAW = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}  # what NumPy lacks travels as other numbers of the same size


class Answer(NamedTuple):
    """How both libraries answered one bad call."""

    operator: str
    call: str
    verdict: str  # same, phrase, type, only-torch, only-tocha
    wanted: str
    got: str


def ours(v: Any) -> Any:
    """A value of PyTorch's as tocha's."""
    if isinstance(v, torch.Tensor):
        if v.is_meta:
            return tocha.empty(tuple(v.shape), dtype=ours(v.dtype), device="meta")
        if 0 in v.stride() and v.numel():
            one = torch.empty([1] * v.dim(), dtype=v.dtype).copy_(v[tuple(slice(0, 1) for _ in v.shape)])
            return ours(one).expand(tuple(v.shape))
        plain = v.detach().resolve_conj().resolve_neg().contiguous()
        raw = RAW.get(v.dtype)
        t = tocha.from_numpy((plain.view(raw) if raw else plain).numpy()).clone()
        return (t.view(ours(v.dtype)) if raw else t).requires_grad_(v.requires_grad)
    if isinstance(v, torch.dtype | torch.layout | torch.memory_format):
        return getattr(tocha, str(v).split(".")[1])
    if isinstance(v, torch.device):
        return tocha.device(str(v))
    if type(v) in (list, tuple):
        return type(v)(map(ours, v))
    if type(v) is torch.Size:
        return tuple(v)
    if type(v) is dict:
        return {k: ours(x) for k, x in v.items()}
    return v


def spoiled_tensor(t: torch.Tensor) -> Iterator[tuple[str, Any]]:
    for d in DTYPES:
        if d != t.dtype:
            yield str(d), t.to(d)
    yield "0-d", t.reshape(-1)[0] if t.numel() else t.new_ones(())
    yield "one dim more", t.unsqueeze(0)
    yield "three dims more", t[None, None, None]
    if t.dim():
        yield "flat", t.reshape(-1)
        yield "longer", torch.cat([t, t, t.narrow(-1, 0, min(1, t.shape[-1]))], -1)
        yield "higher", torch.cat([t, t, t.narrow(0, 0, min(1, t.shape[0]))], 0)
        yield "empty", t[:0]
    for v in (None, "x", [1.0], 3, object()):
        yield type(v).__name__, v


def spoiled_sequence(v: Any) -> Iterator[tuple[str, Any]]:
    kind = type(v) if type(v) in (list, tuple) else tuple
    yield "no items", kind()
    yield "one item less", kind(v[:-1])
    yield "one item more", kind((*v, v[-1]))
    for name, item in spoiled(v[0]):
        yield f"first item {name}", kind((item, *v[1:]))
    for other in (None, "x", 1.5):
        yield type(other).__name__, other


def spoiled(v: Any) -> Iterator[tuple[str, Any]]:
    """Values that a call which takes v may refuse, with their names."""
    if isinstance(v, torch.Tensor):
        yield from spoiled_tensor(v)
    elif isinstance(v, bool):
        yield from (("str", "x"), ("int", 3), ("None", None))
    elif isinstance(v, int):
        yield from (("100", 100), ("-100", -100), ("-1", -1), ("float", 1.5), ("str", "x"), ("None", None))
    elif isinstance(v, float):
        yield from (("negative", -1.5), ("nan", float("nan")), ("str", "x"), ("None", None), ("complex", 1j))
    elif isinstance(v, str):
        yield from (("bogus", "bogus"), ("int", 1), ("None", None))
    elif isinstance(v, torch.dtype):
        yield from ((str(d), d) for d in DTYPES if d != v)
        yield "str", "float32"
    elif isinstance(v, list | tuple) and len(v):
        yield from spoiled_sequence(v)


def spoiled_calls(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    for i, v in enumerate(args):
        for name, bad in spoiled(v):
            yield f"argument {i} {name}", (*args[:i], bad, *args[i + 1 :]), kwargs
    for k, v in kwargs.items():
        for name, bad in spoiled(v):
            yield f"{k}= {name}", args, {**kwargs, k: bad}
    yield "missing", args[:-1], kwargs
    yield "extra", (*args, 1), kwargs
    yield "extra tensor", (*args, torch.ones(2)), kwargs
    yield "many extra", (*args, *range(9)), kwargs
    yield "unknown keyword", args, {**kwargs, "bogus": 1}
    if args:
        yield "twice", args, {**kwargs, "input": args[0]}
    if "dim" not in kwargs:
        yield "dim=100", args, {**kwargs, "dim": 100}


def spoiled_outs(result: Any) -> Iterator[tuple[str, Any]]:
    yield "str", "x"
    if isinstance(result, torch.Tensor):
        for d in DTYPES:
            yield str(d), torch.empty_like(result, dtype=d)
        yield "expanded", result.new_ones(1).expand(3)
        yield "meta", torch.empty_like(result, device="meta")
        yield "tuple", (torch.empty_like(result),)
    elif isinstance(result, tuple) and result and isinstance(result[0], torch.Tensor):
        yield "one", torch.empty_like(result[0])
        for d in DTYPES:
            yield str(d), tuple(torch.empty_like(r, dtype=d) for r in result if isinstance(r, torch.Tensor))


def find(library: Any, path: str) -> Any:
    for part in path.split("."):
        library = getattr(library, part, None)
    return library


def samples_of(op: Any) -> list[Any]:
    """Two small samples: the first, and the one with the most arguments."""
    torch.manual_seed(0)
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else sorted(op.supported_dtypes("cpu"), key=str)[0]
    out = []
    for i, s in enumerate(op.sample_inputs("cpu", dtype)):
        if i == 40:
            break
        values = (s.input, *s.args, *s.kwargs.values())
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        if all(t.layout == torch.strided and t.numel() < 20000 for t in tensors):
            out.append(s)
    most = sorted(out, key=lambda s: len(s.args) + len(s.kwargs))[-1:]
    return out[:1] + [s for s in most if s is not out[0]]


def bad_calls(op: Any, every: bool) -> Iterator[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    """(what is called and how it is spoiled, the path of the function, arguments); a form that refuses the good call is
    left out. Not `every`: the function alone, with the sample that has the most arguments."""
    variants = [v for v in (op.method_variant, op.inplace_variant) if v and every]
    methods = [f"Tensor.{v.__name__}" for v in variants if hasattr(v, "__name__")]
    for s in samples_of(op)[0 if every else -1 :]:
        args = (s.input, *s.args)
        for path in (op.name, *(m for m in methods if isinstance(s.input, torch.Tensor))):
            function = find(torch, path)
            if (
                function is None
                or find(tocha, path) is None
                or attempt(function, *copied((args, s.kwargs))) is not None
            ):
                continue
            for what, a, k in spoiled_calls(args, s.kwargs):
                if path == op.name or (a and isinstance(a[0], torch.Tensor)):
                    yield f"{path}: {what}", path, a, k
            if path == op.name and op.supports_out:
                for what, out in spoiled_outs(function(*args, **s.kwargs)):
                    yield f"{path}: out= {what}", path, args, {**s.kwargs, "out": out}


def copied(v: Any) -> Any:
    """In-place forms must not spoil the sample itself."""
    if isinstance(v, torch.Tensor):
        return v if 0 in v.stride() else v.detach().clone()
    if type(v) in (list, tuple):
        return type(v)(map(copied, v))
    return {k: copied(x) for k, x in v.items()} if type(v) is dict else v


def attempt(call: Callable[..., Any], args: Any, kwargs: Any) -> BaseException | None:
    try:
        call(*args, **kwargs)
    except Exception as e:
        return e
    return None


def letters(text: str) -> str:
    """Words alone: numbers, shapes, punctuation and the library's own name may differ."""
    return re.sub(r"[^a-z]", "", re.sub(r"torch|tocha|tensorbase", "", text.lower()))


def phrase(message: str) -> str:
    """What people search for: the first sentence, without the names of PyTorch's kernels."""
    line = message.strip().split("\n")[0]
    line = re.sub(r'"[^"]*" not implemented', "not implemented", line)
    line = re.sub(r", but expected (one of:|\().*", "", line)  # the list of signatures
    return re.split(r"\.(?:\s|$)", line)[0]


def verdict(wanted: BaseException | None, got: BaseException | None) -> str:
    if wanted is None:
        return "same" if got is None else "only-tocha"
    if got is None:
        return "only-torch"
    if type(wanted).__name__ != type(got).__name__:
        return "type"
    own = re.sub(r"^\[[\w.]+\] ", "", str(got))  # our tag is no part of the phrase
    return "same" if letters(phrase(str(wanted))) in letters(own) else "phrase"


def shown(e: BaseException | None) -> str:
    return "" if e is None else f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


def title(op: Any) -> str:
    return f"{op.name} {op.variant_test_name}".strip()


def answer(
    operator: str, call: str, path: str, args: Any, kwargs: Any, calling: Callable[[str], None]
) -> Answer | None:
    """What both say to one bad call; None when both take it. `calling` hears who is about to be called."""
    own_args, own_kwargs = ours(args), ours(kwargs)
    calling("tocha")
    got = attempt(find(tocha, path), own_args, own_kwargs)
    calling("torch")
    wanted = attempt(find(torch, path), *copied((args, kwargs)))
    if wanted is None and got is None:
        return None
    return Answer(operator, call, verdict(wanted, got), shown(wanted), shown(got))


class Place(NamedTuple):
    """Who is being called: where work that breaks off has come to."""

    number: int = 0
    operator: str = ""
    call: str = ""
    library: str = "before any call"


def work(ops: list[Any], every: bool, first: int, file: BinaryIO) -> None:
    """The operators' bad calls from `first` on: who is being called, and every answer, as it comes; None at the end."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    calls = ((title(op), *bad) for op in ops for bad in bad_calls(op, every))
    for i, (operator, call, path, args, kwargs) in enumerate(calls):
        if i < first:
            continue

        def calling(library: str, at: tuple[int, str, str] = (i, operator, call)) -> None:
            pickle.dump((*at, library), file)
            file.flush()

        found = answer(operator, call, path, args, kwargs, calling)
        if found is not None:
            pickle.dump(tuple(found), file)
    pickle.dump(None, file)


def read_work(file: BinaryIO) -> tuple[list[Answer], Place | None]:
    """The answers, and the call at which the work broke off."""
    answers, at = [], Place()
    with contextlib.suppress(EOFError):
        while (item := pickle.load(file)) is not None:
            if len(item) == len(Answer._fields):
                answers.append(Answer(*item))
            else:
                at = Place(*item)
        return answers, None
    return answers, at


def in_a_fork(ops: list[Any], every: bool) -> list[Answer]:
    """Every bad call of the operators that PyTorch or tocha refuses. A crash of ours is an answer too; where PyTorch
    crashes there is nothing to compare, and the work goes on after it."""
    answers: list[Answer] = []
    first: int | None = 0
    while first is not None:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with open(write, "wb") as f:
                    work(ops, every, first, f)
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(write)
        with open(read, "rb") as f:
            found, broken_at = read_work(f)
        _, status = os.waitpid(child, 0)
        answers += found
        first = None
        if broken_at is not None:
            if broken_at.library != "torch":
                answers.append(
                    Answer(broken_at.operator, broken_at.call, "crash", "", f"{broken_at.library}: status {status}")
                )
            first = broken_at.number + 1 if broken_at.call else None
    return answers


def operators(pattern: str = "") -> list[Any]:
    left_out = re.compile(r"sparse|jiterator|^torch\.|^__r|as_strided|^ops\.")
    here = (o for o in op_db if o.supported_dtypes("cpu"))
    return [o for o in here if re.search(pattern, o.name) and not left_out.search(o.name)]


def groups() -> dict[str, list[Any]]:
    """The operators by the letter they begin with: a fork for each operator would take longer than the calls."""
    found = collections.defaultdict(list)
    for op in operators():
        found[op.name.removeprefix("nn.functional.")[0].lower()].append(op)
    return dict(sorted(found.items()))


def kind(a: Answer) -> tuple[str, str]:
    """The class of an answer: its verdict and what PyTorch says, without names and numbers."""
    said = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|[-\d.]+", "_", a.wanted or a.got)
    return a.verdict, re.sub(r"^(\w+: )?\w+\(\)", r"\1f()", said)[:110]


def counted(answers: list[Answer]) -> dict[str, dict[str, int]]:
    """How many disagreements of each kind every operator has."""
    found: dict[str, dict[str, int]] = {}
    for a in answers:
        if a.verdict != "same":
            of_operator = found.setdefault(a.operator, {})
            of_operator[a.verdict] = of_operator.get(a.verdict, 0) + 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--top", type=int, default=100)
    options = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    classes: dict[tuple[str, str], list[Answer]] = collections.defaultdict(list)
    if options.update:
        ratchet = counted([a for ops in groups().values() for a in in_a_fork(ops, every=False)])
        rows = (f"{json.dumps(name)}: {json.dumps(counts)}" for name, counts in ratchet.items())
        RATCHET.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        return
    for op in operators(options.pattern):
        for a in in_a_fork([op], every=True):
            total[a.verdict] += 1
            if a.verdict != "same":
                classes[kind(a)].append(a)
                if options.verbose:
                    print(f"{a.verdict:10s} {a.call}\n    wanted {a.wanted}\n    got    {a.got}")
    for (what, said), members in sorted(classes.items(), key=lambda c: -len(c[1]))[: options.top]:
        print(f"{len(members):5d} {what:10s} {said}\n        {members[0].call}: {members[0].got or 'accepted'}")
    print(dict(total))


if __name__ == "__main__":
    main()
