"""What __torch_function__ of a subclass or a mode is handed, for every method, attribute and operator of Tensor, held
against what PyTorch hands over."""

from __future__ import annotations

import copy
import operator
import warnings

import numpy as np
import pytest
import torch

import tocha

LEFT_OUT = {
    "__class__", "__init__", "__new__", "__init_subclass__", "__subclasshook__", "__torch_function__", "__dict__",
    "__torch_dispatch__", "__getattribute__", "__setattr__", "__delattr__", "__getstate__", "__sizeof__", "__module__",
    "__doc__", "__weakref__", "__dictoffset__", "__weaklistoffset__", "_make_subclass", "_make_wrapper_subclass",
    "__iter__", "__reduce_ex__", "__reduce__",
    "set_",  # PyTorch hands it to nobody
}  # fmt: skip


def described(func):
    name = getattr(func, "__name__", repr(func))
    owner = getattr(func, "__self__", None)
    accessor = name in ("__get__", "__set__", "__delete__")
    return f"{getattr(owner, '__name__', owner)}.{name}" if accessor else name


class Recorder:
    """The first function handed over in each call, for tensors of a subclass or under a mode."""

    def __init__(self, lib, by_mode):
        self.lib, self.by_mode, self.seen = lib, by_mode, []
        recorder = self

        class Subclass(lib.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                recorder.note(func, args)
                return super().__torch_function__(func, types, args, kwargs)

        class Mode(lib.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                recorder.note(func, args)
                return func(*args, **(kwargs or {}))

        self.subclass, self.mode = Subclass, Mode

    def note(self, func, args):
        assert callable(func)
        self.seen.append((described(func), [isinstance(a, self.lib.Tensor) for a in args]))

    def tensor(self, value):
        plain = self.lib.tensor(value)
        return plain if self.by_mode else plain.as_subclass(self.subclass)

    def first(self, call, *args):
        """What was handed over first, and whether the call worked."""
        self.seen.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self.by_mode:
                    with self.mode():
                        call(*args)
                else:
                    call(*args)
            worked = True
        except Exception:
            worked = False
        return (self.seen[0] if self.seen else None), worked


def pair(by_mode):
    return Recorder(torch, by_mode), Recorder(tocha, by_mode)


def shared_members():
    for name in sorted(set(dir(torch.Tensor)) & set(dir(tocha.Tensor)) - LEFT_OUT):
        if name in vars(object) and name not in ("__repr__", "__str__", "__format__", "__dir__", "__hash__"):
            continue
        yield name


def is_attribute(name):
    return not callable(getattr(torch.Tensor, name))


def both(recorders, call):
    return [r.first(call, r) for r in recorders]


@pytest.mark.parametrize("by_mode", [False, True])
def test_methods(by_mode):
    recorders = pair(by_mode)
    arguments = (), (0,), (1,), (0, 1), (None,), ("plain",), ("plain", "plain"), (0, "index", "plain"), ("float64",)

    def converted(lib, a):
        known = {"plain": lib.tensor([[1.0, 2], [3, 5]]), "index": lib.tensor([[0, 1], [1, 0]]), "float64": lib.float64}
        return known.get(a, a)

    wrong = []
    for name in shared_members():
        if is_attribute(name) or name.startswith("__"):  # Python calls those with "__": test_operators
            continue
        for given in arguments:

            def call(r, name=name, given=given):
                getattr(r.x, name)(*[converted(r.lib, a) for a in given])

            for r in recorders:
                r.x = r.tensor([[1.0, 2], [3, 5]])
            (theirs, worked), (ours, ours_worked) = [r.first(call, r) for r in recorders]
            if by_mode:  # the arguments are made inside the mode
                theirs, ours = (next((s for s in r.seen if s[0] != "tensor"), None) for r in recorders)
            if worked and ours_worked and (theirs or [None])[0] != (ours or [None])[0]:
                wrong.append((name, given, theirs, ours))
    assert not wrong


@pytest.mark.parametrize("by_mode", [False, True])
def test_attributes(by_mode):
    recorders = pair(by_mode)
    wrong = []
    for name in shared_members():
        if not is_attribute(name):
            continue
        for r in recorders:
            r.x = r.tensor([[1.0, 2], [3, 5]])
        theirs, ours = both(recorders, lambda r, name=name: getattr(r.x, name))
        if theirs != ours:
            wrong.append((name, theirs, ours))
    assert not wrong


@pytest.mark.parametrize("by_mode", [False, True])
@pytest.mark.parametrize("name", ["grad", "data", "requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks"])
def test_setting_attributes(name, by_mode):
    recorders = pair(by_mode)
    for r in recorders:
        r.x = r.tensor([1.0, 2])
        r.value = {"data": r.lib.ones(2), "requires_grad": True}.get(name)
    theirs, ours = both(recorders, lambda r: setattr(r.x, name, r.value))
    assert theirs == ours and ours[0][0] == f"{name}.__set__"


def test_deleting_a_gradient():
    recorders = pair(False)
    for r in recorders:
        r.x = r.tensor([1.0, 2])
    theirs, ours = both(recorders, lambda r: delattr(r.x, "grad"))
    assert theirs == ours


BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne, operator.lt,
    operator.le, operator.gt, operator.ge, operator.iadd, operator.isub, operator.imul, operator.ifloordiv,
    operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift,
)  # fmt: skip
UNARY = (
    operator.neg,
    operator.pos,
    operator.invert,
    abs,
    len,
    repr,
    str,
    format,
    dir,
    reversed,
    hash,
    bool,
    int,
    float,
)
UNARY += (
    complex,
    copy.deepcopy,
    np.asarray,
    lambda x: x.__dlpack__(),
    lambda x: x.__dlpack_device__(),
    lambda x: 1 in x,
    lambda x: x[0],
    lambda x: x.__setitem__(0, 1),
)


@pytest.mark.parametrize("by_mode", [False, True])
@pytest.mark.parametrize("value", [[3, 4], 3])
def test_operators(value, by_mode):
    recorders = pair(by_mode)
    calls = [(f, lambda r, f=f: f(r.x, 2)) for f in BINARY] + [(f, lambda r, f=f: f(2, r.x)) for f in BINARY[:18]]
    calls += [(f, lambda r, f=f: f(r.x, r.y)) for f in BINARY] + [(f, lambda r, f=f: f(r.y, r.x)) for f in BINARY]
    calls += [(f, lambda r, f=f: f(r.x)) for f in UNARY]
    wrong = []
    for f, call in calls:
        for r in recorders:
            r.x, r.y = r.tensor(value), r.lib.tensor(value)
        (theirs, _), (ours, _) = both(recorders, call)
        if theirs != ours:
            wrong.append((f, theirs, ours))
    assert not wrong


@pytest.mark.parametrize("context", ["DisableTorchFunctionSubclass", "DisableTorchFunction"])
def test_contexts_that_disable(context):
    for by_mode in (False, True):
        recorders = pair(by_mode)
        for r in recorders:
            r.x = r.tensor([1.0])

        def call(r):
            with getattr(r.lib._C, context)():
                r.x + 1

        theirs, ours = both(recorders, call)
        assert theirs == ours


def test_functions_that_take_no_tensor_are_handed_to_modes():
    def calls(lib):
        f = lib.float32
        return [
            lambda r: lib.tensor([1.0]), lambda r: lib.as_tensor([1.0]), lambda r: lib.asarray([1.0]),
            lambda r: lib.can_cast(f, f), lambda r: lib.promote_types(f, f), lambda r: lib.result_type(r.x, 1),
            lambda r: lib.get_default_dtype(), lambda r: lib.Size([1]), lambda r: lib.Tensor([1.0]),
        ]  # fmt: skip

    theirs, ours = pair(True)
    for r in (theirs, ours):
        r.x = r.tensor([1.0])
    for one, other in zip(calls(torch), calls(tocha), strict=True):
        assert theirs.first(one, theirs) == ours.first(other, ours)
