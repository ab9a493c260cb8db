"""Runs a command that builds, and shows how far it is: one line on a terminal, a line per tenth elsewhere. What it says goes to a log.

python tools/with_progress.py LOG TITLE COMMAND...
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")
SHOWN_ON_FAILURE = 60


def main() -> int:
    log, title, *command = sys.argv[1:]
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal, began, tenth, lines = sys.stdout.isatty(), time.monotonic(), -1, []
    print(f"{title} (log: {log})", flush=True)
    with path.open("w") as file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as running:  # fmt: skip
        assert running.stdout is not None
        for line in running.stdout:
            file.write(line)
            lines = [*lines[-SHOWN_ON_FAILURE:], line]
            found = STEP.search(line)
            if found is None:
                continue
            done, all_, what = int(found[1]), int(found[2]), found[3].split("/")[-1].strip()
            if terminal:
                print(f"\r\x1b[K  {done}/{all_}  {time.monotonic() - began:.0f} s  {what[:60]}", end="", flush=True)
            elif done * 10 // all_ != tenth:
                tenth = done * 10 // all_
                print(f"  {done}/{all_}  {time.monotonic() - began:.0f} s", flush=True)
    if terminal:
        print("\r\x1b[K", end="")
    if running.returncode:
        print("".join(lines))
    print(f"{title}: {'failed' if running.returncode else 'done'}, {time.monotonic() - began:.0f} s", flush=True)
    return running.returncode


if __name__ == "__main__":
    sys.exit(main())
