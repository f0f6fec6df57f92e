#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed inputs of wire_fuzz into corpus/wire beside this file.

Every input is one byte that names the codec (CodecId in tests/netdev/wire/codec_law.h, in the same
order as CODECS below) and a message for it. The checksums are computed here, not by the library.
"""
import ipaddress
import pathlib
import struct

CODECS = """ethernet vlan arp ipv4 ipv6 ipv6_options ipv6_routing ipv6_fragment ipv6_chain icmpv4
icmpv6 rs ra ns na redirect mld mldv2_query mldv2_report igmp igmpv3_query igmpv3_report udp tcp
tcp_options ndp_options print print_ip text""".split()

MAC1 = bytes.fromhex("020000000001")
MAC2 = bytes.fromhex("020000000002")


def address(text):
    return ipaddress.ip_address(text).packed


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def with_checksum(message, at, pseudo=b""):
    value = checksum(pseudo + message)
    return message[:at] + struct.pack(">H", value) + message[at + 2:]


def ipv4(protocol, payload, options=b"", fragment=0):
    length = 20 + len(options)
    header = struct.pack(">BBHHHBBH", 0x40 | length // 4, 0, length + len(payload), 7, fragment, 64,
                         protocol, 0) + address("10.0.0.1") + address("10.0.0.2") + options
    return with_checksum(header, 10) + payload


def pseudo4(protocol, length):
    return address("10.0.0.1") + address("10.0.0.2") + struct.pack(">BBH", 0, protocol, length)


def ipv6(next_header, payload, hop_limit=64):
    return struct.pack(">IHBB", 6 << 28, len(payload), next_header, hop_limit) + address(
        "fe80::1") + address("fe80::2") + payload


def pseudo6(protocol, length):
    return address("fe80::1") + address("fe80::2") + struct.pack(">II", length, protocol)


def icmpv6(kind, rest, body=b""):
    message = struct.pack(">BBHI", kind, 0, 0, rest) + body
    return with_checksum(message, 2, pseudo6(58, len(message)))


def tcp(options, data=b""):
    header = struct.pack(">HHIIBBHHH", 46580, 81, 1, 2, (20 + len(options)) // 4 << 4, 0x18, 502, 0,
                         0) + options + data
    return with_checksum(header, 16, pseudo4(6, len(header)))


def seeds():
    syn_options = bytes.fromhex("020405b40402080a00000001000000000103030a")
    sack_options = bytes.fromhex("0101080a00000001000000020101051200000bb800000fa00000138800001770")
    udp = with_checksum(struct.pack(">HHHH", 4000, 7, 11, 0) + b"abc", 6, pseudo4(17, 11))
    echo = with_checksum(struct.pack(">BBHHH", 8, 0, 0, 5, 6) + bytes(range(16)), 2)
    sllao = b"\x01\x01" + MAC1
    tllao = b"\x02\x01" + MAC2
    prefix = bytes.fromhex("030440c00001518000003840") + bytes(4) + address("2001:db8::")
    dns = bytes.fromhex("1903000000000708") + address("2001:db8::53")
    route = bytes.fromhex("1802400800000384") + address("2001:db8:1::")[:8]
    nonce = bytes.fromhex("0e01010203040506")
    mtu = bytes.fromhex("05010000000005dc")
    hop_by_hop = lambda next_header: bytes([next_header, 0]) + bytes.fromhex("050200000100")
    routing = bytes([17, 2, 0, 1]) + bytes(4) + address("2001:db8::3")
    fragment = bytes.fromhex("1100 05a9 12345678")
    arp = bytes.fromhex("0001080006040001") + MAC1 + address("10.0.0.1") + bytes(6) + address(
        "10.0.0.2")
    record6 = bytes.fromhex("04000001") + address("ff02::fb") + address("2001:db8::1")
    record4 = bytes.fromhex("04000001") + address("239.1.1.1") + address("10.0.0.9")
    mld_report = icmpv6(143, 1, record6)
    igmp_report = with_checksum(bytes.fromhex("2200000000000001") + record4, 2)
    ethernet = MAC2 + MAC1
    snap = bytes.fromhex("aaaa030000000800") + ipv4(17, udp)
    unreachable = with_checksum(struct.pack(">BBHI", 3, 4, 0, 1400) + ipv4(17, udp)[:28], 2)

    yield "ethernet", "ethernet", ethernet + b"\x08\x00" + ipv4(17, udp)
    yield "snap", "ethernet", ethernet + struct.pack(">H", len(snap)) + snap
    yield "vlan", "vlan", bytes.fromhex("60640800")
    yield "arp", "arp", arp
    yield "arp_short", "arp", arp[:10]
    yield "ipv4_options", "ipv4", ipv4(17, udp, bytes.fromhex("0783040a00000194040000 01"))
    yield "ipv4_bad_option", "ipv4", ipv4(17, udp, bytes.fromhex("44000000"))
    yield "ipv6", "ipv6", ipv6(17, udp)
    yield "hop_by_hop", "ipv6_options", hop_by_hop(58)
    yield "routing", "ipv6_routing", routing
    yield "fragment", "ipv6_fragment", fragment
    yield "chain", "ipv6_chain", ipv6(0, hop_by_hop(43) + b"\x2c" + routing[1:] + fragment + udp)
    yield "chain_long", "ipv6_chain", ipv6(60, hop_by_hop(60) * 100)
    yield "icmpv4_echo", "icmpv4", echo
    yield "icmpv4_quote", "icmpv4", unreachable
    yield "icmpv6_echo", "icmpv6", icmpv6(128, 5 << 16 | 6, bytes(8))
    yield "rs", "rs", icmpv6(133, 0, sllao)
    yield "ra", "ra", icmpv6(134, 0x40480708, bytes(8) + sllao + mtu + prefix + dns + route)
    yield "ns", "ns", icmpv6(135, 0, address("fe80::2") + sllao + nonce)
    yield "na", "na", icmpv6(136, 0xE0000000, address("fe80::2") + tllao)
    yield "redirect", "redirect", icmpv6(
        137, 0, address("fe80::3") + address("2001:db8::9") + tllao + bytes.fromhex("0406") +
        bytes(6) + ipv6(59, b""))
    yield "mld", "mld", icmpv6(131, 0, address("ff02::fb"))
    yield "mldv2_query", "mldv2_query", icmpv6(
        130, 10000 << 16, bytes(16) + bytes.fromhex("027d0001") + address("2001:db8::1"))
    yield "mldv2_report", "mldv2_report", mld_report
    yield "igmp", "igmp", with_checksum(bytes.fromhex("16000000ef010101"), 2)
    yield "igmpv3_query", "igmpv3_query", with_checksum(
        bytes.fromhex("1164000000000000027d00010a000009"), 2)
    yield "igmpv3_report", "igmpv3_report", igmp_report
    yield "udp", "udp", udp
    yield "tcp_syn", "tcp", tcp(syn_options)
    yield "tcp_sack", "tcp", tcp(sack_options, b"hello")
    yield "tcp_options_bad", "tcp_options", bytes.fromhex("010502")
    yield "ndp_options", "ndp_options", sllao + tllao + mtu + prefix + dns + route + nonce
    yield "ndp_option_zero", "ndp_options", sllao + b"\x01\x00" + MAC1
    yield "print_tcp", "print", ethernet + b"\x08\x00" + ipv4(6, tcp(syn_options))
    yield "print_fragment", "print", ethernet + b"\x08\x00" + ipv4(17, udp, fragment=0x2001)
    yield "print_mld", "print", ethernet + b"\x86\xdd" + ipv6(0, hop_by_hop(58) + mld_report, 1)
    yield "print_igmp", "print_ip", ipv4(2, igmp_report, bytes.fromhex("94040000"))
    yield "print_quote", "print_ip", ipv4(1, unreachable)
    yield "text_endpoint", "text", b"[fe80::1%2]:80"
    yield "text_prefix", "text", b"10.0.0.0/24"
    yield "text_mapped", "text", b"::ffff:192.0.2.1"


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus" / "wire"
    folder.mkdir(parents=True, exist_ok=True)
    for name, codec, message in seeds():
        (folder / name).write_bytes(bytes([CODECS.index(codec)]) + message)


if __name__ == "__main__":
    main()
