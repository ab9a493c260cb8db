"""Shared test set-up: repeatable random numbers, deterministic hypothesis."""

from __future__ import annotations

import importlib.util
import os

import hypothesis
import pytest

hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _seed():
    import tocha

    tocha.manual_seed(0)


def pytest_ignore_collect(collection_path, config):
    # Parity tests need PyTorch, which only `make parity` installs.
    return True if "parity" in collection_path.parts and importlib.util.find_spec("torch") is None else None
