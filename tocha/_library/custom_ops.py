"""`custom_op`: a Python function as an operator, opaque to autograd, to graphs and to the compiler."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tocha import _C, _ops
from tocha._library import registry, returned
from tocha._library.autograd import Formula
from tocha._library.infer_schema import infer_tagged_schema
from tocha._library.library import Library
from tocha._library.registry import EXPLICIT, key_of
from tocha._library.tags import Tag

Devices = str | Sequence[str] | None


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: Tag | Sequence[Tag] | None = None,
) -> Any:
    """Makes an operator of a function: `tocha.ops.NAMESPACE.NAME`, whose schema follows from the annotations.

    >>> import tocha
    >>> @custom_op("doc::twice", mutates_args=())
    ... def twice(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x * 2
    >>> tocha.ops.doc.twice(tocha.ones(2))
    tensor([2., 2.])
    """

    def make(f: Callable) -> CustomOpDef:
        namespace, opname = split_name(name)
        given = [tags] if isinstance(tags, Tag) else list(tags or ())
        way = returned.way_of_returning(given)
        text = schema if schema is not None else infer_tagged_schema(f, mutates_args, way)
        made = CustomOpDef(namespace, opname, text, f, given)
        if schema is not None:
            check_given_schema(made, mutates_args, way)
        made.register_kernel(device_types)(f)
        return made

    return make if fn is None else make(fn)


def split_name(qualname: str) -> tuple[str, str]:
    """`ns::name` in its parts."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the '
            "tocha.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


def check_given_schema(made: CustomOpDef, mutates_args: str | Iterable[str], way: Tag | None) -> None:
    """A schema that is given must say what mutates_args and the tags say."""
    if way is not None:
        try:
            returned.check_schema(made._opoverload._schema, way)
        except ValueError:
            made._lib._destroy()
            raise
    check_mutated(made, mutates_args)


def check_mutated(made: CustomOpDef, mutates_args: str | Iterable[str]) -> None:
    """A schema that is given must say what mutates_args says."""
    s = made._opoverload._schema
    written = {a.name for a in s._arguments if a.is_write}
    if isinstance(mutates_args, str):
        if mutates_args == "unknown":
            return
        raise ValueError(f"mutates_args must be a sequence of names or 'unknown': got {mutates_args!r}")
    if set(mutates_args) != written:
        made._lib._destroy()
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={made._schema}. The schema suggests that "
            f"the op mutates {written or 'set()'}which is different from what was provided to us in `mutates_args`. Please make these "
            "consistent."
        )


def keys_of(device_types: Devices) -> list[str]:
    """The dispatch keys of device types; None is every device."""
    if device_types is None:
        return [EXPLICIT]
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    return [EXPLICIT if n == "default" else key_of(n) for n in names]


class CustomOpDef:
    """What `custom_op` makes: call it as the function; the methods say what else is known of it.

    >>> @tocha.library.custom_op("doc_def::triple", mutates_args=())
    ... def triple(x: tocha.Tensor) -> tocha.Tensor:
    ...     return x * 3
    >>> triple
    <CustomOpDef(doc_def::triple)>
    >>> triple(tocha.tensor([1.0]))
    tensor([3.])
    """

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable, tags: list[Tag]):
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        self._qualname = f"{namespace}::{name}"
        self._lib: Library
        previous = _made.pop(self._qualname, None)
        if previous is not None:  # in notebooks a cell runs again
            previous._lib._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        self._lib._define(name + schema, [Tag.pt2_compliant_tag, *tags], self)
        self._kernels: dict[str, Callable] = {}
        self._disabled: set[str] = set()
        _made[self._qualname] = self

    @property
    def _known(self) -> registry.Registrations:
        return registry.of(self._qualname)

    @property
    def _opoverload(self) -> Any:
        name, _, overload = self._name.partition(".")
        return _ops._handle(self._namespace, name, overload or "default")

    @property
    def tags(self) -> list[Tag]:
        return self._opoverload.tags

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    # -- registrations

    def register_kernel(self, device_types: Devices, fn: Callable | None = None, /) -> Callable:
        """The implementation for some types of device; None: for every one that has none of its own."""

        def decorate(f: Callable) -> Callable:
            for key in keys_of(device_types):
                self._kernels[key] = f

                def run(*args: Any, _key: str = key, **kwargs: Any) -> Any:
                    chosen = self._init_fn if _key in self._disabled else self._kernels[_key]
                    return chosen(*args, **kwargs)

                self._known.kernels[key] = _C._capture.Wrapper(run, None)  # what an operator does is not captured
            return f

        return decorate if fn is None else decorate(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within the context the kernel of a device type is used, or the function that defined the operator instead."""
        key = key_of(device_type)
        before = key in self._disabled
        (self._disabled.discard if enabled else self._disabled.add)(key)
        try:
            yield
        finally:
            (self._disabled.add if before else self._disabled.discard)(key)

    def register_fake(self, fn: Callable, /) -> Callable:
        """The rule for results without elements: sizes, strides, dtype and device from those of the arguments."""
        self._known.fake = fn
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """How gradients go back: `backward(ctx, *grads)`; `setup_context(ctx, inputs, output)` keeps what it needs.

        >>> import tocha
        >>> square = custom_op("doc::square", lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")
        >>> def keep(ctx, inputs, output):
        ...     ctx.save_for_backward(inputs[0])
        >>> square.register_autograd(lambda ctx, grad: grad * 2 * ctx.saved_tensors[0], setup_context=keep)
        >>> x = tocha.tensor(3.0, requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor(6.)
        """
        register_formula(self._opoverload, self, backward, setup_context)

    def register_vmap(self, func: Callable | None = None) -> Any:
        """The rule for batches: `func(info, in_dims, *args) -> (output, out_dims)`."""

        def decorate(f: Callable) -> None:
            self._known.vmap = f

        return decorate if func is None else decorate(func)

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable | None = None, /) -> Callable:
        """What a tensor subclass or mode does with the operator: `fn(mode_or_class, func, types, args, kwargs)`."""

        def decorate(f: Callable) -> Callable:
            self._known.torch_dispatch[torch_dispatch_class] = f
            return f

        return decorate if fn is None else decorate(fn)

    def register_autocast(self, device_type: str, cast_inputs: _C.dtype) -> None:
        """In regions of mixed precision floating arguments are taken to this dtype."""
        register_cast(self._qualname, device_type, cast_inputs)


def register_formula(handle: Any, shown: Any, backward: Callable, setup_context: Callable | None) -> None:
    s = handle._schema
    if Tag.out in handle.tags:
        raise RuntimeError(
            f"Cannot register autograd formula for operator tagged with torch.Tag.out: {shown}. Out variants do not support "
            "autograd."
        )
    if s.is_mutable or any(r.alias for r in s._returns):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {shown} with schema {s}. Please create a functional "
            "operator and register an autograd formula for that."
        )
    keyword_only = any(a.kwarg_only for a in s._arguments)
    if keyword_only and any(a.kwarg_only and a.is_tensor for a in s._arguments):
        raise NotImplementedError(
            f"register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your tensors not "
            f"kwarg-only. Got: {s}"
        )
    if setup_context is not None and keyword_only:
        takes = inspect.signature(setup_context).parameters
        if "keyword_only_inputs" not in takes and not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            raise RuntimeError(
                f"[register_autograd] setup_context of {shown} must take keyword_only_inputs: got {list(takes)}"
            )
    registry.of(handle._target.full_name).formula = Formula(backward, setup_context)


def register_cast(full_name: str, device_type: str, cast_inputs: _C.dtype) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    registry.of(full_name).autocast[device_type] = cast_inputs


_made: dict[str, CustomOpDef] = {}


def made_by_custom_op(full_name: str) -> CustomOpDef | None:
    return _made.get(full_name)
