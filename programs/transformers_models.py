"""Architectures of transformers, small and random: outputs, losses, gradient norms, two steps; generated tokens;
gradient checkpointing; the Trainer.

Sizes in the tables are added to those that most architectures have in common, where they do not begin with a vocabulary.
"""

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
BERT = {k: v for k, v in COMMON.items() if k != "num_key_value_heads"}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GENERATORS = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {"head_dim": 8}, "gemma": {"head_dim": 8}, "gemma2": {"head_dim": 8}, "phi": {}, "phi3": {},
    "olmo": {}, "olmo2": {}, "stablelm": {}, "starcoder2": {}, "cohere": {}, "granite": {}, "mixtral": {"num_local_experts": 4}, "gpt_neox": {},
    "gpt2": GPT, "gptj": {**GPT, "rotary_dim": 4}, "codegen": {**GPT, "rotary_dim": 4}, "bloom": {"n_layer": 2, "n_head": 4},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32, "num_hidden_layers": 2}, "falcon": {}, "mamba": {"state_size": 8}, "persimmon": {}, "nemotron": {},
    "gpt_neo": {**GPT, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gpt_bigcode": GPT, "mpt": {**GPT, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "expansion_ratio": 2},
    "xglm": {**GPT, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "max_position_embeddings": 64}, "biogpt": BERT,
    "rwkv": {**BERT, "attention_hidden_size": 32, "context_length": 64}, "recurrent_gemma": {"num_hidden_layers": 3, "head_dim": 8, "lru_width": 32},
    "mamba2": {"state_size": 8, "head_dim": 16, "num_heads": 4, "n_groups": 1, "chunk_size": 4}, "qwen3_moe": {**EXPERTS, "head_dim": 8},
    "deepseek_v3": {
        **EXPERTS, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 1,
    },
    "gpt_oss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, "phimoe": {"num_local_experts": 4}, "gemma3_text": {"head_dim": 8},
    "glm4": {"head_dim": 8}, "lfm2": {"layer_types": ["conv", "full_attention"]},
    "jamba": {
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2,
        "mamba_d_state": 8, "use_mamba_kernels": False,
    },
}  # fmt: skip
WITHOUT_BEAMS = ("mamba", "mamba2", "rwkv", "recurrent_gemma")
ENCODERS = {
    "bert": {}, "roberta": {"max_position_embeddings": 66}, "electra": {"embedding_size": 32}, "albert": {"embedding_size": 16}, "deberta-v2": {},
    "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}, "mpnet": {"max_position_embeddings": 66}, "roformer": {}, "convbert": {},
    "modernbert": {}, "longformer": {"attention_window": 4, "max_position_embeddings": 66}, "big_bird": {"attention_type": "original_full"},
    "nystromformer": {"num_landmarks": 3, "segment_means_seq_len": 9}, "fnet": {}, "ibert": {}, "esm": {"position_embedding_type": "rotary", "mask_token_id": 4},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "squeezebert": {
        "embedding_size": 32,
        **{f"{part}_groups": 1 for part in ("q", "k", "v", "post_attention", "intermediate", "output")},
    },
}  # fmt: skip
T5 = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
BART = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 2,
}  # fmt: skip
MARIAN = {**BART, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64}
SEQ2SEQ = {
    "t5": T5, "bart": BART, "marian": MARIAN, "m2m_100": MARIAN, "longt5": {**T5, "local_radius": 4},
    "led": {**BART, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64, "attention_window": 4},
    "prophetnet": {
        "vocab_size": 99, "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 0,
    },
}  # fmt: skip
VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
STAGES = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}
IMAGES = {
    "vit": VIT, "beit": {**VIT, "use_relative_position_bias": True}, "dinov2": VIT, "swin": SWIN, "swinv2": SWIN, "convnextv2": STAGES, "poolformer": STAGES,
    "segformer": {**STAGES, "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16},
    "pvt_v2": {**STAGES, "hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 1, 2, 2], "image_size": 64},
    "mobilevit": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 16, 16, 24, 24, 32, 64], "image_size": 64},
    "bit": {"embedding_size": 32, "hidden_sizes": [32, 32], "depths": [1, 1], "num_groups": 8},
    "focalnet": {
        "image_size": 32, "embed_dim": 16, "depths": [1, 1], "focal_levels": [1, 1], "focal_windows": [3, 3], "hidden_sizes": [16, 32],
    },
}  # fmt: skip
WAVES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": [16, 16], "conv_stride": [4, 4],
    "conv_kernel": [8, 8], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "vocab_size": 32, "apply_spec_augment": False, "layerdrop": 0.0,
}  # fmt: skip
SOUNDS = {
    "wav2vec2": WAVES,
    "wavlm": WAVES,
    "sew": {**WAVES, "squeeze_factor": 2},
    "sew-d": {**WAVES, "squeeze_factor": 2},
}


def configured(kind, options):
    return hf.AutoConfig.for_model(kind, **options if "vocab_size" in options else {**COMMON, **options})


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
        if kind in WITHOUT_BEAMS
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
    model = hf.AutoModelForSeq2SeqLM.from_config(configured(kind, options), dtype=torch.float32)
    ids = tokens(2, 7)
    train(kind, model, lambda m: m(input_ids=ids, labels=ids)[:2])
    record(f"{kind} generate", model.eval().generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False))


def sees(kind, options):
    config, size = hf.AutoConfig.for_model(kind, num_labels=5, **options), options.get("image_size", 64)
    model = hf.AutoModelForImageClassification.from_config(config, dtype=torch.float32)
    train(kind, model, lambda m: m(draw(2, 3, size, size)).logits)


def listens(kind, options):
    model = hf.AutoModel.from_config(configured(kind, options), dtype=torch.float32)
    train(kind, model, lambda m: m(draw(2, 800))[0])


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


TABLES = (
    (generates, GENERATORS), (encodes, ENCODERS), (translates, SEQ2SEQ), (sees, IMAGES), (listens, SOUNDS),
)  # fmt: skip
for use, table in TABLES:
    for kind, options in table.items():
        case(kind, lambda u=use, k=kind, o=options: u(k, o))
for kind in ("llama", "gpt2", "qwen2"):
    case(f"{kind} checkpointed", lambda k=kind: checkpointed(k))
case("clip", matches)
case("whisper", hears)
case("trainer", trainer)
