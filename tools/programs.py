"""Runs unmodified PyTorch packages on tocha and on PyTorch, the same programs side by side.

Makes two environments: one without PyTorch, with a wheel of this tree and where `import torch` means tocha (packages from
PyPI see the alias's metadata and do not fetch PyTorch), and one with PyTorch that reads the same packages. Each program of programs/ runs in
both; what it records is compared, float32 to rounding; where that does not do the program runs again in float64. PyTorch's
answers are kept beside its environment. A table says how each case agrees; a case, a program or a process that fails is a
line of it, and the others go on. Last come the alias's tests in the first environment, which has coverage, IPython and
TensorBoard, and the sums of each program.

    tools/programs.py [name ...]   some programs only: torchvision_ops, timm_models:resnet18
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "programs"
PACKAGES = [
    "timm",
    "transformers",
    "torchvision==0.28.*",
    "lightning",
    "accelerate",
    "peft",
    "diffusers",
    "torchmetrics",
    "torch-geometric",
    "einops",
    "safetensors",
    "sentence-transformers",
    "gpytorch",
    "botorch",
    "stable-baselines3",
    "opacus",
    "captum",
    "monai",
    "skorch",
    "torchdiffeq",
    "x-transformers",
    "pyro-ppl",
    "tensorboard",
    "pytest",
    "coverage",
    "ipython",
]
NOT_ALONE = (
    "recorder",
    "other_packages",
    "further_packages",
    "installed",
)  # programs of packages that are not installed here
SINGLE, DOUBLE = 1e-4, 1e-9  # differences in parts of a tensor's largest element
HOW = ("exactly", "rounding", "float64", "DIFFERS")  # how a case agrees; the third: to rounding in float64 only


# -- environments ------------------------------------------------------------------------------------------


def _python(environment: Path) -> str:
    return str(environment / "bin" / "python")


def _site(environment: Path) -> Path:
    return next((environment / "lib").glob("python*/site-packages"))


def _pip(environment: Path, *arguments: str) -> None:
    # Bytecode is written for what programs import, a part of what is installed.
    subprocess.run([_python(environment), "-m", "pip", "install", "--quiet", "--no-compile", *arguments], check=True)


def _install_tocha(alias: Path, wheel: Path | None) -> None:
    """A wheel of this tree as it is now (or the one that was given), whatever an earlier run left there."""
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            build = ["pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, str(ROOT)]
            subprocess.run([sys.executable, "-m", *build], check=True)
            (wheel,) = Path(folder).glob("*.whl")
        _pip(alias, str(wheel))  # what it depends on
        _pip(alias, "--force-reinstall", "--no-deps", str(wheel))
    subprocess.run([_python(alias), "-m", "tocha", "alias", "install"], cwd=alias, check=True)


def _make_alias(alias: Path, wheel: Path | None) -> None:
    """The environment without PyTorch. Packages are installed once, tocha every time."""
    _install_tocha(alias, wheel)
    installed = alias / "packages.txt"
    if not installed.exists() or installed.read_text().split() != PACKAGES:
        _pip(alias, *PACKAGES)
        installed.write_text("\n".join(PACKAGES))
    if (_site(alias) / "torch").exists():
        raise SystemExit(f"{alias} holds a PyTorch: it must not")


def _make_pytorch(pytorch: Path, packages: Path) -> None:
    """The environment with PyTorch, which reads the other's packages."""
    # The build that torchvision's extension is linked against, not one for CPUs only.
    _pip(pytorch, "torch===2.13.0")
    (_site(pytorch) / "packages.pth").write_text(f"{packages}\n")


def make_environments(alias: Path, pytorch: Path, wheel: Path | None) -> None:
    """Both environments at once: what takes time is what they fetch."""
    for environment in (alias, pytorch):
        if not environment.exists():
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    with ThreadPoolExecutor(2) as both:
        made = [both.submit(_make_pytorch, pytorch, _site(alias)), both.submit(_make_alias, alias, wheel)]
    for environment in made:
        environment.result()


# -- comparisons -------------------------------------------------------------------------------------------


def _difference(a: object, b: object) -> float:
    """How far apart two recorded values are, in parts of the largest; infinity where they are of different kinds."""
    if isinstance(a, dict) and isinstance(b, dict):
        return max((_difference(a[k], b[k]) for k in a), default=0.0) if a.keys() == b.keys() else np.inf
    if isinstance(a, list) and isinstance(b, list):
        return max((_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0) if len(a) == len(b) else np.inf
    if isinstance(a, np.ndarray | float | int) and isinstance(b, np.ndarray | float | int):
        return _numeric(np.asarray(a), np.asarray(b))
    return 0.0 if a == b else np.inf


def _numeric(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if not a.size:
        return 0.0
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else np.inf
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    scale = max(np.abs(b[finite]).max(initial=0.0), 1e-6)
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0) / scale)


# -- runs --------------------------------------------------------------------------------------------------


def _answers(environment: Path, program: str, double: bool, only: list[str]) -> tuple[dict, str]:
    """What PyTorch records: run once for a program's text, then kept beside its environment."""
    text = b"".join((FOLDER / f"{name}.py").read_bytes() for name in ("recorder", program))
    key = hashlib.sha256(text + repr((double, sorted(only))).encode()).hexdigest()[:16]
    path = environment / "answers" / f"{program}-{key}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes()), ""
    found, problem = _run(environment, program, double, only)
    if not problem:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps(found))
    return found, problem


def _run(environment: Path, program: str, double: bool, only: list[str]) -> tuple[dict, str]:
    """What a program records, and what it says where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record")
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
        env |= {
            "RECORD": path,
            "PYTHONHASHSEED": "0",
            "HF_HUB_OFFLINE": "1",
            "DOUBLE": "1" if double else "",
            "ONLY": ",".join(only),
        }
        done = subprocess.run(
            [_python(environment), "-W", "ignore", f"{program}.py"], cwd=FOLDER, env=env, capture_output=True, text=True
        )
        try:
            record = pickle.loads(Path(path).read_bytes()) if os.path.exists(path) else {}
        except Exception as error:  # of a package's own classes
            return {}, f"what it records cannot be read: {error}"
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        said = lines[-1][:300] if lines else ""
        return record, f"exit status {done.returncode}: {said}" if done.returncode else ""


def _error(values: list | None) -> str:
    if values is None:
        return "not recorded"
    return values[0]["error"] if values and isinstance(values[0], dict) and "error" in values[0] else ""


class Case(NamedTuple):
    """How a case agrees."""

    how: str  # one of HOW
    seen: str  # the largest difference, or what went wrong


def _judge(ours: dict, theirs: dict, double: bool) -> dict[str, Case]:
    found = {}
    for name in {**theirs, **ours}:
        if problem := _error(theirs.get(name)):
            found[name] = Case("DIFFERS", f"on PyTorch: {problem}")
        elif problem := _error(ours.get(name)):
            found[name] = Case("DIFFERS", problem)
        else:
            apart = _difference(ours[name], theirs[name])
            same = apart <= (DOUBLE if double else SINGLE)
            how = "DIFFERS" if not same else "float64" if double else "exactly" if apart == 0 else "rounding"
            found[name] = Case(how, f"{apart:.1e}")
    return found


def compare(program: str, alias: Path, pytorch: Path, only: list[str]) -> dict[str, Case]:
    """A program's cases on both: in float32 to rounding, and those that differ in float64."""
    found: dict[str, Case] = {}
    for double in (False, True):
        with ThreadPoolExecutor(2) as both:  # a processor each
            sides = [
                both.submit(run, where, program, double, only) for run, where in ((_answers, pytorch), (_run, alias))
            ]
        (theirs, problem), (ours, our_problem) = (side.result() for side in sides)
        judged = _judge(ours, theirs, double)
        found |= {n: case for n, case in judged.items() if n not in found or n in only}
        if problem or our_problem:
            found[program] = Case("DIFFERS", f"on PyTorch: {problem}" if problem else our_problem)
        only = [
            n for n, case in found.items() if case.how == "DIFFERS" and (case.seen == "inf" or case.seen[0].isdigit())
        ]
        if not only:
            break
    return found


# -- the table ---------------------------------------------------------------------------------------------


def _line(program: str, name: str, how: str, seen: str) -> None:
    print(f"{program:<20} {name:<44} {how:<8} {seen}".rstrip(), flush=True)


def show_sums(counts: dict[str, Counter]) -> None:
    """How many cases of each program agree, and how."""
    print(f"\n{'program':<20} {'the same':>12}" + "".join(f"{how:>9}" for how in HOW))
    for program, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        same = f"{count.total() - count['DIFFERS']} of {count.total()}"
        print(f"{program:<20} {same:>12}" + "".join(f"{count[how]:>9}" for how in HOW))


def check_alias(alias: Path) -> bool:
    """The alias's own tests and TensorBoard's, where coverage, IPython and tensorboard are installed."""
    tests = [str(ROOT / "tests" / f"{name}.py") for name in ("test_alias", "test_tensorboard")]
    command = [_python(alias), "-m", "pytest", "--noconftest", "-q", "-rs", *tests]
    return subprocess.run(command, cwd=tempfile.gettempdir()).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--alias", type=Path, default=ROOT / ".venv-programs")
    parser.add_argument("--pytorch", type=Path, default=ROOT / ".venv-programs-torch")
    parser.add_argument("--wheel", type=Path, help="a wheel that was built before, for runs in parts")
    chosen = parser.parse_args()
    environments = chosen.alias.absolute(), chosen.pytorch.absolute()
    print("making the environments", file=sys.stderr, flush=True)
    make_environments(*environments, chosen.wheel and chosen.wheel.absolute())
    named = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem not in NOT_ALONE)
    asked: dict[str, list[str]] = {}  # the cases of each program; none: all
    for name in chosen.names or named:
        program, colon, only = name.partition(":")
        asked.setdefault(program, []).extend([only] if colon else [])
    counts: dict[str, Counter] = {}
    _line("program", "case", "agrees", "largest difference, in parts of the largest element")
    for program, cases in asked.items():
        print(f"running {program}", file=sys.stderr, flush=True)
        found = compare(program, *environments, cases)
        counts[program] = Counter(case.how for case in found.values())
        for name, case in found.items():
            _line(program, name, *case)
    alias_works = bool(chosen.names) or check_alias(environments[0])
    show_sums(counts)
    if not chosen.names:
        print(f"the alias's tests {'pass' if alias_works else 'FAIL'}")
    return 0 if alias_works and not any(count["DIFFERS"] for count in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
