// SPDX-License-Identifier: Apache-2.0
// The whole stack in process: two hosts on one context, joined by a veth pair.

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

class TwoHosts {
 public:
  explicit TwoHosts(IpFamily family) : family_(family), context_(system_.environment()) {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.link_local_address = false;
    config.udp_receive_buffer_bytes = 16u << 20;
    auto pair = *netdev::CreateVethPair(context_, {});
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    Interface* ia = *a_->AddInterface(*pair.first);
    Interface* ib = *b_->AddInterface(*pair.second);
    pair.first->Up().IgnoreError();
    pair.second->Up().IgnoreError();
    ia->AddAddress({a(), v4() ? 24 : 64}).IgnoreError();
    ib->AddAddress({b(), v4() ? 24 : 64}).IgnoreError();
    server_ = Open(*b_, 7);
    server_
        ->ReceiveStart([this](Datagram d) {
          const Endpoint peer = d.source();
          server_->SendPacket(d.TakePacket(), peer).IgnoreError();
        })
        .IgnoreError();
    client_ = Open(*a_, 0);
    client_->Connect({b(), 7, 0}).IgnoreError();
    client_->ReceiveStart([this](Datagram) { ++received_; }).IgnoreError();
  }

  bool v4() const { return family_ == IpFamily::kV4; }
  IpAddress a() const { return *IpAddress::Parse(v4() ? "10.0.0.1" : "fd00::1"); }
  IpAddress b() const { return *IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"); }
  std::unique_ptr<UdpSocket> Open(Stack& stack, uint16_t port) {
    auto socket = *UdpSocket::Create(stack, {.family = family_});
    socket->Bind({IpAddress::Unspecified(family_), port, 0}).IgnoreError();
    return socket;
  }
  // Sends `count` datagrams and runs until all have come back.
  void Exchange(std::span<const uint8_t> data, uint64_t count) {
    const uint64_t wanted = received_ + count;
    for (uint64_t i = 0; i < count; ++i) client_->Send(data).IgnoreError();
    for (int turns = 0; received_ < wanted && turns < 1000; ++turns) context_.RunOnce();
    lost_ += wanted - received_;
    received_ = wanted;
  }
  uint64_t lost() const { return lost_; }

 private:
  IpFamily family_;
  SystemEnvironment system_;
  netdev::NetContext context_;
  std::unique_ptr<Stack> a_, b_;
  std::unique_ptr<UdpSocket> server_, client_;
  uint64_t received_ = 0, lost_ = 0;
};

// Two one-way trips per echo: time per datagram and direction is half of what is reported per item.
void UdpEcho(benchmark::State& state, IpFamily family) {
  TwoHosts hosts(family);
  const std::vector<uint8_t> data(static_cast<size_t>(state.range(0)), 0x5a);
  const auto batch = static_cast<uint64_t>(state.range(1));
  for (auto _ : state) hosts.Exchange(data, batch);
  const auto packets = static_cast<double>(state.iterations()) * static_cast<double>(batch) * 2;
  state.counters["ns_per_packet"] =
      benchmark::Counter(packets * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (hosts.lost() > 0) state.SkipWithError("datagrams were lost");
}
BENCHMARK_CAPTURE(UdpEcho, v4, IpFamily::kV4)
    ->Args({64, 1})
    ->Args({64, 32})
    ->Args({1400, 32})
    ->Args({65000, 1});
BENCHMARK_CAPTURE(UdpEcho, v6, IpFamily::kV6)
    ->Args({64, 1})
    ->Args({64, 32})
    ->Args({1400, 32})
    ->Args({65000, 1});

}  // namespace
}  // namespace tapwire
