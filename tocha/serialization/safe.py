"""What a checkpoint may name without being trusted: tensors and plain containers, and what the user adds."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

from tocha import _C, _tensor, _utils, storage
from tocha.serialization import names

Named = Callable | tuple[Callable, str]


def _encode(text: str, encoding: str) -> bytes:
    """_codecs.encode as pickles use it, for bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes are saved as latin1 text, not {type(text).__name__} in {encoding!r}")
    return text.encode("latin1")


def _bytearray(source: Any = b"", encoding: str = "latin1") -> bytearray:
    """Of text or bytes; a number would ask for that much memory."""
    if isinstance(source, str):
        return bytearray(_encode(source, encoding))
    if not isinstance(source, bytes | list):
        raise ValueError(f"a bytearray is saved as text or bytes, not {type(source).__name__}")
    return bytearray(source)


def _rebuild_from_type(function: Any, new_type: Any, args: Any, state: Any) -> Any:
    """_tensor._rebuild_from_type_v2, for tensors only."""
    if function not in _REBUILDS or not (isinstance(new_type, type) and issubclass(new_type, _C.Tensor)):
        raise ValueError(f"a {new_type!r} made by {function!r} is no tensor")
    return _tensor._rebuild_from_type_v2(function, new_type, args, state)


_REBUILDS = [getattr(_utils, n) for n in vars(_utils) if n.startswith("_rebuild_")]


def _defaults() -> dict[str, Any]:
    from tocha.nn.parameter import Parameter

    found: dict[str, Any] = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.complex": complex,
        "builtins.bytearray": _bytearray,
        "_codecs.encode": _encode,
        "tocha.Size": _C.Size,
        "tocha.device": _C.device,
        "tocha.Tensor": _C.Tensor,
        "tocha.nn.parameter.Parameter": Parameter,
        "tocha.storage.UntypedStorage": storage.UntypedStorage,
        "tocha.storage.TypedStorage": storage.TypedStorage,
        "tocha._tensor._rebuild_from_type_v2": _rebuild_from_type,
    }
    found |= {f"tocha._utils.{f.__name__}": f for f in _REBUILDS}
    found |= {f"tocha.{n}": v for n, v in vars(storage).items() if n in storage.__all__}
    found |= {f"tocha.{n}": v for n, v in vars(_C).items() if isinstance(v, _C.dtype)}
    found |= {f"tocha.{n}": v for n, v in vars(_C).items() if isinstance(v, _C.memory_format | _C.layout)}
    return found


_default_table: dict[str, Any] = {}
_added: dict[str, Any] = {}


def _defaults_once() -> dict[str, Any]:
    if not _default_table:
        _default_table.update(_defaults())
    return _default_table


def _entry(item: Named) -> tuple[str, Any]:
    """The full name under which a file refers to an object."""
    if isinstance(item, tuple):
        obj, full = item
        module, _, name = full.rpartition(".")
    else:
        obj = item
        module, name = names.home_of(obj, None)
    return ".".join(names.ours(module, name)), obj


def allowed(module: str, name: str) -> Any:
    """The object a file may name so, or KeyError."""
    full = ".".join(names.ours(module, name))
    return _added[full] if full in _added else _defaults_once()[full]


def is_name_only(obj: Any) -> bool:
    """Classes that files name as arguments and never call: called with a number they would ask for that much memory."""
    return (
        isinstance(obj, type) and issubclass(obj, _C.Tensor | storage.TypedStorage | storage.UntypedStorage)
    ) or isinstance(obj, type(storage.legacy_class(_C.float32)))


def is_added(obj: Any) -> bool:
    return any(obj is a for a in _added.values())


def add_safe_globals(safe_globals: Iterable[Named]) -> None:
    """Lets files name these functions and classes (or (object, "full.name") pairs) with `weights_only=True`."""
    _added.update(_entry(item) for item in safe_globals)


def get_safe_globals() -> list[Any]:
    """What was added."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Forgets what was added."""
    _added.clear()


class safe_globals:
    """A context in which files may name these too.

    >>> from collections import deque
    >>> with safe_globals([deque]):
    ...     len(get_safe_globals())
    1
    """

    def __init__(self, safe_globals: Iterable[Named]):
        self._items = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_added)
        add_safe_globals(self._items)

    def __exit__(self, *exception: object) -> None:
        _added.clear()
        _added.update(self._before)
