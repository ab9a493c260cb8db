"""No argument ends the process: mixes of devices, tensors without memory, objects that change what is being read."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import tocha

HERE = pathlib.Path(__file__).parent
SANITIZED = "TOCHA_SANITIZED" in os.environ
ONE_DEVICE = "Expected all tensors to be on the same device"


def run(*args: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=HERE, env=environment)


def survives(code: str) -> str:
    """Runs a program that may end in an exception, but not in a signal; what it printed."""
    done = run("-c", "import tocha, gc, weakref\nimport numpy as np\n" + code)
    assert done.returncode >= 0, f"{signal.Signals(-done.returncode).name} in\n{code}\n{done.stderr[-500:]}"
    assert "SystemError" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", range(4))
def test_no_operator_reads_what_is_on_the_meta_device(part):
    done = run("meta_mixes.py", str(part), "4")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "done", (lines[-1:], done.returncode, done.stderr[-500:])
    assert not [line for line in lines if line.startswith("WRONG")]
    assert len(lines) > 500


def meta(*shape, **options):
    return tocha.ones(*shape, device="meta", **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tocha.ones(3).add_(meta(3)),
        lambda: tocha.ones(3).add_(meta(())),
        lambda: tocha.ones(()).add_(meta(())),
        lambda: tocha.ones(3).addcmul_(tocha.ones(3), meta(3)),
        lambda: tocha.ones(3).lerp_(tocha.ones(3), meta(3)),
        lambda: tocha.ones(3).clamp_(meta(3)),
        lambda: tocha.add(meta(3), meta(3), out=tocha.ones(3)),
        lambda: tocha.add(meta(()), meta(()), out=tocha.ones(())),
        lambda: tocha.add(tocha.ones(3), tocha.ones(3), out=meta(3)),
        lambda: tocha.sum(meta(3), 0, out=tocha.ones(())),
        lambda: tocha.mm(meta(3, 3), meta(3, 3), out=tocha.ones(3, 3)),
        lambda: tocha.mm(tocha.ones(3, 3), tocha.ones(3, 3), out=meta(3, 3)),
        lambda: tocha.ones(3, 3).addmm_(meta(3, 3), tocha.ones(3, 3)),
        lambda: tocha.ones(3).index_add_(0, tocha.zeros(2, dtype=tocha.int64), meta(2)),
        lambda: tocha.ones(3).scatter_(0, meta(2, dtype=tocha.int64), tocha.ones(2)),
        lambda: tocha.ones(3).masked_fill_(meta(3, dtype=tocha.bool), 1),
        lambda: tocha._foreach_add_([tocha.ones(3)], [meta(3)]),
    ],
)
def test_what_is_written_lies_where_the_rest_lies(call):
    with pytest.raises(RuntimeError, match=f"{ONE_DEVICE}|cross-device copies are not allowed"):
        call()


def test_numbers_on_the_cpu_go_anywhere():
    assert (meta(3) + tocha.ones(())).device.type == "meta"
    assert (tocha.ones(()) * meta(3)).device.type == "meta"
    assert meta(3).add_(tocha.ones(3)).device.type == "meta"
    assert meta(3).mul_(2).device.type == "meta"


@pytest.mark.parametrize(
    ("read", "error", "reason"),
    [
        (lambda t: t.tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: t.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: tocha.asarray(t, device="cpu"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: tocha.ones(2).new_tensor(t), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: tocha.tensor(t, device="cpu"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: tocha.ones(3).copy_(t), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: t.numpy(force=True), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda t: t.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
        (lambda t: t.sum().item(), RuntimeError, "cannot be called on meta tensors"),
        (lambda t: bool(t[0]), RuntimeError, "cannot be called on meta tensors"),
        (lambda t: tocha.tensor([t[0], t[1]]), RuntimeError, "cannot be called on meta tensors"),
        (lambda t: t.untyped_storage().tolist(), NotImplementedError, "Not available for 'meta' device type"),
        (lambda t: t.storage().tolist(), NotImplementedError, "Not available for 'meta' device type"),
        (lambda t: tocha.ones(3).set_(t), RuntimeError, "different device"),
        (lambda t: tocha.ones(3).set_(t.untyped_storage()), RuntimeError, "different device"),
    ],
)
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_nothing_reads_a_meta_tensor(read, error, reason):
    with pytest.raises(error, match=reason):
        read(meta(3))


def test_printing_needs_no_elements():
    assert repr(meta(3)) == "tensor(..., device='meta', size=(3,))"


# -- memory that is not there ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t + 1,
        lambda t: t.sum(),
        lambda t: t.tolist(),
        lambda t: t[0].item(),
        lambda t: t.numpy(),
        lambda t: t.__dlpack__(),
        lambda t: t.add_(1),
        lambda t: t.clone(),
        lambda t: tocha.mm(t.view(2, 2), t.view(2, 2)),
        lambda t: t.sort(),
        lambda t: t.fill_(3),
        lambda t: tocha._foreach_add_([t], 1.0),
        repr,
    ],
)
def test_an_emptied_storage_is_not_read(read):
    t = tocha.ones(4)
    t.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="its data is not allocated yet"):
        read(t)
    t.untyped_storage().resize_(16)
    assert t.fill_(2).tolist() == [2.0] * 4


def test_views_never_look_past_the_end_of_memory():
    # A sanitizer build sees what goes beyond a block.
    t = tocha.arange(1000.0)
    storage = t.untyped_storage()
    storage.resize_(8)
    assert storage.nbytes() == 8 and t[:2].tolist() == [0.0, 1.0]
    t.fill_(3.0)
    storage.resize_(0)
    assert storage.nbytes() == 0 and storage.data_ptr() == 0
    storage.resize_(8)
    t.fill_(1.0)
    assert t.sum().item() == 1000.0
    storage.resize_(8000)
    assert t[:2].tolist() == [1.0, 1.0] and storage.nbytes() == 8000


def test_arrays_with_elements_but_no_memory_are_refused():
    class Nothing:
        @property
        def __array_interface__(self):
            return {"shape": (3,), "typestr": "<f4", "data": (0, False), "version": 3}

    for make in (tocha.as_tensor, tocha.tensor, tocha.asarray):
        with pytest.raises(ValueError, match="no memory"):
            make(Nothing())


def test_wrappers_without_memory_are_not_read():
    class Wrapper(tocha.Tensor):
        pass

    make = tocha.Tensor._make_wrapper_subclass
    with pytest.raises(TypeError, match="cls must be a type"):
        make(tocha.ones(3), (5,))
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        make(int, (5,))
    with pytest.raises(TypeError, match="does not inherit from Tensor"):
        tocha.Tensor._make_subclass(int, tocha.ones(2))
    with pytest.raises(ValueError, match="1 sizes but 2 strides"):
        make(Wrapper, (5,), (1, 2))
    with pytest.raises(TypeError, match=r"argument 'size' .*must be tuple of ints"):
        make(Wrapper, 5)
    for bad in ({"size": (-5,)}, {"size": (5,), "storage_offset": -1}, {"size": (5,), "strides": (-1,)}):
        with pytest.raises(RuntimeError):
            make(Wrapper, **bad)
    for read in (lambda t: t.sum(), lambda t: t.tolist(), lambda t: t + 1):
        with pytest.raises((RuntimeError, NotImplementedError)):
            read(make(Wrapper, (5,)))


def test_histograms_of_no_dimensions():
    hist, edges = tocha.histogramdd(tocha.zeros(0, 3, 0), [])
    assert hist.item() == 0.0 and len(edges) == 0
    assert tocha.histogramdd(tocha.zeros(2, 0), 3).hist.item() == 0.0


def test_threads_hand_errors_on():
    # Large enough that kernels split it: what a worker throws arrives here.
    big = tocha.ones(1 << 20)
    big.untyped_storage().resize_(0)
    for call in (lambda: big + big, lambda: big.sum(), lambda: big.cumsum(0), lambda: tocha.cat([big, big])):
        with pytest.raises(RuntimeError, match="not allocated yet"):
            call()
    assert (tocha.ones(1 << 20) + 1).sum().item() == 2 << 20


# -- objects that change what is being read -----------------------------------------------------------

HOSTILE = {
    "a list that loses its ints": """
sizes = []
class Evil:
    def __index__(self):
        sizes.clear(); gc.collect()
        return 2
sizes += [Evil(), Evil(), Evil()] * 50
for f in (tocha.zeros, tocha.ones(1).expand, tocha.ones(4).view, tocha.ones(4).permute, tocha.ones(2, 2).sum):
    try: f(sizes)
    except Exception: pass
    sizes += [Evil(), Evil(), Evil()] * 50
""",
    "a list that loses its tensors": """
tensors = [tocha.ones(3) for _ in range(50)]
class Evil:
    def __index__(self):
        tensors[:] = [3, "a", None] * 40; gc.collect()
        return 0
for f in (tocha.cat, tocha.stack):
    try: f(tensors, Evil())
    except Exception: pass
    tensors[:] = [tocha.ones(3) for _ in range(50)]
""",
    "numbers that empty their list": """
data = []
class Evil(float):
    def __float__(self):
        data.clear(); gc.collect()
        return 1.0
class Index:
    def __index__(self):
        data.clear(); gc.collect()
        return 1
for kind in (lambda: Evil(1), Index):
    for dtype in (None, tocha.float32, tocha.int64, tocha.complex64, tocha.bool):
        data += [kind() for _ in range(100)]
        try: tocha.tensor(data, dtype=dtype)
        except Exception: pass
        data += [[kind()] * 3 for _ in range(100)]
        try: tocha.tensor(data, dtype=dtype)
        except Exception: pass
""",
    "an index that resizes the tensor": """
for change in (lambda x: x.resize_(0), lambda x: x.set_(), lambda x: x.untyped_storage().resize_(0), lambda x: x.data.resize_(1000)):
    x = tocha.arange(100.0)
    class Evil:
        def __index__(self):
            change(x)
            return 50
    for call in (lambda: x[Evil()], lambda: x[Evil():], lambda: x.select(0, Evil()), lambda: x.narrow(0, 0, Evil()),
                 lambda: x.view(2, Evil()), lambda: x.index_select(Evil(), tocha.tensor([3])), lambda: x.__setitem__(Evil(), 3.0),
                 lambda: x.__setitem__(slice(0, Evil()), 3.0), lambda: x.roll(Evil()), lambda: x.sum(Evil()), lambda: x.topk(Evil())):
        x = tocha.arange(100.0)
        try: repr(call())
        except Exception: pass
""",
    "a number that resizes the tensor": """
x = tocha.arange(100.0)
class Evil(float):
    def __float__(self):
        x.resize_(0)
        return 1.0
for call in (lambda: x.fill_(Evil(2)), lambda: x.add_(Evil(2)), lambda: x.clamp(Evil(0), Evil(1)), lambda: x.__setitem__(3, Evil(1))):
    x = tocha.arange(100.0)
    try: repr(call())
    except Exception: pass
""",
    "lists that contain themselves": """
a = []; a.append(a)
b = [[1]]; b[0].append(b)
c = [1]; c.append(c)
for data in (a, b, c, [a], (a,)):
    for f in (tocha.tensor, tocha.as_tensor, tocha.asarray, tocha.Tensor, tocha.zeros, tocha.cat, lambda v: tocha.ones(3)[v]):
        try: f(data)
        except Exception: pass
""",
    "deep nesting": """
data = 1.0
for _ in range(100000): data = [data]
for f in (tocha.tensor, tocha.asarray, tocha.Tensor, lambda v: tocha.ones(3)[v], lambda v: tocha.cat(v), lambda v: tocha.zeros(v)):
    try: f(data)
    except Exception: pass
del data
""",
    "an iterator that frees the tensor": """
class Evil:
    def __iter__(self):
        global x
        del x
        gc.collect()
        return iter([0, 1])
    def __len__(self): return 2
    def __getitem__(self, i):
        globals().pop("x", None)
        return i
for call in (lambda: x[Evil()], lambda: x.sum(Evil()), lambda: x.permute(Evil()), lambda: x.__setitem__(Evil(), 1)):
    x = tocha.ones(4, 4)
    try: call()
    except Exception: pass
""",
    "a finalizer that writes": """
class Evil:
    def __init__(self, x): self.x = x
    def __del__(self): self.x.resize_(0)
for _ in range(100):
    x = tocha.ones(10)
    cycle = [Evil(x)]; cycle.append(cycle)
    del cycle
    try: (x + tocha.tensor([[1.0] * 10] * 10)).sum()
    except Exception: pass
gc.collect()
""",
    "sizes beyond everything": """
for n in (2**31, 2**40, 2**62, 2**63 - 1, 2**63, 10**30, -1, -2**63):
    for call in (lambda: tocha.empty(n), lambda: tocha.zeros(n, n), lambda: tocha.ones(2).expand(n, 2), lambda: tocha.ones(2).repeat(n), lambda: tocha.arange(n),
                 lambda: tocha.eye(n), lambda: tocha.ones(2).resize_(n), lambda: tocha.ones(2).as_strided((n,), (1,)), lambda: tocha.ones(2).as_strided((2,), (n,)),
                 lambda: tocha.ones(2).as_strided((2,), (1,), n), lambda: tocha.linspace(0, 1, n), lambda: tocha.randperm(n), lambda: tocha.ones(2).unfold(0, n, 1),
                 lambda: tocha.ones(2).unfold(0, 1, n), lambda: tocha.ones(2)[n:], lambda: tocha.ones(2)[::n], lambda: tocha.nn.functional.pad(tocha.ones(2), (n, n)),
                 lambda: tocha.ones(2).repeat_interleave(n), lambda: tocha.full((n,), 1), lambda: tocha.UntypedStorage(n), lambda: tocha.ones(2).untyped_storage().resize_(n),
                 lambda: tocha.nn.functional.one_hot(tocha.tensor([0]), n), lambda: tocha.tril_indices(n, n), lambda: tocha.combinations(tocha.ones(3), n), lambda: tocha.hann_window(n),
                 lambda: tocha.ones(2).view(n, -1), lambda: tocha.ones(2).unflatten(0, (n, -1)), lambda: tocha.ones(2).split(n), lambda: tocha.ones(2).tensor_split(n), lambda: tocha.ones(2).chunk(n),
                 lambda: tocha.bincount(tocha.tensor([0]), minlength=n), lambda: tocha.nn.functional.avg_pool1d(tocha.ones(1, 1, 2), n), lambda: tocha.vander(tocha.ones(2), n),
                 lambda: tocha.nn.functional.interpolate(tocha.ones(1, 1, 2), size=n), lambda: tocha.nn.functional.fold(tocha.ones(1, 4, 1), n, 2), lambda: tocha.multinomial(tocha.ones(3), n, True)):
        try: call()
        except Exception: pass
""",
    "arrays of objects and odd strides": """
for array in (np.array([1, "a"], dtype=object), np.array([[1], [2, 3]], dtype=object), np.ones(4)[::-1], np.broadcast_to(np.ones(1), (3,)), np.zeros((3, 0)), np.ones(3, dtype=">f4"),
              np.lib.stride_tricks.as_strided(np.ones(4), (2, 2), (0, 8)), np.array("text"), np.array([b"a"]), np.zeros(3, dtype=[("a", "f4"), ("b", "i4")])["b"], np.ones(3, dtype=np.longdouble)):
    for f in (tocha.tensor, tocha.from_numpy, tocha.as_tensor, tocha.asarray, tocha.from_dlpack, tocha.Tensor, tocha.frombuffer, lambda a: tocha.ones(3) + a, lambda a: tocha.ones(3)[a]):
        try: repr(f(array))
        except Exception: pass
""",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_objects_that_change_what_is_read(name):
    quiet = "import resource, warnings\nwarnings.simplefilter('ignore')\n"
    # The sanitizer's shadow of memory is larger than any limit.
    limit = "" if SANITIZED else "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
    survives(quiet + limit + HOSTILE[name])


def test_a_storage_under_an_array_keeps_its_memory():
    t = tocha.ones(4)
    array = t.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        t.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(1000)
    assert np.array_equal(array, np.ones(4, dtype=np.float32))


@pytest.mark.parametrize("modes", [(3, 0), (-1, 0), (0, 3), (0, -1), (100, -100)])
@pytest.mark.parametrize("dims", [2, 3])
def test_grids_have_the_modes_there_are(modes, dims):
    pictures, grid = f"2, 3, {'4, ' * dims}", f"2, {'5, ' * dims}{dims}"
    said = survives(
        f"try: tocha.grid_sampler_{dims}d(tocha.ones({pictures}), tocha.ones({grid}), {modes[0]}, {modes[1]}, False)\n"
        "except RuntimeError as e: print(e)"
    )
    assert "expected an interpolation mode" in said


@pytest.mark.parametrize("mode", [-1, 3])
def test_bags_have_the_modes_there_are(mode):
    with pytest.raises(RuntimeError, match="`mode` must be sum, mean, or max"):
        tocha.embedding_bag(tocha.ones(3, 2), tocha.tensor([0, 1]), tocha.tensor([0]), mode=mode)


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's operator new ends the process")
@pytest.mark.parametrize("split", ["hsplit", "vsplit", "tensor_split"])
def test_more_parts_than_memory_holds(split):
    with pytest.raises(MemoryError):
        getattr(tocha.zeros(0, 0), split)(2**60)


def test_dirac_of_more_groups_than_channels():
    assert tocha.nn.init.dirac_(tocha.empty(0, 3, 1), groups=2**60).shape == (0, 3, 1)
