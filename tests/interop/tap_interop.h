// SPDX-License-Identifier: Apache-2.0
//
// Fixture for tests of TapDevice against the kernel: a namespace of its own, a context with its
// runner, a sink for received frames, and the kernel's side by packet socket.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/tap/tap_device.h"
#include "drivers/tap/unique_fd.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "netdev/wire/ethernet.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_runner.h"
#include "tests/testutil/tap_fixture.h"

namespace tapwire::drivers {

using Bytes = std::vector<uint8_t>;

inline constexpr uint16_t kTestEtherType = 0x88b5;  // IEEE 802: for local experiments

// The kernel's end of a TAP, seen through AF_PACKET.
class PacketSocket {
 public:
  explicit PacketSocket(const std::string& interface)
      : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll address = {};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    if (bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      ADD_FAILURE() << "bind AF_PACKET to " << interface << ": " << std::strerror(errno);
    }
  }

  void Send(const Bytes& frame) {
    EXPECT_EQ(send(fd_.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()))
        << std::strerror(errno);
  }

  // Next frame of `ether_type` that came in from the TAP; empty after `timeout_ms` without one.
  Bytes Receive(uint16_t ether_type, int timeout_ms = 2000) {
    Bytes buffer(70'000);
    pollfd waiting = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    while (poll(&waiting, 1, timeout_ms) > 0) {
      sockaddr_ll from = {};
      socklen_t from_length = sizeof(from);
      const ssize_t n = recvfrom(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                 reinterpret_cast<sockaddr*>(&from), &from_length);
      if (n < 0 && errno == ENETDOWN) continue;  // the interface was down when this was made
      if (n < 14) return {};
      if (from.sll_pkttype == PACKET_OUTGOING ||
          (buffer[12] << 8 | buffer[13]) != int{ether_type}) {
        continue;
      }
      buffer.resize(static_cast<size_t>(n));
      return buffer;
    }
    return {};
  }

 private:
  UniqueFd fd_;
};

// Keeps what the device passes up, of one EtherType.
class FrameSink final : public netdev::PacketType {
 public:
  explicit FrameSink(uint16_t ether_type) : PacketType(ether_type) {}
  void Receive(PacketPtr packet, netdev::NetDevice& /*device*/) override {
    packets.push_back(std::move(packet));
  }
  static Bytes BytesOf(const Packet& packet) {
    Bytes bytes(packet.length());
    packet.CopyOut(0, bytes);
    return bytes;
  }
  std::vector<PacketPtr> packets;
};

// Sends a frame from the kernel's end until one arrives. When a carrier comes the kernel activates
// the interface's queue from a work item; what is sent before that is dropped.
inline bool SendUntilReceived(PacketSocket& kernel, const Bytes& frame, FrameSink& sink,
                              ThreadRunner& runner) {
  for (int i = 0; i < 100; ++i) {
    kernel.Send(frame);
    if (runner.RunUntil([&sink] { return !sink.packets.empty(); }, std::chrono::milliseconds(20))) {
      return true;
    }
  }
  return false;
}

class TapInterop : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    context_ = std::make_unique<netdev::NetContext>(system_.environment());
    runner_ = *ThreadRunner::Create(context_.get());
  }
  void TearDown() override {
    sink_.packets.clear();
    runner_.reset();
    context_.reset();
    NetnsFixture::TearDown();
  }

  // Opens and registers a TAP; the node is that of the fixture unless named.
  absl::StatusOr<TapDevice*> TryOpen(TapOptions options) {
    if (options.device_path == kDefaultTapNode) options.device_path = tun_node();
    auto device = TapDevice::Open(*context_, options);
    if (!device.ok()) return device.status();
    return context_->registry().Register(*std::move(device));
  }

  // The same, which must work; up on both sides and quiet.
  TapDevice* Open(TapOptions options) {
    if (options.name.empty()) options.name = "tw0";
    auto device = TryOpen(std::move(options));
    EXPECT_TRUE(device.ok()) << device.status();
    if (!device.ok()) return nullptr;
    Quiet((*device)->name());
    Ip(absl::StrCat("link set ", (*device)->name(), " up"));
    EXPECT_TRUE((*device)->Up().ok());
    EXPECT_TRUE((*device)->is_running());
    (*device)->AddPacketType(sink_);
    return *device;
  }

  // Keeps the kernel from sending anything of its own accord.
  void Quiet(const std::string& interface) {
    Sysctl(absl::StrCat("ipv6/conf/", interface, "/disable_ipv6"), "1");
  }

  netdev::TxResult Send(TapDevice& device, PacketPtr packet) {
    const netdev::TxResult result = netdev::TxPath::Transmit(std::move(packet), device);
    while (context_->RunOnce()) {
    }
    return result;
  }

  // Runs the context until `done` or for two seconds.
  bool RunUntil(const std::function<bool()>& done) {
    return runner_->RunUntil(done, std::chrono::seconds(2));
  }

  static Bytes TestFrame(const MacAddress& to, const MacAddress& from, size_t length) {
    Bytes frame(length);
    for (size_t i = 0; i < length; ++i) frame[i] = static_cast<uint8_t>(i * 7 + i / 256);
    wire::EthernetFields{.destination = to, .source = from, .ether_type = kTestEtherType}.Emit(
        frame);
    return frame;
  }

  PacketPtr ToPacket(const Bytes& bytes) { return PacketFromBytes(context_->pool(), bytes); }

  // One frame in each direction.
  void ExpectWireWorks(TapDevice& device) {
    PacketSocket kernel(device.name());
    const Bytes out = TestFrame(device.kernel_mac(), device.mac(), 100);
    EXPECT_EQ(Send(device, ToPacket(out)), netdev::TxResult::kQueued);
    EXPECT_EQ(kernel.Receive(kTestEtherType), out);
    const Bytes in = TestFrame(device.mac(), device.kernel_mac(), 101);
    sink_.packets.clear();
    ASSERT_TRUE(SendUntilReceived(kernel, in, sink_, *runner_));
    EXPECT_EQ(FrameSink::BytesOf(*sink_.packets.front()), in);
    sink_.packets.clear();
  }

  SystemEnvironment system_;
  FrameSink sink_{kTestEtherType};
  std::unique_ptr<netdev::NetContext> context_;
  std::unique_ptr<ThreadRunner> runner_;
};

}  // namespace tapwire::drivers
