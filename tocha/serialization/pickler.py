"""Writes objects as pickles in PyTorch's terms: tensors by its rebuild functions, storages apart, its module names."""

from __future__ import annotations

import pickle
import types
from typing import IO, Any, ClassVar

from tocha import _C
from tocha._utils import _reduce_tensor
from tocha.serialization import names
from tocha.storage import TypedStorage, UntypedStorage, legacy_class


class Storages:
    """The storages that a pickle refers to, each once, by key."""

    def __init__(self) -> None:
        self.by_key: dict[str, UntypedStorage] = {}
        self._keys: dict[int, str] = {}
        self._dtypes: dict[int, object] = {}

    def reference(self, obj: TypedStorage | UntypedStorage) -> tuple:
        """What stands for a storage in the pickle."""
        if isinstance(obj, TypedStorage):
            untyped, kind, count = obj.untyped(), legacy_class(obj.dtype), obj.size()
        else:
            untyped, kind, count = obj, UntypedStorage, obj.nbytes()
        self._check_dtype(untyped, getattr(obj, "dtype", None))
        key = self._keys.setdefault(untyped._cdata, str(len(self._keys)))
        self.by_key[key] = untyped
        return "storage", kind, key, location_of(untyped), count

    def _check_dtype(self, untyped: UntypedStorage, dtype: object) -> None:
        if untyped.nbytes() and self._dtypes.setdefault(untyped.data_ptr(), dtype) != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")


def location_of(storage: UntypedStorage) -> str:
    device = storage.device
    return device.type if device.type == "cpu" or device.index is None else f"{device.type}:{device.index}"


class Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]  # the class in Python: the one in C does not let names be changed
    def __init__(self, file: IO[bytes], protocol: int, storages: Storages):
        super().__init__(file, protocol=protocol)
        self._storages = storages

    def persistent_id(self, obj: Any) -> tuple | None:
        return self._storages.reference(obj) if isinstance(obj, TypedStorage | UntypedStorage) else None

    def reducer_override(self, obj: Any) -> Any:
        return _reduce_tensor(obj) if isinstance(obj, _C.Tensor) else NotImplemented

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
        self._write_global(names.theirs(module), qualified)
        self.memoize(obj)

    def _write_global(self, module: str, name: str) -> None:
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    dispatch: ClassVar[dict] = {**pickle._Pickler.dispatch, types.FunctionType: save_global}  # type: ignore[attr-defined]
