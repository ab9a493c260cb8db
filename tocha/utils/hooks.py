"""Handles to take hooks away again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class RemovableHandle:
    """What register_..._hook returns: `remove()` takes the hook away; also a context manager.

    >>> model = tocha.nn.Linear(2, 2)
    >>> handle = model.register_forward_hook(lambda module, args, out: print("called"))
    >>> _ = model(tocha.ones(2))
    called
    >>> handle.remove()
    >>> _ = model(tocha.ones(2))
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def remove(self) -> None:
        """Takes the hook away; a second time does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            d = ref()
            if d is not None and self.id in d:
                del d[self.id]

    def __getstate__(self) -> tuple:
        state = (self.hooks_dict_ref(), self.id)
        return (*state, tuple(ref() for ref in self.extra_dict_ref)) if self.extra_dict_ref else state

    def __setstate__(self, state: tuple) -> None:
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extra = state[2] if len(state) > 2 else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def unserializable_hook(f: Any) -> Any:
    """Marks a hook that is dropped, with a warning, when its tensor is saved.

    >>> hook = tocha.utils.hooks.unserializable_hook(lambda grad: grad)
    >>> hook(1)
    1
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns that a tensor's hooks will not be saved.

    >>> tocha.utils.hooks.warn_if_has_hooks(tocha.ones(2)) is None
    True
    """
    import warnings

    if tensor._backward_hooks:
        for hook in tensor._backward_hooks.values():
            if not hasattr(hook, "__torch_unserializable__"):
                warnings.warn(
                    f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                    "function with @tocha.utils.hooks.unserializable_hook to suppress this warning",
                    stacklevel=3,
                )
