"""The kinds of nodes a pytree may have: how each falls into children and is made from them again, and TreeSpec, which remembers the shape of a tree.

tocha.utils._pytree re-exports what is public here; _pytree_json writes specs as text.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from tocha import _C

_set = object.__setattr__
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


@dataclasses.dataclass(frozen=True, init=False)
class SequenceKey:
    """A place in a list or tuple."""

    __slots__ = ("idx",)
    idx: int

    def __init__(self, idx: int) -> None:
        _set(self, "idx", idx)

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True, init=False)
class MappingKey:
    """A key of a dict."""

    __slots__ = ("key",)
    key: Any

    def __init__(self, key: Any) -> None:
        _set(self, "key", key)

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True, init=False)
class GetAttrKey:
    """A field."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        _set(self, "name", name)

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """What a spec keeps of a constant: the value itself, compared by its own ==."""

    value: Any


class NodeDef(NamedTuple):
    type: Any
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Callable | None


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable | None
    from_dumpable_context: Callable | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})


def is_namedtuple_class(cls: Any) -> bool:
    """Whether cls was made by namedtuple or NamedTuple, or derives from such a class."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(type(f) is str for f in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether cls is a named tuple of native code, as time.localtime() and tocha.return_types have them."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type) and cls.__bases__ == (tuple,) and all(type(getattr(cls, c, None)) is int for c in counts)
    )


def is_structseq_instance(obj: object) -> bool:
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


class _NodeOfType(dict):
    """The node definition for a type, or None for types whose values are leaves. A look-up of this dict is the whole
    cost of asking; what is not known yet is found out once."""

    LIMIT = 4096

    def __missing__(self, cls: type) -> NodeDef | None:
        found = SUPPORTED_NODES.get(namedtuple if is_namedtuple_class(cls) else cls)
        if len(self) >= self.LIMIT:  # types made at run time must not be held for ever
            self.clear()
        self[cls] = found
        return found


node_of_type = _NodeOfType()


def _private_register_pytree_node(
    cls: type,
    flatten_fn: Callable,
    unflatten_fn: Callable,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None,
    flatten_with_keys_fn: Callable | None = None,
) -> None:
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.", stacklevel=3
        )
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    name = NO_SERIALIZED_TYPE_NAME_FOUND if serialized_type_name is None else serialized_type_name
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, name, to_dumpable_context, from_dumpable_context)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls
    node_of_type.clear()


def register_pytree_node(
    cls: type,
    flatten_fn: Callable,
    unflatten_fn: Callable,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None,
    flatten_with_keys_fn: Callable | None = None,
) -> None:
    """Makes a type a container: flatten_fn gives its children and a context, unflatten_fn makes it from both.

    >>> from tocha.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, context: Pair(*children))
    >>> _pytree.tree_leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _register_pytree_node(
    cls: type,
    flatten_fn: Callable,
    unflatten_fn: Callable,
    to_str_fn: Callable | None = None,
    maybe_from_str_fn: Callable | None = None,
    **options: Any,
) -> None:
    """The older spelling; its two functions of strings have no effect."""
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn("`to_str_fn` and `maybe_from_str_fn` is deprecated.", FutureWarning, stacklevel=2)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name
    if SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) is cls:
        del SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    CONSTANT_NODES.discard(cls)
    node_of_type.clear()


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a named tuple a name in dumped specs; any named tuple is a node without it."""
    _private_register_pytree_node(
        cls,
        _namedtuple_flatten,
        _namedtuple_unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=_namedtuple_flatten_with_keys,
    )


def _check_field_names(cls: type, given: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if given is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return given
    known = [f.name for f in dataclasses.fields(cls) if f.init]
    if given is None:
        return [n for n in known if n not in dropped]
    problems = ""
    if missing := set(known) - set(given) - set(dropped):
        problems += (
            f"Missing fields in `field_names`: {missing}. If you want to include these fields in the pytree, please add "
            "them to `field_names`, otherwise please add them to `drop_field_names`.\n"
        )
    if unexpected := set(given) - set(known):
        problems += (
            f"Unexpected fields in `field_names`: {unexpected}. Please remove these fields, or add them to "
            "`drop_field_names`.\n"
        )
    if problems:
        raise ValueError(f"field_names does not include all dataclass fields.\n{problems}")
    return given


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes a dataclass (or a class made from its fields by keyword) a container. Fields that are None are no leaves."""
    names = _check_field_names(cls, field_names, drop_field_names or [])

    def split(obj: Any) -> tuple[list[str], list[Any], list[str]]:
        values = [(n, getattr(obj, n)) for n in names]
        kept = [(n, v) for n, v in values if v is not None]
        return [n for n, _ in kept], [v for _, v in kept], [n for n, v in values if v is None]

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        kept, values, none = split(obj)
        return values, [kept, none]

    def flatten_with_keys(obj: Any) -> tuple[list[Any], Any]:
        kept, values, none = split(obj)
        return [(GetAttrKey(n), v) for n, v in zip(kept, values)], [kept, none]

    def unflatten(values: Iterable, context: Any) -> Any:
        kept, none = context
        return cls(**dict(zip(kept, values)), **dict.fromkeys(none))

    _private_register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


def register_constant(cls: type) -> None:
    """Makes values of a type part of the spec: they are no leaves, and two specs are equal if these values are."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None or cls.__hash__ is object.__hash__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    _private_register_pytree_node(
        cls,
        lambda value: ([], ConstantNode(value)),
        lambda children, context: context.value,
        flatten_with_keys_fn=lambda value: ([], ConstantNode(value)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    return isinstance(cls, type) and cls in CONSTANT_NODES


_FIRST_KEYS = [SequenceKey(i) for i in range(64)]


def _sequence_keys(children: Sequence) -> list[tuple[SequenceKey, Any]]:
    rest = [SequenceKey(i) for i in range(len(_FIRST_KEYS), len(children))]
    return list(zip(_FIRST_KEYS + rest, children))


def _mapping_keys(d: Mapping) -> list[tuple[MappingKey, Any]]:
    return [(MappingKey(k), v) for k, v in d.items()]


def _tuple_flatten(d: tuple) -> tuple[list[Any], Any]:
    return list(d), None


def _tuple_flatten_with_keys(d: tuple) -> tuple[list[Any], Any]:
    return _sequence_keys(d), None


def _tuple_unflatten(values: Iterable, context: Any) -> tuple:
    return tuple(values)


def _list_flatten(d: list) -> tuple[list[Any], Any]:
    return d, None


def _list_unflatten(values: Iterable, context: Any) -> list:
    return list(values)


_list_flatten_with_keys = _tuple_flatten_with_keys


def _dict_flatten(d: dict) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict) -> tuple[list[Any], Any]:
    return _mapping_keys(d), list(d)


def _dict_unflatten(values: Iterable, context: Any) -> dict:
    return dict(zip(context, values))


def _ordereddict_unflatten(values: Iterable, context: Any) -> OrderedDict:
    return OrderedDict(zip(context, values))


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten


def _defaultdict_flatten(d: defaultdict) -> tuple[list[Any], Any]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict) -> tuple[list[Any], Any]:
    return _mapping_keys(d), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable, context: Any) -> defaultdict:
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d: deque) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque) -> tuple[list[Any], Any]:
    return _sequence_keys(d), d.maxlen


def _deque_unflatten(values: Iterable, context: Any) -> deque:
    return deque(values, maxlen=context)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[Any], Any]:
    return [(GetAttrKey(n), v) for n, v in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values: Iterable, context: Any) -> Any:
    return context(*values)


def _register_builtin_nodes() -> None:
    nodes: list[tuple[Any, Callable, Callable, Callable, str]] = [
        (tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "builtins.tuple"),
        (list, _list_flatten, _list_unflatten, _tuple_flatten_with_keys, "builtins.list"),
        (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict"),
        (OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys, "collections.OrderedDict"),
        (deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys, "collections.deque"),
        (_C.Size, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "tocha.Size"),
    ]
    for cls, flatten, unflatten, with_keys, name in nodes:
        _private_register_pytree_node(
            cls, flatten, unflatten, serialized_type_name=name, flatten_with_keys_fn=with_keys
        )
    for cls in vars(_C.return_types).values():
        if is_structseq_class(cls):
            _private_register_pytree_node(
                cls,
                _tuple_flatten,
                lambda values, _, cls=cls: cls(values),
                flatten_with_keys_fn=_tuple_flatten_with_keys,
            )


_register_builtin_nodes()


def _read_only(self: object, name: str, *value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _hashable(context: Any) -> Any:
    if isinstance(context, list | tuple):
        return tuple(_hashable(c) for c in context)
    try:
        hash(context)
    except TypeError:
        return type(context)
    return context


class TreeSpec:
    """The shape of a pytree: the type of each node, its context (keys, fields), its children. Leaves are `*`."""

    __slots__ = ("__weakref__", "_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    type: Any
    num_children: int
    num_leaves: int
    num_nodes: int
    _context: Any
    _children: list[TreeSpec]

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        _set_type(self, type)
        _set_context(self, context)
        _set_children(self, children_specs)
        _set_num_children(self, len(children_specs))
        leaves, nodes = 0, 1
        for c in children_specs:
            leaves += c.num_leaves
            nodes += c.num_nodes
        _set_num_leaves(self, leaves)
        _set_num_nodes(self, nodes)

    __setattr__ = _read_only
    __delattr__ = _read_only

    def __reduce__(self) -> tuple:
        return TreeSpec, (self.type, self._context, self._children)

    @property
    def context(self) -> Any:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return list(self._children)

    def is_leaf(self) -> bool:
        return self.num_nodes == 1 and self.num_leaves == 1

    def children(self) -> list[TreeSpec]:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.num_leaves == other.num_leaves
            and self.type == other.type
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self.type, _hashable(self._context), tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        inner = indent + 2
        children = [c.__repr__(inner) for c in self._children]
        shown = (",\n" + " " * inner).join(children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{shown}])"

    def unflatten(self, leaves: Iterable) -> Any:
        leaves = leaves if type(leaves) is list else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return _unflatten(self, iter(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` where this spec has its leaves; the upper part of `tree` must have this shape."""
        found: list[Any] = []
        _flatten_up_to(self, tree, found)
        return found


def _setter(name: str) -> Callable[[TreeSpec, Any], None]:
    return getattr(TreeSpec, name).__set__


# Fields are written through their descriptors: specs are immutable for everybody else.
_set_type = _setter("type")
_set_context = _setter("_context")
_set_children = _setter("_children")
_set_num_children = _setter("num_children")
_set_num_leaves = _setter("num_leaves")
_set_num_nodes = _setter("num_nodes")
PyTreeSpec = TreeSpec


class _LeafSpecType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(TreeSpec, metaclass=_LeafSpecType):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])
        _set_num_leaves(self, 1)

    def __reduce__(self) -> tuple:
        return LeafSpec, ()


LEAF = LeafSpec()


def _unflatten(spec: TreeSpec, leaves: Any) -> Any:
    kind = spec.type
    if kind is None:
        return next(leaves)
    values = [next(leaves) if c.type is None else _unflatten(c, leaves) for c in spec._children]
    if kind is list:
        return values
    if kind is tuple:
        return tuple(values)
    if kind is dict:
        return dict(zip(spec._context, values))
    return SUPPORTED_NODES[kind].unflatten_fn(values, spec._context)


def _dict_keys(spec: TreeSpec) -> list[Any]:
    return spec._context[1] if spec.type is defaultdict else spec._context


def _children_like(spec: TreeSpec, tree: Any) -> list[Any]:
    """The children of `tree` in the order of `spec`, if it is a node of that kind."""
    kind = spec.type
    node = node_of_type[type(tree)]
    got = node.type if node else type(tree)
    builtin = kind in BUILTIN_TYPES
    if kind in STANDARD_DICT_TYPES and got in STANDARD_DICT_TYPES:
        keys = _dict_keys(spec)
        missing, extra = set(keys) - set(tree), set(tree) - set(keys)
        if missing or extra:
            notes = [f"missing key(s): {missing}"] * bool(missing) + [f"extra key(s): {extra}"] * bool(extra)
            raise ValueError(f"Node keys mismatch; {'; '.join(notes)}.")
        return [tree[k] for k in keys]
    if got is not kind or node is None:
        raise ValueError(f"{'Node type' if builtin else 'Type'} mismatch; expected {kind!r}, but got {got!r}.")
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if kind is not deque and context != spec._context:  # the bound of a deque is no part of its shape
        raise ValueError(
            f"Node context mismatch for node type {kind!r}; expected {spec._context!r}, but got {context!r}."
        )
    return children


def _flatten_up_to(spec: TreeSpec, tree: Any, found: list[Any]) -> None:
    if spec.type is None:
        found.append(tree)
        return
    for child_spec, child in zip(spec._children, _children_like(spec, tree)):
        _flatten_up_to(child_spec, child, found)
