"""Custom operators: functions of a program that autograd, graphs and the compiler treat as operators of their own.

`custom_op` is the short way; `Library`, `define` and `impl` the one by schema and dispatch key. What is registered here can be
called as `tocha.ops.NAMESPACE.NAME`.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tocha import _C, _ops
from tocha._library import registry
from tocha._library.custom_ops import (
    CustomOpDef,
    custom_op,
    keys_of,
    made_by_custom_op,
    register_cast,
    register_formula,
)
from tocha._library.fake import get_ctx
from tocha._library.infer_schema import infer_schema
from tocha._library.library import Library, fallthrough_kernel
from tocha._library.opcheck import OpCheckError, opcheck
from tocha._library.tags import Tag

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

Op = str | CustomOpDef | _ops.OpOverload
_kept: list[Library] = []  # the libraries behind the functions below, which live as long as the program


@contextlib.contextmanager
def _scoped_library(ns: str, kind: str, dispatch_key: str = "") -> Iterator[Library]:
    """A library that is taken back at the end of the block."""
    lib = Library(ns, kind, dispatch_key)
    try:
        yield lib
    finally:
        lib._destroy()


def _qualname(op: Op) -> str:
    """`ns::name.overload` of what means an operator."""
    name = op if isinstance(op, str) else op._qualname if isinstance(op, CustomOpDef) else op.name()
    if not re.fullmatch(r"\w+::\w+(\.\w+)?", name):
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {name}. The qualname passed to the tocha.library APIs '
            "must consist of a namespace and a name, e.g. aten::sin"
        )
    return name.removesuffix(".default")


def _library(op: Op, lib: Library | None) -> Library:
    if lib is not None:
        return lib
    made = Library(_qualname(op).partition("::")[0], "FRAGMENT")
    _kept.append(made)
    return made


def _handle(op: Op) -> _ops.OpOverload:
    if isinstance(op, _ops.OpOverload):
        return op
    space, _, name = _qualname(op).partition("::")
    short, _, overload = name.partition(".")
    return getattr(getattr(getattr(_ops.ops, space), short), overload or "default")


@functools.singledispatch
def define(qualname: Any, schema: Any, *, lib: Library | None = None, tags: Tag | Sequence[Tag] = ()) -> Any:
    """Defines an operator: `define("mylib::sin", "(Tensor x) -> Tensor")`.

    >>> tocha.library.define("doc_define::half", "(Tensor x) -> Tensor")
    >>> tocha.library.impl("doc_define::half", "cpu", lambda x: x / 2)
    >>> tocha.ops.doc_define.half(tocha.tensor([3.0]))
    tensor([1.5000])
    """
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    space, _, name = _qualname(qualname).partition("::")
    if not isinstance(schema, str) or not re.fullmatch(r"\(.*\) -> .*", schema, re.S):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"'
        )
    _library(f"{space}::{name}", lib).define(name + schema, tags=tags)


@define.register
def _define_in(lib: Library, schema: str, alias_analysis: str = "") -> Callable:
    """The older form: what is decorated is the kernel for all devices."""

    def register(f: Callable) -> Callable:
        lib.impl(lib.define(schema, alias_analysis), f)
        return f

    return register


@functools.singledispatch
def impl(qualname: Any, types: str | Sequence[str], func: Callable | None = None, *, lib: Library | None = None) -> Any:
    """Gives a kernel for types of device ("cpu", "default" for all) or dispatch keys ("CompositeImplicitAutograd").

    >>> tocha.library.define("doc_impl::add_one", "(Tensor x) -> Tensor")
    >>> @tocha.library.impl("doc_impl::add_one", "cpu")
    ... def add_one(x):
    ...     return x + 1
    >>> tocha.ops.doc_impl.add_one(tocha.tensor([1.0]))
    tensor([2.])
    """
    names = [types] if isinstance(types, str) else list(types)
    keys = [n if _is_key(n) else keys_of(n)[0] for n in names]

    def register(f: Callable) -> None:
        for key in keys:
            _library(qualname, lib).impl(_qualname(qualname), f, key)

    return register if func is None else register(func)


@impl.register
def _impl_in(lib: Library, name: Op, dispatch_key: str = "") -> Callable:
    """The older form: what is decorated is the kernel for a dispatch key."""

    def register(f: Callable) -> Callable:
        lib.impl(name, f, dispatch_key)
        return f

    return register


def _is_key(name: str) -> bool:
    return name[:1].isupper()


def register_kernel(
    op: Op, device_types: str | Sequence[str] | None, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """Gives the implementation of an operator for types of device.

    >>> @tocha.library.custom_op("doc_register::f", mutates_args=(), device_types="cuda")
    ... def f(x: tocha.Tensor) -> tocha.Tensor:
    ...     raise NotImplementedError
    >>> @tocha.library.register_kernel("doc_register::f", "cpu")
    ... def _(x):
    ...     return x + 1
    >>> f(tocha.tensor([1.0]))
    tensor([2.])
    """
    definition = made_by_custom_op(_qualname(op))
    if definition is not None:
        return definition.register_kernel(device_types, func)
    return impl(op, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Op,
    func: Callable | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Gives the rule for results without elements: from the arguments' sizes, strides, dtype and device to the results'.

    >>> import tocha
    >>> define("doc::half", "(Tensor x) -> Tensor")
    >>> @register_fake("doc::half")
    ... def _(x):
    ...     return x.new_empty(x.shape[0] // 2)
    >>> tocha.ops.doc.half(tocha.empty(6, device="meta")).shape
    tocha.Size([3])
    """
    if not isinstance(op, str | CustomOpDef | _ops.OpOverload):
        raise ValueError(f"register_fake({op}): got unexpected type for op: {type(op)}")

    def register(f: Callable) -> Callable:
        _library(op, lib)._register_fake(_qualname(op), f)
        return f

    return register if func is None else register(func)


def impl_abstract(
    qualname: str, func: Callable | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """The older name of register_fake.

    >>> tocha.library.define("doc_abstract::half", "(Tensor x) -> Tensor")
    >>> @tocha.library.impl_abstract("doc_abstract::half")
    ... def _(x):
    ...     return tocha.empty_like(x)
    >>> tocha.ops.doc_abstract.half(tocha.empty(3, device="meta")).shape
    tocha.Size([3])
    """
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Op, backward: Callable, /, *, setup_context: Callable | None = None, lib: Library | None = None
) -> None:
    """Says how gradients go back through an operator: `backward(ctx, *grads)`, `setup_context(ctx, inputs, output)`.

    >>> @tocha.library.custom_op("doc_autograd::square", mutates_args=())
    ... def square(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x * x
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(inputs[0])
    >>> def backward(ctx, grad):
    ...     return 2 * ctx.saved_tensors[0] * grad
    >>> tocha.library.register_autograd("doc_autograd::square", backward, setup_context=setup_context)
    >>> x = tocha.tensor([3.0], requires_grad=True)
    >>> square(x).backward()
    >>> x.grad
    tensor([6.])
    """
    if not isinstance(op, str | CustomOpDef | _ops.OpOverload):
        raise ValueError(f"register_autograd({op}): got unexpected type for op: {type(op)}")
    handle = _handle(op)
    if isinstance(handle._target, _ops.RecordTarget):
        raise NotImplementedError(f"[register_autograd] {handle} is built in and has its gradient")
    register_formula(handle, op if isinstance(op, CustomOpDef) else handle, backward, setup_context)


def register_vmap(op: Op, func: Callable | None = None, /, *, lib: Library | None = None) -> Any:
    """Keeps the rule for batches: `func(info, in_dims, *args) -> (output, out_dims)`.

    >>> @tocha.library.custom_op("doc_vmap::double", mutates_args=())
    ... def double(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x * 2
    >>> @tocha.library.register_vmap("doc_vmap::double")
    ... def _(info, in_dims, x):
    ...     return double(x), in_dims[0]
    >>> tocha.vmap(double)(tocha.arange(4.0).view(2, 2))
    tensor([[0., 2.],
            [4., 6.]])
    """

    def register(f: Callable) -> None:
        registry.of(_qualname(op)).vmap = f

    return register if func is None else register(func)


def register_torch_dispatch(
    op: Op, torch_dispatch_class: type, func: Callable | None = None, /, *, lib: Library | None = None
) -> Any:
    """Keeps what a tensor subclass or mode does with the operator."""

    def register(f: Callable) -> Callable:
        registry.of(_qualname(op)).torch_dispatch[torch_dispatch_class] = f
        return f

    return register if func is None else register(func)


def register_autocast(op: Op, device_type: str, cast_inputs: _C.dtype, /, *, lib: Library | None = None) -> None:
    """In regions of mixed precision on device_type, floating arguments are taken to cast_inputs.

    >>> @tocha.library.custom_op("doc_autocast::f", mutates_args=())
    ... def f(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x.clone()
    >>> tocha.library.register_autocast("doc_autocast::f", "cpu", tocha.bfloat16)
    >>> with tocha.autocast("cpu"):
    ...     f(tocha.ones(1)).dtype
    tocha.bfloat16
    """
    register_cast(_qualname(op), device_type, cast_inputs)


def get_kernel(op: Op, dispatch_key: str) -> Callable:
    """The kernel of an operator for a dispatch key: `get_kernel("mylib::sin", "CPU")`.

    >>> tocha.library.define("doc_kernel::half", "(Tensor x) -> Tensor")
    >>> tocha.library.impl("doc_kernel::half", "cpu", lambda x: x / 2)
    >>> callable(tocha.library.get_kernel("doc_kernel::half", "CPU"))
    True
    """
    name = _qualname(op)
    found = registry.of(name).kernels.get(dispatch_key)
    if found is None:
        raise RuntimeError(f"no kernel for {dispatch_key} for {name}")
    return found


def triton_op(name: str, fn: Callable | None = None, /, *, mutates_args: Any, schema: str | None = None) -> Any:
    """A custom operator of a function made of operators alone: what is known of its results is what the function gives.

    Kernels written in Triton (`wrap_triton`) are not run yet.

    >>> @tocha.library.triton_op("doc_triton::shifted", mutates_args=())
    ... def shifted(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x + 1
    >>> tocha.compile(lambda x: shifted(x) * 2, backend="aot_eager", fullgraph=True)(tocha.tensor([1.0]))
    tensor([4.])
    """

    def make(f: Callable) -> Any:
        made = custom_op(name, f, mutates_args=mutates_args, schema=schema)
        made.register_fake(f)
        return made

    return make if fn is None else make(fn)


def wrap_triton(triton_kernel: Callable, /) -> Any:
    """Refused: kernels written in Triton are not run yet."""
    raise NotImplementedError("[wrap_triton] kernels written in Triton are not run yet; custom_op takes any function")
