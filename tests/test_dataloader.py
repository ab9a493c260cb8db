"""DataLoader: order and seeds, workers and their failures, what passes between processes, and that nothing is left."""

from __future__ import annotations

import collections
import copy
import faulthandler
import gc
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tocha
from tocha.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from tocha.utils.data._utils import pin_memory as pinning

PATIENCE = 120  # seconds after which a test that hangs fails

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(autouse=True)
def watchdog():
    def give_up(number, frame):
        raise TimeoutError(f"nothing happened for {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert multiprocessing.active_children() == []


def identity(batch):
    return batch


class Stream(IterableDataset):
    def __init__(self, n, sized=None):
        self.n = n
        self.sized = sized

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.sized if self.sized is not None else len(None)


class Calls(Dataset):
    """The i-th sample is what the i-th function gives, in the process that asks."""

    def __init__(self, *functions):
        self.functions = functions

    def __len__(self):
        return len(self.functions)

    def __getitem__(self, i):
        return self.functions[i]()


def repeat(function, n):
    return Calls(*[function] * n)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids):
    """Waits until none of the processes is there any more."""
    while any(alive(p) for p in pids):
        time.sleep(0.02)
    return True


# ---- Arguments.


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative; use num_workers=0"),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing.let"),
        ({"num_workers": 1, "prefetch_factor": -2}, ValueError, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "batch_sampler option is mutually exclusive with"),
        ({"batch_sampler": [[1]], "drop_last": True}, ValueError, "batch_sampler option is mutually exclusive with"),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
        (
            {"multiprocessing_context": "fork"},
            ValueError,
            "multiprocessing_context can only be used with multi-process",
        ),
        ({"num_workers": 1, "multiprocessing_context": "x"}, ValueError, "should specify a valid start method in"),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError, "should be a valid context object or a string"),
    ],
)
def test_arguments_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        DataLoader(range(10), **options)


@pytest.mark.parametrize("name, value", [("shuffle", True), ("sampler", [1]), ("batch_sampler", [[1]])])
def test_iterable_takes_no_order(name, value):
    with pytest.raises(ValueError, match=f"expected unspecified {name} option, but got {name}="):
        DataLoader(Stream(3), **{name: value})


def test_attributes():
    loader = DataLoader(range(10), batch_size=3)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.num_workers = 1
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    assert [b.tolist() for b in pickle.loads(pickle.dumps(DataLoader(range(4), batch_size=2)))] == [[0, 1], [2, 3]]
    assert len(copy.copy(loader)) == 4
    assert DataLoader(range(2), num_workers=2).prefetch_factor == 2
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(DataLoader([1])))


def test_warnings():
    with pytest.warns(UserWarning, match="This DataLoader will create 1000 worker processes in total"):
        DataLoader(range(2), num_workers=1000)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        list(DataLoader(range(2), pin_memory=True))
    with pytest.raises(AssertionError, match="_SingleProcessDataLoaderIter requires timeout == 0"):
        list(DataLoader(range(2), timeout=1))


# ---- Order, lengths and seeds.


@pytest.mark.parametrize("workers", [0, 2])
def test_batches(workers):
    def batches(dataset, **options):
        return [
            b.tolist() if isinstance(b, tocha.Tensor) else b
            for b in DataLoader(dataset, num_workers=workers, **options)
        ]

    assert batches(range(5), batch_size=2) == [[0, 1], [2, 3], [4]]
    assert batches(range(5), batch_size=2, drop_last=True) == [[0, 1], [2, 3]]
    assert batches(range(3), batch_size=None) == [0, 1, 2]
    assert batches(range(5), sampler=[4, 0]) == [[4], [0]]
    assert batches(range(5), batch_sampler=[[4, 0], [1]]) == [[4, 0], [1]]
    assert batches([], batch_size=2) == []
    assert batches(range(4), batch_size=2, collate_fn=sum) == [1, 5]


def test_iterable_batches():
    def batches(**options):
        return [b.tolist() for b in DataLoader(Stream(5), **options)]

    assert batches(batch_size=2) == [[0, 1], [2, 3], [4]]
    assert batches(batch_size=2, drop_last=True) == [[0, 1], [2, 3]]
    assert batches(batch_size=2, num_workers=2) == [[0, 1]] * 2 + [[2, 3]] * 2 + [[4]] * 2
    assert batches(batch_size=2, num_workers=2, drop_last=True) == [[0, 1]] * 2 + [[2, 3]] * 2
    assert list(DataLoader(Stream(2), batch_size=None, num_workers=2)) == [0, 0, 1, 1]


class Shard(Stream):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, self.n, info.num_workers))


def test_iterable_shards_of_different_length():
    batches = [b.tolist() for b in DataLoader(Shard(7), batch_size=2, num_workers=3)]
    assert batches == [[0, 3], [1, 4], [2, 5], [6]]


def test_lengths():
    assert len(DataLoader(range(10), batch_size=3)) == 4
    assert len(DataLoader(range(10), batch_size=3, drop_last=True)) == 3
    assert len(DataLoader(range(10), batch_size=None)) == 10
    assert len(DataLoader(Stream(5, sized=5), batch_size=2)) == 3
    assert len(DataLoader(Stream(5, sized=5), batch_size=2, drop_last=True)) == 2
    assert len(iter(DataLoader(range(10), batch_size=3))) == 4
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Stream(5)))
    loader = DataLoader(Stream(3, sized=2))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2\(when accessing len\(dataloader\)\), but 3 samples"):
        list(loader)


@pytest.mark.parametrize(
    "options, first, second, after",
    [
        ({}, [4, 6, 1, 7, 5, 3, 2, 0], [5, 3, 7, 1, 2, 0, 4, 6], 0.0332646369934082),
        ({"num_workers": 2}, [4, 6, 1, 7, 5, 3, 2, 0], [5, 3, 7, 1, 2, 0, 4, 6], 0.0332646369934082),
        (
            {"num_workers": 2, "persistent_workers": True},
            [4, 6, 1, 7, 5, 3, 2, 0],
            [1, 7, 4, 3, 2, 0, 6, 5],
            0.16439151763916016,
        ),
    ],
)
def test_shuffling_is_pytorchs(options, first, second, after):
    tocha.manual_seed(5)
    loader = DataLoader(range(8), shuffle=True, batch_size=4, **options)
    assert [i for b in loader for i in b.tolist()] == first
    assert [i for b in loader for i in b.tolist()] == second
    assert tocha.rand(1).item() == after


@pytest.mark.parametrize("workers", [0, 1])
def test_shuffling_by_generator_is_pytorchs(workers):
    tocha.manual_seed(5)
    generator = tocha.Generator().manual_seed(3)
    loader = DataLoader(range(8), shuffle=True, batch_size=8, generator=generator, num_workers=workers)
    assert next(iter(loader)).tolist() == [1, 5, 6, 3, 4, 7, 0, 2]
    assert tocha.rand(1).item() == pytest.approx(0.8302518725395203)


def describe_worker():
    info = get_worker_info()
    drawn = (tocha.initial_seed(), random.random(), np.random.rand(), tocha.rand(1).item(), tocha.get_num_threads())
    return info.id, info.num_workers, info.seed, *drawn, isinstance(info.dataset, Calls)


def test_worker_seeds_are_pytorchs():
    tocha.manual_seed(11)
    seed = 3325388913236545215
    loader = DataLoader(repeat(describe_worker, 2), batch_size=None, num_workers=2, collate_fn=identity)
    assert list(loader) == [
        (0, 2, seed, seed, 0.10437156952704962, 0.7784028814550128, 0.5997255444526672, 1, True),
        (1, 2, seed + 1, seed + 1, 0.08768933326737272, 0.8672182439354458, 0.5197429656982422, 1, True),
    ]
    assert get_worker_info() is None


class Numbers(Dataset):
    def __init__(self, tensor):
        self.tensor = tensor

    def __len__(self):
        return len(self.tensor)

    def __getitem__(self, i):
        return self.tensor[i], get_worker_info().id


def add_hundred(worker_id):
    get_worker_info().dataset.tensor = get_worker_info().dataset.tensor + 100


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method):
    loader = DataLoader(
        Numbers(tocha.arange(6)),
        batch_size=2,
        num_workers=2,
        worker_init_fn=add_hundred,
        multiprocessing_context=method,
    )
    batches = [[x.tolist(), ids.tolist()] for x, ids in loader]
    assert batches == [[[100, 101], [0, 0]], [[102, 103], [1, 1]], [[104, 105], [0, 0]]]


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.path.basename(path)


def test_out_of_order(tmp_path):
    gate = tmp_path / "first"

    class Gated(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return wait_for(gate) if i == 0 else str(i)

    batches = iter(DataLoader(Gated(), batch_size=None, num_workers=2, in_order=False))
    early = [next(batches), next(batches)]
    gate.touch()
    assert early == ["1", "3"] and sorted(batches) == ["2", "first"]


# ---- Persistent workers.


def test_persistent_workers():
    loader = DataLoader(repeat(os.getpid, 4), batch_size=None, num_workers=2, persistent_workers=True)
    first = list(loader)
    assert len(set(first)) == 2 and list(loader) == first
    abandoned = iter(loader)
    next(abandoned)
    assert list(loader) == first
    del loader, abandoned
    assert gone(set(first))


def test_persistent_iterable():
    loader = DataLoader(Shard(5), batch_size=None, num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert list(loader) == [0, 1, 2, 3, 4]
    next(iter(loader))
    assert list(loader) == [0, 1, 2, 3, 4]


# ---- What passes between the processes.


class Tagged(tocha.Tensor):
    pass


def test_structures_and_geometry():
    base = tocha.arange(24.0).view(4, 6)
    sample = {
        "transposed": base.t(),
        "part": base[1:3, ::2],
        "empty": tocha.zeros(0, 3),
        "nothing of something": base[3:3],
        "scalar": tocha.tensor(5),
        "bits": tocha.tensor([True, False]),
        "half": tocha.ones(2, dtype=tocha.bfloat16),
        "conjugate": tocha.tensor([1 + 2j]).conj(),
        "leaf": tocha.ones(2, requires_grad=True),
        "tagged": tocha.ones(2).as_subclass(Tagged),
        "broadcast": tocha.ones(1).expand(3),
        "array": np.arange(3),
        "text": ["a", b"b", None],
    }
    (back,) = DataLoader([sample], batch_size=None, num_workers=1, collate_fn=identity)
    for name, value in sample.items():
        if isinstance(value, tocha.Tensor):
            got = back[name]
            assert (type(got), got.dtype, got.shape, got.tolist()) == (
                type(value),
                value.dtype,
                value.shape,
                value.tolist(),
            )
            assert got.is_shared() and got.requires_grad == value.requires_grad
    assert back["transposed"].stride() == base.t().stride()
    assert back["array"].tolist() == [0, 1, 2] and back["text"] == sample["text"]
    # Views that overlap stay views of one memory.
    back["transposed"].zero_()
    assert back["part"].sum().item() == 0


def test_a_small_view_does_not_carry_its_storage():
    big = tocha.arange(1 << 20)
    (view, other), *_ = DataLoader([(big[10:13], big[-2:])], batch_size=None, num_workers=1, collate_fn=identity)
    assert view.tolist() == [10, 11, 12] and other.tolist() == [(1 << 20) - 2, (1 << 20) - 1]
    assert view.untyped_storage().nbytes() < 100 and other.untyped_storage().nbytes() < 100


class Patterns(Dataset):
    """Samples of growing and shrinking size that say which one they are."""

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return tocha.full((1 + 3000 * (i % 7),), i)


def test_batches_that_are_kept_are_not_overwritten():
    kept = list(DataLoader(Patterns(), batch_size=None, num_workers=2))
    for i, x in enumerate(kept):
        assert x.numel() == 1 + 3000 * (i % 7) and bool((x == i).all())


def test_memory_is_used_again_once_it_is_free():
    loader = DataLoader(repeat(lambda: tocha.ones(1000), 200), batch_size=None, num_workers=1)
    assert len({x.data_ptr() for x in loader}) < 20


def test_memory_that_a_fork_may_still_read_is_not_used_again(tmp_path):
    """The child keeps a batch that its parent has dropped long ago."""
    batches = iter(DataLoader([tocha.full((1000,), float(i)) for i in range(60)], batch_size=None, num_workers=1))
    x = next(batches)
    read, write = os.pipe()
    go = tmp_path / "go"
    pid = os.fork()
    if pid == 0:
        wait_for(go)
        os.write(write, b"y" if bool((x == 0).all()) else b"n")
        os._exit(0)
    del x
    for _ in batches:
        pass
    go.touch()
    assert os.read(read, 1) == b"y"
    os.waitpid(pid, 0)
    os.close(read), os.close(write)


def test_large_requests_and_answers_do_not_block_each_other():
    indices = list(range(300_000))
    loader = DataLoader(range(300_000), batch_sampler=[indices] * 6, num_workers=2, collate_fn=identity)
    assert [len(batch) for batch in loader] == [300_000] * 6


def test_results_can_be_shared_again():
    (x,) = DataLoader([tocha.arange(5)], batch_size=None, num_workers=1)
    queue = tocha.multiprocessing.SimpleQueue()
    queue.put(x)
    y = queue.get()
    y[0] = 9
    assert x.tolist() == [9, 1, 2, 3, 4]


def test_history_stays_behind():
    loader = DataLoader([tocha.ones(1, requires_grad=True)] * 2, batch_size=2, num_workers=1)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(loader)


class Pinned:
    def __init__(self, value):
        self.value = value

    def pin_memory(self):
        return ("pinned", self.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_pinning(monkeypatch, workers):
    monkeypatch.setattr("tocha.utils.data._iterators.has_accelerator", lambda: True)
    monkeypatch.setattr(tocha.Tensor, "pin_memory", lambda self: self + 1, raising=False)
    Pair = collections.namedtuple("Pair", "a b")
    monkeypatch.setattr(sys.modules[__name__], "Pair", Pair, raising=False)
    Pair.__module__ = __name__
    Pair.__qualname__ = "Pair"
    sample = [tocha.zeros(1), {"k": (tocha.ones(1), "text")}, Pair(1, tocha.zeros(1)), Pinned(3)]
    (got,) = DataLoader([sample], batch_size=None, collate_fn=identity, pin_memory=True, num_workers=workers)
    assert got[0].tolist() == [1] and got[1]["k"][0].tolist() == [2] and got[1]["k"][1] == "text"
    assert isinstance(got[2], Pair) and got[2].b.tolist() == [1] and got[3] == ("pinned", 3)
    assert pinning.pin_memory(b"x") == b"x"


# ---- Failures.


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def raising(error):
    def call():
        raise error

    return call


def one():
    return 1


@pytest.mark.parametrize(
    "error, kind",
    [
        (ValueError("a bad sample"), ValueError),
        (KeyError("a bad sample"), KeyError),
        (OSError(2, "a bad sample"), FileNotFoundError),
        (TwoArguments("a bad sample", 2), RuntimeError),
    ],
)
def test_exceptions_arrive(error, kind):
    loader = DataLoader(Calls(one, raising(error), one, one), num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [1]
    with pytest.raises(kind) as caught:
        next(batches)
    message = str(caught.value)
    assert message.startswith(
        f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback (most"
    )
    assert "a bad sample" in message and "raise error" in message
    assert [b.tolist() for b in batches] == [[1], [1]]


def test_an_exception_that_cannot_be_sent():
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match=r"Caught \w+ in DataLoader worker process 0(.|\n)*a local one"):
        list(DataLoader(Calls(raising(Local("a local one"))), num_workers=1))


def test_a_batch_that_cannot_be_sent():
    loader = DataLoader(Calls(lambda: lambda: 0, one), batch_size=None, num_workers=1)
    batches = iter(loader)
    with pytest.raises(
        (AttributeError, pickle.PicklingError),
        match=r"in DataLoader worker process 0(.|\n)*[Cc]an't (pickle|get local)",
    ):
        next(batches)
    assert list(batches) == [1]


def fail_at_start(worker_id):
    raise RuntimeError(f"no start for {worker_id}")


def test_worker_init_failure():
    with pytest.raises(RuntimeError, match=r"Caught RuntimeError in DataLoader worker process 0(.|\n)*no start for 0"):
        list(DataLoader(range(4), num_workers=2, worker_init_fn=fail_at_start))


def end_by(number):
    def end():
        faulthandler.disable()
        os.kill(os.getpid(), number)

    return end


@pytest.mark.parametrize(
    "how, message",
    [
        (end_by(signal.SIGKILL), "is killed by signal: Killed. "),
        (end_by(signal.SIGTERM), "is killed by signal: Terminated. "),
        (end_by(signal.SIGBUS), "is killed by signal: Bus error. It is possible that dataloader's workers are out of"),
        (lambda: os._exit(7), "exited unexpectedly with exit code 7. Details are lost"),
    ],
)
def test_a_worker_that_ends_is_reported(how, message):
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid \d+\) {message}"):
        list(DataLoader(Calls(one, how, one, one), num_workers=2))


def sleep_long():
    time.sleep(PATIENCE * 2)


def test_a_worker_killed_from_outside_ends_the_wait():
    """Both workers are busy for longer than the test may take."""
    batches = iter(DataLoader(repeat(sleep_long, 2), num_workers=2))
    victim = batches._workers[1].process.pid
    killer = threading.Timer(0.2, os.kill, (victim, signal.SIGKILL))
    killer.start()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid {victim}\) is killed by signal: Killed"):
        next(batches)
    with pytest.raises(RuntimeError, match="is killed by signal"):
        next(batches)
    killer.join()


def test_timeout():
    loader = DataLoader(repeat(sleep_long, 1), num_workers=1, timeout=0.3)
    batches = iter(loader)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.3 seconds"):
        next(batches)
    batches._workers[0].process.kill()


# ---- Life and death, seen from outside.

SCRIPT = """
import os, signal, sys, time
import tocha
from tocha.utils.data import DataLoader

class Endless:
    def __len__(self):
        return 1_000_000_000
    def __getitem__(self, i):
        return os.getpid()

def main():
    batches = iter(DataLoader(Endless(), batch_size=None, num_workers=2))
    print(*[next(batches) for _ in range(2)], flush=True)
    {then}

if __name__ == "__main__":
    main()
"""


def start_script(then):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(then=then)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background begin without it
    )
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(set(workers)) == 2
    return process, workers


def test_interrupt_leaves_no_process():
    process, workers = start_script("while True: next(batches)")
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT and errors.count("KeyboardInterrupt") == 1, errors
    assert gone(workers)


def test_death_of_the_parent_ends_workers():
    process, workers = start_script("time.sleep(1000)")
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert gone(workers)


@pytest.mark.parametrize("then", ["globals()['kept'] = batches", "sys.exit(0)", "raise SystemExit(0)"])
def test_interpreter_exit_is_clean(then):
    process, workers = start_script(then)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and errors == ""
    assert gone(workers)


def test_leaving_a_loop_ends_workers():
    pids = set()
    for pid in DataLoader(repeat(os.getpid, 100), batch_size=None, num_workers=2):
        pids.add(pid)
        if len(pids) == 2:
            break
    assert gone(pids)


def test_a_forked_child_does_not_end_its_parents_workers():
    batches = iter(DataLoader(repeat(one, 50), num_workers=2))
    next(batches)
    child = multiprocessing.get_context("fork").Process(target=gc.collect)
    child.start()
    child.join()
    pid = os.fork()
    if pid == 0:
        del batches
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(batches)) == 49


def test_a_forked_child_has_workers_of_its_own():
    loader = DataLoader(range(4), num_workers=1, persistent_workers=True)
    batches = iter(loader)
    next(batches)

    def use(queue):
        with pytest.raises(RuntimeError, match="belong to the process that made it"):
            next(batches)
        queue.put([b.item() for b in loader])
        del loader._iterator

    queue = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(target=use, args=(queue,))
    child.start()
    assert queue.get() == [0, 1, 2, 3]
    child.join()
    assert child.exitcode == 0 and [b.item() for b in batches] == [1, 2, 3]


# ---- Threads and forks.


def work_in_worker():
    """One thread as set, then two: a pool of the parent's would never answer here."""
    x = tocha.ones(300, 300)
    serial = (x @ x).sum().item()
    tocha.set_num_threads(2)
    y = tocha.ones(1 << 20)
    return serial, (x @ x).sum().item(), y.exp().sum().item() > 0, tocha.rand(100_000).sum().item() > 0


def test_fork_after_threaded_work():
    tocha.set_num_threads(2)
    x = tocha.ones(1000, 1000)
    for _ in range(3):
        x = (x @ x) / 1000
        tocha.ones(1 << 22).exp().sum()
    loader = DataLoader(repeat(work_in_worker, 8), batch_size=None, num_workers=2)
    expected = 300.0**3
    assert list(loader) == [[expected, expected, True, True]] * 8
    assert (x @ x)[0, 0].item() == pytest.approx(1000)


def test_forks_while_other_threads_work():
    """Locks that another thread holds at the moment of a fork must be free in the child."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            tocha.rand(1_000_000)  # long enough to hold the generator's lock without the interpreter's

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(PATIENCE // 4)  # ends a child that hangs
                ok = tocha.rand(100).sum().item() > 0 and tocha.ones(1 << 17).exp().sum().item() > 0
                os._exit(0 if ok else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


# ---- Growth.


def figures(pids):
    """Descriptors and mappings of each process, which must not change."""
    return [(len(os.listdir(f"/proc/{p}/fd")), sum(1 for _ in open(f"/proc/{p}/maps"))) for p in pids]


def memory(pids):
    """Kilobytes that belong to each process alone."""
    totals = []
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            totals.append(sum(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty")))
    return totals


def test_passes_leave_nothing():
    loader = DataLoader(range(8), batch_size=4, num_workers=2)

    def passes(n):
        for _ in range(n):
            assert len(list(loader)) == 2
            next(iter(loader))
        gc.collect()
        return figures([os.getpid()])

    passes(1)
    before, after = passes(1), passes(4)
    assert after[0][0] == before[0][0] and after[0][1] <= before[0][1] + 4


def test_nothing_grows():
    """TOCHA_GROWTH_BATCHES=50000 makes it long."""
    count = int(os.environ.get("TOCHA_GROWTH_BATCHES", "3000"))
    samples = TensorDataset(tocha.rand(64, 3, 16, 16), tocha.arange(64))
    sampler = (random.sample(range(64), 8) for _ in itertools.count())
    batches = iter(DataLoader(samples, batch_sampler=sampler, num_workers=2))
    pids = [os.getpid(), *(w.process.pid for w in batches._workers)]
    for _ in range(500):
        next(batches)
    gc.collect()
    before, kilobytes = figures(pids), memory(pids)
    for _ in range(count):
        next(batches)
    gc.collect()
    after, later = figures(pids), memory(pids)
    print(f"\n{count} batches: descriptors and mappings {before} -> {after}, private kB {kilobytes} -> {later}")
    assert all(fds_after <= fds + 1 for (fds, _), (fds_after, _) in zip(before, after))
    if "TOCHA_SANITIZED" not in os.environ:  # sanitizers keep what is freed for a while
        assert all(maps_after <= maps + 8 for (_, maps), (_, maps_after) in zip(before, after))
        assert all(b - a < 2048 for a, b in zip(kilobytes, later))
    assert not [p for p in os.listdir("/dev/shm") if p.startswith("tocha")]
