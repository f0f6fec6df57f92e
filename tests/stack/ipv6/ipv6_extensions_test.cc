// SPDX-License-Identifier: Apache-2.0
// Extension headers of received packets (RFC 8200 §4): what is walked over, what is refused, and
// where exactly the pointer of a parameter problem points.
#include <string>
#include <vector>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Ipv6Address kAllNodes = Ipv6Address::AllNodes();

class Ipv6ExtensionsTest : public IpTestBase {
 protected:
  static Frame Packet6() { return FromPeer().Ipv6({.source = kPeer6, .destination = kHost6}); }
  static Frame ToAllNodes() {
    return Frame()
        .Eth(kPeerMac, MulticastMac(kAllNodes))
        .Ipv6({.source = kPeer6, .destination = kAllNodes});
  }
  void ExpectDelivered(const Frame& frame, const std::string& what = "") {
    const uint64_t dropped = stack_->drops().total();
    net_.Inject(frame.Build());
    ASSERT_EQ(transport_.received.size(), 1u) << what;
    EXPECT_EQ(transport_.received[0].bytes, (ByteVector{'d', 'a', 't', 'a'})) << what;
    EXPECT_EQ(stack_->drops().total(), dropped) << what;
    transport_.received.clear();
  }
  void ExpectSilentDrop(const Frame& frame, DropReason reason, const std::string& what = "") {
    const uint64_t before = Drops(reason);
    net_.Inject(frame.Build());
    EXPECT_EQ(Drops(reason), before + 1) << DropReasonName(reason) << " " << what;
    EXPECT_THAT(transport_.received, IsEmpty()) << what;
    EXPECT_THAT(net_.TakeSent(), IsEmpty()) << what;
  }
  void ExpectProblem(const Frame& frame, DropReason reason, uint8_t code, uint32_t pointer,
                     const std::string& what = "") {
    const uint64_t before = Drops(reason);
    net_.Inject(frame.Build());
    EXPECT_EQ(Drops(reason), before + 1) << DropReasonName(reason) << " " << what;
    EXPECT_THAT(transport_.received, IsEmpty()) << what;
    EXPECT_THAT(
        net_.TakeSent(),
        ElementsAre(IsIpv6(DstIs(kPeer6), IsIcmpv6(TypeIs(4), CodeIs(code), RestIs(pointer)))))
        << what;
  }
  static Ipv6OptionsArgs Last(ByteVector options = {}) {
    return {.options = std::move(options), .next_header = kTestProtocol};
  }
};

TEST_F(Ipv6ExtensionsTest, HeadersInAnyOrderAndNumberAreWalkedOver) {  // Covers: rfc:V6-01
  ExpectDelivered(Packet6().HopByHop(Last()).Payload("data"), "hop-by-hop");
  ExpectDelivered(Packet6().DestinationOptions(Last()).Payload("data"), "destination");
  ExpectDelivered(
      Packet6().HopByHop({}).DestinationOptions({}).Routing({}).DestinationOptions(Last()).Payload(
          "data"),
      "RFC 8200 order");
  ExpectDelivered(Packet6()
                      .Routing({})
                      .DestinationOptions({})
                      .DestinationOptions({})
                      .Routing({})
                      .DestinationOptions(Last())
                      .Payload("data"),
                  "any order");
  Frame many = Packet6();
  for (int i = 0; i < 15; ++i) many.DestinationOptions({});
  ExpectDelivered(many.DestinationOptions(Last()).Payload("data"), "sixteen");
}

TEST_F(Ipv6ExtensionsTest, TransportIsToldWhereItsNumberStands) {
  net_.Inject(Packet6()
                  .DestinationOptions({})
                  .DestinationOptions(Last(ByteVector(20, 0)))
                  .Payload("data")
                  .Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].info.next_header_offset, 48);
}

TEST_F(Ipv6ExtensionsTest, ChainOfAHundredHeadersIsDropped) {  // Covers: bug:B66
  Frame frame = Packet6();
  for (int i = 0; i < 99; ++i) frame.DestinationOptions({});
  ExpectSilentDrop(frame.DestinationOptions(Last()).Payload("data"),
                   DropReason::kIpv6ExtensionChainTooLong);
}

TEST_F(Ipv6ExtensionsTest,
       HopByHopElsewhereIsAnUnknownNextHeader) {  // Covers: rfc:V6-16, rfc:V6-01
  ExpectProblem(Packet6().DestinationOptions({.next_header = 0}).HopByHop(Last()).Payload("data"),
                DropReason::kIpv6HopByHopNotFirst, 1, 40);
  ExpectProblem(Packet6().HopByHop({.next_header = 0}).HopByHop(Last()).Payload("data"),
                DropReason::kIpv6HopByHopNotFirst, 1, 40);
  ExpectProblem(Packet6()
                    .Routing({})
                    .DestinationOptions({.options = ByteVector(10, 0), .next_header = 0})
                    .HopByHop(Last())
                    .Payload("data"),
                DropReason::kIpv6HopByHopNotFirst, 1, 48);
}

TEST_F(Ipv6ExtensionsTest, UnknownNextHeaderIsAnsweredAtItsPlace) {  // Covers: rfc:V6-02
  ExpectProblem(FromPeer()
                    .Ipv6({.source = kPeer6, .destination = kHost6, .next_header = kUnusedProtocol})
                    .Payload("data"),
                DropReason::kUnknownProtocol, 1, 6);
  ExpectProblem(
      Packet6().HopByHop({}).DestinationOptions({.next_header = kUnusedProtocol}).Payload("data"),
      DropReason::kUnknownProtocol, 1, 48);
  // Authentication and ESP are transports nobody registered; mobility (135) is not known either.
  for (const uint8_t protocol : ByteVector{50, 51, 135}) {
    ExpectProblem(Packet6().DestinationOptions({.next_header = protocol}).Payload(Pattern(16)),
                  DropReason::kUnknownProtocol, 1, 40);
  }
  EXPECT_EQ(stack_->mib().ip6.in_unknown_protos.value(), 5u);
}

TEST_F(Ipv6ExtensionsTest, NoNextHeaderEndsThePacket) {  // Covers: rfc:V6-06
  ExpectSilentDrop(
      FromPeer().Ipv6({.source = kPeer6, .destination = kHost6, .next_header = 59}).Payload("rest"),
      DropReason::kIpv6NoNextHeader);
  ExpectSilentDrop(Packet6().DestinationOptions({.next_header = 59}),
                   DropReason::kIpv6NoNextHeader);
}

// RFC 8200 §4.2. Type 0x1e is for experiments (RFC 4727 §5); the two top bits say what to do.
TEST_F(Ipv6ExtensionsTest, TopBitsOfAnUnknownOptionDecide) {  // Covers: rfc:V6-03
  const auto option = [](uint8_t action) {
    return ByteVector{static_cast<uint8_t>(action << 6 | 0x1e), 2, 0xaa, 0xbb};
  };
  ExpectDelivered(Packet6().HopByHop(Last(option(0))).Payload("data"), "00");
  ExpectDelivered(Packet6().DestinationOptions(Last(option(0))).Payload("data"), "00");
  ExpectSilentDrop(Packet6().DestinationOptions(Last(option(1))).Payload("data"),
                   DropReason::kIpv6OptionDiscard, "01");
  ExpectProblem(Packet6().HopByHop(Last(option(2))).Payload("data"), DropReason::kIpv6OptionProblem,
                2, 42, "10");
  ExpectProblem(Packet6().HopByHop(Last(option(3))).Payload("data"), DropReason::kIpv6OptionProblem,
                2, 42, "11");
  // Behind another header and other options: 40 + 8 + 2 + Pad1 + PadN(3).
  ByteVector behind{0, 1, 1, 0};
  const ByteVector last = option(2);
  behind.insert(behind.end(), last.begin(), last.end());
  ExpectProblem(Packet6().HopByHop({}).DestinationOptions(Last(behind)).Payload("data"),
                DropReason::kIpv6OptionProblem, 2, 54);
  // To a group: 10 is answered even so, 11 is not.
  ExpectProblem(ToAllNodes().DestinationOptions(Last(option(2))).Payload("data"),
                DropReason::kIpv6OptionProblem, 2, 42, "10, group");
  ExpectSilentDrop(ToAllNodes().DestinationOptions(Last(option(3))).Payload("data"),
                   DropReason::kIpv6OptionProblem, "11, group");
}

TEST_F(Ipv6ExtensionsTest, PaddingAndRouterAlertAreKnown) {  // Covers: rfc:V6-04
  ExpectDelivered(Packet6().HopByHop(Last(ByteVector(38, 0))).Payload("data"), "many Pad1");
  ByteVector pad_n(2 + 252, 0);
  pad_n[0] = 1;
  pad_n[1] = 252;
  ExpectDelivered(Packet6().DestinationOptions(Last(pad_n)).Payload("data"), "long PadN");
  ExpectDelivered(Packet6().HopByHop(Last({5, 2, 0, 0})).Payload("data"), "router alert");
}

TEST_F(Ipv6ExtensionsTest, JumboPayloadOptionIsNotKnown) {  // RFC 2675 §2: type 0xc2, top bits 11
  ExpectProblem(Packet6().HopByHop(Last({0xc2, 4, 0, 1, 0, 0})).Payload("data"),
                DropReason::kIpv6Jumbogram, 2, 42);
}

TEST_F(Ipv6ExtensionsTest, OptionPastItsHeaderIsRefused) {  // Covers: bug:B66
  ExpectProblem(Packet6().DestinationOptions(Last({0x1e, 5, 0, 0, 0, 0})).Payload(Pattern(300)),
                DropReason::kIpv6BadExtensionHeader, 0, 42);
  ExpectProblem(Packet6().DestinationOptions(Last({0, 0, 0, 0x1e, 255, 0})).Payload(Pattern(300)),
                DropReason::kIpv6BadExtensionHeader, 0, 45);
  ExpectProblem(Packet6().HopByHop(Last({1, 3, 0, 0, 0, 0x1e})).Payload(Pattern(300)),
                DropReason::kIpv6BadExtensionHeader, 0, 47, "type without a length");
  // Length zero is an option of two bytes, not an endless loop.
  ExpectDelivered(Packet6().DestinationOptions(Last({0x1e, 0, 0x1e, 0, 0x1e, 0})).Payload("data"));
}

TEST_F(Ipv6ExtensionsTest, HeaderPastThePacketIsRefused) {  // Covers: bug:B66
  // Pointer at the length field of the header, which says more than there is.
  for (const uint8_t length : ByteVector{1, 255}) {
    ExpectProblem(
        Packet6().HopByHop({.next_header = kTestProtocol, .length = length}).Payload("data"),
        DropReason::kIpv6BadExtensionHeader, 0, 41);
    ExpectProblem(Packet6()
                      .DestinationOptions({.next_header = kTestProtocol, .length = length})
                      .Payload("data"),
                  DropReason::kIpv6BadExtensionHeader, 0, 41);
    ExpectProblem(Packet6()
                      .HopByHop({})
                      .Routing({.next_header = kTestProtocol, .length = length})
                      .Payload("data"),
                  DropReason::kIpv6BadExtensionHeader, 0, 49);
  }
  // Nothing, or not enough, behind the header that announces one.
  for (const uint8_t announced : ByteVector{0, 43, 44, 60}) {
    const auto frame = [&](size_t bytes) {
      return FromPeer()
          .Ipv6({.source = kPeer6, .destination = kHost6, .next_header = announced})
          .Payload(Pattern(bytes));
    };
    ExpectProblem(frame(1), DropReason::kIpv6BadExtensionHeader, 0, 41);
    ExpectProblem(frame(7), DropReason::kIpv6BadExtensionHeader, 0, 41);
    if (announced != 0) ExpectProblem(frame(0), DropReason::kIpv6BadExtensionHeader, 0, 41);
  }
}

TEST_F(Ipv6ExtensionsTest, RoutingHeaderIsSkippedWhenNothingIsLeft) {  // Covers: rfc:V6-05, bug:B67
  for (const uint8_t type : ByteVector{0, 2, 4, 99}) {
    ExpectDelivered(
        Packet6()
            .Routing({.type = type, .data = ByteVector(20), .next_header = kTestProtocol})
            .Payload("data"),
        std::to_string(type));
    // An odd number of eight-byte units means half an address to type 0; it is skipped all the
    // same.
    ExpectDelivered(
        Packet6()
            .Routing({.type = type, .data = ByteVector(12), .next_header = kTestProtocol})
            .Payload("data"),
        std::to_string(type));
    // RFC 8200 §4.4: pointing to the routing type.
    ExpectProblem(Packet6()
                      .Routing({.type = type,
                                .segments_left = 1,
                                .data = ByteVector(20),
                                .next_header = kTestProtocol})
                      .Payload("data"),
                  DropReason::kIpv6RoutingHeader, 0, 42, std::to_string(type));
  }
  ExpectProblem(Packet6()
                    .HopByHop({})
                    .Routing({.type = 0, .segments_left = 255, .next_header = kTestProtocol})
                    .Payload("data"),
                DropReason::kIpv6RoutingHeader, 0, 50);
}

TEST_F(Ipv6ExtensionsTest, QuoteOfAProblemIsThePacketItself) {  // Covers: rfc:IC6-2
  const ByteVector frame = Packet6().HopByHop(Last({0x9e, 0})).Payload(Pattern(3000)).Build();
  net_.device().SetMtu(9000).IgnoreError();
  net_.Inject(frame);
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].size(), 14u + 1280);
  EXPECT_EQ(ByteVector(sent[0].begin() + 14 + 48, sent[0].end()),
            ByteVector(frame.begin() + 14, frame.begin() + 14 + 1232));
}

}  // namespace
}  // namespace tapwire
