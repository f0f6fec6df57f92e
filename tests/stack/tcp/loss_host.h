// SPDX-License-Identifier: Apache-2.0
// For tests of loss recovery and timers: segments of 1,000 bytes with numbers, and when they left.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/stack/tcp/connection_test_peer.h"
#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Segment n, from 1 on, as SentSegment::ToString() has it; the last one of a write has PSH.
inline std::string Seg(uint32_t n) {
  const uint32_t seq = 1 + (n - 1) * 1000;
  return absl::StrCat("A ", seq, ":", seq + 1000, "(1000) ack 1");
}
inline std::string PshSeg(uint32_t n) { return absl::StrCat("P", Seg(n)); }
// The number behind segment n: what acknowledges it.
inline uint32_t After(uint32_t n) { return 1 + n * 1000; }

class TcpLossTest : public TcpHostTest {
 protected:
  using Blocks = std::vector<std::pair<uint32_t, uint32_t>>;

  // Without Linux's floor of the variance the RTO of a short path is exactly the lower bound.
  static tcp::Config Plain() {
    tcp::Config config = TcpHostTest::Plain();
    config.min_rto_variance = Duration::zero();
    return config;
  }
  void Start(const tcp::Config& config = Plain(), NetHarness::Options options = NoOffload()) {
    TcpHostTest::Start(config, std::move(options));
  }
  // RFC 6298's lower bound of the RTO, so that expected times come from the RFC's text.
  static tcp::Config OneSecondRto() {
    tcp::Config config = Plain();
    config.min_rto = seconds(1);
    return config;
  }

  // A connection with an MSS of 1,000 and an initial window of ten segments. The handshake takes no
  // time, so the RTO is at its lower bound.
  tcp::Connection* Open(bool sack, uint16_t window = 65535) {
    return Connect(SynOptions(1000, sack), window);
  }
  // The same with a chosen initial sequence number.
  tcp::Connection* OpenAt(uint32_t iss, bool sack) {
    auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
    EXPECT_TRUE(opened.ok());
    tcp::ConnectionTestPeer::SetIss(**opened, iss);
    net->Run();
    EXPECT_THAT(TakeText(), ::testing::ElementsAre("S 0:0(0)"));
    EXPECT_EQ(host_isn_, iss);
    Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000, sack)});
    EXPECT_THAT(TakeText(), ::testing::ElementsAre("A 1:1(0) ack 1"));
    return *opened;
  }
  // Writes `count` segments and forgets what was sent of them.
  void WriteSegments(tcp::Connection& c, size_t count) {
    EXPECT_EQ(Write(c, count * 1000), count * 1000);
    Take();
  }

  // An acknowledgment with SACK blocks of segments [first, last], the latest first.
  void SendSack(uint32_t ack, const Blocks& segments) {
    Blocks edges;
    for (const auto& [first, last] : segments) edges.emplace_back(After(first - 1), After(last));
    Send({.ack = ack, .options = SackOptions(edges, host_isn_)});
  }
  // The answer to one acknowledgment.
  std::vector<std::string> OnAck(uint32_t ack) {
    Send({.ack = ack});
    return TakeText();
  }
  std::vector<std::string> OnSack(uint32_t ack, const Blocks& segments) {
    SendSack(ack, segments);
    return TakeText();
  }

  void Mark() { mark_ = net->now(); }
  // "1500 A 1:1001(1000) ack 1": with the milliseconds since Mark().
  std::vector<std::string> TakeTimed() {
    std::vector<Duration> times;
    for (const SentFrame& frame : device().sent()) times.push_back(frame.time - mark_);
    std::vector<std::string> all;
    for (const SentSegment& s : Take()) {
      const auto ms = std::chrono::duration_cast<milliseconds>(times[all.size()]).count();
      all.push_back(absl::StrCat(ms, " ", s.ToString()));
    }
    return all;
  }
  // Only the times, in milliseconds.
  std::vector<int64_t> TakeTimes() {
    std::vector<int64_t> all;
    for (const SentFrame& frame : device().sent())
      all.push_back(std::chrono::duration_cast<milliseconds>(frame.time - mark_).count());
    Take();
    return all;
  }
  // Moves time to `ms` after Mark().
  void AdvanceTo(int64_t ms) { net->Advance(mark_ + milliseconds(ms) - net->now()); }
  // Moves the clock without stopping at deadlines, as a machine does that slept.
  void Jump(Duration by) {
    net->clock().Advance(by);
    net->Run();
  }

  Time mark_{};
};

}  // namespace tapwire::testutil
