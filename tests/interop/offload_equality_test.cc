// SPDX-License-Identifier: Apache-2.0
// One scripted conversation with the kernel, with offloads and without: the same frames, byte for
// byte, as they would be on a wire. The stack's clock stands still unless the script moves it, its
// randomness has a fixed seed, and each side speaks only when the other has finished.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/capture/pcap_reader.h"
#include "netdev/base/byteorder.h"
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
using testutil::Pattern;

constexpr uint16_t kKernelPort = 40'000;
constexpr uint16_t kStackPort = 5'000;
constexpr uint16_t kClosedPort = 4;

// ---- The script ----

void KernelAsks(Lab& lab, IpFamily family) {
  KernelUdp client(family, kKernelPort);
  for (const size_t size : std::initializer_list<size_t>{0, 1, 100, 1452, 1472, 1473, 5000}) {
    ASSERT_EQ(client.Send(Pattern(size), Endpoint{StackAddress(family), kEchoPort, 0}), 0);
    ASSERT_TRUE(lab.RunUntil([&] { return client.Receive().has_value(); })) << size;
  }
  ASSERT_EQ(client.Send(Pattern(300), Endpoint{StackAddress(family), kClosedPort, 0}), 0);
  lab.RunFor(milliseconds(20));
}

void StackAsks(Lab& lab, IpFamily family) {
  KernelUdp server(family, kEchoPort);
  auto socket = UdpSocket::Create(lab.stack(), {.family = family});
  ASSERT_TRUE(socket.ok());
  ASSERT_TRUE((*socket)->Bind({IpAddress::Unspecified(family), kStackPort, 0}).ok());
  for (const size_t size : std::initializer_list<size_t>{0, 1, 1471, 1472, 1473, 9000}) {
    ASSERT_TRUE((*socket)->Send(Pattern(size), Endpoint{KernelAddress(family), kEchoPort, 0}).ok());
    ASSERT_TRUE(lab.RunUntil([&] {
      server.Echo();
      return (*socket)->TryReceive().has_value();
    })) << size;
  }
  bool refused = false;
  (*socket)->SetErrorCallback([&](const absl::Status&, const Endpoint&) { refused = true; });
  ASSERT_TRUE((*socket)->Send(Pattern(300), Endpoint{KernelAddress(family), kClosedPort, 0}).ok());
  EXPECT_TRUE(lab.RunUntil([&] { return refused; }));
  for (const size_t size : std::initializer_list<size_t>{56, 3000}) {
    const ByteVector data = Pattern(size);
    EXPECT_TRUE(PingOnce(lab, {.destination = KernelAddress(family), .sequence = 9, .data = data})
                    .reply.has_value());
  }
}

// Reports and announcements that are spread over time.
void LetTimePass(Lab& lab) {
  for (int i = 0; i < 40; ++i) {
    lab.clock().Advance(milliseconds(100));
    lab.RunReady();
  }
}

// ---- The frames ----

// What the kernel does by itself, whenever it likes.
bool IsKernelsOwnBusiness(const testutil::FrameView& view) {
  if (view.is_v4()) return view.protocol == 2;
  // Group reports and router solicitations.
  const bool spontaneous = view.type == 143 || view.type == 132 || view.type == 133;
  return view.is_v6() && view.protocol == 58 && spontaneous;
}

// The kernel chooses the identifications of its packets as it likes: they, and the header checksum
// over them, are cleared. `ip` is where the header starts.
void ClearIpv4Identification(ByteVector& frame, size_t ip) {
  if (frame.size() < ip + 20) return;
  StoreBe16(&frame[ip + 4], 0);
  StoreBe16(&frame[ip + 10], 0);
}

void ClearKernelsIdentification(ByteVector& frame, const testutil::FrameView& view) {
  constexpr size_t kIp = 14;
  if (view.is_v4()) ClearIpv4Identification(frame, kIp);
  constexpr size_t kFragmentHeader = kIp + 40;
  if (view.is_v6() && view.is_fragment && frame.size() >= kFragmentHeader + 8) {
    StoreBe32(&frame[kFragmentHeader + 4], 0);
  }
}

// What we quote of a packet of the kernel has its identification. The sum over the quoted header is
// always the same, and so the ICMP checksum does not depend on it.
void ClearQuotedIdentification(ByteVector& frame, const testutil::FrameView& view) {
  constexpr size_t kQuote = 14 + 20 + 8;
  const bool is_error = view.is_v4() && view.protocol == 1 && view.type == 3;
  if (is_error) ClearIpv4Identification(frame, kQuote);
}

// The kernel quotes our datagram as it got it: where its checksum was left to the kernel,
// unfinished. That one and the ICMP checksum over it are cleared; both are the kernel's doing.
void ClearKernelsQuotedChecksum(ByteVector& frame, const testutil::FrameView& view) {
  const bool v4 = view.is_v4();
  const bool is_error = v4 ? view.protocol == 1 && view.type == 3
                           : view.is_v6() && view.protocol == 58 && view.type == 1;
  const size_t ip = v4 ? 20 : 40;
  const size_t icmp = 14 + ip;
  const size_t quoted_udp = icmp + 8 + ip;
  if (!is_error || frame.size() < quoted_udp + 8) return;
  StoreBe16(&frame[icmp + 2], 0);
  StoreBe16(&frame[quoted_udp + 6], 0);
}

std::vector<ByteVector> ReadFrames(const std::string& path) {
  std::vector<ByteVector> frames;
  auto reader = capture::PcapReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  for (;;) {
    const auto captured = reader->Next();
    EXPECT_TRUE(captured.ok()) << captured.status();
    if (!captured.ok() || !captured->has_value()) return frames;
    ByteVector frame((*captured)->bytes.begin(), (*captured)->bytes.end());
    const testutil::FrameView view = testutil::Dissect(frame);
    if (view.link_source == kStackMac) {
      ClearQuotedIdentification(frame, view);
    } else if (IsKernelsOwnBusiness(view)) {
      continue;
    } else {
      ClearKernelsIdentification(frame, view);
      ClearKernelsQuotedChecksum(frame, view);
    }
    frames.push_back(std::move(frame));
  }
}

// Where and how two frames differ; empty if they do not.
std::string FirstDifference(const ByteVector& a, const ByteVector& b) {
  if (a.size() != b.size()) return absl::StrCat(a.size(), " and ", b.size(), " bytes");
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin());
  if (in_a == a.end()) return "";
  return absl::StrCat("byte ", in_a - a.begin(), ": ", absl::Hex(*in_a), " and ", absl::Hex(*in_b));
}

class InteropOffloadTest : public testutil::NetnsFixture {
 protected:
  std::vector<ByteVector> Converse(bool offloads) {
    auto lab = Lab::Create({.node = tun_node(), .offloads = offloads, .scripted = true});
    EXPECT_TRUE(lab.ok()) << lab.status();
    if (!lab.ok()) return {};
    // No probes of the kernel while the script runs.
    for (const char* family : {"ipv4", "ipv6"}) {
      Sysctl(absl::StrCat(family, "/neigh/", kTapName, "/delay_first_probe_time"), "60");
    }
    for (const IpFamily family : kFamilies) {
      KernelAsks(**lab, family);
      StackAsks(**lab, family);
    }
    LetTimePass(**lab);
    ExpectClean(**lab);
    return ReadFrames((*lab)->FlushCapture());
  }
};

TEST_F(InteropOffloadTest, CapturesAreEqualByteForByte) {
  const std::vector<ByteVector> with = Converse(true);
  const std::vector<ByteVector> without = Converse(false);
  EXPECT_GT(with.size(), 100u);
  for (size_t i = 0; i < std::min(with.size(), without.size()); ++i) {
    ASSERT_EQ(FirstDifference(with[i], without[i]), "")
        << "frame " << i << "\nwith offloads:    " << wire::PrettyPrint(with[i])
        << "\nwithout offloads: " << wire::PrettyPrint(without[i]);
  }
  EXPECT_EQ(with.size(), without.size());
}

}  // namespace
}  // namespace tapwire::interop
