"""The example of a name: of its record, in the name's own form; of its docstring; or written in docs/reference/examples.md."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import tocha
from reference.names import MODULES, SPACES, Entry, module
from tocha.operators.record import Operator

WRITTEN = Path(__file__).resolve().parents[2] / "docs" / "reference" / "examples.md"
Session = list[tuple[str, str]]  # what is typed, and what is printed


def parse(text: str) -> Session:
    return [(e.source.rstrip("\n"), e.want) for e in doctest.DocTestParser().get_examples(text)]


def show(session: Session) -> str:
    lines = []
    for source, want in session:
        first, *more = source.split("\n")
        lines += [f">>> {first}", *(f"... {line}".rstrip() for line in more)]
        lines += want.rstrip("\n").split("\n") if want else []
    return "\n".join(lines)


@cache
def written() -> dict[str, str]:
    """By name: the sections of the page of examples."""
    parts = re.split(r"^### (\S+)$", WRITTEN.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def words(entry: Entry) -> str:
    """What the page of examples says of a name beside the example."""
    text = written().get(entry.name, "")
    return text.partition("```")[0].strip()


def session(entry: Entry) -> Session:
    """The entry's example; empty if there is none."""
    if entry.name in written():
        return parse(written()[entry.name].replace("```python", "").replace("```", ""))
    if entry.records:
        return derived(entry)
    own = parse(entry.doc)
    if not own and entry.first not in (None, entry):
        return session(entry.first)
    return imported(entry, qualified(entry, own)) if own else []


# ---- of docstrings -----------------------------------------------------------------------------------


def home(entry: Entry) -> ModuleType | None:
    """Where an object was made: what its docstring calls by bare names is there."""
    return sys.modules.get(getattr(inspect.unwrap(entry.value), "__module__", None) or "")


class Qualified(ast.NodeTransformer):
    """Bare names of the object's own module become public ones: `Linear(3, 2)` is `tocha.nn.Linear(3, 2)` to a reader."""

    def __init__(self, entry: Entry, bound: set[str]) -> None:
        self.entry, self.bound, self.changed = entry, bound, False
        self.places = [module(entry.module), *(m for m in (tocha.nn, tocha) if m is not module(entry.module))]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.bound or hasattr(builtins, node.id) or node.id == "tocha":
            return node
        own = vars(home(self.entry) or builtins).get(node.id)
        for place in self.places:
            if own is not None and getattr(place, node.id, None) is own:
                self.changed = True
                return ast.parse(f"{place.__name__}.{node.id}", mode="eval").body
        return node


def qualified(entry: Entry, steps: Session) -> Session:
    tree = ast.parse("\n".join(source for source, _ in steps))
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    found = []
    for source, want in steps:
        form = Qualified(entry, bound)
        changed = form.visit(ast.parse(source))
        found.append((quoted(ast.unparse(changed)) if form.changed else source, want))
    return [step for step in found if step[0] != "import tocha"]


@cache
def unreached() -> frozenset[str]:
    """Modules that `import tocha` alone does not give."""
    code = f"""
import tocha
for name in {MODULES!r}:
    try:
        eval(name)
    except AttributeError:
        print(name)
"""
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return frozenset(told.stdout.split())


def imported(entry: Entry, steps: Session) -> Session:
    """With the import that a reader needs."""
    texts = "\n".join(source for source, _ in steps)
    needed = entry.module in unreached() and entry.module in texts and not re.search(r"^(from|import) ", texts, re.M)
    return [(f"import {entry.module}", ""), *steps] if needed else steps


# ---- of records --------------------------------------------------------------------------------------


def derived(entry: Entry) -> Session:
    """The record's example as a call of this name. Aliases and forms in place show its first call: they take less."""
    record = next((o for o in entry.records if o.example), None)
    if record is None:
        return []
    form, steps = Form(entry, record), []
    for source, want in parse(record.example):
        steps += form.rewrite(source, want)
        if form.changed and want and (entry.inplace or entry.short != record.public_name):
            break
    return steps


def spelled(o: Operator) -> str:
    """How a record's example calls it: `tocha.special.erf`; methods only, `.view`."""
    if "function" not in o.variants:
        return "." + o.name
    return {space: home for home, space in SPACES.items()}[o.namespace] + "." + o.public_name


class NotAMethod(Exception):
    """A call whose first argument is a number."""


class Form(ast.NodeTransformer):
    """Calls of a record in the form that a name has: another function, a method, in place."""

    def __init__(self, entry: Entry, record: Operator) -> None:
        self.entry, self.called = entry, spelled(record)
        self.is_method = entry.module == "tocha.Tensor"
        self.is_property = type(entry.value).__name__ == "getset_descriptor"
        self.before: list[str] = []
        self.changed = False

    def rewrite(self, source: str, want: str) -> Session:
        """The same step in this form; none where it cannot have it (a method of a number)."""
        self.before = []
        try:
            changed = ast.unparse(self.visit(ast.parse(source)))
        except NotAMethod:
            return []
        if changed == ast.unparse(ast.parse(source)):
            return [(source, want)]
        self.changed = True
        return [*((line, "") for line in self.before), (quoted(changed), want)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if self.called.startswith("."):
            if isinstance(node.func, ast.Attribute) and node.func.attr == self.called[1:]:
                node.func.attr = self.entry.short
            return node
        if name != self.called or name == self.entry.name:
            return node
        if self.is_method:
            return self._method(node)
        node.func = ast.parse(self.entry.name, mode="eval").body
        if self.entry.inplace and not isinstance(node.args[0], ast.Name):
            node.args[0] = self._held(node.args[0])
        return node

    def _method(self, node: ast.Call) -> ast.AST:
        owner = node.args[0]
        if isinstance(owner, ast.Constant):
            raise NotAMethod
        if self.entry.inplace and not isinstance(owner, ast.Name):
            owner = self._held(owner)
        attribute = ast.Attribute(value=owner, attr=self.entry.short, ctx=ast.Load())
        return attribute if self.is_property else ast.Call(func=attribute, args=node.args[1:], keywords=node.keywords)

    def _held(self, value: ast.expr) -> ast.Name:
        """A form in place changes something that has a name."""
        self.before.append(quoted(f"x = {ast.unparse(value)}"))
        return ast.Name(id="x", ctx=ast.Load())


def quoted(source: str) -> str:
    """With double quotes, as everything here is written."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', source)


# ---- running -----------------------------------------------------------------------------------------

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")


class Checker(doctest.OutputChecker):
    """Floating numbers may differ in their last digits: processors and libraries round differently."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        numbers = [NUMBER.findall(text) for text in (want, got)]
        texts = ["".join(NUMBER.sub("#", text).split()) for text in (want, got)]
        if texts[0] != texts[1] or len(numbers[0]) != len(numbers[1]):
            return False
        return all(self._near(a, b) for a, b in zip(*numbers, strict=True))

    @staticmethod
    def _near(a: str, b: str) -> bool:
        if not {".", "e"} & {*a, *b}:
            return a == b
        return abs(float(a) - float(b)) <= 2e-4 * max(abs(float(a)), abs(float(b)), 1e-2)


def run(entry: Entry, steps: Session) -> list[str]:
    """What went wrong."""
    made = home(entry)
    globs = dict(vars(made)) if made and not entry.records else {}
    globs |= {"tocha": sys.modules["tocha"], "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(show(steps), globs, entry.name, None, None)
    said: list[str] = []
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=FLAGS)
    runner.run(test, out=said.append)
    return said if runner.failures else []
