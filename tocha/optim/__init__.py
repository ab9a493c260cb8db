"""Optimizers, learning-rate schedules and averaged models; each is loaded when somebody asks for it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocha.optim import lr_scheduler, swa_utils
    from tocha.optim._adafactor import Adafactor
    from tocha.optim._muon import Muon
    from tocha.optim._stateless import swap_in_optimizer_params_and_state
    from tocha.optim.adadelta import Adadelta
    from tocha.optim.adagrad import Adagrad
    from tocha.optim.adam import Adam
    from tocha.optim.adamax import Adamax
    from tocha.optim.adamw import AdamW
    from tocha.optim.asgd import ASGD
    from tocha.optim.lbfgs import LBFGS
    from tocha.optim.nadam import NAdam
    from tocha.optim.optimizer import Optimizer
    from tocha.optim.radam import RAdam
    from tocha.optim.rmsprop import RMSprop
    from tocha.optim.rprop import Rprop
    from tocha.optim.sgd import SGD
    from tocha.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
_MODULES = ("lr_scheduler", "swa_utils")
# Where a name lives that is not in the module called like it.
_HOMES = {
    "Adafactor": "_adafactor",
    "Muon": "_muon",
    "SparseAdam": "sparse_adam",
    "swap_in_optimizer_params_and_state": "_stateless",
}


# Modules that PyTorch has loaded by then.
_HOMES_OF_CLASSES = frozenset(
    [
        "_adafactor",
        "_functional",
        "_muon",
        "_stateless",
        "adadelta",
        "adagrad",
        "adam",
        "adamax",
        "adamw",
        "asgd",
        "lbfgs",
        "nadam",
        "radam",
        "rmsprop",
        "rprop",
        "sgd",
        "sparse_adam",
    ]
)


def __getattr__(name: str) -> Any:
    if name in _HOMES_OF_CLASSES:
        return importlib.import_module(f"tocha.optim.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"tocha.optim.{_HOMES.get(name, name.lower())}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
