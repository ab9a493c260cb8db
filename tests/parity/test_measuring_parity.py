"""FLOPs as PyTorch counts them; names of logs and settings that it has."""

import pytest
import torch
import torch._functorch.config
import torch._logging._internal
import torch.compiler.config
from torch.utils.flop_counter import FlopCounterMode as Theirs

import tocha
import tocha._functorch.config
import tocha._logging as logs
import tocha.compiler.config
from tocha.utils.flop_counter import FlopCounterMode as Ours


def dense(lib):
    x = lib.ones(6, 8, requires_grad=True)
    lib.nn.Linear(8, 4)(x).sum().backward()
    lib.addmm(lib.ones(5), lib.ones(3, 4), lib.ones(4, 5))


def batched(lib):
    a = lib.ones(2, 3, 4, requires_grad=True)
    lib.bmm(a, lib.ones(2, 4, 5)).sum().backward()
    lib.baddbmm(lib.ones(2, 3, 5), lib.ones(2, 3, 4), lib.ones(2, 4, 5))
    lib.ones(7, 2, 3, 4) @ lib.ones(4, 5)


def convolved(lib):
    x = lib.ones(2, 3, 9, 9, requires_grad=True)
    lib.nn.Conv2d(3, 8, 3, stride=2)(x).sum().backward()
    lib.nn.functional.conv2d(lib.ones(1, 4, 5, 5), lib.ones(8, 2, 3, 3), groups=2)
    lib.nn.functional.conv_transpose2d(lib.ones(1, 4, 5, 5), lib.ones(4, 6, 3, 3))


@pytest.mark.parametrize("program", [dense, batched, convolved])
def test_flops(program):
    with Theirs(display=False) as theirs:
        program(torch)
    with Ours(display=False) as ours:
        program(tocha)
    assert ours.get_total_flops() == theirs.get_total_flops() > 0
    total = {str(k): v for k, v in theirs.get_flop_counts()["Global"].items()}
    assert {str(k): v for k, v in ours.get_flop_counts()["Global"].items()} == total


def test_artifacts_and_components_of_pytorch_are_known():
    registry = torch._logging._internal.log_registry
    assert registry.artifact_names <= {*logs.ARTIFACTS, *logs.WITHOUT_OUTPUT}
    assert set(registry.log_alias_to_log_qnames) <= {*logs.COMPONENTS, *logs.OTHER_COMPONENTS}


@pytest.mark.parametrize("pair", [(torch._functorch.config, tocha._functorch.config), (torch.compiler.config, tocha.compiler.config)], ids=("functorch", "compiler"))  # fmt: skip
def test_settings_of_pytorch_are_known(pair):
    theirs, ours = pair
    names = [n for n in theirs._config if not n.startswith("_") and n != "TYPE_CHECKING"]
    for name in names:
        getattr(ours, name)
