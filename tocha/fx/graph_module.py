"""GraphModule: an nn.Module whose forward is generated from a graph."""

from __future__ import annotations

import contextlib
import copy
import importlib
import itertools
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import tocha
import tocha.fx.graph as graph_file
from tocha._core.library_name import spoken
from tocha.fx._codegen import CodeGen, PythonCode
from tocha.fx._generated import (
    FILE_PREFIX as FX_GRAPH_MODULE_FILE_PREFIX,
)
from tocha.fx._generated import (
    import_block,
    method_from_source,
)
from tocha.fx.graph import Graph, _PyTreeCodeGen
from tocha.nn import Parameter
from tocha.nn import _Module as Module

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_ALSO = FX_GRAPH_MODULE_FILE_PREFIX
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_HOOK_LISTS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
_COPIED = (
    "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_deepcopy_hooks",
    "_replace_hooks", "_create_node_hooks", "_erase_node_hooks",
)  # fmt: skip


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Gives to_module what stands at a dotted path of from_module; modules between are made as they are needed."""
    *prefix, field = target.split(".")
    for item in prefix:
        source, place = getattr(from_module, item), getattr(to_module, item, None)
        if source is place:
            return  # a shared module has it already
        if place is None:
            place = Module()
            setattr(to_module, item, place)
        from_module, to_module = source, place
    value = getattr(from_module, field)
    if isinstance(value, tocha.Tensor) and not isinstance(value, Parameter):
        to_module.register_buffer(field, value, persistent=field not in from_module._non_persistent_buffers_set)
    else:
        setattr(to_module, field, value)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Puts an object at a dotted path."""
    *prefix, field = target.split(".")
    for item in prefix:
        place = getattr(to_module, item, None)
        if place is None:
            place = Module()
            setattr(to_module, item, place)
        to_module = place
    if isinstance(from_obj, tocha.Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(field, from_obj)
    else:
        setattr(to_module, field, from_obj)


def _get_attr(model: Module, attr_name: str) -> Any:
    found: Any = model
    for item in attr_name.split("."):
        found = getattr(found, item)
    return found


def _has_attr(model: Module, attr_name: str) -> bool:
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model: Module, attr_name: str) -> None:
    parent, _, field = attr_name.rpartition(".")
    delattr(_get_attr(model, parent) if parent else model, field)


class _WrappedCall:
    """The call of a GraphModule: an error inside generated code says which line of it failed."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __call__(self, obj: GraphModule, *args: Any, **kwargs: Any) -> Any:
        try:
            return Module.__call__(obj, *args, **kwargs)
        except Exception as error:
            _report(error)
            raise


def _report(error: Exception) -> None:
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or "eval_with_key" not in frames[-1][0].f_code.co_filename:
        return
    summary = traceback.extract_tb(error.__traceback__)[-1]

    print("".join([*traceback.format_exception(error), "\n", _error_message(summary)]), file=sys.stderr)


def _error_message(frame: traceback.FrameSummary) -> str:
    line_number = frame.lineno or 0
    source = _lines_of(frame.filename)
    line = source[line_number - 1] if line_number <= len(source) else ""
    before = "\n".join(source[max(0, line_number - 3) : line_number - 1])
    after = "\n".join(source[line_number : line_number + 2])
    mark = "~" * len(line) + " <--- HERE"
    head = f"Call using an FX-traced Module, line {line_number} of the traced Module's generated forward function:"
    return "\n".join([head, before, line, "", mark, after]) + "\n"


def _lines_of(filename: str) -> list[str]:
    return [line.rstrip("\n") for line in linecache.getlines(filename)]


class GraphModule(Module):
    """A module that runs a graph. Changing the graph changes the module after `recompile()`.

    root is the module (or the dict) that has the parameters and submodules the graph refers to.

    >>> import tocha
    >>> module = tocha.fx.symbolic_trace(tocha.nn.Sequential(tocha.nn.Linear(2, 3), tocha.nn.ReLU()))
    >>> print(module.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        _1 = getattr(self, "1")(_0);  _0 = None
        return _1
    >>> module(tocha.ones(1, 2)).shape
    tocha.Size([1, 3])
    """

    _graph: Graph
    # _symbolic_trace.Tracer, set there: it needs this module.
    _default_tracer: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Every instance has a class of its own: forward belongs to the class, where Module looks for it.
        own = cls
        for c in cls.__mro__:
            if not c.__qualname__.endswith(".GraphModuleImpl"):
                own = c
                break

        class GraphModuleImpl(own):  # type: ignore[misc, valid-type]
            pass

        GraphModuleImpl.__module__ = own.__module__
        return super().__new__(GraphModuleImpl)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self._copy_from_module(root, graph)
        elif isinstance(root, dict):
            self._copy_from_dict(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        for name in _HOOK_LISTS:
            self.__dict__[name] = []
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module) and hasattr(root, "meta") and isinstance(root.meta, dict):
            self.meta.update(root.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}))
        self._tracer_cls = None
        self._tracer_extras: dict[str, Any] = {}
        if graph._tracer_cls is not None and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        if graph._tracer_extras:
            self._tracer_extras = graph._tracer_extras
        self.shape_env = None
        self.graph = graph

    def _copy_from_module(self, root: Module, graph: Graph) -> None:
        if hasattr(root, "training"):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)

    def _copy_from_dict(self, root: dict[str, Any], graph: Graph) -> None:
        targets = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
                targets.append(node.target)
        # Parents first, so that a child does not make an empty module in the parent's place.
        for target in sorted(targets, key=lambda t: t.count(".")):
            _assign_attr(root[target], self, target)

    # ---- the graph and its code ----

    @property
    def graph(self) -> Graph:
        """The graph this module runs. Assigning another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of forward, as of the last recompile."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to tocha")
        return self._code

    def recompile(self) -> PythonCode:
        """Generates forward from the graph again: call it after changing the graph."""
        info = getattr(self._graph._codegen, "pytree_info", None)
        if isinstance(self._graph._codegen, _PyTreeCodeGen) and info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        generated = self._graph.python_code(root_module="self")
        self._code = generated.src
        self._lineno_map = generated._lineno_map
        self._prologue_start = generated._prologue_start
        cls = type(self)
        name = self._graph._codegen._func_name
        setattr(cls, name, method_from_source(name, generated.src, generated.globals, self._graph._co_fields))
        self._install_call()
        return generated

    def _install_call(self) -> None:
        """Calls of the class show the graph's own line where one fails."""
        cls = type(self)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls)  # type: ignore[attr-defined]
            if "__call__" not in vars(cls):

                def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
                    return self._wrapped_call(self, *args, **kwargs)

                cls.__call__ = call_wrapped  # type: ignore[method-assign]

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        return [(n, m.recompile()) for n, m in self.named_modules() if isinstance(m, GraphModule)]

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of the graph modules within, with what is known of every value.

        >>> import tocha
        >>> module = tocha.fx.symbolic_trace(lambda x: tocha.relu(x).sum())
        >>> _ = tocha.fx.passes.shape_prop.ShapeProp(module).propagate(tocha.ones(2, 3))
        >>> _ = module.print_readable()
        class <lambda>(tocha.nn.Module):
            def forward(self, x: "f32[2, 3]"):
                # No stacktrace found for following nodes
                relu: "f32[2, 3]" = tocha.relu(x);  x = None
                sum_1: "f32[]" = relu.sum();  relu = None
                return sum_1
        """
        return _print_readable(
            self,
            self._get_name(),
            print_output,
            include_stride,
            include_device,
            colored,
            expanded_def,
            additional_meta,
        )

    def __str__(self) -> str:
        text = super().__str__()
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([text, self._code, note])

    # ---- submodules ----

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a dotted path; false if something that is no module is in the way."""
        *prefix, field = target.split(".")
        place: Module = self
        for item in prefix:
            inner = getattr(place, item, None)
            if inner is None:
                inner = Module()
                setattr(place, item, inner)
            if not isinstance(inner, Module):
                return False
            place = inner
        place.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a dotted path; false if there is none."""
        parent, _, field = target.rpartition(".")
        try:
            place = self.get_submodule(parent)
        except AttributeError:
            return False
        if not isinstance(getattr(place, field, None), Module):
            return False
        delattr(place, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(itertools.accumulate(parts, lambda a, b: f"{a}.{b}"))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    called = self.get_submodule(node.target)
                    used.update(f"{node.target}.{n}" for n, _ in called.named_modules() if n)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    # ---- copying and saving ----

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        fake = Module.__new__(Module)
        fake.__dict__ = copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in ("_graph",)}, memo)
        graph = copy.deepcopy(self._graph, memo)
        GraphModule.__init__(new, fake, graph, self._get_name())
        for name in _COPIED:
            if name in self.__dict__:
                new.__dict__[name] = copy.copy(self.__dict__[name])
        new._take_leftovers(fake)
        new.meta = copy.copy(getattr(self, "meta", {}))
        if hasattr(self._graph, "_tracer_cls"):
            new._tracer_cls = self._tracer_cls
        for hook in self._deepcopy_hooks:
            hook(new)
        return new

    def _take_leftovers(self, other: Module) -> None:
        """Parameters, buffers, modules and plain attributes that the graph does not refer to."""
        for table in ("_parameters", "_buffers", "_modules"):
            for name, value in other.__dict__[table].items():
                self.__dict__[table].setdefault(name, value)
        self._non_persistent_buffers_set |= other._non_persistent_buffers_set
        for name, value in other.__dict__.items():
            self.__dict__.setdefault(name, value)

    def __copy__(self) -> GraphModule:
        new = GraphModule(self, self._graph, self._get_name())
        new.meta = getattr(self, "meta", {})
        new._take_leftovers(self)
        self._graph.owning_module = self
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        """The code and the attributes: the graph is traced again from the code when it is loaded."""
        body = self.__dict__.copy()
        del body["_graph"]
        # Written plainly, so that tracing it gives the same placeholders however the module takes its arguments.
        codegen, self._graph._codegen = self._graph._codegen, CodeGen()
        try:
            generated = self._graph.python_code(root_module="self")
        finally:
            self._graph._codegen = codegen
        body["_code"] = generated.src
        body["_graphmodule_cls_name"] = self._get_name()
        body["_codegen"] = codegen if type(codegen) is not CodeGen else None
        return reduce_graph_module, (body, import_block(generated.globals))

    def _replicate_for_data_parallel(self) -> GraphModule:
        new = self.__copy__()
        new._is_replica = True
        return new

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes the module as a Python package: its code, its parameters, and modules that have no code as files."""
        path = os.path.join(folder, "")[:-1]
        os.makedirs(path, exist_ok=True)
        _save(self.state_dict(), os.path.join(path, "state_dict.pt"))
        for name, text in (("module", _module_text(self, path, module_name)), ("__init__", "from .module import *\n")):
            with open(os.path.join(path, f"{name}.py"), "w") as file:
                file.write(text)

    # ---- hooks on changes of the graph ----

    def _register_create_node_hook(self, f: Callable) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable) -> None:
        self._erase_node_hooks.remove(f)

    def _register_replace_node_hook(self, f: Callable) -> None:
        """f(old=node, new=name, user=node) before a user takes another input."""
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable) -> None:
        self._replace_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable) -> None:
        self._deepcopy_hooks.remove(f)

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


def _print_readable(
    module: Module,
    module_name: str,
    print_output: bool = True,
    include_stride: bool = False,
    include_device: bool = False,
    colored: bool = False,
    expanded_def: bool = False,
    additional_meta: list[str] | None = None,
) -> str:
    graph = module.graph
    if not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code(
        root_module="self",
        verbose=True,
        include_stride=include_stride,
        include_device=include_device,
        colored=colored,
        expanded_def=expanded_def,
        additional_meta=additional_meta,
    )
    body = _indented(code.src.lstrip("\n"), 4)
    inner = [
        _indented(
            _print_readable(m, n, False, include_stride, include_device, colored, expanded_def, additional_meta), 4
        )
        for n, m in module.named_children()
        if hasattr(m, "graph") and isinstance(m.graph, Graph)
    ]
    text = "\n".join([f"class {module_name}({spoken()}.nn.Module):\n{body}", *inner])
    if print_output:
        print(text)
    return text


def _indented(text: str, spaces: int) -> str:
    return "".join(
        " " * spaces + line if line.strip() else "\n" if line.endswith("\n") else "" for line in text.splitlines(True)
    )


class _CodeOnlyModule(Module):
    """What a loaded module's forward is traced on: it has the attributes, and no code but the generated."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _retraced(forward: Callable, body: dict[str, Any], name: str, codegen: CodeGen | None) -> GraphModule:
    tracer_cls = body.get("_tracer_cls") or GraphModule._default_tracer

    class KeepModules(tracer_cls):  # type: ignore[misc, valid-type]
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    root_cls = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    root = root_cls(body)
    graph = KeepModules().trace(root, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer_cls
    if codegen is not None:
        graph.set_codegen(codegen)
    loaded = GraphModule(root, graph, name)
    loaded._take_leftovers(root)
    return loaded


def _save(obj: Any, file: Any) -> None:
    """tocha.save, which is loaded when first used."""
    importlib.import_module("tocha.serialization").save(obj, file)


def reduce_graph_module(body: dict[str, Any], import_block: str) -> GraphModule:
    """Makes a module from what GraphModule.__reduce__ gave."""
    body = dict(body)
    code, name, codegen = body.pop("_code"), body.pop("_graphmodule_cls_name"), body.pop("_codegen")
    forward = method_from_source("forward", f"{import_block}\n{code}", {})
    return _retraced(forward, body, name, codegen)


def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> GraphModule:
    """The same, with the code in a module of a package that importer reads."""
    forward = importer.import_module(generated_module_name).forward
    body = dict(body)
    body.pop("_code", None)
    return _retraced(forward, body, body.pop("_graphmodule_cls_name", "GraphModule"), body.pop("_codegen", None))


_MODULES_WITH_TEXT = ("Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


def _module_text(module: GraphModule, folder: str, name: str) -> str:
    """The text of module.py: an __init__ that makes the parts, and the generated forward."""
    lines = []
    for child_name, child in module._modules.items():
        if type(child) in [getattr(tocha.nn, c) for c in _MODULES_WITH_TEXT]:
            made, note = f"{spoken()}.nn.{child!r}", ""
        else:
            file = os.path.join(folder, f"{child_name}.pt")
            _save(child, file)
            shown = repr(child).replace("\r", " ").replace("\n", " ")
            made, note = f"{spoken()}.load(r'{file}', weights_only=False)", f"  # {shown}"
        lines.append(f"setattr(self, '{child_name}', {made}){note}")
    for buffer_name, buffer in module._buffers.items():
        if buffer is not None:
            empty = f"{spoken()}.empty({list(buffer.shape)}, dtype={buffer.dtype})"
            lines.append(f"self.register_buffer('{buffer_name}', {empty})")
    for parameter_name, parameter in module._parameters.items():
        if parameter is not None:
            empty = f"{spoken()}.empty({list(parameter.shape)}, dtype={parameter.dtype})"
            lines.append(f"setattr(self, '{parameter_name}', {spoken()}.nn.Parameter({empty}))")
    lines.append(f"self.load_state_dict({spoken()}.load(r'{folder}/state_dict.pt'))")
    generated = module._graph.python_code("self")
    init = "".join(f"        {line}\n" for line in lines)
    return (
        f"{import_block(generated.globals)}\n\n\nclass {name}({spoken()}.nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{init}\n{_indented(generated.src.strip(), 4)}\n"
    )


graph_file.GraphModule = GraphModule  # type: ignore[misc]  # annotations there name it
