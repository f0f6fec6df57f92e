#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs that stand for sysctl and others in scripts: what they write into the file of
settings, and what they refuse.

  tools_test.py FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile


class Tools:
    def __init__(self, folder, settings):
        self.environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                            "TAPWIRE_PACKETDRILL_SETTINGS": str(settings), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, line, status=0):
        """Runs a shell line as a script does; its output."""
        done = subprocess.run(["sh", "-c", line], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != status:
            sys.exit(f"{line}: status {done.returncode}, wanted {status}: {done.stderr}")
        return done.stdout


def expect(found, wanted):
    if found != wanted:
        sys.exit(f"{found!r}, wanted {wanted!r}")


def main():
    with tempfile.TemporaryDirectory() as place:
        settings = pathlib.Path(place) / "settings"
        settings.touch()
        tools = Tools(sys.argv[1], settings)
        tools.run('sysctl -q net.ipv4.tcp_sack=0 "net.ipv4.tcp_rmem=4096 131072 6291456"')
        tools.run("sysctl -w net.ipv4.tcp_sack=1 >/dev/null")
        tools.run("set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 /proc/sys/net/ipv4/tcp_syn_retries=3")
        expect(settings.read_text(encoding="utf-8").splitlines(), [
            "net.ipv4.tcp_sack=0", "net.ipv4.tcp_rmem=4096 131072 6291456", "net.ipv4.tcp_sack=1",
            "net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_syn_retries=3"])
        expect(tools.run("sysctl -n net.ipv4.tcp_sack"), "1\n")
        expect(tools.run("sysctl net.ipv4.tcp_syn_retries"), "net.ipv4.tcp_syn_retries = 3\n")
        for line in ("tc qdisc add dev tun0 root pfifo", "ip tcp_metrics flush all", "ip link set dev tun0 up",
                     "ethtool -K tun0 tso off gso off", "nstat -n"):
            expect(tools.run(line), "")
        for line in ("tc qdisc add dev tun0 root netem loss 10%", "ip route change 192.0.2.0/24 dev tun0 mtu 1200",
                     "nstat -a"):
            tools.run(line, status=1)
        del tools.environment["TAPWIRE_PACKETDRILL_SETTINGS"]
        tools.run("sysctl -w net.ipv4.tcp_sack=1 2>/dev/null", status=2)
        tools.run("set_sysctls.py /proc/sys/net/ipv4/tcp_sack=1", status=1)


if __name__ == "__main__":
    main()
