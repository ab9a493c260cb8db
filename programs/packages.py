"""One real use of each package: a few steps of what it is for, on small random data."""

import importlib
import logging
import os
import tempfile

import numpy as np
import torch
from recorder import DOUBLE, case, draw, record, tokens, train
from torch import nn

logging.disable(logging.WARNING)
torch.set_num_threads(1)
KIND = torch.float64 if DOUBLE else torch.float32
torch.set_default_dtype(KIND)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def labels(count=16):
    return torch.arange(count) % 3


def use_lightning():
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.losses = network(), []

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            self.log("loss", loss)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self):
            found = torch.optim.Adam(self.parameters(), lr=0.01)
            return [found], [torch.optim.lr_scheduler.StepLR(found, 1)]

    data = torch.utils.data.TensorDataset(draw(16, 4), labels())
    with tempfile.TemporaryDirectory() as folder:
        L.seed_everything(1, verbose=False)
        trainer = L.Trainer(
            max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
            gradient_clip_val=0.5,
        )  # fmt: skip
        module = Module()
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
        trainer.save_checkpoint(f"{folder}/c.ckpt")
        state = torch.load(f"{folder}/c.ckpt", weights_only=False)["state_dict"]
    record("lightning", module.losses, state)


def use_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(16, 4), labels()), batch_size=4)
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    losses = []
    for x, y in data:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.gather(loss))
    record("accelerate", losses)


def use_peft():
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    model = get_peft_model(
        LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    )
    ids = tokens(2, 7)
    train("peft", model, lambda m: m(input_ids=ids, labels=ids)[:2])
    record("peft merged", model.merge_and_unload()(input_ids=ids).logits)


def use_diffusers():
    from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).to(KIND)  # fmt: skip
    scheduler = DDPMScheduler(num_train_timesteps=10)
    noisy = scheduler.add_noise(draw(2, 3, 16, 16), draw(2, 3, 16, 16, seed=1), torch.tensor([1, 7]))
    train("diffusers", model, lambda m: m(noisy, torch.tensor([1, 7])).sample)
    pipeline = DDPMPipeline(model, DDIMScheduler(num_train_timesteps=10))
    pipeline.set_progress_bar_config(disable=True)
    image = pipeline(num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np").images
    record("diffusers pipeline", torch.from_numpy(image))


def use_tensorboard():
    """What loggers write through SummaryWriter, as TensorBoard reads it."""
    from accelerate import Accelerator
    from lightning.pytorch.loggers import TensorBoardLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tempfile.TemporaryDirectory() as folder:
        logger = TensorBoardLogger(folder, name="lightning", version="")
        logger.log_hyperparams({"lr": 0.1, "name": "x"}, {"score": 1.5})
        accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=folder)
        accelerator.init_trackers("accelerate", {"lr": 0.1, "batch": 4})
        for step in range(3):
            logger.log_metrics({"loss": torch.tensor(1.0 / (step + 1))}, step)
            accelerator.log({"loss": 2.0 / (step + 1), "parts": {"a": 1.0, "b": 2.0}}, step)
        logger.finalize("success")
        accelerator.end_training()
        found = {}
        for root, _, files in sorted(os.walk(folder)):
            events = EventAccumulator(root).Reload() if any("tfevents" in f for f in files) else None
            for tag in events.Tags()["scalars"] if events else ():
                where = "run" if os.path.basename(root)[0].isdigit() else os.path.relpath(root, folder)
                found[f"{where} {tag}"] = [[e.step, e.value] for e in events.Scalars(tag)]
    record("tensorboard", found)


def use_torchmetrics():
    import torchmetrics as tm

    scores, truth = draw(20, 3, low=0).softmax(1), labels(20)
    options = {"task": "multiclass", "num_classes": 3}
    metrics = tm.MetricCollection(
        [tm.Accuracy(**options), tm.F1Score(**options), tm.AUROC(**options), tm.ConfusionMatrix(**options)]
    )
    metrics.update(scores[:10], truth[:10])
    metrics.update(scores[10:], truth[10:])
    ssim = tm.image.StructuralSimilarityIndexMeasure(data_range=1.0)(
        draw(1, 1, 16, 16, low=0), draw(1, 1, 16, 16, seed=1, low=0)
    )
    record("torchmetrics", dict(metrics.compute()), ssim, tm.functional.pearson_corrcoef(scores[:, 0], scores[:, 1]))


def use_torch_geometric():
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = GCNConv(4, 8), GATConv(8, 8, heads=2), SAGEConv(16, 3)

        def forward(self, batch):
            x = self.a(batch.x, batch.edge_index).relu()
            return global_mean_pool(self.c(self.b(x, batch.edge_index), batch.edge_index), batch.batch)

    edges = torch.from_numpy(np.random.default_rng(0).integers(0, 6, (2, 14)))
    batch = Batch.from_data_list([Data(x=draw(6, 4, seed=i), edge_index=edges) for i in range(3)])
    train("torch_geometric", Graphs(), lambda m: m(batch))


def use_einops():
    from einops import rearrange, reduce, repeat
    from einops.layers.torch import Rearrange

    x = draw(2, 3, 4, 6)
    record(
        "einops",
        rearrange(x, "b c (h a) w -> (b a) h w c", a=2),
        reduce(x, "b c h w -> b c", "max"),
        repeat(x, "b c h w -> b c (r h) w", r=2),
    )
    train("einops layer", nn.Sequential(Rearrange("b c h w -> b (c h w)"), nn.Linear(72, 4)), lambda m: m(x))


def use_safetensors():
    from safetensors.torch import load_file, load_model, save_file, save_model

    with tempfile.TemporaryDirectory() as folder:
        model, other = network(), network(5)
        save_model(model, f"{folder}/m.safetensors")
        load_model(other, f"{folder}/m.safetensors")
        save_file({"half": draw(3, 2).half(), "brain": draw(3).bfloat16(), "ints": labels()}, f"{folder}/t.safetensors")
        record("safetensors", dict(other.state_dict()), load_file(f"{folder}/t.safetensors"))


def use_sentence_transformers():
    from sentence_transformers import SentenceTransformer, losses, models, util
    from transformers import BertConfig, BertModel, BertTokenizer

    with tempfile.TemporaryDirectory() as folder:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *["a", "small", "house", "is", "not", "large", "garden"]]
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write("\n".join(words))
        config = BertConfig(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
        )
        BertModel(config).save_pretrained(folder)
        BertTokenizer(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
        word = models.Transformer(folder, max_seq_length=16)
        model = SentenceTransformer(modules=[word, models.Pooling(32)], device="cpu")
        texts = ["a small house", "not a large garden", "a garden is small"]
        found = model.encode(texts, convert_to_tensor=True)
        record("sentence_transformers", found, util.cos_sim(found, found))
        features = [model.preprocess(texts) if hasattr(model, "preprocess") else model.tokenize(texts)] * 2
        loss = losses.MultipleNegativesRankingLoss(model)(features, None)
        loss.backward()
        record("sentence_transformers loss", loss)


def use_gpytorch():
    import gpytorch

    class GP(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x, likelihood = torch.linspace(0, 1, 20), gpytorch.likelihoods.GaussianLikelihood()
    model = GP(x, torch.sin(6 * x), likelihood)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.1), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = -objective(model(x), torch.sin(6 * x))
        loss.backward()
        optimizer.step()
        losses.append(loss)
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(torch.linspace(0.1, 0.9, 5)))
    record("gpytorch", losses, found.mean, found.variance)


def use_botorch():
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.from_numpy(np.random.default_rng(0).uniform(size=(8, 2)))
    y = -(x - 0.4).square().sum(1, keepdim=True)
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    found = LogExpectedImprovement(model, best_f=y.max())
    torch.manual_seed(0)
    best, value = optimize_acqf(
        found, bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64), q=1, num_restarts=2, raw_samples=16
    )
    record("botorch", best, value, decimals=3)


def use_stable_baselines3():
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(128)
    record("stable_baselines3", dict(model.policy.state_dict()))


def use_opacus():
    from opacus import PrivacyEngine

    model = network()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(16, 4), labels()), batch_size=4)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, data = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=data, noise_multiplier=1.0, max_grad_norm=1.0,
        poisson_sampling=False, noise_generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    record("opacus", losses, engine.get_epsilon(1e-5))


def use_captum():
    from captum.attr import DeepLift, GradientShap, IntegratedGradients, LayerConductance, Occlusion

    model, x = network(), draw(3, 4)
    ig, delta = IntegratedGradients(model).attribute(x, target=1, return_convergence_delta=True)
    torch.manual_seed(0)
    shap = GradientShap(model).attribute(x, baselines=torch.zeros(2, 4), target=0)
    occluded = Occlusion(model).attribute(x, sliding_window_shapes=(2,), target=2)
    record(
        "captum",
        ig,
        delta,
        DeepLift(model).attribute(x, target=1),
        shap,
        occluded,
        LayerConductance(model, model[0]).attribute(x, target=0),
    )


def use_monai():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet
    from monai.transforms import Compose, NormalizeIntensity, RandFlip, Resize

    model = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1)
    target = (draw(2, 1, 32, 32, seed=4) > 0).to(KIND)
    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    train("monai", model, lambda m: loss(m(draw(2, 1, 32, 32)), target))
    chain = Compose([NormalizeIntensity(), RandFlip(prob=0.5), Resize((20, 24))])
    chain.set_random_state(0)
    record("monai transforms", torch.as_tensor(np.asarray(chain(draw(1, 32, 32)))))


def use_skorch():
    from skorch import NeuralNetClassifier

    found = NeuralNetClassifier(
        network(),
        criterion=nn.CrossEntropyLoss,
        max_epochs=3,
        lr=0.1,
        train_split=None,
        verbose=0,
        iterator_train__shuffle=False,
    )
    x = draw(16, 4).numpy()
    found.fit(x, labels().numpy())
    record("skorch", torch.from_numpy(found.predict_proba(x)), found.history[:, "train_loss"])


def use_torchdiffeq():
    from torchdiffeq import odeint, odeint_adjoint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)

        def forward(self, t, y):
            return torch.tanh(self.a(y)) - y

    field, start, times = Field(), draw(3, 2), torch.linspace(0, 1, 5)
    found = odeint(field, start, times, method="dopri5")
    adjoint = odeint_adjoint(field, start, times, method="rk4")
    adjoint.square().sum().backward()
    record("torchdiffeq", found, adjoint, [p.grad for p in field.parameters()])


def use_x_transformers():
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=99,
        max_seq_len=32,
        attn_layers=Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, attn_flash=True),
    )
    train("x_transformers", model, lambda m: m(tokens(2, 9)))


def use_pyro():
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal

    data = draw(20, low=1, high=3)

    def model(data):
        loc = pyro.sample("loc", dist.Normal(0.0, 5.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("obs", dist.Normal(loc, scale), obs=data)

    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    svi = SVI(model, AutoNormal(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(data) for _ in range(5)]
    record("pyro", losses, {k: v for k, v in pyro.get_param_store().items()})


for name in [n.removeprefix("use_") for n in dir() if n.startswith("use_")]:
    case(name, globals()[f"use_{name}"])
assert importlib
