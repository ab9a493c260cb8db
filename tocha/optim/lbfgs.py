"""LBFGS: a quasi-Newton method that remembers the last steps, with a line search that meets the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import enable_grad, no_grad
from tocha.optim._update import number
from tocha.optim.optimizer import Closure, Optimizer, ParamsT, check_lr, check_not_negative

__all__ = ["LBFGS"]

Tensor = _C.Tensor


@dataclass
class Point:
    """A place on the line that is searched: how far along, the loss, the gradient, and its part along the line."""

    t: float
    loss: float
    grad: Tensor
    slope: Any  # a 0-d tensor, or 0 where it does not count

    def __post_init__(self) -> None:
        self.slope = float(self.slope)


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points and their slopes is least, within bounds (Nocedal and Wright, 3.59)."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    under = d1 * d1 - a.slope * b.slope
    if not under >= 0:
        return (low + high) / 2.0
    d2 = math.sqrt(under)
    if a.t <= b.t:
        least = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        least = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(least, low), high)


class WolfeSearch:
    """A search for a step that lowers the loss enough and leaves little slope (Nocedal and Wright, 3.5 and 3.6)."""

    decrease, curvature = 1e-4, 0.9

    def __init__(
        self,
        evaluate: Callable[[float], tuple[float, Tensor]],
        direction: Tensor,
        start: Point,
        tolerance_change: float,
        most: int = 25,
    ) -> None:
        self.evaluate = evaluate
        self.direction = direction
        self.length = float(direction.abs().max())
        self.start = start
        self.tolerance_change = tolerance_change
        self.most = most
        self.evaluations = 0

    def at(self, t: float) -> Point:
        loss, grad = self.evaluate(t)
        self.evaluations += 1
        return Point(t, loss, grad, grad.dot(self.direction))

    def too_high(self, p: Point) -> bool:
        return p.loss > self.start.loss + self.decrease * p.t * self.start.slope

    def is_flat(self, p: Point) -> bool:
        return abs(p.slope) <= -self.curvature * self.start.slope

    def bracket(self, t: float) -> tuple[list[Point], bool, int]:
        """Two points with a good one between them, or a good one; and the number of tries."""
        before, here = self.start, self.at(t)
        tries = 0
        while tries < self.most:
            if self.too_high(here) or (tries > 1 and here.loss >= before.loss):
                return [before, here], False, tries
            if self.is_flat(here):
                return [here], True, tries
            if here.slope >= 0:
                return [before, here], False, tries
            bounds = here.t + 0.01 * (here.t - before.t), here.t * 10
            before, here = here, self.at(cubic_minimum(before, here, bounds))
            tries += 1
        return [self.start, here], False, tries

    def zoom(self, ends: list[Point], tries: int) -> Point:
        """The two points brought together around a good one."""
        stuck = False
        low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
        while tries < self.most:
            width = abs(ends[1].t - ends[0].t)
            if width * self.length < self.tolerance_change:
                break
            t = cubic_minimum(ends[0], ends[1])
            t, stuck = self.kept_inside(t, min(e.t for e in ends), max(e.t for e in ends), stuck)
            here = self.at(t)
            tries += 1
            if self.too_high(here) or here.loss >= ends[low].loss:
                ends[high] = here
                low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
                continue
            if self.is_flat(here):
                ends[low] = here
                break
            if here.slope * (ends[high].t - ends[low].t) >= 0:
                ends[high] = ends[low]
            ends[low] = here
        return ends[low]

    def kept_inside(self, t: float, least: float, most: float, stuck: bool) -> tuple[float, bool]:
        """A step that is close to an end twice running (or beyond it) is moved a tenth of the way in."""
        margin = 0.1 * (most - least)
        if min(most - t, t - least) >= margin:
            return t, False
        if stuck or t >= most or t <= least:
            return (most - margin if abs(t - most) < abs(t - least) else least + margin), False
        return t, True

    def run(self, t: float) -> tuple[Point, int]:
        """The point found, and the number of evaluations it took."""
        points, done, tries = self.bracket(t)
        found = points[0] if done else self.zoom(points, tries)
        return found, self.evaluations


class LBFGS(Optimizer):
    """Newton's method with the inverse Hessian estimated from the last `history_size` steps; `step` needs a closure.

    All parameters are one vector: there is one group. `line_search_fn` is None (steps of length lr) or "strong_wolfe".

    >>> import tocha
    >>> x = tocha.nn.Parameter(tocha.tensor([-1.0, 2.0]))
    >>> optimizer = tocha.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(17., grad_fn=<SumBackward0>)
    >>> tocha.allclose(x, tocha.full((2,), 3.0))
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative(lr=lr)  # type: ignore[arg-type]
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _flat_grad(self) -> Tensor:
        pieces = [
            p.new_zeros(p.numel()) if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad
            for p in self._params
        ]
        return _C.cat([(_C.view_as_real(g) if g.is_complex() else g).reshape(-1) for g in pieces], 0)

    def _move(self, size: float, direction: Tensor) -> None:
        at = 0
        for p in self._params:
            real = _C.view_as_real(p) if p.is_complex() else p
            real.add_(direction[at : at + real.numel()].view_as(real), alpha=size)
            at += real.numel()

    def _evaluator(self, closure: Callable[[], Any], direction: Tensor) -> Callable[[float], tuple[float, Tensor]]:
        """The loss and the gradient at a distance along the direction; the parameters are back afterwards."""
        here = [p.clone(memory_format=_C.contiguous_format) for p in self._params]

        def evaluate(t: float) -> tuple[float, Tensor]:
            self._move(t, direction)
            loss = float(closure())
            grad = self._flat_grad()
            for p, before in zip(self._params, here, strict=True):
                p.copy_(before)
            return loss, grad

        return evaluate

    @no_grad()
    def step(self, closure: Closure = None) -> Any:
        """Up to max_iter iterations; closure clears the gradients, computes the loss and its gradients, and returns it."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        closure = enable_grad()(closure)
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self._flat_grad()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        lr = number(group["lr"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"] = grad.clone(memory_format=_C.contiguous_format)
            state["prev_loss"] = previous = loss
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = grad.dot(direction)
            state["d"], state["t"] = direction, t
            if float(slope) > -group["tolerance_change"]:
                break
            loss, grad, t, used = self._advance(closure, Point(0.0, loss, grad, slope), direction, t, iteration)
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or float(grad.abs().max()) <= group["tolerance_grad"]
                or float(direction.mul(t).abs().max()) <= group["tolerance_change"]
                or abs(loss - previous) < group["tolerance_change"]
            ):
                break
        return first_loss

    def _advance(
        self, closure: Callable[[], Any], start: Point, direction: Tensor, t: float, iteration: int
    ) -> tuple[float, Tensor, float, int]:
        """Moves the parameters along the direction; the loss and gradient there, the distance, and the evaluations made."""
        group = self.param_groups[0]
        if group["line_search_fn"] is not None:
            if group["line_search_fn"] != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            search = WolfeSearch(self._evaluator(closure, direction), direction, start, group["tolerance_change"])
            found, used = search.run(t)
            self._move(found.t, direction)
            return found.loss, found.grad, found.t, used
        self._move(t, direction)
        if iteration == group["max_iter"]:
            return start.loss, start.grad, t, 0
        loss = float(closure())
        return loss, self._flat_grad(), t, 1

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """Minus the estimated inverse Hessian times the gradient; the last step is remembered first."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        self._remember(state, grad, history_size)
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        al = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i in reversed(range(len(changes))):
            al[i] = steps[i].dot(q) * ro[i]
            q.add_(changes[i] * -al[i])
        direction = q.mul(state["H_diag"])
        for i in range(len(changes)):
            direction.add_(steps[i] * (al[i] - changes[i].dot(direction) * ro[i]))
        return direction

    def _remember(self, state: dict[str, Any], grad: Tensor, history_size: int) -> None:
        change = grad.sub(state["prev_flat_grad"])
        step = state["d"].mul(state["t"])
        product = change.dot(step)
        if float(product) <= 1e-10:
            return
        for kept, new in (("old_dirs", change), ("old_stps", step), ("ro", 1.0 / product)):
            if len(state[kept]) == history_size:
                state[kept].pop(0)
            state[kept].append(new)
        state["H_diag"] = product / change.dot(change)
