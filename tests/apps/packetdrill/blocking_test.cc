// SPDX-License-Identifier: Apache-2.0
// Calls that block in the program's second thread while the main one plays the script. Each ends at
// the moment at which its cause happened, in virtual time, however the program's threads are
// scheduled and whichever of them holds its lock.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "tests/apps/packetdrill/stub_caller.h"

namespace tapwire::packetdrill {
namespace {

constexpr int64_t kMs = 1000, kSecond = 1'000'000;
// Readings of the clock between an event and the check of its time.
constexpr int64_t kReadings = 10;

class PacketdrillBlockingTest : public testing::TestWithParam<EndRead> {
 protected:
  void ExpectEnd(const CallEnd& end, int64_t result, int64_t time_us) {
    EXPECT_TRUE(end.returned);
    EXPECT_EQ(end.result, result);
    EXPECT_GE(end.time_us, time_us);
    EXPECT_LE(end.time_us, time_us + kReadings);
  }
  StubCaller c{nullptr, GetParam()};
  packetdrill_interface& t = c.table;
};
INSTANTIATE_TEST_SUITE_P(Ends, PacketdrillBlockingTest,
                         testing::Values(EndRead::kBeforeTheLock, EndRead::kUnderTheLock),
                         [](const auto& which) {
                           return which.param == EndRead::kBeforeTheLock ? "BeforeTheLock"
                                                                         : "UnderTheLock";
                         });

TEST_P(PacketdrillBlockingTest, AcceptEndsWithTheHandshake) {
  const int listener = c.Listener();
  c.StartBlocking([&] { return t.accept(c.user(), listener, nullptr, nullptr); });
  EXPECT_TRUE(c.IsPending());
  c.Wait(100 * kMs);
  c.Inject(c.FromPeer(Segment::kSyn, 0, 0));
  const auto syn_ack = c.Receive();
  ASSERT_TRUE(syn_ack);
  c.Wait(100 * kMs);
  EXPECT_TRUE(c.IsPending());
  const int64_t moment = c.Now();
  c.Inject(c.FromPeer(Segment::kAck, 1, syn_ack->segment.seq + 1));
  c.Wait(100 * kMs);  // the script plays on
  const CallEnd end = c.FinishBlocking();
  EXPECT_GE(end.result, 2'000'000);
  ExpectEnd(end, end.result, moment);
  EXPECT_GE(c.Now(), moment + 100 * kMs);
}

TEST_P(PacketdrillBlockingTest, ReadEndsWithTheData) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  char data[8] = {};
  // Many times, so that a race would show.
  for (uint32_t round = 0; round < 50; ++round) {
    c.StartBlocking([&] { return t.read(c.user(), fd, data, sizeof(data)); });
    ASSERT_TRUE(c.IsPending());
    c.Wait(10 * kMs);
    const int64_t moment = c.Now();
    c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1 + 3 * round, c.isn + 1, {'a', 'b', 'c'}));
    c.Wait(10 * kMs);
    ExpectEnd(c.FinishBlocking(), 3, moment);
  }
}

TEST_P(PacketdrillBlockingTest, ConnectEndsWithTheSynAck) {
  const int fd = c.Socket();
  c.StartBlocking([&] { return c.Connect(fd); });
  const auto syn = c.Receive();
  ASSERT_TRUE(syn);
  EXPECT_EQ(syn->segment.flags, Segment::kSyn);
  c.local_port = syn->segment.source_port;
  c.remote_port = 8080;
  c.Wait(200 * kMs);
  const int64_t moment = c.Now();
  c.Inject(c.FromPeer(Segment::kSyn | Segment::kAck, 0, syn->segment.seq + 1));
  const auto ack = c.Receive();
  ASSERT_TRUE(ack);
  c.Wait(kSecond);
  ExpectEnd(c.FinishBlocking(), 0, moment);
}

TEST_P(PacketdrillBlockingTest, ConnectIsRefused) {
  const int fd = c.Socket();
  c.StartBlocking([&] { return c.Connect(fd); });
  const auto syn = c.Receive();
  ASSERT_TRUE(syn);
  c.local_port = syn->segment.source_port;
  c.remote_port = 8080;
  c.Wait(kMs);
  const int64_t moment = c.Now();
  c.Inject(c.FromPeer(Segment::kRst | Segment::kAck, 0, syn->segment.seq + 1));
  const CallEnd end = c.FinishBlocking();
  ExpectEnd(end, -1, moment);
  EXPECT_EQ(end.error, ECONNREFUSED);
}

// The clock waits for the thread: when the call that caused it is back, the other one is too.
TEST_P(PacketdrillBlockingTest, WokenThreadHasLeftWhenTimeGoesOn) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  char data[8] = {};
  for (uint32_t round = 0; round < 50; ++round) {
    std::atomic<bool> left{false};
    c.StartBlocking([&] {
      const ssize_t size = t.read(c.user(), fd, data, sizeof(data));
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(500);
      while (std::chrono::steady_clock::now() < until) {  // what the program does with the result
      }
      left = true;
      return size;
    });
    EXPECT_FALSE(left);
    c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1 + round, c.isn + 1, {'a'}));
    EXPECT_TRUE(left);
    EXPECT_EQ(c.FinishBlocking().result, 1);
  }
}

// A full send buffer: the call ends when the acknowledgment makes room for the rest.
TEST_P(PacketdrillBlockingTest, WriteEndsWithTheAcknowledgment) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const int size = 20'000;
  ASSERT_EQ(t.setsockopt(c.user(), fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  const std::vector<char> data(100'000);
  c.StartBlocking([&] { return t.write(c.user(), fd, data.data(), data.size()); });
  ASSERT_TRUE(c.IsPending());
  std::vector<int64_t> moments;
  for (uint32_t acked = 0; acked < data.size();) {
    const auto packet = c.Receive();
    ASSERT_TRUE(packet);
    acked =
        packet->segment.seq - (c.isn + 1) + static_cast<uint32_t>(packet->segment.payload.size());
    c.Wait(kMs);
    moments.push_back(c.Now());
    c.Inject(c.FromPeer(Segment::kAck, 1, c.isn + 1 + acked));
  }
  c.Wait(kMs);
  const CallEnd end = c.FinishBlocking();
  EXPECT_EQ(end.result, 100'000);
  // The one that made enough room.
  const auto next = std::upper_bound(moments.begin(), moments.end(), end.time_us);
  ASSERT_NE(next, moments.begin());
  EXPECT_LE(end.time_us - *std::prev(next), kReadings);
}

// Timeouts of calls are virtual time too, and are met to the microsecond while the script sleeps.
TEST_P(PacketdrillBlockingTest, TimeoutsAreExact) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const timeval half = {0, 500'000};
  ASSERT_EQ(t.setsockopt(c.user(), fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof(half)), 0);
  char byte = 0;
  int64_t start = c.Now();
  c.StartBlocking([&] { return t.read(c.user(), fd, &byte, 1); });
  c.Wait(2 * kSecond);
  CallEnd end = c.FinishBlocking();
  ExpectEnd(end, -1, start + 500 * kMs);
  EXPECT_EQ(end.error, EAGAIN);

  pollfd poll = {fd, POLLIN, 0};
  start = c.Now();
  c.StartBlocking([&] { return t.poll(c.user(), &poll, 1, 250); });
  c.Wait(2 * kSecond);
  ExpectEnd(c.FinishBlocking(), 0, start + 250 * kMs);
}

TEST_P(PacketdrillBlockingTest, WaitingForAPacketMovesTimeForTheCallToo) {
  const int fd = c.Socket();
  const timeval three = {3, 0};
  ASSERT_EQ(t.setsockopt(c.user(), fd, SOL_SOCKET, SO_SNDTIMEO, &three, sizeof(three)), 0);
  c.StartBlocking([&] { return c.Connect(fd); });
  const auto first = c.Receive();
  ASSERT_TRUE(first);
  // One of these waits passes the end of the call.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(c.Receive());
  const CallEnd end = c.FinishBlocking();
  ExpectEnd(end, -1, first->time_us + 3 * kSecond);
  EXPECT_EQ(end.error, EINPROGRESS);  // as connect(2) with SO_SNDTIMEO
}

// close() in the main thread ends a call of the other one.
TEST_P(PacketdrillBlockingTest, CloseEndsIt) {
  const int listener = c.Listener();
  c.StartBlocking([&] { return t.accept(c.user(), listener, nullptr, nullptr); });
  c.Wait(kMs);
  const int64_t moment = c.Now();
  EXPECT_EQ(t.close(c.user(), listener), 0);
  const CallEnd end = c.FinishBlocking();
  ExpectEnd(end, -1, moment);
  EXPECT_EQ(end.error, EBADF);
}

TEST_P(PacketdrillBlockingTest, CallThatReturnsAtOnce) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  c.Inject(c.FromPeer(Segment::kPsh | Segment::kAck, 1, c.isn + 1, {'x'}));
  char byte = 0;
  const int64_t moment = c.Now();
  c.StartBlocking([&] { return t.read(c.user(), fd, &byte, 1); });
  ExpectEnd(c.FinishBlocking(), 1, moment);
}

// The program waits for the thread, before its next call or at the end of the script, and moves no
// clock meanwhile: the call's own timeout comes all the same, within the second that it has.
TEST_P(PacketdrillBlockingTest, TimePassesWhileTheProgramWaitsForTheCall) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  pollfd poll = {fd, POLLIN, 0};
  const int64_t start = c.Now();
  c.StartBlocking([&] { return t.poll(c.user(), &poll, 1, 60'000); });
  ASSERT_TRUE(c.IsPending());
  ExpectEnd(c.FinishBlocking(), 0, start + 60 * kSecond);
}

TEST_P(PacketdrillBlockingTest, ConnectTimesOutWhileTheProgramWaitsForIt) {
  const int fd = c.Socket();
  const int64_t start = c.Now();
  c.StartBlocking([&] { return c.Connect(fd); });
  const CallEnd end = c.FinishBlocking();
  // Linux since 6.5: four SYNs more at the first timeout, then six with doubled ones, 131 s in all.
  ExpectEnd(end, -1, start + 131 * kSecond);
  EXPECT_EQ(end.error, ETIMEDOUT);
}

TEST_P(PacketdrillBlockingTest, NothingEndsACallThatNothingCanEnd) {
  const int listener = c.Listener();
  c.StartBlocking([&] { return t.accept(c.user(), listener, nullptr, nullptr); });
  EXPECT_FALSE(c.FinishBlocking().returned);
}

// A shell command of the script takes real time, and no virtual one.
TEST_P(PacketdrillBlockingTest, ShellCommandsMoveNoTime) {
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  pollfd poll = {fd, POLLIN, 0};
  const int64_t start = c.Now();
  c.StartBlocking([&] { return t.poll(c.user(), &poll, 1, 1000); });
  EXPECT_EQ(std::system("sleep 0.2"), 0);
  EXPECT_LE(c.Now(), start + kReadings);
  EXPECT_TRUE(c.IsPending());
  c.Wait(kSecond);
  ExpectEnd(c.FinishBlocking(), 0, start + kSecond);
}

// The end of the program with a call that never ends: free() sends it home.
TEST_P(PacketdrillBlockingTest, FreeEndsWhatIsPending) {
  const int listener = c.Listener();
  c.StartBlocking([&] { return t.accept(c.user(), listener, nullptr, nullptr); });
  EXPECT_TRUE(c.IsPending());
}

// ---- The main thread itself ----

// Nobody else moves time: the call does so itself.
TEST(PacketdrillMainThreadTest, CallThatWaitsLetsTimePass) {
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const timeval half = {0, 500'000};
  ASSERT_EQ(t.setsockopt(c.user(), fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof(half)), 0);
  char byte = 0;
  const int64_t start = c.Now();
  EXPECT_EQ(t.read(c.user(), fd, &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_NEAR(static_cast<double>(c.Now() - start), 500'000, kReadings);
}

TEST(PacketdrillMainThreadTest, ConnectWithoutAnswerEndsByItself) {
  StubCaller c;
  EXPECT_EQ(c.Connect(c.Socket()), -1);
  EXPECT_EQ(errno, ETIMEDOUT);
}

TEST(PacketdrillMainThreadTest, CallThatCanNeverEndIsInterrupted) {
  StubCaller c;
  const int listener = c.Listener();
  testing::internal::CaptureStderr();
  EXPECT_EQ(c.table.accept(c.user(), listener, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("would never return"), std::string::npos);
}

}  // namespace
}  // namespace tapwire::packetdrill
