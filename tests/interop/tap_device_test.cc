// SPDX-License-Identifier: Apache-2.0
//
// TapDevice against the kernel: ways in, frames, link state, removal. What offloads do is in
// tap_offload_test.cc, what needs no privilege in tap_unprivileged_test.cc.
#include "drivers/tap/tap_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <uv.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "drivers/tap/fd_passing.h"
#include "netdev/base/status_util.h"
#include "stack/sockets/uv/uv_runner.h"
#include "tests/interop/tap_interop.h"

namespace tapwire::drivers {
namespace {

using netdev::TxResult;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using TapDeviceInterop = TapInterop;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Opens a node and attaches it by hand, as another program would.
UniqueFd AttachByHand(const std::string& node, const std::string& name, int flags) {
  UniqueFd fd(open(node.c_str(), O_RDWR | O_CLOEXEC));
  ifreq request = {};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = static_cast<short>(flags);
  EXPECT_EQ(ioctl(fd.get(), TUNSETIFF, &request), 0) << std::strerror(errno);
  return fd;
}

// ---- Ways in ----

TEST_F(TapDeviceInterop, NamedTapIsCreatedAndCarriesFrames) {
  TapDevice* device = Open({.name = "tw0"});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->name(), "tw0");
  EXPECT_EQ(device->mtu(), 1500u);
  EXPECT_NE(device->mac(), device->kernel_mac());
  EXPECT_THAT(Ip("-d link show tw0"),
              AllOf(HasSubstr(device->kernel_mac().ToString()), HasSubstr("tun type tap"),
                    HasSubstr("pi off"), HasSubstr("vnet_hdr on")));
  ExpectWireWorks(*device);
}

TEST_F(TapDeviceInterop, KernelChoosesTheNameIfNoneIsGiven) {
  auto device = TryOpen({});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->name(), "tap0");
}

TEST_F(TapDeviceInterop, TapEndsWithItsDeviceUnlessPersistent) {
  Open({.name = "tw0"});
  Open({.name = "tw1", .persist = true});
  context_->registry().Unregister(*context_->registry().Find("tw0"));
  context_->registry().Unregister(*context_->registry().Find("tw1"));
  runner_->RunFor(milliseconds(1));
  EXPECT_EQ(if_nametoindex("tw0"), 0u);
  EXPECT_NE(if_nametoindex("tw1"), 0u);
  TapDevice* again = Open({.name = "tw1"});
  ASSERT_NE(again, nullptr);
  ExpectWireWorks(*again);
}

TEST_F(TapDeviceInterop, PersistentTapMadeByIpIsAttachedTo) {
  Ip("tuntap add dev tw0 mode tap");
  TapDevice* device = Open({.name = "tw0"});
  ASSERT_NE(device, nullptr);
  EXPECT_TRUE(device->rx_offloads().tso);
  ExpectWireWorks(*device);
}

TEST_F(TapDeviceInterop, MultiQueueTapIsAttachedToWithOneQueueToo) {
  Ip("tuntap add dev tw0 mode tap multi_queue vnet_hdr");
  TapDevice* device = Open({.name = "tw0"});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->queue_count(), 1u);
  ExpectWireWorks(*device);
}

// The carrier is the interface's: one owner of a queue must not silence the other.
TEST_F(TapDeviceInterop, DeviceThatLeavesASharedTapLeavesItsCarrier) {
  constexpr int kFlags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
  const UniqueFd other = AttachByHand(tun_node(), "tw0", kFlags);
  UniqueFd ours = AttachByHand(tun_node(), "tw0", kFlags);
  Quiet("tw0");
  Ip("link set tw0 up");
  auto device = TryOpen({.fd = ours.Release()});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT(Ip("link show tw0"), HasSubstr("LOWER_UP"));
  (*device)->Down();
  EXPECT_THAT(Ip("link show tw0"), HasSubstr("LOWER_UP"));
  // By name it would be taken over without a word: some frames to each.
  const auto second = TryOpen({.name = "tw0"});
  EXPECT_EQ(StatusToErrno(second.status()), EBUSY) << second.status();
}

TEST_F(TapDeviceInterop, AttachedDescriptorIsAdopted) {
  UniqueFd fd = AttachByHand(tun_node(), "tw5", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
  Quiet("tw5");
  Ip("link set tw5 up");
  auto device = TryOpen({.fd = fd.Release()});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->name(), "tw5");
  ASSERT_TRUE((*device)->Up().ok());
  (*device)->AddPacketType(sink_);
  ExpectWireWorks(**device);
}

TEST_F(TapDeviceInterop, UnattachedDescriptorNeedsAName) {
  UniqueFd fd(open(tun_node().c_str(), O_RDWR | O_CLOEXEC));
  auto device = TryOpen({.fd = dup(fd.get())});
  EXPECT_THAT(Message(device.status()), HasSubstr("give its name too"));
  ASSERT_NE(Open({.name = "tw5", .fd = fd.Release()}), nullptr);
}

TEST_F(TapDeviceInterop, DescriptorWithoutVnetHeaderWorksWithoutOffloads) {
  UniqueFd fd = AttachByHand(tun_node(), "tw5", IFF_TAP | IFF_NO_PI);
  TapDevice* device = Open({.name = "tw5", .fd = fd.Release()});
  ASSERT_NE(device, nullptr);
  EXPECT_FALSE(device->features().HasAny(netdev::kCsumMask | netdev::kGsoMask));
  ExpectWireWorks(*device);
}

TEST_F(TapDeviceInterop, UnsuitableDescriptorsAreRefusedWithTheReason) {
  UniqueFd tun = AttachByHand(tun_node(), "tw5", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR);
  EXPECT_THAT(Message(TryOpen({.fd = tun.Release()}).status()),
              AllOf(HasSubstr("tw5"), HasSubstr("IFF_TAP")));
  UniqueFd other = AttachByHand(tun_node(), "tw7", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
  EXPECT_THAT(Message(TryOpen({.name = "tw0", .fd = other.Release()}).status()),
              AllOf(HasSubstr("tw7"), HasSubstr("tw0")));
}

TEST_F(TapDeviceInterop, DescriptorsOverASocketAreItsQueues) {
  char directory[] = "/tmp/tapwire-fd-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = absl::StrCat(directory, "/socket");
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  constexpr int kFlags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
  UniqueFd first = AttachByHand(tun_node(), "tw5", kFlags);
  UniqueFd second = AttachByHand(tun_node(), "tw5", kFlags);
  std::thread server([&] {
    UniqueFd client(accept(listener.get(), nullptr, nullptr));
    const int fds[] = {first.get(), second.get()};
    EXPECT_EQ(SendFds(client.get(), fds, 2, "x", 1), 0);
  });
  TapDevice* device = Open({.name = "tw5", .fd_socket = path});
  server.join();
  unlink(path.c_str());
  rmdir(directory);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->queue_count(), 2u);
  ExpectWireWorks(*device);
}

// Covers: demand:59 — what is wrong, and what to do about it.
TEST_F(TapDeviceInterop, WrongInterfacesAreRefusedWithTheReason) {
  EXPECT_THAT(Message(TryOpen({.name = "lo"}).status()),
              AllOf(HasSubstr("'lo'"), HasSubstr("not a TAP")));
  Ip("tuntap add dev single mode tap");
  EXPECT_THAT(Message(TryOpen({.name = "single", .queues = 2}).status()),
              AllOf(HasSubstr("Invalid argument (22)"), HasSubstr("queues=1")));
  ASSERT_TRUE(TryOpen({.name = "tw0"}).ok());
  const absl::Status busy = TryOpen({.name = "tw0"}).status();
  EXPECT_EQ(StatusToErrno(busy), EBUSY);
  EXPECT_THAT(Message(busy), HasSubstr("another process is attached"));
}

TEST_F(TapDeviceInterop, KernelSideIsAddressedAndBroughtUpOnRequest) {
  auto device = TryOpen(
      {.name = "tw0",
       .mtu = 1400,
       .kernel_addrs = {*IpPrefix::Parse("10.9.0.1/24"), *IpPrefix::Parse("fd00:9::1/64")}});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT(Ip("addr show dev tw0"),
              AllOf(HasSubstr("10.9.0.1/24 brd 10.9.0.255"), HasSubstr("fd00:9::1/64"),
                    HasSubstr("mtu 1400"), HasSubstr("UP"), Not(HasSubstr("tentative nodad"))));
}

// ---- MTU ----

TEST_F(TapDeviceInterop, MtuIsThatOfBothEnds) {
  TapDevice* device = Open({.name = "tw0", .mtu = 9000});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->mtu(), 9000u);
  EXPECT_THAT(Ip("link show tw0"), HasSubstr("mtu 9000"));
  PacketSocket kernel("tw0");
  const Bytes frame = TestFrame(device->kernel_mac(), device->mac(), 9014);
  Send(*device, ToPacket(frame));
  EXPECT_EQ(kernel.Receive(kTestEtherType), frame);
  kernel.Send(TestFrame(device->mac(), device->kernel_mac(), 9014));
  EXPECT_TRUE(RunUntil([this] { return sink_.packets.size() == 1; }));
}

TEST_F(TapDeviceInterop, WithoutMtuTheKernelsIsTaken) {
  Ip("tuntap add dev tw0 mode tap");
  Ip("link set tw0 mtu 1280");
  TapDevice* device = Open({.name = "tw0"});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->mtu(), 1280u);
}

TEST_F(TapDeviceInterop, LargestMtuWorks) {
  TapDevice* device = Open({.name = "tw0", .mtu = TapDevice::kMaxMtu});
  ASSERT_NE(device, nullptr);
  PacketSocket kernel("tw0");
  const Bytes frame = TestFrame(device->kernel_mac(), device->mac(), 65'535);
  Send(*device, ToPacket(frame));
  EXPECT_EQ(kernel.Receive(kTestEtherType), frame);
  kernel.Send(TestFrame(device->mac(), device->kernel_mac(), 65'535));
  ASSERT_TRUE(RunUntil([this] { return sink_.packets.size() == 1; }));
  EXPECT_EQ(FrameSink::BytesOf(*sink_.packets.front()),
            TestFrame(device->mac(), device->kernel_mac(), 65'535));
}

// ---- Frames ----

TEST_F(TapDeviceInterop, EverySizeArrivesByteForByteBothWays) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  PacketSocket kernel("tw0");
  for (size_t size = 14; size <= 1514; size += size < 70 || size > 1500 ? 1 : 97) {
    const Bytes out = TestFrame(device->kernel_mac(), device->mac(), size);
    Send(*device, ToPacket(out));
    ASSERT_EQ(kernel.Receive(kTestEtherType), out) << size;
    const Bytes in = TestFrame(device->mac(), device->kernel_mac(), size);
    kernel.Send(in);
    ASSERT_TRUE(RunUntil([this] { return !sink_.packets.empty(); })) << size;
    ASSERT_EQ(FrameSink::BytesOf(*sink_.packets.front()), in) << size;
    sink_.packets.clear();
  }
  EXPECT_EQ(device->drops().total(), 0u);
}

TEST_F(TapDeviceInterop, BurstIsReadInOneBatch) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  PacketSocket kernel("tw0");
  for (int i = 0; i < 200; ++i) kernel.Send(TestFrame(device->mac(), device->kernel_mac(), 60));
  const uint64_t wakeups = runner_->stats().wakeups.value();
  EXPECT_TRUE(RunUntil([this] { return sink_.packets.size() == 200; }));
  EXPECT_LE(runner_->stats().wakeups.value(), wakeups + 1);
}

TEST_F(TapDeviceInterop, QueuesAllCarryFrames) {
  TapDevice* device = Open({.name = "tw0", .queues = 4});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->queue_count(), 4u);
  ExpectWireWorks(*device);
  EXPECT_EQ(device->poll_fds().size(), 4u);
}

// ---- Link state ----

TEST_F(TapDeviceInterop, KernelSeesNoCarrierWhileTheDeviceIsDown) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  EXPECT_THAT(Ip("link show tw0"), Not(HasSubstr("NO-CARRIER")));
  device->Down();
  EXPECT_THAT(Ip("link show tw0"), HasSubstr("NO-CARRIER"));
  ASSERT_TRUE(device->Up().ok());
  EXPECT_THAT(Ip("link show tw0"), Not(HasSubstr("NO-CARRIER")));
  ExpectWireWorks(*device);
}

// Covers: bug:B94 — down while sending: a drop and carrier off; up: recovery without a tick.
TEST_F(TapDeviceInterop, LinkThatGoesDownAndComesBack) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  Ip("link set tw0 down");
  const Bytes frame = TestFrame(device->kernel_mac(), device->mac(), 60);
  Send(*device, ToPacket(frame));
  runner_->RunFor(milliseconds(1));
  EXPECT_FALSE(device->has_carrier());
  EXPECT_EQ(device->write_errors(EIO), 1u);
  EXPECT_EQ(device->drops().value(DropReason::kTxCarrierOff), 1u);
  const uint64_t wakeups = runner_->stats().wakeups.value();
  runner_->RunFor(milliseconds(200));
  EXPECT_LE(runner_->stats().wakeups.value(), wakeups + 1) << "waiting for the link costs nothing";
  Ip("link set tw0 up");
  EXPECT_TRUE(RunUntil([device] { return device->has_carrier(); }));
  ExpectWireWorks(*device);
  EXPECT_EQ(device->tap_stats().link_lost.value(), 1u);
}

TEST_F(TapDeviceInterop, DeviceMayComeUpBeforeTheKernelsEnd) {
  auto device = TryOpen({.name = "tw0"});
  ASSERT_TRUE(device.ok());
  Quiet("tw0");
  ASSERT_TRUE((*device)->Up().ok());
  EXPECT_FALSE((*device)->has_carrier());
  (*device)->AddPacketType(sink_);
  Ip("link set tw0 up");
  EXPECT_TRUE(RunUntil([&] { return (*device)->has_carrier(); }));
  ExpectWireWorks(**device);
}

// ---- Removal ----

// Covers: bug:B94, demand:61
TEST_F(TapDeviceInterop, RemovalIsToldOnceAndCostsNothingAfterwards) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  std::vector<std::string> told;
  device->SetGoneCallback([&](const absl::Status& why) { told.push_back(Message(why)); });
  runner_->RunFor(milliseconds(1));
  Ip("link del tw0");
  EXPECT_TRUE(RunUntil([&] { return !told.empty(); }));
  const uint64_t wakeups = runner_->stats().wakeups.value();
  runner_->RunFor(milliseconds(200));
  EXPECT_LE(runner_->stats().wakeups.value(), wakeups + 1);
  EXPECT_THAT(told,
              ::testing::ElementsAre(AllOf(HasSubstr("tw0"), HasSubstr("removed while in use"))));
  EXPECT_FALSE(device->is_up());
  EXPECT_FALSE(device->Up().ok());
  EXPECT_EQ(Send(*device, ToPacket(Bytes(60))), TxResult::kCongested);
}

// Covers: bug:B94, demand:61 — found by a write, before the loop has had a look.
TEST_F(TapDeviceInterop, RemovalIsFoundByAWriteToo) {
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  Ip("link del tw0");
  EXPECT_EQ(Send(*device, ToPacket(Bytes(60))), TxResult::kQueued);
  EXPECT_TRUE(device->gone());
  EXPECT_EQ(device->write_errors(EBADFD), 1u);
  EXPECT_EQ(device->drops().value(DropReason::kTxDeviceDown), 1u);
}

// Covers: demand:61, bug:B94 — the same under libuv, which stops polling a descriptor with an
// error.
TEST_F(TapDeviceInterop, RemovalUnderLibuvIsOneEvent) {
  runner_.reset();
  uv_loop_t loop;
  uv_loop_init(&loop);
  auto runner = UvRunner::Attach(&loop, context_.get());
  ASSERT_TRUE(runner.ok());
  TapDevice* device = Open({});
  ASSERT_NE(device, nullptr);
  int told = 0;
  device->SetGoneCallback([&](const absl::Status&) { ++told; });
  const auto run_for = [&loop](uint64_t ms) {
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(
        &timer, [](uv_timer_t* handle) { uv_stop(handle->loop); }, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    uv_run(&loop, UV_RUN_NOWAIT);
  };
  run_for(20);
  EXPECT_EQ((*runner)->stats().wakeups(), 0u);
  Ip("link set tw0 down");
  Send(*device, ToPacket(Bytes(60)));
  run_for(50);
  EXPECT_FALSE(device->has_carrier());
  EXPECT_EQ((*runner)->stats().wakeups(), 0u) << "waiting for the link costs nothing";
  Ip("link set tw0 up");
  run_for(50);
  EXPECT_TRUE(device->has_carrier());
  EXPECT_LE((*runner)->stats().wakeups(), 2u);
  Ip("link del tw0");
  run_for(50);
  EXPECT_EQ(told, 1);
  const uint64_t wakeups = (*runner)->stats().wakeups();
  EXPECT_LE(wakeups, 4u);
  run_for(100);
  EXPECT_EQ((*runner)->stats().wakeups(), wakeups);
  context_->registry().Unregister(*device);
  run_for(5);
  runner->reset();
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

// Covers: demand:19 — a quiet TAP wakes nobody.
TEST_F(TapDeviceInterop, IdleTapNeverWakes) {
  ASSERT_NE(Open({}), nullptr);
  runner_->RunFor(milliseconds(20));
  const uint64_t wakeups = runner_->stats().wakeups.value();
  runner_->RunFor(milliseconds(1000));
  EXPECT_LE(runner_->stats().wakeups.value(), wakeups + 1) << "the limit of the run itself";
}

}  // namespace
}  // namespace tapwire::drivers
