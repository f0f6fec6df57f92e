// SPDX-License-Identifier: Apache-2.0
// One host with TCP, and a peer that a test plays by hand: every segment is written out and every
// answer looked at, in virtual time. Sequence numbers are relative: the peer's and the host's first
// one, the SYN's, is 0.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/tcp/tcp.h"
#include "tests/stack/host_fixture.h"

namespace tapwire::testutil {

// A segment of the host as the peer sees it.
struct SentSegment {
  std::string flags;  // letters of "FSRPAUEC"
  uint32_t seq = 0;   // relative to the host's ISN
  uint32_t ack = 0;   // relative to the peer's ISN; 0 without the flag
  uint16_t window = 0;
  uint16_t urgent = 0;
  size_t length = 0;
  ByteVector payload;
  wire::TcpOptions options;
  uint8_t ttl = 0, tos = 0;

  // "SA 0:0(0) ack 1", as tcpdump would have it.
  std::string ToString() const {
    return absl::StrCat(flags, " ", seq, ":", seq + static_cast<uint32_t>(length), "(", length, ")",
                        flags.find('A') != std::string::npos ? absl::StrCat(" ack ", ack) : "");
  }
};

// Records what a connection's owner is told.
class RecordingObserver : public tcp::ConnectionObserver {
 public:
  void OnConnected() override { ++connected; }
  void OnReadable() override { ++readable; }
  void OnWritable() override { ++writable; }
  void OnUrgent() override { ++urgent; }
  void OnGone(const absl::Status& s) override {
    ++gone;
    status = s;
  }
  int err() const { return StatusToErrno(status); }
  int connected = 0, readable = 0, writable = 0, urgent = 0, gone = 0;
  absl::Status status;
};

class TcpHostTest : public HostFamilyTest {
 protected:
  // The stack tells the observer that it goes.
  ~TcpHostTest() override { stack.reset(); }

  static constexpr uint16_t kHostPort = 8080;
  static constexpr uint16_t kPeerPort = 40000;
  static constexpr uint32_t kPeerIsn = 0xfffffff0;  // so that every test crosses 2^32

  struct Args {
    absl::string_view flags = "A";
    uint32_t seq = 1;  // relative to the peer's ISN
    uint32_t ack = 1;  // relative to the host's
    uint16_t window = 65535;
    ByteVector payload = {};
    ByteVector options = {};
    uint16_t urgent = 0;
    bool bad_checksum = false;
  };

  // The host, and a neighbour entry for the peer.
  void Start(const tcp::Config& config = Plain(), NetHarness::Options options = NoOffload()) {
    Make(Quiet(), true, std::move(options));
    tcp_ = &tcp::Tcp::Install(*stack, config);
    ASSERT_TRUE(interface->neighbors(family()).AddPermanent(peer(), kPeerMac).ok());
  }
  // No timestamps, so that payloads are round numbers; options are tested apart.
  static tcp::Config Plain() {
    tcp::Config config;
    config.timestamps = false;
    config.congestion_control = "reno";
    return config;
  }
  // A device that cuts nothing, so that frames are segments.
  static NetHarness::Options NoOffload() { return NetHarness::Options(); }

  tcp::Tcp& tcp() { return *tcp_; }
  uint64_t Dropped(DropReason reason) { return drops(reason); }

  // A frame of the peer.
  ByteVector Build(const Args& args, uint16_t peer_port = kPeerPort) {
    Frame frame;
    frame.Eth(kPeerMac, kHostMac);
    if (v4()) {
      frame.Ipv4({.source = peer().v4(), .destination = host().v4()});
    } else {
      frame.Ipv6({.source = peer().v6(), .destination = host().v6()});
    }
    TcpArgs tcp{.source_port = peer_port,
                .destination_port = host_port_,
                .seq = kPeerIsn + args.seq,
                .ack = args.flags.find('A') == absl::string_view::npos ? 0 : host_isn_ + args.ack,
                .flags = args.flags,
                .window = args.window,
                .urgent = args.urgent,
                .options = args.options};
    if (args.bad_checksum) tcp.checksum = 0x1234;
    frame.Tcp(tcp);
    frame.Payload(args.payload);
    return frame.Build();
  }
  void Send(const Args& args) { net->Inject(Build(args)); }

  // What the host sent since the last call. A SYN sets what its numbers are relative to.
  std::vector<SentSegment> Take() {
    std::vector<SentSegment> segments;
    for (const ByteVector& bytes : TakeFrames()) {
      const FrameView view = Dissect(bytes);
      if (view.protocol != 6) continue;
      if ((view.tcp_flags & 0x02) != 0) {
        host_isn_ = view.seq;
        host_port_ = view.source_port;
      }
      SentSegment s;
      const absl::string_view letters = "FSRPAUEC";
      for (size_t i = 0; i < letters.size(); ++i) {
        if ((view.tcp_flags >> i & 1) != 0) s.flags += letters[i];
      }
      s.seq = view.seq - host_isn_;
      s.ack = (view.tcp_flags & 0x10) != 0 ? view.ack - kPeerIsn : 0;
      s.window = view.window;
      s.length = view.payload.size();
      s.payload.assign(view.payload.begin(), view.payload.end());
      s.options = view.tcp_options;
      s.urgent = static_cast<uint16_t>(view.upper[18] << 8 | view.upper[19]);
      s.ttl = view.ttl;
      s.tos = view.tos;
      segments.push_back(std::move(s));
    }
    return segments;
  }
  std::vector<std::string> TakeText() {
    std::vector<std::string> all;
    for (const SentSegment& s : Take()) all.push_back(s.ToString());
    return all;
  }

  // Options of a SYN: MSS 1460 (v4) or what is said, SACK permitted, window scale.
  static ByteVector SynOptions(uint16_t mss = 1460, bool sack = true, int scale = -1) {
    ByteVector o{2, 4, static_cast<uint8_t>(mss >> 8), static_cast<uint8_t>(mss)};
    if (sack) o.insert(o.end(), {1, 1, 4, 2});
    if (scale >= 0) o.insert(o.end(), {1, 3, 3, static_cast<uint8_t>(scale)});
    return o;
  }
  static ByteVector SackOptions(std::vector<std::pair<uint32_t, uint32_t>> blocks, uint32_t base) {
    ByteVector o{1, 1, 5, static_cast<uint8_t>(2 + 8 * blocks.size())};
    for (const auto& [left, right] : blocks) {
      for (uint32_t edge : {base + left, base + right}) {
        for (int shift = 24; shift >= 0; shift -= 8)
          o.push_back(static_cast<uint8_t>(edge >> shift));
      }
    }
    return o;
  }

  // The handshake as the active side; leaves nothing to take.
  tcp::Connection* Connect(ByteVector syn_options = SynOptions(), uint16_t window = 65535,
                           const tcp::SocketOptions& options = {}) {
    host_port_ = kHostPort;
    auto opened =
        tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, options, &observer_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return nullptr;
    net->Run();
    EXPECT_THAT(TakeText(), ::testing::ElementsAre("S 0:0(0)"));
    Send({.flags = "SA", .seq = 0, .ack = 1, .window = window, .options = std::move(syn_options)});
    EXPECT_THAT(TakeText(), ::testing::ElementsAre("A 1:1(0) ack 1"));
    EXPECT_EQ((*opened)->state(), tcp::State::kEstablished);
    return *opened;
  }

  // The same as the passive side.
  tcp::Listener* Listen(size_t backlog = 16, const tcp::SocketOptions& options = {}) {
    host_port_ = kHostPort;
    auto listener =
        tcp().Listen({IpAddress::Unspecified(family()), kHostPort, 0}, backlog, options, nullptr);
    EXPECT_TRUE(listener.ok()) << listener.status();
    return listener.ok() ? *listener : nullptr;
  }
  tcp::Connection* Accept(tcp::Listener& listener, ByteVector syn_options = SynOptions(),
                          uint16_t window = 65535) {
    Send({.flags = "S", .seq = 0, .window = window, .options = std::move(syn_options)});
    EXPECT_THAT(TakeText(), ::testing::ElementsAre("SA 0:0(0) ack 1"));
    Send({.seq = 1, .ack = 1, .window = window});
    tcp::Connection* connection = listener.Accept();
    EXPECT_NE(connection, nullptr);
    if (connection != nullptr) connection->set_observer(&observer_);
    return connection;
  }

  size_t Write(tcp::Connection& c, size_t bytes, uint8_t first = 0) {
    const size_t n = c.SendCopy(Pattern(bytes, first));
    net->Run();
    return n;
  }
  ByteVector ReadAll(tcp::Connection& c) {
    ByteVector all(c.readable_bytes());
    const size_t n = c.Read(all);
    c.Consumed(n);
    net->Run();
    return all;
  }
  void Reset(tcp::Connection* c) {
    c->Abort();
    net->Run();
    Take();
  }

  RecordingObserver observer_;
  tcp::Tcp* tcp_ = nullptr;
  uint32_t host_isn_ = 0;
  uint16_t host_port_ = kHostPort;
};

}  // namespace tapwire::testutil
