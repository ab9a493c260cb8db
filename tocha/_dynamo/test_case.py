"""A test case between whose tests nothing that was compiled is left, and no counts."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterable

from tocha import _C
from tocha._dynamo import config, reset, utils
from tocha.testing._internal import common_utils

__all__ = ["TestCase", "run_tests"]

log = logging.getLogger(__name__)


def run_tests(needs: str | Iterable[str] = ()) -> None:
    """Runs the tests of the program's main module, if the modules that they need are installed ("cuda": if there is one)."""
    for need in [needs] if isinstance(needs, str) else needs:
        there = common_utils.TEST_CUDA if need == "cuda" else importlib.util.find_spec(need) is not None
        if not there:
            return
    common_utils.run_tests()


class TestCase(common_utils.TestCase):
    """Before and after each test what was compiled is forgotten, and counts are cleared. Errors of the compiler are errors of the test."""

    _settings: contextlib.ExitStack

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls._settings = contextlib.ExitStack()
        cls._settings.enter_context(config.patch(suppress_errors=False))

    @classmethod
    def tearDownClass(cls) -> None:
        cls._settings.close()
        super().tearDownClass()

    def setUp(self) -> None:
        self._had_grad = _C.is_grad_enabled()
        super().setUp()
        reset()
        utils.counters.clear()

    def tearDown(self) -> None:
        reset()
        utils.counters.clear()
        super().tearDown()
        if _C.is_grad_enabled() != self._had_grad:
            log.warning("Running test changed grad mode")
            _C._set_grad_enabled(self._had_grad)
