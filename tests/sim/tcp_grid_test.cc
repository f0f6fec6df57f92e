// SPDX-License-Identifier: Apache-2.0
// Two stacks with TCP and a link between them: a transfer for each point of a grid of round-trip
// times, losses, reordering, buffers and congestion controls, 200 seeded runs in all. Everything of
// a run follows from its seed; a failing one says how to run it again with a capture:
//
//   TAPWIRE_GRID_SEED=17 TAPWIRE_GRID_PCAP=17.pcapng sim_test --gtest_filter=TcpGridReplay.*
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "tests/stack/tcp/connection_test_peer.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/sim/simulator.h"

namespace tapwire::testutil {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using tcp::ConnectionTestPeer;

constexpr uint16_t kPort = 7;
constexpr uint64_t kRuns = 200;

constexpr microseconds kRtts[] = {microseconds(100), milliseconds(10), milliseconds(100)};
constexpr double kLosses[] = {0, 0.001, 0.01, 0.05};
constexpr size_t kBuffers[] = {64u << 10, 1u << 20};

// One point of the grid.
struct Scenario {
  uint64_t seed;
  microseconds rtt;
  double loss;
  bool reorder;
  size_t buffer;
  std::string congestion_control;
  IpFamily family;
  bool sack;
  size_t bytes;
};

// Seeds count through the grid, first with IPv4 and SACK, then with IPv6 and without.
Scenario ScenarioOf(uint64_t seed) {
  uint64_t i = seed - 1;
  const auto digit = [&i](uint64_t base) {
    const uint64_t d = i % base;
    i /= base;
    return d;
  };
  Scenario run;
  run.seed = seed;
  run.rtt = kRtts[digit(3)];
  run.loss = kLosses[digit(4)];
  run.reorder = digit(2) != 0;
  run.buffer = kBuffers[digit(2)];
  run.congestion_control = digit(2) != 0 ? "cubic" : "reno";
  const bool second_round = digit(2) != 0;
  run.family = second_round ? IpFamily::kV6 : IpFamily::kV4;
  run.sack = !second_round;
  run.bytes = run.buffer / 2 + 150'000;
  return run;
}

// Byte i of the stream; a period that no buffer or segment size shares.
uint8_t ByteAt(size_t i) { return static_cast<uint8_t>((i * 2654435761u) >> 13); }
// FNV-1a.
uint64_t Hash(uint64_t hash, std::span<const uint8_t> bytes) {
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}
constexpr uint64_t kHashStart = 0xcbf29ce484222325;

// One end of the transfer. The writer sends `bytes` and a FIN; the reader reads to the end and
// closes too.
class Program final : public tcp::ConnectionObserver {
 public:
  void Write(size_t bytes) { left_ = bytes; }
  void Take(tcp::Connection* connection) {
    connection_ = connection;
    connection->set_observer(this);
    OnReadable();
  }
  void Give(tcp::Connection* connection) { connection_ = connection; }
  tcp::Connection* connection() { return connection_; }

  void OnConnected() override {}
  void OnUrgent() override {}
  void OnWritable() override {
    std::vector<uint8_t> piece(10'000);
    while (left_ > 0) {
      const size_t size = std::min(left_, piece.size());
      for (size_t i = 0; i < size; ++i) piece[i] = ByteAt(written + i);
      const size_t taken = connection_->SendCopy(std::span(piece).first(size));
      if (taken == 0) return;
      hash = Hash(hash, std::span(piece).first(taken));
      written += taken;
      left_ -= taken;
    }
    connection_->ShutdownWrite();
  }
  void OnReadable() override {
    std::vector<uint8_t> bytes(connection_->readable_bytes());
    const size_t n = connection_->Read(bytes);
    connection_->Consumed(n);
    read += n;
    if (written == 0) {
      hash = Hash(hash, bytes);
      if (connection_->read_closed()) connection_->ShutdownWrite();
    }
  }
  void OnGone(const absl::Status& s) override {
    connection_ = nullptr;
    status = s;
    gone = true;
  }

  size_t written = 0, read = 0;
  uint64_t hash = kHashStart;
  bool gone = false;
  absl::Status status;

 private:
  tcp::Connection* connection_ = nullptr;
  size_t left_ = 0;
};

// A stack on a host of the simulation.
struct Node {
  Node(SimHost& host, SimDevice& device, const Scenario& run, uint8_t number) : program() {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.announce_addresses = false;
    config.link_local_address = false;
    stack = std::make_unique<Stack>(host.context(), config);
    interface = *stack->AddInterface(device);
    address = run.family == IpFamily::kV4
                  ? IpAddress(Ipv4Address(10, 0, 0, number))
                  : IpAddress(Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, number}));
    EXPECT_TRUE(interface->AddAddress({address, run.family == IpFamily::kV4 ? 24 : 64}).ok());
    tcp::Config tcp_config;
    tcp_config.congestion_control = run.congestion_control;
    tcp_config.sack = run.sack;
    tcp = &tcp::Tcp::Install(*stack, tcp_config);
  }
  void Knows(const Node& other, const SimDevice& device) {
    EXPECT_TRUE(
        interface->neighbors(address.family()).AddPermanent(other.address, device.mac()).ok());
  }

  Program program;
  std::unique_ptr<Stack> stack;
  Interface* interface = nullptr;
  tcp::Tcp* tcp = nullptr;
  IpAddress address;
};

// Looks at the writer after each event: what was sent must fit cwnd, and something must happen
// within an RTO.
class Watcher final : public netdev::PacketTap {
 public:
  Watcher(Simulator& sim, Program& writer, netdev::NetDevice& device) : sim_(sim), writer_(writer) {
    device.AddTap(*this);
  }

  void OnFrame(const Packet& packet, const netdev::NetDevice& /*device*/,
               netdev::TapDirection direction, netdev::TxResult /*result*/) override {
    if (direction == netdev::TapDirection::kTransmit && packet.length() > 200) ++data_frames_;
  }

  void Look() {
    const tcp::Connection* c = writer_.connection();
    if (c == nullptr || c->state() == tcp::State::kSynSent) return;
    const uint64_t acked = c->Info().bytes_acked;
    const bool moved = data_frames_ > 0 || acked != acked_;
    if (moved && c->unacked_bytes() > 0 && last_ != Time()) {
      EXPECT_LE(sim_.now() - last_, rto_ + milliseconds(1)) << "stalled";
    }
    if (data_frames_ > 0) CheckWindow(*c);
    if (moved) {
      // The timer runs with the RTO of the last progress, or of the last time-out.
      const Duration rto = ConnectionTestPeer::Rto(*c);
      rto_ = acked != acked_ || last_ == Time() ? rto : std::max(rto_, rto);
      last_ = sim_.now();
    }
    if (c->unacked_bytes() == 0) last_ = Time();
    acked_ = acked;
    data_frames_ = 0;
  }
  size_t looks_at_data = 0;

 private:
  // RFC 5681 §3.1. One segment may be sent again whatever the window (§3.2 step 3), and a FIN takes
  // a number without being counted.
  void CheckWindow(const tcp::Connection& c) {
    ++looks_at_data;
    if (data_frames_ == 1) return;
    EXPECT_LE(ConnectionTestPeer::Pipe(c), ConnectionTestPeer::Cwnd(c) + 1)
        << data_frames_ << " segments sent";
  }

  Simulator& sim_;
  Program& writer_;
  int data_frames_ = 0;
  uint64_t acked_ = 0;
  Time last_{};
  Duration rto_{};
};

// Returns the capture if there is to be one.
std::vector<uint8_t> Transfer(const Scenario& run, bool capture) {
  SCOPED_TRACE(absl::StrCat("to replay: TAPWIRE_GRID_SEED=", run.seed, " TAPWIRE_GRID_PCAP=",
                            run.seed, ".pcapng sim_test --gtest_filter=TcpGridReplay.*"));
  Simulator sim({.seed = run.seed, .capture = capture});
  SimHost& host_a = sim.AddHost("a");
  SimHost& host_b = sim.AddHost("b");
  const auto link = sim.AddLink(host_a, host_b,
                                {.rate_bits_per_s = 100'000'000,
                                 .delay = run.rtt / 2,
                                 .queue_packets = 64,
                                 .loss = run.loss,
                                 .reorder = run.reorder ? 0.02 : 0.0,
                                 .reorder_delay = std::max(run.rtt / 4, microseconds(300))});
  std::vector<uint8_t> bytes;
  {
    Node a(host_a, *link.a, run, 1);
    Node b(host_b, *link.b, run, 2);
    a.Knows(b, *link.b);
    b.Knows(a, *link.a);
    Watcher watcher(sim, a.program, *link.a);
    tcp::SocketOptions options;
    options.send_buffer = options.receive_buffer = run.buffer;
    auto listener = b.tcp->Listen({b.address, kPort, 0}, 1, options, nullptr);
    EXPECT_TRUE(listener.ok());
    a.program.Write(run.bytes);
    auto opened = a.tcp->Connect({IpAddress::Unspecified(run.family), 0, 0}, {b.address, kPort, 0},
                                 options, &a.program);
    EXPECT_TRUE(opened.ok());
    a.program.Give(*opened);
    bool accepted = false;
    const bool done = sim.RunUntilTrue(
        [&] {
          if (!accepted && (*listener)->waiting() > 0) {
            b.program.Take((*listener)->Accept());
            accepted = true;
          }
          watcher.Look();
          return a.program.gone && b.program.gone;
        },
        minutes(10));
    EXPECT_TRUE(done) << b.program.read << " of " << run.bytes << " bytes in ten minutes";
    EXPECT_TRUE(a.program.status.ok()) << a.program.status;
    EXPECT_TRUE(b.program.status.ok()) << b.program.status;
    EXPECT_EQ(b.program.read, run.bytes);
    EXPECT_EQ(a.program.hash, b.program.hash);
    EXPECT_GT(watcher.looks_at_data, 0u);
    b.tcp->CloseListener(**listener);
    if (!done) {
      for (Node* node : {&a, &b}) {
        if (node->program.connection() != nullptr) node->program.connection()->Abort();
      }
    }
    EXPECT_TRUE(sim.RunUntilIdle(minutes(10)));
    for (const Node* node : {&a, &b}) {
      EXPECT_EQ(node->tcp->connection_count(), 0u);
      EXPECT_EQ(node->tcp->listener_count(), 0u);
      EXPECT_EQ(node->tcp->time_wait_count(), 0u);
    }
    EXPECT_TRUE(sim.check_report().clean());
    if (capture) bytes = sim.capture();
  }
  return bytes;
}

// A test for each round-trip time and loss, so that a failure says where to look.
class TcpGridTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Grid, TcpGridTest, ::testing::Range(0, 12), [](const auto& test) {
  return absl::StrCat("Rtt", kRtts[test.param % 3].count(), "usLossPerMille",
                      static_cast<int>(kLosses[test.param / 3] * 1000));
});

// Covers: bug:B36
TEST_P(TcpGridTest, EveryByteArrives) {
  for (uint64_t seed = 1 + static_cast<uint64_t>(GetParam()); seed <= kRuns; seed += 12)
    Transfer(ScenarioOf(seed), /*capture=*/false);
}

TEST(TcpGridReplay, Run) {
  const char* seed = std::getenv("TAPWIRE_GRID_SEED");
  const char* path = std::getenv("TAPWIRE_GRID_PCAP");
  const std::vector<uint8_t> capture =
      Transfer(ScenarioOf(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1), path != nullptr);
  if (path == nullptr) return;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(capture.data()),
             static_cast<std::streamsize>(capture.size()));
  EXPECT_TRUE(file.good()) << path;
}

// Same seed, same bytes of capture, whatever is lost and reordered.
TEST(TcpGridDeterminism, SameSeedGivesTheSameCapture) {
  for (uint64_t seed : {24u, 23u + 96u}) {  // 5 % of loss and reordering, 100 and 10 ms
    const Scenario run = ScenarioOf(seed);
    EXPECT_TRUE(run.reorder);
    EXPECT_EQ(run.loss, 0.05);
    const std::vector<uint8_t> first = Transfer(run, true);
    EXPECT_GT(first.size(), run.bytes);
    EXPECT_TRUE(first == Transfer(run, true));
  }
  Scenario other = ScenarioOf(24);
  other.seed = 10'024;
  EXPECT_FALSE(Transfer(ScenarioOf(24), true) == Transfer(other, true));
}

}  // namespace
}  // namespace tapwire::testutil
