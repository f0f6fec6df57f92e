// SPDX-License-Identifier: Apache-2.0
// What IPv4 does on the way and IPv6 does not: fragments, options, the header checksum, broadcasts.
#include <map>

#include "tests/stack/router_fixture.h"

namespace tapwire {
namespace {

using netdev::Feature;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Ipv4ForwardTest : public RouterTest {
 protected:
  static Frame Transit(testutil::Ipv4Args args = {}) {
    if (args.source == Ipv4Address()) args.source = kLeftHost4;
    if (args.destination == Ipv4Address()) args.destination = kRightHost4;
    return FromLeft().Ipv4(args);
  }
  static ByteVector UdpFrame(size_t size, testutil::Ipv4Args args = {}) {
    return Transit(std::move(args))
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(Pattern(size))
        .Build();
  }
  // The bytes behind the IP header of `frame`.
  static ByteVector Behind(const ByteVector& frame) {
    const size_t header = size_t{4} * (frame[14] & 0x0f);
    return {frame.begin() + static_cast<ptrdiff_t>(14 + header), frame.end()};
  }
  // Puts fragments together by the simplest means; empty if a byte is missing or comes twice.
  static ByteVector Join(const std::vector<ByteVector>& frames, size_t first_offset = 0) {
    std::map<size_t, ByteVector> pieces;
    for (const ByteVector& frame : frames) {
      const size_t offset = size_t{8} * (LoadBe16(&frame[20]) & 0x1fff);
      if (!pieces.emplace(offset, Behind(frame)).second) return {};
    }
    ByteVector whole;
    for (const auto& [offset, bytes] : pieces) {
      if (offset != first_offset + whole.size()) return {};
      whole.insert(whole.end(), bytes.begin(), bytes.end());
    }
    return whole;
  }
  static bool HeaderSumOk(const ByteVector& frame) {
    return testutil::SimpleChecksum(std::span(frame).subspan(14, size_t{4} * (frame[14] & 0x0f))) ==
           0;
  }
  FrameView TheError() {
    error_ = TakeLeft();
    EXPECT_EQ(error_.size(), 1u);
    return error_.empty() ? FrameView() : Dissect(error_[0]);
  }

 private:
  std::vector<ByteVector> error_;
};

// ---- Size ----

// RFC 1191 §4: with the MTU of the next hop, and never 0.
TEST_F(Ipv4ForwardTest, DatagramThatMustNotBeCutIsReportedWithTheMtu) {  // Covers: bug:B69
  Make({.right_mtu = 1400});
  const ByteVector frame = UdpFrame(1400 - 28 + 1, {.dont_fragment = true});
  ExpectRefused(frame, DropReason::kIpv4FragmentationNeeded);
  const FrameView error = TheError();
  EXPECT_EQ(error.source, IpAddress(kLeft4));
  EXPECT_EQ(error.type, 3);
  EXPECT_EQ(error.code, 4);
  EXPECT_EQ(error.rest, 1400u);
  // As received, as much as fits 576 bytes (RFC 1812 §4.3.2.3).
  EXPECT_EQ(ByteVector(error.payload.begin(), error.payload.end()),
            ByteVector(frame.begin() + 14, frame.begin() + 14 + 548));
  EXPECT_EQ(stack->mib().ip.frag_fails.value(), 1u);
  Inject(UdpFrame(1400 - 28, {.dont_fragment = true}));
  EXPECT_EQ(TakeRight().size(), 1u);
}

// Covers: netdev:W-02
TEST_F(Ipv4ForwardTest, SuperPacketThatMustNotBeCutIsReportedWithTheMtu) {
  Make({.right_mtu = 1400});
  Inject(TcpFrame(true, Pattern(4344), /*dont_fragment=*/true), Merged(true, 1448));
  EXPECT_THAT(TakeRight(), IsEmpty());
  const FrameView error = TheError();
  EXPECT_EQ(error.type, 3);
  EXPECT_EQ(error.code, 4);
  EXPECT_EQ(error.rest, 1400u);
  EXPECT_EQ(Drops(DropReason::kIpv4FragmentationNeeded), 1u);
}

// Each segment is the datagram its sender made, identification and all, before it is cut.
TEST_F(Ipv4ForwardTest,
       SuperPacketIsSegmentedAndThenEachSegmentFragmented) {  // Covers: netdev:W-03
  // What the device could do is of no use to fragments.
  Make({.right_mtu = 1400, .right_features = {Feature::kSg, Feature::kHwCsum, Feature::kTso}});
  const ByteVector data = Pattern(4344);
  Inject(TcpFrame(true, data, /*dont_fragment=*/false, /*id=*/7), Merged(true, 1448));
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 6u);
  std::map<uint16_t, std::vector<ByteVector>> by_id;
  for (const ByteVector& frame : sent) {
    EXPECT_LE(frame.size(), 14u + 1400);
    EXPECT_TRUE(HeaderSumOk(frame));
    EXPECT_EQ(Dissect(frame).ttl, 63);
    EXPECT_FALSE(Dissect(frame).dont_fragment);
    by_id[LoadBe16(&frame[18])].push_back(frame);
  }
  ASSERT_EQ(by_id.size(), 3u);
  size_t at = 0;
  for (uint16_t id = 7; id <= 9; ++id) {
    const ByteVector segment = Join(by_id[id]);
    ASSERT_EQ(segment.size(), 20u + 1448) << id;
    EXPECT_EQ(LoadBe32(&segment[4]), 100'000 + at);
    EXPECT_EQ(testutil::SimpleTransportChecksum(kLeftHost4, kRightHost4, 6, segment), 0);
    EXPECT_EQ(ByteVector(segment.begin() + 20, segment.end()),
              ByteVector(data.begin() + static_cast<ptrdiff_t>(at),
                         data.begin() + static_cast<ptrdiff_t>(at + 1448)));
    at += 1448;
  }
  EXPECT_THAT(TakeLeft(), IsEmpty());
  EXPECT_EQ(stack->mib().ip.forw_datagrams.value(), 1u);
  EXPECT_EQ(stack->mib().ip.frag_oks.value(), 3u);
  EXPECT_EQ(stack->mib().ip.frag_creates.value(), 6u);
}

TEST_F(Ipv4ForwardTest, LastSegmentThatFitsStaysWhole) {
  Make({.right_mtu = 1400});
  Inject(TcpFrame(true, Pattern(1448 + 100), /*dont_fragment=*/false), Merged(true, 1448));
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_FALSE(Dissect(sent[2]).is_fragment);
  EXPECT_EQ(Dissect(sent[2]).payload.size(), 100u);
}

TEST_F(Ipv4ForwardTest, SuperPacketWithHeadersThatMakeNoSenseIsDropped) {
  Make({.right_mtu = 1400});
  ByteVector frame = TcpFrame(true, Pattern(4344), /*dont_fragment=*/false);
  Inject(frame, [](Packet& packet) {
    Merged(true, 1448)(packet);
    packet.meta.csum_offset = 6;  // not TCP's
  });
  EXPECT_THAT(TakeRight(), IsEmpty());
  EXPECT_EQ(stack->mib().ip.frag_fails.value(), 1u);
  EXPECT_EQ(stack->drops().total(), 1u);
}

// RFC 791 §3.2.
TEST_F(Ipv4ForwardTest, DatagramIsFragmentedForTheNextLink) {
  Make({.right_mtu = 576});
  const ByteVector frame = UdpFrame(1500, {.id = 0x1234, .dont_fragment = false});
  Inject(frame);
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(Join(sent), Behind(frame));
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_LE(sent[i].size(), 14u + 576);
    EXPECT_TRUE(HeaderSumOk(sent[i]));
    EXPECT_EQ(Dissect(sent[i]).id, 0x1234u);
    EXPECT_EQ(Dissect(sent[i]).more_fragments, i + 1 < sent.size());
  }
  EXPECT_EQ(stack->mib().ip.frag_oks.value(), 1u);
  EXPECT_EQ(stack->mib().ip.frag_creates.value(), 3u);
}

// A sum that a device was to make covers bytes that now travel apart.
TEST_F(Ipv4ForwardTest, ChecksumIsCompletedBeforeTheDatagramIsCut) {
  Make({.right_mtu = 576, .right_features = {Feature::kSg, Feature::kHwCsum}});
  Inject(TcpFrame(true, Pattern(1400), /*dont_fragment=*/false), [](Packet& packet) {
    packet.meta.csum_state = CsumState::kPartial;
    packet.set_csum_start_in_data(34);
    packet.meta.csum_offset = 16;
  });
  const ByteVector segment = Join(TakeRight());
  ASSERT_EQ(segment.size(), 1420u);
  EXPECT_EQ(testutil::SimpleTransportChecksum(kLeftHost4, kRightHost4, 6, segment), 0);
}

// A fragment is cut again without a look at the others.
TEST_F(Ipv4ForwardTest, FragmentIsCutAgain) {
  Make({.right_mtu = 576});
  const ByteVector frame = UdpFrame(2000, {.dont_fragment = false});
  const std::vector<ByteVector> fragments = Transit({.dont_fragment = false})
                                                .Udp({.source_port = 1, .destination_port = 2})
                                                .Payload(Pattern(2000))
                                                .BuildFragments(1000, 77);
  ASSERT_EQ(fragments.size(), 3u);
  std::vector<ByteVector> sent;
  for (const ByteVector& fragment : fragments) {
    Inject(fragment);
    for (ByteVector& piece : TakeRight()) sent.push_back(std::move(piece));
  }
  EXPECT_EQ(sent.size(), 5u);
  EXPECT_EQ(Join(sent), Behind(frame));
  size_t last = 0;
  for (const ByteVector& piece : sent) last += Dissect(piece).more_fragments ? 0 : 1;
  EXPECT_EQ(last, 1u);
  EXPECT_EQ(stack->mib().ip.reasm_reqds.value(), 0u);
}

// RFC 1812 §4.3.2.7: about the first fragment only.
TEST_F(Ipv4ForwardTest, NoErrorAboutLaterFragments) {
  Make();
  ExpectRefusedInSilence(Transit({.ttl = 1, .dont_fragment = false, .offset = 1480, .protocol = 17})
                             .Payload(Pattern(20))
                             .Build(),
                         DropReason::kIpv4TtlExceeded);
}

// ---- Options ----

TEST_F(Ipv4ForwardTest, OptionsTravelAlong) {  // Covers: bug:B68
  Make();
  // No-operations, one that nobody knows, and an end of list.
  const ByteVector options = testutil::Hex("01 01 5e 06 aa bb cc dd 00 00 00 00");
  Inject(UdpFrame(16, {.options = options}));
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0][14], 0x48);
  EXPECT_EQ(ByteVector(sent[0].begin() + 34, sent[0].begin() + 46), options);
  EXPECT_TRUE(HeaderSumOk(sent[0]));
}

TEST_F(Ipv4ForwardTest, BadHeaderLengthsAndOptionsDoNotPass) {  // Covers: bug:B68
  Make();
  for (const uint8_t ihl : ByteVector{0, 1, 2, 3, 4}) {
    ExpectRefusedInSilence(UdpFrame(40, {.ihl = ihl}), DropReason::kIpv4BadHeaderLength);
  }
  // Fifteen words, the last option longer than what is left.
  ByteVector options(40, 1);
  options[38] = 0x5e;
  options[39] = 3;
  ExpectRefused(UdpFrame(16, {.options = options}), DropReason::kIpv4BadOptions);
  const FrameView error = TheError();
  EXPECT_EQ(error.type, 12);
  EXPECT_EQ(error.rest >> 24, 20u + 38);
}

// RFC 7126 §4.3.
TEST_F(Ipv4ForwardTest, SourceRoutesAreRefused) {
  Make();
  for (const char* route : {"83 07 04 0a 02 00 09 00", "89 07 04 0a 02 00 09 00"}) {
    ExpectRefusedInSilence(UdpFrame(16, {.options = testutil::Hex(route)}),
                           DropReason::kIpv4SourceRoute);
  }
}

// RFC 1812 §5.3.13.3: the address of the interface it leaves by.
TEST_F(Ipv4ForwardTest, RecordedRouteGetsOurAddress) {
  Make();
  struct Case {
    const char* before;
    const char* after;
  };
  const Case cases[] = {
      {"07 0b 04 00000000 00000000 00", "07 0b 08 0a020001 00000000 00"},
      {"07 0b 08 0a090909 00000000 00", "07 0b 0c 0a090909 0a020001 00"},
      {"07 0b 0c 0a090909 0a080808 00", "07 0b 0c 0a090909 0a080808 00"},  // full
      {"07 0b ff 0a090909 0a080808 00", "07 0b ff 0a090909 0a080808 00"},
      {"01 07 07 04 00000000", "01 07 07 08 0a020001"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.before);
    Inject(UdpFrame(16, {.options = testutil::Hex(c.before)}));
    const std::vector<ByteVector> sent = TakeRight();
    ASSERT_EQ(sent.size(), 1u);
    const ByteVector after = testutil::Hex(c.after);
    EXPECT_EQ(ByteVector(sent[0].begin() + 34,
                         sent[0].begin() + 34 + static_cast<ptrdiff_t>(after.size())),
              after);
    EXPECT_TRUE(HeaderSumOk(sent[0]));
  }
}

// RFC 1812 §5.3.13.4, RFC 791 §3.1.
TEST_F(Ipv4ForwardTest, TimestampListIsServed) {
  Make();
  const auto after = [&](const char* before) {
    Inject(UdpFrame(16, {.options = testutil::Hex(before)}));
    const std::vector<ByteVector> sent = TakeRight();
    EXPECT_EQ(sent.size(), 1u);
    if (sent.size() != 1) return ByteVector(40);
    EXPECT_TRUE(HeaderSumOk(sent[0]));
    return ByteVector(sent[0].begin() + 34, sent[0].begin() + 14 + 4 * (sent[0][14] & 0x0f));
  };
  // Times only.
  ByteVector list = after("44 0c 05 00 00000000 00000000");
  EXPECT_EQ(list[2], 9);
  EXPECT_GE(list[4], 0x80);  // not counted from midnight
  EXPECT_EQ(LoadBe32(&list[8]), 0u);
  // With addresses.
  list = after("44 0c 05 01 00000000 00000000");
  EXPECT_EQ(list[2], 13);
  EXPECT_EQ(LoadBe32(&list[4]), 0x0a020001u);
  EXPECT_GE(list[8], 0x80);
  // Of certain hosts: the next is us, or it is not.
  list = after("44 0c 05 03 0a020001 00000000");
  EXPECT_EQ(list[2], 13);
  EXPECT_GE(list[8], 0x80);
  EXPECT_EQ(after("44 0c 05 03 0a090909 00000000"), testutil::Hex("44 0c 05 03 0a090909 00000000"));
  // Full: counted, up to fifteen.
  EXPECT_EQ(after("44 08 09 00 80000001"), testutil::Hex("44 08 09 10 80000001"));
  EXPECT_EQ(after("44 08 09 f0 80000001"), testutil::Hex("44 08 09 f0 80000001"));
}

// RFC 791 §3.1: only options with the copied flag go into every fragment.
TEST_F(Ipv4ForwardTest, OptionsThatAreNotCopiedStayInTheFirstFragment) {
  Make({.right_mtu = 576});
  const ByteVector options = testutil::Hex("94 04 00 00 5e 04 ab cd");  // router alert is copied
  const ByteVector frame = UdpFrame(1000, {.dont_fragment = false, .options = options});
  Inject(frame);
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(ByteVector(sent[0].begin() + 34, sent[0].begin() + 42), options);
  EXPECT_EQ(ByteVector(sent[1].begin() + 34, sent[1].begin() + 42),
            testutil::Hex("94 04 00 00 01 01 01 01"));
  EXPECT_EQ(Join(sent), Behind(frame));
  for (const ByteVector& fragment : sent) EXPECT_TRUE(HeaderSumOk(fragment));
}

// ---- Addresses ----

TEST_F(Ipv4ForwardTest, BroadcastsOfOtherLinksAreNotForwarded) {  // RFC 2644 §2
  Make();
  for (const Ipv4Address to : {Ipv4Address(10, 2, 0, 255), Ipv4Address(10, 2, 0, 0)}) {
    ExpectRefusedInSilence(UdpFrame(16, {.destination = to}), DropReason::kIpv4DirectedBroadcast);
  }
  Inject(UdpFrame(16, {.destination = Ipv4Address(255, 255, 255, 255)}));
  EXPECT_THAT(TakeRight(), IsEmpty());
}

TEST_F(Ipv4ForwardTest, LinkLocalAddressesStayOnTheirLink) {  // RFC 3927 §7
  Make();
  ExpectRefusedInSilence(UdpFrame(16, {.source = Ipv4Address(169, 254, 1, 2)}),
                         DropReason::kIpv4LinkLocalForward);
  ExpectRefusedInSilence(UdpFrame(16, {.destination = Ipv4Address(169, 254, 1, 2)}),
                         DropReason::kIpv4LinkLocalForward);
}

// ---- Damaged packets ----

TEST_F(Ipv4ForwardTest, DamagedHeadersDoNotPass) {
  Make();
  ByteVector frame = UdpFrame(16);
  frame[14 + 8] ^= 1;
  ExpectRefusedInSilence(frame, DropReason::kIpv4BadChecksum);
  ExpectRefusedInSilence(UdpFrame(16, {.total_length = 19}), DropReason::kIpv4BadTotalLength);
  ExpectRefusedInSilence(UdpFrame(16, {.total_length = 45}), DropReason::kIpv4BadTotalLength);
  ExpectRefusedInSilence(UdpFrame(16, {.version = 6}), DropReason::kIpv4BadVersion);
}

// RFC 894: it belonged to the link.
TEST_F(Ipv4ForwardTest, LinkPaddingIsNotForwarded) {
  Make();
  Inject(Transit({.protocol = 99}).Payload("x").Pad().Build());
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].size(), 14u + 21);
}

// Whatever its bytes are: nothing crashes, and what leaves has a good header and fits.
TEST_F(Ipv4ForwardTest, RandomDamageIsSurvived) {
  Make({.right_mtu = 600, .ignored_rules = MistakesOfOthers()});
  net->AllowArmedTimers();
  SeededRandom random(3);
  const ByteVector good =
      UdpFrame(700, {.dont_fragment = false, .options = testutil::Hex("07 07 04 00000000 00")});
  for (int i = 0; i < 3000; ++i) {
    ByteVector frame = good;
    for (int n = 0; n < 3; ++n) {
      frame[14 + random.Next32() % 28] = static_cast<uint8_t>(random.Next32());
    }
    StoreBe16(&frame[24], 0);
    const size_t header = std::max<size_t>(20, size_t{4} * (frame[14] & 0x0f));
    StoreBe16(&frame[24], testutil::SimpleChecksum(std::span(frame).subspan(14, header)));
    if (frame[14] >> 4 != 4 || frame[14 + 9] != 17) continue;
    Inject(frame);
    for (const ByteVector& sent : TakeRight()) {
      if (LoadBe16(&sent[12]) != 0x0800) continue;
      EXPECT_LE(sent.size(), 614u);
      EXPECT_TRUE(HeaderSumOk(sent));
    }
    TakeLeft();
  }
}

}  // namespace
}  // namespace tapwire
