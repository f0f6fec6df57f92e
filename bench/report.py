#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark programs and prints a table, or with --json one JSON object.

The main job comes first: bench/net_peer.py compares with the kernel, as docs/performance.md tells;
its rows are keys of the JSON object too ("tap.in": {"value": …}). Each bench/*_bench.cc is a
google-benchmark program. What needs the network runs in a network namespace of its own. A program
prints {"benchmarks": [...]} or {"skipped": why}. bench/goals.tsv holds what is aimed at; nothing
fails by being slow.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent
AGGREGATE = "median"
# In the order of the layers.
MICRO_BENCHMARKS = ("base_bench", "wire_bench", "netdev_bench", "stack_bench", "tcp_bench")
# Programs that print JSON of their own, and their rows.
OTHER_PROGRAMS = {
    "idle_connections": ("memory.idle_connection_bytes",),
    "net_tap": ("tap_frames/1514", "tap_super/65000"),
    "net_udp_rr": ("udp_rr/one_cpu", "udp_rr/two_cpus"),
}


def run_program(command, stderr=subprocess.PIPE):
    """(JSON object, None) or (None, reason)."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    if done.returncode != 0:
        reason = ((done.stderr or "").strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return None, f"exit code {done.returncode}: {reason}"
    try:
        return json.loads(done.stdout), None
    except ValueError as error:
        return None, f"no JSON on stdout: {error}"


def isolate():
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]


# ---- google-benchmark ----


def nanoseconds(entry, key):
    scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[entry.get("time_unit", "ns")]
    return entry[key] * scale


KNOWN = {
    "name", "run_name", "run_type", "repetitions", "repetition_index", "threads", "iterations", "real_time",
    "cpu_time", "time_unit", "family_index", "per_family_instance_index", "aggregate_name", "aggregate_unit",
    "error_occurred", "error_message", "label",
}


def from_google_benchmark(program, raw):
    entries = [e for e in raw["benchmarks"] if e.get("aggregate_name") == AGGREGATE]
    entries = entries or [e for e in raw["benchmarks"] if e.get("run_type") == "iteration"]
    results = []
    for entry in entries:
        result = {"program": program, "name": entry["run_name"]}
        if entry.get("label"):
            result["label"] = entry["label"]
        if entry.get("error_occurred"):
            result["skipped"] = entry.get("error_message", "")
        else:
            result["time_ns"] = nanoseconds(entry, "real_time")
            result["cpu_ns"] = nanoseconds(entry, "cpu_time")
            result.update({k: v for k, v in entry.items() if k not in KNOWN and isinstance(v, (int, float))})
        results.append(result)
    return results


def names_of(program):
    """The benchmarks of a program in the order of its source."""
    listed = subprocess.run([program, "--benchmark_list_tests=true"], stdout=subprocess.PIPE, check=True, text=True)
    return listed.stdout.split()


def literal(name):
    """For the regular expressions of google-benchmark, which know fewer escapes than re.escape writes."""
    return re.sub(r"([][.*+?(){}^$|\\])", r"\\\1", name)


def run_micro(program, arguments, results, failures):
    path = arguments.programs / program
    if not path.exists():
        failures.append(f"{program}: is not in {arguments.programs}")
        return
    names = [n for n in names_of(path) if re.search(arguments.filter, n)]
    if not names:
        return
    raw, reason = run_program([
        path, "--benchmark_format=json", f"--benchmark_repetitions={arguments.repetitions}",
        "--benchmark_report_aggregates_only=true", "--benchmark_min_time=0.1",
        "--benchmark_enable_random_interleaving=true", f"--benchmark_filter=^({'|'.join(map(literal, names))})$"
    ])
    if reason:
        failures.append(f"{program}: {reason}")
        return
    # They ran in random order.
    found = from_google_benchmark(program, raw)
    results += sorted(found, key=lambda r: names.index(r["name"]) if r["name"] in names else len(names))


# ---- all of them ----


def add_rows(program, raw, reason, results, failures):
    if reason:
        failures.append(f"{program}: {reason}")
    elif "skipped" in raw:
        results.append({"program": program, "name": program, "skipped": raw["skipped"]})
    else:
        results += [{"program": program, **entry} for entry in raw["benchmarks"]]


def run_peer(arguments, results, failures):
    command = [sys.executable, BENCH / "net_peer.py", arguments.programs, f"--filter={arguments.filter}",
               f"--pairs={arguments.pairs}", f"--seconds={arguments.seconds}"]
    listed = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, check=True, text=True)
    if listed.stdout.strip():
        # It takes minutes and says on stderr how far it is.
        add_rows("net_peer", *run_program(isolate() + command, stderr=None), results, failures)


def run_all(arguments):
    results, failures = [], []
    run_peer(arguments, results, failures)
    for program, rows in OTHER_PROGRAMS.items():
        selected = [row for row in rows if re.search(arguments.filter, row)]
        if selected:
            command = [arguments.programs / program]
            raw, reason = run_program(isolate() + command if program.startswith("net_") else command)
            if raw and "benchmarks" in raw:
                raw["benchmarks"] = [e for e in raw["benchmarks"] if e["name"] in selected]
            add_rows(program, raw, reason, results, failures)
    for program in MICRO_BENCHMARKS:
        run_micro(program, arguments, results, failures)
    return results, failures


# ---- goals ----


def read_goals():
    """[(pattern of the name, key, '>=' or '<=', value)]"""
    goals, path = [], BENCH / "goals.tsv"
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                pattern, key, relation, value = line.split("\t")[:4]
                goals.append((re.compile(pattern), key, relation, float(value)))
    return goals


def judge(results, goals):
    for result in results:
        for pattern, key, relation, value in goals:
            if pattern.search(result["name"]) and key in result:
                met = result[key] >= value if relation == ">=" else result[key] <= value
                result["goal"] = {"key": key, "relation": relation, "value": value, "met": met}


# ---- printing ----


def human(value):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.2f}{suffix}"
    return f"{value:.2f}"


def verdict(result):
    goal = result.get("goal")
    if not goal:
        return ""
    return f"{goal['key']} {goal['relation']} {human(goal['value'])}: {'met' if goal['met'] else 'MISSED'}"


def compared_columns(result):
    """Of a row that is a value with a unit, mostly beside the kernel's."""
    text = f"{human(result['value'])} {result['unit']}"
    if "kernel" not in result:
        parts = "  ".join(f"{k}={human(result[k])}" for k in ("heap", "slabs", "rss") if k in result)
        return f"{text:>16}  {parts}"
    each = "byte" if "cpu_ns_per_byte" in result else "transaction"
    ours, theirs = result[f"cpu_ns_per_{each}"], result[f"kernel_cpu_ns_per_{each}"]
    disturbed = f"  disturbed {result['disturbed']}/{result['pairs']}" if result["disturbed"] else ""
    return (f"{text:>16}  ({human(result['min'])}–{human(result['max'])})  kernel {human(result['kernel'])} "
            f"({human(result['kernel_min'])}–{human(result['kernel_max'])})  ratio {result['ratio']:.2f}  "
            f"CPU {human(ours)} : {human(theirs)} ns/{each}  {result.get('congestion_control', '')}{disturbed}")


def timed_columns(result):
    known = {"program", "name", "label", "time_ns", "cpu_ns", "goal"}
    extra = "  ".join(f"{k}={human(v)}" for k, v in result.items() if k not in known and isinstance(v, (int, float)))
    time = f"{result['time_ns']:.1f} ns" if "time_ns" in result else ""
    return f"{time:>16}  {extra}"


def print_table(results):
    width = max([len(r["name"]) for r in results] + [20])
    for result in results:
        if "skipped" in result:
            columns = f"skipped: {result['skipped']}"
        else:
            columns = compared_columns(result) if "value" in result else timed_columns(result)
        print(f"{result['name']:<{width}} {columns:<100} {verdict(result)}".rstrip())


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    except OSError:
        pass
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "load_1min": os.getloadavg()[0]}


def print_json(results, failures, before):
    report = {"machine": before}
    report.update({r["name"]: {k: v for k, v in r.items() if k not in ("name", "program")}
                   for r in results if "value" in r})
    report.update(benchmarks=results, failures=failures)
    json.dump(report, sys.stdout, indent=1)
    print()


# ---- command line ----


def regular_expression(text):
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error
    return text


def number(kind, low, high):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low} to {high}")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # the arguments, and no more
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--filter", type=regular_expression, default="", metavar="REGEX",
                        help="only rows whose name contains this")
    parser.add_argument("--repetitions", type=number(int, 1, 100), default=3, metavar="N",
                        help="of the google-benchmark programs (3)")
    parser.add_argument("--pairs", type=number(int, 1, 100), default=5, metavar="N",
                        help="runs of the kernel and of ours, in turn (5)")
    parser.add_argument("--seconds", type=number(float, 0.05, 60), default=1.0, metavar="S",
                        help="length of such a run (1)")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.check:
        return 0
    arguments.programs = arguments.programs.resolve()
    before = machine()
    results, failures = run_all(arguments)
    if not results and not failures:
        failures.append(f"no benchmark has '{arguments.filter}' in its name")
    judge(results, read_goals())
    if arguments.json:
        print_json(results, failures, before)
    else:
        print_table(results)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
