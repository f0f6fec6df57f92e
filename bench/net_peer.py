#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job in figures: the kernel's sockets against the library on a TAP, beside the kernel
against itself over a veth pair, with the same program at the kernel's side (bench_peer).

Run by bench/report.py in a network namespace of its own, as its root; prints one JSON object. The
variants of a group take turns: kernel, ours, kernel, ours. Each row gives medians and ranges, and
the median of the ratios of neighbouring runs. tap.*: writes and reads of 128 KiB. local.*: two of
our stacks in one process and thread, against the kernel's pair on one processor, with 16 KiB.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import measure
from measure import Failure

KERNEL = {4: "10.8.0.2", 6: "fd00:8::2"}
STACK = {4: "10.9.0.2", 6: "fd00:9::2"}
BUSY_STACK = {4: "10.10.0.2"}
PORT = 5001
# bench_tap_peer's ports, from PORT on.
IN, OUT, ANSWER, IN_SLICES, OUT_SLICES = range(5)
BUSY_POLL_US = 200


@dataclasses.dataclass
class Row:
    """A line of the result; what of it the kernel's run shares is in its Group."""

    key: str
    port: int = ANSWER
    busy: bool = False
    program: str = ""  # in process: benchmark of tcp_bench
    flags: tuple = ()  # of the client


@dataclasses.dataclass
class Group:
    """Rows that are measured in turn with the same run of the kernel against itself."""

    test: str
    rows: list
    cpus: tuple = (None, None)  # client, server
    direction: str = "client-sends"
    size: int = 1
    family: int = 4
    kernel_flags: tuple = ()

    @property
    def stream(self):
        return self.test == "stream"

    @property
    def placement(self):
        client, server = self.cpus
        return "unpinned" if client is None else "one core" if client == server else "two cores"


def plan(cpus):
    """All groups, in the order of the result. `cpus`: those we may use."""
    one = (cpus[-1], cpus[-1])
    large = 128 * 1024
    groups = []
    for suffix, places in (("", (None, None)), (".one_core", one)):
        groups += [
            Group("stream", [Row(f"tap.in{suffix}", IN), Row(f"tap.in{suffix}.zero_copy", IN_SLICES)], places,
                  "client-sends", large),
            Group("stream", [Row(f"tap.out{suffix}", OUT), Row(f"tap.out{suffix}.zero_copy", OUT_SLICES)], places,
                  "client-receives", large),
            Group("rr", [Row(f"tap.rr{suffix}")], places),
            Group("crr", [Row(f"tap.crr{suffix}")], places),
            Group("udp_rr", [Row(f"tap.udp_rr{suffix}")], places),
        ]
    if len(cpus) > 1:
        two = (cpus[0], cpus[1])
        groups += [
            Group("rr", [Row("tap.rr.two_core"), Row("tap.rr.two_core_busy", busy=True)], two),
            Group("rr", [Row("tap.rr.two_core_busy.both_poll", busy=True, flags=("--spin",))], two,
                  kernel_flags=("--spin",)),
        ]
    groups += [
        Group("stream", [Row("tap.in.v6", IN)], size=large, family=6),
        Group("stream", [Row("tap.out.v6", OUT)], direction="client-receives", size=large, family=6),
        Group("rr", [Row("tap.rr.v6.one_core")], one, family=6),
        Group("stream", [Row("local.stream", program="TcpStream")], one, size=16 * 1024),
        Group("rr", [Row("local.rr", program="TcpRoundTrip")], one),
        Group("crr", [Row("local.crr", program="TcpConnectionPerRequest")], one),
    ]
    return groups


@dataclasses.dataclass
class Figure:
    """One run. `rate`: Gbit/s or transactions per second; cpu_ns: per byte or transaction."""

    rate: float
    cpu_ns: float  # of the server, or of the process that is both
    client_cpu_ns: float
    congestion: str


def figure(group, client, server_cpu_s, congestion):
    done = client["bytes"] if group.stream else client["transactions"]
    if done == 0:
        raise Failure(f"{group.test}: nothing was transferred")
    rate = done * 8e-9 / client["seconds"] if group.stream else done / client["seconds"]
    client_cpu = client["cpu_user_s"] + client["cpu_system_s"]
    return Figure(rate, server_cpu_s * 1e9 / done, client_cpu * 1e9 / done, congestion)


class Lab:
    """The two wires, and what runs on them."""

    def __init__(self, programs, seconds):
        self.programs, self.seconds = programs, seconds
        self.directory = tempfile.TemporaryDirectory(prefix="tapwire-bench-")
        self.peer = measure.Namespace()
        self.taps = {}
        self.tap_problem = ""
        self.make_veth()

    def close(self):
        for server in self.taps.values():
            server.stop()
        self.peer.close()
        self.directory.cleanup()

    def make_veth(self):
        measure.quietly("ip", "link", "set", "lo", "up")
        measure.quietly("ip", "link", "add", "twv0", "type", "veth", "peer", "name", "twv1", "netns",
                        self.peer.process.pid)
        measure.quietly("ip", "addr", "add", "10.8.0.1/24", "dev", "twv0")
        measure.quietly("ip", "addr", "add", "fd00:8::1/64", "dev", "twv0", "nodad")
        measure.quietly("ip", "link", "set", "twv0", "up")
        inside = ("ip addr add 10.8.0.2/24 dev twv1; ip addr add fd00:8::2/64 dev twv1 nodad; "
                  "ip link set lo up; ip link set twv1 up")
        measure.quietly(*self.peer.enter("sh", "-e", "-c", inside))
        # A client that connects tens of thousands of times a second comes back to its ports within
        # the 60 s of TIME-WAIT.
        pathlib.Path("/proc/sys/net/ipv4/tcp_tw_reuse").write_text("1", encoding="ascii")

    def node(self):
        if "TAPWIRE_TUN" in os.environ:
            return os.environ["TAPWIRE_TUN"]
        path = pathlib.Path(self.directory.name) / "tun"
        try:
            if not path.exists():
                os.mknod(path, 0o600 | 0o020000, os.makedev(10, 200))
            os.close(os.open(path, os.O_RDWR))  # a folder may forbid device nodes
        except OSError:
            return "/dev/net/tun"
        return path

    def tap(self, busy):
        """The server on the TAP, started when it is first wanted."""
        if busy not in self.taps:
            net = "10" if busy else "9"
            command = [self.programs / "bench_tap_peer", "--name", f"twb{net}", "--node", self.node(),
                       "--kernel", f"10.{net}.0.1/24", "--addr", f"10.{net}.0.2/24", "--port", PORT]
            if busy:
                command += ["--busy-poll", BUSY_POLL_US]
            else:
                command += ["--kernel", "fd00:9::1/64", "--addr", "fd00:9::2/64"]
            self.taps[busy] = measure.Server(command)
            self.wait_for(BUSY_STACK if busy else STACK)
        return self.taps[busy]

    def wait_for(self, addresses):
        """Until the neighbours know each other and the kernel has checked its own IPv6 address."""
        for family, address in addresses.items():
            for _ in range(100):
                done = subprocess.run(["ping", f"-{family}", "-q", "-c", "1", "-W", "1", address], check=False,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                if done.returncode == 0:
                    break
                time.sleep(0.05)
            else:
                raise Failure(f"{address} does not answer")

    def client(self, group, address, port, flags):
        command = [*measure.pinned(group.cpus[0]), self.programs / "bench_peer", "client", "--test", group.test,
                   "--address", address, "--port", port, "--size", group.size, "--direction", group.direction,
                   "--seconds", self.seconds, *flags]
        return measure.run_json(command, self.seconds + 30)

    def run_kernel(self, group):
        watch = measure.Watch()
        server = measure.Server(self.peer.enter(
            *measure.pinned(group.cpus[1]), self.programs / "bench_peer", "server", "--test", group.test,
            "--address", KERNEL[group.family], "--port", PORT, "--size", group.size, "--direction", group.direction,
            *group.kernel_flags))
        try:
            client = self.client(group, KERNEL[group.family], PORT, group.kernel_flags)
        finally:
            output = server.stop() if group.test in ("crr", "udp_rr") else server.wait()
        if not output:
            raise Failure("the server ended without a report")
        report = json.loads(output)
        sender = client if group.direction == "client-sends" else report
        cpu = report["cpu_user_s"] + report["cpu_system_s"]
        return figure(group, client, cpu, sender["congestion_control"]), watch.foreign_share()

    def run_tap(self, group, row):
        server = self.tap(row.busy)
        cpu = os.sched_getaffinity(0) if group.cpus[1] is None else {group.cpus[1]}
        os.sched_setaffinity(server.pid, cpu)
        watch = measure.Watch([server.pid])
        before = measure.process_seconds(server.pid)[0]
        addresses = BUSY_STACK if row.busy else STACK
        client = self.client(group, addresses[group.family], PORT + row.port, row.flags)
        used = measure.process_seconds(server.pid)[0] - before
        sends = group.direction == "client-sends"
        congestion = client["congestion_control"] if sends else server.greeting[1]
        return figure(group, client, used, congestion), watch.foreign_share()

    def run_local(self, group, row):
        watch = measure.Watch()
        command = [*measure.pinned(group.cpus[0]), self.programs / "tcp_bench", "--benchmark_format=json",
                   f"--benchmark_filter=^{row.program}/v4$", f"--benchmark_min_time={self.seconds / 2}"]
        entry = measure.run_json(command, self.seconds + 60)["benchmarks"][0]
        if entry.get("error_occurred"):
            raise Failure(entry["error_message"])
        # The rates of google-benchmark are per processor time.
        wall = entry["cpu_time"] / entry["real_time"]
        per_cpu_second = entry["bytes_per_second" if group.stream else "items_per_second"]
        rate = per_cpu_second * wall * (8e-9 if group.stream else 1)
        return Figure(rate, 1e9 / per_cpu_second, 0.0, "cubic"), watch.foreign_share()

    def run_row(self, group, row):
        return self.run_local(group, row) if row.program else self.run_tap(group, row)


# ---- Results ----


def significant(value, digits=4):
    return float(f"{value:.{digits}g}")


def spread(prefix, values):
    return {f"{prefix}min": significant(min(values)), f"{prefix}max": significant(max(values))}


def summary(group, row, pairs, disturbed):
    """`pairs`: (kernel's figure, ours), in the order they were measured."""
    kernel, ours = [k.rate for k, _ in pairs], [o.rate for _, o in pairs]
    ratios = [o / k for k, o in zip(kernel, ours)]
    unit = "byte" if group.stream else "transaction"

    def median_of(side, field):
        return significant(statistics.median(getattr(pair[side], field) for pair in pairs))

    result = {
        "name": row.key,
        "value": significant(statistics.median(ours)),
        "unit": "Gbit/s" if group.stream else "1/s",
        "kernel": significant(statistics.median(kernel)),
        "ratio": significant(statistics.median(ratios), 3),
        **spread("", ours), **spread("kernel_", kernel), **spread("ratio_", ratios),
        f"cpu_ns_per_{unit}": median_of(1, "cpu_ns"),
        f"kernel_cpu_ns_per_{unit}": median_of(0, "cpu_ns"),
    }
    if row.program:
        # One process is both ends.
        result[f"kernel_cpu_ns_per_{unit}"] = significant(
            statistics.median(k.cpu_ns + k.client_cpu_ns for k, _ in pairs))
    else:
        result[f"client_cpu_ns_per_{unit}"] = median_of(1, "client_cpu_ns")
        result[f"kernel_client_cpu_ns_per_{unit}"] = median_of(0, "client_cpu_ns")
    if group.test != "udp_rr":
        result["congestion_control"] = pairs[-1][1].congestion
        result["kernel_congestion_control"] = pairs[-1][0].congestion
    result.update(placement=group.placement, size_bytes=group.size, pairs=len(pairs), disturbed=disturbed)
    return result


def measure_group(lab, group, pairs, tries):
    """Rows of the result; a row that cannot be measured says why."""
    figures = {row.key: [] for row in group.rows}
    problems, disturbed = {}, dict.fromkeys(figures, 0)
    for _ in range(pairs):
        kernel, kernel_disturbed = tries.best_of(lambda: lab.run_kernel(group))
        for row in group.rows:
            if row.key in problems:
                continue
            try:
                ours, ours_disturbed = tries.best_of(lambda row=row: lab.run_row(group, row))
            except Failure as failure:
                problems[row.key] = str(failure)
                continue
            figures[row.key].append((kernel, ours))
            disturbed[row.key] += kernel_disturbed or ours_disturbed
    return [{"name": row.key, "skipped": problems[row.key]} if row.key in problems
            else summary(group, row, figures[row.key], disturbed[row.key]) for row in group.rows]


def wanted(groups, pattern):
    for group in groups:
        group.rows = [row for row in group.rows if re.search(pattern, row.key)]
    return [group for group in groups if group.rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--list", action="store_true", help="only the names of the rows")
    arguments = parser.parse_args()
    groups = wanted(plan(sorted(os.sched_getaffinity(0))), arguments.filter)
    if arguments.list:
        print("\n".join(row.key for group in groups for row in group.rows))
        return 0
    try:
        lab = Lab(arguments.programs.resolve(), arguments.seconds)
    except Failure as failure:
        print(json.dumps({"skipped": str(failure)}))
        return 0
    rows = []
    tries = measure.Tries(limit=2 * arguments.pairs * 5)
    try:
        for group in groups:
            try:
                rows += measure_group(lab, group, arguments.pairs, tries)
            except Failure as failure:
                rows += [{"name": row.key, "skipped": f"the kernel's side: {failure}"} for row in group.rows]
            print(f"net_peer: measured {', '.join(row.key for row in group.rows)}", file=sys.stderr, flush=True)
    finally:
        lab.close()
    print(json.dumps({"benchmarks": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
