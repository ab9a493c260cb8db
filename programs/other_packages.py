"""Packages that depend on torch beside the named ones, those that are installed: a use of what each is for.

They are no part of `make programs`' environments: `pip install` some of them there to try them.
"""

import torch
from installed import KIND, installed, network
from recorder import draw, record, tokens, train
from torch import nn


def use_kornia():
    import kornia as K

    x = draw(1, 3, 16, 16, low=0)
    x.requires_grad_()
    matrix = K.geometry.get_rotation_matrix2d(torch.tensor([[8.0, 8.0]]), torch.tensor([30.0]), torch.ones(1, 2))
    turned = K.geometry.warp_affine(x, matrix, (16, 16))
    found = [
        turned,
        K.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)),
        K.filters.sobel(x),
        K.color.rgb_to_lab(x),
        K.enhance.equalize_clahe(x.detach().clamp(0, 1)),
        K.feature.harris_response(K.color.rgb_to_grayscale(x)),
        K.losses.ssim_loss(x, draw(1, 3, 16, 16, seed=1, low=0), 5),
    ]
    (turned.sum() + found[1].square().sum() + found[6]).backward()
    torch.manual_seed(0)
    augment = K.augmentation.AugmentationSequential(
        K.augmentation.RandomAffine(20.0, p=1.0), K.augmentation.RandomHorizontalFlip(p=0.5), data_keys=["input"]
    )
    record("kornia", found, x.grad, augment(x.detach()))


def use_ignite():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    model, losses = network(), []
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(16, 4), torch.arange(16) % 3), batch_size=4)
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss())
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(nn.CrossEntropyLoss())})
    trainer.on(Events.ITERATION_COMPLETED)(lambda engine: losses.append(engine.state.output))
    trainer.run(data, max_epochs=2)
    evaluator.run(data)
    record("ignite", losses, dict(evaluator.state.metrics))


def use_pytorch_metric_learning():
    from pytorch_metric_learning import distances, losses, miners, reducers

    found = []
    for loss in (
        losses.TripletMarginLoss(distance=distances.CosineSimilarity(), reducer=reducers.MeanReducer()),
        losses.ContrastiveLoss(),
        losses.NTXentLoss(),
        losses.ArcFaceLoss(3, 8),
        losses.ProxyAnchorLoss(3, 8),
    ):
        x = draw(12, 8).requires_grad_()
        y = torch.arange(12) % 3
        pairs = miners.MultiSimilarityMiner()(x, y)
        value = loss(x, y, pairs)
        value.backward()
        found += [value, x.grad]
    record("pytorch_metric_learning", found)


def use_segmentation_models_pytorch():
    import segmentation_models_pytorch as smp

    for name in ("Unet", "FPN", "DeepLabV3Plus"):
        model = getattr(smp, name)("resnet18", encoder_weights=None, classes=2)
        train(f"smp {name}", model, lambda m: m(draw(2, 3, 64, 64)))
    loss = smp.losses.DiceLoss("multiclass")(draw(2, 3, 8, 8), torch.arange(128).reshape(2, 8, 8) % 3)
    record("smp loss", loss)


def use_open_clip():
    import open_clip

    vision = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 16}
    text = {"context_length": 16, "vocab_size": 99, "width": 32, "heads": 2, "layers": 2}
    model = open_clip.CLIP(32, vision, text)
    train("open_clip", model, lambda m: m(draw(2, 3, 32, 32), tokens(2, 16))[:2])


def use_torchsde():
    import torchsde

    class SDE(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def f(self, t, y):
            return self.a(y)

        def g(self, t, y):
            return self.b(y).sigmoid()

    sde, start, times = SDE(), draw(4, 3), torch.linspace(0, 1, 5)
    motion = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), dtype=KIND, entropy=3)
    paths = torchsde.sdeint(sde, start, times, bm=motion, dt=0.1, method="euler")
    paths.square().sum().backward()
    record("torchsde", paths, [p.grad for p in sde.parameters()])


def use_e3nn():
    from e3nn import nn as enn
    from e3nn import o3

    x = draw(5, 3)
    product = o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 2x1o")
    sphere = o3.spherical_harmonics("1x0e + 1x1o", x, normalize=True)
    gate = enn.Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
    given = draw(5, 5).requires_grad_()
    out = product(given, sphere)
    gated = gate(draw(5, gate.irreps_in.dim))
    out.square().sum().backward()
    record("e3nn", sphere, out, gated, given.grad, o3.wigner_3j(1, 1, 2), o3.rand_matrix().det().round())


def use_entmax():
    import entmax

    x = draw(4, 6).requires_grad_()
    found = [entmax.sparsemax(x, dim=1), entmax.entmax15(x, dim=1), entmax.entmax_bisect(x, alpha=1.3, dim=1)]
    sum(f.square().sum() for f in found).backward()
    record("entmax", found, x.grad)


def use_vector_quantize_pytorch():
    from vector_quantize_pytorch import FSQ, ResidualVQ, VectorQuantize

    x = draw(2, 10, 8)
    vq = VectorQuantize(dim=8, codebook_size=16, decay=0.8)
    record(
        "vector_quantize", vq(x), ResidualVQ(dim=8, num_quantizers=2, codebook_size=8)(x), FSQ([8, 5, 5])(x[..., :3])
    )


def use_vit_pytorch():
    from vit_pytorch import SimpleViT, ViT

    size = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}
    train("vit_pytorch ViT", ViT(**size), lambda m: m(draw(2, 3, 32, 32)))
    train("vit_pytorch SimpleViT", SimpleViT(**size), lambda m: m(draw(2, 3, 32, 32)))


def use_zuko():
    import zuko

    flow = zuko.flows.NSF(3, context=2, transforms=2, hidden_features=(16, 16))
    x, context = draw(6, 3), draw(6, 2, seed=1)
    loss = -flow(context).log_prob(x).mean()
    loss.backward()
    torch.manual_seed(0)
    record("zuko", loss, [p.grad for p in flow.parameters()], flow(context).sample((2,)))


def use_geoopt():
    import geoopt

    ball = geoopt.PoincareBall()
    x = geoopt.ManifoldParameter(draw(4, 3) * 0.3, manifold=ball)
    optimizer = geoopt.optim.RiemannianAdam([x], lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = ball.dist(x, draw(4, 3, seed=1) * 0.3).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    record("geoopt", losses, x.data)


def use_pytorch_msssim():
    from pytorch_msssim import ms_ssim, ssim

    x, y = draw(1, 3, 180, 180, low=0), draw(1, 3, 180, 180, seed=1, low=0)
    x.requires_grad_()
    found = ssim(x, y, data_range=1.0), ms_ssim(x, y, data_range=1.0)
    sum(found).backward()
    record("pytorch_msssim", found, x.grad)


def _optimized(name, make):
    model = network()
    optimizer, losses = make(model.parameters()), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(draw(12, 4)), torch.arange(12) % 3)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    record(name, losses)


def use_torch_optimizer():
    import torch_optimizer

    for name in ("Lamb", "RAdam", "Yogi", "AdaBound", "Lookahead", "Shampoo", "AdaBelief"):
        if name == "Lookahead":
            _optimized(name, lambda p: torch_optimizer.Lookahead(torch.optim.SGD(p, 0.1), k=2))
        else:
            _optimized(name, lambda p, n=name: getattr(torch_optimizer, n)(p, lr=0.01))


def use_higher():
    import higher

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with higher.innerloop_ctx(model, optimizer) as (inner, steps):
        for _ in range(2):
            steps.step(nn.functional.cross_entropy(inner(draw(12, 4)), torch.arange(12) % 3))
        loss = nn.functional.cross_entropy(inner(draw(12, 4, seed=1)), torch.arange(12) % 3)
        loss.backward()
    record("higher", loss, [p.grad for p in model.parameters()])


def use_backpack():
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, DiagGGNExact, Variance

    model, loss = extend(network()), extend(nn.CrossEntropyLoss())
    with backpack(BatchGrad(), DiagGGNExact(), Variance()):
        loss(model(draw(6, 4)), torch.arange(6) % 3).backward()
    record("backpack", [(p.grad_batch, p.diag_ggn_exact, p.variance) for p in model.parameters()])


def use_julius():
    import julius

    x = draw(2, 400).requires_grad_()
    found = [
        julius.resample_frac(x, 4, 3),
        julius.lowpass_filter(x, 0.1),
        julius.fft_conv1d(x[:, None], draw(3, 1, 40)),
    ]
    sum(f.square().sum() for f in found).backward()
    record("julius", found, x.grad)


def use_auraloss():
    import auraloss

    x = draw(2, 1, 4096).requires_grad_()
    y = draw(2, 1, 4096, seed=1)
    found = [
        auraloss.freq.MultiResolutionSTFTLoss()(x, y),
        auraloss.time.SISDRLoss()(x, y),
        auraloss.time.SNRLoss()(x, y),
    ]
    sum(found).backward()
    record("auraloss", found, x.grad)


def use_efficientnet_pytorch():
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0")
    record("efficientnet_pytorch", model.eval()(draw(2, 3, 64, 64)))


def use_torchcrf():
    from torchcrf import CRF

    model = CRF(5, batch_first=True)
    x = draw(3, 6, 5).requires_grad_()
    loss = -model(x, torch.arange(18).reshape(3, 6) % 5)
    loss.backward()
    record("torchcrf", loss, x.grad, model.decode(x))


def use_nflows():
    from nflows import distributions, flows, transforms

    chain = transforms.CompositeTransform(
        [
            transforms.MaskedAffineAutoregressiveTransform(3, 16),
            transforms.ReversePermutation(3),
            transforms.LULinear(3),
        ]
    )
    flow = flows.Flow(chain, distributions.StandardNormal([3]))
    loss = -flow.log_prob(draw(8, 3)).mean()
    loss.backward()
    torch.manual_seed(0)
    record("nflows", loss, [p.grad for p in flow.parameters() if p.grad is not None], flow.sample(4))


def use_torchcde():
    import torchcde

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 12)

        def forward(self, t, z):
            return self.a(z).tanh().view(*z.shape[:-1], 4, 3)

    x = draw(2, 8, 3)
    path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
    field = Field()
    out = torchcde.cdeint(X=path, func=field, z0=draw(2, 4), t=path.interval, method="rk4", adjoint=False)
    out.square().sum().backward()
    record("torchcde", out, [p.grad for p in field.parameters()])


def use_pytorch_tabnet():
    from pytorch_tabnet.tab_network import TabNet

    train(
        "tabnet",
        TabNet(6, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6)),
        lambda m: m(draw(16, 6))[0],
    )


def use_perceiver_pytorch():
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=3, max_freq=10.0, depth=2, num_latents=8, latent_dim=16, cross_heads=1, latent_heads=2,
        cross_dim_head=8, latent_dim_head=8, num_classes=5,
    )  # fmt: skip
    train("perceiver_pytorch", model, lambda m: m(draw(2, 8, 8, 3)))


def use_denoising_diffusion_pytorch():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    model = GaussianDiffusion(
        Unet(dim=16, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=10, sampling_timesteps=3
    )
    loss = model(draw(2, 3, 16, 16, low=0))
    loss.backward()
    torch.manual_seed(0)
    record("denoising_diffusion", loss, model.sample(batch_size=1))


def use_torchattacks():
    import torchattacks

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    x, y = draw(4, 3, 8, 8, low=0), torch.arange(4) % 3
    record("torchattacks", torchattacks.FGSM(model)(x, y), torchattacks.PGD(model, steps=3, random_start=False)(x, y))


def use_torchinfo():
    import torchinfo

    found = torchinfo.summary(network(), (2, 4), verbose=0)
    record("torchinfo", found.total_params, found.total_mult_adds, str(found))


def use_lightly():
    from lightly.loss import BarlowTwinsLoss, DINOLoss, NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead

    head = SimCLRProjectionHead(8, 8, 4)
    a, b = head(draw(6, 8)), head(draw(6, 8, seed=1))
    losses = [NTXentLoss()(a, b), BarlowTwinsLoss()(a, b), DINOLoss(4)([a.detach(), b.detach()], [a, b], epoch=1)]
    sum(losses).backward()
    record("lightly", losses, [p.grad for p in head.parameters()])


def use_fastai():
    from fastai.basics import SGD, DataLoader, DataLoaders, Learner
    from fastai.callback import progress  # no_bar

    rows = [(draw(4, seed=i), i % 3) for i in range(16)]
    data = DataLoaders(DataLoader(rows, bs=4, shuffle=False), DataLoader(rows, bs=4))
    learner = Learner(data, network(), loss_func=nn.CrossEntropyLoss(), opt_func=SGD, lr=0.1)
    with learner.no_bar(), learner.no_logging():
        learner.fit(2)
    assert progress
    record("fastai", [list(values) for values in learner.recorder.values])


def use_laplace():
    from laplace import Laplace

    model = network()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(16, 4), torch.arange(16) % 3), batch_size=4)
    found = Laplace(model, "classification", subset_of_weights="last_layer", hessian_structure="full")
    found.fit(data)
    record("laplace", found(draw(3, 4)), found.log_marginal_likelihood())


def use_sbi():
    from sbi.neural_nets.net_builders import build_maf

    flow = build_maf(draw(20, 2), draw(20, 3, seed=1), hidden_features=8, num_transforms=2)
    loss = flow.loss(draw(5, 2), draw(5, 3)).mean()
    loss.backward()
    record("sbi", loss, [p.grad for p in flow.parameters() if p.grad is not None])


def use_trl():
    from trl.trainer.utils import selective_log_softmax

    record("trl", selective_log_softmax(draw(2, 5, 9), tokens(2, 5, below=9)))


def use_torchio():
    import torchio

    torch.manual_seed(0)
    subject = torchio.Subject(image=torchio.ScalarImage(tensor=draw(1, 12, 12, 12).float()))
    record(
        "torchio",
        torchio.Compose([torchio.RescaleIntensity((0, 1)), torchio.RandomFlip(), torchio.Resample(2)])(
            subject
        ).image.data,
    )


def use_escnn():
    from escnn import gspaces
    from escnn import nn as enn

    space = gspaces.rot2dOnR2(4)
    a, b = enn.FieldType(space, [space.trivial_repr] * 3), enn.FieldType(space, [space.regular_repr] * 2)
    model = enn.SequentialModule(enn.R2Conv(a, b, 3), enn.InnerBatchNorm(b), enn.ReLU(b))
    train("escnn", model, lambda m: m(enn.GeometricTensor(draw(2, 3, 9, 9), a)).tensor)


def use_tianshou():
    from tianshou.utils.net.common import Net

    train("tianshou", Net(state_shape=4, action_shape=2, hidden_sizes=[8, 8]), lambda m: m(draw(5, 4).numpy())[0])


def use_ultralytics():
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False)
    record("ultralytics", model.to(KIND).eval()(draw(1, 3, 64, 64))[0])


def use_normflows():
    import normflows

    base = normflows.distributions.base.DiagGaussian(2)
    chain = [
        normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2], init_zeros=False)),
        normflows.flows.Permute(2, mode="swap"),
    ]
    model = normflows.NormalizingFlow(base, chain)
    loss = model.forward_kld(draw(6, 2))
    loss.backward()
    record("normflows", loss, [p.grad for p in model.parameters() if p.grad is not None])


def use_fvcore():
    from fvcore.nn import FlopCountAnalysis

    record("fvcore", FlopCountAnalysis(network(), draw(2, 4)).total())


def use_neuralop():
    from neuralop.models import FNO

    train(
        "neuralop",
        FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2),
        lambda m: m(draw(2, 1, 16, 16)),
    )


def use_pytorch_optimizer():
    import pytorch_optimizer

    for name in ("Lion", "Adan", "SOAP", "Prodigy", "ScheduleFreeAdamW"):
        _optimized(f"pytorch_optimizer {name}", lambda p, n=name: getattr(pytorch_optimizer, n)(list(p), lr=0.01))


def use_rotary_embedding_torch():
    from rotary_embedding_torch import RotaryEmbedding

    record("rotary", RotaryEmbedding(dim=8).rotate_queries_or_keys(draw(1, 2, 6, 16)))


def use_ema_pytorch():
    from ema_pytorch import EMA

    model = network()
    average = EMA(model, beta=0.9, update_after_step=0, update_every=1)
    for _ in range(3):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        average.update()
    record("ema_pytorch", average(draw(2, 4)))


def use_deepinv():
    from deepinv.physics import BlurFFT

    record("deepinv", BlurFFT(img_size=(1, 8, 8), filter=draw(1, 1, 3, 3))(draw(1, 1, 8, 8)))


installed(globals())
