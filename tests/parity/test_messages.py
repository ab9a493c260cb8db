"""Bad calls raise what PyTorch raises, and say what PyTorch says: people search for its words, and programs match them.

Two tables: mistakes that programs make (bad_programs.py), which agree but for the exceptions below, and the calls of
PyTorch's operator table spoiled systematically (bad_calls.py), whose disagreements may only become fewer:
`python tests/parity/bad_calls.py --update` lowers the ratchet.
"""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from typing import Any

import numpy
import pytest
import torch
from bad_calls import RATCHET, counted, groups, in_a_fork, shown, verdict
from bad_programs import KERNEL_NAMES, PROGRAMS
from processor import X86

import tocha

# Where our words or types stay our own, and why.
OWN_WORDS = {
    "lib.ones(2, 3).permute(0)": "PyTorch says `permute(sparse_coo)` of dense tensors",
    "lib.zeros(2, -1)": "all factories share one sentence about negative sizes",
    "lib.ones(2, 3).resize_(-1)": "PyTorch speaks of an overflow",
    "nn.utils.rnn.pack_padded_sequence(lib.ones(3, 2), [0, 2])": "two mistakes at once",
    "F.embedding(lib.ones(3).long(), lib.ones(3, 3), padding_idx=9)": "a RuntimeError, not an AssertionError",
    "F.scaled_dot_product_attention(lib.ones(2, 3), lib.ones(2, 4), lib.ones(2, 3))": "PyTorch speaks of its inner product",
    "lib.tensor(300, dtype=lib.uint8)": "says uint8_t, as fill_ does",
    "(lambda a: (lambda b, c: (b.add_(1), c.sum().backward()))(*(lambda b: (b, b * b))(a * 2)))(lib.ones(2, requires_grad=True))": "does not name the function that made the variable",
}
MODULES = (
    "utils.data.distributed", "utils.checkpoint", "nn.utils.prune", "nn.utils.parametrizations", "nn.utils.rnn",
    "optim.lr_scheduler", "autograd.functional",
)  # fmt: skip


def outcome(lib: Any, line: str) -> BaseException | None:
    for m in MODULES:
        importlib.import_module(f"{lib.__name__}.{m}")
    names = {"lib": lib, "F": lib.nn.functional, "nn": lib.nn, "x": lib.ones(3, 4), "copy": copy, "numpy": numpy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(line, names)
        except Exception as e:
            return e
    return None


@pytest.mark.parametrize("line", PROGRAMS)
def test_program(line: str) -> None:
    wanted, got = outcome(torch, line), outcome(tocha, line)
    assert wanted is not None, "PyTorch takes this: it is no mistake"
    assert got is not None, f"accepted; PyTorch raises {shown(wanted)}"
    if line not in OWN_WORDS:
        assert verdict(wanted, got) == "same", f"\nwanted {shown(wanted)}\ngot    {shown(got)}"


@pytest.mark.parametrize("line", KERNEL_NAMES)
def test_kernel_names(line: str) -> None:
    wanted, got = outcome(torch, line), outcome(tocha, line)
    assert type(wanted) is NotImplementedError and type(got) is NotImplementedError, f"{shown(wanted)}\n{shown(got)}"
    assert str(wanted).split("\n")[0] in str(got)


# PyTorch lists keywords in no order, and its vector code asks for the dtype first, or for that of the gradient alone.
ON_X86 = {
    ("arange", "phrase"),
    ("nn.functional.multilabel_soft_margin_loss", "type"),
    ("_softmax_backward_data", "type"),
}


def is_the_processor_s(a: Any) -> bool:
    return "MKL" in str(a.wanted) or (X86 and (a.operator, a.verdict) in ON_X86)


@pytest.mark.parametrize("ops", groups().values(), ids=groups())
def test_operators(ops: list[Any]) -> None:
    allowed = json.loads(RATCHET.read_text())
    answers = [a for a in in_a_fork(ops, every=False) if not is_the_processor_s(a)]
    more = {
        (name, what): n
        for name, counts in counted(answers).items()
        for what, n in counts.items()
        if n > allowed.get(name, {}).get(what, 0)
    }
    seen = "\n".join(
        f"{a.verdict} {a.call}\n    wanted {a.wanted}\n    got    {a.got}"
        for a in answers
        if (a.operator, a.verdict) in more
    )
    assert not more, f"more than {RATCHET.name} allows: {more}\n{seen}"
