"""Seeds and states of the default generators, under torch.random's names; tocha re-exports all but fork_rng."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tocha import _C

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]

default_generator = _C.default_generator


def manual_seed(seed: int) -> _C.Generator:
    """Seeds the default generators of all devices; returns the CPU's.

    >>> import tocha
    >>> _ = tocha.manual_seed(0)
    >>> tocha.rand(2)
    tensor([0.4963, 0.7682])
    """
    return default_generator.manual_seed(int(seed))


def thread_safe_generator() -> _C.Generator | None:
    """The generator of a data loader's worker that is a thread; None elsewhere, which means the default one.

    >>> import tocha
    >>> tocha.randint(0, 10, (5,), generator=tocha.random.thread_safe_generator()).shape
    tocha.Size([5])
    """
    worker = sys.modules.get("tocha.utils.data._utils.worker")  # without it there are no workers
    info = worker.get_worker_info() if worker is not None else None
    return getattr(info, "generator", None)


def seed() -> int:
    """Seeds the default generators with a fresh random number and returns it.

    >>> a = tocha.seed()
    >>> a == tocha.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed the default generator was last given.

    >>> _ = tocha.manual_seed(7)
    >>> tocha.initial_seed()
    7
    """
    return default_generator.initial_seed()


def get_rng_state() -> _C.Tensor:
    """The state of the default generator as a ByteTensor.

    >>> state = tocha.get_rng_state()
    >>> a = tocha.rand(3)
    >>> tocha.set_rng_state(state)
    >>> tocha.equal(a, tocha.rand(3))
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: _C.Tensor) -> None:
    """Sets what get_rng_state gave.

    >>> import tocha
    >>> saved = tocha.get_rng_state()
    >>> a = tocha.rand(3)
    >>> tocha.set_rng_state(saved)
    >>> bool((tocha.rand(3) == a).all())
    True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """What is drawn inside leaves the generators as if it had not been drawn.

    >>> import tocha
    >>> _ = tocha.manual_seed(0)
    >>> with tocha.random.fork_rng():
    ...     _ = tocha.rand(100)
    >>> tocha.rand(2)
    tensor([0.4963, 0.7682])
    """
    if not enabled or device_type == "meta":
        yield
        return
    others = [
        d
        for d in devices or ()
        if _C.device(d if isinstance(d, str | _C.device) else f"{device_type}:{d}").type != "cpu"
    ]
    if others:
        raise RuntimeError(f"[{_caller}] {_devices_kw} has no random generator for {others[0]!r}")
    saved = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(saved)
