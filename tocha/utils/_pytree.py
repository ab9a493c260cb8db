"""Trees of containers (tuples, lists, dicts, named tuples, registered types) flattened to their leaves and back, and mapped.

Called for the arguments of functions, so the functions here look only once at each node: `node_of_type[type(x)]` says
whether x is a container, and the specs of flat tuples and lists are made once and shared.
"""

from __future__ import annotations

import functools
import types
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tocha.utils._pytree_json import (
    DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL,
    treespec_dumps,
    treespec_loads,
)
from tocha.utils._pytree_nodes import (
    BUILTIN_TYPES,
    CONSTANT_NODES,
    LEAF,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    ConstantNode,
    GetAttrKey,
    LeafSpec,
    MappingKey,
    NodeDef,
    PyTreeSpec,
    SequenceKey,
    TreeSpec,
    _children_like,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_flatten_with_keys,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _odict_flatten,
    _odict_unflatten,
    _ordereddict_flatten,
    _ordereddict_flatten_with_keys,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_namedtuple,
    _register_pytree_node,
    _tuple_flatten,
    _tuple_flatten_with_keys,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    node_of_type,
    register_constant,
    register_dataclass,
    register_pytree_node,
)

__all__ = [
    "Context", "DumpableContext", "FlattenFn", "FromDumpableContextFn", "LeafSpec", "PyTree", "PyTreeSpec",
    "ToDumpableContextFn", "TreeSpec", "UnflattenFn", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
    "is_structseq", "is_structseq_class", "is_structseq_instance", "key_get", "keystr", "register_pytree_node",
    "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf",
    "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_dumps", "treespec_loads", "treespec_pprint",
]  # fmt: skip
# Known to programs that use PyTorch's module, though not listed there either.
_ALSO = (
    BUILTIN_TYPES, CONSTANT_NODES, DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL, SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES, SUPPORTED_NODES, SUPPORTED_SERIALIZED_TYPES, ConstantNode, GetAttrKey, MappingKey, NodeDef, SequenceKey,
    _deregister_pytree_node, _dict_flatten, _dict_flatten_with_keys, _dict_unflatten, _list_flatten, _list_unflatten,
    _private_register_pytree_node, _register_namedtuple, _register_pytree_node, _tuple_flatten,
    _tuple_flatten_with_keys, _tuple_unflatten, is_constant_class, register_constant, register_dataclass,
    _defaultdict_flatten, _defaultdict_flatten_with_keys, _defaultdict_unflatten, _deque_flatten, _deque_flatten_with_keys, _deque_unflatten, _list_flatten_with_keys,
    _namedtuple_flatten, _namedtuple_flatten_with_keys, _namedtuple_unflatten, _odict_flatten, _odict_unflatten, _ordereddict_flatten, _ordereddict_flatten_with_keys, _ordereddict_unflatten,
)  # fmt: skip

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = Callable[[Iterable, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
_IsLeaf = Callable[[PyTree], bool] | None
_LEAF_SPEC = LEAF


class KeyEntry(Protocol):
    """One step of a path to a leaf: SequenceKey, MappingKey, GetAttrKey, or a type of one's own."""

    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __str__(self) -> str: ...
    def get(self, parent: Any) -> Any: ...


KeyPath = tuple[KeyEntry, ...]


@functools.lru_cache(maxsize=256)
def _flat_spec(kind: type, length: int) -> TreeSpec:
    return TreeSpec(kind, None, [LEAF] * length)


def _flatten(tree: Any, node: NodeDef, leaves: list[Any]) -> TreeSpec:
    kind = node.type
    context: Any
    if kind is tuple or kind is list:
        children, context = tree, None
    elif kind is dict:
        children, context = tree.values(), list(tree)
    else:
        children, context = node.flatten_fn(tree)
    specs: list[TreeSpec] = []
    flat = True
    for child in children:
        inner = node_of_type[type(child)]
        if inner is None:
            leaves.append(child)
            specs.append(LEAF)
        else:
            flat = False
            specs.append(_flatten(child, inner, leaves))
    if flat and (kind is tuple or kind is list):
        return _flat_spec(kind, len(specs))
    return TreeSpec(kind, context, specs)


def _flatten_until(tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> TreeSpec:
    node = node_of_type[type(tree)]
    if node is None or is_leaf(tree):
        leaves.append(tree)
        return LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten_until(c, is_leaf, leaves) for c in children])


def tree_flatten(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree from left to right, and its spec. None is a leaf.

    >>> tree_flatten({"a": [1, 2], "b": 3})
    ([1, 2, 3], TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,
        *]),
      *]))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        spec = _flatten_until(tree, is_leaf, leaves)
        return leaves, spec
    node = node_of_type[type(tree)]
    return ([tree], LEAF) if node is None else (leaves, _flatten(tree, node, leaves))


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The tree of this spec with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def _collect(tree: Any, node: NodeDef, leaves: list[Any]) -> None:
    kind = node.type
    if kind is tuple or kind is list:
        children = tree
    elif kind is dict:
        children = tree.values()
    else:
        children = node.flatten_fn(tree)[0]
    for child in children:
        inner = node_of_type[type(child)]
        if inner is None:
            leaves.append(child)
        else:
            _collect(child, inner, leaves)


def tree_iter(tree: PyTree, is_leaf: _IsLeaf = None) -> Iterator[Any]:
    """The leaves, one at a time."""
    node = node_of_type[type(tree)]
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: _IsLeaf = None) -> list[Any]:
    """The leaves alone, which is quicker than tree_flatten.

    >>> tree_leaves((1, {"a": None, "b": [2]}))
    [1, None, 2]
    """
    if is_leaf is not None:
        return list(tree_iter(tree, is_leaf))
    node = node_of_type[type(tree)]
    if node is None:
        return [tree]
    leaves: list[Any] = []
    _collect(tree, node, leaves)
    return leaves


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of a call's arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: PyTree, is_leaf: _IsLeaf = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return node_of_type[type(tree)] is None or (is_leaf is not None and bool(is_leaf(tree)))


def _map(func: Callable, tree: Any, node: NodeDef) -> Any:
    kind = node.type
    if kind is dict:
        return {
            k: func(c) if (inner := node_of_type[type(c)]) is None else _map(func, c, inner) for k, c in tree.items()
        }
    children, context = (tree, None) if kind is tuple or kind is list else node.flatten_fn(tree)
    new = [func(c) if (inner := node_of_type[type(c)]) is None else _map(func, c, inner) for c in children]
    if kind is list:
        return new
    return tuple(new) if kind is tuple else node.unflatten_fn(new, context)


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """func of every leaf, in the same containers. Further trees are as deep as the first one or deeper.

    >>> tree_map(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}])
    [11, {'x': 22}]
    """
    if not rests and is_leaf is None:
        node = node_of_type[type(tree)]
        return func(tree) if node is None else _map(func, tree, node)
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten([func(*values) for values in zip(*columns)])


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Calls func for its effect; gives the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *(spec.flatten_up_to(r) for r in rests)):
        func(*values)
    return tree


def _predicate(wanted: Any) -> Callable[[Any], bool]:
    if isinstance(wanted, type | tuple | types.UnionType):
        return lambda x: isinstance(x, wanted)
    if callable(wanted):
        return wanted
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """Decorator: the function sees only values of these types; others pass as they are."""
    wanted = _predicate(type_or_types_or_pred)

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(x: Any) -> Any:
            return func(x) if wanted(x) else x

        return wrapped

    return decorate


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """func of the leaves of these types (or that satisfy a predicate); the others stay.

    >>> tree_map_only(int, lambda x: -x, [1, "a", (2,)])
    [-1, 'a', (-2,)]
    """
    kinds = type_or_types_or_pred
    if isinstance(kinds, type | tuple | types.UnionType):
        return tree_map(lambda x: func(x) if isinstance(x, kinds) else x, tree, is_leaf=is_leaf)
    wanted = _predicate(kinds)
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _collect_with_paths(path: KeyPath, tree: Any, is_leaf: _IsLeaf, found: list[tuple[KeyPath, Any]]) -> None:
    node = node_of_type[type(tree)]
    if node is None or (is_leaf is not None and is_leaf(tree)):
        found.append((path, tree))
        return
    if node.flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {node.type}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        if is_leaf is None and node_of_type[type(child)] is None:
            found.append(((*path, key), child))
        else:
            _collect_with_paths((*path, key), child, is_leaf, found)


def tree_leaves_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Every leaf with the keys that lead to it.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list[tuple[KeyPath, Any]] = []
    _collect_with_paths((), tree, is_leaf, found)
    return found


def tree_flatten_with_path(tree: PyTree, is_leaf: _IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: _IsLeaf = None) -> PyTree:
    """Like tree_map; func gets the path of the leaf first."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[p for p, _ in found], [x for _, x in found], *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten([func(*values) for values in zip(*columns)])


def keystr(kp: KeyPath) -> str:
    """A path as one would write it after the tree's name."""
    return "".join(str(k) for k in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What stands at a path."""
    for k in kp:
        obj = k.get(obj)
    return obj


def treespec_leaf() -> LeafSpec:
    return LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    children = list(iterable)
    if any(not isinstance(c, TreeSpec) for c in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping: Mapping | Iterable = (), /, **kwargs: TreeSpec) -> TreeSpec:
    children = dict(mapping, **kwargs)
    if any(not isinstance(c, TreeSpec) for c in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children}.")
    return TreeSpec(dict, list(children), list(children.values()))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with a star at each leaf.

    >>> treespec_pprint(tree_structure({"a": (1, 2)}))
    "{'a': (*, *)}"
    """
    return repr(tree_unflatten([_Asterisk()] * treespec.num_leaves, treespec))


def pytree_to_str(treespec: TreeSpec) -> str:
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    return treespec_loads(json)


def _broadcast(spec: TreeSpec, tree: Any, is_leaf: _IsLeaf, out: list[Any]) -> bool:
    if tree_is_leaf(tree, is_leaf):
        out.extend([tree] * spec.num_leaves)
        return True
    if spec.is_leaf():
        return False
    try:
        children = _children_like(spec, tree)
    except ValueError:
        return False
    return all(_broadcast(s, c, is_leaf, out) for s, c in zip(spec.children(), children))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: _IsLeaf = None) -> list[Any] | None:
    """A leaf for each leaf of the spec, where a leaf of the tree may stand for a whole subtree; None if they do not fit.

    >>> _broadcast_to_and_flatten([1, 2], tree_structure([0, (0, 0)]))
    [1, 2, 2]
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    out: list[Any] = []
    return out if _broadcast(treespec, tree, is_leaf, out) else None


def _get_node_type(tree: Any) -> Any:
    return namedtuple if is_namedtuple_class(type(tree)) else type(tree)


def _is_leaf(tree: PyTree, is_leaf: _IsLeaf = None) -> bool:
    return tree_is_leaf(tree, is_leaf)
