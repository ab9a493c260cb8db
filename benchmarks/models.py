"""The models of examples/models.py, for tocha and for PyTorch: the same file, loaded once with `tocha` naming each.

A Case holds a model, its optimizer and a batch, seeded alike in both libraries. Imports neither library itself.

python benchmarks/models.py tocha MLP step    # for each number on stdin: seconds per call over so many calls
"""

from __future__ import annotations

import gc
import importlib
import re
import sys
import time
import types
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

# Small: one batch is learnt by heart in a few steps of 1e-3, and what is left of the loss then is rounding.
RATE = 1e-4
PRODUCTS = r"\b(mm|addmm|bmm|baddbmm|convolution|convolution_backward|_attention|_attention_backward|_recurrent_layer|_recurrent_layer_backward)\."
SOURCE = Path(__file__).resolve().parents[1] / "examples" / "models.py"


@cache
def load(library: types.ModuleType) -> types.ModuleType:
    """examples/models.py with `tocha` naming the library."""
    name = f"models_of_{library.__name__}"
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look there
    with mock.patch.dict(sys.modules, {"tocha": library, "tocha.nn": library.nn}):
        exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module.__dict__)
    return module


class Case:
    """A model in training, on one batch."""

    def __init__(self, library: Any, model: Any, arrays: tuple[np.ndarray, ...]):
        self.library = library
        self.model = model
        self.batch = [library.tensor(a) for a in arrays]
        self.optimizer = library.optim.Adam(model.parameters(), lr=RATE)

    def step(self) -> Any:
        self.optimizer.zero_grad()
        loss = self.model.loss(*self.batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def narrow_step(self) -> Any:
        """A step whose products are in bfloat16."""
        self.optimizer.zero_grad()
        with self.library.autocast("cpu", dtype=self.library.bfloat16):
            loss = self.model.loss(*self.batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def infer(self) -> Any:
        with self.library.no_grad():
            return self.model(self.batch[0])

    @cached_property
    def compiled_loss(self) -> Any:
        return self.library.compile(self.model.loss)

    @cached_property
    def compiled_model(self) -> Any:
        return self.library.compile(self.model)

    def compiled_step(self) -> Any:
        """A step whose forward and backward are compiled."""
        self.optimizer.zero_grad()
        loss = self.compiled_loss(*self.batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def compiled_infer(self) -> Any:
        with self.library.no_grad():
            return self.compiled_model(self.batch[0])

    def step_products(self) -> None:
        self.replay(self.products_of_step)

    def infer_products(self) -> None:
        self.replay(self.products_of_infer)

    @cached_property
    def products_of_step(self) -> list:
        return self.products_of(self.step)

    @cached_property
    def products_of_infer(self) -> list:
        return self.products_of(self.infer)

    def products_of(self, call: Callable) -> list:
        """The calls of a step that are matrix products or the like, with what they were given."""
        mode = importlib.import_module(f"{self.library.__name__}.utils._python_dispatch").TorchDispatchMode
        found: list = []

        class Recorder(mode):  # type: ignore[misc, valid-type]
            def __torch_dispatch__(
                self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
            ) -> Any:
                if re.search(PRODUCTS, str(function)):
                    found.append((function, args, kwargs or {}))
                return function(*args, **(kwargs or {}))

        with Recorder():
            call()
        return found

    def replay(self, calls: list) -> None:
        with self.library.no_grad():
            for function, args, kwargs in calls:
                function(*args, **kwargs)


def case(library: Any, make: Callable) -> Case:
    library.manual_seed(0)
    model, arrays = make(load(library), np.random.default_rng(0))
    return Case(library, model, arrays)


def gpt(m: Any, rng: np.random.Generator) -> tuple:
    """4 layers, width 128, 4 heads, 64 tokens, batch 8."""
    config = m.GPTConfig()
    tokens = rng.integers(0, config.vocabulary, (2, 8, config.context))
    return m.GPT(config), (tokens[0], tokens[1])


def resnet18(m: Any, rng: np.random.Generator) -> tuple:
    """Batch 4, 96 x 96."""
    return m.ResNet(), (rng.standard_normal((4, 3, 96, 96)).astype(np.float32), rng.integers(0, 1000, 4))


def lstm(m: Any, rng: np.random.Generator) -> tuple:
    """2 layers, width 128, batch 16, 32 steps."""
    tokens = rng.integers(0, 1000, (2, 16, 32))
    return m.LSTMModel(), (tokens[0], tokens[1])


def mlp(m: Any, rng: np.random.Generator) -> tuple:
    """6 layers, width 512, batch 128."""
    return m.MLP(), (rng.standard_normal((128, 512)).astype(np.float32), rng.integers(0, 10, 128))


MODELS = {"GPT": gpt, "ResNet-18": resnet18, "LSTM": lstm, "MLP": mlp}


def serve(module: str, name: str, call: str) -> None:
    library = importlib.import_module(module)
    library.set_num_threads(2)
    c = case(library, MODELS[name])
    if "infer" in call:
        c.model.eval()
    f = getattr(c, call)
    f()
    gc.collect()
    gc.disable()
    for line in sys.stdin:
        number = int(line)
        for _ in range(1 + number // 4):  # the process has been waiting for the other one: wakes its threads
            f()
        start = time.perf_counter()
        for _ in range(number):
            f()
        print((time.perf_counter() - start) / number, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
