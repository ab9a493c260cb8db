"""Whole models, differentiated ahead of time with a symbolic batch size, partitioned and interpreted: training is what it is in eager mode."""

import sys
from pathlib import Path

import pytest

import tocha
from tocha import fx, nn
from tocha._functorch.aot_autograd import aot_module_simplified
from tocha._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from tocha._subclasses.fake_tensor import FakeTensorMode
from tocha.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from models import GPT, GPTConfig, LSTMModel, ResNet

F = nn.functional
STEPS, TRACED, OTHERS = 10, 6, (3, 7, 11)


class Translator(nn.Module):
    """A Transformer encoder and decoder over tokens."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(13, 16)
        self.transformer = nn.Transformer(16, 2, 2, 2, 20, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 13)

    def loss(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        found = self.transformer(self.tokens(source), self.tokens(target), tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(found).flatten(0, 1), target.flatten())


class EveryNorm(nn.Module):
    """A layer of each kind of normalisation, one after the other."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.pictures = nn.ModuleList(
            [nn.BatchNorm2d(4), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.GroupNorm(2, 4),
             nn.LocalResponseNorm(3), nn.LayerNorm([4, 5, 5])]
        )  # fmt: skip
        self.line = nn.utils.parametrizations.weight_norm(nn.Linear(100, 10))
        self.rows = nn.ModuleList([nn.BatchNorm1d(10), nn.RMSNorm(10), nn.LayerNorm(10)])
        self.head = nn.Linear(10, 4)

    def loss(self, pictures, classes):
        x = self.conv(pictures)
        for norm in self.pictures:
            x = x + norm(x).relu()
        x = self.line(x.flatten(1))
        for norm in self.rows:
            x = x + norm(x).tanh()
        return F.cross_entropy(self.head(F.normalize(x, dim=1)), classes)


def tokens(vocabulary, length):
    return lambda n: (tocha.randint(vocabulary, (n, length)), tocha.randint(vocabulary, (n, length)))


def pictures(size, classes):
    return lambda n: (tocha.randn(n, 3, size, size), tocha.randint(classes, (n,)))


MODELS = {
    "GPT": (lambda: GPT(GPTConfig(vocabulary=17, context=9, width=16, layers=2, heads=2)), tokens(17, 9)),
    "ResNet-18": (lambda: ResNet(classes=5, widths=(4, 8, 12, 16), depth=2), pictures(32, 5)),
    "LSTM": (lambda: LSTMModel(vocabulary=19, width=8, layers=2), tokens(19, 5)),
    "Transformer": (Translator, tokens(13, 8)),
    "norms": (EveryNorm, pictures(5, 4)),
}


class Interpreted:
    """A compiler that goes through the graph node by node."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, _):
        self.graphs += 1
        graph.graph.lint()
        return fx.Interpreter(graph).run


def training(model, call, batches):
    """What there is after some steps: losses, parameters and buffers."""
    optimizer = tocha.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = call(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(t.detach().clone() for t in model.state_dict().values())]


class Loss(nn.Module):
    """A model's loss; counts how often it runs."""

    def __init__(self, model):
        super().__init__()
        self.model, self.calls = model, 0

    def forward(self, *batch):
        self.calls += 1
        return self.model.loss(*batch)


def symbolic_batch(batch):
    """Fakes whose first size is a symbol, the same for all."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    found = []
    for t in batch:
        sizes = [DimDynamic.DUCK, *[DimDynamic.STATIC] * (t.dim() - 1)]
        found.append(mode.from_tensor(t, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)))
    return found


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
@pytest.mark.parametrize("name", MODELS)
def test_training_is_what_it_is_in_eager_mode(name, partition):
    make, batch = MODELS[name]
    tocha.manual_seed(1)
    batches = [batch(n) for n in (*[TRACED] * (STEPS - len(OTHERS)), *OTHERS)]
    results = []
    for how in ("eager", "ahead"):
        tocha.manual_seed(0)
        model = make()
        if how == "eager":
            results.append(training(model, model.loss, batches))
            continue
        compiler, loss = Interpreted(), Loss(model)
        call = aot_module_simplified(loss, symbolic_batch(batches[0]), compiler, partition_fn=partition)
        results.append(training(model, call, batches))
        assert loss.calls == 1, "other batch sizes are not traced again"
        assert compiler.graphs == 2
    for eager, ours in zip(*results, strict=True):
        tocha.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
