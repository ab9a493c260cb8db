"""Exchange of tensors with other libraries by DLPack, without copies; the numbers that DLPack gives kinds of devices."""

import enum

from tocha import _C

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]

from_dlpack = _C.from_dlpack
to_dlpack = _C.to_dlpack


class DLDeviceType(enum.IntEnum):
    """The kinds of devices that DLPack knows.

    >>> import tocha
    >>> DLDeviceType(tocha.ones(1).__dlpack_device__()[0]).name
    'kDLCPU'
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
