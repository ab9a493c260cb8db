"""torchaudio's operators, in place of its extension (which is linked against PyTorch): loaded by `ops.load_library`."""

from __future__ import annotations

from collections.abc import Callable

import tocha
from tocha import _C, Tensor
from tocha.library import Library

_library = Library("torchaudio", "DEF")
_about = Library("_torchaudio", "DEF")
_NEVER = -float("inf")


def _operator(schema: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        _library.define(schema)
        _library.impl(schema.partition("(")[0], function, "CPU")
        return function

    return register


for _schema, _answer in (("is_align_available() -> bool", True), ("cuda_version() -> int?", None)):
    _about.define(_schema)
    _about.impl(_schema.partition("(")[0], lambda answer=_answer: answer, "CompositeExplicitAutograd")


# -- filters -----------------------------------------------------------------------------------------------


@_operator(
    "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> Tensor(a!)"
)
def _lfilter_core_loop(windows: Tensor, coefficients: Tensor, padded: Tensor) -> Tensor:
    """A filter whose output feeds back; padded begins with zeros and gets the output behind them."""
    if padded.dtype not in (tocha.float32, tocha.float64):
        raise RuntimeError(f"[lfilter] Only float32 and float64 data are supported: got {padded.dtype}")
    _C._recursive_filter(windows.detach().contiguous(), coefficients.detach().contiguous(), padded.detach())
    return padded


@_operator(
    "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output_waveform)"
    " -> (Tensor(a!), Tensor(b!), Tensor(c!))"
)
def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The distorted signal without its constant part, mixed with the waveform."""
    if not waveform.shape[-1]:
        return last_in, last_out, output
    steps = temp - tocha.cat([last_in[:, None], temp[:, :-1]], 1)
    padded = tocha.cat([last_out[:, None], tocha.zeros_like(temp)], 1)[None].contiguous()
    fading = temp.new_tensor([[-0.995, 1.0]]).expand(len(temp), 2).contiguous()
    _C._recursive_filter(steps[None].contiguous(), fading, padded)
    output.copy_(waveform * 0.5 + padded[0, :, 1:] * 0.75)
    last_in.copy_(temp[:, -1])
    last_out.copy_(padded[0, :, -1])
    return last_in, last_out, output


# -- alignments --------------------------------------------------------------------------------------------


def _check_alignment(log_probs: Tensor, targets: Tensor, blank: int) -> None:
    if log_probs.dim() != 3 or targets.dim() != 2:
        raise RuntimeError(
            f"[forced_align] log_probs must be 3-D (batch_size, input length, num classes) and targets 2-D, got {log_probs.dim()} and {targets.dim()}"
        )
    if log_probs.size(0) != 1 or targets.size(0) != 1:
        raise RuntimeError(f"[forced_align] batch size must be 1: got {log_probs.size(0)}")
    if not 0 <= blank < log_probs.size(-1):
        raise RuntimeError(f"[forced_align] blank must be within [0, num classes): got {blank}")


@_operator(
    "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> (Tensor, Tensor)"
)
def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The likeliest way to say the targets: a class for each frame; and the frames' scores."""
    _check_alignment(log_probs, targets, blank)
    frames, wanted = log_probs[0], targets[0]
    repeats = int((wanted[1:] == wanted[:-1]).sum())
    if len(frames) < len(wanted) + repeats:
        raise RuntimeError(
            f"[forced_align] targets length is too long for CTC. Found log_probs length: {len(frames)}, targets length: {len(wanted)}, "
            f"and number of repeats: {repeats}"
        )
    states = tocha.full(
        (2 * len(wanted) + 1,), blank, dtype=wanted.dtype
    )  # blanks between, before and after the targets
    states[1::2] = wanted
    skips = tocha.zeros(len(states), dtype=_C.bool)
    skips[3::2] = wanted[1:] != wanted[:-1]
    score = frames.new_full((len(states),), _NEVER)
    score[:2] = frames[0, states[:2].long()]
    came = []
    for t in range(1, len(frames)):
        before = tocha.stack([score, _moved(score, 1), _moved(score, 2).masked_fill(~skips, _NEVER)])
        score, step = _latest_best(before)
        score = score + frames[t, states.long()]
        came.append(step)
    at = len(states) - 1
    if len(states) > 1 and not score[at] > score[at - 1]:
        at -= 1
    path = [at]
    for step in reversed(came):
        at -= int(step[at])
        path.append(at)
    return states[tocha.tensor(path[::-1])][None], log_probs


def _moved(score: Tensor, by: int) -> Tensor:
    return tocha.cat([score.new_full((min(by, len(score)),), _NEVER), score[: max(len(score) - by, 0)]])


def _latest_best(before: Tensor) -> tuple[Tensor, Tensor]:
    """The best of staying, coming from the state before and from the one before that; of equals the one that stays."""
    stay, one, two = before
    step = tocha.where((two > one) & (two > stay), 2, tocha.where((one > stay) & (one > two), 1, 0))
    return before.gather(0, step[None])[0], step


# -- transducers -------------------------------------------------------------------------------------------


@_operator(
    "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, float clamp, "
    "bool fused_log_softmax) -> (Tensor, Tensor)"
)
def rnnt_loss_forward(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, clamp: float, fused: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Minus the log of the probability of all ways to say the targets, and its gradient by the logits."""
    with tocha.enable_grad():
        given = logits.detach().requires_grad_()
        scores = given.float() if given.dtype == tocha.float16 else given
        if fused:
            scores = scores.log_softmax(-1)
        costs = tocha.stack(
            [
                _transducer_cost(scores[b, :t, : u + 1], targets[b, :u].long(), blank)
                for b, (t, u) in enumerate(zip(logit_lengths.tolist(), target_lengths.tolist(), strict=True))
            ]
        )
        (grad,) = tocha.autograd.grad(costs.sum(), given)
    if clamp > 0:
        grad = grad.clamp(-clamp, clamp)
    return costs.detach().to(logits.dtype), grad


def _transducer_cost(scores: Tensor, target: Tensor, blank: int) -> Tensor:
    """Over frames and symbols said: a blank goes to the next frame, a symbol to the next symbol. Row by row of frames."""
    quiet = scores[:, :, blank]
    said = scores[:, :-1].gather(2, target.expand(len(scores), -1)[..., None])[..., 0]
    ways = tocha.cat([said.new_zeros(1), said[0].cumsum(0)])
    for t in range(1, len(scores)):
        # With so[u] the sum of symbols said before u: ways[u] = so[u] + logsumexp over v <= u of (came[v] - so[v]).
        so = tocha.cat([said.new_zeros(1), said[t].cumsum(0)])
        ways = so + (ways + quiet[t - 1] - so).logcumsumexp(0)
    return -(ways[-1] + quiet[-1, -1])
