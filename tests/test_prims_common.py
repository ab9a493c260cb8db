"""Small questions about dtypes, shapes and strides (tocha._prims_common)."""

import pytest

import tocha
from tocha import _prims_common as p
from tocha._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from tocha._prims_common import REDUCTION_OUTPUT_TYPE_KIND as OUT

half, ints, bools = (tocha.ones(2, 3, dtype=d) for d in (tocha.float16, tocha.int32, tocha.bool))
double, numbers = tocha.ones((), dtype=tocha.float64), tocha.ones(2, dtype=tocha.complex64)


@pytest.mark.parametrize(
    ("args", "kind", "wanted"),
    [
        ((half, ints), KIND.DEFAULT, (tocha.float32, tocha.float16)),
        ((half, double), KIND.NO_OPMATH, (tocha.float16, tocha.float16)),
        ((ints, double), KIND.DEFAULT, (tocha.float64, tocha.float64)),
        ((ints, 1.5), KIND.DEFAULT, (tocha.float32, tocha.float32)),
        ((bools, 1), KIND.DEFAULT, (tocha.int64, tocha.int64)),
        ((bools,), KIND.BOOL_TO_LONG, (tocha.int64, tocha.int64)),
        ((ints,), KIND.INT_TO_FLOAT, (tocha.float32, tocha.float32)),
        ((numbers,), KIND.COMPLEX_TO_FLOAT, (tocha.complex64, tocha.float32)),
        ((half, None), KIND.ALWAYS_BOOL, (tocha.float32, tocha.bool)),
        ((1, 2j), KIND.DEFAULT, (tocha.complex64, tocha.complex64)),
    ],
)
def test_dtypes_of_elementwise_operators(args, kind, wanted):
    assert p.elementwise_dtypes(*args, type_promotion_kind=kind) == wanted


def test_other_dtypes():
    assert p.get_higher_dtype(tocha.int8, tocha.uint8) is tocha.int16
    assert p.get_higher_dtype(tocha.float16, tocha.bfloat16) is tocha.float32
    assert p.get_higher_dtype(half, None) is tocha.float16
    assert p.corresponding_real_dtype(tocha.complex64) is tocha.float32
    assert p.reduction_dtypes(numbers, OUT.COMPLEX_TO_FLOAT) == (tocha.complex64, tocha.float32)
    assert p.type_to_dtype(float) is tocha.float32 and p.dtype_to_type(tocha.uint16) is int
    assert p.get_acc_type(tocha.bfloat16, tocha.device("cpu")) is tocha.float64
    with pytest.raises(AssertionError, match="got <class 'int'>"):
        p.is_float_dtype(3)
    with pytest.raises(ValueError, match="Unexpected type <class 'str'> when computing elementwise type promotion!"):
        p.elementwise_dtypes("a", type_promotion_kind=KIND.DEFAULT)


def test_strides():
    assert p.make_contiguous_strides_for((2, 0, 4)) == (4, 4, 1)
    assert p.make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    assert p.make_channels_last_strides_for((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert p.make_channels_last_2d_strides_for((0, 3, 4, 0)) == (0, 1, 0, 3)
    assert p.compute_required_storage_length((2, 0), (3, 1), 4) == 0
    assert p.compute_elementwise_output_strides(half.t(), tocha.ones(3, 2)) == (1, 3)
    perm = p.compute_elementwise_output_logical_to_physical_perm(tocha.ones(2, 4, 3).permute(2, 0, 1))
    assert perm == ([1, 2, 0], False)
    pictures = tocha.ones(2, 3, 4, 5).contiguous(memory_format=tocha.channels_last)
    assert p.suggest_memory_format(pictures) is tocha.channels_last and p.is_channels_last_contiguous(pictures)
    assert p.suggest_memory_format(half) is tocha.contiguous_format
    assert p.is_non_overlapping_and_dense_or_false(half.t())
    assert not p.is_non_overlapping_and_dense_or_false(tocha.ones(1, 4).expand(3, 4))
    assert p.clone_preserve_strides(tocha.ones(1, 4).expand(3, 4)).stride() == (0, 1)
    with pytest.raises(RuntimeError, match="Only tensors of rank 4 can use the channels_last memory format"):
        p.make_channels_last_2d_strides_for((2, 3))


def test_shapes():
    assert p.canonicalize_dims(3, (-1, 0)) == (2, 0) and p.canonicalize_dim(0, -1) == 0
    assert p.infer_size((2, -1), 6) == (2, 3) and p.infer_size_shapes((2, 1), (3,)) == (2, 3)
    assert p.reduction_dims((2, 3), None) == (0, 1) and p.compute_reduction_output_shape((2, 3, 4), (0, 2)) == (3,)
    assert p.extract_shape(half, double, 2, allow_cpu_scalar_tensors=True) == half.shape
    assert p.invert_perm([2, 0, 1]) == [1, 2, 0] and p.is_expandable_to((1, 3), (4, 2, 3))
    with pytest.raises(RuntimeError, match="duplicate value in the list of dims"):
        p.reduction_dims((2, 3), (-1, 1))
    with pytest.raises(IndexError, match="Dimension out of range"):
        p.canonicalize_dim(3, 3)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        p.infer_size((-1, -1), 6)


def test_tensors_that_are_alike():
    p.compare_tensor_meta(half, half.clone(), check_strides=True)
    with pytest.raises(RuntimeError, match="Stride mismatch"):
        p.compare_tensor_meta(half, half.t().contiguous().t(), check_strides=True)
    with pytest.raises(RuntimeError, match="Dtypes"):
        p.compare_tensor_meta(half, half.float())
    assert p.check_significant_strides(half, half.t().contiguous().t(), only_cuda=False) == (False, 0)
    assert p.set_correction(False) == 0.0 and p.set_correction(None, 2) == 2.0
