"""Logs of the compiler: which artifacts and components are said, how and where to. docs/guide/debugging.md shows them at work.

>>> import tocha
>>> tocha._logging.set_logs(graph_breaks=True)
>>> tocha._logging.set_logs()
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from tocha._core.on_demand import Later
from tocha._logging import events
from tocha._logging.artifacts import ARTIFACTS, WITHOUT_OUTPUT

difflib = Later("difflib")
__all__ = ["DEFAULT_LOGGING", "LazyString", "getArtifactLogger", "help_message", "set_logs", "warning_once"]

DEFAULT_LOGGING: dict[str, Any] = {}
# Loggers of each component: what is said at INFO and DEBUG besides artifacts.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "dynamo": ("tocha._dynamo",),
    "aot": ("tocha._functorch",),
    "inductor": ("tocha._inductor",),
    "symbolic_shapes": ("tocha.ir.shape_env",),
    "dynamic": ("tocha.ir.shape_env",),
    "cache": ("tocha._inductor.cache",),
    "fake_tensor": ("tocha._subclasses",),
    "autograd": ("tocha.autograd",),
    "export": ("tocha.export", "tocha._dynamo"),
    "distributed": ("tocha.distributed",),
    "onnx": ("tocha.onnx",),
    "torch": ("tocha",),
}
# Components of PyTorch's that stand for nothing that is done here.
OTHER_COMPONENTS = ("async_compile", "c10d", "ddp", "dtensor", "fsdp", "native_dsl", "pp")
SAYS = {"symbolic_shapes": "dynamic"}  # artifacts of one component belong to these too
FORMAT = "%(short_level)s%(asctime)s.%(msecs)03d %(process)d %(name)s]%(compile_id)s%(artifact)s %(message)s"

_chosen: set[str] = set()  # artifacts that are said
_levels: dict[str, int] = {}  # components that are said
_handlers: list[logging.Handler] = []
_said: set[str] = set()


class _Stderr(logging.StreamHandler):
    """Where stderr goes at the time."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:  # type: ignore[override]
        return sys.stderr


class _Formatter(logging.Formatter):
    """Every line of a message has its prefix, so that a search for an artifact finds all of it."""

    def format(self, record: logging.LogRecord) -> str:
        for name, value in (("compile_id", ""), ("artifact", "")):
            if not hasattr(record, name):
                setattr(record, name, value)
        record.short_level = "V" if record.levelno <= logging.DEBUG else record.levelname[0]
        text, record.msg, record.args = record.getMessage(), "", None
        prefix = super().format(record)
        record.msg = text
        own = "%(message)s" in (self._fmt or "") and self._fmt == FORMAT
        if not own:
            return super().format(record)
        return "\n".join(f"{prefix.rstrip()} {line}".rstrip() for line in text.split("\n"))


def _is_torch_name(name: str) -> str:
    """Loggers by PyTorch's names are ours."""
    return "tocha" + name[len("torch") :] if name == "torch" or name.startswith("torch.") else name


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger of an artifact."""
    if artifact_name not in ARTIFACTS and artifact_name not in WITHOUT_OUTPUT:
        raise ValueError(f"Artifact name: {artifact_name} not registered, please call register_artifact({artifact_name}) in torch._logging.registrations.")  # fmt: skip
    return logging.getLogger(f"{_is_torch_name(module_qname)}.__{artifact_name}")


def _said_of(event: events.Event, artifact: Any) -> None:
    for text in artifact.text(event):
        name = COMPONENTS[artifact.component][0]
        shown = {
            "compile_id": f" [{event.compile_id}]" if event.compile_id else "",
            "artifact": f" [__{artifact.name}]",
        }
        record = logging.getLogger(name).makeRecord(name, logging.DEBUG, "", 0, text, (), None, extra=shown)
        for handler in _handlers:
            handler.handle(record)


def _is_said(artifact: Any) -> bool:
    if artifact.name in _chosen:
        return True
    names = (artifact.component, SAYS.get(artifact.component, ""))
    return not artifact.quiet and any(_levels.get(n, logging.CRITICAL) <= logging.DEBUG for n in names)


def _listen(event: events.Event) -> None:
    for artifact in ARTIFACTS.values():
        if _is_said(artifact):
            _said_of(event, artifact)
    _component(event)


def _component(event: events.Event) -> None:
    """What components say at INFO."""
    match event:
        case events.CaptureBegan(code=code):
            _info("dynamo", event, f"capture of {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) begins")
        case events.GraphCaptured(module=module):
            calls = sum(n.op.startswith("call_") for n in module.graph.nodes)
            _info("dynamo", event, f"a graph of {calls} operators goes to the backend")
        case events.CaptureEnded(code=code, error=error):
            said = "is captured" if error is None else f"is not captured: {type(error).__name__}: {error}"
            _info("dynamo", event, f"{code.co_qualname} {said}")
        case events.GraphMade(stage=stage, module=module) if stage in ("joint", "forward", "backward", "inference"):
            _info("aot", event, f"{stage} graph of {len(module.graph.nodes)} nodes")
        case events.ProgramMade(compiled=compiled):
            _info("inductor", event, f"{len(compiled.kernels)} kernels, {len(compiled.calls)} native calls")
        case events.FrameMade() if any(_levels.get(c, 99) <= logging.INFO for c in ("dynamic", "symbolic_shapes")):
            for line in ARTIFACTS["sym_node"].text(event):
                _info("symbolic_shapes" if "symbolic_shapes" in _levels else "dynamic", event, line)


def _info(component: str, event: events.Event, text: str) -> None:
    if _levels.get(component, _levels.get("torch", logging.CRITICAL)) <= logging.INFO:
        name = COMPONENTS[component][0]
        shown = {"compile_id": f" [{event.compile_id}]" if event.compile_id else "", "artifact": ""}
        record = logging.getLogger(name).makeRecord(name, logging.INFO, "", 0, text, (), None, extra=shown)
        for handler in _handlers:
            handler.handle(record)


def _reset() -> None:
    events.remove(_listen)
    events.STEPS.clear()
    for name in {n for names in COMPONENTS.values() for n in names} | {n for n in _levels if n not in COMPONENTS}:
        logging.getLogger(name).setLevel(logging.NOTSET)
    ours = logging.getLogger("tocha")
    for handler in _handlers:
        ours.removeHandler(handler)
        handler.close()
    ours.propagate = True
    _handlers.clear()
    _chosen.clear()
    _levels.clear()


def _install() -> None:
    """Puts the settings into effect."""
    if not _chosen and not _levels:
        return
    _handlers.append(_Stderr())
    file = os.environ.get("TORCH_LOGS_OUT") or os.environ.get("TOCHA_LOGS_OUT")
    if file:
        _handlers.append(logging.FileHandler(file))
    form = os.environ.get("TORCH_LOGS_FORMAT") or FORMAT
    for handler in _handlers:
        handler.setFormatter(_Formatter(form, "%m%d %H:%M:%S"))
        handler.setLevel(logging.NOTSET)
        logging.getLogger("tocha").addHandler(handler)
    logging.getLogger("tocha").propagate = False
    for name, level in _levels.items():
        for logger in COMPONENTS.get(name, (name,)):
            logging.getLogger(logger).setLevel(level)
    events.STEPS += sorted(_chosen & {"trace_source", "trace_call", "trace_bytecode"})
    events.add(_listen, thorough=_wants_every_stage())


def _wants_every_stage() -> bool:
    """Whether what is said is known only while a graph is compiled, not when it comes from the cache."""
    late = {a.name for a in ARTIFACTS.values() if a.component in ("aot", "inductor") and not a.early}
    return bool(_chosen & late) or any(_levels.get(c, logging.CRITICAL) <= logging.INFO for c in ("aot", "inductor"))


def _names() -> list[str]:
    return ["all", *COMPONENTS, *OTHER_COMPONENTS, *ARTIFACTS, *WITHOUT_OUTPUT]


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, _names(), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _choose(name: str, value: Any) -> None:
    if name in WITHOUT_OUTPUT or name in OTHER_COMPONENTS:
        if name not in _said:
            _said.add(name)
            logging.getLogger("tocha").warning("[logs] %s has nothing to say here", name)
    elif name in ARTIFACTS:
        if not isinstance(value, bool):
            raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
        _chosen.add(name) if value else _chosen.discard(name)
    elif name in COMPONENTS or name == "all":
        if value not in logging._levelToName:
            raise ValueError(f"Unrecognized log level for log {name}: {value}, valid level values are: {','.join(map(str, logging._levelToName))}")  # fmt: skip
        _levels.update(dict.fromkeys(COMPONENTS if name == "all" else [name], value))
    else:
        raise ValueError(
            f"Unrecognized log or artifact name passed to set_logs: {name} (type {type(value)}){_nearest(name)}"
        )


def set_logs(*, modules: dict[str, int | bool] | None = None, **settings: Any) -> None:
    """Says which components (at a level of `logging`) and artifacts (True) are said; what is not named is not.

    >>> import tocha
    >>> tocha._logging.set_logs(graph_braeks=True)
    Traceback (most recent call last):
    ValueError: Unrecognized log or artifact name passed to set_logs: graph_braeks (type <class 'bool'>); did you mean 'graph_breaks'?
    """
    if os.environ.get("TORCH_LOGS") or os.environ.get("TOCHA_LOGS"):
        logging.getLogger("tocha").warning("Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs")  # fmt: skip
        return
    _reset()
    for name, value in settings.items():
        if value is not None:
            _choose(name, value)
    for name, value in (modules or {}).items():
        if isinstance(value, bool):
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name} (type {type(value)})")
        _levels[_is_torch_name(name)] = value
    _install()


def help_message(verbose: bool = False) -> str:
    """What TORCH_LOGS=help prints."""
    lines = [
        "TORCH_LOGS (or TOCHA_LOGS) is a list of names, separated by commas.",
        "  a component: says what it does; +component: everything; -component: errors only",
        "  an artifact: says that one thing",
        "  a module's name: sets the level of its logger",
        'Examples: TORCH_LOGS="graph_breaks,recompiles"   TORCH_LOGS="+dynamo,output_code"',
        "TORCH_LOGS_OUT=file writes them to a file too; TORCH_LOGS_FORMAT is a format of Python's logging.",
        "",
        f"Components: all, {', '.join(COMPONENTS)}",
        "Artifacts:",
        *(f"  {a.name:<26} {a.meaning}" for a in sorted(ARTIFACTS.values(), key=lambda a: a.name)),
    ]
    if verbose:
        lines.append(
            f"Names of PyTorch's that have nothing to say here: {', '.join((*OTHER_COMPONENTS, *WITHOUT_OUTPUT))}"
        )
    return "\n".join(lines)


def _set_from_text(text: str) -> None:
    """As in TORCH_LOGS."""
    _reset()
    for part in filter(None, (p.strip() for p in text.split(","))):
        name = part.lstrip("+-")
        if name == "help":
            print(help_message(part.startswith("+")), file=sys.stderr)
            continue
        level = logging.DEBUG if part.startswith("+") else logging.ERROR if part.startswith("-") else logging.INFO
        if name in ARTIFACTS or name in WITHOUT_OUTPUT:
            _choose(name, not part.startswith("-"))
        elif name in COMPONENTS or name in OTHER_COMPONENTS or name == "all":
            _choose(name, level)
        elif "." in name or name in sys.modules:
            _levels[_is_torch_name(name)] = level
        else:
            raise ValueError(f"Invalid log settings: {text}, must be a comma separated list of fully qualified module names, registered log names or registered artifact names: got {name!r}{_nearest(name)}\n{help_message()}")  # fmt: skip
    _install()


def _init_from_environment() -> None:
    """When the compiler is loaded."""
    text = os.environ.get("TOCHA_LOGS") or os.environ.get("TORCH_LOGS")
    if text:
        _set_from_text(text)
    folder = os.environ.get("TORCH_TRACE") or os.environ.get("TOCHA_TRACE")
    if folder:
        from tocha._logging.trace import Trace

        events.add(Trace(folder))
    from tocha._logging.progress import PROGRESS

    events.add(PROGRESS)


class LazyString:
    """A text that is made when somebody reads it."""

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


@functools.lru_cache(None)
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """logger.warning, the first time only."""
    logger_obj.warning(*args, **kwargs)
