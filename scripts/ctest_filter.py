#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes ctest's output through, line by line, and says before its summary how many were skipped and
which passed only when they were run again.

With --require=tap a skipped test is a failure: exit code 1. Everything else keeps ctest's own code
(the caller runs a pipe with pipefail).
"""

import argparse
import collections
import pathlib
import re
import sys

SKIPPED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*\*\*\*(Skipped|Not Run)")
OUTCOME = re.compile(r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (\S+) .*(\*\*\*(?:Failed|Timeout|Exception)|   Passed)")
SUMMARY = re.compile(r"^\d+% tests passed, \d+ tests failed out of \d+")


# What gtest prints for a skipped test: "file:line: Skipped", then the reason.
REASON = re.compile(r"^.*: Skipped\n(.+)$", re.MULTILINE)
LOG = pathlib.Path(__file__).resolve().parent.parent / "build/dev/Testing/Temporary/LastTest.log"


def print_reasons():
    try:
        text = LOG.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for reason, count in collections.Counter(REASON.findall(text)).most_common():
        print(f"skipped {count}: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", default="", help="'tap': a skipped test is a failure")
    required = parser.parse_args().require == "tap"
    skipped = []
    failed, passed_later = set(), []
    summarised = False
    for line in sys.stdin:
        found = SKIPPED.match(line)
        if found:
            skipped.append(found.group(1))
        outcome = OUTCOME.match(line)
        if outcome and outcome.group(2).strip() != "Passed":
            failed.add(outcome.group(1))
        elif outcome and outcome.group(1) in failed:
            passed_later.append(outcome.group(1))
        if SUMMARY.match(line):
            summarised = True
            if skipped:
                print_reasons()
            print(f"skipped tests: {len(skipped)}")
            if passed_later:
                print("passed only when run again: " + ", ".join(passed_later))
        sys.stdout.write(line)
        sys.stdout.flush()
    if required and skipped:
        print("a test was skipped although TAPWIRE_REQUIRE=tap: " + ", ".join(skipped), file=sys.stderr)
        return 1
    if required and not summarised:
        print("ctest printed no summary, so nothing is known about skipped tests", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
