"""What is known of tensors while capturing: everything but their elements. The one place that asks.

Facts are fake tensors of one mode per compilation; sizes may be symbols of its ShapeEnv. Operators run on them to find
the facts of their results; what needs elements refuses.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tocha import _C
from tocha._C import Tensor
from tocha._dynamo import config
from tocha._dynamo.refusals import Unsupported
from tocha._subclasses.errors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha._subclasses.history import FakeNode
from tocha.ir.shape_env import GuardOnDataDependentSymNode, ShapeEnv, StatelessSymbolicContext
from tocha.ir.sym_types import Symbolic
from tocha.overrides import DisableTorchFunctionSubclass
from tocha.utils._python_dispatch import is_traceable_wrapper_subclass

_TO_PYTHON = frozenset(
    {"tolist", "numpy", "__array__", "data_ptr", "storage", "untyped_storage", "__format__", "__repr__", "__str__"}
)
_UNKNOWN = (
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedMutationAliasingException,
    UnsupportedOperatorException,
)


def new_mode(fullgraph: bool) -> FakeTensorMode:
    """For one compilation. Sizes are plain unless a tensor is asked for with wishes. Elements asked for as numbers are
    symbols where nothing may break."""
    env = ShapeEnv(
        allow_scalar_outputs=fullgraph or config.capture_scalar_outputs,
        allow_dynamic_output_shape_ops=fullgraph or config.capture_dynamic_output_shape_ops,
        assume_static_by_default=True,
    )
    return FakeTensorMode(shape_env=env, static_shapes=True, allow_non_fake_inputs=True)


def of(mode: FakeTensorMode, tensor: Any, wishes: StatelessSymbolicContext | None) -> Any:
    """The facts of a real tensor; `wishes` says for each dim whether it is a symbol."""
    before = _C._set_overrides(2)  # what is looked at here is nothing that the program asked for
    try:
        return mode.from_tensor(tensor, symbolic_context=wishes)
    except UnsupportedFakeTensorException as error:
        raise Unsupported("value", str(error)) from error
    finally:
        _C._set_overrides(before)


def geometry(fact: Any) -> tuple:
    """Sizes, strides and offset as they are now."""
    f = fact._facts
    return tuple(f.sizes), tuple(f.steps), f.offset


def version(fact: Any) -> int:
    """How often its memory was written to; of a wrapper, that of its parts."""
    if is_traceable_wrapper_subclass(fact):
        return sum(version(getattr(fact, n)) for n in fact.__tensor_flatten__()[0])
    return fact._facts.memory.version


def memory(fact: Any) -> Any:
    """What all tensors on one memory have in common. A wrapper stands for itself."""
    return fact if is_traceable_wrapper_subclass(fact) else fact._facts.memory


def run(mode: FakeTensorMode, op: str, target: Any, args: tuple, kwargs: dict) -> Any:
    """The facts of a call's result. `op` is the kind of graph node; errors of the program itself are raised as they are."""
    if op == "call_method" and target in _TO_PYTHON:
        raise Unsupported("tensor_to_python", f"Tensor.{target}()")
    if kwargs.get("generator") is not None:
        kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
    call = getattr(args[0], target) if op == "call_method" else target
    given = args[1:] if op == "call_method" else args
    try:
        with mode:
            result = call(*given, **kwargs)
    except DataDependentOutputException as error:
        raise Unsupported("tensor_to_python", f"{_shown(target)}") from error
    except GuardOnDataDependentSymNode as error:
        raise Unsupported("data_dependent_branch", f"{_shown(target)}: {error}") from error
    except _UNKNOWN as error:
        raise Unsupported("facts", f"{_shown(target)}: {error}") from error
    if isinstance(result, Tensor):
        check_dense(result)
    return result


def check_dense(tensor: Tensor) -> None:
    """Refuses what graphs have no facts of."""
    with DisableTorchFunctionSubclass():  # a class that watches its calls is not asked
        layout, nested = tensor.layout, tensor.is_nested
    if layout is not _C.strided or nested:
        raise Unsupported("value", f"a {'nested' if nested else 'sparse'} tensor of layout {layout}")


def decided(question: Any, env: ShapeEnv | None = None) -> Any:
    """The answer to something that Python asks of a symbolic number; it becomes a guard. With `env` it is the program that asks: what
    operators may take sizes from data to be (neither 0 nor 1) is no answer to it."""
    try:
        with env.asked_by_program() if env is not None else nullcontext():
            return question()
    except GuardOnDataDependentSymNode as error:
        raise Unsupported("data_dependent_branch", str(error)) from error


def _shown(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def is_number(value: Any) -> bool:
    """A number that depends on symbols."""
    return isinstance(value, Symbolic)


def check_gradient(result: Any, given: list[Any]) -> None:
    """Refuses a call whose gradient is sparse: none of its nodes, down to those of what it was given, may be told `sparse`."""
    before = {id(t.grad_fn) for t in given if isinstance(t, Tensor)}
    nodes = [t.grad_fn for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, Tensor)]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, FakeNode) or id(node) in before:
            continue
        made_by = getattr(node.backward, "call", None)
        if made_by is not None and made_by.arguments.get("sparse") is True:
            raise Unsupported("sparse_gradient", node.name())
        nodes += [n for n, _ in node.next_functions]
