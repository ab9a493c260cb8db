"""What settings switch on while something is compiled: the debug folder, the report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tocha._core.on_demand import Later
from tocha._inductor import config as inductor_config
from tocha._logging import events

if TYPE_CHECKING:
    from tocha._logging.debug_folder import DebugFolder

debug_folders, scripts, serialization = (
    Later(f"tocha.{m}") for m in ("_logging.debug_folder", "fx._scripts", "serialization")
)

_folder: DebugFolder | None = None


def debug_folder() -> DebugFolder | None:
    """Where this process writes what it compiles, if it does."""
    return _folder


def _listen(event: events.Event) -> None:
    """A folder is begun with the first capture for which the setting is on."""
    global _folder
    on = getattr(inductor_config, "trace.enabled")
    if isinstance(event, events.CaptureBegan):
        if on and _folder is None:
            root = getattr(inductor_config, "trace.debug_dir") or os.getcwd()
            _folder = debug_folders.DebugFolder(root, scripts.graph_script, serialization.save)
            events.add(_folder, thorough=True)
            _folder(event)
        elif not on and _folder is not None:
            events.remove(_folder)
            _folder = None
    if _folder is not None:
        _folder.draws = getattr(inductor_config, "trace.graph_diagram")


events.add(_listen)
