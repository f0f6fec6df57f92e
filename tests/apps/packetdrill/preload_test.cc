// SPDX-License-Identifier: Apache-2.0
// Run with the preload library in LD_PRELOAD: the kernel's calls with descriptors of the plug-in.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "tests/apps/packetdrill/stub_caller.h"

namespace tapwire::packetdrill {
namespace {

TEST(PacketdrillPreloadTest, IsLoaded) {
  ASSERT_NE(dlsym(RTLD_DEFAULT, "tapwire_packetdrill_register"), nullptr)
      << "run with LD_PRELOAD=libtapwire-packetdrill-preload.so";
}

TEST(PacketdrillPreloadTest, CloseEndsASocketOfThePlugin) {
  StubCaller c;
  const int fd = c.Socket();
  EXPECT_EQ(close(fd), 0);
  EXPECT_EQ(c.table.close(c.user(), fd), -1);
  EXPECT_EQ(errno, EBADF);
  errno = 0;
  EXPECT_EQ(close(fd), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(PacketdrillPreloadTest, CloseAfterThePluginIsGone) {
  auto c = std::make_unique<StubCaller>();
  const int fd = c->Socket();
  c.reset();
  EXPECT_EQ(close(fd), 0);
}

TEST(PacketdrillPreloadTest, GetsockoptReachesThePlugin) {
  StubCaller c;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  Bytes info(512);
  socklen_t length = 512;
  ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info.data(), &length), 0);
  EXPECT_EQ(length, 280u);
  EXPECT_EQ(info[0], TCP_ESTABLISHED);
}

TEST(PacketdrillPreloadTest, SendfileGoesThroughThePlugin) {
  StubCaller c;
  const int fd = c.Accepted(c.Listener());
  ASSERT_GE(fd, 0);
  const int file = memfd_create("file", 0);
  ASSERT_EQ(write(file, "0123456789", 10), 10);
  off_t offset = 2;
  EXPECT_EQ(sendfile(fd, file, &offset, 5), 5);
  EXPECT_EQ(offset, 7);
  auto packet = c.Receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->segment.payload, Bytes({'2', '3', '4', '5', '6'}));
  // Without an offset the file's position counts, and the end of the file ends it.
  ASSERT_EQ(lseek(file, 8, SEEK_SET), 8);
  EXPECT_EQ(sendfile(fd, file, nullptr, 100), 2);
  EXPECT_EQ(lseek(file, 0, SEEK_CUR), 10);
  EXPECT_EQ(sendfile(fd, file, nullptr, 100), 0);
  EXPECT_EQ(close(file), 0);
}

TEST(PacketdrillPreloadTest, EverythingElseIsTheKernels) {
  StubCaller c;
  int pair[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  int type = 0;
  socklen_t length = sizeof(type);
  EXPECT_EQ(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &type, &length), 0);
  EXPECT_EQ(type, SOCK_STREAM);
  const int file = memfd_create("file", 0);
  ASSERT_EQ(write(file, "abc", 3), 3);
  off_t offset = 0;
  EXPECT_EQ(sendfile(pair[0], file, &offset, 3), 3);
  char text[4] = {};
  EXPECT_EQ(read(pair[1], text, 3), 3);
  EXPECT_STREQ(text, "abc");
  for (const int fd : {pair[0], pair[1], file}) {
    EXPECT_EQ(close(fd), 0);
    errno = 0;
    EXPECT_EQ(close(fd), -1);
    EXPECT_EQ(errno, EBADF);
  }
}

}  // namespace
}  // namespace tapwire::packetdrill
