"""The text of a tensor is PyTorch's, character for character: the texts below were printed by PyTorch 2.13."""

import math
from math import inf, nan

import pytest

import tocha
from tocha._tensor_str import get_printoptions, printoptions, set_printoptions, tensor_repr

DTYPE_PREFIX = str(tocha.float32).removesuffix("float32")


needs_autograd = pytest.mark.skipif(not hasattr(tocha, "no_grad"), reason="prints grad_fn")
needs_csr = pytest.mark.skipif(not hasattr(tocha.Tensor, "to_sparse_csr"), reason="prints tensors of other layouts")


def text(value, **options):
    """What `value` prints; several lines stand between line breaks, so that below they begin in the first column."""
    with printoptions(**options):
        printed = repr(value).replace(DTYPE_PREFIX, "torch.")
    return f"\n{printed}\n" if "\n" in printed else printed


@pytest.fixture(autouse=True)
def fresh_options():
    before = get_printoptions()
    set_printoptions(profile="default")
    yield
    set_printoptions(**before)


class Named(tocha.Tensor):
    pass


def test_integers():
    assert text(tocha.tensor(1)) == "tensor(1)"
    assert text(tocha.tensor([1, 200, -3])) == "tensor([  1, 200,  -3])"
    lines = """
tensor([[ 1,  2],
        [30,  4]])
"""
    assert text(tocha.tensor([[1, 2], [30, 4]])) == lines
    assert text(tocha.tensor([1, 2], dtype=tocha.uint8)) == "tensor([1, 2], dtype=torch.uint8)"
    assert text(tocha.tensor([1, 2], dtype=tocha.int8)) == "tensor([1, 2], dtype=torch.int8)"
    assert text(tocha.tensor([1, 2], dtype=tocha.int16)) == "tensor([1, 2], dtype=torch.int16)"
    assert text(tocha.tensor([1, 2], dtype=tocha.int32)) == "tensor([1, 2], dtype=torch.int32)"
    assert text(tocha.tensor([1, 2], dtype=tocha.uint16)) == "tensor([1, 2], dtype=torch.uint16)"
    assert text(tocha.tensor([1, 2], dtype=tocha.uint32)) == "tensor([1, 2], dtype=torch.uint32)"
    assert text(tocha.tensor([1, 2**64 - 1], dtype=tocha.uint64)) == (
        "tensor([                   1, 18446744073709551615], dtype=torch.uint64)"
    )
    assert text(tocha.tensor([-(2**63), 0])) == "tensor([-9223372036854775808,                    0])"


def test_booleans():
    assert text(tocha.tensor(True)) == "tensor(True)"
    assert text(tocha.tensor([True, False])) == "tensor([ True, False])"
    lines = """
tensor([[True],
        [True]])
"""
    assert text(tocha.tensor([[True], [True]])) == lines


def test_fixed_point():
    assert text(tocha.tensor(1.5)) == "tensor(1.5000)"
    assert text(tocha.tensor(1.0)) == "tensor(1.)"
    assert text(tocha.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert text(tocha.tensor([-1.0, 2.0])) == "tensor([-1.,  2.])"
    assert text(tocha.tensor([1.5, 2.0])) == "tensor([1.5000, 2.0000])"
    assert text(tocha.tensor([-0.0, 0.5])) == "tensor([-0.0000, 0.5000])"
    assert text(tocha.tensor([-0.0])) == "tensor([-0.])"
    assert text(tocha.tensor([0.0, 0.0])) == "tensor([0., 0.])"
    assert text(tocha.tensor([1e8])) == "tensor([100000000.])"
    assert text(tocha.tensor([1.5e7])) == "tensor([15000000.])"
    assert text(tocha.tensor([1000.0, 1.0])) == "tensor([1000.,    1.])"
    assert text(tocha.tensor([1.5, 1500.0])) == "tensor([   1.5000, 1500.0000])"
    assert text(tocha.tensor([0.001, 0.2])) == "tensor([0.0010, 0.2000])"
    assert text(tocha.tensor([0.99995, 1.0])) == "tensor([0.9999, 1.0000])"


def test_scientific_notation_by_magnitude():
    assert text(tocha.tensor(1e-5)) == "tensor(1.0000e-05)"
    assert text(tocha.tensor([1e9])) == "tensor([1.0000e+09])"
    assert text(tocha.tensor([1e8, 1.0])) == "tensor([1.0000e+08, 1.0000e+00])"
    assert text(tocha.tensor([1e4, 1.0])) == "tensor([1.0000e+04, 1.0000e+00])"
    assert text(tocha.tensor([1.5, 1501.0])) == "tensor([1.5000e+00, 1.5010e+03])"
    assert text(tocha.tensor([9.9e-5])) == "tensor([9.9000e-05])"
    assert text(tocha.tensor([1.0, 1e-5])) == "tensor([1.0000e+00, 1.0000e-05])"
    assert text(tocha.tensor([0.0, 1e-5])) == "tensor([0.0000e+00, 1.0000e-05])"
    assert text(tocha.tensor([0.01, 10.0])) == "tensor([1.0000e-02, 1.0000e+01])"
    assert text(tocha.tensor([1e100, 1.0], dtype=tocha.float64)) == (
        "tensor([1.0000e+100,  1.0000e+00], dtype=torch.float64)"
    )
    assert text(tocha.tensor([0.01, 10.0], dtype=tocha.float64)) == "tensor([ 0.0100, 10.0000], dtype=torch.float64)"
    assert text(tocha.tensor([1e-4], dtype=tocha.float64)) == "tensor([0.0001], dtype=torch.float64)"


def test_nan_and_infinity():
    assert text(tocha.tensor([nan])) == "tensor([nan])"
    assert text(tocha.tensor([inf, -inf])) == "tensor([inf, -inf])"
    assert text(tocha.tensor([1.0, nan])) == "tensor([1., nan])"
    assert text(tocha.tensor([0.0, nan])) == "tensor([0., nan])"
    assert text(tocha.tensor([0.0, 0.5, nan, -inf])) == "tensor([0.0000, 0.5000,    nan,   -inf])"
    assert text(tocha.tensor([100.0, nan, 1.0, -inf])) == "tensor([100.,  nan,   1., -inf])"
    assert text(tocha.tensor([nan, 1.0, 1e5])) == "tensor([       nan, 1.0000e+00, 1.0000e+05])"
    assert text(tocha.tensor([-1e-7, 0, nan, inf])) == "tensor([-1.0000e-07,  0.0000e+00,         nan,         inf])"
    assert text(tocha.tensor(nan)) == "tensor(nan)"


def test_complex_numbers():
    assert text(tocha.tensor(1 + 2j)) == "tensor(1.+2.j)"
    assert text(tocha.tensor([1 + 2j, 3.5 - 4j])) == "tensor([1.0000+2.j, 3.5000-4.j])"
    assert text(tocha.tensor([complex(nan, 1), complex(1, -inf)])) == "tensor([nan+1.j, 1.-infj])"
    assert text(tocha.tensor([complex(-0.0, -0.0), complex(inf, nan)])) == "tensor([-0.-0.j, inf+nanj])"
    assert text(tocha.tensor([1e10 + 2j])) == "tensor([1.0000e+10+2.j])"
    assert text(tocha.tensor([1e10 + 2e10j, 1.5])) == "tensor([1.0000e+10+2.0000e+10j, 1.5000e+00+0.0000e+00j])"
    assert text(tocha.tensor([complex(1, -0.0), complex(-100.5, 22.25)])) == (
        "tensor([   1.0000-0.0000j, -100.5000+22.2500j])"
    )
    assert text(tocha.tensor([1 + 2j], dtype=tocha.complex128)) == "tensor([1.+2.j], dtype=torch.complex128)"
    lines = """
tensor([ 0.+0.j,  1.+2.j,  2.+4.j,  3.+6.j,  4.+8.j,  5.+10.j,  6.+12.j,  7.+14.j,
         8.+16.j,  9.+18.j, 10.+20.j, 11.+22.j, 12.+24.j, 13.+26.j, 14.+28.j, 15.+30.j,
        16.+32.j, 17.+34.j, 18.+36.j, 19.+38.j, 20.+40.j, 21.+42.j, 22.+44.j, 23.+46.j,
        24.+48.j, 25.+50.j, 26.+52.j, 27.+54.j, 28.+56.j, 29.+58.j, 30.+60.j, 31.+62.j,
        32.+64.j, 33.+66.j, 34.+68.j, 35.+70.j, 36.+72.j, 37.+74.j, 38.+76.j, 39.+78.j])
"""
    assert text(tocha.arange(40) * (1 + 2j)) == lines
    lines = """
tensor([[0.+1.j, 0.+1.j],
        [0.+1.j, 0.+1.j]])
"""
    assert text(tocha.ones(2, 2) * 1j) == lines


def test_small_floating_types():
    assert text(tocha.tensor([1.5, 3.0]).to(tocha.float16)) == "tensor([1.5000, 3.0000], dtype=torch.float16)"
    assert text(tocha.tensor([1.5, 3.0]).to(tocha.bfloat16)) == "tensor([1.5000, 3.0000], dtype=torch.bfloat16)"
    assert text(tocha.tensor([1.5, 3.0]).to(tocha.float8_e4m3fn)) == (
        "tensor([1.5000, 3.0000], dtype=torch.float8_e4m3fn)"
    )
    assert text(tocha.tensor([1.5, 3.0]).to(tocha.float8_e5m2)) == "tensor([1.5000, 3.0000], dtype=torch.float8_e5m2)"
    assert text(tocha.tensor([1, 2 + 1j]).to(tocha.complex32)) == "tensor([1.+0.j, 2.+1.j], dtype=torch.complex32)"
    assert text(tocha.zeros(2, dtype=tocha.float8_e8m0fnu)) == "tensor([0., 0.], dtype=torch.float8_e8m0fnu)"
    assert text(tocha.tensor([60000.0, 1.0], dtype=tocha.float16)) == (
        "tensor([6.0000e+04, 1.0000e+00], dtype=torch.float16)"
    )
    assert text(tocha.tensor([1e-7, 1.0], dtype=tocha.float16)) == (
        "tensor([1.1921e-07, 1.0000e+00], dtype=torch.float16)"
    )
    assert text(tocha.tensor([1.0, nan, 0.0]).to(tocha.float8_e5m2)) == "tensor([1., nan, 0.], dtype=torch.float8_e5m2)"


def test_nested_brackets():
    lines = """
tensor([[0., 1., 2.],
        [3., 4., 5.]])
"""
    assert text(tocha.arange(6.0).view(2, 3)) == lines
    lines = """
tensor([[[ 0,  1],
         [ 2,  3],
         [ 4,  5]],

        [[ 6,  7],
         [ 8,  9],
         [10, 11]]])
"""
    assert text(tocha.arange(12).view(2, 3, 2)) == lines
    lines = """
tensor([[[[ 0.,  1.],
          [ 2.,  3.]],

         [[ 4.,  5.],
          [ 6.,  7.]]],


        [[[ 8.,  9.],
          [10., 11.]],

         [[12., 13.],
          [14., 15.]]]])
"""
    assert text(tocha.arange(16.0).view(2, 2, 2, 2)) == lines
    lines = """
tensor([[[[[0, 1]],

          [[2, 3]]]],



        [[[[4, 5]],

          [[6, 7]]]]])
"""
    assert text(tocha.arange(8).view(2, 1, 2, 1, 2)) == lines
    assert text(tocha.ones(1, 1, 1)) == "tensor([[[1.]]])"


def test_long_rows_wrap():
    lines = """
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
        36, 37, 38, 39])
"""
    assert text(tocha.arange(40)) == lines
    lines = """
tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19.], dtype=torch.float64)
"""
    assert text(tocha.arange(20.0).double()) == lines
    lines = """
tensor([[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
         14., 15., 16., 17., 18., 19., 20., 21.],
        [22., 23., 24., 25., 26., 27., 28., 29., 30., 31., 32., 33., 34., 35.,
         36., 37., 38., 39., 40., 41., 42., 43.]])
"""
    assert text(tocha.arange(44.0).view(2, 22)) == lines
    lines = """
tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,
        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,
        2.5714, 2.7143])
"""
    assert text(tocha.arange(20.0) / 7) == lines
    lines = """
tensor([ True, False,  True, False,  True, False,  True, False,  True, False,
         True, False,  True, False,  True, False,  True, False,  True, False])
"""
    assert text(tocha.tensor([True, False] * 10)) == lines


def test_views():
    lines = """
tensor([[0., 5.],
        [1., 6.],
        [2., 7.],
        [3., 8.],
        [4., 9.]])
"""
    assert text(tocha.arange(10.0).view(2, 5).t()) == lines
    assert text(tocha.arange(10)[::3]) == "tensor([0, 3, 6, 9])"
    assert text(tocha.tensor([1 + 2j]).conj()) == "tensor([1.-2.j])"
    assert text(tocha.tensor([1 + 2j]).imag) == "tensor([2.])"
    assert text(tocha.tensor([1 + 2j]).conj().imag) == "tensor([-2.])"
    lines = """
tensor([[1, 2],
        [1, 2],
        [1, 2]])
"""
    assert text(tocha.tensor([[1, 2]]).expand(3, 2)) == lines


def test_summary():
    lines = """
tensor([[0.],
        [0.]])
"""
    assert text(tocha.zeros(1000, 1)[:2]) == lines
    assert text(tocha.zeros(1001)) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"
    assert text(tocha.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    lines = """
tensor([[   0,    1,    2,  ...,   97,   98,   99],
        [ 100,  101,  102,  ...,  197,  198,  199],
        [ 200,  201,  202,  ...,  297,  298,  299],
        ...,
        [9700, 9701, 9702,  ..., 9797, 9798, 9799],
        [9800, 9801, 9802,  ..., 9897, 9898, 9899],
        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])
"""
    assert text(tocha.arange(10000).view(100, 100)) == lines
    lines = """
tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.9700e+02, 9.9800e+02,
         9.9900e+02],
        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.9970e+03, 1.9980e+03,
         1.9990e+03]])
"""
    assert text(tocha.arange(2000.0).view(2, 1000)) == lines
    lines = """
tensor([[0.0000e+00, 1.0000e+00],
        [2.0000e+00, 3.0000e+00],
        [4.0000e+00, 5.0000e+00],
        ...,
        [1.9940e+03, 1.9950e+03],
        [1.9960e+03, 1.9970e+03],
        [1.9980e+03, 1.9990e+03]], dtype=torch.float64)
"""
    assert text(tocha.arange(2000.0).view(1000, 2).double()) == lines
    lines = """
tensor([[[   0,    1,    2,  ...,   46,   47,   48],
         [  49,   50,   51,  ...,   95,   96,   97],
         [  98,   99,  100,  ...,  144,  145,  146],
         ...,
         [ 196,  197,  198,  ...,  242,  243,  244],
         [ 245,  246,  247,  ...,  291,  292,  293],
         [ 294,  295,  296,  ...,  340,  341,  342]],

        [[ 343,  344,  345,  ...,  389,  390,  391],
         [ 392,  393,  394,  ...,  438,  439,  440],
         [ 441,  442,  443,  ...,  487,  488,  489],
         ...,
         [ 539,  540,  541,  ...,  585,  586,  587],
         [ 588,  589,  590,  ...,  634,  635,  636],
         [ 637,  638,  639,  ...,  683,  684,  685]],

        [[ 686,  687,  688,  ...,  732,  733,  734],
         [ 735,  736,  737,  ...,  781,  782,  783],
         [ 784,  785,  786,  ...,  830,  831,  832],
         ...,
         [ 882,  883,  884,  ...,  928,  929,  930],
         [ 931,  932,  933,  ...,  977,  978,  979],
         [ 980,  981,  982,  ..., 1026, 1027, 1028]]])
"""
    assert text(tocha.arange(1029).view(3, 7, 49)) == lines
    lines = """
tensor([[0.+1.j, 0.+1.j],
        [0.+1.j, 0.+1.j],
        [0.+1.j, 0.+1.j],
        ...,
        [0.+1.j, 0.+1.j],
        [0.+1.j, 0.+1.j],
        [0.+1.j, 0.+1.j]])
"""
    assert text(tocha.ones(2000, 2) * 1j) == lines


def test_summary_width_is_that_of_the_shown_elements():
    assert text(tocha.cat([tocha.zeros(500), tocha.full((1,), 1e9), tocha.zeros(501)])) == (
        "tensor([0., 0., 0.,  ..., 0., 0., 0.])"
    )
    assert text(tocha.cat([tocha.arange(500) * 0, tocha.tensor([123456]), tocha.arange(501) * 0])) == (
        "tensor([0, 0, 0,  ..., 0, 0, 0])"
    )


def test_huge_tensor_is_not_read():
    lines = """
tensor([[0., 0., 0.,  ..., 0., 0., 0.],
        [0., 0., 0.,  ..., 0., 0., 0.],
        [0., 0., 0.,  ..., 0., 0., 0.],
        ...,
        [0., 0., 0.,  ..., 0., 0., 0.],
        [0., 0., 0.,  ..., 0., 0., 0.],
        [0., 0., 0.,  ..., 0., 0., 0.]])
"""
    assert text(tocha.zeros(1).expand(10**6, 10**6)) == lines


def test_empty():
    assert text(tocha.tensor([])) == "tensor([])"
    assert text(tocha.tensor([], dtype=tocha.int64)) == "tensor([], dtype=torch.int64)"
    assert text(tocha.tensor([], dtype=tocha.bool)) == "tensor([], dtype=torch.bool)"
    assert text(tocha.empty(2, 0)) == "tensor([], size=(2, 0))"
    assert text(tocha.empty(0, 3, dtype=tocha.float64)) == "tensor([], size=(0, 3), dtype=torch.float64)"
    assert text(tocha.empty(0, 2, requires_grad=True)) == "tensor([], size=(0, 2), requires_grad=True)"
    assert text(tocha.empty(0, requires_grad=True)) == "tensor([], requires_grad=True)"
    lines = """
tensor([], size=(0, 111, 111, 111, 111, 111, 111), dtype=torch.float64,
       requires_grad=True)
"""
    assert text(tocha.empty(0, 111, 111, 111, 111, 111, 111, dtype=tocha.float64, requires_grad=True)) == lines


@needs_autograd
def test_meta():
    assert text(tocha.empty(3, 4, device="meta")) == "tensor(..., device='meta', size=(3, 4))"
    assert text(tocha.empty((), device="meta")) == "tensor(..., device='meta', size=())"
    assert text(tocha.empty(2, 0, device="meta")) == "tensor(..., device='meta', size=(2, 0))"
    assert text(tocha.empty(3, device="meta", dtype=tocha.int64)) == (
        "tensor(..., device='meta', size=(3,), dtype=torch.int64)"
    )
    lines = """
tensor(..., device='meta', size=(3, 4), dtype=torch.float64,
       requires_grad=True)
"""
    assert text(tocha.empty(3, 4, device="meta", dtype=tocha.float64, requires_grad=True)) == lines
    lines = """
tensor(..., device='meta', size=(11, 11, 11, 11, 11, 11, 11, 11),
       dtype=torch.float64, grad_fn=<MulBackward0>)
"""
    assert text(tocha.empty([11] * 8, dtype=tocha.float64, device="meta", requires_grad=True) * 2) == lines


@needs_autograd
def test_gradients():
    class Double(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    assert text(tocha.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert text(tocha.tensor([1.0], requires_grad=True) + 1) == "tensor([2.], grad_fn=<AddBackward0>)"
    assert text(tocha.tensor(1.0, requires_grad=True) * 2) == "tensor(2., grad_fn=<MulBackward0>)"
    assert text(tocha.tensor([1.0], requires_grad=True).view(1, 1)) == "tensor([[1.]], grad_fn=<ViewBackward0>)"
    assert text(tocha.tensor([1.0], requires_grad=True).detach()) == "tensor([1.])"
    assert text(Double.apply(tocha.ones(2, requires_grad=True))) == "tensor([2., 2.], grad_fn=<DoubleBackward>)"
    assert text(tocha.empty(0, 2, requires_grad=True) * 2) == "tensor([], size=(0, 2), grad_fn=<MulBackward0>)"


@needs_autograd
def test_suffixes_wrap():
    lines = """
tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.], dtype=torch.float64,
       requires_grad=True)
"""
    assert text(tocha.ones(12, dtype=tocha.float64, requires_grad=True)) == lines
    lines = """
tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],
       dtype=torch.float64, requires_grad=True)
"""
    assert text(tocha.ones(13, dtype=tocha.float64, requires_grad=True)) == lines
    lines = """
tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],
       dtype=torch.float64, requires_grad=True)
"""
    assert text(tocha.ones(18, dtype=tocha.float64, requires_grad=True)) == lines
    lines = """
tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,
        1.], dtype=torch.float64, requires_grad=True)
"""
    assert text(tocha.ones(19, dtype=tocha.float64, requires_grad=True)) == lines
    lines = """
tensor([[1., 1.],
        [1., 1.]], dtype=torch.float64)
"""
    assert text(tocha.ones(13, 2, dtype=tocha.float64)[:1].expand(2, 2)) == lines
    lines = """
tensor([[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9.],
        [10., 11., 12., 13., 14., 15., 16., 17., 18., 19.],
        [20., 21., 22., 23., 24., 25., 26., 27., 28., 29.]],
       dtype=torch.float64, requires_grad=True)
"""
    assert text(tocha.arange(30.0).view(3, 10).double().requires_grad_()) == lines


def test_subclasses():
    assert text(tocha.tensor([1.0, 2.0]).as_subclass(Named)) == "Named([1., 2.])"
    lines = """
Named([[1., 2.],
       [2., 3.]], dtype=torch.float64)
"""
    assert text(tocha.tensor([[1.0, 2.0], [2.0, 3.0]], dtype=tocha.float64).as_subclass(Named)) == lines
    assert text(tocha.tensor(3).as_subclass(Named)) == "Named(3)"
    assert text(tocha.empty(3, device="meta").as_subclass(Named)) == "Named(..., device='meta', size=(3,))"


def test_parameters():
    class NamedParameter(tocha.nn.Parameter):
        pass

    lines = """
Parameter containing:
tensor([1., 2.], requires_grad=True)
"""
    assert text(tocha.nn.Parameter(tocha.tensor([1.0, 2.0]))) == lines
    lines = """
Parameter containing:
tensor([1.])
"""
    assert text(tocha.nn.Parameter(tocha.tensor([1.0]), requires_grad=False)) == lines
    lines = """
Parameter containing:
tensor(..., device='meta', size=(3, 4), requires_grad=True)
"""
    assert text(tocha.nn.Parameter(tocha.empty(3, 4, device="meta"))) == lines
    lines = """
Parameter containing:
Parameter(NamedParameter([[1., 1.],
                [1., 1.]], requires_grad=True))
"""
    assert text(NamedParameter(tocha.ones(2, 2))) == lines
    lines = """
Parameter(Named([[1., 1.],
       [1., 1.]], requires_grad=True))
"""
    assert text(tocha.nn.Parameter(tocha.ones(2, 2).as_subclass(Named))) == lines


def test_inside_containers():
    lines = """
[tensor([1., 2.]), tensor([[1],
        [2]])]
"""
    assert text([tocha.tensor([1.0, 2.0]), tocha.tensor([[1], [2]])]) == lines
    lines = """
{'a': tensor([[1., 2.],
        [3., 4.]])}
"""
    assert text({"a": tocha.tensor([[1.0, 2.0], [3.0, 4.0]])}) == lines
    assert text((tocha.tensor(1), None)) == "(tensor(1), None)"


def test_sparse():
    lines = """
tensor(indices=tensor([[0, 1, 2],
                       [0, 1, 2]]),
       values=tensor([1., 1., 1.]),
       size=(3, 3), nnz=3, layout=torch.sparse_coo)
"""
    assert text(tocha.eye(3).to_sparse()) == lines
    lines = """
tensor(indices=tensor([], size=(2, 0)),
       values=tensor([], size=(0,)),
       size=(2, 2), nnz=0, layout=torch.sparse_coo)
"""
    assert text(tocha.zeros(2, 2).to_sparse()) == lines
    lines = """
tensor(indices=tensor([[0, 0],
                       [1, 1]]),
       values=tensor([[1., 1.],
                      [1., 1.]]),
       size=(3, 4, 2), nnz=2, dtype=torch.float64, layout=torch.sparse_coo,
       requires_grad=True)
"""
    assert (
        text(tocha.sparse_coo_tensor([[0, 0], [1, 1]], tocha.ones(2, 2).double(), (3, 4, 2), requires_grad=True))
        == lines
    )


@needs_csr
def test_sparse_rows():
    lines = """
tensor(crow_indices=tensor([0, 1, 2, 3]),
       col_indices=tensor([0, 1, 2]),
       values=tensor([1., 1., 1.]), size=(3, 3), nnz=3,
       layout=torch.sparse_csr)
"""
    assert text(tocha.eye(3).to_sparse_csr()) == lines
    lines = """
tensor(ccol_indices=tensor([0, 1, 2, 3]),
       row_indices=tensor([0, 1, 2]),
       values=tensor([1., 1., 1.]), size=(3, 3), nnz=3, dtype=torch.float64,
       layout=torch.sparse_csc)
"""
    assert text(tocha.eye(3, dtype=tocha.float64).to_sparse_csc()) == lines
    lines = """
tensor(crow_indices=tensor([0, 1, 2]),
       col_indices=tensor([0, 1]),
       values=tensor([[[1., 0.],
                       [0., 1.]],

                      [[1., 0.],
                       [0., 1.]]]), size=(4, 4), nnz=2,
       layout=torch.sparse_bsr)
"""
    assert text(tocha.eye(4).to_sparse_bsr((2, 2))) == lines
    lines = """
tensor(indices=tensor(..., size=(2, 1)),
       values=tensor(..., size=(1,)),
       device='meta', size=(3, 4), layout=torch.sparse_coo)
"""
    assert text(tocha.sparse_coo_tensor(tocha.tensor([[0], [1]]), tocha.ones(1), (3, 4), device="meta")) == lines


def test_precision():
    assert text(tocha.tensor(1.5), precision=0) == "tensor(2)"
    assert text(tocha.tensor([1.0, 2.0]), precision=0) == "tensor([1., 2.])"
    assert text(tocha.tensor([1.5, 0.25]), precision=0) == "tensor([2, 0])"
    assert text(tocha.tensor([1.5, 2e9]), precision=0) == "tensor([2e+00, 2e+09])"
    assert text(tocha.tensor([0.1 + 3.7j]), precision=0) == "tensor([0+4j])"
    assert text(tocha.tensor(1.5), precision=2) == "tensor(1.50)"
    assert text(tocha.tensor([1.0, 2.0]), precision=2) == "tensor([1., 2.])"
    assert text(tocha.tensor([1.5, 0.25]), precision=2) == "tensor([1.50, 0.25])"
    assert text(tocha.tensor([1.5, 2e9]), precision=2) == "tensor([1.50e+00, 2.00e+09])"
    assert text(tocha.tensor([0.1 + 3.7j]), precision=2) == "tensor([0.10+3.70j])"
    assert text(tocha.tensor(1.5), precision=10) == "tensor(1.5000000000)"
    assert text(tocha.tensor([1.0, 2.0]), precision=10) == "tensor([1., 2.])"
    assert text(tocha.tensor([1.5, 0.25]), precision=10) == "tensor([1.5000000000, 0.2500000000])"
    assert text(tocha.tensor([1.5, 2e9]), precision=10) == "tensor([1.5000000000e+00, 2.0000000000e+09])"
    assert text(tocha.tensor([0.1 + 3.7j]), precision=10) == "tensor([0.1000000015+3.7000000477j])"


def test_sci_mode():
    assert text(tocha.tensor(1.0), sci_mode=True) == "tensor(1.0000e+00)"
    assert text(tocha.tensor([1.0, 2.0]), sci_mode=True) == "tensor([1.0000e+00, 2.0000e+00])"
    assert text(tocha.tensor([1.5, 2e9]), sci_mode=True) == "tensor([1.5000e+00, 2.0000e+09])"
    assert text(tocha.tensor([0.0, 0.0]), sci_mode=True) == "tensor([0., 0.])"
    assert text(tocha.tensor([nan, 1.0]), sci_mode=True) == "tensor([       nan, 1.0000e+00])"
    assert text(tocha.tensor([-1e-7, 0, nan]), sci_mode=True) == "tensor([-1.0000e-07,  0.0000e+00,         nan])"
    assert text(tocha.tensor([1 + 2e9j]), sci_mode=True) == "tensor([1.0000e+00+2.0000e+09j])"
    assert text(tocha.tensor([1, 2]), sci_mode=True) == "tensor([1, 2])"
    assert text(tocha.tensor(1.0), sci_mode=False) == "tensor(1.)"
    assert text(tocha.tensor([1.0, 2.0]), sci_mode=False) == "tensor([1., 2.])"
    assert text(tocha.tensor([1.5, 2e9]), sci_mode=False) == "tensor([         1.5000, 2000000000.0000])"
    assert text(tocha.tensor([0.0, 0.0]), sci_mode=False) == "tensor([0., 0.])"
    assert text(tocha.tensor([nan, 1.0]), sci_mode=False) == "tensor([nan, 1.])"
    assert text(tocha.tensor([-1e-7, 0, nan]), sci_mode=False) == "tensor([-0.0000,  0.0000,     nan])"
    assert text(tocha.tensor([1 + 2e9j]), sci_mode=False) == "tensor([1.+2000000000.j])"
    assert text(tocha.tensor([1, 2]), sci_mode=False) == "tensor([1, 2])"


def test_threshold_and_edgeitems():
    assert text(tocha.arange(30), threshold=29) == "tensor([ 0,  1,  2,  ..., 27, 28, 29])"
    lines = """
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])
"""
    assert text(tocha.arange(30), threshold=30) == lines
    assert text(tocha.arange(6), threshold=0) == "tensor([0, 1, 2, 3, 4, 5])"
    assert text(tocha.arange(7), threshold=0) == "tensor([0, 1, 2,  ..., 4, 5, 6])"
    assert text(tocha.tensor(3), threshold=0) == "tensor(3)"
    lines = """
tensor([[ 0,  ..., 14],
        [15,  ..., 29]])
"""
    assert text(tocha.arange(30).view(2, 15), threshold=10, edgeitems=1) == lines
    lines = """
tensor([[[ 0,  1],
         ...,
         [ 4,  5]],

        ...,

        [[24, 25],
         ...,
         [28, 29]]])
"""
    assert text(tocha.arange(30).view(5, 3, 2), threshold=10, edgeitems=1) == lines
    lines = """
tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000,
        1.5000, 1.5000])
"""
    assert text(tocha.tensor([1.5] * 30), threshold=10, edgeitems=5) == lines
    lines = """
tensor([    0,  1000,  2000,  3000,
         ..., 26000, 27000, 28000,
        29000])
"""
    assert text(tocha.arange(30) * 1000, threshold=2, edgeitems=4, linewidth=40) == lines


def test_no_edge_items():
    assert text(tocha.arange(30).view(2, 15), threshold=10, edgeitems=0) == "tensor([...], size=(2, 15))"
    assert text(tocha.tensor(3), edgeitems=0) == "tensor(3, size=())"
    lines = """
tensor([[1., 1.],
        [1., 1.]], size=(2, 2))
"""
    assert text(tocha.ones(2, 2), edgeitems=0) == lines
    assert text(tocha.tensor([]), edgeitems=0) == "tensor([])"


@needs_autograd
def test_linewidth():
    lines = """
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,
         8,  9, 10, 11, 12, 13, 14, 15,
        16, 17, 18, 19, 20, 21, 22, 23,
        24, 25, 26, 27, 28, 29])
"""
    assert text(tocha.arange(30), linewidth=40) == lines
    lines = """
tensor([0.,
        1.,
        2.,
        3.],
       dtype=torch.float64,
       requires_grad=True)
"""
    assert text(tocha.arange(4.0).double().requires_grad_(), linewidth=0) == lines
    lines = """
tensor([[ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9.],
        [10., 11., 12., 13., 14., 15., 16., 17., 18., 19.],
        [20., 21., 22., 23., 24., 25., 26., 27., 28., 29.]], dtype=torch.float64)
"""
    assert text(tocha.arange(30.0).view(3, 10).double(), linewidth=120) == lines


def test_profiles():
    assert text(tocha.arange(1001.0) / 3, profile="short") == "tensor([0.00e+00, 3.33e-01,  ..., 3.33e+02, 3.33e+02])"
    assert text(tocha.arange(1001.0) / 3, profile="short", precision=5) == (
        "tensor([0.00000e+00, 3.33333e-01,  ..., 3.33000e+02, 3.33333e+02])"
    )
    assert text(tocha.tensor([1.5]), profile="full") == "tensor([1.5000])"


@pytest.fixture
def default_dtype():
    before = tocha.get_default_dtype()
    yield tocha.set_default_dtype
    tocha.set_default_dtype(before)


def test_dtype_is_left_out_when_it_is_the_default(default_dtype):
    default_dtype(tocha.float64)
    assert text(tocha.ones(1, dtype=tocha.float64)) == "tensor([1.])"
    assert text(tocha.ones(1, dtype=tocha.float32)) == "tensor([1.], dtype=torch.float32)"
    assert text(tocha.ones(1, dtype=tocha.float16)) == "tensor([1.], dtype=torch.float16)"
    assert text(tocha.ones(1, dtype=tocha.complex128)) == "tensor([1.+0.j])"
    assert text(tocha.ones(1, dtype=tocha.complex64)) == "tensor([1.+0.j], dtype=torch.complex64)"
    assert text(tocha.ones(0, dtype=tocha.float64)) == "tensor([])"
    assert text(tocha.ones(0, dtype=tocha.float32)) == "tensor([], dtype=torch.float32)"
    assert text(tocha.ones(0, dtype=tocha.complex128)) == "tensor([], dtype=torch.complex128)"
    default_dtype(tocha.float16)
    assert text(tocha.ones(1, dtype=tocha.float64)) == "tensor([1.], dtype=torch.float64)"
    assert text(tocha.ones(1, dtype=tocha.float32)) == "tensor([1.], dtype=torch.float32)"
    assert text(tocha.ones(1, dtype=tocha.float16)) == "tensor([1.])"
    assert text(tocha.ones(1, dtype=tocha.complex128)) == "tensor([1.+0.j], dtype=torch.complex128)"
    assert text(tocha.ones(1, dtype=tocha.complex64)) == "tensor([1.+0.j])"
    assert text(tocha.ones(0, dtype=tocha.float64)) == "tensor([], dtype=torch.float64)"
    assert text(tocha.ones(0, dtype=tocha.float32)) == "tensor([], dtype=torch.float32)"
    assert text(tocha.ones(0, dtype=tocha.complex128)) == "tensor([], dtype=torch.complex128)"


@needs_autograd
def test_grad_fn_of_an_invalidated_view():
    base = tocha.ones(2)
    with tocha.no_grad():
        view = base.view(2)
    base.mul_(tocha.ones(2, requires_grad=True))
    assert text(view) == "tensor([1., 1.], grad_fn=<Invalid>)"


def test_contents_can_be_given():
    assert tensor_repr(tocha.ones(2, requires_grad=True), tensor_contents="...") == "tensor(..., requires_grad=True)"
    assert tensor_repr(tocha.empty(0, 2), tensor_contents="none") == "tensor(none, size=(0, 2))"


def test_a_subclass_does_not_see_the_reading_of_its_elements():
    class Loud(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} was dispatched")

    assert tensor_repr(tocha.zeros(2000).as_subclass(Loud)) == "Loud([0., 0., 0.,  ..., 0., 0., 0.])"


def test_full_profile_shows_everything():
    with printoptions(profile="full"):
        printed = repr(tocha.arange(5000))
    assert printed.count(",") == 4999 and "..." not in printed


DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def test_options_keep_their_value_until_set():
    assert get_printoptions() == DEFAULTS
    set_printoptions(precision=7)
    set_printoptions(linewidth=100)
    assert get_printoptions() == DEFAULTS | {"precision": 7, "linewidth": 100}
    set_printoptions(profile="short", precision=5)
    assert get_printoptions() == DEFAULTS | {"precision": 5, "edgeitems": 2}
    set_printoptions(profile="full")
    assert get_printoptions() == DEFAULTS | {"threshold": math.inf}


def test_sci_mode_returns_to_none_unless_given():
    set_printoptions(sci_mode=True)
    assert get_printoptions()["sci_mode"] is True
    set_printoptions(precision=4)
    assert get_printoptions()["sci_mode"] is None


def test_options_are_restored_after_an_error():
    set_printoptions(precision=6, sci_mode=False)
    before = get_printoptions()
    with pytest.raises(ZeroDivisionError), printoptions(precision=2, profile="short"):
        raise ZeroDivisionError
    assert get_printoptions() == before


def test_unknown_option_is_refused():
    with pytest.raises(TypeError):
        set_printoptions(digits=3)
    with pytest.raises(TypeError), printoptions(digits=3):
        pass
    assert get_printoptions() == DEFAULTS


def test_get_printoptions_is_a_copy():
    get_printoptions()["precision"] = 9
    assert get_printoptions() == DEFAULTS


def test_named_results_print_a_line_each():
    assert (
        repr(tocha.tensor([3, 1]).sort()) == "tocha.return_types.sort(\nvalues=tensor([1, 3]),\nindices=tensor([1, 0]))"
    )
