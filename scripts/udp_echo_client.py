#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends datagrams to a UDP echo server, one at a time, and compares each answer byte for byte.

Prints one line "COUNT SIZE MIN_US AVG_US MAX_US"; exit code 1 with a reason when an answer is
missing or different.
"""

import argparse
import random
import socket
import sys
import time


def exchange(sock, payload):
    """Round-trip time in microseconds, or a reason."""
    start = time.monotonic_ns()
    sock.send(payload)
    try:
        answer = sock.recv(70000)
    except socket.timeout:
        return None, "no answer"
    elapsed = (time.monotonic_ns() - start) / 1000
    if answer != payload:
        at = next((i for i, (a, b) in enumerate(zip(answer, payload)) if a != b), min(len(answer), len(payload)))
        return None, f"{len(answer)} bytes came back, different from byte {at} on"
    return elapsed, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--size", type=int, default=65507)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--timeout", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    family = socket.AF_INET6 if ":" in arguments.address else socket.AF_INET
    source = random.Random(arguments.seed)
    times = []
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(arguments.timeout)
        sock.connect((arguments.address, arguments.port))
        for number in range(arguments.count):
            elapsed, reason = exchange(sock, source.randbytes(arguments.size))
            if reason:
                print(f"datagram {number} of {arguments.size} bytes to {arguments.address}: {reason}", file=sys.stderr)
                return 1
            times.append(elapsed)
    print(f"{len(times)} {arguments.size} {min(times):.0f} {sum(times) / len(times):.0f} {max(times):.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
