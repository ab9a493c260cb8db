"""Memory that is shared: what PyTorch refuses to write because an argument overlaps it, and the strides of results."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import tocha

LIBRARIES = (torch, tocha)

# a is written to, b is read; i is [0, 1, 2, 3].
WRITES = {
    "copy_": lambda m, a, b, i: a.copy_(b),
    "add_": lambda m, a, b, i: a.add_(b),
    "div_ rounding": lambda m, a, b, i: a.div_(b, rounding_mode="floor"),
    "pow_": lambda m, a, b, i: a.pow_(b),
    "clamp_": lambda m, a, b, i: a.clamp_(b),
    "clamp_ both": lambda m, a, b, i: a.clamp_(b, b),
    "lerp_": lambda m, a, b, i: a.lerp_(b, 0.5),
    "addcdiv_": lambda m, a, b, i: a.addcdiv_(b, b),
    "hypot_": lambda m, a, b, i: a.hypot_(b),
    "masked_fill_": lambda m, a, b, i: a.masked_fill_(b > 0, 0.0),
    "slice": lambda m, a, b, i: a.__setitem__(slice(None), b),
    "mask": lambda m, a, b, i: a.__setitem__(m.ones(a.shape, dtype=m.bool), b),
    "index": lambda m, a, b, i: a.__setitem__(i, b[:4]),
    "index_put_": lambda m, a, b, i: a.index_put_((i,), b[:4], True),
    "index_copy_": lambda m, a, b, i: a.index_copy_(0, i, b[:4]),
    "index_add_": lambda m, a, b, i: a.index_add_(0, i, b[:4]),
    "index_reduce_": lambda m, a, b, i: a.index_reduce_(0, i, b[:4], "prod"),
    "index_fill_": lambda m, a, b, i: a.index_fill_(0, i, b[0]),
    "scatter_": lambda m, a, b, i: a.scatter_(0, i, b),
    "scatter_ reduce": lambda m, a, b, i: a.scatter_(0, i, b, reduce="add"),
    "scatter_add_": lambda m, a, b, i: a.scatter_add_(0, i, b),
    "scatter_reduce_": lambda m, a, b, i: a.scatter_reduce_(0, i, b, "sum"),
    "put_": lambda m, a, b, i: a.put_(i, b[:4]),
    "fill_": lambda m, a, b, i: a.fill_(a[1]),
    "zero_": lambda m, a, b, i: a.zero_(),
    "sin": lambda m, a, b, i: m.sin(b, out=a),
    "where": lambda m, a, b, i: m.where(b > 0, b, b, out=a),
    "clamp": lambda m, a, b, i: m.clamp(b, 0, 1, out=a),
    "nan_to_num": lambda m, a, b, i: m.nan_to_num(b, out=a),
    "cumsum": lambda m, a, b, i: m.cumsum(b, 0, out=a),
    "logcumsumexp": lambda m, a, b, i: m.logcumsumexp(b, 0, out=a),
    "sort": lambda m, a, b, i: m.sort(b, out=(a, m.empty(0, dtype=m.int64))),
    "topk": lambda m, a, b, i: m.topk(b, b.shape[0], out=(a, m.empty(0, dtype=m.int64))),
    "kthvalue": lambda m, a, b, i: m.kthvalue(b[None], 1, 0, out=(a, m.empty(0, dtype=m.int64))),
    "cat": lambda m, a, b, i: m.cat([b], out=a),
    "stack": lambda m, a, b, i: m.stack([b], out=a[None]),
    "gather": lambda m, a, b, i: m.gather(b, 0, i, out=a[:4]),
    "index_select": lambda m, a, b, i: m.index_select(b, 0, i, out=a[:4]),
    "take": lambda m, a, b, i: m.take(b, i, out=a[:4]),
    "take_along_dim": lambda m, a, b, i: m.take_along_dim(b, i, 0, out=a[:4]),
    "masked_select": lambda m, a, b, i: m.masked_select(b, b > 0, out=a),
    "diff": lambda m, a, b, i: m.diff(b, out=a[:-1]),
    "softmax": lambda m, a, b, i: m.softmax(b, 0, out=a),
    "addr_": lambda m, a, b, i: a[None].addr_(m.ones(1), b),
}
PAIRS = {
    "shifted": lambda x: (x[:-1], x[1:]),
    "same": lambda x: (x, x),
    "two views": lambda x: (x[:], x[:]),
    "interleaved": lambda x: (x[::2], x[1::2]),
    "apart": lambda x: (x[:4], x[4:]),
    "expanded": lambda x: (x[:1].expand(8), x + 1),
}


def outcome(m, write, pair, recorded=False):
    x = m.arange(1.0, 9.0) / 8
    if recorded:
        x = x.requires_grad_() * 1
    a, b = pair(x)
    try:
        write(m, a, b, m.tensor([0, 1, 2, 3]))
    except RuntimeError as e:
        return (
            "some elements"
            if "some elements of the input" in str(e)
            else "more than one"
            if "more than one" in str(e)
            else str(e)
        )
    return [round(v, 5) for v in x.tolist()]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("pair", PAIRS)
def test_arguments_that_overlap_what_is_written(write, pair):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(tocha, WRITES[write], PAIRS[pair]) == outcome(torch, WRITES[write], PAIRS[pair])


@pytest.mark.parametrize(
    "write", ["copy_", "add_", "div_ rounding", "pow_", "clamp_", "clamp_ both", "lerp_", "hypot_"]
)
@pytest.mark.parametrize("pair", ["shifted", "apart"])
def test_arguments_that_overlap_what_is_written_while_recording(write, pair):
    assert outcome(tocha, WRITES[write], PAIRS[pair], True) == outcome(torch, WRITES[write], PAIRS[pair], True)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("write", [lambda m, a, b: a.float_power_(b), lambda m, a, b: m.float_power(a, b, out=a)])
def test_float_power_refuses_what_it_would_write_over(write, dtype, recorded):
    for m in LIBRARIES:
        x = m.arange(1, 9, dtype=getattr(m, dtype))
        x = x.requires_grad_() * 1 if recorded else x
        with pytest.raises(RuntimeError):
            write(m, x[:-1], x[1:])
        assert x.tolist() == list(range(1, 9))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize("base", [2, 2j])
def test_float_power_writes_double_precision_only(base, dtype):
    said = []
    for m in LIBRARIES:
        out = m.zeros(3, dtype=getattr(m, dtype))
        try:
            m.float_power(m.full((3,), base), m.ones(3), out=out)
        except RuntimeError as e:
            said.append(str(e).removeprefix("[float_power] "))
        else:
            said.append(out.tolist())
    assert said[0] == said[1]


# v is written to the second element of the first of five windows, w to all of it.
AT_PLACES = {
    "scatter_": lambda m, y, v, w: y.scatter_(1, m.tensor([[1]]), v),
    "scatter_add_": lambda m, y, v, w: y.scatter_add_(1, m.tensor([[1]]), v),
    "scatter_reduce_": lambda m, y, v, w: y.scatter_reduce_(1, m.tensor([[1]]), v, "amax"),
    "index_put_": lambda m, y, v, w: y.index_put_((m.tensor([0]), m.tensor([1])), v[0]),
    "index_put_ adding": lambda m, y, v, w: y.index_put_((m.tensor([0]), m.tensor([1])), v[0], accumulate=True),
    "index_add_": lambda m, y, v, w: y.index_add_(0, m.tensor([0]), w),
    "index_copy_": lambda m, y, v, w: y.index_copy_(0, m.tensor([0]), w),
    "index_fill_": lambda m, y, v, w: y.index_fill_(0, m.tensor([0]), 7),
    "put_": lambda m, y, v, w: y.put_(m.tensor([1]), v[0]),
    "put_ adding": lambda m, y, v, w: y.put_(m.tensor([1, -9]), w[0], accumulate=True),
    "masked_fill_": lambda m, y, v, w: y.masked_fill_(m.arange(10).view(5, 2) == 1, 7),
    "masked_scatter_": lambda m, y, v, w: y.masked_scatter_(m.arange(10).view(5, 2) == 1, v[0]),
    "slice": lambda m, y, v, w: y[0, 1:].copy_(v[0]),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "complex64"])
@pytest.mark.parametrize("write", AT_PLACES)
def test_writes_at_places_of_windows_that_overlap(write, dtype):
    if dtype == "complex64" and write == "scatter_reduce_":
        pytest.skip("complex numbers have no order")
    if dtype == "float16" and write in ("scatter_", "scatter_reduce_"):
        pytest.skip("PyTorch scatters half types into a copy, all of which comes back: the write is lost")
    found = []
    for m in LIBRARIES:
        d = getattr(m, dtype)
        x = m.arange(6).to(d)
        AT_PLACES[write](m, x.unfold(0, 2, 1), m.tensor([[100]]).to(d), m.tensor([[100, 200]]).to(d))
        found.append(x.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("shape", "window"),
    [((6,), (0, 2, 1)), ((3, 4), (1, 2, 1)), ((4, 1), (0, 2, 1)), ((9,), (0, 3, 2)), ((40,), (0, 9, 1))],
)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_of_copies_to_windows_that_overlap_the_last_wins(shape, window, dtype):
    found = []
    for m in LIBRARIES:
        x = m.zeros(shape, dtype=getattr(m, dtype))
        windows = x.unfold(*window)
        windows.copy_(m.arange(float(windows.numel())).view(windows.shape))
        taken = m.select_scatter(
            m.zeros(shape).unfold(*window), m.arange(float(windows[0].numel())).view(windows[0].shape), 0, 0
        )
        found.append([x.tolist(), taken.tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "write",
    [
        lambda m, x: x.masked_fill_(m.ones(8, dtype=m.bool), 2.0),
        lambda m, x: x.index_put_((m.tensor([0]),), m.tensor(2.0)),
        lambda m, x: x.index_fill_(0, m.tensor([0]), 2.0),
    ],
    ids=["masked_fill_", "index_put_", "index_fill_"],
)
def test_writes_to_expanded_tensors_that_are_only_deprecated(write):
    said = []
    for m in LIBRARIES:
        m.set_warn_always(True)
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                x = m.zeros(1)
                write(m, x.expand(8))
        finally:
            m.set_warn_always(False)
        said.append((x.item(), str(seen[0].message).partition(" (Triggered")[0]))
    assert said[0] == said[1]


@pytest.mark.parametrize("how", ["same", "transposed", "row", "mask of itself", "own indices"])
def test_bools_and_integers_as_their_own_mask_or_index(how):
    steps = {
        "same": lambda m: m.tensor([True, False]).masked_fill_,
        "transposed": lambda m: (x := m.arange(4).view(2, 2)).copy_(x.t()),
        "row": lambda m: (x := m.arange(4).view(2, 2)).__setitem__(slice(None), x[1]),
        "mask of itself": lambda m: (x := m.tensor([True, False])).__setitem__(x, m.tensor(False)),
        "own indices": lambda m: (x := m.tensor([1, 0])).__setitem__(x, m.tensor(5)),
    }
    raised = []
    for m in LIBRARIES:
        try:
            steps[how](m)
            raised.append(None)
        except RuntimeError as e:
            raised.append("refer to a single" in str(e))
    assert raised[0] == raised[1]


def layouts(m):
    base = m.arange(120.0).view(2, 3, 4, 5)
    return {
        "contiguous": base,
        "permuted": base.permute(3, 1, 0, 2),
        "channels last": base.contiguous(memory_format=m.channels_last),
        "expanded": m.arange(60.0).view(1, 3, 4, 5).expand(2, 3, 4, 5),
        "repeated": m.arange(5.0).expand(2, 3, 4, 5),
        "steps": m.arange(960.0).view(4, 6, 8, 5)[::2, ::2, ::2],
        "transposed": m.arange(12.0).view(3, 4).t(),
        "columns": m.arange(3.0).view(3, 1).expand(3, 4),
        "with an offset": m.arange(40.0)[5:29].view(2, 3, 4).transpose(0, 1),
    }


def first(m, x):
    return m.zeros((1,) * x.dim(), dtype=m.int64)


def reversed_mask(m, x):
    return m.ones(tuple(x.shape)[::-1], dtype=m.bool).permute(*range(x.dim())[::-1])


RESULTS = {
    "scatter": lambda m, x: x.scatter(0, first(m, x), 1.0),
    "scatter_add": lambda m, x: x.scatter_add(0, first(m, x), x),
    "scatter_reduce": lambda m, x: x.scatter_reduce(0, first(m, x), x, "sum"),
    "gather": lambda m, x: x.gather(0, m.zeros(x.shape, dtype=m.int64)),
    "index first": lambda m, x: x[m.tensor([0, 1])],
    "index second": lambda m, x: x[:, m.tensor([0, 1])],
    "index last": lambda m, x: x[..., m.tensor([0, 1])],
    "index two": lambda m, x: x[m.tensor([0, 1]), m.tensor([0, 1])],
    "index apart": lambda m, x: x[m.tensor([0, 1]), ..., m.tensor([0, 1])],
    "index matrix": lambda m, x: x[:, m.tensor([[0, 1], [1, 0]])],
    "index transposed": lambda m, x: x[:, m.tensor([[0, 1, 0], [1, 0, 0]]).t()],
    "index mask": lambda m, x: x[:, m.tensor([i % 2 == 0 for i in range(x.shape[1])])],
    "index slice": lambda m, x: x[1:, m.tensor([0, 1])],
    "index none": lambda m, x: x[None, m.tensor([0, 1])],
    "index_put": lambda m, x: x.index_put((m.tensor([0, 1]),), m.tensor(1.0)),
    "index_select": lambda m, x: x.index_select(1, m.tensor([0, 1])),
    "index_add": lambda m, x: x.index_add(0, m.tensor([0]), x[:1]),
    "index_copy": lambda m, x: x.index_copy(0, m.tensor([0]), x[:1]),
    "index_fill": lambda m, x: x.index_fill(0, m.tensor([0]), 1.0),
    "index_reduce": lambda m, x: x.index_reduce(0, m.tensor([0]), x[:1], "prod"),
    "masked_fill": lambda m, x: x.masked_fill(x > 3, 1.0),
    "masked_fill wider": lambda m, x: x.masked_fill(m.ones((2, *x.shape), dtype=m.bool), 1.0),
    "masked_fill reversed": lambda m, x: x.masked_fill(reversed_mask(m, x), 1.0),
    "masked_scatter": lambda m, x: x.masked_scatter(x > 3, m.ones(300)),
    "where": lambda m, x: m.where(reversed_mask(m, x), x, 0.0),
    "put": lambda m, x: x.put(m.tensor([0]), m.tensor([1.0])),
    "renorm": lambda m, x: x.renorm(2, 0, 1.0),
    "select_scatter": lambda m, x: x.select_scatter(x[0] + 1, 0, 1),
    "slice_scatter": lambda m, x: x.slice_scatter(x[:1] + 1, 0, 1, 2),
    "diagonal_scatter": lambda m, x: x.diagonal_scatter(x.diagonal() + 1),
    "as_strided_scatter": lambda m, x: m.as_strided_scatter(x, m.full((1,), 7.0), (1,), (1,)),
}


@pytest.mark.parametrize("operator", RESULTS)
@pytest.mark.parametrize("layout", layouts(torch))
def test_strides_and_values_of_results(operator, layout):
    found = []
    for m in LIBRARIES:
        r = RESULTS[operator](m, layouts(m)[layout])
        found.append(
            (tuple(r.shape), tuple(s for n, s in zip(r.shape, r.stride(), strict=True) if n != 1), r.storage_offset())
        )
        found[-1] += (torch.tensor(r.tolist()),)
    assert found[0][:3] == found[1][:3]
    torch.testing.assert_close(found[0][3], found[1][3])


@pytest.mark.parametrize("seed", range(200))
def test_strides_of_indexing(seed):
    r = random.Random(seed)
    shape = [r.choice([1, 2, 3]) for _ in range(r.randint(1, 4))]
    order = r.sample(range(len(shape)), len(shape))
    items = [r.choice(["all", "all", "first", "vector", "matrix", "transposed", "mask"]) for _ in shape]
    added = [r.random() < 0.2 for _ in shape]
    found = []
    for m in LIBRARIES:
        x = m.zeros([shape[i] for i in order]).permute([order.index(i) for i in range(len(shape))])
        index = []
        for item, size, new in zip(items, shape, added, strict=True):
            index += [None] if new else []
            index.append(
                {
                    "all": slice(None),
                    "first": 0,
                    "vector": m.tensor([0, 0]),
                    "matrix": m.zeros(2, 2, dtype=m.int64),
                    "transposed": m.zeros(2, 2, dtype=m.int64).t(),
                    "mask": m.tensor([True, False, True][:size]),
                }[item]
            )
        try:
            y = x[tuple(index)]
        except IndexError:
            found.append("shapes that do not broadcast")
            continue
        found.append((tuple(y.shape), [s for n, s in zip(y.shape, y.stride(), strict=True) if n > 1]))
    assert found[0] == found[1]


def test_empty_tensors_have_no_address():
    for m in LIBRARIES:
        assert [t.data_ptr() for t in (m.zeros(0), m.zeros(4)[2:2], m.zeros(4, 0), m.zeros(3).expand(0, 3))] == [0] * 4
