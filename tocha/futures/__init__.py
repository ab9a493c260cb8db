"""torch.futures: a result that will be there, with callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value that some thread sets once.

    >>> future = Future()
    >>> doubled = future.then(lambda f: f.value() * 2)
    >>> future.set_result(2)
    >>> doubled.wait()
    4
    """

    def __init__(self, *, devices: Any = None):
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __class_getitem__(cls, kind: Any) -> type:
        return cls

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._ready.is_set()

    def wait(self) -> Any:
        """The result, once it is there; raises what was set as an error."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> Any:
        """The result, which must be there."""
        if not self.done():
            raise RuntimeError("Future has not been completed: value() needs a result that is there")
        return self.wait()

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls the function with this future when it is done; at once if it is."""
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future with what the function makes of this one."""
        made = Future()

        def run(done: Future) -> None:
            try:
                made.set_result(callback(done))
            except Exception as error:
                made.set_exception(error)

        self.add_done_callback(run)
        return made

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once: it already has a result")
            self._value, self._error = value, error
            callbacks, self._callbacks = self._callbacks, []
            self._ready.set()
        for callback in callbacks:
            callback(self)

    def set_result(self, result: Any) -> None:
        """Sets the result, once."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets what wait raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of futures, done when all are.

    >>> a, b = tocha.futures.Future(), tocha.futures.Future()
    >>> both = tocha.futures.collect_all([a, b])
    >>> a.set_result(1)
    >>> b.set_result(2)
    >>> [f.wait() for f in both.wait()]
    [1, 2]
    """
    made, left, lock = Future(), len(futures), threading.Lock()
    if not futures:
        made.set_result([])

    def one(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            made.set_result(futures)

    for future in futures:
        future.add_done_callback(one)
    return made


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all.

    >>> a, b = tocha.futures.Future(), tocha.futures.Future()
    >>> a.set_result(1)
    >>> b.set_result(2)
    >>> tocha.futures.wait_all([a, b])
    [1, 2]
    """
    return [future.wait() for future in collect_all(futures).wait()]
