"""tocha: tensors, automatic differentiation, neural networks and a compiler, speaking PyTorch's language."""

from __future__ import annotations

import math as _math
import sys as _sys
from typing import TYPE_CHECKING

from tocha import _C

# Every operator, dtype and native function that _C holds is public here under its name.
globals().update({_name: _value for _name, _value in vars(_C).items() if not _name.startswith("_")})
if TYPE_CHECKING:
    from tocha._C import *  # noqa: F403

from tocha import _functions as _functions  # noqa: E402
from tocha import _lowrank as _lowrank_module  # noqa: E402
from tocha import _tensor as _tensor_module  # noqa: E402
from tocha import _unique as _unique_module  # noqa: E402
from tocha._functions import *  # noqa: E402, F403
from tocha._tensor_str import get_printoptions, printoptions, set_printoptions  # noqa: E402, F401
from tocha._type_info import finfo, iinfo  # noqa: E402, F401
from tocha._unique import nonzero  # noqa: E402, F401
from tocha.amp.autocast_mode import autocast  # noqa: E402, F401
from tocha.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402, F401
from tocha.functional import *  # type: ignore[no-redef, assignment]  # noqa: E402, F403
from tocha.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402, F401
from tocha.storage import *  # noqa: E402, F403
from tocha.version import __version__  # noqa: E402, F401

_tensor_module.install()
_lowrank_module.install()
_unique_module.install()
_sys.modules["tocha.return_types"] = _C.return_types  # type: ignore[assignment]
inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

from tocha import amp, autograd, functional, linalg, masked, nn, overrides, random, signal, special, storage, utils  # noqa: E402, F401


def __getattr__(name: str) -> object:
    """Operators with a leading underscore (tocha._unique2) are found in _C when somebody asks."""
    if name.startswith("_") and not name.startswith("__") and hasattr(_C, name):
        return getattr(_C, name)
    raise AttributeError(f"module 'tocha' has no attribute {name!r}")


__all__ = [_n for _n in globals() if not _n.startswith("_")]
