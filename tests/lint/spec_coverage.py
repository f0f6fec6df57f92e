#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Case of the device specifications -> tests, from the `Covers:` comments of the tests.

A comment `// Covers: netdev:D-03, macvlan:B-01` stands inside a test or above it. docs/spec_cases.tsv
says which cases there are, and which cannot apply here and why; --update writes
docs/spec_coverage.md. Without it the script fails when that is out of date, when a case has no test,
or when a test claims an unknown one.
"""

import pathlib
import re
import sys

import lintlib
import rfc_coverage

SOURCE = "docs/spec_cases.tsv"
PAGE = "docs/spec_coverage.md"
COMMENT = re.compile(r"^[^\n]*(?://|#)[^\n]*\b(?:netdev|macvlan):[A-Z]-[0-9]{2}[^\n]*$", re.MULTILINE)
CLAIM = re.compile(r"\b((?:netdev|macvlan):[A-Z]-[0-9]{2})\b")


def read_cases(root):
    """([(case, topic)], {case: why it does not apply}, problems)."""
    path = pathlib.Path(root) / SOURCE
    if not path.is_file():
        return [], {}, [f"{SOURCE}: no such file"]
    cases, excused, problems = [], {}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [f.strip() for f in line.split("\t")]
        if len(fields) == 3 and fields[1].isdigit():
            cases += [(f"{fields[0]}-{i:02}", fields[2]) for i in range(1, int(fields[1]) + 1)]
        elif len(fields) == 2 and fields[1]:
            excused[fields[0]] = fields[1]
        else:
            problems.append(f"{SOURCE}:{number}: neither 'letter, count, topic' nor 'case, reason'")
    known = {case for case, _ in cases}
    problems += [f"{SOURCE}: {case} is excused but not a case" for case in excused if case not in known]
    return cases, excused, problems


def collect(root):
    """case -> set of (file, test), problems."""
    found, problems = {}, []
    for path in lintlib.files(root, ("tests",), (".cc", ".py")):
        if path.startswith("tests/lint/"):
            continue
        text = lintlib.read(root, path)
        for match in COMMENT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            test = rfc_coverage.test_at(path, text, line)
            for case in CLAIM.findall(match.group()):
                if test is None:
                    problems.append(f"{path}:{line}: Covers: {case} belongs to no test")
                else:
                    found.setdefault(case, set()).add((path, test))
    return found, problems


def render(cases, excused, found):
    covered = sum(1 for case, _ in cases if case in found)
    lines = [
        "# Cases of the device specifications and their tests",
        "",
        f"Written by `tests/lint/spec_coverage.py --update` from `{SOURCE}` and the `Covers:` comments of the",
        f"tests. {covered} of {len(cases)} cases have a test, {len(excused)} do not apply here.",
        "",
        "| case | topic | tests |",
        "|---|---|---|",
    ]
    for case, topic in cases:
        cell = ", ".join(f"[{test}](../{path})" for path, test in sorted(found.get(case, ())))
        lines.append(f"| {case} | {topic} | {cell or 'not applicable: ' + excused.get(case, '')} |")
    return "\n".join(lines) + "\n"


def check(root, arguments=None):
    cases, excused, problems = read_cases(root)
    found, bad_claims = collect(root)
    problems += bad_claims
    known = {case for case, _ in cases}
    problems += [f"{sorted(found[c])[0][0]}: {c} is not in {SOURCE}" for c in sorted(found) if c not in known]
    problems += [f"{case} has no test ({topic})" for case, topic in cases if case not in found and case not in excused]
    problems += [f"{case} is excused in {SOURCE} and has a test" for case in sorted(excused) if case in found]
    page = pathlib.Path(root) / PAGE
    text = render(cases, excused, found)
    if arguments is not None and arguments.update:
        page.write_text(text, encoding="utf-8")
    elif not page.is_file() or page.read_text(encoding="utf-8") != text:
        problems.append(f"{PAGE} is out of date: run tests/lint/spec_coverage.py --update")
    return problems


class _Update:
    update = True


def self_test():
    good = {
        SOURCE: "# comment\nnetdev:D\t2\tdependencies\nmacvlan:J\t1\tevents\nmacvlan:J-01\tno namespaces\n",
        "tests/a_test.cc": (
            "// Covers: netdev:D-01\nTEST(ATest, One) {\n  F();\n}\n"
            "TEST_F(ATest, Two) {\n  // Covers: bug:B60,\n  // netdev:D-02\n  F();\n}\n"
        ),
    }
    with lintlib.BadTree(good) as root:
        assert check(root, _Update()) == [], check(root, _Update())
        assert check(root) == []
        page = lintlib.read(root, PAGE)
        assert "| netdev:D-02 | dependencies | [ATest.Two](../tests/a_test.cc) |" in page, page
        assert "| macvlan:J-01 | events | not applicable: no namespaces |" in page, page
    good = {**good, PAGE: page}
    lintlib.expect(check, good)
    test = good["tests/a_test.cc"]
    lintlib.expect(check, {**good, "tests/a_test.cc": test.replace("D-02", "D-01")}, "D-02 has no test", "out of date")
    lintlib.expect(check, {**good, "tests/a_test.cc": test.replace("D-02", "D-09")}, "D-09 is not in", "D-02 has no", "out of")
    lintlib.expect(check, {**good, "tests/a_test.cc": test + "// Covers: netdev:D-01\n"}, "belongs to no test")
    lintlib.expect(check, {**good, "tests/a_test.cc": test.replace("D-02", "D-02, macvlan:J-01")}, "excused", "out of date")
    lintlib.expect(check, {**good, SOURCE: good[SOURCE] + "netdev:Q\n"}, "neither")
    lintlib.expect(check, {**good, SOURCE: good[SOURCE] + "netdev:Q-01\treason\n"}, "not a case", "out of date")


def add_arguments(parser):
    parser.add_argument("--update", action="store_true", help="write the page")


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, add_arguments, description=__doc__))
