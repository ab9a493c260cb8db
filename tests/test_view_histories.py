"""Views and in-place writes: histories that are redone after a write to the base, writes that go back to it, and what
views say of themselves in each mode."""

from __future__ import annotations

import pytest

import tocha
from tocha.autograd import forward_ad, gradcheck, gradgradcheck

COMPLEX_VIEWS = {
    "real": lambda y: y.real,
    "imag": lambda y: y.imag,
    "as_real": lambda y: tocha.view_as_real(y),
    "part of pairs": lambda y: tocha.view_as_real(y)[:, 1:, 0],
    "conj": lambda y: y.conj(),
    "row of conj": lambda y: y.conj()[1],
    "mH": lambda y: y.mH,
    "neg": lambda y: tocha._neg_view(y),
    "imag of conj": lambda y: y.conj().imag,
    "there and back": lambda y: tocha.view_as_complex(tocha.view_as_real(y)),
    "column": lambda y: y[:, 1],
}
REAL_VIEWS = {
    "as_complex": lambda y: tocha.view_as_complex(y.view(3, 2)),
    "conj of as_complex": lambda y: tocha.view_as_complex(y.view(3, 2)).conj(),
    "neg": lambda y: tocha._neg_view(y)[1],
    "transposed": lambda y: y.t()[:2],
    "diagonal": lambda y: y.diagonal(),
}
VIEWS = [*((v, True) for v in COMPLEX_VIEWS.values()), *((v, False) for v in REAL_VIEWS.values())]
NAMES = [*COMPLEX_VIEWS, *(f"{n} of real" for n in REAL_VIEWS)]


def start(is_complex):
    tocha.manual_seed(0)
    dtype = tocha.complex128 if is_complex else tocha.float64
    return tocha.randn(2, 3, dtype=dtype, requires_grad=True)


def plain(t):
    """In the form that gradcheck compares."""
    return t.resolve_conj().resolve_neg()


def check_derivatives(f, x):
    assert gradcheck(f, (x,), check_forward_ad=True)
    assert gradgradcheck(f, (x,))


@pytest.mark.parametrize(("view", "is_complex"), VIEWS, ids=NAMES)
def test_a_view_follows_a_write_to_its_base(view, is_complex):
    def f(x):
        y = x * 1
        v = view(y)
        y.mul_(2.5)
        return plain(v).sin()

    check_derivatives(f, start(is_complex))


@pytest.mark.parametrize(("view", "is_complex"), VIEWS, ids=NAMES)
def test_a_write_to_a_view_goes_to_its_base_and_its_other_views(view, is_complex):
    def f(x):
        y = x * 1
        other = y[:, :2]
        view(y).mul_(2).add_(1)
        return plain(y).sin(), plain(other).exp()

    check_derivatives(f, start(is_complex))


@pytest.mark.parametrize(("view", "is_complex"), VIEWS, ids=NAMES)
def test_a_write_that_is_not_linear(view, is_complex):
    def f(x):
        y = x * 1
        view(y).exp_()
        return plain(y)

    assert gradcheck(f, (start(is_complex),), check_forward_ad=True)


@pytest.mark.parametrize(("view", "is_complex"), VIEWS, ids=NAMES)
def test_values_copied_into_a_view_get_its_gradient(view, is_complex):
    def f(x):
        y = tocha.zeros_like(x)
        v = view(y)
        v.copy_(view(x * x))
        return plain(y) * 3

    check_derivatives(f, start(is_complex))


RESHAPES = {
    "t_": lambda v: v.t_(),
    "transpose_": lambda v: v.transpose_(0, 1),
    "swapaxes_": lambda v: v.swapaxes_(0, 1),
    "swapdims_": lambda v: v.swapdims_(-1, 0),
    "unsqueeze_": lambda v: v.unsqueeze_(1),
    "squeeze_": lambda v: v.squeeze_(),
    "squeeze_(0)": lambda v: v.squeeze_(0),
    "as_strided_": lambda v: v.as_strided_((2, v.shape[0]), (1, v.stride(0))),
}


@pytest.mark.parametrize("reshape", RESHAPES.values(), ids=RESHAPES)
@pytest.mark.parametrize("part", [lambda y: y[:, 1:], lambda y: y[1:], lambda y: y], ids=["columns", "row", "whole"])
def test_another_geometry_in_place_writes_nothing(reshape, part):
    def f(x):
        y = x * 1
        v = part(y)
        reshape(v)
        before = v * tocha.arange(1.0, v.numel() + 1, dtype=x.dtype).view(v.shape)
        v.mul_(3)
        return before.sin(), v.sin(), y.exp()

    check_derivatives(f, start(False))
    y = start(False) * 1
    v = y[:, 1:]
    history = y.grad_fn
    v.t_()
    assert y.grad_fn is history
    assert type(v.grad_fn).__name__ == "TBackward1"
    assert v._version == y._version == 1


def test_redone_histories_go_by_pytorchs_names():
    y = start(True) * 1
    views = [y.real, tocha.view_as_real(y), y.conj(), y.conj()[0], y.mH, tocha._neg_view(y), y[0]]
    assert type(views[0].grad_fn).__name__ == "SelectBackward0"
    y.mul_(2)
    names = [type(v.grad_fn).__name__.removesuffix("Backward0") for v in views]
    assert names == ["AsStrided", "ViewAsReal", "Conj", "AsStrided", "Conj", "NegView", "AsStrided"]


def test_parts_of_complex_numbers_are_assigned():
    z = tocha.zeros(3, dtype=tocha.complex64)
    z.real = tocha.arange(3.0)
    z.imag = 2
    assert z.tolist() == [0 + 2j, 1 + 2j, 2 + 2j]
    z.conj().imag = tocha.ones(1)
    assert z.tolist() == [0 - 1j, 1 - 1j, 2 - 1j]
    x = tocha.zeros(2)
    x.real = 3.0
    assert x.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        x.imag = 1.0
    with pytest.raises(TypeError, match="can't assign a str"):
        z.real = "one"
    with pytest.raises(TypeError):
        del z.real

    def f(x, part):
        y = x * 1
        y.real = part
        return y

    assert gradcheck(f, (start(True), start(False)), check_forward_ad=True)


def test_views_made_without_recording_say_what_their_base_says():
    x = tocha.ones(4, requires_grad=True)
    with tocha.no_grad():
        v = x[:2]
    assert v.requires_grad and v.is_leaf and v.grad_fn is None and v._base is x
    result = v * 2
    assert result.requires_grad and result.grad_fn.next_functions == ((None, 0), (None, 0))
    result.sum().backward()
    assert v.grad is None and x.grad is None
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace"):
        v.mul_(2)
    with tocha.no_grad():
        v.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace with grad"):
        v.grad_fn  # noqa: B018
    assert not x.detach()[:1].requires_grad


def test_refusals_name_the_function_and_how_the_view_came_about():
    y = tocha.ones(4, requires_grad=True) * 1
    for make, message in {
        lambda: y.split(2)[1]: "Output 1 of Split is a view and is being modified inplace. This view is the output of",
        lambda: y.unbind()[2]: "Output 2 of Unbind is a view and is being modified",
        lambda: y.chunk(2)[0][
            :1
        ]: "Output 0 of Slice is a view and is being modified inplace. This view is the output of",
    }.items():
        with pytest.raises(RuntimeError, match=message):
            make().mul_(2)
    with tocha.no_grad():
        hidden = y[:2]
    with pytest.raises(RuntimeError, match="Output 0 of Slice is a view of a view which was created in no_grad mode"):
        hidden[:1].mul_(2)
    with tocha.inference_mode():
        hidden = y[:2]
    with pytest.raises(RuntimeError, match="created in inference mode and is being modified inplace in normal mode"):
        hidden.mul_(2)


@pytest.mark.parametrize("split", ["tensor_split", "hsplit"])
def test_parts_that_are_slices_can_be_written_to(split):
    x = tocha.arange(4.0, requires_grad=True)
    y = x * 1
    first, second = getattr(y, split)(2)
    first.mul_(3)
    second.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 0, 0]


def test_inference_tensors_have_no_views():
    with tocha.inference_mode():
        t = tocha.ones(4)
        assert not t[:2]._is_view()
    v = t[:2]
    assert v.is_inference() and not v._is_view() and v._base is None
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        v.mul_(2)


def test_integers_never_require_grad():
    source = tocha.ones(3, requires_grad=True)
    for target in (tocha.zeros(3, dtype=tocha.int64), tocha.zeros(2, 3, dtype=tocha.bool)[0]):
        assert not target.copy_(source).requires_grad
        assert target.is_leaf


def test_requires_grad_of_results():
    y = tocha.ones(2, requires_grad=True) * 2
    assert y.requires_grad_().requires_grad
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = True


def test_tangents_of_views_and_bases_follow_writes():
    with forward_ad.dual_level():
        y = forward_ad.make_dual(tocha.ones(4), tocha.arange(4.0)) * 1
        v, other = y[:2], y[1:]
        v.mul_(3)
        assert forward_ad.unpack_dual(y).tangent.tolist() == [0, 3, 2, 3]
        assert forward_ad.unpack_dual(other).tangent.tolist() == [3, 2, 3]
        y.mul_(2)
        assert forward_ad.unpack_dual(v).tangent.tolist() == [0, 6]
        plain = tocha.zeros(4)
        part = plain[2:]
        part.copy_(forward_ad.make_dual(tocha.ones(2), tocha.tensor([5.0, 6.0])))
        assert forward_ad.unpack_dual(plain).tangent.tolist() == [0, 0, 5, 6]
