"""Trains a model and shows how it goes: a character-level GPT on text, or a small ResNet on pictures it draws itself.

python examples/train.py                     # a GPT on Python's own reference manual
python examples/train.py --text FILE         # ... on a text of yours
python examples/train.py --model resnet      # a ResNet that tells shapes apart
Some steps are eager, the rest compiled; both speeds and a report of what the compiler did are shown at the end.
Ctrl-C stops after the current step and keeps the checkpoint; the next run resumes from it. --fresh begins anew.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from curve import write_curve
from models import GPT, GPTConfig, ResNet

import tocha

SHAPES = ("disc", "square", "triangle", "cross")


@dataclass
class Job:
    """What is trained, on what, and how its progress is measured."""

    name: str
    model: tocha.nn.Module
    batches: Callable[[], Iterator[tuple]]
    unit: str  # what one batch counts: tokens or pictures
    per_batch: int
    show: Callable[[], None]  # what the trained model can do
    facts: dict = field(default_factory=dict)  # must match for a checkpoint to be resumed


# -- a GPT on text -----------------------------------------------------------------------------------


def read_text(path: str | None) -> str:
    if path is not None:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def gpt_job(options: argparse.Namespace) -> Job:
    text = read_text(options.text)
    config = GPTConfig()
    if len(text) < 10 * config.context:
        raise SystemExit(f"the text has {len(text)} characters; a few thousand are needed")
    characters = sorted(set(text))
    config.vocabulary = len(characters)
    index = {c: i for i, c in enumerate(characters)}
    tokens = tocha.tensor([index[c] for c in text])
    model = GPT(config)
    batch = 16

    def batches() -> Iterator[tuple]:
        window = tocha.arange(config.context)
        while True:
            starts = tocha.randint(len(tokens) - config.context - 1, (batch, 1))
            yield tokens[starts + window], tokens[starts + window + 1]

    def show() -> None:
        model.eval()
        prompt = text[: config.context // 2]
        known = tocha.tensor([[index[c] for c in prompt]])
        written = "".join(characters[i] for i in model.generate(known, 300)[0].tolist())
        print(f"\nThe model continues {prompt!r}:\n\n{written}\n")

    facts = {"model": "gpt", "config": asdict(config)}
    return Job(
        f"a GPT with {count(model):,} parameters on {len(text):,} characters",
        model,
        batches,
        "tokens",
        batch * config.context,
        show,
        facts,
    )


# -- a ResNet on pictures ----------------------------------------------------------------------------


def draw(kinds: tocha.Tensor, size: int = 32) -> tocha.Tensor:
    """Pictures (n, 3, size, size) of shapes with random places, sizes, colours and noise."""
    n = len(kinds)
    y, x = tocha.meshgrid(tocha.arange(size), tocha.arange(size), indexing="ij")
    place = lambda: (tocha.rand(n, 1, 1) * 0.4 + 0.3) * size  # noqa: E731
    dx, dy, radius = x - place(), y - place(), (tocha.rand(n, 1, 1) * 0.12 + 0.12) * size
    inside = tocha.stack(
        [
            dx**2 + dy**2 < radius**2,
            tocha.maximum(dx.abs(), dy.abs()) < radius * 0.85,
            (dy.abs() < radius) & (dx.abs() < (dy + radius) / 2),
            (tocha.minimum(dx.abs(), dy.abs()) < radius * 0.3) & (tocha.maximum(dx.abs(), dy.abs()) < radius),
        ]
    )[kinds, tocha.arange(n)]
    colours, background = tocha.rand(2, n, 3, 1, 1)
    return tocha.where(inside[:, None], colours, background) + 0.1 * tocha.randn(n, 3, size, size)


def resnet_job(options: argparse.Namespace) -> Job:
    model = ResNet(len(SHAPES), widths=(16, 32, 64), depth=1, large=False)
    batch = 32

    def batches() -> Iterator[tuple]:
        while True:
            kinds = tocha.randint(len(SHAPES), (batch,))
            yield draw(kinds), kinds

    def show() -> None:
        model.eval()
        kinds = tocha.randint(len(SHAPES), (256,))
        with tocha.no_grad():
            right = (model(draw(kinds)).argmax(1) == kinds).float().mean().item()
        print(f"\nOf 256 new pictures of {', '.join(SHAPES)}, it names {right:.0%} rightly.\n")

    return Job(
        f"a ResNet with {count(model):,} parameters on drawn pictures",
        model,
        batches,
        "pictures",
        batch,
        show,
        {"model": "resnet"},
    )


# -- training ----------------------------------------------------------------------------------------


def count(model: tocha.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


class Interrupt:
    """Ctrl-C asks for a stop after the current step; a second one stops at once."""

    asked = False

    def __enter__(self) -> Interrupt:
        self.before = signal.signal(signal.SIGINT, self.ask)
        return self

    def ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self.before)


def show_progress(step: int, steps: int, loss: float, speed: float, unit: str) -> None:
    width = 30
    done = width * step // steps
    bar = "█" * done + "·" * (width - done)
    end = "\r" if sys.stdout.isatty() and step < steps else "\n"
    print(f"  {bar} {step}/{steps}  loss {loss:.3f}  {speed:,.0f} {unit}/s ", end=end, flush=True)


def rate(step: int, steps: int, top: float = 3e-3) -> float:
    """Rises over the first steps, then falls to a tenth along a cosine."""
    warm = min(1.0, (step + 1) / 20)
    return warm * top * (0.1 + 0.45 * (1 + math.cos(math.pi * min(step / steps, 1.0))))


def resume(path: Path, job: Job, optimizer: tocha.optim.Optimizer) -> list[float]:
    """The losses so far; model, optimizer and random state as they were."""
    saved = tocha.load(path)
    if saved["facts"] != job.facts:
        raise SystemExit(f"{path} holds another model or vocabulary; begin anew with --fresh")
    job.model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    tocha.set_rng_state(saved["random"])
    return saved["losses"]


class Clock:
    """Some steps eagerly, then the rest compiled: how fast each was, and what the compiler did, as a report."""

    def __init__(self, job: Job, options: argparse.Namespace, report: Path) -> None:
        self.job, self.left = job, options.eager
        self.loss: Callable[..., tocha.Tensor] = job.model.loss
        self.phase, self.path = "eager", report
        self.steps, self.seconds = {"eager": 0, "compiled": 0}, {"eager": 0.0, "compiled": 0.0}
        self.compiling = 0.0
        self.report: Any = None
        self.since = time.perf_counter()
        if not self.left:
            self.compile()

    def step(self) -> None:
        now = time.perf_counter()
        if self.compiling < 0:  # the first compiled step: its time is the compiler's
            self.compiling += now
            print(f"  compiled in {self.compiling:.1f} s")
        else:
            self.steps[self.phase] += 1
            self.seconds[self.phase] += now - self.since
        self.since = now
        if self.phase == "eager" and self.steps["eager"] >= self.left:
            self.compile()

    def compile(self) -> None:
        self.phase = "compiled"
        self.report = tocha.compiler.report(self.path)
        self.loss = tocha.compile(self.job.model.loss)
        self.compiling = -time.perf_counter()

    def speed(self, phase: str | None = None) -> float:
        phase = phase or (self.phase if self.steps[self.phase] else "eager")
        return self.steps[phase] * self.job.per_batch / max(self.seconds[phase], 1e-9)

    def tell(self) -> None:
        """Both speeds, the graph breaks, where the report is."""
        if self.report is None or not self.steps["compiled"]:
            return
        self.report.close()
        self.report.write()
        breaks = [b for c in self.report.collector.compilations for b in c.breaks]
        if self.steps["eager"]:
            print(f"Eager: {self.speed('eager'):,.0f} {self.job.unit}/s   compiled: {self.speed('compiled'):,.0f} {self.job.unit}/s ({self.speed('compiled') / self.speed('eager'):.2f} times)")  # fmt: skip
        print(f"Graph breaks: {', '.join(b.reason for b in breaks) or 'none'}   report: {self.path}")


def train(job: Job, options: argparse.Namespace) -> None:
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / f"{options.model}.pt"
    optimizer = tocha.optim.AdamW(job.model.parameters(), lr=rate(0, options.steps), weight_decay=0.01)
    losses: list[float] = []
    if checkpoint.exists() and not options.fresh:
        losses = resume(checkpoint, job, optimizer)
        print(f"Resuming {checkpoint} after {len(losses)} steps.")

    def save() -> None:
        state = {"facts": job.facts, "model": job.model.state_dict(), "optimizer": optimizer.state_dict()}
        tocha.save({**state, "losses": losses, "random": tocha.get_rng_state()}, checkpoint)

    print(f"Training {job.name} with {tocha.get_num_threads()} threads.")
    batches = job.batches()
    job.model.train()
    clock = Clock(job, options, folder / f"{options.model}-report.html")
    with Interrupt() as interrupt:
        while len(losses) < options.steps and not interrupt.asked:
            for group in optimizer.param_groups:
                group["lr"] = rate(len(losses), options.steps)
            optimizer.zero_grad()
            loss = clock.loss(*next(batches))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step = len(losses)
            clock.step()
            if step % 25 == 0 or step == options.steps:
                show_progress(step, options.steps, sum(losses[-25:]) / len(losses[-25:]), clock.speed(), job.unit)
            if step % 200 == 0:
                save()
        save()
    picture = folder / f"{options.model}-loss.svg"
    write_curve(picture, losses, title=f"Loss of {job.name}")
    print(f"\nCheckpoint: {checkpoint}   loss curve: {picture}")
    clock.tell()
    if interrupt.asked:
        print("Stopped; run again to resume.")
    else:
        job.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("gpt", "resnet"), default="gpt")
    parser.add_argument("--text", help="a text file to learn from (GPT)")
    parser.add_argument("--steps", type=int, default=None, help="600 for the GPT, 300 for the ResNet")
    parser.add_argument("--eager", type=int, default=None, help="steps before the model is compiled; a tenth of them")
    parser.add_argument("--out", default="runs", help="folder for checkpoint and picture")
    parser.add_argument("--fresh", action="store_true", help="ignore the checkpoint of an earlier run")
    options = parser.parse_args()
    options.steps = options.steps or {"gpt": 600, "resnet": 300}[options.model]
    options.eager = options.steps // 10 if options.eager is None else options.eager
    tocha.manual_seed(0)
    train({"gpt": gpt_job, "resnet": resnet_job}[options.model](options), options)


if __name__ == "__main__":
    main()
