"""Tables of settings: typed, patched, saved, from the environment; what is not known is refused with the nearest name."""

import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import pytest

import tocha._functorch.config
from tocha._dynamo import config as dynamo
from tocha._inductor import config as inductor
from tocha.compiler import config as compiler

TABLES = [dynamo, inductor, compiler, tocha._functorch.config]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__)
def test_unknown_names_are_refused_with_the_nearest(table):
    known = next(n for n in table.names() if not n.startswith("_"))
    wrong = known[:-1] + "_"
    for do in (lambda: getattr(table, wrong), lambda: setattr(table, wrong, 1), lambda: table.patch({wrong: 1})):
        with pytest.raises(AttributeError, match=rf"no such setting: '{wrong}'; did you mean"):
            do()


def test_patch_as_context_and_decorator():
    with dynamo.patch(recompile_limit=3):
        assert dynamo.recompile_limit == 3
        with dynamo.patch("recompile_limit", 4):
            assert dynamo.cache_size_limit == 4
    assert dynamo.recompile_limit == 8

    @dynamo.patch({"recompile_limit": 2})
    def inside():
        return dynamo.recompile_limit

    assert [inside(), inside(), dynamo.recompile_limit] == [2, 2, 8]


def test_a_patch_may_be_used_again_and_inside_itself():
    patch = dynamo.patch(recompile_limit=3)
    for _ in range(2):
        with patch, patch:
            assert dynamo.recompile_limit == 3
        assert dynamo.recompile_limit == 8


def test_a_patch_of_a_class_of_tests_is_around_each():
    seen = []

    @dynamo.patch(recompile_limit=3)
    class Tests(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            seen.append(dynamo.recompile_limit)

        def test(self):
            seen.append(dynamo.recompile_limit)

    assert unittest.defaultTestLoader.loadTestsFromTestCase(Tests).run(unittest.TestResult()).wasSuccessful()
    assert seen == [3, 3] and dynamo.recompile_limit == 8
    with pytest.raises(AssertionError, match="TestCase"):
        dynamo.patch(recompile_limit=3)(type("Other", (), {}))


def test_settings_with_private_names_are_known():
    with pytest.warns(UserWarning, match="'_micro_pipeline_tp' has no effect"), inductor.patch(_micro_pipeline_tp=True):
        assert inductor._micro_pipeline_tp
    assert not inductor._micro_pipeline_tp
    assert inductor.get_serializable_config_copy() == inductor.get_config_copy()


def test_nothing_stays_of_a_patch_that_fails():
    with pytest.raises(TypeError), dynamo.patch(recompile_limit=3, verbose=0):
        pass
    assert dynamo.recompile_limit == 8


def test_types_are_held():
    with pytest.raises(TypeError, match="takes"):
        dynamo.recompile_limit = "many"
    with pytest.raises(TypeError):
        inductor.look_back = "far"


def test_saving_and_loading():
    saved = dynamo.save_config()
    dynamo.recompile_limit = 3
    dynamo.ignore_logging_functions = {"a"}
    changed = dynamo.save_config()
    assert dynamo.codegen_config().splitlines()[0] == "tocha._dynamo.config.recompile_limit = 3"
    assert not dynamo.is_default("recompile_limit")
    dynamo.load_config(saved)
    assert dynamo.recompile_limit == 8 and dynamo.ignore_logging_functions == set() and dynamo.is_default("recompile_limit")  # fmt: skip
    dynamo.load_config(changed)
    assert dynamo.recompile_limit == 3 and dynamo.ignore_logging_functions == {"a"}
    dynamo.load_config(saved)
    whole = dynamo.save_config_portable()
    assert whole["recompile_limit"] == 8
    dynamo.load_config({"recompile_limit": 5})
    assert dynamo.recompile_limit == 5
    dynamo.load_config(saved)
    before = dynamo.get_hash()
    with dynamo.patch(recompile_limit=9):
        assert dynamo.get_hash() != before


def test_groups():
    assert inductor.trace.enabled is False and "enabled" in dir(inductor.trace)
    with inductor.patch({"trace.enabled": True}):
        assert inductor.trace.enabled
    with pytest.raises(AttributeError, match=r"did you mean 'trace.enabled'"):
        inductor.trace.enabeld = True


def test_settings_of_capture_are_known_to_the_compiler():
    with compiler.patch(recompile_limit=6):
        assert dynamo.recompile_limit == 6
    assert dynamo.recompile_limit == 8


def test_names_without_effect_say_so_once(recwarn):
    tocha._functorch.config._said.clear()
    tocha._functorch.config.cse = False
    tocha._functorch.config.cse = False
    assert [str(w.message) for w in recwarn] == ["[tocha._functorch.config] the setting 'cse' has no effect"]


def run(code, **env):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=False)  # fmt: skip


def test_the_environment():
    show = "from tocha._dynamo import config as c; from tocha._inductor import config as i; print(c.verbose, c.repro_level, i.fx_graph_cache)"  # fmt: skip
    env = {"TORCHDYNAMO_VERBOSE": "1", "TORCHDYNAMO_REPRO_LEVEL": "4", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
    assert run(show, **env).stdout == "True 4 False\n"
    said = run(show, TORCHDYNAMO_REPRO_LEVEL="high").stderr
    assert "TORCHDYNAMO_REPRO_LEVEL sets repro_level, which takes int: got 'high'" in said


def test_the_reference_is_what_the_tables_say():
    tool = Path(__file__).parents[2] / "tools" / "config_reference.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_are_reached_from_the_package_alone():
    """Programs set them after `import tocha`, without importing the room."""
    program = "import tocha\nfor m in ('_dynamo', '_inductor', 'compiler'): getattr(tocha, m).config\nprint(tocha._inductor.config.verify)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("holder", "name", "value"),
    [
        (dynamo, "recompile_limit", 3),
        (inductor, "max_autotune", True),
        (inductor.triton, "cudagraphs", True),
        (inductor.trace, "enabled", True),
    ],
)
def test_mock_patches_settings(holder, name, value):
    before = getattr(holder, name)
    with mock.patch.object(holder, name, value):
        assert getattr(holder, name) == value
    assert getattr(holder, name) == before


@pytest.mark.filterwarnings("ignore:.*has no effect")
def test_mock_patches_settings_without_effect():
    for holder, name, value in ((inductor, "allow_buffer_reuse", False), (inductor.triton, "max_tiles", 2)):
        before = getattr(holder, name)
        with mock.patch.object(holder, name, value):
            pass
        assert getattr(holder, name) == before
