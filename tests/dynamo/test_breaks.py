"""Graph breaks: what is not captured runs in Python, in order, and the rest goes on."""

import pathlib
import runpy

import pytest

import tocha
from tocha import _dynamo
from tocha._dynamo.refusals import REGISTRY, Unsupported


def test_print_in_the_middle(check, capsys):
    def f(x):
        y = x + 1
        print("between")
        return y * 2

    check(f, tocha.ones(2), graphs=2)
    assert capsys.readouterr().out == "between\n" * 4


def test_values_on_the_stack_survive(check):
    def f(x):
        return [x + 1, (x * 2) @ opaque(x), x - 1], {"k": opaque(x + 1)}

    check(f, tocha.ones(2), graphs=2)


@tocha.compiler.disable
def opaque(x):
    assert not tocha.compiler.is_compiling()
    return x * 10


def test_closures_survive(check):
    def f(x):
        k = 1

        def bump():
            nonlocal k
            k += 1
            return k

        x = x * bump()
        _dynamo.graph_break()
        return x * bump(), k

    check(f, tocha.ones(2), graphs=2)


def test_containers_are_built_across_breaks():
    """Lists and dicts that CPython fills on its stack are real ones after a break, and what is added later goes there."""

    def broken(value):
        _dynamo.graph_break()
        return value

    def gathered(*args, **kwargs):
        return [*args, *kwargs.values()]

    def f(x):
        called = gathered(*[x, 1], broken(x) * 2, *(3, broken(4)), x + 5, a=broken(6), **{"b": broken(7), "c": x * 8})
        return called, {**{"p": 1}, "q": broken(2), **{"r": broken(3)}, "s": x}

    assert repr(tocha.compile(f, backend="eager")(tocha.ones(2))) == repr(f(tocha.ones(2)))


def test_branch_on_a_tensor(check):
    def f(x):
        x = x + 1
        if x.sum() > 0:
            return x * 2
        return x * 3

    assert check(f, tocha.ones(2), graphs=2).op_count == 4


def test_inside_with_and_try():
    def f(x, bad):
        try:
            with tocha.no_grad():
                y = x * 2
                fail(bad)
                z = y + x
        except ValueError:
            z = x - 100
        finally:
            x = x + 0.5
        return z, x, z.requires_grad

    x = tocha.ones(2, requires_grad=True)
    compiled = tocha.compile(f, backend="eager")
    for bad, first in ((True, -99.0), (False, 3.0), (True, -99.0)):
        z, after, recorded = compiled(x, bad)
        assert (z.tolist(), after.tolist(), recorded) == ([first] * 2, [1.5] * 2, bad)
    assert tocha.is_grad_enabled()


@tocha.compiler.disable
def fail(bad):
    if bad:
        raise ValueError("bad")


def test_nested_calls_break_inside_out(check, capsys):
    def inner(x):
        x = x + 1
        print("inner")
        return x * 2

    check(lambda x: inner(x.sin()).cos(), tocha.ones(2), graphs=4)


def test_in_a_loop_the_frame_runs_in_python(check, capsys):
    def f(x):
        for i in range(3):
            x = x + i
            print(i)
        return x * 2

    check(f, tocha.ones(2), graphs=0, fullgraph=False)


def test_fullgraph_says_why():
    def f(x):
        print("no")
        return x

    with pytest.raises(Unsupported, match=r"(?s)print\(\).*number 6 .*test_breaks.py.*in f"):
        tocha.compile(f, backend="eager", fullgraph=True)(tocha.ones(1))


def test_refusals_are_numbered():
    numbers = [r.number for r in REGISTRY.values()]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert all(r.explanation and r.hint for r in REGISTRY.values())


def test_explain(capsys):
    def f(x):
        x = x + 1
        print(1)
        return x * 2

    with pytest.warns(FutureWarning, match="explain.* is deprecated"):
        assert _dynamo.explain(f, tocha.ones(2)).graph_count == 2
    found = _dynamo.explain(f)(tocha.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    assert "print()" in str(found)


def test_the_page_of_graph_breaks_is_made_from_the_registry():
    root = pathlib.Path(__file__).parents[2]
    scope = runpy.run_path(str(root / "tools" / "graph_breaks.py"))
    assert scope["PAGE"].read_text() == scope["text"]()


def test_sparse_gradients_break_the_graph():
    table, bag = tocha.nn.Embedding(9, 3, sparse=True), tocha.nn.EmbeddingBag(9, 3, mode="mean", sparse=True)

    def program(i):
        return (table(i).sin() * 2 + table(i + 1)).sum() + bag(i).square().sum()

    i = tocha.tensor([[1, 2], [2, 5]])
    found = []
    for f in (program, tocha.compile(program)):
        table.zero_grad(), bag.zero_grad()
        f(i).backward()
        found.append([table.weight.grad, bag.weight.grad])
    for a, b in zip(*found, strict=True):
        assert a.is_sparse and b.is_sparse
        tocha.testing.assert_close(a.to_dense(), b.to_dense())
    table.zero_grad(), bag.zero_grad()
    with pytest.raises(Unsupported, match="sparse_gradient"):
        tocha.compile(program, fullgraph=True)(i)
    with tocha.no_grad():
        tocha.testing.assert_close(tocha.compile(program, fullgraph=True)(i), program(i))


def by_parts(s, x):
    made = tocha.sparse_coo_tensor(tocha.tensor([[0, 1], [1, 0]]), x[0] * 2, (2, 2))
    return made.to_dense() + x.sin()


@pytest.mark.parametrize(
    "program",
    [
        lambda s, x: tocha.sparse.mm(s, x.sin() + 1).relu() * 2,
        lambda s, x: (s @ x).relu() + s.to_dense(),
        lambda s, x: (x.to_sparse() @ x).relu(),
        by_parts,
    ],
)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors_break_the_graph(program, backend, layout):
    s = (tocha.eye(2) * 3).to_sparse(layout=getattr(tocha, layout))
    x = tocha.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    mine, wanted = tocha.compile(program, backend=backend)(s, x), program(s, x)
    tocha.testing.assert_close(mine, wanted)
    tocha.testing.assert_close(tocha.autograd.grad(mine.sum(), x), tocha.autograd.grad(wanted.sum(), x))
    with pytest.raises(Unsupported, match="a sparse tensor of layout"):
        tocha.compile(program, backend=backend, fullgraph=True)(s, x)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_nested_tensors_break_the_graph(backend, layout):
    def program(n, x):
        made = tocha.nested.as_nested_tensor([x.sin(), x[:1]], layout=getattr(tocha, layout))
        return tocha.nested.to_padded_tensor(n.cos(), 0.0) * 2, made.to_padded_tensor(1.0).exp()

    x = tocha.arange(6.0).reshape(3, 2)
    n = tocha.nested.nested_tensor([x, x[:2]], layout=getattr(tocha, layout))
    for mine, wanted in zip(tocha.compile(program, backend=backend)(n, x), program(n, x), strict=True):
        tocha.testing.assert_close(mine, wanted)
    with pytest.raises(Unsupported, match="a nested tensor"):
        tocha.compile(program, backend=backend, fullgraph=True)(n, x)


@pytest.mark.parametrize(
    "text",
    [
        lambda x: f"{x + 1}",
        lambda x: f"{(x + 1).sum():.3f}",
        lambda x: f"{x=}",
        lambda x: f"{x + 1} {x!r}",
        lambda x: "%s" % (x + 1),
        lambda x: "%s %d" % (x + 1, 3),  # noqa: UP031
        lambda x: "%.2f" % x.sum(),  # noqa: UP031
        lambda x: (x + 1).__repr__(),
        lambda x: x.sum().__format__(".2f"),
        lambda x: f"{[x]}",
    ],
)
def test_text_of_tensors(text):
    x = tocha.ones(2)
    assert tocha.compile(text, backend="eager")(x) == text(x)


def test_super_after_a_break():
    class Base:
        n = 3

        def f(self, x):
            return x + 1

    class Child(Base):
        def plain(self, x):
            tocha._dynamo.graph_break()
            y = super().f(x)
            tocha._dynamo.graph_break()
            return super().f(y) * super().n

        def in_a_cell(self, x):
            own = lambda: self  # noqa: E731
            tocha._dynamo.graph_break()
            y = super().f(x) * own().n
            tocha._dynamo.graph_break()
            return super().f(y)

        def handling(self, x):
            try:
                tocha._dynamo.graph_break()
                raise KeyError(1)
            except KeyError:
                return super().f(x)

        @classmethod
        def of_class(cls, x):
            tocha._dynamo.graph_break()
            return x * super().n

    child, x = Child(), tocha.ones(1)
    for f in (child.plain, child.in_a_cell, child.handling, child.of_class):
        assert tocha.compile(f, backend="eager")(x) == f(x)


def test_methods_that_dataclasses_of_the_library_have_run_as_they_are(capsys):
    """They have no file that would tell whose they are."""
    from tocha._functorch.wrappers import Layout

    def f(x):
        for k in range(2):
            print(k)
            made = Layout(type(x), x, [], [], (), ())
        return made.context + 1

    assert tocha.compile(f, backend="eager")(tocha.ones(1)).item() == 2
    assert not tocha._C._capture.code_entries(Layout.__init__.__code__)
