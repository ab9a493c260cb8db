"""nn.init gives PyTorch's numbers for PyTorch's seeds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tocha

torch = pytest.importorskip("torch")

CASES = {
    "uniform": ("uniform_", (5, 7), {"a": -2.0, "b": 3.0}),
    "normal": ("normal_", (5, 7), {"mean": 1.0, "std": 2.0}),
    "normal small": ("normal_", (3,), {}),
    "constant": ("constant_", (3, 2), {"val": 0.25}),
    "ones": ("ones_", (3,), {}),
    "zeros": ("zeros_", (3,), {}),
    "eye wide": ("eye_", (3, 5), {}),
    "eye tall": ("eye_", (5, 3), {}),
    "dirac 3": ("dirac_", (4, 2, 3), {"groups": 2}),
    "dirac 4": ("dirac_", (2, 4, 3, 4), {}),
    "dirac 5": ("dirac_", (3, 3, 1, 2, 3), {}),
    "xavier uniform": ("xavier_uniform_", (6, 4, 3, 3), {"gain": 1.5}),
    "xavier normal": ("xavier_normal_", (6, 40), {}),
    "kaiming uniform": ("kaiming_uniform_", (6, 4, 3), {"a": 5**0.5}),
    "kaiming uniform out": ("kaiming_uniform_", (6, 4, 3), {"mode": "fan_out", "nonlinearity": "relu"}),
    "kaiming normal": ("kaiming_normal_", (6, 4, 3, 2), {"nonlinearity": "tanh"}),
    "truncated": ("trunc_normal_", (50,), {}),
    "truncated narrow": ("trunc_normal_", (200,), {"std": 0.02, "a": -0.02, "b": 0.03}),
    "truncated by rejection": ("trunc_normal_", (33,), {"a": 1.0, "b": 3.0}),
    "truncated far": ("trunc_normal_", (33,), {"mean": 5.0}),
    "truncated low": ("trunc_normal_", (4, 5), {"mean": 0.2, "std": 2.0, "a": 0.0, "b": 0.5}),
    "sparse": ("sparse_", (10, 6), {"sparsity": 0.35, "std": 0.1}),
}  # fmt: skip


def filled(lib, name, shape, arguments, seed, dtype="float32", own_generator=False):
    arguments = dict(arguments)
    lib.manual_seed(seed)
    if own_generator:
        arguments["generator"] = lib.Generator().manual_seed(seed + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(lib.nn.init, name)(lib.zeros(shape, dtype=getattr(lib, dtype)), **arguments)
    return found.to(lib.float64).numpy()


@pytest.mark.parametrize("case", CASES)
def test_same_numbers(case):
    for seed in range(5):
        np.testing.assert_array_equal(filled(tocha, *CASES[case], seed), filled(torch, *CASES[case], seed))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "case", ["uniform", "normal", "truncated", "truncated narrow", "xavier uniform", "kaiming normal"]
)
def test_same_numbers_in_other_dtypes(case, dtype):
    np.testing.assert_array_equal(filled(tocha, *CASES[case], 3, dtype), filled(torch, *CASES[case], 3, dtype))


@pytest.mark.parametrize(
    "case", [c for c, (name, _, _) in CASES.items() if name not in ("constant_", "ones_", "zeros_", "eye_", "dirac_")]
)
def test_generator(case):
    found = filled(tocha, *CASES[case], 7, own_generator=True)
    np.testing.assert_array_equal(found, filled(torch, *CASES[case], 7, own_generator=True))
    assert not np.array_equal(found, filled(tocha, *CASES[case], 7))


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (9, 4), (4, 2, 3)])
def test_orthogonal(shape):
    """A decomposition by another LAPACK may round differently, more so where columns are nearly parallel."""
    for seed in range(5):
        expected = filled(torch, "orthogonal_", shape, {"gain": 1.5}, seed)
        found = filled(tocha, "orthogonal_", shape, {"gain": 1.5}, seed)
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "name",
    [
        "linear",
        *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)),
        "sigmoid",
        "tanh",
        "relu",
        "leaky_relu",
        "selu",
    ],
)
def test_gain(name):
    assert tocha.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def attempt(lib, name, args, kwargs):
    made = [lib.zeros(a) if isinstance(a, tuple) else a for a in args]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            getattr(lib.nn.init, name)(*made, **kwargs)
            error = None
        except Exception as e:
            error = (type(e).__name__, str(e))
    return error, [(w.category.__name__, str(w.message)) for w in caught]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("calculate_gain", ("foo",), {}),
        ("calculate_gain", ("leaky_relu", "a"), {}),
        ("eye_", ((2,),), {}),
        ("dirac_", ((2, 2),), {}),
        ("dirac_", ((3, 2, 3),), {"groups": 2}),
        ("xavier_uniform_", ((2,),), {}),
        ("kaiming_uniform_", ((2,),), {}),
        ("kaiming_uniform_", ((2, 2),), {"mode": "x"}),
        ("kaiming_uniform_", ((0, 2),), {}),
        ("kaiming_normal_", ((0, 2),), {}),
        ("orthogonal_", ((2,),), {}),
        ("orthogonal_", ((0, 2),), {}),
        ("sparse_", ((2,), 0.5), {}),
        ("trunc_normal_", ((2,),), {"mean": 5}),
        ("trunc_normal_", ((2,),), {"std": 0}),
        ("uniform", ((2,),), {}),
        ("kaiming_normal", ((2, 2),), {}),
    ],
)
def test_same_complaints(name, args, kwargs):
    assert attempt(tocha, name, args, kwargs) == attempt(torch, name, args, kwargs)
