"""Storages: UntypedStorage, the bytes under a tensor, and TypedStorage, the same bytes seen as elements of one dtype.

TypedStorage and its older names (FloatStorage, LongStorage, ...) exist for programs and saved files that use them; who
uses one is told once that it is deprecated. The library itself goes through `_Elements`, which says nothing.
"""

import functools
import importlib
import io
import warnings

from tocha import _C
from tocha._C import UntypedStorage
from tocha._core.library_name import spoken

__all__ = ["StorageBase", "TypedStorage", "UntypedStorage"]
StorageBase = _StorageBase = UntypedStorage  # what a storage without a dtype is an instance of

# The old names of storages (and, in tocha/_tensor/types.py, of tensors) and their dtypes.
LEGACY_DTYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
}
_REMOVAL = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)
_has_warned = False


def _warn_typed_storage_removal(stacklevel=2):
    """Says, the first time, that typed storages are deprecated."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(_REMOVAL, UserWarning, stacklevel=stacklevel + 1)


def _reset_warn_typed_storage_removal():
    global _has_warned
    _has_warned = False


def _new_untyped(args, dtype, device):
    if len(args) > 1:
        raise RuntimeError(
            f"TypedStorage() takes one size or one sequence: Too many positional arguments, got {args!r}"
        )
    source = args[0] if args else 0
    if isinstance(source, int):
        return UntypedStorage(source * dtype.itemsize, device=device)
    if isinstance(source, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(source).__name__}'")
    return _C.tensor(source, dtype=dtype, device=device).untyped_storage()


class _Elements:
    """A storage seen as a row of elements; TypedStorage without its warning."""

    is_sparse = False
    is_hpu = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None):
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        if not isinstance(self.dtype, _C.dtype):
            raise TypeError(f"dtype must be tocha.dtype, not {type(dtype).__name__}")
        if wrap_storage is None:
            wrap_storage = _new_untyped(args, self.dtype, device)
        elif args or device is not None:
            raise RuntimeError("TypedStorage() takes no other arguments than dtype with wrap_storage")
        elif dtype is None:
            raise RuntimeError("TypedStorage() needs a dtype with wrap_storage")
        elif not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"wrap_storage must be UntypedStorage, not {type(wrap_storage).__name__}")
        self._untyped_storage = wrap_storage

    def _tensor(self):
        return self._untyped_storage._as_tensor(self.dtype)

    def _like(self, untyped):
        return typed_storage(untyped, self.dtype)

    def _check_readable(self):
        if self._untyped_storage.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")

    def _kind(self):
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def untyped(self):
        """The bytes."""
        return self._untyped_storage

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self._untyped_storage.is_cuda

    @property
    def filename(self):
        """The file that the memory is mapped from, or None."""
        return None

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def size(self):
        """The number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def __len__(self):
        return _Elements.size(self)

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index):
        self._check_readable()
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a <class '{self._kind()}'> with {type(index)}")
        if isinstance(index, bool):
            raise TypeError(f"can't index a <class '{self._kind()}'> with {type(index)}")
        n = _Elements.size(self)
        if not -n <= index < n:
            raise IndexError(f"index {index} out of range for storage of size {n}")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a <class '{self._kind()}'> with {type(index)}")
        self._tensor()[index] = value

    def __iter__(self):
        return iter(_Elements.tolist(self))

    def tolist(self):
        self._check_readable()
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """Copies the bytes of a storage of the same size."""
        self._untyped_storage.copy_(untyped_of(source), non_blocking)
        return self

    def clone(self):
        return self._like(self._untyped_storage.clone())

    def __copy__(self):
        return _Elements.clone(self)

    def __deepcopy__(self, memo):
        return _Elements.clone(self)

    def __reduce__(self):
        return (typed_storage, (self._untyped_storage, self.dtype))

    def resize_(self, size):
        """Changes the number of elements and keeps what fits."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def resizable(self):
        return self._untyped_storage.resizable()

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def is_pinned(self, device=None):
        return self._untyped_storage.is_pinned()

    def pin_memory(self, device=None):
        """A copy in memory that is page-locked for an accelerator; there is none."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def get_device(self):
        """The index of the device, or None where there is only one."""
        return self.device.index

    def share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    def cpu(self):
        return self._like(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        """A copy on a GPU."""
        where = _C.device("cuda") if device is None else _C.device(device)
        return self._like(self._tensor().to(where, non_blocking=non_blocking).untyped_storage())

    def to(self, *, device, non_blocking=False):
        """A copy on another device."""
        return self._like(self._tensor().to(_C.device(device), non_blocking=non_blocking).untyped_storage())

    def new(self):
        return self._like(self._untyped_storage.new())

    def pickle_storage_type(self):
        """The older name of this kind of storage: FloatStorage, ..."""
        return legacy_class(self.dtype).__name__

    def type(self, dtype=None):
        """The name of the type, or with a dtype or a class of storages a copy with elements of that dtype."""
        if dtype is None:
            return f"{spoken()}.{legacy_class(self.dtype).__name__}"
        return self._to(_dtype_named(dtype))

    def _to(self, dtype):
        return typed_storage(self._tensor().to(dtype).clone().untyped_storage(), dtype)

    def __repr__(self):
        meta = self._untyped_storage.device.type == "meta"
        items = "..." if meta else " " + "\n ".join(map(str, _Elements.tolist(self)))
        place = f"dtype={self.dtype}, device={self._untyped_storage.device}"
        return f"{items}\n[{spoken()}.storage.TypedStorage({place}) of size {_Elements.size(self)}]"


class TypedStorage(_Elements):
    """A storage seen as a row of elements.

    Example::

        >>> tocha.TypedStorage([1, 2], dtype=tocha.int64).tolist()
        [1, 2]
    """

    __module__ = "tocha.storage"


def typed_storage(untyped, dtype):
    """A TypedStorage for the library's own use: nobody is warned of it."""
    made = TypedStorage.__new__(TypedStorage)
    _Elements.__init__(made, wrap_storage=untyped, dtype=dtype)
    return made


_typed_storage = typed_storage  # the name in pickles


def untyped_of(storage):
    """The bytes of a storage of either kind."""
    return storage._untyped_storage if isinstance(storage, _Elements) else storage


def _dtype_named(kind):
    """The dtype of a class of storages, of its name, or given as it is."""
    if isinstance(kind, str):
        kind = globals().get(kind.rpartition(".")[2], kind)
    return kind.dtype if isinstance(kind, _LegacyStorageMeta) else kind


def _conversion(name, dtype):
    def convert(self):
        if isinstance(self, UntypedStorage):
            return typed_storage(self._as_tensor(_C.uint8).to(getattr(_C, dtype)).untyped_storage(), getattr(_C, dtype))
        return self._to(getattr(_C, dtype))

    convert.__name__ = name
    convert.__qualname__ = f"TypedStorage.{name}"
    convert.__doc__ = f"A copy with elements of dtype {dtype}."
    return convert


_CONVERSIONS = {
    name.removesuffix("Storage").lower().replace("complex", "complex_"): dtype for name, dtype in LEGACY_DTYPES.items()
} | {name: name for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")}
for _name, _dtype in _CONVERSIONS.items():
    setattr(_Elements, _name, _conversion(_name, _dtype))


def _warned(name, f):
    """A member of TypedStorage as a user sees it."""

    @functools.wraps(f)
    def member(self, *args, **kwargs):
        _warn_typed_storage_removal()
        return f(self, *args, **kwargs)

    return member


_SILENT = ("__reduce__", "__module__", "__doc__", "__dict__", "__weakref__", "is_sparse", "is_hpu")
for _name, _member in list(vars(_Elements).items()):
    if _name in _SILENT or (_name.startswith("_") and not _name.endswith("__")):
        continue
    if isinstance(_member, property):
        setattr(TypedStorage, _name, property(_warned(_name, _member.fget), doc=_member.__doc__))
    else:
        setattr(TypedStorage, _name, _warned(_name, _member))
for _name in ("filename", "is_hpu", "get_device", "pin_memory", *_CONVERSIONS):
    setattr(UntypedStorage, _name, vars(_Elements)[_name])


def _from_file(cls, filename, shared=False, nbytes=0):
    """A storage whose memory is a file: with shared=True changes go to the file, which grows as needed."""
    mapped = importlib.import_module("tocha._functions.files").from_file
    return mapped(filename, shared=shared, size=nbytes, dtype=_C.uint8).untyped_storage()


UntypedStorage.from_file = classmethod(_from_file)  # type: ignore[attr-defined]


def _load_from_bytes(b):
    """A storage from a file of its own: so PyTorch's pickles hold storages. Whoever reads a pickle runs what it says."""
    return importlib.import_module("tocha.serialization").load(io.BytesIO(b), weights_only=False)


class _LegacyStorageMeta(type):
    """FloatStorage(3) is a TypedStorage of float32, and every such storage is an instance of FloatStorage."""

    @property
    def dtype(cls):
        return getattr(_C, LEGACY_DTYPES[cls.__name__])

    def __call__(cls, *args, wrap_storage=None, **unknown):
        _warn_typed_storage_removal()
        if unknown:
            raise RuntimeError(f"{cls.__name__}: Keyword argument '{next(iter(unknown))}' cannot be specified")
        made = TypedStorage.__new__(TypedStorage)
        _Elements.__init__(made, *args, wrap_storage=wrap_storage, dtype=cls.dtype)
        return made

    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype

    def from_buffer(cls, *args, **kwargs):
        """A copy of a buffer's elements, in this machine's byte order."""
        return cls(wrap_storage=UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs))


for _name in LEGACY_DTYPES:
    globals()[_name] = _LegacyStorageMeta(_name, (), {"__module__": "tocha", "__doc__": f"Makes a {_name}."})
    __all__.append(_name)


def legacy_class(dtype):
    """The storage class named after a dtype; KeyError for those that never had one."""
    for name, own in LEGACY_DTYPES.items():
        if getattr(_C, own) == dtype:
            return globals()[name]
    raise KeyError(f"no storage class is named after {dtype}")


def has_legacy_class(dtype):
    return any(getattr(_C, own) == dtype for own in LEGACY_DTYPES.values())


def is_legacy_class(obj):
    """Whether obj is FloatStorage or another of those classes."""
    return isinstance(obj, _LegacyStorageMeta)
