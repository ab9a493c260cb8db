"""Storages: UntypedStorage, the bytes under a tensor, and TypedStorage, the same bytes seen as elements of one dtype.

TypedStorage and its older names (FloatStorage, LongStorage, ...) exist for programs and saved files that use them.
"""

import tocha
from tocha._C import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

_LEGACY_DTYPES = {
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


def _new_untyped(args, dtype, device):
    if len(args) > 1:
        raise RuntimeError(f"TypedStorage() takes one size or one sequence, got {len(args)} arguments")
    source = args[0] if args else 0
    if isinstance(source, int):
        return UntypedStorage(source * dtype.itemsize, device=device)
    if isinstance(source, (str, bytes)):
        raise TypeError(f"a storage cannot be made of {type(source).__name__}")
    return tocha.tensor(source, dtype=dtype, device=device).untyped_storage()


class TypedStorage:
    """A storage seen as a row of elements.

    Example::

        >>> tocha.TypedStorage([1, 2], dtype=tocha.int64).tolist()
        [1, 2]
    """

    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None):
        self.dtype = tocha.get_default_dtype() if dtype is None else dtype
        if not isinstance(self.dtype, tocha.dtype):
            raise TypeError(f"dtype must be tocha.dtype, not {type(dtype).__name__}")
        if wrap_storage is None:
            wrap_storage = _new_untyped(args, self.dtype, device)
        elif args or device is not None:
            raise RuntimeError("TypedStorage() takes no other arguments than dtype with wrap_storage")
        elif not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(f"wrap_storage must be UntypedStorage, not {type(wrap_storage).__name__}")
        self._untyped_storage = wrap_storage

    def _tensor(self):
        return self._untyped_storage._as_tensor(self.dtype)

    def _like(self, untyped):
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype)

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
    def _cdata(self):
        return self._untyped_storage._cdata

    def size(self):
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = _size = size

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise TypeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self).__name__} with {type(index).__name__}")
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self):
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=False):
        """Copies the elements of a storage of the same size, converted to this one's dtype."""
        other = source._tensor() if isinstance(source, TypedStorage) else source._as_tensor(self.dtype)
        if other.shape != self._tensor().shape:
            raise RuntimeError(f"size does not match, self has {self.size()} elements but src has {len(other)}")
        self._tensor().copy_(other, non_blocking)
        return self

    def clone(self):
        return self._like(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo):
        return self.clone()

    def __reduce__(self):
        return (_typed_storage, (self._untyped_storage, self.dtype))

    def resize_(self, size):
        """Changes the number of elements and keeps what fits."""
        self._untyped_storage.resize_(size * self.element_size())

    def resizable(self):
        return self._untyped_storage.resizable()

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def is_pinned(self, device=None):
        return self._untyped_storage.is_pinned()

    def share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    def cpu(self):
        return self._like(self._untyped_storage.cpu())

    def new(self):
        return self._like(self._untyped_storage.new())

    def pickle_storage_type(self):
        """The older name of this kind of storage: FloatStorage, ..."""
        return legacy_class(self.dtype).__name__

    def type(self, dtype=None):
        """The name of the type, or with a dtype a copy with elements of that dtype."""
        if dtype is None:
            return f"tocha.{self.pickle_storage_type()}"
        return self._to(dtype)

    def _to(self, dtype):
        return TypedStorage(wrap_storage=self._tensor().to(dtype).clone().untyped_storage(), dtype=dtype)

    def __repr__(self):
        items = "..." if self.device.type == "meta" else " " + "\n ".join(map(str, self.tolist()))
        kind = f"tocha.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}"
        return f"{items}\n[{kind}]"


def _typed_storage(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def _conversion(name, dtype):
    def convert(self):
        return self._to(getattr(tocha, dtype))

    convert.__name__ = name
    convert.__qualname__ = f"TypedStorage.{name}"
    convert.__doc__ = f"A copy with elements of dtype {dtype}."
    return convert


for _name, _dtype in _LEGACY_DTYPES.items():
    _method = _name.removesuffix("Storage").lower().replace("complex", "complex_")
    setattr(TypedStorage, _method, _conversion(_method, _dtype))


class _LegacyStorageMeta(type):
    """FloatStorage(3) is a TypedStorage of float32, and every such storage is an instance of FloatStorage."""

    @property
    def dtype(cls):
        return getattr(tocha, _LEGACY_DTYPES[cls.__name__])

    def __call__(cls, *args, wrap_storage=None):
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype

    def from_buffer(cls, *args, **kwargs):
        """A copy of a buffer's elements, in this machine's byte order."""
        return cls(wrap_storage=UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs))


for _name in _LEGACY_DTYPES:
    globals()[_name] = _LegacyStorageMeta(_name, (), {"__module__": "tocha", "__doc__": f"Makes a {_name}."})
    __all__.append(_name)


def legacy_class(dtype):
    """The storage class named after a dtype; KeyError for those that never had one."""
    for name, own in _LEGACY_DTYPES.items():
        if getattr(tocha, own) == dtype:
            return globals()[name]
    raise KeyError(f"no storage class is named after {dtype}")


def has_legacy_class(dtype):
    return any(getattr(tocha, own) == dtype for own in _LEGACY_DTYPES.values())


def is_legacy_class(obj):
    """Whether obj is FloatStorage or another of those classes."""
    return isinstance(obj, _LegacyStorageMeta)
