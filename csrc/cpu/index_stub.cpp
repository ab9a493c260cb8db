#include "dispatch/native.h"
namespace tocha::native {
Tensor index(const Tensor&, const Tensors&) { fail(ErrorKind::NotImplemented, "index"); }
void index_put_(const Tensor&, const Tensors&, const Tensor&, bool) { fail(ErrorKind::NotImplemented, "index_put_"); }
}
