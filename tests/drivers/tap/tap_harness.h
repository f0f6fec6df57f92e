// SPDX-License-Identifier: Apache-2.0
//
// Fixture: TapDevice over a double: a UNIX socket pair carries what a TAP would, frame by frame
// with its header, and the test decides what the kernel says to each write.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "drivers/tap/tap_device.h"
#include "netdev/base/log.h"
#include "netdev/csum_offload.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::drivers {

using Bytes = std::vector<uint8_t>;

inline constexpr MacAddress kKernelMac(0x02, 0, 0, 0, 0, 0xaa);
inline constexpr MacAddress kOurMac(0x02, 0, 0, 0, 0, 0x01);
inline constexpr uint16_t kTestEtherType = 0x88b5;  // IEEE 802: for local experiments

// The kernel's answers.
class FakeKernel final : public TapIo {
 public:
  // Errno for a frame that is about to be written (0: takes it), by its header.
  std::function<int(const VnetHdr&)> refuse = [](const VnetHdr&) { return 0; };
  TapLinkState state = TapLinkState::kUp;
  int read_error = 0;
  int reads = 0;
  bool has_header = true;  // frames come with a vnet header
  int interrupts = 0;      // EINTR to give before each call

  ssize_t Readv(int fd, const iovec* vectors, int count) override {
    ++reads;
    if (interrupts > 0) return --interrupts, -EINTR;
    if (read_error != 0) return -read_error;
    const ssize_t n = readv(fd, vectors, count);
    return n < 0 ? -errno : n;
  }
  ssize_t Writev(int fd, const iovec* vectors, int count) override {
    if (interrupts > 0) return --interrupts, -EINTR;
    if (has_header) {
      const auto hdr = VnetHdr::Parse({static_cast<const uint8_t*>(vectors[0].iov_base), 12},
                                      VnetOrder::kLittle);
      if (const int err = refuse(*hdr); err != 0) return -err;
    }
    const ssize_t n = writev(fd, vectors, count);
    return n < 0 ? -errno : n;
  }
  TapLinkState LinkState(int /*fd*/) override { return state; }
};

// Takes what the device passes up.
class Sink final : public netdev::PacketType {
 public:
  Sink() : PacketType(kAllTypes) {}
  void Receive(PacketPtr packet, netdev::NetDevice& /*device*/) override {
    packets.push_back(std::move(packet));
  }
  std::vector<PacketPtr> packets;
};

class LogLines final : public LogSink {
 public:
  LogLines() : before_(SetLogSink(this)) {}
  ~LogLines() override { SetLogSink(before_); }
  void Write(LogLevel, const char*, int, absl::string_view text) override {
    lines.emplace_back(text);
  }
  std::vector<std::string> lines;

 private:
  LogSink* before_;
};

struct Written {
  VnetHdr hdr;
  Bytes frame;
};

class TapDeviceTest : public ::testing::Test {
 protected:
  TapDeviceTest() : context_(environment_.environment()) {}

  void SetUp() override { Make({}); }

  // Makes the device on new socket pairs and, unless told otherwise, brings it up; what the probe
  // wrote is taken away.
  void Make(TapOptions options, size_t vnet_hdr_size = VnetHdr::kLength) {
    if (device_ != nullptr) {
      context_.registry().Unregister(*device_);
      context_.RunOnce();
    }
    kernel_ends_.clear();
    TapLink link;
    link.name = "tw0";
    link.kernel_mac = kKernelMac;
    link.vnet_hdr_size = vnet_hdr_size;
    for (size_t i = 0; i < options.queues; ++i) {
      int pair[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
      const int size = 1 << 20;
      setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
      setsockopt(pair[1], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
      link.fds.emplace_back(pair[0]);
      kernel_ends_.emplace_back(pair[1]);
    }
    if (options.mac.IsZero()) options.mac = kOurMac;
    auto io = std::make_unique<FakeKernel>();
    kernel_ = io.get();
    kernel_->has_header = vnet_hdr_size != 0;
    auto device = TapDevice::Create(context_, std::move(link), options, std::move(io));
    ASSERT_TRUE(device.ok()) << device.status();
    // A socket knows no TUNSETOFFLOAD, so the receive side claims nothing of its own accord.
    auto registered = context_.registry().Register(*std::move(device));
    ASSERT_TRUE(registered.ok()) << registered.status();
    device_ = *registered;
    device_->AddPacketType(sink_);
  }

  void Up() {
    ASSERT_TRUE(device_->Up().ok());
    TakeWritten();
  }

  // Puts a frame on the wire as the kernel would.
  void FromKernel(const VnetHdr& hdr, const Bytes& frame, size_t queue = 0) {
    Bytes message(VnetHdr::kLength);
    hdr.Emit(message, VnetOrder::kLittle);
    message.insert(message.end(), frame.begin(), frame.end());
    ASSERT_EQ(write(kernel_ends_[queue].get(), message.data(), message.size()),
              static_cast<ssize_t>(message.size()));
  }

  // As a runner that found all descriptors readable.
  void RunReadable() {
    for (const netdev::PollFd& fd : device_->poll_fds()) fd.poll->Schedule();
    while (context_.RunOnce()) {
    }
  }

  std::vector<Written> TakeWritten(size_t queue = 0) {
    std::vector<Written> all;
    Bytes buffer(70'000);
    ssize_t n;
    while ((n = read(kernel_ends_[queue].get(), buffer.data(), buffer.size())) > 0) {
      const std::span<const uint8_t> message = std::span(buffer).first(static_cast<size_t>(n));
      all.push_back({*VnetHdr::Parse(message.first(12), VnetOrder::kLittle),
                     Bytes(message.begin() + 12, message.end())});
    }
    return all;
  }

  netdev::TxResult Send(PacketPtr packet) {
    const netdev::TxResult result = netdev::TxPath::Transmit(std::move(packet), *device_);
    context_.RunOnce();
    return result;
  }

  uint64_t Dropped(DropReason reason) const { return device_->drops().value(reason); }
  uint64_t Stat(const std::string& name) const {
    uint64_t found = 0;
    device_->ForEachDriverStat([&](absl::string_view stat, uint64_t value) {
      if (stat == name) found = value;
    });
    return found;
  }

  static Bytes PlainFrame(size_t length) {
    Bytes frame(length);
    for (size_t i = 0; i < length; ++i) frame[i] = static_cast<uint8_t>(i * 7 + i / 256);
    if (length >= 14) {
      wire::EthernetFields{
          .destination = kOurMac, .source = kKernelMac, .ether_type = kTestEtherType}
          .Emit(frame);
    }
    return frame;
  }

  PacketPtr Plain(size_t length) { return PacketFromBytes(context_.pool(), PlainFrame(length)); }

  // A TCP packet with a partial checksum, and a super-packet if gso_size is not 0.
  PacketPtr Tcp(bool v6, size_t payload, uint16_t gso_size, uint16_t source_port = 1000) {
    const size_t l4 = v6 ? 54 : 34;
    Bytes frame(l4 + 20 + payload);
    for (size_t i = l4 + 20; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(i * 3);
    wire::EthernetFields{.destination = kKernelMac,
                         .source = kOurMac,
                         .ether_type = v6 ? wire::EtherType::kIpv6 : wire::EtherType::kIpv4}
        .Emit(frame);
    const std::span<uint8_t> ip = std::span(frame).subspan(14);
    const Ipv6Address source6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 1});
    const Ipv6Address destination6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 2});
    if (v6) {
      wire::Ipv6Fields{.payload_length = static_cast<uint16_t>(20 + payload),
                       .next_header = 6,
                       .source = source6,
                       .destination = destination6}
          .Emit(ip);
    } else {
      wire::Ipv4Fields{.total_length = static_cast<uint16_t>(40 + payload),
                       .dont_fragment = true,
                       .protocol = 6,
                       .source = Ipv4Address(10, 0, 0, 1),
                       .destination = Ipv4Address(10, 0, 0, 2)}
          .Emit(ip);
    }
    wire::TcpFields{.src_port = source_port,
                    .dst_port = 2000,
                    .seq = 1,
                    .ack = 1,
                    .flags = wire::TcpFlags::kAck,
                    .window = 1000}
        .Emit(std::span(frame).subspan(l4));
    PacketPtr packet = PacketFromBytes(context_.pool(), frame);
    packet->set_l2_here();
    packet->set_l3_in_data(14);
    packet->set_l4_in_data(static_cast<int32_t>(l4));
    packet->Pull(l4);
    const netdev::PseudoHeader pseudo =
        v6 ? netdev::PseudoHeader{.source = source6, .destination = destination6, .protocol = 6}
           : netdev::PseudoHeader{.source = Ipv4Address(10, 0, 0, 1),
                                  .destination = Ipv4Address(10, 0, 0, 2),
                                  .protocol = 6};
    netdev::SetPartialChecksum(*packet, pseudo, 16);
    packet->Push(l4);
    if (gso_size != 0) {
      packet->meta.gso = {.type = v6 ? GsoType::kTcpv6 : GsoType::kTcpv4, .size = gso_size};
    }
    return packet;
  }

  // True if the transport checksum of an IPv4 or IPv6 TCP frame is right.
  static bool ChecksumIsRight(const Bytes& frame) {
    const bool v6 = frame[12] == 0x86;
    const std::span<const uint8_t> bytes(frame);
    const IpAddress source = v6 ? IpAddress(Ipv6Address::FromBytes(bytes.subspan(22, 16)))
                                : IpAddress(Ipv4Address::FromBytes(bytes.subspan(26, 4)));
    const IpAddress destination = v6 ? IpAddress(Ipv6Address::FromBytes(bytes.subspan(38, 16)))
                                     : IpAddress(Ipv4Address::FromBytes(bytes.subspan(30, 4)));
    return wire::TransportChecksum(source, destination, 6, bytes.subspan(v6 ? 54 : 34)) == 0;
  }

  TestEnvironment environment_;
  netdev::NetContext context_;
  Sink sink_;
  std::vector<UniqueFd> kernel_ends_;
  FakeKernel* kernel_ = nullptr;  // owned by the device
  TapDevice* device_ = nullptr;   // owned by the registry
};

}  // namespace tapwire::drivers
