"""OpenMP, which this build does not use: tocha has threads of its own (tocha.set_num_threads)."""


def is_available() -> bool:
    """Whether OpenMP is in this build.

    >>> is_available()
    False
    """
    return False
