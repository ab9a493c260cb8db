// Compares every matrix unit that this processor has, and the emulated one, with plain loops: packing, sums and results
// one by one, then whole products, over odd sizes and strides. Standalone: exits non-zero if anything differs.
// sources: core/parallel.cpp core/fork.cpp core/dtype.cpp core/dtype_messages.cpp core/scalar.cpp
// sources: cpu/gemm/blas.cpp cpu/gemm/gemm.cpp cpu/gemm/tiles.cpp cpu/gemm/unit.cpp cpu/gemm/vector.cpp
// sources: cpu/gemm/isa/*.cpp cpu/units/*.cpp
#include "cpu/units/matrix_unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "core/parallel.h"
#include "cpu/gemm/internal.h"

namespace tocha::cpu {
namespace {

std::mt19937 rng(20250711);
int failures = 0;

int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[rng() % from.size()]; }
int64_t pick_size() {
  return rng() % 3 ? pick({1, 2, 3, 5, 7, 8, 14, 15, 16, 17, 28, 31, 32, 33, 48, 63, 64, 65, 100})
                   : 1 + static_cast<int64_t>(rng() % 150);
}

void expect(bool ok, const MatrixUnit& unit, const char* what, int64_t m, int64_t n, int64_t k) {
  if (ok) return;
  ++failures;
  std::printf("%s, %lld bytes: %s is wrong for m %lld n %lld k %lld\n", unit.name, (long long)unit.item, what,
              (long long)m, (long long)n, (long long)k);
}

// Elements of a unit's kind, as raw bytes.
struct Matrix {
  std::vector<char> memory;
  int64_t item, row, col;
  bool floating;

  const char* at(int64_t i, int64_t j) const { return memory.data() + 8 + (i * row + j * col) * item; }
  double value(int64_t i, int64_t j) const {
    if (!floating) return static_cast<double>(*reinterpret_cast<const int8_t*>(at(i, j)));
    BFloat16 x;
    std::memcpy(&x, at(i, j), sizeof(x));
    return static_cast<double>(static_cast<float>(x));
  }
};

Matrix random_matrix(const MatrixUnit& unit, int64_t rows, int64_t cols) {
  Matrix m;
  m.item = unit.item;
  m.floating = unit.item == 2;
  const int64_t inner = pick({1, 1, 1, 1, 2}), pad = pick({0, 0, 3});
  const bool by_columns = rng() % 2;
  m.row = by_columns ? inner : cols * inner + pad;
  m.col = by_columns ? rows * inner + pad : inner;
  const int64_t elements = ((rows - 1) * m.row + (cols - 1) * m.col + 1);
  // Exactly as large as it must be, so that a sanitizer sees what is read beyond it.
  m.memory.resize(static_cast<size_t>(8 + elements * m.item));
  m.memory.shrink_to_fit();
  for (int64_t i = 0; i < elements; ++i) {
    if (m.floating) {
      const BFloat16 x(static_cast<float>(static_cast<int>(rng() % 401) - 200) / 64);
      std::memcpy(m.memory.data() + 8 + i * 2, &x, 2);
    } else {
      m.memory[static_cast<size_t>(8 + i)] = static_cast<char>(rng());
    }
  }
  return m;
}

void check_rows(const MatrixUnit& unit, int64_t rows, int64_t k) {
  const Matrix a = random_matrix(unit, rows, k);
  const int64_t blocks = unit.blocks(k), row = blocks * kBlockBytes;
  std::vector<char> got(static_cast<size_t>(rows * row + 64), 0x55), want = got;
  unit.pack_rows(a.at(0, 0), a.row, a.col, rows, k, got.data(), row, kBlockBytes);
  for (int64_t i = 0; i < rows; ++i) {
    std::memset(want.data() + i * row, 0, static_cast<size_t>(row));
    for (int64_t p = 0; p < k; ++p)
      std::memcpy(want.data() + i * row + p * unit.item, a.at(i, p), static_cast<size_t>(unit.item));
  }
  expect(got == want, unit, "pack_rows", rows, 0, k);
}

void check_words(const MatrixUnit& unit, int64_t n, int64_t k) {
  const Matrix b = random_matrix(unit, k, n);
  const int64_t panel = packed_panel_bytes(unit, k), panels = ceil_div(n, unit.columns);
  std::vector<char> got(static_cast<size_t>(panels * panel + 64), 0x55), want = got;
  pack_panels(unit, b.at(0, 0), b.row, b.col, k, n, got.data());
  std::memset(want.data(), 0, static_cast<size_t>(panels * panel));
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = j / unit.columns * panel + p / unit.depth() * unit.panel_row() + j % unit.columns * unit.word +
                         p % unit.depth() * unit.item;
      std::memcpy(want.data() + at, b.at(p, j), static_cast<size_t>(unit.item));
    }
  }
  expect(got == want, unit, "pack_panels", 0, n, k);
}

void check_copy(const MatrixUnit& unit, int64_t rows, int64_t n) {
  const int64_t step = pick({1, 1, 2, 3}), zeros = pick({0, 1, 3, 70}), pitch = zeros + n + pick({0, 1, 2, 80});
  const Matrix a = random_matrix(unit, rows, (n - 1) * step + 1);
  if (a.col != 1) return;
  const int64_t slack = kBlockBytes / unit.item;
  std::vector<char> got(static_cast<size_t>((rows * pitch + slack) * unit.item + 8), 0x55), want(got.size() - 8);
  unit.copy_rows({a.at(0, 0), a.row, step, rows, n, got.data(), pitch, zeros});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      std::memcpy(want.data() + (i * pitch + zeros + j) * unit.item, a.at(i, j * step), static_cast<size_t>(unit.item));
    }
  }
  const size_t bytes = static_cast<size_t>(rows * pitch * unit.item);
  bool ok = std::memcmp(got.data(), want.data(), bytes) == 0;
  for (size_t i = got.size() - 8; i < got.size(); ++i) ok = ok && got[i] == 0x55;
  expect(ok, unit, "copy_rows", rows, n, step);
}

void check_unzip(const MatrixUnit& unit, int64_t rows) {
  const int64_t n = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(unit.block_depth()));
  const int64_t step = pick({1, 2, 3, 4, 8, 9, 15, 16, 17, 25});
  Matrix a = random_matrix(unit, rows, n * step);
  if (a.col != 1) return;
  std::vector<int64_t> places;
  for (int64_t p = step; p-- > 0;) {
    if (rng() % 3) places.push_back(p);
  }
  const int64_t count = static_cast<int64_t>(places.size()), out_place = rows * kBlockBytes;
  std::vector<char> got(static_cast<size_t>(count * out_place + 8), 0x55), want = got;
  unit.unzip({a.at(0, 0), a.row, rows, step, n, places.data(), count, got.data(), out_place});
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t r = 0; r < rows; ++r) {
      char* block = want.data() + p * out_place + r * kBlockBytes;
      std::memset(block, 0, kBlockBytes);
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(block + i * unit.item, a.at(r, i * step + places[static_cast<size_t>(p)]),
                    static_cast<size_t>(unit.item));
      }
    }
  }
  expect(got == want, unit, "unzip", rows, n, step);
}

// Blocks at given places, sums added to, rows in panels.
void check_sums(const MatrixUnit& unit, int64_t m, int64_t n, int64_t k) {
  const Matrix a = random_matrix(unit, m, k), b = random_matrix(unit, k, n);
  const int64_t blocks = unit.blocks(k), row = blocks * kBlockBytes, width = ceil_div(n, unit.columns) * unit.columns;
  std::vector<char> rows(static_cast<size_t>(m * row)),
      panels(static_cast<size_t>(width / unit.columns * packed_panel_bytes(unit, k)));
  unit.pack_rows(a.at(0, 0), a.row, a.col, m, k, rows.data(), row, kBlockBytes);
  pack_panels(unit, b.at(0, 0), b.row, b.col, k, n, panels.data());
  std::vector<int32_t> sums(static_cast<size_t>(m * width + 32), 0);
  const bool add = rng() % 2, listed = rng() % 2;
  for (int64_t i = 0; add && i < m * width; ++i) {
    const float start = static_cast<float>(i % 7) - 3;
    if (unit.item == 2)
      std::memcpy(&sums[static_cast<size_t>(i)], &start, 4);
    else
      sums[static_cast<size_t>(i)] = static_cast<int32_t>(i % 7) - 3;
  }
  UnitJob job{};
  job.rows = m;
  job.columns = n;
  job.blocks = blocks;
  job.a = rows.data();
  job.a_row = row;
  job.a_panel = unit.rows * row;
  job.b = panels.data();
  job.b_row = unit.panel_row();
  job.b_block = unit.block_words() * job.b_row;
  job.b_panel = blocks * job.b_block;
  std::vector<int64_t> a_at, b_at;
  for (int64_t i = 0; i < blocks; ++i) {
    a_at.push_back((blocks - 1 - i) * kBlockBytes);
    b_at.push_back((blocks - 1 - i) * job.b_block);
  }
  if (listed) {
    job.a_at = a_at.data();
    job.b_at = b_at.data();
  }
  std::vector<int64_t> panels_at;
  for (int64_t i = 0; i < width / unit.columns; ++i) panels_at.push_back(i * job.b_panel);
  if (rng() % 2) {
    job.b_panels = panels_at.data();
    job.b_panel = 1 << 30;
  }
  job.sums = reinterpret_cast<char*>(sums.data());
  job.sums_row = width * 4;
  job.add = add;
  unit.multiply(job);
  bool ok = true;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double want = add ? static_cast<double>((i * width + j) % 7 - 3) : 0, size = std::abs(want);
      for (int64_t p = 0; p < k; ++p) {
        const double x = a.value(i, p) * b.value(p, j);
        want += x;
        size += std::abs(x);
      }
      const int32_t bits = sums[static_cast<size_t>(i * width + j)];
      float sum;
      std::memcpy(&sum, &bits, 4);
      const double got = unit.item == 2 ? static_cast<double>(sum) : bits;
      ok = ok && std::abs(got - want) <= (unit.item == 2 ? 1e-6 * size : 0);
    }
  }
  for (int i = 0; i < 32; ++i) ok = ok && sums[static_cast<size_t>(m * width + i)] == 0;
  expect(ok, unit, "multiply", m, n, k);
}

template <class T>
Matrix result(int64_t m, int64_t n) {
  Matrix c;
  c.item = sizeof(T);
  c.floating = true;
  const bool by_columns = rng() % 2, gaps = rng() % 4 == 0;
  c.row = by_columns ? 1 + gaps : n * (1 + gaps) + 2;
  c.col = by_columns ? m * (1 + gaps) + 2 : 1 + gaps;
  c.memory.resize(static_cast<size_t>(8 + (m * c.row + n * c.col + 8) * c.item));
  for (char& x : c.memory) x = static_cast<char>(rng() % 64);
  return c;
}

void check_product(const MatrixUnit& unit, int64_t m, int64_t n, int64_t k) {
  const Matrix a = random_matrix(unit, m, k), b = random_matrix(unit, k, n);
  const bool floats = unit.item == 2, biased = floats && rng() % 3 == 0;
  Matrix c = floats ? result<BFloat16>(m, n) : result<int32_t>(m, n);
  const Matrix before = c;
  const double alpha = rng() % 2 ? 1 : 2, beta = static_cast<double>(pick({0, 0, 1, 3}));
  std::vector<BFloat16> bias;
  for (int64_t j = 0; j < n; ++j) bias.push_back(BFloat16(static_cast<float>(j % 5)));
  Problem p{floats ? DType::BFloat16 : DType::Int8,
            m,
            n,
            k,
            Scalar(static_cast<int64_t>(alpha)),
            {const_cast<char*>(a.at(0, 0)), a.row, a.col},
            {const_cast<char*>(b.at(0, 0)), b.row, b.col},
            Scalar(static_cast<int64_t>(beta)),
            {const_cast<char*>(c.at(0, 0)), c.row, c.col},
            false,
            false};
  if (!floats) p.c_dtype = DType::Int32;
  if (biased) p.bias = bias.data();
  set_num_threads(static_cast<int>(pick({1, 2, 3})));
  bool ok = multiply_unit(unit, p);
  Matrix wanted = before;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t q = 0; q < k; ++q) {
        const double x = a.value(i, q) * b.value(q, j);
        sum += x;
        size += std::abs(x);
      }
      char* to = const_cast<char*>(wanted.at(i, j));
      if (floats) {
        const double start = biased ? static_cast<double>(j % 5) : beta == 0 ? 0 : beta * before.value(i, j);
        const double want = alpha * sum + start, got = c.value(i, j);
        ok = ok && std::abs(got - want) <= 1e-6 * (alpha * size + std::abs(start)) + 0x1p-8 * std::abs(want);
      } else {
        int32_t old, got;
        std::memcpy(&old, before.at(i, j), 4);
        std::memcpy(&got, c.at(i, j), 4);
        const int32_t want = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(alpha * sum)) +
                                                  static_cast<uint32_t>(beta) * static_cast<uint32_t>(old));
        ok = ok && got == want;
      }
      std::memcpy(to, c.at(i, j), static_cast<size_t>(c.item));
    }
  }
  ok = ok && wanted.memory == c.memory;  // nothing else was written
  expect(ok, unit, "product", m, n, k);
}

void check_unit(const MatrixUnit& unit) {
  std::printf("%s, %lld bytes\n", unit.name, (long long)unit.item);
  for (int round = 0; round < 60; ++round) {
    check_rows(unit, pick_size(), pick_size());
    check_words(unit, pick_size(), pick_size());
    check_copy(unit, pick_size(), pick_size());
    check_unzip(unit, pick_size());
    check_sums(unit, pick_size(), pick_size(), pick_size());
    check_product(unit, pick_size(), pick_size(), pick_size());
  }
  check_product(unit, 5, 300, 4200);
  check_product(unit, 300, 5, 9000);
  check_product(unit, 130, 140, 4100);
  check_product(unit, 1100, 40, 64);
  check_product(unit, 40, 1100, 64);
}

// Tiles are state of a thread: new threads and a fork's child start without it.
void check_threads(const MatrixUnit& unit) {
  check_product(unit, 33, 40, 70);
  std::thread([&] { check_product(unit, 33, 40, 70); }).join();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    failures = 0;
    check_product(unit, 200, 210, 220);
    std::_Exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  expect(status == 0, unit, "a product after a fork", 200, 210, 220);
}

}  // namespace
}  // namespace tocha::cpu

int main() {
  using namespace tocha;
  using namespace tocha::cpu;
  for (DType dtype : {DType::BFloat16, DType::Int8}) {
    for (const MatrixUnit* unit : matrix_units(dtype)) {
      check_unit(*unit);
      check_threads(*unit);
    }
    if (!matrix_unit(dtype))
      std::printf("this processor has no unit for %s: only the emulation was tested\n", info(dtype).name);
  }
  std::printf(failures ? "matrix units: %d cases failed\n" : "matrix units: all cases pass\n", failures);
  return failures != 0;
}
