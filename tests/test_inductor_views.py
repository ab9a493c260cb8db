"""Writes through views of views, compiled: results of native calls may begin anywhere in their memory."""

import pytest

import tocha


def row_of_row(x, y):
    z = x * 1
    z[1][:1] = y
    return z


def rows_of_parts(x, y):
    z = x * 1
    parts = z.unbind()
    parts[0][:3] = 3
    parts[1][1:2] = y
    parts[2][:, 1] = 5
    return z, parts[1] + 1


def padded(x, y):
    return tocha.nn.utils.rnn.pad_sequence([x[0], y, x[1][:2]], batch_first=True)


@pytest.mark.parametrize("program", [row_of_row, rows_of_parts, padded])
def test_values(program):
    x, y = tocha.randn(3, 3, 2), tocha.randn(1, 2)
    tocha.testing.assert_close(tocha.compile(program)(x, y), program(x, y), rtol=0, atol=0)


@pytest.mark.parametrize("program", [row_of_row, padded])
def test_gradients(program):
    given = tocha.randn(3, 3, 2, requires_grad=True), tocha.randn(1, 2, requires_grad=True)
    others = tuple(t.detach().clone().requires_grad_() for t in given)
    program(*given).square().sum().backward()
    tocha.compile(program)(*others).square().sum().backward()
    for a, b in zip(given, others, strict=True):
        tocha.testing.assert_close(b.grad, a.grad)


def joined(x, y):
    inner = tocha.cat([y.sin(), y.cos()], -1)
    return tocha.cat([x[0] * 2, inner, tocha.cat([inner.flip(-1), x[1]], -1)], -1)


def test_joins_of_joins():
    x, y = tocha.randn(3, 3, 2), tocha.randn(3, 3)
    tocha.testing.assert_close(tocha.compile(joined)(x, y), joined(x, y))


def test_as_strided_goes_by_the_memory_of_an_argument():
    memory = tocha.arange(30.0)

    def program(x):
        return x.as_strided((2, 2), (5, 1), 0) + 1, x.as_strided((3,), (4,)) * 2, x.as_strided((2, 3), (1, 2), 11).sum()

    for x in (memory[3::3][:7], memory[4:11], memory[:7], memory):
        tocha._dynamo.reset()
        for mine, wanted in zip(tocha.compile(program)(x), program(x), strict=True):
            assert tocha.equal(mine, wanted)


def filled(x):
    x.zero_()
    return x + 1


def one_row(x):
    x[1] = 7
    return x * 2


def some_places(x):
    x[:, tocha.tensor([0, 2])] = tocha.tensor([5.0, 6.0])
    x[tocha.tensor([1])] = 3
    return x.sum(0)


def by_masks(x):
    x.masked_fill_(tocha.tensor([[False, True, False], [False, False, True]]), 4)
    x.index_fill_(0, tocha.tensor([1]), -1)
    return x[0], x[1]


def nothing_at_all(x):
    x[1:1] += 2
    x[:, 2:2].sub_(1)
    return x + 1


def on_itself(x):
    x[...] = x
    x.copy_(x)
    return x.cos()


@pytest.mark.parametrize("program", [filled, one_row, some_places, by_masks, nothing_at_all, on_itself])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_writes_to_expanded_arguments(program, backend):
    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend=backend)
    for start in (0, 2):
        memory = [tocha.arange(8.0), tocha.arange(8.0)]
        wanted = program(memory[0][start : start + 3].expand(2, 3))
        found = compiled(memory[1][start : start + 3].expand(2, 3))
        tocha.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert tocha.equal(*memory)


def test_writes_to_expanded_arguments_are_refused_as_in_eager_mode():
    for write in (lambda x: x.add_(1), lambda x: x.copy_(tocha.ones(2, 3)), lambda x: x.relu_()):
        tocha._dynamo.reset()
        with pytest.raises(Exception, match="more than one element of the written-to tensor"):
            tocha.compile(lambda x, write=write: write(x) * 2)(tocha.ones(3).expand(2, 3))


def through_an_expanded_view(x):
    y = x[1:].unsqueeze(0).expand(2, 3)
    y[1, 1:] = tocha.tensor([20.0, 30.0])
    return x * 2, y + 1


def through_windows(x):
    y = x.unfold(0, 2, 1)
    y[1] = 9
    return x * 2, y + 1


def written_windows(y):
    y[0] += 1
    y[2, 1] = 5
    return y * 3


@pytest.mark.parametrize("program", [through_an_expanded_view, through_windows])
def test_writes_through_views_that_repeat_elements_wherever_the_argument_lies(program):
    tocha._dynamo.reset()
    compiled = tocha.compile(program)
    for start, step in ((3, 1), (0, 1), (5, 1), (1, 2), (0, 2)):
        memory = [tocha.arange(12.0), tocha.arange(12.0)]
        wanted, found = (f(m[start::step][:4]) for f, m in zip((program, compiled), memory, strict=True))
        tocha.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert tocha.equal(*memory)


def test_writes_to_windows_that_overlap():
    tocha._dynamo.reset()
    compiled = tocha.compile(written_windows)
    for start in (0, 3):
        memory = [tocha.arange(9.0), tocha.arange(9.0)]
        wanted, found = (
            f(m[start:].unfold(0, 2, 1)[:4]) for f, m in zip((written_windows, compiled), memory, strict=True)
        )
        tocha.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert tocha.equal(*memory)


ONE_OF_TEN = tocha.tensor([[False, True], *[[False, False]] * 4])
AT_PLACES = {
    "scatter_": lambda y, v: y.scatter_(1, tocha.tensor([[1]]), v),
    "scatter_add_": lambda y, v: y.scatter_add_(1, tocha.tensor([[1]]), v),
    "scatter_reduce_": lambda y, v: y.scatter_reduce_(1, tocha.tensor([[1]]), v, "amax"),
    "index_put_": lambda y, v: y.index_put_((tocha.tensor([0]), tocha.tensor([1])), v[0]),
    "index_add_": lambda y, v: y.index_add_(0, tocha.tensor([0]), v.expand(1, 2)),
    "index_copy_": lambda y, v: y.index_copy_(0, tocha.tensor([0]), v.expand(1, 2)),
    "index_fill_": lambda y, v: y.index_fill_(0, tocha.tensor([0]), 7),
    "index_reduce_": lambda y, v: y.index_reduce_(0, tocha.tensor([0]), v.expand(1, 2), "amax"),
    "put_": lambda y, v: y.put_(tocha.tensor([1]), v[0]),
    "masked_fill_": lambda y, v: y.masked_fill_(ONE_OF_TEN, -0.0),
    "masked_scatter_": lambda y, v: y.masked_scatter_(ONE_OF_TEN, v[0]),
    "copy_": lambda y, v: y.copy_(tocha.arange(10.0).reshape(5, 2)),
    "mul_": lambda y, v: y.mul_(v),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [tocha.float32, tocha.float64, tocha.int64, tocha.complex64])
@pytest.mark.parametrize("write", AT_PLACES)
def test_of_windows_that_overlap_elements_that_were_not_written_do_not_win(write, dtype, dynamic):
    if dtype.is_complex and write in ("scatter_reduce_", "index_reduce_"):
        pytest.skip("complex numbers have no order")

    def program(x, v):
        x = x * 1
        y = x.unfold(0, 2, 1)
        AT_PLACES[write](y, v)
        return x, y

    tocha._dynamo.reset()
    args = tocha.arange(-1, 5).to(dtype), tocha.tensor([[100]]).to(dtype)
    (x, y), (wanted, windows) = tocha.compile(program, dynamic=dynamic)(*args), program(*args)
    assert [str(v) for v in x.tolist()] == [str(v) for v in wanted.tolist()]
    assert tocha.equal(y, windows)


def beside_it(x):
    y = x.as_strided((2,), (2,), 0)
    y += 5
    return x * 1, y * 2


def beside_what_was_written(x):
    x.mul_(2)
    y = x[0].as_strided((2, 1), (1, 3), 1)
    z = y.as_strided((2,), (4,), 2)
    z.sub_(1)
    return x + 1, y + 1, z + 1


def at_addresses(x):
    y = x.as_strided((2, 2), (5, 2), 1)
    return y.as_strided((2,), (6,), 2).sin(), y.as_strided((3,), (1,), 0) + 1


@pytest.mark.parametrize("program", [beside_it, beside_what_was_written, at_addresses])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_addresses_in_the_storage_of_an_argument(program, backend):
    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend=backend)
    for start in (1, 2, 0, 1):
        memory = [tocha.arange(40.0).view(5, 8), tocha.arange(40.0).view(5, 8)]
        wanted, found = (f(m[::2, start::3]) for f, m in zip((program, compiled), memory, strict=True))
        tocha.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert tocha.equal(*memory)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_addresses_wherever_the_argument_lies(backend):
    compiled = tocha.compile(lambda x: x.as_strided((2, 2), (3, 1), 4).sin(), backend=backend)
    for start in (0, 2, 4):
        x = [tocha.arange(12.0)[start : start + 8].detach().requires_grad_() for _ in range(2)]
        x[0].as_strided((2, 2), (3, 1), 4).sin().sum().backward()
        compiled(x[1]).sum().backward()
        assert tocha.equal(x[0].grad, x[1].grad)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_arguments_that_share_memory_may_lie_elsewhere_in_the_next_call(backend):
    def program(x, y):
        x.mul_(2)
        y[0] = 7
        return x + y

    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend=backend)
    for start, distance in ((0, 1), (3, 1), (2, 2), (0, 1)):
        memory = [tocha.arange(12.0), tocha.arange(12.0)]
        wanted, found = (
            f(m[start : start + 3], m[start + distance : start + distance + 3])
            for f, m in zip((program, compiled), memory, strict=True)
        )
        assert tocha.equal(found, wanted)
        assert tocha.equal(*memory)


def test_what_as_strided_shows_is_kept_for_backward_as_it_lies():
    def program(x):
        y = x.as_strided((3, 2), (3, 3), 1)
        return tocha.nn.functional.celu(y) * y.sin()

    x = [tocha.linspace(-1, 1, 30).view(5, 6)[1:, ::2].detach().requires_grad_() for _ in range(2)]
    program(x[0]).sum().backward()
    tocha._dynamo.reset()
    tocha.compile(program)(x[1]).sum().backward()
    tocha.testing.assert_close(x[1].grad, x[0].grad)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("begin", [lambda x: x, lambda x: x * 2], ids=["of an argument", "of a result"])
def test_gradients_of_addresses_go_through_the_views_between(begin, backend):
    """What as_strided shows beside the view that it was called on has no gradient."""

    def program(x):
        base = begin(x)
        column = base.select(1, 1)
        return base, column, column.as_strided((3,), (1,), 1)

    tocha._dynamo.reset()
    grads = []
    for f in (program, tocha.compile(program, backend=backend)):
        x = tocha.arange(9.0).view(3, 3).requires_grad_()
        (f(x)[2] * tocha.tensor([1.0, 2.0, 3.0])).sum().backward()
        grads.append(x.grad)
    assert tocha.equal(*grads)


def test_addresses_in_storages_of_unknown_size():
    def program(x):
        x *= 2
        y = x.as_strided((3,), (2,), 1)
        y += 1
        return y + 1

    tocha._dynamo.reset()
    compiled = tocha.compile(program, dynamic=True)
    memory = [tocha.ones(7, 3), tocha.ones(7, 3)]
    for part in (lambda m: m, lambda m: m[:3], lambda m: m[2:, :2]):
        wanted, found = (f(part(m)) for f, m in zip((program, compiled), memory, strict=True))
        assert tocha.equal(found, wanted)
        assert tocha.equal(*memory)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_lie_as_what_as_strided_showed_says(dynamic):
    def program(x, y):
        z = x.as_strided((3, 2), (2, 2), 0) - y
        return z, z.exp2(), x.as_strided((2, 3), (1, 4), 1) + 1

    tocha._dynamo.reset()
    compiled = tocha.compile(program, dynamic=dynamic)
    y = tocha.tensor([[1, 2, 3], [4, 5, 6]], dtype=tocha.int8).t()
    grads = []
    for f in (program, compiled):
        x = tocha.linspace(0, 1, 66).view(1, 66)[:, ::2].detach().requires_grad_()
        results = f(x, y)
        assert [r.stride() for r in results] == [(1, 3), (1, 3), (1, 2)]
        results[1].sum().backward()
        grads.append(x.grad)
    tocha.testing.assert_close(*grads)


def set_then_written(x, y):
    z = x.clone()
    z.set_(y)
    z.mul_(2)
    return z


def data_written(x, y):
    z = x.clone()
    z.data = y
    z.data.mul_(2)
    return z.view(-1), y + 1


def data_swapped(x, y):
    a, b = x.clone(), y.clone()
    a.data, b.data = b.data, a.data
    a.add_(1)
    return a, b


def input_set(x, y):
    x.add_(3)
    kept = x.clone()
    x.set_(y)
    x.mul_(2)
    return kept, x + y


@pytest.mark.parametrize("program", [set_then_written, data_written, data_swapped, input_set])
def test_writes_to_what_was_put_on_other_memory(program):
    seen = []
    for f in (program, tocha.compile(program)):
        x, y = tocha.arange(6.0), tocha.arange(8.0)
        results = f(x, y)
        results = results if isinstance(results, tuple) else (results,)
        places = [r.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for r in results]
        seen.append(([r.tolist() for r in results], x.tolist(), y.tolist(), places))
    assert seen[0] == seen[1]


def put_on_another_input(x, y):
    x.data = y
    return x + 1


def inputs_swapped(x, y):
    x.data, y.data = y.data, x.data
    return x + 0, y


def what_was_there_returned(x, y):
    before = x.detach()
    x.data = y
    return before, x.view(-1)


def put_on_a_view_of_a_result(x, y):
    z = y * 2
    x.data = z[1:].t()
    return z, z[0], x[1]


def put_on_a_view_of_an_input(x, y):
    x.data = y.t()
    return y[0], x[0]


MOVES = [
    put_on_another_input, inputs_swapped, what_was_there_returned, put_on_a_view_of_a_result, put_on_a_view_of_an_input,
]  # fmt: skip


@pytest.mark.parametrize("program", MOVES)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_that_are_put_on_the_memory_of_others(program, backend, dynamic):
    tocha._dynamo.reset()
    seen = []
    for f in (program, tocha.compile(program, fullgraph=True, backend=backend, dynamic=dynamic)):
        x, y = tocha.zeros(2, 3), tocha.arange(6.0).view(2, 3)
        results = f(x, y)
        tensors = (*(results if isinstance(results, tuple) else (results,)), x, y)
        places = [t.untyped_storage().data_ptr() for t in tensors]
        seen.append(([(t.tolist(), t.stride()) for t in tensors], [places.index(p) for p in places]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x.t_(), x + 1, x.view(-1) if x.is_contiguous() else x[1:]),
        lambda x: (x.add_(1), x.unsqueeze_(0), x * 2)[1:],
        lambda x: (x.unsqueeze_(1), x.mul_(2), x[:2])[1:],
    ],
)
def test_inputs_get_another_geometry_at_every_size(program):
    tocha._dynamo.reset()
    compiled = tocha.compile(program, dynamic=True)
    for n in (3, 6, 2):
        seen = []
        for f in (program, compiled):
            x = tocha.arange(n * 4.0).view(n, 4)
            seen.append([(t.tolist(), t.stride()) for t in (*f(x), x)])
        assert seen[0] == seen[1]


WRITES = {
    "zero_": lambda x, y: x.zero_(),
    "fill_": lambda x, y: x.fill_(3.0),
    "fill_ by an element": lambda x, y: x.fill_(y[0, 0]),
    "copy_": lambda x, y: x.copy_(y),
    "copy_ of a row": lambda x, y: x.copy_(y[1]),
    "copy_ of doubles": lambda x, y: x.copy_(y.double()),
    "copy_ to the other order": lambda x, y: x.t().copy_(y),
    "all": lambda x, y: x.__setitem__(slice(None), 0),
    "a row": lambda x, y: x.__setitem__(1, y[2]),
    "the last row": lambda x, y: x.__setitem__(-1, y[2] * 2),
    "a column": lambda x, y: x.__setitem__((slice(None), 2), y[2]),
    "columns": lambda x, y: x.__setitem__((slice(None), slice(1, 3)), y[:, :2]),
    "every other row": lambda x, y: x.__setitem__(slice(1, None, 2), y[:3]),
    "the last rows": lambda x, y: x.__setitem__(slice(-2, None), y[:2].exp()),
    "a part of a part": lambda x, y: x[1:5][:, 2:].mul_(y[:4, :4]),
    "parts in turn": lambda x, y: (x[:2].add_(1), x[1:3].mul_(y[:2]), x[2].fill_(7.0)),
    "nothing": lambda x, y: x.__setitem__(slice(3, 3), 1.0),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_loops(name, dynamic, programs):
    def f(x, y):
        z = x.sin()
        WRITES[name](z, y)
        WRITES[name](x, y)
        return z * 2, x + 1

    tocha._dynamo.reset()
    x, y = tocha.randn(6, 6), tocha.randn(6, 6)
    mine, theirs = x.clone(), x.clone()
    tocha.testing.assert_close(tocha.compile(f, fullgraph=True, dynamic=dynamic)(mine, y), f(theirs, y))
    tocha.testing.assert_close(mine, theirs)
    (program,) = programs
    assert not program.calls


def test_a_write_at_a_place_that_changes():
    def f(cache, k, at):
        cache[:, at : at + 1] = k
        cache[0, at - 2] = 1.0
        return cache.sum(-1)

    mine, theirs = tocha.zeros(2, 9, 4), tocha.zeros(2, 9, 4)
    compiled = tocha.compile(f, fullgraph=True)
    for at in (2, 5, 8, 1, 0):
        k = tocha.randn(2, 1, 4)
        tocha.testing.assert_close(compiled(mine, k, at), f(theirs, k, at))
        tocha.testing.assert_close(mine, theirs)
