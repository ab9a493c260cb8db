"""A million small calls leave nothing behind, and cycles through tensors are collected.

Three measures: Python's own count of memory blocks, the bytes that storages hold, and the process's resident memory.
TOCHA_LEAK_CALLS is the number of calls in all.
"""

from __future__ import annotations

import copy
import gc
import mmap
import os
import pickle
import resource
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import tocha

SANITIZED = "TOCHA_SANITIZED" in os.environ  # slow, and freed memory is kept aside
CALLS = int(os.environ.get("TOCHA_LEAK_CALLS", "20000" if SANITIZED else "1000000"))
PAGE = resource.getpagesize()

a, b, out = tocha.rand(3, 4), tocha.rand(3, 4), tocha.zeros(3, 4)
wide = tocha.rand(2, 2, 2, 2, 2, 2, 2)  # more dims than a tensor holds inside itself
ints, mask = tocha.tensor([0, 2]), a > 0.5
array = np.arange(6.0)
generator = tocha.Generator()


class Sub(tocha.Tensor):
    pass


def add():
    a + b


def promote():
    a + 2
    ints * 2.5


def views():
    a.view(2, 6).t()[1]
    wide.permute(6, 5, 4, 3, 2, 1, 0).unsqueeze(0)


def slices():
    a[1:, ::2]
    a[0, None, ..., 1]


def indexing():
    a[ints]
    a[mask]
    out[ints, 1:3] = 1.0
    out[mask] = 2


def reduce():
    a.sum()
    a.max(1)
    a.mean((0, 1), keepdim=True)


def in_place():
    out.add_(1).mul_(0.5)
    out[0].zero_()
    out.t_().t_()


def into_out():
    tocha.add(a, b, out=out)
    tocha.add(a, b, out=tocha.empty(0))


def resize():
    tocha.empty(0).resize_(5).resize_(50)


def errors():
    for wrong in (
        lambda: a + tocha.rand(5),
        lambda: a[9],
        lambda: a.view(7),
        lambda: tocha.add(a),
        lambda: a.sum(dim="x"),
    ):
        try:
            wrong()
        except Exception:
            continue
        raise AssertionError("no error")


def split_and_join():
    tocha.cat(a.split(2, 1), 1)
    tocha.stack([a, b])


def numbers():
    a.tolist()
    float(a[0, 0])
    tocha.tensor([[1, 2], [3, 4]])
    repr(ints)


def numpy_exchange():
    tocha.from_numpy(array).numpy()
    np.asarray(a)
    tocha.tensor(array)


def dlpack_exchange():
    tocha.from_dlpack(a)
    np.from_dlpack(a)
    tocha.from_dlpack(array)
    a.__dlpack__()  # a capsule that nobody takes


def subclasses():
    s = a.as_subclass(Sub)
    s.note = [1]
    s + s


def pickling():
    pickle.loads(pickle.dumps(a))
    copy.deepcopy(a)


def generators():
    tocha.rand(4, generator=generator)
    generator.set_state(generator.get_state())
    tocha.Generator().manual_seed(3)


def storages():
    s = a.untyped_storage()
    s.nbytes()
    tocha.empty(0).set_(s)
    a.data_ptr()


def attributes():
    t = tocha.empty(2)
    t.note = "x"
    weakref.ref(t)
    t.shape, t.dtype, t.device, t.stride()


def cycles():
    t = tocha.empty(2)
    t.me = t


ACTIONS = [
    add,
    promote,
    views,
    slices,
    indexing,
    reduce,
    in_place,
    into_out,
    resize,
    errors,
    split_and_join,
    numbers,
    numpy_exchange,
    dlpack_exchange,
    subclasses,
    pickling,
    generators,
    storages,
    attributes,
    cycles,
]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def state() -> np.ndarray:
    gc.collect()
    return np.array([sys.getallocatedblocks(), tocha._C._cpu_memory()["in_use"], resident()])


def growth(action, calls: int) -> np.ndarray:
    """Of blocks, of bytes in storages, of resident bytes; after caches and pools have filled."""
    for _ in range(calls // 5 + 100):
        action()
    for _ in range(5):  # what other tests left: finalizers set more of it free
        gc.collect()
    before = state()
    for _ in range(calls):
        action()
    return state() - before


def assert_flat(grown: np.ndarray, calls: int) -> None:
    blocks, stored, bytes_ = map(int, grown)
    assert blocks < 300, f"{blocks} blocks more after {calls} calls"
    assert stored == 0, f"{stored} bytes more in storages after {calls} calls"
    if not SANITIZED:
        assert bytes_ < 400_000 + 8 * calls, f"{bytes_} bytes more resident after {calls} calls"


@pytest.mark.parametrize("action", ACTIONS, ids=lambda f: f.__name__)
def test_calls_leave_nothing_behind(action):
    calls = CALLS // len(ACTIONS)
    assert_flat(growth(action, calls), calls)


def test_the_measures_see_a_leak():
    kept = []

    def leak():
        kept.append(a.view(-1))

    if not SANITIZED:  # Python's allocator, which counts, is then off
        with pytest.raises(AssertionError, match="blocks"):
            assert_flat(growth(leak, 1000), 1000)
    with pytest.raises(AssertionError, match="storages"):
        assert_flat(growth(lambda: kept.append(tocha.empty(100)), 100), 100)


@pytest.mark.skipif(SANITIZED, reason="the sanitizer keeps freed memory aside")
def test_resident_memory_shows_a_native_leak():
    """Memory that neither Python nor the storages count."""
    kept = []

    def leak():  # pages of its own: a used heap has room for more than one would like to leak
        page = mmap.mmap(-1, 16384)
        page.write(bytes(16384))
        kept.append(page)

    with pytest.raises(AssertionError, match="resident"):
        grown = growth(leak, 2000)
        assert_flat(np.array([0, 0, grown[2]]), 2000)


# -- training --------------------------------------------------------------------------------------


class Scaled(tocha.autograd.Function):
    """x * w with a backward of its own."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0)


class Model:
    """Two layers; every model refers to itself, as modules with hooks do."""

    def __init__(self):
        self.weights = [tocha.randn(4, 8), tocha.randn(8, 2), tocha.ones(2)]
        for w in self.weights:
            w.requires_grad_()
            w.model = self
        self.norms = []
        self.weights[0].register_hook(lambda g: self.norms.append(g.norm()) or g * 1.0)
        self.weights[1].register_post_accumulate_grad_hook(lambda w: self.norms.clear())

    def __call__(self, x):
        hidden = (x @ self.weights[0]).tanh() * 0.5
        hidden[:, 0] += 1  # in place on a view
        return Scaled.apply(hidden @ self.weights[1], self.weights[2])


def step(model, x, y, number):
    loss = ((model(x) - y) ** 2).mean()
    if number % 7 == 0:  # a penalty on the gradient
        (g,) = tocha.autograd.grad(loss, model.weights[0], create_graph=True)
        loss = loss + g.square().sum() * 1e-3
    loss.backward()
    with tocha.no_grad():
        for w in model.weights:
            w -= 0.01 * w.grad
            w.grad = None
    model.last = loss  # a cycle through the graph


def train(steps):
    x, y = tocha.randn(6, 4), tocha.randn(6, 2)
    model = Model()
    for number in range(steps):
        if number % 10 == 9:
            model = Model()
        step(model, x, y, number)


def test_models_that_train_and_go_leave_nothing_behind():
    steps = max(CALLS // 100, 200)
    train(steps // 5)
    before = state()
    train(steps)
    grown = state() - before
    assert_flat(grown, steps)


# -- garbage ---------------------------------------------------------------------------------------


def is_collected(make) -> bool:
    gc.collect()
    gc.disable()
    try:
        ref = make()
        assert ref() is not None, "nothing held it: not a cycle"
        gc.collect()
        return ref() is None
    finally:
        gc.enable()


def through_dict():
    t = tocha.empty(2)
    t.me = t
    return weakref.ref(t)


def through_a_container():
    t = tocha.empty(2)
    t.held = {"list": [t]}
    return weakref.ref(t)


def through_a_view():
    t = tocha.empty(2)
    t.view_of_me = t.view(-1)
    return weakref.ref(t)


def through_a_subclass():
    s = tocha.empty(2).as_subclass(Sub)
    s.me = s
    return weakref.ref(s)


@pytest.mark.parametrize(
    "make", [through_dict, through_a_container, through_a_view, through_a_subclass], ids=lambda f: f.__name__
)
def test_cycles_are_collected(make):
    assert is_collected(make)


def test_a_cycle_lets_its_memory_go():
    gc.collect()
    before = tocha._C._cpu_memory()["in_use"]
    t = tocha.empty(1000)
    t.me = t
    assert tocha._C._cpu_memory()["in_use"] > before
    del t
    gc.collect()
    assert tocha._C._cpu_memory()["in_use"] == before


def test_weak_references_call_back_once():
    seen = []
    t = tocha.empty(2)
    ref = weakref.ref(t, seen.append)
    del t
    assert seen == [ref]
    assert ref() is None


def test_long_chains_are_freed_without_recursion():
    head = tocha.empty(1)
    for _ in range(100_000):
        t = tocha.empty(1)
        t.next = head
        head = t
    del head, t
    view = tocha.empty(4)
    for _ in range(100_000):
        view = view.view(4)
    assert view.numel() == 4


def test_a_view_keeps_the_memory_it_needs():
    t = tocha.arange(6.0)
    v = t[2:4]
    ref = weakref.ref(t)
    del t
    gc.collect()
    tocha.full((6,), 9.0)
    assert v.tolist() == [2, 3]
    del v
    gc.collect()
    assert ref() is None
