// SPDX-License-Identifier: Apache-2.0
// Frames for the tests of the device layer, written byte by byte, and a checker for
// frames that shares no code with the library: one slow loop for the sum (RFC 1071 §1),
// fixed offsets for the fields.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "netdev/packet/packet.h"
#include "netdev/packet/slab_pool.h"

namespace tapwire::netdev::testing {

struct FrameSpec {
  bool ipv6 = false;
  bool udp = false;
  size_t payload = 100;
  uint8_t tcp_flags = 0x10;  // ACK
  uint32_t seq = 1000;
  uint16_t ip_id = 7;
  bool df = true;
  size_t ip_options = 0;      // bytes, a multiple of 4; IPv4 only
  size_t tcp_options = 0;     // bytes, a multiple of 4
  bool dest_options = false;  // an IPv6 destination options header
  int tags = 0;
  uint8_t payload_seed = 1;
};

struct FrameLayout {
  size_t l3 = 0, l4 = 0, payload = 0;
  size_t checksum = 0;  // of the transport field, from the start
};

inline FrameLayout LayoutOf(const FrameSpec& spec) {
  FrameLayout at;
  at.l3 = 14 + 4 * static_cast<size_t>(spec.tags);
  at.l4 = at.l3 + (spec.ipv6 ? 40 + (spec.dest_options ? 8u : 0u) : 20 + spec.ip_options);
  at.payload = at.l4 + (spec.udp ? 8 : 20 + spec.tcp_options);
  at.checksum = at.l4 + (spec.udp ? 6 : 16);
  return at;
}

inline void Put16(std::vector<uint8_t>& bytes, size_t at, size_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}
inline uint32_t Get16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at] << 8 | bytes[at + 1]);
}
inline uint32_t Get32(std::span<const uint8_t> bytes, size_t at) {
  return Get16(bytes, at) << 16 | Get16(bytes, at + 2);
}

// The sum over `bytes`, folded, not complemented; an odd last byte is padded.
inline uint32_t NaiveSum(std::span<const uint8_t> bytes, uint32_t sum = 0) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<uint32_t>(bytes[i]) << 8 : bytes[i];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// Sum of the pseudo-header of the frame's transport message.
inline uint32_t NaivePseudoSum(std::span<const uint8_t> frame, size_t l3, uint8_t protocol,
                               size_t length) {
  const bool ipv6 = frame[l3] >> 4 == 6;
  uint32_t sum = NaiveSum(ipv6 ? frame.subspan(l3 + 8, 32) : frame.subspan(l3 + 12, 8));
  sum += protocol + static_cast<uint32_t>(length & 0xffff) + static_cast<uint32_t>(length >> 16);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

inline uint8_t PayloadByte(uint8_t seed, size_t i) {
  return static_cast<uint8_t>(seed * 31 + i * 7 + i / 251);
}

// A whole frame with right lengths and checksums.
inline std::vector<uint8_t> BuildFrame(const FrameSpec& spec) {
  const FrameLayout at = LayoutOf(spec);
  std::vector<uint8_t> f(at.payload + spec.payload);
  const uint8_t macs[] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
  std::copy(std::begin(macs), std::end(macs), f.begin());
  for (int i = 0; i < spec.tags; ++i) {
    Put16(f, 12 + 4 * static_cast<size_t>(i), 0x8100);
    Put16(f, 14 + 4 * static_cast<size_t>(i), 100 + static_cast<size_t>(i));
  }
  Put16(f, at.l3 - 2, spec.ipv6 ? 0x86dd : 0x0800);
  const uint8_t protocol = spec.udp ? 17 : 6;
  if (spec.ipv6) {
    f[at.l3] = 0x60;
    Put16(f, at.l3 + 4, f.size() - at.l3 - 40);
    f[at.l3 + 6] = spec.dest_options ? 60 : protocol;
    f[at.l3 + 7] = 64;
    f[at.l3 + 8] = f[at.l3 + 24] = 0xfd;
    f[at.l3 + 23] = 1;
    f[at.l3 + 39] = 2;
    if (spec.dest_options) {
      f[at.l3 + 40] = protocol;
      f[at.l3 + 42] = 1;  // PadN
      f[at.l3 + 43] = 4;
    }
  } else {
    f[at.l3] = static_cast<uint8_t>(0x45 + spec.ip_options / 4);
    Put16(f, at.l3 + 2, f.size() - at.l3);
    Put16(f, at.l3 + 4, spec.ip_id);
    f[at.l3 + 6] = spec.df ? 0x40 : 0;
    f[at.l3 + 8] = 64;
    f[at.l3 + 9] = protocol;
    const uint8_t addresses[] = {10, 0, 0, 1, 10, 0, 0, 2};
    std::copy(std::begin(addresses), std::end(addresses),
              f.begin() + static_cast<long>(at.l3) + 12);
    for (size_t i = 0; i < spec.ip_options; ++i) f[at.l3 + 20 + i] = 1;
    const std::span<const uint8_t> header(f.data() + at.l3, 20 + spec.ip_options);
    Put16(f, at.l3 + 10, ~NaiveSum(header) & 0xffff);
  }
  Put16(f, at.l4, 5001);
  Put16(f, at.l4 + 2, 80);
  if (spec.udp) {
    Put16(f, at.l4 + 4, f.size() - at.l4);
  } else {
    Put16(f, at.l4 + 4, spec.seq >> 16);
    Put16(f, at.l4 + 6, spec.seq & 0xffff);
    f[at.l4 + 12] = static_cast<uint8_t>((20 + spec.tcp_options) / 4 << 4);
    f[at.l4 + 13] = spec.tcp_flags;
    Put16(f, at.l4 + 14, 8192);
    for (size_t i = 0; i < spec.tcp_options; ++i) f[at.l4 + 20 + i] = 1;
  }
  for (size_t i = 0; i < spec.payload; ++i) {
    f[at.payload + i] = PayloadByte(spec.payload_seed, i);
  }
  const std::span<const uint8_t> frame(f);
  const uint32_t pseudo = NaivePseudoSum(frame, at.l3, protocol, f.size() - at.l4);
  const uint32_t sum = ~NaiveSum(frame.subspan(at.l4), pseudo) & 0xffff;
  Put16(f, at.checksum, sum == 0 && spec.udp ? 0xffff : sum);
  return f;
}

// What is wrong with an untagged frame that BuildFrame could have made (lengths, IPv4
// header checksum, transport checksum); empty if nothing.
inline std::string FrameFault(std::span<const uint8_t> f) {
  if (f.size() < 14 + 20 + 8) return "too short";
  const bool ipv6 = Get16(f, 12) == 0x86dd;
  const size_t l3 = 14;
  size_t l4 = l3 + (ipv6 ? 40 : (f[l3] & 0xfu) * 4u);
  uint8_t protocol = f[l3 + (ipv6 ? 6 : 9)];
  if (ipv6) {
    if (Get16(f, l3 + 4) != f.size() - l3 - 40) return "IPv6 payload length";
    if (protocol == 60) {
      protocol = f[l4];
      l4 += 8;
    }
  } else {
    if (Get16(f, l3 + 2) != f.size() - l3) return "IPv4 total length";
    if (NaiveSum(f.subspan(l3, l4 - l3)) != 0xffff) return "IPv4 header checksum";
  }
  if (protocol == 17 && Get16(f, l4 + 4) != f.size() - l4) return "UDP length";
  if (protocol == 17 && Get16(f, l4 + 6) == 0) return "UDP checksum zero";
  const uint32_t pseudo = NaivePseudoSum(f, l3, protocol, f.size() - l4);
  if (NaiveSum(f.subspan(l4), pseudo) != 0xffff) return "transport checksum";
  return "";
}

// How a packet is laid out: the first `head` bytes linear, the rest in fragments of at
// most `piece` bytes. 0 stands for "all".
struct Cut {
  size_t head = 0;
  size_t piece = 0;
};

inline PacketPtr MakePacket(SlabPool& pool, std::span<const uint8_t> bytes, Cut cut = {}) {
  const size_t head = cut.head == 0 ? bytes.size() : std::min(cut.head, bytes.size());
  PacketPtr packet = pool.AllocatePacket(head);
  std::copy_n(bytes.begin(), head, packet->Put(head).begin());
  for (size_t at = head; at < bytes.size();) {
    const size_t left = bytes.size() - at;
    const size_t n = std::min<size_t>({left, cut.piece == 0 ? left : cut.piece, 16384 - 3});
    SlabRef slab = pool.AllocateSlab(SlabClass::kLarge);
    // Odd places too.
    std::copy_n(bytes.begin() + static_cast<long>(at), n, slab.data() + 3);
    if (!packet->AddFrag(std::move(slab), 3, n)) return nullptr;
    at += n;
  }
  return packet;
}

// Replaces the transport checksum by the pseudo-header sum, as a sender that leaves the
// rest to the device.
inline void MakePartial(Packet& packet, const FrameSpec& spec) {
  const FrameLayout at = LayoutOf(spec);
  const uint32_t sum =
      NaivePseudoSum(packet.head_bytes(), at.l3, spec.udp ? 17 : 6, packet.length() - at.l4);
  packet.data()[at.checksum] = static_cast<uint8_t>(sum >> 8);
  packet.data()[at.checksum + 1] = static_cast<uint8_t>(sum);
  packet.meta.csum_state = CsumState::kPartial;
  packet.set_csum_start_in_data(static_cast<int32_t>(at.l4));
  packet.meta.csum_offset = static_cast<uint16_t>(at.checksum - at.l4);
}

inline GsoType KindOf(const FrameSpec& spec) {
  if (spec.udp) return GsoType::kUdpL4;
  return spec.ipv6 ? GsoType::kTcpv6 : GsoType::kTcpv4;
}

// A super-packet, kPartial.
inline PacketPtr MakeGsoPacket(SlabPool& pool, const FrameSpec& spec, uint16_t gso_size,
                               Cut cut = {}) {
  PacketPtr packet = MakePacket(pool, BuildFrame(spec), cut);
  MakePartial(*packet, spec);
  packet->meta.gso = {.type = KindOf(spec), .size = gso_size, .segs = 0};
  return packet;
}

inline std::vector<uint8_t> BytesOf(const Packet& packet) {
  std::vector<uint8_t> bytes;
  packet.ForEachSpan(
      [&](std::span<const uint8_t> span) { bytes.insert(bytes.end(), span.begin(), span.end()); });
  return bytes;
}

// The bytes as they would be on the wire, with a partial checksum summed by the slow
// loop.
inline std::vector<uint8_t> WireBytesOf(const Packet& packet) {
  std::vector<uint8_t> bytes = BytesOf(packet);
  if (packet.meta.csum_state != CsumState::kPartial) return bytes;
  const auto start = static_cast<size_t>(packet.csum_start_in_data());
  const uint32_t sum = ~NaiveSum(std::span(bytes).subspan(start)) & 0xffff;
  Put16(bytes, start + packet.meta.csum_offset, sum == 0 ? 0xffff : sum);
  return bytes;
}

}  // namespace tapwire::netdev::testing
