"""Found as `torch` where the alias is on and tocha has not been imported yet: gives way to tocha.

A process that inherits PYTHONPATH and has no tocha of its own goes on to whatever torch it has.
"""

import importlib
import importlib.util
import os
import sys

if importlib.util.find_spec("tocha"):
    importlib.import_module("tocha.as_torch")
else:
    _here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _here]
    del sys.modules["torch"]
    importlib.import_module("torch")
