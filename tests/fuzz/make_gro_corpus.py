#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of gro_fuzz into corpus/gro: bursts of one or two flows, a few records each
(flags, length, frame). Flag 1 has the checksums completed."""

import pathlib
import struct

HOST, PEER = bytes([2, 0, 0, 0, 0, 1]), bytes([2, 0, 0, 0, 0, 9])
V4_HOST, V4_PEER = bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1])
V6_HOST, V6_PEER = b"\xfd" + bytes(14) + b"\x02", b"\xfd" + bytes(14) + b"\x01"
OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "gro"


def eth(kind, payload, tag=b""):
    return HOST + PEER + tag + struct.pack("!H", kind) + payload


def ipv4(protocol, payload, number=0, fragment=0x4000, options=b""):
    words = 5 + len(options) // 4
    return struct.pack("!BBHHHBBH", 0x40 | words, 0, 4 * words + len(payload), number, fragment, 64, protocol, 0) \
        + V4_PEER + V4_HOST + options + payload


def ipv6(next_header, payload, extension=b""):
    return struct.pack("!IHBB", 6 << 28, len(extension) + len(payload), 60 if extension else next_header, 64) \
        + V6_PEER + V6_HOST + extension + payload


def tcp(offset, payload, flags=0x10, port=4000, options=b""):
    return struct.pack("!HHIIBBHHH", port, 7, 1000 + offset, 1, (20 + len(options)) << 2, flags, 8192, 0, 0) \
        + options + payload


def udp(payload):
    return struct.pack("!HHHH", 4000, 7, 8 + len(payload), 1) + payload


def records(*frames, flags=1):
    return b"".join(struct.pack("!BH", flags, len(f)) + f for f in frames)


def seeds():
    data = bytes(range(100))
    yield "tcp4", records(*(eth(0x0800, ipv4(6, tcp(100 * i, data), i)) for i in range(6)))
    yield "tcp4-fixed", records(*(eth(0x0800, ipv4(6, tcp(100 * i, data), 7)) for i in range(3)), flags=3)
    yield "tcp6", records(*(eth(0x86dd, ipv6(6, tcp(100 * i, data))) for i in range(6)))
    yield "tcp6-extension", records(*(eth(0x86dd, ipv6(6, tcp(100 * i, data), b"\x06\0\x01\x04\0\0\0\0")) for i in range(3)))
    yield "options", records(*(eth(0x0800, ipv4(6, tcp(100 * i, data, options=b"\x01\x01\x08\x0a" + bytes(8)), i)) for i in range(3)))
    yield "push", records(*(eth(0x0800, ipv4(6, tcp(100 * i, data, 0x18 if i == 2 else 0x10), i)) for i in range(5)))
    yield "udp", records(*(eth(0x0800, ipv4(17, udp(data), i)) for i in range(4)),
                         *(eth(0x86dd, ipv6(17, udp(data[:60 if i == 3 else 100]))) for i in range(4)))
    yield "tagged", records(*(eth(0x0800, ipv4(6, tcp(100 * i, data), i), b"\x81\0\0\x05") for i in range(3)))
    yield "two-flows", records(*(eth(0x0800, ipv4(6, tcp(100 * (i // 2), data, port=4000 + i % 2), i // 2)) for i in range(8)))
    yield "odd-forms", records(eth(0x0800, ipv4(6, tcp(0, data), 0)), eth(0x0800, ipv4(6, tcp(100, data), 1, 0x2000)),
                               eth(0x0800, ipv4(6, tcp(100, data), 1, options=bytes(4))),
                               eth(0x0800, ipv4(6, tcp(100, b""), 1)) + bytes(6), flags=5)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
