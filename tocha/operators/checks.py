"""What operators ask of values, which only a kernel can see. Facts have no elements to refuse; in graphs the checks are nodes without results,
which stay because they may raise."""

from __future__ import annotations

from tocha.operators.record import native


@native(
    "_check_range(Tensor self, float low, float high, str refusal) -> ()",
    algorithm="answer",
    variants="",
    tags=frozenset({"any_device"}),
)
def _check_range(self, low, high, refusal):
    """Raises RuntimeError with the text `refusal` where an element is not within [low, high], or is NaN."""


@native(
    "_check_info(Tensor info, str name, str reason) -> ()",
    algorithm="answer",
    variants="",
    tags=frozenset({"any_device"}),
)
def _check_info(info, name, reason):
    """Raises LinAlgError for the first of LAPACK's results that is not zero: `reason` with the code in place of {}."""
