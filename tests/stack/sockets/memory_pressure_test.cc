// SPDX-License-Identifier: Apache-2.0
// A pool at its budget: connections share what there is, and what drains the queues always finds
// memory. Nobody is malicious here; a few writers with a full send buffer are enough.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "stack/sockets/udp_socket.h"
#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire {
namespace {

constexpr size_t kBudget = 4u << 20;
constexpr size_t kConnections = 64;  // their send buffers alone could take four budgets
constexpr size_t kBytesEach = 300'000;

class MemoryPressureTest : public testutil::TcpFixture {
 protected:
  struct End {
    std::unique_ptr<TcpSocket> client, server;
    size_t sent = 0, received = 0;
    bool refused = false;
  };

  MemoryPressureTest() : TcpFixture({.pool = {.budget_bytes = kBudget}}) {}
  ~MemoryPressureTest() override { ends_.clear(); }

  void ConnectAll() {
    Listen();
    for (size_t i = 0; i < kConnections; ++i) {
      auto end = std::make_unique<End>();
      end->client = Connect();
      Run();
      end->server = listener_->TryAccept();
      ASSERT_NE(end->server, nullptr);
      ends_.push_back(std::move(end));
    }
  }
  // Writes what is left, now and whenever there is room.
  void Feed(End& end, size_t total) {
    end.client->SetWritableCallback([this, &end, total] { Write(end, total); });
    Write(end, total);
  }
  void Write(End& end, size_t total) {
    static const std::vector<uint8_t> piece(16'384, 'x');
    while (end.sent < total) {
      const size_t size = std::min(piece.size(), total - end.sent);
      const absl::StatusOr<size_t> taken = end.client->TryWrite({piece.data(), size});
      if (!taken.ok()) {
        end.refused = end.refused || !IsWouldBlock(taken.status());
        return;
      }
      end.sent += *taken;
    }
  }
  void Drain(End& end) {
    ASSERT_TRUE(end.server
                    ->ReadStart([&end](absl::StatusOr<BufferSlice> slice) {
                      ASSERT_TRUE(slice.ok()) << slice.status();
                      end.received += slice->size();
                    })
                    .ok());
  }

  std::vector<std::unique_ptr<End>> ends_;
};

TEST_P(MemoryPressureTest, ManyWritersAllGetThrough) {
  ConnectAll();
  for (auto& end : ends_) Drain(*end);
  for (auto& end : ends_) Feed(*end, kBytesEach);
  EXPECT_LE(context_.pool().in_use_bytes(), kBudget / 16 * 15);
  Advance(std::chrono::seconds(30));
  for (auto& end : ends_) {
    EXPECT_FALSE(end->refused);
    EXPECT_EQ(end->received, kBytesEach);
  }
}

TEST_P(MemoryPressureTest, ReadersThatDoNotReadLeaveRoomForOthers) {
  ConnectAll();
  for (auto& end : ends_) Feed(*end, kBytesEach);
  Advance(std::chrono::seconds(5));
  EXPECT_GT(context_.pool().in_use_bytes(), kBudget / 2);
  // Somebody else comes, and is served.
  Establish();
  ASSERT_TRUE(client_->TryWrite(Bytes("hello")).ok());
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(ReadAll(*server_), "hello");
  // Those who read after all lose nothing.
  for (auto& end : ends_) Drain(*end);
  Advance(std::chrono::minutes(3));
  for (auto& end : ends_) EXPECT_EQ(end->received, kBytesEach);
}

TEST_P(MemoryPressureTest, ReaderThatGoesAwayGivesItBack) {
  ConnectAll();
  for (auto& end : ends_) Feed(*end, kBytesEach);
  Advance(std::chrono::seconds(1));
  for (auto& end : ends_) {
    end->client->Abort();
    end->server->Abort();
  }
  Advance(std::chrono::seconds(1));
  EXPECT_LT(context_.pool().in_use_bytes(), kBudget / 8);
}

// Held by nobody's fault in particular.
TEST_P(MemoryPressureTest, DataIsShedWhenThePoolIsNearlyFullAndComesAgain) {
  Establish();
  std::vector<SlabRef> held;
  while (!context_.pool().is_nearly_full()) {
    held.push_back(context_.pool().AllocateSlab(SlabClass::kLarge));
  }
  // A little is still taken, what goes beyond is not.
  const std::string text(3000, 'x');
  size_t sent = 0;
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<size_t> taken = client_->TryWrite(Bytes(text));
    ASSERT_TRUE(taken.ok());
    sent += *taken;
    Advance(std::chrono::seconds(1));
  }
  EXPECT_GT(b_->mib().tcp_ext.rcv_queue_drop.value(), 0u);
  EXPECT_LE(server_->readable_bytes(), 9000u);
  held.clear();
  std::string read;
  for (int i = 0; i < 60 && read.size() < sent; ++i) {
    read += ReadAll(*server_);
    Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(read.size(), sent);
}

TEST_P(MemoryPressureTest, UdpKeepsOneDatagramWhenThePoolIsNearlyFull) {
  auto server = *UdpSocket::Create(*b_, {.family = GetParam()});
  auto client = *UdpSocket::Create(*a_, {.family = GetParam()});
  ASSERT_TRUE(server->Bind({b(), 9, 0}).ok());
  std::vector<SlabRef> held;
  while (!context_.pool().is_nearly_full()) {
    held.push_back(context_.pool().AllocateSlab(SlabClass::kLarge));
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client->Send(Bytes("x"), Endpoint{b(), 9, 0}).ok());
    Run();
  }
  const UdpCounters& counters = v4() ? b_->mib().udp : b_->mib().udp6;
  EXPECT_EQ(counters.rcvbuf_errors.value(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Families, MemoryPressureTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

}  // namespace
}  // namespace tapwire
