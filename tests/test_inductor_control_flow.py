"""Control flow in compiled graphs: what is around it is fused, and its functions are programs of their own."""

import pytest

import tocha
from tocha._higher_order_ops import associative_scan, map, scan, while_loop
from tocha._inductor import compilation
from tocha._inductor.programs import compile_graph

pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.fixture(autouse=True)
def nothing_captured_before():
    tocha._dynamo.reset()


def chosen(x, y):
    z = x.sin() * 2 + y
    return (tocha.cond(z.sum() > 0, lambda a, b: (a.exp() + b).relu(), lambda a, b: (a - b).tanh(), (z, y)) * 3).cos()


def of_other_layouts(x, y):
    return tocha.cond(y.sum() > 0, lambda a: a.t() + 1, lambda a: a.t().contiguous() * 2, (x,)).sin()


def repeated(x, y):
    def body(i, a):
        return i + 1, (a * 1.1 + y).sin().t()

    return while_loop(lambda i, a: i < 5, body, (tocha.tensor(0), x))[1] * 2


def carried(x, y):
    def step(c, row):
        c = (c * 0.9 + row).tanh()
        return c, c * 2

    last, rows = scan(step, y[0], x)
    return (rows + 1).sin() * last


def mapped(x, y):
    return map(lambda row, y: (row * y).tanh().sum(0), x.sin(), y) * 2


def combined(x, y):
    return associative_scan(lambda a, b: a * 0.5 + b, x + y, 0, combine_mode="generic").cos()


PROGRAMS = [chosen, of_other_layouts, repeated, carried, mapped, combined]


def programs_of(compiled, *args):
    """The graphs that a call compiles, those of functions included."""
    made = []
    with pytest.MonkeyPatch.context() as patch:

        def keep(module):
            made.append(compile_graph(module))
            return made[-1]

        patch.setattr(compilation, "compile_graph", keep)
        compiled(*args)
    return made


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(f, dynamic):
    for sign in (1, -1):
        x, y = tocha.randn(6, 6, requires_grad=True), (sign * tocha.rand(6, 6)).requires_grad_()
        mine = [t.detach().clone().requires_grad_() for t in (x, y)]
        compiled = tocha.compile(f, dynamic=dynamic)
        with tocha.no_grad():
            tocha.testing.assert_close(compiled(*mine), f(x, y))
        f(x, y).square().sum().backward()
        compiled(*mine).square().sum().backward()
        for a, b in zip((x, y), mine, strict=True):
            tocha.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("f", [chosen, of_other_layouts, mapped], ids=lambda f: f.__name__)
def test_they_are_one_call_between_fused_kernels(f, caplog):
    (whole,) = programs_of(tocha.compile(f), tocha.randn(6, 6), tocha.randn(6, 6))
    assert "operator by operator" not in caplog.text
    assert len(whole.calls) == 1 and whole.kernels
    functions = [a.function for a in whole.calls[0].function.form if hasattr(a, "function")]
    assert functions and all(type(run).__name__ == "_CompiledProgram" for run in functions)
