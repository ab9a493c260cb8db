"""The functional forms of the optimizers under one roof."""

from tocha.optim.adadelta import adadelta
from tocha.optim.adagrad import adagrad
from tocha.optim.adam import adam
from tocha.optim.adamax import adamax
from tocha.optim.adamw import adamw
from tocha.optim.asgd import asgd
from tocha.optim.nadam import nadam
from tocha.optim.radam import radam
from tocha.optim.rmsprop import rmsprop
from tocha.optim.rprop import rprop
from tocha.optim.sgd import sgd
from tocha.optim.sparse_adam import sparse_adam

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
    "sparse_adam",
]
