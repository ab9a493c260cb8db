// Where generated bindings announce themselves: tables for the module's functions and the Tensor class.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "python/parser.h"

namespace tocha::python {

struct Comparison {
  int op;  // Py_LT, ...
  binaryfunc function;
};

struct ReturnType {
  const char* name;
  PyStructSequence_Desc description;
  PyTypeObject** type;
};

// One form of one record, for operator handles (csrc/python/operator_handles.cpp): its parameters in the order of the
// schema, then what factories take besides, then out.
struct RecordCall {
  const char* name;  // the record's: "sum.dim"; of the in-place form "add_"
  Param* params;
  int count;
  PyObject* (*call)(PyObject* const* slots);
  mutable FakeForm fake{};
};

// The tables themselves are static; this only remembers where they are.
class Bindings {
 public:
  void functions(const char* space, PyMethodDef* table, size_t n) {
    auto& all = functions_[space];
    all.insert(all.end(), table, table + n);
  }
  void methods(PyMethodDef* table, size_t n) { methods_.insert(methods_.end(), table, table + n); }
  void getters(PyGetSetDef* table, size_t n) { getters_.insert(getters_.end(), table, table + n); }
  void slots(PyType_Slot* table, size_t n) { slots_.insert(slots_.end(), table, table + n); }
  void compare(Comparison* table, size_t n) {
    for (size_t i = 0; i < n; ++i) compare_[table[i].op] = table[i].function;
  }
  void pow(binaryfunc* table, size_t) { pow_ = table[0]; }
  void ipow(binaryfunc* table, size_t) { ipow_ = table[0]; }
  void records(RecordCall* table, size_t n) { records_.push_back({table, n}); }
  void returns(ReturnType* table, size_t n) { returns_.insert(returns_.end(), table, table + n); }

  std::map<std::string, std::vector<PyMethodDef>> functions_;
  std::vector<PyMethodDef> methods_;
  std::vector<PyGetSetDef> getters_;
  std::vector<PyType_Slot> slots_;
  binaryfunc compare_[6] = {};
  binaryfunc pow_ = nullptr;
  binaryfunc ipow_ = nullptr;
  std::vector<ReturnType> returns_;
  std::vector<std::pair<RecordCall*, size_t>> records_;
};

void bind_all(Bindings& b);  // generated
// The tables, gathered once and kept for the process's life (Python points into them).
Bindings& bindings();

// csrc/python/tensor_type.cpp
void add_tensor_type(PyObject* module);
// Hand-written methods and functions, by file.
void add_tensor_methods(std::vector<PyMethodDef>& methods);
void add_module_functions(std::vector<PyMethodDef>& functions);

}  // namespace tocha::python
