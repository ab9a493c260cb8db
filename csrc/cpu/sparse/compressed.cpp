// Products of compressed sparse matrices: the kernels of tocha/operators/sparse.py. Every thread owns rows of the
// result, so that sums are the same however many threads there are. Indices come from users: each is checked before it
// is used.
#include <algorithm>
#include <atomic>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/complex.h"
#include "core/gil.h"
#include "cpu/engine/lanes.h"
#include "cpu/engine/layout.h"
#include "cpu/sparse/kernels.h"
#include "dispatch/native.h"

namespace tocha::native {
namespace {

constexpr int64_t kGrain = 1 << 12;  // products that are worth a lane

// Where the rows of a matrix begin, and the columns of their values.
struct Rows {
  Rows(const char* name, const Tensor& crow, const Tensor& col, int64_t columns)
      : name(name),
        held_begin(cpu::dense(crow, DType::Int64)),
        held_column(cpu::dense(col, DType::Int64)),
        begin(held_begin.data<int64_t>()),
        column(held_column.data<int64_t>()),
        count(crow.numel() - 1),
        values(col.numel()),
        columns(columns) {
    TOCHA_CHECK(begin[0] == 0 && begin[count] == values, Runtime, "[", name, "] compressed indices must begin with 0 ",
                "and end with nnz = ", values, ": got ", begin[0], " and ", begin[count]);
    if (cpu::sparse_kernels().rising(begin, count + 1)) return;
    for (int64_t r = 0; r < count; ++r)
      TOCHA_CHECK(begin[r] <= begin[r + 1], Runtime, "[", name, "] compressed indices must not fall: got ", begin[r],
                  " before ", begin[r + 1]);
  }

  void check_columns() const {
    std::atomic<bool> outside = false;
    parallel_for(values, kGrain, [&](int64_t first, int64_t last) {
      if (!cpu::sparse_kernels().within(column + first, last - first, columns)) outside = true;
    });
    if (outside) refuse_columns();
  }
  void refuse_columns() const {
    for (int64_t i = 0; i < values; ++i)
      TOCHA_CHECK(column[i] >= 0 && column[i] < columns, Runtime, "[", name, "] plain indices must lie in [0, ",
                  columns, "): got ", column[i]);
  }

  const char* name;
  Tensor held_begin, held_column;
  const int64_t *begin, *column;
  int64_t count, values, columns;
};

// Rows whose columns have been looked over.
Rows checked_rows(const char* name, const Tensor& crow, const Tensor& col, int64_t columns) {
  Rows rows(name, crow, col, columns);
  rows.check_columns();
  return rows;
}

// f(first row, last row) in parallel: ranges have about as many values each, whatever the rows have.
template <class F>
void for_rows(const Rows& rows, int64_t work, F f) {
  const int lanes = cpu::lane_count(std::min(rows.count, work / kGrain + 1), 1, 4);
  auto cut = [&](int lane) {
    if (lane == lanes) return rows.count;
    const int64_t share = cpu::lane_begin(rows.values + rows.count, lanes, lane);
    int64_t low = 0, high = rows.count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (rows.begin[middle] + middle < share)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  parallel_for(lanes, 1, [&](int64_t first, int64_t last) {
    for (int64_t lane = first; lane < last; ++lane) f(cut(static_cast<int>(lane)), cut(static_cast<int>(lane) + 1));
  });
}

template <class T>
constexpr bool kReal = std::is_floating_point_v<T>;

template <class T>
const cpu::SparseLoops<T>& loops() {
  if constexpr (sizeof(T) == 4)
    return cpu::sparse_kernels().f32;
  else
    return cpu::sparse_kernels().f64;
}

// Rows [first, last) times n columns of the table.
template <class T>
void multiply_rows(const cpu::SparseMatrix<T>& matrix, int64_t first, int64_t last, const T* table, int64_t step,
                   int64_t n, T* y) {
  if constexpr (kReal<T>) {
    loops<T>().times_table(matrix, first, last, table, step, n, y);
  } else {
    for (int64_t r = first; r < last; ++r) {
      T* to = y + r * step;
      std::fill_n(to, n, T{});
      for (int64_t i = matrix.begin[r]; i < matrix.begin[r + 1]; ++i) {
        const T* x = table + matrix.column[i] * step;
        for (int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(to[k] + matrix.values[i] * x[k]);
      }
    }
  }
}

// How many columns of a table are gone through at a time: so many that its rows stay in the cache between their uses.
template <class T>
int64_t panel_width(int64_t table_rows, int64_t n) {
  constexpr int64_t kCache = 1 << 19, kLeast = 256 / sizeof(T);
  const int64_t fitting = kCache / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(table_rows, 1);
  return std::min(n, std::max(kLeast, fitting / kLeast * kLeast));
}

template <class T>
void multiply_vector(const Rows& rows, const cpu::SparseMatrix<T>& matrix, const T* x, T* out) {
  std::atomic<bool> outside = false;
  for_rows(rows, rows.values + rows.count, [&](int64_t first, int64_t last) {
    if (!loops<T>().times_vector(matrix, first, last, x, rows.columns, out)) outside = true;
  });
  if (outside) rows.refuse_columns();
}

template <class T>
void multiply(const Rows& rows, const T* values, const T* table, int64_t n, T* out) {
  const cpu::SparseMatrix<T> matrix = {values, rows.begin, rows.column, rows.values};
  if constexpr (kReal<T>)
    if (n == 1) return multiply_vector(rows, matrix, table, out);
  rows.check_columns();
  const int64_t width = panel_width<T>(rows.columns, n);
  for_rows(rows, rows.values * n + rows.count * n, [&](int64_t first, int64_t last) {
    for (int64_t c = 0; c < n; c += width)
      multiply_rows(matrix, first, last, table + c, n, std::min(width, n - c), out + c);
  });
}

// The rows of the transpose: a counting sort by column.
struct Transposed {
  Transposed(const Rows& rows, int64_t columns, int64_t* begin, int64_t* row, int64_t* order) {
    std::fill_n(begin, columns + 1, int64_t{0});
    for (int64_t i = 0; i < rows.values; ++i) ++begin[rows.column[i] + 1];
    for (int64_t c = 0; c < columns; ++c) begin[c + 1] += begin[c];
    std::vector<int64_t> next(begin, begin + columns);
    for (int64_t r = 0; r < rows.count; ++r)
      for (int64_t i = rows.begin[r]; i < rows.begin[r + 1]; ++i) {
        const int64_t to = next[static_cast<size_t>(rows.column[i])]++;
        row[to] = r;
        order[to] = i;
      }
  }
};

template <class T>
void sample(const Rows& rows, const T* a, const T* b, int64_t n, T* out) {
  for_rows(rows, rows.values * n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t begin = rows.begin[r], end = rows.begin[r + 1];
      if constexpr (kReal<T>) {
        loops<T>().dots(rows.column + begin, end - begin, a + r * n, b, n, out + begin);
      } else {
        for (int64_t i = begin; i < end; ++i) {
          const T *x = a + r * n, *y = b + rows.column[i] * n;
          T sum{};
          for (int64_t k = 0; k < n; ++k) sum = static_cast<T>(sum + x[k] * y[k]);
          out[i] = sum;
        }
      }
    }
  });
}

// f(T{}) with the type that a dtype is multiplied in: half types in float32.
template <class F>
void with_type(const char* name, DType dtype, F f) {
  switch (dtype) {
#define CASE(D, T) \
  case DType::D:   \
    return f(T{});
    CASE(Float32, float)
    CASE(Float16, float)
    CASE(BFloat16, float)
    CASE(Float64, double)
    CASE(Complex64, Complex<float>)
    CASE(Complex128, Complex<double>)
    CASE(Int64, int64_t)
    CASE(Int32, int32_t)
    CASE(Int16, int16_t)
    CASE(Int8, int8_t)
    CASE(UInt8, uint8_t)
#undef CASE
    default:
      fail(ErrorKind::NotImplemented, "[", name, "] \"", name, "\" not implemented for '", info(dtype).name, "'");
  }
}

// Results of the dtype that they are computed in; those of others are copied there in the end.
template <class T>
class Result {
 public:
  explicit Result(const Tensor& out)
      : out_(out),
        made_(out.dtype() == DTypeOf<T>::value ? out : empty(out.sizes(), DTypeOf<T>::value, out.device())) {}
  T* data() { return made_.template data<T>(); }
  void finish() {
    if (!made_.is(out_)) cpu::copy(out_, made_);
  }

 private:
  const Tensor& out_;
  Tensor made_;
};

}  // namespace

void _csr_mm(const Tensor& out, const Tensor& values, const Tensor& crow, const Tensor& col, const Tensor& dense) {
  const Rows rows("_csr_mm", crow, col, dense.size(0));
  with_type("_csr_mm", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor held = cpu::dense(values, DTypeOf<T>::value), table = cpu::dense(dense, DTypeOf<T>::value);
    Result<T> result(out);
    {
      ReleaseGil released(rows.values * dense.size(1) + out.numel());
      multiply(rows, held.data<T>(), table.data<T>(), dense.size(1), result.data());
    }
    result.finish();
  });
}

void _csr_transposed_mm(const Tensor& out, const Tensor& values, const Tensor& crow, const Tensor& col,
                        const Tensor& dense, int64_t columns) {
  const Rows rows = checked_rows("_csr_transposed_mm", crow, col, columns);
  auto indices = [&](int64_t n) { return empty(Ints{n}, DType::Int64, crow.device()); };
  Tensor begin = indices(columns + 1), row = indices(rows.values), order = indices(rows.values);
  Transposed(rows, columns, begin.data<int64_t>(), row.data<int64_t>(), order.data<int64_t>());
  const Rows transposed("_csr_transposed_mm", begin, row, rows.count);
  with_type("_csr_transposed_mm", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor held = cpu::dense(values, DTypeOf<T>::value), table = cpu::dense(dense, DTypeOf<T>::value);
    Result<T> result(out);
    std::unique_ptr<T[]> moved(new T[static_cast<size_t>(rows.values)]);
    for (int64_t i = 0; i < rows.values; ++i) moved[static_cast<size_t>(i)] = held.data<T>()[order.data<int64_t>()[i]];
    {
      ReleaseGil released(rows.values * dense.size(1) + out.numel());
      multiply(transposed, moved.get(), table.data<T>(), dense.size(1), result.data());
    }
    result.finish();
  });
}

void _csr_sampled(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& crow, const Tensor& col) {
  const Rows rows = checked_rows("_csr_sampled", crow, col, b.size(0));
  with_type("_csr_sampled", a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor left = cpu::dense(a, DTypeOf<T>::value), right = cpu::dense(b, DTypeOf<T>::value);
    Result<T> result(out);
    {
      ReleaseGil released(rows.values * a.size(1));
      sample(rows, left.data<T>(), right.data<T>(), a.size(1), result.data());
    }
    result.finish();
  });
}

void _csr_transpose(const Tensor& begin, const Tensor& row, const Tensor& order, const Tensor& crow, const Tensor& col,
                    int64_t columns) {
  const Rows rows = checked_rows("_csr_transpose", crow, col, columns);
  Transposed(rows, columns, begin.data<int64_t>(), row.data<int64_t>(), order.data<int64_t>());
}

// Row by row: the columns that occur are marked and collected, then sorted; a second pass adds the products.
std::tuple<Tensor, Tensor, Tensor> _csr_product(const Tensor& values, const Tensor& crow, const Tensor& col,
                                                const Tensor& other_values, const Tensor& other_crow,
                                                const Tensor& other_col, int64_t columns) {
  TOCHA_CHECK(crow.dim() == 1 && other_crow.dim() == 1 && crow.numel() > 0 && other_crow.numel() > 0 &&
                  values.numel() == col.numel() && other_values.numel() == other_col.numel(),
              Runtime, "[_csr_product] expected compressed matrices");
  TOCHA_CHECK(values.dtype() == other_values.dtype(), Runtime, "[_csr_product] expected scalar type ", values.dtype(),
              " but found ", other_values.dtype());
  const Rows a = checked_rows("_csr_product", crow, col, other_crow.numel() - 1);
  const Rows b = checked_rows("_csr_product", other_crow, other_col, columns);
  Tensor begin = empty(Ints{a.count + 1}, DType::Int64, crow.device());
  int64_t* const start = begin.data<int64_t>();
  start[0] = 0;
  for_rows(a, a.values * 8 + b.values, [&](int64_t first, int64_t last) {
    std::vector<int64_t> seen(static_cast<size_t>(columns), -1);
    for (int64_t r = first; r < last; ++r) {
      int64_t count = 0;
      for (int64_t i = a.begin[r]; i < a.begin[r + 1]; ++i)
        for (int64_t k = b.begin[a.column[i]]; k < b.begin[a.column[i] + 1]; ++k) {
          int64_t& mark = seen[static_cast<size_t>(b.column[k])];
          count += mark != r;
          mark = r;
        }
      start[r + 1] = count;
    }
  });
  for (int64_t r = 0; r < a.count; ++r) start[r + 1] += start[r];
  Tensor column = empty(Ints{start[a.count]}, DType::Int64, crow.device());
  Tensor out = empty(Ints{start[a.count]}, values.dtype(), values.device());
  with_type("_csr_product", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Tensor left = cpu::dense(values, DTypeOf<T>::value), right = cpu::dense(other_values, DTypeOf<T>::value);
    Result<T> result(out);
    const T *x = left.data<T>(), *y = right.data<T>();
    T* sums = result.data();
    int64_t* const at = column.data<int64_t>();
    for_rows(a, a.values * 8 + b.values, [&](int64_t first, int64_t last) {
      std::vector<int64_t> seen(static_cast<size_t>(columns), -1);
      std::unique_ptr<T[]> row(new T[static_cast<size_t>(columns)]);
      for (int64_t r = first; r < last; ++r) {
        int64_t* next = at + start[r];
        for (int64_t i = a.begin[r]; i < a.begin[r + 1]; ++i)
          for (int64_t k = b.begin[a.column[i]]; k < b.begin[a.column[i] + 1]; ++k) {
            const auto c = static_cast<size_t>(b.column[k]);
            const T product = static_cast<T>(x[i] * y[k]);
            if (seen[c] != r) {
              seen[c] = r;
              row[c] = product;
              *next++ = b.column[k];
            } else {
              row[c] = static_cast<T>(row[c] + product);
            }
          }
        std::sort(at + start[r], next);
        for (int64_t i = start[r]; i < start[r + 1]; ++i) sums[i] = row[static_cast<size_t>(at[i])];
      }
    });
    result.finish();
  });
  return {begin, column, out};
}

}  // namespace tocha::native
