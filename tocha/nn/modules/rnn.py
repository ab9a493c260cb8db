"""Recurrent layers and cells. The recurrences are operators; here are weights, states, packed sequences and checks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from tocha import _C
from tocha.nn import init
from tocha.nn.modules.module import Module
from tocha.nn.parameter import Parameter

Tensor = _C.Tensor

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_OPERATORS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


def _uniform_all_(module: Module, hidden_size: int) -> None:
    """Draws every parameter uniform within 1 / sqrt(hidden_size) of 0."""
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


def _check_size(name: str, value: Any) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero")


def _check_dropout(dropout: float, num_layers: int) -> float:
    if isinstance(dropout, bool) or not 0 <= float(dropout) <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    return float(dropout)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: stacked layers in one or two directions, their weights and the checks of inputs.

    >>> rnn = tocha.nn.RNNBase("GRU", 3, 4)
    >>> rnn
    RNNBase(3, 4)
    >>> [name for name, _ in rnn.named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    _tensor_word: ClassVar[str] = ""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = _check_dropout(dropout, num_layers)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        _check_size("input_size", input_size)
        _check_size("hidden_size", hidden_size)
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: self._directions]:
                self._make_layer(layer, suffix, device, dtype)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _make_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        """Registers the parameters of one direction of one layer."""
        rows = _GATES[self.mode] * self.hidden_size
        columns = self.input_size if layer == 0 else self._output_size * self._directions
        sizes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, self._output_size)}
        if self.bias:
            sizes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            sizes["weight_hr"] = (self.proj_size, self.hidden_size)
        names = [f"{kind}_l{layer}{suffix}" for kind in sizes]
        for name, size in zip(names, sizes.values(), strict=True):
            self.register_parameter(name, Parameter(_C.empty(size, device=device, dtype=dtype)))
        self._all_weights.append(names)

    @property
    def _flat_weights(self) -> list[Any]:
        """The weights in the order of the operator; a weight may have been replaced by a plain tensor."""
        own = self._parameters
        return [own.get(name) if name in own else getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each direction of each layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: the operators take weights wherever they lie."""

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        _uniform_all_(self, self.hidden_size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # _flat_weights is computed here; a state that carries the list must not keep old weights alive.
        state = {k: v for k, v in state.items() if k not in ("_flat_weights", "_flat_weight_refs")}
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        return text + "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises unless the input has this layer's dims, width and (where autocast does not choose it) dtype."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype and not _C.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The size that the hidden state must have."""
        return self.num_layers * self._directions, self._batch(input, batch_sizes), self._output_size

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raises unless the state has the size."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input and state fit each other and the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its batch in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        size = self.get_expected_hidden_size(input, batch_sizes)
        return _C.zeros(size, dtype=input.dtype, device=input.device)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        """The state that came with a batched or unbatched input, with a batch."""
        if hx.dim() != (3 if batched else 2):
            raise RuntimeError(_wrong_state_dims(batched, "hx", f"{hx.dim()}-D tensor"))
        return hx if batched else hx.unsqueeze(1)

    def _unbatched_state(self, hidden: Any) -> Any:
        return hidden.squeeze(1)

    def _run(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        """One call of the operator: the output, and the last state as this kind of layer gives it."""
        operator = getattr(_C, _OPERATORS[self.mode])
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            output, *hidden = operator(input, hx, *options, self.batch_first)
        else:
            output, *hidden = operator(input, batch_sizes, hx, *options)
        return output, self._packed_up(hidden)

    def _packed_up(self, hidden: list[Tensor]) -> Any:
        return hidden[0]

    def _forward_packed(self, input: tuple, hx: Any) -> tuple[tuple, Any]:
        """forward of a PackedSequence, which is a tuple of four."""
        data, batch_sizes, sorted_indices, unsorted_indices = input
        hx = self._first_state(data, batch_sizes) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, hx, batch_sizes)
        packed: tuple = type(input)(output, batch_sizes, sorted_indices, unsorted_indices)  # type: ignore[call-arg]
        return packed, self.permute_hidden(hidden, unsorted_indices)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The output of the last layer at every step, and the last state of every layer and direction.

        input is (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size) or a PackedSequence.
        """
        if isinstance(input, tuple):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            kind = type(self).__name__
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}D{self._tensor_word} instead")
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        hx = self._first_state(input, None) if hx is None else self._batched_state(hx, batched)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, hx, None)
        if batched:
            return output, hidden
        return output.squeeze(batch_dim), self._unbatched_state(hidden)


def _wrong_state_dims(batched: bool, names: str, got: str) -> str:
    kind, dims = ("batched", 3) if batched else ("unbatched", 2)
    return f"For {kind} {dims}-D input, {names} should also be {dims}-D but got {got}"


def _refuse_projection(proj_size: int | None) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu, step by step.

    >>> import tocha
    >>> output, hidden = RNN(3, 5, num_layers=2)(tocha.ones(7, 1, 3))
    >>> output.shape, hidden.shape
    (tocha.Size([7, 1, 5]), tocha.Size([2, 1, 5]))
    """

    _tensor_word = " tensor"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """The gated recurrent unit: reset and update gates and a new state, in the order r, z, n of the weights' rows.

    >>> gru = tocha.nn.GRU(3, 4, num_layers=2, batch_first=True)
    >>> output, h = gru(tocha.ones(2, 5, 3))
    >>> output.shape, h.shape
    (tocha.Size([2, 5, 4]), tocha.Size([2, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _refuse_projection(proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype
        )  # fmt: skip


class LSTM(RNNBase):
    """Long short-term memory: input, forget and output gates and a cell, in the order i, f, g, o of the weights' rows.

    proj_size projects the hidden state to fewer numbers. The state is a pair: hidden and cell.

    >>> import tocha
    >>> output, (hidden, cell) = LSTM(3, 5, bidirectional=True)(tocha.ones(7, 1, 3))
    >>> output.shape, hidden.shape, cell.shape
    (tocha.Size([7, 1, 10]), tocha.Size([2, 1, 5]), tocha.Size([2, 1, 5]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )  # fmt: skip

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The size that the cell must have: the projection does not touch it."""
        return self.num_layers * self._directions, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input, hidden state and cell fit each other and the layer."""
        self.check_input(input, batch_sizes)
        sizes = (self.get_expected_hidden_size, self.get_expected_cell_size)
        for i, size in enumerate(sizes):
            self.check_hidden_size(hidden[i], size(input, batch_sizes), f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with its batch in another order."""
        if permutation is None:
            return hx
        return hx[0].index_select(1, permutation), hx[1].index_select(1, permutation)

    def _first_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        cell = self.get_expected_cell_size(input, batch_sizes)
        return super()._first_state(input, batch_sizes), _C.zeros(cell, dtype=input.dtype, device=input.device)

    def _batched_state(self, hx: Any, batched: bool) -> Any:
        dims = hx[0].dim(), hx[1].dim()
        if dims != ((3, 3) if batched else (2, 2)):
            raise RuntimeError(_wrong_state_dims(batched, "hx and cx", f"({dims[0]}-D, {dims[1]}-D) tensors"))
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _unbatched_state(self, hidden: Any) -> Any:
        return hidden[0].squeeze(1), hidden[1].squeeze(1)

    def _packed_up(self, hidden: list[Tensor]) -> Any:
        return tuple(hidden)


class RNNCellBase(Module):
    """What the cells share: the weights of one step.

    >>> isinstance(tocha.nn.GRUCell(3, 4), tocha.nn.RNNCellBase)
    True
    >>> tocha.nn.RNNCellBase(3, 4, bias=True, num_chunks=1)
    RNNCellBase(3, 4)
    """

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(_C.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(_C.empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        _uniform_all_(self, self.hidden_size)

    def _check_cell_dims(self, what: str, tensor: Tensor) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _step(self, operator: str, input: Tensor, hx: Any) -> Any:
        return getattr(_C, operator)(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _step_with_one_state(self, operator: str, input: Tensor, hx: Tensor | None) -> Tensor:
        """One step of a cell whose state is one tensor; an input without a batch gets one for the call."""
        self._check_cell_dims("input", input)
        if hx is not None:
            self._check_cell_dims("hidden", hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            hx = _C.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        hidden = self._step(operator, input, hx)
        return hidden if batched else hidden.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN: tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it.

    >>> cell = tocha.nn.RNNCell(3, 4)
    >>> cell(tocha.ones(2, 3)).shape
    tocha.Size([2, 4])
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step_with_one_state(f"rnn_{self.nonlinearity}_cell", input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> cell = tocha.nn.GRUCell(3, 4)
    >>> cell(tocha.ones(2, 3)).shape
    tocha.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state."""
        return self._step_with_one_state("gru_cell", input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    >>> cell = tocha.nn.LSTMCell(3, 4)
    >>> h, c = cell(tocha.ones(2, 3))
    >>> h.shape, c.shape
    (tocha.Size([2, 4]), tocha.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next hidden state and cell."""
        self._check_cell_dims("input", input)
        for i, state in enumerate(hx or ()):
            self._check_cell_dims(f"hx[{i}]", state)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = _C.zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = self._step("lstm_cell", input, hx)
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The older name of index_select(dim, permutation)."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning,
        stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)
