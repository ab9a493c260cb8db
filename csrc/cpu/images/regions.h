// Regions of images, as torchvision's operators have them: boxes that overlap, and the largest pixel of each bin of a
// region.
#pragma once

#include "core/tensor.h"

namespace tocha::cpu {

// Of boxes [n, 4] in this order (int64 [n]), the numbers of those that no kept one before them overlaps by more than
// threshold.
Tensor keep_apart(const Tensor& boxes, const Tensor& order, double threshold);

struct Pooled {
  Tensor values, where;  // [regions, channels, height, width]; where: int32, the pixel within the image, -1 for none
};

// The largest pixel of each of height * width bins of each region. input: [n, c, h, w], regions: [k, 5], image number
// and corners.
Pooled pool_regions(const Tensor& input, const Tensor& regions, double scale, int64_t height, int64_t width);

// The gradient of the image [n, c, h, w]: each bin's goes to its largest pixel, region by region.
Tensor unpool_regions(const Tensor& grad, const Tensor& regions, const Tensor& where, IntsView sizes);

}  // namespace tocha::cpu
