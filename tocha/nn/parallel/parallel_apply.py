"""Several modules at once, each in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocha import _C
from tocha.amp.autocast_mode import autocast
from tocha.autograd.grad_mode import set_grad_enabled
from tocha.nn.modules.module import Module
from tocha.nn.parallel._devices import DeviceLike, as_device
from tocha.utils.data._utils.exceptions import ExceptionWrapper

Tensor = _C.Tensor

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """A tensor somewhere in obj, which may be a list, tuple or dict, or None.

    >>> import tocha
    >>> get_a_var([1, {"x": tocha.tensor(2)}])
    tensor(2)
    """
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, Mapping):
        obj = list(obj.values())
    if isinstance(obj, list | tuple):
        return next((found for item in obj if (found := get_a_var(item)) is not None), None)
    return None


def _modes_of_this_thread() -> Callable[[], contextlib.ExitStack]:
    """What puts another thread into the grad mode and the autocast regions of this one."""
    grad = _C.is_grad_enabled()
    cached = _C.is_autocast_cache_enabled()
    regions = [(kind, _C.get_autocast_dtype(kind), _C.is_autocast_enabled(kind)) for kind in ("cpu", "cuda")]

    def enter() -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        stack.enter_context(set_grad_enabled(grad))
        for kind, dtype, enabled in regions:
            stack.enter_context(autocast(kind, dtype, enabled, cached))
        return stack

    return enter


def _check_count(modules: Sequence[Module], what: str, things: Sequence[Any]) -> None:
    if len(modules) != len(things):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of {what} {len(things)}")


def _place(device: DeviceLike | None, inputs: Any) -> str:
    """Where a module runs, for messages."""
    if device is not None:
        return str(as_device(device))
    found = get_a_var(inputs)
    return "unknown" if found is None else str(found.device)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[DeviceLike | None] | None = None,
) -> list[Any]:
    """The result of each module for its input, all computed at the same time.

    An input is a list or tuple of arguments, or else the only one. Each thread has the caller's grad mode and autocast
    regions; if one raises, so does this, with that thread's traceback. devices name the places in such messages:
    modules run where their weights are.

    >>> import tocha
    >>> parallel_apply([tocha.nn.ReLU(), tocha.nn.Identity()], [tocha.tensor(-1.0), (tocha.tensor(2.0),)])
    [tensor(0.), tensor(2.)]
    """
    _check_count(modules, "inputs", inputs)
    named = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    _check_count(modules, "kwargs_tup", named)
    places = [None] * len(modules) if devices is None else devices
    _check_count(modules, "devices", places)
    results: list[Any] = [None] * len(modules)
    enter_modes = _modes_of_this_thread()

    def work(i: int) -> None:
        arguments = inputs[i] if isinstance(inputs[i], list | tuple) else (inputs[i],)
        try:
            with enter_modes():
                results[i] = modules[i](*arguments, **named[i])
        except Exception:
            results[i] = ExceptionWrapper(where=f"in replica {i} on device {_place(places[i], inputs[i])}")

    if len(modules) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results
