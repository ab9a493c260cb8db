"""Batch normalization layers, and the base that instance normalization shares."""

from __future__ import annotations

from typing import Any, ClassVar

from tocha import _C
from tocha.autograd.grad_mode import no_grad
from tocha.nn import functional as F
from tocha.nn import init
from tocha.nn.modules.lazy import LazyModuleMixin
from tocha.nn.modules.module import Module
from tocha.nn.modules.utils import _check_dims
from tocha.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

Tensor = _C.Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "SyncBatchNorm",
]  # fmt: skip

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class _NormBase(Module):
    """Weight, bias and running statistics of normalizations over channels."""

    _version = 2
    _dims: ClassVar[tuple[int, ...]] = ()
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(_C.empty(num_features, device=device, dtype=dtype)) if wanted else None
            )
        tracked = track_running_stats
        self.register_buffer("running_mean", _C.zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", _C.ones(num_features, device=device, dtype=dtype) if tracked else None)
        count = _C.tensor(0, dtype=_C.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Forgets the statistics and makes the affine part the identity."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if not self._dims:
            raise NotImplementedError
        _check_dims(input, *self._dims)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool, missing_keys: list, unexpected_keys: list, error_msgs: list
    ) -> None:  # fmt: skip
        # The first version did not count batches: its state keeps the count this module has.
        version = local_metadata.get("version")
        if self.track_running_stats and (version is None or version < 2):
            count = self.num_batches_tracked
            if count is None or count.device.type == "meta":
                count = _C.tensor(0, dtype=_C.int64)
            state_dict.setdefault(prefix + "num_batches_tracked", count)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Normalization of each channel over the batch and what follows the channels."""

    def _update_weight(self) -> float:
        """Counts a training batch; the weight it has in the running statistics (momentum None: their plain mean)."""
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum

    def forward(self, input: Tensor) -> Tensor:
        """The normalized input; training uses the batch's statistics and updates the running ones."""
        self._check_input_dim(input)
        weight_of_batch = self._update_weight()
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if keep else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, weight_of_batch, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Leaves num_features open until the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.int64, device=device)

    def reset_parameters(self) -> None:
        """Forgets the statistics and makes the affine part the identity, once the sizes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Gives parameters and statistics the size that fits the input, and their first values."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        open_tensors = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            open_tensors += [self.running_mean, self.running_var]
        with no_grad():
            for tensor in open_tensors:
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L).

    >>> BatchNorm1d(4, affine=False)
    BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=True)
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W).

    >>> norm = tocha.nn.BatchNorm2d(3)
    >>> norm(tocha.randn(4, 3, 8, 8)).shape
    tocha.Size([4, 3, 8, 8])
    >>> norm.num_batches_tracked
    tensor(1)
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W).

    >>> tocha.nn.BatchNorm3d(3)(tocha.randn(4, 3, 2, 8, 8)).shape
    tocha.Size([4, 3, 2, 8, 8])
    """

    _dims = (5,)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyBatchNorm1d()
    >>> norm(tocha.randn(4, 3)).shape
    tocha.Size([4, 3])
    >>> norm.num_features
    3
    """

    cls_to_become = BatchNorm1d  # type: ignore[assignment]
    _dims = BatchNorm1d._dims


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyBatchNorm2d()
    >>> norm(tocha.randn(4, 3, 5, 5)).shape
    tocha.Size([4, 3, 5, 5])
    >>> norm.num_features
    3
    """

    cls_to_become = BatchNorm2d  # type: ignore[assignment]
    _dims = BatchNorm2d._dims


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that takes num_features from its first input.

    >>> norm = tocha.nn.LazyBatchNorm3d()
    >>> norm(tocha.randn(4, 3, 2, 2, 2)).shape
    tocha.Size([4, 3, 2, 2, 2])
    >>> norm.num_features
    3
    """

    cls_to_become = BatchNorm3d  # type: ignore[assignment]
    _dims = BatchNorm3d._dims


class SyncBatchNorm(_BatchNorm):
    """Batch normalization whose statistics are those of all processes of a group; alone, those of its own batch.

    >>> model = tocha.nn.Sequential(tocha.nn.Conv2d(3, 4, 3), tocha.nn.BatchNorm2d(4))
    >>> tocha.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    Sequential(
      (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    )
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Tensor) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        """The normalized input."""
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalization in it replaced by one of this class, with the same tensors."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group,
                bias=module.bias is not None,
            )  # fmt: skip
            if module.affine:
                converted.weight = module.weight
                converted.bias = module.bias
            for name in _STATISTICS:
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
