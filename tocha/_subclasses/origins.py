"""Which lines of the user's program are being traced: nodes that are made meanwhile, and those of their gradients, say so.

Set by whoever runs a captured graph node by node (`_functorch`); read by tracers and by histories of fake tensors.
"""

from __future__ import annotations

from typing import Any


class Origin:
    """The stack trace of the node that runs at present, or None, and what the program notes of it (`fx.traceback.annotate`)."""

    __slots__ = ("notes", "text")

    def __init__(self) -> None:
        self.text: str | None = None
        self.notes: dict[str, Any] | None = None

    def mark(self, node: Any) -> None:
        """A node that is made now comes from here."""
        if self.text is not None:
            node.meta["stack_trace"] = self.text
        if self.notes is not None:
            node.meta["custom"] = dict(self.notes)


CURRENT = Origin()


class at:
    """Within the block, what is traced comes from these lines; None leaves them as they are."""

    __slots__ = ("before", "notes", "text")

    def __init__(self, text: str | None, notes: dict[str, Any] | None = None) -> None:
        self.text, self.notes = text, notes

    def __enter__(self) -> None:
        self.before = CURRENT.text, CURRENT.notes
        CURRENT.text, CURRENT.notes = self.text or CURRENT.text, self.notes or CURRENT.notes

    def __exit__(self, *_: object) -> None:
        CURRENT.text, CURRENT.notes = self.before
