"""A page for each name, and the lists that lead to them, as Markdown."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import tocha
from reference import facts, sessions
from reference.names import MODULES, OPERATOR_MODULE, Entry, module, paths, public
from tocha.operators import overloads

ROOT = Path(__file__).resolve().parents[2]
OPERATORS_OF_PYTORCH = ROOT / "tocha" / "_alias" / "pytorch_operators.txt"


def escaped(text: str) -> str:
    """Outside of code, angle brackets and stars mean themselves."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([<*_])", r"\\\1", p) for p in parts)


def prose(text: str) -> str:
    """A docstring without its examples; names of parameters stay code."""
    kept, inside = [], False
    for line in inspect.cleandoc(text).splitlines():
        inside = line.lstrip().startswith(">>>") or (inside and bool(line.strip()))
        if not inside:
            kept.append(escaped(line))
    return "\n".join(kept).strip()


def sessions_of(text: str) -> str:
    return f"```python\n{text}\n```\n"


def summary(entry: Entry) -> str:
    """One line."""
    text = told(entry)
    first = re.split(r"(?<=[.:;])\s", text.replace("\n", " "))[0] if text else ""
    return first.rstrip(":;")


def told(entry: Entry) -> str:
    """What is said of a name. Records speak of `self`, which functions call input."""
    text = prose(native_words(entry)[1]) or sessions.words(entry) or kind_words(entry.value)
    return re.sub(r"\bself\b", "input", text) if entry.records and entry.module != "tocha.Tensor" else text


def kind_words(value: Any) -> str:
    """Of what has no words of its own: a dtype says what it is."""
    if isinstance(value, tocha.dtype):
        sort = (
            "complex"
            if value.is_complex
            else "floating"
            if value.is_floating_point
            else "boolean"
            if value == tocha.bool
            else "integer"
        )
        return f"A dtype: {sort}, {value.itemsize * 8} bits."
    return "" if callable(value) else f"A {type(value).__name__}."


def native_words(entry: Entry) -> tuple[str, str]:
    """Signature and words of "size(dim=None): the sizes, or one of them."."""
    short = entry.short
    found = re.match(rf"({re.escape(short)}\([^\n]*?\))(?: -> [^:\n]*)?: (.*)", entry.doc, re.S)
    if found and not entry.records:
        return found[1], found[2][:1].upper() + found[2][1:]
    return "", entry.doc


def signatures(entry: Entry) -> str:
    method = entry.module == "tocha.Tensor"
    if entry.records:
        name = entry.short if method else entry.name
        if type(entry.value).__name__ == "getset_descriptor":
            return f"Tensor.{name}"
        shown = [o for o in entry.records if not method or {"method", "inplace"} & o.variants] or entry.records
        start = "Tensor." if method else ""
        return "\n".join(dict.fromkeys(start + facts.signature(o, name, method, entry.inplace) for o in shown))
    native, _ = native_words(entry)
    if native:
        return entry.module + "." + native
    if not callable(entry.value):
        return entry.name
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(entry.value)))
    except (TypeError, ValueError):
        return entry.name
    prefix = "class " if isinstance(entry.value, type) else ""
    return prefix + entry.name + text.replace("'", "")


def arguments(entry: Entry) -> str:
    method = entry.module == "tocha.Tensor"
    rows: dict[str, tuple[str, str, str, str]] = {}
    for o in entry.records:
        for row in facts.arguments(o, method):
            rows.setdefault(row[0], row)
    if not rows:
        return ""
    lines = ["## Arguments", "", "| name | type | default | |", "|---|---|---|---|"]
    for name, kind, default, meaning in rows.values():
        lines.append(f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {meaning} |")
    return "\n".join(lines) + "\n"


def known(entry: Entry) -> str:
    """The facts of its first record, its forms and overloads."""
    if not entry.records:
        return ""
    o = entry.records[0]
    lines = ["## Facts", "", "| | |", "|---|---|"]
    lines += [f"| {heading} | {text} |" for heading, text in facts.facts(o)]
    lines.append(f"| Record | `tocha/operators/{o.module}.py` |")
    return "\n".join(lines) + "\n"


def overloads_of(entry: Entry) -> str:
    texts = dict.fromkeys(text for o in entry.records for text in facts.schemas(o))
    if not texts:
        return ""
    listed = "\n".join(texts)
    return f"## Overloads\n\nAs `tocha.ops.aten` has them:\n\n```text\n{listed}\n```\n"


@cache
def names_in_pytorch() -> frozenset[str]:
    return frozenset(re.split(r"[.(]", line)[0] for line in OPERATORS_OF_PYTORCH.read_text().splitlines())


def differences(entry: Entry) -> str:
    """Where the record or the table of names says that PyTorch has something else."""
    notes = []
    function = inspect.unwrap(entry.value) if callable(entry.value) else entry.value
    if getattr(getattr(function, "__code__", None), "co_name", "") == "refuse" and not entry.doc.startswith("For "):
        notes.append("PyTorch has this; here it refuses when it is used.")
    if entry.name in ours():
        notes.append("PyTorch has no public name like this.")
    return "\n\n".join(f'!!! note "Differs from PyTorch"\n    {note}' for note in notes) + ("\n" if notes else "")


@cache
def ours() -> frozenset[str]:
    """The names that PyTorch does not have, as tools/name_table.py found them."""
    text = (ROOT / "docs" / "guide" / "names.md").read_text()
    part = text.partition("## Here only\n")[2].partition("\n## ")[0]
    found = set()
    for home, listed in re.findall(r"^- `torch([\w.]*)`: (.*)$", part, re.M):
        found |= {f"tocha{home}.{name}" for name in re.findall(r"`(\w+)`", listed)}
    return frozenset(found)


def relatives(entry: Entry, pages: dict[str, Entry]) -> str:
    """Other forms and names of the same operator; the class's or module's list."""
    related = dict.fromkeys(path for o in entry.records for path, _ in paths(o) if path in pages and path != entry.name)
    if entry.first is not None and entry.first is not entry:
        related[entry.first.name] = None
    for match in re.findall(r"`((?:tocha\.)?\w+(?:\.\w+)*)`", entry.doc):
        for path in (match, f"{entry.module}.{match}", f"tocha.{match}"):
            if path in pages and path != entry.name:
                related[path] = None
                break
    links = [link(path) for path in related] + [
        f"[{entry.module}]({entry.module}.md)" if entry.module != OPERATOR_MODULE else "[Operators](operators.md)"
    ]
    return "See also: " + ", ".join(links) + ".\n"


def link(name: str) -> str:
    return f"[`{name}`]({name}.md)"


def members(entry: Entry) -> str:
    """Of a class: its own public methods, a line each."""
    if not isinstance(entry.value, type) or entry.name == "tocha.Tensor":
        return ""
    rows = []
    for name, value in public(entry.value):
        if name not in vars(entry.value) or not (
            inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
        ):
            continue
        text = prose(inspect.getdoc(getattr(entry.value, name)) or "").partition("\n")[0]
        if text:
            rows.append(f"| `{name}` | {cell(text)} |")
    return "\n".join(["## Methods and properties", "", "| | |", "|---|---|", *rows]) + "\n" if rows else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(entry: Entry, pages: dict[str, Entry]) -> str:
    """The page of a name."""
    again = entry.first is not None and entry.first is not entry
    head = "---\nsearch:\n  exclude: true\n---\n\n" if again else ""
    words = told(entry)
    steps = sessions.session(entry)
    parts = [
        f"# {escaped(entry.name)}\n",
        sessions_of(signatures(entry)),
        f"In place: the tensor itself becomes this. {words}\n"
        if entry.inplace and not entry.records[0].name.endswith("_")
        else words + "\n",
        differences(entry),
        f"## Example\n\n{sessions_of(sessions.show(steps))}" if steps else "",
        arguments(entry),
        members(entry),
        known(entry),
        overloads_of(entry),
        relatives(entry, pages),
    ]
    return head + "\n".join(part for part in parts if part.strip())


def index(home: str, entries: list[Entry], pages: dict[str, Entry]) -> str:
    """The page of a module: its names with a line each. Of the class Tensor: its methods."""
    lines = [f"# {escaped(home)}", ""]
    if home in pages:
        lines += [sessions.words(pages[home]), "", sessions_of(sessions.show(sessions.session(pages[home])))]
    else:
        lines += [prose(inspect.getdoc(module(home)) or ""), ""]
    functions = "Methods and attributes" if home == "tocha.Tensor" else "Functions"
    groups = {"Classes": [], functions: [], "Values": []}  # type: dict[str, list[Entry]]
    for e in entries:
        groups["Classes" if isinstance(e.value, type) else functions if _is_function(e) else "Values"].append(e)
    for title, found in groups.items():
        if found:
            lines += [f"## {title}", "", "| | |", "|---|---|", *(row(e) for e in found), ""]
    return "\n".join(lines)


def contents(pages: dict[str, Entry]) -> str:
    """The first page of the reference: the modules."""
    lines = [
        "# Reference",
        "",
        f"{len(pages)} names and operators, a page each; every example is run by the tests.",
        "",
        "| | |",
        "|---|---|",
    ]
    for home in MODULES:
        about = sessions.words(pages[home]) if home in pages else prose(inspect.getdoc(module(home)) or "")
        count = sum(e.module == home for e in pages.values())
        lines.append(f"| [`{home}`]({home}.md) ({count}) | {cell(about.partition(chr(10))[0])} |")
    lines.append("| [Operators](operators.md) | Every operator by its handle, with its overloads. |")
    return "\n".join([*lines, "", "[Configuration](config.md) of the compiler.", ""])


def _is_function(entry: Entry) -> bool:
    return not isinstance(entry.value, type) and (callable(entry.value) or entry.module == "tocha.Tensor")


def row(entry: Entry) -> str:
    return f"| [`{entry.short}`]({entry.name}.md) | {cell(summary(entry))} |"


def operators_index(pages: dict[str, Entry]) -> str:
    """Every operator by its handle, with the page that tells of it."""
    by_record = {}
    for e in pages.values():
        for o in e.records:
            if not e.inplace:
                by_record.setdefault(id(o), e.name)
    lines = [
        "# Operators", "", "Known as `tocha.ops.aten.NAME.OVERLOAD`; each is one record in `tocha/operators/`. Names that begin with `_` are parts of others.", "",
        "| operator | overloads | page |", "|---|---|---|",
    ]  # fmt: skip
    for name, found in sorted(overloads.table().items()):
        page_name = next((by_record[id(v.record)] for v in found.values() if id(v.record) in by_record), None)
        shown = ", ".join(f"`{overload}`" for overload in found)
        lines.append(f"| `{name}` | {shown} | {link(page_name) if page_name else ''} |")
    return "\n".join(lines) + "\n"
