"""Found as `functorch` where the alias is on and tocha has not been imported yet: gives way to tocha's transforms."""

import importlib
import sys

importlib.import_module("torch")
sys.modules.pop("functorch", None)
importlib.import_module("functorch")
