"""The check of the rooms' order sees what it must refuse, and the page on operators shows what the generator writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
import check_rooms  # noqa: E402


def planted(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("import tocha", "operators imports tocha,"),
        ("def f():\n    import tocha", "operators imports tocha,"),
        ("from tocha import Tensor", "operators imports tocha,"),
        ("from tocha import nn", "operators imports tocha.nn,"),
        ("import importlib\nimportlib.import_module('tocha.nn')", "operators imports tocha.nn,"),
        ("from tocha.ir import dtypes", None),
        ("from tocha import _C", "operators imports tocha._C,"),
    ],
)
def test_lower_rooms_may_not_import_higher_ones(tmp_path, text, refused):
    files = {"tocha/operators/some.py": text, "tocha/nn/__init__.py": "", "tocha/ir/dtypes.py": ""}
    found = check_rooms.python_problems(planted(tmp_path, files))
    assert [refused in problem for problem in found] == ([True] if refused else [])


def test_a_room_without_a_place_is_refused(tmp_path):
    assert "has no place" in check_rooms.python_problems(planted(tmp_path, {"tocha/attic.py": ""}))[0]


def test_circles_are_found_where_functions_hide_them(tmp_path):
    files = {
        "tocha/nn/one.py": "from tocha.nn import two",
        "tocha/nn/two.py": "def f():\n    from tocha.nn.one import g",
        "tocha/nn/three.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tocha.nn import four",
        "tocha/nn/four.py": "from tocha.nn import three",
    }
    found = check_rooms.circles(planted(tmp_path, files))
    assert found == ["a circle of imports: tocha.nn.one -> tocha.nn.two -> tocha.nn.one"]


@pytest.mark.parametrize(
    ("room", "include", "refused"),
    [
        ("core", "dispatch/native.h", "a higher room"),
        ("core", "ops/copies.h", "not said to call"),
        ("autograd", "ops/copies.h", None),
        ("autograd", "ops/sorting.h", "not said to call"),
        ("autograd", "cpu/gemm/gemm.h", "a higher room"),
        ("cpu", "ops/sorting.h", None),
        ("attic", "core/dtype.h", "has no place"),
    ],
)
def test_native_rooms_include_what_is_below(tmp_path, room, include, refused):
    found = check_rooms.native_problems(planted(tmp_path, {f"{room}/some.cpp": f'#include "{include}"\n'}))
    assert [refused in problem for problem in found] == ([True] if refused else [])


def test_families_of_kernels_do_not_include_each_other(tmp_path):
    files = {"sort/a.cpp": '#include "cpu/scan/b.h"\n', "scan/b.h": '#include "cpu/engine/c.h"\n'}
    assert check_rooms.family_circles(planted(tmp_path, files)) == []
    planted(tmp_path, {"engine/isa/d.cpp": '#include "cpu/sort/e.h"\n'})
    assert check_rooms.family_circles(tmp_path) == ["a circle of includes: engine -> sort -> scan -> engine"]


@pytest.mark.parametrize(
    ("name", "include", "refused"),
    [
        ("ops/views.h", "dispatch/op_types.h", None),
        ("ops/views.h", "autograd/record.h", "a header of declarations"),
        ("ops_views.cpp", "autograd/record.h", None),
        ("ops_views.cpp", "python/parser.h", "a higher room"),
        ("bind_views.cpp", "python/parser.h", None),
        ("views_0_loops.cpp", "cpu/engine/loop_prelude.h", None),
        ("ops_views.cpp", "cpu/engine/layout.h", "a higher room"),
    ],
)
def test_generated_sources_have_a_room(tmp_path, name, include, refused):
    found = check_rooms.generated_problems(planted(tmp_path, {name: f'#include "{include}"\n'}))
    assert [refused in problem for problem in found] == ([True] if refused else [])


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated")
    check_rooms.generate(out)
    return out


def test_what_the_build_generates_keeps_the_order(generated):
    assert check_rooms.generated_problems(generated) == []


def test_the_page_on_operators_shows_what_is_generated(generated):
    page = (ROOT / "docs" / "inside" / "operators.md").read_text()
    texts = [p.read_text() for p in sorted(generated.glob("*.cpp"))]
    shown = [part.strip("\n") for block in re.findall(r"```cpp\n(.*?)```", page, re.S) for part in block.split("...\n")]
    assert len(shown) >= 5
    for part in shown:
        assert any(part in text for text in texts), part
