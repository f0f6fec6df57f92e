// SPDX-License-Identifier: Apache-2.0
//
// A whole host fed with frames. The input is a series of records: flags (one byte), length (two
// bytes, big-endian), that many bytes of Ethernet frame. Flag 1: the IPv4 header checksum is put
// right and the device vouches for the transport checksum, so that the fuzzer gets past both; 2: a
// second passes afterwards; 4: a minute passes; 8: the device says the transport checksum is
// partial. Aborts if a packet is left or time makes the host work for ever.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/rx_path.h"
#include "netdev/wire/checksum.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire {
namespace {

constexpr uint8_t kFixChecksums = 1, kWaitSecond = 2, kWaitMinute = 4, kPartial = 8;

// Takes what is sent and forgets it.
class SinkDevice final : public netdev::NetDevice {
 public:
  explicit SinkDevice(netdev::NetContext& context)
      : NetDevice(context, {.name = "fuzz0", .mac = MacAddress{2, 0, 0, 0, 0, 1}}) {}
  absl::string_view kind() const override { return "fuzz"; }

 protected:
  netdev::TxResult StartXmit(PacketPtr /*packet*/, bool /*more*/) override {
    return netdev::TxResult::kSent;
  }
};

void FixIpv4Checksum(std::span<uint8_t> frame) {
  if (frame.size() < 34 || LoadBe16(frame.data() + 12) != 0x0800) return;
  const size_t header = size_t{4} * (frame[14] & 0x0f);
  if (header < 20 || frame.size() < 14 + header) return;
  StoreBe16(frame.data() + 24, 0);
  StoreBe16(frame.data() + 24, wire::ChecksumOf(frame.subspan(14, header)));
}

class FuzzHost {
 public:
  FuzzHost() : context_(environment_.environment()) {
    device_ = *context_.registry().Register(std::make_unique<SinkDevice>(context_));
    StackConfig config;
    config.duplicate_address_detection = false;
    stack_ = std::make_unique<Stack>(context_, config);
    Interface* interface = *stack_->AddInterface(*device_);
    device_->Up().IgnoreError();
    interface->AddAddress({Ipv4Address(10, 0, 0, 2), 24}).IgnoreError();
    interface->AddAddress({*Ipv6Address::Parse("fd00::2"), 64}).IgnoreError();
    socket_ = *UdpSocket::Create(*stack_, {.family = IpFamily::kV6});
    socket_->Bind({Ipv6Address(), 7, 0}).IgnoreError();
    socket_
        ->ReceiveStart([this](Datagram d) {
          const Endpoint peer = d.source();
          if (peer.address.is_v6()) socket_->SendPacket(d.TakePacket(), peer).IgnoreError();
        })
        .IgnoreError();
    Run();
  }
  ~FuzzHost() {
    socket_.reset();
    stack_.reset();
    Run();
    if (context_.pool().stats().packets_in_use != 0) std::abort();
  }

  void Receive(std::span<const uint8_t> frame, uint8_t flags) {
    PacketPtr packet = PacketFromBytes(context_.pool(), frame);
    if (!packet) return;
    packet->meta.rx_time = context_.now();
    packet->meta.rx_device = device_->ifindex();
    if ((flags & kFixChecksums) != 0) {
      FixIpv4Checksum(packet->head_bytes());
      packet->meta.csum_state = CsumState::kUnnecessary;
    } else if ((flags & kPartial) != 0 && frame.size() > 60) {
      packet->meta.csum_state = CsumState::kPartial;
      packet->set_csum_start_in_data(34);
      packet->meta.csum_offset = 6;
    }
    netdev::RxPath::Receive(context_, std::move(packet));
    Run();
    if ((flags & kWaitSecond) != 0) Wait(std::chrono::seconds(1));
    if ((flags & kWaitMinute) != 0) Wait(std::chrono::seconds(61));
  }

 private:
  void Run() {
    for (int i = 0; context_.RunOnce(); ++i) {
      if (i > 10'000) std::abort();
    }
  }
  void Wait(Duration duration) {
    const Time end = environment_.clock.Now() + duration;
    for (int steps = 0; steps < 10'000; ++steps) {
      const std::optional<Time> next = context_.next_deadline();
      if (!next || *next > end) break;
      environment_.clock.Set(std::max(*next, environment_.clock.Now()));
      Run();
    }
    environment_.clock.Set(end);
    Run();
  }

  TestEnvironment environment_;
  netdev::NetContext context_;
  netdev::NetDevice* device_ = nullptr;
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<UdpSocket> socket_;
};

}  // namespace
}  // namespace tapwire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tapwire::FuzzHost host;
  std::span<const uint8_t> rest(data, size);
  for (int frames = 0; rest.size() >= 3 && frames < 64; ++frames) {
    const uint8_t flags = rest[0];
    const size_t length = std::min<size_t>(tapwire::LoadBe16(rest.data() + 1), rest.size() - 3);
    host.Receive(rest.subspan(3, length), flags);
    rest = rest.subspan(3 + length);
  }
  return 0;
}
