"""autograd.Function: operations with a backward of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tocha import _C

__all__ = ["Function", "FunctionCtx", "NestedIOFunction", "once_differentiable"]

Tensor = _C.Tensor


class FunctionCtx:
    """What forward leaves for backward: `ctx.save_for_backward(x)`, later `(x,) = ctx.saved_tensors`."""

    to_save: tuple
    needs_input_grad: tuple[bool, ...]
    materialize_grads: bool = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, with the check that nobody changes them. Call it once, in forward."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for jvp."""
        for t in tensors:
            if not (isinstance(t, Tensor) or t is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """These inputs were changed in place; they must be among forward's results."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These results have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: gradients that did not come are None instead of zeros."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        import warnings

        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked.",
            FutureWarning,
            stacklevel=2,
        )


class BackwardCFunction(_C._FunctionBase, FunctionCtx):
    """The context of a call, and the node in the graph."""

    _forward_cls: Any
    _in_jvp = False

    @property
    def saved_tensors(self) -> tuple:  # type: ignore[override]
        """What save_for_backward kept; in jvp, what save_for_forward did."""
        return getattr(self, "saved_for_forward", ()) if self._in_jvp else _C._FunctionBase.saved_tensors.__get__(self)

    saved_variables = saved_tensors

    def apply(self, *grads: Any) -> Any:
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if vjp is not Function.vjp:
            if backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
                )
            return vjp(self, *grads)
        return backward(self, *grads)

    def apply_jvp(self, *tangents: Any) -> Any:
        self._in_jvp = True
        try:
            return self._forward_cls.jvp(self, *tangents)
        finally:
            self._in_jvp = False


class FunctionMeta(type):
    """Gives every Function its node class: `class Exp(Function)` has nodes called ExpBackward."""

    def __init__(cls, name: str, bases: tuple, attributes: dict) -> None:
        node = type(
            name + "Backward",
            (BackwardCFunction,),
            {"_forward_cls": cls, "__module__": attributes.get("__module__", "tocha.autograd")},
        )
        cls._backward_cls = node
        super().__init__(name, bases, attributes)


class Function(metaclass=FunctionMeta):
    """An operation that says itself how it is differentiated.

    >>> import tocha
    >>> class Exp(tocha.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = tocha.zeros(1, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor([1.])
    """

    generate_vmap_rule = False
    _sees_levels = False  # whether it runs on tensors of transforms itself

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation: forward(ctx, *args), or forward(*args) together with setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """What forward(*args) leaves for backward."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """From the gradients of the results to those of the arguments, None where there is none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """From tangents of the arguments to those of the results: forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The operation over a batch of arguments."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and records the call."""
        if across_levels is not None and not cls._sees_levels:
            result = across_levels(cls, args, kwargs)
            if result is not NotImplemented:
                return result
        separate = cls.setup_context is not Function.setup_context
        if separate:
            args = _with_defaults(cls.forward, args, kwargs)
            kwargs = {}
        ctx = cls._backward_cls()
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx.needs_input_grad = needs
        recording = any(needs) and _C.is_grad_enabled()
        before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)
        try:
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        finally:
            _C._set_grad_enabled(before)
        return _recorded(ctx, args, output, recording)


# What transforms make of a call on their tensors (tocha/_functorch), as long as there are any: (class, args, kwargs) -> result, or
# NotImplemented.
across_levels: Callable | None = None


def _recorded(ctx: Any, args: tuple, output: Any, recording: bool) -> Any:
    """The results of a call, with its node and tangents."""
    single = not isinstance(output, tuple)
    outputs = (output,) if single else output
    for dirty in getattr(ctx, "dirty_tensors", None) or ():
        if not any(dirty is o for o in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function."
            )
    results = _C._record_function(ctx, args, outputs, recording)
    ctx.__dict__.pop("to_save", None)
    tangents = [_tangent(a) for a in args]
    if any(t is not None for t in tangents):
        carried = ctx.apply_jvp(*tangents)
        for out, t in zip(results, carried if isinstance(carried, tuple) else (carried,), strict=True):
            if t is not None:
                _C._set_tangent(out, t)
    return results[0] if single else results


def _tangent(value: Any) -> Tensor | None:
    return _C._unpack_dual(value)[1] if isinstance(value, Tensor) else None


def _with_defaults(f: Callable, args: tuple, kwargs: dict) -> tuple:
    bound = inspect.signature(f).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def once_differentiable(f: Callable) -> Callable:
    """Marks a backward whose own operations cannot be differentiated: trying to is an error."""

    @functools.wraps(f)
    def backward(ctx: Any, *grads: Any) -> Any:
        recording = _C.is_grad_enabled() and any(isinstance(g, Tensor) and g.requires_grad for g in grads)
        before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)
        try:
            found = f(ctx, *grads)
        finally:
            _C._set_grad_enabled(before)
        if not recording:
            return found
        parts = found if isinstance(found, tuple) else (found,)
        marked = tuple(
            _Refusal.apply(p.detach().requires_grad_()) if isinstance(p, Tensor) and p.is_floating_point() else p
            for p in parts
        )
        return marked if isinstance(found, tuple) else marked[0]

    return backward


class _Refusal(Function):
    """Differentiating the result of a once-differentiable backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class NestedIOFunction(Function):
    """Functions on nested structures; kept for old programs."""


class InplaceFunction(Function):
    """A function that may work in place; an older base class."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


_ContextMethodMixin = FunctionCtx  # its older name
