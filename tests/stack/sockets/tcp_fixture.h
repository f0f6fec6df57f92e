// SPDX-License-Identifier: Apache-2.0
// Two stacks with TCP on one context, joined by a veth pair, in virtual time; for tests of sockets.
// Every frame goes through the capture checker; at the end nothing may be left.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::testutil {

inline constexpr uint16_t kTcpTestPort = 7;

// Client on stack a (10.0.0.1, fd00::1), server on stack b (10.0.0.2, fd00::2).
class TcpFixture : public ::testing::TestWithParam<IpFamily> {
 protected:
  explicit TcpFixture(const netdev::NetContext::Options& options = {})
      : context_({&clock_, &random_}, options) {
    StackConfig config;
    config.duplicate_address_detection = false;
    auto pair = *netdev::CreateVethPair(context_, {});
    device_a_ = pair.first;
    device_b_ = pair.second;
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    ia_ = *a_->AddInterface(*device_a_);
    ib_ = *b_->AddInterface(*device_b_);
    EXPECT_TRUE(device_a_->Up().ok());
    EXPECT_TRUE(device_b_->Up().ok());
    EXPECT_TRUE(ia_->AddAddress({a(), v4() ? 24 : 64}).ok());
    EXPECT_TRUE(ib_->AddAddress({b(), v4() ? 24 : 64}).ok());
    // A stack that was never asked for TCP says "protocol unreachable".
    tcp_a();
    tcp_b();
    tap_ = std::make_unique<CheckerTap>(checker_, *device_a_);
    Run();
  }
  ~TcpFixture() override {
    client_.reset();
    server_.reset();
    listener_.reset();
    Run();
    tap_.reset();
    a_.reset();
    b_.reset();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_EQ(context_.timers().armed_count(), 0u);
    EXPECT_TRUE(checker_.report().clean()) << checker_.report().ToString();
  }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress a() const { return *IpAddress::Parse(v4() ? "10.0.0.1" : "fd00::1"); }
  IpAddress b() const { return *IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"); }
  IpAddress any() const { return IpAddress::Unspecified(GetParam()); }
  Endpoint server_endpoint() const { return {b(), kTcpTestPort, 0}; }
  tcp::Tcp& tcp_a() { return tcp::Tcp::Install(*a_); }
  tcp::Tcp& tcp_b() { return tcp::Tcp::Install(*b_); }

  void Run() {
    while (context_.RunOnce()) {
    }
  }
  // Moves time, stopping at each deadline on the way.
  void Advance(Duration by) {
    const Time end = clock_.Now() + by;
    while (true) {
      Run();
      const std::optional<Time> next = context_.next_deadline();
      if (!next || *next > end) break;
      if (*next > clock_.Now()) clock_.Set(*next);
    }
    clock_.Set(end);
    Run();
  }

  void Listen(const TcpSocket::Options& options = {}) {
    auto listener = TcpListener::Listen(*b_, {any(), kTcpTestPort, 0}, 128, options);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  std::unique_ptr<TcpSocket> Connect(TcpSocket::ConnectCallback done = nullptr,
                                     const TcpSocket::Options& options = {}) {
    auto socket = TcpSocket::Connect(*a_, server_endpoint(), {.socket = options}, std::move(done));
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }
  // client_ and server_ are the ends of one established connection.
  void Establish(const TcpSocket::Options& client = {}, const TcpSocket::Options& server = {}) {
    if (!listener_) Listen(server);
    client_ = Connect(nullptr, client);
    Run();
    server_ = listener_->TryAccept();
    ASSERT_NE(server_, nullptr);
    ASSERT_TRUE(client_->connected());
  }

  // Fixed buffer sizes; 0: automatic.
  static TcpSocket::Options Buffers(size_t send, size_t receive) {
    TcpSocket::Options options;
    options.send_buffer = send;
    options.receive_buffer = receive;
    return options;
  }

  // Unplugs the peer, without a word to anybody.
  void Unplug() { device_b_->Down(); }

  BufferChain Chain(const std::vector<uint8_t>& bytes) {
    BufferChain chain;
    EXPECT_EQ(chain.AppendCopy(context_.pool(), bytes), bytes.size());
    return chain;
  }
  BufferChain Chain(absl::string_view text) {
    return Chain(std::vector<uint8_t>(text.begin(), text.end()));
  }
  static std::string Text(const BufferSlice& slice) {
    return {slice.bytes().begin(), slice.bytes().end()};
  }
  static std::span<const uint8_t> Bytes(absl::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  static std::string ReadAll(TcpSocket& socket) {
    std::string text;
    uint8_t piece[512];
    for (auto n = socket.TryRead(piece); n.ok() && *n > 0; n = socket.TryRead(piece)) {
      text.append(piece, piece + *n);
    }
    return text;
  }

  // What a reader in slice mode was told: bytes, then '.' for the end or '!' for an error.
  struct Heard {
    std::string text;
    absl::Status status;
    int ends = 0;
  };
  static TcpSocket::ReadCallback Into(Heard& heard) {
    return [&heard](absl::StatusOr<BufferSlice> slice) {
      EXPECT_EQ(heard.ends, 0) << "called after the end";
      if (!slice.ok()) {
        heard.status = slice.status();
      } else {
        heard.text += Text(*slice);
      }
      if (!slice.ok() || slice->empty()) ++heard.ends;
    };
  }
  // Counts calls of a one-shot callback and keeps its status.
  struct Done {
    int calls = 0;
    absl::Status status;
  };
  static absl::AnyInvocable<void(absl::Status) &&> Into(Done& done) {
    return [&done](absl::Status status) {
      ++done.calls;
      done.status = std::move(status);
    };
  }

  FakeClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  capture::CaptureChecker checker_;
  netdev::NetDevice* device_a_ = nullptr;
  netdev::NetDevice* device_b_ = nullptr;
  std::unique_ptr<Stack> a_, b_;
  std::unique_ptr<CheckerTap> tap_;
  Interface* ia_ = nullptr;
  Interface* ib_ = nullptr;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> client_, server_;
};

inline std::string FamilyName(const ::testing::TestParamInfo<IpFamily>& family) {
  return family.param == IpFamily::kV4 ? "V4" : "V6";
}

}  // namespace tapwire::testutil
