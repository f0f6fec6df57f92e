// SPDX-License-Identifier: Apache-2.0
// SocketTable with a ThreadWaiter: the stack on its own thread, callers on theirs. And what a
// SimWaiter does that a kernel cannot show: virtual time, two stacks on a wire, giving up.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "netdev/veth.h"
#include "stack/interface.h"
#include "stack/sockets/socket_table.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_waiter.h"
#include "tests/stack/sockets/socket_table_oracle.h"

namespace tapwire {
namespace {

using testutil::Address;
using testutil::MakeAddress;
using testutil::SimSockets;

// A stack with its loopback device on a thread of its own.
class SocketTableThreadTest : public ::testing::Test {
 protected:
  SocketTableThreadTest() : context_(system_.environment()), stack_(context_) {
    auto started = ThreadWaiter::Start(context_);
    EXPECT_TRUE(started.ok()) << started.status();
    waiter_ = *std::move(started);
    table_ = std::make_unique<SocketTable>(stack_, *waiter_);
  }
  ~SocketTableThreadTest() override {
    table_.reset();
    waiter_->Stop();
  }

  int Listener(uint16_t port) {
    const int fd = table_->Socket(AF_INET6, SOCK_STREAM, 0);
    const Address a = MakeAddress(AF_INET6, "::1", port);
    EXPECT_EQ(table_->Bind(fd, a.get(), a.length), 0);
    EXPECT_EQ(table_->Listen(fd, 64), 0);
    return fd;
  }
  int Connected(uint16_t port) {
    const int fd = table_->Socket(AF_INET6, SOCK_STREAM, 0);
    const Address a = MakeAddress(AF_INET6, "::1", port);
    EXPECT_EQ(table_->Connect(fd, a.get(), a.length), 0);
    return fd;
  }

  SystemEnvironment system_;
  netdev::NetContext context_;
  Stack stack_;
  std::unique_ptr<ThreadWaiter> waiter_;
  std::unique_ptr<SocketTable> table_;
};

TEST_F(SocketTableThreadTest, ManyClientsTalkToAnEchoServer) {
  constexpr int kClients = 8;
  constexpr size_t kBytes = 200'000;
  const int listener = Listener(7);
  std::vector<std::thread> threads;
  threads.reserve(2 * kClients);
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      const int fd = table_->Accept(listener, nullptr, nullptr);
      ASSERT_GE(fd, 0);
      std::vector<char> data(10'000);
      for (ssize_t n = 0; (n = table_->Recv(fd, data.data(), data.size(), 0)) > 0;) {
        ASSERT_EQ(table_->Send(fd, data.data(), static_cast<size_t>(n), 0), n);
      }
      EXPECT_EQ(table_->Close(fd), 0);
    });
  }
  std::atomic<int> right{0};
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const int fd = Connected(7);
      std::string out(kBytes, '\0');
      for (size_t k = 0; k < out.size(); ++k) out[k] = static_cast<char>(k * 7 + size_t(i));
      std::thread writer([&] {
        EXPECT_EQ(table_->Send(fd, out.data(), out.size(), 0), static_cast<ssize_t>(out.size()));
        EXPECT_EQ(table_->Shutdown(fd, SHUT_WR), 0);
      });
      std::string in(out.size(), '\0');
      EXPECT_EQ(table_->Recv(fd, in.data(), in.size(), MSG_WAITALL),
                static_cast<ssize_t>(in.size()));
      char more = 0;
      EXPECT_EQ(table_->Recv(fd, &more, 1, 0), 0);
      writer.join();
      if (in == out) ++right;
      EXPECT_EQ(table_->Close(fd), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kClients);
}

// A blocked call sleeps: no CPU time passes on its thread.
TEST_F(SocketTableThreadTest, BlockedCallsDoNotSpin) {
  const int listener = Listener(8);
  const int fd = Connected(8);
  timeval timeout = {0, 300'000};
  EXPECT_EQ(table_->SetSockOpt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
  timespec before = {}, after = {};
  char byte = 0;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(table_->Recv(fd, &byte, 1, 0), -EAGAIN);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_GE(elapsed, std::chrono::milliseconds(299));
  const int64_t cpu_ns =
      (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  EXPECT_LT(cpu_ns, 100'000'000);
  EXPECT_EQ(table_->Close(listener), 0);
}

TEST_F(SocketTableThreadTest, PollWakesWhenAnotherThreadSends) {
  const int listener = Listener(9);
  const int client = Connected(9);
  const int server = table_->Accept(listener, nullptr, nullptr);
  std::thread sender([&] { EXPECT_EQ(table_->Send(client, "x", 1, 0), 1); });
  pollfd p = {server, POLLIN, 0};
  EXPECT_EQ(table_->Poll(&p, 1, -1), 1);
  sender.join();
  const int ep = table_->EpollCreate(1);
  epoll_event e = {};
  e.events = EPOLLIN;
  EXPECT_EQ(table_->EpollCtl(ep, EPOLL_CTL_ADD, server, &e), 0);
  EXPECT_EQ(table_->EpollWait(ep, &e, 1, -1), 1);
}

TEST_F(SocketTableThreadTest, ClosingEndsACallThatWaits) {
  const int listener = Listener(10);
  std::atomic<int> result{1};
  std::thread waiting([&] { result = table_->Accept(listener, nullptr, nullptr); });
  // Wherever the other thread is: before the call it finds no descriptor, in it is woken.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(table_->Close(listener), 0);
  waiting.join();
  EXPECT_EQ(result, -EBADF);
}

TEST_F(SocketTableThreadTest, ShutdownEndsARead) {
  const int listener = Listener(11);
  const int fd = Connected(11);
  std::atomic<ssize_t> result{1};
  std::thread waiting([&] {
    char byte = 0;
    result = table_->Recv(fd, &byte, 1, 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(table_->Shutdown(fd, SHUT_RD), 0);
  waiting.join();
  EXPECT_EQ(result, 0);
  EXPECT_EQ(table_->Close(listener), 0);
}

TEST_F(SocketTableThreadTest, StopEndsEveryCall) {
  const int listener = Listener(12);
  std::vector<std::thread> waiting;
  std::atomic<int> interrupted{0};
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&] {
      if (table_->Accept(listener, nullptr, nullptr) == -EINTR) ++interrupted;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  waiter_->Stop();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(interrupted, 3);
  EXPECT_EQ(table_->Socket(AF_INET6, SOCK_STREAM, 0), -EINTR);
}

// ---- SimWaiter ----

// Two stacks on the ends of a wire, a table on each.
class SocketTableWireTest : public ::testing::TestWithParam<bool> {
 protected:
  SocketTableWireTest() : context_({&clock_, &random_}) {
    StackConfig config;
    config.duplicate_address_detection = false;
    auto pair = *netdev::CreateVethPair(context_, {});
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    auto* ia = *a_->AddInterface(*pair.first);
    auto* ib = *b_->AddInterface(*pair.second);
    EXPECT_TRUE(pair.first->Up().ok());
    EXPECT_TRUE(pair.second->Up().ok());
    wire_ = pair.second;
    EXPECT_TRUE(ia->AddAddress(*IpPrefix::Parse(v6() ? "fd00::1/64" : "10.0.0.1/24")).ok());
    EXPECT_TRUE(ib->AddAddress(*IpPrefix::Parse(v6() ? "fd00::2/64" : "10.0.0.2/24")).ok());
    client_ = std::make_unique<SocketTable>(*a_, waiter_);
    server_ = std::make_unique<SocketTable>(*b_, waiter_);
    waiter_.Settle();
  }
  bool v6() const { return GetParam(); }
  int domain() const { return v6() ? AF_INET6 : AF_INET; }
  Address Server(uint16_t port) const {
    return MakeAddress(domain(), v6() ? "fd00::2" : "10.0.0.2", port);
  }
  bool Advance(std::optional<Time> next) {
    if (on_advance_) on_advance_();
    if (!next) return false;
    clock_.Set(std::max(*next, clock_.Now()));
    return true;
  }

  FakeClock clock_;
  SeededRandom random_{3};
  netdev::NetContext context_;
  netdev::NetDevice* wire_ = nullptr;
  std::function<void()> on_advance_;
  SimWaiter waiter_{context_, [this](std::optional<Time> next) { return Advance(next); }};
  std::unique_ptr<Stack> a_, b_;
  std::unique_ptr<SocketTable> client_, server_;
};

TEST_P(SocketTableWireTest, TransfersAndNamesBothEnds) {
  const int listener = server_->Socket(domain(), SOCK_STREAM, 0);
  const Address any = MakeAddress(domain(), v6() ? "::" : "0.0.0.0", 80);
  ASSERT_EQ(server_->Bind(listener, any.get(), any.length), 0);
  ASSERT_EQ(server_->Listen(listener, 1), 0);
  const int c = client_->Socket(domain(), SOCK_STREAM, 0);
  ASSERT_EQ(client_->Connect(c, Server(80).get(), Server(80).length), 0);
  Address peer;
  peer.length = sizeof(peer.storage);
  const int s = server_->Accept(listener, peer.get(), &peer.length);
  ASSERT_GE(s, 0);
  Address own;
  own.length = sizeof(own.storage);
  ASSERT_EQ(client_->GetSockName(c, own.get(), &own.length), 0);
  EXPECT_EQ(own.length, peer.length);
  EXPECT_EQ(std::memcmp(&own.storage, &peer.storage, own.length), 0);

  const std::string data(300'000, 'w');
  std::string in;
  // The reader runs while the writer waits for room.
  on_advance_ = [&] {
    char piece[65536];
    const ssize_t n = server_->Recv(s, piece, sizeof(piece), MSG_DONTWAIT);
    if (n > 0) in.append(piece, static_cast<size_t>(n));
  };
  EXPECT_EQ(client_->Send(c, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  on_advance_ = nullptr;
  EXPECT_EQ(client_->Close(c), 0);
  char piece[65536];
  for (ssize_t n = 0; (n = server_->Recv(s, piece, sizeof(piece), 0)) > 0;) {
    in.append(piece, static_cast<size_t>(n));
  }
  EXPECT_EQ(in, data);
}

// RFC 9293 §3.8.3: a SYN that nobody answers is given up after minutes of virtual time.
TEST_P(SocketTableWireTest, ConnectTimesOutWhenTheWireIsCut) {
  // The neighbour is known, so that it is TCP that gives up.
  const int listener = server_->Socket(domain(), SOCK_STREAM, 0);
  ASSERT_EQ(server_->Bind(listener, Server(80).get(), Server(80).length), 0);
  ASSERT_EQ(server_->Listen(listener, 1), 0);
  const int c = client_->Socket(domain(), SOCK_STREAM, 0);
  timeval ten = {10, 0};
  ASSERT_EQ(client_->SetSockOpt(c, SOL_SOCKET, SO_SNDTIMEO, &ten, sizeof(ten)), 0);
  const Time start = clock_.Now();
  const Address nobody = MakeAddress(domain(), v6() ? "fd00::77" : "10.0.0.77", 80);
  const int result = client_->Connect(c, nobody.get(), nobody.length);
  EXPECT_EQ(result, -EHOSTUNREACH);
  EXPECT_LE(clock_.Now() - start, std::chrono::seconds(10));
}

INSTANTIATE_TEST_SUITE_P(Families, SocketTableWireTest, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "V6" : "V4"; });

TEST(SimWaiterTest, TimeoutsPassInVirtualTime) {
  SimSockets sim;
  const int fd = sim.table().Socket(AF_INET, SOCK_DGRAM, 0);
  const Time start = sim.clock().Now();
  pollfd p = {fd, POLLIN, 0};
  EXPECT_EQ(sim.table().Poll(&p, 1, 5000), 0);
  EXPECT_EQ(sim.clock().Now() - start, std::chrono::seconds(5));
  timeval hour = {3600, 0};
  EXPECT_EQ(sim.table().SetSockOpt(fd, SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof(hour)), 0);
  char byte = 0;
  EXPECT_EQ(sim.table().Recv(fd, &byte, 1, 0), -EAGAIN);
  EXPECT_EQ(sim.clock().Now() - start, std::chrono::seconds(3605));
}

TEST(SimWaiterTest, GivesUpWhenNothingCanHappen) {
  SimSockets sim;
  const int fd = sim.table().Socket(AF_INET, SOCK_DGRAM, 0);
  char byte = 0;
  EXPECT_EQ(sim.table().Recv(fd, &byte, 1, 0), -EINTR);
}

TEST(SocketTableNumbersTest, LowestFreeNumberFirstFromTheBase) {
  SimSockets sim;
  SocketTable table(sim.stack(), sim.waiter(), {.first_fd = 100, .max_fds = 3});
  EXPECT_EQ(table.Socket(AF_INET, SOCK_STREAM, 0), 100);
  EXPECT_EQ(table.EpollCreate(1), 101);
  EXPECT_EQ(table.Socket(AF_INET6, SOCK_DGRAM, 0), 102);
  EXPECT_EQ(table.Socket(AF_INET, SOCK_STREAM, 0), -EMFILE);
  EXPECT_EQ(table.EpollCreate(1), -EMFILE);
  EXPECT_EQ(table.Close(101), 0);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_FALSE(table.IsOpen(101));
  EXPECT_TRUE(table.IsOpen(102));
  EXPECT_EQ(table.Socket(AF_INET, SOCK_STREAM, 0), 101);
  EXPECT_EQ(table.Close(99), -EBADF);
  EXPECT_EQ(table.Close(-1), -EBADF);
}

// What is open is closed with the table: the peer sees the end.
TEST(SocketTableNumbersTest, TheTableClosesWhatIsOpen) {
  SimSockets sim;
  SocketTable& other = sim.table();
  auto table = std::make_unique<SocketTable>(sim.stack(), sim.waiter());
  const int listener = other.Socket(AF_INET, SOCK_STREAM, 0);
  const Address a = MakeAddress(AF_INET, "127.0.0.1", 5000);
  ASSERT_EQ(other.Bind(listener, a.get(), a.length), 0);
  ASSERT_EQ(other.Listen(listener, 1), 0);
  const int client = table->Socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(table->Connect(client, a.get(), a.length), 0);
  const int server = other.Accept(listener, nullptr, nullptr);
  table.reset();
  char byte = 0;
  EXPECT_EQ(other.Recv(server, &byte, 1, 0), 0);
}

}  // namespace
}  // namespace tapwire
