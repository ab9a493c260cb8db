"""What programs call: compile, disable, reset, and the module that wraps a compiled one."""

from __future__ import annotations

import copy
import functools
import importlib
import os
import types
import weakref
from collections.abc import Callable
from typing import Any

from tocha import _C
from tocha._dynamo import (
    attention_calls,
    builtin_calls,
    comptime,
    config,
    convert,
    custom_functions,
    decorators,
    gradients,
    guards,
    leaves,
    native_calls,
    optimizers,
    promises,
    questions,
    resume,
    signatures,
    subgraphs,
)
from tocha._dynamo import dynamic as dynamic_sizes
from tocha._dynamo.backends import lookup_backend
from tocha._dynamo.convert import Capture
from tocha._dynamo.frame import forget_decoded
from tocha._dynamo.refusals import Unsupported
from tocha._inductor import check_options, settings_of_mode
from tocha._logging import events
from tocha._logging.collect import HISTORY
from tocha.nn import _Module as Module
from tocha.nn.parameter import is_lazy

_CAPTURES: dict[tuple, Capture] = {}
ON_RESET: list[Callable[[], None]] = []  # what reset() calls besides
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_default_backend: Any = "inductor"


def get_default_backend() -> Any:
    """The backend of functions that are compiled without naming one.

    >>> tocha.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend


def set_default_backend(backend: Any) -> None:
    """Another backend for functions that are compiled without naming one; None: the one that it was at first.

    >>> tocha.compiler.set_default_backend("eager")
    >>> tocha.compile(lambda x: x + 1)(tocha.tensor([1.0]))
    tensor([2.])
    >>> tocha.compiler.set_default_backend(None)
    """
    global _default_backend
    if isinstance(backend, str) and backend != "inductor":
        lookup_backend(backend)
    _default_backend = "inductor" if backend is None else backend


def capture_for(
    backend: Any, fullgraph: bool, dynamic: bool | None, options: Any = None, limit: int | None = None, mode: str | None = None
) -> Capture:  # fmt: skip
    """Compiling twice in the same way shares what was captured."""
    keep = (options or {}).get("guard_filter_fn")
    rest = {k: v for k, v in (options or {}).items() if k != "guard_filter_fn"}
    found = lookup_backend(backend)
    way = (id(found.__self__), found.__func__) if isinstance(found, types.MethodType) else id(found)  # type: ignore[attr-defined]
    kept = (found, keep)
    told: dict[str, Any] = {"options": rest} if rest else {"mode": mode} if mode is not None else {}
    if told and (backend == "inductor" or not isinstance(backend, str)):
        found = functools.partial(found, **told)
    key = (way, repr(sorted(rest.items())), fullgraph, dynamic, id(keep), limit, mode)
    if key not in _CAPTURES:
        _CAPTURES[key] = Capture(found, fullgraph, dynamic, guards.filtered(keep) if keep else None)
        _CAPTURES[key].limit = limit
        _CAPTURES[key].kept = kept  # type: ignore[attr-defined]
        _CAPTURES[key].settings = rest if backend == "inductor" else None  # type: ignore[attr-defined]
    return _CAPTURES[key]


def wrapper(function: Any, callback: Any) -> Any:
    made = _C._capture.Wrapper(function, callback)
    functools.update_wrapper(
        made, function, assigned=[a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(function, a)]
    )
    made._torchdynamo_orig_callable = function
    if callback is not None:
        made._torchdynamo_callback = callback
        made.explain = functools.partial(explain_compiled, made)
        made.get_compiler_config = functools.partial(compiler_config, callback)
    return made


def compiler_config(callback: Any) -> dict[str, Any] | None:
    """The settings that a function is compiled under, its own options among them; None for backends that have none."""
    own = getattr(callback, "settings", None)
    if own is None:
        return None
    settings = importlib.import_module("tocha._inductor.config")
    with settings.patch({k.replace("-", "_"): v for k, v in own.items()}):
        return settings.get_config_copy()


def explain_compiled(function: Any, *args: Any, **kwargs: Any) -> Any:
    """compiled.explain(*args): what a call does; without arguments, what calls have done so far."""
    return importlib.import_module("tocha._dynamo.explaining").explain_compiled(function, *args, **kwargs)


def innermost(function: Any) -> Any:
    """The function that a wrapper was made for."""
    while isinstance(function, _C._capture.Wrapper):
        function = function._function
    return function


# By class, then by method and form: what was captured of one layer of a model serves the others.
_CODES: weakref.WeakKeyDictionary[type, dict[tuple, types.CodeType]] = weakref.WeakKeyDictionary()


def form_of(module: Module) -> tuple:
    """Which modules it is made of, and the shapes of its parameters."""
    inside = tuple((name, type(m)) for name, m in module.named_modules() if m is not module)
    return inside, tuple(tuple(p.shape) for p in module.parameters() if not is_lazy(p))


def inlined(function: Any) -> Any:
    """A function of the user's that calls one of the library's: frames of the library itself are not captured."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    name = getattr(function, "__name__", "call")
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    shared, form = (_CODES.setdefault(type(owner), {}), form_of(owner)) if isinstance(owner, Module) else ({}, ())
    code = shared.setdefault((name, *form), call.__code__.replace(co_name=name))  # of its own: limits are per code
    convert.FORCED[id(code)] = code
    made = types.FunctionType(code, globals(), code.co_name, None, call.__closure__)
    return functools.wraps(function)(made) if hasattr(function, "__name__") else made


class OptimizedModule(Module):
    """A compiled module: calls are captured, everything else is the original's. One without a callback is never captured."""

    _opt_mod_attributes = frozenset({"_orig_mod", "dynamo_ctx", "_compiled_call", "forward", "training"})

    def __init__(self, mod: Module, callback: Any) -> None:
        super().__init__()
        self._orig_mod = mod
        self.__dict__["dynamo_ctx"] = callback
        self._initialize()

    def _initialize(self) -> None:
        mod = self._orig_mod
        if self.dynamo_ctx is None:
            self.__dict__["forward"] = disable(mod.__call__)
            return
        own = getattr(mod.forward, "__code__", None) is not None and convert.is_user_code(mod.forward.__code__)
        self.__dict__["forward"] = wrapper(mod.__call__ if own else inlined(mod), self.dynamo_ctx)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__
        if state["_forward_hooks"] or state["_forward_pre_hooks"] or state["_backward_hooks"] or state["_backward_pre_hooks"]:  # fmt: skip
            return super().__call__(*args, **kwargs)
        return state["forward"](*args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What compiling it does for a call with these arguments, or has done so far."""
        return explain_compiled(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._opt_mod_attributes or "_modules" not in self.__dict__ or "_orig_mod" not in self._modules:
            super().__setattr__(name, value)
            return
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]  # type: ignore[index]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __contains__(self, key: Any) -> bool:
        return key in self._orig_mod  # type: ignore[attr-defined]

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *self._opt_mod_attributes})

    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__ and "_orig_mod" in self._modules:
            self._orig_mod.training = value

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("forward", None)
        state.pop("dynamo_ctx", None)
        way = self.dynamo_ctx
        state["_compiled"] = (way.backend, way.fullgraph, way.dynamic) if way is not None else None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        way = state.pop("_compiled")
        self.__dict__.update(state)
        self.__dict__["dynamo_ctx"] = capture_for(*way) if way is not None else None
        self._initialize()

    def get_compiler_config(self) -> dict[str, Any] | None:
        return compiler_config(self.dynamo_ctx)

    def __deepcopy__(self, memo: dict) -> OptimizedModule:
        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), self.dynamo_ctx)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Captures a function or module as graphs when it is called, and hands them to a backend.

    >>> import tocha
    >>> @tocha.compile(backend="eager")
    ... def f(x):
    ...     return x.sin() + 1
    >>> f(tocha.zeros(2))
    tensor([1., 1.])
    """
    if model is None:
        return lambda m: compile(
            m, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name,
            disable=disable, recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec,
        )  # fmt: skip
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if disable or config.disable or os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1" or os.environ.get("TORCHDYNAMO_DISABLE", "0") == "1":  # fmt: skip
        return model
    if mode is not None and mode not in MODES and backend in (None, "inductor"):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if shapes_spec is not None:
        raise NotImplementedError("[compile] shapes_spec is not here yet: mark sizes with tocha._dynamo.mark_dynamic")
    assert callable(model), f"A callable function is expected, but {type(model)} is provided."
    chosen = backend if backend is not None else get_default_backend()
    if chosen == "inductor":
        options = settings_of_mode(mode) or None if mode is not None else options
        check_options({k: v for k, v in (options or {}).items() if k != "guard_filter_fn"})
    told = mode if chosen != "inductor" and mode != "default" else None  # other backends take the mode's name
    callback = capture_for(chosen, fullgraph, dynamic, options, recompile_limit, told)
    if isolate_recompiles:  # a cache of its own
        own = Capture(callback.backend, fullgraph, dynamic, callback.keep)
        own.limit, callback = recompile_limit, own
    made = optimized(model, callback)
    if config.compiled_autograd and not isinstance(model, type):
        how = {
            "backend": chosen,
            "fullgraph": fullgraph,
            "dynamic": dynamic,
            **config.compiled_autograd_kwargs_override,
        }
        return with_compiled_backward(made, how)
    return made


@native_calls.known(compile)
def _compile_in_captured_code(f: Any, model: Any = None, /, **settings: Any) -> Any:
    """What captured code compiles is part of what is captured: the function itself."""
    return f.wrap_known(lambda m: m) if model is None else model


def with_compiled_backward(compiled: Any, how: dict[str, Any]) -> Any:
    """backward() that is called in compiled code is compiled in the same way."""
    from tocha._dynamo import compiled_autograd

    def compiler(module: Any) -> Any:
        with config.patch(compiled_autograd=False):
            return compile(module, **how)

    def around(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with compiled_autograd._enable(compiler, dynamic=how["dynamic"] is not False):
                return function(*args, **kwargs)

        return call

    if isinstance(compiled, OptimizedModule):
        compiled.__dict__["forward"] = around(compiled.__dict__["forward"])
        return compiled
    made = around(compiled)
    made._torchdynamo_orig_callable = innermost(compiled)  # type: ignore[attr-defined]
    return made


def optimized(model: Any, callback: Capture) -> Any:
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    if isinstance(model, Module):
        return OptimizedModule(model, callback)
    if isinstance(model, type):
        model.__call__ = wrapper(model.__call__, callback)  # type: ignore[method-assign]
        return model
    function = innermost(model)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, functools.partial) and hasattr(type(function).__call__, "__code__"):
        code = type(function).__call__.__code__  # an object that can be called
    own = code is not None and convert.is_user_code(code)
    if own and code is not None:
        convert.COMPILED.add(code)
    return wrapper(function if own else inlined(function), callback)


def optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False, **more: Any) -> Any:  # fmt: skip
    """The older spelling of compile: optimize(backend)(function)."""
    if disable:
        return lambda f: f
    if not (isinstance(backend, str) or callable(backend)):
        raise AssertionError(f"A callable function is expected, but {type(backend)} is provided.")
    told = more.get("guard_fail_fn")
    if told is None:
        return Optimizer(capture_for(backend, nopython, dynamic))
    capture = convert.Capture(lookup_backend(backend), nopython, dynamic)  # of its own, as others are not told
    capture.guard_fail_fn = told
    return Optimizer(capture)


class Optimizer:
    """What optimize(backend) is: called with a function it compiles that."""

    def __init__(self, callback: Capture) -> None:
        self.callback = callback

    def __call__(self, function: Any) -> Any:
        return optimized(function, self.callback)

    def __enter__(self) -> Any:
        raise RuntimeError("[optimize] torch._dynamo.optimize(...) is used with a context manager. Call it with a function, or use it as a decorator.")  # fmt: skip

    def __exit__(self, *args: Any) -> None: ...


def optimize_assert(backend: Any, **more: Any) -> Any:
    return optimize(backend, nopython=True, **more)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """A function that is not captured, nor anything it calls.

    >>> @tocha.compiler.disable
    ... def log(x):
    ...     print("runs as Python")
    >>> def f(x):
    ...     log(x)
    ...     return x + 1
    >>> tocha.compile(f, backend="eager")(tocha.tensor([1.0]))
    runs as Python
    tensor([2.])
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason, wrapping=wrapping)
    function = innermost(fn)
    if isinstance(function, type):
        for name in ("__init__", "__call__", "forward"):
            if name in vars(function):
                setattr(function, name, disable(vars(function)[name]))
        return function
    if isinstance(function, Module):
        made = OptimizedModule(function, None)
        made.__dict__["forward"]._torchdynamo_disable_msg = reason
        return made
    if not recursive:
        _C._capture.skip_code(function.__code__)
        leaves.disallow(function)
        function._torchdynamo_disable_recursive = False
        return function
    made = wrapper(function, None)
    made._torchdynamo_disable = True
    made._torchdynamo_disable_msg = reason
    made._torchdynamo_disable_recursive = True
    return made


def graph_break(msg: str = "") -> None:
    """Ends the graph here, when captured; nothing otherwise."""


def is_compiling() -> bool:
    """True in captured code, False where it runs as it is.

    >>> def f(x):
    ...     return x + 1 if tocha.compiler.is_compiling() else x
    >>> f(tocha.tensor([1.0])), tocha.compile(f, backend="eager")(tocha.tensor([1.0]))
    (tensor([1.]), tensor([2.]))
    """
    return False


def is_dynamo_supported() -> bool:
    return True


def is_inductor_supported() -> bool:
    return True


def allow_in_graph(fn: Any) -> Any:
    """Calls of the function stand in graphs as they are.

    >>> @tocha.compiler.allow_in_graph
    ... def twice(x):
    ...     return x * 2
    >>> tocha.compile(lambda x: twice(x) + 1, backend="eager")(tocha.tensor([1.0]))
    tensor([3.])
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    assert callable(fn), "allow_in_graph expects a callable"
    leaves.allow(fn)
    return fn


def disallow_in_graph(fn: Any) -> Any:
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(f) for f in fn]
    leaves.disallow(fn)
    return fn


def reset_code(code: Any) -> None:
    """Forgets what a code object was captured as."""
    _C._capture.forget_code(code)


def reset_code_caches() -> None:
    """Forgets what functions were captured as, and remembers what changed from call to call."""
    convert.forget()
    resume.forget()
    forget_decoded()


def reset() -> None:
    """Forgets everything that was captured.

    >>> tocha.compiler.reset() is None
    True
    """
    reset_code_caches()
    dynamic_sizes.forget()
    events.forget()
    HISTORY.clear()
    for forget in ON_RESET:
        forget()
    _CAPTURES.clear()


builtin_calls.register(graph_break, is_compiling)
_ = (
    attention_calls,
    optimizers,
    comptime,
    custom_functions,
    decorators,
    gradients,
    promises,
    questions,
    signatures,
    subgraphs,
)  # they register what captured code does in place of some calls

__all__ = [
    "OptimizedModule",
    "Unsupported",
    "allow_in_graph",
    "compile",
    "disable",
    "disallow_in_graph",
    "graph_break",
    "is_compiling",
    "optimize",
    "optimize_assert",
    "reset",
]
