// What follows a correlation: told of planes of its result, channels of images numbered through, as they are finished.
#pragma once

#include <atomic>
#include <memory>

#include "core/parallel.h"
#include "cpu/convolution/convolution.h"

namespace tocha::cpu {

inline void tell_of_planes(const Correlation& c, int64_t image, int64_t first, int64_t count) {
  const int64_t plane = image * c.groups * c.rows + first;
  c.done.run(c.done.context, plane, plane + count);
}

// After the whole correlation: every thread has a share of what follows.
inline void tell_of_all_planes(const Correlation& c) {
  constexpr int64_t kElementsPerThread = 16384;
  if (!c.done) return;
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(c.out.pixels(), 1));
  parallel_for(c.batch * c.groups * c.rows, grain,
               [&](int64_t begin, int64_t end) { c.done.run(c.done.context, begin, end); });
}

// For work that is shared out by pixels: counts what is finished of each image, and tells of it when that is all. Where
// there are fewer images than threads, it tells of all planes at the end.
class PlaneTracker {
 public:
  explicit PlaneTracker(const Correlation& c) : c_(c) {
    if (c.done && c.batch >= num_threads()) counts_.reset(new std::atomic<int64_t>[static_cast<size_t>(c.batch)]());
  }
  void finished(int64_t image, int64_t elements) {
    if (!counts_) return;
    const int64_t all = c_.groups * c_.rows * c_.out.pixels();
    const int64_t before = counts_[static_cast<size_t>(image)].fetch_add(elements, std::memory_order_acq_rel);
    if (before + elements == all) tell_of_planes(c_, image, 0, c_.groups * c_.rows);
  }
  // Pixels [begin, end) of some rows; those of the images are numbered through.
  void finished(int64_t begin, int64_t end, int64_t rows) {
    const int64_t pixels = c_.out.pixels();
    for (int64_t next; counts_ && begin < end; begin = next) {
      next = std::min(end, (begin / pixels + 1) * pixels);
      finished(begin / pixels, rows * (next - begin));
    }
  }
  void end() const {
    if (!counts_) tell_of_all_planes(c_);
  }

 private:
  const Correlation& c_;
  std::unique_ptr<std::atomic<int64_t>[]> counts_;
};

}  // namespace tocha::cpu
