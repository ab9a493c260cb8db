// Fake tensors as native code sees them: a subclass written in Python (tocha/_subclasses) whose native part has a
// shape, a dtype and a device but no memory; where sizes are symbols, not even a shape. The bindings hand their calls
// to Python before anything is converted (python/fakes.h); the engine, which meets them as gradients, asks here.
#pragma once

#include "core/tensor.h"

namespace tocha {

// The class, or null as long as nobody has imported it.
extern PyTypeObject* fake_type;

inline bool is_fake(PyObject* o) { return fake_type && PyType_IsSubtype(Py_TYPE(o), fake_type); }
inline bool is_fake(const Tensor& t) { return fake_type && t && is_fake(t.object()); }

// a + b as Python computes it.
Tensor fake_sum(const Tensor& a, const Tensor& b);
void fake_add_(Tensor& a, const Tensor& b);
// Makes the sizes of a fake plain numbers, with a guard for each symbol: native code is to read them.
void fake_settle(const Tensor& t);
inline bool has_symbols(const Tensor& t) { return is_fake(t) && t.numel() < 0; }
// A gradient as the variable keeps it: in its layout, on memory of its own.
Tensor fake_kept_gradient(const Tensor& grad, const Tensor& variable);
// The history of a view whose sizes are symbols, after a write to its memory: that of its base, seen through the view.
void fake_renew_history(const Tensor& view);

}  // namespace tocha
