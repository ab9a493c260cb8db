"""Shared test set-up: repeatable random numbers, deterministic hypothesis, caches of compiled kernels."""

from __future__ import annotations

import importlib.util
import os
import sys

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _seed():
    import tocha

    tocha.manual_seed(0)


@pytest.fixture
def kernel_cache(tmp_path_factory, monkeypatch):
    """Compiled kernels are kept for this run of the tests, and shared by its tests."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


@pytest.fixture
def empty_kernel_cache(tmp_path, monkeypatch):
    """Nothing has been compiled before the test."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))


def pytest_ignore_collect(collection_path, config):
    # Parity tests need PyTorch, which only `make parity` installs.
    return True if "parity" in collection_path.parts and importlib.util.find_spec("torch") is None else None


@pytest.fixture(autouse=True)
def layers_of_its_own():
    """Layers of one form share what was captured of them, and which of their sizes change: not those of two tests."""
    frames = sys.modules.get("tocha._dynamo.eval_frame")
    if frames is not None:
        frames._CODES.clear()


@pytest.fixture
def programs(monkeypatch):
    """The programs that are made."""
    from tocha._inductor import compilation, config

    made, compile_graph = [], compilation.compile_graph

    def keep(module):
        made.append(compile_graph(module))
        return made[-1]

    monkeypatch.setattr(compilation, "compile_graph", keep)
    with config.patch(force_disable_caches=True):
        yield made


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of caches."""
    codecache = importlib.import_module("tocha._inductor.codecache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    codecache.precompiled_flags.cache_clear()
    yield tmp_path / "cache"
    codecache.precompiled_flags.cache_clear()
