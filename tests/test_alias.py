"""`import torch` means tocha: names, pickles, commands, and everything that starts another interpreter.

Each test runs programs in processes of their own: the alias is for a whole process.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tocha._alias import finder

ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TOCHA_AS_TORCH")}
if importlib.util.find_spec("torch"):  # the environment that holds parity's judge
    ENVIRONMENT["TOCHA_AS_TORCH"] = "force"


def python(*arguments: str, fails: bool = False, **environment: str) -> str:
    """What a Python process prints; with `fails`, what it complains of."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=ENVIRONMENT | environment, timeout=600
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def program(text: str, *arguments: str, **kwargs) -> str:
    return python("-c", "import tocha.as_torch\n" + textwrap.dedent(text), *arguments, **kwargs)


@pytest.fixture
def script(tmp_path):
    def write(text: str, name: str = "program.py") -> str:
        (tmp_path / name).write_text(textwrap.dedent(text))
        return str(tmp_path / name)

    return write


# -- names -------------------------------------------------------------------------------------------------


def test_every_module_is_the_same_object_under_both_names():
    out = program(
        """
        import torch, tocha, sys, importlib
        import torch.nn.functional as F
        import torch.utils.data.sampler
        from torch.distributions import Normal
        for name in [n for n in sys.modules if n.startswith("torch.")]:
            assert sys.modules["tocha" + name[5:]] is sys.modules[name], name
        assert torch is tocha and F is tocha.nn.functional and Normal is tocha.distributions.Normal
        assert importlib.import_module("torch.fx").Graph is tocha.fx.Graph
        print(torch.__name__, torch.nn.__name__, torch.utils.data.sampler.__spec__.name, torch.nn.__package__)
        """
    )
    assert out.split() == ["torch", "torch.nn", "torch.utils.data.sampler", "torch.nn"]


def test_versions():
    out = program(
        """
        import torch, importlib.metadata
        from packaging.version import Version
        print(torch.__version__, torch.version.__version__, importlib.metadata.version("torch"), Version(torch.__version__).release)
        assert torch.__version__ >= (2, 1) and torch.__version__ > "2.9" and torch.__version__.split("+")[0] == "2.13.0"
        """
    )
    assert out.split()[:3] == ["2.13.0+tocha"] * 3


def test_reprs_and_class_paths():
    out = program(
        """
        import torch
        from torch import nn
        print(torch.float32, torch.Size([1]), torch.strided, torch.channels_last, torch.ones(1).type(), torch.ones(1, dtype=torch.float64))
        print(nn.Linear.__module__, torch.optim.SGD.__module__, torch.Tensor, torch.device, torch.nn.functional.relu6.__module__)
        print(repr(torch.sort(torch.ones(1))).split("(")[0], torch.finfo(torch.float16).dtype, repr(torch).split()[1])
        print(torch.storage.UntypedStorage, torch.ones(1).untyped_storage().type(), torch.LongTensor, torch.distributions.Normal)
        """
    )
    assert "tocha" not in out
    assert out.splitlines()[0] == (
        "torch.float32 torch.Size([1]) torch.strided torch.channels_last torch.FloatTensor tensor([1.], dtype=torch.float64)"
    )
    assert out.splitlines()[1].startswith("torch.nn.modules.linear torch.optim.sgd <class 'torch.Tensor'>")


def test_without_the_alias_nothing_speaks_of_torch():
    out = python(
        "-c", "import tocha, sys; print(tocha.float32, tocha.__name__, 'torch' in sys.modules, tocha.__version__)"
    )
    assert out.split()[:3] == ["tocha.float32", "tocha", "False"] and "2.13" not in out
    out = python(
        "-c", "import tocha, sys; print([m for m in sys.modules if m.startswith(('tocha._alias', 'tocha.as_torch'))])"
    )
    assert out.strip() == "[]"


def test_type_hints_of_what_is_loaded_before_and_after():
    out = program(
        """
        import typing, torch, dataclasses
        from torch.utils.data import DataLoader
        assert typing.get_type_hints(torch.nn.Linear.forward)["input"] is torch.Tensor
        assert typing.get_type_hints(torch.optim.Optimizer.state_dict)
        assert typing.get_type_hints(torch.distributions.Normal.sample)
        typing.get_type_hints(DataLoader.__init__)
        print("ok")
        """
    )
    assert out.strip() == "ok"


def test_what_is_not_there():
    out = program(
        """
        import importlib.util
        assert importlib.util.find_spec("torch.nothing") is None
        try:
            import torch.nothing
        except ModuleNotFoundError as error:
            print(error, error.name)
        try:
            from torch import nothing
        except ImportError as error:
            print(error)
        """
    )
    assert out.splitlines()[0] == "No module named 'torch.nothing' torch.nothing"
    assert "cannot import name 'nothing' from 'torch'" in out


def test_written_names_are_seen_under_both():
    out = program("import torch, tocha; torch.mine = 3; tocha.nn.mine = 4; print(tocha.mine, torch.nn.mine)")
    assert out.split() == ["3", "4"]


# -- pickles -----------------------------------------------------------------------------------------------

OBJECTS = """
    import torch
    from torch import nn
    g = torch.Generator().manual_seed(0)
    objects = [
        torch.arange(3.0), nn.Parameter(torch.ones(2)), torch.float16, torch.Size([2]), torch.device("cpu"), torch.channels_last,
        nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.TransformerEncoderLayer(4, 1, 4), nn.functional.relu, torch.ones(1).untyped_storage(), torch.strided,
        torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1), torch.distributions.Normal(0.0, 1.0), torch.nn.init.zeros_,
    ]
"""


def test_pickles_go_through(tmp_path):
    path = tmp_path / "p.pkl"
    program(
        OBJECTS.replace("    import", "import").replace("\n    ", "\n")
        + f"import pickle; pickle.dump(objects, open({str(path)!r}, 'wb'))"
    )
    assert b"tocha" not in path.read_bytes()
    out = python("-c", f"import pickle, tocha.as_torch; print(pickle.load(open({str(path)!r}, 'rb'))[0])")
    assert out.strip() == "tensor([0., 1., 2.])"


def test_pickles_name_functions_as_pytorch_does():
    """Both as PyTorch writes them: `torch.relu` is an attribute of a class of its native module."""
    program(
        """
        import pickle, torch, torch.nn.functional as F
        written = b"c__builtin__\\ngetattr\\np0\\n(ctorch._C\\n_VariableFunctionsClass\\np1\\nVrelu\\np2\\ntp3\\nRp4\\n."
        assert pickle.loads(written) is torch.relu
        for f in (F.softmax, F.dropout, F.cross_entropy, F.max_pool2d, F.relu):
            assert pickle.dumps(f, 0).startswith(b"ctorch.nn.functional\\n"), f
            assert pickle.loads(pickle.dumps(f)) is f
        """
    )


def test_pickles_of_tocha_load_under_the_alias(tmp_path):
    path = tmp_path / "p.pkl"
    text = textwrap.dedent(OBJECTS).replace("torch", "tocha").replace("import tocha", "import tocha", 1)
    python("-c", text + f"import pickle; pickle.dump(objects, open({str(path)!r}, 'wb'))")
    out = program(f"import pickle; print(len(pickle.load(open({str(path)!r}, 'rb'))))")
    assert int(out) == 14


def test_checkpoints_are_pytorchs(tmp_path):
    path = tmp_path / "c.pt"
    program(
        f"""
        import torch, zipfile
        model = torch.nn.TransformerEncoderLayer(4, 1, 4)
        torch.save({{"model": model, "state": model.state_dict(), "dtype": torch.float16}}, {str(path)!r})
        back = torch.load({str(path)!r}, weights_only=False)
        assert type(back["model"]) is torch.nn.TransformerEncoderLayer
        torch.save(model.state_dict(), {str(path)!r} + "2")
        assert torch.load({str(path)!r} + "2", weights_only=True).keys() == model.state_dict().keys()
        data = zipfile.ZipFile({str(path)!r}).read("c/data.pkl")
        assert b"tocha" not in data and b"torch.nn.modules.transformer" in data
        """
    )


# -- processes ---------------------------------------------------------------------------------------------


def test_subprocesses_agree():
    out = program(
        """
        import subprocess, sys
        child = "import importlib.metadata as m; print(m.version('torch')); import torch; print(torch.__version__, torch.ones(2).sum().item())"
        print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout)
        """
    )
    assert out.split() == ["2.13.0+tocha", "2.13.0+tocha", "2.0"]


WORKERS = """
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.tensor(float(i)) ** 2, torch.__name__

    def work(rank, queue):
        queue.put((rank, torch.__name__, torch.ones(rank + 1).tolist()))

    if __name__ == "__main__":
        method = sys.argv[1]
        found = list(DataLoader(Squares(), num_workers=2, multiprocessing_context=method, batch_size=2))
        print([x.tolist() for x, _ in found], found[0][1])
        context = torch.multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=work, args=(1, queue))
        process.start()
        print(*queue.get(timeout=120))
        process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_agree(script, method):
    out = python("-m", "tocha", "run", script(WORKERS), method)
    assert out.splitlines() == ["[[0.0, 1.0], [4.0, 9.0]] ('torch', 'torch')", "1 torch [1.0, 1.0]"]


# -- commands ----------------------------------------------------------------------------------------------

PROGRAM = """
    import sys, torch
    print(__name__, sys.argv[1:], torch.__name__, sys.modules["__main__"].__dict__ is globals())
    class Here: pass
    import pickle
    pickle.dumps(Here())
"""


def test_run_a_script(script):
    out = python("-m", "tocha", "run", script(PROGRAM), "--force", "-m", "x")
    assert out.strip() == "__main__ ['--force', '-m', 'x'] torch True"


def test_run_a_module_and_code(script, tmp_path):
    script(PROGRAM, "some_module.py")
    out = subprocess.run(
        [sys.executable, "-m", "tocha", "run", "-m", "some_module", "a"],
        capture_output=True, text=True, env=ENVIRONMENT, cwd=tmp_path,
    )  # fmt: skip
    assert out.stdout.strip() == "__main__ ['a'] torch True", out.stderr
    assert (
        python("-m", "tocha", "run", "-c", "import torch, sys; print(torch.__name__, sys.argv)", "z").strip()
        == "torch ['-c', 'z']"
    )


def test_what_is_run_is_compiled_as_it_says(script):
    text = "def f(a: int): pass\nprint(f.__annotations__)"
    assert python("-m", "tocha", "run", script(text)).strip() == "{'a': <class 'int'>}"
    assert python("-m", "tocha", "run", "-c", text).strip() == "{'a': <class 'int'>}"


def test_run_without_a_program():
    assert "usage: tocha run" in python("-m", "tocha", "run", fails=True)


def test_errors_and_exit_codes_are_the_programs(script):
    done = subprocess.run([sys.executable, "-m", "tocha", "run", script("raise SystemExit(7)")], env=ENVIRONMENT)
    assert done.returncode == 7


def test_pytest_under_the_alias(script):
    path = script(
        "import torch\ndef test_it():\n    assert torch.__name__ == 'torch' and torch.ones(2).sum() == 2\n",
        "test_it.py",
    )
    assert "1 passed" in python("-m", "tocha", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider", path)


@pytest.mark.skipif(not importlib.util.find_spec("coverage"), reason="needs coverage")
def test_coverage_under_the_alias(script, tmp_path):
    path = script("import torch\nx = torch.ones(2)\nif x.sum() > 5:\n    print('never')\n")
    data = f"--data-file={tmp_path / 'data'}"
    python("-m", "tocha", "run", "-m", "coverage", "run", data, path)
    assert "75%" in python("-m", "coverage", "report", data)


@pytest.mark.skipif(not importlib.util.find_spec("IPython"), reason="needs IPython")
def test_ipython_under_the_alias(tmp_path):
    out = python(
        "-m",
        "tocha",
        "run",
        "-m",
        "IPython",
        "--no-banner",
        "--colors=NoColor",
        "-c",
        "import torch; torch.ones(2)",
        IPYTHONDIR=str(tmp_path),
    )
    assert "tensor([1., 1.])" in out


# -- environments ------------------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path):
    """A fresh environment that sees this one's packages but not its alias, and its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "e")], check=True)
    site = next((tmp_path / "e" / "lib").glob("python*/site-packages"))
    for folder in (Path(p) for p in sys.path):
        for entry in folder.iterdir() if any(folder.glob("*.dist-info")) else ():
            # Packages of an environment that has PyTorch, but not PyTorch nor .pth files that may lead to it.
            unwanted = entry.name.partition("-")[0] in ("torch", "functorch", "torchgen", "__pycache__")
            unwanted |= entry.suffix == ".pth" and not entry.name.startswith("_editable")
            if not unwanted and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    executable = str(tmp_path / "e" / "bin" / "python")

    def run(*arguments: str) -> subprocess.CompletedProcess:
        env = {k: v for k, v in ENVIRONMENT.items() if k != "TOCHA_AS_TORCH"}
        return subprocess.run([executable, *arguments], capture_output=True, text=True, env=env)

    return run, site


def test_install_status_remove(environment):
    run, _ = environment
    assert run("-m", "tocha", "alias", "status").returncode == 1
    assert run("-c", "import torch").returncode == 1
    assert run("-m", "tocha", "alias", "install").returncode == 0
    assert "installed" in run("-m", "tocha", "alias", "status").stdout
    found = run(
        "-c",
        "import importlib.metadata as m; v = m.version('torch'); import torch.nn as nn, tocha; print(v, nn.Linear.__module__, nn is tocha.nn)",
    )
    assert found.stdout.split() == ["2.13.0+tocha", "torch.nn.modules.linear", "True"], found.stderr
    assert run("-c", "import sys; print([m for m in sys.modules if 'tocha' in m])").stdout.strip() in (
        "[]",
        "['_editable_skbc_tocha']",
    )
    assert run("-m", "tocha", "alias", "remove").returncode == 0
    assert run("-c", "import torch").returncode == 1 and run("-m", "tocha", "alias", "remove").returncode == 1


def test_refused_beside_a_real_pytorch(environment):
    run, site = environment
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("__version__ = 'real'\n")
    refused = run("-c", "import tocha.as_torch")
    assert refused.returncode == 1 and "PyTorch is installed" in refused.stderr
    assert "PyTorch is installed" in run("-m", "tocha", "alias", "install").stderr
    assert "PyTorch is installed" in run("-m", "tocha", "run", "-c", "import torch").stderr
    assert "has been imported" in run("-c", "import torch, tocha.as_torch").stderr
    told = run("-m", "tocha", "run", "--force", "-c", "import torch; print(torch.__version__)")
    assert told.stdout.strip() == "2.13.0+tocha", told.stderr
    assert run("-m", "tocha", "alias", "install", "--force").returncode == 0
    assert run("-c", "import torch; print(torch.__version__)").stdout.strip() == "2.13.0+tocha"
    assert run("-m", "tocha", "alias", "remove").returncode == 0
    assert run("-c", "import torch; print(torch.__version__)").stdout.strip() == "real"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_agree_beside_a_real_pytorch(environment, script, method):
    run, site = environment
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("__version__ = 'real'\n")
    out = run("-m", "tocha", "run", "--force", script(WORKERS), method)
    assert out.stdout.splitlines() == ["[[0.0, 1.0], [4.0, 9.0]] ('torch', 'torch')", "1 torch [1.0, 1.0]"], out.stderr


def test_a_child_without_tocha_has_its_own_torch(tmp_path):
    (tmp_path / "torch.py").write_text("name = 'its own'\n")
    out = subprocess.run(
        [sys.executable, "-S", "-c", "import torch; print(torch.name)"], capture_output=True, text=True, cwd=tmp_path,
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([finder.PATH, str(tmp_path)])},
    )  # fmt: skip
    assert out.stdout.strip() == "its own", out.stderr


# -- the rest of the library under the alias ---------------------------------------------------------------


def test_names_that_are_missing():
    out = program(
        """
        import importlib
        for name in ("torch", "torch.nn", "torch.optim", "torch.utils", "torch.func", "torch.masked", "torch.utils.checkpoint"):
            try:
                importlib.import_module(name).no_such_name
            except AttributeError as error:
                assert str(error) == f"module '{name}' has no attribute 'no_such_name'", error
                print("told")
        """
    )
    assert out.split() == ["told"] * 7


def test_code_of_graphs(tmp_path):
    program(
        """
        import pickle, sys, torch
        from torch.fx.experimental.proxy_tensor import make_fx

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))
                self.linear = torch.nn.Linear(2, 2)

            def forward(self, x: torch.Tensor):
                return torch.relu(self.linear(x) * self.weight).to(torch.float64)

        traced = torch.fx.symbolic_trace(Model())
        assert "x : torch.Tensor" in traced.code and "torch.relu(" in traced.code and "to(torch.float64)" in traced.code
        assert "target=torch.relu" in str(traced.graph)
        made = make_fx(lambda x: torch.sin(x).double())(torch.ones(2))
        assert "torch.ops.aten.sin.default" in made.code and "dtype = torch.float64" in made.code
        shown = traced.print_readable(print_output=False)
        assert shown.startswith("class Model(torch.nn.Module):")
        assert not any("tocha" in text for text in (traced.code, made.code, str(traced.graph), shown))
        x = torch.ones(3, 2)
        assert torch.equal(pickle.loads(pickle.dumps(traced))(x), traced(x))
        traced.to_folder(sys.argv[1] + "/written", "Written")
        sys.path.insert(0, sys.argv[1])
        from written import Written
        assert torch.equal(Written()(x), traced(x)) and "tocha" not in open(sys.argv[1] + "/written/module.py").read()
        named = torch.fx.symbolic_trace(eval("lambda torch: torch + 1"))
        assert torch.equal(named(x), x + 1), named.code
        """,
        str(tmp_path),
    )


def test_graphs_and_compiled_functions():
    out = program(
        """
        import torch
        from torch import nn, fx
        import torch.nn.functional as F

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                return F.softplus(self.linear(x)).to(torch.float64) + torch.zeros(3, dtype=torch.float64)

        model, x = Model(), torch.ones(2, 3)
        traced = fx.symbolic_trace(model)
        assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_module", "call_function", "call_method", "get_attr", "call_function", "output"], traced.graph
        assert torch.equal(traced(x), model(x))
        from torch.fx.experimental.proxy_tensor import make_fx
        made = make_fx(model)(x)
        assert torch.equal(made(x), model(x)) and "float64" in made.code
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            assert torch.equal(compiled(x), model(x))
        print(torch.func.vmap(torch.sin)(x).shape, torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(F.relu))
        """
    )
    assert out.strip() == "torch.Size([2, 3]) torch.Tensor.add torch.nn.functional.relu"


# -- what only PyTorch has ---------------------------------------------------------------------------------


def test_modules_that_only_pytorch_has_can_be_imported_and_refuse():
    out = program(
        """
        import torch
        from torch.ao.quantization import QConfig, quantize_dynamic
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        from torch.distributed.rpc.api import _require_initialized
        from torch.distributed.fsdp.fully_sharded_data_parallel import BackwardPrefetch, ShardingStrategy
        assert torch.export.__name__ == "torch.export" and not hasattr(torch, "nothing")
        assert torch.ao.quantization.quantize_dynamic is quantize_dynamic, "one object however it is reached"
        assert not torch.distributed.rpc.is_available() and not isinstance(torch.nn.Linear(1, 1), FSDP)
        assert torch.onnx.TrainingMode.EVAL == 0 and not torch.onnx.is_in_onnx_export()
        assert torch.distributed.fsdp.BackwardPrefetch is BackwardPrefetch and ShardingStrategy.FULL_SHARD
        assert issubclass(torch.jit.TracerWarning, Warning)

        @_require_initialized
        def far(): ...

        for use in (QConfig, quantize_dynamic, FSDP, far, torch.cuda.graph, lambda: torch.onnx.export(None)):
            try:
                use()
            except NotImplementedError as error:
                print(str(error).split()[0])
        """
    )
    assert out.split() == [
        "[torch.ao.quantization.qconfig.QConfig]", "[torch.ao.quantization.quantize.quantize_dynamic]",
        "[torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel]", "[torch.distributed.rpc.api._require_initialized]",
        "[torch.cuda.graphs.graph]", "[onnx.export]",
    ]  # fmt: skip


def test_insides_of_the_compiler_can_be_imported_and_refuse():
    out = program(
        """
        import torch
        import torch._inductor.fx_passes.post_grad
        from torch._inductor.codecache import PyCodeCache
        from torch._inductor.lowering import make_fallback, register_lowering
        from torch._inductor.pattern_matcher import CallFunction, joint_fwd_bwd, register_lowering_pattern
        assert not isinstance(torch.ops.aten.sin.default, CallFunction)
        assert torch._inductor.utils.run_and_get_code is not None and not torch._inductor.config.max_autotune

        for use in (PyCodeCache, make_fallback, register_lowering, joint_fwd_bwd, register_lowering_pattern):
            try:
                use()
            except NotImplementedError as error:
                print(str(error).split()[0])
        """
    )
    assert out.split() == [
        "[torch._inductor.codecache.PyCodeCache]", "[torch._inductor.lowering.make_fallback]",
        "[torch._inductor.lowering.register_lowering]", "[torch._inductor.pattern_matcher.joint_fwd_bwd]",
        "[torch._inductor.pattern_matcher.register_lowering_pattern]",
    ]  # fmt: skip


def test_quantization_can_be_named_by_both_paths_and_refuses():
    out = program(
        """
        import torch, torch.quantization
        from torch.ao.quantization import FakeQuantize, MinMaxObserver, QuantStub, convert, get_default_qconfig, prepare
        from torch.ao.quantization.quantize_fx import prepare_fx
        from torch.ao.nn.quantized import Linear

        assert torch.quantization.prepare is prepare and not isinstance(torch.nn.Linear(1, 1), Linear)
        model = torch.nn.Linear(1, 1)
        uses = [
            QuantStub, FakeQuantize, MinMaxObserver, get_default_qconfig, lambda: Linear(1, 1), lambda: prepare(model), lambda: convert(model),
            lambda: prepare_fx(model, {}, None), lambda: torch.quantization.quantize_dynamic(model),
        ]
        for use in uses:
            try:
                print(use())
            except NotImplementedError as error:
                assert "is not built in tocha" in str(error)
                print(str(error).split()[0].rpartition(".")[2].strip("]"))
        """
    )
    assert out.split() == [
        "QuantStub", "FakeQuantize", "MinMaxObserver", "get_default_qconfig", "Linear", "prepare", "convert", "prepare_fx", "quantize_dynamic",
    ]  # fmt: skip


def test_classes_of_scripts_can_be_named():
    """Translations to ONNX are annotated with them; a native name that is not there is not there."""
    out = program(
        """
        import torch

        def symbolic(g: torch._C.Graph, x: torch._C.Value) -> torch.Value: ...

        assert torch.Value is torch._C.Value and torch._C.FunctionSchema is torch.FunctionSchema
        assert torch._C.finfo is torch.finfo and repr(torch.finfo) == "<class 'torch.finfo'>"
        assert not hasattr(torch._C, "_cuda_getDeviceCount") and not hasattr(torch._C, "Nothing")
        assert torch.legacy_contiguous_format is torch.contiguous_format
        try:
            torch._C.Graph()
        except NotImplementedError as error:
            print(error)
        """
    )
    assert out.startswith("[torch._C.Graph] is not built in tocha")


def test_operators_that_only_pytorch_has_can_be_named():
    out = program(
        """
        import torch
        named = {torch.ops.aten._pin_memory.default: 1}
        print(torch.ops.aten._pin_memory.default._schema)
        try:
            torch.ops.aten._pin_memory(torch.ones(1))
        except NotImplementedError as error:
            print("refused" if "aten::_pin_memory" in str(error) else error)
        assert not hasattr(torch.ops.aten, "nothing")
        """
    )
    assert out.splitlines() == ["aten::_pin_memory(Tensor self, Device? device=None) -> Tensor", "refused"]


def test_parts_of_checkpoints(tmp_path):
    path = str(tmp_path / "c.pt")
    out = program(
        f"""
        import torch
        torch.save({{"a": torch.arange(3.0)}}, {path!r})
        reader = torch._C.PyTorchFileReader({path!r})
        assert torch.PyTorchFileReader is torch._C.PyTorchFileReader and reader.has_record("data/0")
        print(reader.get_all_records(), reader.get_storage_from_record("data/0", 3, torch.float32), reader.get_record("version"))
        """
    )
    assert "'data.pkl'" in out and "tensor([0., 1., 2.]) b'3\\n'" in out


def test_whoever_looks_through_optim_finds_every_optimizer():
    out = program(
        """
        import torch
        found = {n for n, v in torch.optim.__dict__.items() if isinstance(v, type) and issubclass(v, torch.optim.Optimizer)}
        assert {"Adam", "LBFGS", "SGD", "RMSprop", "Optimizer"} <= found, found
        assert torch.optim.Adam.__module__ == "torch.optim.adam"
        print("ok")
        """
    )
    assert out.strip() == "ok"


def test_tensors_of_transforms_by_their_native_names():
    out = program(
        """
        import torch
        from torch._C._functorch import get_unwrapped, is_batchedtensor, is_gradtrackingtensor, maybe_get_bdim, maybe_get_level

        def f(x):
            print(is_batchedtensor(x), is_gradtrackingtensor(x), maybe_get_bdim(x), maybe_get_level(x), *get_unwrapped(x).shape)
            return x.sum()

        torch.func.vmap(f, in_dims=1)(torch.ones(2, 3))
        torch.func.vmap(torch.func.grad(f))(torch.ones(2, 3))
        print(is_batchedtensor(torch.ones(1)), maybe_get_level(torch.ones(1)))
        """
    )
    assert out.splitlines() == ["True False 1 1 2 3", "False True -1 2 3", "False -1"]
