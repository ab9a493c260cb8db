#include "python/stand_in_bindings.h"

#include "core/fake.h"
#include "cpu/images/regions.h"
#include "cpu/scan/recursive_filter.h"
#include "python/types.h"

namespace tocha::python {
namespace {

// A contiguous tensor in memory of the CPU, of this many dims; of float32 or float64, or of int64.
Tensor plain(PyObject* o, int64_t dims, bool floating) {
  TOCHA_CHECK(is_tensor(o), Type, "[regions] expected a tensor, got ", Py_TYPE(o)->tp_name);
  Tensor t = Tensor::borrow(o);
  const bool fits = floating ? t.dtype() == DType::Float32 || t.dtype() == DType::Float64 : t.dtype() == DType::Int64;
  TOCHA_CHECK(t.is_cpu() && !is_fake(t) && fits && t.dim() == dims && t.is_contiguous(), Runtime,
              "[regions] expected a contiguous tensor of ", dims, " dims in memory, of a dtype that is served");
  return t;
}

// _keep_apart(boxes, order, threshold): see cpu::keep_apart.
PyObject* keep_apart(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *boxes, *order;
    double threshold;
    if (!PyArg_ParseTuple(args, "OOd", &boxes, &order, &threshold)) throw PythonError();
    Tensor given = plain(boxes, 2, true), numbers = plain(order, 1, false);
    TOCHA_CHECK(given.sizes()[1] == 4 && given.sizes()[0] == numbers.numel(), Runtime,
                "[regions] boxes are of 4 numbers");
    for (int64_t i = 0; i < numbers.numel(); ++i)
      TOCHA_CHECK(static_cast<uint64_t>(numbers.data<int64_t>()[i]) < static_cast<uint64_t>(numbers.numel()), Index,
                  "[regions] there is no box ", numbers.data<int64_t>()[i]);
    return cpu::keep_apart(given, numbers, threshold).give();
  });
}

// _pool_regions(input, regions, scale, height, width): see cpu::pool_regions.
PyObject* pool_regions(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *input, *regions;
    double scale;
    long long height, width;
    if (!PyArg_ParseTuple(args, "OOdLL", &input, &regions, &scale, &height, &width)) throw PythonError();
    Tensor image = plain(input, 4, true), boxes = plain(regions, 2, true);
    TOCHA_CHECK(boxes.sizes()[1] == 5 && boxes.dtype() == image.dtype() && height > 0 && width > 0, Runtime,
                "[regions] regions are of 5 numbers of the image's dtype, bins at least one");
    cpu::Pooled found = cpu::pool_regions(image, boxes, scale, height, width);
    Ref out = own(PyTuple_New(2));
    PyTuple_SET_ITEM(out.get(), 0, found.values.give());
    PyTuple_SET_ITEM(out.get(), 1, found.where.give());
    return out.give();
  });
}

// _unpool_regions(grad, regions, where, n, c, h, w): see cpu::unpool_regions.
PyObject* unpool_regions(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *grad, *regions, *where;
    long long n, c, h, w;
    if (!PyArg_ParseTuple(args, "OOOLLLL", &grad, &regions, &where, &n, &c, &h, &w)) throw PythonError();
    Tensor values = plain(grad, 4, true), boxes = plain(regions, 2, true);
    TOCHA_CHECK(is_tensor(where), Type, "[regions] expected a tensor, got ", Py_TYPE(where)->tp_name);
    Tensor pixels = Tensor::borrow(where);
    TOCHA_CHECK(pixels.is_cpu() && !is_fake(pixels) && pixels.dtype() == DType::Int32 && pixels.is_contiguous() &&
                    pixels.sizes() == values.sizes() && boxes.dtype() == values.dtype() && boxes.sizes()[1] == 5 &&
                    boxes.sizes()[0] == values.sizes()[0] && values.sizes()[1] == c && n >= 0 && h >= 0 && w >= 0,
                Runtime, "[regions] gradients, places and regions do not go together");
    return cpu::unpool_regions(values, boxes, pixels, Ints{n, c, h, w}).give();
  });
}

// _recursive_filter(input, coefficients, out): see cpu::recursive_filter. Writes out.
PyObject* recursive_filter(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *input, *coefficients, *out;
    if (!PyArg_ParseTuple(args, "OOO", &input, &coefficients, &out)) throw PythonError();
    Tensor x = plain(input, 3, true), a = plain(coefficients, 2, true), y = plain(out, 3, true);
    TOCHA_CHECK(a.dtype() == x.dtype() && y.dtype() == x.dtype() && a.sizes()[0] == x.sizes()[1] && a.sizes()[1] > 0 &&
                    y.sizes()[0] == x.sizes()[0] && y.sizes()[1] == x.sizes()[1] &&
                    y.sizes()[2] == x.sizes()[2] + a.sizes()[1] - 1,
                Runtime, "[lfilter] signals, coefficients and output do not go together");
    cpu::recursive_filter(x, a, y);
    y.bump_version();
    return Py_NewRef(Py_None);
  });
}

PyMethodDef functions[] = {
    {"_keep_apart", keep_apart, METH_VARARGS, nullptr},
    {"_pool_regions", pool_regions, METH_VARARGS, nullptr},
    {"_recursive_filter", recursive_filter, METH_VARARGS, nullptr},
    {"_unpool_regions", unpool_regions, METH_VARARGS, nullptr},
};

}  // namespace

void add_stand_in_functions(std::vector<PyMethodDef>& table) {
  table.insert(table.end(), std::begin(functions), std::end(functions));
}

}  // namespace tocha::python
