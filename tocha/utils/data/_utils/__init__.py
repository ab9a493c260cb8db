"""The parts of a DataLoader: collating, fetching, pinning, worker processes and what passes between them."""

from __future__ import annotations

from tocha.utils.data._utils.exceptions import ExceptionWrapper

__all__ = ["MP_STATUS_CHECK_INTERVAL", "ExceptionWrapper"]

# Seconds after which either side looks whether the other one is still alive, should no event have said so.
MP_STATUS_CHECK_INTERVAL = 5.0
