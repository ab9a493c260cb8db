"""The one interpreter of records: runs an operator's Python text on facts (tocha.operators.facts) instead of elements.

`Interpreter.call(o, arguments)` gives the facts of the results: promotion and broadcasting for formulas, the shape for
reductions and kernels, geometry for views; a composite runs its body, whose calls come back here. Whoever must understand
operators without computing them (fake tensors, graph recording, decomposition, differentiation, batching, lowering)
is a subclass that does something else in `call` or in one of the kinds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from tocha.ir import dtypes as dt
from tocha.ir import layout
from tocha.ir.devices import CPU, Device
from tocha.ir.dtypes import DType
from tocha.ir.layout import MemoryFormat
from tocha.ir.promotion import Priority, can_cast, number_dtype, result_type
from tocha.ir.sym_types import Symbolic
from tocha.operators.binding import default_value
from tocha.operators.derived import params, type_codes
from tocha.operators.derived import resolve as resolve_dtype
from tocha.operators.facts import Facts, Out, Scalar, View, plain, schema_type
from tocha.operators.held import check_held
from tocha.operators.record import (
    INT_TO_FLOAT,
    OPERATORS,
    SAME,
    SUM_LIKE,
    TO_BOOL,
    USUAL_WORDS,
    Namespace,
    Operator,
    kernel_word,
    overloads,
)
from tocha.operators.resolve import Bound, Match, matched, resolve
from tocha.operators.schema import Argument


class DataDependent(RuntimeError):
    """What comes out depends on elements, which facts do not have. `operator`: the name of the one that reads them."""

    def __init__(self, operator: str, message: str):
        super().__init__(f"[{operator}] {message}")
        self.operator = operator


class _Running(threading.local):
    """Whose turn it is to take operators, and inside whose body they are called."""

    def __init__(self) -> None:
        self.interpreters: list[Interpreter] = []
        self.within: Callable | None = None


_running = _Running()


def refuse(o: Operator, d: DType, asked: bool = False) -> None:
    """Raises for a dtype that o does not take what the library raises; `asked`: it is that of dtype=."""
    for dtypes, error in (o.types or {}).get("refused", {}).items():
        if d in dtypes or (d is dt.complex32 and dt.complex64 in dtypes):
            said = str(error).replace("{}", str(d))
            raise type(error)(f"[{o.name}] {said.replace('Input dtype', 'Optional dtype') if asked else said}")
    raise NotImplementedError(f"[{o.name}] \"{kernel_word(o.name)}\" not implemented for '{d}'")


def current() -> Interpreter:
    if not _running.interpreters:
        _running.interpreters.append(Interpreter())
    return _running.interpreters[-1]


def member(value: Facts, name: str) -> Any:
    """`value.name` inside a body: a property's value, or the operator waiting for its arguments."""
    if is_property(name):
        return current().apply(name, (value,), {})

    def method(*args: Any, **kwargs: Any) -> Any:
        return current().apply(name, (value, *args), kwargs)

    return method


@cache
def is_property(name: str) -> bool:
    found = overloads(name)
    if not found and not (name.endswith("_") and overloads(name[:-1])):
        raise AttributeError(f"a tensor has no {name}")
    return any("property" in o.variants for o in found)


# ---- arguments -----------------------------------------------------------------------------------


def as_operand(value: Any) -> Facts:
    """A number as the tensor that operators see."""
    if isinstance(value, Facts):
        return value
    value = plain(value)
    operand = _SINGLE.twin(number_dtype(value, current().default_dtype()))
    operand.number = value
    return operand


_SINGLE = Facts((), dt.float32)


def _as_float(v: Any) -> Any:
    if isinstance(v, Scalar):
        return v.to_double()
    return float(v) if isinstance(v, int) else v


def _as_int(v: Any) -> Any:
    if isinstance(v, Scalar):
        return v.to_int()
    return int(v) if isinstance(v, bool | float) else v


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "Tensor": as_operand,
    "Operand": as_operand,
    "Tensor[]": lambda vs: [as_operand(v) for v in vs],
    "Tensor?[]": lambda vs: [None if v is None else as_operand(v) for v in vs],
    "Scalar": Scalar,
    "Scalar[]": lambda vs: [Scalar(v) for v in vs],
    "float": _as_float,
    "float[]": lambda vs: [_as_float(v) for v in vs],
    "int": _as_int,
    "bool": lambda v: v.to_bool() if isinstance(v, Scalar) else v,
}


@cache
def converter(a: Argument) -> Callable[[Any], Any]:
    """What makes of a value that fits an argument the one that a body is given."""
    base = a.type.removesuffix("?")
    if base == "int[]":
        return lambda v: None if v is None else list(v) if isinstance(v, list | tuple) else [v] * (a.size or 1)
    convert = CONVERSIONS.get(base)
    if convert is None:
        return lambda v: v
    return (lambda v: None if v is None else convert(v)) if a.type.endswith("?") else convert


@cache
def default_of(a: Argument) -> Any:
    value = default_value(a)
    if a.type in ("dtype", "dtype?") and isinstance(value, str):
        return dt.by_name(value)
    if a.type == "memory_format?" and isinstance(value, str):
        return layout.MemoryFormat(value)
    return float(value) if a.type in ("float", "float?") and isinstance(value, int | str) else value


def filled(b: Bound, args: tuple, kwargs: dict[str, Any]) -> Any:
    if b.source is None:
        value = default_of(b.argument)
        return converter(b.argument)(list(value) if isinstance(value, list) else value)
    if b.loose:
        return list(args[b.source :])  # type: ignore[misc]
    return converter(b.argument)(args[b.source] if isinstance(b.source, int) else kwargs[b.source])


class Plan:
    """A call that has been resolved once: where each argument comes from, and what makes the body's value of it."""

    __slots__ = ("fixed", "inplace", "operator", "taken")

    def __init__(self, found: Match, types: tuple, keywords: dict[str, str]):
        self.operator, self.inplace = found.operator, found.inplace
        self.fixed: dict[str, Any] = {}  # by name, in the schema's order; what the call gives is put in its place
        self.taken: list[tuple[str, int | str, Callable | None]] = []
        for b in found.arguments:
            name = b.argument.name
            self.fixed[name] = None
            if b.source is None:
                value = filled(b, (), {})
                if isinstance(value, list):  # bodies may write into their lists
                    self.taken.append((name, -1, lambda _, value=value: list(value)))
                else:
                    self.fixed[name] = value
            elif b.loose:
                assert isinstance(b.source, int)
                self.taken.append((name, -1, lambda args, at=b.source: list(args[at:])))
            else:
                given = types[b.source] if isinstance(b.source, int) else keywords[b.source]
                as_it_is = b.argument.is_tensor and given in ("Tensor", "Operand")
                self.taken.append((name, b.source, None if as_it_is else converter(b.argument)))

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        out = self.fixed.copy()
        for name, source, convert in self.taken:
            value = kwargs[source] if isinstance(source, str) else args[source] if source >= 0 else args
            out[name] = value if convert is None else convert(value)
        return out


@lru_cache(maxsize=4096)
def _planned(name: str, types: tuple, keywords: tuple, within: Callable | None) -> Plan:
    by_name = dict(keywords)
    return Plan(resolve(name, types, by_name, within), types, by_name)


def flat_facts(values: Any) -> Iterator[Facts]:
    for v in values:
        if isinstance(v, Facts):
            yield v
        elif isinstance(v, list | tuple):
            yield from flat_facts(v)


# ---- what formulas and folds say of dtypes ---------------------------------------------------------


class Formula:
    """What a pointwise record says of its operands and results."""

    def __init__(self, o: Operator):
        self.operands = [a.name for a in o.schema.arguments if a.is_tensor]
        self.out_codes, self.in_codes, param_codes = type_codes(o)
        self.check = (o.types or {}).get("check")
        self.int_to_float = o.promote == INT_TO_FLOAT
        self.dtypes = frozenset(o.dtypes)
        self.checked = [(n, c) for n, c in zip(self.operands, self.in_codes) if c in ("checked", "filled", "number")]
        self.params = [(a.name, c) for a, c in zip(params(o), param_codes) if a.type == "Scalar"]
        self.deciding = [i for i, c in enumerate(self.in_codes) if not isinstance(c, DType)]
        self.all_decide = len(self.deciding) == len(self.operands)
        self._results: dict[DType, list[DType]] = {}

    def results(self, t: DType) -> list[DType]:
        """The dtypes of the results when it computes in t."""
        found = self._results.get(t)
        if found is None:
            found = self._results[t] = [resolve_dtype(c, t) for c in self.out_codes]
        return found


@cache
def formula_of(o: Operator) -> Formula:
    return Formula(o)


def check_numbers(f: Formula, compute: DType, arguments: dict[str, Any]) -> None:
    """Refuses numbers that the compute dtype cannot hold, where the record asks for that."""
    for name, code in f.checked:
        if (number := arguments[name].number) is not None and not arguments[name].is_meta:
            check_held(compute.compute if code == "number" else compute, number, rounds=code == "filled")
    for name, code in f.params:
        check_held(compute if code == "rounded" else resolve_dtype(code, compute.compute), plain(arguments[name]))


@cache
def fold_results(o: Operator, t: DType) -> tuple[tuple, bool]:
    """The codes of a reduction's results, and whether an empty range has a value."""
    fold = o.body(t)
    return fold.out_types, fold.identity


# ---- the interpreter -------------------------------------------------------------------------------


class Interpreter:
    """Facts in, facts out. Sizes that depend on elements are refused."""

    def __enter__(self) -> Interpreter:
        _running.interpreters.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _running.interpreters.pop()

    # -- what rules ask of the world

    def default_dtype(self) -> DType:
        return dt.float32

    def default_device(self) -> Device:
        return CPU

    def unknown_size(self, op: str, least: Any = 0) -> Any:
        """A size that depends on elements."""
        raise DataDependent(op, "the shape of its result depends on values")

    def elements(self, op: str, t: Facts) -> list[Any]:
        """The elements of a tensor of ints."""
        raise DataDependent(op, f"the elements of {t} are not known")

    def computes(self, t: Facts) -> bool:
        """Whether there are elements, not only shapes."""
        return False

    def wants_gradient(self, t: Facts) -> bool:
        """Whether what is computed from t will be differentiated."""
        return False

    def watched(self) -> bool:
        """Whether somebody is told of the operators: gradients are then in PyTorch's (seen_gradient)."""
        return False

    def recording(self) -> bool:
        """Whether operators are recorded, so that a gradient's own derivative may be asked for."""
        return False

    # -- calls

    def apply(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The operator that a name and arguments mean."""
        types = tuple(map(schema_type, args))
        keywords = tuple([(k, schema_type(v)) for k, v in kwargs.items()]) if kwargs else ()
        plan = _planned(name, types, keywords, _running.within)
        return self.call(plan.operator, plan.arguments(args, kwargs), plan.inplace)

    def call(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        if inplace:
            return self.write(o, arguments)
        return getattr(self, o.kind)(o, arguments)

    @contextmanager
    def inside(self, o: Operator) -> Iterator[None]:
        """While o's body runs, calls of its name mean other overloads, and operators come here."""
        before, _running.within = _running.within, o.body
        _running.interpreters.append(self)
        try:
            yield
        finally:
            _running.interpreters.pop()
            _running.within = before

    # -- the kinds

    def pointwise(self, o: Operator, arguments: dict[str, Any]) -> Any:
        f = formula_of(o)
        if f.check is not None:
            self.check(o, f.check, arguments)
        operands = [arguments[n] for n in f.operands]
        compute = self.compute_dtype(o, f, operands)
        if f.checked or f.params:
            check_numbers(f, compute, arguments)
        dtypes = f.results(compute)
        model = next((v for v in operands if v.sizes), operands[0])
        if model.is_plain and all([v is model or _goes_along(v, model) for v in operands]):
            made = [model.twin(d) for d in dtypes]
        else:
            sizes, strides = self.elementwise_geometry(o, operands, compute)
            device = common_device(o.name, operands)
            made = [Facts(sizes, d, device, strides) for d in dtypes]
        return made[0] if len(made) == 1 else tuple(made)

    def check(self, o: Operator, check: Callable, arguments: dict[str, Any]) -> None:
        """Runs a check of arguments, which it takes by their names."""
        names = check.__code__.co_varnames[: check.__code__.co_argcount]
        with self.inside(o):
            check(**{n: arguments[n] for n in names})

    def compute_dtype(self, o: Operator, f: Formula, operands: list[Facts]) -> DType:
        deciding = operands if f.all_decide else [operands[i] for i in f.deciding]
        common = deciding[0].dtype
        for v in deciding:
            if v.dtype is not common or v.number is not None:
                common = _common_dtype(tuple([(v.dtype, _priority(v)) for v in deciding]))
                break
        if f.int_to_float and not common.is_differentiable:
            common = self.default_dtype()
        if common not in f.dtypes:
            refuse(o, common)
        return common

    def elementwise_geometry(
        self, o: Operator, operands: list[Facts], compute: DType
    ) -> tuple[Sequence[Any], Sequence[Any] | None]:
        """Sizes and strides of an elementwise result; no strides for contiguous ones. An operand that is cast counts as its copy lies."""
        first = operands[0]
        sizes = first.sizes
        if first.dtype in (o.types or {}).get("like_self", ()) and layout.is_dense(sizes, first.steps):
            return sizes, first.steps
        same = True
        for v in operands[1:]:
            if not layout.same_sizes(v.sizes, sizes):
                same = False
                sizes = broadcast(sizes, v.sizes, o.name)
        if same and all([v.is_contiguous() for v in operands]):
            return sizes, None
        if all([v.is_plain for v in operands]) and not any([type(n) is int and n < 2 for n in sizes]):
            return sizes, None
        lie = [
            (v.sizes, v.steps if self.is_read_as_is(v, c, compute) else layout.like_strides(v.sizes, v.steps))
            for v, c in zip(operands, formula_of(o).in_codes, strict=True)
            if v.number is None or c not in ("checked", "number")
        ]
        return sizes, layout.result_strides(sizes, lie)

    def is_read_as_is(self, v: Facts, code: Any, compute: DType) -> bool:
        return v.dtype is resolve_dtype(code, compute) and not v.conjugated and not v.negated

    def reduction(self, o: Operator, arguments: dict[str, Any]) -> Any:
        x = arguments["self"]
        dims = arguments.get("dim")
        dims = [dims] if dims is not None and not isinstance(dims, list) else dims or []
        reduced = _marked(dims, x.ndim, o.name)
        asked = arguments.get("dtype")
        t = self.reduced_dtype(o, x, asked)
        codes, identity = fold_results(o, t.compute)
        if not identity:
            self.check_not_empty(o, x, reduced)
        keepdim = arguments.get("keepdim", False)
        sizes = [1 if r else n for n, r in zip(x.sizes, reduced, strict=True) if keepdim or not r]
        made = []
        for c in codes:
            d = resolve_dtype(c, t)
            # any and all of uint8 stay uint8
            made.append(
                Facts(
                    sizes, dt.uint8 if o.promote == TO_BOOL and d is dt.bool_ and x.dtype is dt.uint8 else d, x.device
                )
            )
        return made[0] if len(made) == 1 else tuple(made)

    def reduced_dtype(self, o: Operator, x: Facts, asked: DType | None) -> DType:
        t = asked or x.dtype
        if o.promote == TO_BOOL:
            t = dt.bool_
        if asked is None and not x.dtype.is_differentiable:
            t = dt.int64 if o.promote == SUM_LIKE else self.default_dtype() if o.promote == INT_TO_FLOAT else t
        if t not in o.dtypes:
            refuse(o, asked or x.dtype, asked is not None)
        return t

    def check_not_empty(self, o: Operator, x: Facts, reduced: list[bool]) -> None:
        for i, (n, r) in enumerate(zip(x.sizes, reduced, strict=True)):
            if r and n == 0:
                if all(reduced) and x.ndim != 1:
                    raise RuntimeError(
                        f"[{o.name}] Expected reduction dim to be specified for an empty tensor: got shape {x.shape}"
                    )
                raise IndexError(
                    f"[{o.name}] Expected reduction dim {i} to have non-zero size: got a tensor of shape {x.shape}"
                )

    def view(self, o: Operator, arguments: dict[str, Any]) -> Any:
        spec = self.run(o, arguments)
        base = arguments[o.schema.arguments[0].name]
        if isinstance(spec, list):
            return [base.with_geometry(s.sizes, s.strides, s.offset, s.dtype) for s in spec]
        result = base.with_geometry(spec.sizes, spec.strides, spec.offset, spec.dtype)
        if "no_gradient" in o.tags:  # the same memory, but nothing that autograd calls a view
            result.base = None
        return result

    def composite(self, o: Operator, arguments: dict[str, Any]) -> Any:
        return self.run(o, arguments)

    def by_facts(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """A composite, where only facts are wanted."""
        known = NotImplemented if o.facts is None else o.facts(*arguments.values())
        return self.run(o, arguments) if known is NotImplemented else known

    def run(self, o: Operator, arguments: dict[str, Any]) -> Any:
        before, _running.within = _running.within, o.body
        _running.interpreters.append(self)
        try:
            return o.body(*arguments.values())
        finally:
            _running.interpreters.pop()
            _running.within = before

    def native(self, o: Operator, arguments: dict[str, Any]) -> Any:
        for a in o.schema.arguments:
            if a.alias.endswith("!") and arguments[a.name] is not None:
                arguments[a.name].memory.version += 1
        if "inplace_kernel" in o.tags:
            self.run(o, arguments)
            target = arguments[o.schema.arguments[0].name]
            if "contiguous" in o.tags:
                return Facts(target.sizes, target.dtype, target.device)
            return self.like(target)
        if o.name.endswith("_") and o.facts is None:
            self.run(o, arguments)
            target = arguments[o.schema.arguments[0].name]
            for x in target if isinstance(target, list) else [target]:
                x.memory.version += 1
            return target if o.schema.returns else None
        if "dynamic" in o.tags or o.facts is not None:
            if o.facts is None:
                raise NotImplementedError(f"[{o.name}] has no rule for facts")
            with self.inside(o):
                return self.made(o, o.facts(*arguments.values()), arguments)
        spec = self.run(o, arguments)
        if spec is None and o.schema.returns:  # a bool or a number
            raise DataDependent(o.name, "its result depends on values")
        return self.made(o, spec, arguments)

    def decompose(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """A kernel's results from its decomposition, laid out as the kernel's are."""
        assert o.decomposition is not None
        # What changes an argument says so by changing it, a view lies where it lies; there is nothing to lay out.
        lies = o.name.endswith("_") or o.kind == "view"
        wanted = None if lies else getattr(Interpreter, o.kind)(self, o, arguments)
        with self.inside(o):
            found = o.decomposition(*arguments.values())
            return found if wanted is None else self.laid_out(found, wanted)

    def laid_out(self, found: Any, wanted: Any) -> Any:
        """Results with the strides that are wanted."""
        if isinstance(found, list | tuple):
            return type(found)(self.laid_out(f, w) for f, w in zip(found, wanted, strict=True))
        if not isinstance(found, Facts):
            return found
        assert found.dtype is wanted.dtype, f"parts of {found.dtype} for a kernel's {wanted.dtype}"
        if found.steps == wanted.steps:
            return found
        if wanted.is_plain or wanted.is_contiguous():
            return self.apply("clone", (found,), {"memory_format": MemoryFormat.contiguous_format})
        target = self.apply(
            "empty_strided", (wanted.shape, wanted.strides), {"dtype": wanted.dtype, "device": wanted.device}
        )
        return self.apply("copy_", (target, found), {})

    def made(self, o: Operator, spec: Any, arguments: dict[str, Any]) -> Any:
        """Results from what a shape rule says of them."""
        if isinstance(spec, Out):
            device = spec.device if spec.device is not None else self.device_of(arguments)
            return Facts(spec.sizes, spec.dtype, device, spec.strides)
        if isinstance(spec, View):
            return arguments[o.schema.arguments[0].name].with_geometry(
                spec.sizes, spec.strides, spec.offset, spec.dtype
            )
        if isinstance(spec, tuple):
            return tuple(self.made(o, s, arguments) for s in spec)
        return [self.made(o, s, arguments) for s in spec] if isinstance(spec, list) else spec

    def device_of(self, arguments: dict[str, Any]) -> Device:
        """A kernel's results are where its first tensor is, or on meta if any tensor is."""
        tensors = list(flat_facts(arguments.values()))
        if not tensors:
            return self.default_device()
        return next((v.device for v in tensors if v.is_meta), tensors[0].device)

    def like(self, x: Facts) -> Facts:
        return Facts(x.sizes, x.dtype, x.device, layout.like_strides(x.sizes, x.steps))

    def foreach(self, o: Operator, arguments: dict[str, Any], inplace: bool = False) -> Any:
        """The operator of one tensor for each of the lists."""
        each = o.each
        assert each is not None
        lists = [arguments[a.name] for a in o.schema.arguments if a.type == "Tensor[]"]
        inplace = inplace or o.name.endswith("_")
        out = []
        for i in range(len(lists[0])):
            one = {wanted.name: _for_one(wanted, given, arguments, i) for wanted, given in matched(o)}
            if "foreach_inplace" in o.tags:  # several results, which replace the first operands
                results = self.call(each, one)
                for target, _ in zip(lists, results if isinstance(results, tuple) else (results,), strict=False):
                    target[i].memory.version += 1
            else:
                out.append(self.call(each, one, inplace and not each.name.endswith("_")))
        return lists[0] if inplace else out

    # -- in place

    def write(self, o: Operator, arguments: dict[str, Any]) -> Any:
        """The in-place form: the first argument takes the result."""
        if o.kind == "foreach":
            return self.foreach(o, arguments, True)
        target = arguments[o.schema.arguments[0].name]
        check = (o.types or {}).get("check_inplace")
        if check is not None:
            self.check(o, check, arguments)
        if o.kind == "view":
            spec = self.run(o, arguments)
            target.reshape_in_place(spec.sizes, spec.strides, spec.offset)
            target.memory.version += 1
            return target
        self.check_written(o, target, self.call(o, arguments))
        target.memory.version += 1
        return target

    def check_written(self, o: Operator, target: Facts, result: Facts) -> None:
        """Whether a result fits where it is to be written."""
        if list(result.sizes) != list(target.sizes):
            raise RuntimeError(
                f"[{o.name}_] output with shape {target.shape} doesn't match the broadcast shape {result.shape}"
            )
        if not can_cast(result.dtype, target.dtype):
            raise RuntimeError(
                f"[{o.name}_] result type {result.dtype} can't be cast to the desired output type {target.dtype}"
            )

    def into(self, o: Operator, arguments: dict[str, Any], outs: Sequence[Facts]) -> Any:
        """The out= form: each result goes into a tensor that is given, which takes its sizes where its own differ."""
        given = dict(arguments)
        if "factory" in o.tags:
            for name in ("dtype", "device"):
                of_out = getattr(outs[0], name)
                if given.get(name) not in (None, of_out):
                    raise RuntimeError(f"{name} {given[name]} does not match {name} of out parameter ({of_out})")
                given[name] = of_out
        if (check := (o.types or {}).get("check_out")) is not None:
            self.check(o, check, {**arguments, "out0": outs[0]})
        results = self.call(o, given)
        results = results if isinstance(results, tuple | list) else (results,)
        for i, (target, r) in enumerate(zip(outs, results, strict=True)):
            self.check_out(o, i, target, r, arguments)
            if target.sizes != r.sizes and not ("out_of_count" in o.tags and target.numel() == r.numel()):
                if (o.kind == "pointwise" or "pointwise" in o.tags) and any(v is target for v in arguments.values()):
                    raise RuntimeError(
                        f"[{o.name}] output with shape {target.shape} doesn't match the broadcast shape {r.shape}"
                    )
                steps = r.steps if o.kind == "pointwise" else layout.contiguous_strides(r.sizes)
                target.reshape_in_place(r.sizes, steps, target.offset)
            target.memory.version += 1
        return outs[0] if len(outs) == 1 else tuple(outs)

    def check_out(self, o: Operator, i: int, target: Facts, r: Facts, arguments: dict[str, Any]) -> None:
        if target.device != r.device:
            raise RuntimeError(
                f"[{o.name}] Expected out tensor to have device {r.device}, but got {target.device} instead"
            )
        if "given_out" in o.tags and target.sizes != r.sizes:
            raise RuntimeError(
                f"[{o.name}] Expected out tensor to have shape {r.shape}, but got {target.shape} instead"
            )
        if "out_kind" in (o.types or {}):
            said, kind = o.types["out_kind"]  # type: ignore[index]
            if not (target.dtype.is_complex if kind == "complex" else target.dtype.is_floating):
                raise RuntimeError(f"[{o.name}] {said} expects a {kind} output tensor, but got {target.dtype}")
        if r.dtype is target.dtype or "out_dtype" in o.tags:
            return
        words = o.out_words(i) or (USUAL_WORDS if _fills_out(o) else None)
        if words is not None:
            said = {"result": r.dtype, "out": target.dtype, "c_result": r.dtype.cpp, "c_out": target.dtype.cpp}
            raise RuntimeError(f"[{o.name}] {words.format(**said, **arguments)}")
        if not can_cast(r.dtype, target.dtype):
            raise RuntimeError(
                f"[{o.name}] result type {r.dtype} can't be cast to the desired output type {target.dtype}"
            )


def _fills_out(o: Operator) -> bool:
    """Whether a kernel writes straight into out=, which has the result's dtype then."""
    if o.kind == "reduction":
        return o.promote == SAME
    return o.kind == "native" and not o.tags & {"dynamic", "inplace_kernel"}


def _for_one(wanted: Argument, given: Argument | None, arguments: dict[str, Any], i: int) -> Any:
    """An argument of the operator that lists repeat, for tensor i."""
    if given is None:
        value = default_of(wanted)
        return converter(wanted)(list(value) if isinstance(value, list) else value)
    value = arguments[given.name]
    if given.type in ("Tensor[]", "Scalar[]"):
        value = value[i]
    elif given.type == "Tensor" and not wanted.is_tensor:
        raise DataDependent("foreach", "a tensor of numbers, one for each tensor")
    return converter(wanted)(value)


def common_device(op: str, operands: Sequence[Facts]) -> Device:
    """Where the results are; 0-d CPU tensors go anywhere."""
    found: Device | None = None
    for v in operands:
        if not v.sizes and v.device == CPU:
            continue
        if found is None:
            found = v.device
        elif v.device != found:
            raise RuntimeError(
                f"[{op}] Expected all tensors to be on the same device, but found at least two devices, {found} and {v.device}"
            )
    return found if found is not None else operands[0].device


def _goes_along(v: Facts, model: Facts) -> bool:
    """Whether an operand leaves an elementwise result as the model says: it is laid out alike, or a single element."""
    if not v.sizes:
        return v.device == model.device or v.device == CPU
    return layout.same_sizes(v.sizes, model.sizes) and v.device == model.device and v.is_contiguous()


_common_dtype = lru_cache(result_type)


def result_type_of(tensors: Sequence[Facts]) -> DType:
    return result_type((v.dtype, _priority(v)) for v in tensors)


_NUMBER, _ZERO_DIM, _DIMENSIONED = Priority.NUMBER, Priority.ZERO_DIM, Priority.DIMENSIONED  # enums look names up


def _priority(v: Facts) -> Priority:
    return _NUMBER if v.number is not None else _DIMENSIONED if v.sizes else _ZERO_DIM


def broadcast(a: Sequence[Any], b: Sequence[Any], op: str) -> tuple[Any, ...]:
    """The common shape; sizes that are symbols are taken to be equal, which is a guard where it is not known."""
    if len(a) < len(b):
        a, b = b, a
    out = list(a)
    lead = len(a) - len(b)
    for i, y in enumerate(b, lead):
        x = out[i]
        if x is y or (isinstance(y, int) and y == 1):
            continue
        if isinstance(x, int) and x == 1:
            out[i] = y
        elif x != y:
            if y == 1:
                continue
            if x != 1:
                raise RuntimeError(
                    f"[{op}] The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}: {list(a)} and {list(b)}"
                )
            out[i] = y
        elif not isinstance(x, int):
            out[i] = y if isinstance(y, int) else x
    return tuple(out)


def written(target: Facts) -> Facts:
    """A tensor that an operator has written to."""
    target.memory.version += 1
    return target


def check_takes(op: str, target: Facts, sizes: Sequence[Any]) -> None:
    """Whether something of these sizes may be written over a tensor. Sizes that nobody knows are taken to be right."""
    if any(isinstance(n, Symbolic) and n.env.hint(n.expr) is None for n in (*target.sizes, *sizes)):
        return
    together = broadcast(target.sizes, sizes, op)
    if len(together) != target.ndim or not all(a is b or a == b for a, b in zip(together, target.sizes, strict=True)):
        raise RuntimeError(
            f"[{op}] output with shape {target.shape} doesn't match the broadcast shape {list(together)}"
        )


def _marked(dims: list[int], ndim: int, op: str) -> list[bool]:
    reduced = [not dims] * ndim
    n = max(ndim, 1)
    for d in dims:
        if not -n <= d < n:
            raise IndexError(f"[{op}] Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    for d in dims:
        if not ndim:
            continue
        if reduced[d % n]:
            raise RuntimeError(f"[{op}] dim {d % n} appears multiple times in the list of dims")
        reduced[d % n] = True
    return reduced


# ---- Python's operators on facts -------------------------------------------------------------------


def _python_operator(name: str, swapped: bool) -> Callable:
    def method(self: Facts, *other: Any) -> Any:
        others = tuple([v if isinstance(v, Facts) else _as_number(v) for v in other])
        return current().apply(name, (*others, self) if swapped else (self, *others), {})

    return method


def _as_number(v: Any) -> Any:
    return as_operand(v) if isinstance(v, int | float | complex | Scalar) else v


def bind_operators() -> None:
    """Gives Facts the operators of the records; called when the records are loaded."""
    for o in OPERATORS.values():
        if o.operator:
            setattr(Facts, o.operator, _python_operator(o.name, False))
            if len(o.schema.arguments) > 1:
                setattr(Facts, "__r" + o.operator[2:], _python_operator(o.name, True))
    Facts.__hash__ = object.__hash__  # type: ignore[method-assign]


def _interpret(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    return current().apply(name, args, kwargs)


Namespace.interpret = staticmethod(_interpret)  # type: ignore[assignment]
Facts.member = member  # type: ignore[assignment, method-assign]
