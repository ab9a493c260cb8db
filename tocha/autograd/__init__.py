"""Differentiation: backward and grad, modes, functions with a backward of their own, checks.

>>> import tocha
>>> x = tocha.tensor([1.0, 2.0], requires_grad=True)
>>> (x**2).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

from tocha import _C
from tocha.autograd import forward_ad, functional, graph
from tocha.autograd import profiler as profiler
from tocha.autograd._backward import backward, grad
from tocha.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from tocha.autograd.function import Function, NestedIOFunction
from tocha.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from tocha.autograd.gradcheck import gradcheck, gradgradcheck
from tocha.autograd.variable import Variable

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

for _function in (backward, grad):
    _function.__module__ = __name__


def _profiler_enabled() -> bool:
    """Whether operators are recorded."""
    return _C._profiler_is_recording()


def kineto_available() -> bool:
    """Whether there is a profiler that writes traces: tocha's own."""
    return True
