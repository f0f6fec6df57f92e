// SPDX-License-Identifier: Apache-2.0
// Fragments of IPv6 packets as they come from the wire (RFC 8200 §4.5, RFC 6946, RFC 7112). The
// machine itself is tested in tests/stack/reassembly_test.cc.
#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kTimeout = std::chrono::seconds(60);

class Ipv6FragmentTest : public IpTestBase {
 protected:
  ~Ipv6FragmentTest() override { net_.Advance(2 * kTimeout); }

  static Frame Packet6(Ipv6Args args = {}) {
    args.source = kPeer6;
    args.destination = kHost6;
    return FromPeer().Ipv6(args);
  }
  static Frame Piece(uint32_t id, uint16_t offset, bool more, const ByteVector& data,
                     uint8_t protocol = kTestProtocol) {
    return Packet6()
        .Fragment6({.offset = offset, .more = more, .id = id, .next_header = protocol})
        .Payload(data);
  }
  void Inject(const Frame& frame) { net_.Inject(frame.Build()); }
  static ByteVector Part(const ByteVector& whole, size_t from, size_t length) {
    return ByteVector(whole.begin() + static_cast<std::ptrdiff_t>(from),
                      whole.begin() + static_cast<std::ptrdiff_t>(from + length));
  }
  ByteVector TakeOnly() {
    EXPECT_EQ(transport_.received.size(), 1u);
    if (transport_.received.empty()) return {};
    ByteVector bytes = std::move(transport_.received[0].bytes);
    transport_.received.clear();
    return bytes;
  }
  // What an error of ours quotes.
  static ByteVector QuoteOf(const ByteVector& frame) {
    return ByteVector(frame.begin() + 14 + 48, frame.end());
  }
};

TEST_F(Ipv6FragmentTest, EveryOrderOfThePiecesGivesThePacket) {  // Covers: rfc:V6-18
  const ByteVector whole = Pattern(100);
  const auto frames =
      Packet6({.next_header = kTestProtocol}).Payload(whole).BuildFragments(32, 0xdeadbeef);
  ASSERT_EQ(frames.size(), 4u);
  std::vector<size_t> order(frames.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    for (const size_t i : order) net_.Inject(frames[i]);
    EXPECT_EQ(TakeOnly(), whole);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(stack_->mib().ip6.reasm_oks.value(), 24u);
  EXPECT_EQ(stack_->mib().ip6.reasm_reqds.value(), 96u);
  EXPECT_EQ(stack_->ipv6().reassembler().bytes(), 0u);
}

TEST_F(Ipv6FragmentTest, LargestPacketIsReassembled) {  // Covers: rfc:V6-12, rfc:V6-18
  const ByteVector whole = Pattern(65535);
  for (const ByteVector& frame :
       Packet6({.next_header = kTestProtocol}).Payload(whole).BuildFragments(1448, 1))
    net_.Inject(frame);
  EXPECT_EQ(TakeOnly(), whole);
}

// RFC 8200 §4.5: the key has no protocol; what later fragments say of it is ignored.
TEST_F(Ipv6FragmentTest, HeadersAreThoseOfTheFirstFragment) {  // Covers: rfc:V6-18
  const ByteVector whole = Pattern(48);
  net_.Inject(
      FromPeer()
          .Ipv6({.source = kPeer6, .destination = kHost6, .hop_limit = 9, .traffic_class = 8})
          .Fragment6({.offset = 24, .id = 5, .next_header = 17})
          .Payload(Part(whole, 24, 24))
          .Build());
  net_.Inject(
      FromPeer()
          .Ipv6({.source = kPeer6, .destination = kHost6, .hop_limit = 33, .traffic_class = 4})
          .Fragment6({.offset = 0, .more = true, .id = 5, .next_header = kTestProtocol})
          .Payload(Part(whole, 0, 24))
          .Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  const auto& got = transport_.received[0];
  EXPECT_EQ(got.bytes, whole);
  EXPECT_EQ(got.info.ttl, 33);
  EXPECT_EQ(got.info.tos, 4);
  EXPECT_EQ(got.info.protocol, kTestProtocol);
  EXPECT_EQ(got.info.next_header_offset, 6);  // where it stands without the fragment header
  EXPECT_TRUE(got.info.reassembled);
}

TEST_F(Ipv6FragmentTest, HeadersBeforeAndBehindTheCutAreWalked) {  // Covers: rfc:V6-01
  // Behind: destination options of 16 bytes, then the data; the cut is in the data.
  const ByteVector inner =
      Frame()
          .DestinationOptions({.options = ByteVector(14, 0), .next_header = kTestProtocol})
          .Payload(Pattern(40))
          .Build();
  const auto piece = [&](uint16_t offset, bool more, size_t length) {
    return Packet6()
        .HopByHop({})
        .Routing({})
        .Fragment6({.offset = offset, .more = more, .id = 5, .next_header = 60})
        .Payload(Part(inner, offset, length));
  };
  Inject(piece(24, false, 32));
  Inject(piece(0, true, 24));
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].bytes, Pattern(40));
  EXPECT_EQ(transport_.received[0].info.next_header_offset, 56);  // 40 + 8 + 8: the options header
}

// An error about the reassembled packet quotes it as it was before it was cut.
TEST_F(Ipv6FragmentTest, ReassembledPacketIsAsItWas) {
  const ByteVector data = Pattern(100);
  const auto piece = [&](uint16_t offset, bool more, size_t length) {
    return Packet6({.traffic_class = 0xb8, .flow_label = 0x12345})
        .HopByHop({})
        .Fragment6({.offset = offset, .more = more, .id = 5, .next_header = kUnusedProtocol})
        .Payload(Part(data, offset, length));
  };
  Inject(piece(0, true, 64));
  Inject(piece(64, false, 36));
  const auto sent = net_.TakeSent();
  ASSERT_THAT(sent, ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(1), RestIs(40)))));
  EXPECT_EQ(QuoteOf(sent[0]), Frame()
                                  .Ipv6({.source = kPeer6,
                                         .destination = kHost6,
                                         .traffic_class = 0xb8,
                                         .flow_label = 0x12345})
                                  .HopByHop({.next_header = kUnusedProtocol})
                                  .Payload(data)
                                  .Build());
}

// Covers: rfc:V6-09
TEST_F(Ipv6FragmentTest, AtomicFragmentIsHandledAlone) {
  Inject(Piece(5, 0, true, Pattern(24)));
  Inject(Piece(5, 0, false, Pattern(10, 50)));
  EXPECT_EQ(TakeOnly(), Pattern(10, 50));
  Inject(Piece(5, 24, false, Pattern(24, 24)));  // the queued one is undisturbed
  EXPECT_EQ(TakeOnly(), Pattern(48));
  Inject(Packet6()
             .Fragment6({.id = 9})
             .DestinationOptions({.next_header = kTestProtocol})
             .Payload(Pattern(7)));
  EXPECT_EQ(TakeOnly(), Pattern(7));
}

TEST_F(Ipv6FragmentTest, FragmentHeaderInsideAFragmentIsRefused) {
  Inject(Packet6()
             .Fragment6({.id = 9})
             .Fragment6({.id = 9, .next_header = kTestProtocol})
             .Payload(Pattern(8)));
  EXPECT_EQ(Drops(DropReason::kIpv6AtomicFragmentBad), 1u);
  const ByteVector inner =
      Frame()
          .Fragment6({.offset = 0, .more = true, .id = 3, .next_header = kTestProtocol})
          .Payload(Pattern(24))
          .Build();
  Inject(Piece(5, 0, true, Part(inner, 0, 16), 44));
  Inject(Piece(5, 16, false, Part(inner, 16, 16), 44));
  EXPECT_EQ(Drops(DropReason::kIpv6AtomicFragmentBad), 2u);
  // Nor does a hop-by-hop header hide there.
  Inject(Packet6()
             .Fragment6({.id = 9, .next_header = 0})
             .HopByHop({.next_header = kTestProtocol})
             .Payload(Pattern(8)));
  EXPECT_EQ(Drops(DropReason::kIpv6HopByHopNotFirst), 1u);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(1), RestIs(40)))));
  EXPECT_THAT(transport_.received, IsEmpty());
}

TEST_F(Ipv6FragmentTest, PieceThatIsNoMultipleOfEightIsAnswered) {  // Covers: rfc:V6-10, bug:B63
  Inject(Piece(5, 0, true, Pattern(23)));
  Inject(Piece(5, 8, true, Pattern(9)));
  EXPECT_EQ(Drops(DropReason::kFragmentBadLength), 2u);
  // Code 0, pointer at the payload length of the fixed header.
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(0), RestIs(4))),
                                           IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(0), RestIs(4)))));
  Inject(Piece(6, 0, true, Pattern(24)));
  Inject(Piece(6, 24, false, Pattern(23)));
  EXPECT_EQ(TakeOnly().size(), 47u);
}

TEST_F(Ipv6FragmentTest, PieceBeyond65535IsAnswered) {  // Covers: rfc:V6-10, bug:B63
  Inject(Piece(5, 65528, false, Pattern(8)));           // ends at 65536
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 1u);
  // Code 0, pointer at the fragment offset: two bytes into the fragment header.
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(0), RestIs(42)))));
  Inject(Piece(6, 65528, false, Pattern(7)));
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 1u);
  // Headers in front of the cut count as payload.
  Inject(Packet6()
             .HopByHop({})
             .Fragment6({.offset = 65528, .id = 7, .next_header = kTestProtocol})
             .Payload(Pattern(7)));
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 2u);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(0), RestIs(50)))));
}

TEST_F(Ipv6FragmentTest, EmptyPieceIsDropped) {
  Inject(Piece(5, 0, true, {}));
  Inject(Piece(5, 8, false, {}));
  EXPECT_EQ(Drops(DropReason::kFragmentEmpty), 2u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

// Covers: rfc:V6-11
TEST_F(Ipv6FragmentTest, FirstPieceMustHoldAllHeaders) {
  // RFC 7112 §5: code 3, pointer 0. Destination options of 24 bytes, cut after 16.
  const ByteVector chain =
      Frame()
          .DestinationOptions({.options = ByteVector(22, 0), .next_header = kTestProtocol})
          .Build();
  Inject(Piece(5, 0, true, Part(chain, 0, 16), 60));
  EXPECT_EQ(Drops(DropReason::kFragmentHeaderChain), 1u);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(3), RestIs(0)))));
  // The chain is there, the upper-layer header is not, or not all of it.
  Inject(Piece(5, 0, true, chain, 60));
  Inject(Piece(6, 0, true, Pattern(16), 6));  // TCP has 20
  EXPECT_EQ(Drops(DropReason::kFragmentTinyFirst), 2u);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(3))),
                                           IsIpv6(IsIcmpv6(TypeIs(4), CodeIs(3)))));
  EXPECT_EQ(stack_->ipv6().reassembler().datagrams(), 0u);
  // Just enough.
  Inject(Piece(7, 0, true, Pattern(8), 17));
  Inject(Piece(8, 0, true, Pattern(24), 6));
  Inject(Piece(9, 0, true, Pattern(8), 58));
  ByteVector complete = chain;
  complete.resize(32);
  Inject(Piece(10, 0, true, complete, 60));
  EXPECT_EQ(stack_->ipv6().reassembler().datagrams(), 4u);
  // Later pieces cannot be asked.
  Inject(Piece(11, 8, true, Pattern(8), 6));
  EXPECT_EQ(stack_->ipv6().reassembler().datagrams(), 5u);
  net_.Advance(kTimeout);
  net_.TakeSent();
}

TEST_F(Ipv6FragmentTest, OverlapEndsThePacketInSilence) {  // Covers: rfc:V6-08, bug:B62
  const ByteVector whole = Pattern(64);
  Inject(Piece(5, 0, true, Part(whole, 0, 24)));
  Inject(Piece(5, 16, true, ByteVector(24, 0xee)));
  Inject(Piece(5, 40, false, Part(whole, 40, 24)));
  const auto again = Packet6({.next_header = kTestProtocol}).Payload(whole).BuildFragments(24, 5);
  for (const ByteVector& frame : again) net_.Inject(frame);
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  net_.Advance(kTimeout);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  for (const ByteVector& frame : again) net_.Inject(frame);
  EXPECT_EQ(TakeOnly(), whole);
}

TEST_F(Ipv6FragmentTest, ExactCopiesAreIgnored) {  // Covers: rfc:V6-08
  const ByteVector whole = Pattern(64);
  const auto frames = Packet6({.next_header = kTestProtocol}).Payload(whole).BuildFragments(24, 5);
  for (const size_t i : std::vector<size_t>{2, 2, 0, 0, 1}) net_.Inject(frames[i]);
  EXPECT_EQ(TakeOnly(), whole);
  EXPECT_EQ(Drops(DropReason::kFragmentDuplicate), 2u);
}

TEST_F(Ipv6FragmentTest, TimeoutIsToldIfTheFirstPieceCame) {  // Covers: rfc:V6-07
  const ByteVector first = Piece(5, 0, true, Pattern(32)).Build();
  net_.Inject(first);
  Inject(Piece(6, 64, false, Pattern(8)));
  net_.Advance(kTimeout - std::chrono::milliseconds(1));
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  net_.Advance(std::chrono::milliseconds(1));
  const auto sent = net_.TakeSent();
  ASSERT_THAT(sent,
              ElementsAre(IsIpv6(SrcIs(kHost6), DstIs(kPeer6), IsIcmpv6(TypeIs(3), CodeIs(1)))));
  EXPECT_EQ(QuoteOf(sent[0]), ByteVector(first.begin() + 14, first.end()));
  EXPECT_EQ(Drops(DropReason::kFragmentTimeout), 2u);
  EXPECT_EQ(stack_->mib().ip6.reasm_timeout.value(), 2u);
}

TEST_F(Ipv6FragmentTest, CongestionMarkOfAPieceIsKept) {  // RFC 3168 §5.3, RFC 8200 §7
  const auto piece = [](uint32_t id, uint16_t offset, bool more, uint8_t ecn) {
    return Packet6({.traffic_class = static_cast<uint8_t>(0x20 | ecn)})
        .Fragment6({.offset = offset, .more = more, .id = id, .next_header = kTestProtocol})
        .Payload(Pattern(16));
  };
  Inject(piece(1, 0, true, 2));
  Inject(piece(1, 16, false, 3));
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].info.tos, 0x23);
  Inject(piece(2, 0, true, 0));
  Inject(piece(2, 16, false, 3));
  EXPECT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(Drops(DropReason::kFragmentEcnMix), 2u);
}

TEST_F(Ipv6FragmentTest, LinkLocalNamesOnTwoLinksAreTwoHosts) {  // RFC 4007 §6
  TestDevice& other = net_.AddDevice({.name = "test1", .mac = {2, 0, 0, 0, 0, 2}});
  Interface* interface = *stack_->AddInterface(other);
  ASSERT_TRUE(interface->AddAddress({kHostLinkLocal6, 64}).ok());
  const auto piece = [&](const MacAddress& mac, uint16_t offset, bool more) {
    return Frame()
        .Eth(kPeerMac, mac)
        .Ipv6({.source = kPeerLinkLocal6, .destination = kHostLinkLocal6})
        .Fragment6({.offset = offset, .more = more, .id = 5, .next_header = kTestProtocol})
        .Payload(Pattern(16))
        .Build();
  };
  net_.Inject(piece(kHostMac, 0, true));
  net_.InjectOn(other, piece(other.mac(), 16, false));
  EXPECT_THAT(transport_.received, IsEmpty());
  net_.Inject(piece(kHostMac, 16, false));
  EXPECT_EQ(transport_.received.size(), 1u);
}

}  // namespace
}  // namespace tapwire
