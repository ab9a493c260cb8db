"""assert_close: tensors, numbers and containers of them are equal within tolerances, or an error says where they differ.

The two sides are walked together into a flat list of pairs first, so that a difference of structure is reported before any
difference of values; then each pair is compared.
"""

from __future__ import annotations

import cmath
import collections.abc
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tocha import _C
from tocha.functional import unravel_index

__all__ = ["assert_allclose", "assert_close"]

Tensor = _C.Tensor
Path = tuple[Any, ...]
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex32: (1e-3, 1e-5),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPES = {int: _C.int64, float: _C.float64, complex: _C.complex128}


class _Options(NamedTuple):
    allow_subclasses: bool
    tolerances: tuple[float, float] | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances_for(self, *dtypes: _C.dtype) -> tuple[float, float]:
        """rtol and atol: those given, or the greatest that the dtypes ask for."""
        if self.tolerances is not None:
            return self.tolerances
        pairs = [_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in pairs), max(a for _, a in pairs)


class _Difference(Exception):
    """Two sides differ: what to tell, and of which item."""

    def __init__(self, message: str, path: Path, error: type[Exception] = AssertionError) -> None:
        self.error = error
        where = "".join(f"[{key!r}]" for key in path)
        self.message = f"{message}\n\nThe failure occurred for item {where}" if path else message
        super().__init__(self.message)


# -- pairs -------------------------------------------------------------------------------------------------


def _pairs(actual: Any, expected: Any, options: _Options, path: Path = ()) -> Iterator[tuple[Callable, Any, Any, Path]]:
    """The leaves of both sides with the function that compares them."""
    if _both(actual, expected, collections.abc.Sequence) and not _any(actual, expected, str):
        if len(actual) != len(expected):
            message = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise _Difference(message, path)
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(a, e, options, (*path, i))
    elif _both(actual, expected, collections.abc.Mapping):
        for key in _common_keys(actual, expected, path):
            yield from _pairs(actual[key], expected[key], options, (*path, key))
    else:
        yield _leaf(actual, expected, options, path)


def _leaf(actual: Any, expected: Any, options: _Options, path: Path) -> tuple[Callable, Any, Any, Path]:
    if actual is None or expected is None:
        return _compare_none, actual, expected, path
    actual, expected = _python(actual), _python(expected)
    if _both(actual, expected, bool):
        return _compare_booleans, actual, expected, path
    if _both(actual, expected, int | float | complex) and not _any(actual, expected, bool):
        return _compare_numbers, actual, expected, path
    if _related(actual, expected, options.allow_subclasses):
        tensors = _as_tensor(actual), _as_tensor(expected)
        if None not in tensors:
            return _compare_tensors, *tensors, path
    message = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    raise _Difference(message, path, TypeError)


def _both(actual: Any, expected: Any, kind: Any) -> bool:
    return isinstance(actual, kind) and isinstance(expected, kind)


def _any(actual: Any, expected: Any, kind: Any) -> bool:
    return isinstance(actual, kind) or isinstance(expected, kind)


def _common_keys(actual: Any, expected: Any, path: Path) -> list[Any]:
    missing, additional = set(expected) - set(actual), set(actual) - set(expected)
    if missing or additional:
        message = (
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_ordered(missing)}\n"
            f"Additional keys in the actual mapping: {_ordered(additional)}"
        )
        raise _Difference(message, path)
    return _ordered(actual)


def _ordered(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def _python(value: Any) -> Any:
    """NumPy's numbers as Python's; other things as they are."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _related(actual: Any, expected: Any, allow_subclasses: bool) -> bool:
    if not allow_subclasses:
        return type(actual) is type(expected)
    return isinstance(actual, type(expected)) or isinstance(expected, type(actual))


def _as_tensor(value: Any) -> Tensor | None:
    """A tensor, or an array as one; None for what has no numbers in it."""
    if isinstance(value, Tensor):
        return value.detach()
    if not hasattr(value, "__array_interface__"):
        return None
    try:
        return _C.as_tensor(value)
    except (TypeError, RuntimeError):
        return None


# -- numbers -----------------------------------------------------------------------------------------------


def _compare_none(actual: Any, expected: Any, options: _Options, path: Path) -> None:
    if actual is not expected:
        raise _Difference(f"None mismatch: {actual} is not {expected}", path)


def _compare_booleans(actual: bool, expected: bool, options: _Options, path: Path) -> None:
    if actual is not expected:
        raise _Difference(f"Booleans mismatch: {actual} is not {expected}", path)


def _compare_numbers(actual: Any, expected: Any, options: _Options, path: Path) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise _Difference(f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
    rtol, atol = options.tolerances_for(_NUMBER_DTYPES[type(actual)], _NUMBER_DTYPES[type(expected)])
    difference = abs(actual - expected)
    if actual == expected or (options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    if math.isfinite(difference) and difference <= atol + rtol * abs(expected):
        return
    raise _Difference(_scalar_message(actual, expected, rtol, atol), path)


def _scalar_message(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    absolute = abs(actual - expected)
    relative = absolute / abs(expected) if expected != 0 else math.inf
    return (
        f"Scalars are not {_relation(rtol, atol)}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {absolute}{_allowed(atol, rtol, atol)}\n"
        f"Relative difference: {relative}{_allowed(rtol, rtol, atol)}"
    )


def _relation(rtol: float, atol: float) -> str:
    return "equal" if rtol == atol == 0 else "close"


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return "" if rtol == atol == 0 else f" (up to {tolerance} allowed)"


# -- tensors -----------------------------------------------------------------------------------------------


def _compare_tensors(actual: Tensor, expected: Tensor, options: _Options, path: Path) -> None:
    _check_attributes(actual, expected, options, path)
    if actual.is_meta or expected.is_meta:
        return
    rtol, atol = options.tolerances_for(actual.dtype, expected.dtype)
    actual, expected = _alike(actual, expected)
    matches = _C.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if bool(matches.all()):
        return
    if actual.dim() == 0:
        raise _Difference(_scalar_message(actual.item(), expected.item(), rtol, atol), path)
    raise _Difference(_tensor_message(_countable(actual), _countable(expected), matches, rtol, atol), path)


def _check_attributes(actual: Tensor, expected: Tensor, options: _Options, path: Path) -> None:
    checks = [
        ("shape", True, actual.shape, expected.shape),
        ("device", options.check_device, actual.device, expected.device),
        ("layout", options.check_layout, actual.layout, expected.layout),
        ("stride()", options.check_stride, actual.stride(), expected.stride()),
        ("dtype", options.check_dtype, actual.dtype, expected.dtype),
    ]
    for name, wanted, mine, theirs in checks:
        if wanted and mine != theirs:
            raise _Difference(f"The values for attribute '{name}' do not match: {mine} != {theirs}.", path)


def _alike(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the CPU and of one dtype that can be compared."""
    actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        common = _C.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:
        actual, expected = actual.float(), expected.float()
    return actual, expected


def _countable(t: Tensor) -> Tensor:
    """Integers and booleans as int64, whose differences neither wrap nor fail."""
    return t if t.dtype.is_floating_point or t.dtype.is_complex else t.long()


def _greatest(differences: Tensor, matches: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The greatest difference among those that do not match, and its index."""
    flat = differences.masked_fill(matches, 0).flatten()
    value, place = flat.max(dim=0)
    return value.item(), tuple(int(i) for i in unravel_index(place, differences.shape))


def _tensor_message(actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    wrong, total = int((~matches).sum()), matches.numel()
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
    for word, differences, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        value, index = _greatest(differences, matches)
        lines.append(f"Greatest {word} difference: {value} at index {index}{_allowed(tolerance, rtol, atol)}")
    return f"Tensor-likes are not {_relation(rtol, atol)}!\n\n" + "\n".join(lines)


# -- the public functions ----------------------------------------------------------------------------------


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless actual is expected: |actual - expected| <= atol + rtol * |expected| for every element.

    Tensors, NumPy arrays, numbers, None, and sequences and mappings of them. Without rtol and atol the dtype decides:
    exact for integers, 1.3e-6 and 1e-5 for float32, 1e-7 for float64, 1e-3 for float16, 1.6e-2 for bfloat16. msg
    replaces the message about values, or makes another of it; what is said about structure stays.

    >>> import tocha
    >>> tocha.testing.assert_close(tocha.tensor([1.0, 2.0]) * 3, tocha.tensor([3.0, 6.0]))
    >>> tocha.testing.assert_close({"a": [1.0, 2.0]}, {"a": [1.0, 2.5]})
    Traceback (most recent call last):
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 2.5 but got 2.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.2 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a'][1]
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    options = _Options(allow_subclasses, tolerances, equal_nan, check_device, check_dtype, check_layout, check_stride)
    try:
        pairs = list(_pairs(actual, expected, options))
    except _Difference as difference:
        raise difference.error(difference.message) from None
    for compare, a, e, path in pairs:
        try:
            compare(a, e, options, path)
        except _Difference as difference:
            raise AssertionError(_shown(difference, msg)) from None


def _shown(difference: _Difference, msg: str | Callable[[str], str] | None) -> str:
    if callable(msg):
        return msg(difference.message)
    return msg if isinstance(msg, str) else difference.message


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: assert_close without its checks of device, dtype and stride, and with wider tolerances.

    >>> tocha.testing.assert_allclose(tocha.tensor([1.0]), tocha.tensor([1.0 + 1e-7])) is None
    True
    """
    warnings.warn(
        "`tocha.testing.assert_allclose()` is deprecated. Please use `tocha.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if rtol is None and atol is None:
        rtol, atol = _older_tolerances(actual, expected)
    assert_close(
        _older(actual),
        _older(expected, actual),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


_OLDER_TOLERANCES = {_C.float16: (1e-3, 1e-3), _C.float32: (1e-4, 1e-5), _C.float64: (1e-5, 1e-8)}


def _older(value: Any, like: Any = None) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return _C.as_tensor(value, dtype=like.dtype if isinstance(like, Tensor) else None)


def _older_tolerances(actual: Any, expected: Any) -> tuple[float, float]:
    pairs = [_OLDER_TOLERANCES.get(_older(v).dtype, (0.0, 0.0)) for v in (actual, expected)]
    return max(r for r, _ in pairs), max(a for _, a in pairs)
