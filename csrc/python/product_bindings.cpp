#include "python/product_bindings.h"

#include "core/gil.h"
#include "core/tensor.h"
#include "cpu/convolution/prepared.h"
#include "cpu/gemm/gemm.h"
#include "python/bindings.h"

namespace tocha::python {

void run_product(const tocha_product& p) {
  constexpr int64_t kMultipliesPerElement = 16;  // how much cheaper one is than an elementwise step
  ReleaseGil unlocked(p.batch * p.m * p.n * std::max<int64_t>(p.k, 1) / kMultipliesPerElement);
  const cpu::GemmOptions options{
      {p.done, p.context}, static_cast<cpu::Engine>(p.engine), p.packed, {p.block_rows, p.block_depth}};
  auto matrix = [](const tocha_matrices& m) { return cpu::MatrixRef{m.data, m.row, m.column}; };
  const auto dtype = static_cast<DType>(p.dtype);
  if (p.batch == 1) {
    cpu::gemm(dtype, p.m, p.n, p.k, 1, matrix(p.a), matrix(p.b), 0, matrix(p.c), false, false, p.bias, options);
  } else {
    cpu::gemm_batched(dtype, p.batch, p.m, p.n, p.k, 1, matrix(p.a), p.a.batch, matrix(p.b), p.b.batch, 0, matrix(p.c),
                      p.c.batch, false, false, p.bias, options);
  }
}

void run_convolution(const tocha_convolution& c) {
  auto tensor = [](void* t) { return t ? Tensor::borrow(static_cast<TensorObject*>(t)) : Tensor(); };
  auto ints = [&](const int64_t* values) { return IntsView(values, c.rank); };
  native::followed_convolution(tensor(c.out), tensor(c.in), tensor(c.weight), tensor(c.bias), tensor(c.prepared),
                               ints(c.stride), ints(c.padding), ints(c.dilation), c.groups, {c.done, c.context});
}

namespace {

// _pack_right(b) -> Tensor or None: a matrix as products in programs read it, once for all.
PyObject* pack_right(PyObject*, PyObject* b) {
  return guarded([&]() -> PyObject* {
    TOCHA_CHECK(is_tensor(b), Type, "[_pack_right] takes a tensor");
    const Tensor t = Tensor::borrow(reinterpret_cast<TensorObject*>(b));
    const int64_t bytes = t.dim() == 2 && !t.is_conj() && !t.is_neg() && t.device().is_cpu()
                              ? cpu::packed_right_bytes(t.dtype(), t.size(0), t.size(1))
                              : 0;
    if (bytes == 0 || t.numel() == 0) return Py_NewRef(Py_None);
    const int64_t elements = bytes / 4;
    Tensor out = tocha::empty({&elements, 1}, DType::Float32, Device());
    cpu::pack_right(t.dtype(), t.size(0), t.size(1), {t.bytes(), t.stride(0), t.stride(1)}, out.bytes());
    return out.give();
  });
}

// _product_prefers_blas(m, n, k): whether BLAS computes a product of float32 matrices.
PyObject* product_prefers_blas(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    long long m, n, k;
    if (!PyArg_ParseTuple(args, "LLL", &m, &n, &k)) throw PythonError();
    return PyBool_FromLong(cpu::prefers_blas(DType::Float32, m, n, k));
  });
}

// _multiply(c, a, b, bias or None, packed or None, engine, block_rows, block_depth): a product of matrices or batches
// of them as programs run it.
PyObject* multiply(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject* objects[5];
    int engine;
    long long rows, depth;
    if (!PyArg_ParseTuple(args, "OOOOOiLL", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &engine,
                          &rows, &depth))
      throw PythonError();
    Tensor t[5];
    for (size_t i = 0; i < 5; ++i) {
      if (i > 2 && objects[i] == Py_None) continue;
      TOCHA_CHECK(is_tensor(objects[i]), Type, "[_multiply] takes tensors");
      t[i] = Tensor::borrow(reinterpret_cast<TensorObject*>(objects[i]));
    }
    const int64_t d = t[0].dim();
    TOCHA_CHECK((d == 2 || d == 3) && t[1].dim() == d && t[2].dim() == d && t[1].dtype() == t[0].dtype() &&
                    t[2].dtype() == t[0].dtype() && t[1].size(d - 1) == t[2].size(d - 2) &&
                    t[0].size(d - 2) == t[1].size(d - 2) && t[0].size(d - 1) == t[2].size(d - 1),
                Runtime, "[_multiply] matrices do not fit: ", t[0], ", ", t[1], ", ", t[2]);
    auto matrices = [&](const Tensor& x) {
      return tocha_matrices{x.bytes(), x.stride(d - 2), x.stride(d - 1), d == 3 ? x.stride(0) : 0};
    };
    const tocha_product p{static_cast<int64_t>(t[0].dtype()),
                          d == 3 ? t[0].size(0) : 1,
                          t[0].size(d - 2),
                          t[0].size(d - 1),
                          t[1].size(d - 1),
                          matrices(t[1]),
                          matrices(t[2]),
                          matrices(t[0]),
                          t[3] ? t[3].bytes() : nullptr,
                          t[4] ? t[4].bytes() : nullptr,
                          engine,
                          rows,
                          depth,
                          nullptr,
                          nullptr};
    run_product(p);
    return Py_NewRef(Py_None);
  });
}

// The tensors among objects; None is nothing.
std::vector<Tensor> tensors_of(const std::vector<PyObject*>& objects) {
  std::vector<Tensor> found;
  for (PyObject* o : objects) {
    TOCHA_CHECK(o == Py_None || is_tensor(o), Type, "[compiled graph] takes tensors");
    found.push_back(o == Py_None ? Tensor() : Tensor::borrow(reinterpret_cast<TensorObject*>(o)));
  }
  return found;
}

Ints ints_of(PyObject* list) {
  Ref items = own(PySequence_Fast(list, "[compiled graph] takes lists of ints"));
  Ints found;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const long long n = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i));
    if (n == -1 && PyErr_Occurred()) throw PythonError();
    found.push_back(n);
  }
  return found;
}

// _prepare_convolution(out, input, weight, stride, padding, dilation, groups) -> Tensor or None
PyObject* prepare_convolution(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *out, *input, *weight, *stride, *padding, *dilation;
    long long groups;
    if (!PyArg_ParseTuple(args, "OOOOOOL", &out, &input, &weight, &stride, &padding, &dilation, &groups))
      throw PythonError();
    const std::vector<Tensor> t = tensors_of({out, input, weight});
    Tensor made =
        native::prepare_convolution(t[0], t[1], t[2], ints_of(stride), ints_of(padding), ints_of(dilation), groups);
    return made ? made.give() : Py_NewRef(Py_None);
  });
}

}  // namespace

void add_product_functions(std::vector<PyMethodDef>& functions) {
  functions.push_back({"_pack_right", pack_right, METH_O, nullptr});
  functions.push_back({"_multiply", multiply, METH_VARARGS, nullptr});
  functions.push_back({"_product_prefers_blas", product_prefers_blas, METH_VARARGS, nullptr});
  functions.push_back({"_prepare_convolution", prepare_convolution, METH_VARARGS, nullptr});
}

}  // namespace tocha::python
