// Short lists of integers: sizes, strides, dims. Inline up to six, on the heap beyond.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>

#include "core/error.h"

namespace tocha {

// A borrowed list.
class IntsView {
 public:
  IntsView() = default;
  IntsView(const int64_t* data, int64_t size) : data_(data), size_(size) {}
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  const int64_t* data() const { return data_; }
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int64_t i) const { return data_[i]; }
  int64_t back() const { return data_[size_ - 1]; }

 private:
  const int64_t* data_ = nullptr;
  int64_t size_ = 0;
};

inline bool operator==(IntsView a, IntsView b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

class Ints {
 public:
  static constexpr int64_t kInline = 6;

  Ints() : data_(inline_) {}
  explicit Ints(int64_t n, int64_t value = 0) : data_(inline_) {
    resize(n);
    std::fill(begin(), end(), value);
  }
  Ints(std::initializer_list<int64_t> items) : Ints(IntsView(items.begin(), static_cast<int64_t>(items.size()))) {}
  Ints(IntsView v) : data_(inline_) {
    reserve(v.size());
    size_ = v.size();
    std::copy(v.begin(), v.end(), data_);
  }
  Ints(const Ints& other) : Ints(IntsView(other)) {}
  Ints(Ints&& other) noexcept : data_(inline_) { take(other); }
  Ints& operator=(const Ints& other) {
    if (this != &other) {
      size_ = 0;
      reserve(other.size_);
      size_ = other.size_;
      std::copy(other.begin(), other.end(), data_);
    }
    return *this;
  }
  Ints& operator=(Ints&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~Ints() { release(); }

  operator IntsView() const { return {data_, size_}; }
  int64_t* begin() { return data_; }
  int64_t* end() { return data_ + size_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t* data() { return data_; }
  const int64_t* data() const { return data_; }
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int64_t i) { return data_[i]; }
  int64_t operator[](int64_t i) const { return data_[i]; }
  int64_t& back() { return data_[size_ - 1]; }
  int64_t back() const { return data_[size_ - 1]; }
  void clear() { size_ = 0; }
  void resize(int64_t n) {
    reserve(n);
    for (int64_t i = size_; i < n; ++i) data_[i] = 0;
    size_ = n;
  }
  void push_back(int64_t v) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    data_[size_++] = v;
  }
  void pop_back() { --size_; }
  void insert(int64_t at, int64_t v) {
    push_back(v);
    for (int64_t i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
    data_[at] = v;
  }
  void erase(int64_t at) {
    for (int64_t i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
    --size_;
  }
  void reserve(int64_t n) {
    if (n <= capacity_) return;
    auto* grown = new int64_t[static_cast<size_t>(n)];
    std::copy(begin(), end(), grown);
    release_buffer();
    data_ = grown;
    capacity_ = n;
  }

 private:
  void release_buffer() {
    if (data_ != inline_) delete[] data_;
  }
  void release() {
    release_buffer();
    data_ = inline_;
    capacity_ = kInline;
    size_ = 0;
  }
  void take(Ints& other) {
    if (other.data_ == other.inline_) {
      std::copy(other.begin(), other.end(), inline_);
    } else {
      data_ = other.data_;
      capacity_ = other.capacity_;
      other.data_ = other.inline_;
      other.capacity_ = kInline;
    }
    size_ = other.size_;
    other.size_ = 0;
  }

  int64_t* data_;
  int64_t size_ = 0;
  int64_t capacity_ = kInline;
  int64_t inline_[kInline];
};

// [2, 3], as PyTorch's messages show sizes.
inline std::ostream& operator<<(std::ostream& out, IntsView v) {
  out << '[';
  for (int64_t i = 0; i < v.size(); ++i) out << (i ? ", " : "") << v[i];
  return out << ']';
}
inline std::ostream& operator<<(std::ostream& out, const Ints& v) { return out << IntsView(v); }

}  // namespace tocha
