"""Programs of packages that `make programs` does not install: which of them are there, and what their uses share."""

import importlib.util

import torch
from recorder import DOUBLE, case
from torch import nn

torch.set_num_threads(1)
KIND = torch.float64 if DOUBLE else torch.float32
torch.set_default_dtype(KIND)


def network():
    """A small network, the same every time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def installed(uses):
    """Runs the functions use_NAME of a program's globals whose package NAME is there."""
    for name in [n.removeprefix("use_") for n in uses if n.startswith("use_")]:
        if importlib.util.find_spec(name):
            case(name, uses[f"use_{name}"])
            torch.set_default_dtype(KIND)  # some packages change it when they are imported
