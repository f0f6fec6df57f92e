// SPDX-License-Identifier: Apache-2.0
// The entry point: the table, --so_flags, the numbers of descriptors and errors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <set>

#include "tests/apps/packetdrill/stub_caller.h"

namespace tapwire::packetdrill {
namespace {

TEST(PacketdrillInitTest, EveryMemberIsFilledIn) {
  StubCaller caller;
  uintptr_t words[33] = {};
  static_assert(sizeof(words) == sizeof(packetdrill_interface));
  std::memcpy(words, &caller.table, sizeof(words));
  for (size_t i = 0; i < 33; ++i) EXPECT_NE(words[i], 0u) << "word " << i;
}

class PacketdrillFlagsTest : public testing::TestWithParam<const char*> {};

TEST_P(PacketdrillFlagsTest, BadFlagIsRefusedWithAMessage) {
  const InitFunction init = LoadPlugin();
  ASSERT_NE(init, nullptr);
  packetdrill_interface table = {};
  testing::internal::CaptureStderr();
  EXPECT_EQ(init(GetParam(), &table), -1);
  const std::string message = testing::internal::GetCapturedStderr();
  EXPECT_EQ(message.rfind("tapwire-packetdrill: so_flags: ", 0), 0u) << message;
  EXPECT_EQ(table.userdata, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Flags, PacketdrillFlagsTest,
                         testing::Values("frobnicate=1", "mtu", "mtu=", "=5", "mtu=20", "mtu=70000",
                                         "mtu=1500x", "profile=bsd", "local=300.1.1.1",
                                         "local=224.0.0.1", "local=::", "gateway=nobody",
                                         "remote=1", "tcp_sack=maybe", "tcp_rmem=1",
                                         "tcp_sack=0;tcp_sack=1", "tcp_sack='0'",
                                         "tcp_congestion_control=vegas"));

TEST(PacketdrillInitTest, GoodFlagsAreTaken) {
  for (const char* flags :
       {"", "profile=rfc", "profile=linux,mtu=1520", "mtu=1000", "local=10.0.0.1,local=fd00::1",
        " local = 10.0.0.1 , remote=10.0.0.2,gateway=10.0.0.254",
        "tcp_rmem=4096 131072 6291456,net.ipv4.tcp_timestamps=0,tcp_congestion_control=reno"}) {
    packetdrill_interface table = {};
    ASSERT_EQ(LoadPlugin()(flags, &table), 0) << flags;
    table.free(table.userdata);
  }
}

TEST(PacketdrillInitTest, DescriptorsAreUniqueAndNeverTheKernels) {
  StubCaller caller;
  std::set<int> seen;
  for (int i = 0; i < 10; ++i) {
    const int fd = caller.Socket();
    EXPECT_GT(fd, 1'048'576);  // fs.nr_open
    EXPECT_TRUE(seen.insert(fd).second);
  }
  const int epoll = caller.table.epoll_create(caller.user(), 1);
  EXPECT_TRUE(seen.insert(epoll).second);
  for (const int fd : seen) EXPECT_EQ(caller.table.close(caller.user(), fd), 0);
}

#define EXPECT_ERRNO(call, code) \
  do {                           \
    errno = 0;                   \
    EXPECT_EQ(call, -1);         \
    EXPECT_EQ(errno, code);      \
  } while (false)

// As the manual pages and Linux have them.
TEST(PacketdrillErrnoTest, OfDescriptors) {
  StubCaller c;
  auto& t = c.table;
  char byte = 0;
  int value = 0;
  socklen_t length = sizeof(value);
  EXPECT_ERRNO(t.socket(c.user(), AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
  EXPECT_ERRNO(t.close(c.user(), 3), EBADF);
  EXPECT_ERRNO(t.read(c.user(), -1, &byte, 1), EBADF);
  EXPECT_ERRNO(t.getsockopt(c.user(), 2'000'005, SOL_SOCKET, SO_ERROR, &value, &length), EBADF);
  const int fd = c.Socket();
  EXPECT_EQ(t.close(c.user(), fd), 0);
  EXPECT_ERRNO(t.close(c.user(), fd), EBADF);
}

TEST(PacketdrillErrnoTest, OfSocketsInTheWrongState) {
  StubCaller c;
  auto& t = c.table;
  char byte = 0;
  const int fd = c.Socket();
  EXPECT_ERRNO(t.read(c.user(), fd, &byte, 1), ENOTCONN);
  EXPECT_ERRNO(t.accept(c.user(), fd, nullptr, nullptr), EINVAL);
  EXPECT_ERRNO(t.shutdown(c.user(), fd, SHUT_WR), ENOTCONN);
  EXPECT_EQ(c.Bind(fd, "0.0.0.0", 8080), 0);
  EXPECT_ERRNO(c.Bind(fd, "0.0.0.0", 8081), EINVAL);
  EXPECT_EQ(t.listen(c.user(), fd, 1), 0);
  const int other = c.Socket();
  EXPECT_ERRNO(c.Bind(other, "0.0.0.0", 8080), EADDRINUSE);
  EXPECT_ERRNO(t.setsockopt(c.user(), fd, IPPROTO_TCP, 12345, &byte, 1), EINVAL);
  int value = 0;
  EXPECT_ERRNO(t.setsockopt(c.user(), fd, IPPROTO_TCP, 12345, &value, sizeof(value)), ENOPROTOOPT);
  EXPECT_ERRNO(t.ioctl(c.user(), fd, 0x1234ul, &value), ENOTTY);
}

TEST(PacketdrillErrnoTest, OfWhatDoesNotBlock) {
  StubCaller c;
  auto& t = c.table;
  const int fd = c.Listener();
  EXPECT_EQ(t.fcntl(c.user(), fd, F_GETFL), O_RDWR);
  EXPECT_EQ(t.fcntl(c.user(), fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
  EXPECT_EQ(t.fcntl(c.user(), fd, F_GETFL), O_RDWR | O_NONBLOCK);
  EXPECT_ERRNO(t.accept(c.user(), fd, nullptr, nullptr), EAGAIN);
  int off = 0;
  EXPECT_EQ(t.ioctl(c.user(), fd, FIONBIO, &off), 0);
  EXPECT_EQ(t.fcntl(c.user(), fd, F_GETFL), O_RDWR);
}

TEST(PacketdrillErrnoTest, OfAddressesThatAreNotOurs) {
  StubCaller c("local=192.168.0.2");
  const int fd = c.Socket();
  EXPECT_ERRNO(c.Bind(fd, "192.168.0.3", 0), EADDRNOTAVAIL);
  EXPECT_ERRNO(c.Bind(fd, "fd00::1", 0), EAFNOSUPPORT);
  EXPECT_EQ(c.Bind(fd, "192.168.0.2", 0), 0);
}

// Nothing of the kernel's can be put into the stack.
TEST(PacketdrillErrnoTest, OfPipes) {
  StubCaller c;
  int fds[2] = {-1, -1};
  EXPECT_ERRNO(c.table.pipe(c.user(), fds), ENOSYS);
  EXPECT_ERRNO(c.table.splice(c.user(), 0, nullptr, 1, nullptr, 10, 0), ENOSYS);
}

TEST(PacketdrillInitTest, RubbishFromTheLinkIsBorne) {
  StubCaller c;
  for (size_t size = 0; size < 64; ++size) {
    const Bytes bytes(size, size % 2 == 0 ? 0x45 : 0x60);
    EXPECT_EQ(c.table.netdev_send(c.user(), bytes.data(), bytes.size()), 0) << size;
  }
  EXPECT_FALSE(c.Receive().has_value());
}

// The program spins on times() for ten ticks of 10 ms before it starts; no call of ours stands in
// the way of that, and none needs real time to move on.
TEST(PacketdrillInitTest, StartsLikeTheProgram) {
  StubCaller c;
  timespec start = {}, now = {};
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1'000'000 < 100);
  const int64_t before = c.Now();
  c.Wait(250);
  EXPECT_GE(c.Now() - before, 250);
  EXPECT_LT(c.Now() - before, 400);
}

}  // namespace
}  // namespace tapwire::packetdrill
