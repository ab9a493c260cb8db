"""Functions that assert, where pytest does not rewrite them."""


def with_words(x):
    assert (x > 0).all(), "positive"
    return x.log()


def without_words(x):
    assert x.sum()
    return x * 2


def with_made_words(x):
    assert (x > 0).all(), f"not {len(x)}"
    return x + 1
