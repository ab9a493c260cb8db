"""Replays PyTorch's operator, module and optimizer tables and holds the result against the ratchet: what passed once
must pass.

    python tools/parity.py --suite DIR           # operators: float32, gradients, sampled dtypes, error inputs; modules
    python tools/parity.py --suite DIR --update  # raise the ratchet to what passes now

DIR holds ops.py and modules.py, the replay scripts.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RATCHET = ROOT / "tests" / "parity" / "ratchet.json"
RUNS = {
    "float32": ["--max-samples", "40"],
    "dtypes": ["--dtype", "float64", "int64", "bool", "bfloat16", "complex64", "float16", "--max-samples", "4"],
    "errors": ["--errors"],
    "gradients": ["--grad", "--max-samples", "6"],
}
# Where PyTorch itself is off on a processor, and tocha is not: its kernels there add up halves in half.
OFF = {"aarch64": {"nn.functional.conv2d torch.float16"}}


def replay(suite: Path, arguments: list[str]) -> dict[str, str]:
    """Per operator and case: "pass", "missing" or the first failure."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        process = subprocess.run(
            [sys.executable, str(suite / "ops.py"), "--json", out.name, *arguments], capture_output=True, text=True
        )
        text = Path(out.name).read_text()
        if not text:
            raise SystemExit(
                f"the replay did not finish (exit {process.returncode}):\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}"
            )
        rows = json.loads(text)
    print("  " + process.stdout.strip().splitlines()[-1], flush=True)
    result = {}
    for r in rows:
        first = r["first"] or ""
        status = "pass" if r["passed"] == r["ran"] else "missing" if first.startswith("missing") else first
        result[f"{r['op']} {r['case']}"] = status
    return result


def replay_modules(suite: Path) -> dict[str, int]:
    """How many modules and optimizers agree."""
    process = subprocess.run([sys.executable, str(suite / "modules.py"), "-v"], capture_output=True, text=True)
    found = re.findall(r"(\d+)/\d+ (modules|optimizers) agree", process.stdout)
    if len(found) != 2:
        raise SystemExit(f"the replay of modules did not finish:\n{process.stdout[-2000:]}\n{process.stderr[-4000:]}")
    print("  " + "\n  ".join(process.stdout.strip().splitlines()), flush=True)
    return {kind: int(count) for count, kind in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if not (options.suite / "ops.py").exists():
        raise SystemExit(
            f"no replay script at {options.suite / 'ops.py'}: say where it is with `make parity PARITY=DIR`"
        )
    ratchet = json.loads(RATCHET.read_text()) if RATCHET.exists() else {}
    lost, disagree = [], []
    for name, arguments in RUNS.items():
        print(f"{name}:", flush=True)
        result = replay(options.suite, arguments)
        passing = sorted(k for k, v in result.items() if v == "pass")
        kept = set(ratchet.get(name, [])) - OFF.get(platform.machine(), set())
        lost += [f"{name}: {k}: {result.get(k, 'did not run')}" for k in sorted(kept - set(passing))]
        disagree += [f"{name}: {k}: {v}" for k, v in sorted(result.items()) if v not in ("pass", "missing")]
        if options.update:
            ratchet[name] = sorted({*ratchet.get(name, []), *passing})
    print("modules:", flush=True)
    counts = replay_modules(options.suite)
    before = ratchet.get("modules", {})
    lost += [f"{kind}: {counts[kind]} agree, {n} did" for kind, n in before.items() if counts[kind] < n]
    if options.update:
        ratchet["modules"] = {kind: max(n, before.get(kind, 0)) for kind, n in counts.items()}
    if disagree:
        print(f"{len(disagree)} existing cases disagree:")
        print("\n".join("  " + d for d in disagree))
    if options.update:
        RATCHET.write_text(json.dumps(ratchet, indent=0) + "\n")
    elif lost:
        print(f"{len(lost)} cases passed before and do not now:")
        print("\n".join("  " + x for x in lost))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
