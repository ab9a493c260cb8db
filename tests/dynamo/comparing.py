"""What it means that a compiled function did the same."""

import tocha


def same(a, b):
    if isinstance(a, tocha.Tensor):
        return isinstance(b, tocha.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and not callable(a):
        return same(vars(a), vars(b))
    return a == b
