"""What settings switch on while something is compiled: the debug folder, the report."""

from __future__ import annotations

from pathlib import Path

from tocha import serialization
from tocha._inductor import config as inductor_config
from tocha._logging import events
from tocha._logging.debug_folder import DebugFolder
from tocha.fx._scripts import graph_script

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
            root = getattr(inductor_config, "trace.debug_dir") or Path.cwd()
            _folder = DebugFolder(root, graph_script, serialization.save)
            events.add(_folder, thorough=True)
            _folder(event)
        elif not on and _folder is not None:
            events.remove(_folder)
            _folder = None
    if _folder is not None:
        _folder.draws = getattr(inductor_config, "trace.graph_diagram")


events.add(_listen)
