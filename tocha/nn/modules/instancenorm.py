"""Instance normalization layers: each channel of each sample on its own."""

from __future__ import annotations

import warnings
from typing import Any

from tocha import _C
from tocha.nn import functional as F
from tocha.nn.modules.batchnorm import _LazyNormBase, _NormBase

Tensor = _C.Tensor

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """What instance normalizations of any number of dims share."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        if not self._dims:
            raise NotImplementedError
        return self._dims[0]

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        momentum = 0.0 if self.momentum is None else self.momentum
        use_input = self.training or not self.track_running_stats
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, use_input, momentum, self.eps
        )

    def forward(self, input: Tensor) -> Tensor:
        """The normalized input, with or without a batch."""
        self._check_input_dim(input)
        channels = input.dim() - self._get_no_batch_dim()
        self._check_channels(input, channels)
        if channels == 0:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _check_channels(self, input: Tensor, dim: int) -> None:
        size = input.size(dim)
        if size == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {size}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False",
            stacklevel=4,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool, missing_keys: list, unexpected_keys: list, error_msgs: list
    ) -> None:  # fmt: skip
        # States without a version come from a time when statistics were tracked by default: say what to do.
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                names, kind = " and ".join(f'"{prefix}{n}"' for n in found), type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If state_dict is a "
                    f"checkpoint saved before 0.4.0, this may be expected because {kind} does not track running stats by "
                    "default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, "
                    f"instead set track_running_stats=True in {kind} to enable them. See the documentation of {kind} for details."
                )
                for name in found:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L).

    >>> tocha.nn.InstanceNorm1d(2)(tocha.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (N, C, H, W) or (C, H, W).

    >>> tocha.nn.InstanceNorm2d(3, affine=True)(tocha.randn(2, 3, 4, 4)).shape
    tocha.Size([2, 3, 4, 4])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W).

    >>> tocha.nn.InstanceNorm3d(3)(tocha.randn(2, 3, 4, 4, 4)).shape
    tocha.Size([2, 3, 4, 4, 4])
    """

    _dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyInstanceNorm1d(affine=True)
    >>> norm(tocha.randn(4, 3, 5)).shape
    tocha.Size([4, 3, 5])
    >>> norm.num_features
    3
    """

    cls_to_become = InstanceNorm1d  # type: ignore[assignment]
    _dims = InstanceNorm1d._dims


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyInstanceNorm2d(affine=True)
    >>> norm(tocha.randn(4, 3, 5, 5)).shape
    tocha.Size([4, 3, 5, 5])
    >>> norm.num_features
    3
    """

    cls_to_become = InstanceNorm2d  # type: ignore[assignment]
    _dims = InstanceNorm2d._dims


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyInstanceNorm3d(affine=True)
    >>> norm(tocha.randn(4, 3, 2, 2, 2)).shape
    tocha.Size([4, 3, 2, 2, 2])
    >>> norm.num_features
    3
    """

    cls_to_become = InstanceNorm3d  # type: ignore[assignment]
    _dims = InstanceNorm3d._dims
