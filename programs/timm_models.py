"""Architectures of timm: outputs, losses, gradient norms and two steps, on images of 64 (or what a model asks for)."""

import timm
import torch
from recorder import case, draw, train

ANY_SIZE = (
    "test_byobnet test_convnext test_convnext2 test_convnext3 test_efficientnet test_efficientnet_gn test_efficientnet_ln test_efficientnet_evos "
    "test_mambaout test_nfnet test_resnet resnet10t resnet18 mobilenetv3_small_050 mobilenetv2_035 ghostnet_050 mnasnet_small tinynet_e lcnet_035 "
    "regnetx_002 regnety_002 repvgg_a0 convnext_atto convnextv2_atto edgenext_xx_small mobilevit_xxs mobilevitv2_050 efficientvit_b0 repvit_m0_9 "
    "poolformer_s12 densenet121 dla46_c selecsls42 skresnet18 ese_vovnet19b_dw hardcorenas_a spnasnet_100 fbnetc_100 semnasnet_050 starnet_s1 "
    "pvt_v2_b0 fastvit_t8 swiftformer_xs resnet26d seresnext26d_32x4d hrnet_w18_small tiny_vit_5m_224 davit_tiny focalnet_tiny_srf hgnetv2_b0 "
    "resnest14d vovnet39a inception_next_tiny nf_resnet26 mobilenetv4_conv_small mobileone_s0 repghostnet_050 shvit_s1 lambda_resnet26t"
)
SIZED = (
    "test_vit test_vit2 test_vit3 test_vit4 vit_tiny_patch16_224 deit_tiny_patch16_224 pit_ti_224 xcit_nano_12_p16_224 mixer_s32_224 resmlp_12_224 "
    "eva02_tiny_patch14_224 gcvit_xxtiny levit_128s crossvit_9_240 swin_tiny_patch4_window7_224 cait_xxs24_224 coat_tiny convit_tiny coatnet_nano_rw_224 "
    "gmlp_s16_224 hiera_tiny_224 mvitv2_tiny nest_tiny"
)


# Where 64 leaves maps of one pixel, batch norms of two images are signs of differences: rounding decides.
LARGER = {"efficientvit_b0": 128, "selecsls42": 128}
MORE = {
    "repvit_m0_9": 4,
    "levit_128s": 4,
    "mobilenetv4_conv_small": 4,
    "shvit_s1": 4,
}  # so are those of two vectors, in front of a classifier


def run(name, **options):
    size = options.get("img_size", LARGER.get(name, 64))
    model = timm.create_model(name, num_classes=10, **options)
    train(name, model, lambda m: m(draw(MORE.get(name, 2), 3, size, size)))


def run_at(name, size):
    train(name, timm.create_model(name, num_classes=10), lambda m: m(draw(MORE.get(name, 2), 3, size, size)))


torch.set_num_threads(1)
for name in ANY_SIZE.split():
    case(name, lambda n=name: run(n))
for name in SIZED.split():
    size = {"levit_128s": 224, "crossvit_9_240": 240, "eva02_tiny_patch14_224": 56, "test_vit4": 160}.get(name, 64)
    case(name, lambda n=name, s=size: run(n, img_size=s) if s not in (224, 240) else run_at(n, s))
