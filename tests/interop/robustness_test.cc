// SPDX-License-Identifier: Apache-2.0
// What the kernel's end can do to the stack: frames that no host sends, a link that goes down, an
// interface that is removed. Nothing of it stops the stack, and everything is counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/capture/checker.h"
#include "apps/capture/pcap_reader.h"
#include "netdev/base/seeded_random.h"
#include "netdev/base/status_util.h"
#include "netdev/wire/pretty_print.h"
#include "stack/sockets/udp_socket.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"
#include "tests/testutil/frame_view.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::Frame;
using testutil::Pattern;

class InteropRobustnessTest : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto lab = Lab::Create({.node = tun_node()});
    ASSERT_TRUE(lab.ok()) << lab.status();
    lab_ = *std::move(lab);
  }
  void TearDown() override {
    lab_.reset();
    NetnsFixture::TearDown();
  }

  std::unique_ptr<Lab> lab_;
};

// ---- Frames ----

constexpr int kPerKind = 100;
constexpr int kRandomFrames = 1700;
constexpr int kMutatedFrames = 1700;

Frame FromKernel() { return Frame().Eth(kKernelMac, kStackMac); }
testutil::Ipv4Args Ip4(const Ipv4Address& source = kKernel4) {
  return {.source = source, .destination = kStack4};
}
testutil::Ipv6Args Ip6(const Ipv6Address& source = kKernel6) {
  return {.source = source, .destination = kStack6};
}
constexpr testutil::UdpArgs kToEcho{.source_port = 999, .destination_port = kEchoPort};

ByteVector Cut(ByteVector frame, size_t length) {
  frame.resize(length);
  return frame;
}

struct BadFrame {
  std::string what;
  ByteVector bytes;
  DropReason reason;
};

// RFC 1122 §3.2.1.3, RFC 4291 §2.7 and §2.5.3: sources that are no other host.
std::vector<BadFrame> SpoofedFrames() {
  const auto udp4 = [](const Ipv4Address& source) {
    return FromKernel().Ipv4(Ip4(source)).Udp(kToEcho).Payload("spoof").Build();
  };
  const auto udp6 = [](const Ipv6Address& source) {
    return FromKernel().Ipv6(Ip6(source)).Udp(kToEcho).Payload("spoof").Build();
  };
  const auto echo_from_mac = [](const MacAddress& source) {
    return Frame().Eth(source, kStackMac).Ipv4(Ip4()).Echo4({}).Build();
  };
  const Ipv6Address group = Ipv6Address::AllNodes();
  return {
      {"our own IPv4 source", udp4(kStack4), DropReason::kIpv4SourceOwn},
      {"limited broadcast source", udp4({255, 255, 255, 255}), DropReason::kIpv4MartianSource},
      {"subnet broadcast source", udp4({10, 9, 0, 255}), DropReason::kIpv4MartianSource},
      {"multicast source", udp4({224, 1, 1, 1}), DropReason::kIpv4MartianSource},
      {"loopback source", udp4({127, 0, 0, 1}), DropReason::kIpv4LoopbackFromWire},
      {"our own IPv6 source", udp6(kStack6), DropReason::kIpv6SourceOwn},
      {"multicast IPv6 source", udp6(group), DropReason::kIpv6MartianSource},
      {"loopback IPv6 source", udp6(Ipv6Address::kLoopback), DropReason::kIpv6LoopbackFromWire},
      {"our own MAC source", echo_from_mac(kStackMac), DropReason::kLinkSourceOwn},
      {"broadcast MAC source", echo_from_mac(MacAddress::kBroadcast()),
       DropReason::kLinkSourceMulticast},
      {"ARP that claims our address",
       FromKernel()
           .Arp({.sender_mac = kKernelMac, .sender_ip = kStack4, .target_ip = kKernel4})
           .Build(),
       DropReason::kArpConflict},
  };
}

std::vector<BadFrame> MalformedFrames() {
  const ByteVector udp4 = FromKernel().Ipv4(Ip4()).Udp(kToEcho).Payload(Pattern(40)).Build();
  const ByteVector udp6 = FromKernel().Ipv6(Ip6()).Udp(kToEcho).Payload(Pattern(40)).Build();
  return {
      {"IPv4 header cut short", Cut(udp4, 14 + 10), DropReason::kIpv4Truncated},
      {"IPv4 payload cut short", Cut(udp4, 14 + 30), DropReason::kIpv4BadTotalLength},
      {"IPv6 header cut short", Cut(udp6, 14 + 30), DropReason::kIpv6Truncated},
      {"IPv6 payload cut short", Cut(udp6, 14 + 50), DropReason::kIpv6BadPayloadLength},
      {"IPv4 checksum",
       FromKernel().Ipv4({.source = kKernel4, .destination = kStack4, .checksum = 0x1234}).Build(),
       DropReason::kIpv4BadChecksum},
      {"UDP checksum",
       FromKernel()
           .Ipv4(Ip4())
           .Udp({.source_port = 999, .destination_port = kEchoPort, .checksum = 0x1234})
           .Build(),
       DropReason::kUdpBadChecksum},
      {"IPv6 without UDP checksum",
       FromKernel()
           .Ipv6(Ip6())
           .Udp({.source_port = 999, .destination_port = kEchoPort, .checksum = 0})
           .Build(),
       DropReason::kUdpZeroChecksum6},
      {"ICMP checksum", FromKernel().Ipv4(Ip4()).Echo4({.checksum = 0x1234}).Build(),
       DropReason::kIcmpBadChecksum},
      {"ARP for another hardware", FromKernel().Arp({.hardware_type = 6}).Build(),
       DropReason::kArpMalformed},
      {"solicitation from afar",
       FromKernel()
           .Ipv6({.source = kKernel6, .destination = kStack6, .hop_limit = 64})
           .NeighborSolicitation({.target = kStack6})
           .Build(),
       DropReason::kNdpBadHopLimit},
      {"unknown EtherType", FromKernel().Eth(kKernelMac, kStackMac, 0x88b5).Build(),
       DropReason::kLinkUnknownEtherType},
      {"a protocol nobody has",
       FromKernel()
           .Ipv4({.source = kKernel4, .destination = kStack4, .protocol = 132})  // SCTP
           .Payload(Pattern(40))
           .Build(),
       DropReason::kUnknownProtocol},
  };
}

// Frames of good form, for mutation.
std::vector<ByteVector> GoodFrames() {
  std::vector<ByteVector> frames = {
      FromKernel().Ipv4(Ip4()).Udp(kToEcho).Payload(Pattern(100)).Build(),
      FromKernel().Ipv6(Ip6()).Udp(kToEcho).Payload(Pattern(100)).Build(),
      FromKernel().Ipv4(Ip4()).Echo4({}).Payload(Pattern(56)).Build(),
      FromKernel().Ipv6(Ip6()).Echo6({}).Payload(Pattern(56)).Build(),
      FromKernel()
          .Arp({.sender_mac = kKernelMac, .sender_ip = kKernel4, .target_ip = kStack4})
          .Build(),
      FromKernel()
          .Ipv6({.source = kKernel6, .destination = kStack6, .hop_limit = 255})
          .NeighborSolicitation({.target = kStack6, .link_address = kKernelMac})
          .Build(),
  };
  for (const ByteVector& fragment :
       FromKernel().Ipv4(Ip4()).Udp(kToEcho).Payload(Pattern(3000)).BuildFragments(1480, 77)) {
    frames.push_back(fragment);
  }
  for (const ByteVector& fragment :
       FromKernel().Ipv6(Ip6()).Udp(kToEcho).Payload(Pattern(3000)).BuildFragments(1400, 78)) {
    frames.push_back(fragment);
  }
  return frames;
}

uint64_t Below(Random& random, uint64_t limit) {
  std::array<uint8_t, 8> bytes;
  random.Fill(bytes);
  return LoadBe64(bytes.data()) % limit;
}

ByteVector RandomFrame(Random& random) {
  constexpr uint16_t kTypes[] = {0x0800, 0x86dd, 0x0806, 0x8100};
  ByteVector frame = FromKernel().Eth(kKernelMac, kStackMac).Build();
  const uint64_t type = Below(random, std::size(kTypes) + 1);
  ByteVector body(Below(random, 1500));
  random.Fill(body);
  frame.resize(14);
  const uint16_t ether_type =
      type < std::size(kTypes) ? kTypes[type] : static_cast<uint16_t>(Below(random, 65'536));
  StoreBe16(&frame[12], ether_type);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

// One to three bytes changed, or the end cut off; the MAC addresses stay.
ByteVector Mutate(ByteVector frame, Random& random) {
  if (Below(random, 4) == 0) frame.resize(14 + Below(random, frame.size() - 14));
  if (frame.size() == 14) return frame;
  for (uint64_t n = Below(random, 3) + 1; n > 0; --n) {
    frame[12 + Below(random, frame.size() - 12)] = static_cast<uint8_t>(Below(random, 256));
  }
  return frame;
}

// Every count of what became of a received frame: dropped, delivered, answered or put aside.
uint64_t Accounted(Lab& lab) {
  const Mib& mib = lab.stack().mib();
  uint64_t sum = lab.stack().drops().total() + lab.tap().drops().total();
  for (const UdpCounters* udp : {&mib.udp, &mib.udp6}) sum += udp->in_datagrams.value();
  for (const IcmpCounters* icmp : {&mib.icmp, &mib.icmp6}) sum += icmp->in_msgs.value();
  for (const IpCounters* ip : {&mib.ip, &mib.ip6}) sum += ip->reasm_reqds.value();
  return sum + mib.arp.in_requests.value() + mib.arp.in_replies.value();
}

// What the stack itself has sent meanwhile is sound.
std::string ComplaintsAboutSentFrames(const std::string& path) {
  auto reader = capture::PcapReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  capture::CaptureChecker checker;
  for (;;) {
    const auto captured = reader->Next();
    EXPECT_TRUE(captured.ok()) << captured.status();
    if (!captured.ok() || !captured->has_value()) break;
    if (testutil::Dissect((*captured)->bytes).link_source != kStackMac) continue;
    capture::Frame frame;
    frame.number = (*captured)->number;
    frame.time_ns = (*captured)->time_ns;
    frame.mtu = 1500;
    frame.bytes = (*captured)->bytes;
    checker.Check(frame);
  }
  return checker.report().clean() ? "" : checker.report().ToString(capture::Severity::kWarning);
}

TEST_F(InteropRobustnessTest, EveryBadFrameIsCountedUnderItsReason) {
  RawFrameSocket wire(kTapName);
  std::vector<BadFrame> kinds = SpoofedFrames();
  for (BadFrame& kind : MalformedFrames()) kinds.push_back(std::move(kind));
  for (const BadFrame& kind : kinds) {
    SCOPED_TRACE(absl::StrCat(kind.what, ": ", DropReasonName(kind.reason)));
    const auto count = [&] { return lab_->stack().drops().value(kind.reason); };
    const uint64_t before = count();
    for (int i = 0; i < kPerKind; ++i) ASSERT_EQ(wire.Send(kind.bytes), 0);
    EXPECT_TRUE(lab_->RunUntil([&] { return count() == before + kPerKind; }, seconds(2)))
        << count() - before << " were counted";
  }
  for (const IpFamily family : kFamilies) ExpectKernelEcho(*lab_, family, 1000);
  EXPECT_EQ(ComplaintsAboutSentFrames(lab_->FlushCapture()), "");
}

TEST_F(InteropRobustnessTest, NoFrameIsLostWithoutACount) {
  RawFrameSocket wire(kTapName);
  SeededRandom random(20'261'130);
  const std::vector<ByteVector> good = GoodFrames();
  const uint64_t received = lab_->tap().stats().rx_packets.value();
  uint64_t sent = 0;
  const auto send = [&](const ByteVector& frame) {
    const uint64_t frames = lab_->tap().stats().rx_packets.value();
    const uint64_t before = Accounted(*lab_);
    ASSERT_EQ(wire.Send(frame), 0);
    ++sent;
    lab_->RunReady();
    ASSERT_TRUE(lab_->RunUntil([&] { return lab_->tap().stats().rx_packets.value() > frames; }));
    ASSERT_GT(Accounted(*lab_), before) << "frame " << sent << ": " << wire::PrettyPrint(frame);
  };
  for (int i = 0; i < kRandomFrames; ++i) ASSERT_NO_FATAL_FAILURE(send(RandomFrame(random)));
  for (int i = 0; i < kMutatedFrames; ++i) {
    ASSERT_NO_FATAL_FAILURE(send(Mutate(good[Below(random, good.size())], random)));
  }
  EXPECT_GE(lab_->tap().stats().rx_packets.value() - received, sent);
  for (const IpFamily family : kFamilies) ExpectKernelEcho(*lab_, family, 1000);
  EXPECT_EQ(ComplaintsAboutSentFrames(lab_->FlushCapture()), "");
}

// ---- The link ----

Duration ThreadCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The share of a processor that the stack takes while nothing happens.
double LoadWhileIdle(Lab& lab) {
  constexpr Duration kTime = milliseconds(300);
  const Duration before = ThreadCpuTime();
  lab.runner().RunFor(kTime);
  return std::chrono::duration<double>(ThreadCpuTime() - before) /
         std::chrono::duration<double>(kTime);
}

// Covers: bug:B94
TEST_F(InteropRobustnessTest, LinkGoesDownAndComesBackUnderTraffic) {
  auto socket = UdpSocket::Create(lab_->stack(), {.family = IpFamily::kV4});
  ASSERT_TRUE(socket.ok());
  const Endpoint kernel{kKernel4, kEchoPort, 0};
  KernelUdp server(IpFamily::kV4, kEchoPort);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    for (const IpFamily family : kFamilies) ExpectKernelEcho(*lab_, family, 2000);
    Ip(absl::StrCat("link set ", kTapName, " down"));
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
      refused += (*socket)->Send(Pattern(10), kernel).ok() ? 0 : 1;
      lab_->RunFor(milliseconds(5));
    }
    EXPECT_FALSE(lab_->tap().has_carrier());
    EXPECT_GT(refused, 10);
    EXPECT_LT(LoadWhileIdle(*lab_), 0.2);

    ASSERT_TRUE(IpBatch({absl::StrCat("link set ", kTapName, " up"),
                         // The kernel forgets IPv6 addresses when a link goes down.
                         absl::StrCat("addr replace ", kKernel6.ToString(), "/64 dev ", kTapName,
                                      " nodad")})
                    .ok());
    EXPECT_TRUE(lab_->RunUntil([&] { return lab_->tap().has_carrier(); }));
    while ((*socket)->TryReceive().has_value()) {  // of the round before
    }
    ASSERT_TRUE((*socket)->Send(Pattern(10), kernel).ok());
    EXPECT_TRUE(lab_->RunUntil([&] {
      server.Echo();
      return (*socket)->TryReceive().has_value();
    }));
  }
  EXPECT_EQ(lab_->tap().tap_stats().link_lost.value(), 3u);
  for (const IpFamily family : kFamilies) ExpectKernelEcho(*lab_, family, 2000);
  ExpectGoodChecksums(*lab_);
}

// Covers: bug:B94
TEST_F(InteropRobustnessTest, RemovedTapIsOneEventAndSocketsFail) {
  auto udp = UdpSocket::Create(lab_->stack(), {.family = IpFamily::kV4});
  ASSERT_TRUE(udp.ok());
  const Endpoint kernel{kKernel4, kEchoPort, 0};
  ASSERT_TRUE((*udp)->Connect(kernel).ok());
  ASSERT_TRUE((*udp)->Send(Pattern(10)).ok());
  std::vector<absl::Status> events;
  lab_->tap().SetGoneCallback([&](const absl::Status& why) { events.push_back(why); });
  lab_->RunFor(milliseconds(20));

  Ip(absl::StrCat("link del ", kTapName));
  EXPECT_TRUE(lab_->RunUntil([&] { return !events.empty(); }, seconds(2)));
  EXPECT_TRUE(lab_->tap().gone());
  EXPECT_FALSE(lab_->tap().is_up());
  EXPECT_LT(LoadWhileIdle(*lab_), 0.2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(std::string(events[0].message()), ::testing::HasSubstr(kTapName));
  EXPECT_THAT(std::string(events[0].message()), ::testing::HasSubstr("removed"));

  EXPECT_FALSE((*udp)->Send(Pattern(10)).ok());
  EXPECT_FALSE((*udp)->Send(Pattern(10), Endpoint{KernelAddress(IpFamily::kV4), 9, 0}).ok());
  auto ping = PingSocket::Create(lab_->stack(), IpFamily::kV6);
  ASSERT_TRUE(ping.ok());
  EXPECT_FALSE((*ping)->Send({.destination = kKernel6, .sequence = 1}).ok());
  const absl::Status up = lab_->tap().Up();
  EXPECT_FALSE(up.ok());
}

// The same, found out by sending: nothing has come in between.
TEST_F(InteropRobustnessTest, RemovalIsFoundOutBySendingToo) {
  auto socket = UdpSocket::Create(lab_->stack(), {.family = IpFamily::kV4});
  ASSERT_TRUE(socket.ok());
  int events = 0;
  lab_->tap().SetGoneCallback([&](const absl::Status&) { ++events; });
  ExpectKernelEcho(*lab_, IpFamily::kV4, 10);
  Ip(absl::StrCat("link del ", kTapName));
  for (int i = 0; i < 10; ++i) {
    (void)(*socket)->Send(Pattern(10), Endpoint{kKernel4, kEchoPort, 0});
    lab_->context().RunOnce();  // without looking at descriptors
  }
  EXPECT_EQ(events, 1);
  EXPECT_TRUE(lab_->tap().gone());
}

}  // namespace
}  // namespace tapwire::interop
