"""What is said to dtypes that an operator does not take: PyTorch's name for the kernel, which the record gives, whether
the record runs natively or interpreted.
"""

from __future__ import annotations

import warnings

import facts_harness as h
import pytest
import samples as s

import tocha
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.ir import dtypes as dt
from tocha.nn import functional as F
from tocha.operators.interpreter import DataDependent, Interpreter
from tocha.operators.record import kernel_word, kernel_words

NAMED = [o for o in s.all_operators() if o.word and s.function_of(o) is not None]
ASKED = ("int64", "bool", "uint16", "complex64", "float8_e4m3fn", "complex32", "float16")


def named(o) -> str:
    return o.full_name


def cast(value, usual, dtype):
    """The tensors of the usual dtype among arguments in another one."""
    if isinstance(value, list | tuple):
        return type(value)(cast(v, usual, dtype) for v in value)
    if isinstance(value, dict):
        return {k: cast(v, usual, dtype) for k, v in value.items()}
    return value.to(dtype) if isinstance(value, tocha.Tensor) and value.dtype == usual else value


def phrase(call, *args, **kwargs) -> str:
    """What a call says of a kernel that there is not; empty if it says something else, or nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(*args, **kwargs)
        except DataDependent:
            return ""
        except NotImplementedError as e:
            return str(e).split("] ", 1)[-1] if "not implemented for" in str(e) else ""
        except (RuntimeError, ValueError, TypeError, IndexError):
            return ""
    return ""


def interpreted(o, args, kwargs):
    memories = h.Memories()
    return h.interpreted(Interpreter(), o, memories.facts(args), {k: memories.facts(v) for k, v in kwargs.items()})


def refusals(o):
    """(native phrase, interpreted phrase) for the record's first sample, dtype by dtype."""
    usual = dt.float32 if not o.dtypes or dt.float32 in o.dtypes else o.dtypes[0]
    sample = next(iter(s.samples(o, usual)))
    arguments = o.schema.arguments
    for dtype in [getattr(tocha, name) for name in ASKED]:
        args, kwargs = cast((sample.args, sample.kwargs), s.native_dtype(usual), dtype)
        if "dtype" in {a.name for a in arguments} and not any(a.is_tensor for a in arguments):
            kwargs["dtype"] = dtype
        if any(a.name == "training" and a.default is not None for a in arguments):
            kwargs["training"] = True  # what is drawn has a kernel of its own
        yield phrase(s.function_of(o), *args, **kwargs), phrase(interpreted, o, args, kwargs)


@pytest.mark.parametrize("o", NAMED, ids=named)
def test_word_of_the_record(o):
    said = list(refusals(o))
    assert any(native.startswith(f'"{o.word}') for native, _ in said), said


@pytest.mark.parametrize("o", [o for o in NAMED if o.kind in ("pointwise", "reduction")], ids=named)
def test_interpreted_as_native(o):
    """Rules may leave dtypes to the kernel; loops take what the record lists, and say the same of the rest."""
    for native, facts in refusals(o):
        if native and facts:
            assert facts.split(" for ")[0] == native.split(" for ")[0]
    assert any(facts for _, facts in refusals(o))


def test_words_are_of_names():
    words = kernel_words()
    assert words["exp"] == "exp_vml_cpu" and words["linalg.cholesky"] == words["linalg_cholesky"] == "cholesky_cpu"
    assert kernel_word("abs") == "abs_cpu" and kernel_word("geometric_") == "geometric_cpu"


def ones(dtype, *sizes):
    return tocha.ones(*(sizes or (2, 2))).to(dtype)


PHRASES = [
    (lambda: ones(tocha.float8_e4m3fn).exp(), "\"exp_vml_cpu\" not implemented for 'Float8_e4m3fn'"),
    (lambda: ones(tocha.complex64).erf(), "\"erf_vml_cpu\" not implemented for 'ComplexFloat'"),
    (lambda: ones(tocha.uint16) + 1, "\"add_stub\" not implemented for 'UInt16'"),
    (lambda: ones(tocha.uint16) - 1, "\"add_stub\" not implemented for 'UInt16'"),
    (lambda: ones(tocha.float8_e5m2) * 2, "\"mul_cpu_reduced_float\" not implemented for 'Float8_e5m2'"),
    (lambda: ones(tocha.bool) @ ones(tocha.bool), "\"addmm_impl_cpu_\" not implemented for 'Bool'"),
    (lambda: ones(tocha.bool) @ ones(tocha.bool, 2), "\"addmv_impl_cpu\" not implemented for 'Bool'"),
    (lambda: ones(tocha.bool, 2) @ ones(tocha.bool, 2), "\"dot\" not implemented for 'Bool'"),
    (lambda: ones(tocha.bool, 1, 2, 2) @ ones(tocha.bool, 1, 2, 2), "\"bmm\" not implemented for 'Bool'"),
    (lambda: ones(tocha.int64).softmax(1), "\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"),
    (lambda: ones(tocha.int64).log_softmax(0), "\"log_softmax_kernel_impl\" not implemented for 'Long'"),
    (lambda: ones(tocha.complex64).max(), "\"max_all\" not implemented for 'ComplexFloat'"),
    (lambda: ones(tocha.complex64).amax(0), "\"max_values_cpu\" not implemented for 'ComplexFloat'"),
    (lambda: F.mse_loss(ones(tocha.int64), ones(tocha.int64)), "\"mse_cpu\" not implemented for 'Long'"),
    (lambda: F.gelu(ones(tocha.int64)), "\"GeluKernelImpl\" not implemented for 'Long'"),
    (lambda: F.layer_norm(ones(tocha.int64), (2,)), "\"LayerNormKernelImpl\" not implemented for 'Long'"),
    (
        lambda: F.cross_entropy(ones(tocha.int64), tocha.zeros(2).long()),
        "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
    ),
    (
        lambda: F.nll_loss(ones(tocha.int64, 1, 2, 2), tocha.zeros(1, 2).long()),
        "\"nll_loss2d_forward_out_frame\" not implemented for 'Long'",
    ),
    (
        lambda: F.conv2d(ones(tocha.bool, 1, 1, 3, 3), ones(tocha.bool, 1, 1, 2, 2)),
        "\"slow_conv2d_cpu\" not implemented for 'Bool'",
    ),
    (
        lambda: F.conv2d(ones(tocha.bool, 1, 1, 3, 3), ones(tocha.bool, 1, 1, 2, 2), dilation=2),
        "\"slow_conv_dilated<>\" not implemented for 'Bool'",
    ),
    (lambda: ones(tocha.int64).normal_(), "\"normal_kernel_cpu\" not implemented for 'Long'"),
    (lambda: ones(tocha.complex64).unique(), "\"unique\" not implemented for 'ComplexFloat'"),
    (lambda: ones(tocha.complex64).unique(dim=0), "\"unique_dim\" not implemented for 'ComplexFloat'"),
    (
        lambda: tocha.zeros(2).bool().scatter_reduce(0, tocha.zeros(2).long(), tocha.ones(2).bool(), "mean"),
        "\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'",
    ),
    (lambda: tocha.linalg.svd(ones(tocha.float16)), "\"linalg_svd_cpu\" not implemented for 'Half'"),
    (lambda: tocha.linalg.eigh(ones(tocha.int64)), "\"linalg_eigh_cpu\" not implemented for 'Long'"),
    (lambda: tocha.geqrf(ones(tocha.int64)), "\"geqrf_cpu\" not implemented for 'Long'"),
    (lambda: tocha.cholesky(ones(tocha.int64)), "\"cholesky_cpu\" not implemented for 'Long'"),
    (lambda: ones(tocha.complex64).signbit(), "signbit is not implemented for complex tensors."),
    (lambda: F.hardtanh(ones(tocha.complex64)), "clamp is not supported for complex types"),
]


@pytest.mark.parametrize(("call", "said"), PHRASES, ids=[p for _, p in PHRASES])
def test_phrase(call, said):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NotImplementedError) as e:
            call()
    assert str(e.value).endswith(said)


# Where PyTorch looks at the dtype before any kernel is asked, its error is another.
OTHERS = [
    (lambda: ones(tocha.complex64).deg2rad(), "deg2rad is not supported for complex tensors."),
    (lambda: ones(tocha.complex64).isposinf(), "isposinf does not support complex inputs."),
    (lambda: F.hardtanh(ones(tocha.bool)), "Bool inputs not supported for hardtanh"),
    (lambda: F.relu6(ones(tocha.bool)), "Bool inputs not supported for hardtanh"),
    (lambda: ones(tocha.uint16).mean(), "mean(): could not infer output dtype."),
    (lambda: tocha.linalg.eig(ones(tocha.int64)), "Unknown Complex ScalarType for Long"),
    (lambda: tocha.linalg.lstsq(ones(tocha.float16), ones(tocha.float16)), "doesn't handle types other than float"),
    (
        lambda: tocha.linalg.inv(ones(tocha.complex32)),
        "linalg.inv: Low precision dtypes not supported. Got ComplexHalf",
    ),
    (
        lambda: tocha.dist(ones(tocha.int64), ones(tocha.int64)),
        "norm(): input dtype should be either floating point or",
    ),
    (lambda: tocha.mvlgamma(ones(tocha.bool), 1), "The input tensor may not be a boolean tensor."),
    (lambda: F.kl_div(ones(tocha.complex64), ones(tocha.complex64)), "kl_div: Complex inputs not supported."),
    (lambda: tocha.randint(300, (2,), dtype=tocha.uint8), "to - 1 is out of bounds for unsigned char"),
    (lambda: tocha.full((2,), -1.5, dtype=tocha.uint16), "converted to type uint16_t without overflow"),
    (
        lambda: F.embedding_bag(tocha.zeros(1, 2).long(), ones(tocha.int64)),
        "scalar types: Half, BFloat16, Float, Double; but got torch.LongTensor instead",
    ),
    (
        lambda: F.scaled_dot_product_attention(*[ones(tocha.int64, 1, 2, 2)] * 3),
        "expected scalar type Float but found Long",
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "said"), OTHERS, ids=[p for _, p in OTHERS])
def test_other_errors(call, said):
    with pytest.raises(RuntimeError) as e:
        call()
    assert type(e.value) is RuntimeError and said in str(e.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("take(x, i, out=x.double())", "self and out expected to have the same dtype"),
        ("signbit(x, out=x)", "signbit does not support non-boolean outputs"),
        ("floor(x, out=x.double())", r"Found dtype \w+ but expected \w+"),
        ("scatter(x, 0, i, x, out=x.double())", "Expected out tensor to have dtype float, but got double instead"),
        ("mode(x, out=(x.clone(), x.clone()))", r"expected scalar type '\w+' but got '\w+' for indices output"),
    ],
)
def test_out_of_another_dtype(call, said):
    def run(lib, x, i):
        return eval(f"lib.{call}", {"lib": lib, "x": x, "i": i})

    x, i = tocha.ones(2), tocha.tensor([1, 0])
    with pytest.raises(RuntimeError, match=said):
        run(tocha, x, i)
    with FakeTensorMode() as mode, pytest.raises(RuntimeError, match=said):
        run(tocha, mode.from_tensor(x), mode.from_tensor(i))
