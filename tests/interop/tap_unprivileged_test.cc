// SPDX-License-Identifier: Apache-2.0
//
// TAPs without privilege: as uid 65534, with the three ways in, and what is said when one is
// closed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "drivers/tap/tap_device.h"
#include "drivers/tap/userns_record.h"
#include "netdev/base/status_util.h"
#include "tests/interop/tap_interop.h"

namespace tapwire::drivers {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::Command;
using testutil::CommandResult;
using testutil::kNobody;
using testutil::RunAsUser;
using testutil::TunNode;

// What a program that runs a stack has.
struct Host {
  Host() : context(system.environment()), runner(*ThreadRunner::Create(&context)) {}
  ~Host() { sink.packets.clear(); }

  absl::StatusOr<TapDevice*> Open(const TapOptions& options) {
    auto device = TapDevice::Open(context, options);
    if (!device.ok()) return device.status();
    auto registered = context.registry().Register(*std::move(device));
    if (registered.ok()) (*registered)->AddPacketType(sink);
    return registered;
  }

  SystemEnvironment system;
  FrameSink sink{netdev::PacketType::kAllTypes};
  netdev::NetContext context;
  std::unique_ptr<ThreadRunner> runner;
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class TapUnprivileged : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "takes root, to make TAPs and nodes of several users";
    }
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto node = TunNode::Find(/*for_everybody=*/true);
    if (!node.ok()) {
      TW_SKIP_WITHOUT_TAP(node.status().message());
    }
    node_ = *std::move(node);
  }

  // A program in the namespace of an instance.
  static CommandResult RunInside(const UsernsInstance& instance,
                                 const std::vector<std::string>& argv, Host& host) {
    return Command(argv, {.pump = [&host] { host.runner->RunFor(milliseconds(2)); },
                          .prepare = [&instance] { return EnterUserns(instance).ok(); }})
        .Wait();
  }

  static std::string OwnCapabilities() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("CapEff:", 0) == 0) return line.substr(line.find_first_not_of("CapEf:\t "));
    }
    return "?";
  }

  const std::string& node() const { return node_->path(); }

  std::unique_ptr<TunNode> node_;  // may be opened by everybody
};

// A node that only root may open, beside the other one.
class RootsNode {
 public:
  RootsNode() {
    char directory[] = "/tmp/tapwire-root-XXXXXX";
    directory_ = mkdtemp(directory);
    chmod(directory_.c_str(), 0755);
    EXPECT_EQ(mknod(path().c_str(), S_IFCHR | 0600, makedev(10, 200)), 0) << std::strerror(errno);
  }
  ~RootsNode() {
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/tun"; }

 private:
  std::string directory_;
};

// ---- Errors ----

// Covers: demand:59
TEST_F(TapUnprivileged, NodeOfRootIsRefusedWithTheRemedy) {
  RootsNode roots;
  RunAsUser(kNobody, [&] {
    Host host;
    const absl::Status status = host.Open({.name = "tw0", .device_path = roots.path()}).status();
    EXPECT_EQ(StatusToErrno(status), EACCES);
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr(absl::StrCat("open ", roots.path(), ": Permission denied (13)")),
                      HasSubstr("chmod 0666"), HasSubstr("fd=N"), HasSubstr("run as root")));
    const absl::Status inside =
        host.Open({.name = "tw0", .device_path = roots.path(), .userns = true}).status();
    EXPECT_EQ(StatusToErrno(inside), EACCES);
    EXPECT_THAT(Message(inside),
                AllOf(HasSubstr(roots.path()), HasSubstr("as uid 65534"), HasSubstr("chmod 0666")));
  });
}

TEST_F(TapUnprivileged, MissingTapIsRefusedWithTheRemedy) {
  RunAsUser(kNobody, [&] {
    Host host;
    const absl::Status status = host.Open({.name = "tw0", .device_path = node()}).status();
    EXPECT_EQ(StatusToErrno(status), EPERM);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("'tw0'"), HasSubstr("Operation not permitted (1)"),
                                       HasSubstr("ip tuntap add dev tw0 mode tap user")));
  });
}

TEST_F(TapUnprivileged, TapOfAnotherUserIsRefused) {
  Ip("tuntap add dev tw0 mode tap user 1000");
  RunAsUser(kNobody, [&] {
    Host host;
    EXPECT_EQ(StatusToErrno(host.Open({.name = "tw0", .device_path = node()}).status()), EPERM);
  });
}

TEST_F(TapUnprivileged, KernelAddressesNeedPrivilegeAndSaySo) {
  Ip("tuntap add dev tw0 mode tap user 65534");
  RunAsUser(kNobody, [&] {
    Host host;
    const absl::Status status = host.Open({.name = "tw0",
                                           .device_path = node(),
                                           .kernel_addrs = {*IpPrefix::Parse("10.9.0.1/24")}})
                                    .status();
    EXPECT_EQ(StatusToErrno(status), EPERM);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("tw0"), HasSubstr("CAP_NET_ADMIN")));
  });
}

// user_namespaces(7): the limit of namespaces is per namespace, so it can be set to none in one.
TEST_F(TapUnprivileged, ForbiddenUserNamespacesAreExplained) {
  RunAsUser(kNobody, [&] {
    if (unshare(CLONE_NEWUSER) != 0) GTEST_SKIP() << "unshare: " << std::strerror(errno);
    std::ofstream("/proc/self/uid_map") << "65534 65534 1";
    std::ofstream("/proc/sys/user/max_user_namespaces") << "0";
    Host host;
    const absl::Status status =
        host.Open({.name = "tw0", .device_path = node(), .userns = true}).status();
    EXPECT_EQ(StatusToErrno(status), ENOSPC);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("unshare"), HasSubstr("max_user_namespaces")));
  });
}

// ---- An interface or a descriptor from root ----

TEST_F(TapUnprivileged, OwnedTapCarriesFrames) {
  Ip("tuntap add dev tw0 mode tap user 65534 vnet_hdr");
  Sysctl("ipv6/conf/tw0/disable_ipv6", "1");
  Ip("link set tw0 up");
  PacketSocket kernel("tw0");  // takes a capability, so it is made by root
  RunAsUser(kNobody, [&] {
    Host host;
    auto device = host.Open({.name = "tw0", .device_path = node()});
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE((*device)->Up().ok());
    EXPECT_TRUE((*device)->rx_offloads().tso);
    EXPECT_EQ(OwnCapabilities(), "0000000000000000");
    Bytes frame(60);
    wire::EthernetFields{.destination = (*device)->mac(),
                         .source = (*device)->kernel_mac(),
                         .ether_type = kTestEtherType}
        .Emit(frame);
    EXPECT_TRUE(SendUntilReceived(kernel, frame, host.sink, *host.runner));
  });
}

TEST_F(TapUnprivileged, AttachedDescriptorOfRootNeedsNoNode) {
  UniqueFd fd(open(tun_node().c_str(), O_RDWR | O_CLOEXEC));
  ifreq request = {};
  std::strcpy(request.ifr_name, "tw0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  ASSERT_EQ(ioctl(fd.get(), TUNSETIFF, &request), 0);
  Ip("link set tw0 up");
  RunAsUser(kNobody, [&] {
    Host host;
    auto device = host.Open({.device_path = "/nonexistent", .fd = fd.Release()});
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE((*device)->Up().ok());
    EXPECT_TRUE((*device)->is_running());
    EXPECT_TRUE((*device)->rx_offloads().tso);
  });
}

// ---- A user namespace ----

class TapUserns : public TapUnprivileged {
 protected:
  TapOptions Options(const std::string& name = "tw0") const {
    return {.name = name,
            .device_path = node(),
            .userns = true,
            .mtu = 1400,
            .kernel_addrs = {*IpPrefix::Parse("10.9.0.1/24"), *IpPrefix::Parse("fd00:9::1/64")}};
  }

  // All that a user does: the kernel's side is addressed and up, programs run in it, its frames
  // come to us, and we have no capability.
  void ExpectUsernsWorks(const TapOptions& options) {
    Host host;
    auto device = host.Open(options);
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE((*device)->Up().ok());
    EXPECT_TRUE((*device)->is_running());
    EXPECT_EQ((*device)->mtu(), 1400u);
    EXPECT_EQ(if_nametoindex((*device)->name().c_str()), 0u) << "it is in our namespace";

    const auto instance = FindUsernsInstance(getpid());
    ASSERT_TRUE(instance.ok()) << instance.status();
    EXPECT_EQ(instance->holder_pid, (*device)->userns_holder());
    EXPECT_EQ(instance->tap_name, (*device)->name());
    EXPECT_EQ(instance->addresses, "10.9.0.1/24 fd00:9::1/64");

    const CommandResult ip = RunInside(*instance, {"ip", "addr"}, host);
    EXPECT_THAT(ip.output,
                AllOf(HasSubstr((*device)->name()), HasSubstr("10.9.0.1/24 brd 10.9.0.255"),
                      HasSubstr("fd00:9::1/64"), HasSubstr("mtu 1400"), HasSubstr("127.0.0.1/8")));
    // Root in there: it may change the kernel's side.
    EXPECT_TRUE(
        RunInside(*instance, {"ip", "addr", "add", "10.9.1.1/24", "dev", (*device)->name()}, host)
            .ok());
    EXPECT_TRUE(RunInside(*instance, {"ping", "-c1", "-W1", "10.9.0.1"}, host).ok()) << "lo is up";

    host.sink.packets.clear();
    (void)RunInside(*instance, {"ping", "-c1", "-W1", "10.9.0.2"}, host);
    bool asked = false;
    for (const PacketPtr& packet : host.sink.packets) {
      const Bytes frame = FrameSink::BytesOf(*packet);
      asked = asked || (frame[12] == 8 && frame[13] == 6 && frame.size() >= 42 && frame[41] == 2);
    }
    EXPECT_TRUE(asked) << "no ARP request for 10.9.0.2 among " << host.sink.packets.size();
    host.sink.packets.clear();
  }
};

TEST_F(TapUserns, WorksForNobodyWithoutCapabilities) {
  RunAsUser(kNobody, [&] {
    ExpectUsernsWorks(Options());
    EXPECT_EQ(OwnCapabilities(), "0000000000000000");
    EXPECT_THAT(*ListUsernsInstances(), IsEmpty()) << "the record stayed";
  });
}

TEST_F(TapUserns, WorksForRootToo) { ExpectUsernsWorks(Options()); }

TEST_F(TapUserns, QueuesAreMadeInside) {
  RunAsUser(kNobody, [&] {
    TapOptions options = Options();
    options.queues = 3;
    Host host;
    auto device = host.Open(options);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ((*device)->queue_count(), 3u);
    EXPECT_TRUE((*device)->Up().ok());
  });
}

TEST_F(TapUserns, BadKernelAddressIsNamed) {
  RunAsUser(kNobody, [&] {
    TapOptions options = Options();
    options.kernel_addrs = {IpPrefix{.address = Ipv4Address(10, 0, 0, 1), .length = 33}};
    Host host;
    const absl::Status status = host.Open(options).status();
    EXPECT_EQ(StatusToErrno(status), EINVAL);
    EXPECT_THAT(Message(status), HasSubstr("10.0.0.1/33"));
  });
}

TEST_F(TapUserns, TwoOfOneProcessAreToldApart) {
  RunAsUser(kNobody, [&] {
    Host host;
    ASSERT_TRUE(host.Open(Options("tw0")).ok());
    ASSERT_TRUE(host.Open(Options("tw1")).ok());
    const auto all = ListUsernsInstances();
    ASSERT_THAT(*all, SizeIs(2));
    const absl::Status several = FindUsernsInstance(std::nullopt).status();
    EXPECT_THAT(Message(several), AllOf(HasSubstr("tw0"), HasSubstr("tw1"), HasSubstr("--pid")));
    for (const UsernsInstance& instance : *all) {
      const auto found = FindUsernsInstance(instance.holder_pid);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(*found, instance);
      EXPECT_THAT(RunInside(instance, {"ip", "link"}, host).output, HasSubstr(instance.tap_name));
    }
  });
}

// Where no record can be written the TAP works all the same.
TEST_F(TapUserns, RecordThatCannotBeWrittenIsNoFailure) {
  ASSERT_EQ(setenv("XDG_RUNTIME_DIR", "/nonexistent", 1), 0);
  const std::string taken = absl::StrCat("/tmp/tapwire-", kNobody - 1);
  std::ofstream(taken) << "not a directory";
  RunAsUser(kNobody - 1, [&] {
    Host host;
    EXPECT_TRUE(host.Open(Options()).ok());
    EXPECT_THAT(*ListUsernsInstances(), IsEmpty());
  });
  unlink(taken.c_str());
  unsetenv("XDG_RUNTIME_DIR");
}

// The namespace must not outlive the process, whatever it dies of.
TEST_F(TapUserns, HolderEndsWhenTheProcessIsKilled) {
  RunAsUser(kNobody, [&] {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      Host host;
      auto device = host.Open(Options());
      const pid_t holder = device.ok() ? (*device)->userns_holder() : 0;
      (void)!write(ready[1], &holder, sizeof(holder));
      pause();
      _exit(0);
    }
    pid_t holder = 0;
    ASSERT_EQ(read(ready[0], &holder, sizeof(holder)), static_cast<ssize_t>(sizeof(holder)));
    ASSERT_GT(holder, 0);
    EXPECT_GT(ProcessStartTime(holder), 0u);
    EXPECT_THAT(*ListUsernsInstances(), SizeIs(1));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    for (int i = 0; i < 200 && ProcessStartTime(holder) != 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(ProcessStartTime(holder), 0u);
    EXPECT_THAT(*ListUsernsInstances(), IsEmpty());
    close(ready[0]);
    close(ready[1]);
  });
}

// PR_SET_PDEATHSIG would have killed it: the thread that made it is not the process.
TEST_F(TapUserns, HolderOutlivesTheThreadThatMadeIt) {
  RunAsUser(kNobody, [&] {
    Host host;
    absl::StatusOr<TapDevice*> device = absl::UnknownError("not run");
    host.context.DetachFromThread();
    std::thread([&] { device = host.Open(Options()); }).join();
    host.context.DetachFromThread();
    ASSERT_TRUE(device.ok()) << device.status();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_GT(ProcessStartTime((*device)->userns_holder()), 0u);
  });
}

// Ctrl-C goes to the process group; the holder must stay until its parent has finished.
TEST_F(TapUserns, HolderIsInASessionOfItsOwn) {
  RunAsUser(kNobody, [&] {
    Host host;
    auto device = host.Open(Options());
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(getsid((*device)->userns_holder()), (*device)->userns_holder());
  });
}

// Nothing of ours stays open in the holder: a pipe's reader must see the end.
TEST_F(TapUserns, HolderKeepsNoDescriptorsOfOurs) {
  RunAsUser(kNobody, [&] {
    int pair[2];
    ASSERT_EQ(pipe(pair), 0);
    Host host;
    auto device = host.Open(Options());
    ASSERT_TRUE(device.ok()) << device.status();
    close(pair[1]);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    char byte;
    EXPECT_EQ(read(pair[0], &byte, 1), 0) << "somebody still holds the writing end";
    close(pair[0]);
  });
}

}  // namespace
}  // namespace tapwire::drivers
