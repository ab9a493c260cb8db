"""Compiled autograd: the walk back becomes graphs, with hooks and accumulation, and gives what the engine gives."""

import pytest
from comparing import same

import tocha
from tocha import nn
from tocha._dynamo import compiled_autograd, config
from tocha._dynamo.testing import CompileCounterWithBackend

DATA = tocha.arange(12.0).reshape(3, 4) / 7


@pytest.fixture(params=["eager", "aot_eager"])
def counter(request):
    return CompileCounterWithBackend(request.param)


@pytest.fixture
def compiler(counter):
    return lambda module: tocha.compile(module, backend=counter)


def model():
    tocha.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.LayerNorm(4))


def trained(net, loss=lambda y: (y * y).sum(), steps=3, prepare=lambda net, log: None, forward=None):
    """What training leaves: parameters, gradients, and what hooks wrote down."""
    log = []
    prepare(net, log)
    optimizer = tocha.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        loss((forward or net)(DATA)).backward()
        if step % 2:  # two walks are added up
            optimizer.step()
            optimizer.zero_grad()
    return [p.detach().clone() for p in net.parameters()], [p.grad for p in net.parameters()], log


def agrees(compiler, **how):
    expected = trained(model(), **how)
    with compiled_autograd._enable(compiler):
        return same(trained(model(), **how), expected)


def test_gradients_are_the_engine_s_and_one_walk_is_compiled_once(compiler, counter):
    assert agrees(compiler)
    assert counter.frame_count == 2  # where gradients are new, and where they are added to
    assert len(compiled_autograd._CACHE) == 1


def test_hooks_of_tensors_and_of_leaves(compiler):
    def prepare(net, log):
        net[0].weight.register_hook(lambda g: g * 2)
        net[0].weight.register_hook(lambda g: log.append("seen"))
        net[2].weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.shape))

    def loss(y):
        y.register_hook(lambda g: g + 0.5)
        return (y * y).sum()

    assert agrees(compiler, prepare=prepare, loss=loss)


def test_hooks_of_nodes(compiler):
    def loss(y):
        found = (y * y).sum()
        found.grad_fn.register_hook(lambda results, grads: (results[0] * 3,))
        found.grad_fn.register_prehook(lambda grads: (grads[0] * 0.5,))
        return found

    assert agrees(compiler, loss=loss)


def test_a_hook_that_breaks_the_graph(compiler, counter):
    def prepare(net, log):
        def hook(grad):
            log.append(float(grad.sum()) > 100)
            tocha._dynamo.graph_break()
            return grad * 2

        net[2].weight.register_hook(hook)

    assert agrees(compiler, prepare=prepare)
    assert counter.frame_count > 1


def test_a_hook_must_keep_the_shape(compiler):
    x = tocha.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g[:1])
    with compiled_autograd._enable(compiler), pytest.raises(RuntimeError, match="backward hook has changed"):
        y.sum().backward()


def test_gradients_that_are_retained(compiler):
    def run():
        x = tocha.ones(3, requires_grad=True)
        y = x * 2
        y.retain_grad()
        (y * y).sum().backward()
        return x.grad, y.grad

    expected = run()
    with compiled_autograd._enable(compiler):
        assert same(run(), expected)


def test_grad_of_inputs_and_backward_into_some(compiler):
    def run():
        a, b = tocha.ones(3, requires_grad=True), tocha.full((3,), 2.0, requires_grad=True)
        found = tocha.autograd.grad((a * b).sin().sum(), [a, b])
        (a * b).sum().backward(inputs=[b])
        unused = tocha.autograd.grad((a * 2).sum(), [a, b], allow_unused=True)
        return found, a.grad, b.grad, unused

    expected = run()
    with compiled_autograd._enable(compiler):
        assert same(run(), expected)


def test_a_compiled_model_s_backward_becomes_part_of_the_walk(compiler, counter):
    expected = trained(model())
    net = model()
    with compiled_autograd._enable(compiler):
        assert same(trained(net, forward=tocha.compile(net, backend="aot_eager")), expected)
    assert counter.op_count > 10  # what the model's backward calls


class Square(tocha.autograd.Function):
    runs = 0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        Square.runs += 1
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_functions_of_the_program_run_each_time(compiler):
    def run(n):
        x = tocha.full((3,), n, requires_grad=True)
        y = Square.apply(x.sin()).clone()
        y[1:].mul_(2)  # a write to a view
        y.sum().backward()
        return x.grad

    expected, Square.runs = [run(n) for n in (1.0, 2.0, 3.0)], 0
    with compiled_autograd._enable(compiler):
        assert same([run(n) for n in (1.0, 2.0, 3.0)], expected)
    assert Square.runs == 3


def test_what_a_node_keeps_is_an_input_and_numbers_are_part_of_the_key(compiler):
    def run(k, n):
        x = tocha.full((n,), 2.0, requires_grad=True)
        (x**k).sum().backward()
        return x.grad

    cases = [(2, 3), (2, 3), (3, 3), (2, 5)]
    expected = [run(*c) for c in cases]
    with compiled_autograd._enable(compiler):
        assert same([run(*c) for c in cases], expected)
    assert len(compiled_autograd._CACHE) == 3


def test_saved_tensors_that_were_packed(compiler):
    def run():
        x = tocha.full((3,), 2.0, requires_grad=True)
        with tocha.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t + 1):
            y = (x * x).sum()
        y.backward()
        return x.grad

    expected = run()
    with compiled_autograd._enable(compiler):
        assert same(run(), expected)


def test_graphs_are_released_and_kept_as_by_the_engine(compiler):
    x = tocha.ones(3, requires_grad=True)
    with compiled_autograd._enable(compiler):
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert same(x.grad, tocha.full((3,), 4.0))
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        with pytest.raises(RuntimeError, match="create_graph"):
            tocha.autograd.grad((x * x).sum(), x, create_graph=True)


def test_it_can_be_switched_off_inside(compiler, counter):
    x = tocha.ones(3, requires_grad=True)
    with compiled_autograd._enable(compiler), compiled_autograd._disable():
        (x * x).sum().backward()
    assert counter.frame_count == 0
    (x * x).sum().backward()
    assert counter.frame_count == 0


def test_by_config_backward_in_a_compiled_function_is_compiled(counter):
    def step(net, x):
        loss = (net(x) ** 2).sum()
        loss.backward()
        return loss.detach()

    expected = model()
    step(expected, DATA)
    net = model()
    with config.patch(compiled_autograd=True):
        compiled = tocha.compile(step, backend=counter)
    compiled(net, DATA)
    assert same([p.grad for p in net.parameters()], [p.grad for p in expected.parameters()])
    assert counter.frame_count == 3  # the loss; the walk, with its accumulation; and what comes after it
    plain = CompileCounterWithBackend("eager")
    net = model()
    tocha.compile(step, backend=plain)(net, DATA)
    assert plain.frame_count == 2


def test_nodes_can_be_called():
    x = tocha.ones(3, requires_grad=True)
    y = (x * 2).sum()
    assert same(y.grad_fn(tocha.tensor(2.0)), tocha.full((3,), 2.0))
    product = y.grad_fn.next_functions[0][0]
    assert same(product(tocha.ones(3))[0], tocha.full((3,), 2.0))
    with pytest.raises(TypeError, match="expected Tensor or None"):
        y.grad_fn(1.0)


def test_what_hooks_queue_is_called_when_the_walk_has_ended(compiler):
    seen = []
    x = tocha.ones(2, requires_grad=True)

    def queue(grad):
        tocha.autograd.Variable._execution_engine.queue_callback(lambda: seen.append(x.grad.tolist()))
        seen.append("hook")

    with compiled_autograd._enable(compiler):
        y = x * 2
        y.register_hook(queue)
        y.sum().backward()
    assert seen == ["hook", [2.0, 2.0]]
