// Least squares: kernel of tocha/operators/pseudoinverse.py.
#include <cmath>

#include "cpu/lapack/pivoted_qr.h"
#include "kernels/checks.h"
#include "kernels/pseudoinverse.h"
#include "ops/arithmetic.h"
#include "ops/reductions.h"

namespace tocha::native {

using namespace lapack;

namespace {

enum class Driver { gels, gelsy, gelsd, gelss };

Driver driver_of(const std::optional<std::string>& name) {
  if (!name || *name == "gelsy") return Driver::gelsy;
  if (*name == "gels") return Driver::gels;
  if (*name == "gelsd") return Driver::gelsd;
  TOCHA_CHECK(*name == "gelss", Runtime, "[linalg.lstsq] driver should be one of gels, gelsy, gelsd, gelss, but got ",
              *name);
  return Driver::gelss;
}

template <class T>
struct LeastSquares {
  Driver driver;
  Shape a;
  int columns, ld;
  Real<T> rcond;
  int size = 1, real_size = 1, count_size = 1;

  LeastSquares(Driver d, const Shape& shape, int right_hand_sides, double tolerance)
      : driver(d),
        a(shape),
        columns(right_hand_sides),
        ld(std::max({shape.rows, shape.cols, 1})),
        rcond(static_cast<Real<T>>(tolerance)) {
    T work(0);
    Real<T> real_work = 0;
    int rank = 0, counts = 1;
    call(nullptr, nullptr, nullptr, &rank, &work, -1, &real_work, &counts);
    size = static_cast<int>(real_part(work)) + ld;  // the answer may have been rounded down
    const int least = shape.least();
    real_size = driver == Driver::gelsd   ? static_cast<int>(real_work) + 1
                : driver == Driver::gelss ? 5 * least + 1
                                          : 2 * shape.cols + 1;
    count_size = driver == Driver::gelsd ? counts + 1 : shape.cols + 1;
  }

  int call(T* m, T* x, Real<T>* values, int* rank, T* work, int length, Real<T>* real_work, int* counts) const {
    const int rows = a.rows, cols = a.cols;
    if (driver == Driver::gels) return gels<T>('N', rows, cols, columns, m, a.ld(), x, ld, work, length);
    if constexpr (is_complex_type<T>) {
      if (driver == Driver::gelsy)
        return gelsy<T>(rows, cols, columns, m, a.ld(), x, ld, counts, rcond, rank, work, length, real_work);
      if (driver == Driver::gelsd)
        return gelsd<T>(rows, cols, columns, m, a.ld(), x, ld, values, rcond, rank, work, length, real_work, counts);
      return gelss<T>(rows, cols, columns, m, a.ld(), x, ld, values, rcond, rank, work, length, real_work);
    } else {
      if (driver == Driver::gelsy)
        return gelsy<T>(rows, cols, columns, m, a.ld(), x, ld, counts, rcond, rank, work, length);
      if (driver == Driver::gelsd)
        return gelsd<T>(rows, cols, columns, m, a.ld(), x, ld, values, rcond, rank, work, length, counts);
      return gelss<T>(rows, cols, columns, m, a.ld(), x, ld, values, rcond, rank, work, length);
    }
  }
};

struct Problem {
  Tensor x;                     // [batch, max(m, n), k], column-major: right-hand sides, then solutions
  Tensor matrices;              // A, column-major; not changed
  Tensor rank, values;          // per matrix of A
  Tensor info;                  // per right-hand side
  std::vector<int64_t> places;  // the matrix of each right-hand side
  std::vector<char> reports;    // whether this right-hand side is the one that reports its matrix's rank and values

  void assign() {
    std::vector<char> seen(static_cast<size_t>(Shape(matrices).batch), 0);
    for (int64_t k : places) reports.push_back(!std::exchange(seen[static_cast<size_t>(k)], 1));
  }
};

constexpr int kWorthReflecting = 32;  // columns: narrower matrices are left to LAPACK

// What gelsy finds for a matrix of full rank with no more columns than rows: x holds right-hand sides, then solutions.
// False if the matrix is not such a one; then nothing is changed.
template <class T>
bool solve_full_rank(const T* matrix, const LeastSquares<T>& solver, T* x) {
  const int m = solver.a.rows, n = solver.a.cols, k = solver.columns;
  if (solver.driver != Driver::gelsy || n < kWorthReflecting || m < n) return false;
  const int64_t ld = spaced<T>(m);
  auto both = workspace<T>(ld * (n + k));
  for (int j = 0; j < n; ++j) std::copy_n(matrix + static_cast<int64_t>(j) * m, m, both.get() + j * ld);
  for (int j = 0; j < k; ++j) std::copy_n(x + static_cast<int64_t>(j) * solver.ld, m, both.get() + (n + j) * ld);
  PivotedQr<T> qr(m, n, k, both.get(), ld);
  if (!qr.moderate()) return false;
  qr.factor();
  if (estimated_rank(n, both.get(), ld, solver.rcond) < n) return false;
  T* sides = qr.column(n);
  blocked_trsm(Triangle<T>{std::is_same_v<T, float> ? DType::Float32 : DType::Float64, CblasUpper, CblasNoTrans,
                           CblasNonUnit, both.get(), ld},
               0, n, k, in_columns(sides, ld));
  for (int64_t j = 0; j < k; ++j)
    for (int i = 0; i < n; ++i) x[j * solver.ld + qr.order[i]] = sides[j * ld + i];
  return true;
}

template <class T>
void solve_least_squares(const Problem& p, const LeastSquares<T>& solver) {
  const Shape x(p.x), a(p.matrices);
  const bool ranks = solver.driver != Driver::gels;
  const bool values = solver.driver == Driver::gelsd || solver.driver == Driver::gelss;
  T* data = p.x.template data<T>();
  const T* matrices = p.matrices.template data<T>();
  int64_t* rank = p.rank.template data<int64_t>();
  Real<T>* spectrum = p.values.template data<Real<T>>();
  int32_t* infos = p.info.template data<int32_t>();
  const double work_per_matrix = std::pow(a.least(), 2) * std::max(a.rows, a.cols) * (values ? 10 : 3);
  auto solve = [&](int64_t begin, int64_t end) {
    auto copy = workspace<T>(a.step());
    auto work = workspace<T>(solver.size);
    auto real_work = workspace<Real<T>>(solver.real_size);
    auto counts = workspace<int>(solver.count_size);
    auto own_values = workspace<Real<T>>(a.least());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = p.places[static_cast<size_t>(i)];
      int found = a.cols;
      bool solved = false;
      if constexpr (!is_complex_type<T>) solved = solve_full_rank(matrices + k * a.step(), solver, data + i * x.step());
      if (!solved) {
        std::copy_n(matrices + k * a.step(), a.step(), copy.get());
        std::fill_n(counts.get(), solver.count_size, 0);  // no column has to be among the first
        infos[i] = solver.call(copy.get(), data + i * x.step(), own_values.get(), &found, work.get(), solver.size,
                               real_work.get(), counts.get());
      }
      if (!p.reports[static_cast<size_t>(i)]) continue;
      if (ranks) rank[k] = found;
      if (values) std::copy_n(own_values.get(), a.least(), spectrum + k * a.least());
    }
  };
  if (shares_threads(x.batch, a.least()))
    one_by_one(x.batch, [&](int64_t i) { solve(i, i + 1); });
  else
    for_batch(x.batch, work_per_matrix, solve);
}

Tensor narrowed_rows(const Tensor& t, int64_t first, int64_t count) {
  Ints sizes(t.sizes());
  sizes[t.dim() - 2] = count;
  return view_of(t, sizes, t.strides(), t.offset() + first * t.stride(t.dim() - 2));
}

bool all_equal(const Tensor& t, int64_t value) {
  const int64_t* p = t.data<int64_t>();
  return std::all_of(p, p + t.numel(), [&](int64_t v) { return v == value; });
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> least_squares(const Tensor& A, const Tensor& B, double rcond,
                                                         const std::optional<std::string>& driver_name) {
  const Driver driver = driver_of(driver_name);
  const DType real = real_dtype(A.dtype());
  const Shape a(A);
  const Device device = A.device();
  Ints batch;
  for (int64_t d = 0; d < B.dim() - 2; ++d) batch.push_back(std::max(A.size(d), B.size(d)));
  for (int64_t d = 0; d < B.dim() - 2; ++d)
    if (A.size(d) == 0 || B.size(d) == 0) batch[d] = 0;
  const int64_t k = B.size(B.dim() - 1), most = std::max(a.rows, a.cols);
  Ints sizes(batch), own(batch_of(A));
  sizes.push_back(most);
  sizes.push_back(k);

  Problem p;
  p.x = empty_strided(sizes, column_major_strides(sizes), A.dtype(), device);
  backend(device.type).fill(p.x, 0);
  Tensor top = narrowed_rows(p.x, 0, a.rows);
  if (top.numel()) backend(device.type).copy(top, expanded(B, top.sizes()));
  p.matrices = column_major(A);
  p.places = batch_map(batch_of(A), batch);
  p.assign();
  const bool ranks = driver != Driver::gels, values = driver == Driver::gelsd || driver == Driver::gelss;
  p.rank = empty(ranks ? own : Ints{0}, DType::Int64, device);
  backend(device.type).fill(p.rank, 0);
  p.info = empty(batch, DType::Int32, device);
  backend(device.type).fill(p.info, 0);
  Ints spectrum(own);
  spectrum.push_back(a.least());
  p.values = empty(values ? spectrum : Ints{0}, real, device);
  if (a.step() && p.x.numel()) {
    with_type(A.dtype(), [&](auto type) {
      using T = decltype(type);
      solve_least_squares<T>(p, LeastSquares<T>(driver, a, static_cast<int>(k), rcond));
    });
    _check_info(p.info, "linalg.lstsq",
                "The least squares problem could not be solved because the input is rank-deficient or the algorithm "
                "failed to converge (error code: {}).");
  }
  Tensor residuals;
  const bool full_rank = driver == Driver::gels || (values && all_equal(p.rank, a.cols));
  if (a.rows > a.cols && full_rank)
    residuals =
        ops::sum(ops::square(ops::abs(narrowed_rows(p.x, a.cols, a.rows - a.cols))), Ints{-2}, false, std::nullopt);
  else
    residuals = empty(Ints{0}, real, device);
  return {narrowed_rows(p.x, 0, a.cols), residuals, p.rank, p.values};
}

}  // namespace tocha::native
