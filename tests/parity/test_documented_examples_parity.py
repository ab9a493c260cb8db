"""What the examples of PyTorch's documentation do, in programs like them: the same answers, or errors of one type."""

import os
import tempfile
import warnings
from datetime import timedelta

import pytest
import torch
import torch.fx.experimental.proxy_tensor

import tocha
import tocha.fx.experimental.proxy_tensor

PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


def told(m, f):
    """What a program gives: the text of its value, or the type of its error and PyTorch's first words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = repr(f(m))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0][:110]}"
    return text.replace("torch", "tocha")


def each(*works):
    """The answers of several pieces of work, errors among them."""
    return [told(None, lambda _, w=w: w()) for w in works]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f):
    assert told(tocha, f) == told(torch, f)


# -- gradients ---------------------------------------------------------------------------------------------


def leaf(m):
    return m.tensor([1.0, 2.0], requires_grad=True)


def doubling(m):
    """A function whose gradient comes in double precision."""

    class Doubling(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.double() * 2

    return Doubling.apply


def given_dtype(x, dtype):
    x.grad_dtype = dtype
    return x.grad_dtype


@program
def grad_dtype_of_leaves(m):
    x = leaf(m)
    return each(
        lambda: x.grad_dtype,
        lambda: m.tensor([1]).grad_dtype,
        lambda: (x * 2).grad_dtype,
        lambda: given_dtype(x * 2, m.float16),
        lambda: given_dtype(x, 3),
        lambda: given_dtype(leaf(m), None),
        lambda: given_dtype(m.tensor([1.0]), m.float16),
    )


@program
def grad_dtype_of_gradients(m):
    x, late, any_dtype = leaf(m), leaf(m), leaf(m)
    x.grad_dtype, any_dtype.grad_dtype = m.float16, None
    seen = []
    x.register_hook(lambda g: seen.append(g.dtype))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    total = (late * 2).sum()
    late.grad_dtype = m.bfloat16
    total.backward()
    doubling(m)(any_dtype).sum().backward()
    return x.grad, seen, late.grad, any_dtype.grad, m.autograd.grad((x * 2).sum(), x)


@program
def grad_dtype_and_an_assigned_grad(m):
    x = leaf(m)
    x.grad_dtype = m.float16
    refused = each(lambda: setattr(x, "grad", m.ones(2)))
    x.grad = m.ones(2).half()
    return refused, each(
        lambda: given_dtype(x, m.float64), lambda: given_dtype(x, m.float16), lambda: given_dtype(x, None)
    )


@program
def layout_of_gradients(m):
    found = []
    for on in (True, False):
        for graph in (True, False):
            x = m.zeros(2, 3, 4).permute(2, 0, 1).requires_grad_()
            with m.autograd.enforce_grad_layout_policy(on):
                (x * 1).backward(m.ones(4, 2, 3), create_graph=graph)
            found.append(x.grad.stride())
    m.autograd.enforce_grad_layout_policy(False)
    x = m.zeros(2, 3).t().requires_grad_()
    (x * 1).backward(m.ones(3, 2))
    m.autograd.enforce_grad_layout_policy(True)
    return found, x.grad.stride()


@program
def refused_policies(m):
    return each(lambda: m.autograd.enforce_grad_layout_policy("no"))


@program
def results_of_hooks_after_accumulation(m):
    def trained(hook):
        x = leaf(m)
        x.register_post_accumulate_grad_hook(hook)
        (x * 2).sum().backward()
        return x

    return each(
        lambda: trained(lambda x: x.sub_(x.grad)), lambda: trained(lambda x: 3), lambda: trained(lambda x: None)
    )


# -- tensors -----------------------------------------------------------------------------------------------


@program
def arrays_and_gradients(m):
    def made(kind, **options):
        x = leaf(m)
        x = {"leaf": x, "result": x + 1, "plain": x.detach()}[kind]
        t = m.asarray(x, **options)
        return t, t.is_leaf, t is x, t.data_ptr() == x.data_ptr()

    return each(
        *[
            lambda k=k, g=g, c=c, d=d: made(k, copy=c, dtype=d, **g)
            for k in ("leaf", "result", "plain")
            for g in ({}, {"requires_grad": True}, {"requires_grad": False})
            for c in (None, True, False)
            for d in (None, m.float64, m.int64)
        ]
    )


@program
def order_of_dims(m):
    formats = [True, False, [m.contiguous_format], [m.contiguous_format, m.channels_last], [], "ILLEGAL", 3, None, [3]]
    return each(
        *[
            lambda s=s, c=c: m.empty(s).dim_order(ambiguity_check=c)
            for s in ((1, 2, 3, 4), (5, 2, 3, 4))
            for c in formats
        ]
    )


@program
def strides_of_unravelled_indices(m):
    indices = [m.tensor([4, 1]), m.tensor(4), m.arange(6).view(2, 3).t(), m.zeros(0, dtype=m.int64), m.tensor([-1, 7])]
    return [[(t, t.stride()) for t in m.unravel_index(i, (3, 2))] for i in indices]


@program
def sequences_without_padding(m):
    rnn = m.nn.utils.rnn
    lengths, padded = m.tensor([4, 3, 1]), m.arange(24.0)
    parts = rnn.unpad_sequence(padded.view(4, 3, 2), lengths) + rnn.unpad_sequence(padded.view(3, 4, 2), lengths, True)
    parts += rnn.unpack_sequence(rnn.pack_sequence([m.arange(3), m.arange(2)]))
    return [(t, t.stride(), t._base is None) for t in parts]


@program
def nested_tensors_in_words(m):
    parts = [m.arange(2.0), m.arange(3.0, requires_grad=True)]
    return m.nested.nested_tensor(parts, requires_grad=True), m.nested.nested_tensor(parts)


@program
def reduced_sparse_products(m):
    a, b = m.tensor([[0.0, 1.0], [2.0, 5.0]]).to_sparse_csr(), m.tensor([[1.0, 2.0], [3.0, 4.0]])
    return each(
        *[lambda r=r: m.sparse.mm(a, b, r) for r in ("sum", "mean", "amax", "max", "amin", "min", "prod", "other")]
    )


@program
def decorated_with_checks(m):
    check = m.sparse.check_sparse_tensor_invariants

    @check()
    def checked():
        return check.is_enabled()

    @check(False)
    def unchecked():
        return check.is_enabled()

    return checked(), unchecked(), check.is_enabled()


# -- transforms and graphs ---------------------------------------------------------------------------------


@program
def named_arguments_of_vmap(m):
    def scaled(x, scale):
        return x * scale

    x = m.arange(6.0).view(2, 3)
    return each(
        lambda: m.vmap(scaled)(x, scale=m.ones(2, 3)),
        lambda: m.vmap(scaled)(x, scale=m.ones(5, 3)).shape,
        lambda: m.vmap(scaled, in_dims=1)(x, scale=m.ones(5, 2)).shape,
        lambda: m.vmap(scaled, chunk_size=1)(x, scale=m.ones(5, 3)).shape,
        lambda: m.vmap(scaled)(x, scale=2),
    )


@program
def functionalized_functions(m):
    def f(a):
        """In words."""
        b = a + 1
        b.view(-1).add_(1)
        return b

    functional = m.func.functionalize(f)
    graph = m.fx.experimental.proxy_tensor.make_fx(functional)(m.ones(2)).graph
    return functional.__name__, functional.__doc__, [n.name for n in graph.nodes if n.op == "placeholder"]


TRACED = {
    "expand": lambda m, z, x: z.expand(x.shape),
    "expand_tuple": lambda m, z, x: z.expand((x.shape[0], 2)),
    "view": lambda m, z, x: z.view(x.size()),
    "view_loose": lambda m, z, x: z.view(x.size(0), -1),
    "reshape": lambda m, z, x: m.reshape(z, x.shape),
    "repeat": lambda m, z, x: z.repeat(x.size(0), 1),
    "sum": lambda m, z, x: z.sum(dim=x.dim()),
    "sum_dims": lambda m, z, x: z.sum(dim=(x.dim(),)),
    "add_alpha": lambda m, z, x: m.add(z, z, alpha=x.size(0)),
    "cat": lambda m, z, x: m.cat([z, z], dim=x.dim()),
    "transpose": lambda m, z, x: z.transpose(0, x.dim()),
    "flatten": lambda m, z, x: z.flatten(x.dim()),
    "pad": lambda m, z, x: m.nn.functional.pad(z, (x.size(0), 1)),
    "softmax": lambda m, z, x: m.softmax(z, dim=x.dim()),
    "topk": lambda m, z, x: m.topk(z, x.size(0)),
    "narrow": lambda m, z, x: z.narrow(0, x.size(0), 1),
    "as_strided": lambda m, z, x: z.as_strided(x.shape, x.stride()),
    "broadcast_to": lambda m, z, x: m.broadcast_to(z, x.shape),
    "layer_norm": lambda m, z, x: m.nn.functional.layer_norm(z, x.shape),
}


def traced(m, name):
    z = m.zeros(2, 2)
    return lambda x: TRACED[name](m, z, x)


@pytest.mark.parametrize("name", TRACED)
def test_traced_numbers_among_plain_tensors(name):
    """A size of what is traced stands where an operator of tensors that are not traced wants a number."""
    nodes = {}
    for m in (tocha, torch):
        graph = m.fx.symbolic_trace(traced(m, name)).graph
        nodes[m] = [(n.op, n.name, getattr(n.target, "__name__", n.target)) for n in graph.nodes]
    assert nodes[tocha] == nodes[torch]


def test_a_traced_number_where_nothing_fits():
    nest = []
    nest.append(nest)
    with pytest.raises(TypeError, match="must be tuple of ints"):
        tocha.ones(2).expand(nest)
    with pytest.raises(TypeError, match="invalid combination"):
        tocha.fx.symbolic_trace(lambda x: tocha.ones(2).transpose(0, 1, x.dim()))


# -- operators of programs ---------------------------------------------------------------------------------


def operators(m, space):
    Tensor, Tag = m.Tensor, m.Tag

    def in_place(x: Tensor) -> Tensor:
        return x.sin_()

    def no_result(x: Tensor) -> None:
        x.sin_()

    def other(x: Tensor) -> Tensor:
        return x.sin()

    def two(x: Tensor, y: Tensor) -> Tensor:
        return x.add_(y)

    def out(x: Tensor, *, out: Tensor) -> Tensor:
        return out.copy_(x)

    def outs(x: Tensor, *, out: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        return out.copy_(x), last.copy_(x)

    def loose(x: Tensor, out: Tensor) -> Tensor:
        return out.copy_(x)

    def made(f, written, tags):
        name = f"{space}::{f.__name__}_{len(names)}"
        names.append(name)
        return m.library.custom_op(name, f, mutates_args=written, tags=tags)

    names = []
    return made, Tag, in_place, no_result, other, two, out, outs, loose


@program
def schemas_of_tagged_operators(m):
    made, Tag, in_place, no_result, other, two, out, outs, loose = operators(m, "documented")
    cases = [
        (in_place, {"x"}, Tag.inplace), (in_place, {"x"}, [Tag.inplace]), (no_result, {"x"}, Tag.inplace), (two, {"y"}, Tag.inplace),
        (two, {"x", "y"}, Tag.inplace), (other, (), Tag.inplace), (in_place, "unknown", Tag.inplace), (out, {"out"}, Tag.out),
        (loose, {"out"}, Tag.out), (outs, {"out", "last"}, Tag.out), (outs, {"out"}, Tag.out), (other, (), Tag.out),
        (in_place, {"x"}, (Tag.out, Tag.inplace)), (in_place, {"x"}, ()), (no_result, {"x"}, Tag.pointwise),
    ]  # fmt: skip
    return each(*[lambda c=c: made(*c)._schema for c in cases])


@program
def calls_of_tagged_operators(m):
    made, Tag, in_place, _, _, _, out, outs, _ = operators(m, "documented_calls")
    sin_ = made(in_place, {"x"}, Tag.inplace)
    copy, copies = made(out, {"out"}, Tag.out), made(outs, {"out", "last"}, Tag.out)
    x, a, b = m.ones(2), m.zeros(2), m.zeros(2)
    results = [sin_(x) is x, x, x._version > 0, copy(x, out=a) is a, a, copies(x, out=a, last=b)[1] is b]
    grads = each(
        lambda: copy(leaf(m), out=m.zeros(2)),
        lambda: sin_(leaf(m) * 1).sum().backward(),
        lambda: sin_.register_autograd(lambda ctx, g: g),
        lambda: copy.register_autograd(lambda ctx, g: g),
    )
    compiled = m.compile(lambda x: sin_(x.clone()) + copy(x, out=m.zeros(2)), backend="aot_eager", fullgraph=True)
    return results, grads, compiled(m.ones(2))


def test_a_tagged_operator_returns_what_it_writes_to():
    made, Tag, _, _, other, *_ = operators(tocha, "documented_wrong")
    with pytest.raises(RuntimeError, match=r"tagged with torch\.Tag\.inplace must return its first argument"):
        made(other, {"x"}, Tag.inplace)(tocha.ones(2))


libraries = []  # PyTorch's own cannot be let go of once a name has its space


@program
def results_of_registering(m):
    made, _, _, _, other, *_ = operators(m, "documented_rules")
    sin = made(other, (), None)
    libraries.append(m.library.Library("documented_library", "FRAGMENT"))
    names = [libraries[-1].define(f"{name}(Tensor x) -> Tensor") for name in ("one", "documented_library::two")]
    return names, sin.register_vmap(lambda info, dims, x: (x, dims[0]))


# -- what is beside ----------------------------------------------------------------------------------------


@program
def stores(m):
    dist = m.distributed
    found = []
    for make in (
        dist.HashStore,
        lambda: dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=30)),
        lambda: dist.PrefixStore("part", dist.HashStore()),
    ):
        s = make()
        found.append([
            s.compare_set("k", "", "v1"), s.compare_set("k", "x", "v2"), s.compare_set("k", "v1", "v3"), s.compare_set("none", "e", "v"),
            s.check(["none"]), s.append("a", "po"), s.append("a", "tato"), s.get("a"), s.multi_set(["x", "y"], ["1", b"2"]),
            s.multi_get(["x", "y"]), s.barrier("b", 1), s.barrier("c", 1, timedelta(seconds=1)), s.set_timeout(timedelta(seconds=9)),
            s.timeout, s.num_keys(), s.delete_key("x"), s.delete_key("x"), s.add("n", 2), s.get("n"), s.has_extended_api(),
        ])  # fmt: skip
        found[-1] += each(lambda s=s: type(s.set("q", 3)))
    path = os.path.join(tempfile.mkdtemp(), "store")
    one, other = dist.FileStore(path, 2), dist.FileStore(path, 2)
    one.set("k", "v")
    part = dist.PrefixStore("p", one)
    part.set("k", "w")
    return [[w.split("(")[0] if isinstance(w, str) else w for w in f] for f in found], other.get("k"), one.get("p/k")


@program
def queues(m):
    s = m.distributed.HashStore()
    s.queue_push("q", "a"), s.queue_push("q", "b")
    return s.queue_len("q"), s.queue_pop("q"), s.queue_pop("q"), *each(lambda: s.queue_pop("q", False))


@program
def attributes_of_scripted_modules(m):
    class Module(m.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.foo = m.jit.Attribute(0.1, float)

    return Module().foo, m.jit.Attribute(0.1, float)


@program
def gradients_of_convolutions(m):
    x, w, g = m.arange(12.0).view(1, 1, 3, 4), m.arange(4.0).view(1, 1, 2, 2), m.ones(1, 1, 2, 3)
    grad = m.nn.functional.grad
    return grad is m.nn.grad, grad.conv2d_input(x.shape, w, g), grad.conv2d_weight(x, w.shape, g)


@program
def index_of_no_device(m):
    def within(device):
        with m.accelerator.device_index(device):
            return "within"

    return each(lambda: within(None), lambda: within(0), m.accelerator.Graph)


@program
def paths_of_classes(m):
    schedulers, transforms = m.optim.lr_scheduler, m.distributions.transforms
    classes = [
        schedulers.CyclicLR, schedulers.OneCycleLR, schedulers.LRScheduler, schedulers.StepLR, m.optim.Adafactor, m.optim.Muon,
        m.quasirandom.SobolEngine, transforms.Transform, transforms.ComposeTransform, transforms.IndependentTransform,
    ]  # fmt: skip
    return [f"{c.__module__}.{c.__qualname__}" for c in classes]


@program
def marks_with_times(m):
    return m.Event(enable_timing=True), m.Event()


@program
def what_is_no_backend(m):
    return each(lambda: m._dynamo.optimize(...), lambda: m._dynamo.optimize(None))
