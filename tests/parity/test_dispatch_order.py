"""A logging mode and a logging wrapper see PyTorch's operators in PyTorch's order, forward and backward.

`DIFFERENT` names the programs where ours differ, with the reason; a program that agrees must not stand there.
"""

from __future__ import annotations

import pytest
import torch
from dispatch_programs import PROGRAMS
from processor import X86

import tocha

OWN = "its gradient here is a kernel with other results than PyTorch's, under a name of its own"
DIFFERENT = {
    "cross_entropy": "log_softmax and nll_loss are one kernel here",
    "layer_norm": OWN,
    "batch_norm": OWN,
    "max_pooling": OWN,
    "average_pooling": OWN,
    # (2 / n) * grad * (self - mean): which factor is computed first is the compiler's choice.
    **({"variance": "the order of two factors"} if X86 else {}),
}
DIFFERENT_FOR_WRAPPERS = {
    "inplace_view": "a view is redone by as_strided after a write; PyTorch repeats the view's operator where tensors have no memory",
}


def modes_of(lib):
    return __import__(f"{lib.__name__}.utils._python_dispatch", fromlist=["TorchDispatchMode"])


def log_of_mode(lib, name):
    class Log(modes_of(lib).TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    inputs, run = PROGRAMS[name](lib)
    with Log() as log:
        out = run(*inputs)
        log.names.append("|")
        if out.requires_grad:
            out.sum().backward()
    return log.names, [x.grad for x in inputs]


def log_of_wrapper(lib, name):
    names = []
    tree_map = __import__(f"{lib.__name__}.utils._pytree", fromlist=["tree_map"]).tree_map
    correct = modes_of(lib).return_and_correct_aliasing

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(
                cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
                device=inner.device, requires_grad=inner.requires_grad,
            )  # fmt: skip

        def __init__(self, inner):
            self.inner = inner

        __torch_function__ = lib._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            names.append(str(func))
            kwargs = kwargs or {}
            plain, named = tree_map(lambda t: t.inner if isinstance(t, Wrapper) else t, (args, kwargs))
            out = tree_map(lambda t: Wrapper(t) if isinstance(t, lib.Tensor) else t, func(*plain, **named))
            return correct(func, args, kwargs, out)

    inputs, run = PROGRAMS[name](lib)
    inputs = [Wrapper(x.detach()).requires_grad_() for x in inputs]
    out = run(*inputs)
    names.append("|")
    if out.requires_grad:
        out.sum().backward()
    return names, [x.grad.inner if x.grad is not None else None for x in inputs]


@pytest.mark.parametrize("log", [log_of_mode, log_of_wrapper])
@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_come_in_pytorchs_order(name, log):
    ours, our_grads = log(tocha, name)
    theirs, their_grads = log(torch, name)
    if name in DIFFERENT or (name in DIFFERENT_FOR_WRAPPERS and log is log_of_wrapper):
        assert ours != theirs, f"{name} agrees with PyTorch: it no longer belongs in DIFFERENT"
    else:
        assert ours == theirs
    for a, b in zip(our_grads, their_grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert torch.allclose(torch.tensor(a.tolist(), dtype=b.dtype), b, atol=1e-5, rtol=1e-4)


def test_there_are_enough_programs():
    assert len(PROGRAMS) - len(DIFFERENT) >= 40
