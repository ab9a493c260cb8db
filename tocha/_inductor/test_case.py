"""The same test case, where each test finds an empty cache on disk."""

from __future__ import annotations

import contextlib

from tocha._dynamo import test_case
from tocha._dynamo.test_case import run_tests
from tocha._inductor import config
from tocha._inductor.utils import fresh_cache

__all__ = ["TestCase", "run_tests"]


class TestCase(test_case.TestCase):
    """What a test compiles is compiled for it, and removed after it."""

    def setUp(self) -> None:
        super().setUp()
        self._around = contextlib.ExitStack()
        self._around.enter_context(config.patch(fx_graph_cache=True))
        self._around.enter_context(fresh_cache())

    def tearDown(self) -> None:
        super().tearDown()
        self._around.close()
