#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of tcp_fuzz into corpus/tcp: a few short courses of a connection each."""

import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "tcp"
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
READS, WRITES, SHUTS_DOWN, CLOSES, SECOND, MINUTE, NEW = 1, 2, 4, 8, 16, 32, 64


def record(flags, user=0, seq=0, ack=0, window=1000, options=b"", payload=0, urgent=0):
    return bytes([flags, user]) + struct.pack(">hhHBHB", seq, ack, window, len(options), payload, urgent) + options


SEEDS = {
    "data": [record(ACK | PSH, READS, payload=100), record(ACK | PSH, READS, payload=1400), record(ACK, READS | WRITES)],
    "out_of_order": [record(ACK | PSH, seq=500, payload=100), record(ACK | PSH, seq=1000, payload=100),
                     record(ACK | PSH, READS, payload=500), record(ACK | PSH, READS, payload=500)],
    "close": [record(ACK | PSH, READS | WRITES, payload=10), record(ACK | FIN, SHUTS_DOWN), record(ACK, SECOND | MINUTE)],
    "active_close": [record(ACK, SHUTS_DOWN), record(ACK), record(ACK | FIN), record(ACK, SECOND | MINUTE)],
    "reset": [record(ACK, WRITES), record(RST, seq=1), record(RST)],
    "sack": [record(ACK, WRITES), record(ACK, WRITES, ack=-5000, options=bytes([1, 1, 5, 10]) + bytes(8)),
             record(ACK, SECOND, ack=-4000)],
    "zero_window": [record(ACK, WRITES, window=0), record(ACK, SECOND | MINUTE, window=0), record(ACK, WRITES, window=500)],
    "syn_again": [record(SYN), record(SYN | ACK), record(SYN, NEW), record(ACK)],
    "urgent": [record(ACK | PSH | URG, READS, payload=20, urgent=1), record(ACK | URG, READS, urgent=200)],
    "timeouts": [record(ACK, WRITES), record(ACK, MINUTE, ack=-5000), record(ACK, MINUTE, ack=-3000), record(ACK, CLOSES)],
}

OUT.mkdir(parents=True, exist_ok=True)
for name, records in SEEDS.items():
    (OUT / name).write_bytes(b"".join(records))
