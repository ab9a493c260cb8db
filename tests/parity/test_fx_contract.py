"""The public names of torch.fx, one by one: ours has them, and takes their parameters by the same names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

MODULES = (
    "fx", "fx.graph", "fx.node", "fx.graph_module", "fx.proxy", "fx.interpreter", "fx.subgraph_rewriter", "fx.annotate",
    "fx.immutable_collections", "fx.traceback", "fx.operator_schemas", "fx.config",
    "fx.passes.shape_prop", "fx.passes.split_module", "fx.passes.graph_drawer", "fx.passes.fake_tensor_prop",
    "fx.passes.operator_support", "fx.passes.graph_manipulation", "fx.passes.param_fetch", "fx.passes.pass_manager",
    "fx.passes.split_utils", "fx.passes.tools_common", "fx.passes.annotate_getitem_nodes", "fx.passes.graph_transform_observer",
    "fx.passes.dialect.common.cse_pass", "fx.passes.infra.partitioner", "fx.passes.infra.pass_base", "fx.passes.infra.pass_manager",
    "fx.passes.utils.common", "fx.passes.utils.fuser_utils", "fx.passes.utils.matcher_utils",
    "fx.passes.utils.matcher_with_name_node_map_utils", "fx.passes.utils.source_matcher_utils",
    "fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes", "fx.experimental.normalize", "fx.experimental.optimization",
)  # fmt: skip

INTERNAL = "PyTorch's own machinery around its symbols, which are sympy's: tocha.ir has another one"
SPLITTER = "of the splitter for accelerators (splitter_base), which is left out"
KNOWN = {
    "fx.graph.Graph.materialize_symint": "new and experimental in 2.13",
    "fx.graph.Graph.materialize_symints": "new and experimental in 2.13",
    "fx.traceback.NodeSource.NodeInfo": "its fields are NodeSource's own",
    "fx.passes.split_utils.move_non_tensor_nodes_on_boundary": SPLITTER,
    "fx.passes.tools_common.FxNetAccFusionsFinder": SPLITTER,
    "fx.experimental.normalize.NormalizeOperators": "of quantization's first form, which rewrote operators to acc_ops",
    "fx.experimental.normalize.NormalizeArgs.call_function(arg_types)": "types of arguments are read from the nodes",
    "fx.experimental.normalize.NormalizeArgs.call_function(kwarg_types)": "types of arguments are read from the nodes",
    "fx.experimental.proxy_tensor.handle_sym_dispatch": "symbols are written down where they are used",
    "fx.experimental.proxy_tensor.PythonKeyTracer.enable_thunkify": "symbols are written down where they are used",
    **{f"fx.experimental.optimization.{n}": "oneDNN's layouts, which there are none of here" for n in (
        "MklSubgraph", "UnionFind", "gen_mkl_autotuner", "modules_to_mkldnn", "reset_modules", "use_mkl_length",
    )},
    **{f"fx.experimental.symbolic_shapes.{n}": INTERNAL for n in (
        "CURRENT_NODE_KEY", "ConvertIntKey", "SHAPEENV_EVENT_KEY", "SYMPY_INTERP", "Specialization", "StatefulSymbolicContext",
        "SubclassSymbolicContext", "SymIntEqByExpr", "SymIntSymbolicContext", "TrackedFake", "ValueRangesSLoc",
        "canonicalize_bool_expr", "compute_unbacked_bindings", "create_contiguous", "rebind_unbacked", "resolve_unbacked_bindings",
    )},
}  # fmt: skip
# Members of these are sympy expressions and guards as PyTorch keeps them.
INSIDE = ("fx.experimental.symbolic_shapes.ShapeEnv", "fx.experimental.symbolic_shapes.StatelessSymbolicContext")


def public(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(set(listed))
    own = module.__name__
    return sorted(n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", None) == own)


def members(cls: type) -> list[str]:
    """What a class adds to the classes that it stands on."""
    if issubclass(cls, dict | tuple | list | BaseException):
        return []
    usual = torch.nn.Module if issubclass(cls, torch.nn.Module) else object
    return [n for n in dir(cls) if n[0] != "_" and not hasattr(usual, n)]


def parameters(f: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return {}


def lacking_parameters(name: str, theirs: Any, ours: Any) -> Iterator[str]:
    wanted, found = parameters(theirs), parameters(ours)
    if not wanted or any(p.kind is p.VAR_KEYWORD for p in found.values()):
        return
    for n, p in wanted.items():
        if (
            n not in ("self", "cls")
            and n[0] != "_"
            and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            and n not in found
        ):
            yield f"{name}({n})"


def lacking(name: str, theirs: Any, ours: Any) -> Iterator[str]:
    """What ours lacks of one name: members, parameters."""
    if name in INSIDE:
        return
    if inspect.isclass(theirs) and inspect.isclass(ours):
        own = set(vars(ours)).union(*(getattr(c, "__annotations__", {}) for c in ours.__mro__))
        written = inspect.getsource(ours)
        for n in members(theirs):
            if not hasattr(ours, n):
                if n not in own and f"self.{n}" not in written:
                    yield f"{name}.{n}"
            elif callable(f := inspect.getattr_static(theirs, n)) and not inspect.isclass(f):
                yield from lacking_parameters(f"{name}.{n}", getattr(theirs, n), getattr(ours, n))
    if callable(theirs) and callable(ours) and not (inspect.isclass(theirs) and issubclass(theirs, BaseException)):
        yield from lacking_parameters(name, theirs, ours)


@pytest.mark.parametrize("module", MODULES)
def test_names_members_and_parameters(module: str) -> None:
    theirs, ours = (importlib.import_module(f"{library}.{module}") for library in ("torch", "tocha"))
    found: list[str] = []
    for n in public(theirs):
        name = f"{module}.{n}"
        found += [name] if not hasattr(ours, n) else lacking(name, getattr(theirs, n), getattr(ours, n))
    known = {k.replace("fx.graph.Graph", "fx.Graph") for k in KNOWN} | set(KNOWN)
    assert [f for f in found if f not in known] == []


def test_what_is_known_to_be_missing_is_missing() -> None:
    for name in KNOWN:
        module = next(m for m in sorted(MODULES, key=len, reverse=True) if name.startswith(f"{m}."))
        *path, last = name.removeprefix(f"{module}.").partition("(")[0].split(".")
        value = importlib.import_module(f"tocha.{module}")
        for part in path:
            value = getattr(value, part)
        assert "(" in name or not hasattr(value, last), name
