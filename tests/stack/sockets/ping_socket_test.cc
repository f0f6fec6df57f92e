// SPDX-License-Identifier: Apache-2.0
// What becomes of echo replies that a PingSocket does not hand on. The rest of its contract stands
// in udp_socket_test.cc, beside that of UdpSocket.
#include "stack/sockets/ping_socket.h"

#include <memory>
#include <utility>
#include <vector>

#include "netdev/wire/ip_protocol.h"
#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

constexpr size_t kMostQueued = 4096;

class PingSocketTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  PingSocketTest() : socket_(*PingSocket::Create(*stack_, GetParam())) {}
  ~PingSocketTest() override { socket_.reset(); }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  Frame Reply(Frame frame, uint16_t sequence) const {
    if (v4()) {
      return frame.Ipv4({.source = kPeer4, .destination = kHost4})
          .Echo4({.reply = true, .id = socket_->identifier(), .seq = sequence});
    }
    return frame.Ipv6({.source = kPeer6, .destination = kHost6})
        .Echo6({.reply = true, .id = socket_->identifier(), .seq = sequence});
  }
  // As IP delivers it, without a batch of the context around it: no callback has run yet.
  void Deliver(uint16_t sequence) {
    const ByteVector bytes = Reply(Frame(), sequence).Build();
    PacketPtr packet = PacketFromBytes(stack_->pool(), bytes);
    ASSERT_NE(packet, nullptr);
    packet->set_l3_here();
    packet->Pull(v4() ? 20 : 40);
    const IpPacketInfo info{.source = v4() ? IpAddress(kPeer4) : IpAddress(kPeer6),
                            .destination = v4() ? IpAddress(kHost4) : IpAddress(kHost6),
                            .protocol = v4() ? wire::IpProtocol::kIcmp : wire::IpProtocol::kIcmpv6,
                            .ttl = 64,
                            .interface = interface_};
    EXPECT_EQ(stack_->DeliverTransport(std::move(packet), info), DropReason::kNone);
  }

  std::unique_ptr<PingSocket> socket_;
};

INSTANTIATE_TEST_SUITE_P(Families, PingSocketTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(PingSocketTest, RepliesBeyondTheQueueAreCounted) {
  std::vector<uint16_t> heard;
  socket_->SetReplyCallback([&](EchoReply reply) { heard.push_back(reply.sequence); });
  for (size_t i = 0; i < kMostQueued; ++i) Deliver(static_cast<uint16_t>(i));
  EXPECT_EQ(Drops(DropReason::kPingQueueFull), 0u);
  Deliver(5000);
  Deliver(5001);
  EXPECT_EQ(Drops(DropReason::kPingQueueFull), 2u);
  net_.Run();
  ASSERT_EQ(heard.size(), kMostQueued);
  EXPECT_EQ(heard.back(), kMostQueued - 1);  // those that came first are kept
  // The callbacks have made room.
  Deliver(5002);
  net_.Run();
  EXPECT_EQ(heard.size(), kMostQueued + 1);
  EXPECT_EQ(heard.back(), 5002);
  EXPECT_EQ(Drops(DropReason::kPingQueueFull), 2u);
  EXPECT_EQ(stack_->drops().total(), 2u);  // each once, and under no other name
}

TEST_P(PingSocketTest, RepliesThatNobodyListensToAreCounted) {
  net_.Inject(Reply(FromPeer(), 1).Payload("x").Build());
  EXPECT_EQ(Drops(DropReason::kIcmpEchoReplyUnmatched), 1u);
  int heard = 0;
  socket_->SetReplyCallback([&](EchoReply) { ++heard; });
  net_.Inject(Reply(FromPeer(), 2).Payload("x").Build());
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(stack_->drops().total(), 1u);
}

}  // namespace
}  // namespace tapwire
