// SPDX-License-Identifier: Apache-2.0
// The contract of TcpSocket: reading slices and copies, back-pressure, readiness.

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netdev/base/status_util.h"
#include "stack/sockets/tcp_socket.h"
#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire {
namespace {

using testutil::Pattern;

class TcpSocketReadTest : public testutil::TcpFixture {};

INSTANTIATE_TEST_SUITE_P(Families, TcpSocketReadTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

// ---- Reading slices ----

TEST_P(TcpSocketReadTest, SlicesComeAfterTheBatchAndThenTheEnd) {
  Establish();
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  ASSERT_TRUE(client_->Write(Chain("hello"), nullptr).ok());
  EXPECT_EQ(heard.text, "");
  Run();
  EXPECT_EQ(heard.text, "hello");
  EXPECT_EQ(heard.ends, 0);
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  EXPECT_EQ(heard.ends, 1);
  EXPECT_TRUE(heard.status.ok());
  // The other direction still works (RFC 9293 §3.6).
  Heard back;
  ASSERT_TRUE(client_->ReadStart(Into(back)).ok());
  ASSERT_TRUE(server_->Write(Chain("world"), nullptr).ok());
  Run();
  EXPECT_EQ(back.text, "world");
}

TEST_P(TcpSocketReadTest, ReadStartWithDataWaitingCallsBackLater) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  EXPECT_EQ(server_->readable_bytes(), 1u);
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  EXPECT_EQ(heard.text, "");
  Run();
  EXPECT_EQ(heard.text, "x");
  EXPECT_EQ(heard.ends, 1);
  // The end may be asked for again.
  Heard again;
  ASSERT_TRUE(server_->ReadStart(Into(again)).ok());
  Run();
  EXPECT_EQ(again.ends, 1);
}

TEST_P(TcpSocketReadTest, SecondReadStartReplacesTheFirst) {
  Establish();
  Heard first, second;
  ASSERT_TRUE(server_->ReadStart(Into(first)).ok());
  ASSERT_TRUE(server_->ReadStart(Into(second)).ok());
  ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
  Run();
  EXPECT_EQ(first.text, "");
  EXPECT_EQ(second.text, "x");
  EXPECT_EQ(server_->ReadStart(nullptr).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server_->ReadyStart(nullptr).code(), absl::StatusCode::kInvalidArgument);
}

// What is to lie in the receive queue as several slices: more than one slab of data.
constexpr size_t kManySlices = 60'000;

TEST_P(TcpSocketReadTest, StopInsideTheCallbackKeepsTheRestQueued) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain(Pattern(kManySlices)), nullptr).ok());
  Advance(std::chrono::seconds(1));
  ASSERT_EQ(server_->readable_bytes(), kManySlices);
  int calls = 0;
  size_t got = 0;
  const auto stop = [&](absl::StatusOr<BufferSlice> slice) {
    ++calls;
    got += slice->size();
    server_->ReadStop();
  };
  ASSERT_TRUE(server_->ReadStart(stop).ok());
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_LT(got, kManySlices);
  EXPECT_EQ(server_->readable_bytes(), kManySlices - got);
  Heard rest;
  ASSERT_TRUE(server_->ReadStart(Into(rest)).ok());
  Run();
  EXPECT_EQ(rest.text.size(), kManySlices - got);
}

TEST_P(TcpSocketReadTest, CallbackMayReplaceItself) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain(Pattern(kManySlices)), nullptr).ok());
  Advance(std::chrono::seconds(1));
  Heard rest;
  size_t first = 0;
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice> slice) {
                    first += slice->size();
                    EXPECT_TRUE(server_->ReadStart(Into(rest)).ok());
                  })
                  .ok());
  Run();
  EXPECT_GT(first, 0u);
  EXPECT_EQ(first + rest.text.size(), kManySlices);
}

TEST_P(TcpSocketReadTest, DestroyingInsideTheReadCallbackEndsTheDelivery) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain(Pattern(kManySlices)), nullptr).ok());
  Advance(std::chrono::seconds(1));
  int calls = 0;
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                    ++calls;
                    server_.reset();
                  })
                  .ok());
  Run();
  EXPECT_EQ(calls, 1);
  // Data was unread: the peer learns that it was lost (RFC 2525 §2.17).
  EXPECT_EQ(StatusToErrno(client_->status()), ECONNRESET) << client_->status();
}

TEST_P(TcpSocketReadTest, CallbackMayDestroyAnotherSocketWithDataQueued) {
  Establish();
  auto client_2 = Connect();
  Run();
  auto server_2 = listener_->TryAccept();
  int calls = 0;
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                    ++calls;
                    server_2.reset();
                  })
                  .ok());
  ASSERT_TRUE(server_2
                  ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                    ++calls;
                    server_.reset();
                  })
                  .ok());
  ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
  ASSERT_TRUE(client_2->Write(Chain("x"), nullptr).ok());
  Run();
  EXPECT_EQ(calls, 1);
}

TEST_P(TcpSocketReadTest, WindowClosesWithoutConsumedAndOpensByIt) {  // Covers: RFC 9293 MUST-39
  Establish({}, Buffers(0, 20'000));
  std::vector<BufferSlice> kept;
  size_t got = 0;
  ASSERT_TRUE(server_
                  ->ReadStart(
                      [&](absl::StatusOr<BufferSlice> slice) {
                        got += slice->size();
                        kept.push_back(*std::move(slice));
                      },
                      {.auto_consume = false})
                  .ok());
  ASSERT_TRUE(client_->Write(Chain(Pattern(200'000)), nullptr).ok());
  Advance(std::chrono::seconds(5));
  EXPECT_GT(got, 0u);
  EXPECT_LE(got, 20'000u);
  EXPECT_EQ(server_->readable_bytes(), 0u);
  const size_t before = got;
  server_->Consumed(before);
  Advance(std::chrono::seconds(5));
  EXPECT_GT(got, before);
  EXPECT_LE(got, before + 20'000u);
  server_->Consumed(1u << 30);  // more than was taken: what was taken counts
  Advance(std::chrono::seconds(5));
  EXPECT_LE(got, before + 40'000u);
  kept.clear();
}

TEST_P(TcpSocketReadTest, AutoConsumeOpensTheWindow) {
  Establish({}, Buffers(0, 20'000));
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  ASSERT_TRUE(client_->Write(Chain(Pattern(200'000)), nullptr).ok());
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(heard.text.size(), 200'000u);
}

TEST_P(TcpSocketReadTest, ReadStopClosesTheWindow) {
  Establish({}, Buffers(0, 20'000));
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  server_->ReadStop();
  ASSERT_TRUE(client_->Write(Chain(Pattern(200'000)), nullptr).ok());
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(heard.text, "");
  EXPECT_GT(server_->readable_bytes(), 10'000u);
  EXPECT_LE(server_->readable_bytes(), 20'000u);
  EXPECT_GT(client_->unacked_bytes(), 100'000u);
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Advance(std::chrono::seconds(5));
  EXPECT_EQ(heard.text.size(), 200'000u);
}

TEST_P(TcpSocketReadTest, KeptSliceOutlivesItsSocketAndStack) {
  Establish();
  BufferSlice kept;
  ASSERT_TRUE(
      server_->ReadStart([&](absl::StatusOr<BufferSlice> s) { kept = *std::move(s); }).ok());
  ASSERT_TRUE(client_->Write(Chain("keep me"), nullptr).ok());
  Run();
  server_.reset();
  client_.reset();
  listener_.reset();
  Run();
  b_.reset();
  Run();
  EXPECT_EQ(Text(kept), "keep me");
}

// ---- Reading copies ----

TEST_P(TcpSocketReadTest, TryReadCopiesAndSaysWhatIsThere) {
  Establish();
  uint8_t room[4];
  EXPECT_TRUE(IsWouldBlock(server_->TryRead(room).status()));
  EXPECT_EQ(server_->TryRead({}).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(client_->Write(Chain("abcdef"), nullptr).ok());
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  EXPECT_EQ(server_->TryRead(room).value_or(99), 4u);
  EXPECT_EQ(std::string(room, room + 4), "abcd");
  EXPECT_EQ(server_->readable_bytes(), 2u);
  EXPECT_EQ(server_->TryRead(room).value_or(99), 2u);
  EXPECT_EQ(server_->TryRead(room).value_or(99), 0u);
  EXPECT_EQ(server_->TryRead(room).value_or(99), 0u);
}

TEST_P(TcpSocketReadTest, TryReadWhileSlicesAreReadIsRefused) {
  Establish();
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  uint8_t room[4];
  EXPECT_EQ(server_->TryRead(room).status().code(), absl::StatusCode::kFailedPrecondition);
  absl::Status inside;
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                    inside = server_->TryRead(room).status();
                  })
                  .ok());
  ASSERT_TRUE(client_->Write(Chain("abc"), nullptr).ok());
  Run();
  EXPECT_EQ(inside.code(), absl::StatusCode::kFailedPrecondition);
  server_->ReadStop();
  EXPECT_TRUE(IsWouldBlock(server_->TryRead(room).status()));
}

TEST_P(TcpSocketReadTest, TryReadOpensTheWindow) {
  Establish({}, Buffers(0, 20'000));
  ASSERT_TRUE(client_->Write(Chain(Pattern(100'000)), nullptr).ok());
  std::string got;
  for (int i = 0; i < 50 && got.size() < 100'000; ++i) {
    Advance(std::chrono::seconds(1));
    got += ReadAll(*server_);
  }
  const std::vector<uint8_t> want = Pattern(100'000);
  EXPECT_EQ(got, std::string(want.begin(), want.end()));
}

TEST_P(TcpSocketReadTest, ReadinessIsToldPerBatchAndAgainAfterAPartWasRead) {
  Establish();
  int calls = 0;
  ASSERT_TRUE(server_->ReadyStart([&] { ++calls; }).ok());
  Run();
  EXPECT_EQ(calls, 0);
  ASSERT_TRUE(client_->Write(Chain("abc"), nullptr).ok());
  Run();
  EXPECT_EQ(calls, 1);  // and the loop came to rest
  ASSERT_TRUE(client_->Write(Chain("d"), nullptr).ok());
  Run();
  EXPECT_EQ(calls, 2);
  uint8_t room[1];
  std::string got;
  ASSERT_TRUE(server_
                  ->ReadyStart([&] {
                    const auto n = server_->TryRead(room);
                    if (n.ok() && *n == 1) got += static_cast<char>(room[0]);
                  })
                  .ok());
  EXPECT_EQ(got, "");
  Run();
  EXPECT_EQ(got, "abcd");
}

TEST_P(TcpSocketReadTest, ReadinessIsToldOfTheEndOnce) {
  Establish();
  int calls = 0, ends = 0;
  ASSERT_TRUE(server_
                  ->ReadyStart([&] {
                    ++calls;
                    uint8_t room[8];
                    const auto n = server_->TryRead(room);
                    if (n.ok() && *n == 0) ++ends;
                  })
                  .ok());
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(server_->ShutdownWrite(nullptr).ok());  // the connection ends: nothing new to read
  Run();
  EXPECT_EQ(calls, 1);
  server_->Close(nullptr);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tapwire
