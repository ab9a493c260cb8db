"""Folds of a few elements, written out as formulas."""

import pytest

import tocha
from tocha._inductor.utils import run_and_get_code

SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e30, -3.5]
FOLDS = {
    "sum": lambda x, d: x.sum(d), "mean": lambda x, d: x.mean(d, keepdim=True), "prod": lambda x, d: x.prod(d),
    "amax": lambda x, d: x.amax(d), "amin": lambda x, d: x.amin(d), "aminmax": lambda x, d: x.aminmax(dim=d),
    "max": lambda x, d: x.max(d), "min": lambda x, d: x.min(d), "argmax": lambda x, d: x.argmax(d), "argmin": lambda x, d: x.argmin(d),
    "any": lambda x, d: (x > 0).any(d), "all": lambda x, d: (x > 0).all(d), "count": lambda x, d: x.count_nonzero(d),
    "norm": lambda x, d: x.norm(dim=d), "logsumexp": lambda x, d: x.logsumexp(d), "softmax": lambda x, d: x.softmax(d),
    "var": lambda x, d: x.var(d), "std_mean": lambda x, d: tocha.std_mean(x, d), "nansum": lambda x, d: x.nansum(d),
}  # fmt: skip


def check(function, *args):
    tocha._dynamo.reset()
    found, (code, *_) = run_and_get_code(tocha.compile(function, fullgraph=True), *args)
    tocha.testing.assert_close(found, function(*args), equal_nan=True)
    return code


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_short_folds_are_as_uncompiled_ones(name, size):
    tocha.manual_seed(size)
    x = tocha.randn(90, size)
    x[:7, 0] = tocha.tensor(SPECIAL)
    x[5:20] = x[5:20].round()  # ties
    function = FOLDS[name]
    check(lambda x, y: (function(x, -1), function(x.t(), 0), function(y * 2 + 1, -1)), x, x.double())


@pytest.mark.parametrize("dtype", [tocha.bfloat16, tocha.float16, tocha.int32, tocha.int64, tocha.uint8, tocha.bool])
def test_short_folds_of_other_types(dtype):
    x = (tocha.rand(150, 3) * 4).to(dtype)
    check(lambda x: (x.sum(-1), x.amax(-1), x.argmax(-1) if dtype is not tocha.bool else x.any(-1), x.prod(-1)), x)


@pytest.mark.parametrize("dims", [(1, 2), (0, 2), (0, 1, 2)])
def test_several_dims_at_once(dims):
    check(lambda x: x.sum(dims), tocha.randn(2, 2, 1, 90))
    check(lambda x: x.mean(dims) * 2, tocha.randn(3, 2, 1))


def test_a_short_fold_is_part_of_a_formula():
    code = check(lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(), tocha.randn(100, 3))
    assert code.count("run(api, program") == 1
    assert "vec::F32" not in code[: code.index("void run(")]


def test_gradients_of_short_folds():
    x = tocha.randn(90, 3, requires_grad=True)
    y = x.detach().clone().requires_grad_()

    def function(x):
        return (x.softmax(-1).amax(-1) * x.norm(dim=-1)).sum() + x.repeat_interleave(3, 1).sin().sum()

    function(x).backward()
    tocha.compile(function)(y).backward()
    tocha.testing.assert_close(y.grad, x.grad)


@pytest.mark.parametrize("size", [3, 15])
def test_short_folds_of_exponentials_go_by_packs(size):
    x = tocha.randn(90, size)
    x[:7, 0] = tocha.tensor(SPECIAL)
    code = check(lambda x: x.logsumexp(-1), x)
    assert "vec::load_apart" in code
