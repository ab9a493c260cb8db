"""Programs that write to tensors and hand out views: what they do in eager mode is what they must do through graphs.

Each takes tensors and returns tensors. `x` and `y` are 3 x 4, `v` has 4 elements, `b` is a buffer that wants no gradient.
"""

import tocha
import tocha.utils.checkpoint

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


# -- writes to what the program made


@program
def add_in_place(x, y, v, b):
    z = x * 2
    z.add_(y)
    return z


@program
def chain_in_place(x, y, v, b):
    z = x.sin()
    z.mul_(y).add_(1).relu_()
    return z


@program
def write_to_row(x, y, v, b):
    z = x * y
    z[0] = v
    return z


@program
def write_number_to_element(x, y, v, b):
    z = x * 1
    z[1, 2] = 5.0
    return z


@program
def write_to_slice(x, y, v, b):
    z = x.clone()
    z[1:].mul_(y[1:])
    return z


@program
def write_to_strided_slice(x, y, v, b):
    z = x.clone()
    z[::2, 1::2] += 3
    return z


@program
def write_through_transpose(x, y, v, b):
    z = x * 2
    z.t()[1].copy_(v[:3])
    return z


@program
def write_through_view_of_view(x, y, v, b):
    z = x * 2
    z.view(2, 6)[0].view(3, 2).add_(1)
    return z


@program
def write_through_permute(x, y, v, b):
    z = (x * 2).view(3, 2, 2)
    z.permute(2, 0, 1)[1].mul_(3)
    return z


@program
def write_to_diagonal(x, y, v, b):
    z = x * 2
    z.diagonal().fill_(7)
    return z


@program
def write_to_part_of_split(x, y, v, b):
    z = x.detach() * 2
    first, second = z.split([1, 3], dim=1)
    second.mul_(3)
    return z * x, first


@program
def write_to_part_of_unbind(x, y, v, b):
    z = x.detach() * 2
    rows = z.unbind(0)
    rows[1].add_(1)
    return z * x, rows[0]


@program
def write_to_chunk(x, y, v, b):
    z = x.detach() * 2
    z.chunk(2, dim=1)[1].zero_()
    return z * x


@program
def write_through_squeeze(x, y, v, b):
    z = (x * 2).unsqueeze(1)
    z.squeeze(1).add_(y)
    return z


@program
def write_through_as_strided(x, y, v, b):
    z = x * 2
    z.as_strided((2, 2), (4, 1), 1).mul_(3)
    return z


@program
def base_after_view_is_written(x, y, v, b):
    z = x * 2
    row = z[0]
    row.mul_(v)
    return z.sum(0), row


@program
def view_after_base_is_written(x, y, v, b):
    z = x * 2
    row = z[0]
    z.mul_(y)
    return row * 2


@program
def two_views_of_one_base(x, y, v, b):
    z = x * 2
    a, c = z[0], z.view(-1)
    a.add_(1)
    c[5:].mul_(2)
    return a * 1, z


@program
def masked_write(x, y, v, b):
    z = x * 2
    z[y > 0.5] = 0.0
    return z


@program
def masked_fill(x, y, v, b):
    z = x * 2
    z.masked_fill_(y > 0.5, -1.0)
    return z


@program
def index_put(x, y, v, b):
    z = x * 2
    z[[0, 2]] = y[:2]
    return z


@program
def index_add(x, y, v, b):
    z = x * 2
    z.index_add_(0, tocha.tensor([0, 2]), y[:2])
    return z


@program
def scatter_in_place(x, y, v, b):
    z = x * 2
    z.scatter_(1, tocha.tensor([[0], [1], [2]]), 9.0)
    return z


@program
def out_of_an_operator(x, y, v, b):
    z = tocha.empty(3, 4)
    tocha.add(x.detach(), y.detach(), out=z)
    return z * x


@program
def out_into_a_view(x, y, v, b):
    z = tocha.zeros(2, 3, 4)
    tocha.mul(x.detach(), 2, out=z[1])
    return z + x


@program
def copy_of_another_dtype(x, y, v, b):
    z = tocha.zeros(3, 4, dtype=tocha.float64)
    z.copy_(x)
    return z * 2


@program
def accumulate_in_a_loop(x, y, v, b):
    z = tocha.zeros(4)
    for i in range(3):
        z += x[i] * v
    return z


@program
def fill_a_buffer_row_by_row(x, y, v, b):
    z = tocha.empty(3, 4)
    for i in range(3):
        z[i] = x[i] * (i + 1)
    return z


@program
def self_assignment(x, y, v, b):
    z = x * 2
    z[0] += z[1].clone()
    z[1] *= z[0].clone()
    return z


@program
def transposed_in_place(x, y, v, b):
    z = x * 2
    z.t_()
    z.add_(y.t())
    return z


@program
def squeezed_in_place(x, y, v, b):
    z = (x * 2).unsqueeze(0)
    z.squeeze_(0)
    z.mul_(y)
    return z


@program
def unsqueezed_in_place(x, y, v, b):
    z = x * 2
    z.unsqueeze_(0)
    return z * 2


@program
def write_then_detach(x, y, v, b):
    z = x * 2
    d = z.detach()
    return z * 3, d * 2


@program
def write_under_no_grad(x, y, v, b):
    z = x * 2
    with tocha.no_grad():
        z.mul_(3)
    return z + y


@program
def no_grad_region(x, y, v, b):
    with tocha.no_grad():
        scale = x.abs().max()
    return x / scale


@program
def swap_rows(x, y, v, b):
    z = x * 2
    first = z[0].clone()
    z[0] = z[1]
    z[1] = first
    return z


@program
def cumulative(x, y, v, b):
    z = x * 2
    for i in range(1, 3):
        z[i] = z[i] + z[i - 1].clone()
    return z


@program
def clamp_in_place(x, y, v, b):
    return (x * 2).clamp_(0.3, 1.5)


@program
def where_and_write(x, y, v, b):
    z = tocha.where(y > 0.5, x, x * 2)
    z[:, 0].zero_()
    return z


@program
def write_to_expanded_source(x, y, v, b):
    z = v.expand(3, 4).clone()
    z[0].add_(x[0])
    return z


# -- writes to inputs


@program
def buffer_added_to(x, y, v, b):
    b.add_(1)
    return x * b


@program
def buffer_updated_as_an_average(x, y, v, b):
    b.mul_(0.9).add_(x.detach().mean(), alpha=0.1)
    return (x - b).sum()


@program
def buffer_written_through_a_view(x, y, v, b):
    b[0].fill_(3)
    return x * b


@program
def buffer_overwritten(x, y, v, b):
    b.copy_(x.detach())
    return x * 2


@program
def buffer_zeroed_and_returned(x, y, v, b):
    b.zero_()
    return b, x * 2


@program
def buffer_view_returned(x, y, v, b):
    b.add_(1)
    return b.view(-1), x * 2


@program
def buffer_read_before_and_after(x, y, v, b):
    before = b * 1
    b.add_(x.detach())
    return before + x, b * x


@program
def buffer_transposed_view_written(x, y, v, b):
    b.t()[0].add_(1)
    return x + b


@program
def parameter_stepped_under_no_grad(x, y, v, b):
    out = x * y
    with tocha.no_grad():
        v.sub_(0.1)
    return out


@program
def counter(x, y, v, b):
    b[0, 0] += 1
    return x * b[0, 0]


@program
def two_buffers_by_views(x, y, v, b):
    b[:2].add_(1)
    b[1:].mul_(2)
    return x * b


# -- views and inputs among the results


@program
def input_itself(x, y, v, b):
    return x, x * 2


@program
def view_of_input(x, y, v, b):
    return x.view(-1), x.t(), x[1:]


@program
def row_of_input(x, y, v, b):
    return x[0], y * 2


@program
def detached_input(x, y, v, b):
    return x.detach(), x * 2


@program
def same_result_twice(x, y, v, b):
    z = x * y
    return z, z


@program
def result_and_its_view(x, y, v, b):
    z = x * y
    return z, z.view(-1), z[0]


@program
def two_views_of_one_hidden_base(x, y, v, b):
    z = x * y
    return z[0], z[1:]


@program
def parts_of_a_split(x, y, v, b):
    return (x * y).split(2, dim=1)


@program
def parts_of_unbind(x, y, v, b):
    return (x * y).unbind(0)


@program
def view_of_a_result_detached(x, y, v, b):
    z = x * y
    return z, z.detach()


@program
def expanded_result(x, y, v, b):
    return (v * 2).expand(3, 4), x * 2


@program
def input_as_is_and_written_buffer(x, y, v, b):
    b.add_(2)
    return x, b


# -- results without a gradient


@program
def indices(x, y, v, b):
    values, order = x.sort(dim=1)
    return values * 2, order


@program
def mask(x, y, v, b):
    return x > 0.5, x * 2


@program
def argmax(x, y, v, b):
    return x.argmax(1), x.max(1).values


@program
def constant_result(x, y, v, b):
    return tocha.ones(2), x * 2


@program
def number_and_none(x, y, v, b):
    return x * 2, None, 3


@program
def nothing_differentiable(x, y, v, b):
    return x.detach() * 2, b + 1


@program
def some_inputs_unused(x, y, v, b):
    return y * 3


# -- the rest


@program
def nested_results(x, y, v, b):
    return {"a": x * 2, "b": [y.sin(), (v * 2,)]}


@program
def closed_over(x, y, v, b):
    table = tocha.tensor([1.0, 2.0, 3.0, 4.0])
    table.mul_(2)
    return x * table


@program
def layer_norm(x, y, v, b):
    return tocha.nn.functional.layer_norm(x, (4,), v, v)


@program
def attention(x, y, v, b):
    q = x.view(1, 1, 3, 4)
    return tocha.nn.functional.scaled_dot_product_attention(q, q * 2, y.view(1, 1, 3, 4))


@program
def batch_norm(x, y, v, b):
    mean, var = b[0], b[1]
    return tocha.nn.functional.batch_norm(x, mean, var, v, v, training=True)


@program
def softmax_and_loss(x, y, v, b):
    return tocha.nn.functional.cross_entropy(x @ y.t(), tocha.tensor([0, 1, 2]))


@program
def custom_function(x, y, v, b):
    class Double(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    return Double.apply(x) + y


@program
def inner_gradient(x, y, v, b):
    (g,) = tocha.autograd.grad((x**3).sum(), x, create_graph=True)
    return g * y


@program
def reshape_that_copies(x, y, v, b):
    z = x.t().reshape(-1)
    z.add_(1)
    return z, x * 2


@program
def contiguous_that_copies(x, y, v, b):
    z = x.t().contiguous()
    z.mul_(y.t())
    return z


# -- geometry and memory of inputs


@program
def input_transposed_in_place(x, y, v, b):
    b.t_()
    return x @ b


@program
def input_unsqueezed_and_written(x, y, v, b):
    b.unsqueeze_(0)
    b.add_(1)
    return x * b


@program
def input_squeezed_after_a_view_is_taken(x, y, v, b):
    row = b[0]
    b.unsqueeze_(1)
    row.zero_()
    return b.squeeze(1) * x


@program
def written_through_data(x, y, v, b):
    b.data.mul_(2)
    return x * b


@program
def written_through_detach(x, y, v, b):
    z = x * 2
    z.detach().mul_(3)
    return z + y


@program
def written_several_times(x, y, v, b):
    b.add_(1)
    b.mul_(2)
    b[0].sub_(1)
    return x + b


@program
def own_tensor_resized(x, y, v, b):
    z = tocha.zeros(0)
    z.resize_(3, 4).fill_(2)
    return z * x


@program
def own_tensor_set(x, y, v, b):
    z = tocha.zeros(2)
    z.set_(x.detach() * 2)
    z.add_(1)
    return z * y


@program
def set_to_a_view_then_written(x, y, v, b):
    whole = x.detach() * 2
    z = tocha.zeros(1)
    z.set_(whole[1])
    z.add_(1)
    return z * v


@program
def out_resizes(x, y, v, b):
    z = tocha.empty(0)
    tocha.mul(x.detach(), 3, out=z)
    return z + x


@program
def written_input_has_a_history(x, y, v, b):
    y.mul_(x)
    return y + 1


@program
def view_of_a_written_input_with_a_history(x, y, v, b):
    y[0].mul_(v)
    return y[1:], y.sum()


@program
def input_set(x, y, v, b):
    b.set_(x.detach() * 2)
    return b + 1


@program
def input_set_to_more_elements(x, y, v, b):
    b.set_(tocha.ones(5, 6))
    return b * 2


@program
def input_resized(x, y, v, b):
    b.resize_(2, 2)
    b.fill_(3)
    return b + 1


@program
def input_grows(x, y, v, b):
    b.resize_(5, 6)
    b.fill_(3)
    return b + 1


@program
def lists_written(x, y, v, b):
    z, w = x * 2, b * 2
    tocha._foreach_add_([z, w], 1)
    return z, w * y


@program
def dropout(x, y, v, b):
    return tocha.nn.functional.dropout(x, 0.5) * x


@program
def random_numbers_twice(x, y, v, b):
    return x * tocha.rand(3, 4), y * tocha.randn(3, 4)


@program
def checkpointed(x, y, v, b):
    inner = lambda t: (t.sin() * t).exp()  # noqa: E731
    return tocha.utils.checkpoint.checkpoint(inner, x, use_reentrant=False) * y


@program
def hooked(x, y, v, b):
    z = x * 2
    if z.requires_grad:
        z.register_hook(lambda g: g * 3)
    return z.sin()


@program
def function_that_marks_dirty(x, y, v, b):
    class AddOne(tocha.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            t.add_(1)
            ctx.mark_dirty(t)
            return t

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    return AddOne.apply(x * 2)
