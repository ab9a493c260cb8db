"""The fast path of transformer layers in evaluation: PyTorch's other code for the same numbers.

tocha's layers have one path, which is the fast one; the switch changes nothing but how the results of attention lie.
"""

_fastpath = True


def get_fastpath_enabled() -> bool:
    """What set_fastpath_enabled last set."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Whether layers may take the fast path."""
    global _fastpath
    _fastpath = value
