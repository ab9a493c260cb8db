// Forward mode: tangents that go along with tensors, within a level.
//
// A node knows how gradients go back through its operation, v -> L^T v, in operators that can be differentiated
// themselves. Differentiating that by v, along the inputs' tangents t, gives L t: so every operator that has a gradient
// also carries tangents.
#pragma once

#include "autograd/history.h"

namespace tocha::autograd {

// The tangent of t in the open level; null if there is none.
Tensor tangent_of(const Tensor& t);
void set_tangent(const Tensor& t, const Tensor& tangent);
// t with its geometry and its tangent, before it gets another geometry.
Tensor as_it_is(const Tensor& t);
// What a node kept of its results gets their tangents too: for gradients of tangents.
void share_tangents(Node& node, const Tensors& results);
// A tensor that dies, and the end of the open level: all its tangents go.
void forget_tangent(TensorObject* t);
void drop_tangents();
// Gives outs the tangents that ins (one per edge of the node) bring about.
void carry(Node& node, const Tensors& ins, const Tensors& outs);

inline void flatten(Tensors& all, const Tensor& t) { all.push_back(t); }
inline void flatten(Tensors& all, const Tensors& ts) { all.insert(all.end(), ts.begin(), ts.end()); }

}  // namespace tocha::autograd
