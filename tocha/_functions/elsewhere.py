"""Names that PyTorch has and that refuse here: functions it removed, and kernels of devices, libraries and quantized
tensors that this build does not have. `tocha.NAME` makes them when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable

from tocha._core.errors import refusing
from tocha._core.library_name import spoken

_REMOVED = {
    "eig": "`{0}.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking complex tensors. Use `{0}.linalg.eig` or `{0}.linalg.eigvals`.",
    "lstsq": "`{0}.lstsq` is deprecated in favor of `{0}.linalg.lstsq`, which has reversed arguments.",
    "matrix_rank": "Please use the `{0}.linalg.matrix_rank` function instead. The parameter 'symmetric' was renamed in `{0}.linalg.matrix_rank()` to 'hermitian'.",
    "solve": "`{0}.solve` is deprecated in favor of `{0}.linalg.solve`. `{0}.linalg.solve` has its arguments reversed and does not return the LU factorization.",
    "symeig": "The default behavior has changed from using the upper triangular portion of the matrix by default to using the lower triangular portion. Use `{0}.linalg.eigh` or `{0}.linalg.eigvalsh`.",
}
REMOVED_METHODS = ("eig", "lstsq", "solve", "symeig")

_KERNELS = """
batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats cudnn_affine_grid_generator cudnn_batch_norm
cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
empty_quantized fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
fbgemm_pack_quantized_matrix int_repr miopen_batch_norm miopen_convolution miopen_convolution_add_relu
miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn
mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d
mkldnn_rnn_layer q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point quantize_per_channel
quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm
quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell
quantized_rnn_tanh_cell
""".split()  # noqa: SIM905
QUANTIZED_METHODS = (
    "int_repr", "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
    "to_mkldnn",
)  # fmt: skip
NAMES = frozenset((*_REMOVED, *_KERNELS))


def refused(name: str) -> Callable:
    """The function of this name: calling it raises."""
    if name in _REMOVED:

        def error() -> Exception:
            text = _REMOVED[name].format(spoken())
            return RuntimeError(f"This function was deprecated since version 1.9 and is now removed. {text}")

        return refusing(name, "Removed from PyTorch.", error)
    return without_kernel(name)


def without_kernel(name: str) -> Callable:
    text = f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: {name} belongs to a device, a library or a kind of tensor that this build does not have"
    return refusing(name, "Not for CPU tensors.", lambda: NotImplementedError(text))
