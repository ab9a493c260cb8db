"""The reference: every public name and operator has a page with an example, and the examples run."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

import tocha

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from reference import names, sessions  # noqa: E402

REFUSED = "refuses when it is used"
OTHER_DEVICE = "needs a device that is not here"
# Names whose page has no example, and why.
WITHOUT = {
    **dict.fromkeys(
        (
            "tocha.Tensor.dequantize", "tocha.Tensor.eig", "tocha.Tensor.int_repr", "tocha.Tensor.lstsq", "tocha.Tensor.q_per_channel_axis",
            "tocha.Tensor.q_per_channel_scales", "tocha.Tensor.q_per_channel_zero_points", "tocha.Tensor.q_scale", "tocha.Tensor.q_zero_point",
            "tocha.Tensor.qscheme", "tocha.Tensor.reinforce", "tocha.Tensor.solve", "tocha.Tensor.symeig", "tocha.Tensor.to_mkldnn",
            "tocha.Tensor.volatile", "tocha.autograd.NestedIOFunction", "tocha.sparse.spsolve", "tocha.utils.data.MapDataPipe",
            "tocha.utils.data.functional_datapipe", "tocha.serialization.storage_to_tensor_type",
            "tocha.library.wrap_triton", "tocha.jit.CompilationUnit", "tocha.jit.export_opnames", "tocha.jit.load", "tocha.jit.save",
            "tocha.distributed.irecv", "tocha.distributed.isend", "tocha.distributed.recv", "tocha.distributed.send",
            "tocha.nn.functional.scaled_grouped_mm", "tocha.utils.generate_methods_for_privateuse1_backend",
            "tocha.utils.rename_privateuse1_backend",
        ),
        REFUSED,
    ),
    **dict.fromkeys(
        (
            "tocha.Tensor.cuda", "tocha.Tensor.ipu", "tocha.Tensor.mtia", "tocha.Tensor.pin_memory", "tocha.Tensor.record_stream",
            "tocha.Tensor.xpu", "tocha.serialization.validate_cuda_device", "tocha.serialization.validate_hpu_device",
        ),
        OTHER_DEVICE,
    ),
    **dict.fromkeys(
        (
            "tocha.multiprocessing.ProcessContext", "tocha.multiprocessing.SpawnContext", "tocha.multiprocessing.spawn",
            "tocha.multiprocessing.start_processes",
        ),
        "starts processes that import the program that calls it",
    ),
    **dict.fromkeys(
        ("tocha.compiler.bisect", "tocha.compiler.load_cache_artifacts", "tocha.compiler.load_compiled_function"),
        "compiles: shown in the guides",
    ),
    "tocha.compiler.substitute_in_graph": "changes capture for the whole process",
    "tocha.library.register_torch_dispatch": "changes an operator for the whole process",
    "tocha.serialization.StorageType": "a type alias",
}  # fmt: skip


@cache
def by_module() -> dict[str, list[names.Entry]]:
    found: dict[str, list[names.Entry]] = {}
    for entry in names.entries():
        found.setdefault(entry.module, []).append(entry)
    return found


@pytest.fixture(autouse=True)
def as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("TOCHA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.chdir(tmp_path)
    state = tocha.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names say so
        yield
    tocha.set_rng_state(state)


def wrong_examples(module: str) -> list[str]:
    wrong = []
    for entry in by_module().get(module, []):
        steps = sessions.session(entry)
        if steps:
            wrong += sessions.run(entry, steps)
    return wrong


@pytest.mark.parametrize("module", [m for m in (*names.MODULES, names.OPERATOR_MODULE) if m != "tocha.library"])
def test_examples_of_a_module_run(module):
    wrong = wrong_examples(module)
    assert not wrong, "\n".join(wrong)


def test_examples_that_define_operators_run():
    """In a process of their own: a name can be defined once, and other tests run the same docstrings."""
    code = "import test_reference; print('\\n'.join(test_reference.wrong_examples('tocha.library')))"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stdout + ran.stderr


def test_every_name_has_an_example():
    everything = [e for found in by_module().values() for e in found]
    assert len({e.name for e in everything}) == len(everything) > 2400
    bare = {e.name for e in everything if not any(want for _, want in sessions.session(e))}
    assert bare == WITHOUT.keys()
    assert len(bare) < len(everything) * 0.025


def test_every_operator_has_an_example_that_calls_it():
    """An operator's own example, not one that happens to print something."""
    names.records_by_path()
    for o in names.OPERATORS.values():
        if o.name.startswith("_"):
            continue
        name = o.name.removeprefix("nn_") if o.namespace == "nn" else o.public_name
        tree = ast.parse("\n".join(source for source, _ in sessions.parse(o.example)))
        assert any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(tree)), o.full_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tocha.absolute", [("tocha.absolute(tocha.tensor([-1.5, 0.0, 2.0]))", "tensor([1.5000, 0.0000, 2.0000])\n")]),
        ("tocha.Tensor.sub_", [("x = tocha.tensor([5, 7])", ""), ("x.sub_(tocha.tensor([1, 2]))", "tensor([4, 5])\n")]),
        ("tocha.special.expit", [("tocha.special.expit(tocha.tensor([-2.0, 0.0, 2.0]))", "tensor([0.1192, 0.5000, 0.8808])\n")]),
    ],
)  # fmt: skip
def test_forms_are_derived_from_one_example(name, expected):
    entry = next(e for found in by_module().values() for e in found if e.name == name)
    assert sessions.session(entry) == expected


def test_a_wrong_output_is_noticed():
    entry = names.Entry("tocha.exp", "tocha", tocha.exp)
    assert sessions.run(entry, [("tocha.exp(tocha.zeros(1))", "tensor([2.])\n")])
    assert not sessions.run(entry, [("tocha.exp(tocha.zeros(1))", "tensor([1.0000])\n")])
    assert sessions.run(entry, [("tocha.zeros(3).long()", "tensor([0, 0, 1])\n")])
