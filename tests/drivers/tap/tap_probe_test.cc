// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/tap_probe.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tapwire::drivers {
namespace {

constexpr MacAddress kMac(0x02, 0x11, 0x22, 0x33, 0x44, 0x55);

uint16_t Be16(const std::vector<uint8_t>& bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

// RFC 1071 in its simplest form, over big-endian words.
uint16_t SimpleSum(std::span<const uint8_t> bytes, uint32_t sum = 0) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(sum);
}

struct Expected {
  ProbeKind kind;
  uint8_t gso_type;
  uint16_t ether_type;
  size_t l4;
  size_t headers;
  uint16_t csum_offset;
  uint8_t protocol;
};

class TapProbeTest : public ::testing::TestWithParam<Expected> {};

// The frame goes to nobody: source and destination are our own address.
TEST_P(TapProbeTest, IsAddressedToOurselves) {
  const ProbeFrame frame = MakeProbeFrame(GetParam().kind, kMac);
  EXPECT_EQ(MacAddress::FromBytes(std::span(frame.bytes).first(6)), kMac);
  EXPECT_EQ(MacAddress::FromBytes(std::span(frame.bytes).subspan(6, 6)), kMac);
  EXPECT_EQ(Be16(frame.bytes, 12), GetParam().ether_type);
}

TEST_P(TapProbeTest, IsOneAndAHalfSegments) {
  const Expected& e = GetParam();
  const ProbeFrame frame = MakeProbeFrame(e.kind, kMac);
  EXPECT_EQ(frame.hdr, (VnetHdr{.flags = 1,
                                .gso_type = e.gso_type,
                                .hdr_len = static_cast<uint16_t>(e.headers),
                                .gso_size = 1000,
                                .csum_start = static_cast<uint16_t>(e.l4),
                                .csum_offset = e.csum_offset}));
  EXPECT_EQ(frame.bytes.size(), e.headers + 1500);
}

// Covers: bug:B87 — the IPv4 header checksum is filled in, whatever is offloaded, and the transport
// field holds the pseudo-header's sum.
TEST_P(TapProbeTest, HeadersAreComplete) {
  const Expected& e = GetParam();
  const ProbeFrame frame = MakeProbeFrame(e.kind, kMac);
  const std::span<const uint8_t> bytes(frame.bytes);
  std::span<const uint8_t> addresses;
  if (e.ether_type == 0x0800) {
    EXPECT_EQ(SimpleSum(bytes.subspan(14, 20)), 0xffff);
    EXPECT_EQ(Be16(frame.bytes, 16), frame.bytes.size() - 14);
    EXPECT_EQ(frame.bytes[23], e.protocol);
    EXPECT_EQ(frame.bytes[22], 1);  // TTL
    addresses = bytes.subspan(26, 8);
  } else {
    EXPECT_EQ(Be16(frame.bytes, 18), frame.bytes.size() - 54);
    EXPECT_EQ(frame.bytes[20], e.protocol);
    EXPECT_EQ(frame.bytes[21], 1);  // hop limit
    addresses = bytes.subspan(22, 32);
  }
  const auto length = static_cast<uint32_t>(frame.bytes.size() - e.l4);
  EXPECT_EQ(Be16(frame.bytes, e.l4 + e.csum_offset), SimpleSum(addresses, length + e.protocol));
}

INSTANTIATE_TEST_SUITE_P(AllKinds, TapProbeTest,
                         ::testing::Values(Expected{ProbeKind::kTcpv4, 1, 0x0800, 34, 54, 16, 6},
                                           Expected{ProbeKind::kTcpv6, 4, 0x86dd, 54, 74, 16, 6},
                                           Expected{ProbeKind::kUdpL4, 5, 0x0800, 34, 42, 6, 17}));

}  // namespace
}  // namespace tapwire::drivers
