"""Who holds the memory: over the time of a profile, and in snapshots of the allocator."""

import gzip
import json
import pickle

import pytest

import tocha
from tocha.compiler._report import data_of
from tocha.cpu import memory
from tocha.profiler import _memory_profiler, profile
from tocha.profiler._memory_profiler import COLUMNS, Action, Category


class Net(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = tocha.nn.Linear(64, 64, bias=False), tocha.nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return self.second(self.first(x).relu())


@pytest.fixture
def history():
    memory._record_memory_history(clear_history=True)
    yield memory
    memory._record_memory_history(enabled=None)
    tocha._C._memory_history_clear()


def blocks():
    return [b for s in memory._snapshot()["segments"] for b in s["blocks"]]


def test_a_block_knows_its_line_operator_and_modules(history):
    net = Net()
    kept = net.first(tocha.ones(100, 64))
    (block,) = [b for b in blocks() if b["address"] == kept.data_ptr()]
    assert block["requested_size"] == 100 * 64 * 4 and block["state"] == "active_allocated"
    assert block["operator"] == "aten::linear" and block["category"] == "ACTIVATION"
    assert block["modules"] == ["Net.first"]
    (line,) = [f for f in block["frames"] if f["filename"] == __file__ and f["name"] == "test_a_block_knows_its_line_operator_and_modules"]  # fmt: skip
    assert line["line"] == test_a_block_knows_its_line_operator_and_modules.__code__.co_firstlineno + 2
    place = kept.data_ptr()
    del kept
    assert place not in [b["address"] for b in blocks()]


def test_what_holds_it_now(history):
    net = Net()
    optimizer = tocha.optim.Adam(net.parameters())
    net(tocha.ones(8, 64)).sum().backward()
    optimizer.step()
    held = {b["holder"]: b["category"] for b in blocks()}
    assert held["Net.first.weight"] == "PARAMETER" and held["Net.first.weight.grad"] == "GRADIENT"
    assert held["Adam.exp_avg of Net.second.weight"] == "OPTIMIZER_STATE"
    del net, optimizer


def test_memory_of_backward_knows_its_node(history):
    x = tocha.ones(1000, requires_grad=True)
    x.sin().sum().backward()
    (block,) = [b for b in blocks() if b["address"] == x.grad.data_ptr()]
    assert "SinBackward0" in block["ranges"] and block["category"] == "AUTOGRAD_DETAIL"


def test_what_is_there_from_before_the_history():
    net = Net()
    memory._record_memory_history(clear_history=True)
    try:
        (block,) = [b for b in blocks() if b["holder"] == "Net.first.weight"]
        assert block["frames"] == [] and block["size"] == 64 * 64 * 4
    finally:
        memory._record_memory_history(enabled=None)
    del net


def test_changes_in_order(history):
    x = tocha.ones(5000)
    place = x.data_ptr()
    del x
    mine = [t for t in memory._snapshot()["device_traces"][0] if t["addr"] == place]
    assert [t["action"] for t in mine] == ["alloc", "free_requested", "free_completed"]
    assert mine[0]["size"] == mine[1]["size"] == 20000 and mine[0]["time_us"] <= mine[1]["time_us"]


def test_no_more_entries_than_wanted():
    memory._record_memory_history(max_entries=3, clear_history=True)
    for _ in range(10):
        tocha.ones(7)
    kept = tocha.ones(9)
    memory._record_memory_history(enabled=None)
    assert len(tocha._C._memory_history_changes()) == 3
    tocha.ones(11)
    assert len(tocha._C._memory_history_changes()) == 3  # nothing is kept when it is off
    tocha._C._memory_history_clear()
    del kept


def test_only_what_is_in_use_or_without_lines():
    memory._record_memory_history("state", context=None, clear_history=True)
    kept = tocha.ones(3000)
    (block,) = [b for b in blocks() if b["address"] == kept.data_ptr()]
    assert len(block["frames"]) == 1 and len(memory._snapshot()["device_traces"][0]) <= 2
    memory._record_memory_history(enabled=None)
    tocha._C._memory_history_clear()


def test_wrong_words():
    with pytest.raises(RuntimeError, match="expected enabled to be one of"):
        memory._record_memory_history("sometimes")
    with pytest.raises(ValueError, match="at least one entry"):
        memory._record_memory_history(max_entries=0)


def test_a_profiler_beside_a_history(history):
    with profile(profile_memory=True) as p:
        kept = tocha.ones(4000)
    assert "aten::ones" in [e.name for e in p.events()]
    assert kept.data_ptr() in [b["address"] for b in blocks()]


def test_files(history, tmp_path):
    net = Net()
    kept = net(tocha.ones(50, 64))
    memory._dump_snapshot(tmp_path / "snapshot.pickle")
    held = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert {"segments", "device_traces"} <= set(held)
    memory._dump_snapshot(tmp_path / "snapshot.html")
    page = data_of(tmp_path / "snapshot.html")
    assert "Net.first.weight" in page["texts"] and "aten::linear" in page["texts"]
    del net, kept


def train(steps=2):
    net = Net()
    optimizer, x = tocha.optim.Adam(net.parameters()), tocha.ones(10, 64)
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as p:
        for _ in range(steps):
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return p, (net, optimizer)  # alive until the profile is looked at


def test_what_memory_was_for_over_time():
    p, _alive = train()
    found = p._memory_profile()
    of = {c: [b.bytes for b in found.blocks if b.category is c and (not b.name or "Net." in b.name)] for c in Category}
    weight = 64 * 64 * 4
    assert of[Category.PARAMETER] == [weight] * 2
    assert of[Category.GRADIENT] == [weight] * 4  # two steps
    assert sorted(of[Category.OPTIMIZER_STATE]) == [4, 4] + [weight] * 4
    assert 10 * 64 * 4 in of[Category.ACTIVATION] and 10 * 64 * 4 in of[Category.INPUT]
    names = {b.name for b in found.blocks}
    assert {"Net.first.weight", "Net.second.weight.grad", "Adam.exp_avg of Net.first.weight"} <= names
    actions = [a for _, a, _, _ in found.timeline]
    assert actions.count(Action.CREATE) >= actions.count(Action.DESTROY) > 0


def test_timelines_as_files(tmp_path):
    p, _alive = train()
    p.export_memory_timeline(str(tmp_path / "t.json"), device="cpu")
    times, sizes = json.loads((tmp_path / "t.json").read_text())
    assert len(times) == len(sizes) and times == sorted(times)
    first, last = (dict(zip(COLUMNS, s[1:])) for s in (sizes[0], sizes[-1]))
    weight = 64 * 64 * 4
    assert last[Category.PARAMETER] == first[Category.PARAMETER] >= 2 * weight
    assert last[Category.OPTIMIZER_STATE] - first[Category.OPTIMIZER_STATE] == 4 * weight + 8
    assert last[Category.GRADIENT] == first[Category.GRADIENT] and last[Category.AUTOGRAD_DETAIL] == 0
    p.export_memory_timeline(str(tmp_path / "t.raw.json.gz"))
    rows = json.loads(gzip.decompress((tmp_path / "t.raw.json.gz").read_bytes()))
    assert rows[0][0] == -1 and {len(r) for r in rows} == {4}
    p.export_memory_timeline(str(tmp_path / "t.html"))
    assert "Net.first.weight.grad" in data_of(tmp_path / "t.html")["texts"]
    with profile(profile_memory=True) as p:
        pass
    with pytest.raises(ValueError, match="record_shapes=True required for memory profiling"):
        p.export_memory_timeline(str(tmp_path / "none.json"))


def test_parameters_that_are_not_made_yet():
    lazy = tocha.nn.LazyLinear(3)
    with tocha.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True):
        lazy(tocha.ones(2, 4))
    assert _memory_profiler.place_of(tocha.nn.LazyLinear(3).weight) == (0, 0)
