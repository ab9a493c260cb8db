// tocha.Generator: a CPU random engine with PyTorch's seeds and state bytes. Random operators take one.
#include <cstring>
#include <mutex>

#include "python/types.h"

namespace tocha {
namespace python {

PyTypeObject* generator_type = nullptr;

namespace {

struct GeneratorObject {
  PyObject_HEAD Generator* value;
  bool owned;  // all but default_generator's
};

// A kernel draws without the GIL but may want it back before it lets the engine go: never wait for the engine with it.
class EngineLock {
 public:
  explicit EngineLock(Generator& g) : lock_(g.mutex, std::try_to_lock) {
    if (lock_) return;
    PyThreadState* thread = PyEval_SaveThread();
    lock_.lock();
    PyEval_RestoreThread(thread);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

PyObject* new_generator(PyTypeObject* type) {
  Ref self = own(type->tp_alloc(type, 0));
  auto* g = reinterpret_cast<GeneratorObject*>(self.get());
  g->value = new Generator();
  g->owned = true;
  return self.give();
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    static const char* keywords[] = {"device", nullptr};
    PyObject* device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(keywords), &device))
      throw PythonError();
    Device d = device == Py_None ? Device{} : as_device(device);
    TOCHA_CHECK(d.is_cpu(), Runtime, "[Generator] there is no random generator for device ", d);
    return new_generator(type);
  });
}

void generator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* g = reinterpret_cast<GeneratorObject*>(self);
  if (g->owned) delete g->value;
  type->tp_free(self);
  Py_DECREF(type);
}

// A negative seed counts down from 2^64.
uint64_t as_seed(PyObject* o) {
  TOCHA_CHECK(is_int(o), Runtime, "manual_seed expected an int, but got ", Py_TYPE(o)->tp_name);
  Ref index = own(PyNumber_Index(o));
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (!overflow) return static_cast<uint64_t>(v);
  unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(index.get()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    fail(ErrorKind::Value, "Overflow when unpacking long long: a seed must be in [-2^63, 2^64)");
  }
  return u;
}

PyObject* generator_manual_seed(PyObject* self, PyObject* seed) {
  return guarded([&] {
    uint64_t value = as_seed(seed);
    EngineLock lock(generator_of(self));
    generator_of(self).seed(value);
    return Py_NewRef(self);
  });
}

PyObject* generator_seed(PyObject* self, PyObject*) {
  return guarded([&] {
    EngineLock lock(generator_of(self));
    return PyLong_FromUnsignedLongLong(generator_of(self).seed_from_system());
  });
}

PyObject* generator_initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator_of(self).initial_seed());
}

Generator::State locked_state(Generator& g) {
  EngineLock lock(g);
  return g.state();
}

PyObject* generator_get_state(PyObject* self, PyObject*) {
  return guarded([&] {
    Tensor t = empty(Ints{static_cast<int64_t>(Generator::kStateBytes)}, DType::UInt8, Device{});
    Generator::State state = locked_state(generator_of(self));
    std::memcpy(t.bytes(), state.data(), state.size());
    return t.give();
  });
}

PyObject* generator_set_state(PyObject* self, PyObject* state) {
  return guarded([&] {
    TOCHA_CHECK(PyObject_TypeCheck(state, tensor_type), Type, "expected a tocha.ByteTensor, but got ",
                Py_TYPE(state)->tp_name);
    Tensor t = Tensor::borrow(state);
    TOCHA_CHECK(t.dtype() == DType::UInt8 && t.is_cpu() && t.is_contiguous(), Type,
                "RNG state must be a contiguous tocha.ByteTensor on the CPU, got ", t, " on ", t.device());
    EngineLock lock(generator_of(self));
    generator_of(self).set_state({t.data<uint8_t>(), static_cast<size_t>(t.numel())});
    return Py_NewRef(self);
  });
}

PyObject* generator_clone_state(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref clone = own(new_generator(generator_type));
    Generator::State state = locked_state(generator_of(self));
    generator_of(clone.get()).set_state(state);
    return clone.give();
  });
}

PyObject* generator_reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    Ref device = own(device_object(Device{}));
    Ref seed = own(generator_initial_seed(self, nullptr));
    Ref state = own(generator_get_state(self, nullptr));
    return Py_BuildValue("O(O)(OOO)", Py_TYPE(self), device.get(), seed.get(), Py_None, state.get());
  });
}

// What __reduce__ gives: the seed, the offset (None on the CPU) and the state.
PyObject* generator_setstate(PyObject* self, PyObject* saved) {
  return guarded([&] {
    PyObject *seed, *offset, *state;
    if (!PyArg_ParseTuple(saved, "OOO:__setstate__", &seed, &offset, &state)) throw PythonError();
    own(generator_manual_seed(self, seed));
    own(generator_set_state(self, state));
    return Py_NewRef(Py_None);
  });
}

PyObject* generator_offset(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "CPU Generator does not use offset");
  return nullptr;
}

PyObject* generator_device(PyObject*, void*) {
  return guarded([] { return device_object(Device{}); });
}

PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "Seeds the generator and returns it."},
    {"seed", generator_seed, METH_NOARGS, "Seeds the generator from the system's entropy and returns that seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "The seed the generator was last seeded with."},
    {"get_state", generator_get_state, METH_NOARGS, "The state as a uint8 tensor."},
    {"set_state", generator_set_state, METH_O, "Continues from a state that get_state gave."},
    {"clone_state", generator_clone_state, METH_NOARGS, "Another generator in the same state."},
    {"get_offset", generator_offset, METH_NOARGS, "Only generators of accelerators have an offset."},
    {"set_offset", generator_offset, METH_O, "Only generators of accelerators have an offset."},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {"__setstate__", generator_setstate, METH_O, nullptr},
    {},
};
PyGetSetDef generator_getters[] = {{"device", generator_device, nullptr, nullptr, nullptr}, {}};
PyType_Slot generator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(generator_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(generator_dealloc)},
    {Py_tp_methods, generator_methods},
    {Py_tp_getset, generator_getters},
    {0, nullptr},
};
PyType_Spec generator_spec = {"tocha._C.Generator", sizeof(GeneratorObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, generator_slots};

}  // namespace

Generator& generator_of(PyObject* o) { return *reinterpret_cast<GeneratorObject*>(o)->value; }

void add_generator_type(PyObject* module) {
  generator_type = add_type(module, generator_spec);
  Ref o = own(generator_type->tp_alloc(generator_type, 0));
  reinterpret_cast<GeneratorObject*>(o.get())->value = &default_generator();
  default_generator().seed_from_system();
  check(PyModule_AddObjectRef(module, "default_generator", o.get()));
}

}  // namespace python

}  // namespace tocha
