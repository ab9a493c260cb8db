"""FxGraphDrawer: graphs as DOT text, and as SVG with a layout of our own, so that no other program is needed."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from tocha.fx.graph_module import GraphModule
from tocha.fx.node import Node, _format_arg
from tocha.fx.passes._layered import Box, layout, svg
from tocha.fx.passes.shape_prop import TensorMetadata

__all__ = ["Dot", "FxGraphDrawer"]

_COLORS = {
    "placeholder": "aliceblue", "call_module": "lemonchiffon", "get_attr": "khaki", "output": "powderblue",
    "call_method": "gainsboro",
}  # fmt: skip
_FUNCTION_COLORS = (
    "paleturquoise", "lightsalmon", "palegreen", "lavender", "mistyrose", "moccasin", "lightpink", "honeydew", "thistle",
    "wheat", "lightblue", "peachpuff",
)  # fmt: skip


class Dot:
    """A drawing: boxes of text and the arrows between them. Text for Graphviz with to_string, a picture with create_svg."""

    def __init__(self, name: str, shape: str = "record") -> None:
        self.name = name
        self.shape = shape
        self.boxes: dict[str, Box] = {}
        self.edges: list[tuple[str, str]] = []

    def add_box(self, key: str, lines: list[str], color: str) -> None:
        self.boxes[key] = Box(key, lines, color)

    def add_edge(self, tail: str, head: str) -> None:
        self.edges.append((tail, head))

    def to_string(self) -> str:
        """DOT text."""
        lines = [f"digraph {_quoted(self.name)} {{", "rankdir=TB;"]
        for box in self.boxes.values():
            label = "{" + "|".join(_escaped(line) for line in box.lines) + "}"
            attributes = f'label="{label}", shape={self.shape}, fillcolor={box.color}, style="filled,rounded"'
            lines.append(f"{_quoted(box.key)} [{attributes}, fontcolor=black];")
        lines += [f"{_quoted(tail)} -> {_quoted(head)};" for tail, head in self.edges]
        return "\n".join([*lines, "}"]) + "\n"

    def create_svg(self) -> bytes:
        """An SVG picture."""
        boxes = list(self.boxes.values())
        layout(boxes, self.edges)
        return svg(self.name, boxes, self.edges).encode()

    def create(self, format: str = "dot") -> bytes:
        if format not in ("dot", "raw", "svg"):
            raise ValueError(f"graphs are drawn as dot or svg: got {format!r}")
        return self.create_svg() if format == "svg" else self.to_string().encode()

    def write(self, path: str | Path, format: str = "dot") -> None:
        Path(path).write_bytes(self.create(format))

    def write_svg(self, path: str | Path) -> None:
        self.write(path, "svg")

    def write_dot(self, path: str | Path) -> None:
        self.write(path, "dot")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped(text: str) -> str:
    """Text inside a record's label, where some characters have a meaning."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(f"\\{c}" if c in "{}|<>" else c for c in text)


class FxGraphDrawer:
    """Draws a GraphModule: one box per node with its target, arguments and what is known of its value.

    >>> import tocha
    >>> drawer = FxGraphDrawer(tocha.fx.symbolic_trace(lambda x: tocha.relu(x)), "small")
    >>> "digraph" in drawer.get_dot_graph().to_string()
    True
    >>> drawer.get_dot_graph().create_svg()[:4]
    b'<svg'
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._name = name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self.skip_node_names_in_args = skip_node_names_in_args
        self.parse_stack_trace = parse_stack_trace
        self._dot_graphs: dict[str, Dot] = {}
        self._draw(graph_module, name, ignore_getattr, ignore_parameters_and_buffers)

    def get_dot_graph(self, submod_name: str | None = None) -> Dot:
        """The drawing of the module, or of one of its graph modules."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> Dot:
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Dot:
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Dot]:
        return self._dot_graphs

    def _draw(self, module: GraphModule, name: str, ignore_getattr: bool, ignore_parameters: bool) -> None:
        dot = self._dot_graphs[name] = Dot(name, self.dot_graph_shape)
        shown = {n for n in module.graph.nodes if not (ignore_getattr and n.op == "get_attr")}
        for node in module.graph.nodes:
            if node not in shown:
                continue
            dot.add_box(node.name, self._lines(module, node), self._color(node))
            if node.op == "call_module":
                called = module.get_submodule(node.target)
                if isinstance(called, GraphModule):
                    self._draw(called, f"{name}_{node.target}", ignore_getattr, ignore_parameters)
                elif not ignore_parameters:
                    self._draw_parameters(dot, node, called)
        for node in module.graph.nodes:
            for used in node.all_input_nodes:
                if node in shown and used in shown:
                    dot.add_edge(used.name, node.name)

    def _draw_parameters(self, dot: Dot, node: Node, called: Any) -> None:
        for kind, named in (("Parameter", called.named_parameters()), ("Buffer", called.named_buffers())):
            for name, value in named:
                key = f"{node.name}.{name}"
                dot.add_box(key, [key, f"op_code: get_{kind.lower()}", self._tensor_text(value)], "lightsalmon")
                dot.add_edge(key, node.name)

    def _color(self, node: Node) -> str:
        if node.op in _COLORS:
            return _COLORS[node.op]
        # By name, so that a function has the same colour in every drawing, whatever the hash seed.
        name = node._pretty_print_target(node.target).rpartition(".")[2]
        return _FUNCTION_COLORS[zlib.crc32(name.encode()) % len(_FUNCTION_COLORS)]

    def _lines(self, module: GraphModule, node: Node) -> list[str]:
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            called = module.get_submodule(node.target)
            lines.append(f"{node.target}: {type(called).__module__}.{type(called).__name__}")
            lines += [f"{c}: {getattr(called, c)}" for c in getattr(called, "__constants__", ())]
        elif node.op != "output":
            lines.append(f"target={node._pretty_print_target(node.target)}")
        arguments = (
            node.normalized_arguments(module, normalize_to_only_use_kwargs=True) if self.normalize_args else None
        )
        args, kwargs = arguments or (node.args, node.kwargs)
        if args:
            lines.append(f"args={self._argument_text(args)}")
        if kwargs:
            lines.append(f"kwargs={self._argument_text(kwargs)}")
        lines.append(f"num_users={len(node.users)}")
        if self.parse_stack_trace and node.stack_trace:
            lines.append(node.stack_trace.strip().rpartition("\n")[0].strip())
        return lines + self._meta_lines(node)

    def _argument_text(self, value: Any) -> str:
        text = _format_arg(value, max_list_len=8)
        if self.skip_node_names_in_args and isinstance(value, tuple) and all(isinstance(v, Node) for v in value):
            return f"({len(value)} values)" if len(value) > 1 else "(1 value)"
        return text if len(text) < 60 else text[:57] + "..."

    def _meta_lines(self, node: Node) -> list[str]:
        meta = node.meta.get("tensor_meta")
        if isinstance(meta, TensorMetadata):
            return [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}", f"stride={tuple(meta.stride)}"]
        value = node.meta.get("val")
        return [self._tensor_text(value)] if hasattr(value, "shape") and hasattr(value, "dtype") else []

    def _tensor_text(self, value: Any) -> str:
        return f"{value.dtype}{list(value.shape)}"
