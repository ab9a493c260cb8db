"""Modules that hold others: in a row, in a list, by name; and the same for parameters."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import Any, Self

from tocha import _C
from tocha.nn.modules.module import Module, _addindent
from tocha.nn.parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Tensor = _C.Tensor


def _index(index: Any, size: int) -> int:
    """index as a place in a row of that size; negative ones count from the end."""
    place = operator.index(index)
    if not -size <= place < size:
        raise IndexError(f"index {place} is out of range")
    return place % size


class Container(Module):
    """A module with these parts. Deprecated: any Module can have parts.

    >>> isinstance(tocha.nn.Container(), tocha.nn.Module)
    True
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _ModuleRow(Module):
    """Modules in a row under the names "0", "1", ...: what Sequential and ModuleList share."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _renumber(self, modules: Iterable[Module | None]) -> None:
        self._modules = {str(i): m for i, m in enumerate(modules)}  # type: ignore[misc]

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Takes a module out and returns it."""
        found = self[key]  # type: ignore[index]
        del self[key]  # type: ignore[attr-defined]
        return found


class Sequential(_ModuleRow):
    """Modules one after the other: each gets what the one before it gave.

    >>> import tocha
    >>> net = tocha.nn.Sequential(tocha.nn.Sequential(), tocha.nn.Sequential())
    >>> net
    Sequential(
      (0): Sequential()
      (1): Sequential()
    )
    >>> net(3)
    3
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name) if isinstance(name, int) else name, module)

    def forward(self, input: Any) -> Any:
        """input through all the modules in turn."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, _index(index, len(self)), None))

    def __getitem__(self, idx: slice | int) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: slice | int) -> None:
        for name in list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]:
            delattr(self, name)
        self._renumber(self._modules.values())

    def _check_addend(self, other: object) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def __add__(self, other: Any) -> Sequential:
        self._check_addend(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._check_addend(other)
        return self.extend(list(other))

    def _check_factor(self, other: object) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*list(self) * other)

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module) -> Self:
        """Puts a module before the one at index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        place = index + len(self) if index < 0 else index
        later = [self._modules[str(i)] for i in range(place, len(self))]
        for i, moved in enumerate([module, *later], place):
            self._modules[str(i)] = moved
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_ModuleRow):
    """Modules in a list, registered as children; it has no forward of its own.

    >>> import tocha
    >>> tocha.nn.ModuleList([tocha.nn.Sequential(), tocha.nn.Sequential()])
    ModuleList(
      (0-1): 2 x Sequential()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[str(_index(idx, len(self)))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(_index(idx, len(self))), module)

    def __delitem__(self, idx: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[idx if isinstance(idx, slice) else _index(idx, len(self))]
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before the one at index."""
        modules = list(self._modules.values())
        modules.insert(index, module)  # type: ignore[arg-type]
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        lines = []
        first = 0
        for last, text in enumerate(texts):
            if last + 1 < len(texts) and texts[last + 1] == text:
                continue
            places = f"({last}): " if last == first else f"({first}-{last}): {last - first + 1} x "
            lines.append(_addindent(places + text, 2))
            first = last + 1
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


def _pairs(owner: str, caller: str, given: Any) -> Iterator[tuple[Any, Any]]:
    """The key/value pairs that an update was given, checked."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{caller}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{owner} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        values = tuple(pair)
        if len(values) != 2:
            raise ValueError(f"{owner} update sequence element #{i} has length {len(values)}; 2 is required")
        yield values


class ModuleDict(Module):
    """Modules by name, registered as children.

    >>> import tocha
    >>> parts = tocha.nn.ModuleDict({"body": tocha.nn.Sequential()})
    >>> parts["body"]
    Sequential()
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Takes a module out and returns it."""
        found = self[key]
        del self[key]
        return found

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from pairs, over those of the same name."""
        named = isinstance(modules, Mapping | ModuleDict)
        for key, module in modules.items() if named else _pairs("ModuleDict", "ModuleDict", modules):
            self[key] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(name: str, value: Any, kind: str) -> str:
    """One line of the text of a parameter container."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    size = "x".join(str(n) for n in value.size())
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {what} containing: [{kind} of size {size}{where}]"


class ParameterList(Module):
    """Parameters in a list; tensors become parameters, other values are kept as they are.

    >>> import tocha
    >>> tocha.nn.ParameterList([tocha.ones(2), tocha.ones(3, 4)])
    ParameterList(
        (0): Parameter containing: [tocha.float32 of size 2]
        (1): Parameter containing: [tocha.float32 of size 3x4]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, str(_index(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_index(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """A line per value."""
        return "\n".join(
            _describe(str(i), v, str(v.dtype) if isinstance(v, Tensor) else "") for i, v in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name; tensors become parameters, other values are kept as they are.

    >>> import tocha
    >>> tocha.nn.ParameterDict({"left": tocha.ones(2), "right": tocha.ones(3)})
    ParameterDict(
        (left): Parameter containing: [tocha.FloatTensor of size 2]
        (right): Parameter containing: [tocha.FloatTensor of size 3]
    )
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        attribute = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, attribute, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another ParameterDict with the same values."""
        return ParameterDict(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of key, which becomes default if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Takes all values out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes a value out and returns it."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Takes the last pair out and returns it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of key, or default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict of these keys, all with the same value."""
        return ParameterDict((k, default) for k in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or from pairs, over those of the same name."""
        for key, value in self._ordered_pairs(parameters):
            self[key] = value

    def _ordered_pairs(self, given: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(given, OrderedDict | ParameterDict):
            return list(given.items())
        if isinstance(given, Mapping):  # PyTorch's order: it came before dictionaries kept theirs
            return sorted(given.items())
        return _pairs("ParameterDict", "ParametersDict", given)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """A line per value."""
        return "\n".join(_describe(k, v, v.type() if isinstance(v, Tensor) else "") for k, v in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
