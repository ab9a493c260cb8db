"""The parts of a program's source, by which it is put together and taken apart: what comes before kernels, between them and after."""

from __future__ import annotations

import re

HEADER = """#include "cpu/engine/program_prelude.h"

namespace tocha {
namespace {
"""
BETWEEN = "// ----\n"  # kernels
LINE = "//   "  # what comes before a line of the user's program
NAMES = "using namespace tocha;"
ENTRY = """
void run(const tocha_api* api, void* program, int64_t number, int64_t rows, int64_t grain, int64_t work,
         void (*kernel)(void*, int64_t, int64_t), void* frame) {
  int64_t began = 0;
  if (*api->recording) began = api->now();
  if (rows <= grain) {
    if (rows > 0) kernel(frame, 0, rows);
  } else {
    api->parallel(rows, grain, work, kernel, frame);
  }
  if (began) api->ran(program, number, began);
}

template <class Work>
int timed(const tocha_api* api, void* program, int64_t number, Work work) {
  int64_t began = 0;
  if (*api->recording) began = api->now();
  int failed = work();
  if (began) api->ran(program, number, began);
  return failed;
}

}  // namespace
}  // namespace tocha

using namespace tocha;
"""


def without_lines(source: str) -> str:
    """What a compiler reads: the same wherever in the user's program it came from."""
    return re.sub(rf"^{LINE}.*\n", "", source, flags=re.M)


def units(source: str, count: int) -> list[str]:
    """A program's source as up to so many that are compiled apart and linked: the last has the entry, the others kernels."""
    head, _, rest = source.partition(HEADER)
    body, entry, tail = rest.partition(ENTRY)
    kernels = body.split(BETWEEN)
    if head or not entry or len(kernels) < 2 or count < 2:
        return [source]
    groups: list[list[str]] = [[] for _ in range(min(count, len(kernels)))]
    for k in sorted(kernels, key=len, reverse=True):
        min(groups, key=lambda g: sum(map(len, g))).append(k)
    *others, last = ("".join(g) for g in groups)
    named = HEADER.replace("namespace {", "namespace kernels {")
    declared = "".join(f"{f};\n" for f in re.findall(r"^void \w+\(void\* context, int64_t begin, int64_t end\)", body, re.M))  # fmt: skip
    entry = entry.replace(NAMES, f"{NAMES}\nusing namespace tocha::kernels;", 1)
    return [*(f"{named}{text}}}\n}}\n" for text in others), f"{named}{declared}{last}{entry}{tail}"]
