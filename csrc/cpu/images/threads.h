// How pictures are dealt out to the threads: by planes, by pixels with all their channels, or by blocks of channels.
#pragma once

#include <algorithm>

#include "core/gil.h"
#include "core/parallel.h"
#include "cpu/images/images.h"

namespace tocha::cpu {

constexpr int64_t kPictureGrain = 1 << 13;  // elements a thread should have
constexpr int64_t kChannelBlock = 64;       // channels that a thread takes at once where sums may meet

// Calls f(plane) for n planes, in parallel; make() gives each thread what it calls. work: elements of a plane.
template <class F>
void for_planes(int64_t n, int64_t work, F make) {
  ReleaseGil unlocked(n * work);
  const int64_t grain = std::max<int64_t>(1, kPictureGrain / std::max<int64_t>(work, 1));
  parallel_for(n, grain, [&](int64_t first, int64_t last) {
    auto f = make();
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

// Calls f(sample, pixel, (d, h, w)) for all pixels of pictures of these sizes, in parallel.
template <class F>
void for_pixels(const PictureSizes& s, int64_t work, F make) {
  const int64_t pixels = s.n * s.plane();
  ReleaseGil unlocked(pixels * work);
  const int64_t grain = std::max<int64_t>(1, kPictureGrain / std::max<int64_t>(work, 1));
  parallel_for(pixels, grain, [&](int64_t first, int64_t last) {
    auto f = make();
    for (int64_t i = first; i < last; ++i) {
      const int64_t in_sample = i % s.plane();
      const int64_t at[] = {in_sample / (s.h * s.w), in_sample / s.w % s.h, in_sample % s.w};
      f(i / s.plane(), i, at);
    }
  });
}

// Calls f(sample, first channel, end) for blocks of channels: where channels are last, samples alone may be too few.
template <class F>
void for_channel_blocks(int64_t samples, int64_t channels, int64_t work, F f) {
  const int64_t blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  ReleaseGil unlocked(samples * channels * work);
  parallel_for(samples * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t from = i % blocks * kChannelBlock;
      f(i / blocks, from, std::min(from + kChannelBlock, channels));
    }
  });
}

}  // namespace tocha::cpu
