"""Names beside the documented ones that packages take: helpers of layers, optimizers and schedulers, old sparse types. PyTorch is the judge."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
import torch

import tocha


def module(library, name):
    return importlib.import_module(f"{library.__name__}.{name}")


def functional(name, make):
    return lambda t: getattr(t.nn.functional, name)(*make(t))


def x(t, *shape):
    return t.arange(float(np.prod(shape))).reshape(shape) / 8  # sums of products are exact, in whatever order


def complex_views(t):
    p, q = [t.ones(2, dtype=t.complex64), t.ones(1)], [t.ones(2, dtype=t.complex64), t.ones(1)]
    module(t, "optim.optimizer")._view_as_real(p, q)
    return [*p, *q]


def numbers_of_levels(t):
    found = []
    for _ in range(2):
        with module(t, "autograd.forward_ad").dual_level() as level:
            found.append(level)
    return found


def scheduled(t):
    names = module(t, "optim.lr_scheduler")
    optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=0.5)
    schedule = names.StepLR(optimizer, 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with names._enable_get_lr_call(schedule):
            rates = schedule.get_lr()
            names._warn_get_lr_called_within_step(schedule)
        inside = len(seen)
        names._warn_get_lr_called_within_step(schedule)
    return rates, inside, [str(w.message) for w in seen]


def classes(t):
    class Named:
        @module(t, "_utils").classproperty
        def title(cls):
            return cls.__name__

    return Named.title, Named().title


INDICES = [[0, 1], [1, 0]]
CASES = {
    "_in_projection_packed": functional("_in_projection_packed", lambda t: (x(t, 3, 4), x(t, 3, 4), x(t, 3, 4) + 1, x(t, 12, 4), x(t, 12))),
    "_in_projection_packed, one tensor": lambda t: (lambda y: t.nn.functional._in_projection_packed(y, y, y, x(t, 12, 4)))(x(t, 3, 4)),
    "_in_projection": functional("_in_projection", lambda t: (x(t, 3, 4), x(t, 3, 2), x(t, 3, 5), x(t, 4, 4), x(t, 4, 2), x(t, 4, 5))),
    "_in_projection, wrong width": functional("_in_projection", lambda t: (x(t, 3, 4), x(t, 3, 2), x(t, 3, 5), x(t, 4, 4), x(t, 4, 3), x(t, 4, 5))),
    "_mha_shape_check": functional("_mha_shape_check", lambda t: (x(t, 2, 3, 4), x(t, 2, 3, 4), x(t, 2, 3, 4), None, None, 2)),
    "_mha_shape_check, unbatched": functional("_mha_shape_check", lambda t: (x(t, 3, 4), x(t, 3, 4), x(t, 3, 4), None, x(t, 3, 3), 2)),
    "_mha_shape_check, wrong": functional("_mha_shape_check", lambda t: (x(t, 3, 4), x(t, 2, 3, 4), x(t, 3, 4), None, None, 2)),
    "_canonical_mask": functional("_canonical_mask", lambda t: (t.tensor([True, False]), "m", None, "o", t.float64)),
    "_canonical_mask of floats": functional("_canonical_mask", lambda t: (t.tensor([0.5]), "m", t.float32, "o", t.float32)),
    "_canonical_mask of ints": functional("_canonical_mask", lambda t: (t.tensor([1]), "m", None, "o", t.float32)),
    "_canonical_mask of nothing": functional("_canonical_mask", lambda t: (None, "m", None, "o", t.float32)),
    "_none_or_dtype": lambda t: (str(t.nn.functional._none_or_dtype(t.ones(1))).split(".")[1], t.nn.functional._none_or_dtype(None)),
    "_none_or_dtype of a number": functional("_none_or_dtype", lambda t: (3,)),
    "_check_key_padding_mask": functional("_check_key_padding_mask", lambda t: (x(t, 2, 3), 3, 2)),
    "_check_key_padding_mask, wrong": functional("_check_key_padding_mask", lambda t: (x(t, 2, 3), 2, 3)),
    "_get_softmax_dim": lambda t: [t.nn.functional._get_softmax_dim("softmax", n, 1) for n in range(5)],
    "_verify_batch_size": functional("_verify_batch_size", lambda t: ([1, 3, 1],)),
    "_verify_batch_size, fine": functional("_verify_batch_size", lambda t: ([1, 3, 2],)),
    "_no_grad_uniform_": lambda t: t.nn.init._no_grad_uniform_(t.nn.Parameter(t.ones(5)), 0.0, 2.0),
    "_no_grad_normal_": lambda t: t.nn.init._no_grad_normal_(t.nn.Parameter(t.ones(5)), 0.0, 2.0),
    "_no_grad_trunc_normal_": lambda t: t.nn.init._no_grad_trunc_normal_(t.nn.Parameter(t.ones(5)), 0.0, 2.0, -1.0, 1.0),
    "_no_grad_fill_": lambda t: t.nn.init._no_grad_fill_(t.nn.Parameter(t.ones(5)), 3.0),
    "_no_grad_zero_": lambda t: t.nn.init._no_grad_zero_(t.nn.Parameter(t.ones(5))),
    "apply_permutation": lambda t: module(t, "nn.modules.rnn").apply_permutation(x(t, 2, 3), t.tensor([2, 0, 1])),
    "_forward_unimplemented": lambda t: module(t, "nn.modules.module")._forward_unimplemented(t.nn.ReLU(), 1),
    "_get_value": lambda t: [module(t, "optim.optimizer")._get_value(v) for v in (t.tensor(2.0), 3, "a")],
    "_to_scalar": lambda t: [module(t, "optim.optimizer")._to_scalar(v) for v in (t.tensor([2.0]), 3.0)],
    "_stack_if_compiling": lambda t: module(t, "optim.optimizer")._stack_if_compiling([1.0]),
    "_get_scalar_dtype": lambda t: str(module(t, "optim.optimizer")._get_scalar_dtype(True)).split(".")[1],
    "_view_as_real": complex_views,
    "_disable_dynamo_if_unsupported": lambda t: module(t, "optim.optimizer")._disable_dynamo_if_unsupported()(lambda v: v + 1)(1),
    "schedulers": scheduled,
    "classproperty": classes,
    "_import_dotted_name": lambda t: module(t, "_utils")._import_dotted_name(f"{t.__name__}.nn.Linear") is t.nn.Linear,
    "is_compiling": lambda t: module(t, "_utils").is_compiling(),
    "KeyErrorMessage": lambda t: repr(module(t, "_utils").KeyErrorMessage("a\nb")),
    "sparse.FloatTensor": lambda t: t.sparse.FloatTensor(t.tensor(INDICES), t.ones(2), t.Size([2, 2])).to_dense(),
    "sparse.FloatTensor without size": lambda t: t.sparse.FloatTensor(t.tensor(INDICES), t.ones(2)).to_dense(),
    "sparse.LongTensor of a size": lambda t: t.sparse.LongTensor(2, 3).to_dense(),
    "sparse.HalfTensor of nothing": lambda t: t.sparse.HalfTensor().to_dense(),
    "sparse.FloatTensor of a list": lambda t: t.sparse.FloatTensor([1, 2]),
    "sparse.FloatTensor of a tensor": lambda t: t.sparse.FloatTensor(t.ones(2)),
    "sparse types": lambda t: (t.sparse.FloatTensor.is_sparse, t.sparse.FloatTensor.is_cuda, isinstance(t.sparse.FloatTensor(2), t.sparse.FloatTensor), isinstance(t.ones(2), t.sparse.FloatTensor), isinstance(t.sparse.DoubleTensor(2), t.sparse.FloatTensor)),
    "type of a sparse tensor": lambda t: t.ones(2).to_sparse().double().type().partition(".")[2],
    "enter_dual_level": numbers_of_levels,
    "CheckpointPolicy": lambda t: [(p.name, p.value) for p in module(t, "utils.checkpoint").CheckpointPolicy],
    "DefaultDeviceType": lambda t: module(t, "utils.checkpoint").DefaultDeviceType.get_device_type(),
    "jit.Error": lambda t: [c.__name__ for c in t.jit.Error.__mro__],
    "trim_sigfig": lambda t: [module(t, "utils.benchmark").trim_sigfig(*a) for a in ((0.123456, 3), (123456, 2), (-1.25, 2), (1e-9, 1), (2.675, 3))],
    "trim_sigfig of zero": lambda t: module(t, "utils.benchmark").trim_sigfig(0, 3),
    "type by a sparse name": lambda t: t.ones(2).type("torch.sparse.DoubleTensor"),
}  # fmt: skip


def plain(value):
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return (str(value.dtype).split(".")[1], value.tolist()) if isinstance(value, torch.Tensor | tocha.Tensor) else value


def outcome(library, name):
    library.manual_seed(0)
    try:
        return plain(CASES[name](library))
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_same(name):
    assert outcome(tocha, name) == outcome(torch, name)


def test_pickled_storages_of_pytorch_are_read():
    """A plain pickle holds a storage as a file of its own, read by torch.storage._load_from_bytes."""
    held = torch.arange(3).untyped_storage().__reduce__()
    assert held[0] is torch.storage._load_from_bytes
    assert list(tocha.storage._load_from_bytes(*held[1])) == list(torch.arange(3).untyped_storage())


def grouped(t):
    found = module(t, "utils._foreach_utils")._group_tensors_by_device_and_dtype(
        [[t.ones(1), t.ones(2, dtype=t.float64), t.ones(3)], [None, t.zeros(2), t.zeros(3)]], with_indices=True
    )
    return sorted((str(kind).split(".")[1], plain(lists), indices) for (_, kind), (lists, indices) in found.items())


class OwnOptimizer:
    """An optimizer written after PyTorch's: calls what those call in their steps."""

    @staticmethod
    def of(t):
        class Plain(t.optim.Optimizer):
            def __init__(self, params):
                super().__init__(params, {"lr": 0.5, "differentiable": False})

            @module(t, "optim.optimizer")._use_grad_for_differentiable
            def step(self, closure=None):
                self._cuda_graph_capture_health_check()
                for group in self.param_groups:
                    p = group["params"]
                    for lists, _ in self._group_tensors_by_device_and_dtype([p, [q.grad for q in p]]).values():
                        t._foreach_add_(lists[0], lists[1], alpha=-group["lr"])

        return Plain


def test_lists_by_device_and_dtype():
    assert grouped(tocha) == grouped(torch)


def test_optimizers_written_after_pytorchs():
    def run(t):
        weights = [t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(3, dtype=t.float64))]
        optimizer, seen = OwnOptimizer.of(t)(weights), []
        optimizer.register_step_pre_hook(lambda *args: seen.append("before"))
        optimizer.profile_hook_step(type(optimizer).step)
        sum(w.square().sum() for w in weights).backward()
        optimizer.step()
        return [plain(w) for w in weights], seen

    assert run(tocha) == run(torch)


@pytest.mark.parametrize("name", ["int1", "int4", "uint7", "bits8", "bits16", "float4_e2m1fn_x2"])
def test_dtypes_that_are_names(name):
    ours, theirs = getattr(tocha, name), getattr(torch, name)
    facts = ("itemsize", "is_floating_point", "is_complex") + (() if name.startswith("bits") else ("is_signed",))
    assert [getattr(ours, f) for f in facts] == [getattr(theirs, f) for f in facts]
    assert repr(ours).partition(".")[2] == repr(theirs).partition(".")[2] and isinstance(ours, tocha.dtype)
    with pytest.raises(TypeError):
        tocha.ones(2, dtype=ours)


def test_schemes_of_quantized_tensors():
    assert repr(tocha.per_tensor_affine) == "tocha.per_tensor_affine"
    assert isinstance(tocha.per_channel_symmetric, tocha.qscheme)
    assert isinstance(torch.ones(1).untyped_storage(), torch.StorageBase)
    assert isinstance(tocha.ones(1).untyped_storage(), tocha.StorageBase)
