"""torch.cuda in a build without CUDA: questions are answered (no device, nothing in use), all else is refused clearly.

Loaded when somebody asks for tocha.cuda. What PyTorch's own CPU build lets pass, such as seeding, passes here.
"""

from __future__ import annotations

import collections
import importlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tocha import _C
from tocha._core.errors import AcceleratorError, OutOfMemoryError, refusing
from tocha._tensor.types import types_of

has_half = True
has_magma = False
default_generators: tuple[_C.Generator, ...] = ()
_REFUSAL = "Tocha not compiled with CUDA enabled"


class CudaError(RuntimeError):
    """What a CUDA call that failed raises."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {code}")


class DeferredCudaCallError(Exception):
    """What calls raise that waited for CUDA to start and then failed."""


# -- questions -------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether tensors can be on a CUDA device: not in this build.

    >>> import tocha
    >>> device = "cuda" if tocha.cuda.is_available() else "cpu"
    >>> device
    'cpu'
    """
    return False


def device_count() -> int:
    """The number of CUDA devices that can be used."""
    return 0


def is_initialized() -> bool:
    """Whether CUDA was started."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the selected device computes in bfloat16."""
    return False


def is_tf32_supported() -> bool:
    """Whether the selected device has TensorFloat-32."""
    return False


def get_arch_list() -> list[str]:
    """The architectures this build has kernels for."""
    return []


def get_gencode_flags() -> str:
    """The compiler's flags for those architectures."""
    return ""


# -- memory ----------------------------------------------------------------------------------------------


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors on a device."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors used."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes held by the allocator."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes the allocator held."""
    return 0


def _renamed(old: str, new: Callable[..., int]) -> Callable[..., int]:
    def call(device: Any = None) -> int:
        warnings.warn(
            f"`tocha.cuda.{old}` has been renamed to `tocha.cuda.{new.__name__}`", FutureWarning, stacklevel=2
        )
        return new(device)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"The old name of {new.__name__}."
    return call


memory_cached = _renamed("memory_cached", memory_reserved)
max_memory_cached = _renamed("max_memory_cached", max_memory_reserved)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Figures of the allocator: none without a device."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, nested."""
    return {}


def empty_cache() -> None:
    """Gives memory that is held but not used back to the device."""


# -- random numbers --------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seeds the selected device's generator; without a device nothing has to be done."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    int(seed)


def seed() -> None:
    """Seeds the selected device's generator with a fresh random number."""


def seed_all() -> None:
    """Seeds all generators with one fresh random number."""


def get_rng_state_all() -> list[_C.Tensor]:
    """The states of all devices' generators."""
    return []


def set_rng_state_all(new_states: Iterable[_C.Tensor]) -> None:
    """Sets what get_rng_state_all gave."""
    for state in new_states:
        set_rng_state(state)


def set_rng_state(new_state: _C.Tensor, device: Any = "cuda") -> None:
    """Sets the state of a generator, once there is a device."""
    if not isinstance(new_state, _C.Tensor):
        raise TypeError(f"expected a tocha.ByteTensor, but got {type(new_state).__name__}")


# -- devices and streams ---------------------------------------------------------------------------------


def _index(device: Any, optional: bool = False) -> int:
    """The index of a device, -1 for none."""
    if isinstance(device, int):
        return device
    if device is None and optional:
        return -1
    found = _C.device(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return -1 if found.index is None else found.index


def set_device(device: Any) -> None:
    """Selects a device; a negative index selects none."""
    if _index(device) >= 0:
        init()


class device:
    """A context with a device selected; a negative index leaves things as they are."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("tocha was compiled without CUDA support")

    def __exit__(self, *exception: object) -> None:
        return None


class device_of(device):
    """A context with the device of a tensor or storage selected, if it is on one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """A context in which work goes to a stream; None leaves things as they are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            init()

    def __exit__(self, *exception: object) -> None:
        return None


def stream(stream: Any) -> StreamContext:
    """The context of a stream."""
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    """Sends work to a stream from now on; None changes nothing."""
    if stream is not None:
        init()


class _NeedsCuda:
    """A class whose objects only exist on a device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"tocha.cuda.{cls.__name__} requires CUDA support")


class Stream(_NeedsCuda):
    """A queue of work on a device."""


class ExternalStream(Stream):
    """A stream that another library made."""


class Event(_NeedsCuda):
    """A mark in a stream."""


class CUDAGraph(_NeedsCuda):
    """Recorded work that can be started again at once."""


class MemPool(_NeedsCuda):
    """Memory kept apart by the allocator."""


# -- what needs a device ---------------------------------------------------------------------------------


def _refusing(name: str, purpose: str) -> Callable[..., Any]:
    return refusing(name, f"{purpose} Needs CUDA.", lambda: AssertionError(_REFUSAL))


init = _refusing("init", "Starts CUDA.")
current_device = _refusing("current_device", "The index of the selected device.")
get_device_name = _refusing("get_device_name", "The name of a device.")
get_device_capability = _refusing("get_device_capability", "The compute capability of a device.")
get_device_properties = _refusing("get_device_properties", "What is known of a device.")
can_device_access_peer = _refusing("can_device_access_peer", "Whether one device reads the memory of another.")
synchronize = _refusing("synchronize", "Waits for the work on a device.")
current_stream = _refusing("current_stream", "The stream that work goes to.")
default_stream = _refusing("default_stream", "The stream that work goes to unless told otherwise.")
get_stream_from_external = _refusing("get_stream_from_external", "A stream by its address.")
initial_seed = _refusing("initial_seed", "The seed of the selected device's generator.")
get_rng_state = _refusing("get_rng_state", "The state of a device's generator.")
mem_get_info = _refusing("mem_get_info", "Free and total bytes of a device.")
memory_summary = _refusing("memory_summary", "A table of the allocator's figures.")
memory_snapshot = _refusing("memory_snapshot", "The allocator's blocks.")
reset_peak_memory_stats = _refusing("reset_peak_memory_stats", "Begins anew with the highest figures.")
reset_max_memory_allocated = _refusing("reset_max_memory_allocated", "The old name of reset_peak_memory_stats.")
reset_max_memory_cached = _refusing("reset_max_memory_cached", "The old name of reset_peak_memory_stats.")
reset_accumulated_memory_stats = _refusing("reset_accumulated_memory_stats", "Begins anew with the sums.")
set_per_process_memory_fraction = _refusing("set_per_process_memory_fraction", "Limits the memory of this process.")
get_per_process_memory_fraction = _refusing("get_per_process_memory_fraction", "The limit of this process's memory.")
ipc_collect = _refusing("ipc_collect", "Gives back memory that other processes no longer use.")
cudart = _refusing("cudart", "The CUDA runtime.")
current_blas_handle = _refusing("current_blas_handle", "The handle of the library of products.")
get_sync_debug_mode = _refusing("get_sync_debug_mode", "What happens where a program waits for a device.")
set_sync_debug_mode = _refusing("set_sync_debug_mode", "Sets what happens where a program waits for a device.")
is_current_stream_capturing = _refusing("is_current_stream_capturing", "Whether work is being recorded.")
graph_pool_handle = _refusing("graph_pool_handle", "A name for the memory of recorded work.")
make_graphed_callables = _refusing("make_graphed_callables", "Functions with their work recorded.")


globals().update(types_of("tocha.cuda"))


def __getattr__(name: str) -> Any:
    """tocha.cuda.amp and tocha.cuda.nvtx are loaded when somebody asks for them."""
    if name in ("amp", "nvtx"):
        return importlib.import_module(f"tocha.cuda.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AcceleratorError",
    "OutOfMemoryError",
    *(n for n, v in globals().items() if not n.startswith("_") and getattr(v, "__module__", "") == __name__),
    "default_generators",
    "has_half",
    "has_magma",
]
