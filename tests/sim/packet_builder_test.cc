// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/packet_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr MacAddress kMacA(2, 0, 0, 0, 0, 0xaa);
constexpr MacAddress kMacB(2, 0, 0, 0, 0, 0xbb);
constexpr Ipv6Address kA6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 1});
constexpr Ipv6Address kB6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 2});

// A header whose checksum has been worked out in many a textbook.
TEST(PacketBuilderTest, Ipv4HeaderIsByteForByteTheTextbookExample) {
  const ByteVector packet = Frame()
                                .Ipv4({.source = {192, 168, 0, 1},
                                       .destination = {192, 168, 0, 199},
                                       .ttl = 64,
                                       .protocol = 17,
                                       .total_length = 0x73})
                                .Build();
  EXPECT_EQ(packet, Hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7"));
}

// RFC 1071 §3: the words 0001 f203 f4f5 f6f7 sum to ddf2 (with the carries added).
TEST(PacketBuilderTest, SimpleChecksumIsThatOfTheRfcExample) {
  EXPECT_EQ(SimpleChecksum(Hex("0001 f203 f4f5 f6f7")), 0xffff - 0xddf2);
}

// By hand: pseudo-header 0a00 0001 0a00 0002 0011 000b, datagram 03e8 0007 000b 0000 6162 6300
// sum to 0xdc7b; the complement is 0x2384.
TEST(PacketBuilderTest, UdpChecksumOfAnOddPayloadIsRight) {
  const ByteVector frame = Frame()
                               .Eth(kMacA, kMacB)
                               .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
                               .Udp({.source_port = 1000, .destination_port = 7})
                               .Payload("abc")
                               .Build();
  ASSERT_THAT(frame, SizeIs(14 + 20 + 8 + 3));
  EXPECT_EQ(ByteVector(frame.begin(), frame.begin() + 14), Hex("0200000000bb 0200000000aa 0800"));
  EXPECT_EQ(ByteVector(frame.begin() + 34, frame.end()), Hex("03e8 0007 000b 2384 616263"));
}

TEST(PacketBuilderTest, UdpChecksumZeroIsSentAsAllOnes) {
  // The payload is chosen so that the sum is 0xffff: RFC 768.
  Frame probe;
  probe.Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
      .Udp({.source_port = 1, .destination_port = 2});
  const ByteVector empty = Frame(probe).Payload(Hex("0000")).Build();
  const ByteVector field(empty.begin() + 26, empty.begin() + 28);
  const ByteVector packet = Frame(probe).Payload(field).Build();
  EXPECT_THAT(ByteVector(packet.begin() + 26, packet.begin() + 28), ElementsAre(0xff, 0xff));
}

TEST(PacketBuilderTest, Ipv6ChainNamesEachHeader) {
  const ByteVector packet = Frame()
                                .Ipv6({.source = kA6, .destination = kB6, .hop_limit = 1})
                                .RouterAlert6()
                                .Fragment6({.offset = 8, .more = true, .id = 0x01020304})
                                .Payload(Hex("0102030405060708"))
                                .Build();
  EXPECT_EQ(ByteVector(packet.begin(), packet.begin() + 8), Hex("60000000 0018 00 01"));
  EXPECT_EQ(ByteVector(packet.begin() + 40, packet.begin() + 56),
            Hex("2c00 05020000 0100  3b00 0009 01020304"));
}

TEST(PacketBuilderTest, FragmentsCoverTheWholeDatagram) {
  Frame whole;
  whole.Eth(kMacA, kMacB)
      .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}, .dont_fragment = false})
      .Udp({.source_port = 1, .destination_port = 2})
      .Payload(Pattern(40));
  const std::vector<ByteVector> fragments = whole.BuildFragments(16, 0x1234);
  ASSERT_THAT(fragments, SizeIs(3));
  const ByteVector datagram = whole.Build();
  ByteVector joined;
  for (const ByteVector& fragment : fragments) {
    joined.insert(joined.end(), fragment.begin() + 34, fragment.end());
  }
  EXPECT_EQ(joined, ByteVector(datagram.begin() + 34, datagram.end()));
  EXPECT_EQ(ByteVector(fragments[1].begin() + 18, fragments[1].begin() + 22), Hex("1234 2002"));
  EXPECT_EQ(ByteVector(fragments[2].begin() + 20, fragments[2].begin() + 22), Hex("0004"));
}

TEST(PacketBuilderTest, KnobsOverrideWhatWouldBeComputed) {
  const ByteVector packet = Frame()
                                .Ipv4({.ihl = 15, .total_length = 1, .checksum = 0xbeef})
                                .Tcp({.flags = "SF", .data_offset = 2, .checksum = 0xdead})
                                .Build();
  EXPECT_EQ(packet[0], 0x4f);
  EXPECT_EQ(ByteVector(packet.begin() + 2, packet.begin() + 4), Hex("0001"));
  EXPECT_EQ(ByteVector(packet.begin() + 10, packet.begin() + 12), Hex("beef"));
  EXPECT_EQ(ByteVector(packet.begin() + 32, packet.begin() + 34), Hex("2003"));
  EXPECT_EQ(ByteVector(packet.begin() + 36, packet.begin() + 38), Hex("dead"));
}

TEST(PacketBuilderTest, PaddingAndTrailerAreOutsideAllLengths) {
  const ByteVector frame = Frame()
                               .Eth(kMacA, kMacB)
                               .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
                               .Udp({.source_port = 1, .destination_port = 2})
                               .Pad()
                               .Build();
  EXPECT_THAT(frame, SizeIs(60));
  EXPECT_EQ(ByteVector(frame.begin() + 16, frame.begin() + 18), Hex("001c"));
}

}  // namespace
}  // namespace tapwire::testutil
