"""Random tensors and in-place random fills: number for number PyTorch's for the same generator state.

The kernels are in csrc/cpu/random/operators.cpp, the distributions in csrc/cpu/random/random.h. Dropout is in dropout.py.
"""

from __future__ import annotations

from tocha.ir import dtypes as dt
from tocha.operators.factories import dtype_or_default
from tocha.operators.record import gradient, native, op
from tocha.operators.rules import Out, broadcast_shapes, device_or_default, like_strides

_RANDOM = frozenset({"random"})
_FACTORY = frozenset({"random", "factory"})
_INTO_OUT = frozenset({"random", "out_dtype"})  # out= may have another dtype: the numbers are drawn in it
_DRAWN = frozenset({"random", "drawn"})


# -- new tensors -------------------------------------------------------------------------------------


@native(
    "rand(SymInt[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "rand(SymInt[] size) -> Tensor",
        "rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
    core=("rand",),
)
def rand(size, generator, dtype, device):
    """Numbers uniform in [0, 1)."""
    return Out(size, dtype_or_default(dtype), device=device_or_default(device))


@native(
    "randn(SymInt[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "randn(SymInt[] size) -> Tensor",
        "randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
    core=("randn",),
)
def randn(size, generator, dtype, device):
    """Numbers from the standard normal distribution; complex ones have variance 1 in all."""
    return Out(size, dtype_or_default(dtype), device=device_or_default(device))


@native(
    "randint(SymInt high, SymInt[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
    word="random_update_from_to",
)
def randint(high, size, generator, dtype, device):
    """Integers uniform in [0, high), or in [low, high)."""
    if high <= 0:
        raise RuntimeError(f"[randint] random_ expects 'from' to be less than 'to', but got from=0 >= to={high}")
    return Out(size, dt.int64 if dtype is None else dtype, device=device_or_default(device))


@native(
    "randint.low(SymInt low, SymInt high, SymInt[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
)
def randint_low(low, high, size, generator, dtype, device):
    """Integers uniform in [low, high)."""
    if low >= high:
        raise RuntimeError(f"[randint] random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return Out(size, dt.int64 if dtype is None else dtype, device=device_or_default(device))


@native(
    "randperm(SymInt n, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        "randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
    core=("randperm",),
    word="randperm",
)
def randperm(n, generator, dtype, device):
    """A random permutation of 0, 1, ..., n - 1."""
    if n < 0:
        raise RuntimeError(f"[randperm] Trying to create tensor with negative dimension {n}: [{n}]")
    return Out([n], dt.int64 if dtype is None else dtype, device=device_or_default(device))


@native(
    "rand_like(Tensor self, *, Generator? generator=None, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_FACTORY,
    aten=(
        "rand_like(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        "rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    ),
)
def rand_like(self, generator, dtype, device, memory_format):
    """Numbers uniform in [0, 1), in self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@native(
    "randn_like(Tensor self, *, Generator? generator=None, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_FACTORY,
    aten=(
        "randn_like(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        "randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    ),
)
def randn_like(self, generator, dtype, device, memory_format):
    """Numbers from the standard normal distribution, in self's size."""
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@native(
    "randint_like(Tensor self, SymInt high, *, Generator? generator=None, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_FACTORY,
    aten=(
        "randint_like(Tensor self, SymInt high, *, MemoryFormat? memory_format=None) -> Tensor",
        "randint_like.Tensor(Tensor self, Tensor high, *, MemoryFormat? memory_format=None) -> Tensor",
        "randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
        "randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    ),
    word="random_update_from_to",
)
def randint_like(self, high, generator, dtype, device, memory_format):
    """Integers uniform in [0, high), or in [low, high), in self's size and dtype."""
    if high <= 0:
        raise RuntimeError(f"[randint_like] random_ expects 'from' to be less than 'to', but got from=0 >= to={high}")
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


@native(
    "randint_like.low(Tensor self, SymInt low, SymInt high, *, Generator? generator=None, dtype? dtype=None, device? device=None, memory_format? memory_format=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_FACTORY,
    aten=(
        "randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, MemoryFormat? memory_format=None) -> Tensor",
        "randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    ),
)
def randint_like_low(self, low, high, generator, dtype, device, memory_format):
    """Integers uniform in [low, high), in self's size and dtype."""
    if low >= high:
        raise RuntimeError(
            f"[randint_like] random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    return Out(
        self.shape,
        self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        strides=like_strides(self, memory_format),
    )


# -- normal with tensors of parameters ---------------------------------------------------------------


@native(
    "normal.tensor_tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    node="NormalBackward3",
    tags=_INTO_OUT | _DRAWN,
    aten=("normal.Tensor_Tensor",),
    word="normal_kernel_cpu",
)
def normal_tensor_tensor(mean, std, generator):
    """Normal numbers, each with its own mean and standard deviation."""
    if std.is_complex():
        raise RuntimeError(f"[normal] normal expects standard deviation to be non-complex, got {std.dtype}")
    return Out(broadcast_shapes(mean.shape, std.shape, "normal"), mean.dtype)


@gradient(normal_tensor_tensor, "mean")
def normal_tensor_tensor_mean_gradient(grad):
    return op.zeros_like(grad)


@gradient(normal_tensor_tensor, "std")
def normal_tensor_tensor_std_gradient(grad):
    return op.zeros_like(grad)


@native(
    "normal.tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    node="NormalBackward1",
    tags=_INTO_OUT | _DRAWN,
    aten=("normal.Tensor_float",),
)
def normal_tensor_float(mean, std, generator):
    """Normal numbers, each with its own mean."""
    if not std >= 0:
        raise RuntimeError(f"[normal] normal expects std >= 0.0, but found std {std}")
    return Out(mean.shape, mean.dtype)


@gradient(normal_tensor_float, "mean")
def normal_tensor_float_mean_gradient(grad):
    return op.zeros_like(grad)


@native(
    "normal.float_tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    node="NormalBackward2",
    tags=_INTO_OUT | _DRAWN,
    aten=("normal.float_Tensor",),
)
def normal_float_tensor(mean, std, generator):
    """Normal numbers, each with its own standard deviation."""
    if std.is_complex():
        raise RuntimeError(f"[normal] normal expects standard deviation to be non-complex, got {std.dtype}")
    return Out(std.shape, std.dtype)


@gradient(normal_float_tensor, "std")
def normal_float_tensor_std_gradient(grad):
    return op.zeros_like(grad)


@native(
    "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, dtype? dtype=None, device? device=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_FACTORY,
    aten=(
        "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    ),
)
def normal_float_float(mean, std, size, generator, dtype, device):
    """Normal numbers of one mean and standard deviation."""
    if not std >= 0:
        raise RuntimeError(f"[normal] normal expects std >= 0.0, but found std {std}")
    return Out(size, dtype_or_default(dtype), device=device_or_default(device))


# -- tensors of samples ------------------------------------------------------------------------------


@native(
    "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, method, out",
    tags=_INTO_OUT | _DRAWN,
    word="bernoulli_tensor_cpu_p_",
)
def bernoulli(self, generator):
    """1 with the probability that self holds at that place, else 0."""
    return Out(self.shape, self.dtype)


@gradient(bernoulli, "self")
def bernoulli_gradient(grad):
    return op.zeros_like(grad)


@native(
    "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, method",
    tags=_RANDOM,
)
def bernoulli_p(self, p, generator):
    """1 with probability p, else 0, in self's size and dtype."""
    return Out(self.shape, self.dtype)


@native(
    "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, method, out",
    tags=frozenset({"random", "exact_out"}),
    samples=lambda t: [((t(3, 4), 2), {}), ((t(4), 7, True), {})],
    types={"out_words": "multinomial expects {result} tensor out, got: {out}"},
)
def multinomial(self, num_samples, replacement, generator):
    """Indices drawn from the distribution in each row of self, which need not sum to one."""
    if self.dim() < 1 or self.dim() > 2:
        raise RuntimeError(f"[multinomial] prob_dist must be 1 or 2 dim, got {self.shape}")
    if not self.is_floating_point():
        raise RuntimeError(
            f"[multinomial] multinomial only supports floating-point dtypes for input, got: {self.dtype}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"[multinomial] cannot sample n_sample <= 0 samples, got {num_samples}")
    columns = self.size(-1)
    if columns > 16777216:
        raise RuntimeError(f"[multinomial] number of categories cannot exceed 2^24, got {columns}")
    if not replacement and num_samples > columns:
        raise RuntimeError(
            f"[multinomial] cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} > {columns}"
        )
    return Out([*self.shape[:-1], num_samples], dt.int64)


@native(
    "poisson(Tensor self, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_DRAWN,
)
def poisson(self, generator):
    """Counts with the rates that self holds."""
    return Out(self.shape, self.dtype)


@gradient(poisson, "self")
def poisson_gradient(grad):
    return op.zeros_like(grad)


@native(
    "binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function, out",
    tags=_RANDOM,
)
def binomial(count, prob, generator):
    """How many of count trials succeed, each with probability prob."""
    if not count.is_floating_point():
        raise ValueError(f"[binomial] binomial only supports floating-point dtypes for count, got: {count.dtype}")
    if not prob.is_floating_point():
        raise ValueError(f"[binomial] binomial only supports floating-point dtypes for prob, got: {prob.dtype}")
    if count.dtype != prob.dtype:
        raise RuntimeError(f"[binomial] expects count and prob of one dtype, got {count.dtype} and {prob.dtype}")
    return Out(broadcast_shapes(count.shape, prob.shape, "binomial"), count.dtype)


@native(
    "_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_DRAWN,
    word="gamma_cpu",
)
def _standard_gamma(self, generator):
    """Gamma numbers with the shapes that self holds and rate 1."""
    return Out(self.shape, self.dtype)


@gradient(_standard_gamma, "self")
def standard_gamma_gradient(grad, self, result):
    return grad * op._standard_gamma_grad(self, result)


@native(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    underived="_standard_gamma_grad",
    algorithm="recursion",
    kernel="standard_gamma_slopes",
    variants="function",
    samples=lambda t: [((t(4).abs() + 0.5, t(4).abs() + 0.1), {})],
)
def _standard_gamma_grad(self, output):
    """How gamma numbers move with their shape when their quantile stays: -(dP/da) / density, at a = self, x = output."""
    if self.shape != output.shape or self.dtype != output.dtype:
        raise RuntimeError(
            f"[_standard_gamma_grad] expected shapes and samples alike, got {self.dtype} of {self.shape} and {output.dtype} of {output.shape}"
        )
    return Out(self.shape, self.dtype)


@native(
    "_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="function",
    tags=_DRAWN,
    word="dirichlet",
)
def _sample_dirichlet(self, generator):
    """Points of the simplex along the last dim, with the concentrations that self holds."""
    return Out(self.shape, self.dtype)


@gradient(_sample_dirichlet, "self")
def sample_dirichlet_gradient(grad, self, result):
    # One coordinate moves as a Beta number does; the others keep their proportions.
    slopes = op._dirichlet_grad(result, self, self.sum([-1], True).expand(self.shape))
    return slopes * (grad - (result * grad).sum([-1], True))


@native(
    "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    algorithm="recursion",
    kernel="beta_slopes",
    variants="function",
    samples=lambda t: [((t(4).abs() * 0.5 + 0.2, t(4).abs() + 0.5, t(4).abs() + 2.5), {})],
)
def _dirichlet_grad(x, alpha, total):
    """How Beta(alpha, total - alpha) numbers x move with alpha when their quantile stays, in units of 1 - x."""
    if alpha.dtype != x.dtype or total.dtype != x.dtype:
        other = alpha.dtype if alpha.dtype != x.dtype else total.dtype
        raise RuntimeError(f"[_dirichlet_grad] Found dtype {other} but expected {x.dtype}")
    return Out(
        broadcast_shapes(broadcast_shapes(x.shape, alpha.shape, "_dirichlet_grad"), total.shape, "_dirichlet_grad"),
        x.dtype,
    )


# -- in place ----------------------------------------------------------------------------------------


@native(
    "uniform_(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
    word="check_uniform_bounds",
)
def uniform_(self, from_, to, generator):
    """Fills self with numbers uniform in [from, to)."""


@gradient(uniform_, "self")
def uniform_gradient(grad):
    return op.zeros_like(grad)


@native(
    "normal_(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
    word="normal_kernel_cpu",
)
def normal_(self, mean, std, generator):
    """Fills self with normal numbers."""


@gradient(normal_, "self")
def normal_gradient(grad):
    return op.zeros_like(grad)


@native(
    "random_.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
)
def random_from(self, from_, to, generator):
    """Fills self with integers uniform in [from, to); to=None means up to the largest the dtype counts exactly."""


@gradient(random_from, "self")
def random_from_gradient(grad):
    return op.zeros_like(grad)


@native(
    "random_.to(Tensor self, int to, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    node="RandomBackward1",
    tags=_RANDOM,
)
def random_to(self, to, generator):
    """Fills self with integers uniform in [0, to)."""


@gradient(random_to, "self")
def random_to_gradient(grad):
    return op.zeros_like(grad)


@native(
    "random_(Tensor self, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    node="RandomBackward2",
    tags=_RANDOM,
    word="random_kernel_cpu",
)
def random_(self, generator):
    """Fills self with integers from 0 to the largest the dtype counts exactly."""


@gradient(random_, "self")
def random_gradient(grad):
    return op.zeros_like(grad)


@native(
    "bernoulli_.tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    node="BernoulliBackward1",
    tags=_DRAWN,
    aten=("bernoulli_.Tensor",),
)
def bernoulli_tensor(self, p, generator):
    """Fills self with 1 with the probability that p holds at that place, else 0."""


@gradient(bernoulli_tensor, "self")
def bernoulli_tensor_gradient(grad):
    return op.zeros_like(grad)


@gradient(bernoulli_tensor, "p")
def bernoulli_tensor_p_gradient(grad):
    return op.zeros_like(grad)


@native(
    "bernoulli_.float(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    node="BernoulliBackward2",
    tags=_RANDOM,
    word="bernoulli_scalar_cpu_",
)
def bernoulli_float(self, p, generator):
    """Fills self with 1 with probability p, else 0."""


@gradient(bernoulli_float, "self")
def bernoulli_float_gradient(grad):
    return op.zeros_like(grad)


@native(
    "exponential_(Tensor self, float lambd=1.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
)
def exponential_(self, lambd, generator):
    """Fills self with exponentially distributed numbers of rate lambd."""


@gradient(exponential_, "self")
def exponential_gradient(grad):
    return op.zeros_like(grad)


@native(
    "cauchy_(Tensor self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
)
def cauchy_(self, median, sigma, generator):
    """Fills self with numbers from the Cauchy distribution."""


@gradient(cauchy_, "self")
def cauchy_gradient(grad):
    return op.zeros_like(grad)


@native(
    "log_normal_(Tensor self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
)
def log_normal_(self, mean, std, generator):
    """Fills self with e to the power of normal numbers."""


@gradient(log_normal_, "self")
def log_normal_gradient(grad):
    return op.zeros_like(grad)


@native(
    "geometric_(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    algorithm="random",
    variants="method",
    tags=_RANDOM,
)
def geometric_(self, p, generator):
    """Fills self with the number of trials until the first success of probability p."""


@gradient(geometric_, "self")
def geometric_gradient(grad):
    return op.zeros_like(grad)
