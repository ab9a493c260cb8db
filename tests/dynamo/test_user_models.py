"""Models and training scripts as people write them: the whole forward is one graph, and does what it does uncaptured."""

import copy

import pytest
import user_models as models

import tocha
from tocha._dynamo.testing import CompileCounterWithBackend

TOKENS = tocha.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def close(a, b):
    if isinstance(a, tocha.Tensor):
        tocha.testing.assert_close(a, b)
    elif isinstance(a, dict):
        assert type(a) is type(b) and list(a) == list(b)
        for k in a:
            close(a[k], b[k])
    elif isinstance(a, (tuple, list)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            close(x, y)
    else:
        assert a == b


def made(build):
    tocha.manual_seed(5)
    return build()


def gpt2():
    return models.GPT2Model(models.PretrainedConfig(n_layer=2, n_head=2, n_embd=8, n_positions=16, vocab_size=32))


def images(*shape):
    return tocha.arange(float(tocha.Size(shape).numel())).reshape(shape).sin()


CALLS = {
    "nanoGPT, loss": (lambda: models.GPT(models.GPTConfig()), (TOKENS, TOKENS), {}),
    "nanoGPT, sampling": (lambda: models.GPT(models.GPTConfig(n_layer=1, bias=False)), (TOKENS,), {}),
    "GPT-2, labels": (gpt2, (TOKENS,), {"labels": TOKENS, "attention_mask": tocha.ones(1, 8)}),
    "GPT-2, cache and hidden states": (gpt2, (TOKENS,), {"use_cache": True, "output_hidden_states": True}),
    "GPT-2, tuple": (gpt2, (), {"inputs_embeds": images(1, 4, 8), "return_dict": False}),
    "Llama": (lambda: models.Llama(models.LlamaConfig()), (TOKENS,), {"labels": TOKENS}),
    "Llama, hidden states": (lambda: models.Llama(models.LlamaConfig()), (TOKENS,), {"output_hidden_states": True}),
    "BERT": (lambda: models.Bert().eval(), (TOKENS,), {"output_attentions": True}),
    "BERT, mask": (lambda: models.Bert(act="tanh", pool=False), (TOKENS, tocha.ones(1, 8, 8)), {}),
    "U-Net": (lambda: models.UNet(), (images(1, 1, 10, 12),), {}),
    "U-Net, transposed": (lambda: models.UNet(bilinear=False), (images(1, 1, 8, 8),), {}),
    "ResNet": (lambda: models.ResNet(), (images(2, 3, 16, 16),), {}),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CALLS)
def test_forward_is_one_graph(name, backend):
    build, args, kwargs = CALLS[name]
    counter = CompileCounterWithBackend(backend)
    plain, net = made(build), made(build)
    compiled = tocha.compile(net, backend=counter, fullgraph=True)
    for _ in range(2):
        tocha.manual_seed(11)
        expected = plain(*args, **kwargs)
        tocha.manual_seed(11)
        close(compiled(*args, **kwargs), expected)
    assert counter.frame_count == 1
    close(list(net.buffers()), list(plain.buffers()))


def test_a_training_script():
    def train(net, forward):
        optimizer, losses = net.configure_optimizers(0.1, 1e-2, (0.9, 0.95)), []
        for step in range(4):
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 / (1 + step)
            for micro in range(2):
                _, loss = forward(TOKENS.roll(micro, 1), TOKENS)
                (loss / 2).backward()
            losses.append(loss.item())
            tocha.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return losses, [p.detach().clone() for p in net.parameters()]

    build, counter = CALLS["nanoGPT, loss"][0], CompileCounterWithBackend("aot_eager")
    plain, net = made(build), made(build)
    expected = train(plain, plain)
    found = train(net, tocha.compile(net, backend=counter, fullgraph=True))
    assert found[0] == pytest.approx(expected[0], rel=1e-4)
    for a, b in zip(found[1], expected[1]):
        tocha.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    assert counter.frame_count == 1


def test_generation_with_a_cache_of_tuples():
    net = made(gpt2).eval()
    compiled = tocha.compile(net, backend="eager", fullgraph=True, dynamic=True)

    def generate(call):
        tokens, past = TOKENS[:, :2], None
        with tocha.no_grad():
            for _ in range(4):
                out = call(tokens if past is None else tokens[:, -1:], past_key_values=past, use_cache=True)
                past = out["past_key_values"]
                tokens = tocha.cat([tokens, out["logits"][:, -1].argmax(-1, keepdim=True)], 1)
        return tokens

    assert generate(compiled).tolist() == generate(net).tolist()


def test_generation_with_a_cache_that_is_written_in_place():
    net = made(lambda: models.Llama(models.LlamaConfig())).eval()
    compiled = tocha.compile(net, backend="eager", fullgraph=True)

    def run(call):
        cache = models.StaticCache(net.config, 8)
        with tocha.no_grad():
            found = [call(TOKENS[:, :3], cache)["logits"], *(call(TOKENS[:, n : n + 1], cache).logits for n in (3, 4, 5))]  # fmt: skip
        return found, cache.keys, cache.seen

    close(run(compiled), run(net))


def test_a_copy_of_a_compiled_model_and_its_state():
    build = CALLS["ResNet"][0]
    compiled = tocha.compile(made(build), backend="eager", fullgraph=True)
    other = copy.deepcopy(compiled)
    assert all(k.startswith("_orig_mod.") for k in compiled.state_dict())
    other.load_state_dict(compiled.state_dict())
    x = images(2, 3, 16, 16)
    compiled.eval(), other.eval()
    close(other(x), compiled(x))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("ends", [[5, 3, 4], [5, 5, 5], None])
def test_an_encoder_with_padding_in_inference(norm, ends):
    """Whether padding stands at the ends decides by elements what inference gives there: one graph all the same."""
    layer = tocha.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = tocha.nn.TransformerEncoder(layer, 2, norm=tocha.nn.LayerNorm(16) if norm else None).eval()
    if norm:
        tocha.nn.init.ones_(encoder.norm.bias)
    x = tocha.randn(3, 5, 16)
    padding = tocha.tensor([[False, True, False, False, True]] * 3)
    if ends is not None:
        padding = tocha.arange(5) >= tocha.tensor(ends)[:, None]
    counter = CompileCounterWithBackend("aot_eager")
    compiled = tocha.compile(encoder, backend=counter, fullgraph=True)
    with tocha.no_grad():
        expected = encoder(x, src_key_padding_mask=padding)
        tocha.testing.assert_close(compiled(x, src_key_padding_mask=padding), expected)
        compiled(x, src_key_padding_mask=padding.flip(0))
    assert counter.frame_count == 1
    assert bool((expected[padding] == norm).all()) is (ends is not None)
