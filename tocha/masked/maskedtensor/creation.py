"""Making masked tensors."""

from __future__ import annotations

from typing import Any

from tocha.masked.maskedtensor import operators  # noqa: F401, its forms
from tocha.masked.maskedtensor.core import MaskedTensor, build, check_parts


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of data and a mask of one shape: a leaf.

    >>> import tocha
    >>> tocha.masked.masked_tensor(tocha.tensor([1.0, 2.0]), tocha.tensor([True, False]))
    MaskedTensor(
      [  1.0000,       --]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor with the history of its data.

    >>> import tocha
    >>> x = tocha.ones(2, requires_grad=True)
    >>> tocha.masked.as_masked_tensor(x, tocha.tensor([True, False])).sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    check_parts(data, mask)
    return build(data, mask)
