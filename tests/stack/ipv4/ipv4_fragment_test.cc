// SPDX-License-Identifier: Apache-2.0
// Fragments of IPv4 datagrams as they come from the wire: reassembled right, in every order, or
// dropped with a reason. The machine itself is tested in tests/stack/reassembly_test.cc.
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

class Ipv4FragmentTest : public IpTestBase {
 protected:
  ~Ipv4FragmentTest() override { net_.Advance(2 * kTimeout); }

  Frame Datagram(Ipv4Args args = {}) {
    args.source = kPeer4;
    args.destination = kHost4;
    args.dont_fragment = false;
    if (!args.protocol) args.protocol = kTestProtocol;
    return FromPeer().Ipv4(args);
  }
  ByteVector Piece(uint16_t id, uint16_t offset, bool more, const ByteVector& data,
                   Ipv4Args args = {}) {
    args.id = id;
    args.offset = offset;
    args.more_fragments = more;
    return Datagram(args).Payload(data).Build();
  }
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
};

TEST_F(Ipv4FragmentTest, EveryOrderOfThePiecesGivesTheDatagram) {  // Covers: rfc:IP-12, rfc:IP-09
  const ByteVector whole = Pattern(100);
  const std::vector<ByteVector> frames = Datagram().Payload(whole).BuildFragments(32, 7);
  ASSERT_EQ(frames.size(), 4u);
  std::vector<size_t> order(frames.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    for (const size_t i : order) net_.Inject(frames[i]);
    EXPECT_EQ(TakeOnly(), whole);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(stack_->mib().ip.reasm_oks.value(), 24u);
  EXPECT_EQ(stack_->mib().ip.reasm_reqds.value(), 96u);
  EXPECT_EQ(stack_->ipv4().reassembler().bytes(), 0u);
}

TEST_F(Ipv4FragmentTest, DuplicatesAreIgnored) {  // Covers: rfc:IP-12, rfc:IP-13
  const ByteVector whole = Pattern(64);
  const auto frames = Datagram().Payload(whole).BuildFragments(24, 7);
  net_.Inject(frames[2]);
  net_.Inject(frames[2]);
  net_.Inject(frames[0]);
  net_.Inject(frames[0]);
  net_.Inject(frames[1]);
  EXPECT_EQ(TakeOnly(), whole);
  EXPECT_EQ(Drops(DropReason::kFragmentDuplicate), 2u);
}

// What the transport is told is what the first fragment's header says, whichever came last.
TEST_F(Ipv4FragmentTest, FirstFragmentLastDecidesAboutTheHeader) {  // Covers: rfc:IP-12, bug:B61
  const ByteVector whole = Pattern(48);
  net_.Inject(Piece(9, 24, false, Part(whole, 24, 24), {.ttl = 3, .tos = 4}));
  net_.Inject(
      Piece(9, 0, true, Part(whole, 0, 24), {.ttl = 9, .tos = 8, .options = ByteVector(40, 1)}));
  ASSERT_EQ(transport_.received.size(), 1u);
  const auto& got = transport_.received[0];
  EXPECT_EQ(got.bytes, whole);
  EXPECT_EQ(got.info.ttl, 9);
  EXPECT_EQ(got.info.tos, 8);
  EXPECT_TRUE(got.info.reassembled);
  EXPECT_EQ(got.info.interface, interface_);
}

TEST_F(Ipv4FragmentTest, LargestDatagramIsReassembled) {  // Covers: rfc:IP-09, bug:B63
  const ByteVector whole = Pattern(65515);
  for (const ByteVector& frame : Datagram().Payload(whole).BuildFragments(1480, 1))
    net_.Inject(frame);
  EXPECT_EQ(TakeOnly(), whole);
}

TEST_F(Ipv4FragmentTest, ManySmallPiecesFillWholeSlabs) {  // Covers: rfc:IP-09
  const ByteVector whole = Pattern(8 * 250 + 3);
  const auto frames = Datagram().Payload(whole).BuildFragments(8, 1);
  ASSERT_EQ(frames.size(), 251u);  // more than a packet has room for fragments
  for (const ByteVector& frame : frames) net_.Inject(frame);
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_LE(transport_.received[0].frags, 2u);
  EXPECT_EQ(TakeOnly(), whole);
}

TEST_F(Ipv4FragmentTest, OtherProtocolIsAnotherDatagram) {  // Covers: rfc:IP-10
  const ByteVector a = Pattern(40), b = Pattern(40, 100);
  RecordingTransport other;
  stack_->RegisterTransport(kUnusedProtocol, &other);
  net_.Inject(Piece(5, 0, true, Part(a, 0, 24)));
  net_.Inject(Piece(5, 0, true, Part(b, 0, 24), {.protocol = kUnusedProtocol}));
  net_.Inject(Piece(5, 24, false, Part(b, 24, 16), {.protocol = kUnusedProtocol}));
  net_.Inject(Piece(5, 24, false, Part(a, 24, 16)));
  EXPECT_EQ(TakeOnly(), a);
  ASSERT_EQ(other.received.size(), 1u);
  EXPECT_EQ(other.received[0].bytes, b);
  stack_->RegisterTransport(kUnusedProtocol, nullptr);
}

TEST_F(Ipv4FragmentTest,
       SourceDestinationAndIdentificationTellDatagramsApart) {  // Covers: rfc:IP-10
  const ByteVector a = Pattern(16);
  net_.Inject(Piece(5, 0, true, a));
  net_.Inject(Piece(6, 16, false, a));
  net_.Inject(FromPeer()
                  .Ipv4({.source = kRouter4,
                         .destination = kHost4,
                         .id = 5,
                         .dont_fragment = false,
                         .offset = 16,
                         .protocol = kTestProtocol})
                  .Payload(a)
                  .Build());
  net_.Inject(Frame()
                  .Eth(kPeerMac, kBroadcastMac)
                  .Ipv4({.source = kPeer4,
                         .destination = {10, 0, 0, 255},
                         .id = 5,
                         .dont_fragment = false,
                         .offset = 16,
                         .protocol = kTestProtocol})
                  .Payload(a)
                  .Build());
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 4u);
  net_.Inject(Piece(5, 16, false, a));
  EXPECT_EQ(TakeOnly().size(), 32u);
}

TEST_F(Ipv4FragmentTest, WholeDatagramDoesNotWait) {  // Covers: rfc:IP-18
  net_.Inject(Piece(5, 0, true, Pattern(24)));
  net_.Inject(Datagram({.id = 5}).Payload("whole").Build());
  EXPECT_EQ(TakeOnly().size(), 5u);
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 1u);
}

TEST_F(Ipv4FragmentTest, DontFragmentOnAFragmentMeansNothing) {  // RFC 6864 §4: it is non-atomic
  const auto piece = [&](uint16_t offset, bool more) {
    return FromPeer()
        .Ipv4({.source = kPeer4,
               .destination = kHost4,
               .id = 5,
               .dont_fragment = true,
               .more_fragments = more,
               .offset = offset,
               .protocol = kTestProtocol})
        .Payload(Pattern(16))
        .Build();
  };
  net_.Inject(piece(0, true));
  net_.Inject(piece(16, false));
  EXPECT_EQ(TakeOnly().size(), 32u);
}

TEST_F(Ipv4FragmentTest, FragmentBeyond65535IsDropped) {  // Covers: rfc:IP-14, bug:B63
  net_.Inject(Piece(5, 65528, false, Pattern(100)));
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 1u);
  // The header counts: 20 + 65528 - 13 would be as much as a length can say.
  net_.Inject(Piece(6, 65512, false, Pattern(4)));
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 2u);
  net_.Inject(Piece(7, 65512, false, Pattern(3)));
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), 2u);
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

// The last fragments pass by themselves; the first one's options make the datagram too long.
TEST_F(Ipv4FragmentTest, OptionsOfTheFirstFragmentCountForTheLimit) {  // Covers: bug:B61, bug:B67
  const ByteVector whole = Pattern(65512);
  auto frames = Datagram().Payload(whole).BuildFragments(1480, 5);
  for (size_t i = 1; i < frames.size(); ++i) net_.Inject(frames[i]);
  net_.Inject(Piece(5, 0, true, Part(whole, 0, 1480), {.options = ByteVector(40, 1)}));
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_EQ(Drops(DropReason::kFragmentTooBig), frames.size());
  EXPECT_EQ(stack_->mib().ip.reasm_fails.value(), 1u);
}

TEST_F(Ipv4FragmentTest, PieceThatIsNoMultipleOfEightIsDropped) {  // Covers: rfc:IP-15, bug:B63
  net_.Inject(Piece(5, 0, true, Pattern(23)));
  EXPECT_EQ(Drops(DropReason::kFragmentBadLength), 1u);
  net_.Inject(Piece(5, 0, true, Pattern(24)));
  net_.Inject(Piece(5, 24, false, Pattern(23)));  // the last one may be
  EXPECT_EQ(TakeOnly().size(), 47u);
}

TEST_F(Ipv4FragmentTest, EmptyPieceIsDropped) {
  net_.Inject(Piece(5, 0, true, {}));
  net_.Inject(Piece(5, 8, false, {}));
  EXPECT_EQ(Drops(DropReason::kFragmentEmpty), 2u);
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 0u);
}

// Covers: rfc:IP-16
TEST_F(Ipv4FragmentTest, TinyFirstPieceAndItsOverlapDoNoHarm) {
  // Eight bytes of a transport header, then the rest: harmless.
  const ByteVector whole = Pattern(64);
  net_.Inject(Piece(5, 0, true, Part(whole, 0, 8)));
  net_.Inject(Piece(5, 8, false, Part(whole, 8, 56)));
  EXPECT_EQ(TakeOnly(), whole);
  // RFC 1858 §4: the second piece rewrites what a filter saw in the first.
  net_.Inject(Piece(6, 0, true, Part(whole, 0, 24)));
  net_.Inject(Piece(6, 8, false, Part(whole, 0, 56)));
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_EQ(Drops(DropReason::kFragmentOverlap), 2u);
}

TEST_F(Ipv4FragmentTest, OverlapEndsTheDatagram) {  // Covers: rfc:IP-13, bug:B62
  const ByteVector whole = Pattern(64);
  net_.Inject(Piece(5, 0, true, Part(whole, 0, 24)));
  net_.Inject(Piece(5, 16, true, ByteVector(24, 0xee)));
  net_.Inject(Piece(5, 40, false, Part(whole, 40, 24)));
  for (const ByteVector& frame : Datagram().Payload(whole).BuildFragments(24, 5))
    net_.Inject(frame);
  EXPECT_THAT(transport_.received, IsEmpty());
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  net_.Advance(kTimeout);
  for (const ByteVector& frame : Datagram().Payload(whole).BuildFragments(24, 5))
    net_.Inject(frame);
  EXPECT_EQ(TakeOnly(), whole);
}

TEST_F(Ipv4FragmentTest, TimeoutIsToldIfTheFirstPieceCame) {  // Covers: rfc:IP-11
  const ByteVector first = Piece(5, 0, true, Pattern(32), {.ttl = 200});
  net_.Inject(first);
  net_.Inject(Piece(5, 64, false, Pattern(8)));
  net_.Advance(kTimeout - std::chrono::milliseconds(1));
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  net_.Advance(std::chrono::milliseconds(1));
  const auto sent = net_.TakeSent();
  EXPECT_THAT(sent,
              ElementsAre(IsIpv4(SrcIs(kHost4), DstIs(kPeer4), IsIcmpv4(TypeIs(11), CodeIs(1)))));
  // RFC 1122 §3.2.2: the quote is the first piece, unchanged.
  ASSERT_EQ(sent.size(), 1u);
  const ByteVector quote(sent[0].begin() + 14 + 20 + 8, sent[0].end());
  EXPECT_EQ(quote, ByteVector(first.begin() + 14, first.end()));
  EXPECT_EQ(Drops(DropReason::kFragmentTimeout), 2u);
  EXPECT_EQ(stack_->mib().ip.reasm_timeout.value(), 1u);
  EXPECT_EQ(stack_->mib().ip.reasm_fails.value(), 1u);
  EXPECT_EQ(stack_->mib().icmp.out_time_excds.value(), 1u);
}

TEST_F(Ipv4FragmentTest, TimeoutWithoutTheFirstPieceIsSilent) {  // Covers: rfc:IP-11
  net_.Inject(Piece(5, 64, false, Pattern(8)));
  net_.Advance(kTimeout);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  EXPECT_EQ(Drops(DropReason::kFragmentTimeout), 1u);
}

TEST_F(Ipv4FragmentTest, TimeDoesNotDependOnTtlNorOnLaterPieces) {  // Covers: rfc:IP-11
  net_.Inject(Piece(5, 0, true, Pattern(32), {.ttl = 1}));
  net_.Advance(kTimeout - std::chrono::seconds(1));
  net_.Inject(Piece(5, 32, true, Pattern(32), {.ttl = 255}));
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 1u);
  net_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 0u);
  net_.TakeSent();
}

// An error about a reassembled datagram quotes a header that fits it.
TEST_F(Ipv4FragmentTest, ReassembledHeaderIsThatOfTheWholeDatagram) {
  const ByteVector whole = Pattern(100);
  const auto frames = Datagram({.protocol = kUnusedProtocol}).Payload(whole).BuildFragments(56, 7);
  for (const ByteVector& frame : frames) net_.Inject(frame);
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const ByteVector quote(sent[0].begin() + 14 + 20 + 8, sent[0].end());
  const ByteVector expected = Frame()
                                  .Ipv4({.source = kPeer4,
                                         .destination = kHost4,
                                         .id = 7,
                                         .dont_fragment = false,
                                         .protocol = kUnusedProtocol})
                                  .Payload(whole)
                                  .Build();
  EXPECT_EQ(quote, expected);
}

TEST_F(Ipv4FragmentTest, CongestionMarkOfAPieceIsKept) {  // Covers: rfc:IP-28
  const struct {
    uint8_t first, second;
    int result;  // -1: dropped
  } cases[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2},  {2, 3, 3},
               {3, 1, 3}, {3, 3, 3}, {0, 3, -1}, {3, 0, -1}};
  uint16_t id = 100;
  for (const auto& c : cases) {
    ++id;
    const auto tos = [](uint8_t ecn) { return static_cast<uint8_t>(0x20 | ecn); };
    net_.Inject(Piece(id, 0, true, Pattern(16), {.tos = tos(c.first)}));
    net_.Inject(Piece(id, 16, false, Pattern(16), {.tos = tos(c.second)}));
    if (c.result < 0) {
      EXPECT_THAT(transport_.received, IsEmpty()) << int{c.first} << int{c.second};
      continue;
    }
    ASSERT_EQ(transport_.received.size(), 1u) << int{c.first} << int{c.second};
    EXPECT_EQ(transport_.received[0].info.tos, 0x20 | c.result);
    transport_.received.clear();
  }
  EXPECT_EQ(Drops(DropReason::kFragmentEcnMix), 4u);
}

TEST_F(Ipv4FragmentTest, InterfaceThatGoesTakesNothingAlong) {
  TestDevice& other = net_.AddDevice({.name = "test1", .mac = {2, 0, 0, 0, 0, 2}});
  Interface* second = *stack_->AddInterface(other);
  ASSERT_TRUE(second->AddAddress({Ipv4Address{10, 7, 0, 1}, 24}).ok());
  const auto piece = [&](uint16_t offset, bool more) {
    return Frame()
        .Eth(kPeerMac, other.mac())
        .Ipv4({.source = kPeer4,
               .destination = kHost4,
               .id = 3,
               .dont_fragment = false,
               .more_fragments = more,
               .offset = offset,
               .protocol = kTestProtocol})
        .Payload(Pattern(16))
        .Build();
  };
  net_.InjectOn(other, piece(0, true));
  net_.Advance(std::chrono::seconds(20));
  stack_->RemoveInterface(*second);
  ByteVector rest = piece(16, false);
  std::ranges::copy(kHostMac.bytes(), rest.begin());
  net_.Inject(rest);  // comes by another way
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].info.interface, interface_);
}

TEST_F(Ipv4FragmentTest, TimeoutAfterTheInterfaceWentIsSilent) {
  TestDevice& other = net_.AddDevice({.name = "test1", .mac = {2, 0, 0, 0, 0, 2}});
  Interface* second = *stack_->AddInterface(other);
  net_.InjectOn(other, Frame()
                           .Eth(kPeerMac, other.mac())
                           .Ipv4({.source = kPeer4,
                                  .destination = kHost4,
                                  .id = 3,
                                  .dont_fragment = false,
                                  .more_fragments = true,
                                  .protocol = kTestProtocol})
                           .Payload(Pattern(16))
                           .Build());
  EXPECT_EQ(stack_->ipv4().reassembler().datagrams(), 1u);
  net_.Advance(std::chrono::seconds(20));
  stack_->RemoveInterface(*second);
  net_.Advance(kTimeout);
  EXPECT_EQ(Drops(DropReason::kFragmentTimeout), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

}  // namespace
}  // namespace tapwire
