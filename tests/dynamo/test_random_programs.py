"""Random functions over the language's constructs: compiled equals interpreted in results, side effects, exceptions."""

import random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_programs import check, written

# Nothing is made smaller here: search_random_programs.py does that.
SEARCH = settings(
    deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)


@settings(SEARCH, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_compiled_equals_interpreted(chance):
    check(written(chance))


@settings(SEARCH, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_without_graph_breaks(chance):
    check(written(chance, breaks=False))


def test_known_seeds():
    """A slice of the long run: `python tests/dynamo/search_random_programs.py --count 2000`."""
    for seed in range(60):
        check(written(random.Random(seed)), seed)
