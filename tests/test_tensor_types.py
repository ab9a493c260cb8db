"""FloatTensor and the other old names of types: construction, isinstance, Tensor.type, the default type."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tocha

DTYPES = {
    "FloatTensor": tocha.float32,
    "DoubleTensor": tocha.float64,
    "HalfTensor": tocha.float16,
    "BFloat16Tensor": tocha.bfloat16,
    "IntTensor": tocha.int32,
    "LongTensor": tocha.int64,
    "ShortTensor": tocha.int16,
    "CharTensor": tocha.int8,
    "ByteTensor": tocha.uint8,
    "BoolTensor": tocha.bool,
}


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_makes_and_recognises_its_dtype(name):
    kind = getattr(tocha, name)
    made = kind([1, 0])
    assert made.dtype == kind.dtype == DTYPES[name] and made.tolist() == [1, 0]
    assert type(made) is tocha.Tensor and isinstance(made, kind)
    assert [n for n in DTYPES if isinstance(made, getattr(tocha, n))] == [name]
    assert made.type() == f"tocha.{name}" and repr(kind) == f"<class 'tocha.{name}'>"
    assert tocha.ones(2).type(kind).dtype == DTYPES[name]


def test_sizes_data_storages_and_tensors():
    x = tocha.arange(3.0)
    assert tocha.FloatTensor().shape == (0,)
    assert tocha.FloatTensor(2, 3).shape == tocha.FloatTensor(tocha.Size([2, 3])).shape == (2, 3)
    assert tocha.FloatTensor(np.int64(4)).shape == tocha.FloatTensor(size=(4,)).shape == (4,)
    assert tocha.FloatTensor((2, 3)).tolist() == tocha.FloatTensor(data=[2, 3]).tolist() == [2.0, 3.0]
    assert tocha.LongTensor([1.7, -2.5]).tolist() == [1, -2]
    assert tocha.FloatTensor(np.ones(2)).dtype == tocha.float32
    assert tocha.FloatTensor(x).data_ptr() == x.data_ptr()
    assert tocha.FloatTensor(x.untyped_storage()).tolist() == tocha.FloatTensor(x.storage()).tolist() == [0.0, 1.0, 2.0]
    assert tocha.FloatTensor(tocha.ones(1, requires_grad=True)).requires_grad


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((1.5,), {}, TypeError, "data must be a sequence \\(got float\\)"),
        ((True,), {}, TypeError, "data must be a sequence \\(got bool\\)"),
        (("a",), {}, TypeError, "invalid data type 'str'"),
        ((2, 1.5), {}, TypeError, "at pos 2"),
        (([2], 3), {}, TypeError, "got \\(list, int\\), but expected one of"),
        (([1],), {"dtype": tocha.float64}, TypeError, "got \\(list, dtype=tocha.dtype\\)"),
        ((2,), {"device": "meta"}, RuntimeError, "expects device type: cpu but device type: meta"),
        ((-1,), {}, RuntimeError, "negative dimension"),
        ((tocha.ones(2, dtype=tocha.int64),), {}, TypeError, "expected tocha.float32 on cpu \\(got tocha.int64"),
    ],
)
def test_refusals(arguments, options, error, text):
    with pytest.raises(error, match=text):
        tocha.FloatTensor(*arguments, **options)


def test_types_are_types_but_no_bases():
    assert pickle.loads(pickle.dumps(tocha.FloatTensor)) is tocha.FloatTensor
    assert tocha.FloatTensor.add is tocha.Tensor.add and not tocha.FloatTensor.is_cuda
    assert isinstance(tocha.nn.Parameter(tocha.ones(1)), tocha.FloatTensor)
    assert not isinstance(tocha.ones(1, device="meta"), tocha.FloatTensor)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (tocha.FloatTensor,), {})
    with pytest.raises(AttributeError, match=r"type object 'tocha.FloatTensor' has no attribute 'nothing'"):
        _ = tocha.FloatTensor.nothing


def test_cuda_types_only_refuse():
    assert not isinstance(tocha.ones(1), tocha.cuda.FloatTensor) and tocha.cuda.FloatTensor.is_cuda
    with pytest.raises(TypeError, match=r"type tocha.cuda.FloatTensor not available"):
        tocha.cuda.FloatTensor(2)


def test_conversion_by_name():
    x = tocha.ones(2)
    assert x.type(tocha.float32) is x and x.type("torch.DoubleTensor").dtype == tocha.float64
    assert x.long().type(tocha.Tensor).dtype == tocha.float32
    assert x.type("tocha.meta.LongTensor").is_meta
    for bad in ("foo", "FloatTensor", "numpy.FloatTensor", "tocha.a.b.FloatTensor", float):
        with pytest.raises(ValueError, match="invalid type"):
            x.type(bad)
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        x.type(3)


def test_new_has_the_tensors_dtype():
    x = tocha.ones(2, dtype=tocha.int32)
    assert x.new([1.5]).tolist() == [1] and x.new(2, 3).shape == (2, 3) and x.new().dtype == tocha.int32


def test_default_tensor_type():
    try:
        tocha.set_default_tensor_type(tocha.DoubleTensor)
        assert tocha.get_default_dtype() == tocha.float64
        tocha.set_default_tensor_type("torch.HalfTensor")
        assert tocha.get_default_dtype() == tocha.float16
        for bad in (tocha.LongTensor, tocha.float64, 3, tocha.cuda.FloatTensor):
            with pytest.raises(TypeError):
                tocha.set_default_tensor_type(bad)
        assert tocha.get_default_dtype() == tocha.float16
    finally:
        tocha.set_default_dtype(tocha.float32)


def test_the_deprecation_is_told_once_unless_always(recwarn):
    tocha.set_default_tensor_type(tocha.FloatTensor)
    recwarn.clear()
    tocha.set_default_tensor_type(tocha.FloatTensor)
    assert not recwarn.list
    tocha.set_warn_always(True)
    try:
        assert tocha.is_warn_always_enabled()
        with pytest.warns(UserWarning, match="deprecated"):
            tocha.set_default_tensor_type(tocha.FloatTensor)
    finally:
        tocha.set_warn_always(False)
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        tocha.set_warn_always(1)


def test_a_hash_is_the_identity():
    x = tocha.ones(1)
    assert hash(x) == id(x) and {x: 1}[x] == 1
    assert hash(tocha.nn.Parameter(x)) != hash(x)
