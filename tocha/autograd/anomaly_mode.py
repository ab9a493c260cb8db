"""Anomaly mode: failures in backward point at the forward call, and NaNs are errors."""

from __future__ import annotations

import warnings

from tocha import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Sets the mode at once; as a context, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _C._get_anomaly()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly(*self.before)


class detect_anomaly:
    """Within it, nodes remember where they were made, and backward raises on NaN."""

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
