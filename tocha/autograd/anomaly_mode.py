"""Anomaly mode: failures in backward point at the forward call, and NaNs are errors."""

from __future__ import annotations

import warnings

from tocha import _C

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_anomaly_enabled",
    "set_detect_anomaly",
]


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Sets the mode, and whether NaNs are errors in it.

    >>> tocha.set_anomaly_enabled(True)
    >>> tocha.is_anomaly_enabled()
    True
    >>> tocha.set_anomaly_enabled(False)
    """
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_anomaly_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    _C._set_anomaly(enabled, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether the mode is on.

    >>> tocha.is_anomaly_enabled()
    False
    >>> with tocha.autograd.detect_anomaly():
    ...     tocha.is_anomaly_enabled()
    True
    """
    return _C._get_anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaNs are errors when the mode is on.

    >>> tocha.is_anomaly_check_nan_enabled()
    True
    """
    return _C._get_anomaly()[1]


class set_detect_anomaly:
    """Sets the mode at once; as a context, until its end.

    >>> with tocha.autograd.set_detect_anomaly(True):
    ...     tocha.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _C._get_anomaly()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly(*self.before)


class detect_anomaly:
    """Within it, nodes remember where they were made, and backward raises on NaN.

    >>> x = tocha.tensor([0.0], requires_grad=True)
    >>> try:
    ...     with tocha.autograd.detect_anomaly():
    ...         (x.sqrt() * 0).backward()
    ... except RuntimeError as error:
    ...     print(error)
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.before = _C._get_anomaly()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = _C._get_anomaly()
        _C._set_anomaly(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly(*self.before)
