// SPDX-License-Identifier: Apache-2.0
// The kernel as a router: the stack reaches a second network through it, whose link is narrower.
//
//   [stack] 10.9.0.2 ---- tw0 [kernel, forwarding] near 10.10.0.1 ---- far 10.10.0.2 [other
//   namespace]
//                                       MTU 1400

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/path_mtu.h"
#include "stack/sockets/udp_socket.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testutil::Pattern;

constexpr uint32_t kNarrowMtu = 1400;
constexpr Ipv4Address kFar4{10, 10, 0, 2};
constexpr Ipv6Address kFar6 = Ipv6Address::FromGroups({0xfd00, 0x10, 0, 0, 0, 0, 0, 2});

IpAddress FarAddress(IpFamily family) {
  return family == IpFamily::kV4 ? IpAddress(kFar4) : IpAddress(kFar6);
}
size_t IpAndUdpHeaders(IpFamily family) { return family == IpFamily::kV4 ? 28 : 48; }

class InteropRoutingTest : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto lab = Lab::Create({.node = tun_node()});
    ASSERT_TRUE(lab.ok()) << lab.status();
    lab_ = *std::move(lab);
    far_ = std::make_unique<OtherNetns>();
    ASSERT_NO_FATAL_FAILURE(BuildFarNetwork());
    ASSERT_NO_FATAL_FAILURE(WaitForFarNetwork());
    for (const IpFamily family : kFamilies) {
      const RouteEntry entry{.prefix = {IpAddress::Unspecified(family), 0},
                             .gateway = KernelAddress(family)};
      ASSERT_TRUE(lab_->stack().AddRoute(entry).ok());
      far_->Inside([&] { servers_.emplace_back(family, kEchoPort); });
    }
  }

  void TearDown() override {
    if (lab_ != nullptr) ExpectClean(*lab_);
    servers_.clear();
    lab_.reset();
    NetnsFixture::TearDown();
  }

  void BuildFarNetwork() {
    Sysctl("ipv4/ip_forward", "1");
    Sysctl("ipv6/conf/all/forwarding", "1");
    ASSERT_TRUE(IpBatch({"link add near type veth peer name far",
                         absl::StrCat("link set near mtu ", kNarrowMtu),
                         "addr add 10.10.0.1/24 dev near", "addr add fd00:10::1/64 dev near nodad",
                         "link set near up", absl::StrCat("link set far netns ", far_->path())})
                    .ok());
    far_->Inside([] {
      const absl::Status far =
          IpBatch({absl::StrCat("link set far mtu ", kNarrowMtu), "addr add 10.10.0.2/24 dev far",
                   "addr add fd00:10::2/64 dev far nodad", "link set far up",
                   "route add default via 10.10.0.1", "route add default via fd00:10::1"});
      ASSERT_TRUE(far.ok()) << far;
    });
  }

  // A new link takes the kernel a moment.
  void WaitForFarNetwork() {
    for (const IpFamily family : kFamilies) {
      const testutil::CommandResult ping =
          Run({"ping", "-n", "-c1", "-w10", "-i0.05", FarAddress(family).ToString()});
      ASSERT_EQ(ping.exit_code, 0) << ping.output;
    }
  }

  KernelUdp& server(IpFamily family) { return servers_[family == IpFamily::kV4 ? 0 : 1]; }

  // Sends and waits for the echo from afar; false if none came.
  bool EchoFromAfar(UdpSocket& socket, IpFamily family, size_t size, Duration limit) {
    const ByteVector data = Pattern(size);
    const absl::Status sent = socket.Send(data, Endpoint{FarAddress(family), kEchoPort, 0});
    EXPECT_TRUE(sent.ok()) << sent;
    std::optional<Datagram> reply;
    lab_->RunUntil(
        [&] {
          server(family).Echo();
          return (reply = socket.TryReceive()).has_value();
        },
        limit);
    return reply.has_value() && BytesOf(*reply->TakePacket()) == data;
  }
  std::unique_ptr<Lab> lab_;
  std::unique_ptr<OtherNetns> far_;
  std::vector<KernelUdp> servers_;
};

TEST_F(InteropRoutingTest, RouterSaysThatTheTtlIsExceeded) {
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(FarAddress(family).ToString());
    const PingResult short_lived = PingOnce(
        *lab_, {.destination = FarAddress(family), .sequence = 7, .data = Pattern(32), .ttl = 1});
    ASSERT_TRUE(short_lived.error.has_value());
    EXPECT_EQ(short_lived.error->kind, IcmpErrorKind::kTtlExceeded);
    EXPECT_EQ(short_lived.error->reporter, KernelAddress(family));
    EXPECT_EQ(short_lived.error->destination, FarAddress(family));
    EXPECT_EQ(short_lived.error->sequence, 7);

    const PingResult long_lived = PingOnce(
        *lab_, {.destination = FarAddress(family), .sequence = 8, .data = Pattern(32), .ttl = 2});
    ASSERT_TRUE(long_lived.reply.has_value());
    EXPECT_EQ(long_lived.reply->source, FarAddress(family));
    EXPECT_EQ(long_lived.reply->ttl, 63);  // one router on the way
  }
}

TEST_F(InteropRoutingTest, UdpSocketHearsThatTheTtlIsExceeded) {
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(FarAddress(family).ToString());
    auto socket = UdpSocket::Create(lab_->stack(), {.family = family, .ttl = 1});
    ASSERT_TRUE(socket.ok());
    absl::Status error;
    (*socket)->SetErrorCallback(
        [&](const absl::Status& status, const Endpoint&) { error = status; });
    const Endpoint far{FarAddress(family), kEchoPort, 0};
    ASSERT_TRUE((*socket)->Send(Pattern(32), far).ok());
    EXPECT_TRUE(lab_->RunUntil([&] { return !error.ok(); }));
    EXPECT_EQ(StatusToErrno(error), EHOSTUNREACH) << error;
  }
}

// RFC 1191 §3, RFC 8201 §4: by a sender that does not let its datagrams be cut.
TEST_F(InteropRoutingTest, PathMtuIsLearnedFromTheRouter) {
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(FarAddress(family).ToString());
    auto socket = UdpSocket::Create(lab_->stack(), {.family = family, .dont_fragment = true});
    ASSERT_TRUE(socket.ok());
    absl::Status error;
    (*socket)->SetErrorCallback(
        [&](const absl::Status& status, const Endpoint&) { error = status; });
    const size_t headers = IpAndUdpHeaders(family);
    const Endpoint far{FarAddress(family), kEchoPort, 0};
    ASSERT_TRUE((*socket)->Send(Pattern(1500 - headers), far).ok());
    ASSERT_TRUE(lab_->RunUntil([&] { return !error.ok(); }));
    EXPECT_EQ(StatusToErrno(error), EMSGSIZE) << error;
    EXPECT_EQ(lab_->stack().path_mtu().Get(FarAddress(family), 1500), kNarrowMtu);

    const absl::Status again = (*socket)->Send(Pattern(kNarrowMtu - headers + 1), far);
    EXPECT_EQ(StatusToErrno(again), EMSGSIZE) << again;
    EXPECT_TRUE(EchoFromAfar(**socket, family, kNarrowMtu - headers, seconds(5)));
    // The link itself has not become narrower.
    EXPECT_EQ(lab_->stack().path_mtu().Get(KernelAddress(family), 1500), 1500u);
  }
}

// A sender that does not mind fragments gets through: at once by IPv4, where the router cuts, and
// after one loss by IPv6, where only the sender may.
TEST_F(InteropRoutingTest, FragmentsFitTheNarrowHop) {
  for (const IpFamily family : kFamilies) {
    for (const size_t size : {size_t{1500 - 48}, size_t{1473}, size_t{8192}, size_t{65'000}}) {
      SCOPED_TRACE(absl::StrCat(size, " bytes to ", FarAddress(family).ToString()));
      auto socket = UdpSocket::Create(lab_->stack(), {.family = family});
      ASSERT_TRUE(socket.ok());
      // The first one may be the one that is lost.
      const bool at_once =
          family == IpFamily::kV6 && EchoFromAfar(**socket, family, size, milliseconds(300));
      EXPECT_TRUE(at_once || EchoFromAfar(**socket, family, size, seconds(5)));
    }
  }
  EXPECT_EQ(lab_->stack().path_mtu().Get(FarAddress(IpFamily::kV6), 1500), kNarrowMtu);
}

// Replies of the stack have to fit too, although nobody here holds a socket for them (RFC 8201
// §5.2).
TEST_F(InteropRoutingTest, LargePingsFromAfarAreAnswered) {
  for (const char* flag : {"-4", "-6"}) {
    const std::string target =
        StackAddress(flag[1] == '4' ? IpFamily::kV4 : IpFamily::kV6).ToString();
    for (const char* size : {"1400", "8000"}) {
      SCOPED_TRACE(absl::StrCat("ping ", flag, " -s ", size));
      const testutil::CommandResult ping = lab_->Run(
          {"ping", "-n", flag, "-c4", "-i0.2", "-W2", "-s", size, target}, far_->Options());
      EXPECT_EQ(ping.exit_code, 0) << ping.output;
      // The first IPv6 one may be lost while the MTU is learned.
      EXPECT_THAT(ping.output,
                  ::testing::AnyOf(HasSubstr(" 0% packet loss"), HasSubstr(" 25% packet loss")));
    }
  }
}

TEST_F(InteropRoutingTest, RouterSaysThatThereIsNoRoute) {
  ASSERT_TRUE(
      IpBatch({"route add unreachable 10.11.0.0/24", "route add unreachable fd00:11::/64"}).ok());
  const IpAddress targets[] = {Ipv4Address(10, 11, 0, 1),
                               Ipv6Address::FromGroups({0xfd00, 0x11, 0, 0, 0, 0, 0, 1})};
  for (const IpAddress& target : targets) {
    SCOPED_TRACE(target.ToString());
    const PingResult result =
        PingOnce(*lab_, {.destination = target, .sequence = 1, .data = Pattern(8)});
    ASSERT_TRUE(result.error.has_value());
    EXPECT_EQ(result.error->reporter, KernelAddress(target.family()));
    EXPECT_THAT(result.error->kind,
                ::testing::AnyOf(IcmpErrorKind::kHostUnreachable, IcmpErrorKind::kNetUnreachable));
  }
}

}  // namespace
}  // namespace tapwire::interop
