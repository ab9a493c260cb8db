"""What is kept for backward, operator by operator, against PyTorch: which values may be written over after the fact.

Every input and every result in turn counts as written (its version is bumped) before backward runs: PyTorch refuses where
it kept that value. tocha must not refuse where PyTorch does not; where it keeps less, and so allows more, that is fine.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import samples as s
import torch
from torch.testing._internal.common_methods_invocations import op_db

import tocha
from tocha.ir import dtypes as dt

# Where tocha refuses and PyTorch does not: what is written over (in0@1: input 0 while only input 1 wants a gradient),
# and why. Most often PyTorch keeps a tensor of its own making where tocha keeps an argument.
REFUSED = {
    "scaled_dot_product_attention": (".*", "one kernel for all cases keeps what PyTorch's flash kernel keeps"),
    "multi_head_attention_forward": ("in3@.*", "keeps the weight of the projections itself"),
    "rnn_|lstm|gru": (r"in.*", "a layer is one node, and keeps its weights for whatever is wanted"),
    "cross_entropy$|linear_cross_entropy/chunked": ("in.*", "keeps the logits; PyTorch a log_softmax of them"),
    "rms_norm": ("(in0|out1)@1", "keeps the input; PyTorch the normalized one"),
    "matmul": (r"in\d@.*", "broadcasts batches without the copies that PyTorch keeps"),
    "linalg.multi_dot": (r"in\d@\d", "multiplies in another order"),
    "__rdiv__": ("in0@.*", "keeps the divisor; PyTorch its reciprocal"),
    "take_along_dim": ("in1@0", "keeps the indices; PyTorch a copy that is wrapped around"),
    "kron": (r"in\d@.*", "PyTorch does not notice that its arguments were written over"),
    "kl_div": (r"in\d@.*", "keeps the logarithm of the target; PyTorch its exponential"),
    "special.ndtr|special_ndtr": ("in0@0", "keeps the argument; PyTorch a multiple of it"),
    r"masked\.": (r"in\d@.*", "keeps the mask; PyTorch one that it combined"),
}


def is_expected(name: str, place: str) -> bool:
    return any(re.search(n, name) and re.fullmatch(p, place) for n, (p, _) in REFUSED.items())


def theirs(v: Any) -> Any:
    if isinstance(v, tocha.Tensor):
        return torch.from_numpy(np.array(v.detach().resolve_conj().resolve_neg().numpy()))
    if isinstance(v, tocha.dtype):
        return getattr(torch, str(v).split(".")[-1])
    if isinstance(v, list | tuple):
        return [theirs(x) for x in v]
    return v


def ours(v: Any) -> Any:
    if isinstance(v, torch.Tensor):
        plain = v.detach().resolve_conj().resolve_neg()
        return tocha.from_numpy(np.ascontiguousarray(plain.numpy()).reshape(plain.shape)).clone()
    if isinstance(v, torch.dtype | torch.layout | torch.memory_format):
        return getattr(tocha, str(v).split(".")[1])
    if isinstance(v, torch.device):
        return tocha.device(str(v))
    if isinstance(v, list | tuple):
        return [ours(x) for x in v]
    return v


def leaves(v: Any) -> list:
    return [x for item in v for x in leaves(item)] if isinstance(v, list | tuple) else [v]


class Call:
    """A call in either library, again and again with fresh tensors."""

    def __init__(self, library: Any, f: Callable, args: list, kwargs: dict) -> None:
        self.library, self.f, self.args, self.kwargs = library, f, args, kwargs
        self.results = 0
        self.tensors = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, library.Tensor)]

    def wanting(self) -> list[tuple[int, ...]]:
        """Which inputs want gradients: all that can, then each alone."""
        able = [i for i, t in enumerate(self.tensors) if t.is_floating_point() or t.is_complex()]
        return [tuple(able), *((i,) for i in able if len(able) > 1)] if able else []

    def run(self, wanted: tuple[int, ...]) -> tuple[list, list, list]:
        """The leaves that want gradients, what the function got, and what it gave."""
        starts, given = [], []
        for i, t in enumerate(self.tensors):
            fresh = t.detach().clone()
            if i in wanted:
                starts.append(fresh.requires_grad_())
                fresh = fresh.clone()
            given.append(fresh)
        return starts, given, self.results_of(given)

    def results_of(self, given: list) -> list:
        """What the function gives for these tensors in the places of its own."""
        rest = iter(given)

        def fill(v: Any) -> Any:
            if isinstance(v, list | tuple):
                return [fill(x) for x in v]
            return next(rest) if isinstance(v, self.library.Tensor) else v

        args, kwargs = [fill(a) for a in self.args], {k: fill(v) for k, v in self.kwargs.items()}
        self.library.manual_seed(0)
        return [t for t in leaves(self.f(*args, **kwargs)) if isinstance(t, self.library.Tensor)]

    def backward(self, starts: list, results: list) -> None:
        wanted = [r for r in results if r.requires_grad]
        self.library.autograd.grad(wanted, starts, [self.library.ones_like(r) for r in wanted], allow_unused=True)

    def refusals(self, wanted: tuple[int, ...]) -> set[str] | None:
        """in0@0,1, out0@1, ...: what must not be written over while these want gradients; None without a gradient."""
        try:
            starts, given, results = self.run(wanted)
            if not any(r.requires_grad for r in results):
                return None
            self.backward(starts, results)
        except (RuntimeError, TypeError, ValueError):
            return None
        self.results = len(results)
        found = set()
        for kind, count in (("in", len(given)), ("out", len(results))):
            for i in range(count):
                starts, given, results = self.run(wanted)
                try:
                    self.library.autograd.graph.increment_version((given if kind == "in" else results)[i])
                    self.backward(starts, results)
                except RuntimeError as e:
                    if "modified by an inplace operation" in str(e):
                        found.add(f"{kind}{i}@{','.join(map(str, wanted))}")
        return found


def compare(name: str, mine: Call, other: Call) -> int:
    """How many ways to want gradients both libraries know."""
    compared = 0
    for wanted in mine.wanting():
        expected = other.refusals(wanted)
        found = mine.refusals(wanted) if expected is not None else None
        if expected is None or found is None:
            continue
        compared += 1
        if mine.results != other.results:  # one gives indices that the other keeps to itself
            found = {place for place in found if place.startswith("in")}
        unexpected = {place for place in found - expected if not is_expected(name, place)}
        assert not unexpected, f"{name} refuses {sorted(unexpected)}; PyTorch refuses {sorted(expected)}"
    return compared


SPACES = {"": "", "nn": "nn.functional.", "special": "special.", "linalg": "linalg.", "fft": "fft."}


def function_in(library: Any, path: str) -> Callable | None:
    found = library
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if found is not None else getattr(library.Tensor, path, None)


RECORDS = [
    (o, f)
    for o in s.all_operators()
    if s.function_of(o) is not None and o.kind != "foreach" and not o.name.endswith("_")
    if (f := function_in(torch, SPACES[o.namespace] + o.public_name)) and callable(f)
]


@pytest.mark.parametrize(("o", "f"), [pytest.param(o, f, id=o.full_name) for o, f in RECORDS])
def test_samples_of_records(o: Any, f: Callable) -> None:
    warnings.simplefilter("ignore")
    for d in (dt.float64, dt.complex128):
        if not o.dtypes or d in o.dtypes:
            for sample in s.samples(o, d):
                args, kwargs = list(sample.args), sample.kwargs
                if any(isinstance(a, tocha.Tensor) and a.is_floating_point() and a.itemsize == 1 for a in args):
                    continue  # NumPy has no such numbers
                mine = Call(tocha, s.function_of(o), args, kwargs)
                compare(o.full_name, mine, Call(torch, f, theirs(args), {k: theirs(v) for k, v in kwargs.items()}))


OPERATORS = [
    (o, f, g)
    for o in op_db
    if o.supports_autograd and o.supports_dtype(torch.float64, "cpu")
    if (f := function_in(tocha, o.name)) and (g := function_in(torch, o.name))
]
MOST = 4  # samples of one operator


@pytest.mark.parametrize(
    ("o", "f", "g"), [pytest.param(o, f, g, id=f"{o.name}/{o.variant_test_name}") for o, f, g in OPERATORS]
)
def test_samples_of_pytorch(o: Any, f: Callable, g: Callable) -> None:
    warnings.simplefilter("ignore")
    every = list(o.sample_inputs("cpu", torch.float64))
    for sample in every[:: max(1, len(every) // MOST)][:MOST]:
        args, kwargs = [sample.input, *sample.args], sample.kwargs
        tensors = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided or t.numel() > 10_000 for t in tensors):
            continue
        mine = Call(tocha, f, [ours(a) for a in args], {k: ours(v) for k, v in kwargs.items()})
        compare(f"{o.name}/{o.variant_test_name}".rstrip("/"), mine, Call(torch, g, args, kwargs))
