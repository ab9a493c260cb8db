"""Names that refuse, tensors in files, and small methods of tensors."""

from __future__ import annotations

import pytest

import tocha


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions(name):
    with pytest.raises(RuntimeError, match=r"deprecated since version 1\.9 and is now removed"):
        getattr(tocha, name)(tocha.ones(2, 2))
    if name != "matrix_rank":
        with pytest.raises(RuntimeError, match="is now removed"):
            getattr(tocha.ones(2, 2), name)()


@pytest.mark.parametrize("name", ["cudnn_batch_norm", "quantize_per_tensor", "miopen_rnn", "mkldnn_convolution"])
def test_kernels_of_other_backends(name):
    with pytest.raises(
        NotImplementedError, match=f"Could not run 'aten::{name}' with arguments from the 'CPU' backend"
    ):
        getattr(tocha, name)(tocha.ones(2, 2))


def test_methods_of_other_devices():
    x = tocha.ones(2)
    for name, error in (("xpu", AssertionError), ("mtia", AssertionError), ("ipu", RuntimeError)):
        with pytest.raises(error, match=name.upper()):
            getattr(x, name)()
    with pytest.raises(RuntimeError):
        x.record_stream(None)
    with pytest.raises(NotImplementedError, match="q_scale"):
        x.q_scale()
    assert not x.is_distributed()
    assert x.const_data_ptr() == x.data_ptr()
    assert x.module_load(tocha.zeros(2)).tolist() == [0.0, 0.0] == x.tolist()
    other = tocha.ones(3)
    assert x.module_load(other, assign=True).data_ptr() == other.data_ptr()


def test_no_attribute_is_still_an_error():
    with pytest.raises(AttributeError, match="no attribute 'cudnn_nothing'"):
        _ = tocha.cudnn_nothing


def test_shared_files(tmp_path):
    path = str(tmp_path / "numbers")
    x = tocha.from_file(path, shared=True, size=4, dtype=tocha.int16)
    assert x.tolist() == [0, 0, 0, 0]
    x[1] = 7
    again = tocha.from_file(path, shared=True, size=4, dtype=tocha.int16)
    assert again.tolist() == [0, 7, 0, 0]
    again[2] = 9
    assert x.tolist() == [0, 7, 9, 0]


def test_private_files(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(8)))
    x = tocha.from_file(str(path), size=8, dtype=tocha.uint8)
    x[0] = 99
    assert x[:3].tolist() == [99, 1, 2]
    assert path.read_bytes() == bytes(range(8))
    assert tocha.from_file(str(path), size=0).numel() == 0
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size"):
        tocha.from_file(str(path), size=100)
    with pytest.raises(RuntimeError, match="unable to open file"):
        tocha.from_file(str(tmp_path / "absent"), size=1)
    with pytest.raises(RuntimeError, match="pinned"):
        tocha.from_file(str(path), size=1, pin_memory=True)


def test_hash_tensor():
    x = tocha.tensor([[1.0, 2.0], [2.0, 1.0]])
    assert x.hash_tensor().item() == 0
    assert x.hash_tensor(1).tolist() == [(0x3FF << 52) ^ (0x400 << 52)] * 2
    assert tocha.hash_tensor(tocha.tensor([-1], dtype=tocha.int8)).item() == 2**64 - 1
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode: 1"):
        x.hash_tensor(mode=1)


def test_scaled_products():
    a = tocha.ones(2, 3).to(tocha.float8_e5m2)
    half = tocha.tensor(0.5)
    assert tocha._scaled_mm(a, a.t(), half, half).tolist() == [[0.75, 0.75]] * 2
    rows = tocha._scaled_mm(a, a.t(), tocha.tensor([[1.0], [2.0]]), tocha.tensor([[1.0, 3.0]]), out_dtype=tocha.float32)
    assert rows.tolist() == [[3.0, 9.0], [6.0, 18.0]]
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        tocha._scaled_mm(a.float(), a.t(), half, half)


TEXT = "a b c\nd e f\ng a h\na a a\n"


def test_file_check():
    check = tocha.testing.FileCheck
    check().check("a").check_next("e").check_same("f").check_not("zz").check("g").run(TEXT)
    check().check_dag("e").check_dag("b").check_count("a", 4, exactly=True).run(TEXT)
    check().check_regex("d . f").run(TEXT)
    check().check_source_highlighted("x + y").run("z = x + y\n    ~~~~~\n")
    check().run("# CHECK: d\n# CHECK-SAME: f\n", TEXT)
    bad = [
        check().check("e").check("b"), check().check("a").check_next("g"), check().check("a").check_same("e"),
        check().check("a").check_not("e").check("g"), check().check_count("a", 6), check().check_dag("e").check_dag("zz"),
        check().check_count("a", 4, exactly=True), check().check_regex("d x f"), check().check_source_highlighted("e"), check(),
    ]  # fmt: skip
    for checks in bad:
        with pytest.raises(RuntimeError):
            checks.run(TEXT)


def test_overrides_of_one_and_several_arguments():
    class Taker:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return None

    assert tocha.overrides.has_torch_function_unary(Taker())
    assert not tocha.overrides.has_torch_function_unary(tocha.ones(1))
    assert tocha.overrides.has_torch_function_variadic(1, Taker())
    assert not tocha.overrides.has_torch_function_variadic(1, 2)
    assert tocha.Tensor.grad.__get__ in tocha.overrides.get_default_nowrap_functions()


def test_old_types_of_sparse_tensors():
    with pytest.warns(UserWarning, match="SparseTensor.* is deprecated"):
        made = tocha.sparse.DoubleTensor(2, 3)
    assert made.layout == tocha.sparse_coo and made.dtype == tocha.float64 and made.shape == (2, 3)
    assert isinstance(made, tocha.sparse.DoubleTensor) and not isinstance(made, tocha.DoubleTensor)
    assert made.type() == "tocha.sparse.DoubleTensor"
    assert tocha.sparse.FloatTensor(tocha.tensor([[1]]), tocha.ones(1), (3,)).to_dense().tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(TypeError, match="only accepts sizes"):
        tocha.sparse.FloatTensor([1, 2])


def test_helpers_that_packages_optimizers_take():
    helpers = tocha.optim.optimizer
    assert helpers._get_value(tocha.tensor(2.0)) == 2.0
    complex_ones = [tocha.ones(2, dtype=tocha.complex64)]
    helpers._view_as_real(complex_ones)
    assert complex_ones[0].shape == (2, 2)
    assert helpers._disable_dynamo_if_unsupported()(len) is len


def test_contexts_of_packages_decorate():
    from tocha.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager, context_decorator

    seen = []

    class Counted(_DecoratorContextManager):
        def __enter__(self):
            seen.append(self)

        def __exit__(self, *exception):
            seen.append(None)

    class Bare(_NoParamDecoratorContextManager, Counted):
        pass

    assert Counted()(lambda x: x + 1)(1) == 2 and Bare(lambda x: x + 1)(1) == 2 and Bare()(lambda x: x + 1)(1) == 2
    assert context_decorator(lambda: Counted(), lambda x: x + 1)(1) == 2
    assert len(seen) == 8 and seen[1::2] == [None] * 4 and len({id(s) for s in seen[::2]}) == 4
    with pytest.raises(AssertionError, match="both callable and also a valid context manager"):
        context_decorator(Counted(), len)
    assert isinstance(tocha.no_grad(), _DecoratorContextManager)


def test_decorated_classes_are_made_in_the_context():
    class Made:
        def __init__(self):
            self.grad = tocha.is_grad_enabled()

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        decorated = tocha.no_grad()(Made)
    assert decorated().grad is False and tocha.is_grad_enabled()


def test_onnx_exports_nothing():
    """Packages register how their operators are written and ask whether an export is under way."""
    onnx = tocha.onnx
    assert not onnx.is_in_onnx_export() and onnx.TrainingMode.TRAINING == 2
    assert onnx.OperatorExportTypes.ONNX_FALLTHROUGH == 3 and onnx.TensorProtoDataType.BFLOAT16 == 16
    onnx.register_custom_op_symbolic("mine::twice", lambda g, x: g.op("Add", x, x), 17)
    onnx.unregister_custom_op_symbolic("mine::twice", 17)
    onnx.unregister_custom_op_symbolic("mine::twice", 17)
    for name in ("twice", "::twice", "mine::"):
        with pytest.raises(onnx.OnnxExporterError, match="Failed to register operator"):
            onnx.register_custom_op_symbolic(name, lambda g, x: x, 17)
    with pytest.raises(NotImplementedError, match=r"onnx\.export"):
        onnx.export(tocha.nn.Linear(1, 1), (tocha.ones(1, 1),), "model.onnx")

    @onnx.symbolic_helper.parse_args("v", "i", "none")
    def written(g, x, axis, other):
        return x

    assert written(None, 1, 2, 3) == 1


def test_the_older_base_of_transposed_convolutions():
    from tocha.nn.modules.conv import _ConvTransposeMixin

    assert not isinstance(tocha.nn.ConvTranspose2d(1, 1, 1), _ConvTransposeMixin)
    pair = ((1, 1), (1, 1), (0, 0), (1, 1))
    with pytest.warns(FutureWarning, match="deprecated internal class"):
        made = _ConvTransposeMixin(2, 4, *pair, True, (0, 0), 1, True, "zeros")
    assert made.weight.shape == (2, 4, 1, 1)
