"""Weights divided by their largest singular value: the older way, by a hook before forward.

See parametrizations.spectral_norm.
"""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn.modules.module import Module
from tocha.nn.parameter import Parameter, is_lazy

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

Tensor = _C.Tensor


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """weight as a matrix whose rows are its slices along dim."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.size(0), -1)


def power_step(matrix: Tensor, u: Tensor, v: Tensor, eps: float, v_first: bool = True) -> None:
    """One step towards the first singular vectors u and v, in place; v from the old u and u from the new v.

    v_first=False does it the other way round.
    """
    for _ in range(2):
        if v_first:
            v.copy_(F.normalize(_C.mv(matrix.t(), u), dim=0, eps=eps))
        else:
            u.copy_(F.normalize(_C.mv(matrix, v), dim=0, eps=eps))
        v_first = not v_first


def default_dim(module: Module) -> int:
    """Which dimension of a module's weight is that of its outputs."""
    from tocha import nn

    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm:
    """The hook that divides the weight before every forward."""

    _version: int = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """weight as a matrix whose rows are its slices along dim."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value, whose vectors are improved first while training."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    power_step(matrix, u, v, self.eps)
                # Backward needs these values, and the next forward changes the buffers.
                u, v = u.clone(), v.clone()
        return weight / _C.dot(u, _C.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Makes the weight an ordinary parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, target_sigma: Tensor) -> Tensor:
        """The v for which u @ matrix @ v is target_sigma: old state_dicts have no v."""
        v = _C._linalg.multi_dot([matrix.t().mm(matrix).pinverse(), matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(target_sigma / _C.dot(u, _C.mv(matrix, v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Moves a parameter of module aside and registers the hooks."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with no_grad():
            rows, columns = as_matrix(weight, dim).size()
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # Not a parameter, so that nobody trains it; not a buffer, so that it is not saved.
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Completes state_dicts of before the singular vectors were both saved."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        if version is None and all(key + s in state_dict for s in ("_orig", "_u", "_v")) and key not in state_dict:
            return  # a new one that lost its metadata
        incomplete = False
        for suffix in ("_orig", "", "_u"):
            if key + suffix not in state_dict:
                incomplete = True
                if strict:
                    missing_keys.append(key + suffix)
        if incomplete:
            return
        with no_grad():
            original = state_dict[key + "_orig"]
            weight = state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Notes the version of what was saved."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divides a parameter by its largest singular value before every forward (Miyato et al., 2018).

    parametrizations.spectral_norm is the newer way.

    >>> _ = tocha.manual_seed(0)
    >>> m = tocha.nn.utils.spectral_norm(tocha.nn.Linear(3, 4), n_power_iterations=50)
    >>> _ = m(tocha.ones(1, 3))
    >>> tocha.linalg.matrix_norm(m.weight.detach(), ord=2)
    tensor(1.)
    """
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Makes a parameter that spectral_norm moved aside an ordinary one again.

    >>> m = tocha.nn.utils.spectral_norm(tocha.nn.Linear(3, 4))
    >>> _ = tocha.nn.utils.remove_spectral_norm(m)
    >>> [name for name, _ in m.named_parameters()]
    ['bias', 'weight']
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for table, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for number, hook in table.items():
            inner = getattr(hook, "hook", hook)
            if isinstance(inner, kind) and inner.fn.name == name:
                del table[number]
                break
    return module
