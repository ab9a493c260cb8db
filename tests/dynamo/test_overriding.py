"""__torch_function__ in captured code: subclasses of Tensor and modes; graphs hold what they called."""

from typing import ClassVar

import pytest
from comparing import same

import tocha
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.testing import CompileCounter, EagerAndRecordGraphs
from tocha.overrides import TorchFunctionMode


class Named(tocha.Tensor):
    def twice(self):
        return self * 2

    @property
    def third(self):
        return self / 3


class Logged(tocha.Tensor):
    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Adds(TorchFunctionMode):
    """Adds to every result, and counts."""

    def __init__(self):
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {})) + 1


def plain(t):
    return t.as_subclass(tocha.Tensor)


def agree(mine, expected):
    assert [type(t) for t in mine] == [type(t) for t in expected]
    return all(same(plain(a), plain(b)) if isinstance(a, tocha.Tensor) else a == b for a, b in zip(mine, expected))


def test_a_subclass_gives_objects_of_its_own_class():
    def f(x, y):
        z = x * 2 + y
        z = z.twice() + z.third
        return tocha.cat([z, x]), isinstance(z, Named), type(z) is Named, 2 - x, x, tocha.sin(z).sum(), y + 1

    x, counter = tocha.ones(2).as_subclass(Named), CompileCounter()
    compiled = tocha.compile(f, backend=counter, fullgraph=True)
    for _ in range(2):
        found = compiled(x, tocha.ones(2))
        assert agree(found, f(x, tocha.ones(2))) and found[4] is x
    assert counter.frame_count == 1


def test_the_graph_is_of_plain_tensors():
    backend = EagerAndRecordGraphs()
    tocha.compile(lambda x: x + 1, backend=backend)(tocha.ones(2).as_subclass(Named))
    (graph,) = backend.graphs
    assert all(type(n.meta["example_value"]) is not Named for n in graph.graph.nodes if "example_value" in n.meta)


def test_a_subclass_sees_the_calls_that_it_sees_uncaptured():
    def f(x):
        return tocha.sin(x * 2), 2 - x, tocha.cat([x, x]).sum()

    x = tocha.ones(2).as_subclass(Logged)
    Logged.calls.clear()
    expected, seen = f(x), list(Logged.calls)
    Logged.calls.clear()
    assert agree(tocha.compile(f, backend="eager", fullgraph=True)(x), expected)
    assert Logged.calls == seen


def test_gradients_flow_to_the_leaf_behind_a_subclass():
    leaf = tocha.ones(3, requires_grad=True)
    tocha.compile(lambda x: (x * x).sum(), backend="aot_eager")(leaf.as_subclass(Named)).backward()
    assert same(leaf.grad, tocha.full((3,), 2.0))


def test_writes_reach_the_object():
    x = tocha.ones(3).as_subclass(Named)
    tocha.compile(lambda t: t.mul_(3), backend="aot_eager")(x)
    assert same(plain(x), tocha.full((3,), 3.0))


def test_another_class_is_captured_again():
    counter = CompileCounter()
    f = tocha.compile(lambda x: x + 1, backend=counter)
    assert type(f(tocha.ones(2).as_subclass(Named))) is Named
    assert type(f(tocha.ones(2))) is tocha.Tensor
    assert counter.frame_count == 2


def test_classes_that_dispatch_are_refused_by_name():
    class Dispatching(tocha.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    x = tocha.ones(2).as_subclass(Dispatching)
    with pytest.raises(Unsupported, match="Dispatching") as refused:
        tocha.compile(lambda x: x + 1, backend="eager", fullgraph=True)(x)
    assert refused.value.refusal.name == "subclass"


def test_a_mode_inside_is_gone_through():
    def f(x, mode):
        with mode:
            y = tocha.sin(x)
            z = 2 - y
        return y, z, z * 2

    first, second, counter = Adds(), Adds(), CompileCounter()
    expected = f(tocha.ones(2), first)
    assert same(tocha.compile(f, backend=counter, fullgraph=True)(tocha.ones(2), second), expected)
    assert first.count == second.count == 2 and counter.frame_count == 1


def test_a_break_inside_a_mode():
    def f(x, mode):
        with mode:
            y = tocha.sin(x)
            tocha._dynamo.graph_break()
            z = 2 - y
            z.add_(1)
        return y, z * 2

    first, second = Adds(), Adds()
    expected = f(tocha.ones(2), first)
    assert same(tocha.compile(f, backend="eager")(tocha.ones(2), second), expected)
    assert first.count == second.count


def test_modes_that_are_active_outside_see_every_call():
    def f(x):
        return tocha.sin(x) * 2

    with Adds() as first:
        expected = f(tocha.ones(2))
    with Adds() as second:
        found = tocha.compile(f, backend="eager")(tocha.ones(2))
    assert same(found, expected) and first.count == second.count


def test_data_of_a_parameter_is_replaced_in_the_graph():
    def f(p, x):
        p.data = p.data - 0.5 * x
        p.data.mul_(2)
        return (p * x).sum()

    for backend in ("eager", "aot_eager"):
        mine, expected = tocha.nn.Parameter(tocha.ones(2)), tocha.nn.Parameter(tocha.ones(2))
        x = tocha.full((2,), 3.0)
        found = tocha.compile(f, backend=backend, fullgraph=True)(mine, x)
        assert same(found, f(expected, x)) and same(mine.data, expected.data) and mine.requires_grad


def test_a_generator_that_waits_where_nothing_catches_its_end():
    def worker(x):
        k = 1
        while True:
            try:
                yield x * k
                k += 1
            except ValueError:
                k = 100

    def f(x):
        g = worker(x)
        return next(g), g.throw(ValueError("again")), next(g)

    counter = CompileCounter()
    assert same(tocha.compile(f, backend=counter, fullgraph=True)(tocha.ones(2)), f(tocha.ones(2)))
    assert counter.frame_count == 1


class OwnParameter(tocha.nn.Parameter):
    pass


def test_parameters_of_a_class_of_the_program():
    module = tocha.nn.Linear(2, 2)
    module.weight = OwnParameter(tocha.ones(2, 2))

    def f(x):
        return module(x) * isinstance(module.weight, OwnParameter)

    compiled = tocha.compile(f, backend="aot_eager", fullgraph=True)
    compiled(tocha.ones(1, 2)).sum().backward()
    assert module.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    module.weight = tocha.nn.Parameter(tocha.ones(2, 2))
    assert compiled(tocha.ones(1, 2)).tolist() == [[0.0, 0.0]]


def test_modules_whose_parameters_have_no_shape_yet():
    module = tocha.nn.Sequential(tocha.nn.LazyLinear(4), tocha.nn.ReLU(), tocha.nn.LazyLinear(2))
    compiled = tocha.compile(module, backend="aot_eager")
    first = compiled(tocha.ones(3, 5))
    assert first.shape == (3, 2) and module[0].weight.shape == (4, 5)
    assert tocha.equal(compiled(tocha.ones(3, 5)), first) and tocha.equal(module(tocha.ones(3, 5)), first)


def test_what_is_read_of_a_tensor_is_asked_too():
    class Wide(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func == tocha.Tensor.ndim.__get__:
                return 10
            if func == tocha.Tensor.shape.__get__:
                return (7,)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 20 if func == tocha.Tensor.ndim.__get__ else func(*args, **(kwargs or {}))

    def of_a_class(x):
        return x.ndim, x.shape, x.dtype, x.requires_grad, (x + 1).ndim, x.dim()

    def of_a_mode(x):
        with Mode():
            return x.ndim, x.shape, x + 1

    for f, x in ((of_a_class, tocha.ones(2).as_subclass(Wide)), (of_a_mode, tocha.ones(2))):
        assert same(tocha.compile(f, backend="eager", fullgraph=True)(x), f(x))


def test_a_parameter_whose_class_hands_calls_on():
    class Handed(tocha.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    w, x = Handed(tocha.ones(2, 2)), tocha.ones(2)
    result = tocha.compile(lambda x: tocha.nn.functional.linear(x, w) + w.ndim, backend="eager", fullgraph=True)(x)
    assert type(result) is tocha.Tensor and tocha.equal(result, tocha.full((2,), 4.0))


def test_operators_that_a_class_has_of_its_own():
    class Own(tocha.Tensor):
        def __add__(self, other):
            return tocha.sub(self, other)

        def __radd__(self, other):
            return tocha.mul(super().__radd__(other), 3)

        def __neg__(self):
            return "negative"

        def __lt__(self, other):
            return "less"

        def __getitem__(self, i):
            return tocha.Tensor.__getitem__(self, i).sub(5)

        def __len__(self):
            return super().__len__() + 40

        def __mul__(self, other):
            return NotImplemented

        def __iadd__(self, other):
            return self.mul_(10)

        def sigmoid(self):
            return tocha.Tensor.sigmoid(self) + 1

    def f(x, y):
        z = x - 0
        z += 1
        return x + 1, 1 + x, y + x, -x, x < 3, y > x, x[1], len(x), z, x.sigmoid()

    x, y = tocha.ones(2).as_subclass(Own), tocha.ones(2)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x, y), f(x, y))


@pytest.mark.parametrize("whole", [False, True])
def test_overrides_that_are_switched_off_are_on_again_afterwards(whole):
    x, off = tocha.ones(2).as_subclass(Named), tocha._C.DisableTorchFunctionSubclass

    def left(x):
        with off():
            if not whole:
                tocha._dynamo.graph_break()
            y = x + 1
        return y, x + 1

    def raised(x):
        with off():
            if not whole:
                tocha._dynamo.graph_break()
            raise ValueError(type(x + 1).__name__)

    assert same(tocha.compile(left, backend="eager", fullgraph=whole)(x), left(x))
    assert type(x + 1) is Named
    with pytest.raises(ValueError, match="Tensor"):
        tocha.compile(raised, backend="eager")(x)
    assert type(x + 1) is Named


def test_where_overrides_are_switched_off_something_else_is_captured():
    x, counter = tocha.ones(2).as_subclass(Named), CompileCounter()
    added = tocha.compile(lambda x: x + 1, backend=counter, fullgraph=True)
    with tocha._C.DisableTorchFunctionSubclass():
        assert type(added(x)) is tocha.Tensor
    assert type(added(x)) is Named and counter.frame_count == 2


def test_a_plain_method_takes_calls_over():
    class Method(tocha.Tensor):
        def __torch_function__(self, func, types, args, kwargs=None):
            with tocha._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    x = tocha.ones(2).as_subclass(Method)
    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        result = x + 1
    assert type(result) is tocha.Tensor
    assert same(tocha.compile(lambda x: x + 1, backend="eager", fullgraph=True)(x), result)


class Kept(tocha.nn.Parameter):
    """What it knows goes from operands to results."""

    def __new__(cls, data, requires_grad=False, kind=None):
        return tocha.Tensor._make_subclass(cls, data, requires_grad)

    def __init__(self, *args, kind=None, **kwargs):
        self.kind = kind

    def plain(self):
        return tocha.Tensor._make_subclass(tocha.Tensor, self, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        kind = next((a.kind for a in args if isinstance(a, Kept)), "none")
        if isinstance(result, (tuple, list)):
            return type(result)(cls(r, kind=kind) for r in result)
        return cls(result, kind=kind) if isinstance(result, tocha.Tensor) else result


@pytest.mark.parametrize("whole", [False, True])
def test_parameters_that_hand_on_what_they_know(whole):
    def f(x):
        y = x * 2
        a, b = y.split(2)
        return y.kind, (y + a.sum()).plain(), type(a), b.kind, x.plain() + 1

    x = Kept(tocha.ones(4), kind="seen")
    assert same(tocha.compile(f, backend="eager", fullgraph=whole)(x), f(x)) and f(x)[0] == "seen"


def test_objects_of_a_class_are_made_of_tensors():
    def f(x):
        made = Named(x + 1)
        shared = tocha.Tensor._make_subclass(Named, x)
        x += 1
        shared += 2
        return made * 2, shared, Named(x).third

    x, y = tocha.ones(2), tocha.ones(2)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x), f(y)) and same(x, y)

    x = tocha.ones(2, requires_grad=True)
    tocha.compile(lambda x: (Named(x * 2) ** 2).sum(), backend="aot_eager", fullgraph=True)(x).backward()
    assert tocha.equal(x.grad, tocha.full((2,), 8.0))


def test_functions_of_the_program_that_ask_overrides():
    class Asked(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is joined:
                return "taken over", kwargs
            return super().__torch_function__(func, types, args, kwargs or {})

    def joined(a, b, scale=1):
        if tocha.overrides.has_torch_function((a, b)):
            return tocha.overrides.handle_torch_function(joined, (a, b), a, b, scale=scale)
        return a + b * scale

    def f(x, y):
        with tocha._C.DisableTorchFunction():
            off = joined(x, y)
        return joined(x, y, scale=2), joined(y, y), off, tuple(map(type, x.max(0)))

    x, y = tocha.ones(2).as_subclass(Asked), tocha.ones(2)
    assert same(tocha.compile(f, backend="eager", fullgraph=True)(x, y), f(x, y)) and f(x, y)[0][0] == "taken over"
