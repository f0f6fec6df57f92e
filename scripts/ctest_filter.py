#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes ctest's output through, line by line, and says before its summary how many were skipped.

With --require=tap a skipped test is a failure: exit code 1. Everything else keeps ctest's own code
(the caller runs a pipe with pipefail).
"""

import argparse
import re
import sys

SKIPPED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*\*\*\*(Skipped|Not Run)")
SUMMARY = re.compile(r"^\d+% tests passed, \d+ tests failed out of \d+")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", default="", help="'tap': a skipped test is a failure")
    required = parser.parse_args().require == "tap"
    skipped = []
    summarised = False
    for line in sys.stdin:
        found = SKIPPED.match(line)
        if found:
            skipped.append(found.group(1))
        if SUMMARY.match(line):
            summarised = True
            print(f"skipped tests: {len(skipped)}")
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
