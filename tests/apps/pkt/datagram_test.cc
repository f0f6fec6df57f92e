// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/datagram.h"

#include <gtest/gtest.h>

#include <vector>

#include "apps/pkt/match.h"

namespace tapwire::pkt {
namespace {

using Bytes = std::vector<uint8_t>;

const Ends kV4{{Ipv4Address(10, 0, 0, 1), 1000, 0}, {Ipv4Address(10, 0, 0, 2), 2000, 0}};

Ends V6() {
  return {{*Ipv6Address::Parse("2001:db8::1"), 1000, 0},
          {*Ipv6Address::Parse("2001:db8::2"), 7, 0}};
}

// Checked by hand: RFC 791 and RFC 9293 §3.1 field by field.
TEST(DatagramTest, SynBytes) {
  PacketSpec packet;
  packet.ip.ttl = 64;
  packet.body = TcpSpec{.flags = 0x02, .seq = 0x01020304, .window = uint16_t{0x1000}};
  const Bytes bytes = BuildDatagram(kV4, packet, 0);
  const Bytes expected = {0x45, 0x00, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06,
                          0x26, 0xce, 10,   0,    0,    1,    10,   0,    0,    2,
                          0x03, 0xe8, 0x07, 0xd0, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00,
                          0x00, 0x00, 0x50, 0x02, 0x10, 0x00, 0x7c, 0x22, 0x00, 0x00};
  EXPECT_EQ(bytes, expected);
}

// Layouts that Linux uses, as they lie in the header.
TEST(DatagramTest, OptionBytes) {
  const std::vector<OptionSpec> options = {
      {.kind = OptionKind::kMss, .value = 1460},
      {.kind = OptionKind::kSackPermitted},
      {.kind = OptionKind::kTimestamps, .value = 0x01020304, .echo = 0x05060708},
      {.kind = OptionKind::kNop},
      {.kind = OptionKind::kWindowScale, .value = 8}};
  const Bytes expected = {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 8};
  EXPECT_EQ(BuildOptionBytes(options), expected);
  const auto parsed = ParseOptionBytes(expected);
  ASSERT_EQ(parsed.size(), options.size());
  EXPECT_EQ(parsed[2].echo, 0x05060708u);
  EXPECT_EQ(parsed[4].kind, OptionKind::kWindowScale);
}

TEST(DatagramTest, SackBytes) {
  const std::vector<OptionSpec> options = {{.kind = OptionKind::kNop},
                                           {.kind = OptionKind::kNop},
                                           {.kind = OptionKind::kSack, .sacks = {{1, 2}}}};
  EXPECT_EQ(BuildOptionBytes(options), (Bytes{1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2}));
}

TEST(DatagramTest, BrokenOptionsEndTheList) {
  for (const Bytes& bytes :
       {Bytes{2}, Bytes{2, 0}, Bytes{2, 1}, Bytes{2, 5, 1, 1}, Bytes{8, 200}}) {
    const auto options = ParseOptionBytes(bytes);
    ASSERT_EQ(options.size(), 1u);
    EXPECT_EQ(options[0].kind, OptionKind::kOther);
  }
}

TEST(DatagramTest, WhatIsBuiltIsParsedBothFamilies) {
  for (const Ends& ends : {kV4, V6()}) {
    PacketSpec packet;
    packet.ip.ecn = EcnSpec::kEct0;
    packet.body = TcpSpec{.flags = 0x18, .seq = 7, .length = 100, .ack = 9u, .window = uint16_t{3}};
    const auto parsed = ParseDatagram(BuildDatagram(ends, packet, 50));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->damage, "");
    EXPECT_EQ(parsed->ends.source, ends.source);
    EXPECT_EQ(parsed->packet.ip.ecn, EcnSpec::kEct0);
    EXPECT_EQ(parsed->payload.size(), 100u);
    EXPECT_EQ(parsed->payload[1], PeerByte(51));
    EXPECT_EQ(Mismatch(packet, parsed->packet, ends.source.address.family()), "");
    packet.body = UdpSpec{5};
    const auto udp = ParseDatagram(BuildDatagram(ends, packet, 0));
    ASSERT_TRUE(udp);
    EXPECT_EQ(udp->damage, "");
    EXPECT_EQ(std::get<UdpSpec>(udp->packet.body).length, 5u);
  }
}

TEST(DatagramTest, DamageIsFound) {
  PacketSpec packet;
  packet.body = TcpSpec{.flags = 0x10, .length = 3, .ack = 1u};
  const Bytes sound = BuildDatagram(kV4, packet, 0);
  for (size_t i = 1; i < sound.size(); ++i) {
    Bytes broken = sound;
    broken[i] ^= 0x10;
    const auto parsed = ParseDatagram(broken);
    // A changed protocol number makes it none of ours.
    if (i != 9) {
      EXPECT_TRUE(!parsed || !parsed->damage.empty()) << i;
    }
  }
  for (size_t length = 0; length < sound.size(); ++length) {
    const auto parsed = ParseDatagram(std::span(sound).first(length));
    EXPECT_TRUE(!parsed || !parsed->damage.empty()) << length;
  }
}

// RFC 792: type, code, unused, next-hop MTU (RFC 1191 §4), IP header and eight bytes at least.
TEST(DatagramTest, FragmentationNeededQuotesThePacket) {
  IcmpSpec icmp{.type = "unreachable", .code = "frag_needed", .mtu = 1300u};
  icmp.quote = QuoteSpec{.udp = false, .seq = 0x11223344, .length = 1460};
  const auto bytes = BuildIcmp(kV4, {}, icmp);
  ASSERT_TRUE(bytes);
  const Bytes& b = *bytes;
  EXPECT_EQ(b[9], 1);   // ICMP
  EXPECT_EQ(b[15], 2);  // from the destination of the packet
  EXPECT_EQ(b[20], 3);
  EXPECT_EQ(b[21], 4);
  EXPECT_EQ(b[26] << 8 | b[27], 1300);
  EXPECT_EQ(b[28], 0x45);
  EXPECT_EQ(b[30] << 8 | b[31], 1500);  // total length of what was quoted
  EXPECT_EQ(b[28 + 15], 1);             // its source
  EXPECT_EQ((Bytes(b.begin() + 52, b.begin() + 56)), (Bytes{0x11, 0x22, 0x33, 0x44}));
}

// RFC 4443 §3.2.
TEST(DatagramTest, PacketTooBig) {
  IcmpSpec icmp{.type = "unreachable", .code = "frag_needed", .mtu = 1300u};
  icmp.quote = QuoteSpec{.udp = true, .length = 2000};
  const auto bytes = BuildIcmp(V6(), {}, icmp);
  ASSERT_TRUE(bytes);
  EXPECT_EQ((*bytes)[40], 2);
  EXPECT_EQ((*bytes)[41], 0);
  EXPECT_EQ((*bytes)[46] << 8 | (*bytes)[47], 1300);
  IcmpSpec none{.type = "source_quench"};
  EXPECT_FALSE(BuildIcmp(V6(), {}, none));
}

}  // namespace
}  // namespace tapwire::pkt
