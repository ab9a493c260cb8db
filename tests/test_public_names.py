"""Names beside the operators: saving options, checkpoint helpers, overridable functions, small methods of tensors."""

from __future__ import annotations

import contextlib
import inspect
import io
import mmap
import pickle
import weakref
import zipfile

import pytest

import tocha
from tocha import overrides, serialization
from tocha.serialization import LoadEndianness
from tocha.utils import checkpoint

# -- serialization ---------------------------------------------------------------------------------------


def saved(obj, **kwargs):
    buffer = io.BytesIO()
    tocha.save(obj, buffer, **kwargs)
    buffer.seek(0)
    return buffer


def test_checksums_can_be_left_out():
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    try:
        buffer = saved({"a": tocha.ones(4)})
    finally:
        serialization.set_crc32_options(True)
    assert {i.CRC for i in zipfile.ZipFile(buffer).infolist()} == {0}
    buffer.seek(0)
    assert tocha.load(buffer)["a"].tolist() == [1.0] * 4
    assert 0 not in {i.CRC for i in zipfile.ZipFile(saved(tocha.ones(4))).infolist()}


def test_tensor_types_may_be_named_in_files_and_not_called():
    assert tocha.load(saved({"kind": tocha.LongTensor})) == {"kind": tocha.LongTensor}

    class Calls:
        def __reduce__(self):
            return tocha.LongTensor, (10**9,)

    with pytest.raises(pickle.UnpicklingError, match="LongTensor"):
        tocha.load(saved(Calls()))


@pytest.mark.parametrize(
    ("order", "first"),
    [(None, 1), (LoadEndianness.NATIVE, 1), (LoadEndianness.LITTLE, 1), (LoadEndianness.BIG, 256)],
)
def test_byte_order_of_files_without_a_mark(order, first):
    plain = saved(tocha.tensor([1], dtype=tocha.int16), _disable_byteorder_record=True)
    marked = saved(tocha.tensor([1], dtype=tocha.int16))
    serialization.set_default_load_endianness(order)
    try:
        assert serialization.get_default_load_endianness() is order
        assert tocha.load(plain).item() == first and tocha.load(marked).item() == 1
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type"):
        serialization.set_default_load_endianness(2)


@pytest.mark.parametrize(("flags", "first"), [(mmap.MAP_SHARED, 9.0), (mmap.MAP_PRIVATE, 1.0)])
def test_mapped_files_are_written_only_when_shared(tmp_path, flags, first):
    path = tmp_path / "weights.pt"
    tocha.save({"a": tocha.ones(3), "b": tocha.zeros(2)}, path)
    with serialization.set_default_mmap_options(flags):
        loaded = tocha.load(path, mmap=True)
        loaded["a"][0] = 9.0
        del loaded
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    again = tocha.load(path)
    assert again["a"].tolist() == [first, 1.0, 1.0] and again["b"].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got 3"):
        serialization.set_default_mmap_options(3)


# -- autograd and checkpoints ----------------------------------------------------------------------------


def test_checkpoint_helpers():
    x = tocha.ones(2, requires_grad=True)
    (detached, word) = checkpoint.detach_variable((x * 2, "word"))
    assert detached.is_leaf and detached.requires_grad and word == "word"
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        checkpoint.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint.check_backward_validity([tocha.ones(1), 3])
    assert checkpoint.get_device_states(x, 3) == ([], [])
    checkpoint.set_device_states([], [])
    with pytest.raises(RuntimeError, match="no random generator"):
        checkpoint.set_device_states([0], [tocha.get_rng_state()], device_type="cuda")
    checkpoint.CheckpointFunction.apply(lambda t: t.exp(), True, x).sum().backward()
    assert tocha.equal(x.grad, x.detach().exp())


def test_default_device_type():
    kind = checkpoint.DefaultDeviceType
    assert kind.get_device_type() == "cpu"
    kind.set_device_type("cuda")
    try:
        assert kind.get_device_type() == "cuda"
    finally:
        kind.set_device_type("cpu")


def test_multithreading_switch():
    autograd = tocha.autograd
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()


def test_saved_tensors_may_be_written_over():
    x = tocha.ones(4, requires_grad=True)
    with tocha.autograd.graph.allow_mutation_on_saved_tensors():
        b = x.clone()
        first = (b[:2] ** 2).sum()
        b *= 3
        second = (b**2).sum()
        b[0] = 7.0
        with tocha.no_grad():
            tocha.mul(b, 2, out=b.detach())
        (first + second).backward()
    assert x.grad.tolist() == [20.0, 20.0, 18.0, 18.0]


def test_writing_over_saved_tensors_ends_with_the_context():
    context = tocha.autograd.graph.allow_mutation_on_saved_tensors
    with context():
        x = tocha.ones(2, requires_grad=True)
        out = (x.clone() ** 2).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"), context():
            pass
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()


# -- overrides -------------------------------------------------------------------------------------------


def test_overridable_functions_are_those_that_ask():
    functions = overrides.get_overridable_functions()
    ignored = overrides.get_ignored_functions()
    assert tocha.add in functions[tocha] and tocha.Tensor.add in functions[tocha.Tensor]
    assert tocha.einsum in functions[tocha] and tocha.linalg.solve in functions[tocha.linalg]
    assert {tocha.ones, tocha.manual_seed, tocha.tensor} <= ignored and tocha.zeros_like not in ignored

    class Stand:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    asked = [f for f in functions[tocha.special] if _first_answer(f, Stand()) is f]
    assert len(asked) == len(functions[tocha.special]) > 40


def _first_answer(f, operand):
    """What f returns for one of the ways in which functions take operands."""
    for arguments in ((operand,), (operand, operand), (operand,) * 3, (operand, 0), (0, operand)):
        with contextlib.suppress(TypeError):
            return f(*arguments)
    return None


def test_testing_overrides_have_the_functions_parameters():
    fakes = overrides.get_testing_overrides()
    assert fakes[tocha.add](1, 2) == -1
    assert list(inspect.signature(fakes[tocha.cat]).parameters) == ["tensors", "dim", "out"]
    assert list(inspect.signature(fakes[tocha.Tensor.add]).parameters) == ["self", "other", "alpha"]
    for f in (f for group in overrides.get_overridable_functions().values() for f in group):
        assert f in fakes


def test_names_and_kinds_of_functions():
    shape = tocha.Tensor.shape.__get__
    assert overrides.resolve_name(shape) == "tocha.Tensor.shape.__get__"
    assert overrides.resolve_name(tocha.nn.functional.relu) == "tocha.nn.functional.relu"
    kinds = [tocha.Tensor.add, tocha.Tensor.__add__, tocha.Tensor.storage, shape, tocha.add, len]
    found = [overrides.is_tensor_method_or_property(f) for f in kinds]
    assert found == [True, True, True, True, False, False]


# -- utilities and small methods -------------------------------------------------------------------------


def test_swapped_tensors_exchange_all_but_identity():
    a = tocha.ones(2)
    b = tocha.nn.Parameter(tocha.zeros(3, dtype=tocha.float64))
    b.word = "b"
    b.grad = tocha.full((3,), 5.0, dtype=tocha.float64)
    tocha.utils.swap_tensors(a, b)
    assert type(a) is tocha.nn.Parameter and a.dtype == tocha.float64 and a.word == "b"
    assert a.requires_grad and a.grad.tolist() == [5.0] * 3
    assert type(b) is tocha.Tensor and b.tolist() == [1.0, 1.0] and not b.requires_grad and b.grad is None


def test_what_cannot_be_swapped():
    a, b = tocha.ones(2), tocha.zeros(2)
    held = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        tocha.utils.swap_tensors(a, b)
    del held
    view = b[:1]
    with pytest.raises(RuntimeError, match="Cannot swap t2: 1 views of it"):
        tocha.utils.swap_tensors(a, b)
    assert view.tolist() == [0.0]
    with pytest.raises(TypeError, match="t2 must be a Tensor, not int"):
        tocha.utils.swap_tensors(a, 3)
    assert a.tolist() == [1.0, 1.0]


def test_dlpack():
    from tocha.utils import dlpack

    x = tocha.arange(3.0)
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLCPU


def test_types_for_annotations():
    assert isinstance(tocha.ones(1).untyped_storage(), tocha.types.Storage)
    assert tocha.types.Number == int | float | bool and tocha.Storage is tocha.FloatStorage


def test_return_types_of_calls_with_out():
    types = tocha.return_types
    out = (tocha.empty(2), tocha.empty(2, dtype=tocha.long))
    assert isinstance(tocha.max(tocha.ones(2, 2), 0, out=out), types.max_out)
    assert types.max in types.all_return_types
    with pytest.raises(AttributeError, match="has no attribute 'nothing_out'"):
        _ = types.nothing_out


def test_python_for_every_element():
    x = tocha.arange(4.0).reshape(2, 2)
    assert x.t().clone().apply_(lambda v: v * 2).tolist() == [[0.0, 4.0], [2.0, 6.0]]
    assert x.long().apply_(lambda v: v + 1.5).tolist() == [[1, 2], [3, 4]]
    assert x.clone().map_(tocha.tensor([10.0, 20.0]), lambda a, b: a + b).tolist() == [[10.0, 21.0], [12.0, 23.0]]
    assert x.clone().map2_(x, x, lambda a, b, c: a + b * c).tolist() == [[0.0, 2.0], [6.0, 12.0]]
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        x.clone().requires_grad_().apply_(abs)
    with pytest.raises(TypeError, match=r"map_: expected tocha.FloatTensor for 'other' \(got tocha.DoubleTensor\)"):
        x.clone().map_(x.double(), max)


def test_small_questions():
    x = tocha.ones(2, 3)
    assert x.t().dim_order() == (1, 0)
    with pytest.raises(RuntimeError, match="unique dim order"):
        tocha.ones(1, 1).dim_order(ambiguity_check=True)
    assert tocha.is_nonzero(tocha.tensor([2])) and not tocha.tensor(0).is_nonzero()
    with pytest.raises(RuntimeError, match="ambiguous"):
        tocha.is_nonzero(x)
    assert tocha.is_same_size(x, x) and tocha.is_signed(x) and tocha.get_device(x) == -1
    assert not (x.is_mps or x.is_xpu or x.is_mkldnn) and x.storage_type() is tocha.FloatStorage
    with pytest.raises(TypeError, match=r"argument 'input' .* must be Tensor, not int"):
        tocha.is_signed(3)


def test_anomaly_switch():
    tocha.set_anomaly_enabled(True, False)
    try:
        assert tocha.is_anomaly_enabled() and not tocha.is_anomaly_check_nan_enabled()
    finally:
        tocha.set_anomaly_enabled(False)
    assert not tocha.is_anomaly_enabled() and tocha.is_anomaly_check_nan_enabled()


def test_older_names_of_autocast_warn():
    with pytest.warns(DeprecationWarning, match=r"is_autocast_enabled\('cpu'\)"):
        assert not tocha.is_autocast_cpu_enabled()
    with pytest.warns(DeprecationWarning):
        assert tocha.get_autocast_cpu_dtype() == tocha.bfloat16


def test_modules_are_loaded_when_asked_for():
    import subprocess
    import sys

    code = (
        "import sys, tocha; print([m for m in ('cuda', 'backends', 'testing', 'cpu') if f'tocha.{m}' in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_private_modules_have_pytorchs_names():
    """Programs reach into these as attributes of the package; each in a new process, where nothing else has loaded it."""
    import subprocess
    import sys

    names = ("_tensor", "_tensor_str", "_utils", "_ops", "_lowrank", "_lobpcg", "_library", "storage")
    code = "import sys, tocha; print(getattr(tocha, sys.argv[1]).__name__)"
    for name in names:
        done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True)
        assert done.stdout == f"tocha.{name}\n"


def test_older_home_of_the_profilers_names():
    from tocha.autograd import profiler

    with profiler.profile() as found, profiler.record_function("part"):
        tocha.ones(2).sum()
    assert isinstance(found.key_averages(), profiler.EventList)
    assert all(isinstance(event, profiler.FunctionEvent) for event in found.function_events)
    assert profiler.kineto_available() in (True, False)


def test_dictionaries_that_know_tensors_by_identity():
    from tocha.utils.weak import TensorWeakRef, WeakIdKeyDictionary

    x, y = tocha.ones(2), tocha.zeros(2)
    table, reference = WeakIdKeyDictionary({x: 1, y: 2}), TensorWeakRef(x)
    assert table[x] == 1 and tocha.ones(2) not in table and reference() is x and table.copy() == table
    del x
    assert len(table) == 1 and reference() is None and table.pop(y) == 2


def test_dtypes_of_quantized_tensors_are_names():
    assert isinstance(tocha.qint8, tocha.dtype) and repr(tocha.qint8) == "tocha.qint8" and tocha.qint32.itemsize == 4
    assert (
        pickle.loads(pickle.dumps(tocha.quint8)) is tocha.quint8 and len({tocha.qint8, tocha.quint8, tocha.int8}) == 3
    )
    with pytest.raises(TypeError, match="dtype"):
        tocha.ones(2, dtype=tocha.qint8)


def test_assert_async():
    tocha._assert_async(tocha.tensor(1.0))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        tocha._assert_async(tocha.tensor(False))
    with pytest.raises(RuntimeError, match="mine"):
        tocha._assert_async(tocha.tensor(False), "mine")


def test_operands_of_einsum_reach_overrides_side_by_side():
    seen = []

    class Mine(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append([type(a).__name__ for a in args])
            return super().__torch_function__(func, types, args, kwargs)

    x = tocha.ones(2, 2).as_subclass(Mine)
    tocha.einsum("ij,jk", (x, x))
    assert seen[0] == ["str", "Mine", "Mine"]


def test_groups_of_one_rank(monkeypatch, tmp_path):
    from tocha import distributed

    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        distributed.get_node_local_rank()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = tocha.arange(3.0)
        distributed.all_reduce_coalesced([x, x + 1])
        mine, every = distributed.new_subgroups(1)
        assert x.tolist() == [0.0, 1.0, 2.0] and every == [mine] and distributed.get_world_size(mine) == 1
        with pytest.raises(ValueError, match="must not exceed the world size"):
            distributed.new_subgroups(2)
    finally:
        distributed.destroy_process_group()
    assert distributed.get_node_local_rank(3) == 3
