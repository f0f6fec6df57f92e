// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/sockets/udp_socket.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using testutil::CommandResult;
using testutil::Pattern;

constexpr uint16_t kClosedPort = 4;
constexpr size_t kMaxPayload4 = 65'507;  // of UDP and of echo alike
constexpr size_t kMaxPayload6 = 65'527;

std::string FamilyFlag(IpFamily family) { return family == IpFamily::kV4 ? "-4" : "-6"; }

void ExpectPing(Lab& lab, const std::vector<std::string>& arguments) {
  // With a deadline ping goes on until all answers are there, and exits with 1 if they are not;
  // without, it waits for twice the longest time so far, which a busy machine exceeds.
  std::vector<std::string> argv = {"ping", "-n", "-w10"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const CommandResult ping = lab.Run(argv);
  EXPECT_EQ(ping.exit_code, 0) << ping.output;
  // What it says of a reply whose bytes differ from the pattern.
  EXPECT_THAT(ping.output, Not(HasSubstr("wrong data byte")));
}

}  // namespace

std::vector<size_t> PingSizes(IpFamily family, size_t largest4, size_t largest6) {
  return {0, 1, 56, 1472, 1473, 8000, family == IpFamily::kV4 ? largest4 : largest6};
}

std::vector<size_t> DatagramSizes(IpFamily family) {
  return {0,    1,    1471,  1472,
          1473, 8192, 32768, family == IpFamily::kV4 ? kMaxPayload4 : kMaxPayload6};
}

ByteVector BytesOf(const Packet& packet) {
  ByteVector bytes(packet.length());
  packet.CopyOut(0, bytes);
  return bytes;
}

// ---- ICMP echo ----

void KernelPingsStack(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    // iputils sends at most 65507 bytes, by either family.
    for (const size_t size : PingSizes(family, kMaxPayload4, kMaxPayload4)) {
      SCOPED_TRACE(absl::StrCat("ping ", FamilyFlag(family), " -s ", size));
      ExpectPing(lab, {FamilyFlag(family), "-c1", "-W5", "-p", "a55a0f", "-s", absl::StrCat(size),
                       StackAddress(family).ToString()});
    }
  }
  ASSERT_TRUE(lab.interface().link_local().has_value());
  const std::string own = lab.interface().link_local()->ToString();
  const std::string zone = absl::StrCat("%", lab.options().name);
  ExpectPing(lab, {"-6", "-c1", "-W5", absl::StrCat(own, zone)});

  // RFC 4443 §4.2: a request to a group is answered from a unicast address. The kernel hears its
  // own request first, so that -c would end it after that one reply.
  auto group = lab.Start({"ping", "-6", "-n", "-w5", absl::StrCat("ff02::1", zone)});
  EXPECT_TRUE(group->WaitForOutput(absl::StrCat("bytes from ", own, zone))) << group->output();
}

PingResult PingOnce(Lab& lab, EchoRequest request, Duration limit) {
  PingResult result;
  auto socket = PingSocket::Create(lab.stack(), request.destination.family());
  EXPECT_TRUE(socket.ok()) << socket.status();
  (*socket)->SetReplyCallback([&](EchoReply reply) { result.reply = std::move(reply); });
  (*socket)->SetErrorCallback([&](const EchoError& error) { result.error = error; });
  const auto sent = (*socket)->Send(request);
  EXPECT_TRUE(sent.ok()) << sent.status();
  lab.RunUntil([&] { return result.reply.has_value() || result.error.has_value(); }, limit);
  return result;
}

void StackPingsKernel(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    uint16_t sequence = 0;
    for (const size_t size : PingSizes(family, kMaxPayload4, kMaxPayload6)) {
      SCOPED_TRACE(absl::StrCat(size, " bytes to ", KernelAddress(family).ToString()));
      const ByteVector data = Pattern(size);
      const PingResult result = PingOnce(
          lab, {.destination = KernelAddress(family), .sequence = ++sequence, .data = data});
      ASSERT_TRUE(result.reply.has_value());
      EXPECT_EQ(result.reply->source, KernelAddress(family));
      EXPECT_EQ(result.reply->destination, StackAddress(family));
      EXPECT_EQ(result.reply->sequence, sequence);
      EXPECT_EQ(result.reply->ttl, 64);  // the kernel's default
      EXPECT_EQ(BytesOf(*result.reply->packet), data);
    }
  }
}

// ---- UDP ----

void ExpectKernelEcho(Lab& lab, IpFamily family, size_t size, EchoOptions options) {
  KernelUdp client(family);
  const ByteVector data = Pattern(size, static_cast<uint8_t>(size));
  const auto end = std::chrono::steady_clock::now() + options.deadline;
  std::optional<KernelUdp::Received> reply;
  do {
    // While the kernel's end is down it may refuse; that counts as lost.
    const int err = client.Send(data, Endpoint{StackAddress(family), kEchoPort, 0});
    EXPECT_TRUE(err == 0 || options.retry.has_value()) << std::strerror(err);
    lab.RunUntil([&] { return (reply = client.Receive()).has_value(); },
                 options.retry.value_or(options.deadline));
  } while (!reply.has_value() && std::chrono::steady_clock::now() < end);
  ASSERT_TRUE(reply.has_value()) << "no echo of " << size << " bytes";
  EXPECT_EQ(reply->source, (Endpoint{StackAddress(family), kEchoPort, 0}));
  EXPECT_EQ(reply->data, data);
}

void KernelSendsDatagrams(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    for (const size_t size : DatagramSizes(family)) {
      SCOPED_TRACE(absl::StrCat(size, " bytes to ", StackAddress(family).ToString()));
      ExpectKernelEcho(lab, family, size);
    }
  }
}

void StackSendsDatagrams(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    KernelUdp server(family, kEchoPort);
    auto client = UdpSocket::Create(lab.stack(), {.family = family});
    ASSERT_TRUE(client.ok()) << client.status();
    for (const size_t size : DatagramSizes(family)) {
      SCOPED_TRACE(absl::StrCat(size, " bytes to ", KernelAddress(family).ToString()));
      const ByteVector data = Pattern(size, static_cast<uint8_t>(size));
      const absl::Status sent =
          (*client)->Send(data, Endpoint{KernelAddress(family), kEchoPort, 0});
      ASSERT_TRUE(sent.ok()) << sent;
      std::optional<Datagram> reply;
      lab.RunUntil([&] {
        server.Echo();
        return (reply = (*client)->TryReceive()).has_value();
      });
      ASSERT_TRUE(reply.has_value());
      EXPECT_EQ(reply->source(), (Endpoint{KernelAddress(family), kEchoPort, 0}));
      EXPECT_EQ(reply->destination().address, StackAddress(family));
      EXPECT_EQ(BytesOf(*reply->TakePacket()), data);
    }
  }
}

void KernelSendsSegments(Lab& lab) {
  constexpr int kSegment = 1000;
  constexpr size_t kSegments = 20;
  const uint64_t super_packets = lab.tap().tap_stats().rx_gso_frames.value();
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(StackAddress(family).ToString());
    KernelUdp client(family);
    client.SetOption(SOL_UDP, UDP_SEGMENT, kSegment);
    const ByteVector data = Pattern(kSegment * kSegments);
    ASSERT_EQ(client.Send(data, Endpoint{StackAddress(family), kEchoPort, 0}), 0);
    ByteVector back;
    size_t datagrams = 0;
    lab.RunUntil([&] {
      while (const auto reply = client.Receive()) {
        EXPECT_EQ(reply->data.size(), static_cast<size_t>(kSegment));
        back.insert(back.end(), reply->data.begin(), reply->data.end());
        ++datagrams;
      }
      return datagrams == kSegments;
    });
    EXPECT_EQ(datagrams, kSegments);
    EXPECT_EQ(back, data);
  }
  // Where both ends agreed on it (Linux 6.2) each came as one frame.
  const uint64_t wanted = lab.tap().rx_offloads().uso ? 2 : 0;
  EXPECT_EQ(lab.tap().tap_stats().rx_gso_frames.value() - super_packets, wanted);
}

void SocatSendsDatagrams(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    const std::string address = family == IpFamily::kV4
                                    ? absl::StrCat("UDP4:", kStack4.ToString())
                                    : absl::StrCat("UDP6:[", kStack6.ToString(), "]");
    for (const size_t size : DatagramSizes(family)) {
      if (size == 0) continue;  // socat takes the end of its input for the end of it all
      SCOPED_TRACE(absl::StrCat(size, " bytes to ", address));
      std::string data;
      for (const uint8_t byte : Pattern(size)) data.push_back(static_cast<char>(byte));
      // Its -b is the size of one read, and so of one datagram; readbytes ends it with the reply.
      const CommandResult socat =
          lab.Run({"socat", "-b65527", "-t5", "-", absl::StrCat(address, ":7,readbytes=", size)},
                  {.input = data});
      EXPECT_EQ(socat.exit_code, 0);
      EXPECT_TRUE(socat.output == data) << socat.output.size() << " bytes came back";
    }
  }
}

void PortsAreUnreachable(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(StackAddress(family).ToString());
    KernelUdp client(family);
    client.Connect({StackAddress(family), kClosedPort, 0});
    ASSERT_EQ(client.Send(Pattern(10)), 0);
    EXPECT_TRUE(lab.RunUntil([&] {
      EXPECT_FALSE(client.Receive().has_value());
      return client.error() != EAGAIN;
    }));
    EXPECT_EQ(client.error(), ECONNREFUSED);

    auto socket = UdpSocket::Create(lab.stack(), {.family = family});
    ASSERT_TRUE(socket.ok()) << socket.status();
    absl::Status error;
    Endpoint peer;
    (*socket)->SetErrorCallback([&](const absl::Status& status, const Endpoint& to) {
      error = status;
      peer = to;
    });
    const Endpoint closed{KernelAddress(family), kClosedPort, 0};
    ASSERT_TRUE((*socket)->Connect(closed).ok());
    ASSERT_TRUE((*socket)->Send(Pattern(10)).ok());
    EXPECT_TRUE(lab.RunUntil([&] { return !error.ok(); }));
    EXPECT_EQ(StatusToErrno(error), ECONNREFUSED) << error;
    EXPECT_EQ(peer, closed);
  }
}

// ---- Neighbours ----

void KernelKnowsItsNeighbor(Lab& lab) {
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(StackAddress(family).ToString());
    ExpectKernelEcho(lab, family, 100);
    // What a busy machine has let grow stale it asks for again after five seconds.
    std::string entry;
    for (int i = 0; i < 100 && !absl::EndsWith(entry, "REACHABLE"); ++i) {
      if (i > 0) lab.RunFor(std::chrono::milliseconds(100));
      entry = KernelNeighbor(StackAddress(family), lab.options().name);
    }
    EXPECT_THAT(entry, HasSubstr(absl::StrCat("lladdr ", lab.options().mac.ToString())));
    EXPECT_THAT(entry, ::testing::EndsWith("REACHABLE"));
  }
  const CommandResult arping =
      lab.Run({"arping", "-c1", "-w10", "-I", lab.options().name, kStack4.ToString()});
  EXPECT_EQ(arping.exit_code, 0) << arping.output;
  EXPECT_THAT(arping.output, HasSubstr("Received 1 response(s)"));

  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(StackAddress(family).ToString());
    for (int i = 0; i < 10; ++i) {
      const CommandResult flush =
          lab.Run({"ip", FamilyFlag(family), "neigh", "flush", "dev", lab.options().name});
      EXPECT_TRUE(flush.ok()) << flush.output;
      for (int n = 0; n < 5; ++n) ExpectKernelEcho(lab, family, 200);
    }
  }
}

const std::vector<Exchange>& AllExchanges() {
  static const auto* exchanges = new std::vector<Exchange>{
      {"KernelPingsStack", KernelPingsStack},
      {"StackPingsKernel", StackPingsKernel},
      {"KernelSendsDatagrams", KernelSendsDatagrams},
      {"StackSendsDatagrams", StackSendsDatagrams},
      {"KernelSendsSegments", KernelSendsSegments},
      {"SocatSendsDatagrams", SocatSendsDatagrams},
      {"PortsAreUnreachable", PortsAreUnreachable},
      {"KernelKnowsItsNeighbor", KernelKnowsItsNeighbor},
  };
  return *exchanges;
}

}  // namespace tapwire::interop
