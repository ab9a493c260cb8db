"""NumPy in captured code: one graph of tensors, with NumPy's values, dtypes, and its scalars where it gives scalars."""

import numpy as np
import pytest

import tocha
from tocha._dynamo.testing import CompileCounter

F32, F64 = np.array([[1.0, 4.0], [9.0, 2.0]], np.float32), np.array([[0.5, 1.5], [2.5, -3.5]])
I64, BOOL = np.array([[3, -1], [2, 7]]), np.array([[True, False], [True, True]])


def same(a, b):
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, equal_nan=True)
    if isinstance(a, tocha.Tensor):
        return isinstance(b, tocha.Tensor) and a.dtype == b.dtype and tocha.allclose(a, b)
    return type(a) is type(b) and a == b


def check(f, *args):
    counter = CompileCounter()
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    expected = f(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
    found = tocha.compile(f, backend=counter, fullgraph=True)(*given)
    assert same(found, expected), (found, expected)
    assert counter.frame_count == 1
    return given


UNARY = [np.sqrt, np.sin, np.exp, np.log1p, np.abs, np.negative, np.floor, np.rint, np.sign, np.square, np.tanh, np.arctan, np.isnan, np.degrees, np.logical_not]  # fmt: skip
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power, np.maximum, np.minimum, np.arctan2, np.hypot, np.less, np.equal, np.greater_equal, np.logical_and, np.matmul, np.floor_divide, np.remainder]  # fmt: skip


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("a", [np.abs(F32), np.abs(F64), np.abs(I64)], ids=["f32", "f64", "i64"])
def test_functions_of_one_array(function, a):
    check(lambda x: function(x), a)


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_functions_of_two_arrays_and_numbers(function):
    positive = np.abs(I64)
    check(lambda x, y: function(x, y), F32, F64)
    check(lambda x, y: function(x, y), F32, positive)
    if function is not np.matmul:
        check(lambda x: (function(x, 2), function(2.5, x)), F32)
        check(lambda x: function(x, 2), positive)


def test_several_dims_at_once():
    check(lambda x, y: (np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1)), np.max(x, axis=(0, 1)), x.mean(axis=(1,))), F32, F64)  # fmt: skip


REDUCTIONS = ["sum", "mean", "prod", "std", "var", "max", "min", "argmax", "argmin", "any", "all"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("a", [F32, F64, I64, BOOL], ids=["f32", "f64", "i64", "bool"])
def test_reductions_are_scalars_where_numpy_s_are(name, a):
    function = getattr(np, name)
    check(lambda x: (function(x), function(x, axis=0), getattr(x, name)(axis=1, keepdims=True), getattr(x, name)()), a)


def test_shapes():
    check(lambda x: (x.reshape(4), x.reshape(1, -1), x.T, x.ravel(), x.transpose(1, 0), x[None].squeeze(0)), F32)
    check(lambda x: (np.expand_dims(x, 1), np.swapaxes(x, 0, 1), np.flip(x), np.roll(x, 1, axis=0), np.repeat(x, 2)), F64)  # fmt: skip
    check(lambda x: (np.concatenate([x, x + 1]), np.stack([x, x], axis=1), np.vstack((x, x)), np.split(x, 2)), I64)
    check(lambda x: (np.concatenate([x, np.zeros((1, 2))]), np.tile(x, 2), np.broadcast_to(x, (3, 2, 2)).sum()), F32)


def test_facts_are_known():
    check(lambda x: (x + 0, x.shape, x.ndim, x.size, x.dtype, len(x), x.nbytes), F32)
    check(lambda x: x * 2 if x.dtype == np.float32 else x * 3, F32)


def test_products():
    check(lambda x, y: (x @ y, np.dot(x, y), np.outer(x, y), np.einsum("ij,jk->ik", x, y), np.inner(x, y)), F32, F64)
    check(lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.det(x), np.linalg.inv(x)), F64)


def test_choices():
    check(lambda x: (np.where(x > 1, x, -x), np.clip(x, 0, 2), x.clip(1, 3), np.sort(x), np.argsort(x, axis=0)), F64)
    check(lambda x: (np.take(x, np.array([1, 0])), x[1], x[:, 0], x[0, 1], x[..., None], x[np.array([1, 0])]), F32)
    check(lambda x: [row * 2 for row in x], I64)


def test_arrays_are_made():
    check(lambda x: (x + np.arange(2), x * np.ones(2, dtype=np.float32), x + np.eye(2), np.zeros_like(x), np.full((2,), 3) + x), F32)  # fmt: skip
    check(lambda x: (x + np.linspace(0, 1, 2), x + np.array([1, 2]), np.asarray(x), x.astype(np.int64), x.copy()), F32)


def test_operators():
    check(lambda x, y: (x + y, x - 1, 2 - x, x / 2, x // 2, x % 3, x**2, -x, x < y, x == 1, 1 / x), F32, F64)
    check(lambda x: (x & 3, x | 1, ~x, x << 1, x // 2, x / 2, x**2), I64)


def test_writes_reach_the_array():
    def f(x):
        x[0] = 5
        x[:, 1] += 1
        x *= 2
        return x.sum()

    (mine,) = check(f, F64)
    expected = F64.copy()
    f(expected)
    assert np.array_equal(mine, expected)


def test_tensors_and_arrays_turn_into_each_other():
    def f(x, a):
        b = np.sqrt(x.numpy()) + a
        return tocha.from_numpy(b) * 2, tocha.as_tensor(b.sum(axis=0)), tocha.tensor(b), b.mean()

    check(f, tocha.tensor([[1.0, 4.0], [9.0, 16.0]]), F32)
    x = tocha.ones(3)
    a = tocha.compile(lambda x: x.numpy(), backend="eager")(x)
    a[0] = 7
    assert x[0] == 7  # the same memory


@pytest.mark.filterwarnings("error")
def test_tensors_take_arrays():
    def f(x, a):
        y = x.clone()
        y[a - 1] = 5.0
        y[a > 1] += 1
        return x + x.new_tensor(a), x.new_tensor(a, dtype=tocha.int32), y, y[None][0, a[:2] - 1], y[a]

    check(f, tocha.tensor([1.0, 4.0, 9.0, 2.0]), np.array([1, 2, 3, 0]))


def test_numbers_and_dtypes_of_numpy_are_constants():
    scale, kind = np.float32(1.5), np.dtype("float32")
    check(lambda x: (x * scale, x.astype(kind), x * np.pi, x + np.float64(2)), F64)
    check(lambda x: (x * float(scale) + np.pi, x + int(np.int64(3))), tocha.ones(2))


def test_guards_see_another_dtype_and_shape():
    counter = CompileCounter()
    f = tocha.compile(lambda a: a + 1, backend=counter)
    for a in (F32, F32 * 2, F64, I64, F32[0]):
        assert same(f(a), a + 1)
    assert counter.frame_count == 4


def test_what_is_not_known_breaks_the_graph():
    def f(a):
        return np.histogram(a + 1)[0] + 1

    assert same(tocha.compile(f, backend="eager")(F64), f(F64))


def test_wrapped_functions_take_tensors():
    f = tocha.compiler.wrap_numpy(lambda a, b: np.sum(a[:, None] * b, axis=0))
    x = tocha.tensor([1.0, 2.0])
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x, x), tocha.tensor([3.0, 6.0]))
    assert same(f(x, x), tocha.tensor([3.0, 6.0]))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gradients_go_through_arrays(backend):
    def of_arrays(a):
        return np.sum(np.concatenate([np.sin(a) ** 2, np.max(a)[None]]))

    def of_tensors(x):
        return tocha.cat([x.sin() ** 2, x.max()[None]]).sum()

    wrapped = tocha.compiler.wrap_numpy(of_arrays)
    expected = tocha.arange(4.0, requires_grad=True)
    of_tensors(expected).backward()
    for f in (wrapped, lambda x: tocha.as_tensor(of_arrays(x.numpy()))):
        x = tocha.arange(4.0, requires_grad=True)
        tocha.compile(f, backend=backend, fullgraph=True)(x).backward()
        tocha.testing.assert_close(x.grad, expected.grad)
    # An array that leaves captured code is one of NumPy's, without a history.
    array, tensor = tocha.compile(lambda x: (x.numpy() * 2, x * 3), backend=backend)(expected)
    assert same(array, expected.detach().numpy() * 2)
    assert tensor.requires_grad


def test_tensors_of_arrays_from_outside_leave_without_a_graph():
    def f(a):
        before = np.histogram(a)
        return tocha.from_numpy(a), before[0]

    assert same(tocha.compile(f, backend="eager")(F64), f(F64))


def test_limits_of_dtypes_are_constants():
    counter = CompileCounter()
    compiled = tocha.compile(lambda x, i: (x + i.max, i.bits, i.dtype), backend=counter, fullgraph=True)
    for limits in (np.iinfo("int8"), np.iinfo(np.int8), np.finfo("float32"), np.iinfo("int16")):
        found = compiled(tocha.zeros(1), limits)
        assert same(found, (tocha.zeros(1) + limits.max, limits.bits, limits.dtype))
    assert counter.frame_count == 3
    check(lambda x: x + np.finfo(np.float16).eps * np.iinfo(np.int16).max, tocha.ones(2))


def test_parts_and_numbers_of_arrays():
    check(lambda a: (a.real, a.imag + 1, np.real(a * 1j), np.imag(a * 1j), a.real.dtype), F32)
    check(lambda a: (a.tolist(), a.item(1), a.sum().item()), I64)

    def f(a):
        part = a.real
        part += 1
        return part

    check(f, F64)


def test_grids_and_places_along_an_axis():
    check(lambda a, b: (*np.meshgrid(a, b), *np.meshgrid(a, b, indexing="ij"), *np.meshgrid(a)), F32, I64)
    check(lambda a: np.take_along_axis(a, np.array([[1], [0]]), 1), F32)
    check(lambda a: (np.fft.fftshift(a), np.fft.ifftshift(a, axes=1)), F64)


def test_arguments_that_are_not_known_break_the_graph():
    def f(a):
        return np.sum(a, initial=3.0) + np.max(a, initial=9.0) + np.sort(a.ravel(), kind="stable")[0]

    assert same(tocha.compile(f, backend="eager")(F64), f(F64))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_tensors_of_lists_of_arrays(backend):
    def f(x):
        a, b = np.arange(6.0).reshape(2, 3), x.numpy() * 2
        return (
            tocha.tensor([a, a]), tocha.tensor([a, a], dtype=tocha.int32), tocha.tensor([[b, b], [[1, 2], (3.5, True)]]),
            tocha.as_tensor([b, b], dtype=tocha.float16), tocha.tensor([b.sum(), 3]), tocha.tensor([np.array([3, 4]), np.array([1, 2], dtype=np.int8)]),
        )  # fmt: skip

    x = tocha.ones(2)
    found, expected = tocha.compile(f, backend=backend, fullgraph=True)(x), f(x)
    assert [t.dtype for t in found] == [t.dtype for t in expected]
    assert [t.tolist() for t in found] == [t.tolist() for t in expected]
