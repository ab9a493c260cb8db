"""x[...] and x[...] = v against NumPy, over many random indices; and what NumPy does not have."""

from __future__ import annotations

import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocha

DTYPES = [np.float32, np.int64, np.bool_, np.int16, np.complex128]
FULL = slice(None)


@st.composite
def slices(draw, n):
    bound = st.none() | st.integers(-n - 2, n + 2)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3)))


@st.composite
def index_arrays(draw, n, shapes):
    if n == 0:
        return np.zeros((0,), np.int64)
    shape = draw(shapes)
    items = draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.array(items, draw(st.sampled_from([np.int64, np.int32]))).reshape(shape)


@st.composite
def cases(draw):
    """(array, index for tocha, basic part, advanced part): NumPy applies the two parts one after the other."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    dtype = draw(st.sampled_from(DTYPES))
    x = (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(dtype)
    common = draw(st.sampled_from([(), (1,), (2,), (3, 1), (2, 3)]))
    shapes = st.sampled_from([common, common[-1:], tuple(1 for _ in common)])
    use, basic, advanced = [], [], []
    dim = 0
    complete = draw(st.booleans())  # an index that reaches the last dim can hold an ellipsis
    while dim < len(shape) and (complete or draw(st.booleans())):
        n = shape[dim]
        kind = draw(st.sampled_from(["int", "slice", "full", "array", "mask", "none", "list", "tensor0"]))
        if kind == "full":
            use.append(FULL)
            basic.append(FULL)
            advanced.append(FULL)
            dim += 1
        elif kind == "none":
            use.append(None)
            basic.append(None)
            advanced.append(FULL)
        elif kind in ("int", "tensor0") and n:
            i = draw(st.integers(-n, n - 1))
            use.append(i if kind == "int" else tocha.tensor(i))
            basic.append(i)
            dim += 1
        elif kind in ("array", "list"):
            a = draw(index_arrays(n, shapes))
            if kind == "list" and a.ndim == 1:
                use.append(a.tolist())
            else:
                use.append(tocha.from_numpy(a) if draw(st.booleans()) else a)
            if a.ndim == 0:  # as a number: it takes a dim away, and is no index array beside others
                basic.append(int(a))
            else:
                basic.append(FULL)
                advanced.append(a)
            dim += 1
        elif kind == "mask" and not any(isinstance(a, np.ndarray) for a in advanced):
            k = draw(st.integers(1, len(shape) - dim))
            size = int(np.prod(shape[dim : dim + k]))
            m = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_).reshape(
                shape[dim : dim + k]
            )
            use.append(tocha.from_numpy(m))
            basic += [FULL] * k
            advanced.append(m)
            dim += k
            shapes = st.just((1,))
        else:
            s = draw(slices(n))
            use.append(s)
            basic.append(s)
            advanced.append(FULL)
            dim += 1
    if complete:
        first = draw(st.integers(0, len(use)))
        last = first
        while last < len(use) and isinstance(use[last], slice) and use[last] == FULL and draw(st.booleans()):
            last += 1
        use[first:last] = [...]
    return x, tuple(use), tuple(basic), tuple(advanced)


def expected(x, basic, advanced):
    return x[basic][advanced] if any(isinstance(a, np.ndarray) for a in advanced) else x[basic]


def try_numpy(f):
    try:
        return f(), None
    except (IndexError, ValueError) as e:
        return None, e


@settings(max_examples=2000, deadline=None, derandomize=True)
@given(cases(), st.booleans())
def test_getitem_agrees_with_numpy(case, transposed):
    x, use, basic, advanced = case
    t = tocha.from_numpy(x.copy())
    if transposed:  # a layout that is not contiguous
        t = tocha.from_numpy(np.ascontiguousarray(x.T)).permute(*reversed(range(x.ndim))) if x.ndim else t
    want, error = try_numpy(lambda: expected(x, basic, advanced))
    if error is not None:
        with pytest.raises((IndexError, RuntimeError)):
            t[use]
        return
    got = t[use]
    assert tuple(got.shape) == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(cases(), st.sampled_from(["number", "full", "row", "scalar tensor", "leading ones"]))
def test_setitem_agrees_with_numpy(case, value):
    # NumPy counts a 0-d array among the advanced indices, PyTorch takes it as an int: empty results may have another shape.
    hypothesis.assume(case[0].size > 0)
    x, use, basic, advanced = case
    want, error = try_numpy(lambda: expected(x, basic, advanced))
    if error is not None:
        return
    if value == "number":
        v, w = 3, 3
    else:
        shape = {"full": want.shape, "row": want.shape[-1:], "scalar tensor": (), "leading ones": (1, 1, *want.shape)}[
            value
        ]
        w = ((np.arange(int(np.prod(shape))) + 1) % 5).reshape(shape).astype(x.dtype)
        v = tocha.from_numpy(w.copy())
    flat = [a for a in advanced if isinstance(a, np.ndarray) and a.dtype != np.bool_]
    t = tocha.from_numpy(x.copy())
    t[use] = v
    if flat and value not in ("number", "scalar tensor"):
        # duplicates may end with any of their values: each place holds one that was written there
        places = np.arange(x.size).reshape(x.shape)
        written = np.broadcast_to(w.reshape(w.shape[2:]) if value == "leading ones" else w, want.shape)
        allowed: dict[int, set] = {}
        for p, q in zip(expected(places, basic, advanced).ravel(), written.ravel(), strict=True):
            allowed.setdefault(int(p), set()).add(q.item())
        got = t.numpy().ravel()
        for p, old in enumerate(x.ravel()):
            assert got[p].item() in allowed.get(p, {old.item()})
        return
    y = x.copy()
    w = w.reshape(w.shape[2:]) if value == "leading ones" else w
    if any(isinstance(a, np.ndarray) for a in advanced):
        places = expected(np.arange(x.size).reshape(x.shape), basic, advanced)
        y.ravel()[places] = w
    elif x.ndim:
        y[basic] = w
    else:
        y[...] = w
    np.testing.assert_array_equal(t.numpy(), y)


def test_index_put_accumulates_duplicates():
    x = np.zeros((4, 3), np.float32)
    i = np.array([0, 2, 0, -1, 0])
    v = np.arange(15, dtype=np.float32).reshape(5, 3)
    t = tocha.from_numpy(x.copy()).index_put((tocha.from_numpy(i),), tocha.from_numpy(v), accumulate=True)
    np.add.at(x, i, v)
    np.testing.assert_array_equal(t.numpy(), x)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (5, IndexError),
        (-4, IndexError),
        ((0, 0, 0), IndexError),
        (1.5, IndexError),
        ("a", TypeError),
        (slice(None, None, -1), ValueError),
    ],
)
def test_bad_indices(index, error):
    with pytest.raises(error):
        tocha.zeros(3, 4)[index]


def test_bounds_errors_name_the_place():
    x = tocha.zeros(3, 4)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        x[tocha.tensor([0, 5])]
    with pytest.raises(IndexError, match="index -5 is out of bounds for dimension 1 with size 4"):
        x[:, tocha.tensor([-5])]
    with pytest.raises(IndexError, match="mask"):
        x[tocha.tensor([True, False])]
    before = x.clone()
    with pytest.raises(IndexError):
        x[tocha.tensor([0, 9])] = 1.0
    assert (x == before).all()


def test_numbers_and_bools_as_indices():
    x = tocha.arange(12).view(3, 4)
    assert x[True].shape == (1, 3, 4)
    assert x[False].shape == (0, 3, 4)
    assert x[0, True].shape == (1, 4)
    assert x[tocha.tensor(True)].shape == (1, 3, 4)
    assert x[tocha.tensor(1)].tolist() == [4, 5, 6, 7]
    assert x[np.int64(1), np.uint8(2)].item() == 6
    assert x[range(2)].shape == (2, 4)
    assert x[[]].shape == (0, 4)
    assert tocha.tensor(5)[...].item() == 5
    assert tocha.tensor(5)[None].shape == (1,)
    with pytest.raises(IndexError):
        tocha.tensor(5)[0]


def test_old_forms_warn():
    x = tocha.arange(12).view(3, 4)
    with pytest.warns(UserWarning, match="non-tuple"):
        assert x[[[0, 1], [1, 0]]].tolist() == [1, 4]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[tocha.tensor([1, 0, 1], dtype=tocha.uint8)].shape == (2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x[[0, 1]], x[np.array([0, 1])], x[[True, False, True]]


def test_basic_indices_are_views():
    x = tocha.zeros(3, 4)
    x[1:, None, ::2][0, 0, 1] = 7
    assert x[1, 2].item() == 7
    x[tocha.tensor([0])][0, 0] = 9  # a copy
    assert x[0, 0].item() == 0


def test_assignment_types():
    x = tocha.zeros(3, dtype=tocha.int64)
    x[0] = 2.7
    x[1] = tocha.tensor(3.9)
    assert x.tolist() == [2, 3, 0]
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[[0]] = tocha.tensor([1.0])
    with pytest.raises(TypeError, match="can't assign"):
        x[0] = [1]
    with pytest.raises(RuntimeError):
        x[[0]] = 1j


def test_an_index_into_nothing_is_refused_before_the_dtype_of_what_is_put_there():
    with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
        tocha.zeros(3, 0)[:, tocha.tensor([0])] = tocha.tensor([[1]])


@pytest.mark.parametrize("bad", [3, -1])
def test_index_add_out_of_range(bad):
    index = tocha.tensor([bad])
    with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 0 with size 3"):
        tocha.zeros(3, 2).index_add(0, index, tocha.ones(1, 2))
    for self, dim, kwargs in [
        (tocha.zeros(3), 0, {}),
        (tocha.zeros(3, 2), 0, {"alpha": 2}),
        (tocha.zeros(2, 3, 2), 1, {}),
    ]:
        with pytest.raises(IndexError, match="index out of range in self"):
            self.index_add(dim, index, self.narrow(dim, 0, 1), **kwargs)
    assert tocha.zeros(0, 3).index_add(1, index, tocha.zeros(0, 1)).shape == (0, 3)


@pytest.mark.parametrize("call", ["x.index_select(0, i)", "tocha.nn.functional.embedding(i, x)"])
def test_rows_of_nothing(call):
    scope = {"tocha": tocha, "x": tocha.zeros(0, 0), "i": tocha.tensor([0])}
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        eval(call, scope)
    assert eval(call, scope | {"i": scope["i"][:0]}).shape == (0, 0)
