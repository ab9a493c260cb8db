// What must hold between the numbers that guards meet.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tocha::capture {

// Integers that guards met, and what must hold between them: Python's arithmetic as a stack machine.
union Number {
  int64_t i;
  double d;
};

enum class Op {
  number,
  constant,
  add,
  sub,
  mul,
  floordiv,
  mod,
  neg,
  min,
  max,
  abs,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  both,
  either,
  no
};
inline const std::unordered_map<std::string, Op> kOps = {
    {"number", Op::number}, {"constant", Op::constant},
    {"add", Op::add},       {"sub", Op::sub},
    {"mul", Op::mul},       {"floordiv", Op::floordiv},
    {"mod", Op::mod},       {"neg", Op::neg},
    {"min", Op::min},       {"max", Op::max},
    {"abs", Op::abs},       {"eq", Op::eq},
    {"ne", Op::ne},         {"lt", Op::lt},
    {"le", Op::le},         {"gt", Op::gt},
    {"ge", Op::ge},         {"and", Op::both},
    {"or", Op::either},     {"not", Op::no},
};

struct Relation {
  std::vector<std::pair<Op, int64_t>> steps;
  size_t depth = 0;          // of the stack
  PyObject* call = nullptr;  // or a function of all numbers, where floats are compared
  PyObject* text = nullptr;

  Relation() = default;
  Relation(Relation&& other) noexcept
      : steps(std::move(other.steps)),
        depth(other.depth),
        call(std::exchange(other.call, nullptr)),
        text(std::exchange(other.text, nullptr)) {}
  ~Relation() {
    Py_XDECREF(call);
    Py_XDECREF(text);
  }

  static int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

  // Whether it holds; what overflows or divides by zero does not.
  bool holds(const std::vector<Number>& numbers, std::vector<int64_t>& stack) const {
    size_t top = 0;  // how many values the stack holds
    for (auto [op, arg] : steps) {
      if (op == Op::number || op == Op::constant) {
        stack[top++] = op == Op::number ? numbers[arg].i : arg;
        continue;
      }
      int64_t& last = stack[top - 1];
      if (op == Op::neg || op == Op::abs || op == Op::no) {
        if (op != Op::no && last == INT64_MIN) return false;
        last = op == Op::no ? !last : op == Op::neg || last < 0 ? -last : last;
        continue;
      }
      if (!apply(op, stack[top - 2], last)) return false;
      --top;
    }
    return stack[0] != 0;
  }

  static bool apply(Op op, int64_t& a, int64_t b) {
    switch (op) {
      case Op::add:
        return !__builtin_add_overflow(a, b, &a);
      case Op::sub:
        return !__builtin_sub_overflow(a, b, &a);
      case Op::mul:
        return !__builtin_mul_overflow(a, b, &a);
      case Op::floordiv:
      case Op::mod:
        if (b == 0 || (a == INT64_MIN && b == -1)) return false;
        a = op == Op::mod ? a - floordiv(a, b) * b : floordiv(a, b);
        return true;
      case Op::min:
        a = std::min(a, b);
        return true;
      case Op::max:
        a = std::max(a, b);
        return true;
      case Op::eq:
        a = a == b;
        return true;
      case Op::ne:
        a = a != b;
        return true;
      case Op::lt:
        a = a < b;
        return true;
      case Op::le:
        a = a <= b;
        return true;
      case Op::gt:
        a = a > b;
        return true;
      case Op::ge:
        a = a >= b;
        return true;
      case Op::both:
        a = a && b;
        return true;
      case Op::either:
        a = a || b;
        return true;
      default:
        return false;
    }
  }
};

}  // namespace tocha::capture
