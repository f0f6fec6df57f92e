#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No file above 600 lines, no function above 80; size_allow.txt beside this file has the exceptions."""

import pathlib
import sys

import lintlib

FILE_LINES = 600
FUNCTION_LINES = 80
ALLOW_FILE = "tests/lint/size_allow.txt"


def read_allowed(root):
    """name -> (limit, line number in the allow-list); problems with the list itself."""
    allowed, problems = {}, []
    path = pathlib.Path(root) / ALLOW_FILE
    if not path.is_file():
        return allowed, problems
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(maxsplit=2)
        if len(fields) < 3 or not fields[1].isdigit():
            problems.append(f"{ALLOW_FILE}:{number}: wanted: path[:Function] lines why")
        else:
            allowed[fields[0]] = (int(fields[1]), number)
    return allowed, problems


def sizes(root):
    """(name, lines, default limit, what) of every file and function."""
    sources = lintlib.files(root, suffixes=(".h", ".cc", ".py"))
    sources += lintlib.files(root, ("scripts", ".ci", "cmake"), ("", ".sh", ".py", ".cmake"))
    for path in sources:
        text = lintlib.read(root, path)
        yield path, text.count("\n"), FILE_LINES, "file"
        if path.endswith((".h", ".cc")):
            for function in lintlib.scan(text).functions:
                lines = function.last_line - function.first_line + 1
                yield f"{path}:{function.name}", lines, FUNCTION_LINES, "function"


def check(root):
    allowed, problems = read_allowed(root)
    needed = set()
    for name, lines, default, what in sizes(root):
        limit = allowed.get(name, (default, 0))[0]
        if lines > default:
            needed.add(name)
        if lines > limit:
            problems.append(f"{name}: {lines} lines; a {what} has at most {limit}: split it by responsibility")
    for name, (_, number) in allowed.items():
        if name not in needed:
            problems.append(f"{ALLOW_FILE}:{number}: {name} needs no exception any more")
    return problems


def long_function(name, lines):
    return f"int {name}(int n) {{\n" + "  n += 1;\n" * (lines - 3) + "  return n;\n}\n"


def self_test():
    good = {
        "netdev/a.cc": long_function("F", 80),
        "netdev/b.cc": "\n" * 600,
        # The braces of a member initializer do not hide the body.
        "netdev/c.cc": "C::C() : a_{1}, b_(2) {\n" + "  a_ += 1;\n" * 78 + "}\n",
    }
    lintlib.expect(check, good)
    lintlib.expect(check, {**good, "netdev/a.cc": long_function("F", 81)}, "netdev/a.cc:F: 81 lines")
    lintlib.expect(check, {**good, "netdev/b.cc": "\n" * 601}, "netdev/b.cc: 601 lines")
    lintlib.expect(check, {**good, "scripts/run": "\n" * 601}, "scripts/run: 601 lines")
    lintlib.expect(
        check,
        {**good, "netdev/c.cc": "C::C() : a_{1}, b_(2) {\n" + "  a_ += 1;\n" * 79 + "}\n"},
        "netdev/c.cc:C::C: 81 lines",
    )
    test_case = "TEST(A, B) {\n" + "  F();\n" * 80 + "}\n"
    lintlib.expect(check, {**good, "tests/a_test.cc": test_case}, "tests/a_test.cc:A.B: 82 lines")
    excused = {**good, "netdev/a.cc": long_function("F", 90), ALLOW_FILE: "netdev/a.cc:F 90 a table of cases\n"}
    lintlib.expect(check, excused)
    lintlib.expect(check, {**excused, "netdev/a.cc": long_function("F", 91)}, "at most 90")
    lintlib.expect(check, {**excused, "netdev/a.cc": long_function("F", 80)}, "no exception any more")
    lintlib.expect(check, {**good, ALLOW_FILE: "netdev/a.cc 700\n"}, "wanted: path")


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, description=__doc__))
