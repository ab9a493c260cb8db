"""Python's random numbers: drawn before the graph runs, in the program's order, and passed to it as numbers of which
nothing is known. What asks for more breaks the graph."""

from __future__ import annotations

import _random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocha._core.on_demand import Later
from tocha._dynamo.refusals import Unsupported
from tocha._dynamo.source import Source
from tocha._dynamo.values.base import Value
from tocha._dynamo.values.constant import Constant
from tocha._dynamo.values.objects import ObjectValue

if TYPE_CHECKING:
    from tocha._dynamo.codegen import Codegen
    from tocha._dynamo.frame import Frame

random = Later("random")
_FLOATS = (
    "random", "uniform", "triangular", "gauss", "normalvariate", "lognormvariate", "expovariate", "vonmisesvariate", "gammavariate", "betavariate",
    "paretovariate", "weibullvariate",
)  # fmt: skip
_INTS = ("randint", "randrange", "getrandbits")


@dataclass(frozen=True)
class Draw:
    """`owner.name(*args)` in generated code; `owner` leads to the random.Random."""

    owner: Source
    name: str
    args: tuple


class Seeded(ObjectValue):
    """A `random.Random` that captured code makes of a constant seed: what it draws is the same whenever the code runs."""

    def __init__(self, seed: Any) -> None:
        super().__init__(random.Random, random.Random(seed), new=True)

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(generator_at)
        cg.load_constant(self.real.getstate())
        cg.end_call(1)
        cg.fill_later(self)


class Unseeded(ObjectValue):
    """A `random.Random` that captured code makes of nothing. Nobody can tell what it draws, nor from which of them: one that
    is made with the capture draws for all calls."""

    def __init__(self) -> None:
        super().__init__(random.Random, random.Random(), new=True)
        self.at = Source("object", self.real, None, "random.Random()")

    def reconstruct(self, cg: Codegen) -> None:
        cg.start_call(random.Random)
        cg.end_call(0)
        cg.fill_later(self)


def generator_at(state: tuple) -> Any:
    made = random.Random(0)
    made.setstate(state)
    return made


def made_of(args: list[Value]) -> Seeded | Unseeded | None:
    """The generator that `random.Random(*args)` is; None where its seed is not known."""
    seed = args[0].realize() if len(args) == 1 else None
    if not args or (seed is not None and seed.is_constant() and seed.constant() is None):
        return Unseeded()
    if seed is None or not seed.is_constant() or not isinstance(seed.constant(), int | float | str | bytes):
        return None
    return Seeded(seed.constant())


def name_of(function: Any) -> str | None:
    """Of a function that draws: its name."""
    name = getattr(function, "__name__", "")
    if name not in _FLOATS and name not in _INTS:
        return None
    ours = getattr(_random.Random, name, None) is function or vars(random.Random).get(name) is function
    return name if ours else None


def draw(f: Frame, name: str, owner: Value, args: list[Value]) -> Value:
    if isinstance(owner, Seeded) and all(a.is_constant() for a in args):
        return Constant(f.checked(getattr(owner.real, name), *(a.constant() for a in args)))
    at = owner.at if isinstance(owner, Unseeded) else owner.source
    if not isinstance(owner, ObjectValue) or owner.cls is not random.Random or at is None or (owner.new and owner.source is at):  # fmt: skip
        raise Unsupported("random", f"{name} of a generator that is not random.Random from outside")
    if not all(a.is_constant() for a in args):
        raise Unsupported("random", f"{name} between bounds that are not constants")
    plain = tuple(a.constant() for a in args)
    f.checked(getattr(random.Random(0), name), *plain)  # its errors are the program's
    return f.out.drawn_number(Draw(at, name, plain), name in _INTS)
