"""Layers of recurrent cells, step by step: products and the cells' formulas."""

from __future__ import annotations

from tocha.operators.decomposed.parts import empty, raised
from tocha.operators.record import decomposition, op
from tocha.operators.recurrent import (
    GRU,
    LSTM,
    _recurrent_layer,
    _recurrent_layer_backward,
    cell_backward,
    cell_forward,
    with_rest,
)


def steps_of(batch_sizes, reverse):
    """For each step in the order of time: where its rows begin, and how many there are."""
    firsts = [sum(batch_sizes[:t]) for t in range(len(batch_sizes))]
    steps = list(zip(firsts, batch_sizes, strict=True))
    return steps[::-1] if reverse else steps


def joined(parts, reverse):
    """What was made step by step, in the data's order."""
    return op.cat(parts[::-1] if reverse else parts, 0)


def maybe_raised(x):
    return None if x is None else raised(x)


@decomposition(_recurrent_layer)
def recurrent_layer_in_parts(input, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, batch_sizes, cell, reverse):
    x = op.nn_linear(raised(input), raised(w_ih), maybe_raised(b_ih))
    h, c = raised(h0), maybe_raised(c0)
    state, outputs, gates, cells, raw = (4 if cell in (LSTM, GRU) else 0), [], [], [], []
    for first, n in steps_of(batch_sizes, reverse):
        before = h.narrow(0, 0, n)
        sums = op.nn_linear(before, raised(w_hh), maybe_raised(b_hh))
        acts = cell_forward(cell, x.narrow(0, first, n), before, None if c is None else c.narrow(0, 0, n), sums)
        out = acts[state] if w_hr is None else op.nn_linear(acts[state], raised(w_hr))
        outputs.append(out)
        raw.append(acts[state])
        if cell in (LSTM, GRU):
            gates.append(op.cat(acts[:4], 1))
        h = with_rest(out, h)
        if cell == LSTM:
            cells.append(acts[5])
            c = with_rest(acts[5], c)
    rows, samples = input.size(0), h0.size(0)

    def none(n, dtype):
        return op.zeros([n, 0], dtype=dtype, device=input.device)

    return (
        joined(outputs, reverse).to(input.dtype),
        h.to(input.dtype),
        c.to(input.dtype) if cell == LSTM else none(samples, input.dtype),
        joined(gates, reverse) if gates else none(rows, x.dtype),
        joined(cells, reverse) if cells else none(rows, x.dtype),
        none(rows, x.dtype) if w_hr is None else joined(raw, reverse),
    )


def kept_activations(cell, gates, cells, output, raw, first, n):
    """What cell_forward returned, from what was kept of it."""
    state = (output if raw is None else raw).narrow(0, first, n)
    if cell not in (LSTM, GRU):
        return [state]
    parts = list(gates.narrow(0, first, n).chunk(4, 1))
    return [*parts, state, cells.narrow(0, first, n)] if cell == LSTM else [*parts, state]


@decomposition(_recurrent_layer_backward)
def recurrent_layer_backward_in_parts(
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
    steps = steps_of(batch_sizes, reverse)
    y, weight, projection = raised(output), raised(w_hh), maybe_raised(w_hr)
    dh = op.zeros_like(raised(h0)) if grad_h is None else raised(grad_h)
    dc = None
    if cell == LSTM:
        dc = op.zeros_like(raised(c0)) if grad_c is None else raised(grad_c)
    to_x, to_hidden, to_projected, before_all = [], [], [], []
    for k in reversed(range(len(steps))):
        first, n = steps[k]
        # The state before: the last step's output, and h0 for samples that begin here.
        h, c = raised(h0).narrow(0, 0, n), None if cell != LSTM else raised(c0).narrow(0, 0, n)
        if k > 0:
            start, m = steps[k - 1]
            h = with_rest(y.narrow(0, start, min(m, n)), h)
            if cell == LSTM:
                c = with_rest(cells.narrow(0, start, min(m, n)), c)
        d = dh.narrow(0, 0, n)
        if grad_output is not None:
            d = d + raised(grad_output).narrow(0, first, n)
        acts = kept_activations(cell, gates, cells, y, None if w_hr is None else raw, first, n)
        to_state = d if w_hr is None else d @ projection
        slopes = cell_backward(cell, acts, h, c, to_state, None if dc is None else dc.narrow(0, 0, n))
        to_x.append(slopes[0])
        to_hidden.append(slopes[1])
        to_projected.append(d)
        before_all.append(h)
        dh = with_rest(slopes[1] @ weight + slopes[2], dh)
        if dc is not None:
            dc = with_rest(slopes[3], dc)
    # They were filled backwards.
    sums, inner = joined(to_x, not reverse), joined(to_hidden, not reverse)
    before, projected = joined(before_all, not reverse), joined(to_projected, not reverse)
    dtype, none = input.dtype, empty(input)
    with_bias = wanted[5] or wanted[6]
    return (
        (sums @ raised(w_ih)).to(dtype) if wanted[0] else none,
        dh.to(dtype),
        dc.to(dtype) if dc is not None else op.zeros([h0.size(0), 0], dtype=dtype, device=input.device),
        (sums.t() @ raised(input)).to(dtype) if wanted[3] else none,
        (inner.t() @ before).to(dtype) if wanted[4] else none,
        op.sum(sums, [0]).to(dtype) if with_bias else none,
        op.sum(inner, [0]).to(dtype) if with_bias and cell == GRU else none,
        none if w_hr is None or not wanted[7] else (projected.t() @ raw).to(dtype),
    )
