#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark programs and prints a table, or with --json one JSON object.

Each bench/*_bench.cc is a google-benchmark program. Each bench/net_*.cc or bench/net_*.py needs the
network: it runs in a network namespace of its own, prints {"benchmarks": [...]} or {"skipped": why},
and gets the folder of the programs as its argument. bench/goals.tsv holds what is aimed at; nothing
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


def run_program(command):
    """(JSON object, None) or (None, reason)."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        return None, f"exit code {done.returncode}: {reason}"
    try:
        return json.loads(done.stdout), None
    except ValueError as error:
        return None, f"no JSON on stdout: {error}"


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


def isolate():
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]


def run_all(arguments):
    results, failures = [], []
    for source in sorted(BENCH.glob("*_bench.cc")):
        command = [arguments.programs / source.stem, "--benchmark_format=json",
                   f"--benchmark_repetitions={arguments.repetitions}", "--benchmark_report_aggregates_only=true",
                   "--benchmark_min_time=0.1", "--benchmark_enable_random_interleaving=true"]
        if arguments.filter:
            command.append(f"--benchmark_filter={arguments.filter}")
        raw, reason = run_program(command)
        if reason:
            failures.append(f"{source.stem}: {reason}")
        else:
            results += from_google_benchmark(source.stem, raw)
    for source in sorted(list(BENCH.glob("net_*.cc")) + list(BENCH.glob("net_*.py"))):
        if arguments.filter and not re.search(arguments.filter, source.stem):
            continue
        program = [sys.executable, source] if source.suffix == ".py" else [arguments.programs / source.stem]
        raw, reason = run_program(isolate() + program + [arguments.programs])
        if reason:
            failures.append(f"{source.stem}: {reason}")
        elif "skipped" in raw:
            results.append({"program": source.stem, "name": source.stem, "skipped": raw["skipped"]})
        else:
            results += [{"program": source.stem, **entry} for entry in raw["benchmarks"]]
    return results, failures


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


def human(value):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.2f}{suffix}"
    return f"{value:.2f}"


def print_table(results):
    width = max([len(r["name"]) for r in results] + [20])
    print(f"{'benchmark':<{width}} {'time/op':>11} {'':<44} goal")
    for result in results:
        if "skipped" in result:
            print(f"{result['name']:<{width}} skipped: {result['skipped']}")
            continue
        known = {"program", "name", "label", "time_ns", "cpu_ns", "goal"}
        extra = "  ".join(f"{k}={human(v)}" for k, v in result.items() if k not in known and isinstance(v, (int, float)))
        time = f"{result['time_ns']:.1f} ns" if "time_ns" in result else ""
        goal = result.get("goal")
        verdict = ""
        if goal:
            verdict = f"{goal['key']} {goal['relation']} {human(goal['value'])}: {'met' if goal['met'] else 'MISSED'}"
        print(f"{result['name']:<{width}} {time:>11} {extra:<44} {verdict}".rstrip())


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    except OSError:
        pass
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "load_1min": os.getloadavg()[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of the built programs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--filter", default="", help="regular expression for benchmark names")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.resolve()
    results, failures = run_all(arguments)
    judge(results, read_goals())
    if arguments.json:
        json.dump({"machine": machine(), "benchmarks": results, "failures": failures}, sys.stdout, indent=1)
        print()
    else:
        print_table(results)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
