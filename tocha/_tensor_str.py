"""How a tensor is written as text: Tensor.__repr__ calls tensor_repr, users set the options.

The text is PyTorch's, character for character. Only the elements that are shown are ever read, so that printing a
huge tensor costs no more than printing a small one.
"""

import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Iterator
from itertools import chain, compress, islice
from typing import Any, NamedTuple

from tocha import _C
from tocha.nn.parameter import Parameter

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


@dataclasses.dataclass
class _PrintOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: float = 80
    sci_mode: bool | None = None


_PROFILES: dict[str | None, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

PRINT_OPTS = _PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: float | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed. What is left out keeps its value, except sci_mode, which returns to None.

    Args:
        precision: digits after the decimal point of floating-point numbers (default 4)
        threshold: a tensor of more elements than this is summarised (default 1000)
        edgeitems: items shown at each end of a dimension in a summary (default 3)
        linewidth: characters per line before it is broken (default 80)
        profile: "default", "short" or "full"; the other arguments override it
        sci_mode: scientific notation always (True), never (False), or as the magnitudes ask for (None)

    Example::

        >>> tocha.set_printoptions(precision=2)
        >>> tocha.tensor([1.12345])
        tensor([1.12])
        >>> tocha.set_printoptions(profile="default")
        >>> tocha.tensor([1.12345])
        tensor([1.1235])
    """
    changes: dict[str, Any] = dict(_PROFILES.get(profile, {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes.update((name, value) for name, value in given.items() if value is not None)
    for name, value in changes.items():
        setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for set_printoptions.

    >>> tocha.get_printoptions()["precision"]
    4
    """
    return dataclasses.asdict(PRINT_OPTS)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print with other options for a while; takes what set_printoptions takes.

    Example::

        >>> with printoptions(precision=2):
        ...     print(tocha.tensor([1.12345]))
        tensor([1.12])
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


_LEAST_POWER = 2.0**-127


class _Column(NamedTuple):
    """The texts of a tensor's elements, aligned on the right, and the width of the widest that counts."""

    texts: list[str]
    width: int


def _exact_column(values: list) -> _Column:
    """Integers and booleans, as they are."""
    texts = [str(value) for value in values]
    width = max(map(len, texts))
    return _Column([text.rjust(width) for text in texts], width)


def _which_count(values: list[float], dtype: Any) -> list[bool]:
    """Which values have a say in notation and width: zeros, infinities and nans have none."""
    if dtype == _C.float8_e8m0fnu:  # its least number stands for zero, and PyTorch counts its nan
        return [value != _LEAST_POWER for value in values]
    return [value != 0 and math.isfinite(value) for value in values]


def _needs_scientific(values: list[float], integral: bool) -> bool:
    """Whether fixed-point columns would be too wide, or lose the small values."""
    magnitudes = [abs(value) for value in values]
    if any(math.isnan(value) for value in magnitudes):
        return False
    low, high = min(magnitudes), max(magnitudes)
    return high / low > 1000 or high > 1e8 or (not integral and low < 1e-4)


def _float_spec(counted: list[float]) -> tuple[str, str]:
    """The format specification for all values, and the mark that follows each finite one."""
    integral = all(value.is_integer() for value in counted)
    scientific = PRINT_OPTS.sci_mode
    if not counted:
        scientific = False
    elif scientific is None:
        scientific = _needs_scientific(counted, integral)
    if scientific:
        return f".{PRINT_OPTS.precision}e", ""
    return (".0f", ".") if integral else (f".{PRINT_OPTS.precision}f", "")


def _float_column(values: list[float], dtype: Any) -> _Column:
    counts = _which_count(values, dtype)
    spec, point = _float_spec(list(compress(values, counts)))
    texts = [format(value, spec) + (point if math.isfinite(value) else "") for value in values]
    width = max(map(len, compress(texts, counts)), default=1)
    return _Column([text.rjust(width) for text in texts], width)


def _complex_column(values: list[complex], dtype: Any) -> _Column:
    """Each part has its own notation; only the real part is aligned, the imaginary part follows its sign."""
    real = _float_column([value.real for value in values], dtype)
    imag = _float_column([value.imag for value in values], dtype)
    signed = [text if text.startswith("-") else "+" + text for text in map(str.lstrip, imag.texts)]
    return _Column([f"{a}{b}j" for a, b in zip(real.texts, signed, strict=True)], real.width + imag.width + 1)


def _column(values: list, dtype: Any) -> _Column:
    if dtype.is_complex:
        return _complex_column(values, dtype)
    if dtype.is_floating_point:
        return _float_column(values, dtype)
    return _exact_column(values)


def _join_along(head: list, tail: list, dim: int) -> list:
    """Concatenate two nested lists along a dimension."""
    if dim == 0:
        return head + tail
    return [_join_along(a, b, dim - 1) for a, b in zip(head, tail, strict=True)]


def _edge_values(tensor: Any, cut: list[bool], dim: int = 0) -> list:
    """The nested list of a tensor's elements with the middle of each cut dimension left out.

    The corners are sliced out as views before any element is read.
    """
    while dim < len(cut) and not cut[dim]:
        dim += 1
    if dim == len(cut):
        return tensor.tolist()
    before = (slice(None),) * dim
    head = tensor[(*before, slice(None, PRINT_OPTS.edgeitems))]
    tail = tensor[(*before, slice(-PRINT_OPTS.edgeitems, None))]
    return _join_along(_edge_values(head, cut, dim + 1), _edge_values(tail, cut, dim + 1), dim)


def _write_row(texts: list[str], indent: int, width: int) -> str:
    room = (PRINT_OPTS.linewidth - indent) / (width + 2)
    per_line = max(1, int(min(room, len(texts))))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _write_nested(texts: Iterator[str], cut: list[bool], shown: list[int], indent: int, width: int) -> str:
    """Take from `texts` what a block of these sizes holds and put it in brackets."""
    if not shown:
        return next(texts)
    if len(shown) == 1:
        row = list(islice(texts, shown[0]))
        if cut[0]:
            row.insert(PRINT_OPTS.edgeitems, " ...")
        return _write_row(row, indent, width)
    blocks = [_write_nested(texts, cut[1:], shown[1:], indent + 1, width) for _ in range(shown[0])]
    if cut[0]:
        blocks.insert(PRINT_OPTS.edgeitems, "...")
    return "[" + ("," + "\n" * (len(shown) - 1) + " " * (indent + 1)).join(blocks) + "]"


def _write_elements(tensor: Any, indent: int) -> str:
    """The bracketed elements of a strided tensor whose opening bracket stands in column `indent`."""
    if tensor.device.type == "meta":
        return "..."
    if tensor.numel() == 0:
        return "[]"
    summarised = tensor.numel() > PRINT_OPTS.threshold
    if summarised and PRINT_OPTS.edgeitems == 0 and tensor.dim() > 0:
        return "[...]"
    cut = [summarised and size > 2 * PRINT_OPTS.edgeitems for size in tensor.shape]
    shown = [2 * PRINT_OPTS.edgeitems if is_cut else size for is_cut, size in zip(cut, tensor.shape, strict=True)]
    values = _edge_values(tensor, cut) if shown else [tensor.item()]
    for _ in shown[1:]:
        values = list(chain.from_iterable(values))
    column = _column(values, tensor.dtype)
    return _write_nested(iter(column.texts), cut, shown, indent, column.width)


def _write_size(tensor: Any) -> str:
    return f"size={tuple(tensor.shape)}"


def _write_member(name: str, member: Any, indent: int) -> str:
    """One of the tensors that a sparse tensor is made of."""
    opening = f"{name}=tensor("
    size = f", {_write_size(member)}" if member.device.type == "meta" or member.numel() == 0 else ""
    return opening + _write_elements(member, indent + len(opening)) + size + ")"


def _sparse_members(tensor: Any) -> dict[str, Any]:
    layout = tensor.layout
    if layout == _C.sparse_coo:
        return {"indices": tensor._indices(), "values": tensor._values()}
    if layout in (_C.sparse_csr, _C.sparse_bsr):
        indices = {"crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices()}
    elif layout in (_C.sparse_csc, _C.sparse_bsc):
        indices = {"ccol_indices": tensor.ccol_indices(), "row_indices": tensor.row_indices()}
    else:
        raise NotImplementedError(f"[repr] no text form for a tensor of layout {layout}")
    return {**indices, "values": tensor.values()}


def _write_contents(tensor: Any, indent: int) -> str:
    if tensor.layout == _C.strided:
        return _write_elements(tensor, indent)
    members = [_write_member(name, member, indent) for name, member in _sparse_members(tensor).items()]
    return (",\n" + " " * indent).join(members)


def _dtype_goes_without_saying(tensor: Any, has_elements: bool) -> bool:
    """Whether building a tensor from the printed elements would give this dtype anyway."""
    default = _C.get_default_dtype()
    if not has_elements:
        return tensor.dtype == default
    default_complex = _C.complex128 if default == _C.float64 else _C.complex64
    return tensor.dtype in (default, default_complex, _C.int64, _C.bool)


def _write_gradient(tensor: Any) -> list[str]:
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # The history of a view taken without gradients ends when its base is then changed with them.
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name().rpartition('::')[2]}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _suffixes(tensor: Any) -> list[str]:
    """What is said about a tensor after its elements."""
    meta = tensor.device.type == "meta"
    sparse = tensor.layout != _C.strided
    empty = tensor.numel() == 0 and not sparse
    texts = []
    if tensor.device.type != "cpu":
        texts.append(f"device='{tensor.device}'")
    if meta or sparse or (tensor.dim() != 1 if empty else PRINT_OPTS.edgeitems == 0):
        texts.append(_write_size(tensor))
    if sparse and not meta:
        texts.append(f"nnz={tensor._nnz()}")
    if not _dtype_goes_without_saying(tensor, has_elements=not (meta or empty)):
        texts.append(f"dtype={tensor.dtype}")
    if sparse:
        texts.append(f"layout={tensor.layout}")
    return texts + _write_gradient(tensor)


def _append_suffixes(text: str, suffixes: list[str], indent: int, on_new_line: bool) -> str:
    """Add each suffix to the last line, or begin a new line where it does not fit."""
    # The line that ends the elements keeps two columns free; a line of suffixes may be full before its last mark.
    column = len(text) - (text.rfind("\n") + 1) + 2
    for suffix in suffixes:
        if on_new_line or column + len(", ") + len(suffix) > PRINT_OPTS.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(", ") + len(suffix)
        on_new_line = False
    return text + ")"


def _write_tensor(tensor: Any, opening: str, contents: str | None) -> str:
    indent = len(opening)
    text = opening + (_write_contents(tensor, indent) if contents is None else contents)
    return _append_suffixes(text, _suffixes(tensor), indent, on_new_line=tensor.layout == _C.sparse_coo)


def _write_level(at: int, value: Any, dim: int) -> str:
    """A tensor inside a transform: which of the open ones, counted from outside, and its value there."""
    number = next((i + 1 for i, row in enumerate(_C._levels()) if row[0] == at), 0)
    kind = f"GradTrackingTensor(lvl={number}" if dim < 0 else f"BatchedTensor(lvl={number}, bdim={dim}"
    return f"{kind}, value=\n{textwrap.indent(tensor_repr(value), '    ')}\n)"


def tensor_repr(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; `tensor_contents`, where given, stands in for its elements.

    A subclass is named in the text. A Parameter is not: its own __repr__ puts "Parameter containing:" above.
    """
    kind = type(self)
    if kind is _C.Tensor:
        level = _C._level_of(self)
        if level is not None:
            return _write_level(*level)
        return _write_tensor(self, "tensor(", tensor_contents)
    # A subclass must not see the slices that printing takes.
    with _C.DisableTorchFunctionSubclass():
        if kind is Parameter or self.layout != _C.strided:
            return _write_tensor(self, "tensor(", tensor_contents)
        text = _write_tensor(self, f"{kind.__name__}(", tensor_contents)
        return f"Parameter({text})" if isinstance(self, Parameter) else text


# Names by which packages know these.
_tensor_str, _add_suffixes, _str_intern = _write_contents, _append_suffixes, tensor_repr
