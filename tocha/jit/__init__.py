"""torch.jit as eager programs meet it: decorators and predicates, and script and trace, whose results run eagerly.

There is no compiled program behind them: saving, loading and looking at one (`save`, `load`, `graph`, `code`) refuse.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeVar

from tocha.autograd.grad_mode import no_grad
from tocha.futures import Future
from tocha.jit import containers
from tocha.jit.annotations import Attribute, annotate
from tocha.nn.modules.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "TracerWarning", "annotate", "enable_onednn_fusion",
    "export", "export_opnames", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "set_module", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

_isinstance = isinstance
F = TypeVar("F", bound=Callable)


class Error(Exception):
    """What a compiled program raises.

    >>> issubclass(tocha.jit.Error, Exception)
    True
    """


class TracerWarning(Warning):
    """What a trace warns of. There is none, and it never does.

    >>> issubclass(tocha.jit.TracerWarning, Warning)
    True
    """


class _NotThere(NotImplementedError, AttributeError):
    """What a program without a graph says of it; `hasattr` answers no."""


def _refuse(what: str) -> NoReturn:
    raise _NotThere(f"[torch.jit] {what} is not built in tocha: scripted and traced programs run eagerly")


# -- what stands for a program -----------------------------------------------------------------------------


class _Program:
    """What scripted functions and modules have in common: there is no graph to look at."""

    @property
    def graph(self) -> Any:
        _refuse("graph")

    @property
    def inlined_graph(self) -> Any:
        _refuse("inlined_graph")

    @property
    def code(self) -> str:
        _refuse("code")

    def save(self, *args: Any, **kwargs: Any) -> None:
        _refuse("save")

    def save_to_buffer(self, *args: Any, **kwargs: Any) -> bytes:
        _refuse("save_to_buffer")


class ScriptFunction(_Program):
    """A function given to script or trace.

    >>> f = tocha.jit.trace(lambda x: x + 1, tocha.ones(1))
    >>> isinstance(f, tocha.jit.ScriptFunction)
    True
    """

    def __init__(self, function: Callable):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @property
    def name(self) -> str:
        return self._function.__name__


class ScriptModule(_Program, Module):
    """A base for modules, and what script and trace make of one.

    >>> isinstance(tocha.jit.script(tocha.nn.ReLU()), tocha.jit.ScriptModule)
    True
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)


class RecursiveScriptModule(ScriptModule):
    """A module given to script or trace: its own parameters, buffers, children and attributes."""

    def __init__(self, original: Module):
        super().__init__()
        for shared in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[shared] = original.__dict__[shared]
        self.__dict__["_original"] = original
        self.__dict__["training"] = original.training

    @property
    def original_name(self) -> str:
        return type(self._original).__name__

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._original(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        self._original.train(mode)
        return super().train(mode)

    def __getattr__(self, name: str) -> Any:
        if name in vars(_Program):  # a property that refused: Python asks here once more
            _refuse(name)
        return getattr(self.__dict__["_original"], name)

    def __len__(self) -> int:
        return len(self._original)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator:
        return iter(self._original)

    def __getitem__(self, key: Any) -> Any:
        return self._original[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._original


class TopLevelTracedModule(RecursiveScriptModule):
    """What trace makes of a module."""


class CompilationUnit:
    """Programs by name, from source text."""

    def __init__(self, *args: Any, **kwargs: Any):
        _refuse("CompilationUnit")


# -- making them -------------------------------------------------------------------------------------------


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A callable that does what the function or module does; classes stay as they are.

    >>> import tocha
    >>> tocha.jit.script(lambda x: x + 1)(1)
    2
    """
    if _isinstance(obj, _Program | type):
        return obj
    if _isinstance(obj, Module):
        return RecursiveScriptModule(obj)
    if callable(obj):
        return ScriptFunction(obj)
    if _isinstance(obj, list | dict):
        return obj
    raise TypeError(f"[torch.jit.script] {type(obj)} is a built-in class: a function, a module or a class is expected")


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_kwarg_inputs: dict | None = None, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Runs a function or module once with the inputs, and returns a callable that does the same.

    >>> f = tocha.jit.trace(lambda x: x * 2 + 1, tocha.ones(2))
    >>> f(tocha.tensor([1.0, 5.0]))
    tensor([ 3., 11.])
    """
    inputs = example_inputs if _isinstance(example_inputs, tuple | list) else (example_inputs,)
    if example_inputs is None and example_kwarg_inputs is None:
        raise TypeError("[torch.jit.trace] example_inputs: 'NoneType' object is not iterable")
    with no_grad():
        func(**example_kwarg_inputs) if example_kwarg_inputs is not None else func(*inputs)
    if _isinstance(func, Module):
        return func if _isinstance(func, ScriptModule) else TopLevelTracedModule(func)
    return ScriptFunction(func)


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Runs methods of a module once each, and returns the module as trace does.

    >>> class Model(tocha.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1
    >>> model = tocha.jit.trace_module(Model(), {"forward": tocha.ones(1)})
    >>> model(tocha.tensor([1.0]))
    tensor([2.])
    """
    for name, given in inputs.items():
        if example_inputs_is_kwarg:
            getattr(mod, name)(**given)
        else:
            getattr(mod, name)(*(given if _isinstance(given, tuple | list) else (given,)))
    return TopLevelTracedModule(mod)


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A copy of the scripted module, which must be in evaluation mode: its parameters are constants.

    >>> model = tocha.jit.freeze(tocha.jit.script(tocha.nn.ReLU().eval()))
    >>> model(tocha.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if not _isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace first"
        )
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() first")
    return copy.deepcopy(mod).requires_grad_(False)


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module as it is.

    >>> model = tocha.jit.optimize_for_inference(tocha.jit.script(tocha.nn.ReLU().eval()))
    >>> model(tocha.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return mod


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, preserved_methods: Any = None) -> None:
    """Nothing is to be done for an eager program.

    >>> model = tocha.jit.freeze(tocha.jit.script(tocha.nn.ReLU().eval()))
    >>> tocha.jit.run_frozen_optimizations(model)
    >>> model(tocha.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refused: there is no compiled program."""
    _refuse("save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """Refused: compiled programs cannot be run."""
    _refuse("load")


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """Refused: there is no graph."""
    _refuse("_get_trace_graph")


def export_opnames(m: Any) -> list[str]:
    """Refused: there is no graph."""
    _refuse("export_opnames")


# -- decorators and predicates -----------------------------------------------------------------------------


def is_scripting() -> bool:
    """Whether this runs as a compiled program: never here.

    >>> tocha.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """Whether trace is recording: it does not, here.

    >>> tocha.jit.is_tracing()
    False
    """
    return False


def export(fn: F) -> F:
    """Marks a method that a scripted module keeps.

    >>> class Model(tocha.nn.Module):
    ...     @tocha.jit.export
    ...     def double(self, x):
    ...         return x * 2
    >>> Model().double(tocha.tensor([1.0]))
    tensor([2.])
    """
    fn._torchscript_modifier = "export"  # type: ignore[attr-defined]
    return fn


def unused(fn: F) -> F:
    """Marks a method that compiled programs do not call.

    >>> class Model(tocha.nn.Module):
    ...     @tocha.jit.unused
    ...     def old(self, x):
    ...         return x
    >>> Model().old(tocha.tensor([1.0]))
    tensor([1.])
    """
    if not _isinstance(fn, property):
        fn._torchscript_modifier = "unused (ignored and replaced with raising of an exception)"  # type: ignore[attr-defined]
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a method that stays Python; also called with arguments.

    >>> class Model(tocha.nn.Module):
    ...     @tocha.jit.ignore
    ...     def log(self, x):
    ...         print("seen")
    >>> Model().log(tocha.tensor([1.0]))
    seen
    """
    if callable(drop):
        drop._torchscript_modifier = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
        return drop
    return ignore


def script_method(fn: F) -> F:
    """Marks a method of a ScriptModule.

    >>> class Model(tocha.jit.ScriptModule):
    ...     @tocha.jit.script_method
    ...     def forward(self, x):
    ...         return x + 1
    >>> Model()(tocha.tensor([1.0]))
    tensor([2.])
    """
    return fn


def script_if_tracing(fn: F) -> F:
    """Scripts a function while trace records: here it stays as it is.

    >>> @tocha.jit.script_if_tracing
    ... def f(x):
    ...     return x + 1
    >>> f(tocha.tensor([1.0]))
    tensor([2.])
    """
    return fn


def interface(obj: type) -> type:
    """Marks a class as an interface of modules.

    >>> @tocha.jit.interface
    ... class Scales:
    ...     def scale(self, x: tocha.Tensor) -> tocha.Tensor:
    ...         pass
    >>> Scales.__name__
    'Scales'
    """
    return obj


def isinstance(obj: Any, target_type: Any) -> bool:
    """isinstance, as programs write it for type refinement: also for List[int] and its like.

    >>> tocha.jit.isinstance([1, 2], list[int])
    True
    """
    return containers.check(obj, target_type)


def _overload(func: F) -> F:
    return func


def _overload_method(func: F) -> F:
    return func


def _script_if_tracing(fn: F) -> F:
    return fn


def _unwrap_optional(x: Any) -> Any:
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A context without effect on eager programs.

    >>> with tocha.jit.optimized_execution(False):
    ...     tocha.tensor([1.0]) + 1
    tensor([2.])
    """
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context without effect on eager programs."""
    yield


class strict_fusion:
    """A context without effect on eager programs.

    >>> with tocha.jit.strict_fusion():
    ...     tocha.tensor([1.0]) + 1
    tensor([2.])
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Without effect on eager programs; returns the strategy before.

    >>> before = tocha.jit.set_fusion_strategy([("DYNAMIC", 3)])
    >>> _ = tocha.jit.set_fusion_strategy(before)
    >>> type(before).__name__
    'list'
    """
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Without effect on eager programs.

    >>> tocha.jit.enable_onednn_fusion(False)
    >>> tocha.jit.onednn_fusion_enabled()
    False
    """


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses graphs: there are none.

    >>> tocha.jit.onednn_fusion_enabled()
    False
    """
    return False


def set_module(obj: Any, mod: str) -> None:
    """Sets the module that an object says it is of.

    >>> def f():
    ...     pass
    >>> tocha.jit.set_module(f, "mine")
    >>> f.__module__
    'mine'
    """
    obj.__module__ = mod


# -- tasks -------------------------------------------------------------------------------------------------


def fork(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """Runs at once, as PyTorch's eager mode does; wait gives the result.

    >>> future = tocha.jit.fork(lambda x: x + 1, tocha.tensor([1.0]))
    >>> tocha.jit.wait(future)
    tensor([2.])
    """
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """The result of a fork.

    >>> future = tocha.jit.fork(lambda x: x + 1, tocha.tensor([1.0]))
    >>> tocha.jit.wait(future)
    tensor([2.])
    """
    return future.wait()


_fork, _wait = fork, wait
