"""Pruning: some values of a parameter are kept at 0 by a mask.

The parameter `weight` becomes `weight_orig`, its mask the buffer `weight_mask`, and `weight` is their product, made
anew before every forward.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from tocha import _C
from tocha.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Tensor = _C.Tensor


def _hooks_on(module: Module, name: str) -> list[tuple[int, BasePruningMethod]]:
    """The pruning methods on a parameter, with their numbers among the hooks."""
    return [
        (number, hook)
        for number, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


class BasePruningMethod(ABC):
    """A way to choose what is pruned; subclasses define compute_mask and PRUNING_TYPE.

    PRUNING_TYPE is "unstructured" (single values), "structured" (slices along a dimension) or "global".

    >>> from tocha.nn.utils import prune
    >>> class Positive(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t > 0)
    >>> m = tocha.nn.Linear(2, 1)
    >>> _ = tocha.nn.init.eye_(m.weight)
    >>> _ = Positive.apply(m, "weight")
    >>> m.weight_mask
    tensor([[1., 0.]])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask: what of default_mask is kept for a tensor whose importance is t."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor of a module: its original times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prunes a parameter of module with a method made of the arguments; after another, on what that left."""
        before = _hooks_on(module, name)
        if len(before) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if before:
            number, old = before[0]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
            del module._forward_pre_hooks[number]
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        if not before:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
            default_mask = _C.ones_like(original)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone(memory_format=_C.contiguous_format)
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)  # type: ignore[arg-type]
        except Exception:
            if not before:
                del module._parameters[name + "_orig"]
                module.register_parameter(name, original)
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with what this method chooses set to 0."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}"
            )
        if default_mask is None:
            default_mask = _C.ones_like(t)
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Makes the pruned tensor an ordinary parameter; its zeros stay."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(name + "_orig")
        original.data = weight.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several pruning methods on one parameter, one after the other.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 2)
    >>> m.weight.data = tocha.tensor([[1.0, -4.0], [3.0, 2.0]])
    >>> _ = prune.l1_unstructured(m, "weight", amount=1)
    >>> _ = prune.l1_unstructured(m, "weight", amount=1)
    >>> hook = next(iter(m._forward_pre_hooks.values()))
    >>> isinstance(hook, prune.PruningContainer), len(hook)
    (True, 2)
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """One more method, for the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, applied to what the others left."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "unstructured":
            place: Any = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            place = self._slices_left(method, t, default_mask)
        elif method.PRUNING_TYPE == "global":
            place = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        partial = method.compute_mask(t[place], default_mask=default_mask[place])
        mask = default_mask.clone()
        mask[place] = partial.to(mask.dtype)
        return mask

    def _slices_left(self, method: Any, t: Tensor, default_mask: Tensor) -> tuple:
        if not hasattr(method, "dim"):
            raise AttributeError(
                "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim` defined."
            )
        dim = method.dim % t.dim()
        left = default_mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
        place: list[Any] = [slice(None)] * t.dim()
        place[dim] = left
        return tuple(place)


class Identity(BasePruningMethod):
    """Prunes nothing, but gives the parameter its mask.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 1)
    >>> _ = prune.Identity.apply(m, "weight")
    >>> m.weight_mask
    tensor([[1., 1.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        """Gives a parameter of module a mask."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """Methods that prune an amount: a fraction, or a number of values (or slices)."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class RandomUnstructured(_ByAmount):
    """Prunes single values by chance.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 4)
    >>> _ = prune.RandomUnstructured.apply(m, "weight", amount=3)
    >>> m.weight_mask.sum()
    tensor(5.)
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask without values chosen by chance."""
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            mask.view(-1)[_C.topk(_C.rand_like(t).view(-1), k=count).indices] = 0
        return mask

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any) -> Any:  # type: ignore[override]
        """Prunes values of a parameter of module by chance."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """Prunes the values nearest to 0.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 2)
    >>> m.weight.data = tocha.tensor([[1.0, -4.0], [3.0, 2.0]])
    >>> _ = prune.L1Unstructured.apply(m, "weight", amount=2)
    >>> m.weight_mask
    tensor([[0., 1.],
            [1., 0.]])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask without the smallest values."""
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            mask.view(-1)[_C.topk(t.abs().view(-1), k=count, largest=False).indices] = 0
        return mask

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:  # type: ignore[override]
        """Prunes the smallest values of a parameter of module."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_ByAmount):
    """Methods that prune slices along a dimension."""

    PRUNING_TYPE = "structured"
    dim: int

    def _slice_count(self, t: Tensor) -> int:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        return self._count(t.shape[self.dim])

    def _keeping(self, t: Tensor, kept: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask with only the kept slices."""
        mask = _C.zeros_like(t)
        place: list[Any] = [slice(None)] * t.dim()
        place[self.dim] = kept
        mask[tuple(place)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices along a dimension by chance.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 4)
    >>> _ = prune.RandomStructured.apply(m, "weight", amount=1, dim=0)
    >>> m.weight_mask.sum()
    tensor(6.)
    """

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask without slices chosen by chance."""
        count = self._slice_count(t)
        if count == 0:
            return default_mask
        chance = _C.rand(t.shape[self.dim])
        return self._keeping(t, chance > _C.kthvalue(chance, k=count).values, default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        """Prunes slices of a parameter of module by chance."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the slices along a dimension with the smallest norm of order n.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 2)
    >>> m.weight.data = tocha.tensor([[1.0, -4.0], [3.0, 2.0]])
    >>> _ = prune.LnStructured.apply(m, "weight", 1, 2, 0)
    >>> m.weight_mask
    tensor([[1., 1.],
            [0., 0.]])
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask without the slices of smallest norm."""
        count = self._slice_count(t)
        norm = _compute_norm(t, self.n, self.dim)
        if count == 0:
            return default_mask
        kept = _C.topk(norm, k=t.shape[self.dim] - count, largest=True).indices
        return self._keeping(t, kept, default_mask)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> Any:
        """Prunes the slices of smallest norm of a parameter of module."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 1)
    >>> _ = prune.CustomFromMask.apply(m, "weight", tocha.tensor([[1, 0]]))
    >>> m.weight_mask
    tensor([[1., 0.]])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """default_mask where the given one has it too."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """Prunes a parameter of module by a mask."""
        return super().apply(module, name, mask=mask)


def identity(module: Any, name: str) -> Any:
    """Gives a parameter of module a mask without pruning it; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = prune.identity(tocha.nn.Linear(2, 1), "weight")
    >>> m.weight_mask
    tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prunes values of a parameter by chance: a fraction of them, or a number; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = prune.random_unstructured(tocha.nn.Linear(2, 4), "weight", amount=3)
    >>> m.weight_mask.sum()
    tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Tensor | None = None) -> Any:
    """Prunes the values nearest to 0 (or least in importance_scores): a fraction, or a number; returns module.

    >>> import tocha
    >>> m = tocha.nn.ParameterDict({"w": tocha.tensor([3.0, -1.0, 2.0, 0.5])})
    >>> l1_unstructured(m, "w", amount=0.5).w.tolist()
    [3.0, -0.0, 2.0, 0.0]
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prunes slices along dim by chance: a fraction of them, or a number; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = prune.random_structured(tocha.nn.Linear(2, 4), "weight", amount=1, dim=0)
    >>> m.weight_mask.sum()
    tensor(6.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prunes the slices along dim with the smallest norm of order n; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 2)
    >>> m.weight.data = tocha.tensor([[1.0, -4.0], [3.0, 2.0]])
    >>> _ = prune.ln_structured(m, "weight", amount=1, n=2, dim=0)
    >>> m.weight_mask
    tensor([[1., 1.],
            [0., 0.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict | None = None, **kwargs: Any
) -> None:
    """Prunes several parameters, given as (module, name), as if they were one tensor.

    >>> from tocha.nn.utils import prune
    >>> a, b = tocha.nn.Linear(2, 2), tocha.nn.Linear(2, 2)
    >>> a.weight.data, b.weight.data = tocha.full((2, 2), 0.1), tocha.ones(2, 2)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=4)
    >>> a.weight_mask.sum(), b.weight_mask.sum()
    (tensor(0.), tensor(4.))
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = importance_scores if importance_scores is not None else {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    importance = _flat([scores.get((m, n), getattr(m, n)) for m, n in pairs])
    masks = _flat([getattr(m, n + "_mask", _C.ones_like(getattr(m, n))) for m, n in pairs])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for '
            f"the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = container.compute_mask(importance, masks)
    start = 0
    for module, name in pairs:
        param = getattr(module, name)
        end = start + param.numel()
        custom_from_mask(module, name, mask=final[start:end].view_as(param))
        start = end


def _flat(tensors: list[Tensor]) -> Tensor:
    return _C.cat([t.detach().reshape(-1) for t in tensors])


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prunes a parameter by a mask of its shape; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 1)
    >>> _ = prune.custom_from_mask(m, "weight", tocha.tensor([[1, 0]]))
    >>> m.weight_mask
    tensor([[1., 0.]])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Makes a pruned parameter an ordinary one again, with its zeros; returns module.

    >>> from tocha.nn.utils import prune
    >>> m = prune.identity(tocha.nn.Linear(2, 1), "weight")
    >>> [name for name, _ in m.named_parameters()]
    ['bias', 'weight_orig']
    >>> _ = prune.remove(m, "weight")
    >>> [name for name, _ in m.named_parameters()]
    ['bias', 'weight']
    """
    for number, hook in _hooks_on(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[number]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a module, or one below it, has a pruned parameter.

    >>> from tocha.nn.utils import prune
    >>> m = tocha.nn.Linear(2, 1)
    >>> prune.is_pruned(m)
    False
    >>> prune.is_pruned(prune.identity(m, "weight"))
    True
    """
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, numbers.Integral) and amount < 0) or (
        not isinstance(amount, numbers.Integral) and not 0.0 <= float(amount) <= 1.0
    ):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: int, tensor_size: int) -> None:
    if amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t: Tensor) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim() or dim < -t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norms of the slices along dim."""
    return _C.norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim % t.dim()])
