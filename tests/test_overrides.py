"""Subclasses and modes take over whatever is asked of a tensor (tests/parity holds the details against PyTorch)."""

from __future__ import annotations

import pytest

import tocha


class Log(tocha.overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Seven(tocha.Tensor):
    """Answers every question about itself with 7."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 7


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "real", "imag", "grad", "data", "shape", "is_mps", "volatile"])
def test_properties_are_handed_over_as_their_getters(name):
    x = tocha.ones(2, 2, dtype=tocha.complex64)
    with Log() as log:
        assert getattr(x, name) is getattr(x, name) or getattr(x, name) is not None
    assert log.names[0] == "__get__"


def test_everything_asks_a_subclass():
    x = tocha.ones(2, 3).as_subclass(Seven)
    assert (len(x), x.size(), x.size(0), x.stride(), x.dim(), x.numel(), x.is_contiguous(), x.T, x.shape) == (7,) * 9
    assert (x.requires_grad_(), x.retain_grad(), x.numpy(), x.new_tensor([1]), x.type()) == (7,) * 5
    assert (int(x), 3 in x, bool(x), 1 - x, x - 1, 2 / x, ~x) == (7, True, True, 7, 7, 7, 7)
    with pytest.raises(TypeError):
        float(x)  # 7 is no float


def test_reflected_operators_can_be_called_by_who_takes_them_over():
    x = tocha.tensor([1.0, 2.0])
    with Log() as log:
        results = [1 + x, 1 - x, 2 / x, 2**x, 5 % x, 5 // x]
    assert log.names == ["add", "__rsub__", "__rdiv__", "__rpow__", "__rmod__", "__rfloordiv__"]
    assert [r.tolist() for r in results] == [[2, 3], [0, -1], [2, 1], [2, 4], [0, 1], [5, 2]]


def test_an_answer_of_the_wrong_type_is_an_error():
    class Wrong(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "no number"

    with pytest.raises(TypeError):
        len(tocha.ones(2).as_subclass(Wrong))

    class Negative(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return -1

    with pytest.raises(ValueError, match="should return >= 0"):
        len(tocha.ones(2).as_subclass(Negative))
    with pytest.raises(OverflowError):
        len(
            tocha.ones(2).as_subclass(type("Great", (Negative,), {"__torch_function__": classmethod(lambda *a: 2**70)}))
        )


def test_errors_of_an_override_come_through():
    class Broken(tocha.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    x = tocha.ones(2).as_subclass(Broken)
    for call in (
        len,
        bool,
        list,
        lambda x: x.T,
        lambda x: x.size(),
        lambda x: setattr(x, "grad", None),
        lambda x: 1 in x,
    ):
        with pytest.raises(KeyError):
            call(x)


def test_wrong_arguments_of_small_methods():
    x = tocha.ones(2, 2)
    for call in (lambda: x.size(0, 1), lambda: x.stride(d=0), lambda: x.requires_grad_(True, False)):
        with pytest.raises(TypeError):
            call()


def test_conversions_of_several_elements():
    for convert in (int, float, complex):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            convert(tocha.ones(2))
    with pytest.raises(TypeError, match="only implemented on integer and Boolean"):
        ~tocha.ones(2)


class Own(tocha.Tensor):
    pass


def test_gradients_pass_through_subclasses():
    plain = tocha.tensor([1.0, 2.0], requires_grad=True)
    own = plain.as_subclass(Own)
    assert own.grad_fn.name() == "AliasBackward0" and own._base is plain and not own.is_leaf
    loss = (own * own).sum()
    assert type(loss) is Own
    loss.backward()
    assert plain.grad.tolist() == [2, 4]
    leaf = tocha.ones(2).as_subclass(Own).requires_grad_()
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


def test_subclasses_share_memory_and_history_when_written_to():
    a = tocha.ones(2, requires_grad=True)
    b = a * 1
    own = b.as_subclass(Own)
    own.mul_(2)
    assert b.tolist() == [2, 2]
    b.sum().backward()
    assert a.grad.tolist() == [2, 2]


def test_tangents_pass_through_subclasses():
    with tocha.autograd.forward_ad.dual_level():
        dual = tocha.autograd.forward_ad.make_dual(tocha.ones(2), tocha.full((2,), 3.0))
        _, tangent = tocha.autograd.forward_ad.unpack_dual(dual.as_subclass(Own) * 2)
        assert tangent.tolist() == [6, 6]


def test_nobody_answers():
    class Silent:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class SilentMode(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    said = "Multiple dispatch failed for 'tocha.mul'; all __torch_function__ handlers returned NotImplemented:"
    with pytest.raises(TypeError, match=said + r"\n\n  - tensor subclass <class .*Silent'>\n"):
        tocha.mul(Silent(), 2)
    with pytest.raises(TypeError, match=r"no implementation found for 'tocha\.nn\.functional\.linear' on types"):
        tocha.nn.functional.linear(Silent(), Silent())
    with SilentMode(), pytest.raises(TypeError, match=r"for 'tocha.ones'; .*\n\n  - mode object <"):
        tocha.ones(2)
