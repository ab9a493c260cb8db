"""Graphs as Python text: one assignment per node, names unique, values forgotten after their last use.

Graph.python_code calls a CodeGen; a subclass of it changes how the generated function takes and returns its values.
"""

from __future__ import annotations

import contextlib
import enum
import keyword
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tocha
import tocha.fx._pytree as fx_pytree
import tocha.utils._pytree as pytree
from tocha._core.library_name import ours, spoken, spoken_name
from tocha.fx import config
from tocha.fx._describe import describe_tensor, painter
from tocha.fx._names import Namespace, is_from_tocha, qualified_name
from tocha.fx.node import Argument, Node, _type_repr

__all__ = ["CodeGen", "PythonCode"]

REFLECTABLE_MAGIC_METHODS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}", "mod": "{} % {}",
    "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
MAGIC_METHODS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **REFLECTABLE_MAGIC_METHODS,
}  # fmt: skip
INPLACE_METHODS = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip


class CustomBuiltin(NamedTuple):
    """A name that generated code may always use, and how it is imported."""

    import_str: str
    obj: Any


CUSTOM_BUILTINS = {
    "inf": CustomBuiltin("from math import inf", math.inf),
    "nan": CustomBuiltin("from math import nan", math.nan),
    "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
    "tocha": CustomBuiltin("import tocha", tocha),
    "device": CustomBuiltin("from tocha import device", tocha.device),
    "fx_pytree": CustomBuiltin("import tocha.fx._pytree as fx_pytree", fx_pytree),
    "pytree": CustomBuiltin("import tocha.utils._pytree as pytree", pytree),
}


@dataclass
class PythonCode:
    """The text of a function, and the objects its text names beyond builtins."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


class PyTreeInfo(NamedTuple):
    """How a traced function takes trees: names of its arguments, specs of what goes in and what comes out."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def format_target(base: str, target: str) -> str:
    """
    >>> format_target("self", "layers.0.weight")
    'getattr(self.layers, "0").weight'
    """
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


class StackFrame(NamedTuple):
    """The innermost line of a recorded stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


_FRAME = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


def parse_stack_trace(stack_trace: str, filter_fn: Callable[[str, str, str], bool] | None = None) -> StackFrame | None:
    """The last frame of a trace that the filter takes (all, without one)."""
    lines = [line.strip() for line in stack_trace.strip().split("\n")]
    for i in range(len(lines) - 1, -1, -1):
        found = _FRAME.match(lines[i])
        if found:
            file, number, name = found.groups()
            has_code = i + 1 < len(lines) and not _FRAME.match(lines[i + 1])
            frame = StackFrame(file, number, name, lines[i + 1] if has_code else "")
            if filter_fn is None or filter_fn(frame.file, frame.name, frame.code):
                return frame
    return None


class _Writer:
    """The state of writing one function: its names, the objects named, and the lines of its body."""

    def __init__(self, namespace: Namespace, verbose: bool, stride: bool, device: bool, colored: bool) -> None:
        self.namespace = namespace
        self.verbose, self.stride, self.device, self.colored = verbose, stride, device, colored
        self.paint = painter(colored)
        self.globals: dict[str, Any] = {}
        self.name_by_id: dict[int, str] = {}
        self.body: list[str] = []
        self.free_vars: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.returns = ""
        self.last_trace: str | None = None
        # Parameters of the function that hide a name its text would use.
        self.shadowed: set[str] = set()
        for name, builtin in CUSTOM_BUILTINS.items():
            self.add_global(spoken_name(name), builtin.obj)

    # ---- names of objects ----

    def add_global(self, hint: str, obj: Any) -> str:
        """The name of an object in the text; asked for again, it is the same one."""
        if (known := self.name_by_id.get(id(obj))) is not None:
            return known
        if is_from_tocha(obj) and obj is not tocha.device:
            name = qualified_name(obj)  # reached through the library, which is always there
            if not any(keyword.iskeyword(part) for part in name.split(".")):
                return name
            hint = name  # random_.from is no Python
        name = hint if ours(hint) in CUSTOM_BUILTINS else self.namespace.create_name(hint.replace(".", "_"), None)
        return self._set_global(name, obj)

    def _set_global(self, name: str, obj: Any) -> str:
        self.globals[name] = obj
        self.name_by_id[id(obj)] = name
        return name

    def name_of(self, obj: Any) -> str:
        """The name of a function or class."""
        if (known := self.name_by_id.get(id(obj))) is not None:
            return known
        qualified = qualified_name(obj)
        is_builtin = "." not in qualified
        return self._set_global(qualified, obj) if is_builtin else self.add_global(qualified, obj)

    def type_text(self, kind: Any) -> str:
        if kind == ():
            return "()"
        if isinstance(kind, str):
            return repr(kind)
        if kind is None or kind is type(None):
            return "NoneType"
        if kind is ...:
            return "..."
        if isinstance(kind, list):
            return f"[{','.join(self.type_text(a) for a in kind)}]"
        if isinstance(kind, types.UnionType):
            return "|".join(self.type_text(a) for a in typing.get_args(kind))
        if origin := typing.get_origin(kind):
            arguments = ",".join(self.type_text(a) for a in typing.get_args(kind)) or "()"
            return f"{self._origin_text(kind, origin)}[{arguments}]"
        if isinstance(kind, type):
            return kind.__name__ if kind.__module__ == "builtins" else self.add_global(_type_repr(kind), kind)
        return self.add_global(_type_repr(kind), kind)

    def _origin_text(self, kind: Any, origin: Any) -> str:
        """List[int] is written typing_List, list[int] is not."""
        if isinstance(kind, types.GenericAlias):
            return self.type_text(origin)
        name = "Union" if origin is typing.Union else getattr(kind, "_name", None) or origin.__name__
        return self.add_global(f"typing_{name}", getattr(typing, name))

    # ---- values ----

    def text(self, value: Argument) -> str:
        """A value as an expression."""
        kind = type(value)
        if kind is Node:
            return repr(value)
        if kind is str or kind is bool or value is None:
            return repr(value)
        if kind is int:
            return self.paint(repr(value), "blue")
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                name = self.name_of(type(value))
                return f"{name}({', '.join(self.text(v) for v in value)})"
            inside = ", ".join(self.text(v) for v in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(v) for v in value)}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{self.name_of(type(value))}.{value.name}"
        if isinstance(value, types.BuiltinFunctionType | types.FunctionType | type | types.MethodDescriptorType):
            return self.name_of(value)
        if typing.get_origin(value) is not None:
            return self.type_text(value)
        if hasattr(value, "_schema") and callable(value):
            return self.name_of(value)
        if isinstance(value, float) and not math.isfinite(value) and {"inf", "nan"} & self.shadowed:
            return f"float('{value}')"
        if isinstance(value, tocha.device) and "device" in self.shadowed:
            return f"{spoken()}.{value!r}"
        if type(value).__module__ == "numpy" and hasattr(value, "item"):  # a scalar
            return f"{self.name_of(type(value))}({value.item()!r})"
        return repr(value)

    def arguments(self, args: Iterable, kwargs: dict[str, Argument]) -> str:
        shown = [self.text(a) for a in args]
        shown += [f"{k} = {self.text(v)}" for k, v in kwargs.items() if _is_name(k)]
        other = {k: v for k, v in kwargs.items() if not _is_name(k)}
        return ", ".join(shown + ([f"**{self.text(other)}"] if other else []))

    # ---- nodes ----

    def annotation(self, node: Node) -> str:
        """What is known of a value: its meta when asked for, else the type it was annotated with."""
        if self.verbose:
            value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
            text = describe_tensor(value, self.stride, self.device, self.colored and "val" in node.meta)
            if not text and getattr(value, "node", None) is not None and type(value).__name__.startswith("Sym"):
                text = f"Sym({value})"
            if text:
                return f': "{text}"'
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def emit(self, node: Node, root: str) -> None:
        getattr(self, f"_emit_{node.op}")(node, root)

    def _emit_placeholder(self, node: Node, root: str) -> None:
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.free_vars.append(f"{node.target}{self.annotation(node)}{default}")
        raw = node.target.replace("*", "")
        if raw != repr(node):
            self.body.append(f"{node!r} = {raw}\n")

    def _emit_call_method(self, node: Node, root: str) -> None:
        owner = self.text(node.args[0])
        if isinstance(node.args[0], int | float | complex):
            owner = f"({owner})"
        call = format_target(owner, node.target)
        self._assign(node, f"{call}({self.arguments(node.args[1:], node.kwargs)})")

    def _emit_call_module(self, node: Node, root: str) -> None:
        self._assign(node, f"{format_target(root, node.target)}({self.arguments(node.args, node.kwargs)})")

    def _emit_get_attr(self, node: Node, root: str) -> None:
        self._assign(node, format_target(root, node.target))

    def _emit_output(self, node: Node, root: str) -> None:
        if node.type is not None:
            self.returns = f" -> {self.type_text(node.type)}"

    def _emit_call_function(self, node: Node, root: str) -> None:
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", None) == "_operator" and not node.kwargs:
            operands = [self.text(a) for a in node.args]
            if name == "pow" and operands[0].startswith("-"):
                operands[0] = f"({operands[0]})"  # ** binds tighter than the sign
            if name in MAGIC_METHODS and len(operands) == MAGIC_METHODS[name].count("{}"):
                self._assign(node, MAGIC_METHODS[name].format(*operands))
                return
            if name in INPLACE_METHODS and isinstance(node.args[0], Node):
                self.body.append(f"{INPLACE_METHODS[name].format(*operands)};  ")
                self._assign(node, operands[0])
                return
        if (
            node.target is getattr
            and len(node.args) == 2
            and isinstance(node.args[0], Node)
            and isinstance(node.args[1], str)
            and node.args[1].isidentifier()
        ):
            self.name_of(getattr)
            self._assign(node, f"{self.text(node.args[0])}.{node.args[1]}")
            return
        shown = self.name_of(node.target)
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(shown)
        self._assign(node, f"{shown}({self.arguments(node.args, node.kwargs)})")

    def _assign(self, node: Node, expression: str) -> None:
        self.body.append(f"{node!r}{self.annotation(node)} = {expression}")

    def comment(self, node: Node, additional_meta: list[str]) -> None:
        """The source line a node comes from and the notes on it, where they differ from those of the node before."""
        if config.do_not_emit_stack_traces or node.op in ("placeholder", "output"):
            return
        notes = "".join(f"# {key}: {node.meta[key]} " for key in additional_meta if key in node.meta)
        if custom := node.meta.get("custom"):
            notes += f"# Annotation: {custom} "
        frame = parse_stack_trace(node.stack_trace) if node.stack_trace else None
        where = frame.get_summary_str() if frame else "No stacktrace found for following nodes"
        key = notes + (node.stack_trace or "")
        if key == self.last_trace:
            return
        self.last_trace = key
        if node.stack_trace and frame is None and not notes:
            return
        text = f"{notes}{where}" if notes else f"# {where}"
        blank = "\n" if any(line.strip() for line in self.body) else ""
        self.body.append(f"{blank}{self.paint(text, 'dim')}\n")


def last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """For every node the values nobody needs after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(list(nodes)):
        for n in user._input_nodes:
            if n not in seen:
                seen.add(n)
                found.setdefault(user, []).append(n)
    return found


class CodeGen:
    """Writes a graph as a function. Subclasses change the signature, the return statement, or how values pass in and out."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The line with `def`, and what must come right after it."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            shown = "".join(f"    {v},\n" for v in free_vars)
            return f"def {self._func_name}(\n{shown}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """The return statement."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders, from what the generated function is called with."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the generated function returns, from the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names this code generator's text uses."""
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        nodes = list(nodes)
        writer = _Writer(namespace, verbose, include_stride, include_device, colored)
        parameters = {n.target.lstrip("*") for n in nodes if n.op == "placeholder"}
        writer.shadowed = parameters & {spoken_name(name) for name in CUSTOM_BUILTINS}
        namespace._used_names |= parameters
        for name, obj in self.additional_globals():
            writer.add_global(name, obj)
        dead_after = last_uses(nodes)
        starts: list[int] = []
        for node in nodes:
            if verbose:
                writer.comment(node, additional_meta or [])
            starts.append(len(writer.body))
            writer.emit(node, root_module)
            self._finish_node(writer, node, dead_after.get(node, []))
        return self._assemble(writer, starts, expanded_def)

    def _finish_node(self, writer: _Writer, node: Node, dead: list[Node]) -> None:
        """Forgets what is not needed any more, and ends the line."""
        if node.op == "placeholder":
            return
        if node.op == "output":
            returned = self.generate_output(node.args[0], repr_fn=writer.text)
            writer.body.append(f"{returned}\n")
            return
        if not node.users:
            dead = [*dead, node]
        if dead:
            names = " = ".join([repr(n) for n in dead] + ["None"])
            writer.body.append(f";  {writer.paint(names, 'dim')}")
        writer.body.append("\n")

    def _assemble(self, writer: _Writer, starts: list[int], expanded_def: bool) -> PythonCode:
        if not writer.body:
            writer.body.append("pass\n")
        lineno_map = _line_numbers(writer.body, starts)
        body = self._body_transformer(writer.body) if self._body_transformer else writer.body
        wraps = "\n".join(f'{spoken()}.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        prologue = self.gen_fn_def(writer.free_vars, writer.returns, expanded_def=expanded_def)
        text = "".join(body)
        indented = "\n".join("    " + line for line in text.split("\n"))
        src = f"\n{wraps}\n\n{prologue}\n{indented}"
        start = len(wraps.split("\n")) + 3
        return PythonCode(src, writer.globals, lineno_map, _prologue_start=start)


def _line_numbers(body: list[str], starts: list[int]) -> dict[int, int | None]:
    """Which node (by its position) each line of the body belongs to."""
    found: dict[int, int | None] = {}
    node, line = -1, 1
    for i, piece in enumerate(body):
        while node + 1 < len(starts) and starts[node + 1] <= i:
            node += 1
        for _ in range(piece.count("\n")):
            found[line] = node
            line += 1
    found[line] = node
    return found


class BoxedCodeGen(CodeGen):
    """Takes the arguments in a list and empties it, so that inputs can be freed while the function runs."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        definition = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        names = ", ".join(v.split(":")[0].split("=")[0].strip() for v in free_vars)
        unpack = f"\n    {names}{',' if len(free_vars) == 1 else ''} = args_list" if free_vars else ""
        return f"{definition}{unpack}\n    args_list.clear()"

    def process_inputs(self, *args: Any) -> Any:
        return args[0]


class PyTreeCodeGen(CodeGen):
    """Takes and returns trees: flattens the arguments to the placeholders, builds the result from the output's list."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        if not isinstance(out, list | tuple):
            out = [out]
        if self.pytree_info.out_spec is None:
            raise AssertionError("out_spec must not be None when processing outputs")
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        arguments = list(self.pytree_info.orig_args)
        takes_self = bool(arguments) and arguments[0] == "self"
        if takes_self:
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(arguments[:], maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return definition
        without_annotation = [v.split(":")[0].split("=")[0].strip() for v in free_vars]
        names = "".join(f"{v}, " for v in without_annotation)
        return f"{definition}\n    {names}= {self._flattened(arguments)}"

    def _flattened(self, arguments: list[str]) -> str:
        positional, keywords = _split_keywords(arguments, self.pytree_info.in_spec)
        if keywords is None:
            return f"fx_pytree.tree_flatten_spec([{', '.join(arguments)}], self._in_spec)"
        pairs = ", ".join(f"'{k}':{k}" for k in keywords)
        inputs = f"([{', '.join(positional)}], {{{pairs}}})"
        return f"fx_pytree.tree_flatten_spec({inputs}, self._in_spec)"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        shown = (repr_fn or repr)(output_args)
        if self.pytree_info and self.pytree_info.out_spec is not None:
            if not isinstance(output_args, list | tuple):
                shown = f"[{shown}]"
            return f"return pytree.tree_unflatten({shown}, self._out_spec)"
        return f"return {shown}"


def _split_keywords(arguments: list[str], spec: pytree.TreeSpec) -> tuple[list[str], list[str] | None]:
    """Positional and keyword names, where the spec is that of (args, kwargs)."""
    children = spec.children()
    both = (
        spec.type is tuple
        and len(children) == 2
        and children[0].type is tuple
        and children[1].type is dict
        and children[1].context == arguments[children[0].num_children :]
    )
    if not both:
        return arguments, None
    count = children[0].num_children
    return arguments[:count], arguments[count:]


@contextlib.contextmanager
def temporary_reprs(nodes: Iterable[Node], text: Callable[[Node], str]) -> Iterator[None]:
    """Nodes print as the text says while code is generated."""
    nodes = list(nodes)
    old = [n._repr_fn for n in nodes]
    for n in nodes:
        n._repr_fn = text
    try:
        yield
    finally:
        for n, f in zip(nodes, old):
            n._repr_fn = f
