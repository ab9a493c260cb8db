"""What higher-order operators refuse, in PyTorch's words."""

from __future__ import annotations


class UncapturedHigherOrderOpError(RuntimeError):
    """A function given to a higher-order operator cannot be made a graph of its own."""


def uncaptured(op: str, what: str, explanation: str, *hints: str) -> UncapturedHigherOrderOpError:
    lines = [what, f"  Higher Order Operator: {op}", f"  Explanation: {explanation}", *(f"  Hint: {h}" for h in hints)]
    return UncapturedHigherOrderOpError(
        "This higher order operator doesn't work unless it is captured completely with tocha.compile. Got graph break/error:\n\n"
        + "\n".join(lines)
    )


def aliasing(op: str, which: str) -> UncapturedHigherOrderOpError:
    return uncaptured(
        op,
        "Encountered aliasing during higher order op tracing",
        f"Higher order ops do not support aliasing. Found in {op}: {which}",
        "Replace `return input` with `return input.clone()` to avoid aliasing.",
    )


def mutation(op: str, which: str) -> UncapturedHigherOrderOpError:
    return uncaptured(
        op,
        "Encountered input mutation during higher order op tracing",
        f"Higher order ops do not support input mutation. Found in {op}: {which}",
    )
