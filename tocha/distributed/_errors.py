"""What communication raises."""

from __future__ import annotations


class DistError(RuntimeError):
    """What communication raises.

    >>> issubclass(tocha.distributed.DistError, RuntimeError)
    True
    """


class DistBackendError(DistError):
    """What a backend of communication raises.

    >>> issubclass(tocha.distributed.DistBackendError, tocha.distributed.DistError)
    True
    """


class DistNetworkError(DistError):
    """What connections raise.

    >>> issubclass(tocha.distributed.DistNetworkError, tocha.distributed.DistError)
    True
    """


class DistStoreError(DistError):
    """What stores raise.

    >>> tocha.distributed.HashStore().get("nothing")
    Traceback (most recent call last):
    tocha.distributed.DistStoreError: [Store.get] Wait timeout: no process has set 'nothing', and this one is the only one
    """


class QueueEmptyError(DistStoreError):
    """What taking from a queue raises that holds nothing.

    >>> tocha.distributed.HashStore().queue_pop("queue", False)
    Traceback (most recent call last):
    tocha.distributed.QueueEmptyError: queue is empty
    """


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "tocha.distributed"
