"""What programs ask for beside operators: type hints, options of their own, arrays under no_grad, older call forms."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
import warnings

import numpy as np
import pytest

import tocha

PRIVATE = (
    "tocha._dynamo",
    "tocha._build",
    "tocha.operators",
    "tocha._inductor",
    "tocha.as_torch",  # importing it changes what things are called
    "tocha._alias",
)  # schema types stand as annotations there


def modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in pkgutil.walk_packages(tocha.__path__, "tocha."):
            if not info.name.startswith(PRIVATE):
                yield importlib.import_module(info.name)


def annotated(module):
    """The classes of a module with their methods, and its functions."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, type):
            yield value
            members = (getattr(v, "__func__", v) for v in vars(value).values())
            members = (v.fget if isinstance(v, property) else v for v in members)
            yield from (v for v in members if inspect.isfunction(v))
        elif inspect.isfunction(value):
            yield value


def test_every_type_hint_can_be_read():
    bad = []
    count = 0
    for module in modules():
        for thing in annotated(module):
            count += 1
            try:
                typing.get_type_hints(thing)
            except Exception as e:
                bad.append(f"{module.__name__}.{thing.__qualname__}: {e}")
    assert not bad and count > 2000
    assert typing.get_type_hints(tocha.nn.Module)["_modules"] == dict[str, tocha.nn.Module | None]


@pytest.mark.parametrize(
    "cls", [getattr(tocha.optim, n) for n in tocha.optim.__all__ if n[0].isupper() and n != "Optimizer"]
)
def test_optimizers_leave_a_users_options_alone(cls):
    if not issubclass(cls, tocha.optim.Optimizer):
        pytest.skip("no optimizer")
    p, q = (tocha.nn.Parameter(tocha.ones(2, 2)) for _ in range(2))
    optimizer = cls([p], lr=0.1)
    optimizer.defaults["layer"] = "first"
    optimizer.param_groups[0]["scale"] = 0.5
    if cls is not tocha.optim.LBFGS:  # it takes one group
        optimizer.add_param_group({"params": [q]})
        assert optimizer.param_groups[1]["layer"] == "first"

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum() + (q * q).sum()
        if cls is tocha.optim.SparseAdam:
            p.grad = (2 * p).detach().to_sparse()
            q.grad = (2 * q).detach().to_sparse()
        else:
            loss.backward()
        return loss

    optimizer.step(closure)
    assert not bool((p == 1).all())


def test_arrays_of_what_requires_grad():
    x = tocha.ones(3, requires_grad=True)
    for context in (tocha.no_grad, tocha.inference_mode):
        with context():
            assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1.0, 1.0, 1.0]
    with tocha.no_grad(), pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__()


def test_capsules_are_arrays_too():
    source = tocha.arange(3.0)
    shared = tocha.asarray(source.__dlpack__())
    source[0] = 7
    assert shared.tolist() == [7.0, 1.0, 2.0]
    assert tocha.asarray(source.__dlpack__(), dtype=tocha.int64).tolist() == [7, 1, 2]
    assert tocha.asarray(source.__dlpack__(), copy=True).data_ptr() != source.data_ptr()
    used = source.__dlpack__()
    tocha.from_dlpack(used)
    with pytest.raises(RuntimeError, match="only once"):
        tocha.asarray(used)


def test_gradcheck_is_a_function_and_a_module():
    module = importlib.import_module("tocha.autograd.gradcheck")
    assert callable(tocha.autograd.gradcheck) and module.gradcheck is tocha.autograd.gradcheck
    x = tocha.tensor([1.0, 2.0], dtype=tocha.float64, requires_grad=True)
    y = tocha.tensor([3.0], dtype=tocha.float64, requires_grad=True)
    with pytest.warns(FutureWarning, match="get_numerical_jacobian"):
        by_x, by_y = module.get_numerical_jacobian(lambda inputs: inputs[0] ** 2 * inputs[1], (x, y))
    assert tocha.allclose(by_x, tocha.tensor([[6.0, 0.0], [0.0, 12.0]], dtype=tocha.float64), atol=1e-6)
    assert tocha.allclose(by_y, tocha.tensor([[1.0, 4.0]], dtype=tocha.float64), atol=1e-6)
    with pytest.warns(FutureWarning, match="get_analytical_jacobian"):
        (a, b), *facts = module.get_analytical_jacobian((x, y), x**2 * y)
    assert a.tolist() == [[6.0, 0.0], [0.0, 12.0]] and b.tolist() == [[1.0, 4.0]] and facts == [True, True, True]
    first, second = module.get_numerical_jacobian_wrt_specific_input(
        lambda x, y: (x * y, x.sum()), 0, (x, y), (x * y, x.sum()), 1e-6
    )
    assert first.shape == (2, 2) and second.shape == (2, 1)


# -- numbers before tensors -----------------------------------------------------------------------


def matrices(n, *shape):
    return [tocha.arange(1.0, 1 + tocha.Size(shape).numel()).reshape(shape) * (i + 1) for i in range(n)]


OLDER = {
    "add": (matrices(2, 2, 2), ("alpha",)),
    "sub": (matrices(2, 2, 2), ("alpha",)),
    "addcmul": (matrices(3, 2, 2), ("value",)),
    "addcdiv": (matrices(3, 2, 2), ("value",)),
    "addmm": (matrices(3, 2, 2), ("beta", "alpha")),
    "addr": ([*matrices(1, 2, 2), *matrices(2, 2)], ("beta", "alpha")),
    "addmv": ([*matrices(1, 2), *matrices(1, 2, 2), *matrices(1, 2)], ("beta", "alpha")),
    "addbmm": ([*matrices(1, 2, 2), *matrices(2, 3, 2, 2)], ("beta", "alpha")),
    "baddbmm": (matrices(3, 3, 2, 2), ("beta", "alpha")),
}


def test_every_operator_with_older_forms_is_tried():
    from tocha.operators import families
    from tocha.operators.record import operators

    families.load()
    assert {o.name for o in operators() if "numbers_first" in o.tags} == set(OLDER)


def forms(function, numbers):
    """(positional numbers, the orders in which functions and methods take them with the tensors)."""
    if len(numbers) == 1:
        yield (3,), lambda self, rest, n: (self, *n, *rest), lambda rest, n: (*n, *rest)
        return
    yield (3, 2), lambda self, rest, n: (n[0], self, n[1], *rest), lambda rest, n: (*n, *rest)
    yield (3,), lambda self, rest, n: (n[0], self, *rest), lambda rest, n: (*n, *rest)


@pytest.mark.parametrize("name", OLDER)
def test_numbers_may_stand_before_tensors(name):
    (first, *rest), keywords = OLDER[name]
    function = getattr(tocha, name)
    for numbers, as_function, as_method in forms(function, keywords):
        given = dict(zip(keywords, numbers, strict=False))
        expected = function(first, *rest, **given)
        tocha.set_warn_always(True)
        try:
            with pytest.warns(UserWarning, match=rf"This overload of {name} is deprecated:\n\t{name}\("):
                assert tocha.equal(function(*as_function(first, rest, numbers)), expected)
            out = tocha.empty(0)
            with pytest.warns(UserWarning, match="is deprecated"):
                function(*as_function(first, rest, numbers), out=out)
            assert tocha.equal(out, expected)
            with pytest.warns(UserWarning, match="is deprecated"):
                assert tocha.equal(getattr(first, name)(*as_method(rest, numbers)), expected)
            changed = first.clone()
            with pytest.warns(UserWarning, match=rf"This overload of {name}_ is deprecated"):
                assert getattr(changed, name + "_")(*as_method(rest, numbers)) is changed
            assert tocha.equal(changed, expected)
        finally:
            tocha.set_warn_always(False)


def test_older_forms_are_named_by_no_error():
    with pytest.raises(TypeError) as refused:
        tocha.addmm("a", "b", "c", "d")
    assert "beta, Tensor input" not in str(refused.value)


# -- results that may differ from run to run --------------------------------------------------------


@pytest.fixture
def deterministic():
    yield tocha.use_deterministic_algorithms
    tocha.use_deterministic_algorithms(False)


def test_operators_without_a_deterministic_form_say_so(deterministic):
    x, index, source = tocha.zeros(4), tocha.tensor([1]), tocha.ones(1)
    deterministic(True)
    for call in (lambda: x.put_(index, source), lambda: tocha.put(x, index, source)):
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
            call()
    assert x.tolist() == [0.0] * 4
    assert x.put_(index, source, accumulate=True).tolist() == [0.0, 1.0, 0.0, 0.0]
    deterministic(True, warn_only=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
            x.put_(index, source)
    deterministic(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.put_(index, source)
