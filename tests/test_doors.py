"""Names that packages ask for: jit, hub, distributed over one rank, profiler, futures, devices that are not there."""

from __future__ import annotations

import hashlib
import json

import pytest

import tocha
from tocha import distributed, futures, hub, jit, nn, profiler

# -- jit ---------------------------------------------------------------------------------------------------


def test_scripted_and_traced_programs_run_eagerly():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    x = tocha.ones(1, 2)
    scripted = jit.script(model)
    assert list(scripted.state_dict()) == list(model.state_dict()) and isinstance(scripted, nn.Module)
    scripted.eval()
    assert not model.training and tocha.equal(scripted(x), model(x))
    assert len(scripted) == 2 and scripted[0] is model[0] and list(scripted) == list(model)
    traced = jit.trace(model, x)
    assert tocha.equal(traced(x), model(x)) and isinstance(traced, jit.ScriptModule)
    assert jit.script(lambda a: a + 1)(1) == 2 and jit.trace(tocha.sin, (x,))(x).shape == x.shape


def test_what_needs_a_compiled_program_is_refused(tmp_path):
    scripted = jit.script(nn.Linear(2, 2))
    for call in (lambda: scripted.graph, lambda: scripted.code, lambda: scripted.save("x"), lambda: jit.load("x"),
                 lambda: jit.save(scripted, str(tmp_path / "x")), lambda: jit.script(abs).graph):  # fmt: skip
        with pytest.raises(NotImplementedError, match=r"torch\.jit"):
            call()
    assert not (tmp_path / "x").exists()


def test_decorators_leave_functions_alone():
    class Model(nn.Module):
        @jit.export
        def a(self):
            return 1

        @jit.unused
        def b(self):
            return 2

        @jit.ignore
        def c(self):
            return 3

        @jit.ignore(drop=True)
        def d(self):
            return 4

    m = Model()
    assert (m.a(), m.b(), m.c(), m.d()) == (1, 2, 3, 4) and not jit.is_scripting() and not jit.is_tracing()
    assert jit.annotate(int, 3) == 3 and jit.wait(jit.fork(max, 1, 2)) == 2


# -- hub ---------------------------------------------------------------------------------------------------


def test_weights_from_an_address(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", str(tmp_path / "hub"))
    source = tmp_path / "source.pt"
    tocha.save({"w": tocha.ones(2)}, source)
    good = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    named = tmp_path / f"w-{good}.pt"
    named.write_bytes(source.read_bytes())
    state = hub.load_state_dict_from_url(named.as_uri(), check_hash=True, progress=False)
    assert state["w"].tolist() == [1.0, 1.0]
    named.unlink()  # it was kept
    assert hub.load_state_dict_from_url(named.as_uri(), progress=False)["w"].shape == (2,)
    wrong = tmp_path / "w-00000000.pt"
    wrong.write_bytes(source.read_bytes())
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(wrong.as_uri(), check_hash=True, progress=False)
    assert [p.name for p in (tmp_path / "hub" / "checkpoints").iterdir()] == [named.name]


def test_models_from_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", str(tmp_path))
    folder = tmp_path / "owner_name_main"
    folder.mkdir()
    (folder / "hubconf.py").write_text("dependencies = ['math']\ndef model(n=1):\n    'A model.'\n    return n * 2\n")
    assert hub.load(str(folder), "model", source="local", n=4) == 8 and hub.load("owner/name", "model") == 2
    assert hub.list("owner/name") == ["model"] and hub.help("owner/name", "model") == "A model."
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load("owner/name", "nothing")
    with pytest.raises(RuntimeError, match="not fetched"):
        hub.load("other/name", "model")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load("x", "model", source="elsewhere")


# -- distributed -------------------------------------------------------------------------------------------


@pytest.fixture
def one_rank():
    distributed.init_process_group("gloo", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_without_a_group():
    assert distributed.is_available() and not distributed.is_initialized()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.get_rank()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        distributed.all_reduce(tocha.ones(1))
    with pytest.raises(NotImplementedError, match="rank 1 of 2 processes"):
        distributed.init_process_group("gloo", rank=1, world_size=2)
    with pytest.raises(RuntimeError, match="NCCL"):
        distributed.init_process_group("nccl", rank=0, world_size=1)


def test_the_environment_names_the_group(monkeypatch):
    with pytest.raises(ValueError, match="environment variable RANK expected"):
        distributed.init_process_group("gloo")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    distributed.init_process_group()
    assert distributed.get_backend() == "gloo"
    distributed.destroy_process_group()
    assert not distributed.is_initialized()


def test_collectives(one_rank):
    x, out = tocha.arange(3.0), tocha.empty(3)
    distributed.all_reduce(x)
    distributed.broadcast(x, 0)
    assert x.tolist() == [0.0, 1.0, 2.0]
    distributed.all_gather([out], x)
    assert tocha.equal(out, x)
    assert distributed.all_gather_into_tensor(out, x + 1, async_op=True).wait() and out.tolist() == [1.0, 2.0, 3.0]
    distributed.reduce_scatter(out, [x * 2])
    assert out.tolist() == [0.0, 2.0, 4.0]
    found = [None]
    distributed.all_gather_object(found, {"a": 1})
    assert found == [{"a": 1}]
    distributed.barrier()
    with pytest.raises(ValueError, match="not part of group"):
        distributed.broadcast(x, 1)
    with pytest.raises(ValueError, match="one process has no other rank"):
        distributed.send(x, 1)
    with pytest.raises(ValueError, match="list of one tensor"):
        distributed.all_gather([out, out], x)
    with pytest.raises(ValueError, match="twice"):
        distributed.init_process_group("gloo", rank=0, world_size=1)


def test_data_parallel_over_one_rank(one_rank):
    model = nn.Linear(2, 1)
    wrapped = nn.parallel.DistributedDataParallel(model)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with wrapped.no_sync():
        wrapped(tocha.ones(3, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[3.0, 3.0]]
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        nn.parallel.DistributedDataParallel(nn.ReLU())


# -- the rest ----------------------------------------------------------------------------------------------


def test_profiler_times_marked_ranges(tmp_path):
    with profiler.profile() as found:
        for _ in range(2):
            with profiler.record_function("step"):
                tocha.ones(2).sum()
    averages = {a.key: a.count for a in found.key_averages()}
    assert averages == {"step": 2, "aten::ones": 2, "aten::sum": 2} and "step" in found.key_averages().table()
    found.export_chrome_trace(str(tmp_path / "t.json"))
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" and e["name"] in averages for e in events) == 6
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        found.export_stacks("x")


def test_profiler_follows_its_schedule():
    ready = []
    with profiler.profile(
        schedule=profiler.schedule(wait=1, warmup=1, active=1, repeat=1), on_trace_ready=ready.append
    ) as p:
        for _ in range(4):
            with profiler.record_function("step"):
                pass
            p.step()
    assert len(ready) == 1 and [e.key for e in p.events()] == ["ProfilerStep#2", "step"]


def test_futures():
    a, b = futures.Future(), futures.Future()
    both = futures.collect_all([a, b])
    a.set_result(1)
    assert not both.done()
    b.set_exception(ValueError("no"))
    assert both.done() and a.value() == 1
    with pytest.raises(ValueError, match="no"):
        futures.wait_all([a, b])
    with pytest.raises(RuntimeError, match="once"):
        a.set_result(2)


@pytest.mark.parametrize("name", ["xpu", "mps", "mtia"])
def test_devices_that_are_not_there(name):
    module = getattr(tocha, name)
    assert not module.is_available() and module.device_count() == 0 and module.manual_seed(0) is None
    with pytest.raises((AssertionError, RuntimeError), match=f"not compiled with {name.upper()}"):
        module.synchronize()
    with pytest.raises((AssertionError, RuntimeError), match="not compiled"):
        module.Event()


def test_converted_modules_may_get_new_parameters():
    from tocha import __future__ as switches

    model = nn.Linear(1, 1)
    before = model.weight
    model.double()
    assert model.weight is before
    switches.set_overwrite_module_params_on_conversion(True)
    try:
        model.float()
    finally:
        switches.set_overwrite_module_params_on_conversion(False)
    assert model.weight is not before and model.weight.requires_grad
    with pytest.raises(NotImplementedError):
        switches.set_swap_module_params_on_conversion(True)


def test_whether_a_program_has_a_graph_can_be_asked():
    for made in (tocha.jit.script(tocha.nn.Linear(2, 2)), tocha.jit.script(lambda x: x)):
        assert not hasattr(made, "graph") and getattr(made, "code", None) is None
        with pytest.raises(NotImplementedError, match="graph is not built"):
            made.graph  # noqa: B018
        with pytest.raises(NotImplementedError, match="save is not built"):
            made.save("x")


def test_isinstance_of_containers():
    assert tocha.jit.isinstance({"a": [1]}, dict[str, list[int]]) and not tocha.jit.isinstance([1.0], list[int])
    assert tocha.jit.isinstance((1, "a"), tuple[int, str]) and tocha.jit.isinstance(None, int | None)
    with pytest.raises(RuntimeError, match="without a contained type"):
        tocha.jit.isinstance([1], list)
