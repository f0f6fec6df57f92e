// SPDX-License-Identifier: Apache-2.0
// The echo service between two stacks in one process.

#include "apps/udp_echo.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::apps {
namespace {

using testutil::Pattern;

constexpr uint16_t kPort = 7;

class UdpEchoTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  UdpEchoTest() : context_({&clock_, &random_}) {
    StackConfig config;
    config.duplicate_address_detection = false;
    auto pair = netdev::CreateVethPair(context_, {});
    EXPECT_TRUE(pair.ok()) << pair.status();
    server_stack_ = MakeHost(*pair->first, 1, config);
    client_stack_ = MakeHost(*pair->second, 2, config);
    tap_ = std::make_unique<testutil::CheckerTap>(checker_, *pair->first);
    auto echo = UdpEcho::Start(*server_stack_, kPort);
    EXPECT_TRUE(echo.ok()) << echo.status();
    echo_ = *std::move(echo);
    auto client = UdpSocket::Create(*client_stack_, {.family = GetParam()});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    Run();
  }
  ~UdpEchoTest() override {
    tap_.reset();
    client_.reset();
    echo_.reset();
    client_stack_.reset();
    server_stack_.reset();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_TRUE(checker_.report().clean()) << checker_.report().ToString();
  }

  // 10.0.0.HOST and fd00::HOST.
  static IpAddress AddressOf(uint8_t host, IpFamily family) {
    if (family == IpFamily::kV4) return Ipv4Address(10, 0, 0, host);
    return Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, host});
  }
  Endpoint server(uint16_t port = kPort) const { return {AddressOf(1, GetParam()), port, 0}; }

  std::unique_ptr<Stack> MakeHost(netdev::NetDevice& device, uint8_t host,
                                  const StackConfig& config) {
    auto stack = std::make_unique<Stack>(context_, config);
    Interface* interface = *stack->AddInterface(device);
    EXPECT_TRUE(device.Up().ok());
    EXPECT_TRUE(interface->AddAddress({AddressOf(host, IpFamily::kV4), 24}).ok());
    EXPECT_TRUE(interface->AddAddress({AddressOf(host, IpFamily::kV6), 64}).ok());
    return stack;
  }
  void Run() {
    while (context_.RunOnce()) {
    }
  }

  FakeClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  capture::CaptureChecker checker_;
  std::unique_ptr<Stack> server_stack_, client_stack_;
  std::unique_ptr<testutil::CheckerTap> tap_;
  std::unique_ptr<UdpEcho> echo_;
  std::unique_ptr<UdpSocket> client_;
};

INSTANTIATE_TEST_SUITE_P(Families, UdpEchoTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(UdpEchoTest, SendsBackWhatItGetsAndCountsIt) {
  uint64_t datagrams = 0;
  uint64_t bytes = 0;
  for (const size_t size : std::initializer_list<size_t>{0, 1, 1472, 1473, 65'507}) {
    const std::vector<uint8_t> data = Pattern(size);
    ASSERT_TRUE(client_->Send(data, server()).ok());
    Run();
    const std::optional<Datagram> back = client_->TryReceive();
    ASSERT_TRUE(back.has_value()) << size;
    EXPECT_EQ(back->source(), server());
    std::vector<uint8_t> got(back->size());
    back->CopyTo(got);
    EXPECT_EQ(got, data);
    EXPECT_EQ(echo_->datagrams(), ++datagrams);
    EXPECT_EQ(echo_->bytes(), bytes += size);
  }
  EXPECT_EQ(echo_->send_errors(), 0u);
}

// RFC 1122 §4.1.3.5: from the address that was asked, which need not be the first of the host.
TEST_P(UdpEchoTest, AnswersFromTheAddressThatWasAsked) {
  const IpAddress second = AddressOf(9, GetParam());
  Interface& interface = *server_stack_->interfaces().back();
  ASSERT_TRUE(interface.AddAddress({second, GetParam() == IpFamily::kV4 ? 24 : 64}).ok());
  ASSERT_TRUE(client_->Send(Pattern(5), Endpoint{second, kPort, 0}).ok());
  Run();
  const std::optional<Datagram> back = client_->TryReceive();
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->source(), (Endpoint{second, kPort, 0}));
}

// Two echo services that talk to each other would never stop.
TEST_P(UdpEchoTest, AnotherEchoServiceGetsNoAnswer) {
  auto loop = UdpSocket::Create(*client_stack_, {.family = GetParam()});
  ASSERT_TRUE(loop.ok());
  ASSERT_TRUE((*loop)->Bind({IpAddress::Unspecified(GetParam()), kPort, 0}).ok());
  ASSERT_TRUE((*loop)->Send(Pattern(5), server()).ok());
  Run();
  EXPECT_FALSE((*loop)->TryReceive().has_value());
  EXPECT_EQ(echo_->datagrams(), 0u);
}

TEST_P(UdpEchoTest, PortThatIsTakenIsAnError) {
  EXPECT_EQ(UdpEcho::Start(*server_stack_, kPort).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(UdpEcho::Start(*server_stack_, kPort + 1).ok());
}

TEST_P(UdpEchoTest, PortIsFreeAfterTheEnd) {
  echo_.reset();
  EXPECT_TRUE(UdpEcho::Start(*server_stack_, kPort).ok());
}

}  // namespace
}  // namespace tapwire::apps
