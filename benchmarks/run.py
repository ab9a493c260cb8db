"""make bench: every workload on tocha and PyTorch 2.13, two threads each, as a ratio.

python benchmarks/run.py            # everything
python benchmarks/run.py matmul     # workloads whose group or name matches
"""

from __future__ import annotations

import re
import sys

import ahead
import capture
import compiled
import convolution
import data
import distributions
import eager
import facts
import footprint
import functions
import gradients
import harness
import hundred
import memory
import narrow
import optim
import pictures
import seen
import sequence
import sparse
import spectra
import starts
import torch
import training
import transforms

import tocha

ROOMS = (
    eager,
    gradients,
    convolution,
    narrow,
    pictures,
    sequence,
    sparse,
    spectra,
    distributions,
    optim,
    data,
    training,
    transforms,
    compiled,
)


def main() -> None:
    pattern = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    tocha.set_num_threads(2)
    torch.set_num_threads(2)
    wanted = (w for room in ROOMS for w in room.workloads() if pattern.search(w.group) or pattern.search(w.name))
    rows = [harness.compare(w.group, w.name, w.ours, w.theirs, w.target) for w in wanted]
    if rows:
        harness.show(rows)
    if pattern.search("memory"):
        memory.show()
    if pattern.search("footprint"):
        footprint.show()
    if pattern.search("facts"):
        facts.show()
    if pattern.search("ahead"):
        ahead.show()
    if pattern.search("capture"):
        capture.show()
    if pattern.search("starts"):
        starts.show()
    if pattern.search("seen"):
        seen.show()
    if pattern.search("functions"):
        functions.main("", functions.CONTENDERS)
    if pattern.search("hundred"):
        hundred.run(hundred.draw(hundred.SEED))


if __name__ == "__main__":
    main()
