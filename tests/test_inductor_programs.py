"""Small programs in the manner of users, compiled and eager: equal results, inputs afterwards and gradients, to the bit."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend
from tocha._inductor import codecache
from tocha.codegen import cpp_program, cpp_source
from tocha.testing import assert_close

pytestmark = pytest.mark.usefixtures("kernel_cache")

BACKENDS = ["aot_eager", "inductor"]


def numbers(*shape: int, dtype: Any = tocha.float32, grad: bool = False) -> tocha.Tensor:
    n = tocha.arange(tocha.Size(shape).numel(), dtype=tocha.float64).view(shape)
    made = (n * 0.37 - 1).sin() + (1j * (n * 0.61).cos() if dtype.is_complex else 0)
    return made.to(dtype).requires_grad_(grad)


def observed(program: Any, given: list[tocha.Tensor]) -> list[tuple]:
    """What a program gives and leaves behind: values with their dtypes, strides and conjugation."""
    results = program(*given)
    results = tocha.utils._pytree.tree_leaves(results)
    leaves = [t for t in given if t.requires_grad and t.is_leaf]
    wanted = [r for r in results if r.requires_grad]
    grads: list = []
    if wanted and leaves:
        total = sum((r.real + 2 * r.imag if r.is_complex() else r).double().sin().sum() for r in wanted)
        grads = list(tocha.autograd.grad(total, leaves, allow_unused=True))
    everything = [*results, *given, *grads]
    return [(t.dtype, t.shape, t.stride(), t.is_conj(), t.requires_grad, t.detach().clone()) if t is not None else None
            for t in everything]  # fmt: skip


def hold(program: Any, make: Any, backend: str, **options: Any) -> None:
    tocha._dynamo.reset()
    expected = observed(program, make())
    found = observed(tocha.compile(program, backend=backend, fullgraph=True, **options), make())
    for a, b in zip(expected, found, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a[:-1] == b[:-1]
            tocha.testing.assert_close(b[-1], a[-1], rtol=1e-6, atol=1e-7, equal_nan=True)


def powers_in_place(x):
    y = x.clone()
    y **= 2.0
    z = x.double()
    z.pow_(-3)
    return y, z, x.double().float_power_(2)


def comparisons_in_place(x):
    y = x * 2
    z = y * 3
    y.lt_(0.5)
    z.eq_(z)
    return y + x, z


def one_part_of_several(x):
    return x.split(3, 0)[0].sigmoid(), x.unbind(0)[1].exp(), x.chunk(2)[1] * 2


def nothing_taken_along(x):
    none = x[:, 2:2]
    return tocha.take_along_dim(none, none.argsort(1), 1)


def number_reduced_along_dim_0(x):
    n = x.sum()
    return n.var(0), n.std(0), n.norm(dim=0), n.logsumexp(0), tocha.linalg.vector_norm(n, float("inf"), 0)


def element_of_an_expanded_tensor(x):
    y = (x * 2).expand(3, *x.shape)
    y[1, 0] = 7
    y.mT[0, 1].zero_()
    return y


def expanded_tensor_filled(x):
    y = (x * 2)[:1].expand_as(x)
    y.fill_(3)
    return y


def view_of_another_dtype_beside_a_moved_base(x):
    y = x.sin()
    z = y.unsqueeze(0)
    y.t_()
    return y, z.view(tocha.int32)


def conjugate_beside_a_moved_input(x):
    c = x.to(tocha.complex64)
    y = c.conj()
    c.t_()
    return c, y, c.imag


def input_moved_under_its_views(x):
    y = x.view(tocha.int16)
    x.unsqueeze_(0)
    return x, y


PLAIN = [
    powers_in_place,
    comparisons_in_place,
    one_part_of_several,
    nothing_taken_along,
    number_reduced_along_dim_0,
    element_of_an_expanded_tensor,
    expanded_tensor_filled,
    view_of_another_dtype_beside_a_moved_base,
    conjugate_beside_a_moved_input,
    input_moved_under_its_views,
]
RECORDED = [comparisons_in_place, one_part_of_several, element_of_an_expanded_tensor]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PLAIN)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_values(program, backend):
    hold(program, lambda: [numbers(4, 6)], backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", RECORDED)
def test_gradients(program, backend):
    hold(program, lambda: [numbers(4, 6, grad=True)], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_complex_products(backend):
    def program(x, w, b):
        y = tocha.nn.functional.linear(x, w, b)
        return tocha.tanh(y) @ w, (y.cos() / w[:, 0]).sqrt(), tocha.bmm(y[None], w[None])

    hold(program, lambda: [numbers(*s, dtype=tocha.complex128, grad=True) for s in ((2, 3), (4, 3), (4,))], backend)


@pytest.mark.parametrize(
    "write", [lambda y: y.add_(1), lambda y: y.index_copy_(0, tocha.tensor([2]), tocha.ones(1, 4))]
)
def test_elements_that_are_one_take_one_value(write):
    def program(x):
        return write((x * 2).expand(3, 4))

    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        tocha.compile(program, backend="aot_eager")(numbers(4))


def unused_draws(x):
    tocha.rand(3)
    tocha.nn.functional.dropout(x, 0.5)
    x.new_empty(4).exponential_()
    tocha.multinomial(x.detach().sigmoid(), 2)
    return x + tocha.rand(6), x * tocha.nn.functional.dropout(x, 0.5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True])
def test_numbers_that_nobody_uses_are_drawn(grad, backend):
    """Later draws are eager's, in the program and after it."""

    def seeded(program):
        def run(x):
            tocha.manual_seed(7)
            return (*program(x), tocha.rand(2))

        return run

    expected = observed(seeded(unused_draws), [numbers(4, 6, grad=grad)])
    tocha._dynamo.reset()
    found = observed(seeded(tocha.compile(unused_draws, backend=backend, fullgraph=True)), [numbers(4, 6, grad=grad)])
    for a, b in zip(expected, found, strict=True):
        assert tocha.equal(a[-1], b[-1])


SIZES = [
    lambda n: int(n * 0.7),
    lambda n: math.floor(n / 2.5),
    lambda n: math.ceil(n * 0.3),
    lambda n: round(n / 2),
    lambda n: int(n**0.5),
    lambda n: n & 6,
    lambda n: (n >> 1) ^ 1,
    lambda n: abs(3 - n),
]


@pytest.mark.parametrize("size", SIZES)
def test_sizes_computed_from_sizes(size, caplog):
    """Rounded floats and bits of symbolic sizes are computed by the program."""

    def program(x):
        return x.new_ones(size(x.shape[0])) * x[0] + size(x.shape[0])

    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend="inductor", dynamic=True, fullgraph=True)
    for n in (9, 17, 33):
        assert tocha.equal(compiled(numbers(n)), program(numbers(n)))
    assert "operator by operator" not in caplog.text


@pytest.mark.parametrize("width", [1, 2])
def test_sizes_that_inputs_have_inside_of_sums(width, caplog):
    """Backward is given the padded results, and no tensor of the sizes before."""

    def program(x):
        y = tocha.cat([x] * width, 1)
        return tocha.nn.functional.pad(y, (1, 2)).tanh(), tocha.nn.functional.pad(y, (3, 0, 2, 2)).exp()

    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend="inductor", dynamic=True, fullgraph=True)
    for shape in ((4, 6), (3, 9), (7, 2)):
        a, b = (observed(f, [numbers(*shape, grad=True)]) for f in (program, compiled))
        for x, y in zip(a, b, strict=True):
            assert x[:-1] == y[:-1]
            tocha.testing.assert_close(y[-1], x[-1], rtol=1e-6, atol=1e-7)
    assert "operator by operator" not in caplog.text


def scattered_columns_first(x, i):
    y = x.mT.scatter_add(1, i, x[:, :3].mT)
    y[0, 1:3] = 5
    z = x.mT.index_add(0, i[0], x.mT[:4])
    z[1][:2] += y[2][:2]
    return y, z, x.mT.scatter(0, i, 1.0).unsqueeze(0)[0, 1:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_of_native_calls_lie_as_their_rules_say(backend):
    hold(scattered_columns_first, lambda: [numbers(5, 6), tocha.tensor([[1, 0, 3, 2]] * 3)], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_with_gaps_that_is_read_and_written(backend):
    """Backward computes from the old value, which it was compiled for as it lies."""

    def program(x, w):
        x.mul_(x)
        return tocha.nn.functional.linear(x, w)

    hold(program, lambda: [numbers(4, 1, 10)[..., ::2], numbers(3, 5, grad=True)], backend)


def test_of_equal_elements_the_first_is_found_in_any_layout():
    x = tocha.zeros(2, 5, 4, dtype=tocha.int64).permute(2, 1, 0)
    x[0, 2:4] = tocha.tensor([[1, 7], [7, 3]])
    x[1, 0, 0] = x[3, 4, 1] = 7

    def program(x):
        return x.argmax(), x.argmin(), x.max(1), x.min(0), x.flatten(1).argmax(1), x.mT.argmax(0)

    hold(program, lambda: [x.clone()], "inductor")


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_may_lie_elsewhere_in_their_storage(backend):
    """as_strided counts from the storage; geometry that changes counts from where the input began."""

    def strided(x):
        return x.as_strided((3,), (2,), 1) * 2

    def moved(x):
        y = x.view(tocha.int16)
        x.unsqueeze_(0)
        return x * 2, y

    for program in (strided, moved):
        tocha._dynamo.reset()
        compiled = tocha.compile(program, backend=backend, fullgraph=True)
        for start in (3, 2, 5):
            a, b = (observed(f, [numbers(20)[start : start + 8]]) for f in (program, compiled))
            for x, y in zip(a, b, strict=True):
                assert x[:-1] == y[:-1]
                assert tocha.equal(x[-1], y[-1])


def test_places_of_extremes_in_tensors_of_any_size():
    def program(x):
        return x.argmax(), x.argmin(1), x.max(0), x.median(-1), x.sort(0)

    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend="inductor", dynamic=True, fullgraph=True)
    for shape in ((3, 4), (7, 9), (2, 31)):
        for a, b in zip(observed(program, [numbers(*shape)]), observed(compiled, [numbers(*shape)]), strict=True):
            assert tocha.equal(a[-1], b[-1])


def written_columns_first(x, i):
    y, z = x.new_zeros(6, 5).mT, x.new_empty(6, 5).mT
    y.scatter_add_(0, i, x)
    tocha.mul(x, 2, out=z)
    z.cumsum_(0)
    return y, z


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_written_to_lies_as_it_did(backend):
    hold(written_columns_first, lambda: [numbers(5, 6), tocha.tensor([[1, 0, 3, 2, 4, 0]] * 2)], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_conjugates(backend):
    hold(lambda x: x.mH @ x, lambda: [numbers(3, 4, dtype=tocha.complex128, grad=True)], backend)


def test_choices_between_conditions():
    def program(x, y):
        chosen = tocha.where(x > 0, y > 1, x.isnan())
        return tocha.where(chosen, x.exp(), y), chosen

    x, y = tocha.randn(5, 33), tocha.randn(33)
    hold(program, lambda: [x.clone(), y.clone()], "inductor")


def test_everything_is_empty():
    def program(x):
        y = tocha.float_power(x, x).reshape(-1)
        return y.sinh().cumsum(0), (y * 2).sum(), y.exp().round()

    hold(program, lambda: [tocha.empty(0, 3, 17)], "inductor")


@pytest.mark.parametrize("dynamic", [False, True])
def test_means_of_infinities_are_those_of_the_recurrence(dynamic):
    """There is none, except of an infinity that comes last."""

    def program(x):
        return tocha.var_mean(x, 0, correction=0), tocha.var_mean(x)

    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend="inductor", dynamic=dynamic)
    for place in (0, 4, 7):
        x = tocha.ones(4, 2)
        x.view(-1)[place] = -tocha.inf
        tocha.testing.assert_close(compiled(x), program(x), equal_nan=True)


def last_of_pieces(x):
    last = x.chunk(3, 0)[-1]  # a size that is 1, which only a guard says
    y = x.double()
    y[:-3:3, 0] = last
    return last + x, y


def parts_that_meet(x):
    y = x + x
    return y.chunk(2, 0)[0] % y[-2:2]


@pytest.mark.parametrize("program, shape", [(last_of_pieces, (2, 1)), (parts_that_meet, (3,))])
@pytest.mark.parametrize("backend", BACKENDS)
def test_symbolic_sizes_that_are_one_are_broadcast(program, shape, backend):
    tocha._dynamo.reset()
    compiled = tocha.compile(program, backend=backend, dynamic=True)
    grads = []
    for f in (program, compiled):
        x = numbers(*shape, grad=True)
        found = f(x)
        found = found if isinstance(found, tuple) else (found,)
        sum(t.sum() for t in found).backward()
        grads.append((*(t.detach() for t in found), x.grad))
    tocha.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("value", [tocha.tensor(5, dtype=tocha.int32), tocha.tensor([2.5]), 3])
def test_assignments_to_all_and_to_nothing(value, backend):
    def program(x, y):
        x, y = x * 1, y * 1
        x[True] = value
        y[False] = value
        return x, y

    hold(program, lambda: [tocha.arange(3), tocha.arange(3.0)], backend)


def sizes_that_become_numbers(x):
    """What sort asks of the sizes makes them numbers, after gradients have been formulas of symbols: 2 / (n * m - 1)."""
    y = x.tril(-1)
    x.sort(0)
    return y, tocha.var(y), x.permute(0, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbols_that_turn_out_to_be_numbers(backend):
    hold(
        sizes_that_become_numbers, lambda: [numbers(33).expand(5, 33).detach().requires_grad_()], backend, dynamic=True
    )
    hold(sizes_that_become_numbers, lambda: [numbers(5, 33, grad=True)], backend, dynamic=True)


def test_twenty_sizes_are_one_recompilation():
    model = tocha.nn.Sequential(tocha.nn.Linear(8, 16), tocha.nn.GELU(), tocha.nn.LayerNorm(16), tocha.nn.Linear(16, 4))
    counted = CompileCounterWithBackend("inductor")
    loss = tocha.compile(lambda x: model(x).square().mean(), backend=counted)
    for batch in (1, 64, 3, 17, 2, 33, 5, 48, 7, 60, 9, 12, 20, 24, 31, 40, 51, 55, 63, 6):
        x = tocha.randn(batch, 8, requires_grad=True)
        (found,) = tocha.autograd.grad(loss(x), x)
        (expected,) = tocha.autograd.grad(model(x).square().mean(), x)
        assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert counted.frame_count == 2


LARGE = [1e30, -1e30, 0.0, 1.5, 1e-30, 3e38, -3e38, float("inf"), 1e19, -2e19]
MODES = ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances_overflow_where_they_do_uncompiled(p, coordinates, mode):
    """Powers of one coordinate do, though the norm of one number is its size; so do lengths, where a product gives distances."""

    def program(x, y):
        return tocha.cdist(x, y, p, compute_mode=mode)

    tocha._dynamo.reset()
    f = tocha.compile(program)
    for times in (1, 6):  # 30 points are many
        found = []
        for g in (program, f):
            x = tocha.tensor(LARGE * times).reshape(-1, coordinates).requires_grad_()
            y = tocha.tensor(LARGE[::-1]).reshape(-1, coordinates)
            out = g(x, y)
            found.append((out, *tocha.autograd.grad(out.nan_to_num(0, 0, 0).sum(), x)))
        for mine, wanted in zip(found[1], found[0], strict=True):
            tocha.testing.assert_close(mine, wanted, equal_nan=True)


def edges_with_loops(x, rows, columns):
    """A graph's edges and a loop at every node: two indices, both joined of what is given and what is counted."""
    loop = tocha.arange(x.size(0))
    rows, columns = tocha.cat([rows, loop]), tocha.cat([columns, loop])
    degree = tocha.zeros(x.size(0)).scatter_add(0, columns, tocha.ones(columns.size(0)))
    weight = degree[rows] * x.sum(1)[columns]
    return weight, tocha.zeros_like(x).index_add(0, columns, x[rows] * weight.unsqueeze(-1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_indices_that_are_joined(backend):
    i = tocha.arange(20) * 7 % 6
    hold(edges_with_loops, lambda: [numbers(6, 3, grad=True), i, (i * 5 + 1) % 6], backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [1, 3])
def test_places_of_a_table_that_move(backend, length):
    """Steps of a decoder: rows of a table and a cache, from a place that changes from call to call."""
    table, caches = numbers(16, 4, 2), (tocha.zeros(2, 16, 4), tocha.zeros(2, 16, 4))

    def step(x, cache, start: int):
        rows = table[start : start + x.size(1)]
        cache[:, start : start + x.size(1)] = x * rows[..., 0] - rows[..., 1]
        return cache[:, : start + x.size(1)].sum(1)

    tocha._dynamo.reset()
    compiled = tocha.compile(step, backend=backend, fullgraph=True)
    for start in range(0, 16 - length + 1, length):
        x = numbers(2, length, 4) + start
        assert_close(compiled(x, caches[0], start), step(x, caches[1], start))
        assert_close(caches[0], caches[1])


def turned(x, heads: int):
    """Rotary embeddings, with a number of heads that changes."""
    b, length, d = x.shape
    q = x.view(b, length, heads, d // heads).transpose(1, 2)
    width = d // heads
    before = tocha.cat([q[:, :, :1], q[:, :, :-1]], 2)
    angles = tocha.outer(tocha.arange(length).float(), 1 / (10000 ** (tocha.arange(0, width, 2).float() / width)))
    angles = tocha.cat([angles, angles], -1)[:, :width]
    half = tocha.cat([-q[..., width // 2 :], q[..., : width // 2]], -1)
    return (q * angles.cos() + half * angles.sin() + before).transpose(1, 2).reshape(b, length, d)


@pytest.mark.parametrize("dynamic", [None, True])
def test_heads_of_changing_width(dynamic):
    for length, heads in ((4, 2), (5, 4), (7, 2)):
        hold(
            lambda x, h=heads: turned(x, h), lambda n=length: [numbers(3, n, 8, grad=True)], "inductor", dynamic=dynamic
        )
    compiled = tocha.compile(turned, dynamic=dynamic, fullgraph=True)
    for length, heads in ((4, 2), (5, 4), (7, 2), (6, 2)):
        assert_close(compiled(numbers(3, length, 8), heads), turned(numbers(3, length, 8), heads))


def test_long_sources_are_compiled_in_parts(monkeypatch, kernel_cache):
    started: list[str] = []
    start = codecache.start_compiler
    monkeypatch.setattr(codecache, "LONG", 100)
    monkeypatch.setattr(codecache, "processors", lambda: 3)
    monkeypatch.setattr(codecache, "start_compiler", lambda given: (started.extend(given), start(given))[1])

    def function(x, y):
        a = (x @ y).relu().softmax(-1)
        return (a @ x).tanh().sum(0), (y * 2).cumsum(0) + 1, tocha.stack([x, y]).amax(0)

    hold(function, lambda: [numbers(6, 6, grad=True), numbers(6, 6, grad=True)], "inductor")
    assert sum(a == "-c" for a in started) >= 4  # of forward and backward


def test_a_part_that_does_not_compile_is_told(monkeypatch):
    source = f"{cpp_source.HEADER}void kernel_0(void* context, int64_t begin, int64_t end) {{}}\n{cpp_source.BETWEEN}this is none\n{cpp_source.ENTRY}{cpp_program.OPENING}return 0; }}\n"
    monkeypatch.setattr(codecache, "LONG", 1)
    monkeypatch.setattr(codecache, "processors", lambda: 2)
    assert len(cpp_source.units(source, 2)) == 2
    with pytest.raises(codecache.CompilerError, match="refused the generated code"):
        codecache.compile_source(source, codecache.key_parts(source))


def layers(x, weights, scales):
    for w, scale in zip(weights, scales, strict=True):
        x = x + tocha.nn.functional.gelu(tocha.layer_norm(x @ w, (8,)) * scale)
    return x


def test_kernels_of_layers_that_do_the_same_are_one_function():
    def kernels_and_functions(scales):
        given = numbers(4, 8), [numbers(8, 8) for _ in range(5)]
        found = tocha._dynamo.explain(lambda x, ws: layers(x, ws, scales))(*given)
        assert_close(tocha.compile(layers)(*given, scales), layers(*given, scales))
        steps = [k for k in found.kernels if k["kind"] != "call"]
        assert all(k["source"] and k["operators"] for k in steps)
        return len(steps), len({k["source"] for k in steps})

    kernels, functions = kernels_and_functions([2.0] * 5)
    assert kernels == 5 and functions == 1
    assert kernels_and_functions([2.0, 3.0, 2.0, 3.0, 2.0]) == (5, 2)  # numbers are not names


def test_names_alone_do_not_make_kernels_different():
    text = "// add_3\nvoid kernel_7(int) {\n  v_add_4 = row_mul_2[v_add_9] + 1;\n}\n"
    other = "// add_8\nvoid kernel_12(int) {\n  v_sub_1 = row_exp_5[v_sub_3] + 1;\n}\n"
    assert cpp_program.form_of(text, "kernel_7") == cpp_program.form_of(other, "kernel_12")
    for change in (("[v_sub_3]", "[v_sub_1]"), ("+ 1", "+ 2"), ("row_exp_5", "v_sub_1")):
        assert cpp_program.form_of(text, "kernel_7") != cpp_program.form_of(other.replace(*change), "kernel_12")


def test_long_entries_are_not_optimized(monkeypatch, kernel_cache):
    monkeypatch.setattr(cpp_program, "LONG_ENTRY", 0)
    found = []
    monkeypatch.setattr(codecache, "compile_source", lambda s, p, make=codecache.compile_source: (found.append(s), make(s, p))[1])  # fmt: skip

    def function(x, n):
        y = x.sort().values[: n // 2] * (n % 3) ** 0.5
        x.add_(1)
        return y, x.view(-1), n * 1.5

    compiled = tocha.compile(function, dynamic=True, fullgraph=True)
    for n in (6, 7, 9):
        assert_close(compiled(numbers(n), n), function(numbers(n), n))
    assert found and all("TOCHA_UNOPTIMIZED" in s for s in found)
