"""The models that the demo trains and the benchmarks time: a GPT, a ResNet, an LSTM language model, an MLP.

They use `tocha` as a PyTorch program uses `torch`; benchmarks/models.py loads this very file for both libraries.
"""

from __future__ import annotations

from dataclasses import dataclass

import tocha
from tocha import nn

F = nn.functional


@dataclass
class GPTConfig:
    vocabulary: int = 96
    context: int = 64
    width: int = 128
    layers: int = 4
    heads: int = 4
    dropout: float = 0.0


class Attention(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.project = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            self.project(x).view(batch, length, 3 * self.heads, width // self.heads).transpose(1, 2).chunk(3, dim=1)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.contract(F.gelu(self.expand(self.norm2(x)))))


class GPT(nn.Module):
    """Tokens to logits of the next one, each position looking only at those before it."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens):
        places = tocha.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        return self.head(self.norm(self.blocks(x)))

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    @tocha.no_grad()
    def generate(self, tokens, count: int, temperature: float = 0.8):
        """tokens (batch, length) continued by count more, drawn one by one."""
        for _ in range(count):
            logits = self(tokens[:, -self.config.context :])[:, -1] / temperature
            tokens = tocha.cat([tokens, tocha.multinomial(logits.softmax(-1), 1)], dim=1)
        return tokens


class Residual(nn.Module):
    """Two 3x3 convolutions beside a short cut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Pictures to logits of classes. widths=(64, 128, 256, 512), depth=2 is ResNet-18."""

    def __init__(
        self, classes: int = 1000, widths: tuple[int, ...] = (64, 128, 256, 512), depth: int = 2, large: bool = True
    ):
        super().__init__()
        first = widths[0]
        stem = [nn.Conv2d(3, first, 7, 2, 3, bias=False) if large else nn.Conv2d(3, first, 3, 1, 1, bias=False)]
        stem += [nn.BatchNorm2d(first), nn.ReLU()]
        if large:
            stem.append(nn.MaxPool2d(3, 2, 1))
        self.stem = nn.Sequential(*stem)
        blocks, channels = [], first
        for i, width in enumerate(widths):
            for j in range(depth):
                blocks.append(Residual(channels, width, 2 if i > 0 and j == 0 else 1))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))

    def loss(self, pictures, classes):
        return F.cross_entropy(self(pictures), classes)


class LSTMModel(nn.Module):
    """A language model: embedding, LSTM, logits."""

    def __init__(self, vocabulary: int = 1000, width: int = 128, layers: int = 2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.tokens(tokens))[0])

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


class MLP(nn.Module):
    def __init__(self, width: int = 512, layers: int = 6, classes: int = 10):
        super().__init__()
        hidden = [layer for _ in range(layers - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x)

    def loss(self, x, classes):
        return F.cross_entropy(self(x), classes)
