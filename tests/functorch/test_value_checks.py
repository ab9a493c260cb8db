"""Operators that only look at values, and refuse some, stay in graphs though nothing uses them."""

import pytest

import tocha

EYE, PARTS = tocha.eye(3), tocha.full((3, 3), 0.5)


def by_least(x):
    return x / x.detach().diagonal().min()


CASES = {  # a function, the words of what it refuses, and what it takes; zeros are refused
    "binary_cross_entropy": (lambda x: tocha.nn.functional.binary_cross_entropy(x - 0.5, x), "between 0 and 1", PARTS),
    "quantile": (lambda x: tocha.quantile(x.detach().flatten(), x.detach()[0] - 0.5), r"range \[0, 1\]", PARTS),
    "cov": (lambda x: tocha.cov(x, aweights=x[0].detach() - 0.5), "cannot be negative", PARTS * 2),
    "one_hot": (lambda x: tocha.nn.functional.one_hot(x.long() - 1, 3), "non-negative", PARTS * 2),
    "one_hot of few": (lambda x: tocha.nn.functional.one_hot(x.long() + 2, 2), "smaller than num_classes", PARTS * -3),
    "cholesky": (tocha.linalg.cholesky, "not positive-definite", EYE),
    "cholesky_ex": (lambda x: tocha.linalg.cholesky_ex(x, check_errors=True).L, "not positive-definite", EYE),
    "inv": (tocha.linalg.inv, "singular", EYE),
    "solve": (lambda x: tocha.linalg.solve(x, tocha.ones(3, 2)), "singular", EYE),
    "lu_factor": (lambda x: tocha.linalg.lu_factor(x).LU, "is zero", EYE),
    "ldl_factor": (lambda x: tocha.linalg.ldl_factor(x.detach()).LD, "singular", EYE),
    "eigvalsh": (lambda x: tocha.linalg.eigvalsh(by_least(x)), "non-finite", EYE),
    "svdvals": (lambda x: tocha.linalg.svdvals(by_least(x)), "non-finite", EYE),
    "unused": (lambda x: (tocha.linalg.cholesky(x), x + 1)[1], "not positive-definite", EYE),
    "vmap": (lambda x: tocha.vmap(tocha.linalg.inv)(x.expand(2, 3, 3)), r"\(Batch element 0\).*singular", EYE),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_checks_of_values_stay_in_graphs(name, grad, backend):
    f, refusal, taken = CASES[name]
    compiled = tocha.compile(f, backend=backend, fullgraph=True)
    for g in (f, compiled, compiled):
        with pytest.raises(RuntimeError, match=refusal):
            g(tocha.zeros(3, 3, requires_grad=grad))
    x = taken.clone().requires_grad_(grad)
    tocha.testing.assert_close(compiled(x), f(x))
