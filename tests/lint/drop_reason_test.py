#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every drop reason is produced by the library and asked for by a test; names are unique."""

import pathlib
import re
import sys

import lintlib

LIST = "netdev/base/drop_reason.h"
ENTRY = re.compile(r'\bX\(\s*(k\w+)\s*,\s*"((?:[^"\\]|\\.)*)"\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*\\?\s*)+)\)')
NAME = re.compile(r"^[a-z][a-z0-9_]*$")


def words(root, paths):
    found = set()
    for path in paths:
        found |= set(re.findall(r"\bk[A-Z]\w*", lintlib.code_only(lintlib.read(root, path))))
    return found


def check_entries(entries):
    problems = []
    if not entries:
        problems.append(f"{LIST}: no X(kName, \"name\", \"doc\") found")
    seen = {}
    for identifier, name, _ in entries:
        if not NAME.match(name):
            problems.append(f"{LIST}: {identifier}: the name '{name}' is not lower_case")
        if name in seen:
            problems.append(f"{LIST}: {identifier} and {seen[name]} have the same name '{name}'")
        seen[name] = identifier
    return problems


def check(root):
    if not (pathlib.Path(root) / LIST).is_file():
        return [f"{LIST}: no such file"]
    entries = ENTRY.findall(lintlib.read(root, LIST))
    produced = words(root, [p for p in lintlib.files(root, lintlib.LIBRARY_DIRS) if not p.startswith(LIST[:-2])])
    tested = words(root, [p for p in lintlib.files(root, ("tests",)) if p.endswith(".cc")])
    problems = check_entries(entries)
    for identifier, name, _ in entries:
        if identifier == "kNone":
            continue
        if identifier not in produced:
            problems.append(f"{LIST}: {identifier} ({name}) is counted nowhere in netdev, stack or drivers")
        if identifier not in tested:
            problems.append(f"{LIST}: {identifier} ({name}) is named by no test")
    return problems


def self_test():
    good = {
        LIST: '#define R(X) \\\n  X(kNone, "none", "Kept") \\\n  X(kShort, "short", "Too short " \\\n    "for a header")\n',
        "stack/a.cc": "return DropReason::kShort;\n",
        "tests/a_test.cc": "EXPECT_EQ(F(), DropReason::kShort);\n",
    }
    lintlib.expect(check, good)
    lintlib.expect(check, {**good, "stack/a.cc": "// kShort\n"}, "counted nowhere")
    lintlib.expect(check, {**good, "tests/a_test.cc": ""}, "named by no test")
    lintlib.expect(check, {**good, LIST: good[LIST].replace('"short"', '"Short"')}, "not lower_case")
    lintlib.expect(check, {**good, LIST: good[LIST].replace('"short"', '"none"')}, "same name")
    lintlib.expect(check, {LIST: "\n"}, "no X(")
    lintlib.expect(check, {}, "no such file")


if __name__ == "__main__":
    sys.exit(lintlib.main(check, self_test, description=__doc__))
