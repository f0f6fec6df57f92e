// SPDX-License-Identifier: Apache-2.0
//
// What can be said about opening a TAP without one. The rest is in
// tests/interop/tap_device_test.cc.
#include "drivers/tap/tap_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "netdev/base/status_util.h"

namespace tapwire::drivers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Covers: demand:59 — every failure says what, which errno and what to do.
TEST(TapLinkTest, MissingNodeNamesFileErrnoAndRemedy) {
  const auto fd = OpenTapNode("/nonexistent/tun");
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(StatusToErrno(fd.status()), ENOENT);
  EXPECT_THAT(Message(fd.status()),
              AllOf(HasSubstr("open /nonexistent/tun: No such file or directory (2)"),
                    HasSubstr("mknod -m 0666 /nonexistent/tun c 10 200")));
}

TEST(TapLinkTest, EveryErrnoOfTheNodeHasItsRemedy) {
  const auto text = [](int err) {
    return Message(internal::OpenNodeError(err, "/dev/net/tun", "do this"));
  };
  EXPECT_THAT(text(EACCES), HasSubstr("open /dev/net/tun: Permission denied (13): do this"));
  EXPECT_THAT(text(EPERM), HasSubstr("Operation not permitted (1): do this"));
  EXPECT_THAT(text(ENODEV), HasSubstr("modprobe tun"));
  EXPECT_THAT(text(ENXIO), HasSubstr("modprobe tun"));
  EXPECT_THAT(text(EMFILE), HasSubstr("Too many open files (24)"));
}

TEST(TapLinkTest, EveryErrnoOfAttachingHasItsRemedy) {
  const auto text = [](int err, size_t queues) {
    return Message(internal::TunSetIffError(err, "tw0", queues));
  };
  EXPECT_THAT(text(EPERM, 1),
              AllOf(HasSubstr("attach to TAP 'tw0' (TUNSETIFF): Operation not permitted (1)"),
                    HasSubstr("ip tuntap add dev tw0 mode tap user"), HasSubstr("fd=N")));
  EXPECT_THAT(text(EPERM, 2), HasSubstr("multi_queue"));
  EXPECT_THAT(text(EBUSY, 1), HasSubstr("another process"));
  EXPECT_THAT(text(EINVAL, 1), HasSubstr("not a TAP"));
  EXPECT_THAT(text(EINVAL, 2), HasSubstr("queues=1"));
  EXPECT_THAT(text(E2BIG, 2), HasSubstr("fewer queues"));
  EXPECT_THAT(text(EBADFD, 1), HasSubstr("another interface"));
  EXPECT_EQ(StatusToErrno(internal::TunSetIffError(EBUSY, "tw0", 1)), EBUSY);
}

TEST(TapLinkTest, BadNamesAndQueueNumbersAreRefusedBeforeAnythingIsOpened) {
  for (const char* name : {"sixteen-bytes-xx", "a/b", "a b", "a\tb", ".", "..", "a:0", "a%s",
                           "%d%d", "a\x01", "a\x7f"}) {
    const auto link = AttachTap("/nonexistent/tun", name, 1);
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(Message(link.status()), HasSubstr(name));
  }
  for (const size_t queues : {size_t{0}, kMaxTapQueues + 1}) {
    EXPECT_EQ(AttachTap("/nonexistent/tun", "tw0", queues).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// The names that Linux takes: dev_valid_name() and, for a number of its choice, one "%d".
TEST(TapLinkTest, GoodNamesAreTaken) {
  for (const char* name : {"", "tw0", "fifteen-bytes-x", "tap%d", "a.b", "...", "grün", "%d"}) {
    EXPECT_TRUE(CheckTapName(name).ok()) << name;
  }
}

TEST(TapLinkTest, RemedyForTheKernelSideFitsTheErrno) {
  const auto remedy = [](int err, IpFamily family) {
    return internal::KernelSideRemedy(err, "tw0", family);
  };
  EXPECT_THAT(remedy(EPERM, IpFamily::kV4), HasSubstr("CAP_NET_ADMIN"));
  EXPECT_THAT(remedy(EACCES, IpFamily::kV4), HasSubstr("CAP_NET_ADMIN"));
  EXPECT_THAT(remedy(EACCES, IpFamily::kV6), HasSubstr("net.ipv6.conf.tw0.disable_ipv6=0"));
  EXPECT_EQ(remedy(EADDRNOTAVAIL, IpFamily::kV6), "");
  EXPECT_EQ(remedy(EINVAL, IpFamily::kV4), "");
}

TEST(TapLinkTest, OtherDescriptorsAreNotAdopted) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int number = fds.front().get();
  const auto link = AdoptTap(std::move(fds), "");
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(StatusToErrno(link.status()), ENOTTY);
  EXPECT_THAT(Message(link.status()),
              AllOf(HasSubstr("descriptor " + std::to_string(number)), HasSubstr("/dev/net/tun")));
}

TEST(TapLinkTest, ClosedDescriptorIsNotAdopted) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(1'000'000);
  EXPECT_EQ(StatusToErrno(AdoptTap(std::move(fds), "").status()), EBADF);
}

TEST(TapLinkTest, NoDescriptorIsAnError) {
  EXPECT_EQ(AdoptTap({}, "tw0").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TapLinkTest, LinkStateFollowsPoll) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  UniqueFd a(pair[0]);
  UniqueFd b(pair[1]);
  EXPECT_EQ(ReadTapLinkState(a.get()), TapLinkState::kUp);
  EXPECT_EQ(ReadTapLinkState(1'000'000), TapLinkState::kGone);
}

}  // namespace
}  // namespace tapwire::drivers
