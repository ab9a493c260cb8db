"""The profiler: operators, backward nodes, kernels, memory, stacks; tables and traces."""

import gzip
import json

import pytest

import tocha
from tocha import profiler
from tocha.profiler import profile, record_function, schedule


def step(x, w):
    with record_function("forward"):
        loss = tocha.mm(x, w).relu().sum()
    loss.backward()


@pytest.fixture
def tensors():
    return tocha.ones(8, 8), tocha.ones(8, 8, requires_grad=True)


def names(p):
    return [e.key for e in p.events()]


def test_operators_and_what_they_lie_in(tensors):
    with profile() as p:
        step(*tensors)
    found = {e.name: e for e in p.events()}
    assert {"forward", "aten::mm", "aten::relu", "aten::sum", "MmBackward0", "ReluBackward0", "SumBackward0"} <= set(
        found
    )
    assert found["aten::mm"].cpu_parent is found["forward"]
    inside = [e for e in p.events() if e.cpu_parent is found["MmBackward0"]]
    assert inside and all(e.name.startswith("aten::") for e in inside)
    assert found["forward"].cpu_time_total >= sum(c.cpu_time_total for c in found["forward"].cpu_children) > 0
    assert 0 <= found["forward"].self_cpu_time_total < found["forward"].cpu_time_total


def test_an_operator_that_is_recorded_for_backward_is_one_event():
    x = tocha.ones(3, requires_grad=True)
    with profile() as p:
        x.sin()
        x.exp_() if False else x.exp()
    assert names(p).count("aten::sin") == names(p).count("aten::exp") == 1


def test_in_place_and_out_forms():
    x, out = tocha.ones(3), tocha.empty(3)
    with profile() as p:
        x.add_(1)
        tocha.add(x, 1, out=out)
    assert names(p) == ["aten::add_", "aten::add"]
    assert x.tolist() == [2.0] * 3 and out.tolist() == [3.0] * 3 and x._version == 1


def test_results_are_the_same_while_it_records(tensors):
    x, w = tensors
    step(x, w)
    expected, w.grad = w.grad, None
    with profile(record_shapes=True, profile_memory=True, with_stack=True):
        step(x, w)
    assert tocha.equal(w.grad, expected)


def test_nothing_is_recorded_when_it_is_off(tensors):
    with profile() as p:
        pass
    step(*tensors)
    assert names(p) == [] and not tocha._C._profiler_is_recording()


def test_kernels_of_compiled_graphs():
    compiled = tocha.compile(lambda x: (x.sin() * 2).sum())
    x = tocha.ones(64, requires_grad=True)
    compiled(x).backward()
    with profile() as p:
        compiled(x).backward()
    graphs = [e for e in p.events() if e.name == "## Call CompiledFxGraph ##"]
    assert len(graphs) == 2
    kernels = [e for e in p.events() if e.name.startswith("kernel_0(")]
    assert kernels[0].name == "kernel_0(sin, mul, sum_1)" and kernels[0].cpu_parent is graphs[0]
    assert kernels[1].cpu_parent is graphs[1] and graphs[1].cpu_parent.name == "CompiledFunctionBackward"


def test_names_of_kernels_survive_the_cache():
    for _ in range(2):
        tocha._dynamo.reset()
        compiled = tocha.compile(lambda x: x.sin() * 7)
        compiled(tocha.ones(5))
        with profile() as p:
            compiled(tocha.ones(5))
        assert "kernel_0(sin, mul)" in names(p)


def test_shapes_flops_and_groups():
    a, b = tocha.ones(3, 4), tocha.ones(4, 5)
    with profile(record_shapes=True, with_flops=True) as p:
        a @ b
        a @ b
        tocha.ones(2, 2) @ tocha.ones(2, 2)
    groups = {str(e.input_shapes): e for e in p.key_averages(group_by_input_shape=True) if e.key == "aten::matmul"}
    assert groups["[[3, 4], [4, 5]]"].count == 2 and groups["[[3, 4], [4, 5]]"].flops == 2 * 120
    assert groups["[[2, 2], [2, 2]]"].count == 1
    assert "Total FLOPs" in p.key_averages().table() and "Input Shapes" in p.key_averages(True).table()


def test_memory():
    with profile(profile_memory=True) as p:
        x = tocha.empty(1 << 16)
        del x
    (made,) = [e for e in p.events() if e.name == "aten::empty"]
    assert made.cpu_memory_usage >= 4 << 16
    assert [m.bytes > 0 for m in p.events().memory] == [True, False]
    assert p.events().memory[0].bytes == -p.events().memory[1].bytes
    assert "Self CPU Mem" in p.key_averages().table(sort_by="self_cpu_memory_usage")


def test_stacks(tmp_path):
    with profile(with_stack=True) as p:
        tocha.ones(2).sin()
    (sine,) = [e for e in p.events() if e.name == "aten::sin"]
    assert sine.stack[0].startswith(f"{__file__}(") and "test_stacks" in sine.stack[0]
    p.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    for line in (tmp_path / "stacks").read_text().splitlines():
        frames, _, value = line.rpartition(" ")
        assert ";" in frames and int(value) > 0
    with pytest.raises(ValueError, match="metric should be one of"):
        p.export_stacks(str(tmp_path / "stacks"), "nonsense")
    with profile() as p:
        pass
    with pytest.raises(AssertionError, match="with_stack=True"):
        p.export_stacks(str(tmp_path / "none"))


def helper(x):
    return x.sin()


def test_functions_of_the_program_and_modules(tmp_path):
    layers = tocha.nn.Sequential(tocha.nn.Linear(2, 2), tocha.nn.Linear(2, 2))
    with profile(with_stack=True) as p:
        with record_function("marked"):
            helper(tocha.ones(2))
        layers(tocha.ones(2))
    found = {e.name: e for e in p.events()}
    (called,) = [e for e in p.events() if e.name.endswith("): helper")]
    assert (
        called.is_python_function and found["aten::sin"].cpu_parent is called and called.cpu_parent is found["marked"]
    )
    assert {"nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: Linear_1"} <= set(found)
    assert not [e.name for e in p.events() if "tocha/profiler" in e.name or "_record_function" in e.name]
    assert all(e.self_cpu_time_total > -1 for e in p.events())  # what lies in an event ends before it does


def test_ranges_that_end_out_of_order():
    outer, inner = record_function("outer"), record_function("inner")
    with profile() as p:
        outer.__enter__()
        inner.__enter__()
        tocha.ones(1).sin()
        outer.__exit__()
        inner.__exit__()
        tocha.ones(1).cos()
    found = {e.name: e for e in p.events()}
    assert found["aten::sin"].cpu_parent is found["inner"] and found["aten::cos"].cpu_parent is None


def test_arguments():
    with profile(record_shapes=True) as p:
        tocha.cat([tocha.ones(2, 3), tocha.ones(2, 3)], 1)
        tocha.add(tocha.ones(2), 2.5, alpha=2)
    (cat,) = [e for e in p.events() if e.name == "aten::cat"]
    assert cat.input_shapes == [[], []] and cat.inputs[0].dims == [[2, 3], [2, 3]]
    assert cat.input_dtypes == ["TensorList", "Scalar"] and cat.concrete_inputs == [None, "1"]
    (add,) = [e for e in p.events() if e.name == "aten::add"]
    assert add.input_shapes[0] == [2] and add.input_dtypes[0] == "float" and add.concrete_inputs[-1] == "2"


def test_optimizers_and_loaders_are_ranges():
    layer = tocha.nn.Linear(2, 2)
    optimizer = tocha.optim.SGD(layer.parameters(), lr=0.1)
    loader = tocha.utils.data.DataLoader(tocha.utils.data.TensorDataset(tocha.ones(4, 2)), batch_size=2)
    with profile() as p:
        for (x,) in loader:
            layer(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    counts = {e.key: e.count for e in p.key_averages()}
    assert counts["Optimizer.step#SGD.step"] == counts["Optimizer.zero_grad#SGD.zero_grad"] == 2
    assert counts["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] == 3


def rows_of(table):
    """The names in a table's first column."""
    lines = table.splitlines()
    first, second, third = (i for i, line in enumerate(lines) if line.startswith("--"))
    width = lines[first].index(" ")
    return [line[:width].strip() for line in lines[second + 1 : third]]


def test_the_table(tensors):
    with profile() as p:
        step(*tensors)
    text = p.key_averages().table(sort_by="self_cpu_time_total", row_limit=3, header="one step")
    assert text.splitlines()[1] == "one step" and "Self CPU %" in text and "# of Calls" in text
    for key in ("cuda_time_total", "self_cpu_memory_usage", "key", "count"):
        assert p.key_averages().table(sort_by=key)
    with pytest.raises(AttributeError):
        p.key_averages().table(sort_by="nonsense")
    assert text.rstrip().splitlines()[-1].startswith("Self CPU time total: ")
    averages = p.key_averages()
    slowest = sorted(averages, key=lambda e: e.self_cpu_time_total, reverse=True)[:3]
    assert rows_of(text) == [e.key for e in slowest]
    assert averages.total_average().count == len(p.events())
    assert averages.self_cpu_time_total == pytest.approx(sum(e.self_cpu_time_total for e in p.events()))


def test_traces_that_viewers_open(tmp_path, tensors):
    with profile(profile_memory=True, record_shapes=True) as p:
        step(*tensors)
    p.add_metadata("note", "mine")
    p.export_chrome_trace(str(tmp_path / "t.json"))
    held = json.loads((tmp_path / "t.json").read_text())
    spans = [e for e in held["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    assert len(spans) == len([e for e in p.events() if e.name != "[memory]"]) and held["note"] == "mine"
    assert min(e["ts"] for e in spans) == 0 and all(e["dur"] >= 0 for e in spans)
    assert {"cpu_op", "user_annotation"} == {e["cat"] for e in spans}
    assert [e for e in held["traceEvents"] if e["name"] == "[memory]"]
    arrows = [e for e in held["traceEvents"] if e.get("cat") == "fwdbwd"]
    at = {e["ts"]: e["name"] for e in spans}
    joined = {(at[a["ts"]], at[b["ts"]].rpartition(" ")[2]) for a, b in zip(arrows[::2], arrows[1::2])}
    assert joined == {("aten::mm", "MmBackward0"), ("aten::relu", "ReluBackward0"), ("aten::sum", "SumBackward0")}
    p.export_chrome_trace(str(tmp_path / "t.json.gz"))
    packed = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    assert packed["traceEvents"] == held["traceEvents"]


def test_schedules(tmp_path):
    ready = []
    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=lambda p: ready.append(names(p))) as p:  # fmt: skip
        for i in range(9):
            tocha.ones(1).add(i)
            p.step()
    assert len(ready) == 2
    for cycle, found in enumerate(ready):
        first = 4 * cycle + 2
        assert [n for n in found if n.startswith("ProfilerStep")] == [
            f"ProfilerStep#{first}",
            f"ProfilerStep#{first + 1}",
        ]
        assert found.count("aten::add") == 2
    handler = profiler.tensorboard_trace_handler(str(tmp_path), use_gzip=True)
    with profile(on_trace_ready=handler):
        tocha.ones(1)
    (file,) = tmp_path.glob("*.gz")
    assert json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]


def test_marks_as_decorators_and_in_compiled_code():
    @record_function("work")
    def work(x):
        return x + 1

    with profile() as p:
        work(tocha.ones(1))
    assert "work" in names(p)
    compiled = tocha.compile(lambda x: work(x) * 2, fullgraph=True, backend="eager")
    assert compiled(tocha.ones(1)).item() == 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_marks_in_compiled_code_are_left_out_with_a_word(backend, caplog):
    """As PyTorch does by default; no graph break. A mark around compiled code is one."""
    from tocha._dynamo import builtin_calls

    def work(x):
        with record_function("inside"):
            y = x.sin()
        return y * 2

    builtin_calls.say_ignored.cache_clear()
    compiled = tocha.compile(work, fullgraph=True, backend=backend)
    compiled(tocha.ones(3))
    assert caplog.text.count("will be ignored") == 1
    with profile() as p, record_function("around"):
        compiled(tocha.ones(3))
    assert "around" in names(p) and "inside" not in names(p)
    assert caplog.text.count("will be ignored") == 1


def test_views_lists_and_factories():
    with profile() as p:
        x = tocha.zeros(4, 4)
        tocha.cat([x, x]).view(-1).split(8)
        x[0] = 1
    assert {"aten::zeros", "aten::cat", "aten::view"} <= set(names(p))


def test_errors_leave_nothing_open():
    with profile() as p:
        with pytest.raises(RuntimeError):
            tocha.ones(2, 3) @ tocha.ones(2, 3)
        tocha.ones(1).sin()
    assert next(e for e in p.events() if e.name == "aten::sin").cpu_parent is None


def test_threads():
    import threading

    with profile() as p:
        threads = [threading.Thread(target=lambda: tocha.ones(2).sin()) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert names(p).count("aten::sin") == 3
    assert all(e.cpu_parent is None for e in p.events() if e.name == "aten::sin")


def test_the_older_home():
    with tocha.autograd.profiler.profile() as p:
        assert tocha.autograd._profiler_enabled()
        tocha.ones(1).sin()
    assert "aten::sin" in [e.name for e in p.function_events] and "aten::sin" in p.table()
    assert not tocha.autograd._profiler_enabled()
    with tocha.autograd.profiler.profile(enabled=False) as p:
        tocha.ones(1).sin()
    assert p.function_events == []


def test_what_is_asked_for_wrongly():
    with pytest.raises(AssertionError, match="must be initialized before"):
        profile().events()
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA])
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])


def test_flops_of_convolutions_and_of_what_is_made_of_others():
    x = tocha.ones(2, 3, 8, 8)
    with profile(with_flops=True) as p:
        tocha.nn.functional.conv2d(x, tocha.ones(6, 3, 3, 3), stride=2, padding=1)
        tocha.ones(4, 5) * tocha.ones(4, 5)
    found = {e.key: e.flops for e in p.key_averages()}
    assert found["aten::convolution"] == 10368 and found["aten::mul"] == 20
    assert sum(found.values()) == 10388
