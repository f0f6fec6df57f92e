#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of pkt_fuzz: some of the project's own scripts, pieces of code and commands, each
behind the byte that says which it is."""

import pathlib

HERE = pathlib.Path(__file__).parent
SCRIPTS = HERE.parent / "pkt"
OUT = HERE / "corpus" / "pkt"

SEEDS = {
    "code_compare": b"\x01assert 90000 <= tcpi_rtt <= 110000, tcpi_rtt\nx = (1 + 2) * 3 // 4 % 5\n",
    "code_calls": b"\x01assert abs(int(-1.5)) == min(1, 2) and not max(0, 0.5) < 0 or 'a' + str(1)\n",
    "command_sysctl": b"\x02sysctl -q net.ipv4.tcp_rmem=\"4096 8000 8000\"; echo 0 > /proc/sys/net/ipv4/tcp_sack",
    "command_defaults": b"\x02./defaults.sh\n./set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0",
    "script_forms": b"\x00--mtu=1000\n`true`\n0.1~0.2 > [ect0] SEW. 0:0(0) ack 1 win 5 urg 6 <...>\n"
    b"+0...1 poll([{fd=3, events=POLLIN|POLLOUT, revents=0}], 1, -1) = -1 EINTR (note (x))\n"
    b"* < [1:11(10)] icmp unreachable frag_needed mtu 1300\n+0 %{ assert tcpi_rto > 0 }%\n"
    b"+.1 < udp (10)\n+0 < S 0:0(0) <FO DEFINED,md5 00,eol>\n",
}
WHOLE = ["sack/blocks_newest_first", "options/unknown_ignored", "sockets/epoll", "sockets/vectors"]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (OUT / name).write_bytes(data)
    for name in WHOLE:
        (OUT / name.replace("/", "_")).write_bytes(b"\x00" + (SCRIPTS / f"{name}.pkt").read_bytes())


if __name__ == "__main__":
    main()
