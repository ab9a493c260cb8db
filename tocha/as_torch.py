"""`import tocha.as_torch`: from here on `import torch` means tocha, in this process and in those it starts.

Every torch.x.y is tocha.x.y, the same object. Where PyTorch is installed this refuses, unless TOCHA_AS_TORCH=force says
otherwise; where PyTorch has been imported it always does. docs/guide/alias.md tells how to use it.
"""

from __future__ import annotations

import os
import sys

import tocha
from tocha import version
from tocha._alias import native_names, refused, stamp
from tocha._alias.finder import PATH, AliasFinder
from tocha._alias.real_torch import check_absent, is_forced
from tocha.torch_version import TorchVersion


def _tell_children() -> None:
    """Spawned workers get sys.path, other programs PYTHONPATH; both find PATH/torch, which imports this module."""
    if PATH not in sys.path:
        sys.path.insert(1 if is_forced() else len(sys.path), PATH)
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if PATH not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([PATH, *paths] if is_forced() else [*paths, PATH])


def install() -> None:
    """Makes tocha known as torch. Doing so again changes nothing."""
    if sys.modules.get("torch") is tocha:
        return
    check_absent()
    sys.modules["torch"] = tocha
    native_names.install()
    stamp.everything()
    tocha.__version__ = version.__version__ = TorchVersion(f"{version.torch_version}+tocha")
    sys.meta_path.insert(0, AliasFinder())
    refused.fill(tocha)
    refused.fill(tocha._C)
    tocha.torch = tocha  # type: ignore[attr-defined]
    _tell_children()


install()
