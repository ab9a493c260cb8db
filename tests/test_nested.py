"""Nested tensors: the jagged layout against its components, gradients by finite differences, offsets that do not fit."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle

import pytest

import tocha

F = tocha.nn.functional
OFFSETS = tocha.tensor([0, 2, 2, 6])
LENGTHS = [2, 0, 4]
VALUES = tocha.linspace(-1, 1, 18, dtype=tocha.float64).reshape(6, 3).sin()


def jagged(values=VALUES):
    return tocha.nested.nested_tensor_from_jagged(values, OFFSETS)


def dense(made):
    return made.values() if made.is_nested else made


SECOND = tocha.linspace(-1, 1, 18, dtype=tocha.float64).reshape(3, 3, 2)
SIDE = tocha.linspace(1, 2, 9, dtype=tocha.float64).reshape(3, 1, 3)
OPERATIONS = {
    "scale": lambda n: n * 2, "sin": lambda n: n.sin(), "square": lambda n: n * n, "beside dense": lambda n: n * SIDE, "sum": lambda n: n.sum(), "sum of components": lambda n: n.sum(1),
    "sum of rows": lambda n: n.sum(-1), "sum of all rows": lambda n: n.sum((0, 1)), "softmax": lambda n: n.softmax(-1), "ragged softmax": lambda n: n.softmax(1), "padding": lambda n: n.to_padded_tensor(0.5),
    "layer_norm": lambda n: F.layer_norm(n, (3,)), "linear": lambda n: F.linear(n, SECOND[0].t()), "matmul": lambda n: n @ SECOND, "two": lambda n: n.transpose(1, 2) @ n, "component": lambda n: n[2],
    "cat": lambda n: tocha.cat([n, n], -1), "stack": lambda n: tocha.stack([n, n], 2), "view": lambda n: n.view(3, -1, 1, 3), "where": lambda n: tocha.where(n > 0, n, n * 2), "gelu": lambda n: F.gelu(n),
    "transpose": lambda n: n.transpose(1, 2).contiguous(), "chunk": lambda n: n.chunk(3, -1)[1], "select": lambda n: n.select(2, 1), "unbind": lambda n: n.unbind()[0], "slice": lambda n: n[..., 1:],
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients(name):
    def f(values):
        return dense(OPERATIONS[name](jagged(values)))

    values = VALUES.clone().requires_grad_()
    assert tocha.autograd.gradcheck(f, (values,)) and tocha.autograd.gradgradcheck(f, (values,))


BY_COMPONENT = {
    "scale": lambda x: x * 2 + 1, "exp": tocha.exp, "softmax": lambda x: x.softmax(-1), "layer_norm": lambda x: F.layer_norm(x, (3,)), "linear": lambda x: F.linear(x, SECOND[0].t()), "clamp": lambda x: x.clamp(-0.5, 0.5),
    "sum": lambda x: x.sum(-1), "transpose": lambda x: x.transpose(-1, -2), "gt": lambda x: (x > 0).to(tocha.float64), "argmax": lambda x: x.argmax(-1), "masked_fill": lambda x: x.masked_fill(x > 0, 0.0), "silu": F.silu,
    "rms_norm": lambda x: F.rms_norm(x, (3,)), "to": lambda x: x.to(tocha.float32), "unflatten": lambda x: x.unflatten(-1, (1, 3)), "dropout": lambda x: F.dropout(x, 0.0), "softplus": F.softplus, "pow": lambda x: x**2,
}  # fmt: skip


@pytest.mark.parametrize("name", BY_COMPONENT)
def test_components_are_treated_alike(name):
    f = BY_COMPONENT[name]
    parts = f(jagged()).unbind()
    for mine, x in zip(parts, jagged().unbind(), strict=True):
        assert tocha.allclose(mine.to(tocha.float64), f(x).to(tocha.float64))


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "argmax", "any", "all"])
def test_reductions_along_the_ragged_dim(name):
    nt = tocha.nested.nested_tensor([VALUES[:2], VALUES[2:]], layout=tocha.jagged)
    expected = tocha.stack([getattr(x, name)(0) for x in nt.unbind()])
    assert tocha.allclose(getattr(nt, name)(1).to(tocha.float64), expected.to(tocha.float64))
    assert getattr(nt, name)(1, keepdim=True).shape == (2, 1, 3) if name in ("sum", "amax") else True


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    values = tocha.randn(6, 2, 4, dtype=tocha.float64, requires_grad=True)

    def attend(v):
        n = jagged(v).transpose(1, 2)
        return F.scaled_dot_product_attention(n, n, n * 2, is_causal=causal).transpose(1, 2)

    for mine, x in zip(attend(values).unbind(), jagged(values).unbind(), strict=True):
        x = x.transpose(0, 1)
        assert tocha.allclose(mine, F.scaled_dot_product_attention(x, x, x * 2, is_causal=causal).transpose(0, 1))
    assert tocha.autograd.gradcheck(lambda v: attend(v).values(), (values,))


def test_attention_of_components_of_one_length():
    x = tocha.randn(3, 2, 5, 4)
    n = tocha.nested.as_nested_tensor(x.transpose(1, 2), layout=tocha.jagged).transpose(1, 2)
    made = F.scaled_dot_product_attention(n, n, n, is_causal=True)
    assert tocha.allclose(
        tocha.stack(made.unbind()), F.scaled_dot_product_attention(x, x, x, is_causal=True), atol=1e-5
    )


def test_ragged_sizes_equal_themselves_only():
    a, b = (
        jagged(),
        tocha.nested.nested_tensor([tocha.ones(2, 3), tocha.ones(0, 3), tocha.ones(4, 3)], layout=tocha.jagged),
    )
    assert a.shape == jagged().shape and a.shape[1] != b.shape[1] and a.shape[1] >= 2 and a.size(2) == 3
    assert (a + jagged()).shape == a.shape
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add with inputs of shapes"):
        a + b
    with pytest.raises(NotImplementedError, match=r"aten\.cumsum has no form"):
        a.cumsum(1)


def test_padding_there_and_back():
    nt = jagged()
    assert nt.to_padded_tensor(7.0).shape == (3, 6, 3)  # the greatest length has not been read yet
    assert nt._max_seqlen == 4
    padded = nt.to_padded_tensor(7.0)
    assert padded.shape == (3, 4, 3) and (padded[1] == 7).all() and tocha.equal(padded[0, :2], VALUES[:2])
    assert nt.to_padded_tensor(0.0, output_size=(3, 9, 3)).shape == (3, 9, 3)
    back = tocha.nested.narrow(padded, 1, 0, tocha.tensor(LENGTHS), layout=tocha.jagged)
    assert not back.is_contiguous() and tocha.equal(back.contiguous().values(), VALUES)
    assert [tuple(p.shape) for p in back.unbind()] == [(2, 3), (0, 3), (4, 3)] and tocha.allclose(
        back.sum(1), nt.sum(1)
    )


def test_leaves_and_accumulated_gradients():
    nt = tocha.nested.nested_tensor([VALUES[:2], VALUES[2:]], layout=tocha.jagged, requires_grad=True)
    (nt * nt).sum().backward()
    (nt * 3).backward(tocha.ones_like(nt))
    assert nt.grad.is_nested and tocha.allclose(nt.grad.values(), 2 * VALUES + 3)
    parts = [VALUES[:2].clone().requires_grad_(), VALUES[2:].clone().requires_grad_()]
    tocha.nested.as_nested_tensor(parts, layout=tocha.jagged).square().sum().backward()
    assert all(tocha.allclose(p.grad, 2 * p) for p in parts)


def test_layers_and_embeddings():
    tokens = tocha.nested.nested_tensor([[1, 2], [3]], layout=tocha.jagged)
    model = tocha.nn.Sequential(tocha.nn.Embedding(5, 4), tocha.nn.Linear(4, 4), tocha.nn.ReLU(), tocha.nn.LayerNorm(4))
    out = model(tokens)
    assert tocha.allclose(out.values(), model(tocha.tensor([1, 2, 3])))
    out.sum(1).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_copies_and_files():
    nt = jagged()
    file = io.BytesIO()
    tocha.save(nt, file)
    file.seek(0)
    for copied in (copy.deepcopy(nt), pickle.loads(pickle.dumps(nt)), tocha.load(file, weights_only=False), nt.clone()):
        assert copied.is_nested and tocha.equal(copied.values(), VALUES) and tocha.equal(copied.offsets(), OFFSETS)


@pytest.mark.parametrize(
    "offsets", [[0, 2, 9], [0, 5, 2], [-1, 2, 6], [3, 1, 6], [0, 7, 6], [0], [0, 1000000000000, 6]]
)
def test_offsets_that_do_not_fit_never_crash(offsets):
    nt = tocha.nested.nested_tensor_from_jagged(VALUES, tocha.tensor(offsets))
    uses = [
        lambda: nt.unbind(), lambda: nt.to_padded_tensor(0.0), lambda: nt.sum(1), lambda: nt.softmax(1), lambda: nt[0], lambda: nt @ tocha.ones(len(offsets) - 1, 3, 2, dtype=tocha.float64),
        lambda: nt.mean(1), lambda: nt + tocha.ones(len(offsets) - 1, 1, 3), lambda: str(nt), lambda: nt.amax(1), lambda: nt.chunk(2, 0), lambda: nt.contiguous(),
    ]  # fmt: skip
    for use in uses:
        with contextlib.suppress(RuntimeError, IndexError, ValueError):
            use()


def test_nobody_takes_it_for_zeros():
    nt = jagged()
    for use in (
        lambda: VALUES[nt],
        lambda: nt.numpy(),
        lambda: nt.tolist(),
        lambda: tocha.equal(nt, VALUES) or 1 / 0,
        lambda: nt.sort(),
    ):
        with pytest.raises((RuntimeError, NotImplementedError, IndexError, ZeroDivisionError)):
            use()


def test_the_strided_layout():
    a, b = tocha.arange(6.0).reshape(2, 3), tocha.arange(4.0).reshape(4, 1)
    nt = tocha.nested.nested_tensor([a, b], requires_grad=True)
    assert nt.size(0) == 2 and nt.layout == tocha.strided and nt.is_nested and tocha.equal(nt.unbind()[1], b)
    with pytest.raises(RuntimeError, match="Given dimension 2 is irregular"):
        nt.size(2)
    assert nt.to_padded_tensor(-1.0).shape == (2, 4, 3) and nt.to_padded_tensor(-1.0)[0, 2, 0] == -1
    (nt * nt + 1).to_padded_tensor(0.0).sum().backward()
    assert nt.grad.is_nested and tocha.equal(nt.grad.unbind()[0], 2 * a)
    assert str(nt.detach()).startswith("nested_tensor([\n  tensor([[0., 1., 2.],") and (nt * 2).grad_fn is not None


def test_encoder_in_inference():
    encoder = tocha.nn.TransformerEncoder(tocha.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    parts = [tocha.randn(2, 8), tocha.randn(4, 8)]
    with tocha.no_grad():
        for layout in (tocha.strided, tocha.jagged):
            made = encoder(tocha.nested.nested_tensor(parts, layout=layout))
            for mine, x in zip(made.unbind(), parts, strict=True):
                assert tocha.allclose(mine, encoder(x.unsqueeze(0))[0], atol=1e-5)
    with pytest.raises(AssertionError, match="outside of its fast path"):
        encoder(tocha.nested.nested_tensor(parts))


def test_places_can_be_written():
    nt = tocha.nested.nested_tensor([tocha.zeros(2, 3), tocha.zeros(4, 3)], layout=tocha.jagged)
    nt.index_put_((tocha.tensor([0, 1]), tocha.tensor([1, 3]), tocha.tensor([2, 0])), tocha.tensor([5.0, 6.0]))
    nt[1, 0] = 7.0
    assert nt.unbind()[0].tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 5.0]]
    assert nt.unbind()[1].tolist() == [[7.0] * 3, [0.0] * 3, [0.0] * 3, [6.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError, match="ragged dimension are out of bounds"):
        nt.index_put_((tocha.tensor([0]), tocha.tensor([2])), tocha.tensor(1.0))


@pytest.mark.parametrize("change", ["short", "stride", "offset", "negative", "kind"])
def test_a_file_names_no_component_outside_its_buffer(change):
    sizes, strides, starts = tocha.tensor([[2, 3]]), tocha.tensor([[3, 1]]), tocha.tensor([0])
    if change == "stride":
        strides = tocha.tensor([[2**40, 1]])
    elif change == "offset":
        starts = tocha.tensor([1])
    elif change == "negative":
        strides = tocha.tensor([[-3, 1]])
    buffer = [0.0] * 6 if change == "kind" else tocha.zeros(5 if change == "short" else 6)
    with pytest.raises(ValueError):
        tocha._utils._rebuild_nested_tensor(buffer, sizes, strides, starts)


@pytest.mark.parametrize("change", [{"offsets": 3}, {"_ragged_idx": 9}, {"values": None}, {"lengths": [1]}])
def test_a_file_with_other_parts_is_refused(change):
    from tocha.nested._internal.nested_tensor import _rebuild_njt

    state = {
        "values": tocha.ones(3, 2),
        "offsets": tocha.tensor([0, 3]),
        "lengths": None,
        "_ragged_idx": 1,
        "requires_grad": False,
    }
    assert _rebuild_njt(state).shape[0] == 1
    with pytest.raises(ValueError):
        _rebuild_njt({**state, **change})


def test_lengths_that_are_given_are_kept():
    def padded(**bounds):
        return tocha.nested.nested_tensor_from_jagged(VALUES, OFFSETS, **bounds).to_padded_tensor(0.0)

    assert padded(max_seqlen=5).shape == (3, 5, 3)
    assert tocha.equal(padded(max_seqlen=3), padded(max_seqlen=4)[:, :3])
    assert tocha.nested.nested_tensor_from_jagged(VALUES, OFFSETS, max_seqlen=5)._min_seqlen == 0
    with pytest.raises(AssertionError, match="offsets and lengths batch sizes must match"):
        tocha.nested.nested_tensor_from_jagged(VALUES, OFFSETS, tocha.tensor([1]))
