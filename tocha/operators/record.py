"""The operator record and the decorators that make one: pointwise, reduction, view, composite, native.

Importing a family module fills `OPERATORS`. The build, the compiler, the docs and the tests read it;
nothing else lists operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocha.ir import dtypes as dt
from tocha.operators.facts import Scalar
from tocha.operators.schema import Schema, parse

BOOL = (dt.bool_,)
SIGNED = (dt.int8, dt.int16, dt.int32, dt.int64)
INTS = (dt.uint8, *SIGNED)
UNSIGNED = (dt.uint16, dt.uint32, dt.uint64)
FLOATS = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
COMPLEX = (dt.complex64, dt.complex128)
COMPLEX32 = (dt.complex32,)  # few operators take it, as in PyTorch: those that say so
FLOAT8 = (dt.float8_e4m3fn, dt.float8_e5m2, dt.float8_e4m3fnuz, dt.float8_e5m2fnuz, dt.float8_e8m0fnu)
REAL = (*BOOL, *INTS, *FLOATS)
NUMERIC = (*INTS, *FLOATS)
ALL = (*BOOL, *INTS, *UNSIGNED, *FLOATS, *COMPLEX)
STORED = (*ALL, *COMPLEX32, *FLOAT8)  # what can be stored at all

# The forms most operators have. Of two operands, the function form has no in-place twin (tocha.sin_, but not tocha.add_).
UNARY = "function, method, inplace, out"
BINARY = "function, method, inplace_method, out"


def no_kernel(word: str) -> NotImplementedError:
    """What `refused` says of dtypes for which PyTorch has a kernel of another name; "{}" is the dtype."""
    return NotImplementedError(f"\"{word}\" not implemented for '{{}}'")


def reduced_floats(word: str) -> dict:
    """What a kernel that is named apart for half types says to the narrower ones: "mul_cpu_reduced_float"."""
    return {FLOAT8: no_kernel(f"{word}_reduced_float")}


COMMUTATIVE = (
    "__add__",
    "__mul__",
    "__and__",
    "__or__",
    "__xor__",
)  # Python's operators whose operands may change places

COMMON, INT_TO_FLOAT = "common", "int_to_float"
# Type codes of the compute dtype; they differ in how numbers become elements of it (docs/inside/operators.md).
AS_COMPUTED = ("T", "checked", "filled", "number", "scalar", "rounded")
# What is said of an out= of another dtype than the result's, where an operator wants that very dtype (tag exact_out).
USUAL_WORDS = "Expected out tensor to have dtype {c_result}, but got {c_out} instead"
SAME, SUM_LIKE, TO_BOOL = "same", "sum_like", "to_bool"


@dataclass(eq=False, repr=False)
class Operator:
    """One operator: what it is called with, what it computes, and what else is known of it."""

    kind: str
    schema: Schema
    body: Callable
    doc: str
    variants: frozenset[str]  # function, method, inplace (as each of those), inplace_method, out, property
    namespace: str  # "" for tocha.add, "special" for tocha.special.erf, "nn" for nn.functional
    module: str  # the family file, for sharding the generated code
    dtypes: tuple = ()
    promote: str = COMMON
    types: dict[str, Any] | None = None  # dtypes of out, in, params where not T; check
    expensive: bool = False
    operator: str | None = None  # Python's operator method, e.g. __add__
    # The operator method whose form with a number first this is: called with (tensor, number).
    reverse: str | None = None
    kernel: str = ""  # native: the C++ function
    facts: Callable | None = None  # native, dynamic: the rule for its results on facts
    each: Operator | None = None  # foreach: what happens to each tensor of the lists
    gradients: dict[tuple[str, ...], Callable] = field(default_factory=dict)  # by the inputs they are for
    constants: tuple[str, ...] = ()  # tensors that no gradient is defined for: they are refused if they want one
    # What PyTorch calls it in saying that its derivative is not implemented, where that is not "aten::NAME"; a name without
    # "aten::" is that of a rule which says so ("igamma: input").
    underived: str = ""
    # Inputs that it is piecewise linear in: their gradients hang on them all the same, as PyTorch's, with zeros for derivatives.
    flat: tuple[str, ...] = ()
    # What an input must be, by its name: hermitian, triangular, log_probabilities (docs/inside/operators.md).
    constraints: dict[str, str] = field(default_factory=dict)
    domain: tuple[float, float] | None = None  # where samples of its operands lie, if (0.2, 0.9) does not serve
    differentiable: tuple[int, ...] | None = None  # which results have gradients, where not all floating ones do
    # The name of its autograd node where the usual one is not PyTorch's. "A|B": B when dim is given; "A|other=B": B when
    # `other` is a number; or a rule that says it from the arguments. A composite gives it to the node of its result.
    node: str | Callable = ""
    inplace_node: str = ""  # the name in the in-place form, where that is another
    autocast: str = ""  # in mixed precision: "lower" (the region's dtype), "float32", "widest" (of the arguments), "state" (of lower and hx)
    # The name under which it says that it has no deterministic form, where PyTorch's says so; or a rule that gives it
    # from the arguments, "" for calls that are deterministic.
    nondeterministic: str | Callable = ""
    # native, view, reduction: the same results from other operators (tocha/operators/decomposed)
    decomposition: Callable | None = None
    # How it runs on a batch, where that does not follow from its kind (tocha/operators/batched).
    batching: Callable | None = None
    # native, composite: one element of its result, for loops: f(reader, index, arguments...) (tocha/operators/decomposed/elements.py).
    elements: Callable | None = None
    # native: what it is where nothing smaller says it, so that it has no decomposition (docs/inside/operators.md).
    algorithm: str = ""
    # PyTorch's overloads that it answers for, where they cannot be read off the schema: schemas, or names of overloads
    # alone (tocha/operators/overloads.py). Empty: none.
    aten: tuple[str, ...] | None = None
    # In PyTorch's core set, into which exported programs are taken apart; or which of its overloads are.
    core: bool | tuple[str, ...] = False
    # A composite without gradients of its own that PyTorch keeps whole below autograd, where others see operators.
    whole: bool = False
    # The opposite, where PyTorch takes apart what has a kernel or gradient here: its operators, in the subset (docs/inside/dispatch.md).
    parts: Callable | None = None
    # Its gradients in PyTorch's operators, by input, for those who see operators; others run the derived formulas.
    # The call as PyTorch spells it, where that is another operator's: the name of an overload and its arguments. Runs as Python.
    seen_as: Callable | None = None
    seen_gradients: dict[tuple[str, ...], Callable] = field(default_factory=dict)
    seen_in_steps: set[tuple[str, ...]] = field(default_factory=set)  # those of them that round several times
    # Of a view: what its base is after a write to it, for graphs without writes (tocha/operators/inverses.py).
    inverse: Callable | None = None
    # PyTorch's name for its kernel, which refusals of dtypes say: "exp_vml_cpu" (kernel_word).
    word: str = ""
    samples: Callable | None = None
    example: str = ""  # a session that shows it, for the reference (tocha/operators/examples)
    tags: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    position: int = field(default=0, compare=False)

    def out_words(self, i: int) -> str | None:
        """What is said of an out= for result i that has another dtype, where only the result's very dtype will do."""
        words = (self.types or {}).get("out_words")
        if words is None:
            return USUAL_WORDS if "exact_out" in self.tags else None
        return words if isinstance(words, str) else words[i]

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def full_name(self) -> str:
        return self.schema.full_name

    @property
    def cpp_name(self) -> str:
        """The C++ function: add, sum_dim."""
        s = self.schema
        return f"{s.name}_{s.overload}" if s.overload else s.name

    @property
    def public_name(self) -> str:
        """The Python name inside its namespace: special_erf is erf in special."""
        prefix = f"{self.namespace}_"
        return self.name.removeprefix(prefix) if self.namespace else self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A body that calls another record by its Python name means the operator."""
        return getattr(op, self.name)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.schema.text}>"


OPERATORS: dict[str, Operator] = {}  # by full name, in order of definition


def operators() -> list[Operator]:
    return list(OPERATORS.values())


_named: dict[str, list[Operator]] = {}
_named_count = 0  # how many records the table was made from


def overloads(name: str) -> list[Operator]:
    """The records of this name or alias."""
    global _named_count
    if _named_count != len(OPERATORS):
        _named.clear()
        for o in OPERATORS.values():
            for n in {o.name, *o.aliases}:
                _named.setdefault(n, []).append(o)
        _named_count = len(OPERATORS)
    return list(_named.get(name, ()))


def kernel_words() -> dict[str, str]:
    """The words that records give for their kernels, by the names that messages say."""
    found: dict[str, str] = {}
    for o in OPERATORS.values():
        if not o.word:
            continue
        dotted = f"{o.namespace}.{o.public_name}" if o.namespace else o.name
        for name in (o.name, o.public_name, o.public_name.lstrip("_"), dotted):
            if found.setdefault(name, o.word) != o.word:
                raise ValueError(f"{o.full_name}: the kernel of {name} is {found[name]} and {o.word}")
    return found


def kernel_word(name: str) -> str:
    """What PyTorch calls the kernel of an operator: programs match the phrase it says, people search for it."""
    return kernel_words().get(name, f"{name.rstrip('_')}_cpu")


# What kernels without a decomposition are: numerical algorithms; then "memory" allocates, shows or moves elements as they
# are, "fill" writes numbers, "index" reads and writes at places that other elements name, "selection" has as many results as
# elements decide, "answer" tells Python something.
ALGORITHMS = ("", "product", "convolution", "sort", "search", "scan", "histogram", "recursion", "random", "LAPACK")
ALGORITHMS += ("fft", "memory", "fill", "index", "selection", "answer")
NAMESPACES = ("special", "linalg", "fft", "nn")


VARIANTS = frozenset({"function", "method", "inplace", "inplace_method", "out", "property"})


@functools.cache
def forms(variants: str) -> frozenset[str]:
    """The forms that "function, inplace_method" names; methods in place are forms in place."""
    found = frozenset(v.strip() for v in variants.split(",") if v.strip())
    return found | {"inplace"} if "inplace_method" in found else found


def register(kind: str, schema: str, body: Callable, variants: str, doc: str | None = None, **fields: Any) -> Operator:
    parsed = parse(schema)
    if parsed.full_name in OPERATORS:
        raise ValueError(f"{parsed.full_name} is recorded twice")
    namespace = fields.pop("namespace", None)
    if namespace is None:
        namespace = next((n for n in NAMESPACES if parsed.name.startswith(n + "_")), "")
    module = fields.pop("module", None) or body.__module__.rsplit(".", 1)[-1]
    o = Operator(
        kind=kind,
        schema=parsed,
        body=body,
        doc=(doc or getattr(body, "__doc__", None) or "").strip(),
        variants=forms(variants),
        namespace=namespace,
        module=module,
        position=len(OPERATORS),
        **fields,
    )
    if o.algorithm not in ALGORITHMS:
        raise ValueError(f"{parsed.full_name}: algorithm cannot be {o.algorithm!r}")
    if o.autocast not in ("", "lower", "float32", "widest", "state"):
        raise ValueError(f"{parsed.full_name}: autocast cannot be {o.autocast!r}")
    unknown = o.variants - VARIANTS
    if unknown:
        raise ValueError(f"{parsed.full_name}: unknown variants {sorted(unknown)}")
    OPERATORS[parsed.full_name] = o
    return o


def pointwise(schema: str, *, dtypes: tuple, promote: str = COMMON, variants: str = "function, method", **fields: Any):
    """The body is a formula on scalars: `def sigmoid(x): return 1 / (1 + exp(-x))`."""

    def decorate(formula: Callable) -> Operator:
        return register("pointwise", schema, formula, variants, dtypes=dtypes, promote=promote, **fields)

    return decorate


@dataclass(eq=False, repr=False)
class Fold:
    """A reduction's scalar pieces. States are tuples; `index` is the position along the reduced dims."""

    init: Callable  # (params...) -> states
    combine: Callable  # (states, x, index, params...) -> states
    merge: Callable  # (states, states, params...) -> states
    finish: Callable  # (states, count, params...) -> outputs
    state_types: tuple  # per state: "T", "real", "wide" (double precision), or a dtype
    out_types: tuple = ("T",)
    identity: bool = True  # an empty range has a value
    # For a value and the position of the first element that ties with it: (pick, beats, ties) on values alone.
    search: tuple[Callable, Callable, Callable] | None = None


def reduction(
    schema: str, *, dtypes: tuple, promote: str = SAME, variants: str = "function, method, out", **fields: Any
):
    """The body returns the Fold; it is called once per dtype being generated."""

    def decorate(make: Callable) -> Operator:
        return register("reduction", schema, make, variants, dtypes=dtypes, promote=promote, **fields)

    return decorate


def view(schema: str, *, variants: str = "function, method", **fields: Any):
    """The body is a rule: from (self, arguments) to View(sizes, strides, offset)."""

    def decorate(rule: Callable) -> Operator:
        return register("view", schema, rule, variants, **fields)

    return decorate


def composite(schema: str, *, variants: str = "function, method", **fields: Any):
    """The body calls other operators; it is its own decomposition."""

    def decorate(body: Callable) -> Operator:
        return register("composite", schema, body, variants, **fields)

    return decorate


def native(schema: str, *, kernel: str | None = None, variants: str = "function, method", **fields: Any):
    """The body is the shape rule: from the arguments to Out(sizes, dtype) per output. The kernel is C++.

    With `tags={"dynamic"}` shapes depend on values: the kernel makes its own outputs and there is no rule.
    """

    def decorate(rule: Callable) -> Operator:
        name = kernel or parse(schema).name
        return register("native", schema, rule, variants, kernel=name, **fields)

    return decorate


def gradient(o: Operator, *inputs: str) -> Callable:
    """Registers the gradient of some inputs of o, by their names.

    The function's parameters say what is kept: `grad` (or `grad0`, `grad1`, ...; `grads` for a list), `result` (or
    `result0`, ...), and arguments of o by name; of a tensor that is only asked for its shape, dtype or device nothing
    else is kept. For a pointwise operator it is a formula on scalars, instead of the derived one. With several inputs
    the function returns a tuple, and `wanted` tells which are asked for.
    """

    def decorate(f: Callable) -> Callable:
        unknown = [i for i in inputs if f" {i}" not in o.schema.text]  # its arguments are read when somebody calls it
        if unknown or not inputs:
            raise ValueError(f"gradient of {o.full_name}: no such inputs {sorted(unknown)}")
        o.gradients[inputs] = f
        return f

    return decorate


def decomposition(o: Operator) -> Callable:
    """Registers o's body in terms of other operators: it is given o's arguments and returns o's results.

    It runs as Python only. Sizes, dtypes and values must be o's; strides may differ (interpreter.decompose sees to them).
    """
    if o.kind not in ("native", "view", "reduction"):
        raise ValueError(f"decomposition of {o.full_name}: a {o.kind} is its own")

    def decorate(f: Callable) -> Callable:
        o.decomposition = f
        return f

    return decorate


def _stored(slot: str, records: Sequence[Operator]) -> Callable:
    """Stores what it decorates in that slot of records."""

    def decorate(f: Callable) -> Callable:
        for o in records:
            setattr(o, slot, f)
        return f

    return decorate


def batching(*records: Operator) -> Callable:
    """Registers how an operator runs on a batch: f(b, the record's arguments), with b the batch (tocha/_functorch/batching.py).

    Tensors of the batch come as they are; `b.first(x)` is one with its batch dim in front. Results have it there. It runs as Python only.
    """
    return _stored("batching", records)


def elements(*records: Operator) -> Callable:
    """Registers what one element of a kernel's result is: a formula of elements read at index expressions.

    f(reader, index, arguments...) gives a scalar node; `reader` reads tensors at indices (tocha/_inductor/lowering.py).
    """
    return _stored("elements", records)


def parts(*records: Operator) -> Callable:
    """Registers the operators that an operator is for those who take operators over: PyTorch takes it apart above autograd.

    The function is given the record's arguments, is written in the subset, and runs natively.
    """
    return _stored("parts", records)


def seen_gradient(o: Operator, *inputs: str, in_steps: bool = False) -> Callable:
    """Registers the gradient of some inputs as PyTorch computes it, where somebody takes operators over.

    The parameters are as those of `gradient`, and tensors also where that takes a formula. Values are those of the usual gradient.
    `in_steps`: several operators round; where that matters (half precision, mixed dtypes) the formula is taken.
    """

    def decorate(f: Callable) -> Callable:
        o.seen_gradients[inputs] = f
        if in_steps:
            o.seen_in_steps.add(inputs)
        return f

    return decorate


def seen_as(o: Operator) -> Callable:
    """Registers how PyTorch spells some calls of o: `("rsub.Scalar", arguments)`, or None for those that are o's."""

    def decorate(f: Callable) -> Callable:
        o.seen_as = f
        return f

    return decorate


def inverse(*records: Operator) -> Callable:
    """Registers what a view's base becomes when the view is written to: f(self, written, the view's arguments).

    Views that are several tensors give the place of the written one last. It runs as Python only.
    """

    def decorate(f: Callable) -> Callable:
        for o in records:
            o.inverse = f
        return f

    return decorate


def facts(*records: Operator) -> Callable:
    """Registers the rule for the results of `dynamic` operators on facts: Facts, or what shape rules return.

    It runs as Python only. Sizes that depend on elements are `interpreter.current().unknown_size(...)`. A composite's says what it can
    without asking what the body would, and is NotImplemented else.
    """

    def decorate(f: Callable) -> Callable:
        for o in records:
            o.facts = f
        return f

    return decorate


def rule(f: Callable) -> Callable:
    """Marks a helper written in the translatable subset; its annotations give the types."""
    f._tocha_rule = True  # type: ignore[attr-defined]
    return _taking_scalars(f)


def _taking_scalars(f: Callable) -> Callable:
    """f, which may be given plain numbers for Scalars: the translator makes Scalars of them, and so does this."""
    at = {i for i, t in enumerate(f.__annotations__.values()) if t.strip("\"'") in ("Scalar", "Scalar?")}
    if not at:
        return f

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        return f(*(Scalar(a) if i in at and a is not None else a for i, a in enumerate(args)))

    return call


def intrinsic(cpp: str) -> Callable:
    """Marks a helper that C++ has under the name `cpp`; its Python body runs where records are interpreted, on facts."""

    def decorate(f: Callable) -> Callable:
        f._tocha_intrinsic = cpp  # type: ignore[attr-defined]
        return _taking_scalars(f)

    return decorate


class Namespace:
    """`op.cat(...)` inside a body. The build translates such calls; run as Python they go to the class of the first graph
    value among the arguments (`__tocha_op__`), else to the interpreter (tocha.operators.interpreter), which enters itself.
    """

    interpret: Callable[[str, tuple, dict[str, Any]], Any]

    def __getattr__(self, name: str) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            take = _taker(args) or (_taker(kwargs.values()) if kwargs else None)
            return take(name, args, kwargs) if take is not None else Namespace.interpret(name, args, kwargs)

        call.__name__ = name
        self.__dict__[name] = call
        return call


def _taker(values: Iterable[Any]) -> Callable | None:
    """What takes operators on the first graph value among these."""
    for value in values:
        take = _taker(value) if isinstance(value, tuple | list) else getattr(type(value), "__tocha_op__", None)
        if take is not None:
            return take
    return None


op = Namespace()
