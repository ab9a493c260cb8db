"""Lists and dicts that nodes keep their arguments in: changing them in place would leave `users` wrong."""

from __future__ import annotations

from typing import Any, NoReturn

from tocha.utils._pytree import register_pytree_node
from tocha.utils._pytree_nodes import _dict_flatten, _dict_flatten_with_keys, _tuple_flatten, _tuple_flatten_with_keys

__all__ = ["immutable_dict", "immutable_list"]

_help_mutation = """\
If you are attempting to modify the kwargs or args of a tocha.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args"""


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_help_mutation}")


class immutable_list(list):
    """A list that cannot be changed; hashable if its elements are."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _no_mutation  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _no_mutation  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that cannot be changed; hashable if its values are."""

    __delitem__ = __ior__ = __setitem__ = _no_mutation  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _no_mutation  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple:
        return type(self), (tuple(self.items()),)


register_pytree_node(
    immutable_list,
    _tuple_flatten,
    lambda values, _: immutable_list(values),
    serialized_type_name="tocha.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_tuple_flatten_with_keys,
)
register_pytree_node(
    immutable_dict,
    _dict_flatten,
    lambda values, keys: immutable_dict(zip(keys, values)),
    serialized_type_name="tocha.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_dict_flatten_with_keys,
)
