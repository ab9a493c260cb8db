// What a compiled graph may ask of the library: a table of functions, so that generated code links against nothing.
// Tensors are opaque. Functions that return int give 0, or nonzero with a Python error set.
#pragma once

#include <cstdint>

extern "C" {

// Elements of matrices in memory: strides count elements, those of a batch included.
struct tocha_matrices {
  void* data;
  int64_t row, column, batch;
};

// c = a @ b, plus a row of n elements where there is a bias: a is [batch, m, k], b is [batch, k, n].
struct tocha_product {
  int64_t dtype, batch, m, n, k;
  tocha_matrices a, b, c;
  const void* bias;
  const void* packed;               // b as the library's own kernels read it, or null
  int64_t engine;                   // 0: any, 1: the library's own kernels, 2: BLAS
  int64_t block_rows, block_depth;  // blocks of the library's own kernels, or 0
  // Called on rows [begin, end) of c as they are finished, those of a batch numbered through; or null.
  void (*done)(void* context, int64_t begin, int64_t end);
  void* context;
};

// out = the convolution of `in` with `weight`, which are tensors; bias and prepared may be null.
struct tocha_convolution {
  void *out, *in, *weight, *bias;
  void* prepared;  // what the library makes of constant weights
  int64_t rank, groups;
  const int64_t *stride, *padding, *dilation;
  // Called on planes [begin, end) of out, channels of images numbered through, as they are finished; or null.
  void (*done)(void* context, int64_t begin, int64_t end);
  void* context;
};

struct tocha_api {
  int64_t version;
  // Whether t is a tensor of this dtype and geometry; a size or stride of -1 is not looked at.
  int (*expect)(void* t, int64_t position, int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides);
  void* (*data)(void* t);
  int64_t (*size)(void* t, int64_t dim);
  int64_t (*stride)(void* t, int64_t dim);
  void* (*empty)(int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides);
  // Another tensor on t's memory; offset counts from t's first element.
  void* (*view)(void* t, int64_t dtype, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset);
  void (*retain)(void* t);
  void (*release)(void* t);
  // A native operator: tensors and sizes in, tensors out.
  int (*call)(void* program, int64_t which, void* const* tensors, int64_t count, const int64_t* sizes,
              int64_t sizes_count, void** results, int64_t results_count);
  // fn on disjoint ranges that cover [0, n); `work` says how many elements all of it touches.
  void (*parallel)(int64_t n, int64_t grain, int64_t work, void (*fn)(void*, int64_t, int64_t), void* context);
  int (*fail)(int64_t reason);
  int64_t (*integer)(void* number);  // an input that is a Python int
  // Memory for what lives only during a call, as a tensor of bytes. Programs that keep it get the same one every time.
  void* (*arena)(void* program, int64_t bytes);
  // Whether nobody else holds t or its memory, so that it may become another result.
  int (*reusable)(void* t);
  void (*end_arena)(void* program, void* arena);
  int64_t (*real_bits)(void* number);  // an input that is a Python float, as the bits of a double
  void* (*number)(int64_t value);      // results that are Python numbers
  void* (*real)(double value);
  const bool* recording;  // whether a profiler wants to be told of kernels
  int64_t (*now)();
  void (*ran)(void* program, int64_t kernel, int64_t began);
  int (*product)(const tocha_product* p);
  int (*convolution)(const tocha_convolution* c);
  // What was promised of numbers that come from data does not hold; the error is a type of Python's own.
  int (*refuse)(const char* error, const char* message);
  int64_t (*offset)(void* t);  // of the first element in the storage
  void* (*truth)(int value);   // a result that is a Python bool
};

enum tocha_fault { TOCHA_DIVIDED_BY_ZERO = 1, TOCHA_INDEX_OUT_OF_RANGE = 2, TOCHA_NO_MEMORY = 4 };

// owned: the caller gives its references to the inputs away, and the program drops each when it is used up.
typedef int (*tocha_program_entry)(const tocha_api* api, void* program, void** inputs, int owned, void** outputs);

}  // extern "C"

constexpr int64_t kTochaApiVersion = 8;
