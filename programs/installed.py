"""Which of a program's packages are there, for programs of packages that `make programs` does not install."""

import importlib.util

from recorder import case


def installed(uses):
    """Runs the functions use_NAME of a program's globals whose package NAME is there."""
    for name in [n.removeprefix("use_") for n in uses if n.startswith("use_")]:
        if importlib.util.find_spec(name):
            case(name, uses[f"use_{name}"])
