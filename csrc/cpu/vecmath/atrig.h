// Inverse circular functions: asin, acos, atan, atan2. One polynomial each, after folding the argument.
#pragma once

#include "cpu/vecmath/core.h"

TOCHA_ISA_BEGIN
namespace math {

// pi/2 as the nearest number and what that leaves.
template <class T>
struct HalfPi;
template <>
struct HalfPi<float> {
  static constexpr float kHigh = 0x1.921fb6p0f, kLow = -0x1.777a5cp-25f;
};
template <>
struct HalfPi<double> {
  static constexpr double kHigh = 0x1.921fb54442d18p0, kLow = 0x1.1a62633145c07p-54;
};

// (asin s - s) / s^3 in z = s^2, |s| <= 1/2.
TOCHA_MATH float asin_tail(float z) {
  return poly(z, 0x1.5555cap-3f, 0x1.330152p-4f, 0x1.748c24p-5f, 0x1.8ba3bap-6f, 0x1.59da4ap-5f);
}
TOCHA_MATH double asin_tail(double z) {
  return poly(z, 0x1.5555555555578p-3, 0x1.333333332df7fp-4, 0x1.6db6db7226258p-5, 0x1.f1c71a8db4d8ap-6,
              0x1.6e8bdfa85a634p-6, 0x1.1c49e293edf57p-6, 0x1.ca20d22dc8cf5p-7, 0x1.757b554778c74p-7,
              0x1.6174d0c4cdc23p-7, 0x1.e2b0c1b01cd1bp-9, 0x1.64971279e72d6p-6, -0x1.595af20a36a4cp-6,
              0x1.0bb274ec0df54p-5);
}

// asin of |x| up to 1/2, and of sqrt((1 - |x|) / 2) above: asin|x| = pi/2 - 2 of that. As value and correction.
template <class T>
struct AsinFold {
  T value, tail;
  bool outer;
};
template <class T>
TOCHA_MATH AsinFold<T> fold_asin(T a) {
  bool outer = a > T(0.5);
  T z = outer ? T(0.5) - T(0.5) * a : a * a;
  T s = outer ? sqrt(z) : a;
  return {s, s * z * asin_tail(z), outer};
}
template <class T>
TOCHA_MATH T asin_of(T x) {
  auto f = fold_asin(fabs(x));
  T inner = f.value + f.tail;
  T outer = HalfPi<T>::kHigh - (T(2) * f.value - (HalfPi<T>::kLow - T(2) * f.tail));
  return copysign(f.outer ? outer : inner, x);
}
template <class T>
TOCHA_MATH T acos_of(T x) {
  auto f = fold_asin(fabs(x));
  T value = copysign(f.value, x), tail = flip_sign(f.tail, bits_of(x) & FloatFormat<T>::kSign);
  T inner = HalfPi<T>::kHigh - (value - (HalfPi<T>::kLow - tail));
  T right = T(2) * (f.value + f.tail);
  T left = T(2) * (HalfPi<T>::kHigh - (f.value - (HalfPi<T>::kLow - f.tail)));
  return f.outer ? (x < T(0) ? left : right) : inner;
}
TOCHA_MATH float asin(float x) { return asin_of(x); }
TOCHA_MATH double asin(double x) { return asin_of(x); }
TOCHA_MATH float acos(float x) { return acos_of(x); }
TOCHA_MATH double acos(double x) { return acos_of(x); }

// atan(small / large) for 0 <= small <= large, as value and correction.
template <class T>
struct Angle {
  T value, tail;
};
// (atan t - t) / t^3 in z = t^2: |t| <= 1 for float, |t| <= 1/2 for double.
TOCHA_MATH Angle<float> first_octant(float small, float large) {
  float t = small / large, z = t * t;
  float p = poly(z, -0x1.55553ep-2f, 0x1.9991fep-3f, -0x1.2421b8p-3f, 0x1.c09a14p-4f, -0x1.5834cep-4f, 0x1.dacaa6p-5f,
                 -0x1.fed2cep-6f, 0x1.65a7d2p-7f, -0x1.d6327p-10f);
  return {t, t * z * p};
}
TOCHA_MATH Angle<double> first_octant(double small, double large) {
  // Above 1/2 turn by pi/4: (small - large) is exact there. Halved where their sum could overflow.
  bool upper = small > 0.5 * large;
  double scale = large > 0x1p1000 ? 0.5 : 1.0;
  double s = scale * small, l = scale * large;
  double top = upper ? s - l : s;
  double bottom = upper ? s + l : l;
  double t = top / bottom, z = t * t;
  double p = poly(z, -0x1.5555555555552p-2, 0x1.999999999902p-3, -0x1.249249245005cp-3, 0x1.c71c71a9df6ffp-4,
                  -0x1.745d13753422fp-4, 0x1.3b135f0e6b4e7p-4, -0x1.110c5f625b094p-4, 0x1.e181cce7516e1p-5,
                  -0x1.ac6d477516ed1p-5, 0x1.77e9123dc443ep-5, -0x1.2ff18fb27c57bp-5, 0x1.8334191f3ce2bp-6,
                  -0x1.11b21998af483p-7);
  double turn = upper ? 0.5 * HalfPi<double>::kHigh : 0.0, turn_low = upper ? 0.5 * HalfPi<double>::kLow : 0.0;
  double value = turn + t;
  return {value, madd(t * z, p, ((turn - value) + t) + turn_low)};
}
template <class T>
TOCHA_MATH T atan_of(T x) {
  T a = fabs(x);
  bool steep = a > T(1);
  auto angle = first_octant(steep ? T(1) : a, steep ? a : T(1));
  T flat = angle.value + angle.tail;
  T turned = HalfPi<T>::kHigh - (angle.value - (HalfPi<T>::kLow - angle.tail));
  return copysign(steep ? turned : flat, x);
}
TOCHA_MATH float atan(float x) { return atan_of(x); }
TOCHA_MATH double atan(double x) { return atan_of(x); }

template <class T>
TOCHA_MATH T atan2_of(T y, T x) {
  T a = fabs(y), b = fabs(x);
  bool steep = a > b;
  T small = steep ? b : a, large = steep ? a : b;
  // 0/0 counts as 0 and inf/inf as 1.
  bool both_infinite = small == kInf<T>;
  small = both_infinite ? T(1) : small;
  large = both_infinite | (large == T(0)) ? T(1) : large;
  auto angle = first_octant(small, large);
  // The angle is turn + sign * atan(small / large), turn one of 0, pi/2, pi.
  bool left = signbit(x);
  T turn = steep ? T(1) : (left ? T(2) : T(0));
  T sign = steep != left ? T(-1) : T(1);
  T high = turn * HalfPi<T>::kHigh, low = turn * HalfPi<T>::kLow;
  T sum = madd(sign, angle.value, high);
  T lost = madd(sign, angle.value, high - sum);
  T result = sum + (lost + madd(sign, angle.tail, low));
  result = (x == x) & (y == y) ? result : x + y;
  return copysign(result, y);
}
TOCHA_MATH float atan2(float y, float x) { return atan2_of(y, x); }
TOCHA_MATH double atan2(double y, double x) { return atan2_of(y, x); }

}  // namespace math
TOCHA_ISA_END
