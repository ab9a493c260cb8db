"""Examples in the documentation and in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

import tocha

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from reference.sessions import FLAGS, WRITTEN, Checker  # noqa: E402

pytestmark = pytest.mark.usefixtures("kernel_cache")

PAGES = sorted(
    p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if ">>>" in p.read_text() and p != WRITTEN
)
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(tocha.__path__, "tocha.")
    if (spec := m.module_finder.find_spec(m.name))
    and spec.origin.endswith(".py")
    and ">>>" in Path(spec.origin).read_text()
    and not m.name.startswith("tocha.operators.examples.")  # tests/test_reference.py runs them in all their forms
)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_page(page):
    # A fence would be taken for expected output.
    text = "\n".join("" if line.startswith("```") else line for line in page.read_text().splitlines())
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS)
    runner.run(examples)
    assert runner.tries and not runner.failures


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS)
    for test in doctest.DocTestFinder().find(module, name, extraglobs={"tocha": tocha}):
        runner.run(test)
    assert not runner.failures
