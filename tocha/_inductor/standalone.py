"""Graphs compiled by themselves, without capture: artifacts that are called, saved to a file, and loaded by another process.

A saved artifact holds what the cache holds of a graph: programs as sources and JSON, and their libraries. It executes nothing when it is read.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tocha import _C, fx
from tocha._functorch.runtime import Compiled, wrapped
from tocha._inductor import codecache, config, custom_graph_pass, store
from tocha._inductor.artifacts import made_for
from tocha._inductor.asked import Asked
from tocha._inductor.compilation import Compilation, is_flat
from tocha._inductor.entries import NotKept, decode_wrapping, encode_wrapping
from tocha._inductor.kept import load_kept
from tocha._logging import events
from tocha._subclasses.fake import FakeTensor
from tocha.ir.sym_types import SymInt

__all__ = ["CompiledArtifact", "standalone_compile"]

MAGIC = b"tocha compiled artifact 1\n"
UNPACKED = "artifact.json"  # in the folder of an artifact that is not one file
SHAPES = ("from_graph", "from_tracing_context", "from_example_inputs")


class CompiledArtifact:
    """A compiled graph: called with its inputs, it returns the list of its results."""

    def __init__(self, call: Callable[..., Sequence[Any]], content: Callable[[], dict[str, Any]]):
        self._call, self._content = call, content

    def __call__(self, *args: Any) -> list[Any]:
        return list(self._call(*args))

    def save(self, *, path: str, format: str = "binary") -> None:
        """As one file ("binary"), or as a folder that people can look into ("unpacked"). Backward is compiled if it is not yet."""
        check_format(format)
        content = self._content()
        if format == "unpacked":
            Path(path).mkdir(parents=True, exist_ok=True)
            for name, program in programs_of(content):
                Path(path, f"{name}.cpp").write_text(program["source"])
            Path(path, UNPACKED).write_text(json.dumps(content, indent=1))
            return
        libraries = [codecache.library_of(p["source"]).read_bytes() for _, p in programs_of(content)]
        head = json.dumps({**content, "libraries": [len(x) for x in libraries]}).encode()
        Path(path).write_bytes(MAGIC + store.sealed(len(head).to_bytes(8, "little") + head + b"".join(libraries)))

    @staticmethod
    def load(*, path: str, format: str = "binary") -> CompiledArtifact:
        """What was saved, for the same version and processor."""
        check_format(format)
        if format == "unpacked":
            content = json.loads(Path(path, UNPACKED).read_text())
            check_made_for(content)
        else:
            content = unpacked(Path(path).read_bytes())
        w = decode_wrapping(content["around"])
        backward = KeptBackward(content["backward"]) if w.differentiable else None
        compiled = wrapped(w, load_kept(content["forward"]), backward)
        return CompiledArtifact(lambda *args: compiled(list(args)), lambda: content)


class KeptBackward:
    """The backward program of a loaded artifact."""

    def __init__(self, program: dict[str, Any]):
        self.callable = cache(lambda: load_kept(program))

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return list(self.callable()(*args))


def check_format(format: str) -> None:
    if format not in ("binary", "unpacked"):
        raise ValueError(f"[CompiledArtifact] the format is 'binary' or 'unpacked', got {format!r}")


def check_made_for(content: dict[str, Any]) -> None:
    for name, mine in made_for().items():
        if content["made for"].get(name) != mine:
            raise RuntimeError(f"[CompiledArtifact] the artifact was made for another {name}: compile it again")


def programs_of(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, content[name]) for name in ("forward", "backward") if content[name] is not None)


def unpacked(file: bytes) -> dict[str, Any]:
    """What is said of a graph; the libraries go into the cache, where they are looked for."""
    body = store.unsealed(file[len(MAGIC) :]) if file.startswith(MAGIC) else None
    if body is None:
        raise RuntimeError("[CompiledArtifact] the file is damaged, or no artifact")
    at = 8 + int.from_bytes(body[:8], "little")
    content: dict[str, Any] = json.loads(body[8:at])
    check_made_for(content)
    for (_, program), size in zip(programs_of(content), content["libraries"], strict=True):
        library = store.unsealed(body[at : at + size])
        at += size
        if library is not None and not config.force_disable_caches:
            codecache.LIBRARIES.write(codecache.key_parts(program["source"]), library)
    return content


def inputs_of(gm: fx.GraphModule, example_inputs: Sequence[Any], dynamic_shapes: str) -> list[Any]:
    """What the graph is compiled for: its own fakes where these have symbols for sizes, else the examples."""
    nodes = gm.graph.find_nodes(op="placeholder")
    if dynamic_shapes == "from_example_inputs" or len(nodes) != len(example_inputs):
        return list(example_inputs)
    values = [n.meta.get("val", n.meta.get("example_value")) for n in nodes]
    symbolic = any(isinstance(v, SymInt) or (isinstance(v, FakeTensor) and v._symbolic) for v in values)
    return [e if v is None else v for v, e in zip(values, example_inputs, strict=True)] if symbolic else list(example_inputs)  # fmt: skip


def standalone_compile(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    dynamic_shapes: str = "from_graph",
    options: dict[str, Any] | None = None,
    donate_graph_module: bool = False,
) -> CompiledArtifact:
    """A graph compiled for these inputs, or for the symbols of its own; see `tocha._inductor.standalone_compile`."""
    if dynamic_shapes not in SHAPES:
        raise ValueError(
            f"[standalone_compile] got unsupported `dynamic_shapes` value: dynamic_shapes={dynamic_shapes}."
        )
    module = gm if donate_graph_module else copy.deepcopy(gm)
    settings = {n: getattr(config, n) for n in custom_graph_pass.SETTINGS}
    settings |= {k.replace("-", "_"): v for k, v in (options or {}).items()}
    inputs = inputs_of(gm, example_inputs, dynamic_shapes)
    made = Compilation(Asked(module, inputs, settings, _C.is_grad_enabled(), events.compile_id()))
    with config.patch(settings):
        run = made.traced()
    if run.compiled is not None and is_flat(run.out_spec):
        return CompiledArtifact(lambda *args: run.compiled(list(args)), lambda: content_of(made, run))
    return CompiledArtifact(as_list(run), lambda: content_of(made, run))


def as_list(run: Callable[..., Any]) -> Callable[..., list[Any]]:
    def call(*args: Any) -> list[Any]:
        result = run(*args)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return call


def content_of(made: Compilation, run: Any) -> dict[str, Any]:
    """What is saved; RuntimeError says what has no form in a file."""
    compiled = run.compiled
    if (
        not isinstance(compiled, Compiled)
        or made.programs[0] is None
        or made.asked.has_state
        or not is_flat(run.out_spec)
    ):
        raise RuntimeError(
            "[CompiledArtifact] only graphs that are compiled whole, without parameters of their own, and return flat tuples or lists can be saved"
        )
    try:
        forward, backward = made.programs[0].kept(), None
        if compiled.wrapping.differentiable:
            if len(made.programs) == 1:
                compiled.backward.callable()
            backward = made.programs[1].kept()  # type: ignore[union-attr]
        around = encode_wrapping(compiled.wrapping)
    except NotKept as reason:
        raise RuntimeError(f"[CompiledArtifact] the graph cannot be saved: {reason}") from reason
    return {"made for": made_for(), "around": around, "forward": forward, "backward": backward}
