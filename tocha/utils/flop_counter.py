"""How many floating-point operations a program takes: those of matrix products, convolutions and attention, by module.

>>> import tocha
>>> with FlopCounterMode(display=False) as counted:
...     _ = tocha.ones(3, 4) @ tocha.ones(4, 5)
>>> counted.get_total_flops()
120
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tocha import _C, nn
from tocha._ops import ops
from tocha.utils import _pytree as pytree
from tocha.utils._python_dispatch import TorchDispatchMode

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


def flops_of(name: str, shapes: Sequence[Shape]) -> int:
    """Of an operator that a profiler has recorded: a name like aten::mm and the sizes of its tensors."""
    found = getattr(aten, name.removeprefix("aten::").rstrip("_"), None) if name.startswith("aten::") else None
    formula = flop_registry.get(found) or WHOLE.get(name)
    if formula is None:
        return 0
    try:
        return formula(*shapes)
    except (TypeError, IndexError, ValueError):  # it takes more than sizes
        return 0


def get_suffix_str(number: int) -> str:
    for suffix, size in (("P", 10**15), ("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.3f}{suffix}"
    return str(number)


class FlopCounterMode(TorchDispatchMode):
    """Counts while it is on. `depth` is how many levels of modules the table shows."""

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        super().__init__()
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        own = {k: v if getattr(v, "_get_raw", False) else shaped(v) for k, v in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.names: dict[int, str] = {}
        self.inside: list[str] = ["Global"]
        self.handles: list[Any] = []

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        if id(module) not in self.names:
            above = type(module).__name__
            for name, child in module.named_modules():
                self.names[id(child)] = f"{above}.{name}" if name else above
        self.inside.append(self.names[id(module)])

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if len(self.inside) > 1:
            self.inside.pop()

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.handles = [
            nn.modules.module.register_module_forward_pre_hook(self._enter_module),
            nn.modules.module.register_module_forward_hook(self._leave_module),
        ]
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        left = super().__exit__(*exception)
        for handle in self.handles:
            handle.remove()
        if self.display:
            print(self.get_table(self.depth))
        return left

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is not None:
            count = formula(*args, **(kwargs or {}), out_val=out)
            for name in dict.fromkeys(self.inside):
                self.flop_counts[name][packet] += count
        return out

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module and operator."""
        return {k: dict(v) for k, v in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        depth = self.depth if depth is None else depth
        total = max(1, self.get_total_flops())
        rows = []
        for name in sorted(self.flop_counts, key=lambda n: (n != "Global", n)):
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            own = sum(self.flop_counts[name].values())
            rows.append((" " * level + name, get_suffix_str(own), f"{100 * own / total:.2f}%"))
            rows += [(" " * level + f" - {op}", get_suffix_str(n), f"{100 * n / total:.2f}%") for op, n in self.flop_counts[name].items()]  # fmt: skip
        rows.insert(0, ("Module", "FLOP", "% Total"))
        widths = [max(len(r[i]) for r in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def shaped(formula: Callable[..., int]) -> Callable[..., int]:
    def with_shapes(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = pytree.tree_map(shape_of, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return with_shapes
