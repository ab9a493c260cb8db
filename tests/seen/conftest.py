"""Nothing is compiled yet, nothing is logged, nobody listens."""

import pytest

from tocha import _dynamo, _logging


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("TORCH_LOGS", "TOCHA_LOGS", "TORCH_TRACE"):
        monkeypatch.delenv(name, raising=False)
    _dynamo.reset()
    yield
    _logging.set_logs()
    _dynamo.reset()
