// SPDX-License-Identifier: Apache-2.0
// TCP sockets on a libuv loop that the program owns: it may stop and start again, change, and be
// turned by hand; sockets do not keep it alive, and idle ones do not wake it.

#include <gtest/gtest.h>
#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kBulk = 4 << 20;

// A loop that must have nothing left when it goes.
class Loop {
 public:
  Loop() { EXPECT_EQ(uv_loop_init(&loop_), 0); }
  ~Loop() {
    uv_run(&loop_, UV_RUN_DEFAULT);  // closing handles
    EXPECT_EQ(uv_loop_close(&loop_), 0);
  }
  uv_loop_t* get() { return &loop_; }

 private:
  uv_loop_t loop_;
};

// Two stacks on one context, joined by a veth pair, in real time.
class UvTcpTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  UvTcpTest() : context_(system_.environment()) {
    auto pair = *netdev::CreateVethPair(context_, {});
    StackConfig config;
    config.duplicate_address_detection = false;
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    Interface* ia = *a_->AddInterface(*pair.first);
    Interface* ib = *b_->AddInterface(*pair.second);
    EXPECT_TRUE(pair.first->Up().ok());
    EXPECT_TRUE(pair.second->Up().ok());
    EXPECT_TRUE(ia->AddAddress(*IpPrefix::Parse(v4() ? "10.0.0.1/24" : "fd00::1/64")).ok());
    EXPECT_TRUE(ib->AddAddress(*IpPrefix::Parse(v4() ? "10.0.0.2/24" : "fd00::2/64")).ok());
    tcp::Tcp::Install(*a_);
    tcp::Tcp::Install(*b_);
    Attach(loop_);
    listener_ = *TcpListener::Listen(*b_, server());
  }
  ~UvTcpTest() override {
    client_.reset();
    server_.reset();
    listener_.reset();
    runner_.reset();
  }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  Endpoint server() const { return {*IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"), 7, 0}; }
  void Attach(Loop& loop) {
    auto runner = UvRunner::Attach(loop.get(), &context_);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  // Turns the loop, as a program with work of its own would, until `done` or for ten seconds.
  template <typename Done>
  bool TurnUntil(Loop& loop, Done done) {
    const auto end = std::chrono::steady_clock::now() + seconds(10);
    bool reached = false;
    runner_->Ref();  // libuv does not turn a loop that nothing keeps alive
    while (!(reached = done()) && std::chrono::steady_clock::now() < end) {
      uv_run(loop.get(), UV_RUN_NOWAIT);
    }
    runner_->Unref();
    return reached;
  }
  void Establish(const TcpSocket::Options& options = {}) {
    auto socket = TcpSocket::Connect(*a_, server(), {.socket = options}, nullptr);
    ASSERT_TRUE(socket.ok()) << socket.status();
    client_ = *std::move(socket);
    ASSERT_TRUE(TurnUntil(loop_, [this] {
      if (server_ == nullptr) server_ = listener_->TryAccept();
      return server_ != nullptr && client_->connected();
    }));
  }
  // The client sends kBulk bytes and its end; `on_slice` is told of every slice.
  void StartBulk(const std::function<void()>& on_slice) {
    std::vector<uint8_t> bytes(kBulk);
    for (size_t i = 0; i < kBulk; ++i) bytes[i] = static_cast<uint8_t>(i % 251);
    BufferChain data;
    ASSERT_EQ(data.AppendCopy(context_.pool(), bytes), kBulk);
    ASSERT_TRUE(client_->Write(std::move(data), nullptr).ok());
    ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
    Read(on_slice);
  }
  void Read(const std::function<void()>& on_slice) {
    ASSERT_TRUE(server_
                    ->ReadStart([this, on_slice](absl::StatusOr<BufferSlice> slice) {
                      ASSERT_TRUE(slice.ok()) << slice.status();
                      for (const uint8_t byte : slice->bytes()) {
                        wrong_ += byte != static_cast<uint8_t>(received_++ % 251);
                      }
                      ended_ = ended_ || slice->empty();
                      on_slice();
                    })
                    .ok());
  }
  void ExpectBulk() const {
    EXPECT_TRUE(ended_);
    EXPECT_EQ(received_, kBulk);
    EXPECT_EQ(wrong_, 0u);
  }

  SystemEnvironment system_;
  Loop loop_, other_loop_;
  netdev::NetContext context_;
  std::unique_ptr<Stack> a_, b_;
  std::unique_ptr<UvRunner> runner_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> client_, server_;
  size_t received_ = 0, wrong_ = 0;
  bool ended_ = false;
};

INSTANTIATE_TEST_SUITE_P(Families, UvTcpTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& test) {
                           return test.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(UvTcpTest, LoopStopsAndStartsAgainWithSocketsOpen) {
  Establish();
  runner_->Ref();
  int runs = 0;
  size_t last = 0;
  const auto on_slice = [&] {
    if (!ended_ && received_ - last < kBulk / 8) return;
    server_->ReadStop();
    uv_stop(loop_.get());
  };
  StartBulk(on_slice);
  while (!ended_ && runs < 1000) {
    if (runs > 0) Read(on_slice);
    last = received_;
    uv_run(loop_.get(), UV_RUN_DEFAULT);
    ++runs;
    // Longer than a delayed acknowledgment and than the smallest retransmission timeout.
    if (runs == 2) std::this_thread::sleep_for(milliseconds(300));
  }
  EXPECT_GT(runs, 4);
  ExpectBulk();
  runner_->Unref();
}

TEST_P(UvTcpTest, LoopMayBeTurnedByHand) {
  Establish();
  StartBulk([] {});
  EXPECT_TRUE(TurnUntil(loop_, [this] { return ended_; }));
  ExpectBulk();
}

TEST_P(UvTcpTest, SocketsMoveToAnotherLoop) {
  Establish();
  StartBulk([] {});
  ASSERT_TRUE(TurnUntil(loop_, [this] { return received_ > kBulk / 4; }));
  runner_.reset();
  const size_t before = received_;
  for (int i = 0; i < 10; ++i) uv_run(loop_.get(), UV_RUN_NOWAIT);
  EXPECT_EQ(received_, before);
  Attach(other_loop_);
  EXPECT_TRUE(TurnUntil(other_loop_, [this] { return ended_; }));
  ExpectBulk();
}

// A listener, a connection with timers running, and one in TIME-WAIT.
TEST_P(UvTcpTest, SocketsDoNotKeepTheLoopAlive) {
  TcpSocket::Options options;
  options.keepalive = true;
  options.keepalive_idle = seconds(5);
  Establish(options);
  auto second = TcpSocket::Connect(*a_, server(), {}, nullptr);
  ASSERT_TRUE(second.ok());
  std::unique_ptr<TcpSocket> accepted;
  ASSERT_TRUE(TurnUntil(loop_, [&] {
    if (accepted == nullptr) accepted = listener_->TryAccept();
    return accepted != nullptr && (*second)->connected();
  }));
  (*second)->Close(nullptr);
  ASSERT_TRUE(TurnUntil(loop_, [&] {
    uint8_t byte = 0;
    const auto read = accepted->TryRead({&byte, 1});
    return read.ok() && *read == 0;  // its end of the stream
  }));
  accepted.reset();
  ASSERT_TRUE(TurnUntil(loop_, [this] { return tcp::Tcp::Install(*a_).time_wait_count() == 1; }));
  EXPECT_TRUE(context_.next_deadline().has_value());

  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(uv_run(loop_.get(), UV_RUN_DEFAULT), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(1));
  EXPECT_EQ(uv_loop_alive(loop_.get()), 0);
  EXPECT_TRUE(client_->connected());
}

// Also while a write waits: the peer does not read, and it is the program that decides to leave.
TEST_P(UvTcpTest, WaitingWriteDoesNotKeepTheLoopAlive) {
  TcpSocket::Options options;
  options.send_buffer = 16 << 10;
  Establish(options);
  StartBulk([] {});
  server_->ReadStop();
  ASSERT_TRUE(TurnUntil(loop_, [this] { return !context_.has_pending_work(); }));
  EXPECT_EQ(uv_run(loop_.get(), UV_RUN_DEFAULT), 0);
  EXPECT_FALSE(ended_);
}

// Covers: demand:19
TEST_P(UvTcpTest, ThousandIdleConnectionsNeverWakeTheLoop) {
  constexpr size_t kConnections = 1000;
  std::vector<std::unique_ptr<TcpSocket>> sockets;
  size_t accepted = 0;
  ASSERT_TRUE(listener_
                  ->AcceptStart([&](std::unique_ptr<TcpSocket> socket) {
                    sockets.push_back(std::move(socket));
                    ++accepted;
                  })
                  .ok());
  for (size_t i = 0; i < kConnections; ++i) {
    auto socket = TcpSocket::Connect(*a_, server(), {}, nullptr);
    ASSERT_TRUE(socket.ok()) << socket.status();
    sockets.push_back(*std::move(socket));
    if (i % 50 == 49) {
      ASSERT_TRUE(TurnUntil(loop_, [&] { return accepted == i + 1; }));
    }
  }
  const auto run_for = [this](uint64_t ms) {
    uv_timer_t timer;
    uv_timer_init(loop_.get(), &timer);
    uv_timer_start(
        &timer, [](uv_timer_t* t) { uv_stop(t->loop); }, ms, 0);
    uv_run(loop_.get(), UV_RUN_DEFAULT);
    uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    uv_run(loop_.get(), UV_RUN_NOWAIT);
  };
  // Group reports and the last acknowledgments.
  uint64_t before = 0;
  int rounds = 0;
  do {
    before = runner_->stats().wakeups();
    run_for(1200);
  } while (before != runner_->stats().wakeups() && ++rounds < 50);
  const uint64_t batches = runner_->stats().batches.value();
  run_for(500);
  EXPECT_EQ(runner_->stats().wakeups(), before);
  EXPECT_LE(runner_->stats().batches.value(), batches + 1);
}

}  // namespace
}  // namespace tapwire
