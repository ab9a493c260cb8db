"""Small programs whose operators are logged below autograd, in PyTorch and in tocha (test_dispatch_order.py).

Each takes the library and makes its own inputs before the log begins: it returns the inputs and what is run on them. Results that
require a gradient are summed and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable] = {}


def program(f: Callable) -> Callable:
    PROGRAMS[f.__name__] = f
    return f


def leaf(T: Any, *sizes: int) -> Any:
    return T.linspace(0.1, 0.9, max(1, _product(sizes))).reshape(sizes).requires_grad_()


def _product(sizes: tuple) -> int:
    n = 1
    for s in sizes:
        n *= s
    return n


@program
def add_mul(T):
    return [leaf(T, 2, 3), leaf(T, 3)], lambda x, y: (x + y) * x


@program
def numbers(T):
    return [leaf(T, 3)], lambda x: (x + 2) * 3 - 1


@program
def division(T):
    return [leaf(T, 3), leaf(T, 3)], lambda x, y: x / y


@program
def reverse_operators(T):
    return [leaf(T, 3)], lambda x: 2 - x


@program
def negate_abs(T):
    return [leaf(T, 3)], lambda x: (-x).abs()


@program
def exp_log(T):
    return [leaf(T, 3)], lambda x: x.exp().log()


@program
def tanh_sigmoid(T):
    return [leaf(T, 3)], lambda x: x.tanh().sigmoid()


@program
def relu(T):
    return [leaf(T, 3)], lambda x: T.relu(x)


@program
def gelu(T):
    return [leaf(T, 3)], lambda x: T.nn.functional.gelu(x)


@program
def silu(T):
    return [leaf(T, 3)], lambda x: T.nn.functional.silu(x)


@program
def leaky_relu(T):
    return [leaf(T, 3)], lambda x: T.nn.functional.leaky_relu(x, 0.2)


@program
def clamp(T):
    return [leaf(T, 3)], lambda x: x.clamp(0.2, 0.8)


@program
def power(T):
    return [leaf(T, 3)], lambda x: x**2


@program
def square_root(T):
    return [leaf(T, 3)], lambda x: x.sqrt()


@program
def sin_cos(T):
    return [leaf(T, 3)], lambda x: x.sin() + x.cos()


@program
def reductions(T):
    return [leaf(T, 2, 3)], lambda x: x.sum(1) + x.mean(1)


@program
def maximum(T):
    return [leaf(T, 2, 3)], lambda x: x.max(1).values


@program
def variance(T):
    return [leaf(T, 2, 3)], lambda x: x.var(1)


@program
def products(T):
    return [leaf(T, 2, 3), leaf(T, 3, 4)], lambda x, y: x @ y


@program
def vector_product(T):
    return [leaf(T, 2, 3), leaf(T, 3)], lambda x, y: x @ y


@program
def batched_product(T):
    return [leaf(T, 2, 3, 4), leaf(T, 2, 4, 5)], lambda x, y: x @ y


@program
def folded_product(T):
    return [leaf(T, 2, 3, 4), leaf(T, 4, 5)], lambda x, y: x @ y


@program
def linear(T):
    return [leaf(T, 2, 3), leaf(T, 4, 3), leaf(T, 4)], T.nn.functional.linear


@program
def linear_without_bias(T):
    return [leaf(T, 2, 3), leaf(T, 4, 3)], T.nn.functional.linear


@program
def linear_3d(T):
    return [leaf(T, 2, 5, 3), leaf(T, 4, 3), leaf(T, 4)], T.nn.functional.linear


@program
def addmm(T):
    return [leaf(T, 4), leaf(T, 2, 3), leaf(T, 3, 4)], T.addmm


@program
def views(T):
    return [leaf(T, 2, 3)], lambda x: x.t().reshape(6).view(3, 2).unsqueeze(0).squeeze(0).permute(1, 0)


@program
def slices(T):
    return [leaf(T, 4, 3)], lambda x: x[1:3] * x[0]


@program
def transposes(T):
    return [leaf(T, 2, 3, 4)], lambda x: x.transpose(1, 2).contiguous().flatten()


@program
def expands(T):
    return [leaf(T, 3, 1)], lambda x: x.expand(3, 4) * 2.0


@program
def advanced_index(T):
    i = T.tensor([0, 2])
    return [leaf(T, 3, 2)], lambda x: x[i]


@program
def concatenation(T):
    return [leaf(T, 2, 3), leaf(T, 1, 3)], lambda x, y: T.cat([x, y])


@program
def stacking(T):
    return [leaf(T, 3), leaf(T, 3)], lambda x, y: T.stack([x, y])


@program
def splitting(T):
    return [leaf(T, 4, 3)], lambda x: T.add(*x.split(2))


@program
def softmax(T):
    return [leaf(T, 2, 3)], lambda x: x.softmax(-1)


@program
def log_softmax(T):
    return [leaf(T, 2, 3)], lambda x: T.log_softmax(x, 1)


@program
def mse_loss(T):
    return [leaf(T, 3), leaf(T, 3)], T.nn.functional.mse_loss


@program
def cross_entropy(T):
    t = T.tensor([0, 2])
    return [leaf(T, 2, 3)], lambda x: T.nn.functional.cross_entropy(x, t)


@program
def layer_norm(T):
    return [leaf(T, 2, 3), leaf(T, 3), leaf(T, 3)], lambda x, w, b: T.nn.functional.layer_norm(x, (3,), w, b)


@program
def batch_norm(T):
    m, v = T.zeros(3), T.ones(3)
    return [leaf(T, 4, 3), leaf(T, 3), leaf(T, 3)], lambda x, w, b: T.nn.functional.batch_norm(x, m, v, w, b, True)


@program
def embedding(T):
    i = T.tensor([0, 1, 1])
    return [leaf(T, 3, 2)], lambda w: T.nn.functional.embedding(i, w)


@program
def convolution(T):
    return [leaf(T, 1, 2, 5, 5), leaf(T, 3, 2, 3, 3), leaf(T, 3)], lambda x, w, b: T.nn.functional.conv2d(x, w, b)


@program
def max_pooling(T):
    return [leaf(T, 1, 1, 4, 4)], lambda x: T.nn.functional.max_pool2d(x, 2)


@program
def average_pooling(T):
    return [leaf(T, 1, 1, 4, 4)], lambda x: T.nn.functional.avg_pool2d(x, 2)


@program
def where(T):
    return [leaf(T, 3), leaf(T, 3)], lambda x, y: T.where(x > 0.5, x, y)


@program
def inplace(T):
    return [leaf(T, 3)], lambda x: (x * 2).add_(1).mul_(x)


@program
def inplace_view(T):
    def run(x):
        y = x * 2
        y[0].mul_(3)
        return y

    return [leaf(T, 3, 2)], run


@program
def casts(T):
    return [leaf(T, 3)], lambda x: x.double() * 2


@program
def factories(T):
    return [leaf(T, 3)], lambda x: x + T.ones(3) + T.zeros_like(x) + T.arange(3)


@program
def detached(T):
    return [leaf(T, 3)], lambda x: x.detach() * x


@program
def comparisons(T):
    return [leaf(T, 3)], lambda x: (x > 0.3).float() * x * (x == 2)


@program
def reused(T):
    return [leaf(T, 3)], lambda x: x * x + x


@program
def perceptron(T):
    def run(x, w, b, v):
        return T.relu(T.nn.functional.linear(x, w, b)) @ v

    return [leaf(T, 2, 3), leaf(T, 4, 3), leaf(T, 4), leaf(T, 4, 1)], run
