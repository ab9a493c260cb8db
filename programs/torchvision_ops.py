"""torchvision's operators and images: what its extension computes, by the same calls on PyTorch and on tocha."""

import io

import numpy as np
import torch
from PIL import Image
from recorder import record
from torchvision import ops
from torchvision.io import ImageReadMode, decode_image, decode_jpeg, decode_png, encode_jpeg, encode_png


def draw(*shape, seed=0, low=-1.0, high=1.0, dtype=np.float64):
    values = np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)
    return torch.from_numpy(values)


def boxes(count, size, seed=0):
    corners = draw(count, 2, seed=seed, low=-2, high=size * 0.8)
    sides = draw(count, 2, seed=seed + 1, low=0.1, high=size * 0.7)
    return torch.cat([corners, corners + sides], 1)


def with_gradients(name, function, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = function(*inputs)
    out.backward(draw(*out.shape, seed=9))
    record(name, out, *[x.grad for x in inputs])


for dtype in (torch.float32, torch.float64):
    found = boxes(200, 40, 3).to(dtype)
    for threshold in (0.1, 0.5, 0.9):
        record(f"nms {dtype} {threshold}", ops.nms(found, draw(200, seed=5).to(dtype), threshold))
record("batched_nms", ops.batched_nms(boxes(60, 20), draw(60, seed=2), torch.arange(60) % 3, 0.4))
record("nms of none", ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5))

image, regions = draw(2, 8, 13, 17), [boxes(5, 13, 4), boxes(4, 17, 6)]
for ratio in (-1, 2):
    for aligned in (False, True):
        for scale in (1.0, 0.5):
            with_gradients(
                f"roi_align {ratio} {aligned} {scale}",
                lambda x, r=ratio, a=aligned, s=scale: ops.roi_align(x, regions, (3, 2), s, r, a), image,
            )  # fmt: skip
    with_gradients(f"ps_roi_align {ratio}", lambda x, r=ratio: ops.ps_roi_align(x, regions, (2, 2), 0.5, r), image)
with_gradients("roi_pool", lambda x: ops.roi_pool(x, regions, (3, 2), 0.5), image)
with_gradients("ps_roi_pool", lambda x: ops.ps_roi_pool(x, regions, (2, 2), 0.5), image)
with_gradients("roi_align of none", lambda x: ops.roi_align(x, [torch.zeros(0, 4).double()] * 2, 2), image)

weight, bias = draw(6, 4, 3, 2, seed=1), draw(6, seed=2)
offset, mask = draw(2, 2 * 2 * 6, 7, 15, seed=3, low=-3, high=3), draw(2, 2 * 6, 7, 15, seed=4)
with_gradients(
    "deform_conv2d",
    lambda x, o, w, b, m: ops.deform_conv2d(x, o, w, b, stride=(2, 1), padding=(1, 1), dilation=(1, 4), mask=m),
    image, offset, weight, bias, mask,
)  # fmt: skip
with_gradients(
    "deform_conv2d without mask", lambda x, o, w: ops.deform_conv2d(x, o, w, stride=(2, 1), padding=(1, 1), dilation=(1, 4)),
    image, offset, weight,
)  # fmt: skip

picture = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 20, 31), dtype=np.uint8))
png = encode_png(picture)
record("png", decode_png(png), decode_image(png, ImageReadMode.GRAY), decode_image(png, ImageReadMode.RGB_ALPHA))
smooth = (torch.arange(20)[:, None] * 3 + torch.arange(31) * 2).to(torch.uint8).expand(3, 20, 31).contiguous()
record("jpeg in gray", decode_jpeg(encode_jpeg(smooth, 95), ImageReadMode.GRAY).float() / 16, decimals=0)
record("jpeg", decode_jpeg(encode_jpeg(smooth, 95)).float() / 16, decimals=0)

buffer = io.BytesIO()
Image.fromarray(picture.permute(1, 2, 0).numpy()).save(buffer, "GIF")
record("gif", decode_image(torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)))
