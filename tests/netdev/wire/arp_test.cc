// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/arp.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

constexpr const char* kReply = "0001 0800 06 04 0002 020000000002 0a4d0002 020000000001 0a4d0001";

TEST(ArpTest, FieldsStandWhereRfc826PutsThem) {
  const std::vector<uint8_t> bytes = Hex(kReply);
  const auto arp = ArpHeader::Parse(bytes);
  ASSERT_TRUE(arp);
  EXPECT_EQ(arp->operation(), ArpOperation::kReply);
  EXPECT_EQ(arp->sender_hardware_address(), MacAddress(2, 0, 0, 0, 0, 2));
  EXPECT_EQ(arp->sender_protocol_address(), Ipv4Address(10, 77, 0, 2));
  EXPECT_EQ(arp->target_hardware_address(), MacAddress(2, 0, 0, 0, 0, 1));
  EXPECT_EQ(arp->target_protocol_address(), Ipv4Address(10, 77, 0, 1));
  EXPECT_TRUE(arp->IsIpv4OverEthernet());
}

TEST(ArpTest, EmitWritesTheSameBytes) {
  ExactBuffer out(ArpFields::length());
  ArpFields{.operation = ArpOperation::kReply,
            .sender_hardware_address = MacAddress(2, 0, 0, 0, 0, 2),
            .sender_protocol_address = Ipv4Address(10, 77, 0, 2),
            .target_hardware_address = MacAddress(2, 0, 0, 0, 0, 1),
            .target_protocol_address = Ipv4Address(10, 77, 0, 1)}
      .Emit(out.span());
  EXPECT_EQ(out.vector(), Hex(kReply));
}

// Covers: bug:B65
TEST(ArpTest, TenBytesAreRefused) {
  const ExactBuffer bytes{std::span<const uint8_t>(Hex("0001 0800 06 04 0001 0200"))};
  EXPECT_FALSE(ArpHeader::Parse(bytes.span()));
}

// Covers: rfc:ARP-3
TEST(ArpTest, OtherHardwareProtocolOrLengthsAreTold) {
  for (const size_t at : {1u, 2u, 4u, 5u}) {
    std::vector<uint8_t> bytes = Hex(kReply);
    bytes[at] ^= 0x10;
    const auto arp = ArpHeader::Parse(bytes);
    ASSERT_TRUE(arp);
    EXPECT_FALSE(arp->IsIpv4OverEthernet()) << at;
  }
}

// An Ethernet frame is padded to 60 bytes; the message ends at 28.
TEST(ArpTest, PaddingIsNotPartOfTheMessage) {
  const std::vector<uint8_t> padded = Concat(Hex(kReply), std::vector<uint8_t>(18));
  EXPECT_EQ(ArpHeader::Parse(padded)->bytes().size(), 28u);
}

}  // namespace
}  // namespace tapwire::wire
