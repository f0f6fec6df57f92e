#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of stack_fuzz into corpus/stack: one file per kind of frame, each a few records
(flags, length, frame). All use flag 1, so checksums need not be right."""

import pathlib
import struct

HOST, PEER, ALL = bytes([2, 0, 0, 0, 0, 1]), bytes([2, 0, 0, 0, 0, 9]), b"\xff" * 6
V4_HOST, V4_PEER = bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1])
V6_HOST, V6_PEER = b"\xfd" + bytes(14) + b"\x02", b"\xfd" + bytes(14) + b"\x01"
LINK_LOCAL = b"\xfe\x80" + bytes(13) + b"\x09"
OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "stack"


def eth(kind, payload, to=HOST):
    return to + PEER + struct.pack("!H", kind) + payload


def ipv4(protocol, payload, fragment=0, options=b"", to=V4_HOST, ttl=64):
    words = 5 + len(options) // 4
    return struct.pack("!BBHHHBBH", 0x40 | words, 0, 4 * words + len(payload), 77, fragment, ttl, protocol, 0) \
        + V4_PEER + to + options + payload


def ipv6(next_header, payload, source=V6_PEER, to=V6_HOST, hops=64):
    return struct.pack("!IHBB", 6 << 28, len(payload), next_header, hops) + source + to + payload


def udp(payload, port=7):
    return struct.pack("!HHHH", 4000, port, 8 + len(payload), 1) + payload


def icmp(kind, code, rest, payload=b""):
    return struct.pack("!BBHI", kind, code, 0, rest) + payload


def records(*frames, flags=1):
    return b"".join(struct.pack("!BH", flags, len(f)) + f for f in frames)


def seeds():
    quote4 = ipv4(17, udp(b"abcdefgh"))
    yield "arp", records(eth(0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + PEER + V4_PEER + bytes(6) + V4_HOST, ALL))
    yield "echo4", records(eth(0x0800, ipv4(1, icmp(8, 0, 0x10001, b"x" * 56))))
    yield "echo6", records(eth(0x86dd, ipv6(58, icmp(128, 0, 0x10001, b"x" * 56))))
    yield "udp4", records(eth(0x0800, ipv4(17, udp(b"hello"))), eth(0x0800, ipv4(17, udp(b"closed", 9))))
    yield "udp6", records(eth(0x86dd, ipv6(17, udp(b"hello"))), eth(0x86dd, ipv6(17, udp(b"closed", 9))))
    yield "fragments4", records(eth(0x0800, ipv4(17, udp(b"a" * 24)[:16], 0x2000)), eth(0x0800, ipv4(17, b"b" * 16, 2)))
    yield "fragments6", records(
        eth(0x86dd, ipv6(44, struct.pack("!BBHI", 17, 0, 1, 5) + udp(b"a" * 24)[:16])),
        eth(0x86dd, ipv6(44, struct.pack("!BBHI", 17, 0, 16, 5) + b"b" * 16)))
    yield "fragment-timeout", records(eth(0x0800, ipv4(17, udp(b"a" * 24)[:16], 0x2000)), flags=5)
    yield "options4", records(eth(0x0800, ipv4(1, icmp(8, 0, 1), options=bytes([7, 7, 4, 0, 0, 0, 0, 0]))),
                              eth(0x0800, ipv4(1, icmp(8, 0, 1), options=bytes([131, 7, 4, 1, 2, 3, 4, 0]))))
    yield "extensions6", records(eth(0x86dd, ipv6(0, bytes([60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0x80, 4, 1, 2, 3, 4]) + icmp(128, 0, 1))),
                                 eth(0x86dd, ipv6(43, bytes([17, 0, 0, 1, 0, 0, 0, 0]) + udp(b"x"))))
    yield "unreachable4", records(eth(0x0800, ipv4(1, icmp(3, 3, 0, quote4))), eth(0x0800, ipv4(1, icmp(3, 4, 1400, quote4))))
    yield "too-big6", records(eth(0x86dd, ipv6(58, icmp(2, 0, 1400, ipv6(17, udp(b"x"), V6_HOST, V6_PEER)))))
    yield "solicitation", records(eth(0x86dd, ipv6(58, icmp(135, 0, 0, V6_HOST + b"\x01\x01" + PEER), hops=255)))
    yield "advertisement", records(eth(0x86dd, ipv6(58, icmp(136, 0, 0x60000000, V6_PEER + b"\x02\x01" + PEER), hops=255)))
    yield "mld-query", records(eth(0x86dd, ipv6(0, bytes([58, 0, 5, 2, 0, 0, 1, 0]) + icmp(130, 0, 0x3e80000, bytes(20)),
                                                LINK_LOCAL, b"\xff\x02" + bytes(13) + b"\x01", 1), b"\x33\x33\0\0\0\x01"), flags=3)
    yield "igmp-query", records(eth(0x0800, ipv4(2, struct.pack("!BBHI", 0x11, 10, 0xeef5, 0), to=bytes([224, 0, 0, 1]), ttl=1),
                                    b"\x01\0\x5e\0\0\x01"), flags=3)
    yield "snap", records(HOST + PEER + struct.pack("!H", 36) + b"\xaa\xaa\x03\0\0\0\x08\0" + ipv4(1, icmp(8, 0, 1)))
    yield "vlan", records(eth(0x8100, struct.pack("!HH", 5, 0x0800) + ipv4(1, icmp(8, 0, 1))))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
