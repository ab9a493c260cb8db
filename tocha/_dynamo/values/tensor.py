"""Tensors: a node of the graph and the facts of its value."""

from __future__ import annotations

import operator
import types
from functools import partial
from typing import TYPE_CHECKING, Any

import tocha
from tocha import _C
from tocha._dynamo import config, facts
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.containers import ListValue, SizeValue
from tocha._dynamo.values.functions import real_function
from tocha._dynamo.values.native_method import NativeMethod
from tocha._dynamo.values.objects import MISSING, bind, find_in_class
from tocha.utils._python_dispatch import is_traceable_wrapper_subclass
from tocha.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

_IN_GRAPH = ("data", "T", "mT", "H", "mH", "real", "imag")
# What guards of tensors do not look at.
ASKED = frozenset({"is_leaf", "_version", "output_nr", "retains_grad", "_is_view", "is_inference", "is_shared", "storage_offset"})  # fmt: skip
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


class HandleValue(Value):
    """What register_hook returned: nothing can be done with it in captured code."""

    def python_type(self) -> type:
        return RemovableHandle


class InputHook(HandleValue):
    """A hook on an input, and its handle: it is set when the graph has run, among the side effects."""

    has_identity = True
    new = False

    def __init__(self, tensor: TensorValue, method: str, hook: Value) -> None:
        self.tensor, self.method, self.hook = tensor, method, hook
        self.removed = False

    def get_attribute(self, f: Frame, name: str) -> Value:
        return NativeMethod(self, name) if name == "remove" else super().get_attribute(f, name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "remove" or args or kwargs:
            self.refuse("attribute", f"{name}()")
        self.removed = True
        return Constant(None)

    def parts(self) -> list[Value]:
        return [self.tensor, self.hook]

    def reconstruct(self, cg: Codegen) -> None:
        if not self.removed:
            cg.call_method_of(self.tensor, self.method, [self.hook], keep=True)
            return
        cg.start_call(set_and_removed)
        cg.load(self.tensor)
        cg.load_constant(self.method)
        cg.load(self.hook)
        cg.end_call(3)

    def apply(self, cg: Codegen) -> None:
        """Nothing is left to do once it was made."""


def set_and_removed(tensor: Any, method: str, hook: Any) -> Any:
    """The handle of a hook that was taken away again."""
    handle = getattr(tensor, method)(hook)
    handle.remove()
    return handle


class TensorValue(Value):
    has_identity = True

    def __init__(self, node: Any, fact: Any, source: Any = None, real: Any = None) -> None:
        self.node, self.fact, self.source = node, fact, source
        self.real = real  # of an input
        self.cls: type | None = None  # where it is a subclass of Tensor that overrides the library's functions
        self.wraps = type(fact) if is_traceable_wrapper_subclass(fact) else None  # one that is made of other tensors
        self.input_source: Any = None  # of an input of such a class: the plain tensor that the graph gets
        self.written_before = 0  # of an input: how often its memory had been written to when it was met
        self.written: dict[str, Value] = {}  # attributes that were set

    def __repr__(self) -> str:
        return f"Tensor({self.node}, {self.fact.dtype}, {list(self.fact.shape)})"

    @property
    def own_class(self) -> Any:
        """The program's class of it; None of plain tensors."""
        return self.cls or self.wraps

    def python_type(self) -> type:
        if self.own_class is not None:
            return self.own_class
        return type(self.real) if self.real is not None else tocha.Tensor

    def as_class(self, cls: type) -> TensorValue:
        """The same tensor as an object of a subclass."""
        made = TensorValue(self.node, self.fact)
        made.cls = cls if cls is not tocha.Tensor else None
        return made

    def graph_argument(self) -> Any:
        return self.node

    def example(self) -> Any:
        return self.fact

    def known_truth(self) -> bool | None:
        """Of a tensor made of a number in captured code, and not written to since; None of others."""
        known = None if self.wraps else self.fact.constant
        return None if known is None or self.own_class is not None or known.numel() != 1 else bool(known)

    def truth(self, f: Frame) -> bool:
        known = self.known_truth()
        if known is not None:
            return known
        self.refuse("data_dependent_branch", "the truth")

    def call(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.own_class is not None and find_in_class(self.own_class, "__call__")[0] is not MISSING:
            return super().call(f, args, kwargs)
        f.raise_(TypeError, f"'{self.python_type().__name__}' object is not callable")

    def special(self, f: Frame, name: str) -> Value | None:
        """What its class has in Python in the place of Tensor's own: __add__, __getitem__ and their kin."""
        cls = self.own_class
        if cls is None:
            return None
        held, holder = find_in_class(cls, name)
        if not isinstance(held, types.FunctionType) or holder in tocha.Tensor.__mro__:
            return None
        return bind(f, held, self, cls, f.class_source(cls, holder, name, held))

    def length(self, f: Frame) -> int:
        own = self.special(f, "__len__")
        if own is not None:
            return own.call(f, [], {}).constant()
        if not self.fact.ndim:
            f.raise_(TypeError, "len() of a 0-d tensor")
        return facts.decided(lambda: int(self.fact.shape[0]))

    def iterate(self, f: Frame) -> Value:
        own = self.special(f, "__iter__")
        if own is not None:
            return own.call(f, [], {})
        if not self.fact.ndim:
            f.raise_(TypeError, "iteration over a 0-d tensor")
        return f.out.call(f, "call_method", "unbind", [self, Constant(0)], {}).iterate(f)

    def item(self, f: Frame, key: Value) -> Value:
        own = self.special(f, "__getitem__")
        if own is not None:
            return own.call(f, [key], {})
        return f.out.call(f, "call_function", operator.getitem, [self, _place(key)], {})

    def set_item(self, f: Frame, key: Value, value: Value) -> None:
        own = self.special(f, "__setitem__")
        if own is not None:
            own.call(f, [key, value], {})
            return
        f.out.call(f, "call_function", operator.setitem, [self, _place(key), value], {})

    def get_attribute(self, f: Frame, name: str) -> Value:
        if name in self.written:
            return self.written[name].realize()
        cls = self.own_class
        if cls is not None:
            held, holder = find_in_class(cls, name)
            if held is not MISSING and holder not in tocha.Tensor.__mro__:
                return bind(f, held, self, cls, f.class_source(cls, holder, name, held))
        if self.wraps is not None:
            from tocha._dynamo import wrappers

            part = wrappers.attribute(f, self, name)
            if part is not None:
                return part
        if self.cls is not None or f.out.overriding.modes:
            from tocha._dynamo import overrides

            taken = overrides.take_over_read(f, self, name)
            if taken is not None:
                return taken
        if name == "shape":
            return SizeValue(f.out.sizes(f, self))
        if name == "device":
            return Constant(self.fact.device)
        if name == "grad":
            return self._grad(f)
        if name == "grad_fn" and self._is_leaf(f):
            return Constant(None)
        if name in _IN_GRAPH:
            return f.out.call(f, "call_function", getattr, [self, Constant(name)], {})
        if name == "__class__":
            return f.wrap_known(self.python_type())
        if self.real is not None and name in getattr(self.real, "__dict__", {}):
            return f.wrap(self.real.__dict__[name], self.source.attribute(name) if self.source else None)
        found = getattr(tocha.Tensor, name, None)
        if found is None and not hasattr(self.fact, name):
            if self.real is not None and self.source is not None:
                f.out.guards.add(self.source.attribute("__dict__"), "without", name)
            f.raise_(AttributeError, f"'{self.python_type().__name__}' object has no attribute '{name}'")
        if callable(found):
            return NativeMethod(self, name)
        if name == "is_leaf" and self.real is not None and not self.real.is_leaf:
            f.out.guard_answer(self, name)  # its fact has no history from outside to tell of
            return Constant(not self.fact.requires_grad)
        value = getattr(self.fact, name)
        if isinstance(value, tocha.Tensor) or name in ("grad_fn", "_base"):
            self.refuse("attribute", f"attribute {name!r}")
        if name in ASKED:
            value = self._answer(f, name, value)
        if facts.is_number(value):  # nbytes of sizes that change
            return f.out.number(value, partial(f.out.graph.call_function, getattr, (self.node, name)))
        return f.wrap_known(value)

    def _answer(self, f: Frame, name: str, value: Any) -> Any:
        """Facts count writes from the beginning of the capture, and know of no other histories than their own."""
        try:
            inputs = f.out.guard_answer(self, name)
        except RuntimeError as error:
            f.raise_real(error)
        if name == "_version":
            return value + max((i.real._version for i in inputs), default=0)
        return value if self.real is None or self.fact._version else getattr(self.real, name)

    def _is_leaf(self, f: Frame) -> bool:
        """Whether it certainly has no history."""
        if not self.fact.requires_grad:
            return True
        if self.real is None or self.source is None or self.fact.grad_fn is not None:
            return False
        f.out.guards.add(self.source.attribute("grad_fn"), "same", None)
        return True

    def _grad(self, f: Frame) -> Value:
        if self.real is not None and self.source is not None:
            return f.wrap(self.real.grad, self.source.attribute("grad"))
        return Constant(None)  # but for what a captured backward has written

    def _require_grad(self, f: Frame, requires_grad: Value | None = None) -> Value:
        """Which inputs are leaves is not for graphs to change: they are differentiated for them."""
        wanted = requires_grad.truth(f) if requires_grad is not None else True
        if wanted == self.fact.requires_grad:
            return self
        if self.real is not None or not config.trace_autograd_ops:
            self.refuse("autograd", "requires_grad_()")
        return f.out.call(f, "call_method", "requires_grad_", [self, Constant(wanted)], {})

    def check_detached(self) -> None:
        """In place: of what the graph makes that is a node of it, of an input not, as with requires_grad_()."""
        if self.real is not None and self.fact.requires_grad:
            self.refuse("autograd", "detach_()")

    def _backward(self, f: Frame, gradient: Value | None = None, retain_graph: Value | None = None, create_graph: Value | None = None, inputs: Value | None = None) -> Value:  # fmt: skip
        args = [self, gradient or Constant(None), retain_graph or Constant(None), create_graph or Constant(False)]
        return f.inline(f.wrap_known(tocha.autograd.backward), args, {"inputs": inputs or Constant(None)})  # type: ignore[arg-type]

    def _elements(self, f: Frame) -> Value:
        """tolist(), where elements may be symbols: each is read as a number."""
        if not self.fact.ndim:
            return self.call_method(f, "item", [], {})
        return ListValue([part.realize().call_method(f, "tolist", [], {}) for part in self.iterate(f).unpack(f)])

    def _hook(self, f: Frame, hook: Value) -> Value:
        """A hook on a tensor that the graph makes: whoever runs or differentiates the graph sets it."""
        from tocha._dynamo.custom_functions import look_through

        real = real_function(f, hook.realize())
        look_through(f, hook.realize(), self)

        def register_hook(tensor: Any) -> None:
            tensor.register_hook(real)

        f.out.graph.call_function(register_hook, (self.node,))
        f.out.calls += 1
        return HandleValue()

    def set_attribute(self, f: Frame, name: str, value: Value) -> None:
        if name == "data":
            self._set_data(f, value)
            return
        if name != "grad" and hasattr(tocha.Tensor, name):
            self.refuse("mutation", f"setting {name!r}")
        self.written[name] = value
        f.out.effects.add(self)

    def _set_data(self, f: Frame, value: Value) -> None:
        """x.data = y: other memory under the same tensor, behind the back of autograd."""
        new = value.realize()
        if not isinstance(new, TensorValue) or new.fact.dtype != self.fact.dtype or new.fact.device != self.fact.device:
            self.refuse("mutation", "setting 'data' to another kind of tensor")
        was = _C.is_grad_enabled()
        f.out.switch(_C._set_grad_enabled, [False])
        f.out.call(f, "call_method", "set_", [self, new], {})
        f.out.switch(_C._set_grad_enabled, [was])

    def parts(self) -> list[Value]:
        return list(self.written.values())

    def apply(self, cg: Codegen) -> None:
        for name, value in self.written.items():
            cg.load(value)
            cg.load(self)
            cg.store_attribute(name)

    def call_method(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__len__":
            return Constant(self.length(f))
        if name == "__iter__":
            return self.iterate(f)
        if name == "register_hook" and self.real is None:
            return self._hook(f, *args, **kwargs)
        if name in _HOOKS and len(args) == 1 and not kwargs and self.source is not None and self.fact.requires_grad:
            hook = InputHook(self, name, args[0])
            f.out.effects.add(hook)
            return hook
        if name == "as_subclass":
            return self.as_class(args[0].constant())
        if name == "backward" and config.trace_autograd_ops:
            return self._backward(f, *args, **kwargs)
        if name == "retain_grad" and self.fact.requires_grad and self._is_leaf(f):
            return Constant(None)
        if name in ("backward", "__reduce_ex__", "__deepcopy__", *_HOOKS) or (
            name == "retain_grad" and self.fact.requires_grad  # of the tensor that leaves the graph, not of a node
        ):
            self.refuse("autograd", f"{name}()")
        if name == "numpy":
            from tocha._dynamo import arrays

            return arrays.of_tensor(f, self)
        if name == "item" and not args and not kwargs:
            number = f.out.item_of_input(self)
            if number is not None:
                return number
        if name == "tolist" and not args and not kwargs and f.out.env.allow_scalar_outputs:
            return self._elements(f)
        if name == "requires_grad_":
            return self._require_grad(f, *args, **kwargs)
        if name == "new_tensor" and args and (made := self._new_of_array(f, args, kwargs)) is not None:
            return made
        if name == "new" and len(args) == 1 and isinstance(args[0].realize(), SizeValue):
            args, kwargs = [], {"size": args[0], **kwargs}  # in a graph it is a tuple, which by itself is data
        if not hasattr(tocha.Tensor, name) or (
            self.own_class and find_in_class(self.own_class, name)[1] not in tocha.Tensor.__mro__
        ):
            return self.get_attribute(f, name).call(f, args, kwargs)
        return f.out.call(f, "call_method", name, [self, *args], kwargs)

    def native(self, f: Frame, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Tensor's own method, past the one of its class."""
        if name in ("__len__", "__iter__"):
            return self.as_class(tocha.Tensor).call_method(f, name, args, kwargs)
        return f.out.call(f, "call_method", name, [self, *args], kwargs)

    def _new_of_array(self, f: Frame, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
        """new_tensor() of an array of NumPy; None where it is of something else."""
        from tocha._dynamo import arrays

        array, own = args[0].realize(), Constant(self.fact.dtype)
        return (
            arrays.to_tensor(f, tocha.tensor, array, args[1:], {"dtype": own, **kwargs})
            if arrays.has_array(array)
            else None
        )

    def hash_key(self, f: Frame) -> Any:
        return ("tensor", id(self))

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is None:
            cg.load_graph_output(self)
            return
        cg.start_call(tocha.Tensor.as_subclass)
        cg.load(cg.out.plain(self))
        cg.load_constant(self.cls)
        cg.end_call(2)


def _place(key: Value) -> Value:
    """A key of tensors, where arrays of NumPy name places too."""
    from tocha._dynamo import arrays

    return arrays.inner_key(key) if arrays.has_array(key) else key
