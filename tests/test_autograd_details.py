"""The finer points of autograd, as PyTorch has them: node names, what nodes keep, inference mode, anomaly reports,
dual levels, threads, and garbage that goes through the graph."""

import gc
import threading
import warnings
import weakref

import pytest

import tocha
import tocha.nn.functional as F
from tocha import autograd
from tocha.autograd import forward_ad


@pytest.fixture
def x():
    return tocha.rand(3, 4, requires_grad=True)


def name(t):
    return t.grad_fn.name()


# -- node names ------------------------------------------------------------------------------------

NAMES = {
    "x.log1p()": "Log1PBackward0",
    "x.deg2rad()": "Deg2RadBackward0",
    "tocha.special.i0e(x)": "SpecialI0EBackward0",
    "x.var()": "VarBackward0",
    "x.std(0)": "StdBackward0",
    "tocha.std_mean(x)[1]": "StdMeanBackward0",
    "x.trace()": "TraceBackward0",
    "x.dist(x + 1)": "DistBackward0",
    "x.renorm(2, 0, 1.0)": "RenormBackward0",
    "x.square()": "PowBackward0",
    "x ** 2": "PowBackward0",
    "x ** x": "PowBackward1",
    "2 ** x": "PowBackward2",
    "1 - x": "RsubBackward1",
    "x - 1": "SubBackward0",
    "x.copysign(1)": "CopysignBackward1",
    "tocha.xlogy(2, x)": "XlogyBackward1",
    "x.tensor_split(2)[0]": "SliceBackward0",
    "x % 2": "RemainderBackward0",
    "x % x": "RemainderBackward1",
    "x.clamp(0, 1)": "ClampBackward1",
    "x.clamp(min=x)": "ClampBackward0",
    "x.clamp_min(0)": "ClampMinBackward0",
    "x.lerp(x, x)": "LerpBackward1",
    "x.masked_fill(x > 0, 1)": "MaskedFillBackward0",
    "x.masked_fill(x > 0, tocha.tensor(1.0))": "MaskedFillBackward1",
    "x.nan_to_num()": "NanToNumBackward0",
    "x.max()": "MaxBackward1",
    "x.nansum(0)": "NansumBackward0",
    "x.sort()[0]": "SortBackward0",
    "x.sort(stable=True)[0]": "SortBackward1",
    "x.squeeze(0)": "SqueezeBackward1",
    "x.squeeze((0, 1))": "SqueezeBackward2",
    "x.narrow(0, 0, 1)": "SliceBackward0",
    "x.split([1, 2])[0]": "SplitWithSizesBackward0",
    "x.T": "PermuteBackward0",
    "x.mT": "TransposeBackward0",
    "x.swapaxes(0, 1)": "TransposeBackward0",
    "x.diag()": "DiagonalBackward0_copy",
    "x[0].diag()": "DiagEmbedBackward0",
    "tocha.expand_copy(x, (3, 4))": "ExpandBackward0_copy",
    "x[0] @ x[0]": "DotBackward0",
    "x @ x[0]": "MvBackward0",
    "x @ x.t()": "MmBackward0",
    "x.expand(2, 3, 4) @ x.t()": "UnsafeViewBackward0",
    "F.linear(x, x)": "MmBackward0",
    "F.linear(x, x, x[:, 0])": "AddmmBackward0",
    "F.linear(x.expand(2, 3, 4), x, x[:, 0])": "ViewBackward0",
    "F.pad(x, (1, 1), 'reflect')": "ReflectionPad1DBackward0",
    "F.pad(x[None], (1, 1, 0, 1), 'replicate')": "ReplicationPad2DBackward0",
    "F.mse_loss(x, x.detach())": "MseLossBackward0",
    "F.smooth_l1_loss(x, x.detach(), reduction='none')": "SmoothL1LossBackward0",
    "F.cross_entropy(x, tocha.tensor([0, 1, 2]))": "NllLossBackward0",
    "F.nll_loss(x[None], tocha.tensor([[0, 1, 2, 0]]))": "NllLoss2DBackward0",
    "F.gelu(x, approximate='tanh')": "GeluBackward0",
    "F.glu(x)": "GluBackward0",
    "F.relu6(x)": "HardtanhBackward0",
    "F.rrelu(x)": "RreluWithNoiseBackward0",
    "(x * 1).fill_(2)": "FillBackward2",
}


@pytest.mark.parametrize("code", NAMES)
def test_nodes_are_called_as_in_pytorch(code, x):
    result = eval(code, {"x": x, "tocha": tocha, "F": F})
    assert name(result) == NAMES[code]
    assert type(result.grad_fn).__name__ == NAMES[code]


def test_a_composite_does_not_rename_what_was_there_before(x):
    y = x.exp()
    assert y.contiguous() is y
    assert name(y) == "ExpBackward0"
    y.clamp(0, 1)
    assert name(y) == "ExpBackward0"


# -- what nodes keep -------------------------------------------------------------------------------


def kept(t):
    return {k.removeprefix("_saved_"): getattr(t.grad_fn, k) for k in dir(t.grad_fn) if k.startswith("_saved_")}


def test_kept_values_by_name(x):
    other = tocha.rand(3, 4)
    product = x * other
    assert product.grad_fn._saved_other is other
    assert product.grad_fn._saved_self is None
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert name(y.grad_fn._saved_result) == "ExpBackward0"
    assert kept(x.sum(0)) == {"dim": (0,), "keepdim": False, "self_sym_sizes": (3, 4)}
    assert kept(x.view(12)) == {"self_sym_sizes": (3, 4)}
    assert kept(x.softmax(1))["dim"] == 1
    assert kept(x.max(1)[0])["indices"].dtype == tocha.int64
    assert tocha.add(x, x, alpha=3).grad_fn._saved_alpha == 3
    rows = x[tocha.tensor([0, 2])]
    assert [t.tolist() for t in rows.grad_fn._saved_indices] == [[0, 2]]
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute '_saved_foo'"):
        y.grad_fn._saved_foo  # noqa: B018


def test_kept_values_are_gone_after_backward(x):
    y = x.exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        y.grad_fn._saved_result  # noqa: B018


def test_hooks_on_a_kept_tensor(x):
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    assert raw.data.tolist() == y.tolist()
    raw.register_hooks(lambda t: t.numpy(), lambda a: tocha.from_numpy(a) * 2)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    (g,) = autograd.grad(y.sum(), x)
    assert tocha.allclose(g, 2 * x.exp())
    unused = (x * tocha.rand(3, 4)).grad_fn
    with pytest.raises(TypeError):
        y.grad_fn._raw_saved_result.register_hooks(1, 2)
    assert unused._saved_self is None


def test_hooks_on_what_a_function_saved(x):
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return 2 * a * g

    y = Square.apply(x)
    (raw,) = y.grad_fn._raw_saved_tensors
    raw.register_hooks(lambda t: t + 1, lambda t: t - 1)
    (g,) = autograd.grad(y.sum(), x)
    assert tocha.allclose(g, 2 * x)


# -- inference mode --------------------------------------------------------------------------------


@pytest.fixture
def inferred():
    with tocha.inference_mode():
        return tocha.ones(3)


def test_inference_tensors_and_their_views(inferred):
    assert inferred.is_inference()
    assert inferred[:1].is_inference()
    assert inferred.detach().is_inference()
    assert inferred.data.is_inference()
    assert not (inferred * 2).is_inference()
    assert not inferred.clone().is_inference()
    with tocha.inference_mode():
        normal = tocha.inference_mode(False)
        with normal:
            assert not tocha.ones(2).is_inference()


def test_inference_tensors_are_not_saved(inferred):
    w = tocha.rand(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        w * inferred
    assert (w + inferred).requires_grad  # nothing to keep
    assert (w * inferred.clone()).requires_grad

    class Keeps(autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(b)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g, None

    with pytest.raises(RuntimeError, match="cannot be saved"):
        Keeps.apply(w, inferred)


def test_inference_tensors_are_written_to_in_the_mode_only(inferred):
    w = tocha.rand(3, requires_grad=True)
    writes = [
        lambda: inferred.add_(1),
        lambda: inferred.mul_(w),
        lambda: inferred[:1].zero_(),
        lambda: inferred.copy_(tocha.zeros(3)),
        lambda: tocha.add(tocha.ones(3), 1, out=inferred),
        lambda: inferred.__setitem__(0, 5.0),
    ]
    for write in writes:
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write()
    assert inferred.tolist() == [1, 1, 1]
    with tocha.inference_mode():
        assert inferred.add_(1).tolist() == [2, 2, 2]


def test_inference_tensors_have_no_version(inferred):
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        inferred._version  # noqa: B018
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        inferred.requires_grad_()


def test_normal_tensors_in_inference_mode():
    normal = tocha.ones(3)
    with tocha.inference_mode():
        view = normal.view(3)
        assert not view.is_inference()
        view.add_(1)
    assert normal._version == 1
    y = tocha.rand(3, requires_grad=True) * 1
    with tocha.inference_mode():
        view = y.view(3)
    with pytest.raises(RuntimeError, match="A view was created in inference mode"):
        view.add_(1)


# -- second derivatives where the first has a corner -------------------------------------------------


@pytest.mark.parametrize("dtype", [tocha.float64, tocha.complex128])
def test_second_derivative_of_abs_at_zero(dtype):
    z = tocha.tensor([0, 1], dtype=dtype, requires_grad=True)
    (g,) = autograd.grad(z.abs().sum(), z, create_graph=True)
    (gg,) = autograd.grad(g, z, tocha.ones_like(g))
    assert g.tolist() == [0, 1]
    assert gg.tolist() == [0, 0]


PIECEWISE_LINEAR = {
    "relu": F.relu,
    "relu_": lambda x: (x * 1).relu_(),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "rrelu": F.rrelu,
    "prelu": lambda x: F.prelu(x, tocha.tensor([0.25])),
}


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
def test_second_derivatives_of_what_is_piecewise_linear_are_zeros(name):
    x = tocha.tensor([-2.0, -0.2, 0.0, 0.7, 9.0], requires_grad=True)
    (g,) = autograd.grad(PIECEWISE_LINEAR[name](x).sum(), x, create_graph=True)
    (second,) = autograd.grad(g.sum(), x)
    assert second.tolist() == [0] * 5


def test_second_derivative_of_a_network_of_relus():
    net = tocha.nn.Sequential(tocha.nn.Linear(3, 4), tocha.nn.ReLU(), tocha.nn.Linear(4, 1))
    x = tocha.ones(2, 3, requires_grad=True)
    (g,) = autograd.grad(net(x).sum(), x, create_graph=True)
    (second,) = autograd.grad(g.square().sum(), x)
    assert tocha.equal(second, tocha.zeros(2, 3))


def test_second_derivatives_of_prelu():
    x = tocha.tensor([-2.0, 3.0], dtype=tocha.float64, requires_grad=True)
    w = tocha.tensor([0.25], dtype=tocha.float64, requires_grad=True)
    assert autograd.gradgradcheck(F.prelu, (x, w))
    (g,) = autograd.grad(F.prelu(x, w).sum(), x, create_graph=True)
    (second,) = autograd.grad(g.sum(), w)
    assert second.tolist() == [1]


def test_sgn_at_zero():
    z = tocha.tensor([0j, 3 + 4j], dtype=tocha.complex128, requires_grad=True)
    (g,) = autograd.grad(z.sgn(), z, tocha.ones(2, dtype=tocha.complex128))
    assert g[0].item() == 0
    assert abs(g[1].item() - (0.128 - 0.096j)) < 1e-12


# -- anomaly reports -------------------------------------------------------------------------------


def test_a_node_made_in_backward_shows_its_parent():
    z = tocha.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with autograd.detect_anomaly():
            y = z.sin() ** 1.5  # the operation that led here
            (g,) = autograd.grad(y, z, create_graph=True)
            with pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
                (g * 0).sum().backward()
    texts = [str(w.message) for w in seen]
    assert any(t.startswith("Error detected in PowBackward1. Traceback of forward call") for t in texts)
    parent = next(t for t in texts if "Previous calculation was induced by" in t)
    assert "PowBackward0" in parent
    assert "the operation that led here" in parent


# -- dual levels -----------------------------------------------------------------------------------


def test_tangents_end_with_their_level():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tocha.ones(2), tocha.full((2,), 3.0))
        twice = dual * 2
        tangent = weakref.ref(forward_ad.unpack_dual(twice).tangent)
        assert forward_ad.unpack_dual(twice).tangent.tolist() == [6, 6]
    assert tangent() is None  # memory goes with the level
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(twice).tangent is None
        assert forward_ad.unpack_dual(dual * dual).tangent is None


# -- threads ---------------------------------------------------------------------------------------


def run_in_threads(n, f):
    errors = []

    def guarded(i):
        try:
            f(i)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    return errors


@pytest.mark.parametrize("size", [4, 300_000])
def test_threads_add_to_one_leaf(size):
    leaf = tocha.zeros(size, requires_grad=True)

    def work(i):
        for _ in range(20):
            (leaf * float(i + 1)).sum().backward()

    assert run_in_threads(4, work) == []
    assert leaf.grad.min() == leaf.grad.max() == 20 * (1 + 2 + 3 + 4)


def test_an_error_surfaces_in_its_own_thread():
    class Fails(autograd.Function):
        @staticmethod
        def forward(ctx, a, number):
            ctx.number = number
            return a * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.number % 2:
                raise ValueError(f"number {ctx.number}")
            return g, None

    leaf = tocha.ones(3, requires_grad=True)
    caught = {}

    def work(i):
        try:
            Fails.apply(leaf, i).sum().backward()
        except ValueError as e:
            caught[i] = str(e)

    assert run_in_threads(6, work) == []
    assert caught == {1: "number 1", 3: "number 3", 5: "number 5"}
    assert leaf.grad.tolist() == [3, 3, 3]


def test_backward_within_backward():
    """A walk inside a walk: its own order, its own errors, and the outer one goes on."""
    order = []

    class Inner(autograd.Function):
        @staticmethod
        def forward(ctx, a, depth):
            ctx.depth = depth
            ctx.save_for_backward(a)
            return a * 1

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            order.append(("in", ctx.depth))
            if ctx.depth:
                with tocha.enable_grad():
                    again = a.detach().requires_grad_()
                    Inner.apply(again * 2, ctx.depth - 1).sum().backward()
                g = g + again.grad
            order.append(("out", ctx.depth))
            return g, None

    leaf = tocha.ones(2, requires_grad=True)
    Inner.apply(leaf, 3).sum().backward()
    assert order == [("in", 3), ("in", 2), ("in", 1), ("in", 0), ("out", 0), ("out", 1), ("out", 2), ("out", 3)]
    assert leaf.grad.tolist() == [15, 15]  # 1 + 2 (1 + 2 (1 + 2))


# -- garbage ---------------------------------------------------------------------------------------


def is_collected(make):
    gc.collect()
    gc.disable()
    try:
        ref = make()
        assert ref() is not None, "nothing held it: not a cycle"
        gc.collect()
        return ref() is None
    finally:
        gc.enable()


def through_a_leaf_hook():
    t = tocha.ones(2, requires_grad=True)
    t.register_hook(lambda g: g * t)
    return weakref.ref(t)


def through_a_hook_of_a_result():
    t = tocha.ones(2, requires_grad=True) * 2
    t.register_hook(lambda g: g * t)
    return weakref.ref(t)


def through_a_post_accumulate_hook():
    t = tocha.ones(2, requires_grad=True)
    t.register_post_accumulate_grad_hook(lambda p: t.zero_())
    return weakref.ref(t)


def through_metadata():
    t = tocha.ones(2, requires_grad=True) * 2
    t.grad_fn.metadata["result"] = t
    return weakref.ref(t)


def through_the_node_itself():
    t = tocha.ones(2, requires_grad=True) * 2
    fn = t.grad_fn
    fn.metadata["me"] = fn
    marker = tocha.ones(1)
    fn.metadata["marker"] = marker
    return weakref.ref(marker)


def through_a_node_hook():
    t = tocha.ones(2, requires_grad=True) * 2
    t.grad_fn.register_hook(lambda *grads: t and None)
    return weakref.ref(t)


def through_a_node_pre_hook():
    t = tocha.ones(2, requires_grad=True) * 2
    t.grad_fn.register_prehook(lambda grads: t and None)
    return weakref.ref(t)


class Remembers(autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def through_a_context():
    t = Remembers.apply(tocha.ones(2, requires_grad=True))
    t.grad_fn.result = t
    return weakref.ref(t)


def through_a_kept_tensor():
    w = tocha.ones(2, requires_grad=True)
    loss = (w * w).sum()
    w.note = loss
    return weakref.ref(loss)


CYCLES = [
    through_a_leaf_hook,
    through_a_hook_of_a_result,
    through_a_post_accumulate_hook,
    through_metadata,
    through_the_node_itself,
    through_a_node_hook,
    through_a_node_pre_hook,
    through_a_context,
    through_a_kept_tensor,
]


@pytest.mark.parametrize("make", CYCLES, ids=lambda f: f.__name__)
def test_cycles_through_the_graph_are_collected(make):
    assert is_collected(make)


def test_the_collector_leaves_what_is_in_use():
    """Graphs that are alive survive collections in the middle of everything."""
    w = tocha.ones(4, requires_grad=True)
    w.register_hook(lambda g: g * 2)
    y = w
    for _ in range(300):
        y = y * 1.0
        y.note = [y.grad_fn]
        if _ % 50 == 0:
            gc.collect()
    shared = y.exp()
    first, second = shared.sum(), (shared * 2).sum()
    gc.collect()
    (first + second).backward()
    gc.collect()
    assert tocha.allclose(w.grad, 6 * tocha.ones(4).exp())


# -- sums into a given tensor ------------------------------------------------------------------------


@pytest.mark.parametrize("f", [tocha.cumsum, tocha.cumprod])
def test_scans_into_another_dtype(f):
    for dtype in (tocha.float64, tocha.float16, tocha.int64, tocha.int32):
        out = tocha.empty(3, dtype=dtype)
        assert f(tocha.tensor([1.0, 2.0, 3.0]), 0, out=out) is out
        assert out.tolist() == ([1, 3, 6] if f is tocha.cumsum else [1, 2, 6])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got long int"):
        f(tocha.ones(3), 0, dtype=tocha.float64, out=tocha.empty(3, dtype=tocha.int64))


@pytest.mark.parametrize("f", [tocha.sum, tocha.nansum, tocha.prod])
def test_a_sum_into_a_given_tensor_has_its_dtype(f):
    out = tocha.empty((), dtype=tocha.float64)
    assert f(tocha.ones(3), 0, out=out).item() == (1 if f is tocha.prod else 3)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        f(tocha.ones(3), 0, dtype=tocha.float64, out=tocha.empty((), dtype=tocha.float16))


# -- what cannot be differentiated -------------------------------------------------------------------


def test_inputs_without_a_gradient_are_refused(x):
    weight, target = tocha.rand(4, requires_grad=True), tocha.tensor([0, 1, 2])
    losses = (
        ("weight", F.nll_loss),
        ("weight", F.cross_entropy),
        ("weight", lambda x, t, w: F.multi_margin_loss(x, t, weight=w)),
        ("weight", lambda x, t, w: F.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid(), w)),
        ("weight", lambda x, t, w: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), w)),
        ("pos_weight", lambda x, t, w: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), pos_weight=w)),
        ("target", lambda x, t, w: F.soft_margin_loss(x, w.expand(3, 4))),
    )
    for name, loss in losses:
        for run in (loss, tocha.compile(loss)):
            with pytest.raises(RuntimeError, match=f"not differentiable with respect to argument '{name}'"):
                run(x, target, weight)
            with tocha.no_grad():
                run(x, target, weight)


def test_what_requires_grad_is_not_resized(x):
    for t in (x, x * 2):
        for resize in (lambda t=t: t.resize_(2), lambda t=t: t.resize_as_(tocha.rand(2))):
            with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
                resize()


def test_bessel_functions_are_not_recorded(x):
    assert not tocha.special.bessel_j0(x).requires_grad
    assert not tocha.special.airy_ai(x).requires_grad


def test_as_strided_of_complex_numbers():
    z = tocha.randn(4, dtype=tocha.complex128, requires_grad=True)
    assert autograd.gradcheck(lambda z: z.as_strided((3, 2), (1, 1)), (z,))


# -- forward over reverse ----------------------------------------------------------------------------


def test_tangents_of_gradients():
    """What a node kept of its result has that result's tangent: the derivative of exp'(x) along t is exp(x) t."""
    x = tocha.tensor([0.5, 1.0], dtype=tocha.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.requires_grad_(), tocha.tensor([1.0, 2.0], dtype=tocha.float64))
        (g,) = autograd.grad(dual.exp().sum(), dual)
        tangent = forward_ad.unpack_dual(g).tangent
    assert tocha.allclose(tangent, x.detach().exp() * tocha.tensor([1.0, 2.0], dtype=tocha.float64))


class Doubling(tocha.autograd.Function):
    """Returns its input as it is; its gradient is twice the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_an_input_that_a_function_returns_is_a_view_that_cannot_be_written():
    x = tocha.ones(2, requires_grad=True)
    y = x * 1
    z = Doubling.apply(y)
    assert z._is_view()
    with pytest.raises(RuntimeError, match="Output 0 of Doubling is a view and is being modified inplace"):
        z.mul_(3)
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_function_s_view_of_what_was_written_since_has_no_history():
    y = tocha.ones(2, requires_grad=True) * 1
    z = Doubling.apply(y)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        z.sum().backward()
    with tocha.no_grad():
        assert Doubling.apply(y).mul_(2).tolist() == [4.0, 4.0]


def test_what_hooks_queue_is_called_when_the_walk_has_ended():
    seen, engine = [], tocha.autograd.Variable._execution_engine
    x = tocha.ones(2, requires_grad=True)

    def queue(grad):
        engine.queue_callback(lambda: seen.append(x.grad.tolist()))
        seen.append("hook")

    y = x * 2
    y.register_hook(queue)
    y.sum().backward()
    assert seen == ["hook", [2.0, 2.0]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        engine.queue_callback(lambda: None)


def test_what_a_failed_walk_had_queued_is_never_called():
    seen, engine = [], tocha.autograd.Variable._execution_engine
    x = tocha.ones(2, requires_grad=True)

    def fail(grad):
        engine.queue_callback(lambda: seen.append("called"))
        raise ValueError("no")

    y = x * 2
    y.register_hook(fail)
    with pytest.raises(ValueError, match="no"):
        y.sum().backward()
    (x * 3).sum().backward()
    assert seen == []


def test_what_a_tensor_retains_is_its_own():
    x = tocha.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert y.grad.stride() == (3, 1)
    y.grad.mul_(5)  # not a number seen six times, nor what went on to x
    assert tocha.equal(y.grad, tocha.full((2, 3), 5.0)) and tocha.equal(x.grad, tocha.full((2, 3), 2.0))
