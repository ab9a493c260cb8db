// Switches of the whole program that native code asks; tocha/_core/switches.py sets them.
#pragma once

namespace tocha {

struct Switches {
  bool warn_always = false;          // warnings that come once come every time
  bool deterministic = false;        // results that may differ from run to run are not wanted
  bool deterministic_warns = false;  // and operators that cannot help it warn, instead of refusing
  bool fill_uninitialized = false;   // memory that nobody has written is filled, so that runs are alike
};
inline Switches switches;

}  // namespace tocha
