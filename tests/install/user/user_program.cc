// SPDX-License-Identifier: Apache-2.0
// What a user of the installed libraries does: default flags (exceptions and RTTI on), a class
// derived from every public interface, two hosts on a libuv loop. Exit code 0 if all of it works.

#include <uv.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "drivers/tap/tap_device.h"
#include "netdev/net_context.h"
#include "netdev/pcapng_writer.h"
#include "netdev/poll.h"
#include "netdev/veth.h"
#include "stack/icmp/echo.h"
#include "stack/sockets/udp_socket.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"

namespace {

using tapwire::DropReason;
using tapwire::PacketPtr;

// Time and randomness of the user's own.
class UvClock final : public tapwire::Clock {
 public:
  tapwire::Time Now() override {
    return tapwire::Time(tapwire::Duration(static_cast<int64_t>(uv_hrtime())));
  }
};

class CountingRandom final : public tapwire::Random {
 public:
  void Fill(std::span<uint8_t> out) override {
    for (uint8_t& byte : out) byte = next_ = static_cast<uint8_t>(next_ * 5 + 3);
  }

 private:
  uint8_t next_ = 1;
};

class VectorSink final : public tapwire::netdev::ByteSink {
 public:
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status Flush() override { return absl::OkStatus(); }

 private:
  std::vector<uint8_t> bytes_;
};

class FrameCounter final : public tapwire::netdev::PacketTap {
 public:
  void OnFrame(const tapwire::Packet&, const tapwire::netdev::NetDevice&,
               tapwire::netdev::TapDirection, tapwire::netdev::TxResult) override {
    ++frames;
  }
  int frames = 0;
};

class Observer final : public tapwire::netdev::NetdevObserver {
  void OnNetdevEvent(tapwire::netdev::NetDevice&, tapwire::netdev::NetdevEvent) override {
    ++events;
  }

 public:
  int events = 0;
};

class Protocol final : public tapwire::netdev::PacketType {
 public:
  Protocol() : PacketType(0x88b5) {}
  void Receive(PacketPtr, tapwire::netdev::NetDevice&) override {}
};

class Upper final : public tapwire::netdev::RxHandler {
  tapwire::netdev::RxHandlerResult HandleFrame(PacketPtr&, tapwire::netdev::NetDevice&) override {
    return tapwire::netdev::RxHandlerResult::kPass;
  }
};

class Hook final : public tapwire::netdev::FlushHook {
  void Flush() override {}
};

class Alarm final : public tapwire::Timer {
  void OnExpired() override {}
};

// A device that swallows everything.
class BlackHole final : public tapwire::netdev::NetDevice {
 public:
  explicit BlackHole(tapwire::netdev::NetContext& context)
      : NetDevice(context, Init{.name = "hole0"}) {}
  absl::string_view kind() const override { return "blackhole"; }

 protected:
  tapwire::netdev::TxResult StartXmit(PacketPtr, bool) override {
    return tapwire::netdev::TxResult::kSent;
  }
};

class Queue final : public tapwire::netdev::PollContext {
 public:
  using PollContext::PollContext;
  int Poll(int) override { return 0; }
};

class Transport final : public tapwire::TransportProtocol {
  DropReason Input(PacketPtr, const tapwire::IpPacketInfo&) override { return DropReason::kNone; }
  bool OnIcmpError(const tapwire::IcmpErrorInfo&) override { return false; }
};

class Receiver final : public tapwire::UdpReceiver {
  DropReason OnDatagram(PacketPtr, const tapwire::UdpDatagramInfo&) override {
    return DropReason::kNone;
  }
  void OnError(const tapwire::IcmpErrorInfo&) override {}
  bool HasJoined(const tapwire::IpAddress&, uint32_t) const override { return false; }
  void OnStackGone() override {}
};

class Pinger final : public tapwire::EchoClient {
  void OnEchoReply(PacketPtr, const tapwire::IpPacketInfo&, uint16_t) override {}
  void OnEchoError(const tapwire::IcmpErrorInfo&, uint16_t) override {}
};

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

template <typename T>
T Check(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

std::unique_ptr<tapwire::Stack> MakeHost(tapwire::netdev::NetContext& context,
                                         tapwire::netdev::NetDevice& device, const char* address) {
  tapwire::StackConfig config;
  config.duplicate_address_detection = false;
  auto stack = std::make_unique<tapwire::Stack>(context, config);
  tapwire::Interface* interface = Check(stack->AddInterface(device));
  Check(device.Up());
  Check(interface->AddAddress(*tapwire::IpPrefix::Parse(address)));
  return stack;
}

void EchoOnALoop() {
  UvClock clock;
  CountingRandom random;
  FrameCounter counter;
  tapwire::netdev::NetContext context({.clock = &clock, .random = &random});
  auto [a, b] = Check(tapwire::netdev::CreateVethPair(context, {}));
  a->AddTap(counter);
  auto host_a = MakeHost(context, *a, "10.9.0.1/24");
  auto host_b = MakeHost(context, *b, "10.9.0.2/24");
  auto server = Check(tapwire::UdpSocket::Create(*host_b));
  Check(server->Bind({tapwire::IpAddress::Unspecified(tapwire::IpFamily::kV4), 7, 0}));
  Check(server->ReceiveStart([&](tapwire::Datagram datagram) {
    const tapwire::Endpoint peer = datagram.source();
    // Nothing is thrown in here: the library that calls has no exceptions.
    server->SendPacket(datagram.TakePacket(), peer).IgnoreError();
  }));
  auto client = Check(tapwire::UdpSocket::Create(*host_a));
  Check(client->Connect({*tapwire::IpAddress::Parse("10.9.0.2"), 7, 0}));
  const std::vector<uint8_t> data(5000, 42);
  size_t answered = 0;
  Check(client->ReceiveStart([&](tapwire::Datagram datagram) {
    answered = datagram.size();
    uv_stop(uv_default_loop());
  }));
  auto runner = Check(tapwire::UvRunner::Attach(uv_default_loop(), &context));
  runner->Ref();
  Check(client->Send(data));
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  if (answered != data.size()) throw std::runtime_error("the answer has another size");
  std::printf("user program: %zu bytes echoed in %d frames\n", answered, counter.frames);
}

void UseEveryInterface() {
  UvClock clock;
  CountingRandom random;
  tapwire::netdev::NetContext context({.clock = &clock, .random = &random});
  tapwire::netdev::NetDevice* hole =
      Check(context.registry().Register(std::make_unique<BlackHole>(context)));
  // RTTI across the library's border, in both directions.
  if (dynamic_cast<BlackHole*>(hole) == nullptr) throw std::runtime_error("dynamic_cast failed");
  Queue queue(context, *hole);
  Observer observer;
  Protocol protocol;
  Upper upper;
  Hook hook;
  Alarm alarm;
  Transport transport;
  Receiver receiver;
  Pinger pinger;
  VectorSink sink;
  hole->AddObserver(observer);
  hole->AddPacketType(protocol);
  Check(hole->SetRxHandler(&upper));
  Check(hole->Up());
  hole->ClearRxHandler();
  if (observer.events == 0) throw std::runtime_error("no event of the device");
  // The driver is in the library; without a TAP it says why.
  const auto tap = tapwire::drivers::TapDevice::Open(
      context, {.name = "tw0", .device_path = "/nonexistent/tun"});
  if (tap.ok()) throw std::runtime_error("a TAP without a device node");
}

}  // namespace

int main() {
  try {
    UseEveryInterface();
    EchoOnALoop();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "user program: %s\n", error.what());
    return 1;
  }
  return 0;
}
