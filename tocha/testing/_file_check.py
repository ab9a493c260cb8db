"""FileCheck: what must and must not stand in a text, in order; for tests of printed graphs and generated code."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn


class _Check(NamedTuple):
    kind: str  # CHECK, CHECK-NEXT, CHECK-SAME, CHECK-NOT, CHECK-DAG, CHECK-COUNT, CHECK-REGEX, CHECK-SOURCE-HIGHLIGHTED
    text: str
    count: int = 1  # type: ignore[assignment]
    exactly: bool = False

    def __str__(self) -> str:
        number = f"-{'EXACTLY-' if self.exactly else ''}{self.count}" if self.kind == "CHECK-COUNT" else ""
        return f"{self.kind}{number}: {self.text}"


_LINE = re.compile(
    r"#\s*CHECK(?P<kind>-NEXT|-SAME|-NOT|-DAG|-REGEX|-SOURCE-HIGHLIGHTED|-COUNT-(?P<exactly>EXACTLY-)?(?P<count>\d+))?:\s*(?P<text>.*)"
)


class FileCheck:
    """Checks on a text, each going on where the one before it ended.

    >>> FileCheck().check("first").check_next("second").check_not("fourth").run("first line\\nsecond line\\nthird")
    >>> FileCheck().check("second").check("first").run("first line\\nsecond line")
    Traceback (most recent call last):
    ...
    RuntimeError: ...
    """

    def __init__(self) -> None:
        self._checks: list[_Check] = []
        self._has_run = False

    def __repr__(self) -> str:
        head = "" if self._has_run else "You have not run this instance of FileCheck!\n"
        return head + "FileCheck checks:\n" + "\n".join(f"\t{c}" for c in self._checks)

    def _add(self, check: _Check) -> FileCheck:
        self._checks.append(check)
        return self

    def check(self, text: str) -> FileCheck:
        """The text follows somewhere."""
        return self._add(_Check("CHECK", text))

    def check_next(self, text: str) -> FileCheck:
        """The text stands on the next line."""
        return self._add(_Check("CHECK-NEXT", text))

    def check_same(self, text: str) -> FileCheck:
        """The text follows on the same line."""
        return self._add(_Check("CHECK-SAME", text))

    def check_not(self, text: str) -> FileCheck:
        """The text does not stand between the checks before and after this one."""
        return self._add(_Check("CHECK-NOT", text))

    def check_dag(self, text: str) -> FileCheck:
        """The texts of neighbouring check_dags follow, in whatever order."""
        return self._add(_Check("CHECK-DAG", text))

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text follows so many times; with exactly no more than that before what the next check finds."""
        return self._add(_Check("CHECK-COUNT", text, count, exactly))

    def check_regex(self, pattern: str) -> FileCheck:
        """Something follows that the pattern matches."""
        return self._add(_Check("CHECK-REGEX", pattern))

    def check_source_highlighted(self, text: str) -> FileCheck:
        """The text follows with tildes below it."""
        return self._add(_Check("CHECK-SOURCE-HIGHLIGHTED", text))

    def run(self, text: str, test_file: object = None) -> None:
        """Applies the checks to a text, or those that one text holds as comments (# CHECK: ...) to another."""
        if test_file is not None:
            self._read(str(text))
            text = str(test_file)
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of FileCheck! Check for bad input.")
        self._has_run = True
        _Run(str(text)).apply(self._checks)

    def _read(self, checks: str) -> None:
        for m in _LINE.finditer(checks):
            kind = "CHECK-COUNT" if m["count"] else "CHECK" + (m["kind"] or "")
            self._add(_Check(kind, m["text"].strip(), int(m["count"] or 1), bool(m["exactly"])))


class _Run:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def apply(self, checks: list[_Check]) -> None:
        forbidden: list[_Check] = []
        i = 0
        while i < len(checks):
            c, i = checks[i], i + 1
            if c.kind == "CHECK-NOT":
                forbidden.append(c)
                continue
            group = [c]
            while c.kind == "CHECK-DAG" and i < len(checks) and checks[i].kind == "CHECK-DAG":
                group.append(checks[i])
                i += 1
            begin = self.at
            first, self.at = self._matched(group)
            self._absent(forbidden, begin, first)
            forbidden = [_Check("CHECK-NOT", c.text)] if c.exactly else []
        self._absent(forbidden, self.at, len(self.text))

    def _matched(self, group: list[_Check]) -> tuple[int, int]:
        """Where the first match begins and the last one ends."""
        spans = [self._find(c, self.at) for c in group]
        c, (first, end) = group[0], spans[0]
        between = self.text[self.at : first].count("\n")
        if c.kind == "CHECK-NEXT" and between != 1:
            self._refuse(c, f'Expected to {"find" if between == 0 else "not find"} "\\n" but {"did not find" if between == 0 else "found"} it')  # fmt: skip
        if c.kind == "CHECK-SAME" and between:
            self._refuse(c, 'Expected to not find "\\n" but found it')
        if c.kind == "CHECK-SOURCE-HIGHLIGHTED":
            column = first - self.text.rfind("\n", 0, first) - 1
            below = self.text[end:].split("\n", 2)
            if len(below) < 2 or below[1][column : column + end - first] != "~" * (end - first):
                self._refuse(c, f'Expected to find highlighted "{c.text}" but it is not highlighted')
        for _ in range(c.count - 1):
            end = self._find(c, end)[1]
        return min(s for s, _ in spans), max(end, *(e for _, e in spans))

    def _find(self, c: _Check, at: int) -> tuple[int, int]:
        if c.kind == "CHECK-REGEX":
            m = re.compile(c.text).search(self.text, at)
            if m is None:
                self._refuse(c, f'Expected to find regex "{c.text}" but did not find it')
            return m.span()
        i = self.text.find(c.text, at)
        if i < 0:
            self._refuse(c, f'Expected to find "{c.text}" but did not find it')
        return i, i + len(c.text)

    def _absent(self, checks: list[_Check], begin: int, end: int) -> None:
        for c in checks:
            if self.text.find(c.text, begin, end) >= 0:
                self._refuse(c, f'Expected to not find "{c.text}" but found it')

    def _refuse(self, c: _Check, text: str) -> NoReturn:
        raise RuntimeError(f"{text}\nSearched string:\n{self.text[max(0, self.at - 80) :]}\nFrom {c}\n")
