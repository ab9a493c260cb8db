"""Fake tensors: the mode, fakes of real tensors, constants, data that is not there, autograd, symbols, modules without memory."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import pytest

import tocha
from tocha import nn
from tocha._guards import active_fake_mode, detect_fake_mode
from tocha._subclasses import FakeTensor, FakeTensorMode
from tocha._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    UnsupportedFakeTensorException,
    is_fake,
    maybe_get_fake_mode,
    unset_fake_temporarily,
)
from tocha.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from tocha.utils._python_dispatch import TorchDispatchMode
from tocha.utils.checkpoint import checkpoint


@pytest.fixture
def mode():
    return FakeTensorMode()


@pytest.fixture
def symbolic():
    return FakeTensorMode(shape_env=ShapeEnv())


# ---- the mode ------------------------------------------------------------------------------------


def test_what_is_made_inside_is_fake(mode):
    with mode:
        made = [
            tocha.empty(2),
            tocha.zeros(2),
            tocha.rand(2),
            tocha.arange(3),
            tocha.tensor([1, 2]),
            tocha.Tensor(2, 3),
        ]
        assert all(type(t) is FakeTensor and t.fake_mode is mode for t in made)
    assert type(tocha.empty(2)) is tocha.Tensor


def test_nested_modes_and_leaving_them():
    outer, inner = FakeTensorMode(), FakeTensorMode()
    with outer:
        with inner:
            assert tocha.ones(1).fake_mode is inner
        assert tocha.ones(1).fake_mode is outer
        with unset_fake_temporarily() as before:
            assert before is outer
            assert type(tocha.ones(1)) is tocha.Tensor
        with outer:
            assert active_fake_mode() is outer
        assert tocha.ones(1).fake_mode is outer
    assert active_fake_mode() is None


def test_a_mode_belongs_to_its_thread(mode):
    found = []
    with mode:
        thread = threading.Thread(target=lambda: found.append(type(tocha.ones(1))))
        thread.start()
        thread.join()
    assert found == [tocha.Tensor]


def test_a_mode_ends_with_an_exception(mode):
    with pytest.raises(ZeroDivisionError), mode:
        _ = 1 / 0
    assert type(tocha.ones(1)) is tocha.Tensor


def test_outside_the_mode_fakes_stay_fake(mode):
    x = mode.from_tensor(tocha.ones(2, 3))
    assert type(x @ x.t()) is FakeTensor
    assert type(tocha.nn.functional.softmax(x, -1)) is FakeTensor
    assert type(x[0]) is FakeTensor


def test_real_operands_are_refused_unless_allowed(mode):
    x = mode.from_tensor(tocha.ones(2))
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        x + tocha.ones(2)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        tocha.ones(2).add_(x)
    free = FakeTensorMode(allow_non_fake_inputs=True)
    assert type(free.from_tensor(tocha.ones(2)) + tocha.ones(2)) is FakeTensor


def test_modes_are_not_mixed(mode):
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        mode.from_tensor(tocha.ones(2)) + FakeTensorMode().from_tensor(tocha.ones(2))


def test_no_memory_is_used(mode):
    with mode:
        huge = tocha.empty(1 << 20, 1 << 20)
        assert (huge @ huge.t()).sum().shape == ()
        assert huge.untyped_storage().nbytes() == 4 << 40


def test_any_device_can_be_named(mode):
    with mode:
        x = tocha.ones(2, device="cuda")
        assert str(x.device) == "cuda:0"
        assert str((x + 1).device) == "cuda:0"
        assert str((x + tocha.tensor(1.0)).device) == "cuda:0"
        assert x.cpu().device.type == "cpu"
        with pytest.raises(RuntimeError, match="same device"):
            x + tocha.ones(2)


# ---- fakes of real tensors -----------------------------------------------------------------------


def test_a_tensor_has_one_fake(mode):
    x = tocha.ones(2, 3)
    assert mode.from_tensor(x) is mode.from_tensor(x)
    assert mode.from_tensor(x) is not FakeTensorMode().from_tensor(x)


def test_fakes_do_not_keep_their_tensors_alive(mode):
    x = tocha.ones(2, 3)
    mode.from_tensor(x)
    assert len(mode.fake_tensor_converter._fakes) == 1
    del x
    gc.collect()
    assert not mode.fake_tensor_converter._fakes
    assert not mode.fake_tensor_converter._memories


def test_views_share_what_their_tensors_share(mode):
    x = tocha.ones(4, 3)
    view = mode.from_tensor(x[1:])
    whole = mode.from_tensor(x)
    assert view._base is whole
    assert view.untyped_storage()._cdata == whole.untyped_storage()._cdata
    assert view.storage_offset() == 3
    view.add_(1)
    assert whole._version == 1


def test_parameters_stay_parameters(mode):
    p = mode.from_tensor(nn.Parameter(tocha.ones(2)))
    assert isinstance(p, nn.Parameter)
    assert p.is_leaf
    assert repr(p) == "Parameter(FakeTensor(..., size=(2,), requires_grad=True))"


def test_what_autograd_knows_is_kept(mode):
    leaf = tocha.ones(2, requires_grad=True)
    leaf.sum().backward()
    fake = mode.from_tensor(leaf)
    assert fake.requires_grad
    assert fake.is_leaf
    assert fake.grad.shape == (2,)
    inner = mode.from_tensor(leaf * 2)
    assert not inner.is_leaf


def test_layouts_without_a_fake_form(mode):
    with pytest.raises(UnsupportedFakeTensorException):
        mode.from_tensor(tocha.ones(2, 2).to_sparse())


def test_who_is_fake(mode):
    x = mode.from_tensor(tocha.ones(2))
    assert is_fake(x)
    assert maybe_get_fake_mode(x) is mode
    assert maybe_get_fake_mode(3) is None
    assert detect_fake_mode([1, {"a": x}]) is mode
    assert detect_fake_mode([1]) is None
    with pytest.raises(AssertionError, match="doesn't match mode"):
        detect_fake_mode([x, FakeTensorMode().from_tensor(tocha.ones(1))])


def test_copying_under_the_copy_mode(mode):
    layer = nn.Linear(2, 3)
    with FakeCopyMode(mode):
        copied = copy.deepcopy(layer)
    assert type(copied.weight) is FakeTensor


def test_printing(mode):
    with mode:
        assert repr(tocha.ones(2, 3)) == "FakeTensor(..., size=(2, 3))"
        assert str(tocha.ones(2, dtype=tocha.int64)) == "FakeTensor(..., size=(2,), dtype=tocha.int64)"
        assert f"{tocha.ones((), device='cuda:1')}" == "FakeTensor(..., device='cuda:1', size=())"
        x = tocha.ones(2, requires_grad=True)
        assert repr(x) == "FakeTensor(..., size=(2,), requires_grad=True)"
        assert repr(x * 2) == "FakeTensor(..., size=(2,), grad_fn=<MulBackward0>)"


def test_copies_and_pickles(mode):
    with mode:
        x = tocha.ones(2, 3, requires_grad=True)
    twin = copy.deepcopy(x)
    assert type(twin) is FakeTensor
    assert twin.requires_grad
    assert twin.untyped_storage()._cdata != x.untyped_storage()._cdata
    with pytest.raises(AttributeError):
        pickle.dumps(x)


# ---- elements ------------------------------------------------------------------------------------

READS = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool(x.sum()),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "index": lambda x: range(x.sum().long()),
    "contains": lambda x: 3 in x,
    "equal": lambda x: tocha.equal(x, x),
    "allclose": lambda x: tocha.allclose(x, x),
    "number argument": lambda x: x.view(x.sum().long()),
}
SHAPES = {
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "bincount": lambda x: tocha.bincount(x.long().flatten()),
    "repeat_interleave": lambda x: tocha.repeat_interleave(x.flatten(), x.flatten().long()),
}


@pytest.mark.parametrize("name", READS)
def test_elements_are_not_there(mode, name):
    with pytest.raises(DataDependentOutputException):
        READS[name](mode.from_tensor(tocha.ones(2, 3)))


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_depend_on_elements(mode, symbolic, name):
    with pytest.raises(DynamicOutputShapeException):
        SHAPES[name](mode.from_tensor(tocha.ones(2, 3)))
    found = SHAPES[name](symbolic.from_tensor(tocha.ones(2, 3)))
    assert symbolic.shape_env.unbacked
    assert any(isinstance(n, tocha.SymInt) for n in found.shape)


def test_the_same_mask_gives_the_same_size(symbolic):
    x, y = symbolic.from_tensor(tocha.rand(5)), symbolic.from_tensor(tocha.rand(5))
    mask = x > 0
    assert (x[mask] + y[mask]).shape == x[mask].shape
    assert len(symbolic.shape_env.unbacked) == 1
    mask.logical_not_()
    x[mask]
    assert len(symbolic.shape_env.unbacked) == 2


def test_numbers_that_nobody_knows(symbolic):
    x = symbolic.from_tensor(tocha.ones(2, 3))
    total = x.sum()
    assert isinstance(total.item(), tocha.SymFloat)
    assert total.item() is total.item()
    assert isinstance(x.long().sum().item(), tocha.SymInt)
    with pytest.raises(GuardOnDataDependentSymNode):
        bool(total > 0)
    n = x.long().sum().item()
    tocha._check_is_size(n)
    with symbolic:
        assert tocha.empty(n, 3).shape[0] is not None


def test_arrays_are_refused(mode):
    x = mode.from_tensor(tocha.ones(2))
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.numpy()
    assert x.data_ptr() == 0


def test_constants(mode):
    with mode:
        three = tocha.tensor(3)
        assert three.item() == 3
        assert (three * 2 + 1).item() == 7
        assert int(three) == 3
        assert bool(three > 2)
        assert tocha.tensor([5])[0].item() == 5
        x = tocha.ones(4)
        assert x[three].shape == ()
        assert three.cuda().item() == 3
        with pytest.raises(DataDependentOutputException):
            tocha.tensor([1, 2]).sum().item()
        with pytest.raises(DataDependentOutputException):
            tocha.zeros(()).item()


def test_constants_and_writes(mode):
    with mode:
        a = tocha.tensor(2.0)
        view = a.view(1)
        view.add_(1)
        assert a.item() == 3.0
        a.mul_(tocha.rand(()))
        with pytest.raises(DataDependentOutputException):
            a.item()


# ---- autograd ------------------------------------------------------------------------------------


def test_backward_hooks_and_retained_gradients(mode):
    x = mode.from_tensor(tocha.ones(2, 3, requires_grad=True))
    seen = []
    y = x.exp() * 2
    y.register_hook(lambda g: seen.append(tuple(g.shape)))
    y.retain_grad()
    (y.sum() + x.sin().sum()).backward()
    assert seen == [(2, 3)]
    assert type(y.grad) is FakeTensor
    assert type(x.grad) is FakeTensor
    x.sum().backward()
    assert x.grad.shape == (2, 3)


def test_second_derivatives(mode):
    x = mode.from_tensor(tocha.ones(3, requires_grad=True))
    (first,) = tocha.autograd.grad((x**3).sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = tocha.autograd.grad(first.sum(), x)
    assert second.shape == (3,)


def test_writes_to_views_are_recorded(mode):
    x = mode.from_tensor(tocha.ones(4, 3, requires_grad=True))
    y = x * 1
    y[1:3].mul_(2)
    assert y.grad_fn.name() == "CopySlices"
    row = mode.from_tensor(tocha.ones(3, requires_grad=True))
    y[0] = row
    for g, t in zip(tocha.autograd.grad(y.sum(), [x, row]), (x, row), strict=True):
        assert g.shape == t.shape


def test_writes_that_autograd_forbids(mode):
    x = mode.from_tensor(tocha.ones(2, 3, requires_grad=True))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    part = (x * 2).unbind()[0]
    with pytest.raises(RuntimeError, match="returns multiple views"):
        part.add_(1)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tocha.sin(x, out=mode.from_tensor(tocha.ones(2, 3)))


def test_functions_written_in_python(mode):
    class Double(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * 2 + 0 * a

    x = mode.from_tensor(tocha.ones(2, 3, requires_grad=True))
    assert tocha.autograd.grad(Double.apply(x).sum(), x)[0].shape == (2, 3)
    assert tocha.autograd.grad(checkpoint(lambda t: t.sin(), x, use_reentrant=False).sum(), x)[0].shape == (2, 3)


def test_mixed_precision(mode):
    x = mode.from_tensor(tocha.ones(2, 3))
    with tocha.autocast("cpu", dtype=tocha.bfloat16):
        assert (x @ x.t()).dtype is tocha.bfloat16
        assert tocha.nn.functional.mse_loss(x.bfloat16(), x.bfloat16()).dtype is tocha.float32
    assert (x @ x.t()).dtype is tocha.float32


def test_grad_modes(mode):
    x = mode.from_tensor(tocha.ones(2, requires_grad=True))
    with tocha.no_grad():
        assert not (x * 2).requires_grad
    with tocha.inference_mode():
        assert (x * 2).is_inference()
    assert x.detach().untyped_storage()._cdata == x.untyped_storage()._cdata


# ---- symbols -------------------------------------------------------------------------------------


def test_sizes_are_symbols(symbolic):
    x = symbolic.from_tensor(tocha.ones(4, 5, 3))
    assert isinstance(x.shape, tocha.Size)
    assert all(isinstance(n, tocha.SymInt) for n in x.shape)
    assert str(x.stride()) == "(s1*s2, s2, 1)"
    assert str(x.numel()) == "s0*s1*s2"
    assert str(x.untyped_storage().nbytes()) == "4*s0*s1*s2"
    assert str(x[1:].shape[0]) == "s0 - 1"
    assert str(x.view(-1, x.shape[2]).shape[0]) == "s0*s1"
    assert x.is_contiguous()
    assert not symbolic.shape_env.guards


def test_native_code_never_sees_a_hint(symbolic):
    x = symbolic.from_tensor(tocha.ones(4, 5))
    with pytest.raises(RuntimeError, match="symbolic sizes/strides"):
        x.data_ptr()
    assert not symbolic.shape_env.guards


def test_plain_numbers_are_guards(symbolic):
    x = symbolic.from_tensor(tocha.ones(4, 5))
    assert len(x) == 4
    assert len(list(x)) == 4
    (guard,) = symbolic.shape_env.guards
    assert str(guard) == "s0 == 4"
    assert guard.place.file == __file__


def test_policies(symbolic):
    x = tocha.ones(4, 4)
    wishes = StatelessSymbolicContext([DimDynamic.STATIC, DimDynamic.DYNAMIC])
    found = symbolic.from_tensor(x, symbolic_context=wishes)
    assert type(found.shape[0]) is int
    assert isinstance(found.shape[1], tocha.SymInt)
    assert type(symbolic.from_tensor(tocha.ones(7), static_shapes=True).shape[0]) is int
    assert type(symbolic.from_tensor(tocha.ones(1, 0)).shape[0]) is int


def test_symbols_as_arguments(symbolic):
    x = symbolic.from_tensor(tocha.ones(4, 5))
    n, m = x.shape
    with symbolic:
        assert str(tocha.zeros(n * 2, m).shape) == "tocha.Size([2*s0, s1])"
    assert str((x * n + m / 2).shape[0]) == "s0"
    assert str(x[: n // 2].shape[0]) == "(s0//2)"
    assert str(x.expand(n, n, m).shape[0]) == "s0"
    assert (tocha.ones(3) * n).tolist() == [4.0, 4.0, 4.0]  # outside, on real tensors: a guard
    assert str(symbolic.shape_env.guards[-1]) == "s0 == 4"


def test_gradients_of_symbolic_tensors(symbolic):
    x = symbolic.from_tensor(tocha.ones(4, 5, requires_grad=True))
    y = tocha.nn.functional.layer_norm(x, x.shape[-1:]).softmax(-1)
    (y.sum() + (x * x.shape[0]).mean()).backward()
    assert str(x.grad.shape) == "tocha.Size([s0, s1])"


# ---- modules -------------------------------------------------------------------------------------


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(128, 5)
    )


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax"])
def test_a_network_without_memory(mode, optimizer):
    with mode:
        model = network()
        steps = getattr(tocha.optim, optimizer)(model.parameters(), lr=0.1)
        loss = nn.functional.cross_entropy(model(tocha.rand(2, 3, 10, 10)), tocha.zeros(2, dtype=tocha.int64))
        loss.backward()
        steps.step()
        steps.zero_grad()
    assert all(type(p) is FakeTensor and isinstance(p, nn.Parameter) for p in model.parameters())


def test_modules_are_moved_copied_and_loaded(mode):
    with mode:
        model = network()
        twin = copy.deepcopy(model)
        twin.load_state_dict(model.state_dict())
        model.half().to("cuda")
        model.eval()
        out = model(tocha.rand(2, 3, 10, 10, device="cuda", dtype=tocha.float16))
    assert str(out.device) == "cuda:0"
    assert out.dtype is tocha.float16
    assert twin[0].weight.dtype is tocha.float32


@pytest.mark.parametrize(
    "init", ["kaiming_uniform_", "xavier_normal_", "orthogonal_", "trunc_normal_", "dirac_", "eye_", "zeros_"]
)
def test_initialisation(mode, init):
    with mode:
        sizes = (4, 3, 3) if init == "dirac_" else (4, 3)
        assert getattr(nn.init, init)(tocha.empty(sizes)).shape == sizes


def test_layers_of_other_kinds(mode):
    with mode:
        encoder = nn.TransformerEncoderLayer(8, 2, batch_first=True)
        assert encoder(tocha.rand(2, 5, 8)).shape == (2, 5, 8)
        out, _ = nn.LSTM(3, 4, 2)(tocha.rand(5, 2, 3))
        assert out.shape == (5, 2, 4)
        assert nn.Embedding(10, 3)(tocha.arange(4)).shape == (4, 3)


# ---- indexing ------------------------------------------------------------------------------------

INDICES = [
    0, -1, slice(1, None), slice(None, None, 2), None, Ellipsis, (0, 1), (..., 0), (None, 0), (slice(None), None), True, False,
    [0, 1], ([0, 1], [1, 0]), (slice(None), [0, 2]), ([0, 1], slice(None), [1, 0]), (0, ..., [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing(mode, symbolic, index):
    x = tocha.rand(3, 4, 5)
    real = x[index]
    fake = mode.from_tensor(x)[index]
    assert fake.shape == real.shape
    assert fake.stride() == real.stride()
    assert fake._is_view() == real._is_view()
    found = symbolic.from_tensor(x)[index]
    assert [symbolic.shape_env.size_hint(n) for n in found.shape] == list(real.shape)
    target = mode.from_tensor(tocha.rand(3, 4, 5))
    for written, value in ((x, tocha.rand(real.shape)), (target, mode.from_tensor(tocha.rand(real.shape)))):
        written[index] = 1.5
        written[index] = value
    assert target._version == x._version == (0 if index is False else 2)


@pytest.mark.parametrize("index", [3, (0, 4), (0, 0, 0, 0), "a", 1.5, slice(None, None, -1)], ids=repr)
def test_bad_indices(mode, index):
    x = tocha.rand(3, 4, 5)
    with pytest.raises((IndexError, TypeError, ValueError)) as real:
        x[index]
    with pytest.raises(real.type):
        mode.from_tensor(x)[index]


# ---- dispatch ------------------------------------------------------------------------------------


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_dispatch_modes_see_operators_on_fakes(mode):
    x = mode.from_tensor(tocha.ones(2, 3, requires_grad=True))
    with Names() as names:
        y = tocha.nn.functional.linear(x, x).sin().sum()
        y.backward()
    assert names.seen[:4] == ["aten.t.default", "aten.mm.default", "aten.sin.default", "aten.sum.default"]
    assert "aten.cos.default" in names.seen
    assert type(x.grad) is FakeTensor
    with mode, Names() as names:
        tocha.ones(2).add_(1)
    assert names.seen == ["aten.ones.default", "aten.add_.Tensor"]
    assert isinstance(mode, TorchDispatchMode)


# ---- what is kept for backward -------------------------------------------------------------------


def test_a_value_that_backward_needs_is_not_written_over():
    with FakeTensorMode():
        x = tocha.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            y.sum().backward()
        z = x.exp() * 2
        z.add_(1)
        z.sum().backward()
        assert x.grad.shape == (3,)


def test_in_place_results_may_be_kept():
    with FakeTensorMode():
        x = tocha.ones(3, requires_grad=True)
        z = x.sin()
        z.mul_(2)
        z.view(3).exp_()
        assert z._version == 2
        z.sum().backward()
        assert x.grad.shape == (3,)


def test_backward_runs_once():
    with FakeTensorMode():
        y = tocha.ones(3, requires_grad=True).exp()
        y.sum().backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            y.sum().backward()


def test_saved_tensors_hooks_see_fakes():
    seen = []

    def unpack(t):
        seen.append("unpacked")
        return t

    with FakeTensorMode(), tocha.autograd.graph.saved_tensors_hooks(lambda t: seen.append(type(t)) or t, unpack):
        x = tocha.ones(3, requires_grad=True)
        (x.exp() * x).sum().backward()
    assert seen == [FakeTensor] * 3 + ["unpacked"] * 3


def test_gradients_that_did_not_come_are_fake_zeros():
    class Two(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert isinstance(b, FakeTensor)
            return a * 2 + b

    with FakeTensorMode():
        x = tocha.ones(3, requires_grad=True)
        y, _ = Two.apply(x)
        y.sum().backward()
        assert isinstance(x.grad, FakeTensor)


def test_a_computed_tensor_with_gaps_keeps_its_strides():
    whole = (tocha.ones(5, 4, requires_grad=True) * 2).detach().requires_grad_()
    gaps = tocha.compile(lambda x: (x * 2).chunk(2, -1)[1], backend="inductor")(whole)
    assert gaps._base is None and not gaps.is_leaf and gaps.stride() == (4, 1)
    fake = FakeTensorMode().from_tensor(gaps)
    assert fake.stride() == (4, 1) and not fake.is_leaf and fake.storage_offset() == gaps.storage_offset()
