"""Custom operators: the ways of defining them, what they are to autograd, meta tensors and overrides, and opcheck."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import tocha
from tocha import Tensor
from tocha.library import Library, OpCheckError, custom_op, infer_schema, opcheck

# ---- a function of another library -------------------------------------------------------------------


def to_numpy(x: Tensor) -> np.ndarray:
    return x.detach().numpy()


@custom_op("test_docs::numpy_sin", mutates_args=())
def numpy_sin(x: Tensor) -> Tensor:
    return tocha.from_numpy(np.sin(to_numpy(x)))


@custom_op("test_docs::numpy_cos", mutates_args=())
def numpy_cos(x: Tensor) -> Tensor:
    return tocha.from_numpy(np.cos(to_numpy(x)))


@numpy_sin.register_fake
def _(x):
    return tocha.empty_like(x)


@tocha.library.register_fake("test_docs::numpy_cos")
def _(x):
    return tocha.empty_like(x)


def keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


numpy_sin.register_autograd(lambda ctx, g: g * numpy_cos(ctx.saved_tensors[0]), setup_context=keep_input)
tocha.library.register_autograd(
    "test_docs::numpy_cos", lambda ctx, g: -g * numpy_sin(ctx.saved_tensors[0]), setup_context=keep_input
)


def test_an_operator_of_numpy():
    x = tocha.randn(4)
    assert tocha.allclose(numpy_sin(x), x.sin())
    assert tocha.allclose(tocha.ops.test_docs.numpy_sin(x), x.sin())
    assert tocha.allclose(tocha.ops.test_docs.numpy_sin.default(x), x.sin())
    assert str(tocha.ops.test_docs.numpy_sin.default._schema) == "test_docs::numpy_sin(Tensor x) -> Tensor"


def test_first_and_second_derivatives():
    x = tocha.randn(3, dtype=tocha.float64, requires_grad=True)
    assert tocha.autograd.gradcheck(numpy_sin, (x,))
    assert tocha.autograd.gradgradcheck(numpy_sin, (x,))
    assert type(numpy_sin(x).grad_fn).__name__ == "GeneratedBackwardFor_test_docs_numpy_sin_defaultBackward"


def test_what_a_kernel_calls_is_not_recorded():
    @custom_op("test_lib::detached", mutates_args=())
    def detached(x: Tensor) -> Tensor:
        assert not tocha.is_grad_enabled()
        return x * 2

    y = detached(tocha.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
    with tocha.no_grad():
        assert not detached(tocha.ones(2, requires_grad=True)).requires_grad
    assert not detached(tocha.ones(2)).requires_grad


def test_images_cropped_by_another_library():
    @custom_op("test_docs::crop", mutates_args=())
    def crop(picture: Tensor, box: list[int]) -> Tensor:
        left, top, right, bottom = box
        return tocha.from_numpy(to_numpy(picture)[:, top:bottom, left:right].copy())

    @crop.register_fake
    def _(picture, box):
        left, top, right, bottom = box
        return picture.new_empty(picture.shape[0], bottom - top, right - left)

    def setup_context(ctx, inputs, output):
        ctx.box, ctx.shape = inputs[1], inputs[0].shape

    def backward(ctx, grad):
        left, top, right, bottom = ctx.box
        made = grad.new_zeros(ctx.shape)
        made[:, top:bottom, left:right] = grad
        return made, None

    crop.register_autograd(backward, setup_context=setup_context)
    picture = tocha.rand(3, 8, 8, dtype=tocha.float64, requires_grad=True)
    assert crop(picture, [1, 2, 5, 6]).shape == (3, 4, 4)
    assert crop(picture.detach().to("meta"), [1, 2, 5, 6]).shape == (3, 4, 4)
    assert tocha.autograd.gradcheck(crop, (picture, [1, 2, 5, 6]))
    opcheck(crop, (picture, [1, 2, 5, 6]))


def test_operators_that_write():
    @custom_op("test_docs::sin_into", mutates_args={"out"})
    def sin_into(x: Tensor, out: Tensor) -> None:
        np.sin(to_numpy(x), out=to_numpy(out))

    assert str(sin_into._opoverload._schema) == "test_docs::sin_into(Tensor x, Tensor(a1!) out) -> ()"
    x, out = tocha.randn(3), tocha.empty(3)
    version = out._version
    assert sin_into(x, out) is None
    assert tocha.allclose(out, x.sin())
    assert out._version > version
    assert sin_into(x.to("meta"), out.to("meta")) is None  # nothing to return, so no rule is needed

    y = tocha.ones(3, requires_grad=True) * 1
    z = y * y
    sin_into(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        sin_into.register_autograd(lambda ctx: None)


def test_shapes_that_depend_on_elements():
    @custom_op("test_docs::nonzero", mutates_args=())
    def nonzero(x: Tensor) -> Tensor:
        return tocha.from_numpy(np.stack(np.nonzero(to_numpy(x)), axis=1))

    @nonzero.register_fake
    def _(x):
        n = tocha.library.get_ctx().new_dynamic_size()
        return x.new_empty([n, x.dim()], dtype=tocha.int64)

    assert nonzero(tocha.tensor([0, 3, 0, 1])).tolist() == [[1], [3]]
    with pytest.raises(RuntimeError, match="data-dependent shape"):
        nonzero(tocha.empty(3, device="meta"))
    assert tocha.library.get_ctx() is None


def test_several_results_and_a_rule_for_batches():
    @custom_op("test_docs::cube", mutates_args=())
    def cube(x: Tensor) -> tuple[Tensor, Tensor]:
        value = to_numpy(x)
        return tocha.from_numpy(value**3), tocha.from_numpy(3 * value**2)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])

    def backward(ctx, grad, grad_slope):
        x, slope = ctx.saved_tensors
        return grad * slope + 6 * grad_slope * x

    cube.register_autograd(backward, setup_context=setup_context)

    @cube.register_vmap
    def _(info, in_dims, x):
        return cube(x), (in_dims[0], in_dims[0])

    x = tocha.randn(3, dtype=tocha.float64, requires_grad=True)
    assert tocha.autograd.gradcheck(cube, (x,))
    result = cube(x)
    assert type(result) is tuple
    assert tocha.allclose(result[0], x**3)


def test_lists_of_tensors():
    @custom_op("test_lib::scale_all", mutates_args=())
    def scale_all(xs: list[Tensor], by: float) -> list[Tensor]:
        return [x * by for x in xs]

    needs = []

    def setup_context(ctx, inputs, output):
        ctx.by = inputs[1]
        needs.append(ctx.needs_input_grad)

    scale_all.register_autograd(lambda ctx, grads: ([g * ctx.by for g in grads], None), setup_context=setup_context)
    a, b = tocha.ones(2, requires_grad=True), tocha.ones(3)
    first, second = scale_all([a, b], 3)
    (first.sum() + second.sum()).backward()
    assert a.grad.tolist() == [3.0, 3.0]
    assert needs == [([True, False], False)]


def test_keyword_only_arguments():
    @custom_op("test_lib::scaled", mutates_args=())
    def scaled(x: Tensor, *, by: float = 2.0) -> Tensor:
        return x * by

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        ctx.by = keyword_only_inputs["by"]

    scaled.register_autograd(lambda ctx, g: g * ctx.by, setup_context=setup_context)
    x = tocha.ones(2, requires_grad=True)
    scaled(x, by=5).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert scaled(x).tolist() == [2.0, 2.0]


def test_results_that_are_no_tensors():
    @custom_op("test_lib::counted", mutates_args=())
    def counted(x: Tensor) -> tuple[Tensor, int, float]:
        return x * 2, x.numel(), 0.5

    counted.register_autograd(lambda ctx, g, *_: g * 2)
    x = tocha.ones(3, requires_grad=True)
    y, n, f = counted(x)
    assert (n, f) == (3, 0.5)
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_nothing_is_kept_that_backward_does_not_ask_for():
    @custom_op("test_lib::forgetful", mutates_args=())
    def forgetful(x: Tensor, big: Tensor) -> Tensor:
        return x + big.sum()

    forgetful.register_autograd(lambda ctx, g: (g, None))
    big = tocha.ones(100)
    gone = weakref.ref(big)
    y = forgetful(tocha.ones(2, requires_grad=True), big)
    del big
    gc.collect()
    assert gone() is None
    y.sum().backward()


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [lambda x: x, lambda x: x.view(-1)], ids=["the argument", "a view of it"])
def test_results_may_not_share_memory_with_arguments(kernel):
    op = custom_op("test_lib::sharing", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="may not alias any inputs to this custom operator or other returns"):
        op(tocha.ones(2))


def test_results_may_not_share_memory_with_each_other():
    def kernel(x):
        y = x.clone()
        return y, y

    op = custom_op("test_lib::twins", kernel, mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(RuntimeError, match="or other returns"):
        op(tocha.ones(2))


def test_wrong_results_are_refused():
    for returned, schema, kind in (
        (3, "(Tensor x) -> Tensor", RuntimeError),
        (3, "(Tensor x) -> Tensor[]", RuntimeError),
        (3, "(Tensor x) -> (Tensor, Tensor)", TypeError),
        ((tocha.ones(1),), "(Tensor x) -> (Tensor, Tensor)", RuntimeError),
        (3, "(Tensor x) -> ()", RuntimeError),
    ):
        op = custom_op("test_lib::wrong", lambda x, r=returned: r, mutates_args=(), schema=schema)
        with pytest.raises(kind):
            op(tocha.ones(2))


def test_gradients_of_the_wrong_number_are_refused():
    op = custom_op("test_lib::few", lambda x, y: x * y, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor")
    op.register_autograd(lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        op(tocha.ones(2, requires_grad=True), tocha.ones(2)).sum().backward()
    lists = custom_op("test_lib::few_in_list", lambda xs: xs[0] * 1, mutates_args=(), schema="(Tensor[] xs) -> Tensor")
    lists.register_autograd(lambda ctx, g: ([g],))
    with pytest.raises(RuntimeError, match="list of 2 gradients"):
        lists([tocha.ones(2, requires_grad=True), tocha.ones(2)]).sum().backward()


def test_annotations_that_mean_no_schema():
    def plain(x) -> Tensor: ...
    def no_result(x: Tensor): ...
    def unknown(x: dict) -> Tensor: ...
    def starred(*x: Tensor) -> Tensor: ...
    def fixed(x: tuple[int, int]) -> Tensor: ...
    def number(x: int) -> Tensor: ...

    for f, mutated, said in (
        (plain, (), "must have a type annotation"),
        (no_result, (), "No return type annotation was provided"),
        (unknown, (), "has unsupported type"),
        (starred, (), "We do not support positional-only args, varargs, or varkwargs"),
        (fixed, (), "We do not support Tuple inputs"),
        (number, {"x"}, "only Tensors or collections of Tensors can be mutated"),
        (number, {"y"}, "were not found in the custom op's signature"),
        (number, "x", "mutates_args must"),
    ):
        with pytest.raises(ValueError, match=said):
            infer_schema(f, mutates_args=mutated)


def test_names_and_schemas_that_are_refused():
    for name in ("noname", "a::b::c"):
        with pytest.raises(ValueError):
            custom_op(name, lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="unknown type specifier"):
        custom_op("test_lib::odd", lambda x: x, mutates_args=(), schema="(Tenser x) -> Tensor")
    with pytest.raises(ValueError, match="Please make these consistent"):
        custom_op("test_lib::odd", lambda x: x, mutates_args={"x"}, schema="(Tensor x) -> Tensor")
    assert not hasattr(tocha.ops.test_lib, "odd")


def test_kernels_written_in_triton_are_refused():
    with pytest.raises(NotImplementedError, match="Triton"):
        tocha.library.wrap_triton(None)


def test_an_operator_made_of_operators():
    @tocha.library.triton_op("test_lib::shifted_sine", mutates_args=())
    def shifted_sine(x: Tensor, n: int = 1) -> Tensor:
        return x.sin() + n

    x = tocha.rand(3)
    f = tocha.compile(lambda x: shifted_sine(x, 2) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    for given in (x, tocha.rand(4)):
        assert tocha.equal(shifted_sine(given), given.sin() + 1) and tocha.equal(f(given), (given.sin() + 2) * 2)
    shifted_sine.register_autograd(lambda ctx, g: (g * 7, None))
    x.requires_grad_()
    f(x).sum().backward()
    assert x.grad.tolist() == [14.0] * 3


# ---- devices, modes, subclasses ----------------------------------------------------------------------


def test_kernels_by_device():
    op = custom_op(
        "test_lib::by_device", lambda x: x.clone(), mutates_args=(), device_types="cuda", schema="(Tensor x) -> Tensor"
    )
    with pytest.raises(NotImplementedError, match="with arguments from the 'CPU' backend"):
        op(tocha.ones(1))

    @op.register_kernel("cpu")
    def _(x):
        return x + 1

    assert op(tocha.ones(1)).item() == 2
    with op.set_kernel_enabled("cpu", False):
        assert op(tocha.ones(1)).item() == 1
    assert op(tocha.ones(1)).item() == 2


def test_mixed_precision():
    op = custom_op("test_lib::cast", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autocast("cpu", tocha.bfloat16)
    with tocha.autocast("cpu"):
        assert op(tocha.ones(1)).dtype == tocha.bfloat16
        assert op(tocha.ones(1, dtype=tocha.int64)).dtype == tocha.int64
    assert op(tocha.ones(1)).dtype == tocha.float32
    with pytest.raises(ValueError, match="Unknown device type"):
        op.register_autocast("abacus", tocha.bfloat16)


def test_overrides_see_custom_operators():
    op = custom_op("test_lib::seen", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    heard = []

    class Listening(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            heard.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    assert type(op(tocha.ones(1).as_subclass(Listening))) is Listening
    assert heard[0] is tocha.ops.test_lib.seen.default

    class Mode(tocha.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        op(tocha.Tensor([1.0]))
    assert tocha.ops.test_lib.seen.default in heard[1:]


def test_graphs_keep_custom_operators_whole():
    custom_op("test_lib::traced", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    graph = tocha.fx.symbolic_trace(lambda x: tocha.ops.test_lib.traced(x) + 1)
    assert graph(tocha.ones(1)).item() == 3


# ---- libraries ---------------------------------------------------------------------------------------


@pytest.fixture
def library():
    made = Library("test_ns", "DEF")
    yield made
    made._destroy()


def test_a_library_of_products(library):
    """Operators as an extension would define them: a product with a sum, its gradient from the product alone."""
    library.define("muladd(Tensor a, Tensor b, float c) -> Tensor")
    library.define("mul(Tensor a, Tensor b) -> Tensor")
    library.define("add_out(Tensor a, Tensor b, Tensor(a!) out) -> ()")
    library.impl("muladd", lambda a, b, c: tocha.from_numpy(to_numpy(a) * to_numpy(b) + c), "CPU")
    library.impl("mul", lambda a, b: tocha.from_numpy(to_numpy(a) * to_numpy(b)), "CPU")
    library.impl(
        "add_out", lambda a, b, out: np.add(to_numpy(a), to_numpy(b), out=to_numpy(out)) is None or None, "CPU"
    )
    for name in ("muladd", "mul"):
        tocha.library.register_fake(f"test_ns::{name}", lambda a, b, *c: tocha.empty_like(a), lib=library)

    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        mul = tocha.ops.test_ns.mul.default
        return (
            mul(grad, b) if ctx.needs_input_grad[0] else None,
            mul(grad, a) if ctx.needs_input_grad[1] else None,
            None,
        )

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])

    tocha.library.register_autograd("test_ns::muladd", backward, setup_context=setup_context, lib=library)
    muladd = tocha.ops.test_ns.muladd.default
    a = tocha.randn(3, dtype=tocha.float64, requires_grad=True)
    b = tocha.randn(3, dtype=tocha.float64, requires_grad=True)
    assert tocha.allclose(muladd(a, b, 2), a * b + 2)
    assert tocha.autograd.gradcheck(muladd, (a, b, 2.0))
    opcheck(muladd, (a, b, 2.0))
    out = tocha.empty(3, dtype=tocha.float64)
    tocha.ops.test_ns.add_out(a, b, out)
    assert tocha.allclose(out, a + b)


def test_overloads_and_layers(library):
    assert library.define("sq(Tensor x) -> Tensor") == "sq"
    assert library.define("sq.Int(Tensor x, int y) -> Tensor") == "sq"
    library.impl("sq", lambda x: x * x, "CPU")
    library.impl("sq.Int", lambda x, y: x * y, "CompositeImplicitAutograd")
    sq = tocha.ops.test_ns.sq
    x = tocha.full((1,), 3.0, requires_grad=True)
    assert (sq(x).item(), sq(x, 2).item()) == (9.0, 6.0)
    assert sq.overloads() == ["default", "Int"]
    sq.Int(x, 2).backward()
    assert x.grad.item() == 2
    assert sq.Int._can_decompose() and not sq.default._can_decompose()
    assert sq.Int.decompose(x, 3).item() == 9
    with pytest.raises(NotImplementedError, match="there was no fake impl or Meta kernel registered"):
        sq(x.detach().to("meta"))
    library.impl("sq", lambda x: tocha.empty_like(x), "Meta")
    assert sq(x.detach().to("meta")).is_meta
    assert tocha.library.get_kernel("test_ns::sq", "CPU")(x).item() == 9
    with pytest.raises(RuntimeError, match="no kernel for CUDA"):
        tocha.library.get_kernel("test_ns::sq", "CUDA")


def test_an_autograd_kernel_calls_what_is_below(library):
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")

    class Twice(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with tocha._C._AutoDispatchBelowAutograd():
                return tocha.ops.test_ns.twice(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * 20

    library.impl("twice", Twice.apply, "Autograd")
    x = tocha.ones(1, requires_grad=True)
    y = tocha.ops.test_ns.twice(x)
    y.backward()
    assert (y.item(), x.grad.item()) == (2, 20)


def test_kernels_may_come_first(library):
    library.impl("late", lambda x: x + 1, "CPU")
    library.define("late(Tensor x) -> Tensor")
    assert tocha.ops.test_ns.late(tocha.ones(1)).item() == 2


def test_fallbacks(library):
    library.define("orphan(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="Could not run 'test_ns::orphan'"):
        tocha.ops.test_ns.orphan(tocha.ones(1))
    everyone = Library("_", "IMPL")
    everyone.fallback(lambda op, x: (str(op), x + 1)[1], "CPU")
    assert tocha.ops.test_ns.orphan(tocha.ones(1)).item() == 2
    everyone._destroy()
    with pytest.raises(NotImplementedError):
        tocha.ops.test_ns.orphan(tocha.ones(1))
    with pytest.raises(RuntimeError, match="global namespace"):
        library.fallback(lambda op: None, "CPU")


def test_what_libraries_refuse(library):
    library.define("once(Tensor x) -> Tensor")
    for f, kind, said in (
        (lambda: library.define("once(Tensor x) -> Tensor"), RuntimeError, "multiple times"),
        (lambda: library.define("other::f(Tensor x) -> Tensor"), RuntimeError, "does not match namespace"),
        (lambda: library.define("f(Tensor x) -> Tensor", "ODD"), RuntimeError, "Invalid alias_analysis"),
        (lambda: library.define("f(Tensor x)"), RuntimeError, "unknown type specifier"),
        (lambda: library.impl("once", 3, "CPU"), TypeError, "required to be a callable"),
        (lambda: Library("test_ns", "DEF"), RuntimeError, "Only a single TORCH_LIBRARY"),
        (lambda: Library("test_ns", "ODD"), ValueError, "Unsupported kind"),
        (lambda: Library("prim", "DEF"), ValueError, "reserved namespace"),
        (lambda: Library("test_ns", "IMPL").define("f(Tensor x) -> Tensor"), RuntimeError, "Cannot define an operator"),
        (lambda: Library("aten", "IMPL").impl("neg", lambda x: x, "CPU"), NotImplementedError, "is built in"),
        (lambda: tocha.library.define("f", "(Tensor x) -> Tensor"), ValueError, "namespace::name"),
        (lambda: tocha.library.define("a::f", "Tensor x -> Tensor"), ValueError, "expected schema to look like"),
        (lambda: tocha.library.register_autograd("test_ns::none", None), AttributeError, "has no attribute"),
        (lambda: tocha.library.register_autograd("aten::neg", None), NotImplementedError, "built in"),
    ):
        with pytest.raises(kind, match=said):
            f()


def test_a_destroyed_library_leaves_nothing():
    lib = Library("test_gone", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    handle = tocha.ops.test_gone.f
    assert handle is not None
    lib._destroy()
    with pytest.raises(AttributeError, match="has no attribute 'f'"):
        tocha.ops.test_gone.f  # noqa: B018


def test_an_operator_may_be_defined_again():
    for factor in (2, 3):
        op = custom_op("test_lib::again", lambda x, k=factor: x * k, mutates_args=(), schema="(Tensor x) -> Tensor")
        assert op(tocha.ones(1)).item() == factor
        assert tocha.ops.test_lib.again(tocha.ones(1)).item() == factor


def test_handles_of_custom_operators_are_handles():
    op = custom_op("test_lib::handled", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    handle = tocha.ops.test_lib.handled.default
    assert op._opoverload is handle
    assert repr(handle) == "<OpOverload(op='test_lib.handled', overload='default')>"
    assert pickle.loads(pickle.dumps(handle)) is handle and copy.deepcopy(handle) is handle
    assert repr(op) == "<CustomOpDef(test_lib::handled)>"
    assert tocha.Tag.pt2_compliant_tag in handle.tags


# ---- opcheck -----------------------------------------------------------------------------------------


def defect(schema="(Tensor x) -> Tensor", kernel=lambda x: x * 2, fake=tocha.empty_like, formula=None):
    op = custom_op("test_check::op", kernel, mutates_args=(), schema=schema)
    if fake is not None:
        op.register_fake(fake)
    if formula is not None:
        op.register_autograd(formula)
    return op


def written(x):
    x.sin_()
    return x.clone()


def library_op(schema, kernel, **more):
    lib = Library("test_check2", "FRAGMENT")
    lib.define(schema)
    for key, f in {"CPU": kernel, **more}.items():
        lib.impl(schema.partition("(")[0], f, key)
    return lib, getattr(tocha.ops.test_check2, schema.partition("(")[0]).default


def test_opcheck_finds_nothing_in_good_operators():
    op = defect(formula=lambda ctx, g: g * 2)
    for x in (tocha.randn(3), tocha.randn(3, requires_grad=True), tocha.randn(2, 3).t()):
        assert set(opcheck(op, (x,)).values()) == {"SUCCESS"}
    assert opcheck(tocha.ops.aten.split.Tensor, (tocha.ones(4), 2), test_utils="test_schema") == {
        "test_schema": "SUCCESS"
    }
    assert set(opcheck(tocha.ops.aten.add_.Tensor, (tocha.ones(2), tocha.ones(2))).values()) == {"SUCCESS"}
    assert set(
        opcheck(tocha.ops.aten.mm.default, (tocha.ones(2, 3), tocha.ones(3, 2, requires_grad=True))).values()
    ) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (lambda: defect(kernel=written), "test_schema", "Argument x is not defined as mutable but was mutated"),
        (lambda: defect(kernel=lambda x: x.sum()), "test_faketensor", "Shapes"),
        (lambda: defect(fake=lambda x: x.new_empty(x.shape, dtype=tocha.float64)), "test_faketensor", "Dtypes"),
        (lambda: defect(kernel=lambda x: (x * 2).t().contiguous().t()), "test_faketensor", "Stride mismatch"),
        (lambda: defect(fake=None), "test_faketensor", "no fake impl registered"),
        (lambda: defect(), "test_aot_dispatch_dynamic", "no autograd formula was registered"),
        (lambda: defect(formula=lambda ctx, g: g.sum()), "test_aot_dispatch_dynamic", "gradient"),
    ],
)
def test_opcheck_finds_planted_defects(made, check, said):
    x = tocha.randn(3, 4, requires_grad=check.startswith("test_aot"))
    with pytest.raises(OpCheckError, match=f"{check} failed with") as e:
        opcheck(made(), (x,))
    assert said in str(e.value)
    found = opcheck(made(), (x,), raise_exception=False)
    assert isinstance(found[check], Exception)


def test_opcheck_finds_sharing_and_missing_gradients():
    def pair(x):
        y = x.clone()
        return y, y.view(-1)

    cases = (
        ("alias(Tensor x) -> Tensor", lambda x: x.view(-1), "not defined to alias output but was aliasing"),
        ("pair(Tensor x) -> (Tensor, Tensor)", pair, "Outputs 0 and 1 alias unexpectedly"),
        ("unsaid(Tensor x) -> Tensor", lambda x: x * 2, "does not have an autograd kernel"),
    )
    for schema, kernel, said in cases:
        lib, op = library_op(schema, kernel, Meta=kernel)
        with pytest.raises(OpCheckError, match=said):
            opcheck(op, (tocha.randn(3, requires_grad="unsaid" in schema),))
        lib._destroy()


def test_opcheck_refuses_unknown_checks():
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        opcheck(defect(), (tocha.ones(1),), test_utils="test_everything")


def test_kernels_given_to_a_library_by_decorators():
    lib = Library("by_decorators", "DEF")
    lib.define("positive(Tensor x) -> Tensor")

    @tocha.library.impl(lib, "positive", "CPU")
    def positive(x):
        return x[x > 0]

    @tocha.library.define(lib, "twice(Tensor x) -> Tensor")
    def twice(x):
        return x * 2

    x = tocha.tensor([1.0, -1.0])
    assert positive(x).tolist() == tocha.ops.by_decorators.positive(x).tolist() == [1.0]
    assert twice(x).tolist() == tocha.ops.by_decorators.twice(x).tolist() == [2.0, -2.0]


def test_scoped_libraries_are_taken_back():
    with tocha.library._scoped_library("test_scoped", "DEF") as lib:
        lib.define("thrice(Tensor x) -> Tensor")
        lib.impl("thrice", lambda x: x * 3, "CPU")
        assert tocha.ops.test_scoped.thrice(tocha.ones(1)).item() == 3.0
    with tocha.library._scoped_library("test_scoped", "DEF") as lib, pytest.raises(AttributeError):
        lib.define("twice(Tensor x) -> Tensor")
        tocha.ops.test_scoped.thrice.default(tocha.ones(1))


def to_zero(x):
    x.zero_()


def test_a_schema_that_returns_none():
    with tocha.library._scoped_library("test_docs", "FRAGMENT") as lib:
        for name, returns in (("first", "None"), ("second", "(None)"), ("third", "NoneType")):
            lib.define(f"{name}(Tensor(a!) x) -> {returns}")
            lib.impl(name, to_zero, "CPU")
            handle = getattr(tocha.ops.test_docs, name).default
            x = tocha.ones(2)
            assert handle(x) is None
            assert x.tolist() == [0.0, 0.0]
            assert str(handle._schema) == f"test_docs::{name}(Tensor(a!) x) -> NoneType"
            assert [str(r.type) for r in handle._schema.returns] == ["NoneType"]


def test_the_schema_of_a_tagged_function():
    def f(x: Tensor, n: int) -> Tensor: ...

    assert infer_schema(f, mutates_args={"x"}, tags=tocha.Tag.inplace) == "(Tensor(a0!) x, SymInt n) -> Tensor(a0!)"
