"""More packages that depend on torch, those that are installed: a use of what each is for.

They are no part of `make programs`' environments: `pip install` some of them there to try them.
"""

import tempfile

import torch
from installed import KIND, installed, network
from recorder import draw, record, tokens, train
from torch import nn


def images():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 5)
    )


def use_tensordict():
    from tensordict import TensorDict, lazy_stack
    from tensordict.nn import TensorDictModule

    model = network()
    data = TensorDict({"x": draw(3, 4), "in": {"y": torch.arange(3)}}, batch_size=[3])
    out = TensorDictModule(model, in_keys=["x"], out_keys=["h"])(data.clone())
    weights = TensorDict.from_module(model)
    ensemble = torch.stack([weights, weights.apply(lambda t: t * 0.5)], 0)

    def run(x, weights):
        with weights.to_module(model):
            return model(x)

    found = [
        out["h"],
        torch.vmap(run, (None, 0))(data["x"], ensemble),
        torch.vmap(lambda d: d.apply(lambda t: t * 2))(data)["x"],
        torch.vmap(lambda d: d["x"].sum())(lazy_stack([data, data.clone()], 0)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        data.memmap_(folder)
        found.append(TensorDict.load_memmap(folder)["x"].sum())
    record("tensordict", found)


def use_torchrl():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    body = nn.Sequential(MLP(4, 4, num_cells=[8]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    value = ValueOperator(MLP(4, 1, num_cells=[8]), in_keys=["observation"])
    no = torch.zeros(2, 5, 1, dtype=torch.bool)
    following = {"observation": draw(2, 5, 4, seed=1), "reward": draw(2, 5, 1), "done": no, "terminated": no}
    data = TensorDict(
        {
            "observation": draw(2, 5, 4),
            "action": draw(2, 5, 2) * 0.8,
            "action_log_prob": -draw(2, 5, low=0),
            "next": following,
        },
        [2, 5],
    )
    GAE(gamma=0.9, lmbda=0.95, value_network=value, average_gae=True)(data)
    loss = ClipPPOLoss(actor, value)
    out = loss(data)
    (out["loss_objective"] + out["loss_critic"]).backward()
    buffer = ReplayBuffer(storage=LazyTensorStorage(100))
    buffer.extend(data.reshape(-1))
    record(
        "torchrl",
        data["advantage"],
        [out["loss_objective"], out["loss_critic"]],
        [p.grad for p in loss.parameters() if p.grad is not None],
        len(buffer),
    )


def use_torchaudio():
    import torchaudio.functional as F
    import torchaudio.transforms as T
    from torchaudio.models import Conformer

    x = draw(2, 1000).requires_grad_()
    filtered = F.lowpass_biquad(x, 8000, 1000.0)
    filtered.square().sum().backward()
    sound = x.detach()
    found = [filtered, x.grad, F.overdrive(sound), F.phaser(sound[:1], 8000), T.Resample(8000, 5000)(sound)]
    found += [T.MelSpectrogram(8000, n_fft=256, n_mels=16)(sound.float()), T.AmplitudeToDB()(sound.abs())]
    path, scores = F.forced_align((draw(1, 12, 5) * 3).log_softmax(-1), torch.tensor([[1, 2, 2, 3]]), blank=0)
    logits = draw(2, 6, 4, 5).float().requires_grad_()
    targets, frames, symbols = (torch.tensor(v, dtype=torch.int32) for v in ([[1, 2, 3], [2, 1, 0]], [6, 5], [3, 2]))
    loss = F.rnnt_loss(logits, targets, frames, symbols, blank=4)
    loss.backward()
    record("torchaudio", found, path, scores, loss, logits.grad)
    train(
        "torchaudio Conformer",
        Conformer(16, 2, 32, 1, 3),
        lambda m: m.eval()(draw(2, 10, 16), torch.tensor([10, 8]))[0],
    )


def use_lion_pytorch():
    from lion_pytorch import Lion

    train("lion_pytorch", network(), lambda m: m(draw(6, 4)), lambda p: Lion(p, lr=1e-2, weight_decay=0.1), steps=4)


def use_pytorch_grad_cam():
    from pytorch_grad_cam import EigenCAM, GradCAM, HiResCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    model, found = images().to(KIND), []
    for method in (GradCAM, HiResCAM, EigenCAM):
        with method(model=model, target_layers=[model[0]]) as cam:
            found.append(cam(input_tensor=draw(2, 3, 16, 16), targets=[ClassifierOutputTarget(1)] * 2))
    record("pytorch_grad_cam", [torch.from_numpy(f) for f in found])


def use_lpips():
    import lpips

    x, y = draw(1, 3, 64, 64), draw(1, 3, 64, 64, seed=1)
    x.requires_grad_()
    loss = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, verbose=False).to(KIND).eval()(x, y)
    loss.sum().backward()
    record("lpips", loss, x.grad)


def use_piq():
    import piq

    x, y = draw(1, 3, 96, 96, low=0), draw(1, 3, 96, 96, seed=1, low=0)
    x.requires_grad_()
    found = [
        f(x, y, data_range=1.0) for f in (piq.ssim, piq.psnr, piq.vif_p, piq.fsim, piq.gmsd, piq.haarpsi, piq.mdsi)
    ]
    found.append(piq.total_variation(x))
    sum(f.sum() for f in found).backward()
    record("piq", found, x.grad)


def use_thop():
    import thop

    record("thop", list(thop.profile(images(), (draw(1, 3, 16, 16),), verbose=False)))


def use_pykeen():
    from pykeen.datasets import Nations
    from pykeen.models import ComplEx, DistMult, RotatE, TransE

    triples = Nations().training
    for model in (TransE, DistMult, RotatE, ComplEx):
        made = model(triples_factory=triples, embedding_dim=8, random_seed=0).to(KIND)
        scores = made.score_hrt(triples.mapped_triples[:16])
        scores.sum().backward()
        record(f"pykeen {model.__name__}", scores, [p.grad for p in made.parameters()])


def use_torchani():
    from torchani.aev import AEVComputer

    made = AEVComputer.like_2x() if hasattr(AEVComputer, "like_2x") else AEVComputer.like_1x()
    where = (draw(1, 5, 3) * 2).requires_grad_()
    out = made.to(KIND)(torch.tensor([[0, 1, 2, 0, 0]]), where)
    out = out.aevs if hasattr(out, "aevs") else out
    out.square().sum().backward()
    record("torchani", out, where.grad)


def use_encodec():
    from encodec.modules import SEANetDecoder, SEANetEncoder

    size = {"channels": 1, "dimension": 16, "n_filters": 4, "ratios": [4, 2], "lstm": 1}
    encoder, decoder = SEANetEncoder(**size).to(KIND), SEANetDecoder(**size).to(KIND)
    x = draw(1, 1, 256).requires_grad_()
    out = decoder(encoder(x))
    out.square().sum().backward()
    record("encodec", out, x.grad)


def use_nnAudio():
    from nnAudio.features import MFCC, STFT, CQT1992v2, MelSpectrogram

    x = draw(1, 8192)
    made = [
        STFT(n_fft=256, hop_length=64, verbose=False),
        MelSpectrogram(sr=8000, n_fft=256, n_mels=16, hop_length=64, verbose=False),
        MFCC(sr=8000, n_mfcc=8, n_fft=256, n_mels=16, hop_length=64, verbose=False),
        CQT1992v2(sr=8000, hop_length=64, n_bins=24, fmin=110, verbose=False),
    ]
    record("nnAudio", [m.to(KIND)(x) for m in made])


def use_torchcrepe():
    import torchcrepe

    torch.manual_seed(0)
    model = torchcrepe.Crepe("tiny").eval()
    record("torchcrepe", model(draw(2, 1024)))


def use_torch_audiomentations():
    from torch_audiomentations import Compose, Gain, PolarityInversion

    augment = Compose([Gain(p=1.0), PolarityInversion(p=0.5)], output_type="tensor")
    torch.manual_seed(0)
    record("torch_audiomentations", augment(draw(2, 1, 800), sample_rate=8000))


def use_asteroid_filterbanks():
    from asteroid_filterbanks import STFTFB, Decoder, Encoder, FreeFB

    found = []
    for bank in (FreeFB, STFTFB):
        x = draw(1, 1, 256).requires_grad_()
        out = Decoder(bank(32, 16, stride=8))(Encoder(bank(32, 16, stride=8))(x))
        out.square().sum().backward()
        found += [out, x.grad]
    record("asteroid_filterbanks", found)


def use_speechbrain():
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN
    from speechbrain.nnet.losses import ctc_loss

    model = (
        ECAPA_TDNN(input_size=16, lin_neurons=8, channels=[16, 16, 16, 16, 48], attention_channels=8).to(KIND).eval()
    )
    features = Fbank(n_mels=16).to(KIND)(draw(2, 4000))
    scores = torch.log_softmax(draw(2, 8, 6), -1)
    loss = ctc_loss(scores, tokens(2, 3, below=6), torch.ones(2), torch.ones(2), blank_index=0)
    record("speechbrain", features, model(draw(2, 30, 16)), loss)


def use_tensorly():
    import tensorly as tl
    from tensorly.decomposition import parafac, tucker

    tl.set_backend("pytorch")
    x = draw(4, 5, 6)
    core, factors = tucker(x, rank=[2, 3, 2], init="svd")
    weights, parts = parafac(x, rank=2, init="svd", n_iter_max=5)
    record("tensorly", tl.tucker_to_tensor((core, factors)), tl.cp_to_tensor((weights, parts)), tl.unfold(x, 1))


def use_torchopt():
    import torchopt

    model = network()
    optimizer = torchopt.MetaAdam(model, lr=0.1)
    for _ in range(2):
        optimizer.step(nn.functional.cross_entropy(model(draw(12, 4)), torch.arange(12) % 3))
    loss = nn.functional.cross_entropy(model(draw(12, 4, seed=1)), torch.arange(12) % 3)
    record("torchopt", loss)


def use_curvlinops():
    import curvlinops

    model, data = network(), [(draw(6, 4), torch.arange(6) % 3)]
    found = []
    for operator in (curvlinops.HessianLinearOperator, curvlinops.GGNLinearOperator, curvlinops.EFLinearOperator):
        made = operator(model, nn.CrossEntropyLoss(), [p for p in model.parameters()], data)
        found.append(made @ draw(made.shape[1]))
    record("curvlinops", found)


def use_torchjd():
    from torchjd.aggregation import MGDA, Mean, Sum

    record("torchjd", [made(draw(3, 5)) for made in (MGDA(), Mean(), Sum())])


def use_xitorch():
    from xitorch.interpolate import Interp1D
    from xitorch.optimize import rootfinder

    scale = draw(3, low=1, high=2).double().requires_grad_()
    root = rootfinder(lambda y, a: y**3 + a * y - 1, torch.zeros(3, dtype=torch.float64), params=(scale,))
    root.sum().backward()
    x = torch.linspace(0, 1, 8, dtype=torch.float64)
    record(
        "xitorch",
        root,
        scale.grad,
        Interp1D(x, torch.sin(x), method="cspline")(torch.tensor([0.3], dtype=torch.float64)),
    )


def use_torchdyn():
    from torchdyn.core import NeuralODE

    made = NeuralODE(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), solver="rk4", sensitivity="adjoint")
    path = made(draw(3, 2), torch.linspace(0, 1, 5))[1]
    path.square().sum().backward()
    record("torchdyn", path, [p.grad for p in made.parameters() if p.grad is not None])


def use_neurodiffeq():
    from neurodiffeq import diff
    from neurodiffeq.networks import FCNN

    model = FCNN(n_input_units=1, n_output_units=1, hidden_units=(8, 8)).to(KIND)
    t = torch.linspace(0, 1, 6, dtype=KIND).reshape(-1, 1).requires_grad_()
    u = model(t)
    loss = (diff(u, t, order=2) + u).square().mean()
    loss.backward()
    record("neurodiffeq", loss, [p.grad for p in model.parameters() if p.grad is not None])


def use_mmengine():
    from mmengine.model import BaseModule, ExponentialMovingAverage
    from mmengine.optim import build_optim_wrapper

    class Small(BaseModule):
        def __init__(self):
            super().__init__()
            self.body = network()

        def forward(self, x):
            return self.body(x)

    model = Small()
    wrapper = build_optim_wrapper(model, {"optimizer": {"type": "SGD", "lr": 0.1}, "clip_grad": {"max_norm": 1.0}})
    average, losses = ExponentialMovingAverage(model), []
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(draw(12, 4)), torch.arange(12) % 3)
        wrapper.update_params(loss)
        average.update_parameters(model)
        losses.append(loss)
    record("mmengine", losses, average(draw(2, 4)))


def use_segment_anything():
    from segment_anything.modeling import ImageEncoderViT, PromptEncoder

    encoder = ImageEncoderViT(
        img_size=64, patch_size=8, embed_dim=32, depth=2, num_heads=2, out_chans=16, use_rel_pos=True, window_size=4,
        global_attn_indexes=(1,),
    )  # fmt: skip
    train("segment_anything", encoder, lambda m: m(draw(1, 3, 64, 64)))
    prompts = PromptEncoder(embed_dim=16, image_embedding_size=(8, 8), input_image_size=(64, 64), mask_in_chans=4)
    record("segment_anything prompts", prompts.to(KIND)((draw(1, 2, 2), torch.ones(1, 2)), None, None))


def use_local_attention():
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=99, dim=16, depth=2, max_seq_len=32, causal=True, local_attn_window_size=8, dim_head=8, heads=2
    )
    train("local_attention", model, lambda m: m(tokens(1, 32)))


def use_linear_attention_transformer():
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=99, dim=16, heads=2, depth=1, max_seq_len=32, causal=True, dim_head=8
    )
    train("linear_attention_transformer", model, lambda m: m(tokens(1, 32)))


def use_performer_pytorch():
    from performer_pytorch import PerformerLM

    torch.manual_seed(0)
    model = PerformerLM(num_tokens=99, max_seq_len=32, dim=16, depth=1, heads=2, dim_head=8, nb_features=16)
    train("performer_pytorch", model, lambda m: m(tokens(1, 32)))


def use_reformer_pytorch():
    from reformer_pytorch import LSHSelfAttention

    model = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=2, dim_head=8, random_rotations_per_head=False)
    torch.manual_seed(0)
    record("reformer_pytorch", model.to(KIND)(draw(1, 16, 16)))


def use_rtdl_revisiting_models():
    from rtdl_revisiting_models import FTTransformer, ResNet

    kwargs = FTTransformer.get_default_kwargs(n_blocks=1) | {"attention_n_heads": 2, "d_block": 16}
    model = FTTransformer(n_cont_features=4, cat_cardinalities=[3, 5], d_out=2, **kwargs).eval()
    train("rtdl FTTransformer", model, lambda m: m.eval()(draw(6, 4), torch.arange(12).reshape(6, 2) % 3))
    model = ResNet(
        d_in=4, d_out=2, n_blocks=2, d_block=16, d_hidden=None, d_hidden_multiplier=2.0, dropout1=0.0, dropout2=0.0
    )
    train("rtdl ResNet", model, lambda m: m(draw(6, 4)))


def use_tab_transformer_pytorch():
    from tab_transformer_pytorch import TabTransformer

    model = TabTransformer(categories=(3, 5), num_continuous=4, dim=8, dim_out=1, depth=1, heads=2)
    train("tab_transformer_pytorch", model.eval(), lambda m: m.eval()(torch.arange(12).reshape(6, 2) % 3, draw(6, 4)))


def use_torchquad():
    from torchquad import Boole, Simpson

    def f(x):
        return torch.sin(x[:, 0]) * torch.exp(x[:, 1])

    domain = [[0.0, 1.0], [0.0, 2.0]]
    found = [r().integrate(f, dim=2, N=625, integration_domain=domain, backend="torch") for r in (Simpson, Boole)]
    record("torchquad", found)


def use_torchao():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(torch.float32)
    quantize_(model, Int8WeightOnlyConfig())
    record("torchao", model(draw(4, 32).float()))


def use_adapters():
    import adapters
    from transformers import BertConfig, BertModel

    model = BertModel(
        BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=99)
    )
    adapters.init(model)
    model.add_adapter("a", config="seq_bn")
    model.train_adapter("a")
    train("adapters", model.eval(), lambda m: m.eval()(tokens(2, 8)).last_hidden_state)


def use_gliner():
    from gliner.modeling.layers import LstmSeq2SeqEncoder

    class Config:
        hidden_size, num_rnn_layers = 16, 1

    model = (
        LstmSeq2SeqEncoder(Config())
        if "config" in LstmSeq2SeqEncoder.__init__.__code__.co_varnames
        else LstmSeq2SeqEncoder(16, 8)
    )
    record("gliner", model.to(KIND)(draw(2, 5, 16), torch.ones(2, 5, dtype=torch.long)))


def use_flair():
    from flair.nn.dropout import LockedDropout, WordDropout

    torch.manual_seed(0)
    record("flair", LockedDropout(0.5)(draw(3, 4, 5)), WordDropout(0.5)(draw(3, 4, 5)))


def use_pytorch_forecasting():
    from pytorch_forecasting.metrics import MAE, SMAPE, NormalDistributionLoss, QuantileLoss
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
        GatedResidualNetwork,
        InterpretableMultiHeadAttention,
    )

    train("pytorch_forecasting GRN", GatedResidualNetwork(8, 16, 8, 0.0), lambda m: m(draw(2, 5, 8)))
    attention = InterpretableMultiHeadAttention(n_head=2, d_model=8, dropout=0.0).to(KIND)
    losses = [
        QuantileLoss()(draw(2, 5, 7), draw(2, 5, seed=1)),
        MAE()(draw(2, 5), draw(2, 5, seed=1)),
        SMAPE()(draw(2, 5), draw(2, 5, seed=1)),
    ]
    record("pytorch_forecasting", attention(draw(2, 5, 8), draw(2, 5, 8), draw(2, 5, 8)), losses)
    assert NormalDistributionLoss


def use_setfit():
    from setfit.modeling import SetFitHead

    train("setfit", SetFitHead(in_features=8, out_features=3), lambda m: m(draw(6, 8))[0])


def use_bitsandbytes():
    import bitsandbytes.functional as F

    x = draw(8, 64).float()
    packed, state = F.quantize_blockwise(x, blocksize=64)
    record("bitsandbytes", packed, F.dequantize_blockwise(packed, state), state.absmax)


def use_snntorch():
    import snntorch as snn
    from snntorch import surrogate

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)
            self.s, self.t = (snn.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid()) for _ in range(2))

        def forward(self, x):
            m, n, found = self.s.init_leaky(), self.t.init_leaky(), []
            for _ in range(5):
                spikes, m = self.s(self.a(x), m)
                _, n = self.t(self.b(spikes), n)
                found.append(n)
            return torch.stack(found)

    train("snntorch", Net(), lambda m: m(draw(3, 4, low=0, high=4)))


def use_torch_pruning():
    import torch_pruning as tp

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    ).to(KIND)
    x = draw(2, 3, 12, 12)
    pruner = tp.pruner.BasePruner(
        model, x, importance=tp.importance.GroupMagnitudeImportance(), pruning_ratio=0.5, ignored_layers=[model[-1]]
    )
    pruner.step()
    record(
        "torch_pruning",
        [list(p.shape) for p in model.parameters()],
        model.eval()(x),
        list(tp.utils.count_ops_and_params(model, x)),
    )


def use_pytorch_warmup():
    import pytorch_warmup as warmup

    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule, warm, rates = (
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        warmup.UntunedLinearWarmup(optimizer),
        [],
    )
    for _ in range(5):
        optimizer.step()
        with warm.dampening():
            schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    record("pytorch_warmup", rates)


installed(globals())
