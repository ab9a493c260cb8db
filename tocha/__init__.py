"""tocha: tensors, automatic differentiation, neural networks and a compiler, speaking PyTorch's language."""

from __future__ import annotations

import importlib as _importlib
import math as _math
import sys as _sys
from typing import TYPE_CHECKING

from tocha._core.load import _C

# Every operator, dtype and native function that _C holds is public here under its name.
globals().update({_name: _value for _name, _value in vars(_C).items() if not _name.startswith("_")})
if TYPE_CHECKING:
    from tocha._C import *  # noqa: F403

from tocha import _functions, _tensor  # noqa: E402
from tocha._core import return_types as _return_types  # noqa: E402
from tocha._core.errors import *  # noqa: E402, F403
from tocha._core.switches import *  # noqa: E402, F403
from tocha._core.type_info import finfo, iinfo  # noqa: E402, F401
from tocha._functions.basics import *  # noqa: E402, F403
from tocha._functions.basics import _assert as _assert  # noqa: E402
from tocha._functions.basics import _assert_async as _assert_async  # noqa: E402
from tocha._functions.unique import nonzero  # noqa: E402, F401
from tocha._tensor.types import set_default_tensor_type  # noqa: E402, F401
from tocha._tensor_str import get_printoptions, printoptions, set_printoptions  # noqa: E402, F401
from tocha.amp._older_names import *  # noqa: E402, F403
from tocha.amp.autocast_mode import autocast  # noqa: E402, F401
from tocha.amp.grad_scaler import GradScaler  # noqa: E402, F401
from tocha.autograd.anomaly_mode import (  # noqa: E402, F401
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from tocha.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402, F401
from tocha.functional import *  # type: ignore[no-redef, assignment]  # noqa: E402, F403
from tocha.overrides import DisableTorchFunctionSubclass  # noqa: E402, F401
from tocha.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402, F401
from tocha.storage import *  # noqa: E402, F403
from tocha.version import __version__  # noqa: E402, F401

_tensor.install()
_functions.install()
_return_types.install()
globals().update(_tensor.types.types_of("tocha"))
_sys.modules["tocha.return_types"] = _C.return_types  # type: ignore[assignment]
Storage = globals()["FloatStorage"]
inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None
legacy_contiguous_format = _C.contiguous_format

from tocha import (  # noqa: E402, F401
    amp,
    autograd,
    fft,
    functional,
    linalg,
    masked,
    nn,
    optim,
    overrides,
    random,
    signal,
    special,
    storage,
    utils,
)

_ON_DEMAND = (
    "__config__", "__future__", "_decomp", "_dynamo", "_functorch", "_guards", "_higher_order_ops", "_inductor", "_jit_internal", "_library", "_logging", "_ops", "_prims", "_refs", "_utils", "accelerator", "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "func", "futures", "fx", "hub", "jit",
    "library", "mps", "mtia", "multiprocessing", "nested", "onnx", "profiler", "quasirandom", "serialization", "sparse", "testing", "torch_version", "types", "xpu",
)  # fmt: skip
_SCHEMA_TYPES = (
    "FunctionSchema", "Type", "AnyType", "BoolType", "ComplexType", "DeviceObjType", "FloatType", "IntType", "ListType", "NoneType",
    "NumberType", "OptionalType", "StringType", "SymIntType", "TensorType",
)  # fmt: skip
_SYMBOLIC = (
    "SymBool", "SymFloat", "SymInt", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_int", "sym_ite",
    "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
)  # fmt: skip

_SPARSE_PRODUCTS = {
    "dsmm": "mm",
    "hsmm": "hspmm",
    "hspmm": "hspmm",
    "saddmm": "sspaddmm",
    "smm": "smm",
    "sspaddmm": "sspaddmm",
}
_SPARSE_PARTS = ("ccol_indices", "col_indices", "crow_indices", "indices", "row_indices", "values")
_PLACES = {
    "DisableTorchFunction": "tocha.overrides",
    "Future": "tocha.futures",
    "ScriptFunction": "tocha.jit",
    "ScriptModule": "tocha.jit",
    "fork": "tocha.jit",
    "thread_safe_generator": "tocha.random",
    "wait": "tocha.jit",
}


def __getattr__(name: str) -> object:
    """Rarely used modules, checkpoints, and operators with a leading underscore (tocha._unique2): when somebody asks."""
    if name in _ON_DEMAND:
        return _importlib.import_module(f"tocha.{name}")
    if name == "vmap":
        globals()[name] = found = _importlib.import_module("tocha._functorch.vmap").vmap
        return found
    if name == "compile":
        return _importlib.import_module("tocha._dynamo.eval_frame").compile
    if name in ("cond", "while_loop"):
        return getattr(_importlib.import_module("tocha._higher_order_ops"), name)
    if name in ("save", "load"):
        return getattr(_importlib.import_module("tocha.serialization"), name)
    if name in ("ops", "Tag"):
        globals()[name] = found = getattr(_importlib.import_module("tocha._ops"), name)
        return found
    if name in _SYMBOLIC or name.startswith(("_check", "_sym_")):
        globals()[name] = found = getattr(_importlib.import_module("tocha._symbolic"), name)
        return found
    if name in _SCHEMA_TYPES:
        return getattr(_importlib.import_module("tocha.operators.function_schema"), name)
    if name.startswith("sparse_") and name.endswith("_tensor"):
        room = "_construct" if name == "sparse_coo_tensor" else "_compressed_construct"
        found = getattr(_importlib.import_module(f"tocha.sparse.{room}"), name, None)
        if found is not None:
            return found
    if name in _SPARSE_PRODUCTS:
        return getattr(_importlib.import_module("tocha.sparse._geometry"), _SPARSE_PRODUCTS[name])
    if name.removesuffix("_copy") in _SPARSE_PARTS or name == "resize_as_sparse_":
        return getattr(_importlib.import_module("tocha.sparse._functions"), name)
    if name.startswith(("q", "int", "uint", "bits", "float4", "per_")):
        found = _importlib.import_module("tocha._core.quantized_dtypes").NAMES.get(name)
        if found is not None:
            return found
    if name in _PLACES:
        return getattr(_importlib.import_module(_PLACES[name]), name)
    if name.startswith("_validate_sparse_"):
        return getattr(_importlib.import_module("tocha.sparse._validation"), name)
    if name in ("Stream", "Event"):
        globals()[name] = found = getattr(_importlib.import_module("tocha._core.accelerator_types"), name)
        return found
    if name == "from_file":
        return _importlib.import_module("tocha._functions.files").from_file
    if name in (_elsewhere := _importlib.import_module("tocha._functions.elsewhere")).NAMES:
        globals()[name] = found = _elsewhere.refused(name)
        return found
    if name.startswith("_") and not name.startswith("__") and hasattr(_C, name):
        return getattr(_C, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [_n for _n in globals() if not _n.startswith("_")]
