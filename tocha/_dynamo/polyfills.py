"""Python in place of native code: these functions are inlined where captured code calls the builtin they stand for.

They are ordinary Python and mean what the originals mean; the tracer knows nothing of them but this table.
"""

from __future__ import annotations

import bisect
import builtins
import collections
import functools
import heapq
import itertools
import math
import operator
import os
from typing import TYPE_CHECKING, Any

import tocha
from tocha._dynamo import exception_groups, leaves
from tocha._dynamo.refusals import Forbidden, Unsupported
from tocha._tensor import types

if TYPE_CHECKING:
    from tocha._dynamo.frame import Frame
    from tocha._dynamo.values.base import Value

TABLE: dict[Any, Any] = {}
ITERATORS: set[Any] = set()  # originals that are iterators: made anew by calling them
_EMPTY = object()


def polyfill(original: Any, iterator: bool = False) -> Any:
    def register(function: Any) -> Any:
        TABLE[original] = function
        if iterator:
            ITERATORS.add(original)
        return function

    return register


for _name in ("split", "subgroup", "derive"):
    polyfill(getattr(BaseExceptionGroup, _name))(getattr(exception_groups, _name))


@polyfill(builtins.any)
def any_(items):
    for i in items:  # noqa: SIM110
        if i:
            return True
    return False


@polyfill(builtins.all)
def all_(items):
    for i in items:  # noqa: SIM110
        if not i:
            return False
    return True


@polyfill(builtins.sum)
def sum_(items, /, start=0):
    total = start
    for i in items:
        total = total + i
    return total


@polyfill(builtins.enumerate, iterator=True)
def enumerate_(iterable, start=0):
    n = start
    for i in iterable:
        yield n, i
        n += 1


@polyfill(builtins.zip, iterator=True)
def zip_(*iterables, strict=False):
    iterators = [iter(i) for i in iterables]
    if not iterators:
        return
    while True:
        found = []
        for iterator in iterators:
            try:
                found.append(next(iterator))
            except StopIteration:
                if strict:
                    if found:
                        raise ValueError(
                            f"zip() argument {len(found) + 1} is shorter than argument{'s 1-' if len(found) > 1 else ' '}{len(found)}"
                        ) from None
                    for k in range(1, len(iterators)):
                        try:
                            next(iterators[k])
                        except StopIteration:
                            continue
                        raise ValueError(
                            f"zip() argument {k + 1} is longer than argument{'s 1-' if k > 1 else ' '}{k}"
                        ) from None
                return
        yield tuple(found)


@polyfill(builtins.map, iterator=True)
def map_(function, *iterables):
    for args in zip(*iterables):
        yield function(*args)


@polyfill(builtins.filter, iterator=True)
def filter_(function, iterable):
    for i in iterable:
        if function(i) if function is not None else i:
            yield i


def _best(better, args, key, default):
    items = iter(args[0] if len(args) == 1 else args)
    try:
        found = next(items)
    except StopIteration:
        if default is not _EMPTY:
            return default
        raise ValueError(f"{'max' if better is operator.gt else 'min'}() iterable argument is empty") from None
    rank = found if key is None else key(found)
    for i in items:
        other = i if key is None else key(i)
        if better(other, rank):
            found, rank = i, other
    return found


@polyfill(builtins.max)
def max_(*args, key=None, default=_EMPTY):
    return _best(operator.gt, args, key, default)


@polyfill(builtins.min)
def min_(*args, key=None, default=_EMPTY):
    return _best(operator.lt, args, key, default)


@polyfill(math.prod)
def prod(items, /, *, start=1):
    total = start
    for i in items:
        total = total * i
    return total


@polyfill(math.isclose)
def isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    apart = abs(b - a)
    return apart <= abs(rel_tol * b) or apart <= abs(rel_tol * a) or apart <= abs_tol


@polyfill(functools.reduce)
def reduce(function, iterable, initial=_EMPTY, /):
    items = iter(iterable)
    if initial is _EMPTY:
        try:
            value = next(items)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for i in items:
        value = function(value, i)
    return value


@polyfill(itertools.chain, iterator=True)
def chain(*iterables):
    for iterable in iterables:
        yield from iterable


@polyfill(itertools.chain.from_iterable, iterator=True)
def chain_from_iterable(iterables):
    for iterable in iterables:
        yield from iterable


@polyfill(itertools.count, iterator=True)
def count(start=0, step=1):
    n = start
    while True:
        yield n
        n += step


@polyfill(itertools.cycle, iterator=True)
def cycle(iterable):
    saved = []
    for i in iterable:
        yield i
        saved.append(i)
    while saved:
        yield from saved


@polyfill(itertools.repeat, iterator=True)
def repeat(object, times=None):
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


@polyfill(itertools.accumulate, iterator=True)
def accumulate(iterable, func=None, *, initial=None):
    items = iter(iterable)
    total = initial
    if initial is None:
        try:
            total = next(items)
        except StopIteration:
            return
    yield total
    for i in items:
        total = total + i if func is None else func(total, i)
        yield total


@polyfill(itertools.islice, iterator=True)
def islice(iterable, *bounds):
    limits = slice(*bounds)
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    wanted = start
    for at, i in enumerate(iterable if stop is None or start > 0 or stop > 0 else (), 1):
        if at > wanted and (stop is None or at <= stop):
            yield i
            wanted += step
        if stop is not None and at >= stop and at >= start:  # what lies before the end is taken from the iterator
            return


@polyfill(itertools.starmap, iterator=True)
def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


@polyfill(itertools.takewhile, iterator=True)
def takewhile(predicate, iterable):
    for i in iterable:
        if not predicate(i):
            return
        yield i


@polyfill(itertools.dropwhile, iterator=True)
def dropwhile(predicate, iterable):
    items = iter(iterable)
    for i in items:
        if not predicate(i):
            yield i
            break
    yield from items


@polyfill(itertools.filterfalse, iterator=True)
def filterfalse(predicate, iterable):
    for i in iterable:
        if not (predicate(i) if predicate is not None else i):
            yield i


@polyfill(itertools.compress, iterator=True)
def compress(data, selectors):
    for d, s in zip(data, selectors):
        if s:
            yield d


@polyfill(itertools.pairwise, iterator=True)
def pairwise(iterable):
    items = iter(iterable)
    try:
        before = next(items)
    except StopIteration:
        return
    for i in items:
        yield before, i
        before = i


@polyfill(itertools.zip_longest, iterator=True)
def zip_longest(*iterables, fillvalue=None):
    iterators = [iter(i) for i in iterables]
    alive = len(iterators)
    done = [False] * alive
    while alive:
        row = []
        for k, iterator in enumerate(iterators):
            if done[k]:
                row.append(fillvalue)
                continue
            try:
                row.append(next(iterator))
            except StopIteration:
                done[k] = True
                alive -= 1
                row.append(fillvalue)
        if alive:
            yield tuple(row)


@polyfill(itertools.groupby, iterator=True)
def groupby(iterable, key=None):
    groups: list = []
    for i in iterable:
        k = i if key is None else key(i)
        if groups and groups[-1][0] == k:
            groups[-1][1].append(i)
        else:
            groups.append((k, [i]))
    for k, items in groups:
        yield k, iter(items)


@polyfill(itertools.tee)
def tee(iterable, n=2, /):
    if n < 0:
        raise ValueError("n must be >= 0")
    source, seen = iter(iterable), []

    def one():
        at = 0
        while True:
            if at == len(seen):
                try:
                    seen.append(next(source))
                except StopIteration:
                    return
            yield seen[at]
            at += 1

    return tuple([one() for _ in range(n)])


@polyfill(itertools.product, iterator=True)
def product(*iterables, repeat=1):
    pools = [tuple(i) for i in iterables] * repeat
    rows: list = [()]
    for pool in pools:
        rows = [(*row, i) for row in rows for i in pool]
    yield from rows


def _picks(n, r):
    """Index tuples of combinations, in order."""
    chosen = list(range(r))
    if r > n:
        return
    while True:
        yield tuple(chosen)
        k = r - 1
        while k >= 0 and chosen[k] == k + n - r:
            k -= 1
        if k < 0:
            return
        chosen[k] += 1
        for j in range(k + 1, r):
            chosen[j] = chosen[j - 1] + 1


@polyfill(itertools.combinations, iterator=True)
def combinations(iterable, r):
    pool = tuple(iterable)
    for chosen in _picks(len(pool), r):
        yield tuple(pool[k] for k in chosen)


@polyfill(itertools.permutations, iterator=True)
def permutations(iterable, r=None):
    pool = tuple(iterable)
    n = len(pool)
    for chosen in product(range(n), repeat=n if r is None else r):
        if len(set(chosen)) == len(chosen):
            yield tuple(pool[k] for k in chosen)


@polyfill(operator.itemgetter)
def itemgetter(*keys):
    def get(value):
        return value[keys[0]] if len(keys) == 1 else tuple(value[k] for k in keys)

    return get


@polyfill(operator.attrgetter)
def attrgetter(*names):
    def one(value, name):
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def get(value):
        return one(value, names[0]) if len(names) == 1 else tuple(one(value, n) for n in names)

    return get


@polyfill(operator.methodcaller)
def methodcaller(name, /, *args, **kwargs):
    def call(value):
        return getattr(value, name)(*args, **kwargs)

    return call


class _Key:
    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare, obj):
        self.compare, self.obj = compare, obj

    def __lt__(self, other):
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other):
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other):
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other):
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other):
        return self.compare(self.obj, other.obj) >= 0


@polyfill(functools.cmp_to_key)
def cmp_to_key(mycmp):
    def key(obj):
        return _Key(mycmp, obj)

    return key


@polyfill(operator.countOf)
def count_of(items, value):
    n = 0
    for i in items:
        if i is value or i == value:
            n += 1
    return n


@polyfill(operator.indexOf)
def index_of(items, value):
    for n, i in enumerate(items):
        if i is value or i == value:
            return n
    raise ValueError("sequence.index(x): x not in sequence")


@polyfill(collections._count_elements)  # type: ignore[attr-defined]
def count_elements(mapping, iterable):
    for i in iterable:
        mapping[i] = mapping.get(i, 0) + 1


SUBSTITUTES: dict[int, tuple[Any, Any]] = {}  # substitute_in_graph: a function's id -> it, its substitute


BEFORE: dict[int, tuple[Any, Any]] = {}  # a function's id -> it, and what is done before it is gone through


def replaced(f: Frame, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A call of a Python function that has a substitute."""
    if function.real is None:
        return None
    if id(function.real) in leaves.FORBIDDEN:
        raise Forbidden(f"Attempt to trace forbidden callable {function.real}")
    if id(function.real) in leaves.DISALLOWED:
        partly = getattr(function.real, "_torchdynamo_disable_recursive", None) is False
        raise Unsupported("disabled" if partly else "disallowed", function.real.__qualname__)
    if id(function.real) in BEFORE:
        BEFORE[id(function.real)][1](f, args)
    if id(function.real) not in SUBSTITUTES:
        return None
    return f.inline(f.wrap_known(SUBSTITUTES[id(function.real)][1]), args, kwargs)  # type: ignore[arg-type]


# ---- heapq


@polyfill(heapq.heappush)
def heappush(heap, item, /):
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1)


@polyfill(heapq.heappop)
def heappop(heap, /):
    last = heap.pop()
    if not heap:
        return last
    found, heap[0] = heap[0], last
    _sift_up(heap, 0)
    return found


@polyfill(heapq.heapreplace)
def heapreplace(heap, item, /):
    found, heap[0] = heap[0], item
    _sift_up(heap, 0)
    return found


@polyfill(heapq.heappushpop)
def heappushpop(heap, item, /):
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        _sift_up(heap, 0)
    return item


@polyfill(heapq.heapify)
def heapify(heap, /):
    for i in reversed(range(len(heap) // 2)):
        _sift_up(heap, i)


def _sift_down(heap, start, at):
    """Moves an item towards the root until its parent is no greater."""
    item = heap[at]
    while at > start:
        above = (at - 1) >> 1
        if not item < heap[above]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item


def _sift_up(heap, at):
    """The smaller child moves up until a leaf is free; the item then moves back from there, as CPython's does."""
    start, item = at, heap[at]
    child = 2 * at + 1
    while child < len(heap):
        other = child + 1
        if other < len(heap) and not heap[child] < heap[other]:
            child = other
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = item
    _sift_down(heap, start, at)


@polyfill(bisect.insort_right)
def insort_right(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect.bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


@polyfill(bisect.insort_left)
def insort_left(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect.bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


@polyfill(os.fspath)
def fspath(path, /):
    if isinstance(path, (str, bytes)):
        return path
    if not hasattr(type(path), "__fspath__"):
        raise TypeError(f"expected str, bytes or os.PathLike object, not {type(path).__name__}")
    return type(path).__fspath__(path)


@polyfill(tocha.Tensor)
def new_tensor(*args, **kwargs):
    args, kwargs = types.tensortype.named_size(args, kwargs)
    return types.construct_default(args, kwargs)


def nsmallest(n, iterable, key=None):
    return sorted(iterable, key=key)[: max(n, 0)]


def nlargest(n, iterable, key=None):
    return sorted(iterable, key=key, reverse=True)[: max(n, 0)]


for _original, _function in ((heapq.nsmallest, nsmallest), (heapq.nlargest, nlargest)):
    SUBSTITUTES[id(_original)] = (_original, _function)


def _cached_get(self, instance, owner=None):
    """Up to 3.11 it takes a lock, which captured code has no need of."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    try:
        kept = instance.__dict__
    except AttributeError:
        text = f"No '__dict__' attribute on {type(instance).__name__!r} instance to cache {self.attrname!r} property."
        raise TypeError(text) from None
    if self.attrname not in kept:
        kept[self.attrname] = self.func(instance)
    return kept[self.attrname]


def _lru_cache(maxsize=128, typed=False):
    if isinstance(maxsize, int):
        maxsize = max(maxsize, 0)
    elif callable(maxsize) and isinstance(typed, bool):
        return functools._lru_cache_wrapper(maxsize, 128, typed, None)
    elif maxsize is not None:
        raise TypeError("Expected first argument to be an integer, a callable, or None")
    return lambda function: functools._lru_cache_wrapper(function, maxsize, typed, None)


_CACHES: tuple[tuple[Any, Any], ...] = (
    (functools.cached_property.__get__, _cached_get),
    (functools.lru_cache, _lru_cache),
)
for _original, _function in _CACHES:
    SUBSTITUTES[id(_original)] = (_original, _function)
