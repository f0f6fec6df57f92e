// SPDX-License-Identifier: Apache-2.0
// UDP and what a device says about the packets it hands up: super-packets of many datagrams and
// checksums that nobody has computed, answered and sent on. The device can segment UDP itself, so
// what is left in the metadata of a sent packet is seen.
#include <memory>
#include <utility>
#include <vector>

#include "netdev/wire/ip_protocol.h"
#include "stack/sockets/udp_socket.h"
#include "stack/udp/udp.h"
#include "tests/stack/ip_test_base.h"
#include "tests/testutil/frame_view.h"

namespace tapwire {
namespace {

using testutil::Dissect;
using testutil::FrameView;
using testutil::NetHarness;
using testutil::SentFrame;
using testutil::SimpleTransportChecksum;

constexpr uint16_t kPort = 53, kPeerPort = 1000;
constexpr size_t kUdpHeader = 8;

NetHarness::Options WithUdpSegmentation() {
  NetHarness::Options options;
  options.device.features = {netdev::Feature::kSg, netdev::Feature::kHwCsum,
                             netdev::Feature::kGsoUdpL4};
  return options;
}

class UdpSuperPacketTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  UdpSuperPacketTest() : IpTestBase(WithUdpSegmentation()) { Udp::Install(*stack_); }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress host() const { return v4() ? IpAddress(kHost4) : IpAddress(kHost6); }
  IpAddress peer() const { return v4() ? IpAddress(kPeer4) : IpAddress(kPeer6); }
  size_t ip_header() const { return v4() ? 20 : 40; }
  UdpCounters& counters() { return v4() ? stack_->mib().udp : stack_->mib().udp6; }

  ByteVector Built(const ByteVector& payload, std::optional<uint16_t> checksum = {}) const {
    Frame frame = FromPeer();
    if (v4()) {
      frame.Ipv4({.source = kPeer4, .destination = kHost4});
    } else {
      frame.Ipv6({.source = kPeer6, .destination = kHost6});
    }
    return frame.Udp({.source_port = kPeerPort, .destination_port = kPort, .checksum = checksum})
        .Payload(payload)
        .Build();
  }
  // Received with the pseudo-header's sum in the checksum field, to be cut into `size` bytes each.
  void InjectUnsummed(const ByteVector& payload, uint16_t size) {
    const ByteVector nothing(payload.size() + kUdpHeader);  // zeros add nothing to the sum
    const auto pseudo = static_cast<uint16_t>(
        ~SimpleTransportChecksum(peer(), host(), wire::IpProtocol::kUdp, nothing));
    net_.device().Inject(Built(payload, pseudo), [&](Packet& packet) {
      packet.meta.csum_state = CsumState::kPartial;
      packet.meta.csum_offset = 6;
      packet.set_csum_start_in_data(static_cast<int32_t>(14 + ip_header()));
      if (size != 0) packet.meta.gso = {.type = GsoType::kUdpL4, .size = size, .segs = 0};
    });
    net_.Run();
  }
  std::unique_ptr<UdpSocket> Open() {
    auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
    EXPECT_TRUE(socket->Bind({IpAddress::Unspecified(GetParam()), kPort, 0}).ok());
    return socket;
  }
  // `payload` from our port to the peer's, in one whole datagram with a right checksum.
  void ExpectOneDatagram(const SentFrame& sent, const ByteVector& payload) const {
    EXPECT_EQ(sent.gso, GsoInfo());
    const FrameView view = Dissect(sent.bytes);
    EXPECT_EQ(view.source, host());
    EXPECT_EQ(view.destination, peer());
    EXPECT_EQ(view.source_port, kPort);
    EXPECT_EQ(view.destination_port, kPeerPort);
    EXPECT_EQ(ByteVector(view.payload.begin(), view.payload.end()), payload);
    EXPECT_EQ(view.upper.size(), kUdpHeader + payload.size());
    EXPECT_EQ(SimpleTransportChecksum(host(), peer(), wire::IpProtocol::kUdp, view.upper), 0);
  }
  // One port unreachable that quotes what a sender without offloads would have sent.
  void ExpectAnsweredOnce(const ByteVector& payload) {
    const std::vector<ByteVector> sent = net_.TakeSent();
    ASSERT_EQ(sent.size(), 1u);
    const FrameView answer = Dissect(sent[0]);
    EXPECT_EQ(answer.type, v4() ? 3 : 1);
    EXPECT_EQ(answer.code, v4() ? 3 : 4);
    ByteVector quoted = Built(payload);
    quoted.erase(quoted.begin(), quoted.begin() + 14);
    // RFC 1812 §4.3.2.3: 576 bytes in all; RFC 4443 §2.4(c): 1280.
    const size_t limit = v4() ? 576 - 28 : 1280 - 48;
    if (quoted.size() > limit) quoted.resize(limit);
    EXPECT_EQ(ByteVector(answer.payload.begin(), answer.payload.end()), quoted);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, UdpSuperPacketTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(UdpSuperPacketTest, BuffersOfItsDatagramsCanBeSentOn) {
  auto socket = Open();
  const ByteVector payload = Pattern(2500);
  InjectUnsummed(payload, 1000);
  ASSERT_EQ(socket->queued_datagrams(), 3u);
  while (std::optional<Datagram> datagram = socket->TryReceive()) {
    ASSERT_TRUE(socket->SendPacket(datagram->TakePacket(), datagram->source()).ok());
  }
  net_.Run();
  const std::vector<SentFrame> sent = net_.TakeSentFrames();
  ASSERT_EQ(sent.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const auto from = payload.begin() + static_cast<std::ptrdiff_t>(i * 1000);
    ExpectOneDatagram(sent[i], ByteVector(from, i < 2 ? from + 1000 : payload.end()));
  }
}

// Whatever a device has said of a buffer is not true of the datagram that is made of it.
TEST_P(UdpSuperPacketTest, MetadataOfReceptionIsNotSent) {
  auto socket = Open();
  const ByteVector payload = Pattern(10);
  InjectUnsummed(payload, 0);
  std::optional<Datagram> datagram = socket->TryReceive();
  ASSERT_TRUE(datagram.has_value());
  PacketPtr packet = datagram->TakePacket();
  packet->meta.gso = {.type = GsoType::kUdpL4, .size = 4, .segs = 3};
  packet->meta.vlan_present = true;
  packet->meta.csum_offset = 60000;
  ASSERT_TRUE(socket->SendPacket(std::move(packet), datagram->source()).ok());
  net_.Run();
  const std::vector<SentFrame> sent = net_.TakeSentFrames();
  ASSERT_EQ(sent.size(), 1u);
  ExpectOneDatagram(sent[0], payload);
}

// The length field decides what there is to be cut: here less than the first segment.
TEST_P(UdpSuperPacketTest, DatagramThatEndsInItsFirstSegmentIsOne) {
  auto socket = Open();
  Frame frame = FromPeer();
  if (v4()) {
    frame.Ipv4({.source = kPeer4, .destination = kHost4});
  } else {
    frame.Ipv6({.source = kPeer6, .destination = kHost6});
  }
  frame.Udp({.source_port = kPeerPort, .destination_port = kPort, .length = kUdpHeader + 4});
  net_.device().Inject(frame.Payload("abcdSURPLUSSURPLUS").Build(), [](Packet& packet) {
    packet.meta.csum_state = CsumState::kUnnecessary;
    packet.meta.gso = {.type = GsoType::kUdpL4, .size = 8, .segs = 3};
  });
  net_.Run();
  ASSERT_EQ(socket->queued_datagrams(), 1u);
  std::optional<Datagram> datagram = socket->TryReceive();
  EXPECT_EQ(datagram->size(), 4u);
  EXPECT_EQ(datagram->TakePacket()->meta.gso, GsoInfo());
}

TEST_P(UdpSuperPacketTest, ClosedPortIsAnsweredOnce) {  // Covers: rfc:ICMP-03, rfc:ICMP-04
  for (const size_t size : {size_t{30}, size_t{2500}}) {
    SCOPED_TRACE(size);
    const ByteVector payload = Pattern(size);
    const uint64_t before = Drops(DropReason::kUdpNoPort);
    InjectUnsummed(payload, static_cast<uint16_t>(size / 3));
    ExpectAnsweredOnce(payload);
    EXPECT_EQ(Drops(DropReason::kUdpNoPort), before + 1);
    EXPECT_EQ(counters().no_ports.value(), before + 1);
  }
}

TEST_P(UdpSuperPacketTest, ClosedPortIsAnsweredWithTheChecksumTheDeviceWasToMake) {
  const ByteVector payload = Pattern(31);
  InjectUnsummed(payload, 0);
  ExpectAnsweredOnce(payload);
}

}  // namespace
}  // namespace tapwire
