"""Architectures of transformers, small and random: outputs, losses, gradient norms, two steps; generated tokens;
gradient checkpointing; the Trainer."""

import tempfile

import torch
import transformers as hf
from recorder import DOUBLE, case, draw, record, tokens, train

hf.logging.set_verbosity_error()
torch.set_num_threads(1)
COMMON = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GPT = {
    "vocab_size": 99,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GENERATORS = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {"head_dim": 8}, "gemma": {"head_dim": 8}, "gemma2": {"head_dim": 8}, "phi": {}, "phi3": {},
    "olmo": {}, "olmo2": {}, "stablelm": {}, "starcoder2": {}, "cohere": {}, "granite": {}, "mixtral": {"num_local_experts": 4}, "gpt_neox": {},
    "gpt2": GPT, "gptj": {**GPT, "rotary_dim": 4}, "codegen": {**GPT, "rotary_dim": 4}, "bloom": {"n_layer": 2, "n_head": 4},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "num_hidden_layers": 2}, "falcon": {}, "mamba": {"state_size": 8}, "persimmon": {}, "nemotron": {},
}  # fmt: skip
ENCODERS = {
    "bert": {}, "roberta": {"max_position_embeddings": 66}, "electra": {"embedding_size": 32}, "albert": {"embedding_size": 16}, "deberta-v2": {},
    "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}, "mpnet": {"max_position_embeddings": 66}, "roformer": {}, "convbert": {},
    "modernbert": {},
}  # fmt: skip
SEQ2SEQ = {
    "t5": {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    "bart": {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 2},
}  # fmt: skip


def configured(kind, options):
    given = options if kind in ("gpt2", "gptj", "codegen") else {**COMMON, **options}
    return hf.AutoConfig.for_model(kind, **given)


def generates(kind, options):
    model = hf.AutoModelForCausalLM.from_config(configured(kind, options), dtype=torch.float32)
    ids = tokens(2, 7)
    train(kind, model, lambda m: m(input_ids=ids, labels=ids)[:2])
    model.eval()
    kwargs = {"max_new_tokens": 6, "min_new_tokens": 6}
    greedy = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **kwargs)
    torch.manual_seed(1)
    sampled = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=10, **kwargs)
    beams = (
        []
        if kind == "mamba"
        else model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=2, **kwargs)
    )
    record(f"{kind} generate", greedy, sampled, beams)


def checkpointed(kind):
    model = hf.AutoModelForCausalLM.from_config(configured(kind, GENERATORS[kind]), dtype=torch.float32)
    model.gradient_checkpointing_enable()
    ids = tokens(2, 7)
    train(f"{kind} checkpointed", model, lambda m: m(input_ids=ids, labels=ids)[:2])


def encodes(kind, options):
    model = hf.AutoModel.from_config(configured(kind, options), dtype=torch.float32)
    train(kind, model, lambda m: m(input_ids=tokens(2, 9))[0])


def translates(kind, options):
    model = hf.AutoModelForSeq2SeqLM.from_config(hf.AutoConfig.for_model(kind, **options), dtype=torch.float32)
    ids = tokens(2, 7)
    train(kind, model, lambda m: m(input_ids=ids, labels=ids)[:2])
    record(f"{kind} generate", model.eval().generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False))


def sees():
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    train("vit", hf.ViTForImageClassification(config), lambda m: m(draw(2, 3, 32, 32)).logits)


def matches():
    text = {
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "eos_token_id": 2,
    }
    vision = {**text, "image_size": 32, "patch_size": 8}
    model = hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    train("clip", model, lambda m: m(input_ids=tokens(2, 7), pixel_values=draw(2, 3, 32, 32)).logits_per_image)


def hears():
    config = hf.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=20, max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    train(
        "whisper", hf.WhisperForConditionalGeneration(config), lambda m: m(draw(2, 16, 40), labels=tokens(2, 5)).logits
    )


def trainer():
    model = hf.AutoModelForCausalLM.from_config(
        configured("llama", {}), dtype=torch.float64 if DOUBLE else torch.float32
    )
    data = [{"input_ids": tokens(8, seed=i), "labels": tokens(8, seed=i)} for i in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        settings = hf.TrainingArguments(
            folder, max_steps=4, per_device_train_batch_size=2, logging_steps=1, report_to=[], use_cpu=True, save_strategy="steps", save_steps=2, seed=3,
            gradient_accumulation_steps=2, learning_rate=1e-3, disable_tqdm=True,
        )  # fmt: skip
        run = hf.Trainer(model, settings, train_dataset=data, eval_dataset=data[:4])
        run.train()
        losses = [entry["loss"] for entry in run.state.log_history if "loss" in entry]
        evaluated = run.evaluate()["eval_loss"]
        again = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/checkpoint-4", dtype=model.dtype)
        same = all(
            torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True)
        )
    record("trainer", losses, evaluated, same)


for kind, options in GENERATORS.items():
    case(kind, lambda k=kind, o=options: generates(k, o))
for kind, options in ENCODERS.items():
    case(kind, lambda k=kind, o=options: encodes(k, o))
for kind, options in SEQ2SEQ.items():
    case(kind, lambda k=kind, o=options: translates(k, o))
for kind in ("llama", "gpt2", "qwen2"):
    case(f"{kind} checkpointed", lambda k=kind: checkpointed(k))
case("vit", sees)
case("clip", matches)
case("whisper", hears)
case("trainer", trainer)
