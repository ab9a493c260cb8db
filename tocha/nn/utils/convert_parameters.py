"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from tocha import _C
from tocha._functions.basics import typename

__all__ = ["parameters_to_vector", "vector_to_parameters"]

Tensor = _C.Tensor


def _checked(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters, which must be on one device."""
    found = list(parameters)
    for p in found:
        if p.device != found[0].device:
            raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return found


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The values of all parameters, one after the other.

    >>> import tocha
    >>> parameters_to_vector([tocha.ones(1, 2), tocha.zeros(1)])
    tensor([1., 1., 0.])
    """
    return _C.cat([p.view(-1) for p in _checked(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parameters views of pieces of a vector, in order.

    >>> import tocha
    >>> p = tocha.nn.Parameter(tocha.zeros(1, 2))
    >>> vector_to_parameters(tocha.tensor([1.0, 2.0]), [p])
    >>> p.tolist()
    [[1.0, 2.0]]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected tocha.Tensor, but got: {typename(vec)}")
    start = 0
    for p in _checked(parameters):
        end = start + p.numel()
        p.data = vec[start:end].view_as(p).detach()
        start = end
