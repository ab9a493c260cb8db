"""FakeTensorMode: while it is active tensors that are made are fake; and the fakes of real tensors, each made once."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from tocha import _C
from tocha._library.native_calls import record_call
from tocha._subclasses.calls import invoke
from tocha._subclasses.convert import dtype_facts
from tocha._subclasses.errors import (
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from tocha._subclasses.fake import CONSTANT_NUMEL_LIMIT, FakeTensor, new, refresh
from tocha._subclasses.history import unrecorded
from tocha._subclasses.reader import FakeInterpreter, Recorder, modes
from tocha.ir import layout
from tocha.ir.devices import Device
from tocha.ir.symbolic import free_symbols
from tocha.nn.parameter import Parameter
from tocha.operators.facts import Facts, Memory
from tocha.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass, transform_subclass

Tensor = _C.Tensor


class FakeTensorConverter:
    """The fakes of real tensors: one for each, on one memory where the real ones share theirs."""

    def __init__(self, *, copy_data: bool = False, export: bool = False):
        self.export = export
        self._fakes: dict[int, tuple[Any, FakeTensor]] = {}  # by id, with a weak reference to the real one
        self._memories: dict[int, list[Any]] = {}  # by storage: the memory, and how many known tensors lie on it

    def known(self, t: Tensor) -> FakeTensor | None:
        found = self._fakes.get(id(t))
        return found[1] if found is not None and found[0]() is t else None

    def real_of(self, fake: FakeTensor) -> Tensor | None:
        """The real tensor that a fake was made of."""
        return next(
            (found for reference, f in self._fakes.values() if f is fake and (found := reference()) is not None), None
        )

    def clear(self) -> None:
        """Forgets the real tensors: nothing refers to them any longer, not even weakly."""
        self._fakes.clear()
        self._memories.clear()

    def memory_of(self, t: Tensor) -> Memory:
        """The memory that stands for a tensor's; it is forgotten with the last known tensor on it."""
        storage = t.untyped_storage()
        entry = self._memories.get(storage._cdata)
        return entry[0] if entry is not None else Memory(storage.nbytes())

    def remember(self, t: Tensor, fake: FakeTensor) -> None:
        key, place = id(t), t.untyped_storage()._cdata
        facts = getattr(fake, "_facts", None)  # a wrapper around fakes has none
        entry = self._memories.setdefault(place, [Memory(0) if facts is None else facts.memory, 0])
        entry[1] += 1

        def forget(_: Any) -> None:
            self._fakes.pop(key, None)
            entry[1] -= 1
            if not entry[1] and self._memories.get(place) is entry:
                del self._memories[place]

        self._fakes[key] = (weakref.ref(t, forget), fake)

    def from_real_tensor(
        self,
        fake_mode: FakeTensorMode,
        t: Tensor,
        make_constant: bool = False,
        shape_env: Any = None,
        *,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        found = self.known(t)
        if found is None:
            found = self.made(fake_mode, t, shape_env, source, symbolic_context)
            self.remember(t, found)
        if make_constant:
            found.constant = t.detach().clone()
        return found

    def made(
        self, mode: FakeTensorMode, t: Tensor, env: Any, source: Any, wishes: Any, base: FakeTensor | None = None
    ) -> FakeTensor:
        if t.layout != _C.strided:
            raise UnsupportedFakeTensorException(f"{t.layout} tensors have no fake form")
        if t._base is not None and base is None:
            base = self.from_real_tensor(mode, t._base, shape_env=env, source=(source, "_base"))
        f = self.facts(t, env, source, wishes)
        if base is not None:
            f.base, f.memory = base._facts, base._facts.memory
        with unrecorded():
            fake = new(mode, f, base)
        return self.with_autograd(mode, t, fake, env, source, wishes)

    def facts(self, t: Tensor, env: Any, source: Any, wishes: Any) -> Facts:
        sizes, strides, offset = tuple(t.shape), t.stride(), t.storage_offset()
        memory = self.memory_of(t)
        if env is not None:
            sizes, strides, offset = env.create_symbolic_sizes_strides_storage_offset(
                t, source, symbolic_context=wishes
            )
            if memory.storage is None and any(type(n) is not int for n in sizes):
                memory.nbytes = None
        device = Device(t.device.type, t.device.index)
        shown = unless_plain(sizes, strides)
        return Facts(sizes, dtype_facts(t.dtype), device, shown, offset, memory, t.is_conj(), t.is_neg())

    def with_autograd(
        self, mode: FakeTensorMode, t: Tensor, fake: FakeTensor, env: Any, source: Any, wishes: Any
    ) -> FakeTensor:
        for mark in ("_is_param", "_is_buffer"):
            if getattr(t, mark, False):
                setattr(fake, mark, True)
        if isinstance(t, Parameter):
            fake._is_param = True  # type: ignore[attr-defined]
        if t.requires_grad and not fake.requires_grad:
            fake.requires_grad_()
            if not t.is_leaf:
                before = _C.is_grad_enabled()
                _C._set_grad_enabled(True)
                fake = self.with_history(fake) if fake._base is None else invoke("view_as", fake, fake)
                _C._set_grad_enabled(before)
        if t.is_leaf and t.grad is not None:
            fake.grad = self.from_real_tensor(
                mode, t.grad, shape_env=env, source=(source, "grad"), symbolic_context=wishes
            )
        return fake

    @staticmethod
    def with_history(fake: FakeTensor) -> FakeTensor:
        """A copy that gradients go through, and that lies where the tensor lies: a copy's own layout has no holes."""
        made = invoke("clone", fake)
        made._facts = fake._facts
        refresh(made)
        return made


def unless_plain(sizes: Sequence[Any], strides: Sequence[Any]) -> Sequence[Any] | None:
    """No strides for those of a new contiguous tensor: rules for such are quicker."""
    return None if layout.same_sizes(strides, layout.contiguous_strides(sizes)) else strides


class FakeTensorMode(TorchDispatchMode):
    """Inside it everything that is made is fake, and operators on fakes give fakes.

    >>> import tocha
    >>> with FakeTensorMode() as mode:
    ...     layer = tocha.nn.Linear(3, 4)
    >>> layer(mode.from_tensor(tocha.ones(2, 3)))
    FakeTensor(..., size=(2, 4), grad_fn=<AddmmBackward0>)
    """

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ):
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.in_kernel_invocation = False
        self.allow_meta = False
        self.fake_tensor_converter = FakeTensorConverter(export=export)
        self.reader = FakeInterpreter(self)
        self.unknown_sizes: dict[Any, Any] = {}  # by what was asked of which elements
        self.enter_stack: list[bool] = []

    # -- being active

    def __enter__(self) -> FakeTensorMode:
        modes.stack.append(self)
        self.enter_stack.append(_C._set_fake_mode(True))
        return self

    def __exit__(self, *exception: object) -> None:
        modes.stack.pop()
        _C._set_fake_mode(self.enter_stack.pop())

    @property
    def allow_scalar_outputs(self) -> bool:
        return self.shape_env is not None and self.shape_env.allow_scalar_outputs

    def is_our_fake(self, t: object) -> bool:
        return isinstance(t, FakeTensor) and t.fake_mode is self

    # -- fakes of real tensors

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        """The fake of a tensor, the same each time it is asked for."""
        static = self.static_shapes if static_shapes is None else static_shapes
        env = self.shape_env if symbolic_context is not None or not static else None
        if isinstance(tensor, FakeTensor):
            return self._from_fake(tensor)
        if is_traceable_wrapper_subclass(tensor):
            return self._from_wrapper(tensor, static)
        before = _C._set_fake_mode(False)
        try:
            return self.fake_tensor_converter.from_real_tensor(
                self, tensor, shape_env=env, source=source, symbolic_context=symbolic_context, trace=trace
            )
        finally:
            _C._set_fake_mode(before)

    def _from_wrapper(self, t: Any, static: bool) -> Any:
        """A wrapper of the same class around fakes of what it is made of."""
        converter = self.fake_tensor_converter
        found = converter.known(t)
        if found is None:
            found = transform_subclass(t, lambda _, inner: self.from_tensor(inner, static_shapes=static))
            found.requires_grad_(t.requires_grad)
            converter.remember(t, found)
        return found

    def _from_fake(self, t: FakeTensor) -> FakeTensor:
        """Another fake like one of any mode."""
        f = t._facts
        copied = Facts(f.sizes, f.dtype, f.device, f.steps, f.offset, Memory(f.memory.nbytes), f.conjugated, f.negated)
        made = new(self, copied)
        if getattr(t, "_is_param", False):
            made._is_param = True  # type: ignore[attr-defined]
        if t.requires_grad:
            made.requires_grad_()
        return made

    def facts_of(self, t: Tensor) -> Facts:
        """The facts of a real tensor, on memory of their own."""
        memory = Memory(t.untyped_storage().nbytes())
        device = Device(t.device.type, t.device.index)
        sizes, strides = tuple(t.shape), unless_plain(t.shape, t.stride())
        return Facts(sizes, dtype_facts(t.dtype), device, strides, t.storage_offset(), memory, t.is_conj(), t.is_neg())

    def lifted(self, real: Tensor) -> FakeTensor:
        """A fake of a tensor that nobody else knows; a single element is remembered."""
        made = new(self, self.facts_of(real))
        made.lifted_from = real
        if real.numel() <= CONSTANT_NUMEL_LIMIT:
            made.constant = real
        return made

    def fake_of(self, t: Tensor, func: Any = None, shown: str = "") -> FakeTensor:
        """An operand of a call: a fake as it is; a real one where that is allowed."""
        if isinstance(t, FakeTensor):
            if t.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return t
        if not self.allow_non_fake_inputs:
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. "
                f"Found in {func}({shown})"
            )
        return self.from_tensor(t)

    def with_fakes(self, form: Any, slots: tuple, func: Any) -> tuple:
        """The objects of a call with fakes for the real tensors among them."""
        tensors = [t for i in form.tensors for t in (slots[i] if isinstance(slots[i], list | tuple) else (slots[i],))]
        shown = ", ".join(
            repr(t) if isinstance(t, FakeTensor) else f"tensor([...], size={tuple(t.shape)})"
            for t in tensors
            if isinstance(t, Tensor)
        )

        def convert(v: Any) -> Any:
            if isinstance(v, Tensor):
                return self.fake_of(v, func, shown)
            return type(v)(convert(x) for x in v) if type(v) in (list, tuple) else v

        return tuple(convert(v) if i in form.tensors else v for i, v in enumerate(slots))

    def run_rule(self, target: Any, tensors: list[Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A custom operator's rule for results without elements, on fakes."""
        fakes = {id(t): self.fake_of(t, target.handle) for t in tensors}

        def convert(v: Any) -> Any:
            if isinstance(v, Tensor):
                return fakes[id(v)]
            return [convert(x) for x in v] if isinstance(v, list | tuple) else v

        meta = target.known.kernels.get("Meta")
        try:
            rule = meta if meta is not None and target.known.fake is None else target.fake_kernel(self.unknown_size)
        except NotImplementedError as e:
            raise UnsupportedOperatorException(target.handle) from e
        with self:
            result = rule(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})
        for a, v in target.given(args, kwargs):
            for t in (v if isinstance(v, list) else [v]) if a.is_write else []:
                if isinstance(t, FakeTensor):
                    t._facts.memory.version += 1
        return result

    def unknown_size(self, least: int = 0, most: int | None = None) -> Any:
        """A size that depends on elements, for rules that ask for one."""
        env = self.shape_env
        if env is None or not env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException("a custom operator")
        made = env.create_unbacked_symint(size_like=True)
        for atom in free_symbols(made.expr):
            env.constrain_range(atom, least, math.inf if most is None else most)
        return made

    def recorder(self, given: list[FakeTensor]) -> Recorder:
        return Recorder(self, given)

    def native(self, o: Any, inplace: bool) -> Any:
        return record_call(o, inplace)

    # -- as a dispatch mode

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.dispatch(func, types, args, kwargs or {})

    def dispatch(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        """An operator handle on fakes: below autograd, so that nothing is recorded."""
        with self, unrecorded():
            return func(*args, **(kwargs or {}))

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> Any:
        raise UnsupportedFakeTensorException("nested tensors have no fake form")
