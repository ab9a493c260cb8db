"""Running a function in several processes and reporting the first that fails."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

_log = logging.getLogger(__name__)


class ProcessException(Exception):
    """A process of a ProcessContext failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended by an exception; the message holds its traceback.

    >>> error = tocha.multiprocessing.ProcessRaisedException("traceback", 0, 123)
    >>> error.error_index
    0
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code other than 0.

    >>> error = tocha.multiprocessing.ProcessExitedException("gone", 0, 123, exit_code=1)
    >>> error.exit_code
    1
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable, index: int, args: tuple, error_file: str) -> None:
    """The entry of a process: a traceback goes to the file that the parent looks into."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent got it too
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that belong together: `join` waits for them and ends all when one fails."""

    def __init__(self, processes: list, error_files: list[str]) -> None:
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends; True once all have ended well, False when there are more to wait for.

        When one fails, the others get SIGTERM (and SIGKILL after grace_period, 30 seconds by default) and the failure
        is raised.
        """
        if not self.sentinels:
            return True
        ended = multiprocessing.connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ended:
            index = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self.sentinels
        self._end_all(30.0 if grace_period is None else grace_period)
        self._raise(failed)
        return False

    def _end_all(self, grace_period: float) -> None:
        running = [p for p in self.processes if p.is_alive()]
        for process in running:
            _log.warning("Terminating process %s via signal SIGTERM", process.pid)
            process.terminate()
        deadline = time.monotonic() + grace_period
        for process in running:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in running:
            if process.is_alive():
                _log.warning("Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL", process.pid)
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        trace = self._traceback(index)
        if trace is not None:
            msg = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            raise ProcessRaisedException(msg, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = _signal_name(-code)
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)

    def _traceback(self, index: int) -> str | None:
        path = self.error_files[index]
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            return None
        with open(path, "rb") as file:
            trace: str = pickle.load(file)
        os.unlink(path)
        return trace


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


class SpawnContext(ProcessContext):
    """The old name of ProcessContext, for the spawn method only."""


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs fn(i, *args) in processes 0 to nprocs - 1 that start by the given method.

    With join=False it returns a ProcessContext at once, else it waits for all and raises if one fails.
    """
    mp: Any = multiprocessing.get_context(start_method)
    processes: list = []
    error_files: list[str] = []
    for index in range(nprocs):
        # A name only: a file that exists when the process has ended holds its traceback.
        with tempfile.NamedTemporaryFile(prefix="tocha-errorfile-", suffix=".pickle", delete=True) as file:
            error_files.append(file.name)
        process = mp.Process(target=_run, args=(fn, index, args, error_files[-1]), daemon=daemon)
        process.start()
        processes.append(process)
    context = ProcessContext(processes, error_files)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs fn(i, *args) in nprocs spawned processes; if one fails, the others are ended and its traceback is raised."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t tocha.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
