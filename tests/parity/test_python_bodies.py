"""Functions that PyTorch writes in Python (masked reductions, windows), on PyTorch's own samples.

The replay of the operator tables runs PyTorch's Python bodies, which ask `x.layout == torch.strided` and pass
`x.device` on to PyTorch; so these are called here directly, tocha's function against PyTorch's.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import tocha

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.complex64)
CASES = [
    pytest.param(o, d, id=f"{o.name}-{d}")
    for o in op_db
    if o.name.startswith(("masked.", "signal.windows.")) and not o.variant_test_name
    for d in DTYPES
    if o.supports_dtype(d, "cpu")
]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float64: 1e-7}


def ours(v: Any) -> Any:
    if isinstance(v, torch.Tensor):
        raw = v.detach().view(torch.int16) if v.dtype == torch.bfloat16 else v.detach()
        t = tocha.from_numpy(raw.contiguous().numpy())
        return t.view(tocha.bfloat16) if v.dtype == torch.bfloat16 else t
    if isinstance(v, torch.dtype | torch.layout):
        return getattr(tocha, str(v).split(".")[1])
    if isinstance(v, list | tuple):
        return type(v)(map(ours, v))
    return v


def theirs(t: tocha.Tensor) -> torch.Tensor:
    if t.dtype == tocha.bfloat16:
        return torch.from_numpy(t.contiguous().view(tocha.int16).numpy()).view(torch.bfloat16)
    return torch.from_numpy(t.contiguous().numpy())


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_agrees(case: Any, dtype: torch.dtype) -> None:
    function: Any = tocha
    for part in case.name.split("."):
        function = getattr(function, part)
    count = 0
    for sample in case.sample_inputs("cpu", dtype):
        if any(
            isinstance(v, torch.Tensor) and v.layout != torch.strided
            for v in (sample.input, *sample.args, *sample.kwargs.values())
        ):
            continue
        want = case.op(sample.input, *sample.args, **sample.kwargs)
        got = function(ours(sample.input), *map(ours, sample.args), **{k: ours(v) for k, v in sample.kwargs.items()})
        tolerance = TOLERANCE.get(want.dtype, 2e-4)
        torch.testing.assert_close(theirs(got), want, rtol=tolerance, atol=tolerance, equal_nan=True)
        count += 1
    assert count
