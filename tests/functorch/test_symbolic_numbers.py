"""Numbers that depend on sizes, between forward and backward and in compiled graphs."""

import pytest

import tocha


def windows(x):
    b, h, w, c = x.shape
    x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    return x @ x.transpose(1, 2)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_parts_of_expressions_are_kept_as_numbers(backend):
    f = tocha.compile(windows, dynamic=True, backend=backend)
    for size in ((2, 8, 8, 3), (3, 12, 12, 5)):
        a = tocha.randn(size, requires_grad=True)
        b = a.detach().clone().requires_grad_()
        expected, found = windows(a), f(b)
        tocha.testing.assert_close(found, expected)
        expected.square().sum().backward()
        found.square().sum().backward()
        tocha.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-4)


def scaled(x, factor):
    return (x * factor + x.shape[0] ** -0.5).softmax(-1) * (factor / 3 // 0.25)


def test_floats_that_change_are_arguments_of_kernels(caplog):
    f = tocha.compile(scaled)
    x = tocha.randn(4, 9)
    graphs = tocha._dynamo.testing.CompileCounterWithBackend("inductor")
    f = tocha.compile(scaled, backend=graphs)
    for factor in (0.5, 1.5, -2.25, 7.0):
        tocha.testing.assert_close(f(x, factor), scaled(x, factor))
    assert graphs.frame_count == 2  # the first float is taken as it is
    assert not caplog.records  # nothing runs operator by operator


def test_numbers_are_results(caplog):
    def f(x):
        return x.sin(), x.shape[0] * 3 + 1, x.shape[0] / 4

    g = tocha.compile(f, dynamic=True)
    for n in (3, 8):
        x = tocha.randn(n)
        assert g(x)[1:] == (n * 3 + 1, n / 4)
    assert not caplog.records


def test_views_with_holes_are_kept_for_backward():
    def f(x):
        a, b = x.chunk(2, -1)
        return (a + b.exp()).pow(2).sum()

    a = tocha.randn(4, 16, requires_grad=True)
    b = a.detach().clone().requires_grad_()
    f(a).backward()
    tocha.compile(f)(b).backward()
    tocha.testing.assert_close(b.grad, a.grad)


def test_backward_is_given_the_numbers_that_its_sizes_are_made_of(caplog):
    """A part of a mask is kept, whose sizes do not show the size they were computed from."""

    def f(x, w, v):
        return ((x > 0.3)[65:95:2].float() @ w) @ v

    compiled = tocha.compile(f, dynamic=True)
    for rows in (100, 80, 66):
        x = tocha.randn(rows, 17)
        w, v = tocha.randn(17, 1, requires_grad=True), tocha.randn(1, 1, requires_grad=True)
        found, wanted = (tocha.autograd.grad(g(x, w, v).sum(), (w, v)) for g in (compiled, f))
        tocha.testing.assert_close(found, wanted)
    assert not caplog.records  # nothing runs operator by operator


def chosen(x):
    x[:-2, None][..., tocha.tensor([0])] = 7.0
    return x * 2


def added(x):
    x[:-2] += 1
    return x * 2


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded tensors")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("f", [chosen, added])
def test_an_empty_part_of_an_expanded_tensor_may_be_written_to(f, backend):
    """Its size is a difference of symbols, which is 0 for some of them."""
    compiled = tocha.compile(f, dynamic=True, backend=backend)
    for n in (2, 5, 2) if f is chosen else (2, 2):
        expected, found = (g(tocha.arange(3.0).expand(n, 3)) for g in (f, compiled))
        assert tocha.equal(found, expected)
    if f is added:
        with pytest.raises(Exception, match="more than one element of the written-to tensor"):
            compiled(tocha.arange(3.0).expand(5, 3))
