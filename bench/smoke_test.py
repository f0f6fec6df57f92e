#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That the measurement works, not what it measures: smoke_test.py options|rows FOLDER_OF_PROGRAMS.

options: bad input to every option is named, with exit code 2. rows: a short run of each test over
both wires gives figures. 77 where no network namespace or no TAP can be had.
"""

import json
import os
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
ROWS = r"^(tap\.(in|out|rr|crr|udp_rr)|local\.rr)$"

PEER = ["client", "--test", "rr", "--address", "127.0.0.1"]
BAD_OPTIONS = {
    "bench_peer": [
        [], ["frobnicate"], ["client"], ["client", "--test", "rr"], ["client", "--address", "::1"],
        ["client", "--test", "tcp", "--address", "::1"], ["client", "--test", "rr", "--address", "example.org"],
        [*PEER, "--port", "0"], [*PEER, "--port", "65536"], [*PEER, "--size", "0"], [*PEER, "--size", "x"],
        [*PEER, "--seconds", "0"], [*PEER, "--seconds", "nan"], [*PEER, "--seconds", "1s"],
        [*PEER, "--direction", "up"], [*PEER, "surplus"],
        ["server", "--test", "rr", "--address", "::1", "--seconds", "1"],
    ],
    "bench_tap_peer": [
        [], ["--addr", "10.9.0.2"], ["--addr", "x/24"], ["--addr", "10.9.0.2/24", "--kernel", "10.9.0.1/33"],
        ["--addr", "10.9.0.2/24", "--port", "65535"], ["--addr", "10.9.0.2/24", "--size", "0"],
        ["--addr", "10.9.0.2/24", "--busy-poll", "-1"], ["--addr", "10.9.0.2/24", "--busy-poll", "1000001"],
        ["--addr", "10.9.0.2/24", "--poll-budget", "0"], ["--addr", "10.9.0.2/24", "--loop", "select"], ["surplus"],
    ],
    "idle_connections": [["--connections", "0"], ["--connections", "25001"], ["--connections", "x"], ["surplus"]],
}


def options(programs):
    wrong = []
    for program, lines in BAD_OPTIONS.items():
        for line in lines:
            done = subprocess.run([programs / program, *line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=20, text=True, check=False)
            if done.returncode != 2 or not done.stderr.strip():
                wrong.append(f"{program} {' '.join(line)}: exit code {done.returncode}, said '{done.stderr.strip()}'")
    print("\n".join(wrong))
    return 1 if wrong else 0


def problem_of(row):
    if "skipped" in row:
        return row["skipped"]
    streams = row["unit"] == "Gbit/s"
    cpu = row["cpu_ns_per_byte" if streams else "cpu_ns_per_transaction"]
    if not (row["value"] > 0 and row["kernel"] > 0 and row["ratio"] > 0 and cpu > 0):
        return "a figure is not positive"
    if row["name"] != "tap.udp_rr" and row["kernel_congestion_control"] != "cubic":
        return f"the kernel used {row['kernel_congestion_control']}"
    return ""


def rows(programs):
    isolate = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]
    if subprocess.run([*isolate, "true"], check=False).returncode != 0:
        return SKIPPED
    done = subprocess.run([*isolate, sys.executable, BENCH / "net_peer.py", programs, "--filter", ROWS, "--pairs", "1",
                           "--seconds", "0.05"], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout)
    if "skipped" in report:
        print(report["skipped"])
        return SKIPPED
    problems = {row["name"]: problem_of(row) for row in report["benchmarks"]}
    for name, problem in problems.items():
        print(f"{name}: {problem or 'ok'}")
    if any("/dev/net/tun" in problem for problem in problems.values()):
        return SKIPPED
    return 1 if any(problems.values()) or len(problems) != 6 else 0


if __name__ == "__main__":
    sys.exit({"options": options, "rows": rows}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve()))
