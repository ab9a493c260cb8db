"""Profilers of PyTorch and tocha: tables, traces, timelines and snapshots have the same form; FLOPs by module the same figures."""

from __future__ import annotations

import json
import re

import pytest
import torch
import torch.cuda._memory_viz
import torch.profiler
from torch.utils.flop_counter import FlopCounterMode as Theirs

import tocha
import tocha.profiler
from tocha.utils.flop_counter import FlopCounterMode as Ours

LIBRARIES = (torch, tocha)
OPTIONS = {
    "plain": {},
    "memory": {"profile_memory": True},
    "shapes": {"record_shapes": True},
    "all": {"profile_memory": True, "record_shapes": True, "with_flops": True},
}


def profiled(m, **options):
    x = m.ones(4, 5, requires_grad=True)
    with m.profiler.profile(**options) as p:
        with m.profiler.record_function("mine"):
            y = (x * x).exp()
        m.cat([y, y], 1).sum().backward()
    return p


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_tables_have_the_same_columns(options):
    heads = []
    for m in LIBRARIES:
        table = profiled(m, **options).key_averages(group_by_input_shape=bool(options.get("record_shapes"))).table()
        heads.append(re.split(r"\s{2,}", table.splitlines()[1].strip()))
        assert table.splitlines()[-1].startswith("Self CPU time total: ") and table.endswith("\n")
    assert heads[0] == heads[1]


def row(m, **table):
    """The row of one operator, which both record alone, without its times."""
    x = m.ones(300, 400)
    with m.profiler.profile(record_shapes=True, profile_memory=True, with_flops=True) as p:
        x * x
    lines = p.key_averages(group_by_input_shape=True).table(**table).splitlines()
    (found,) = [line for line in lines if "aten::mul" in line]
    return len(lines[0]), re.sub(r"\d+\.\d+(us|ms)", " T ", found).split()


@pytest.mark.parametrize("table", [{}, {"max_name_column_width": 60}, {"max_shapes_column_width": 9}, {"sort_by": "self_cpu_memory_usage"}], ids=str)  # fmt: skip
def test_rows_are_the_same(table):
    assert row(torch, **table)[1] == row(tocha, **table)[1]


@pytest.mark.parametrize("key", ["cpu_time", "cpu_time_total", "self_cpu_time_total", "cuda_time_total", "device_time_total", "self_cuda_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "count", "key", "flops", "nonsense", "name"])  # fmt: skip
def test_what_tables_are_sorted_by(key):
    raised = []
    for m in LIBRARIES:
        try:
            profiled(m, **OPTIONS["all"]).key_averages().table(sort_by=key)
            raised.append(None)
        except Exception as error:
            raised.append(type(error))
    assert raised[0] == raised[1]


def trace(m, tmp_path, **options):
    path = tmp_path / f"{m.__name__}.json"
    profiled(m, **options).export_chrome_trace(str(path))
    return json.loads(path.read_text())


def test_traces_have_the_same_fields(tmp_path):
    theirs, ours = (trace(m, tmp_path, **OPTIONS["all"]) for m in LIBRARIES)
    assert set(theirs) - {"with_modules"} <= set(ours)

    def fields(held):
        found: dict[tuple, set] = {}
        for e in held["traceEvents"]:
            mul = e["name"] if e["name"] in ("aten::mul", "mine", "MulBackward0") else ""
            about = e["name"] if e["ph"] == "M" else ""
            key = (e["ph"], e.get("cat"), mul, about)
            found.setdefault(key, set()).update({*e, *(f"args.{a}" for a in e.get("args", {}))})
        return found

    seen, made = fields(theirs), fields(ours)
    assert set(seen) <= set(made)
    for key, names in seen.items():
        left = names - made[key] - {"args.finished"}
        if key[2] == "MulBackward0":  # of nodes the inputs are not recorded
            left -= {"args.Concrete Inputs", "args.Input type", "args.Input Strides", "args.Input Dims"}
        assert not left, key

    def of(held, name):
        return next(e for e in held["traceEvents"] if e["name"] == name)["args"]

    for name in ("Input Dims", "Input Strides", "Input type"):
        assert of(ours, "aten::mul")[name] == of(theirs, "aten::mul")[name]
        assert of(ours, "aten::cat")[name] == of(theirs, "aten::cat")[name]
    assert of(ours, "aten::cat")["Concrete Inputs"] == of(theirs, "aten::cat")["Concrete Inputs"]
    arrows = [sum(e.get("cat") == "fwdbwd" and e["ph"] == "s" for e in held["traceEvents"]) for held in (theirs, ours)]
    assert arrows[0] == arrows[1]


def test_memory_and_flops_of_operators():
    found = []
    for m in LIBRARIES:
        a, b = m.ones(30, 40), m.ones(40, 50)
        with m.profiler.profile(profile_memory=True, with_flops=True) as p:
            c = a + a
            c = c * 2
            m.mm(a, b)
            m.bmm(a[None], b[None])
        wanted = ("aten::add", "aten::mul", "aten::mm", "aten::bmm")
        found.append({e.key: (e.flops, e.cpu_memory_usage) for e in p.key_averages() if e.key in wanted})
    theirs, ours = found
    assert {k: v[0] for k, v in ours.items()} == {k: v[0] for k, v in theirs.items()}
    assert ours["aten::add"][1] == theirs["aten::add"][1] and ours["aten::mm"][1] == theirs["aten::mm"][1]


def test_names_of_events_and_their_fields():
    theirs, ours = (profiled(m, **OPTIONS["all"]) for m in LIBRARIES)
    for name in (
        "mine",
        "aten::mul",
        "aten::exp",
        "aten::cat",
        "MulBackward0",
        "autograd::engine::evaluate_function: MulBackward0",
    ):
        assert name in [e.name for e in theirs.events()] and name in [e.name for e in ours.events()]
    skipped = {
        "activity_type", "append_cpu_child", "append_kernel", "device_resource_id", "device_type", "event_metadata", "external_id", "flow_id",
        "flow_start", "flow_type", "kwinputs", "linked_correlation_id", "metadata_json", "python_id", "python_module_id", "python_parent_id",
        "self_cpu_percent", "set_cpu_parent", "total_cpu_percent", "total_device_percent",
    }  # fmt: skip
    public = {n for n in dir(theirs.events()[0]) if not n.startswith("_")} - skipped
    assert public <= set(dir(ours.events()[0]))
    averages = {n for n in dir(theirs.key_averages()[0]) if not n.startswith("_")} - {"device_type", "cpu_children"}
    assert averages <= set(dir(ours.key_averages()[0]))
    for e in ("mine", "aten::mul", "MulBackward0"):
        a, b = (next(x for x in p.events() if x.name == e) for p in (theirs, ours))
        assert (a.scope, a.is_user_annotation, a.count, a.is_async) == (
            b.scope,
            b.is_user_annotation,
            b.count,
            b.is_async,
        )


def test_what_memory_was_for():
    ends = []
    for m in LIBRARIES:
        net = m.nn.Sequential(m.nn.Linear(64, 64, bias=False), m.nn.ReLU())
        optimizer, x = m.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), m.ones(10, 64)
        with m.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as p:
            for _ in range(2):
                net(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        sums: dict[str, set[int]] = {}
        kinds = p._memory_profile()
        for _, _, (key, version), nbytes in kinds.timeline:
            category = key.category if m is tocha else kinds._categories.get(key, version)
            if category is not None and nbytes >= 1000:
                sums.setdefault(category.name, set()).add(nbytes)
        ends.append(sums)
        del net, optimizer
    for name in ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "INPUT"):
        assert ends[1][name] == ends[0][name], name
    assert ends[1]["ACTIVATION"] >= {2560}


def test_snapshots_are_read_by_the_tools_of_pytorch():
    memory = tocha.cpu.memory
    memory._record_memory_history(clear_history=True)
    kept = tocha.ones(1000)
    del kept
    kept = tocha.ones(300, 300)
    snapshot = memory._snapshot()
    del kept
    memory._record_memory_history(enabled=None)
    tocha._C._memory_history_clear()
    viz = torch.cuda._memory_viz
    held = sum(s["allocated_size"] for s in snapshot["segments"])  # tensors from before are there, too
    assert held >= 300 * 300 * 4 and f"total_allocated: {viz.Bytes(held)}" in viz.segsum(snapshot)
    assert "3.9KiB" in viz.trace(snapshot)
    assert len(viz.trace_plot(snapshot)) > 1000


def net(m):
    class Block(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = m.nn.Linear(8, 16), m.nn.Linear(16, 8)
            self.attn = m.nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            x = x + self.attn(x, x, x, need_weights=False)[0]
            return x + self.fc2(self.fc1(x).relu())

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.blocks, self.head = (
                m.nn.Embedding(10, 8),
                m.nn.Sequential(Block(), Block()),
                m.nn.Linear(8, 10),
            )
            self.conv = m.nn.Conv1d(5, 4, 3)

        def forward(self, i):
            return self.head(
                self.conv(self.blocks(self.emb(i)))
                .relu()
                .mean(1)
                .unsqueeze(1)
                .expand(-1, 5, -1)
                .sum(-1, keepdim=True)
                .expand(-1, -1, 8)
            )

    return Net()


def flops(m, mode, backward=True):
    model = net(m)
    with mode(display=False, depth=4) as counted:
        out = model(m.arange(10).reshape(2, 5))
        if backward:
            out.sum().backward()
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counted.get_flop_counts().items()}


@pytest.mark.parametrize("backward", [False, True])
def test_flops_by_module(backward):
    theirs, ours = flops(torch, Theirs, backward), flops(tocha, Ours, backward)
    assert ours == theirs and len(ours) > 10


def test_modules_that_stand_beside_each_other_count_their_own():
    """PyTorch adds the first branch's backward to the second's, whose inputs it waits for."""

    class Two(tocha.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = tocha.nn.Linear(4, 4), tocha.nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x) + self.b(x)

    with Ours(display=False) as counted:
        Two()(tocha.ones(2, 4, requires_grad=True)).sum().backward()
    found = counted.get_flop_counts()
    assert sum(found["Two.a"].values()) == sum(found["Two.b"].values()) == sum(found["Two"].values()) / 2
