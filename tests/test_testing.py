"""tocha.testing: assert_close in its messages and options, make_tensor."""

from __future__ import annotations

import numpy as np
import pytest

import tocha
from tocha.testing import assert_allclose, assert_close, make_tensor

NAN = float("nan")


def message(*args, **kwargs):
    with pytest.raises(AssertionError) as error:
        assert_close(*args, **kwargs)
    return str(error.value)


def test_tensors():
    assert_close(tocha.tensor([1.0, 2.0]), tocha.tensor([1.0, 2.0 + 1e-6]))
    assert message(tocha.tensor([[1.0, 2.0], [3.0, 4.0]]), tocha.tensor([[1.0, 2.0], [3.5, 8.0]])) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 4.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.5 at index (1, 1) (up to 1.3e-06 allowed)"
    )
    assert message(tocha.tensor([1, 2]), tocha.tensor([1, 4])) == (
        "Tensor-likes are not equal!\n\n"
        "Mismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 2 at index (1,)\n"
        "Greatest relative difference: 0.5 at index (1,)"
    )
    assert "Greatest absolute difference: 254 at index (0,)" in message(
        tocha.tensor([1], dtype=tocha.uint8), tocha.tensor([255], dtype=tocha.uint8)
    )


def test_scalars_of_both_kinds():
    text = (
        "Scalars are not close!\n\nExpected 1.5 but got 1.0.\nAbsolute difference: 0.5 (up to {} allowed)\n"
        "Relative difference: 0.3333333333333333 (up to {} allowed)"
    )
    assert message(1.0, 1.5) == text.format("1e-07", "1e-07")
    assert message(tocha.tensor(1.0), tocha.tensor(1.5)) == text.format("1e-05", "1.3e-06")
    assert message(np.float32(1.0), 1.5) == text.format("1e-07", "1e-07")
    assert (
        message(1, 2)
        == "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"
    )
    assert message(1, 1.0).startswith("The (d)types do not match: <class 'int'> != <class 'float'>.")
    assert message(True, False) == "Booleans mismatch: True is not False"
    assert message(None, 3) == "None mismatch: None is not 3"
    assert_close(1, 1.0, check_dtype=False)
    assert_close(float("inf"), float("inf"))
    assert "Absolute difference: inf" in message(float("inf"), -float("inf"))


def test_nan():
    assert "nan at index (0,)" in message(tocha.tensor([NAN]), tocha.tensor([NAN]))
    message(NAN, NAN)
    assert_close([tocha.tensor([NAN]), NAN], [tocha.tensor([NAN]), NAN], equal_nan=True)


def test_containers_say_where():
    assert message([{"x": [1, 2]}], [{"x": [1, 3]}]).endswith("The failure occurred for item [0]['x'][1]")
    assert_close((1, [2.0]), [1, (2.0,)])
    assert_close(b"ab", b"ab")
    # A difference of structure comes before any difference of values.
    assert message([1, [2]], [5, [2, 3]]) == (
        "The length of the sequences mismatch: 1 != 2\n\nThe failure occurred for item [1]"
    )
    assert message({"c": 1, "a": 1}, {"z": 1, "b": 1}) == (
        "The keys of the mappings do not match:\n"
        "Missing keys in the actual mapping: ['b', 'z']\n"
        "Additional keys in the actual mapping: ['a', 'c']"
    )


@pytest.mark.parametrize(
    ("attribute", "other", "option"),
    [
        ("shape", tocha.ones(3, 2), None),
        ("device", tocha.ones(2, 3, device="meta"), "check_device"),
        ("dtype", tocha.ones(2, 3, dtype=tocha.float64), "check_dtype"),
    ],
)
def test_attributes(attribute, other, option):
    x = tocha.ones(2, 3)
    assert message(x, other).startswith(f"The values for attribute '{attribute}' do not match: ")
    if option:
        assert_close(x, other, **{option: False})


def test_strides_only_if_asked():
    x, y = tocha.ones(2, 3), tocha.ones(3, 2).t()
    assert_close(x, y)
    assert message(x, y, check_stride=True) == "The values for attribute 'stride()' do not match: (3, 1) != (1, 2)."


def test_tolerances():
    x, y = tocha.tensor([1.0]), tocha.tensor([1.4])
    assert_close(x, y, rtol=0.3, atol=0.0)
    assert "(up to 0.1 allowed)" in message(x, y, rtol=0.0, atol=0.1)
    assert "not equal" in message(x, y, rtol=0, atol=0)
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(x, y, rtol=1.0)
    with pytest.raises(RuntimeError, match="rtol must be greater"):
        assert_close(x, y, rtol=-1.0, atol=0.0)
    assert "(up to 0.001 allowed)" in message(x.half(), y, check_dtype=False)
    assert "(up to 0.016 allowed)" in message(x.bfloat16(), y.bfloat16())


def test_messages_of_ones_own():
    x, y = tocha.tensor([1.0]), tocha.tensor([2.0])
    assert message(x, y, msg="mine") == "mine"
    assert message([x], [y], msg=lambda text: f"<{text}>").endswith("item [0]>")


def test_types_that_cannot_be_compared():
    class Own(tocha.Tensor):
        pass

    x = tocha.ones(2)
    assert_close(x.as_subclass(Own), x)
    assert_close(tocha.nn.Parameter(x), x)
    assert_close(np.ones(2), np.ones(2))
    pairs = [("a", "a"), (x, np.ones(2)), (x, [1.0, 1.0]), (tocha.tensor(1.0), 1.0), ({1}, {1}), (np.array(["a"]),) * 2]
    for actual, expected in pairs:
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            assert_close(actual, expected)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(x.as_subclass(Own), x, allow_subclasses=False)


def test_assert_allclose_is_the_older_one():
    with pytest.warns(FutureWarning, match="deprecated"):
        assert_allclose(tocha.ones(2), [1.0, 1.00005])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match=r"up to 0.0001 allowed"):
        assert_allclose(tocha.ones(2), tocha.ones(2) * 2)


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        (tocha.float32, -9, 9),
        (tocha.bfloat16, -9, 9),
        (tocha.int32, -9, 9),
        (tocha.uint8, 0, 9),
        (tocha.bool, 0, 1),
    ],
)
def test_default_bounds(dtype, lowest, highest):
    values = make_tensor(1000, dtype=dtype, device="cpu").double()
    assert lowest <= values.min() and values.max() <= highest
    assert values.max() - values.min() > 0.9 * (highest - lowest)


def test_make_tensor_options():
    kwargs = {"dtype": tocha.float32, "device": "cpu"}
    spread = make_tensor(2, 3, noncontiguous=True, **kwargs)
    assert spread.shape == (2, 3) and spread.stride() == (6, 2)
    assert make_tensor((1, 2, 2, 2), memory_format=tocha.channels_last, **kwargs).stride() == (8, 1, 4, 2)
    assert make_tensor(3, requires_grad=True, **kwargs).requires_grad
    assert make_tensor(3, dtype=tocha.int64, device="cpu", low=0, high=1, exclude_zero=True).tolist() == [1, 1, 1]
    assert make_tensor(3, dtype=tocha.uint8, device="cpu", low=250, high=900).min() >= 250
    assert make_tensor(3, dtype=tocha.complex64, device="cpu").dtype == tocha.complex64
    assert make_tensor(3, dtype=tocha.float32, device="meta").is_meta


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"dtype": tocha.int64, "requires_grad": True}, "not supported for boolean and integral dtypes"),
        ({"dtype": tocha.int64, "low": 5, "high": 2}, "must be less than `high`, but got 5 >= 2"),
        ({"dtype": tocha.float32, "low": NAN}, "cannot be NaN"),
        ({"dtype": tocha.float32, "noncontiguous": True, "memory_format": tocha.channels_last}, "mutually exclusive"),
    ],
)
def test_make_tensor_refusals(kwargs, text):
    with pytest.raises(ValueError, match=text):
        make_tensor(3, device="cpu", **kwargs)
