"""Loads the native module, first of all.

Its linear algebra library starts threads of its own when it is loaded, which tocha never uses (it has one pool for
everything): without them the import takes half the time. The library reads its wish from the environment, which is
then left as it was, for NumPy's copy of the same library.
"""

from __future__ import annotations

import os

_BLAS = "libscipy_openblas.so"
_THREADS = "OPENBLAS_NUM_THREADS"
_wished = os.environ.get(_THREADS)
os.environ[_THREADS] = "1"


def _load_blas() -> None:
    """Loads linear algebra from wherever its package is: the native module looks beside itself only."""
    import ctypes
    import importlib

    blas = importlib.import_module("scipy_openblas32")
    ctypes.CDLL(os.path.join(blas.get_lib_dir(), _BLAS))


try:
    try:
        from tocha import _C
    except ImportError as error:  # an environment over another one that has the package
        if _BLAS not in str(error):
            raise
        _load_blas()
        from tocha import _C
finally:
    if _wished is None:
        del os.environ[_THREADS]
    else:
        os.environ[_THREADS] = _wished

__all__ = ["_C"]
