"""Tensors between processes: shared memory, queues, sharing strategies, spawn and its reports."""

from __future__ import annotations

import glob
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

import tocha
import tocha.multiprocessing as mp
from tocha.multiprocessing.reductions import StorageWeakRef

PATIENCE = 60  # seconds before a test that hangs fails


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def shared_names():
    return set(glob.glob("/dev/shm/tocha_*"))


def fill(inbox, outbox):
    """Adds one to every tensor it gets, in place, until it gets None."""
    while (tensor := inbox.get()) is not None:
        tensor.add_(1)
        outbox.put(None)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_queue_shares_memory(strategy, method):
    names = shared_names()
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=fill, args=(inbox, outbox), daemon=True)
    process.start()
    x = tocha.zeros(3, 4)
    for view, expected in ((x, 12.0), (x[1:, ::2], 16.0), (x, 28.0)):
        inbox.put(view)
        outbox.get(timeout=PATIENCE)
        assert x.sum().item() == expected
    assert x.is_shared()
    inbox.put(None)
    process.join(PATIENCE)
    assert process.exitcode == 0
    del x, view
    assert shared_names() == names


def test_what_a_queue_carries(strategy):
    queue = mp.SimpleQueue()

    def there_and_back(value):
        queue.put(value)
        return queue.get()

    x = tocha.arange(6.0)
    copy = there_and_back(x)
    copy[0] = 7
    assert x[0].item() == 7 and copy.is_shared()
    a, b = there_and_back([x[:3], x[3:]])
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    assert there_and_back(tocha.zeros(0)).shape == (0,)
    leaf = there_and_back(tocha.ones(2, requires_grad=True))
    assert leaf.requires_grad and leaf.is_leaf
    parameter = there_and_back(tocha.nn.Parameter(tocha.ones(2), requires_grad=False))
    assert type(parameter) is tocha.nn.Parameter and not parameter.requires_grad
    assert list(there_and_back(tocha.tensor([1, 2], dtype=tocha.uint8).untyped_storage())) == [1, 2]
    z = tocha.tensor([1 + 2j]).conj()
    assert there_and_back(z).tolist() == [1 - 2j]
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        queue.put(tocha.ones(2, requires_grad=True) * 2)


def test_descriptors_do_not_grow(strategy):
    queue = mp.SimpleQueue()

    def rounds(n):
        for _ in range(n):
            queue.put(tocha.ones(100))
            assert queue.get().sum().item() == 100

    rounds(5)
    before = len(os.listdir("/proc/self/fd"))
    rounds(30)
    # Some of earlier tests may come and go; a leak is one a round.
    assert len(os.listdir("/proc/self/fd")) - before < 10


def test_share_memory():
    x = tocha.arange(4)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared() and x[1:].is_shared() and x.tolist() == [0, 1, 2, 3]
    pid = os.fork()
    if pid == 0:
        x[0] = 9
        os._exit(0)
    os.waitpid(pid, 0)
    assert x[0].item() == 9


def test_leased_block():
    """The writer's and the reader's view of one block."""
    writer = tocha._C._LeasedBlock(1000)
    reader = tocha._C._LeasedBlock(1000, writer.fd)
    writer.close_fd()
    assert writer.fd == -1 and writer.is_free
    writer.claim()
    writer.write(64, tocha.arange(4).untyped_storage(), 8, 24)
    first, second = reader.lease(64, 16), reader.lease(80, 8)
    assert first.is_shared() and list(first)[::8] == [1, 2] and second[0] == 3
    del first
    assert not writer.is_free
    del second
    assert writer.is_free and not writer.is_lost
    writer.claim()
    kept = reader.lease(0, 8)
    if (pid := os.fork()) == 0:
        del kept  # a child's end of a lease is not its parent's
        os._exit(0 if not writer.is_free else 1)
    assert os.waitpid(pid, 0)[1] == 0 and not writer.is_free
    del kept, reader
    assert writer.is_lost
    for call in (lambda: writer.lease(990, 20), lambda: writer.write(0, tocha.ones(1).untyped_storage(), 0, 8)):
        with pytest.raises((RuntimeError, ValueError), match="bytes"):
            call()
    with pytest.raises(ValueError, match="must not be negative"):
        tocha._C._LeasedBlock(-1)


def test_weak_references_to_storages():
    """They are of the memory: neither views nor the storage's objects in Python, which come and go, change anything."""
    x = tocha.ones(3)
    seen, of_view = StorageWeakRef(x.untyped_storage()), StorageWeakRef(x[1:].untyped_storage())
    other = StorageWeakRef(tocha.ones(3).untyped_storage())
    assert seen == of_view and hash(seen) == hash(of_view) and seen.cdata == of_view.cdata and seen != other
    assert {seen: 1}[of_view] == 1 and not seen.expired() and other.expired()
    view = x.view(3, 1)
    del x
    assert not seen.expired()
    del view
    assert seen.expired() and seen == of_view and hash(seen) == hash(of_view)
    later = [tocha.ones(3) for _ in range(5)]  # some of it where the first one was
    assert all(StorageWeakRef(t.untyped_storage()) != seen for t in later)


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")


KILLED = """
import os, signal, tocha
import tocha.multiprocessing as mp
mp.set_sharing_strategy("file_system")
queue = mp.SimpleQueue()
queue.put([tocha.ones(1000), tocha.ones(10)])
mine = queue.get()
queue.put(mine[0])
import glob
print(len(glob.glob(mp.reductions._names.prefix + "*")), mp.reductions._names.prefix, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_process_leaves_no_names():
    run = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == -signal.SIGKILL, run.stderr
    count, prefix = run.stdout.split()
    assert int(count) > 0
    deadline = time.monotonic() + PATIENCE
    while glob.glob(prefix + "*") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert glob.glob(prefix + "*") == []


def pool_square(x):
    return x * x


def test_pool():
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(pool_square, [tocha.full((2,), float(i)) for i in range(4)])
    assert [r.tolist() for r in results] == [[0, 0], [1, 1], [4, 4], [9, 9]]


# ---- spawn.


def put_index(i, box):
    box[i] = i + 1


def raise_in_second(i):
    if i == 1:
        raise ValueError("the second fails")
    time.sleep(PATIENCE)


def exit_with_three(i):
    sys.exit(3)


def kill_first(i):
    if i == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(PATIENCE)


def test_spawn_runs_all():
    box = tocha.zeros(2).share_memory_()
    assert mp.spawn(put_index, (box,), nprocs=2) is None
    assert box.tolist() == [1, 2]


def test_start_processes_without_join():
    box = tocha.zeros(2).share_memory_()
    context = mp.start_processes(put_index, (box,), nprocs=2, join=False, start_method="fork")
    assert isinstance(context, mp.ProcessContext) and len(context.pids()) == 2
    while not context.join(timeout=PATIENCE):
        pass
    assert box.tolist() == [1, 2]


def test_failures_are_reported():
    with pytest.raises(mp.ProcessRaisedException, match=r"-- Process 1 terminated(.|\n)*the second fails") as caught:
        mp.start_processes(raise_in_second, nprocs=2, start_method="fork")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.error_index == 1 and again.pid == caught.value.pid
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3") as caught:
        mp.start_processes(exit_with_three, nprocs=1, start_method="fork")
    assert caught.value.exit_code == 3 and caught.value.signal_name is None
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL") as caught:
        mp.start_processes(kill_first, nprocs=2, start_method="fork")
    assert caught.value.exit_code == -9 and caught.value.signal_name == "SIGKILL"
    assert not mp.active_children()
