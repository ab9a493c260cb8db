"""Operator handles beside PyTorch's: overloads and schemas of every name that both have, tags, and calls.

Calls come from PyTorch itself: its samples run under a mode that hears every operator below autograd, and our handle of the
same name gets the same arguments.
"""

from __future__ import annotations

import collections
import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from processor import X86
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

import tocha
from tocha.operators.overloads import OUT, Overload, table

# Overloads of PyTorch's that no record answers for, by reason.
MISSING = {
    "a dtype for the products (out_dtype)": {"addmm.dtype", "baddbmm.dtype", "bmm.dtype", "mm.dtype"},
    "lengths as lists": {"ctc_loss.IntList"},
    "made for functional forms of in-place operators": {"bernoulli.Tensor"},
}  # fmt: skip
# Ours that PyTorch has no overload for: its Python functions take no out= there.
EXTRA = {"argwhere.out", "where.ScalarSelf_out", "where.ScalarOther_out", "where.Scalar_out"}


@functools.cache
def dispatched() -> dict[str, dict[str, torch._C.FunctionSchema]]:
    """PyTorch's overloads by name: those of its dispatcher, without those of TorchScript's interpreter and named dims."""
    known = set(torch._C._dispatch_get_all_op_names())
    found: dict[str, dict[str, Any]] = collections.defaultdict(dict)
    for s in torch._C._jit_get_all_schemas():
        full = f"{s.name}.{s.overload_name}" if s.overload_name else s.name
        text = str(s)
        named = any(word in text for word in ("Dimname", "ConstQuantizer", "QScheme", "Stream", "__torch__"))
        if (
            s.name.startswith("aten::")
            and full in known
            and "Tensor" in text
            and not named
            and "names" not in s.overload_name
        ):
            found[s.name[6:]][s.overload_name] = s
    return found


def pairs() -> list[tuple[str, Overload, Any]]:
    """Overloads that both have, by PyTorch's name."""
    both = []
    for name, overloads in table().items():
        for overload, ours in overloads.items():
            theirs = dispatched().get(name, {}).get(overload)
            if theirs is not None:
                both.append((f"{name}.{overload or 'default'}", ours, theirs))
    return both


def theirs_of(name: str) -> Any:
    short, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, short), overload)


def ours_of(name: str) -> Any:
    short, _, overload = name.partition(".")
    return getattr(getattr(tocha.ops.aten, short), overload)


def test_every_overload_that_pytorch_has_is_here() -> None:
    accepted = set().union(*MISSING.values())
    missing = set()
    for name, overloads in dispatched().items():
        ours = table().get(name)
        if ours is None:
            continue
        takes_no_out = not any(o.form == OUT for o in ours.values())
        for overload, s in overloads.items():
            written = any(a.is_out for a in s.arguments)
            functional = overload.removesuffix("_out") if written else overload
            # PyTorch generates out= forms for operators whose Python functions take none; here they have no such form.
            if overload in ours or (written and (takes_no_out or f"{name}.{functional}" in accepted)):
                continue
            missing.add(f"{name}.{overload or 'default'}")
    generated = {n for n in missing if torch.Tag.out in theirs_of(n).tags and torch.Tag.generated in theirs_of(n).tags}
    assert missing - generated - accepted == set()
    assert accepted <= missing  # what is no longer missing leaves the list


def test_no_overload_is_invented() -> None:
    known = {(s.name[6:], s.overload_name) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    names = {name for name, _ in known}
    invented = {f"{n}.{o}" for n, overloads in table().items() if n in names for o in overloads if (n, o) not in known}
    assert invented - EXTRA == set()


def test_schemas_are_pytorchs_to_the_letter() -> None:
    both = pairs()
    assert len(both) > 1600
    differing = [(str(o.schema), str(t)) for _, o, t in both if str(o.schema) != str(t)]
    assert differing == []


def described(a: Any) -> tuple:
    alias = a.alias_info and (set(a.alias_info.before_set), set(a.alias_info.after_set), a.alias_info.is_write)
    return (
        a.name, str(a.type), str(a.real_type), a.type.kind(), a.default_value, a.has_default_value(), a.kwarg_only, a.N, a.is_out, alias,
    )  # fmt: skip


def test_arguments_say_what_pytorchs_say() -> None:
    for _, o, theirs in pairs():
        mine = o.schema
        assert [*map(described, mine.arguments), *map(described, mine.returns)] == [
            *map(described, theirs.arguments),
            *map(described, theirs.returns),
        ]
        assert mine.is_mutable == theirs.is_mutable
        assert mine._is_view_op() == theirs._is_view_op()


# PyTorch's tags that say something else than they mean here.
OTHER_TAGS = {
    "equal.default": "pointwise", "clone.default": "pointwise", "native_dropout_backward.default": "pointwise",
    "rrelu.default": "pointwise", "masked_fill.Scalar": "pointwise", "slice_scatter.default": "view_copy",
    "slice_scatter.out": "view_copy", "atan2.out": "core",
}  # fmt: skip
# How kernels want their arguments laid out, and how overloads came to be: not said here.
NOT_SAID = {
    "generated",
    "flexible_layout",
    "needs_fixed_stride_order",
    "needs_exact_strides",
    "cudagraph_unsafe",
    "out_variant",
}


def test_tags() -> None:
    for name, o, _ in pairs():
        mine = {t.name for t in ours_of(name).tags}
        want = {t.name for t in theirs_of(name).tags} - NOT_SAID - {OTHER_TAGS.get(name)}
        assert want <= mine, name
        # PyTorch does not tag every form and alias of an elementwise operator or a reduction; here they are all of one record.
        more = mine - want - {"pointwise", "reduction", OTHER_TAGS.get(name)}
        assert not more or o.form == OUT or name.split(".")[0].endswith("_"), (name, more)


def test_names_and_printing() -> None:
    for name in ("add.Tensor", "add_.Tensor", "add.out", "sin.default", "sum.dim_IntList", "split.Tensor"):
        mine, theirs = ours_of(name), theirs_of(name)
        for say in (
            str,
            repr,
            lambda h: h.name(),
            lambda h: h.__name__,
            lambda h: h.__qualname__,
            lambda h: h.namespace,
        ):
            assert say(mine) == say(theirs)
        for say in (str, repr, lambda p: p.__name__, lambda p: p._qualified_op_name):
            assert say(mine.overloadpacket) == say(theirs.overloadpacket)
        assert mine.is_view == theirs.is_view


# ---- calls -----------------------------------------------------------------------------------------


class Heard(TorchDispatchMode):
    """Keeps the first calls of each operator, with copies of what they were given and gave."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Any, Any, Any]]] = collections.defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        wanted = func.namespace == "aten" and len(self.calls[name]) < 3
        before = (copied(args), copied(kwargs)) if wanted else None
        result = func(*args, **kwargs)
        if before is not None:
            self.calls[name].append((*before, copied(result)))
        return result


def copied(v: Any) -> Any:
    if isinstance(v, torch.Tensor):
        if v.layout != torch.strided or v.device.type != "cpu":
            raise NotImplementedError("only plain tensors are compared")
        return v.detach().clone()
    if isinstance(v, list | tuple):
        return [copied(x) for x in v]
    return {k: copied(x) for k, x in v.items()} if isinstance(v, dict) else v


@functools.cache
def samples() -> list[tuple[Any, torch.dtype, Any]]:
    """Two samples of every operator in float32 and int64.

    Each notes the stack it was made on, which is deep under pytest and shallow in a thread of its own."""

    def make() -> list[tuple[Any, torch.dtype, Any]]:
        return [
            (info, dtype, sample)
            for info in op_db
            for dtype in (torch.float32, torch.int64)
            if info.supports_dtype(dtype, "cpu")
            for sample in itertools.islice(info.sample_inputs("cpu", dtype), 2)
        ]

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


@functools.cache
def heard() -> dict[str, list[tuple[Any, Any, Any]]]:
    mode = Heard()
    for info, _, sample in samples():
        try:
            with mode:
                info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
    return {n: calls for n, calls in mode.calls.items() if calls}


def ours(v: Any) -> Any:
    if isinstance(v, torch.Tensor):
        t = v.detach()
        raw = t.view(torch.int16) if t.dtype == torch.bfloat16 else t
        made = tocha.from_numpy(raw.contiguous().numpy().copy())
        return made.view(tocha.bfloat16) if t.dtype == torch.bfloat16 else made
    if isinstance(v, torch.dtype | torch.layout | torch.memory_format):
        return getattr(tocha, str(v).split(".")[1])
    if isinstance(v, torch.device):
        return tocha.device(str(v))
    if isinstance(v, list | tuple):
        return [ours(x) for x in v]
    return {k: ours(x) for k, x in v.items()} if isinstance(v, dict) else v


def agree(got: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            agree(g, w)
    elif isinstance(want, torch.Tensor):
        assert str(got.dtype).split(".")[1] == str(want.dtype).split(".")[1]
        if want.dtype == torch.complex32:  # which NumPy does not have
            got, want = got.to(tocha.complex64), want.to(torch.complex64)
        raw = got.detach().resolve_conj().resolve_neg().contiguous()
        raw = raw.view(tocha.int16).numpy() if got.dtype == tocha.bfloat16 else raw.numpy()
        made = torch.from_numpy(raw.copy())
        made = made.view(torch.bfloat16) if want.dtype == torch.bfloat16 else made
        torch.testing.assert_close(made, want, rtol=2e-4, atol=2e-4, equal_nan=True)
    else:
        assert got == want or want is None or want != want


# Whose values mean nothing, are determined only up to a phase, or come from one of several equal elements.
VALUES_DIFFER = (
    *(
        ("matrix_exp", "linalg_matrix_exp") if X86 else ()
    ),  # its samples are ill conditioned: sums by MKL differ in 1e-3
    "empty",
    "new_empty",
    "linalg_eig",
    "_linalg_eigh",
    "linalg_eigh",
    "linalg.eigh",
    "_linalg_svd",
    "resize",
    "linalg_qr",
    "geqrf",
    "set_",
    "_unsafe_view",
    "topk",
    "kthvalue",
)


def is_comparable(name: str) -> bool:
    tags = {t.name for t in theirs_of(name).tags}
    return "nondeterministic_seeded" not in tags and not name.startswith(VALUES_DIFFER)


def test_calls_give_what_pytorchs_give() -> None:
    compared, problems = 0, []
    for name, calls in heard().items():
        short, _, overload = name.partition(".")
        known = table().get(short, {})
        if ("" if overload == "default" else overload) not in known or not is_comparable(name):
            continue
        for args, kwargs, want in calls:
            given = ours(args), ours(kwargs)
            try:
                got = ours_of(name)(*given[0], **given[1])
                agree(got, want)
            except Exception as e:
                problems.append(f"{name}: {type(e).__name__}: {str(e)[:300]}")
                continue
            compared += 1
    assert problems == []
    assert compared > 1000


def test_packets_choose_as_pytorchs_do() -> None:
    compared, problems = 0, []
    for info, _, sample in samples():
        name = info.aten_name
        if info.name.startswith((*VALUES_DIFFER, "as_strided")) or name not in table():
            continue
        packet = getattr(torch.ops.aten, name, None)
        given = ours([sample.input, *sample.args]), ours(sample.kwargs)
        try:
            tags = {t for o in packet.overloads() for t in getattr(packet, o).tags}
            want = packet(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        if torch.Tag.nondeterministic_seeded in tags:
            continue
        try:
            agree(getattr(tocha.ops.aten, name)(*given[0], **given[1]), want)
        except Exception as e:
            problems.append(f"{name}: {type(e).__name__}: {str(e)[:300]}")
            continue
        compared += 1
    assert problems == []
    assert compared > 700


BAD_CALLS = {
    "a string for a tensor": lambda lib, x: lib.ops.aten.add.Tensor(x, "x"),
    "nothing for a tensor": lambda lib, x: lib.ops.aten.add.Tensor(x),
    "too many": lambda lib, x: lib.ops.aten.add.Tensor(x, x, 1),
    "too many, no keywords": lambda lib, x: lib.ops.aten.view.default(x, 2, 2),
    "an unknown keyword": lambda lib, x: lib.ops.aten.add.Tensor(x, x, beta=1),
    "a value twice": lambda lib, x: lib.ops.aten.add.Tensor(x, x, other=x),
    "a tensor for a number": lambda lib, x: lib.ops.aten.add.Scalar(x, x),
    "no out": lambda lib, x: lib.ops.aten.add.out(x, x),
    "None for a number": lambda lib, x: lib.ops.aten.add.Tensor(x, x, alpha=None),
    "a tensor for a list": lambda lib, x: lib.ops.aten.cat.default(x),
    "no such overload": lambda lib, x: lib.ops.aten.add.foo,
    "no such operator": lambda lib, x: lib.ops.aten.foo,
    "no such namespace": lambda lib, x: lib.ops.foo.bar,
    "nothing fits": lambda lib, x: lib.ops.aten.add(x, "x"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_refusals_are_in_pytorchs_words(case: str) -> None:
    with pytest.raises((RuntimeError, AttributeError)) as theirs:
        BAD_CALLS[case](torch, torch.ones(2))
    with pytest.raises(type(theirs.value)) as mine:
        BAD_CALLS[case](tocha, tocha.ones(2))
    assert str(mine.value).splitlines()[:4] == str(theirs.value).splitlines()[:4]
