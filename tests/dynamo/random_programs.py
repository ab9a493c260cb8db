"""Random functions over Python's constructs, and what it means that one did the same compiled as interpreted."""

import contextlib
import copy
import io
import linecache
import textwrap
import traceback

import tocha
from tocha import _dynamo

PREFIX = """
import collections, contextlib, dataclasses, enum, functools, itertools, math, operator, typing
import tocha
from tocha._dynamo import graph_break

COUNT = 0
SHARED = [1, 2]
SETTINGS = {"rate": 2, "name": "s"}

class Scope:
    def __init__(self, table, swallow=KeyError):
        self.table, self.swallow = table, swallow
    def __enter__(self):
        self.table["in"] = self.table.get("in", 0) + 1
        return self
    def __exit__(self, kind, error, trace):
        self.table["out"] = kind.__name__ if kind else None
        return kind is not None and issubclass(kind, self.swallow)

@contextlib.contextmanager
def scope(log, name):
    log.append(("enter", name))
    try:
        yield len(log)
    except ZeroDivisionError as e:
        log.append(("caught", name, e.args))
    finally:
        log.append(("leave", name))

class Color(enum.Enum):
    RED = 1
    BLUE = 2

class Number(typing.NamedTuple):
    value: int
    step: int = 2

@dataclasses.dataclass
class Point:
    x: int = 1
    y: int = 2
    tags: list = dataclasses.field(default_factory=list)
    def shifted(self, by):
        return dataclasses.replace(self, x=self.x + by)

class Base:
    kind = "base"
    made = 0
    def __init__(self, n):
        self.n = n
        self._hidden = n * 2
    @property
    def double(self):
        return self._hidden
    @double.setter
    def double(self, value):
        self._hidden = value
    @classmethod
    def make(cls, n):
        return cls(n)
    @staticmethod
    def twice(n):
        return n * 2
    def grow(self, by=1, *rest, **named):
        self.n += by + len(rest) + sum(named.values())
        return self
    def __add__(self, other):
        return type(self)(self.n + (other.n if isinstance(other, Base) else other))
    def __eq__(self, other):
        return isinstance(other, Base) and self.n == other.n
    def __hash__(self):
        return hash(self.n)
    def __len__(self):
        return abs(self.n) % 5
    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return self.n + i
    def __repr__(self):
        return f"{type(self).__name__}({self.n})"

class Derived(Base):
    kind = "derived"
    def __init__(self, n):
        super().__init__(n + 1)
    def grow(self, by=1, *rest, **named):
        super().grow(by * 2, *rest, **named)
        return self
    def __bool__(self):
        return self.n > 2

class Slotted:
    __slots__ = ("value",)
    def __init__(self, value):
        self.value = value

class Failure(Exception):
    def __init__(self, code, text="failed"):
        super().__init__(code, text)
        self.code = code

def helper(t, *, k=1):
    return t * k + 1

def gather(*args, sep=0, **named):
    return len(args) + sep + sum(named.values())

def counted(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        inner.calls += 1
        return f(*args, **kwargs)
    inner.calls = 0
    return inner

def repeated(times):
    def decorate(f):
        def inner(*args):
            result = None
            for _ in range(times):
                result = f(*args)
            return result
        return inner
    return decorate

@counted
def doubled(v):
    return v * 2

def total(n):
    return 0 if n <= 0 else n + total(n - 1)

def upto(n):
    for i in range(n):
        yield i

def echo(first):
    got = first
    while True:
        try:
            got = yield got
        except ValueError as e:
            got = ("thrown", e.args)
        if got is None:
            return "done"

def delegating(n):
    try:
        last = yield from echo(n)
        yield last
    finally:
        SHARED.append(n)

def fail(code):
    raise Failure(code)

def nested_fail(code):
    try:
        fail(code)
    except Failure as e:
        raise ValueError(code) from e

@tocha.compiler.disable
def log(value):
    LOG.append(value)
    return value

def bump_global(by):
    global COUNT
    COUNT += by
    return COUNT
"""

SIGNATURE = "def f(x, y, a, b, items, table, box, s):"
START = "n, kept, count, bag, pair = 3, [], 0, {1, 2}, Number(4)"
NONLOCAL = "def bump(by=1):\n    nonlocal count\n    count += by\n    return count"
FINISH = "return x, y, a, b, n, kept, items, count, sorted(bag, key=repr), pair, s"


class Writer:
    """Writes one random program; every choice comes from `random`, so that a choice can be made smaller."""

    def __init__(self, chance, breaks=True):
        self.chance, self.breaks = chance, breaks
        self.fresh = 0

    def pick(self, *options):
        return self.chance.choice(options)

    def name(self, stem):
        self.fresh += 1
        return f"{stem}{self.fresh}"

    # ---- expressions

    def tensor(self, depth=2):
        t = self.pick("x", "y")
        if depth == 0:
            return t
        inner = self.tensor(depth - 1)
        return self.pick(
            t,
            f"({inner} {self.pick('+', '-', '*')} {self.number(0)})",
            f"({t} {self.pick('+', '*')} {inner})",
            f"tocha.relu({inner})",
            f"{inner}.neg()",
            f"helper({inner}, k={self.number(0)})",
            f"{inner}.reshape(-1)",
            f"({inner} if {self.boolean(1)} else {t})",
            f"tocha.stack([{t}, {inner}]).sum(0)",
            f"sum([{t}, {inner}])",
            f"functools.reduce(operator.add, [{t}, {inner}, {t}])",
            f"(lambda q, *r: q + len(r))({inner}, *items)",
            f"{inner}.clamp(min={self.number(0)})",
            f"[{t}, {inner}][{self.number(0)} % 2]",
            f"max(x, {inner}, key=lambda q: q.shape[0])",
        )

    def number(self, depth=2):
        plain = self.pick("a", "b", "n", str(self.chance.randint(-3, 4)))
        if depth == 0:
            return plain
        m, k = self.number(depth - 1), self.number(depth - 1)
        return self.pick(
            plain,
            f"({m} {self.pick('+', '-', '*', '//', '%', '&', '|', '^')} {k})",
            "len(items)",
            f"items[{self.chance.randint(-3, 3)}]",
            f"table.get('k', {m})",
            "table['k']",
            "sum(items)",
            "max(items)",
            f"min([{m}, {k}])",
            "x.shape[0]",
            "y.dim()",
            "x.numel()",
            "box.n",
            "box.double",
            f"({m} if {self.boolean(1)} else {k})",
            f"sum(i * {plain} for i in items if i)",
            f"sum([i for i in range({self.chance.randint(0, 3)})])",
            "len({i % 2: i for i in items})",
            f"bump({self.pick('', m)})",
            f"gather({m}, *items, sep={plain}, **{{'q': 1}})",
            f"gather(*[{m}, {k}], **table)",
            f"doubled({m})",
            f"repeated(2)(doubled)({m})",
            f"total({self.chance.randint(0, 4)})",
            f"sum(upto({self.chance.randint(0, 4)}))",
            f"pair.{self.pick('value', 'step')}",
            f"pair[{self.chance.randint(-2, 2)}]",
            "COUNT",
            f"bump_global({plain})",
            "SETTINGS['rate']",
            "SHARED[-1]",
            "len(SHARED)",
            f"Base.make({m}).n",
            f"Derived({m}).grow({k}, 1, z=2).n",
            f"(Base({m}) + {k}).n",
            f"Base.twice({m})",
            f"Point({m}).shifted({k}).x",
            f"len(Base({m}))",
            f"list(Base({m}))[-1]",
            f"Slotted({m}).value",
            f"functools.partial(gather, {m})({k})",
            f"next(iter(items), {m})",
            f"dict(zip('ab', items)).get('a', {m})",
            "len(s)",
            "ord(s[0])",
            f"int({self.pick('True', m)})",
            f"abs({m})",
            f"divmod({m}, 3)[1]",
            f"sorted([{m}, {k}, 1], key=lambda v: -v)[0]",
            f"(lambda v, w={m}: v + w)({k})",
            "sum(v for k_, v in table.items() if isinstance(v, int))",
            "len(bag)",
            "sum(itertools.accumulate(items))",
            f"math.gcd({m}, {k})",
            f"[*items, {m}][-1]",
            f"round({m} / 2)",
            f"(n := {m})",
            f"hash({plain})",
            f"items.count({plain})",
            f"items.index({plain})",
        )

    def boolean(self, depth=1):
        m, k = self.number(depth and depth - 1), self.number(0)
        if depth == 0:
            return f"{m} > {k}"
        inner = self.boolean(depth - 1)
        return self.pick(
            f"{m} {self.pick('>', '<', '==', '!=', '>=', '<=')} {k}",
            f"{m} in items",
            f"{m} not in bag",
            "'k' in table",
            "x.shape == y.shape",
            "x.shape[0] > 2",
            "x.dtype is tocha.float32",
            "items",
            "table",
            "box is None",
            "isinstance(box, Base)",
            f"not {inner}",
            f"({inner} and {m})",
            f"({inner} or {m})",
            f"1 < {m} < {k}",
            "any(i > 1 for i in items)",
            "all(items)",
            f"Base({m}) == Base({k})",
            f"bool(Derived({m}))",
            "s.startswith('t')",
            "callable(box)",
            f"hasattr(box, '{self.pick('n', 'missing')}')",
            "Color.RED is Color(1)",
            "x is y",
            *(["(x.sum().item() > 1)", "bool((y > 0).all())", "x.sum() > 0"] if self.breaks else []),
        )

    def text(self, depth=1):
        m = self.number(depth and depth - 1)
        if depth == 0:
            return self.pick("s", "'t'")
        return self.pick(
            "s",
            f"f'{{{m}}}-{{s!r}}'",
            f"f'{{{m}:>4}}|{{x.shape[0]}}'",
            f"str({m})",
            f"s + {self.text(0)}",
            "','.join(str(i) for i in items)",
            f"'%d:%s' % ({m}, s)",
            f"'{{}} {{k}}'.format({m}, k=s)",
            "s.upper()",
            "s[::-1]",
            "s * 2",
            "repr(items)",
            "repr(box)",
            "box.kind",
            "type(box).__name__",
            "'a,b,c'.split(',')[1]",
            "repr(table)",
            "repr(pair)",
            f"Color({m}).name",
            "f'{items} {table}'",
        )

    def value(self, depth=2):
        return self.pick(self.tensor, self.number, self.text, self.boolean)(min(depth, 1))

    # ---- statements

    def simple(self):
        m = self.number(1)
        options = [
            f"{self.pick('x', 'y')} = {self.tensor()}",
            f"{self.pick('a', 'b', 'n')} = {self.number()}",
            f"{self.pick('x', 'y')} {self.pick('+=', '-=', '*=')} {self.number(0)}",
            f"{self.pick('a', 'b', 'n')} {self.pick('+=', '-=', '*=')} {m}",
            f"s = {self.text()}",
            f"items.append({m})",
            f"items[{self.chance.randint(-3, 3)}] = {m}",
            f"items[{self.chance.randint(0, 2)}:] = [{m}, {self.number(0)}]",
            f"del items[{self.chance.randint(-3, 3)}]",
            f"table['{self.pick('k', 'z')}'] = {m}",
            f"table.update({self.pick('q', 'k')}={m})",
            "table.setdefault('l', []).append(n)",
            f"box.n = {m}",
            f"box.double = {m}",
            f"box.{self.pick('n', 'extra')} = {self.value()}",
            "del box.extra",
            f"box.grow({m}, *items[:1])",
            "items.pop()",
            "items.reverse()",
            "items.sort()",
            "items.sort(key=lambda v: -v)",
            f"items.insert(0, {m})",
            f"items.remove({m})",
            f"items.extend(upto({self.chance.randint(0, 3)}))",
            "items.clear()",
            "table.pop('k')",
            "del table['k']",
            "table.popitem()",
            "a, b = b, a",
            f"a, *b_, n = {self.pick('items', '(1, 2, 3)', 'upto(3)')}",
            f"(a, (b, n)) = ({m}, ({self.number(0)}, 2))",
            "items += [a]",
            "items *= 2",
            f"bag.add({m})",
            f"bag |= {{{m}}}",
            f"bag -= {{{m}, 1}}",
            f"bag.discard({m})",
            f"pair = pair._replace(value={m})",
            "pair = Number(*pair)",
            f"SHARED.append({m})",
            f"SETTINGS['rate'] = {m}",
            f"Base.made = {m}",
            f"raise ValueError({m})",
            "raise KeyError('k')",
            f"raise Failure({m})",
            f"fail({m})",
            f"nested_fail({m})",
            f"assert {self.boolean()}, {m}",
            f"kept.append({self.value()})",
            f"kept.append({self.tensor()})",
            f"kept.append((items, {m}))",
            "kept.append(list(items))",
            "kept.append(lambda: 3)" if False else "kept.append(Point(a, b))",
            f"kept.append(Base({m}))",
            "kept.append({k_: v for k_, v in table.items()})",
            f"kept.append([{self.tensor(1)} for _ in range(2)])",
            f"kept.append({{i: {self.tensor(0)} for i in range(2)}})",
            "kept.append([i * j for i in items for j in range(2) if i > j])",
            f"kept.append(tuple(map(lambda v: v + {m}, items)))",
            "kept.append(kept[-1])",
            "kept.append(items)",
            "pass",
            f"return {self.value()}",
            f"x.add_({self.number(0)})",
            f"x[0] = {self.number(0)}",
            "del s" if False else "s = s",
        ]
        if self.breaks:
            options += [f"log({m})", f"log({self.tensor(0)}.shape[0])", f"print({m})", "graph_break()"] * 2
            options += [f"a = log({m})", f"x = x + log({self.number(0)})", f"kept.append(log({m}))"]
            options += ["a = int(x.sum().item())", "table['t'] = x.sum().item()", "kept.append(x.tolist())"]
        return self.chance.choice(options)

    def body(self, depth, loop=False, generator=False):
        return "\n".join(self.statement(depth - 1, loop, generator) for _ in range(self.chance.randint(1, 3)))

    def statement(self, depth, loop=False, generator=False):
        if depth <= 0 or self.chance.random() < 0.45:
            if loop and self.chance.random() < 0.15:
                return f"if {self.boolean()}:\n    {self.pick('break', 'continue')}"
            if generator and self.chance.random() < 0.4:
                return self.pick(f"yield {self.value()}", "got = yield n\nkept.append(got)", "yield from items")
            return self.simple()
        make = self.pick(
            self.s_if, self.s_for, self.s_while, self.s_try, self.s_try, self.s_with, self.s_match, self.s_function,
            self.s_generator, self.s_class, self.s_group, self.s_closure, self.s_consume, self.s_recursion,
        )  # fmt: skip
        return make(depth, loop, generator)

    def s_if(self, depth, loop, generator):
        text = f"if {self.boolean()}:\n{indent(self.body(depth, loop, generator))}"
        if self.chance.random() < 0.3:
            text += f"\nelif {self.boolean()}:\n{indent(self.body(depth, loop, generator))}"
        if self.chance.random() < 0.6:
            text += f"\nelse:\n{indent(self.body(depth, loop, generator))}"
        return text

    def s_for(self, depth, loop, generator):
        v = self.name("v")
        over = self.pick(
            f"range({self.chance.randint(0, 3)})", "list(items)", "items[:3]", "enumerate(items[:3])", "list(table)",
            "zip(items[:3], 'abc')", "upto(3)", "sorted(bag, key=repr)", "pair", "x.shape", "reversed(items[:2])", "(x, y)", "Base(1)", "s[:3]",
            "list(table.items())", "itertools.chain(items[:2], (7,))", "itertools.islice(itertools.count(), 3)", "Color", "map(str, items[:2])",
        )  # fmt: skip
        text = f"for {v} in {over}:\n{indent(self.body(depth, True, generator))}"
        if self.chance.random() < 0.4:
            text += f"\n    kept.append({v})"
        if self.chance.random() < 0.3:
            text += f"\nelse:\n{indent(self.body(depth, loop, generator))}"
        return text

    def s_while(self, depth, loop, generator):
        w = self.name("w")
        return f"{w} = {self.chance.randint(0, 3)}\nwhile {w} > 0:\n    {w} -= 1\n{indent(self.body(depth, True, generator))}"

    def s_try(self, depth, loop, generator):
        text = f"try:\n{indent(self.body(depth, loop, generator))}"
        kind = self.chance.randint(0, 5)
        e = self.name("e")
        if kind <= 3:
            which = self.pick("ValueError", "(ValueError, IndexError)", "Exception", "Failure", "KeyError", "(Failure, LookupError)", "ZeroDivisionError")  # fmt: skip
            after = self.pick(
                f"kept.append({e}.args)", f"kept.append(type({e}).__name__)", f"kept.append(str({e}))", "raise", "pass",
                f"raise RuntimeError('again') from {e}", "raise RuntimeError('other')", "raise KeyError('n') from None",
                f"kept.append(type({e}.__context__).__name__)", f"kept.append(repr({e}))",
            )  # fmt: skip
            text += f"\nexcept {which} as {e}:\n{indent(self.body(depth, loop, generator))}\n    {after}"
            if self.chance.random() < 0.3:
                text += f"\nexcept Exception:\n{indent(self.body(depth, loop, generator))}"
        if kind <= 3 and self.chance.random() < 0.3:
            text += f"\nelse:\n{indent(self.body(depth, loop, generator))}"
        if kind > 3 or self.chance.random() < 0.3:
            text += f"\nfinally:\n{indent(self.body(depth, loop, generator))}"
        return text

    def s_with(self, depth, loop, generator):
        v = self.name("c")
        manager = self.pick(
            "Scope(table)", f"Scope(table) as {v}", "Scope(table, ValueError)", "scope(kept, 'm')", f"scope(kept, n) as {v}",
            "contextlib.suppress(KeyError, IndexError)", "tocha.no_grad()", "contextlib.nullcontext(n)", "Scope(table), scope(kept, 2)",
        )  # fmt: skip
        return f"with {manager}:\n{indent(self.body(depth, loop, generator))}"

    def s_match(self, depth, loop, generator):
        subject = self.pick("items", "table", "a", "(a, b)", "box", "pair", "s", "Point(a, 3)", "x.shape", "kept")
        cases = self.chance.sample(
            ["[]", "[1, *rest]", "[p, q]", "{'k': v_}", "{'k': v_, **rest}", "0 | 1", "int()", "str()", "Base(n=3)", "Point(x=1)", "Point(p, q)",
             "Number(value=p)", "(p, q) if p > 1", "[p, *_]", "None", "-1", "'t'", "Derived()", "[[p], *_]", "dict()", "Color.RED"],
            2,
        )  # fmt: skip
        text = f"match {subject}:"
        for case in cases:
            text += f"\n    case {case}:\n{indent(indent(self.body(depth, loop, generator)))}"
        if self.chance.random() < 0.5:
            text += f"\n    case _:\n{indent(indent(self.body(depth, loop, generator)))}"
        return text

    def s_function(self, depth, loop, generator):
        g = self.name("g")
        decorator = self.pick("", "", "@counted\n", "@repeated(2)\n", "@functools.lru_cache\n" if False else "")
        writes = self.pick("nonlocal n, x", "nonlocal a, b, s", "nonlocal kept, y", "global COUNT\nCOUNT += 1")
        signature = self.pick("p, q=2", "*p", "p, /, q=1, *, r=3", "p, **named")
        call = self.pick(
            f"{g}({self.number(1)})", f"kept.append({g}({self.number(1)}))", f"{g}(*items[:1])", f"a = {g}(1) or 1"
        )
        text = f"{decorator}def {g}({signature}):\n{indent(writes)}\n{indent(self.body(depth))}"
        return f"{text}\n{call}"

    def s_closure(self, depth, loop, generator):
        g, c = self.name("make"), self.name("c")
        text = f"def {g}({c}):\n    def step(by=1):\n        nonlocal {c}\n        {c} = {c} + by\n        return {c}\n    return step"
        use = self.pick(
            f"one, two = {g}({self.number(0)}), {g}(2)\nkept.append((one(), one(2), two()))",
            f"kept.append([{g}(i)() for i in range(2)])",
            "kept.append([w(1) for w in [lambda v, i=i: v + i + n for i in range(3)]])",
            f"kept.append({g}(x)(y))",
            "kept.append([w() for w in [lambda: i for i in range(3)]])",
        )
        return f"{text}\n{use}"

    def s_generator(self, depth, loop, generator):
        g = self.name("gen")
        writes = self.pick("nonlocal n, x", "nonlocal a, s", "nonlocal kept, y")
        text = f"def {g}():\n{indent(writes)}\n{indent(self.body(depth, False, True))}\n    yield n"
        use = self.pick(
            f"kept.append(list({g}()))", f"for v in {g}():\n    kept.append(v)", f"kept.append(next({g}()))", f"kept.append(tuple(v for v in {g}()))",
            f"kept.append(sum(1 for _ in {g}()))", f"first, *others = {g}()", f"h = {g}()\nkept.append(next(h, 0))\nkept.append(next(h, 0))\nh.close()",
            f"h = {g}()\nnext(h)\ntry:\n    kept.append(h.send(5))\nexcept StopIteration as stop:\n    kept.append(stop.value)",
            f"h = {g}()\nnext(h)\nlog(1)\nkept.append(list(h))" if self.breaks else f"kept.append(list({g}()))",
        )  # fmt: skip
        return f"{text}\n{use}"

    def s_consume(self, depth, loop, generator):
        return self.pick(
            "e_ = echo(a)\nkept.append(next(e_))\nkept.append(e_.send(3))\nkept.append(e_.throw(ValueError(1)))",
            "d_ = delegating(a)\nkept.append(next(d_))\nkept.append(d_.send(4))\nkept.append(d_.send(None))",
            "d_ = delegating(b)\nnext(d_)\nd_.close()",
            "d_ = delegating(b)\nnext(d_)\nkept.append(d_.throw(ValueError('q')))",
            "d_ = delegating(b)\nnext(d_)\ntry:\n    d_.throw(KeyError('q'))\nexcept KeyError as k_:\n    kept.append(k_.args)",
            "it_ = iter(items)\nkept.append(next(it_, None))\nkept.append(list(it_))",
            "it_ = iter([x, y])\nx = next(it_)\nfor t_ in it_:\n    kept.append(t_)",
            "z_ = zip(items, itertools.count(a))\nkept.append(next(z_, 0))\nkept.append(list(z_))",
        )

    def s_class(self, depth, loop, generator):
        c = self.name("Made")
        bases = self.pick("", "(Base)", "(Exception)", "(list)", "(dict)")
        text = f"class {c}{bases}:\n    limit = {self.number(1)}\n    def area(self, k=a):\n        return self.limit + k\n    @property\n    def half(self):\n        return self.limit // 2"
        arg = "(1)" if bases == "(Base)" else "()"
        use = self.pick(
            f"kept.append({c}{arg}.area())",
            f"kept.append({c}{arg}.half)",
            f"obj = {c}{arg}\nobj.limit = n\nkept.append(obj.area(1))",
            f"kept.append({c}.limit)",
            f"kept.append(isinstance({c}{arg}, Base))",
        )
        return f"{text}\n{use}"

    def s_group(self, depth, loop, generator):
        e = self.name("e")
        return (
            f"try:\n    raise ExceptionGroup('many', [ValueError({self.number(0)}), {self.pick('KeyError(1)', 'TypeError(2)', 'ValueError(9)')}])\n"
            f"except* ValueError as {e}:\n    kept.append(len({e}.exceptions))\n{indent(self.body(depth))}\nexcept* KeyError:\n    kept.append('key')".replace(
                "return", "kept.append"
            )
        )

    def s_recursion(self, depth, loop, generator):
        r = self.name("rec")
        text = f"def {r}(k, t):\n    if k <= 0:\n        return t\n    kept.append(k)\n    return {r}(k - 1, t + {self.pick('1', 'k', 'x')})"
        return f"{text}\nx = {r}({self.chance.randint(0, 3)}, x)"

    def program(self):
        statements = [self.statement(3) for _ in range(self.chance.randint(1, 6))]
        return "\n".join([PREFIX, SIGNATURE, indent(START), indent(NONLOCAL), *map(indent, statements), indent(FINISH)])


def indent(text):
    return textwrap.indent(text, "    ")


def compiles(text):
    """Not every combination is a program (return in except*, nonlocal of a parameter)."""
    try:
        compile(text, "<program>", "exec")
    except SyntaxError:
        return False
    return True


# ---- what a run did


def snapshot(value, seen=()):
    """A value as plain data that can be compared: types, contents, and which objects are the same."""
    if isinstance(value, tocha.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), value.requires_grad, repr(value.tolist()))
    if isinstance(value, (int, float, str, bytes, type(None), type)):
        return (type(value).__name__, value.__qualname__ if isinstance(value, type) else repr(value))
    for k, other in enumerate(seen):
        if other is value:
            return ("seen", k)
    seen = [*seen, value]
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return (type(value).__name__, [snapshot(v, seen) for v in items], same_objects(value))
    if isinstance(value, dict):
        return (type(value).__name__, [(snapshot(k, seen), snapshot(v, seen)) for k, v in value.items()])
    if isinstance(value, BaseException):
        return exception(value)
    if hasattr(value, "__dict__") and not callable(value):
        return (type(value).__qualname__, snapshot(vars(value), seen))
    return type(value).__name__


def same_objects(items):
    """Which items are one object: numbers and strings apart."""
    items = [i for i in items if isinstance(i, (list, dict, tocha.Tensor)) or hasattr(i, "__dict__")]
    return [next(k for k, o in enumerate(items) if o is i) for i in items]


def exception(error, depth=0):
    """Type, arguments, what it came from, and the functions it went through; a function that calls its own rest is one."""
    if error is None or depth > 4:
        return None
    names = [f.name for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<random program")]
    names = [n for k, n in enumerate(names) if n != (names[k - 1] if k else "f")]
    came = (exception(error.__cause__, depth + 1), exception(error.__context__, depth + 1), error.__suppress_context__)
    return (type(error).__qualname__, snapshot(error.args), names if depth == 0 else None, came)


def outcome(function, scope, args):
    scope["LOG"].clear()
    for name, value in copy.deepcopy(scope["BEFORE"]).items():
        scope[name] = value
    scope["Base"].made = 0
    scope["doubled"].calls = 0
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = ("returned", snapshot(function(*args)))
        except Exception as e:
            result = ("raised", exception(e))
    state = {n: snapshot(scope[n]) for n in ("COUNT", "SHARED", "SETTINGS")}
    return {
        "result": result, "arguments": snapshot(args), "log": list(scope["LOG"]), "printed": printed.getvalue(), "globals": state,
        "class": snapshot(scope["Base"].made), "calls": scope["doubled"].calls,
    }  # fmt: skip


ARGUMENTS = [
    (lambda s: (tocha.tensor([1.0, -2.0]), tocha.tensor([3.0, 0.5]), 1, 2, [1, 2, 3], {"k": 2}, s["Base"](1), "text")),
    (lambda s: (tocha.tensor([1.0, -2.0]), tocha.tensor([3.0, 0.5]), 1, 2, [1, 2, 3], {"k": 2}, s["Base"](1), "text")),
    (lambda s: (tocha.tensor([0.5, -2.0, 4.0]), tocha.tensor([3.0, 0.5, 1.0]), 2, 2, [3, 0, 1, 2], {"z": 1, "k": 3}, s["Derived"](2), "t")),
    (lambda s: (tocha.tensor([2.0, 2.0]), tocha.tensor([-3.0, 0.5]), 0, -1, [0, 2, 1], {"k": 0}, s["Base"](3), "other")),
]  # fmt: skip


class Different(AssertionError):
    pass


def check(text, number=0, backend="eager"):
    """Raises where the compiled program does not do what the interpreted one does."""
    name = f"<random program {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"LOG": [], "__name__": f"random_program_{number}"}
    exec(compile(text, name, "exec"), scope)
    scope["BEFORE"] = {n: scope[n] for n in ("COUNT", "SHARED", "SETTINGS")}
    compiled = tocha.compile(scope["f"], backend=backend)
    try:
        for make in ARGUMENTS:
            expected = outcome(scope["f"], scope, make(scope))
            got = outcome(compiled, scope, make(scope))
            for part, value in expected.items():
                if got[part] != value:
                    raise Different(f"{part}:\n  expected {value}\n  got      {got[part]}")
    finally:
        _dynamo.reset()
        linecache.cache.pop(name, None)


def written(chance, breaks=True):
    while True:
        text = Writer(chance, breaks).program()
        if compiles(text):
            return text
