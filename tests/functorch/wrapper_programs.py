"""Programs on tensor subclasses: `x` is a Pair of 2 x 3 tensors, `s` a Scaled 2 x 3 tensor, `y` a plain one."""

import tocha
from tocha.utils import _pytree as pytree
from tocha.utils._python_dispatch import return_and_correct_aliasing

WRAPPED = {}


def wrapped(f):
    WRAPPED[f.__name__] = f
    return f


class Pair(tocha.Tensor):
    """Two tensors of one shape; operators run on both."""

    @staticmethod
    def __new__(cls, a, b):
        return tocha.Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), storage_offset=a.storage_offset(), dtype=a.dtype, device=a.device
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __repr__(self):
        return f"Pair({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["a"], inner["b"])

    __torch_function__ = tocha._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}

        def on(name):
            given, named = pytree.tree_map_only(Pair, lambda t: getattr(t, name), (args, kwargs))
            return func(*given, **named)

        first, spec = pytree.tree_flatten(on("a"))
        made = [Pair(p, q) for p, q in zip(first, pytree.tree_leaves(on("b")), strict=True)]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(made, spec))


class Scaled(tocha.Tensor):
    """A tensor times a number that is no tensor."""

    @staticmethod
    def __new__(cls, inner, scale):
        return tocha.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    def __repr__(self):
        return f"Scaled({self.inner}, {self.scale})"

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, scale, size, stride):
        return Scaled(inner["inner"], scale)

    def __coerce_same_metadata_as_tangent__(self, expected, expected_type=None):
        plain = self.inner * self.scale
        return plain if expected_type is tocha.Tensor else Scaled(plain / expected, expected)

    __torch_function__ = tocha._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is tocha.ops.aten.detach.default:
            return return_and_correct_aliasing(func, args, kwargs, Scaled(args[0].inner.detach(), args[0].scale))
        plain, named = pytree.tree_map_only(Scaled, lambda t: t.inner * t.scale, (args, kwargs or {}))
        out = func(*plain, **named)
        return pytree.tree_map_only(tocha.Tensor, lambda t: Scaled(t / 2, 2.0), out)


def inputs(grad):
    """A Pair, a Scaled tensor and a plain one."""
    first = tocha.arange(6.0).reshape(2, 3) / 4
    x = Pair(first, first - 1)
    s = Scaled(first + 0.5, 3.0)
    y = tocha.arange(6.0).reshape(2, 3) / 5 + 1
    return tuple(t.requires_grad_(grad) for t in (x, s, y))


@wrapped
def products(x, s, y):
    return (x * y).sin(), (s * y).cos()


@wrapped
def plain_beside(x, s, y):
    return x * 2, y.exp()


@wrapped
def linear(x, s, y):
    return tocha.nn.functional.linear(x, y), s @ y.t()


@wrapped
def normed(x, s, y):
    return tocha.softmax(x, -1) + (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


@wrapped
def itself(x, s, y):
    return x, s, x + 1


@wrapped
def view_of_input(x, s, y):
    return x.view(3, 2), x.t()[1]


@wrapped
def several_views(x, s, y):
    return x.unbind(0)


@wrapped
def part_of_input(x, s, y):
    return x.a, x.b * 2


@wrapped
def made_inside(x, s, y):
    return Pair(y.detach() * 2, y.detach() + 1) * x


@wrapped
def nested(x, s, y):
    return Pair(x.detach() * 2, x.detach() + 1) * 3


@wrapped
def no_gradient_inside(x, s, y):
    with tocha.no_grad():
        z = x * 3
    return z * x


@wrapped
def write_to_result(x, s, y):
    z = x * y
    z.add_(1)
    z[0].mul_(2)
    return z


@wrapped
def written(x, s, y):
    z = x * 1
    x.mul_(3)
    return x + z


@wrapped
def written_view(x, s, y):
    x[0].add_(y[1])
    return x * 2


@wrapped
def written_twice(x, s, y):
    x.add_(1)
    x.mul_(y)
