// Searching in sorted sequences: the kernels of tocha/operators/searching.py on search.h.
#include "core/dtype_messages.h"
#include "core/gil.h"
#include "cpu/indexing/offset_slices.h"
#include "cpu/search/search.h"
#include "dispatch/native.h"
#include "ops/copies.h"

namespace tocha::native {

void searchsorted(const Tensor& out, const Tensor& sorted_sequence, const Tensor& input, bool out_int32, bool right,
                  const std::optional<std::string>& side, const Tensor& sorter) {
  cpu::check_together("searchsorted", {sorted_sequence, input.is_wrapped_number() ? Tensor() : input, sorter});
  int64_t length = sorted_sequence.size(sorted_sequence.dim() - 1);
  if (sorter && sorter.numel()) {
    try {
      cpu::check_range(sorter, length, "searchsorted");
    } catch (const Error&) {
      fail(ErrorKind::Runtime, "[searchsorted] sorter index out of range");
    }
  }
  if (out.numel() == 0) return;
  DType common = result_type(sorted_sequence, input);
  if (is_complex(common) || common == DType::Bool) refuse_dtype("searchsorted", common);
  Tensor sequence = cpu::dense(ops::to_dtype(sorted_sequence, common, false, false, std::nullopt));
  Tensor values = cpu::dense(ops::to_dtype(input, common, false, false, std::nullopt));
  Tensor order = sorter ? cpu::dense(sorter) : Tensor();
  bool shared = sorted_sequence.dim() == 1;
  int64_t rows = shared ? 1 : product(IntsView(input.sizes().data(), input.dim() - 1));
  cpu::SearchSorted job{common,
                        sequence.bytes(),
                        order ? order.data<int64_t>() : nullptr,
                        values.bytes(),
                        rows,
                        length,
                        input.numel() / rows,
                        shared,
                        right || (side && *side == "right")};
  ReleaseGil unlocked(input.numel());
  cpu::searchsorted(job, out.bytes(), out_int32);
}

}  // namespace tocha::native
