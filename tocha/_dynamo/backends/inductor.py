"""The backend that generates fused native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocha import fx
from tocha._dynamo.backends.registry import register_backend


@register_backend
def inductor(gm: fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Fused native code."""
    from tocha._inductor.compile_fx import compile_fx  # the compiler's back end is loaded when it is first asked for

    return compile_fx(gm, list(example_inputs), **options)
