// Whether this thread takes numbers too small for a normal float as zero. The pool's threads follow the one that
// gives them work (parallel.cpp).
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tocha {

#if defined(__x86_64__)
// Results below the normal numbers become zero (bit 15), and so do operands (bit 6).
constexpr unsigned kFlushBits = 0x8040;
inline bool flushes_denormals() { return (_mm_getcsr() & kFlushBits) == kFlushBits; }
inline bool set_flush_denormals(bool on) {
  unsigned state = _mm_getcsr();
  _mm_setcsr(on ? state | kFlushBits : state & ~kFlushBits);
  return true;
}
#elif defined(__aarch64__)
constexpr uint64_t kFlushBits = (uint64_t{1} << 24) | (uint64_t{1} << 19);  // FZ, and FZ16 for half precision
inline uint64_t float_state() {
  uint64_t state;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
inline bool flushes_denormals() { return (float_state() & (uint64_t{1} << 24)) != 0; }
inline bool set_flush_denormals(bool on) {
  uint64_t state = on ? float_state() | kFlushBits : float_state() & ~kFlushBits;
  asm volatile("msr fpcr, %0" : : "r"(state));
  return true;
}
#else
inline bool flushes_denormals() { return false; }
inline bool set_flush_denormals(bool) { return false; }
#endif

}  // namespace tocha
