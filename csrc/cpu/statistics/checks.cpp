// What operators ask of values: the kernels of tocha/operators/checks.py.
#include <string>
#include <type_traits>

#include "cpu/random/dispatch.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::native {

void _check_range(const Tensor& self, double low, double high, const std::string& refusal) {
  if (!computes(self) || self.get()->dispatches) return;
  Tensor values = ops::contiguous(self, MemoryFormat::Contiguous);
  cpu::visit_real("check_range", self.dtype(), [&]<class T>(cpu::Type<T>) {
    const T* v = values.data<T>();
    const int64_t n = values.numel();
    bool fine = true;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // The ends are those of the elements alone: of a whole range there is no need to ask each.
      T least = n ? v[0] : T(), most = least;
      for (int64_t i = 0; i < n; ++i) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
      }
      fine = n == 0 || (static_cast<double>(least) >= low && static_cast<double>(most) <= high);
    } else {
      using Wide = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, bool>, double, float>;
      const Wide least = static_cast<Wide>(low), most = static_cast<Wide>(high);
      for (int64_t i = 0; i < n; ++i) {
        const Wide x = static_cast<Wide>(v[i]);
        fine &= (x >= least) & (x <= most);
      }
    }
    TOCHA_CHECK(fine, Runtime, refusal);
  });
}

void _check_info(const Tensor& info, const std::string& name, const std::string& reason) {
  if (!computes(info) || info.get()->dispatches) return;
  for (int64_t i = 0; i < info.numel(); ++i) {
    const int32_t code = info.data<int32_t>()[i];
    if (code == 0) continue;
    const std::string where = info.dim() ? str("(Batch element ", i, "): ") : "";
    if (code < 0)
      fail(ErrorKind::LinAlg, "[", name, "] ", name, ": ", where,
           "The algorithm failed to converge because the input matrix contained non-finite values.");
    fail(ErrorKind::LinAlg, "[", name, "] ", name, ": ", where, str_replace(reason, "{}", std::to_string(code)));
  }
}

}  // namespace tocha::native
