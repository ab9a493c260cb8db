"""Which lines of the user's program are being traced: nodes that are made meanwhile, and those of their gradients, say so.

Set by whoever runs a captured graph node by node (`_functorch`); read by tracers and by histories of fake tensors.
"""

from __future__ import annotations


class Origin:
    """The stack trace of the node that runs at present, or None."""

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text: str | None = None


CURRENT = Origin()


class at:
    """Within the block, what is traced comes from these lines; None leaves them as they are."""

    __slots__ = ("before", "text")

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __enter__(self) -> None:
        self.before = CURRENT.text
        CURRENT.text = self.text or self.before

    def __exit__(self, *_: object) -> None:
        CURRENT.text = self.before
