"""Forward mode: dual numbers, made and taken apart inside a level."""

from __future__ import annotations

from typing import Any, NamedTuple

from tocha import _C

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

Tensor = _C.Tensor
_current_level = -1


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent; no tangent, None.

    >>> import tocha.autograd.forward_ad as fwad
    >>> with fwad.dual_level():
    ...     dual = fwad.make_dual(tocha.tensor([2.0]), tocha.tensor([1.0]))
    ...     fwad.unpack_dual(dual**2)
    UnpackedDualTensor(primal=tensor([4.]), tangent=tensor([4.]))
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a level; one at a time.

    >>> import tocha.autograd.forward_ad as fwad
    >>> level = fwad.enter_dual_level()
    >>> fwad.unpack_dual(fwad.make_dual(tocha.tensor([2.0]), tocha.tensor([1.0])) ** 2).tangent
    tensor([4.])
    >>> fwad.exit_dual_level(level=level)
    """
    global _current_level
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _C._enter_dual_level()
    _current_level = 0
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: tangents made in it are gone.

    >>> import tocha.autograd.forward_ad as fwad
    >>> level = fwad.enter_dual_level()
    >>> fwad.unpack_dual(fwad.make_dual(tocha.tensor([2.0]), tocha.tensor([1.0])) * 3).tangent
    tensor([3.])
    >>> fwad.exit_dual_level(level=level)
    """
    global _current_level
    wanted = _current_level if level is None else level
    if wanted < 0 or wanted != _current_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _C._exit_dual_level()
    _current_level = -1


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """tensor with a tangent, as a view: what is computed from it carries the tangent along.

    >>> import tocha
    >>> with dual_level():
    ...     x = make_dual(tocha.tensor(2.0), tocha.tensor(1.0))
    ...     unpack_dual(x**3).tangent
    tensor(12.)
    """
    if (_current_level if level is None else level) < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    return _C._make_dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent.

    >>> import tocha.autograd.forward_ad as fwad
    >>> with fwad.dual_level():
    ...     primal, tangent = fwad.unpack_dual(fwad.make_dual(tocha.tensor([2.0]), tocha.tensor([1.0])) * 3)
    >>> primal, tangent
    (tensor([6.]), tensor([3.]))
    """
    if (_current_level if level is None else level) < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor))


class dual_level:
    """A level for the length of a with block.

    >>> import tocha.autograd.forward_ad as fwad
    >>> with fwad.dual_level():
    ...     dual = fwad.make_dual(tocha.tensor([2.0]), tocha.tensor([1.0]))
    ...     fwad.unpack_dual(dual**2).tangent
    tensor([4.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()
