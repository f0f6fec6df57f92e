// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ethernet.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/wire/vlan.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

constexpr MacAddress kOne(0x02, 0, 0, 0, 0, 1);
constexpr MacAddress kTwo(0x02, 0, 0, 0, 0, 2);

TEST(EthernetTest, FieldsStandWhereRfc894PutsThem) {
  const std::vector<uint8_t> frame = Hex("020000000002 020000000001 86dd 6001");
  const auto header = EthernetHeader::Parse(frame);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination(), kTwo);
  EXPECT_EQ(header->source(), kOne);
  EXPECT_EQ(header->ether_type(), EtherType::kIpv6);
  EXPECT_FALSE(header->IsLengthField());
  EXPECT_EQ(header->bytes().size(), 14u);
  EXPECT_EQ(header->payload().size(), 2u);
  EXPECT_EQ(header->payload()[0], 0x60);
}

TEST(EthernetTest, EmitWritesExactlyItsBytes) {
  ExactBuffer out(14);
  EthernetFields{.destination = kTwo, .source = kOne, .ether_type = EtherType::kArp}.Emit(
      out.span());
  EXPECT_EQ(out.vector(), Hex("020000000002 020000000001 0806"));
}

TEST(EthernetTest, ShortFrameIsRefused) {
  EXPECT_FALSE(EthernetHeader::Parse(Hex("020000000002 020000000001 08")));
  EXPECT_FALSE(EthernetHeader::Parse({}));
}

// RFC 1042, with a length field and padding behind.
// Covers: rfc:LNK-1
TEST(EthernetTest, SnapFrameGivesInnerTypeWithoutPadding) {
  const std::vector<uint8_t> frame =
      Hex("020000000002 020000000001 000b aaaa03 000000 0800 450102 00000000");
  const auto snap = ParseSnap(*EthernetHeader::Parse(frame));
  ASSERT_TRUE(snap);
  EXPECT_EQ(snap->ether_type, EtherType::kIpv4);
  EXPECT_TRUE(std::ranges::equal(snap->payload, Hex("450102")));
}

TEST(EthernetTest, OtherLlcFramesAreNotSnap) {
  const char* const kHead = "020000000002 020000000001 ";
  for (const char* rest : {
           "0800 aaaa03 000000 0800",  // Ethernet II type
           "0008 424203 000000 0800",  // spanning tree SAPs
           "0008 aaaa13 000000 0800",  // another control field
           "0008 aaaa03 000001 0800",  // another organization
           "0007 aaaa03 000000 08",    // length too small
           "0009 aaaa03 000000 0800",  // length beyond the frame
           "05dd aaaa03 000000 0800",  // 1501: neither a length nor a type
       }) {
    const std::vector<uint8_t> frame = Concat(Hex(kHead), Hex(rest));
    const ExactBuffer exact{std::span<const uint8_t>(frame)};
    EXPECT_FALSE(ParseSnap(*EthernetHeader::Parse(exact.span()))) << rest;
  }
}

// IEEE 802.1Q: priority 3 bits, drop eligible 1, VLAN id 12.
TEST(VlanTest, TagHasThreeParts) {
  const std::vector<uint8_t> tag_bytes = Hex("b064 0800");
  const auto tag = VlanHeader::Parse(tag_bytes);
  ASSERT_TRUE(tag);
  EXPECT_EQ(tag->pcp(), 5);
  EXPECT_TRUE(tag->dei());
  EXPECT_EQ(tag->vid(), 100);
  EXPECT_EQ(tag->ether_type(), EtherType::kIpv4);
  EXPECT_FALSE(VlanHeader::Parse(Hex("b06408")));
}

TEST(VlanTest, EmitMasksTheParts) {
  ExactBuffer out(4);
  VlanFields{.pcp = 7, .dei = false, .vid = 4095, .ether_type = EtherType::kIpv6}.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("efff 86dd"));
  VlanFields{.pcp = 8, .vid = 4097}.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("0001 0000"));
}

// Covers: rfc:LNK-4
TEST(VlanTest, TaggedFrameShowsTheTagTypeToWhoKnowsNoVlans) {
  const std::vector<uint8_t> frame = Hex("020000000002 020000000001 8100 0064 0800 45");
  const auto header = EthernetHeader::Parse(frame);
  EXPECT_EQ(header->ether_type(), EtherType::kVlan);
  EXPECT_FALSE(ParseSnap(*header));
  EXPECT_EQ(VlanHeader::Parse(header->payload())->payload().size(), 1u);
}

}  // namespace
}  // namespace tapwire::wire
