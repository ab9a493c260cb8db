"""The engine and what surrounds it: graphs, accumulation, hooks, in-place and views, modes, functions, threads."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import tocha
from tocha import autograd


def leaf(*values, dtype=tocha.float32):
    return tocha.tensor(list(values), dtype=dtype, requires_grad=True)


def values(t):
    return t.detach().tolist()


# -- graphs


def test_nodes_have_pytorchs_names_and_edges():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (a * b).sum()
    assert y.grad_fn.name() == "SumBackward0" and type(y.grad_fn).__name__ == "SumBackward0"
    ((product, nr),) = y.grad_fn.next_functions
    assert product.name() == "MulBackward0" and nr == 0
    assert [n.name() for n, _ in product.next_functions] == ["AccumulateGrad"] * 2
    assert product.next_functions[0][0].variable is a
    assert y.grad_fn is y.grad_fn and isinstance(y.grad_fn, autograd.graph.Node)
    assert a.is_leaf and not y.is_leaf and y.requires_grad
    assert (a.sum(0)).grad_fn.name() == "SumBackward1"
    assert a[0].grad_fn.name() == "SelectBackward0" and a[:1].grad_fn.name() == "SliceBackward0"


def test_what_is_kept_is_the_least():
    x = leaf(1.0, 2.0)
    big = tocha.ones(2)
    for make in (lambda t: t.sigmoid(), lambda t: tocha.relu(t), lambda t: t.exp(), lambda t: t.tanh()):
        inner = x * 1
        y = make(inner)
        alive = weakref.ref(inner)
        del inner
        assert alive() is None, "the input is kept"
        y.sum().backward()
    inner = x * big
    kept = weakref.ref(big)
    del big
    assert kept() is not None
    inner.sum().backward()
    other = tocha.ones(2)
    y = other * x  # x's gradient needs other; other wants none, so x is not kept
    x_alias = weakref.ref(other)
    del other
    assert x_alias() is not None
    y.sum().backward()
    assert x_alias() is None, "what was kept goes once the node has run"


def test_gradients_add_up_over_paths_and_calls():
    x = leaf(1.0, 2.0)
    (x * x + x).sum().backward()
    assert values(x.grad) == [3.0, 5.0]
    x.sum().backward()
    assert values(x.grad) == [4.0, 6.0]


def test_several_roots_and_given_gradients():
    x = leaf(1.0, 2.0)
    autograd.backward([x * 2, x * 3], [tocha.tensor([1.0, 0.0]), tocha.tensor([0.0, 1.0])])
    assert values(x.grad) == [2.0, 3.0]


def test_grad_leaves_grad_alone_and_walks_only_where_it_must():
    x, y = leaf(1.0), leaf(2.0)
    ran = []
    z = x * y
    z.register_hook(lambda g: ran.append("z"))
    out = z + y.exp()
    (g,) = autograd.grad(out, x)
    assert values(g) == [2.0] and x.grad is None and ran == ["z"]
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        autograd.grad(y * 2, x)
    assert autograd.grad(y * 2, x, allow_unused=True) == (None,)
    assert values(autograd.grad(y * 2, x, materialize_grads=True)[0]) == [0.0]


def test_any_order_of_derivative():
    x = leaf(0.5, dtype=tocha.float64)
    d = (x**5).sum()
    for expected in (5 * 0.5**4, 20 * 0.5**3, 60 * 0.5**2, 120 * 0.5, 120.0, 0.0):
        (d,) = autograd.grad(d.sum(), x, create_graph=True)
        assert d.item() == pytest.approx(expected)


def test_retained_graphs_run_again_and_others_refuse():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [4.0, 8.0]
    with pytest.raises(RuntimeError, match=r"second time.*MulBackward0"):
        y.backward()


def test_inputs_receive_and_nobody_else():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).backward(inputs=[x])
    assert values(x.grad) == [2.0] and y.grad is None
    z = x * 3
    (z * z).sum().backward(inputs=[z])
    assert values(z.grad) == [6.0]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).backward(inputs=[])


def test_a_chain_of_a_million_nodes():
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = y + 1
    y.backward()
    assert values(x.grad) == [1.0]
    del y
    gc.collect()


def test_errors_name_the_reason():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"only for scalar outputs.*\[2\]"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        tocha.ones(1).sum().backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(tocha.ones(3))
    with pytest.raises(RuntimeError, match=r"out=\.\.\. arguments don't support"):
        tocha.exp(x, out=tocha.empty(2))
    with pytest.raises(RuntimeError, match="requires_grad flags of leaf"):
        (x * 2).requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point dtype can require"):
        tocha.ones(2, dtype=tocha.int64).requires_grad_()
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()


# -- leaves


def test_a_gradient_nobody_holds_is_taken_and_another_copied():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first, "added in place"
    y = leaf(1.0, 2.0)
    g = tocha.ones(2)
    y.backward(g)
    assert y.grad is not g and y.grad.data_ptr() != g.data_ptr()


def test_gradients_have_their_leaf_layout():
    x = tocha.rand(3, 4).t().detach().requires_grad_()
    (x * tocha.rand(4, 3)).sum().backward()
    assert x.grad.stride() == x.stride()


def test_broadcast_operands_get_sums():
    a, b = tocha.ones(3, 1, requires_grad=True), tocha.ones(4, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.shape == (3, 1) and values(b.grad) == [3.0] * 4
    half = tocha.ones(2, dtype=tocha.float16, requires_grad=True)
    (half * tocha.ones(2)).sum().backward()
    assert half.grad.dtype == tocha.float16


def test_complex_gradients_follow_pytorch():
    z = tocha.tensor([1 + 2j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert values(z.grad) == [2 + 4j]
    w = tocha.tensor([1 + 2j], requires_grad=True)
    w.abs().sum().backward()
    assert w.grad.item() == pytest.approx((1 + 2j) / abs(1 + 2j))


# -- hooks


def test_tensor_hooks_see_and_replace():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    handle = y.register_hook(lambda g: seen.append(values(g)) or g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert seen == [[1.0, 1.0]] and values(x.grad) == [21.0, 21.0]
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert values(x.grad) == [3.0, 3.0]


def test_node_hooks():
    x = leaf(1.0)
    y = x * 3
    log = []
    y.grad_fn.register_prehook(lambda gs: log.append("pre") or tuple(g * 2 for g in gs))
    y.grad_fn.register_hook(lambda ins, outs: log.append("post") or tuple(None if g is None else g + 1 for g in ins))
    y.backward()
    assert log == ["pre", "post"] and values(x.grad) == [7.0]


def test_hooks_after_accumulation_and_of_several():
    a, b = leaf(1.0), leaf(2.0)
    log = []
    a.register_post_accumulate_grad_hook(lambda t: log.append(values(t.grad)))
    autograd.graph.register_multi_grad_hook([a, b], lambda gs: log.append([values(g) for g in gs]))
    (a * b).backward()
    assert sorted(map(str, log)) == sorted(map(str, [[2.0], [[2.0], [1.0]]]))


def test_retain_grad():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    assert y.retains_grad and not x.retains_grad
    (y * 3).backward()
    assert values(y.grad) == [3.0]
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        tocha.ones(1).retain_grad()


def test_saved_tensor_hooks():
    x = leaf(1.0, 2.0)
    packed = []
    with autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.shape) or t.numpy().copy(), lambda a: tocha.from_numpy(a)
    ):
        y = (x.exp() * x).sum()
    y.backward()
    assert len(packed) == 3
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 2]) * np.array([2, 3]), rtol=1e-6)
    with autograd.graph.save_on_cpu():
        (x * x).sum().backward()
    with autograd.graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


# -- in place and views


def test_in_place_changes_the_history():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.mul_(3).add_(1)
    assert y.grad_fn.name() == "AddBackward0"
    y.sum().backward()
    assert values(x.grad) == [3.0, 3.0]


def test_writing_to_a_view_reaches_its_base():
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[1:]
    view.mul_(5)
    assert base.grad_fn.name() == "CopySlices"
    base.sum().backward()
    assert values(x.grad) == [1.0, 5.0, 5.0]
    w = leaf(7.0)
    plain = tocha.zeros(3)
    other = plain[:1]
    plain[1:2] = w * 2
    assert plain.requires_grad and other.requires_grad
    plain.sum().backward()
    assert values(w.grad) == [2.0]


def test_writing_to_a_base_reaches_its_views():
    x = leaf(1.0, 2.0)
    base = x * 1
    view = base[0]
    base.mul_(4)
    view.backward()
    assert values(x.grad) == [4.0, 0.0]


def test_what_may_not_be_written_to():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[0].zero_()
    parts = (x * 1).unbind()
    with pytest.raises(RuntimeError, match="returns multiple views"):
        parts[0].add_(1)
    with tocha.no_grad():
        seen = x[0]
        x.add_(1)
    assert values(x) == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="no_grad"):
        seen.mul_(2)


def test_what_was_kept_must_not_change():
    x = leaf(1.0, 2.0)
    y = x.exp()
    s = y.sum() + (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"):
        s.backward()
    z = x * 1
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.mul_(z).sum().backward()


def test_detach_and_data():
    x = leaf(1.0)
    y = (x * 2).detach()
    assert not y.requires_grad and y.is_leaf
    z = x * 2
    z.detach_()
    assert not z.requires_grad and z.grad_fn is None
    x.data.mul_(3)
    assert values(x) == [3.0] and x._version == 0


# -- modes


def test_modes_as_contexts_and_decorators():
    x = leaf(1.0)
    with tocha.no_grad():
        assert not (x * 2).requires_grad
        with tocha.enable_grad():
            assert (x * 2).requires_grad
    assert tocha.is_grad_enabled()

    @tocha.no_grad()
    def f(t):
        return t * 2

    @tocha.no_grad
    def steps(t):
        for _ in range(2):
            yield (t * 2).requires_grad

    assert not f(x).requires_grad and list(steps(x)) == [False, False] and tocha.is_grad_enabled()
    tocha.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    tocha.set_grad_enabled(True)


def test_modes_belong_to_threads():
    seen = []
    with tocha.no_grad():
        t = threading.Thread(target=lambda: seen.append(tocha.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_anomaly_mode_points_at_the_forward_line():
    x = leaf(0.0)
    with autograd.detect_anomaly(), pytest.warns(UserWarning, match="test_autograd.py"):
        y = (x.sqrt() * 0).sum()  # the culprit
        with pytest.raises(RuntimeError, match="nan values in its 0th output"):
            y.backward()


# -- functions


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return grad * ctx.scale * 3 * x**2, None


def test_functions_differentiate_as_they_say():
    x = leaf(2.0)
    y = Cube.apply(x, 2)
    assert type(y.grad_fn).__name__ == "CubeBackward"
    (g,) = autograd.grad(y, x, create_graph=True)
    assert values(g) == [24.0] and values(autograd.grad(g, x)[0]) == [24.0]
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        Cube()


def test_functions_with_setup_context_dirty_and_fixed_results():
    class Split(autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2, (x > 0).to(x.dtype)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, g, fixed):
            assert fixed is None
            return g * 2

    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, -1.0)
    y, sign = Split.apply(x)
    assert y.requires_grad and not sign.requires_grad
    y.sum().backward()
    assert values(x.grad) == [2.0, 2.0]
    z = x * 1
    out = Double.apply(z)
    assert out is z
    x.grad = None
    z.sum().backward()
    assert values(x.grad) == [2.0, 2.0]


def test_functions_whose_backward_is_wrong():
    class TooFew(Cube):
        @staticmethod
        def backward(ctx, g):
            return g

    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            return tocha.ones(5), None

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        TooFew.apply(leaf(1.0), 1).backward()
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        Wrong.apply(leaf(1.0, 2.0), 1).sum().backward()

    class Once(Cube):
        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2, None

    x = leaf(1.0)
    (g,) = autograd.grad(Once.apply(x, 1), x, tocha.ones(1, requires_grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_exceptions_in_backward_come_through():
    class Bad(Cube):
        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Bad.apply(leaf(1.0), 1).backward()


# -- derivatives of functions, checkpoints


def test_functional():
    x = tocha.tensor([1.0, 2.0], dtype=tocha.float64)
    f = lambda t: (t**3).sum()  # noqa: E731
    assert values(autograd.functional.hessian(f, x)) == [[6.0, 0.0], [0.0, 12.0]]
    assert values(autograd.functional.jacobian(lambda t: t * t, x)) == [[2.0, 0.0], [0.0, 4.0]]
    assert values(autograd.functional.vjp(f, x)[1]) == [3.0, 12.0]
    assert values(autograd.functional.jvp(lambda t: t * t, x, tocha.ones_like(x))[1]) == [2.0, 4.0]
    assert values(autograd.functional.hvp(f, x, tocha.ones_like(x))[1]) == [6.0, 12.0]
    assert values(autograd.functional.vhp(f, x, tocha.ones_like(x))[1]) == [6.0, 12.0]


def test_gradcheck_finds_a_wrong_gradient():
    x = leaf(0.3, 0.7, dtype=tocha.float64)
    assert autograd.gradcheck(lambda t: t.exp() * t.sin(), (x,))
    assert autograd.gradgradcheck(lambda t: t.exp() * t.sin(), (x,))

    class Off(Cube):
        @staticmethod
        def backward(ctx, g):
            return g * 7, None

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(lambda t: Off.apply(t, 1), (x,))
    assert not autograd.gradcheck(lambda t: Off.apply(t, 1), (x,), raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        autograd.gradcheck(lambda t: Off.apply(t, 1), (x,), fast_mode=True)


def test_gradcheck_modes():
    x = tocha.rand(3, 2, dtype=tocha.float64, requires_grad=True)
    y = tocha.rand(2, dtype=tocha.float64, requires_grad=True)

    def f(a, b):
        return a.exp() * b, (a @ b).sin()

    assert autograd.gradcheck(f, (x, y), fast_mode=True)
    assert autograd.gradcheck(f, (x, y), check_forward_ad=True)
    assert autograd.gradgradcheck(f, (x, y), fast_mode=True)
    assert autograd.gradgradcheck(f, (x, y), gen_non_contig_grad_outputs=True, check_fwd_over_rev=True)

    class WrongTangent(autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    assert autograd.gradcheck(WrongTangent.apply, (x,))
    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch"):
        autograd.gradcheck(WrongTangent.apply, (x,), check_forward_ad=True)


def test_jvp_gets_what_was_saved_for_it():
    class Sine(autograd.Function):
        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0] * 2)
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0]

    x = tocha.tensor([3.0], requires_grad=True)
    assert tocha.func.jvp(Sine.apply, (x.detach(),), (tocha.ones(1),))[1].tolist() == [3.0]
    with autograd.forward_ad.dual_level():
        found = Sine.apply(autograd.forward_ad.make_dual(x, tocha.ones(1)))
        assert autograd.forward_ad.unpack_dual(found).tangent.tolist() == [3.0]
        found.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_gradcheck_notices_what_varies():
    class Drifts(autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            Drifts.calls += 1
            return g * (2 + 1e-9 * Drifts.calls)

    x = tocha.rand(2, dtype=tocha.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="not reentrant"):
        autograd.gradcheck(Drifts.apply, (x,))
    assert autograd.gradcheck(Drifts.apply, (x,), nondet_tol=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again_with_the_same_random_numbers(reentrant):
    from tocha.utils.checkpoint import checkpoint

    runs = []

    def f(t):
        runs.append(1)
        return (t * tocha.rand(4)).sin()

    x = tocha.ones(4, requires_grad=True)
    tocha.manual_seed(3)
    checkpoint(f, x, use_reentrant=reentrant).sum().backward()
    y = tocha.ones(4, requires_grad=True)
    tocha.manual_seed(3)
    f(y).sum().backward()
    assert len(runs) == 3 and values(x.grad) == values(y.grad)


# -- memory and threads


def test_graphs_are_freed():
    x = leaf(1.0)
    y = x * 2
    z = y.exp()
    nodes = [weakref.ref(t) for t in (y, z)]
    del y, z
    assert all(r() is None for r in nodes)


def test_training_in_a_loop_leaves_nothing():
    def step():
        w = tocha.rand(20, 20, requires_grad=True)
        y = (w @ tocha.rand(20, 20)).sigmoid() * 2
        y[0] = 0
        y.sum().backward()

    for _ in range(50):
        step()
    gc.collect()
    before = tocha._C._cpu_memory()["in_use"]
    for _ in range(2000):
        step()
    gc.collect()
    assert tocha._C._cpu_memory()["in_use"] <= before + 4096


def test_threads_walk_at_once():
    x = tocha.rand(1000, requires_grad=True)
    errors = []

    def work():
        try:
            for _ in range(50):
                (g,) = autograd.grad((x.exp() * x).sum(), x)
                np.testing.assert_allclose(
                    g.numpy(), (np.exp(x.detach().numpy()) * (1 + x.detach().numpy())), rtol=1e-5
                )
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_backward_inside_backward():
    class Inner(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with tocha.enable_grad():
                t = x.detach().requires_grad_()
                (t * t).sum().backward()
            return g * t.grad

    x = leaf(3.0)
    Inner.apply(x).sum().backward()
    assert values(x.grad) == [6.0]


def test_what_requires_gradients_is_checked():
    x = tocha.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="must be bool, not str"):
        x.requires_grad_("x")
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = tocha.ones(2, dtype=tocha.int64)
    assert x.dtype == tocha.float32
