"""What changes a tensor's own size or memory: resize_, set_. The kernels of set_ are in csrc/dispatch/set_storage.cpp."""

from __future__ import annotations

from functools import partial

from tocha.ir import layout
from tocha.operators.facts import Memory
from tocha.operators.record import composite, facts, native


@native(
    "resize_(Tensor self, SymInt[] size, *, memory_format? memory_format=None) -> Tensor",
    algorithm="memory",
    variants="method",
    tags=frozenset({"any_device", "any_overlap", "memory_order", "no_gradient", "inplace_view", "own_version"}),
    core=True,
)
def resize_(self, size, memory_format):
    """Gives self another size; memory grows when needed, new elements are not initialised."""


@facts(resize_)
def resize_facts(self, size, memory_format):
    if not layout.same_sizes(tuple(size), self.sizes):
        self.memory.version += 1
    elif memory_format is None:
        return self
    self.reshape_in_place(size, layout.format_strides(size, memory_format), self.offset)
    return self


_SET = frozenset({"any_device", "any_overlap", "across_devices", "memory_order", "inplace_view"})
moved = partial(native, variants="method", tags=_SET, algorithm="memory")


@moved("set_(Tensor self) -> Tensor", samples=lambda t: [((t(3),), {})])
def set_(self):
    """Gives self other memory: none, a storage's or a tensor's. Nothing is copied."""


@moved(
    "set_.source_Storage(Tensor self, Storage source) -> Tensor",
    samples=lambda t: [((t(3), t(4).untyped_storage()), {})],
)
def set_to_storage(self, source):
    """Gives self all elements of a storage."""


@moved(
    "set_.source_Storage_storage_offset(Tensor self, Storage source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor",
    samples=lambda t: [((t(3), t(4).untyped_storage(), 1, [2]), {})],
)
def set_to_part_of_storage(self, source, storage_offset, size, stride):
    """Gives self elements of a storage, which grows where it is too short; contiguous without strides."""


@moved(
    "set_.source_Tensor(Tensor self, Tensor source) -> Tensor",
    samples=lambda t: [((t(3), t(4, 2)), {})],
)
def set_to_tensor(self, source):
    """Gives self the memory and layout of a tensor."""


@moved(
    "set_.source_Tensor_storage_offset(Tensor self, Tensor source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]) -> Tensor",
    samples=lambda t: [((t(3), t(4), 1, [2]), {})],
)
def set_to_part_of_tensor(self, source, storage_offset, size, stride):
    """Gives self elements of a tensor's storage."""


@composite(
    "resize_as_(Tensor self, Tensor the_template, *, memory_format? memory_format=None) -> Tensor",
    variants="function, method",
    tags=frozenset({"any_overlap", "no_gradient", "inplace_view"}),
    whole=True,
)
def resize_as_(self, the_template, memory_format):
    """Gives self the template's size."""
    return self.resize_(the_template.shape, memory_format=memory_format)


@facts(set_)
def set_facts(self):
    return on_memory(self, Memory(), [0], [1], 0)


@facts(set_to_storage)
def set_to_storage_facts(self, source):
    n = source.nbytes() // self.element_size()
    return on_memory(self, Memory(), [n], [1], 0)


@facts(set_to_part_of_storage)
def set_to_part_of_storage_facts(self, source, storage_offset, size, stride):
    return on_memory(self, Memory(), size, stride or layout.contiguous_strides(size), storage_offset)


@facts(set_to_tensor)
def set_to_tensor_facts(self, source):
    return on_memory(self, source.memory, source.sizes, source.steps, source.offset)


@facts(set_to_part_of_tensor)
def set_to_part_of_tensor_facts(self, source, storage_offset, size, stride):
    return on_memory(self, source.memory, size, stride or layout.contiguous_strides(size), storage_offset)


def on_memory(x, memory, sizes, strides, offset):
    """x itself, put on other memory."""
    x.memory = memory
    x.reshape_in_place(sizes, strides, offset)
    return x
