"""Graphs above autograd (`make_fx(pre_dispatch=True)`): operators as the program calls them, composites whole, and its switches.

While the mode is active, calls on fake tensors come here before anything is taken apart or recorded (tocha/_subclasses/calls.py);
on real tensors the bindings are told to hand all calls over, too. Operators that no call of the program makes, those of backward
nodes, reach the mode below autograd as ever.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._library import plans
from tocha._library.dispatch import modes, pop_mode, push_mode
from tocha._subclasses import calls
from tocha._subclasses.convert import may_be_symbol, sized_ints
from tocha._subclasses.reader import active_mode
from tocha.amp import _enter_autocast, _exit_autocast, autocast, autocast_mode
from tocha.autograd import grad_mode
from tocha.fx.proxy import Proxy


class AboveAutograd:
    """Hands the calls of a program to a mode that writes them down."""

    def __init__(self, mode: Any, record: Any):
        self.mode, self.record = mode, record
        self.regions: list[tuple[autocast, Proxy]] = []
        self.flags: list[bool] = []

    def open(self) -> None:
        calls.above.append(self.take)
        grad_mode.watchers.append(self.switched)
        autocast_mode.watchers.append(self)
        self.flags.append(_C._set_fake_mode(True))

    def close(self) -> None:
        _C._set_fake_mode(self.flags.pop())
        autocast_mode.watchers.remove(self)
        grad_mode.watchers.remove(self.switched)
        calls.above.remove(self.take)

    @property
    def watching(self) -> bool:
        """Whether the mode is asked now: it is off the stack while it runs an operator itself."""
        return bool(modes.stack) and modes.stack[-1] is self.mode and not _C._dispatch_disabled()

    def take(self, form: calls.Form, slots: tuple) -> Any:
        """A call: written down while the mode is asked; else real tensors run as they are, and fakes go on."""
        if not self.watching:
            if active_mode() is not None or is_fake(form, slots):
                return NotImplemented
            return self.natively(form, slots)
        func, args, kwargs = arranged(form, slots)
        if func.namespace != "aten" and form.operator.kind == "composite":
            return func.decompose(*args, **kwargs)  # a function of the library that PyTorch has no operator for
        pop_mode()
        try:
            out = self.record(self.mode, func, True, args, kwargs)
        finally:
            push_mode(self.mode)
        return as_public(form, slots, out)

    def natively(self, form: calls.Form, slots: tuple) -> Any:
        func, args, kwargs = arranged(form, slots)
        before = _C._set_fake_mode(False)
        try:
            return as_public(form, slots, func(*args, **kwargs))
        finally:
            _C._set_fake_mode(before)

    # -- switches

    def switched(self, on: bool) -> None:
        """Recording was switched on or off."""
        if self.watching:
            self.mode.tracer.create_proxy("call_function", _C._set_grad_enabled, (on,), {})

    def entered(self, region: autocast) -> None:
        if self.watching:
            given = (region.device, region.fast_dtype, region._enabled, region._cache_enabled)
            made = self.mode.tracer.create_proxy("call_function", _enter_autocast, given, {})
            self.regions.append((region, made))

    def left(self, region: autocast) -> None:
        if self.watching and self.regions and self.regions[-1][0] is region:
            _, begun = self.regions.pop()
            self.mode.tracer.create_proxy("call_function", _exit_autocast, (begun,), {})


def is_fake(form: calls.Form, slots: tuple) -> bool:
    return any(isinstance(t, calls.FakeTensor) for t in form.tensors_given(slots))


def arranged(form: calls.Form, slots: tuple) -> plans.Call:
    """The call as one of PyTorch's operator."""
    values: list[Any] = []
    for a, place, _ in form.arguments:
        v = slots[place] if place >= 0 else calls.ABSENT
        if v is calls.ABSENT:
            v = plans.usual(a)
        if a.type in ("int[]", "int[]?") and v is not None:
            v = sized_ints(a.size or 1, may_be_symbol(form.operator, a), list(v) if isinstance(v, list | tuple) else v)
        elif isinstance(v, tuple):
            v = list(v)
        values.append(v)
    outs = slots[form.out] if form.out >= 0 else None
    name = form.operator.full_name
    if outs is None or outs is calls.ABSENT:
        return plans.plan(name, "inplace" if form.inplace else "functional").arrange(tuple(values), 0)
    several = outs if isinstance(outs, tuple | list) else (outs,)
    return plans.plan(name, "out").arrange((*several, *values), 0)


def as_public(form: calls.Form, slots: tuple, out: Any) -> Any:
    """What an operator's handle returned, as the public function returns it."""
    if form.operator.kind == "foreach" and form.writes:
        return slots[form.arguments[0][1]]
    if form.requires_grad >= 0 and slots[form.requires_grad] is True:
        out.requires_grad_(True)
    if isinstance(out, list | tuple):
        return tuple(out) if form.fields is None else form.fields(out)
    return out
