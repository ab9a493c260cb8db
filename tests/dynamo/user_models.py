"""Models as people write them: configurations, caches, optional arguments, outputs with names. Small, but of the usual shape."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import tocha
import tocha.nn.functional as F
from tocha import nn


class ModelOutput(OrderedDict):
    """Outputs by name, by key and by number."""

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None:
                self[f.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclass
class LanguageOutput(ModelOutput):
    loss: tocha.Tensor | None = None
    logits: tocha.Tensor | None = None
    hidden_states: tuple | None = None


# ---- in the manner of nanoGPT


@dataclass
class GPTConfig:
    block_size: int = 16
    vocab_size: int = 32
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 8
    dropout: float = 0.0
    bias: bool = True


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(tocha.ones(ndim))
        self.bias = nn.Parameter(tocha.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout
        self.flash = hasattr(F, "scaled_dot_product_attention") and config.n_layer % 2 == 0
        if not self.flash:
            mask = tocha.tril(tocha.ones(config.block_size, config.block_size))
            self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if self.flash:
            dropout = self.dropout if self.training else 0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=dropout, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = LayerNorm(config.n_embd, config.bias), LayerNorm(config.n_embd, config.bias)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.2)

    def forward(self, idx, targets=None):
        _b, t = idx.size()
        assert t <= self.config.block_size, f"sequence of length {t}, block size is only {self.config.block_size}"
        pos = tocha.arange(0, t, dtype=tocha.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits, loss = self.lm_head(x[:, [-1], :]), None
        return logits, loss

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        named = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return tocha.optim.AdamW(groups, lr=learning_rate, betas=betas)


# ---- in the manner of Hugging Face's GPT-2, with a cache


class PretrainedConfig:
    def __init__(self, **kwargs):
        self.use_return_dict, self.output_hidden_states = True, False
        for k, v in kwargs.items():
            setattr(self, k, v)


class GPT2Attention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.num_heads, self.head_dim, self.layer_idx = config.n_head, config.n_embd // config.n_head, layer_idx
        self.c_attn, self.c_proj = nn.Linear(config.n_embd, 3 * config.n_embd), nn.Linear(config.n_embd, config.n_embd)
        size = config.n_positions
        self.register_buffer("bias", tocha.tril(tocha.ones(size, size, dtype=tocha.bool)).view(1, 1, size, size), persistent=False)  # fmt: skip

    def _split_heads(self, tensor):
        return tensor.view(tensor.size()[:-1] + (self.num_heads, self.head_dim)).permute(0, 2, 1, 3)

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False):
        query, key, value = map(self._split_heads, self.c_attn(hidden_states).chunk(3, dim=2))
        if layer_past is not None:
            key, value = tocha.cat((layer_past[0], key), dim=-2), tocha.cat((layer_past[1], value), dim=-2)
        present = (key, value) if use_cache is True else None
        weights = query @ key.transpose(-1, -2) / tocha.full([], self.head_dim**0.5, dtype=value.dtype)
        query_length, key_length = query.size(-2), key.size(-2)
        causal = self.bias[:, :, key_length - query_length : key_length, :key_length]
        weights = tocha.where(causal, weights, tocha.finfo(weights.dtype).min)
        if attention_mask is not None:
            weights = weights + attention_mask
        out = F.softmax(weights, dim=-1).type(value.dtype) @ value
        out = out.permute(0, 2, 1, 3).contiguous()
        return self.c_proj(out.view(out.size()[:-2] + (self.num_heads * self.head_dim,))), present


class GPT2Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte, self.wpe = nn.Embedding(config.vocab_size, config.n_embd), nn.Embedding(config.n_positions, config.n_embd)  # fmt: skip
        self.h = nn.ModuleList()
        for i in range(config.n_layer):
            block = nn.Module()
            block.ln_1, block.attn, block.mlp = nn.LayerNorm(config.n_embd), GPT2Attention(config, layer_idx=i), nn.Linear(config.n_embd, config.n_embd)  # fmt: skip
            self.h.append(block)
        self.ln_f = nn.LayerNorm(config.n_embd)

    def forward(self, input_ids=None, past_key_values=None, attention_mask=None, inputs_embeds=None, labels=None, use_cache=None, output_hidden_states=None, return_dict=None, **kwargs):  # fmt: skip
        output_hidden_states = output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states  # fmt: skip
        return_dict = return_dict if return_dict is not None else self.config.use_return_dict
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
        past_length = 0 if past_key_values is None else past_key_values[0][0].size(-2)
        embeds = self.wte(input_ids) if inputs_embeds is None else inputs_embeds
        positions = tocha.arange(past_length, past_length + embeds.size(1)).unsqueeze(0)
        hidden, presents, all_hidden = embeds + self.wpe(positions), () if use_cache else None, () if output_hidden_states else None  # fmt: skip
        mask = None if attention_mask is None else (1.0 - attention_mask[:, None, None, :].to(hidden.dtype)) * tocha.finfo(hidden.dtype).min  # fmt: skip
        for block, layer_past in zip(self.h, past_key_values or [None] * len(self.h)):
            if output_hidden_states:
                all_hidden = all_hidden + (hidden,)
            attended, present = block.attn(block.ln_1(hidden), layer_past=layer_past, attention_mask=mask, use_cache=use_cache)  # fmt: skip
            hidden = hidden + attended
            hidden = hidden + F.gelu(block.mlp(hidden), approximate="tanh")
            if use_cache is True:
                presents = presents + (present,)
        logits = F.linear(self.ln_f(hidden), self.wte.weight)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[..., :-1, :].reshape(-1, logits.size(-1)), labels[..., 1:].reshape(-1))
        if not return_dict:
            return tuple(v for v in [loss, logits, presents, all_hidden] if v is not None)
        return {k: v for k, v in dict(loss=loss, logits=logits, past_key_values=presents, hidden_states=all_hidden).items() if v is not None}  # fmt: skip


# ---- in the manner of Llama, with a cache that is an object


@dataclass
class LlamaConfig:
    dim: int = 8
    n_heads: int = 4
    n_kv_heads: int = 2
    n_layers: int = 2
    vocab_size: int = 32
    eps: float = 1e-5
    theta: float = 10000.0
    scaling: dict = field(default_factory=lambda: {"factor": 2.0})


class StaticCache:
    """Keys and values that were computed before, written in place."""

    def __init__(self, config, length):
        shape = (1, config.n_kv_heads, length, config.dim // config.n_heads)
        self.keys = [tocha.zeros(shape) for _ in range(config.n_layers)]
        self.values = [tocha.zeros(shape) for _ in range(config.n_layers)]
        self.seen = 0

    def update(self, key, value, layer):
        end = self.seen + key.shape[2]
        self.keys[layer][:, :, self.seen : end] = key
        self.values[layer][:, :, self.seen : end] = value
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(tocha.ones(dim)), eps

    def forward(self, x):
        kind = x.dtype
        x = x.to(tocha.float32)
        return self.weight * (x * tocha.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)).to(kind)

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.eps}"


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return tocha.cat((-b, a), dim=-1)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, head = config, config.dim // config.n_heads
        self.embed = nn.Embedding(config.vocab_size, config.dim)
        inverse = 1.0 / (config.theta ** (tocha.arange(0, head, 2).float() / head)) / config.scaling["factor"]
        self.register_buffer("inv_freq", inverse, persistent=False)
        self.layers = nn.ModuleList()
        for _ in range(config.n_layers):
            self.layers.append(
                nn.ModuleDict({
                    "norm": RMSNorm(config.dim, config.eps), "q": nn.Linear(config.dim, config.dim, bias=False),
                    "k": nn.Linear(config.dim, head * config.n_kv_heads, bias=False), "v": nn.Linear(config.dim, head * config.n_kv_heads, bias=False),
                    "o": nn.Linear(config.dim, config.dim, bias=False), "post": RMSNorm(config.dim, config.eps),
                    "gate": nn.Linear(config.dim, 16, bias=False), "up": nn.Linear(config.dim, 16, bias=False), "down": nn.Linear(16, config.dim, bias=False),
                })
            )  # fmt: skip
        self.norm = RMSNorm(config.dim, config.eps)

    @tocha.no_grad()
    def rotary(self, positions):
        angles = positions[:, None].float() @ self.inv_freq[None]
        angles = tocha.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def attend(self, layer, index, x, rotary, cache):
        batch, length, _ = x.shape
        q, k, v = (layer[n](x).view(batch, length, -1, self.config.dim // self.config.n_heads).transpose(1, 2) for n in "qkv")  # fmt: skip
        cos, sin = rotary
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if cache is not None:
            k, v = cache.update(k, v, index)
        groups = self.config.n_heads // self.config.n_kv_heads
        k, v = (t[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return layer["o"](out.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, tokens, cache: StaticCache | None = None, *, labels=None, output_hidden_states: bool = False):
        past = 0 if cache is None else cache.seen
        rotary = self.rotary(tocha.arange(past, past + tokens.shape[1]))
        x, kept = self.embed(tokens), []
        for index, layer in enumerate(self.layers):
            if output_hidden_states:
                kept.append(x)
            x = x + self.attend(layer, index, layer["norm"](x), rotary, cache)
            y = layer["post"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        if cache is not None:
            cache.seen += tokens.shape[1]
        logits = self.norm(x) @ self.embed.weight.t()
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return LanguageOutput(loss=loss, logits=logits, hidden_states=tuple(kept) if output_hidden_states else None)


# ---- in the manner of BERT


class BertOutput(NamedTuple):
    last_hidden_state: tocha.Tensor
    pooled: tocha.Tensor | None
    attentions: list


ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "tanh": tocha.tanh}


class Bert(nn.Module):
    def __init__(self, vocab=32, dim=8, heads=2, layers=2, act="gelu", pool=True):
        super().__init__()
        self.embeddings = nn.ModuleDict(dict(word=nn.Embedding(vocab, dim, padding_idx=0), position=nn.Embedding(16, dim), kind=nn.Embedding(2, dim)))  # fmt: skip
        self.norm, self.dropout = nn.LayerNorm(dim), nn.Dropout(0.1)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(qkv=nn.Linear(dim, 3 * dim), out=nn.Linear(dim, dim), up=nn.Linear(dim, 2 * dim), down=nn.Linear(2 * dim, dim), a=nn.LayerNorm(dim), b=nn.LayerNorm(dim))) for _ in range(layers))  # fmt: skip
        self.heads, self.act, self.pooler = heads, ACTIVATIONS[act], nn.Linear(dim, dim) if pool else None
        self.register_buffer("position_ids", tocha.arange(16).expand((1, -1)))

    def get_extended_attention_mask(self, mask, dtype):
        if mask.dim() == 3:
            extended = mask[:, None, :, :]
        elif mask.dim() == 2:
            extended = mask[:, None, None, :]
        else:
            raise ValueError(f"Wrong shape for attention_mask (shape {mask.shape})")
        return (1.0 - extended.to(dtype=dtype)) * tocha.finfo(dtype).min

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, output_attentions=False):
        shape = input_ids.size()
        if attention_mask is None:
            attention_mask = tocha.ones(shape)
        if token_type_ids is None:
            token_type_ids = tocha.zeros(shape, dtype=tocha.long)
        e = self.embeddings
        x = e["word"](input_ids) + e["position"](self.position_ids[:, : shape[1]]) + e["kind"](token_type_ids)
        x, mask, found = self.dropout(self.norm(x)), self.get_extended_attention_mask(attention_mask, x.dtype), []
        for layer in self.layers:
            q, k, v = layer["qkv"](x).view(*shape, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            weights = (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1)
            if output_attentions:
                found.append(weights)
            x = layer["a"](x + layer["out"]((weights @ v).transpose(1, 2).reshape(*shape, -1)))
            x = layer["b"](x + layer["down"](self.act(layer["up"](x))))
        return BertOutput(x, self.pooler(x[:, 0]).tanh() if self.pooler is not None else None, found)


# ---- pictures


class DoubleConv(nn.Sequential):
    def __init__(self, before, after):
        super().__init__(
            *(m for i in range(2) for m in (nn.Conv2d(after if i else before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)))
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, channels=1, classes=2, widths=(4, 8), bilinear=True):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        for w in widths:
            self.downs.append(DoubleConv(channels, w))
            channels = w
        self.bottom, self.pool, self.bilinear = DoubleConv(channels, 2 * channels), nn.MaxPool2d(2), bilinear
        for w in reversed(widths):
            up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else nn.ConvTranspose2d(2 * w, w, 2, stride=2)  # fmt: skip
            self.ups.append(nn.ModuleList([up, DoubleConv(3 * w if bilinear else 2 * w, w)]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for (up, conv), skip in zip(self.ups, skips[::-1]):
            x = up(x)
            dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = conv(tocha.cat([skip, x], dim=1))
        return self.head(x)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False), norm_layer(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), norm_layer(planes)
        self.relu, self.downsample = nn.ReLU(inplace=True), downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block=BasicBlock, layers=(1, 1), num_classes=5):
        super().__init__()
        self.inplanes = 4
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(4)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)
        for i, count in enumerate(layers):
            setattr(self, f"layer{i + 1}", self._make_layer(block, 4 * 2**i, count, 1 + (i > 0)))
        self.avgpool, self.fc, self.count = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(4 * 2 ** (len(layers) - 1), num_classes), len(layers)  # fmt: skip

    def _make_layer(self, block, planes, blocks, stride):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(nn.Conv2d(self.inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        made = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        made += [block(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*made)

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for i in range(self.count):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(tocha.flatten(self.avgpool(x), 1))

    def forward(self, x):
        return self._forward_impl(x)
