"""Constant folding: what is computed from constants of the graph alone is computed now."""

from __future__ import annotations

from typing import Any

from tocha import _C
from tocha._subclasses.fake import FakeTensor
from tocha.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, maybe_disable_fake_tensor_mode
from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, map_arg
from tocha.fx.passes.functional.nodes import is_operator, is_pure, value_of

Tensor = _C.Tensor
MOST_BYTES = 1 << 26  # a folded constant is not greater than this, unless what it is made of is


def attribute(module: GraphModule, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def constant_folding(module: GraphModule) -> int:
    """Operators whose tensors are all constants become constants."""
    known: dict[Node, Tensor] = {}
    for n in module.graph.nodes:
        if n.op == "get_attr":
            value = attribute(module, str(n.target))
            if isinstance(value, Tensor) and not isinstance(value, FakeTensor) and not value.requires_grad:
                known[n] = value
        elif is_foldable(n, known):
            result = computed(n, known)
            if isinstance(result, Tensor) and fits(result, [known[i] for i in n.all_input_nodes]):
                known[n] = result
    return replaced(module, known)


def is_foldable(n: Node, known: dict[Node, Tensor]) -> bool:
    inputs = n.all_input_nodes
    return is_operator(n) and is_pure(n) and bool(inputs) and all(i in known for i in inputs)


def computed(n: Node, known: dict[Node, Tensor]) -> Any:
    args, kwargs = (map_arg(v, lambda i: known[i]) for v in (n.args, n.kwargs))
    with maybe_disable_fake_tensor_mode(), disable_proxy_modes_tracing():
        return n.target(*args, **kwargs)  # type: ignore[operator]


def fits(result: Tensor, given: list[Tensor]) -> bool:
    size = result.numel() * result.element_size()
    return size <= max(MOST_BYTES, sum(t.numel() * t.element_size() for t in given))


def memory_of(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def replaced(module: GraphModule, known: dict[Node, Tensor]) -> int:
    """Folded values that others read become attributes. What is a view of a constant stays one."""
    count = 0
    given = {memory_of(value) for n, value in known.items() if n.op == "get_attr"}
    for n, value in known.items():
        if n.op == "get_attr" or all(u in known for u in n.users) or memory_of(value) in given:
            continue
        name = f"_folded_{count}"
        while hasattr(module, name):
            count += 1
            name = f"_folded_{count}"
        # Views of what was computed get memory of their own.
        module.register_buffer(name, value.detach().clone(), persistent=True)
        with module.graph.inserting_before(n):
            new = module.graph.get_attr(name)
        new.meta["val"] = value_of(n)
        n.replace_all_uses_with(new)
        count += 1
    module.graph.eliminate_dead_code()
    return count
