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


def of_three(x):
    assert len(x) == 3, "three"


def two_found(x):
    places = x.nonzero()
    assert places.size(0) == 2, "not two"
    return places * 2


def any_sum(x):
    total = x.sum().item()
    assert total
    return x * total


def large_maximum(x):
    largest = (x.max() * 0.5).item()
    assert largest > 0.25, "too small"
    return x * largest
