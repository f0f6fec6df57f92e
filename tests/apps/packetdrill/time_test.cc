// SPDX-License-Identifier: Apache-2.0
// Virtual time: the clock, the stamps of packets, and long waits that take no time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/apps/packetdrill/stub_caller.h"

namespace tapwire::packetdrill {
namespace {

constexpr int64_t kMs = 1000, kSecond = 1'000'000;
constexpr int64_t kReadings = 10;

class RealTime {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST(PacketdrillTimeTest, EachReadingIsLaterSoThatSpinsEnd) {
  StubCaller c;
  int64_t last = c.Now();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = c.Now();
    ASSERT_EQ(now, last + 1);
    last = now;
  }
  EXPECT_EQ(c.table.usleep(c.user(), 0), 0);
  EXPECT_EQ(c.Now(), last + 1);
}

TEST(PacketdrillTimeTest, SleepIsExactUpToTheLargestNumber) {
  StubCaller c;
  for (const useconds_t usecs : {1u, 20u, 4000u, 1'000'000u, 4'294'967'295u}) {
    const int64_t before = c.Now();
    EXPECT_EQ(c.table.usleep(c.user(), usecs), 0);
    EXPECT_EQ(c.Now(), before + usecs + 1);
  }
}

// RFC 6298 §2.1 and §5.5: one second, doubled each time. Stamps are those of transmission, however
// late the packet is asked for.
TEST(PacketdrillTimeTest, SynsAreStampedWhenTheyWereSent) {
  StubCaller c("profile=rfc");
  const int fd = c.Socket(SOCK_STREAM | SOCK_NONBLOCK);
  const int64_t start = c.Now();
  EXPECT_EQ(c.Connect(fd), -1);
  c.Wait(10 * kSecond);
  for (const int64_t second : {0, 1, 3, 7}) {
    const auto syn = c.Receive();
    ASSERT_TRUE(syn);
    EXPECT_EQ(syn->segment.flags, Segment::kSyn);
    EXPECT_EQ(syn->time_us - start, second * kSecond);
  }
}

// The same when the wait for the packet is what lets time pass, until nothing more comes.
TEST(PacketdrillTimeTest, WaitingForAPacketGoesToTheNextTimer) {
  const RealTime real;
  StubCaller c("profile=rfc");
  const int fd = c.Socket(SOCK_STREAM | SOCK_NONBLOCK);
  const int64_t start = c.Now();
  EXPECT_EQ(c.Connect(fd), -1);
  for (const int64_t second : {0, 1, 3, 7, 15, 31, 63, 127}) {
    const auto syn = c.Receive();
    ASSERT_TRUE(syn);
    EXPECT_EQ(syn->time_us - start, second * kSecond);
    EXPECT_LE(c.Now() - syn->time_us, kReadings);
  }
  EXPECT_FALSE(c.Receive().has_value());
  // RFC 9293 MUST-23: three minutes at least.
  EXPECT_GE(c.Now() - start, 180 * kSecond);
  int error = 0;
  socklen_t length = sizeof(error);
  EXPECT_EQ(c.table.getsockopt(c.user(), fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, ETIMEDOUT);
  EXPECT_LT(real.seconds(), 5);
}

TEST(PacketdrillTimeTest, NothingToReceiveIsToldAtOnce) {
  const RealTime real;
  StubCaller c;
  EXPECT_FALSE(c.Receive().has_value());
  (void)c.Accepted(c.Listener());
  EXPECT_FALSE(c.Receive().has_value());
  EXPECT_LT(real.seconds(), 5);
}

TEST(PacketdrillTimeTest, TwentyFiveHoursWithAConnectionTakeNoTime) {
  const RealTime real;
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const int64_t start = c.Now();
  for (int hour = 0; hour < 25; ++hour) c.Wait(3600 * kSecond);
  EXPECT_GE(c.Now() - start, 25 * 3600 * kSecond);
  EXPECT_LT(c.Now() - start, 25 * 3600 * kSecond + kMs);
  // RFC 9293 §3.8.4: without keepalives an idle connection lasts.
  EXPECT_EQ(t.write(c.user(), fd, "x", 1), 1);
  EXPECT_TRUE(c.Receive().has_value());
  EXPECT_LT(real.seconds(), 5);
}

// Two timers at different times come in their order, also within one sleep.
TEST(PacketdrillTimeTest, DelayedAckAndRetransmissionInOrder) {
  StubCaller c;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  c.Wait(10 * kMs);
  const int64_t start = c.Now();
  EXPECT_EQ(c.table.write(c.user(), fd, "x", 1), 1);
  c.Wait(5 * kSecond);
  int64_t last = 0;
  int64_t distance = 0;
  for (int i = 0; i < 4; ++i) {
    const auto packet = c.Receive();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->segment.seq, c.isn + 1);
    if (i == 0) {
      EXPECT_LE(packet->time_us - start, kReadings);
    }
    // RFC 6298 §5.5.
    if (i >= 2) {
      EXPECT_NEAR(static_cast<double>(packet->time_us - last), 2.0 * static_cast<double>(distance),
                  2);
    }
    distance = packet->time_us - last;
    last = packet->time_us;
  }
}

// RFC 1122 §4.2.3.6: keepalives after two hours at the earliest; Linux then asks every 75 s.
TEST(PacketdrillTimeTest, KeepalivesComeAfterTwoHours) {
  StubCaller c;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const int on = 1;
  ASSERT_EQ(c.table.setsockopt(c.user(), fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
  const int64_t start = c.Now();
  const auto first = c.Receive();
  ASSERT_TRUE(first);
  EXPECT_NEAR(static_cast<double>(first->time_us - start), 7200.0 * kSecond, kMs);
  EXPECT_EQ(first->segment.seq, c.isn);
  const auto second = c.Receive();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->time_us - first->time_us, 75 * kSecond);
}

// ---- Profiles and settings ----

int64_t FirstTimeout(const char* flags) {
  StubCaller c(flags);
  const int fd = c.Accepted(c.Listener());
  EXPECT_EQ(c.table.write(c.user(), fd, "x", 1), 1);
  const auto first = c.Receive();
  const auto again = c.Receive();
  return first && again ? again->time_us - first->time_us : -1;
}

TEST(PacketdrillProfileTest, LeastTimeoutIsLinuxsOrTheRfcs) {
  // A round trip of next to nothing: the floor shows. Linux: TCP_RTO_MIN is 200 ms.
  const int64_t linux_timeout = FirstTimeout("profile=linux");
  EXPECT_GE(linux_timeout, 200 * kMs);
  EXPECT_LE(linux_timeout, 210 * kMs);
  // RFC 6298 §2.4: one second.
  const int64_t rfc_timeout = FirstTimeout("profile=rfc");
  EXPECT_GE(rfc_timeout, kSecond);
  EXPECT_LE(rfc_timeout, kSecond + 10 * kMs);
}

const Bytes kSynWithSack = {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7};
const Bytes kAnswerWithSack = {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 8};
const Bytes kAnswerWithoutSack = {2, 4, 5, 180, 1, 3, 3, 8};

TEST(PacketdrillSettingsTest, OfTheFlags) {
  StubCaller c("tcp_sack=0");
  (void)c.Listener();
  const auto syn_ack = c.OpenFromPeer(kSynWithSack);
  ASSERT_TRUE(syn_ack);
  EXPECT_EQ(syn_ack->segment.options, kAnswerWithoutSack);
}

class PacketdrillSettingsFileTest : public testing::Test {
 protected:
  PacketdrillSettingsFileTest() : path_(testing::TempDir() + "packetdrill-settings-XXXXXX") {
    const int fd = mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    close(fd);
    setenv("TAPWIRE_PACKETDRILL_SETTINGS", path_.c_str(), 1);
  }
  ~PacketdrillSettingsFileTest() override {
    unsetenv("TAPWIRE_PACKETDRILL_SETTINGS");
    std::remove(path_.c_str());
  }
  void Append(const std::string& line) { std::ofstream(path_, std::ios::app) << line << '\n'; }

  std::string path_;
};

// A script's `sysctl` comes after the stack is up; it holds for the sockets made after it.
TEST_F(PacketdrillSettingsFileTest, IsReadAgainForEachSocket) {
  StubCaller c;
  (void)c.Listener();
  auto syn_ack = c.OpenFromPeer(kSynWithSack);
  ASSERT_TRUE(syn_ack);
  EXPECT_EQ(syn_ack->segment.options, kAnswerWithSack);

  Append("# a comment");
  Append("net.ipv4.tcp_sack=0");
  c.local_port = 8081;
  (void)c.Listener();
  syn_ack = c.OpenFromPeer(kSynWithSack);
  ASSERT_TRUE(syn_ack);
  EXPECT_EQ(syn_ack->segment.options, kAnswerWithoutSack);

  // The last line counts. 65535 << 6 is the first to cover 2 MiB.
  Append("net.ipv4.tcp_sack = 1");
  Append("net.ipv4.tcp_rmem=4096 131072 2097152");
  c.local_port = 8082;
  (void)c.Listener();
  syn_ack = c.OpenFromPeer(kSynWithSack);
  ASSERT_TRUE(syn_ack);
  Bytes wanted = kAnswerWithSack;
  wanted.back() = 6;
  EXPECT_EQ(syn_ack->segment.options, wanted);
}

TEST_F(PacketdrillSettingsFileTest, WhatTheStackDoesNotHaveIsToldOnce) {
  StubCaller c;
  Append("net.ipv4.tcp_frobnicate=1");
  Append("rubbish");
  testing::internal::CaptureStderr();
  (void)c.Listener();
  (void)c.Socket();
  const std::string message = testing::internal::GetCapturedStderr();
  EXPECT_NE(message.find("'net.ipv4.tcp_frobnicate=1' has no effect"), std::string::npos);
  EXPECT_NE(message.find("'rubbish' has no effect"), std::string::npos);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2);
}

TEST_F(PacketdrillSettingsFileTest, MissingFileSaysNothing) {
  std::remove(path_.c_str());
  StubCaller c;
  testing::internal::CaptureStderr();
  EXPECT_GE(c.Socket(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tapwire::packetdrill
