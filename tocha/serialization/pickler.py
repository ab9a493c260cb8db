"""Pickles in PyTorch's terms: tensors by its rebuild functions, storages apart, by reference, and its module names."""

from __future__ import annotations

import pickle
import types
from typing import IO, Any, ClassVar

from tocha import _C
from tocha._utils import _reduce_tensor
from tocha.serialization import names
from tocha.serialization.errors import Refused, brief
from tocha.serialization.locations import location_tag
from tocha.storage import TypedStorage, UntypedStorage, is_legacy_class, legacy_class, typed_storage, untyped_of


class Storages:
    """The storages that a pickle refers to, each once, by key."""

    def __init__(self) -> None:
        self.by_key: dict[str, UntypedStorage] = {}
        self._keys: dict[int, str] = {}
        self._dtypes: dict[int, object] = {}

    def reference(self, obj: TypedStorage | UntypedStorage) -> tuple:
        """What stands for a storage in the pickle."""
        untyped = untyped_of(obj)
        if isinstance(obj, TypedStorage):
            kind, count = legacy_class(obj.dtype), untyped.nbytes() // obj.dtype.itemsize
        else:
            kind, count = UntypedStorage, obj.nbytes()
        self._check_dtype(untyped, getattr(obj, "dtype", _C.uint8))
        key = self._keys.setdefault(untyped._cdata, str(len(self._keys)))
        self.by_key[key] = untyped
        return "storage", kind, key, location_tag(untyped), count

    def _check_dtype(self, untyped: UntypedStorage, dtype: object) -> None:
        if untyped.nbytes() and self._dtypes.setdefault(untyped.data_ptr(), dtype) != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")

    def bytes_of(self, key: str) -> memoryview:
        """A storage's memory, copied to the CPU if it lies elsewhere."""
        return memoryview(self.by_key[key].cpu()._as_tensor(_C.uint8).numpy())


def check_reference(reference: Any) -> tuple[str, Any, str, int]:
    """key, dtype (None for bytes), location and number of bytes of ('storage', class, key, location, count, ...)."""
    if type(reference) is not tuple or len(reference) < 5 or type(reference[0]) is not str or reference[0] != "storage":
        raise Refused("the pickle refers to something outside that is no storage")
    kind, key, location, count = reference[1:5]
    if type(key) is not str or type(location) is not str:
        raise Refused("the pickle refers to a storage by something that is no text")
    if type(count) is not int or not 0 <= count < 2**63:
        raise Refused(f"storage {brief(key)!r} has a number of elements that is no number from 0 to 2**63-1")
    if kind is UntypedStorage:
        return key, None, location, count
    if not is_legacy_class(kind):
        raise Refused(f"storage {brief(key)!r} is of a class that is no storage's")
    return key, kind.dtype, location, count * kind.dtype.itemsize


def typed(storage: UntypedStorage, dtype: Any) -> TypedStorage | UntypedStorage:
    """The storage as a reference with that dtype means it."""
    return storage if dtype is None else typed_storage(storage, dtype)


# The class in Python: the one in C does not let names be changed.
_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]


class Pickler(_PythonPickler):
    """Writes one pickle; storages are left to `storages`."""

    def __init__(self, file: IO[bytes], protocol: int, storages: Storages):
        super().__init__(file, protocol=protocol)
        self._storages = storages

    def persistent_id(self, obj: Any) -> tuple | None:
        return self._storages.reference(obj) if isinstance(obj, TypedStorage | UntypedStorage) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _C.layout):
            return names._get_layout, (repr(obj).replace("tocha.", "torch."),)
        return _reduce_tensor(obj) if isinstance(obj, _C.Tensor) and _reduces_as_ours(type(obj)) else NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, qualified = names.home_of(obj, name)
        if names.theirs(module) == module:
            super().save_global(obj, name)
            return
        try:
            found = names.find(module, qualified)
        except (ImportError, AttributeError) as error:
            raise pickle.PicklingError(f"cannot save {obj!r}: it is not found as {module}.{qualified}") from error
        if found is not obj:
            raise pickle.PicklingError(f"cannot save {obj!r}: {module}.{qualified} is another object")
        self._write_global(*names.in_files(module, qualified))
        self.memoize(obj)

    def _write_global(self, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    dispatch: ClassVar[dict] = {**_PythonPickler.dispatch, types.FunctionType: save_global}


def _reduces_as_ours(cls: type) -> bool:
    """Whether a class of tensors leaves pickling to us."""
    from tocha.nn.parameter import Parameter

    ours = (_C.Tensor, Parameter)
    return any(cls.__reduce_ex__ is c.__reduce_ex__ for c in ours) and cls.__reduce__ is _C.Tensor.__reduce__
