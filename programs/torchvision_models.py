"""Models of torchvision: classification, segmentation, video, detection; transforms."""

import numpy as np
import torch
import torchvision
from recorder import DOUBLE, case, draw, record, train
from torchvision.models import detection, get_model
from torchvision.transforms import v2

torch.set_num_threads(1)
CLASSIFIERS = "resnet18 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 squeezenet1_1 mnasnet0_5 regnet_y_400mf efficientnet_b0 densenet121 googlenet"


def detects(name, **options):
    model = get_model(name, weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64, **options)
    model = model.double() if DOUBLE else model
    images = [draw(3, 64, 64, low=0), draw(3, 48, 64, seed=1, low=0)]
    boxes = draw(2, 4, low=5, high=20)
    boxes[:, 2:] += 25
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in images]
    losses = model.train()(images, targets)
    total = sum(losses.values())
    total.backward()
    norm = torch.stack([p.grad.double().norm() for p in model.parameters() if p.grad is not None]).norm()
    record(name, losses, norm)
    with torch.no_grad():
        found = model.eval()(images)
    record(
        f"{name} finds",
        [len(f["boxes"]) for f in found],
        [f["scores"][:5] for f in found],
        [f["boxes"][:3] for f in found],
    )


def flows():
    """It computes in float32 only, so the steps must not amplify rounding: AdamW's first is the sign of a gradient."""
    images = draw(1, 3, 128, 128), draw(1, 3, 128, 128, seed=1)
    model = get_model("raft_small", weights=None)
    train("raft", model, lambda m: m(*images, num_flow_updates=2), lambda p: torch.optim.SGD(p, lr=1e-5))


def transforms():
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 40, 50), dtype=np.uint8))
    torch.manual_seed(0)
    chain = v2.Compose([
        v2.RandomResizedCrop(24, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.2, 0.2, 0.2, 0.1), v2.RandomRotation(10),
        v2.GaussianBlur(3), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3),
    ])  # fmt: skip
    record("transforms", chain(image), v2.functional.affine(image.float(), 10.0, [1, 2], 1.1, [3.0, 1.0]), decimals=2)
    boxes = torchvision.tv_tensors.BoundingBoxes([[1, 2, 20, 30]], format="XYXY", canvas_size=(40, 50))
    record("boxes", v2.functional.horizontal_flip(boxes), v2.functional.resize(boxes, [20, 25]), repr(boxes))


for name in CLASSIFIERS.split():
    options = {"init_weights": True, "aux_logits": False} if name == "googlenet" else {}
    case(name, lambda n=name, o=options: train(n, get_model(n, num_classes=10, **o), lambda m: m(draw(2, 3, 64, 64))))
case(
    "vit_b_16",
    lambda: train(
        "vit_b_16", torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64), lambda m: m(draw(2, 3, 32, 32))
    ),
)
case(
    "swin_t",
    lambda: train(
        "swin_t",
        torchvision.models.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [7, 7]),
        lambda m: m(draw(2, 3, 64, 64)),
    ),
)
case(
    "lraspp",
    lambda: train(
        "lraspp",
        get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=3),
        lambda m: m(draw(2, 3, 64, 64)),
    ),
)
case("r3d_18", lambda: train("r3d_18", get_model("r3d_18", num_classes=4), lambda m: m(draw(1, 3, 4, 32, 32))))
case("raft", flows)
for name in ("fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn"):
    case(name, lambda n=name: detects(n))
case("transforms", transforms)
assert detection
