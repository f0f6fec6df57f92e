# SPDX-License-Identifier: Apache-2.0
"""How a run over kernel sockets is made and judged: processes, namespaces, processor time.

A run is disturbed when something that does not belong to it used the processors meanwhile: the
busy time of /proc/stat less that of the processes of the run and of the kernel's softirq threads.
"""

import json
import os
import pathlib
import resource
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
# Of a processor's time; starting the processes of a run takes about 2 % of a second.
DISTURBED_SHARE = 0.10
TRIES_PER_RUN = 3


class Failure(Exception):
    """A run that cannot be made; the text says why."""


# ---- Processor time, in seconds ----


def busy_seconds():
    """Of all processors, what the host took away from this machine (steal) included."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(f) for f in fields[:8])
    return (user + nice + system + irq + softirq + steal) / TICKS


def process_seconds(pid):
    """(all, user, system); "all" is exact, the other two are counted in ticks."""
    base = pathlib.Path("/proc") / str(pid)
    try:
        exact = sum(int((task / "schedstat").read_text().split()[0]) for task in (base / "task").iterdir())
        after_name = (base / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, ValueError):
        return 0.0, 0.0, 0.0
    return exact * 1e-9, int(after_name[11]) / TICKS, int(after_name[12]) / TICKS


def softirq_threads():
    found = []
    for comm in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith("ksoftirqd/"):
                found.append(int(comm.parent.name))
        except OSError:
            pass
    return found


def own_seconds():
    """This process and the children it has waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usages)


class Watch:
    """Says after a run how much of a processor others used. `servers`: processes that belong to it."""

    threads = None

    def __init__(self, servers=()):
        if Watch.threads is None:
            Watch.threads = softirq_threads()
        self.pids = [*servers, *Watch.threads]
        self.start = self.read()

    def read(self):
        return time.monotonic(), busy_seconds(), own_seconds() + sum(process_seconds(p)[0] for p in self.pids)

    def foreign_share(self):
        wall, busy, own = (now - then for now, then in zip(self.read(), self.start))
        return max(0.0, busy - own) / wall


class Tries:
    """How many runs may be repeated in all, so that a busy machine does not make it endless."""

    def __init__(self, limit):
        self.left = limit

    def best_of(self, run):
        """Calls `run() -> (result, foreign share)` until a run is quiet; (result, disturbed)."""
        best = None
        for _ in range(TRIES_PER_RUN):
            result, share = run()
            if best is None or share < best[1]:
                best = (result, share)
            if share <= DISTURBED_SHARE or self.left == 0:
                break
            self.left -= 1
        return best[0], best[1] > DISTURBED_SHARE


# ---- Processes ----


def pinned(cpu):
    return [] if cpu is None else ["taskset", "-c", str(cpu)]


def run_json(command, seconds):
    """The JSON object that the program prints."""
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command[-1]}: no end after {seconds:.0f} s") from error
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Failure(reason)
    return json.loads(done.stdout)


def quietly(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(str(c) for c in command)}: {done.stderr.strip()}")


class Server:
    """A program that prints a line with "ready" and goes on."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.greeting = self.process.stdout.readline().split()
        if self.greeting[:1] != ["ready"]:
            _, errors = self.process.communicate()
            raise Failure((errors.strip() or f"{command[0]} did not start").splitlines()[-1])

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        """What it has printed since."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            return self.process.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0]


class Namespace:
    """A second network namespace, reached from this one by a veth pair."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "3600"])
        own = os.readlink("/proc/self/ns/net")
        for _ in range(200):
            if os.readlink(f"/proc/{self.process.pid}/ns/net") != own:
                return
            time.sleep(0.01)
        raise Failure("no second network namespace")

    def enter(self, *command):
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--", *command]

    def close(self):
        self.process.kill()
        self.process.wait()
