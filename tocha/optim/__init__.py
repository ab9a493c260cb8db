"""Optimizers, learning-rate schedules and averaged models."""

import importlib

from tocha.optim import lr_scheduler
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


def __getattr__(name: str) -> object:
    """Averaged models need all of tocha.nn: loaded when somebody asks."""
    if name == "swa_utils":
        return importlib.import_module("tocha.optim.swa_utils")
    raise AttributeError(f"module 'tocha.optim' has no attribute {name!r}")
