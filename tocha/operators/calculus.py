"""Functions given by samples along a dim: differences, integrals by trapezoids, gradients."""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.record import composite, op, rule
from tocha.operators.rules import wrap_dim, wrap_dims


@rule
def differences(self: "Tensor", dim: "int") -> "Tensor":
    """Each element of dim but the first minus the one before."""
    if self.size(dim) == 0:
        return self
    n = self.size(dim) - 1
    later, earlier = self.narrow(dim, 1, n), self.narrow(dim, 0, n)
    if self.dtype == dt.bool_:
        return op.logical_xor(later, earlier)
    return later - earlier


@rule
def check_diff_end(self: "Tensor", end: "Tensor", dim: "int") -> "none":
    if end.ndim != self.ndim:
        raise RuntimeError(
            f"[diff] diff expects prepend or append to be the same dimension as input: got shape {end.shape} for {self.shape}"
        )
    if any(end.size(i) != self.size(i) and i != dim for i in range(self.ndim)):
        raise RuntimeError(
            f"[diff] diff expects the shape of tensor to prepend or append to match that of input except along the differencing dimension: got {end.shape} for {self.shape}"
        )


@composite(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    variants="function, method, out",
    tags=frozenset({"out_apart"}),
)
def diff(self, n, dim, prepend, append):
    """The n-th differences along dim."""
    if self.ndim == 0:
        raise RuntimeError("[diff] diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"[diff] order must be non-negative but got {n}")
    if n == 0:
        return self.clone()
    d = wrap_dim(dim, self.ndim)
    x = self
    if prepend is not None:
        check_diff_end(self, prepend, d)
        x = op.cat([prepend, x], d)
    if append is not None:
        check_diff_end(self, append, d)
        x = op.cat([x, append], d)
    left = n
    while left > 0 and x.size(d) > 0:
        x = differences(x, d)
        left -= 1
    return x


@rule
def neighbour_sums(y: "Tensor", dim: "int") -> "Tensor":
    if y.size(dim) == 0:
        return y
    n = y.size(dim) - 1
    return y.narrow(dim, 1, n) + y.narrow(dim, 0, n)


@rule
def spacing(y: "Tensor", x: "Tensor", dim: "int", name: "str") -> "Tensor":
    """Differences of the sample points, shaped so that they broadcast against y's neighbours."""
    if x.ndim == 0:
        raise RuntimeError(f"[{name}] expected x to have at least one dimension")
    if x.ndim == 1:
        if x.size(0) != y.size(dim):
            raise RuntimeError(
                f"[{name}] {name}: There must be one `x` value for each sample point: got {x.shape} for y of shape {y.shape}, dim {dim}"
            )
        return differences(x.reshape([x.size(0) if d == dim else 1 for d in range(y.ndim)]), dim)
    return differences(x.reshape([*([1] * (y.ndim - x.ndim)), *x.shape]) if x.ndim < y.ndim else x, dim)


@rule
def check_samples(y: "Tensor", name: "str") -> "none":
    if y.dtype == dt.bool_:
        raise RuntimeError(f"[{name}] {name}: received a bool input for `x` or `y`, but bool is not supported")


@composite("trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", variants="function", aliases=("trapz",))
def trapezoid_x(y, x, dim):
    """The integral of y over the points x by the trapezoidal rule."""
    d = wrap_dim(dim, y.ndim)
    check_samples(y, "trapezoid")
    return (neighbour_sums(y, d) * spacing(y, x, d, "trapezoid")).sum(d) / 2.0


@rule
def check_step(dx: "Scalar", name: "str") -> "none":
    if dx.is_complex():
        raise RuntimeError(f"[{name}] {name}: Currently, we only support dx as a real number: got {dx}")


@composite(
    "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    variants="function",
    aliases=("trapz",),
    aten=("trapezoid.dx", "trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor"),
)
def trapezoid_dx(y, dx, dim):
    """The integral of y at points dx apart by the trapezoidal rule."""
    check_step(dx, "trapezoid")
    d = wrap_dim(dim, y.ndim)
    check_samples(y, "trapezoid")
    n = y.size(d)
    if n == 0:
        return neighbour_sums(y, d).sum(d) * dx
    return (y.sum(d) - (y.select(d, 0) + y.select(d, n - 1)) * 0.5) * dx


@composite("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", variants="function")
def cumulative_trapezoid_x(y, x, dim):
    """The integral of y over the points x, up to each of them."""
    check_samples(y, "cumulative_trapezoid")
    d = wrap_dim(dim, y.ndim)
    return (neighbour_sums(y, d) * spacing(y, x, d, "cumulative_trapezoid")).cumsum(d) / 2.0


@composite("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", variants="function")
def cumulative_trapezoid_dx(y, dx, dim):
    """The integral of y at points dx apart, up to each of them."""
    check_step(dx, "cumulative_trapezoid")
    check_samples(y, "cumulative_trapezoid")
    d = wrap_dim(dim, y.ndim)
    return (neighbour_sums(y, d) * (dx / 2.0)).cumsum(d)


# -- numerical gradient --------------------------------------------------------------------------------------


@rule
def gradient_dims(self: "Tensor", dim: "int[]?", spacings: "int", edge_order: "int") -> "int[]":
    """The dims to differentiate along; checks sizes and how many spacings were given (0: one for all)."""
    if edge_order != 1 and edge_order != 2:
        raise RuntimeError(f"[gradient] torch.gradient only supports edge_order=1 and edge_order=2. Got {edge_order}")
    dims = list(range(self.ndim))
    if dim is not None:
        dims = wrap_dims(dim, self.ndim)
    if spacings > 0 and spacings != len(dims):
        if dim is None:
            raise RuntimeError(
                f"[gradient] torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = {self.ndim}', since dim argument was not given, but got a list of length {spacings}"
            )
        raise RuntimeError(
            f"[gradient] torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the same length, but got a spacing argument of length {spacings} and a dim argument of length {len(dims)}."
        )
    for d in dims:
        if self.size(d) < edge_order + 1:
            raise RuntimeError(
                f"[gradient] torch.gradient expected each dimension size to be at least edge_order+1, but got shape {self.shape} for edge_order={edge_order}"
            )
    return dims


@rule
def gradient_even(self: "Tensor", dim: "int", step: "float", edge_order: "int") -> "Tensor":
    """Central differences at equal steps, one-sided ones at the ends."""
    n = self.size(dim)
    first, last = self.narrow(dim, 0, 1), self.narrow(dim, n - 1, 1)
    second, before_last = self.narrow(dim, 1, 1), self.narrow(dim, n - 2, 1)
    middle = (self.narrow(dim, 2, n - 2) - self.narrow(dim, 0, n - 2)) / (2 * step)
    if edge_order == 1:
        return op.cat([(second - first) / step, middle, (last - before_last) / step], dim)
    third, third_last = self.narrow(dim, 2, 1), self.narrow(dim, n - 3, 1)
    start = (second * 4.0 - first * 3.0 - third) / (2 * step)
    end = (last * 3.0 - before_last * 4.0 + third_last) / (2 * step)
    return op.cat([start, middle, end], dim)


@rule
def gradient_at_steps(self: "Tensor", dim: "int", step: "Scalar", edge_order: "int") -> "Tensor":
    if step.is_complex():
        return gradient_even(self, dim, 1.0, edge_order) / step
    return gradient_even(self, dim, float(step), edge_order)


@rule
def weighted(self: "Tensor", dim: "int", start: "int", length: "int", weights: "Tensor[]") -> "Tensor":
    """The sum of three neighbours of each of `length` elements, times weights."""
    a, b, c = self.narrow(dim, start, length), self.narrow(dim, start + 1, length), self.narrow(dim, start + 2, length)
    return a * weights[0] + b * weights[1] + c * weights[2]


@rule
def gradient_uneven(self: "Tensor", dim: "int", points: "Tensor", edge_order: "int") -> "Tensor":
    """Derivatives at given points: of the parabola through three neighbours, or of lines at the ends."""
    n = self.size(dim)
    if points.ndim != 1:
        raise RuntimeError(
            f"[gradient] torch.gradient expected each element of spacing to have one dimension, but got an element with {points.ndim} dimensions!"
        )
    if points.size(0) != n:
        raise RuntimeError(
            f"[gradient] expected one coordinate for each of the {n} elements of dim {dim}, but got shape {points.shape}"
        )
    steps = differences(points, 0).reshape([n - 1 if d == dim else 1 for d in range(self.ndim)])
    left, right = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
    middle = weighted(
        self,
        dim,
        0,
        n - 2,
        [-right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))],
    )
    if edge_order == 1:
        slopes = differences(self, dim) / steps
        return op.cat([slopes.narrow(dim, 0, 1), middle, slopes.narrow(dim, n - 2, 1)], dim)
    a, b = steps.narrow(dim, 0, 1), steps.narrow(dim, 1, 1)
    start = weighted(self, dim, 0, 1, [-(a * 2.0 + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))])
    a, b = steps.narrow(dim, n - 3, 1), steps.narrow(dim, n - 2, 1)
    end = weighted(self, dim, n - 3, 1, [b / (a * (a + b)), -(b + a) / (a * b), (b * 2.0 + a) / (b * (a + b))])
    return op.cat([start, middle, end], dim)


@composite(
    "gradient(Tensor self, *, Scalar? spacing=None, int[1]? dim=None, int edge_order=1) -> Tensor[]",
    variants="function",
    aten=(
        "gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) -> Tensor[]",
        "gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) -> Tensor[]",
        "gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]",
    ),
)
def gradient(self, spacing, dim, edge_order):
    """The derivative along each dim, from differences of neighbours at equal steps."""
    dims = gradient_dims(self, dim, 0, edge_order)
    if spacing is None:
        return [gradient_even(self, d, 1.0, edge_order) for d in dims]
    number: "Scalar" = spacing
    return [gradient_at_steps(self, d, number, edge_order) for d in dims]


@composite(
    "gradient.steps(Tensor self, *, Scalar[] spacing, int[1]? dim=None, int edge_order=1) -> Tensor[]",
    variants="function",
    samples=lambda t: [((t(3, 4),), {"spacing": [0.5, 2.0]})],
    aten=(
        "gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        "gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
    ),
)
def gradient_steps(self, spacing, dim, edge_order):
    """The derivative along each dim, with a step for each."""
    dims = gradient_dims(self, dim, len(spacing), edge_order)
    return [gradient_at_steps(self, dims[i], spacing[i], edge_order) for i in range(len(dims))]


@composite(
    "gradient.points(Tensor self, *, Tensor[] spacing, int[1]? dim=None, int edge_order=1) -> Tensor[]",
    variants="function",
    samples=lambda t: [((t(3, 4),), {"spacing": [t.of([0.0, 1.0, 3.0]), t.of([0.0, 2.0, 3.0, 3.5])]})],
    aten=(
        "gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]",
        "gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]",
    ),
)
def gradient_points(self, spacing, dim, edge_order):
    """The derivative along each dim, at given coordinates."""
    dims = gradient_dims(self, dim, len(spacing), edge_order)
    return [gradient_uneven(self, dims[i], spacing[i], edge_order) for i in range(len(dims))]
