"""The module of a device that this build does not have: questions are answered no, all else is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocha._core.errors import refusing


def names_of(kind: str, phrase: str, error: type[Exception], refused: str) -> dict[str, Any]:
    """is_available and device_count, seeding that passes, and functions and classes that refuse."""

    def is_available() -> bool:
        """Whether there is such a device: not in this build."""
        return False

    def device_count() -> int:
        """The number of such devices."""
        return 0

    def manual_seed(seed: int) -> None:
        """Seeds the devices' generators: there are none."""

    def nothing() -> None:
        """There is nothing to do without a device."""

    made: dict[str, Any] = {"is_available": is_available, "device_count": device_count, "is_initialized": is_available}
    made |= {"is_bf16_supported": is_available, "manual_seed": manual_seed, "manual_seed_all": manual_seed}
    made |= dict.fromkeys(("seed", "seed_all", "empty_cache"), nothing)
    for name in refused.split():
        made[name] = (
            _class(name, phrase, error)
            if name[0].isupper()
            else refusing(name, f"Needs {kind}.", lambda: error(phrase))
        )
    return made


def _class(name: str, phrase: str, error: type[Exception]) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise error(phrase)

    init: Callable = refuse
    return type(name, (), {"__init__": init, "__doc__": f"{name} of a device that this build does not have."})
