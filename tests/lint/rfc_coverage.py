#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requirement -> tests, from the `Covers:` comments of the tests.

A comment `// Covers: rfc:IP-11, bug:B60` stands inside a test or above it. The ids are those of
docs/rfc_requirements.tsv and docs/bug_cases.tsv; --update writes docs/rfc_coverage.md and
docs/bug_coverage.md, without it the script fails when they are out of date or an id is unknown.
"""

import pathlib
import re
import sys
from dataclasses import dataclass

import lintlib


@dataclass(frozen=True)
class Table:
    family: str
    source: str
    page: str
    title: str
    columns: tuple  # headings of the columns after the id


TABLES = (
    Table(
        "rfc",
        "docs/rfc_requirements.tsv",
        "docs/rfc_coverage.md",
        "Requirements of the RFCs and their tests",
        ("source", "strength", "requirement"),
    ),
    Table(
        "bug",
        "docs/bug_cases.tsv",
        "docs/bug_coverage.md",
        "Bugs of other stacks and the tests against them",
        ("known from", "must hold"),
    ),
)

COVERS = re.compile(r"(?://|#)\s*Covers:(?P<ids>[^\n]*(?:\n[ \t]*(?://|#)[ \t]*(?:rfc|bug):[^\n]*)*)")
PYTHON_TEST = re.compile(r"^[ \t]*(?:async )?def (test\w*)|^class (\w+)", re.MULTILINE)


def read_table(root, table):
    """(rows, problems); a row is id, columns..., note."""
    path = pathlib.Path(root) / table.source
    if not path.is_file():
        return [], [f"{table.source}: no such file"]
    rows, problems, seen = [], [], set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in line.split("\t")]
        wanted = len(table.columns) + 1
        if len(fields) not in (wanted, wanted + 1):
            problems.append(f"{table.source}:{number}: {len(fields)} columns instead of {wanted} or {wanted + 1}")
            continue
        if fields[0] in seen:
            problems.append(f"{table.source}:{number}: {fields[0]} stands there twice")
        seen.add(fields[0])
        rows.append(fields + [""] * (wanted + 1 - len(fields)))
    return rows, problems


def test_at(path, text, line):
    """The name of the test that holds the line, or that follows it."""
    if path.endswith(".pkt"):
        return path.removeprefix("tests/pkt/")  # a script is one test
    if path.endswith(".py"):
        spans = [(text.count("\n", 0, m.start()) + 1, m.group(1) or m.group(2)) for m in PYTHON_TEST.finditer(text)]
        before = [name for first, name in spans if first <= line]
        after = [name for first, name in spans if first > line]
        indented = text.splitlines()[line - 1][:1] in (" ", "\t")
        chosen = before[-1:] if indented and before else after[:1]
        return chosen[0] if chosen else None
    functions = sorted(lintlib.scan(text).functions, key=lambda f: f.first_line)
    for function in functions:
        if function.is_test and function.last_line >= line:
            return function.name
    return None


def claims(text):
    """(family, id) of each claim; those of RFC 9293 appendix B are written out."""
    return re.findall(r"\b(rfc|bug):([A-Z0-9]+(?:-[0-9]+)?)\b", text) + [
        ("rfc", identifier) for identifier in re.findall(r"\bRFC 9293 (?:MUST|SHLD|MAY|REC)-[0-9]+\b", text)
    ]


def collect(root):
    """(family -> id -> set of (file, test)), problems."""
    found, problems = {table.family: {} for table in TABLES}, []
    for path in lintlib.files(root, ("tests",), (".cc", ".py", ".pkt")):
        if path.startswith("tests/lint/"):
            continue
        text = lintlib.read(root, path)
        for match in COVERS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            # A claim above a whole file (the header of a fixture) is the file's.
            test = test_at(path, text, line)
            for family, identifier in claims(match.group("ids")):
                if test is None:
                    problems.append(f"{path}:{line}: Covers: {family}:{identifier} belongs to no test")
                else:
                    found[family].setdefault(identifier, set()).add((path, test, line))
    return found, problems


def render(table, rows, claims):
    """The page as text."""
    covered = sum(1 for row in rows if row[0] in claims)
    lines = [
        f"# {table.title}",
        "",
        f"Written by `tests/lint/rfc_coverage.py --update` from `{table.source}` and the `Covers:` comments of the",
        f"tests. {covered} of {len(rows)} have a test; \"open\" is what has none.",
        "",
        "| id | " + " | ".join(table.columns) + " | tests |",
        "|---|" + "---|" * (len(table.columns) + 1),
    ]
    for row in rows:
        tests = sorted({(path, test) for path, test, _ in claims.get(row[0], ())})
        links = [f"[{test}](../{path})" for path, test in tests]
        note = row[-1]
        cell = ", ".join(links) if links else (f"open: {note}" if note else "open")
        lines.append("| " + " | ".join(row[:-1] + [cell]) + " |")
    return "\n".join(lines) + "\n"


def check(root, arguments=None):
    update = arguments is not None and arguments.update
    found, problems = collect(root)
    for table in TABLES:
        rows, bad_rows = read_table(root, table)
        problems += bad_rows
        known = {row[0] for row in rows}
        for identifier, places in sorted(found[table.family].items()):
            if identifier not in known:
                path, _, line = sorted(places)[0]
                problems.append(f"{path}:{line}: {table.family}:{identifier} is not in {table.source}")
        page = pathlib.Path(root) / table.page
        text = render(table, rows, found[table.family])
        if update:
            page.write_text(text, encoding="utf-8")
        elif not page.is_file() or page.read_text(encoding="utf-8") != text:
            problems.append(f"{table.page} is out of date: run tests/lint/rfc_coverage.py --update")
    return problems


class _Update:
    update = True


def self_test():
    good = {
        "docs/rfc_requirements.tsv": "# comment\nIP-01\tRFC 1122 §3\tMUST\tVersion\nIP-02\tRFC 791\tMUST\tSum\tlater\nRFC 9293 MUST-3\tRFC 9293\tMUST\tChecksum\n",
        "docs/bug_cases.tsv": "B60\tCVE\tflood\n",
        "tests/a_test.cc": (
            "// Covers: rfc:IP-01\nTEST(ATest, One) {\n  F();\n}\n"
            "TEST_F(ATest, Two) {\n  // Covers: bug:B60, RFC 9293 MUST-3\n  F();\n}\n"
        ),
    }
    with lintlib.BadTree(good) as root:
        problems = check(root)
        assert len(problems) == 2 and all("out of date" in p for p in problems), problems
        assert check(root, _Update()) == []
        assert check(root) == []
        page = lintlib.read(root, "docs/rfc_coverage.md")
        assert "| IP-01 | RFC 1122 §3 | MUST | Version | [ATest.One](../tests/a_test.cc) |" in page, page
        assert "| IP-02 | RFC 791 | MUST | Sum | open: later |" in page, page
        assert "2 of 3" in page, page
        assert "[ATest.Two](../tests/a_test.cc)" in lintlib.read(root, "docs/bug_coverage.md")
        pages = {p: lintlib.read(root, p) for p in ("docs/rfc_coverage.md", "docs/bug_coverage.md")}
    lintlib.expect(check, {**good, **pages})
    more = good["tests/a_test.cc"] + "// Covers: rfc:IP-99\nTEST(ATest, Three) {\n  F();\n}\n"
    lintlib.expect(check, {**good, **pages, "tests/a_test.cc": more}, "rfc:IP-99 is not in")
    late = good["tests/a_test.cc"] + "// Covers: rfc:IP-02\n"
    lintlib.expect(check, {**good, **pages, "tests/a_test.cc": late}, "belongs to no test")
    newer = good["tests/a_test.cc"].replace("rfc:IP-01", "rfc:IP-02")
    lintlib.expect(check, {**good, **pages, "tests/a_test.cc": newer}, "out of date")
    short = good["docs/bug_cases.tsv"] + "B61\tCVE\n"
    lintlib.expect(check, {**good, **pages, "docs/bug_cases.tsv": short}, "2 columns")
    twice = good["docs/bug_cases.tsv"] * 2
    lintlib.expect(check, {**good, **pages, "docs/bug_cases.tsv": twice}, "twice", "out of date")


def add_arguments(parser):
    parser.add_argument("--update", action="store_true", help="write the pages")


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, add_arguments, description=__doc__))
