// Errors: C++ exceptions that become Python exceptions of the named kind at the boundary.
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <utility>

namespace tocha {

enum class ErrorKind {
  Runtime,
  Value,
  Type,
  Index,
  NotImplemented,
  Memory,
  Key,
  Attribute,
  Overflow,
  ZeroDivision,
  Buffer,
  Assertion,  // a device that this build does not have
  LinAlg      // tocha.linalg.LinAlgError: a singular matrix, an iteration that did not converge
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
};

// Thrown when CPython's error indicator is already set.
class PythonError : public std::exception {};

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, str(parts...));
}

#define TOCHA_CHECK(condition, kind, ...)                   \
  do {                                                      \
    if (!(condition)) [[unlikely]]                          \
      ::tocha::fail(::tocha::ErrorKind::kind, __VA_ARGS__); \
  } while (0)

}  // namespace tocha
