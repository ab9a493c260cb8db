"""Specs of pytrees as JSON text: treespec_dumps and treespec_loads of tocha.utils._pytree."""

from __future__ import annotations

import enum
import importlib
from collections import defaultdict, namedtuple
from typing import Any

from tocha._core.on_demand import Later
from tocha.utils._pytree_nodes import (
    LEAF,
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
    TreeSpec,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _private_register_pytree_node,
)

json = Later("json")
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
_PROTOCOLS = [DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL]


def _encoded(obj: object) -> Any:
    if isinstance(obj, enum.Enum):
        cls = type(obj)
        return {"__enum__": True, "fqn": f"{cls.__module__}:{cls.__qualname__}", "name": obj.name}
    raise TypeError(f"Object of type {type(obj).__name__} is not JSON serializable")


def _named_object(module: str, qualname: str) -> Any:
    found = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _enum_from_json(obj: dict) -> Any:
    if "__enum__" not in obj:
        return obj
    module, _, qualname = obj["fqn"].partition(":")
    return _named_object(module, qualname)[obj["name"]]


def _defaultdict_dump(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_load(dumped: Any) -> list[Any]:
    factory = _named_object(dumped["default_factory_module"], dumped["default_factory_name"])
    return [factory, dumped["dict_context"]]


def _namedtuple_dump(context: type) -> str:
    if context not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    name = SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name
    if name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we couldn't find a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return name


def _namedtuple_load(dumped: str) -> type:
    if dumped not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumped} because we couldn't find a serializated name."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumped]


_private_register_pytree_node(
    namedtuple,  # type: ignore[arg-type]
    _namedtuple_flatten,
    _namedtuple_unflatten,
    serialized_type_name="collections.namedtuple",
    to_dumpable_context=_namedtuple_dump,
    from_dumpable_context=_namedtuple_load,
    flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)
_private_register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    _defaultdict_unflatten,
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=_defaultdict_dump,
    from_dumpable_context=_defaultdict_load,
    flatten_with_keys_fn=_defaultdict_flatten_with_keys,
)


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. "
            "Please update your _register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, default=_encoded)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                "using _register_pytree_node."
            ) from error
    return {
        "type": known.serialized_type_name,
        "context": context,
        "children_spec": [_to_json(c) for c in spec.children()],
    }


def _from_json(data: dict[str, Any]) -> TreeSpec:
    if data["type"] is None and data["context"] is None and not data["children_spec"]:
        return LEAF
    if data["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {data['type']} in pytree is not registered.")
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE[data["type"]]
    load = SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    context = load(data["context"]) if load else json.loads(data["context"], object_hook=_enum_from_json)
    return TreeSpec(cls, context, [_from_json(c) for c in data["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The spec as JSON text that treespec_loads reads."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if protocol not in _PROTOCOLS:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {_PROTOCOLS}")
    return json.dumps((protocol, _to_json(treespec)))


def treespec_loads(serialized: str) -> TreeSpec:
    protocol, data = json.loads(serialized)
    if protocol not in _PROTOCOLS:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {_PROTOCOLS}")
    return _from_json(data)
