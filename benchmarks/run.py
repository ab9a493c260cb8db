"""make bench: every workload on tocha and PyTorch 2.13, two threads each, as a ratio.

python benchmarks/run.py            # everything
python benchmarks/run.py matmul     # workloads whose group or name matches
"""

from __future__ import annotations

import re
import sys

import eager
import footprint
import harness
import torch

import tocha


def main() -> None:
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    tocha.set_num_threads(2)
    torch.set_num_threads(2)
    rows = []
    for workload in eager.workloads():
        if pattern.search(workload.group) or pattern.search(workload.name):
            rows.append(harness.compare(workload.group, workload.name, workload.ours, workload.theirs, workload.target))
    if rows:
        harness.show(rows)
    if pattern.search("footprint"):
        footprint.show()


if __name__ == "__main__":
    main()
