"""What a checkpoint may name without being trusted: tensors and plain containers, and what the user adds.

Naming is not calling. What may be called without being added has a function here that checks its arguments first: a file
could otherwise ask Python to hash what overflows its stack, or to walk a view of a trillion elements.
"""

from __future__ import annotations

import collections
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tocha import _C, _tensor, _utils, storage
from tocha._tensor.types import types_of
from tocha.nn.parameter import Parameter
from tocha.serialization import names

Named = Callable | tuple[Callable, str]
_DEEPEST_KEY = 20
_LARGEST_KEY = 10_000


# -- calls with checked arguments ------------------------------------------------------------------------


def check_key(key: Any) -> None:
    """Python hashes nested tuples by recursion without a limit, and one tuple may stand in another many times."""
    waiting, seen = [(key, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        if not isinstance(value, tuple):
            continue
        seen += len(value)
        if depth >= _DEEPEST_KEY:
            raise ValueError(f"a key of a dict or set is a tuple nested more than {_DEEPEST_KEY} deep")
        if seen > _LARGEST_KEY:
            raise ValueError(f"a key of a dict or set is a tuple of more than {_LARGEST_KEY} values")
        waiting.extend((item, depth + 1) for item in value)


def _check_type(value: Any, *kinds: type) -> None:
    if type(value) not in kinds:
        raise ValueError(f"expected {' or '.join(k.__name__ for k in kinds)}, not {type(value).__name__}")


def _items(values: Any) -> Any:
    _check_type(values, list, tuple, set, frozenset)
    for value in values:
        check_key(value)
    return values


def _set(values: Any = ()) -> set:
    return set(_items(values))


def frozenset_of(values: Any = ()) -> frozenset:
    return frozenset(_items(values))


def _ordered_dict(pairs: Any = ()) -> collections.OrderedDict:
    """Empty, or of a list of pairs, as Python 2 wrote it."""
    _check_type(pairs, list, tuple)
    for pair in pairs:
        _check_type(pair, list, tuple)
        if len(pair) != 2:
            raise ValueError(f"expected a key and a value, not {len(pair)} values")
        check_key(pair[0])
    return collections.OrderedDict(pairs)


def _counter(counts: Any = None) -> collections.Counter:
    _check_type(counts, dict, type(None))
    return collections.Counter(counts)


def _size(values: Any = ()) -> _C.Size:
    _check_type(values, list, tuple)
    return _C.Size(values)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """_codecs.encode as pickles use it, for bytes."""
    _check_type(text, str)
    if encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes are saved as latin1 text, not in another encoding")
    return text.encode("latin1")


def _bytearray(source: Any = b"", encoding: Any = "latin1") -> bytearray:
    """Of text or bytes; a number would ask for that much memory."""
    _check_type(source, str, bytes)
    return bytearray(_encode(source, encoding) if isinstance(source, str) else source)


def _bytes() -> bytes:
    """Protocol 2 writes b"" as a call without arguments, and no other bytes so."""
    return b""


def _complex(real: Any = 0.0, imag: Any = 0.0) -> complex:
    _check_type(real, int, float)
    _check_type(imag, int, float)
    return complex(real, imag)


def _rebuild_from_type(function: Any, new_type: Any, args: Any, state: Any) -> Any:
    """_tensor._rebuild_from_type_v2, for tensors only."""
    if not any(function is known for known in _REBUILDS) and not _is_later(function):
        raise ValueError("a tensor can only be made by a function that rebuilds tensors")
    if not (isinstance(new_type, type) and issubclass(new_type, _C.Tensor)):
        raise ValueError("the class of a tensor must be Tensor or derived from it")
    _check_type(args, tuple)
    return _tensor._rebuild_from_type_v2(function, new_type, args, state)


class DimRange:
    """What PyTorch's compiler has been told of a size, which it writes down beside nested tensors; nothing reads it."""

    def __setstate__(self, state: Any) -> None:
        pass


_REBUILDS = (
    _utils._rebuild_tensor,
    _utils._rebuild_tensor_v2,
    _utils._rebuild_tensor_v3,
    _utils._rebuild_meta_tensor_no_storage,
    _utils._rebuild_sparse_tensor,
    _utils._rebuild_nested_tensor,
    _utils._rebuild_parameter,
    _utils._rebuild_parameter_with_state,
)
_CALLS: list[tuple[Any, Callable]] = [
    (collections.OrderedDict, _ordered_dict),
    (collections.Counter, _counter),
    (set, _set),
    (frozenset, frozenset_of),
    (complex, _complex),
    (bytearray, _bytearray),
    (bytes, _bytes),
    (_encode, _encode),
    (_C.Size, _size),
    (_C.device, _C.device),
    (names._get_layout, names._get_layout),
    (_tensor._rebuild_from_type_v2, _rebuild_from_type),
    *((f, f) for f in _REBUILDS),
    (DimRange, DimRange),
]


def copied_by(obj: Any, arguments: tuple) -> int:
    """How many values such a call copies. A pickle that pickle wrote holds each of them once."""
    first = arguments[0] if arguments and not is_added(obj) else None
    return len(first) if isinstance(first, str | bytes | list | tuple | set | frozenset | dict) else 0


# -- names -------------------------------------------------------------------------------------------------


def _defaults() -> dict[str, Any]:
    found: dict[str, Any] = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.complex": complex,
        "builtins.bytearray": bytearray,
        "builtins.bytes": bytes,
        "_codecs.encode": _encode,
        "tocha.Size": _C.Size,
        "tocha.device": _C.device,
        "tocha.Tensor": _C.Tensor,
        "tocha.nn.parameter.Parameter": Parameter,
        "tocha.storage.UntypedStorage": storage.UntypedStorage,
        "tocha.storage.TypedStorage": storage.TypedStorage,
        "tocha.serialization.names._get_layout": names._get_layout,
        "tocha._tensor._rebuild_from_type_v2": _tensor._rebuild_from_type_v2,
        "tocha.serialization.safe.DimRange": DimRange,
    }
    found |= {f"tocha._utils.{f.__name__}": f for f in _REBUILDS}
    found |= {f"tocha.{n}": v for n, v in vars(storage).items() if n in storage.__all__}
    values = (_C.dtype, _C.memory_format, _C.layout)
    found |= {f"tocha.{n}": v for n, v in vars(_C).items() if isinstance(v, values)}
    found |= {f"tocha.{n}": v for n, v in types_of("tocha").items()}
    return found


# Found when a file names them: most programs never load nested tensors.
_LATER_MODULE = "tocha.nested._internal.nested_tensor"
_LATER = {f"{_LATER_MODULE}._rebuild_njt", f"{_LATER_MODULE}.NestedTensor"}


def _is_later(obj: Any) -> bool:
    """Whether a file may name this function, and a tensor of a class of its own be made by it."""
    module = sys.modules.get(_LATER_MODULE)
    return module is not None and obj is module._rebuild_njt


_default_table: dict[str, Any] = {}
_added: dict[str, Any] = {}


def _defaults_once() -> dict[str, Any]:
    if not _default_table:
        _default_table.update(_defaults())
    return _default_table


def allowed(module: str, name: str) -> Any:
    """The object a file may name so, or KeyError."""
    full = ".".join(names.ours(module, name))
    if full in _LATER:
        return getattr(importlib.import_module(_LATER_MODULE), name)
    return _added[full] if full in _added else _defaults_once()[full]


def is_added(obj: Any) -> bool:
    """Whether the user allowed this object."""
    return any(obj is a for a in _added.values())


def callable_for(obj: Any) -> Callable | None:
    """What to call when a file calls this object, None if it must not."""
    if is_added(obj):
        return obj if callable(obj) else None
    return next((call for known, call in _CALLS if known is obj), None)


def is_buildable(kind: type) -> bool:
    """Whether a file may give objects of this class their attributes by __setstate__."""
    return kind is DimRange or is_added(kind)


# -- what the user adds ------------------------------------------------------------------------------------


def _entry(item: Named) -> tuple[str, Any]:
    """The full name under which a file refers to an object."""
    if isinstance(item, tuple):
        obj, full = item
        module, _, name = full.rpartition(".")
    else:
        obj = item
        module, name = names.home_of(obj, None)
    return ".".join(names.ours(module, name)), obj


def add_safe_globals(safe_globals: Iterable[Named]) -> None:
    """Lets files name and call these functions and classes (or (object, "full.name") pairs) with `weights_only=True`.

    >>> from fractions import Fraction
    >>> tocha.serialization.add_safe_globals([Fraction])
    >>> Fraction in tocha.serialization.get_safe_globals()
    True
    >>> tocha.serialization.clear_safe_globals()
    """
    _added.update([_entry(item) for item in safe_globals])


def get_safe_globals() -> list[Any]:
    """What was added.

    >>> tocha.serialization.get_safe_globals()
    []
    """
    return list(_added.values())


def clear_safe_globals() -> None:
    """Forgets what was added.

    >>> tocha.serialization.clear_safe_globals()
    >>> tocha.serialization.get_safe_globals()
    []
    """
    _added.clear()


class safe_globals:
    """A context in which files may name these too.

    >>> from collections import deque
    >>> with safe_globals([deque]):
    ...     get_safe_globals()
    [<class 'collections.deque'>]
    >>> get_safe_globals()
    []
    """

    def __init__(self, safe_globals: Iterable[Named]):
        self._items = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_added)
        add_safe_globals(self._items)

    def __exit__(self, *exception: object) -> None:
        _added.clear()
        _added.update(self._before)
