"""Whether pictures lie with channels last between convolutions: what is measured, the copies, and that results lie as before."""

from __future__ import annotations

import pytest

import tocha
from tests.test_inductor_kernels import randn
from tocha import nn
from tocha._inductor import layouts, tuning
from tocha._logging import events


@pytest.fixture
def choices(tmp_path, monkeypatch):
    """What was chosen, in an empty cache and with nothing compiled yet."""
    tocha.compiler.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    seen = []
    with events.listening(lambda e: seen.append(e) if isinstance(e, events.LayoutChosen) else None):
        yield seen


class Block(nn.Module):
    def __init__(self, channels: int = 16):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return (x + self.second(self.norm(self.first(x)).relu())).relu()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), nn.MaxPool2d(2), Block())
        self.last = nn.Linear(16 * 4 * 4, 5)

    def forward(self, x):
        y = self.blocks(x)
        return y, self.last(y.flatten(1))


def prefers(monkeypatch, last: bool) -> None:
    def seconds(node):
        if layouts.is_copy(node):
            return 1e-3
        is_last = layouts.value_of(node.args[0]).is_contiguous(memory_format=tocha.channels_last)
        return 1.0 if is_last == last else 2.0

    monkeypatch.setattr(layouts, "seconds_of", seconds)


def run(model, x, **options):
    f = tocha.compile(model, options={"max_autotune": True, **options})
    with tocha.no_grad():
        return f(x), model(x)


def same(got, expected):
    assert got.stride() == expected.stride()
    tocha.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("freezing", [False, True])
def test_a_network_with_channels_last(choices, monkeypatch, freezing):
    prefers(monkeypatch, last=True)
    tocha.manual_seed(0)
    model = Network().eval()
    got, expected = run(model, randn(3, 16, 8, 8), freezing=freezing)
    for a, b in zip(got, expected, strict=True):
        same(a, b)
    (choice,) = choices
    assert choice.chosen == "channels last"
    assert choice.copies == 3  # the input; what the last layer reads, and the result
    assert choice.last == pytest.approx(4 * 1.0 + 3e-3) and choice.given == pytest.approx(4 * 2.0)


def test_an_input_that_lies_so_already(choices, monkeypatch):
    prefers(monkeypatch, last=True)
    model = Block().eval()
    x = randn(3, 16, 8, 8).contiguous(memory_format=tocha.channels_last)
    got, expected = run(model, x)
    same(got, expected)
    assert got.is_contiguous(memory_format=tocha.channels_last)
    assert [c.copies for c in choices] == [0]


def test_what_is_faster_as_it_lies_stays(choices, monkeypatch):
    prefers(monkeypatch, last=False)
    got, expected = run(Block().eval(), randn(3, 16, 8, 8))
    same(got, expected)
    assert [c.chosen for c in choices] == ["as given"]


def test_measured_once(choices, monkeypatch):
    measured = []
    shortest = tuning.shortest
    monkeypatch.setattr(tuning, "shortest", lambda run: measured.append(1) or shortest(run))
    model = Block().eval()
    got, expected = run(model, randn(3, 16, 8, 8))
    same(got, expected)
    number = len(measured)
    assert number >= 4  # two convolutions, two layouts
    tocha.compiler.reset()
    same(*run(model, randn(3, 16, 8, 8), freezing=True))
    assert len(choices) == 2
    assert len(measured) - number <= 2  # frozen weights are the same sizes; a norm that was folded changes nothing here


def test_where_nothing_is_chosen(choices):
    model = Block().train()
    x = randn(3, 16, 8, 8)
    tocha.compile(model, options={"max_autotune": True})(x).sum().backward()  # with gradients
    same(*run(nn.Linear(4, 4), randn(3, 4)))
    same(*run(Block().eval(), x, layout_optimization=False))
    assert choices == []


def test_volumes(choices, monkeypatch):
    prefers(monkeypatch, last=False)
    got, expected = run(nn.Sequential(nn.Conv3d(4, 8, 3), nn.ReLU()), randn(2, 4, 6, 6, 6))
    same(got, expected)
    assert len(choices) == 1
