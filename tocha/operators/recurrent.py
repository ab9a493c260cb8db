"""Recurrent networks: a layer of LSTM, GRU or plain cells in one direction is one operator; lstm, gru, rnn_tanh and
rnn_relu stack layers, and the cells are layers of one step.

Data is packed: the samples of the first step, then those of the second, and so on; batch_sizes tells how many each
step has, never more than the one before. Sequences of one length are the case where all are equal.
"""

from __future__ import annotations

from functools import partial

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, gradient, native, op, rule
from tocha.operators.rules import Out, apart, ints_of, recording, refuse_dtype

LSTM, GRU, TANH, RELU = 0, 1, 2, 3  # as csrc/cpu/recurrent/layers.cpp numbers them


@rule
def check_layer(
    input: "Tensor", h0: "Tensor", c0: "Tensor?", w_ih: "Tensor", w_hh: "Tensor", batch_sizes: "int[]", cell: "int"
) -> "none":
    if not input.is_floating_point():
        refuse_dtype("rnn", input.dtype)
    for t in [h0, w_ih, w_hh]:
        if t.dtype != input.dtype:
            raise RuntimeError(
                f"[rnn] input is {input.dtype}, but state and weights are {h0.dtype}, {w_ih.dtype} and {w_hh.dtype}"
            )
    if input.dim() != 2 or h0.dim() != 2 or w_ih.dim() != 2 or w_hh.dim() != 2:
        raise RuntimeError(
            f"[rnn] a step's input {input.shape}, state {h0.shape} and weights {w_ih.shape} and {w_hh.shape} need 2 dims"
        )
    gates = 4 if cell == LSTM else (3 if cell == GRU else 1)
    hidden = w_hh.size(0) // gates
    if input.size(1) != w_ih.size(1):
        raise RuntimeError(
            f"[rnn] input has inconsistent input_size: got {input.size(1)} expected {w_ih.size(1)}, for weights of {w_ih.shape}"
        )
    if w_ih.size(0) != gates * hidden or w_hh.size(0) != gates * hidden:
        raise RuntimeError(
            f"[rnn] weights of {w_ih.shape} and {w_hh.shape} do not fit an input of {input.shape} with {gates} gates"
        )
    if h0.size(1) != w_hh.size(1):
        raise RuntimeError(f"[rnn] hidden0 has inconsistent hidden_size: got {h0.size(1)}, expected {w_hh.size(1)}")
    if len(batch_sizes) == 1 and batch_sizes[0] != h0.size(0):
        raise RuntimeError(f"[rnn] Input batch size {batch_sizes[0]} doesn't match hidden0 batch size {h0.size(0)}")
    if c0 is not None and c0.shape != [h0.size(0), hidden]:
        raise RuntimeError(f"[rnn] an initial state of {h0.shape} does not fit weights of {w_hh.shape}")
    if len(batch_sizes) == 0 or sum(batch_sizes) != input.size(0) or batch_sizes[0] != h0.size(0):
        raise RuntimeError(
            f"[rnn] steps of {batch_sizes} samples do not fit an input of {input.shape} and a state of {h0.shape}"
        )
    for i in range(1, len(batch_sizes)):
        if batch_sizes[i] > batch_sizes[i - 1] or (batch_sizes[i] < 1 and batch_sizes[0] > 0):
            raise RuntimeError(f"[rnn] batch sizes must not grow and must be positive, but got {batch_sizes}")


@rule
def compute_dtype(d: "dtype") -> "dtype":
    return dt.float64 if d == dt.float64 else dt.float32


@native(
    "_recurrent_layer(Tensor input, Tensor h0, Tensor? c0, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor? w_hr, int[] batch_sizes, int cell, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    variants="",
    differentiable=(0, 1, 2),
)
def _recurrent_layer(input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, cell, reverse):
    """One layer in one direction: its outputs, the last state and cell, and, for backward, the gates, the cells, and
    the outputs before w_hr.
    """
    check_layer(input, h0, c0, w_ih, w_hh, batch_sizes, cell)
    rows, kept = input.size(0), compute_dtype(input.dtype)
    hidden = w_hh.size(0) // 4 if cell == LSTM else h0.size(1)
    gates = 4 if cell in (LSTM, GRU) else 0
    return (
        Out([rows, h0.size(1)], input.dtype),
        Out(h0.shape, input.dtype),
        Out([h0.size(0), hidden if cell == LSTM else 0], input.dtype),
        Out([rows, gates * hidden], kept),
        Out([rows, hidden if cell == LSTM else 0], kept),
        Out([rows, 0 if w_hr is None else hidden], kept),
    )


@native(
    "_recurrent_layer_backward(Tensor? grad_output, Tensor? grad_h, Tensor? grad_c, Tensor input, Tensor h0, Tensor? c0, Tensor w_ih, Tensor w_hh, Tensor? w_hr, Tensor output, Tensor gates, Tensor cells, Tensor raw, int[] batch_sizes, int cell, bool reverse, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    variants="",
    tags=frozenset({"no_gradient"}),  # where one is wanted, layer_slopes is called instead
)
def _recurrent_layer_backward(
    grad_output,
    grad_h,
    grad_c,
    input,
    h0,
    c0,
    w_ih,
    w_hh,
    w_hr,
    output,
    gates,
    cells,
    raw,
    batch_sizes,
    cell,
    reverse,
    wanted,
):
    """The gradients of a layer's tensors; those of weights, biases and input are empty where not wanted. The biases
    of LSTM and plain cells have one gradient.
    """
    none = [0]
    d = input.dtype
    bias = [w_ih.size(0)] if wanted[5] or wanted[6] else none
    return (
        Out(input.shape if wanted[0] else none, d),
        Out(h0.shape, d),
        Out([h0.size(0), w_hh.size(0) // 4 if cell == LSTM else 0], d),
        Out(w_ih.shape if wanted[3] else none, d),
        Out(w_hh.shape if wanted[4] else none, d),
        Out(bias, d),
        Out(bias if cell == GRU else none, d),
        Out(none if w_hr is None or not wanted[7] else [h0.size(1), w_hh.size(0) // 4], d),
    )


# -- the gradient in operators, for derivatives of it ------------------------------------------------


@rule
def cell_forward(cell: "int", x: "Tensor", h: "Tensor", c: "Tensor?", hidden_sums: "Tensor") -> "Tensor[]":
    """A step's activations, then the state (before any projection) and, for LSTM, the cell."""
    if cell == LSTM:
        s = (x + hidden_sums).chunk(4, 1)
        i, f, g, o = s[0].sigmoid(), s[1].sigmoid(), s[2].tanh(), s[3].sigmoid()
        after = f * c + i * g
        return [i, f, g, o, o * after.tanh(), after]
    if cell == GRU:
        a, b = x.chunk(3, 1), hidden_sums.chunk(3, 1)
        r, z = (a[0] + b[0]).sigmoid(), (a[1] + b[1]).sigmoid()
        m = (a[2] + r * b[2]).tanh()
        return [r, z, m, b[2], m + z * (h - m)]
    return [(x + hidden_sums).tanh() if cell == TANH else (x + hidden_sums).relu()]


@rule
def cell_backward(cell: "int", acts: "Tensor[]", h: "Tensor", c: "Tensor?", dh: "Tensor", dc: "Tensor?") -> "Tensor[]":
    """The gradients of the sums from the input and of those from the state, what reaches the state before directly,
    and, for LSTM, the gradient of the cell before.
    """
    if cell == LSTM:
        i, f, g, o, t = acts[0], acts[1], acts[2], acts[3], acts[5].tanh()
        d = dc + dh * o * (1 - t * t)
        sums = op.cat([d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)], 1)
        return [sums, sums, op.zeros_like(h), d * f]
    if cell == GRU:
        r, z, m = acts[0], acts[1], acts[2]
        dm = dh * (1 - z) * (1 - m * m)
        dr, dz = dm * acts[3] * r * (1 - r), dh * (h - m) * z * (1 - z)
        return [op.cat([dr, dz, dm], 1), op.cat([dr, dz, dm * r], 1), dh * z]
    y = acts[0]
    sums = dh * (1 - y * y) if cell == TANH else dh * (y > 0)
    return [sums, sums, op.zeros_like(h)]


@rule
def with_rest(part: "Tensor", whole: "Tensor") -> "Tensor":
    """whole with its first rows replaced."""
    n = part.size(0)
    return part if n == whole.size(0) else op.cat([part, whole.narrow(0, n, whole.size(0) - n)], 0)


@rule
def start_of(t: "Tensor?", like: "Tensor") -> "Tensor":
    return op.zeros_like(like) if t is None else t


@rule
def layer_slopes(
    grad_output: "Tensor?",
    grad_h: "Tensor?",
    grad_c: "Tensor?",
    input: "Tensor",
    h0: "Tensor",
    c0: "Tensor?",
    w_ih: "Tensor",
    w_hh: "Tensor",
    b_ih: "Tensor?",
    b_hh: "Tensor?",
    w_hr: "Tensor?",
    batch_sizes: "int[]",
    cell: "int",
    reverse: "bool",
) -> "(Tensor|Tensor|Tensor?|Tensor|Tensor|Tensor|Tensor|Tensor?)":
    """What _recurrent_layer_backward computes, step by step from operators that have gradients themselves."""
    counts = batch_sizes[::-1] if reverse else list(batch_sizes)
    firsts = [0] * len(counts)
    position = 0
    for k in range(len(counts)):
        t = len(counts) - 1 - k if reverse else k
        if reverse:
            position = sum(batch_sizes[:t])
        firsts[k] = position
        position += counts[k]

    per = 6 if cell == LSTM else (5 if cell == GRU else 1)
    at_state = 4 if per > 4 else 0
    x = op.nn_linear(input, w_ih, b_ih)
    h = h0
    c: "Tensor?" = c0
    acts: "Tensor[]" = []
    states: "Tensor[]" = []  # before each step
    cells: "Tensor[]" = []
    for k in range(len(counts)):
        n = counts[k]
        states.append(h.narrow(0, 0, n))
        before: "Tensor?" = None
        if c is not None:
            before = c.narrow(0, 0, n)
            cells.append(before)
        step = cell_forward(cell, x.narrow(0, firsts[k], n), states[k], before, op.nn_linear(states[k], w_hh, b_hh))
        acts.extend(step)
        h = with_rest(step[at_state] if w_hr is None else op.nn_linear(step[at_state], w_hr), h)
        if c is not None:
            c = with_rest(step[5], c)

    dh = start_of(grad_h, h0)
    dc: "Tensor?" = None
    if c0 is not None:
        dc = start_of(grad_c, c0)
    to_x: "Tensor[]" = []
    to_hidden: "Tensor[]" = []
    to_projected: "Tensor[]" = []
    raw: "Tensor[]" = []
    for k in reversed(range(len(counts))):
        n = counts[k]
        d = dh.narrow(0, 0, n)
        if grad_output is not None:
            d = d + grad_output.narrow(0, firsts[k], n)
        step = acts[per * k : per * (k + 1)]
        to_projected.append(d)
        raw.append(step[at_state])
        before = None
        later: "Tensor?" = None
        if dc is not None:
            before = cells[k]
            later = dc.narrow(0, 0, n)
        slopes = cell_backward(cell, step, states[k], before, d if w_hr is None else d @ w_hr, later)
        to_x.append(slopes[0])
        to_hidden.append(slopes[1])
        dh = with_rest(slopes[1] @ w_hh + slopes[2], dh)
        if dc is not None:
            dc = with_rest(slopes[3], dc)

    # All lists that were filled backwards are in the data's order if the layer ran in reverse.
    sums = op.cat(to_x if reverse else to_x[::-1], 0)
    inner = op.cat(to_hidden if reverse else to_hidden[::-1], 0)
    before_all = op.cat(states[::-1] if reverse else states, 0)
    to_w_hr: "Tensor?" = None
    if w_hr is not None:
        to_w_hr = op.cat(to_projected, 0).t() @ op.cat(raw, 0)
    return (
        sums @ w_ih,
        dh,
        dc,
        sums.t() @ input,
        inner.t() @ before_all,
        sums.sum([0]),
        inner.sum([0]),
        to_w_hr,
    )


@gradient(_recurrent_layer, "input", "h0", "c0", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
def recurrent_layer_gradient(
    grad0,
    grad1,
    grad2,
    input,
    h0,
    c0,
    w_ih,
    w_hh,
    b_ih,
    b_hh,
    w_hr,
    batch_sizes,
    cell,
    reverse,
    result0,
    result3,
    result4,
    result5,
    wanted,
):
    if recording():
        to_x, to_h, to_c, to_w_ih, to_w_hh, to_b_ih, to_b_hh, to_w_hr = layer_slopes(
            grad0, grad1, grad2, input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, cell, reverse
        )
        return to_x, to_h, to_c, to_w_ih, to_w_hh, to_b_ih, to_b_hh, to_w_hr
    found = op._recurrent_layer_backward(
        grad0,
        grad1,
        grad2,
        input,
        h0,
        c0,
        w_ih,
        w_hh,
        w_hr,
        result0,
        result3,
        result4,
        result5,
        batch_sizes,
        cell,
        reverse,
        wanted,
    )
    return (
        found[0],
        found[1],
        found[2],
        found[3],
        found[4],
        found[5],
        found[6] if cell == GRU else found[5],
        found[7],
    )


# -- networks ----------------------------------------------------------------------------------------


@rule
def stacked_layers(
    data: "Tensor",
    hx: "Tensor",
    cx: "Tensor?",
    params: "Tensor[]",
    has_biases: "bool",
    num_layers: "int",
    dropout: "float",
    train: "bool",
    bidirectional: "bool",
    batch_sizes: "int[]",
    cell: "int",
) -> "(Tensor|Tensor|Tensor)":
    """Layers on top of each other, each in one or two directions: outputs, last states, last cells."""
    directions = 2 if bidirectional else 1
    projected = cx is not None and cx.size(2) != hx.size(2)
    per = (4 if has_biases else 2) + (1 if projected else 0)
    if len(params) != per * num_layers * directions:
        raise RuntimeError(
            f"[rnn] expected {per * num_layers * directions} parameters for {num_layers} layers, but got {len(params)}"
        )
    if hx.dim() != 3 or hx.size(0) != num_layers * directions:
        raise RuntimeError(
            f"[rnn] expected an initial state for {num_layers * directions} layers and directions, but got {hx.shape}"
        )
    states: "Tensor[]" = []
    cells: "Tensor[]" = []
    for layer in range(num_layers):
        outputs: "Tensor[]" = []
        for direction in range(directions):
            index = layer * directions + direction
            p = params[per * index : per * (index + 1)]
            b_ih: "Tensor?" = None
            b_hh: "Tensor?" = None
            w_hr: "Tensor?" = None
            c0: "Tensor?" = None
            if has_biases:
                b_ih = p[2]
                b_hh = p[3]
            if projected:
                w_hr = p[per - 1]
            if cx is not None:
                c0 = cx.select(0, index)
            found = op._recurrent_layer(
                data, hx.select(0, index), c0, p[0], p[1], b_ih, b_hh, w_hr, batch_sizes, cell, direction == 1
            )
            outputs.append(found[0])
            states.append(found[1])
            cells.append(found[2])
        data = outputs[0] if directions == 1 else op.cat(outputs, 1)
        if train and dropout > 0 and layer < num_layers - 1:
            data = op.dropout(data, dropout, True)
    return data if directions == 2 else apart(data), op.stack(states, 0), op.stack(cells, 0)


@rule
def padded_layers(
    input: "Tensor",
    hx: "Tensor",
    cx: "Tensor?",
    params: "Tensor[]",
    has_biases: "bool",
    num_layers: "int",
    dropout: "float",
    train: "bool",
    bidirectional: "bool",
    batch_first: "bool",
    cell: "int",
) -> "(Tensor|Tensor|Tensor)":
    """stacked_layers of sequences of one length: [steps, samples, features], or samples first."""
    if input.dim() != 3:
        raise RuntimeError(f"[rnn] expected an input with 3 dims, but got {input.shape}")
    x = input.transpose(0, 1) if batch_first else input
    steps, samples = x.size(0), x.size(1)
    if steps == 0:
        raise RuntimeError("[rnn] Expected sequence length to be larger than 0 in RNN")
    out, h, c = stacked_layers(
        x.reshape([steps * samples, x.size(2)]),
        hx,
        cx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        [samples] * steps,
        cell,
    )
    out = out.view([steps, samples, out.size(1)])
    return out.transpose(0, 1) if batch_first else out, h, c


network = partial(composite, variants="function")
_PADDED = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
_PACKED = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def weights(t, gates, inputs, hidden, outputs=None):
    """Parameters of one layer, for samples."""
    outputs = outputs or hidden
    made = (t(gates * hidden, inputs), t(gates * hidden, outputs), t(gates * hidden), t(gates * hidden))
    return made if outputs == hidden else (*made, t(outputs, hidden))


def padded_sample(t, gates, states):
    hx = tuple(t(1, 2, 4) for _ in range(states))
    return [((t(3, 2, 5), hx if states > 1 else hx[0], weights(t, gates, 5, 4), True, 1, 0.0, False, False, False), {})]


def packed_sample(t, gates, states):
    hx = tuple(t(1, 2, 4) for _ in range(states))
    sizes = t.of([2, 2, 1])
    return [((t(5, 5), sizes, hx if states > 1 else hx[0], weights(t, gates, 5, 4), True, 1, 0.0, False, False), {})]


@network(
    f"lstm.input(Tensor input, Tensor[] hx, Tensor[] params, {_PADDED}) -> (Tensor, Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: padded_sample(t, 4, 2),
    tags=frozenset({"nondeterministic_seeded"}),
)
def lstm_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A long short-term memory network over sequences: outputs, last states, last cells."""
    if len(hx) != 2:
        raise RuntimeError(f"[lstm] expects two hidden states, but got {len(hx)}")
    return padded_layers(
        input, hx[0], hx[1], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, LSTM
    )


@network(
    f"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, {_PACKED}) -> (Tensor, Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: packed_sample(t, 4, 2),
    tags=frozenset({"nondeterministic_seeded", "reads_values"}),
)
def lstm_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """lstm over packed sequences."""
    if len(hx) != 2:
        raise RuntimeError(f"[lstm] expects two hidden states, but got {len(hx)}")
    return stacked_layers(
        data,
        hx[0],
        hx[1],
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        ints_of(batch_sizes),
        LSTM,
    )


@network(
    f"gru.input(Tensor input, Tensor hx, Tensor[] params, {_PADDED}) -> (Tensor, Tensor)",
    autocast="state",
    samples=lambda t: padded_sample(t, 3, 1),
    tags=frozenset({"nondeterministic_seeded"}),
)
def gru_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A network of gated recurrent units over sequences: outputs and last states."""
    found = padded_layers(
        input, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, GRU
    )
    return found[0], found[1]


@network(
    f"gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, {_PACKED}) -> (Tensor, Tensor)",
    autocast="state",
    samples=lambda t: packed_sample(t, 3, 1),
    tags=frozenset({"nondeterministic_seeded", "reads_values"}),
)
def gru_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """gru over packed sequences."""
    sizes = ints_of(batch_sizes)
    found = stacked_layers(data, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, sizes, GRU)
    return found[0], found[1]


@network(
    f"rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, {_PADDED}) -> (Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: padded_sample(t, 1, 1),
    tags=frozenset({"nondeterministic_seeded"}),
)
def rnn_tanh_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A plain recurrent network with tanh over sequences: outputs and last states."""
    found = padded_layers(
        input, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, TANH
    )
    return found[0], found[1]


@network(
    f"rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, {_PACKED}) -> (Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: packed_sample(t, 1, 1),
    tags=frozenset({"nondeterministic_seeded", "reads_values"}),
)
def rnn_tanh_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """rnn_tanh over packed sequences."""
    sizes = ints_of(batch_sizes)
    found = stacked_layers(data, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, sizes, TANH)
    return found[0], found[1]


@network(
    f"rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, {_PADDED}) -> (Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: padded_sample(t, 1, 1),
    tags=frozenset({"nondeterministic_seeded"}),
)
def rnn_relu_input(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A plain recurrent network with relu over sequences: outputs and last states."""
    found = padded_layers(
        input, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, RELU
    )
    return found[0], found[1]


@network(
    f"rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, {_PACKED}) -> (Tensor, Tensor)",
    autocast="lower",
    samples=lambda t: packed_sample(t, 1, 1),
    tags=frozenset({"nondeterministic_seeded", "reads_values"}),
)
def rnn_relu_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """rnn_relu over packed sequences."""
    sizes = ints_of(batch_sizes)
    found = stacked_layers(data, hx, None, params, has_biases, num_layers, dropout, train, bidirectional, sizes, RELU)
    return found[0], found[1]


# -- cells -------------------------------------------------------------------------------------------

_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"


def cell_sample(t, gates):
    return [((t(2, 5), t(2, 4), *weights(t, gates, 5, 4)), {})]


@network(
    f"lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)",
    autocast="state",
    samples=lambda t: [((t(2, 5), (t(2, 4), t(2, 4)), *weights(t, 4, 5, 4)), {})],
)
def lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of an LSTM: the new state and cell."""
    if len(hx) != 2:
        raise RuntimeError(f"[lstm_cell] expects two hidden states, but got {len(hx)}")
    found = op._recurrent_layer(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh, None, [input.size(0)], LSTM, False)
    return found[1], found[2]


@network(f"gru_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", autocast="state", samples=lambda t: cell_sample(t, 3))
def gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of a gated recurrent unit."""
    return op._recurrent_layer(input, hx, None, w_ih, w_hh, b_ih, b_hh, None, [input.size(0)], GRU, False)[1]


@network(
    f"rnn_tanh_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", autocast="lower", samples=lambda t: cell_sample(t, 1)
)
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """tanh(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)."""
    return op._recurrent_layer(input, hx, None, w_ih, w_hh, b_ih, b_hh, None, [input.size(0)], TANH, False)[1]


@network(
    f"rnn_relu_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", autocast="lower", samples=lambda t: cell_sample(t, 1)
)
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh):
    """relu(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)."""
    return op._recurrent_layer(input, hx, None, w_ih, w_hh, b_ih, b_hh, None, [input.size(0)], RELU, False)[1]
