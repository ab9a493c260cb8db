// Adding rows to rows.
#include "cpu/embedding_kernels.h"

#include "cpu/isa/each.h"

namespace tocha::cpu {
namespace {

template <class T>
void add_scaled(T* y, const T* x, T factor, int64_t n) {
  if (factor == T(1))
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(y + i, at.load(y + i) + at.load(x + i)); });
  else
    rows::each<T>(n, [=](int64_t i, auto at) { at.store(y + i, at.load(y + i) + at.all(factor) * at.load(x + i)); });
}

}  // namespace

namespace TOCHA_ISA_TABLES {
extern const EmbeddingKernels embedding_kernels = {{add_scaled<float>}, {add_scaled<double>}};
}

}  // namespace tocha::cpu
