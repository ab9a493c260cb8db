"""Tries a wheel in a clean environment: it computes, compiles (its headers are in it), and stands for torch.

tools/wheel_test.py dist/tocha-*.whl
tools/wheel_test.py --here    # the wheel is installed in this environment
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import tocha
x = tocha.arange(6.0).reshape(2, 3).requires_grad_()
assert tocha.linalg.svdvals(x).shape == (2,)
f = tocha.compile(lambda x: (x.sin() * 2).sum())
f(x).backward()
assert tocha.allclose(x.grad, 2 * x.detach().cos()), x.grad
print("computes and compiles")
"""
ALIAS = "import torch, importlib.metadata as m; assert torch.ones(2).sum() == 2; print(m.version('torch'))"


def main() -> int:
    if sys.argv[1] == "--here":
        return subprocess.run([sys.executable, "-c", PROGRAM], cwd=tempfile.gettempdir()).returncode
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        for command in (["-c", PROGRAM], ["-m", "tocha", "alias", "install"], ["-c", ALIAS]):
            subprocess.run([python, *command], check=True, cwd=folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
