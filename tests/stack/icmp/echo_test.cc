// SPDX-License-Identifier: Apache-2.0
// Echo of both families: what is answered, from which address, and who gets replies.
#include "stack/icmp/echo.h"

#include <algorithm>
#include <string>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RecordingClient final : public EchoClient {
 public:
  void OnEchoReply(PacketPtr packet, const IpPacketInfo& info, uint16_t sequence) override {
    replies.push_back(BytesOf(*packet));
    sequences.push_back(sequence);
    source = info.source;
  }
  void OnEchoError(const IcmpErrorInfo& error, uint16_t sequence) override {
    errors.push_back(error.kind);
    sequences.push_back(sequence);
  }
  std::vector<ByteVector> replies;
  std::vector<IcmpErrorKind> errors;
  std::vector<uint16_t> sequences;
  IpAddress source;
};

class EchoTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress host() const { return v4() ? IpAddress(kHost4) : IpAddress(kHost6); }
  IpAddress peer() const { return v4() ? IpAddress(kPeer4) : IpAddress(kPeer6); }
  uint8_t protocol() const { return v4() ? 1 : 58; }
  IcmpCounters& counters() { return v4() ? stack_->mib().icmp : stack_->mib().icmp6; }
  EchoTable& table() { return v4() ? stack_->icmpv4().echo() : stack_->icmpv6().echo(); }

  Frame Ip(const IpAddress& source, const IpAddress& destination, uint8_t tos = 0) const {
    MacAddress mac = kHostMac;
    if (destination.IsMulticast()) mac = MulticastMac(destination);
    if (destination == IpAddress(Ipv4Address(10, 0, 0, 255))) mac = kBroadcastMac;
    Frame frame = Frame().Eth(kPeerMac, mac);
    if (v4()) {
      return frame.Ipv4({.source = source.v4(),
                         .destination = destination.v4(),
                         .tos = tos,
                         .dont_fragment = false});
    }
    return frame.Ipv6(
        {.source = source.v6(), .destination = destination.v6(), .traffic_class = tos});
  }
  Frame Echo(Frame ip, const EchoArgs& args) const {
    return v4() ? ip.Echo4(args) : ip.Echo6(args);
  }
  Frame Request(const EchoArgs& args = {.id = 0x1234, .seq = 7}) const {
    return Echo(Ip(peer(), host()), args);
  }

  // The ICMP message that was sent, fragments put together in the most naive way.
  ByteVector TakeMessage() {
    ByteVector message;
    for (const ByteVector& frame : net_.TakeSent()) {
      const FrameView view = Dissect(frame);
      EXPECT_EQ(view.source, host());
      EXPECT_EQ(view.destination, peer());
      if (message.size() < view.fragment_offset + view.upper.size()) {
        message.resize(view.fragment_offset + view.upper.size());
      }
      std::ranges::copy(view.upper, message.begin() + view.fragment_offset);
    }
    return message;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, EchoTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

// Covers: rfc:ICMP-09, rfc:IC6-4, rfc:IP-08
TEST_P(EchoTest, ReplyIsTheRequestSentBack) {
  const uint64_t reports = counters().out_msgs.value();  // of MLD, before
  net_.Inject(
      Echo(Ip(peer(), host(), 0xb8), {.id = 0x1234, .seq = 7}).Payload("ping data").Build());
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsEth(
                  EthDstIs(kPeerMac), SrcIs(host()), DstIs(peer()), TtlIs(64), TosIs(0xb8),
                  IsEchoReply(CodeIs(0), EchoIdIs(0x1234), EchoSeqIs(7), PayloadIs("ping data")))));
  EXPECT_EQ(counters().in_msgs.value(), 1u);
  EXPECT_EQ(counters().in_echos.value(), 1u);
  EXPECT_EQ(counters().out_msgs.value(), reports + 1);
  EXPECT_EQ(counters().out_echo_reps.value(), 1u);
}

TEST_P(EchoTest, CodeOfTheReplyIsZeroWhateverTheRequestHad) {
  for (const uint8_t code : {uint8_t{1}, uint8_t{4}, uint8_t{255}}) {
    net_.Inject(Request({.id = 1, .seq = 1, .code = code}).Payload("x").Build());
    EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(IsEchoReply(CodeIs(0)))));
  }
}

TEST_P(EchoTest, EverySizeUpToTheLargestIsAnswered) {  // Covers: rfc:ICMP-09, rfc:IP-09
  const size_t largest = v4() ? 65507 : 65527;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{2}, size_t{55}, size_t{1452}, size_t{1472},
                            size_t{1473}, size_t{8192}, size_t{16383}, size_t{65000}, largest}) {
    const ByteVector data = Pattern(size, 3);
    for (const ByteVector& frame : Request().Payload(data).BuildFragments(1440, 77))
      net_.Inject(frame);
    const ByteVector reply = TakeMessage();
    ASSERT_EQ(reply.size(), 8 + size);
    EXPECT_EQ(reply[0], v4() ? 0 : 129);
    EXPECT_EQ(ByteVector(reply.begin() + 4, reply.begin() + 8), Hex("12340007"));
    EXPECT_TRUE(std::ranges::equal(std::span(reply).subspan(8), data)) << size;
    const uint16_t sum =
        v4() ? SimpleChecksum(reply) : SimpleTransportChecksum(host(), peer(), 58, reply);
    EXPECT_EQ(sum, 0) << size;
  }
}

// The sum is updated, not computed: every value of it, 0 and 0xffff among them, must come out
// right.
TEST_P(EchoTest, ChecksumOfTheReplyIsRightForAnySum) {  // Covers: rfc:ICMP-09, bug:B86
  for (uint32_t i = 0; i < 600; ++i) {
    const auto id = static_cast<uint16_t>(i * 109 + (i == 0 ? 0xf7fe : 0));
    net_.Inject(Request({.id = id, .seq = static_cast<uint16_t>(0xffff - i)})
                    .Trailer(ByteVector(9, 0xa5))
                    .Build());
  }
  EXPECT_EQ(net_.TakeSent().size(), 600u);  // each was looked at by the capture checker
}

TEST_P(EchoTest, PayloadIsNotCopied) {
  SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kLarge);
  std::ranges::fill(slab.bytes(), uint8_t{0});
  const ByteVector head = Request().Payload(ByteVector(1000, 0)).Build();
  PacketPtr packet = stack_->pool().AllocatePacket(256);
  const size_t headers = head.size() - 14 - 1000;
  std::ranges::copy(std::span(head).subspan(14, headers), packet->Put(headers).begin());
  ASSERT_TRUE(packet->AddFrag(slab, 0, 1000));
  const DropReason reason = v4() ? stack_->ipv4().Input(std::move(packet), *interface_)
                                 : stack_->ipv6().Input(std::move(packet), *interface_);
  EXPECT_EQ(reason, DropReason::kNone);
  EXPECT_EQ(slab->refs, 2u);  // in the device's queue
  net_.Run();
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(IsEchoReply(PayloadSizeIs(1000)))));
}

TEST_P(EchoTest, PartialChecksumIsFinishedForTheReply) {  // Covers: rfc:ICMP-10
  ByteVector frame = Request().Payload(Pattern(33)).Build();
  const size_t icmp = v4() ? 34 : 54;
  // What a kernel leaves in the field when the device has said it would finish the sum.
  const uint16_t pseudo =
      v4() ? 0
           : static_cast<uint16_t>(~SimpleTransportChecksum(peer(), host(), 58, ByteVector()) + 41);
  frame[icmp + 2] = static_cast<uint8_t>(pseudo >> 8);
  frame[icmp + 3] = static_cast<uint8_t>(pseudo);
  net_.device().Inject(frame, [&](Packet& packet) {
    packet.meta.csum_state = CsumState::kPartial;
    packet.meta.csum_offset = 2;
    packet.set_csum_start_in_data(static_cast<int32_t>(icmp));
  });
  net_.Run();
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(IsEchoReply(PayloadIs(Pattern(33))))));
}

TEST_P(EchoTest, WrongChecksumIsDropped) {  // Covers: rfc:ICMP-10
  net_.Inject(Request({.id = 1, .seq = 1, .checksum = 0x1234}).Build());
  EXPECT_EQ(Drops(DropReason::kIcmpBadChecksum), 1u);
  EXPECT_EQ(counters().in_csum_errors.value(), 1u);
  EXPECT_EQ(counters().in_errors.value(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(EchoTest, CompleteSumOfADeviceIsUsedAndNotTrustedBlindly) {
  const auto inject = [&](bool good, uint16_t skew) {
    const ByteVector frame = Request(good ? EchoArgs{.id = 1, .seq = 1}
                                          : EchoArgs{.id = 1, .seq = 1, .checksum = 0x1234})
                                 .Payload(Pattern(9))
                                 .Build();
    net_.device().Inject(frame, [&](Packet& packet) {
      packet.meta.csum_state = CsumState::kComplete;
      packet.meta.csum_value =
          static_cast<uint16_t>(~SimpleChecksum(std::span(frame).subspan(14)) + skew);
    });
    net_.Run();
    return net_.TakeSent().size();
  };
  EXPECT_EQ(inject(true, 0), 1u);
  EXPECT_EQ(inject(true, 1), 1u);
  EXPECT_EQ(inject(false, 0), 0u);
}

TEST_P(EchoTest, TruncatedMessagesAreDropped) {  // Covers: bug:B65
  for (size_t size = 0; size < 8; ++size) {
    ByteVector message(size, 0);
    if (size > 0) message[0] = v4() ? 8 : 128;
    const uint64_t before = Drops(DropReason::kIcmpTruncated);
    if (v4()) {
      net_.Inject(FromPeer()
                      .Ipv4({.source = kPeer4, .destination = kHost4, .protocol = 1})
                      .Payload(message)
                      .Build());
    } else {
      net_.Inject(FromPeer()
                      .Ipv6({.source = kPeer6, .destination = kHost6, .next_header = 58})
                      .Payload(message)
                      .Build());
    }
    EXPECT_EQ(Drops(DropReason::kIcmpTruncated), before + 1) << size;
  }
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(EchoTest, ReplyComesFromTheAddressAsked) {  // Covers: rfc:IP-08, rfc:ICMP-09
  const IpAddress second =
      v4() ? IpAddress(Ipv4Address(10, 0, 0, 22)) : IpAddress(*Ipv6Address::Parse("fd00::22"));
  ASSERT_TRUE(interface_->AddAddress({second, v4() ? 24 : 64}).ok());
  net_.Advance(std::chrono::seconds(20));
  net_.TakeSent();
  net_.Inject(Echo(Ip(peer(), second), {}).Build());
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(SrcIs(second), DstIs(peer()), IsEchoReply())));
}

TEST_P(EchoTest, FarHostIsAnsweredThroughTheGateway) {
  const IpAddress far = v4() ? IpAddress(kFar4) : IpAddress(kFar6);
  net_.Inject(Echo(Ip(far, host()), {}).Build());
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(SrcIs(host()), DstIs(far), IsEchoReply())));
}

TEST_P(EchoTest, WithoutARouteBackThereIsNoReply) {
  const IpAddress far = v4() ? IpAddress(kFar4) : IpAddress(kFar6);
  const IpAddress router = v4() ? IpAddress(kRouter4) : IpAddress(kRouter6);
  ASSERT_TRUE(
      stack_->RemoveRoute({{IpAddress::Unspecified(GetParam()), 0}, router, interface_}).ok());
  net_.Inject(Echo(Ip(far, host()), {}).Build());
  EXPECT_EQ(Drops(DropReason::kTxNoRoute), 1u);
  EXPECT_EQ(counters().out_errors.value(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(EchoTest, ReplyReachesItsClient) {
  RecordingClient client;
  ASSERT_TRUE(table().Bind(0x1234, &client));
  EXPECT_FALSE(table().Bind(0x1234, &client));
  net_.Inject(Request({.reply = true, .id = 0x1234, .seq = 9}).Payload("pong").Build());
  EXPECT_THAT(client.replies, ElementsAre(ByteVector{'p', 'o', 'n', 'g'}));
  EXPECT_THAT(client.sequences, ElementsAre(9));
  EXPECT_EQ(client.source, peer());
  net_.Inject(Request({.reply = true, .id = 0x1235, .seq = 9}).Build());
  EXPECT_EQ(Drops(DropReason::kIcmpEchoReplyUnmatched), 1u);
  table().Unbind(0x1234);
  net_.Inject(Request({.reply = true, .id = 0x1234, .seq = 9}).Build());
  EXPECT_EQ(Drops(DropReason::kIcmpEchoReplyUnmatched), 2u);
  EXPECT_EQ(counters().in_echo_reps.value(), 3u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(EchoTest, ErrorAboutARequestReachesItsClient) {  // Covers: rfc:ICMP-08
  RecordingClient client;
  ASSERT_TRUE(table().Bind(0x1234, &client));
  const auto error = [&](const EchoArgs& quoted) {
    Frame quote = v4() ? Frame().Ipv4({.source = kHost4, .destination = kPeer4}).Echo4(quoted)
                       : Frame().Ipv6({.source = kHost6, .destination = kPeer6}).Echo6(quoted);
    Frame frame = Ip(v4() ? IpAddress(kRouter4) : IpAddress(kRouter6), host());
    return (v4() ? frame.Icmpv4({.type = 11}) : frame.Icmpv6({.type = 3}))
        .Payload(quote.Build())
        .Build();
  };
  net_.Inject(error({.id = 0x1234, .seq = 5}));
  EXPECT_THAT(client.errors, ElementsAre(IcmpErrorKind::kTtlExceeded));
  EXPECT_THAT(client.sequences, ElementsAre(5));
  net_.Inject(error({.id = 0x9999, .seq = 5}));
  net_.Inject(error({.reply = true, .id = 0x1234, .seq = 5}));  // we asked, we did not answer
  EXPECT_EQ(Drops(DropReason::kIcmpQuoteMismatch), 2u);
  table().Unbind(0x1234);
}

// ---- Groups ----

TEST_P(EchoTest, RequestToAGroup) {  // Covers: rfc:IC6-4, rfc:ICMP-09
  if (v4()) {
    // RFC 1122 §3.2.2.6: MAY be discarded; by default it is, as on Linux.
    for (const Ipv4Address& to : {Ipv4Address(224, 0, 0, 1), Ipv4Address(10, 0, 0, 255)}) {
      net_.Inject(Echo(Ip(peer(), to), {}).Build());
    }
    EXPECT_EQ(Drops(DropReason::kIcmpEchoIgnored), 2u);
    EXPECT_THAT(net_.TakeSent(), IsEmpty());
    stack_->config().icmp_echo_ignore_broadcasts = false;
    for (const Ipv4Address& to : {Ipv4Address(224, 0, 0, 1), Ipv4Address(10, 0, 0, 255)}) {
      net_.Inject(Echo(Ip(peer(), to), {}).Build());
      EXPECT_THAT(net_.TakeSent(),
                  ElementsAre(IsIpv4(SrcIs(kHost4), DstIs(kPeer4), IsEchoReply())));
    }
    return;
  }
  // RFC 4443 §4.2: answered from a unicast address; the sum covers it.
  net_.Inject(Echo(Ip(peer(), Ipv6Address::AllNodes()), {}).Payload("x").Build());
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv6(SrcIs(kHost6), DstIs(kPeer6), IsEchoReply(PayloadIs("x")))));
  net_.Inject(Echo(Ip(kPeerLinkLocal6, Ipv6Address::AllNodes()), {}).Payload("x").Build());
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv6(SrcIs(kHostLinkLocal6), DstIs(kPeerLinkLocal6), IsEchoReply())));
}

TEST_P(EchoTest, RequestFromNobodyIsDropped) {
  const IpAddress none = IpAddress::Unspecified(GetParam());
  if (v4()) {
    stack_->config().icmp_echo_ignore_broadcasts = false;
    net_.Inject(Frame()
                    .Eth(kPeerMac, kBroadcastMac)
                    .Ipv4({.source = none.v4(), .destination = {255, 255, 255, 255}})
                    .Echo4({})
                    .Build());
  } else {
    net_.Inject(Echo(Ip(none, Ipv6Address::AllNodes()), {}).Build());
  }
  EXPECT_EQ(Drops(DropReason::kIcmpBadSource), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(EchoTest, LinkLocalRequestIsAnsweredOnItsLink) {
  if (v4()) return;
  net_.Inject(Echo(Ip(kPeerLinkLocal6, kHostLinkLocal6), {}).Build());
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv6(SrcIs(kHostLinkLocal6), DstIs(kPeerLinkLocal6), IsEchoReply())));
}

// Deviation: RFC 1122 §3.2.2.6 wants the reversed route.
TEST_P(EchoTest, SourceRoutedRequestIsRefused) {
  if (!v4()) return;
  net_.Inject(
      FromPeer()
          .Ipv4({.source = kPeer4, .destination = kHost4, .options = {131, 7, 8, 10, 0, 0, 9, 0}})
          .Echo4({})
          .Build());
  EXPECT_EQ(Drops(DropReason::kIpv4SourceRoute), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

}  // namespace
}  // namespace tapwire
