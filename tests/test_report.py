"""The report of what was compiled, in a real browser: by what a person would click and press."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from pathlib import Path

import pytest

import tocha
from tocha import _dynamo
from tocha._logging import events
from tocha._logging.collect import Collector
from tocha._logging.layout import places_of
from tocha.compiler._report import Report, data_of, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = BROWSER is None or importlib.util.find_spec("playwright") is None
SCREENSHOTS = os.environ.get("TOCHA_SCREENSHOTS")  # a folder for docs/guide/report.md


def scaled(x, n):
    y = (x * n).exp()
    print("between")
    return y.sin().sum()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A report with a break, a recompilation, kernels of forward and backward."""
    _dynamo.reset()
    path = tmp_path_factory.mktemp("report") / "report.html"
    layer = tocha.nn.Sequential(tocha.nn.Linear(8, 8), tocha.nn.GELU(), tocha.nn.LayerNorm(8))
    with Report(path) as report:
        tocha.compile(layer)(tocha.ones(4, 8)).sum().backward()
        compiled = tocha.compile(scaled)
        compiled(tocha.ones(4), 2)
        compiled(tocha.ones(5), 3)
    _dynamo.reset()
    return report


def test_the_page_needs_nothing_else(made):
    text = made.path.read_text()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    assert len(text) < 3 << 20


def test_what_it_shows_is_what_was_collected(made):
    held = data_of(made.path)
    assert [c["id"] for c in held["compilations"]] == [c.id for c in made.collector.compilations]
    (marks,) = [m for f, m in held["marks"].items() if f == __file__]
    first = scaled.__code__.co_firstlineno
    assert marks[str(first + 1)]["ops"] == ["mul", "exp"]
    assert [b["name"] for b in marks[str(first + 2)]["breaks"]] == ["print"]


def test_text_of_programs_does_not_end_the_data(tmp_path):
    bad = {"version": "</script><script>alert(1)</script>", "compilations": []}
    assert "</script><script>alert" not in page(bad)
    path = tmp_path / "r.html"
    path.write_text(page(bad))
    assert data_of(path) == bad


def test_places_of_nodes_are_apart_and_below_what_they_read():
    graph = {"a": [], "b": [], "c": ["a", "b"], "d": ["a"], "e": ["c", "d"], "w": [], "f": ["e", "w"]}
    places = places_of(graph)
    assert len(set(places.values())) == len(graph)
    assert all(places[i][1] < places[n][1] for n, inputs in graph.items() for i in inputs)


@pytest.fixture(scope="module")
def browser():
    if MISSING:
        if os.environ.get("TOCHA_PAGE_TESTS") == "required":
            pytest.fail("the page's tests need chromium and playwright: make page-tests installs them")
        pytest.skip("no chromium, or no playwright: make page-tests installs them")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, made):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    problems = []
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("request", lambda r: problems.append(r.url) if not r.url.startswith("file:") else None)
    page.goto(made.path.as_uri())
    yield page
    assert problems == []
    page.close()


def screenshot(page, name):
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{SCREENSHOTS}/{name}.png")


def tab(page, name):
    page.get_by_role("tab", name=name).click()


def test_the_summary_counts(opened, made):
    shown = {c.get_attribute("data-figure"): c.locator("b").inner_text() for c in opened.locator(".card").all()}
    assert shown["compilations"] == str(len(made.collector.compilations))
    assert shown["graph breaks"] == str(sum(len(c.breaks) for c in made.collector.compilations))
    assert shown["recompilations"] == str(sum(bool(c.recompiled) for c in made.collector.compilations))
    assert shown["kernels"] == str(sum(len(c.kernels) for c in made.collector.compilations))


def test_source_has_its_marks(opened):
    line = scaled.__code__.co_firstlineno
    captured = opened.locator(f".source .captured[data-line='{line + 1}']")
    assert "mul, exp" in captured.inner_text()
    broken = opened.locator(f".source .broken[data-line='{line + 2}']")
    assert 'print("between")' in broken.inner_text()
    assert "graph break 6 (print)" in opened.locator(".source .why").first.inner_text()
    screenshot(opened, "source")


def test_graphs_are_zoomed_searched_and_chosen_from(opened):
    tab(opened, "Graphs")
    view = opened.locator(".graph svg")
    before = view.get_attribute("viewBox")
    opened.locator("#zoom-in").click()
    closer = view.get_attribute("viewBox")
    assert float(closer.split()[2]) < float(before.split()[2])
    opened.locator("#zoom-all").click()
    opened.locator("#search").fill("gelu")
    assert opened.locator(".graph .found").count() >= 1
    assert opened.locator("#hits").inner_text().startswith("1 of")
    opened.locator(".graph .found").first.click()
    details = opened.locator("#details").inner_text()
    assert "gelu" in details and "reads" in details
    screenshot(opened, "graphs")
    opened.locator("#search").fill("no such node")
    assert opened.locator("#hits").inner_text() == "no match"


def test_every_stage_can_be_looked_at(opened, made):
    tab(opened, "Graphs")
    stages = [g.stage for g in made.collector.compilations[0].graphs]
    assert {"captured", "joint", "forward", "backward", "post_grad"} <= set(stages)
    for i in range(len(stages)):
        opened.locator("#stage").select_option(str(i))
        assert opened.locator(".graph [data-node]").count() == len(made.collector.compilations[0].graphs[i].nodes)


def test_kernels_with_their_source(opened, made):
    tab(opened, "Kernels")
    first = made.collector.compilations[0]
    assert opened.locator("main tbody tr").count() == sum(len(p["steps"]) for p in first.programs)
    opened.locator("main summary", has_text="kernel_0").first.click()
    assert "kernel_0" in opened.locator("main details[open] pre").first.inner_text()
    screenshot(opened, "kernels")


def test_memory_guards_recompilations_and_timeline(opened, made):
    first = made.collector.compilations[0]
    tab(opened, "Memory")
    buffers = sum(len(p["memory"]["buffers"]) for p in first.programs)
    assert opened.locator("main tbody tr").count() == buffers
    tab(opened, "Guards")
    assert opened.locator("main h2").first.inner_text() == f"{len(first.guards)} guards"
    tab(opened, "Recompilations")
    assert "recompilations" in opened.locator("main h2").first.inner_text()
    assert opened.locator("main code").first.inner_text() in {c.recompiled for c in made.collector.compilations}
    tab(opened, "Timeline")
    opened.locator(".flame [data-stage='backend']").first.click()
    assert opened.locator(".flame [data-stage='backend']").count() == 1
    opened.locator("#flame-all").click()
    assert opened.locator(".flame [data-stage='backend']").count() > 1
    screenshot(opened, "timeline")


def test_two_reports_beside_each_other(opened, made, tmp_path):
    other = data_of(made.path)
    other["compilations"] = other["compilations"][:1]
    path = tmp_path / "other.html"
    path.write_text(page(other))
    tab(opened, "Compare")
    opened.locator("#other").set_input_files(str(path))
    cells = opened.locator("tr[data-figure='compilations'] td").all_inner_texts()
    assert cells[1:3] == [str(len(made.collector.compilations)), "1"]
    screenshot(opened, "compare")


def test_keys(opened):
    opened.keyboard.press("3")
    assert opened.get_by_role("tab", name="Kernels").get_attribute("aria-selected") == "true"
    opened.keyboard.press("j")
    assert opened.locator("#list li[aria-selected='true']").inner_text().startswith("[1/0]")
    opened.keyboard.press("k")
    opened.keyboard.press("/")
    assert opened.evaluate("document.activeElement.id") == "search"
    opened.keyboard.press("Escape")
    opened.keyboard.press("?")
    assert opened.locator("#keys").is_visible()
    opened.keyboard.press("Escape")
    assert not opened.locator("#keys").is_visible()


def test_light_and_dark(opened):
    back = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(back)
    opened.locator("#theme").click()
    dark = opened.evaluate(back)
    assert light != dark and opened.evaluate("document.documentElement.dataset.theme") == "dark"
    screenshot(opened, "dark")
    opened.keyboard.press("t")
    assert opened.evaluate(back) == light


def test_dark_where_the_reader_has_it_so(browser, made):
    page = browser.new_page(color_scheme="dark")
    page.goto(made.path.as_uri())
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.close()


def test_readable_on_a_phone(browser, made):
    page = browser.new_page(viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
    page.goto(made.path.as_uri())
    for name in ("Source", "Graphs", "Kernels", "Memory", "Guards", "Timeline"):
        tab(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 376, name
    page.locator("#choose").select_option("1")
    assert page.locator("#choose").input_value() == "1"
    screenshot(page, "phone")
    page.close()


def test_large_graphs_open_fast(browser, tmp_path):
    """2,000 nodes; how long it takes is shown, not judged: only that it is there at all."""

    def deep(x):
        for _ in range(1000):
            x = (x + 1).sin()
        return x

    collector = Collector()
    with events.listening(collector):
        tocha.compile(deep, backend="eager")(tocha.ones(2))
    _dynamo.reset()
    report = Report(tmp_path / "large.html")
    report.close()
    report.collector = collector
    began = time.perf_counter()
    report.write()
    wrote = time.perf_counter() - began
    opened = browser.new_page()
    began = time.perf_counter()
    opened.goto((tmp_path / "large.html").as_uri())
    tab(opened, "Graphs")
    assert opened.locator(".graph [data-node]").count() == 2002
    print(f"written in {wrote:.2f} s, open in {time.perf_counter() - began:.2f} s")
    opened.close()


class Deep(tocha.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = tocha.nn.Sequential(tocha.nn.Linear(256, 256), tocha.nn.GELU(), tocha.nn.Linear(256, 256))

    def forward(self, x):
        return self.layers(x).square().mean()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "memory.html"
    memory = tocha.cpu.memory
    memory._record_memory_history(clear_history=True)
    model = Deep()
    optimizer, x = tocha.optim.Adam(model.parameters()), tocha.ones(64, 256)
    for _ in range(2):
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad()
    kept = model.layers(x)
    memory._dump_snapshot(path)
    del kept
    memory._record_memory_history(enabled=None)
    tocha._C._memory_history_clear()
    return path


def test_who_holds_the_memory(browser, snapshot):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    problems = []
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.goto(snapshot.as_uri())
    row = page.locator("tr[data-group='Deep.layers.0.weight']")
    assert "256.00 KB" in row.inner_text()
    screenshot(page, "memory")
    page.locator("#group").select_option("operator")
    assert page.locator("tr[data-group='aten::zeros_like']").count() == 1
    at_peak = page.locator("#moment").inner_text()
    page.locator("#at-end").click()
    assert page.locator("#moment").inner_text() != at_peak
    page.locator("#group").select_option("module")
    page.locator("tr[data-group='Deep.layers.2'] summary").click()
    page.locator(
        "tr[data-group='Deep.layers.2'] li"
    ).first.wait_for()  # the list comes with the event of opening, after the click
    opened = page.locator("tr[data-group='Deep.layers.2'] details[open]").inner_text()
    assert "aten::linear" in opened and "in Deep.layers.2 in Deep.layers" in opened and "test_report.py" in opened
    page.locator("#chart").click(position={"x": 3, "y": 50})
    page.keyboard.press("p")
    assert page.locator("#moment").inner_text() == at_peak
    page.locator("#search").fill("exp_avg_sq")
    assert "match" in page.locator("#moment").inner_text()
    page.set_viewport_size({"width": 375, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 376
    assert problems == []
    page.close()


def test_a_report_for_the_whole_program(tmp_path):
    import subprocess
    import sys

    program = "import tocha\nprint(tocha.compile(lambda x: x.sin(), backend='eager')(tocha.zeros(1)))\n"
    path = tmp_path / "whole.html"
    env = {**os.environ, "TOCHA_REPORT": str(path)}
    subprocess.run([sys.executable, "-c", program], env=env, check=True)
    held = json.loads(json.dumps(data_of(path)))
    assert [c["function"] for c in held["compilations"]] == ["<lambda>"]
