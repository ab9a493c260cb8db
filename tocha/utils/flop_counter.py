"""How many floating-point operations a program takes: those of matrix products, convolutions and attention, by module.

>>> import tocha
>>> with FlopCounterMode(display=False) as counted:
...     _ = tocha.ones(3, 4) @ tocha.ones(4, 5)
>>> counted.get_total_flops()
120
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C
from tocha._ops import ops
from tocha.utils import _pytree as pytree
from tocha.utils._python_dispatch import TorchDispatchMode
from tocha.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

aten = ops.aten
Tensor = _C.Tensor
Shape = Sequence[int]
flop_registry: dict[Any, Callable[..., int]] = {}


def shape_of(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else value


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable], Callable]:
    """A formula of an operator's arguments, with `out_shape`; tensors come as their shapes, or with get_raw as they are."""

    def register(formula: Callable) -> Callable:
        def with_shapes(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
            args, kwargs, out = pytree.tree_map(shape_of, (args, kwargs, out_val))
            return formula(*args, out_shape=out, **kwargs)

        for target in targets if isinstance(targets, list | tuple) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else with_shapes
        return formula

    return register


@register_flop_formula([aten.mm, aten._int_mm])
def mm_flop(a: Shape, b: Shape, *_: Any, out_shape: Any = None, **__: Any) -> int:
    return a[0] * b[1] * 2 * a[1]


@register_flop_formula(aten.addmm)
def addmm_flop(self_: Shape, a: Shape, b: Shape, out_shape: Any = None, **_: Any) -> int:
    return mm_flop(a, b)


@register_flop_formula(aten.bmm)
def bmm_flop(a: Shape, b: Shape, out_shape: Any = None, **_: Any) -> int:
    return a[0] * mm_flop(a[1:], b[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_: Shape, a: Shape, b: Shape, out_shape: Any = None, **_: Any) -> int:
    return bmm_flop(a, b)


def conv_flop_count(x: Shape, w: Shape, out: Shape, transposed: bool = False) -> int:
    """Every element of the output (transposed: of the input) takes a multiplication and an addition for each weight of a filter."""
    batch, places = x[0], (x if transposed else out)[2:]
    return batch * math.prod(places) * math.prod(w) * 2


@register_flop_formula([aten.convolution])
def conv_flop(x: Shape, w: Shape, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, *_: Any, out_shape: Any = None, **__: Any) -> int:  # fmt: skip
    return conv_flop_count(x, w, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(grad: Shape, x: Shape, w: Shape, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any, out_shape: Any = None) -> int:  # fmt: skip
    """The gradient by the input and that by the weight each take as much as the convolution."""
    return (bool(output_mask[0]) + bool(output_mask[1])) * conv_flop_count(x, w, grad, transposed)


def sdpa_flop_count(query: Shape, key: Shape, value: Shape) -> int:
    b, h, s_q, d_q = query
    s_k, d_v = key[2], value[3]
    return bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k)) + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


ATTENTION = [getattr(aten, n) for n in dir(aten) if n.startswith("_scaled_dot_product_")]


@register_flop_formula([a for a in ATTENTION if not str(a).endswith("_backward")])
def sdpa_flop(query: Shape, key: Shape, value: Shape, *_: Any, out_shape: Any = None, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


@register_flop_formula([a for a in ATTENTION if str(a).endswith("_backward")])
def sdpa_backward_flop(grad: Shape, query: Shape, key: Shape, value: Shape, *_: Any, out_shape: Any = None, **__: Any) -> int:  # fmt: skip
    """Scores again, then two products for each of the two in forward."""
    b, h, s_q, d_q = query
    s_k, d_v = key[2], value[3]
    scores = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    return scores * 3 + 2 * bmm_flop((b * h, s_q, d_v), (b * h, d_v, s_k))


def matmul_flop(a: Shape, b: Shape, *_: Any) -> int:
    """Of operands of any number of dims, which may broadcast."""
    rows = a[:-2] if len(a) >= len(b) else b[:-2]
    return 2 * math.prod(rows) * (a[-2] if len(a) > 1 else 1) * a[-1] * (b[-1] if len(b) > 1 else 1)


def linear_flop(x: Shape, weight: Shape, *_: Any) -> int:
    return 2 * math.prod(x) * weight[0]


# What programs call and modes see in parts: a profiler records it whole.
WHOLE: dict[str, Callable[..., int]] = {"aten::matmul": matmul_flop, "aten::linear": linear_flop}


def numbers(text: str, dims: int) -> list[int]:
    """An argument that is one number for all dims, or one for each."""
    found = [int(n) for n in text.strip("[]").split(",") if n.strip().lstrip("-").isdigit()]
    return found * dims if len(found) == 1 else found


def convolution_flop(name: str, shapes: Sequence[Shape], texts: Sequence[str]) -> int:
    """Of aten::conv2d(input, weight, bias, stride, padding, dilation, groups) and its like."""
    x, w = shapes[0], shapes[1]
    dims = len(w) - 2
    if "transpose" in name or texts[6:7] == ["True"]:
        return conv_flop_count(x, w, (), transposed=True)
    if texts[4] == "same":
        return conv_flop_count(x, w, x)
    stride, dilation = numbers(texts[3], dims), numbers(texts[5], dims)
    padding = [0] * dims if texts[4] == "valid" else numbers(texts[4], dims)
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(x[2:], padding, dilation, w[2:], stride)]
    return conv_flop_count(x, w, (0, 0, *places))


def flops_of(name: str, shapes: Sequence[Shape], texts: Sequence[str]) -> int:
    """Of an operator that a profiler has recorded: a name like aten::mm, the sizes of its tensors, and its arguments as text."""
    plain = name.removeprefix("aten::").rstrip("_")
    if plain == name.rstrip("_"):
        return 0
    try:
        if plain.startswith("conv") and "backward" not in plain:
            return convolution_flop(plain, shapes, texts)
        if plain in ("add", "mul"):
            return math.prod(shapes[0])
        formula = flop_registry.get(getattr(aten, plain, None)) or WHOLE.get(name)
        return formula(*shapes) if formula is not None else 0
    except (TypeError, IndexError, ValueError):  # it takes more than sizes
        return 0


SUFFIXES = ("", "K", "M", "B", "T")


def get_suffix_str(number: int) -> str:
    """The unit in which a number has two to four digits before the point."""
    return SUFFIXES[max(0, min(len(SUFFIXES) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """
    >>> convert_num_with_suffix(66240, get_suffix_str(66240))
    '66.240K'
    """
    at = SUFFIXES.index(suffix)
    return f"{number / 1000**at:.3f}{suffix}" if at else str(number)


def convert_to_percent_str(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "0%"


class FlopCounterMode:
    """Counts while it is on, by module: backward too goes to the module whose forward it undoes. `depth` is how many levels of
    modules the table shows, all of them where it is None."""

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        own = {k: v if getattr(v, "_get_raw", False) else shaped(v) for k, v in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.mod_tracker = ModuleTracker()
        self.mode: TorchDispatchMode | None = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        assert self.mode is not None
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def count(self, packet: Any, out: Any, args: Any, kwargs: Any) -> None:
        formula = self.flop_registry.get(packet)
        if formula is not None:
            flops = formula(*args, **kwargs, out_val=out)
            for name in dict.fromkeys(("Global", *self.mod_tracker.names())):
                self.flop_counts[name][packet] += flops

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module and operator."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """In PyTorch's form: one unit for all figures, and Global only where no module has everything."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        unit = get_suffix_str(total)
        rows = [("Module", "FLOP", "% Total")]
        modules = [n for n in sorted(self.flop_counts) if n != "Global" and (depth is None or n.count(".") < depth)]
        if not any(sum(self.flop_counts[n].values()) >= total for n in modules):
            modules.insert(0, "Global")
        for name in modules:
            own = sum(self.flop_counts[name].values())
            for shown, flops in ((name, own), *((f"- {op}", n) for op, n in self.flop_counts[name].items())):
                rows.append((shown, convert_num_with_suffix(flops, unit), convert_to_percent_str(flops, total)))
        widths = [max(len(r[i]) + 2 * (r is rows[0]) for r in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


class Counting(TorchDispatchMode):
    """Sees every operator for a counter."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.counter.count(func.overloadpacket, out, args, kwargs)
        return out


def shaped(formula: Callable[..., int]) -> Callable[..., int]:
    def with_shapes(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = pytree.tree_map(shape_of, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return with_shapes
