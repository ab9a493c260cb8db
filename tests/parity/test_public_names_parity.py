"""Names beside the operators against PyTorch: the same expressions, the same answers or errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tocha
import tocha.backends
import tocha.testing

NAN, INF = float("nan"), float("inf")


def answer(module, expression):
    """What the expression gives: the text of the value, or the error's type and text, in tocha's words."""
    state = module.get_rng_state()
    module.manual_seed(0)
    names = {"m": module, "np": np, "t": module.tensor, "ac": module.testing.assert_close, "x": module.arange(4.0)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = repr(eval(expression, names | {"mk": module.testing.make_tensor, "NAN": NAN, "INF": INF}))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    module.set_rng_state(state)
    return text.replace("torch", "tocha").replace("Torch", "Tocha")


def check(expression):
    assert answer(tocha, expression) == answer(torch, expression)


CLOSE = [
    "t([1.,2.]),t([1.,2.1])", "t(1.),t(1.1)", "t([1,2]),t([1,3])", "t([1.,2.,3.]),t([1.,5.,9.]),rtol=0,atol=0", "1.,1.1",
    "1,2", "1+1j,1+2j", "True,False", "1,1.", "'a','a'", "None,None", "None,3", "[1,2],[1,3]", "[1,2],[1]", "(1,2),[1,2]",
    "{'a':1},{'a':2}", "{'c':1,'a':1},{'z':1,'b':1}", "[{'x':[t(1.),t(2.)]}],[{'x':[t(1.),t(3.)]}]", "b'a',b'b'",
    "t([1.]),t([1.],dtype=m.float64)", "t([1.]),t([[1.]])", "t([1.]),t([1.],device='meta')", "t([NAN]),t([NAN])",
    "m.ones(2,3),m.ones(3,2).t(),check_stride=True", "t([NAN]),t([NAN]),equal_nan=True", "NAN,NAN", "t([1.]),t([2.]),msg='own'",
    "[t([1.])],[t([2.])],msg=lambda s:'<'+s+'>'", "t([1.]),t([2.]),rtol=1", "t([1.]),t([2.]),rtol=0.1,atol=0.1",
    "np.ones(2),np.zeros(2)", "np.ones(2),t([1.,1.])", "t(1.),1.", "t([1.]),None", "t([1.,INF]),t([1.,-INF])", "INF,-INF",
    "t([True,False]),t([True,True])", "t([1+1j]),t([1+1.1j])", "m.ones(3,dtype=m.half),m.ones(3,dtype=m.half)+0.002",
    "m.ones(3,dtype=m.bfloat16),m.ones(3,dtype=m.bfloat16)+0.02", "object(),object()", "{1,2},{1,2}", "3.,0.", "2**70,2**70+1",
    "t([0,1,2],dtype=m.uint8),t([0,1,255],dtype=m.uint8)", "t([1,2],dtype=m.uint16),t([1,3],dtype=m.uint16)",
    "t([1.],dtype=m.half),t([1.5]),check_dtype=False", "t(1),t(1.5),check_dtype=False", "np.float32(1),2.0",
    "np.bool_(True),np.bool_(False)", "t([1,2]),t([1,4]),rtol=0,atol=1", "m.full((3,),1e20),m.full((3,),2e20)",
    "[1,[2]],[5,[2,3]]", "[m.ones(2)],[m.ones(3)]", "t([5.,1.]),t([0.,1.])", "m.ones(2),m.ones(2,device='meta'),check_device=False",
    "[1],[1,2],msg='own'", "'a','a',msg='own'", "None,3,msg='own'", "t([1.]),t([[1.]]),msg='own'", "{'a':1},{'b':1},msg='own'",
    "True,False,msg='own'", "1,1.,msg='own'",
]  # fmt: skip


@pytest.mark.parametrize("arguments", CLOSE)
def test_assert_close(arguments):
    check(f"ac({arguments})")


DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "uint16",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "complex32",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "arguments", ["3", "(2,2),low=-3,high=4", "2,3,noncontiguous=True", "20,exclude_zero=True,low=0"]
)
def test_make_tensor(dtype, arguments):
    if "exclude_zero" in arguments and dtype in ("uint16", "float8_e5m2", "float8_e4m3fnuz"):
        pytest.skip("PyTorch cannot replace values of this dtype")
    check(f"mk({arguments},dtype=m.{dtype},device='cpu')")


TYPES = [
    "m.FloatTensor()", "m.FloatTensor(2,3).shape", "m.FloatTensor([2,3])", "m.FloatTensor(m.Size([2,3])).shape",
    "m.LongTensor([1.7,-2.5])", "m.FloatTensor(np.ones(2))", "m.FloatTensor(1.5)", "m.FloatTensor('a')", "m.FloatTensor(None)",
    "m.FloatTensor(2,device='meta')", "m.FloatTensor(-1)", "m.BoolTensor([1,0,2])", "m.ByteTensor([300])", "m.ByteTensor([-1])",
    "m.FloatTensor(range(3))", "m.FloatTensor([m.tensor(1),m.tensor(2)])", "m.FloatTensor(np.int64(3)).shape", "m.FloatTensor(True)",
    "m.FloatTensor(2,[1])", "m.FloatTensor(2,1.5)", "m.FloatTensor(other=x)", "isinstance(x,m.FloatTensor)", "m.FloatTensor",
    "isinstance(x.to('meta'),m.FloatTensor)", "type(m.FloatTensor)", "m.FloatTensor.layout",
    "m.typename(m.FloatTensor)", "x.new(2,3).shape", "x.long().new([1.5])", "x.type(m.LongTensor)", "x.type(float)", "x.type(3)",
    "x.type('FloatTensor')", "x.long().type(m.Tensor)", "m.FloatTensor.foo", "m.set_default_tensor_type(m.LongTensor)",
    "m.set_default_tensor_type(3)", "m.FloatTensor(m.ones(2,device='cpu'))",
]  # fmt: skip


@pytest.mark.parametrize("expression", TYPES)
def test_tensor_types(expression):
    check(expression)


# PyTorch answers these otherwise where it is built with CUDA; some would then change what it does from there on.
WITHOUT_CUDA = [
    "m.cuda.is_available(), m.cuda.device_count(), m.cuda.get_rng_state_all()", "m.cuda.init()", "m.cuda.current_device()",
    "m.cuda.memory_stats()", "m.cuda.set_device('cpu')", "m.cuda.manual_seed_all(0)", "m.cuda.nvtx.range_push('a')",
    "m.backends.cudnn.enabled, m.backends.cudnn.benchmark, m.backends.cudnn.allow_tf32, m.backends.cudnn.fp32_precision",
    "m.backends.cudnn.version(), m.backends.cudnn.is_available(), m.backends.mps.is_available()",
    "m.backends.cuda.matmul.allow_tf32, m.backends.cuda.is_built()", "m.backends.cuda.matmul.foo", "m.cpu.current_device()",
    "m.accelerator.current_accelerator(), m.accelerator.is_available()", "m.accelerator.synchronize()",
    "m.get_device_module().__name__", "m.cuda.FloatTensor(2)", "m.set_default_tensor_type('torch.cuda.FloatTensor')",
]  # fmt: skip


@pytest.mark.skipif(torch.version.cuda is not None, reason="this PyTorch is built with CUDA, which tocha is not")
@pytest.mark.parametrize("expression", WITHOUT_CUDA)
def test_names_of_a_build_without_cuda(expression):
    check(expression)


OTHERS = [
    "m.get_device_module(3)", "m.get_device_module('meta')",
    "m.set_deterministic_debug_mode('foo')", "m.set_deterministic_debug_mode(7)", "m.set_deterministic_debug_mode(1.5)",
    "m.get_deterministic_debug_mode()", "m.set_float32_matmul_precision(3)", "m.get_float32_matmul_precision()",
    "list(m.serialization.LoadEndianness)", "m.serialization.set_default_load_endianness(3)",
    "m.serialization.set_default_mmap_options(3)", "m.serialization.get_default_mmap_options()",
    "x.reshape(2,2).t().dim_order()", "m.ones(1,1).dim_order(ambiguity_check=True)", "x.clone().apply_(lambda v: v * 2)",
    "x.clone().map_(x.double(), max)", "x.clone().requires_grad_().apply_(abs)", "m.is_nonzero(x)", "m.is_signed(3)",
    "m.utils.checkpoint.detach_variable([x])", "m.utils.checkpoint.get_device_states(x)",
    "m.overrides.is_tensor_method_or_property(m.Tensor.shape.__get__), m.overrides.is_tensor_method_or_property(m.add)",
    "m.overrides.resolve_name(m.Tensor.add), m.overrides.resolve_name(m.add), m.overrides.resolve_name(m.linalg.solve)",
    "m.ones in m.overrides.get_ignored_functions(), m.zeros_like in m.overrides.get_ignored_functions()",
]  # fmt: skip


@pytest.mark.parametrize("expression", OTHERS)
def test_other_names(expression):
    check(expression)


def test_a_shared_mapping_writes_what_pytorch_reads(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.ones(3)}, path)
    with tocha.serialization.set_default_mmap_options(tocha.serialization.MAP_SHARED):
        tocha.load(path, mmap=True)["a"][0] = 9.0
    assert torch.load(path)["a"].tolist() == tocha.load(path)["a"].tolist() == [9.0, 1.0, 1.0]
