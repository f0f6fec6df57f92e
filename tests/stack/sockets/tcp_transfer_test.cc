// SPDX-License-Identifier: Apache-2.0
// Bulk data through sockets: every byte arrives, in order, whatever the sizes of buffers and
// writes.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire {
namespace {

constexpr size_t kTotal = 1u << 20;

// Byte i of the stream; a period that no buffer or segment size shares.
uint8_t ByteAt(size_t i) { return static_cast<uint8_t>((i * 2654435761u) >> 13); }

class TcpTransferTest : public testutil::TcpFixture {
 protected:
  // Sends back what it reads, with at most one write pending: the back-pressure of a real server.
  void StartEcho() {
    ASSERT_TRUE(
        server_->ReadStart([this](absl::StatusOr<BufferSlice> slice) { Echo(slice); }).ok());
  }
  void Echo(absl::StatusOr<BufferSlice>& slice) {
    ASSERT_TRUE(slice.ok()) << slice.status();
    if (slice->empty()) {
      ASSERT_TRUE(server_->ShutdownWrite(nullptr).ok());
      return;
    }
    server_->ReadStop();
    BufferChain chain;
    chain.Append(*std::move(slice));
    ASSERT_TRUE(server_
                    ->Write(std::move(chain),
                            [this](absl::Status status) {
                              ASSERT_TRUE(status.ok()) << status;
                              StartEcho();
                            })
                    .ok());
  }
  void SendSome() {
    std::vector<uint8_t> piece(5'000);
    while (sent_ < kTotal) {
      const size_t size = std::min(piece.size(), kTotal - sent_);
      for (size_t i = 0; i < size; ++i) piece[i] = ByteAt(sent_ + i);
      const absl::StatusOr<size_t> taken = client_->TryWrite({piece.data(), size});
      if (!taken.ok()) {
        ASSERT_TRUE(IsWouldBlock(taken.status())) << taken.status();
        return;
      }
      sent_ += *taken;
    }
    if (std::exchange(shut_, true)) return;
    ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  }
  void ReceiveSome() {
    uint8_t room[3'000];
    while (true) {
      const absl::StatusOr<size_t> n = client_->TryRead(room);
      if (!n.ok()) {
        ASSERT_TRUE(IsWouldBlock(n.status())) << n.status();
        return;
      }
      if (*n == 0) {
        ended_ = true;
        return;
      }
      for (size_t i = 0; i < *n; ++i) {
        if (room[i] != ByteAt(received_ + i)) ++wrong_;
      }
      received_ += *n;
      peak_ = std::max(peak_, sent_ - received_);
    }
  }
  void EchoAll(const TcpSocket::Options& client, const TcpSocket::Options& server) {
    Establish(client, server);
    StartEcho();
    client_->SetWritableCallback([this] { SendSome(); });
    ASSERT_TRUE(client_->ReadyStart([this] { ReceiveSome(); }).ok());
    SendSome();
    for (int i = 0; i < 3000 && !ended_; ++i) Advance(std::chrono::milliseconds(100));
    EXPECT_EQ(sent_, kTotal);
    EXPECT_EQ(received_, kTotal);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_TRUE(ended_);
    EXPECT_EQ(tcp_b().connection_count(), 0u);
  }

  size_t sent_ = 0, received_ = 0, wrong_ = 0, peak_ = 0;
  bool shut_ = false, ended_ = false;
};

INSTANTIATE_TEST_SUITE_P(Families, TcpTransferTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

TEST_P(TcpTransferTest, EchoOfAMebibyte) { EchoAll({}, {}); }

TEST_P(TcpTransferTest, EchoOfAMebibyteThroughSmallBuffers) {
  const TcpSocket::Options small = Buffers(8'000, 8'000);
  EchoAll(small, small);
  // Four buffers, and the slice that the echo holds: nothing else may pile up.
  EXPECT_LE(peak_, 5 * 8'000u);
}

TEST_P(TcpTransferTest, EchoOfAMebibyteThroughOddBuffers) {
  TcpSocket::Options options = Buffers(3'001, 70'001);
  options.max_segment = 536;
  EchoAll(options, Buffers(100'003, 5'003));
}

// A reader that takes slices only from time to time, a writer that hands over all at once.
TEST_P(TcpTransferTest, SlowReaderSlowsTheWriter) {
  Establish(Buffers(8'000, 0), Buffers(0, 8'000));
  std::vector<uint8_t> data(kTotal / 8);
  for (size_t i = 0; i < data.size(); ++i) data[i] = ByteAt(i);
  Done written;
  ASSERT_TRUE(client_->Write(Chain(data), Into(written)).ok());
  std::vector<uint8_t> got;
  const auto take = [&](absl::StatusOr<BufferSlice> slice) {
    ASSERT_TRUE(slice.ok());
    got.insert(got.end(), slice->bytes().begin(), slice->bytes().end());
    server_->ReadStop();
  };
  size_t most_queued = 0;
  for (int i = 0; i < 1000 && got.size() < data.size(); ++i) {
    ASSERT_TRUE(server_->ReadStart(take).ok());
    Advance(std::chrono::milliseconds(300));
    most_queued = std::max(most_queued, server_->readable_bytes());
  }
  EXPECT_EQ(got, data);
  EXPECT_LE(most_queued, 8'000u);
  EXPECT_EQ(written.calls, 1);
  EXPECT_TRUE(written.status.ok());
}

}  // namespace
}  // namespace tapwire
