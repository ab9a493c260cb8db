"""The name the library goes by: tocha, and torch as well where it stands in for it (tocha/as_torch.py).

Code that asks whether something is the library's own asks here, so that it need not know by which name it was imported.
"""

from __future__ import annotations

from tocha import _C

_NAMES = ("tocha", "torch")
_spoken = "tocha"


def is_ours(module: str | None) -> bool:
    """Whether a module of that name is the library's."""
    return (module or "").partition(".")[0] in _NAMES[: 1 + (_spoken == "torch")]


def ours(module: str | None) -> str:
    """The module's name in the source tree: torch.nn is tocha.nn where tocha stands in for torch."""
    root, dot, rest = (module or "").partition(".")
    return f"tocha{dot}{rest}" if root == "torch" and _spoken == "torch" else module or ""


def spoken_name(name: str) -> str:
    """The name under which programs reach something of the library: tocha.relu, or torch.relu where it stands in."""
    root, dot, rest = name.partition(".")
    return f"{_spoken}{dot}{rest}" if root == "tocha" else name


def spoken() -> str:
    """The name that reprs and messages use."""
    return _spoken


def speak_as(name: str) -> None:
    """From now on reprs of dtypes, sizes, layouts and old type names begin with this name."""
    global _spoken
    _spoken = name
    _C._set_library_name(name)
