#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of iperf3_fuzz into corpus/iperf3: which end and how far, the size of the pieces,
and what the peer says from there on."""

import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "iperf3"
PARAMS = (b'{"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"parallel":1,"len":4096,"bandwidth":800000,'
          b'"pacing_timer":1000,"client_version":"3.12"}')


def stream(number, retransmits=b"0"):
    return (b'{"id":%d,"bytes":303104,"retransmits":%s,"jitter":0,"errors":0,"packets":0,"start_time":0,'
            b'"end_time":3.000081}' % (number, retransmits))


def results(*streams, sender=b"1"):
    return (b'{"cpu_util_total":3.3,"cpu_util_user":1.5,"cpu_util_system":1.7,"sender_has_retransmits":' + sender
            + b',"congestion_used":"cubic","streams":[' + b",".join(streams) + b"]}")


def framed(text):
    return struct.pack("!I", len(text)) + text


def server(progress, data, piece=255):
    return bytes([progress << 1, piece]) + data


def client(progress, data, piece=255):
    return bytes([progress << 1 | 1, piece]) + data


def seeds():
    cookie = b"p3ni3x5ipiwvvuayyy2am7ifhpdww55lukwn\0"
    minus_one = b"18446744073709551615"
    yield "server_set_up", server(0, cookie + framed(PARAMS) + b"\x04")
    yield "server_params", server(1, framed(PARAMS.replace(b'"time"', b'"reverse":true,"time"')), 3)
    yield "server_udp", server(1, framed(b'{"udp":true,"time":1}'))
    yield "server_length", server(1, b"\0\0\x20\x01")
    yield "server_running", server(2, b"\x04" + framed(results(stream(1))) + b"\x10")
    yield "server_terminate", server(2, b"\x0c")
    yield "server_results", server(3, framed(results(stream(1, minus_one), sender=minus_one)) + b"\x10", 1)
    yield "client_set_up", client(0, b"\x09\x0a\x01\x02\x0d" + framed(results(stream(1), stream(3))) + b"\x0e")
    yield "client_busy", client(0, b"\xff")
    yield "client_error", client(0, b"\x09\xfe" + struct.pack("!iI", 27, 0))
    yield "client_terminate", client(1, b"\x0b")
    yield "client_results", client(3, framed(results(stream(3, minus_one), stream(1))) + b"\x0e", 2)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
