// SPDX-License-Identifier: Apache-2.0
// TCP in process: two hosts on one context, joined by a veth pair or on two macvlans in bridge
// mode; one thread does everything. Bulk with copying writes and reads of 16 KiB, requests and
// answers of one byte, and whole connections. `idle`: on a veth pair one of whose ends carries a
// macvlan that nobody talks to.

#include <benchmark/benchmark.h>

#include <memory>
#include <utility>
#include <vector>

#include "netdev/dummy.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/system_environment.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire {
namespace {

using tcp::Connection;

class Quiet : public tcp::ConnectionObserver {
 public:
  void OnConnected() override { connected = true; }
  void OnReadable() override { readable = true; }
  void OnWritable() override {}
  void OnUrgent() override {}
  void OnGone(const absl::Status&) override { gone = true; }
  bool connected = false, readable = false, gone = false;
};

enum class Wire { kVeth, kMacvlans, kVethWithIdleMacvlan };

netdev::NetDevice* AddMacvlan(netdev::NetDevice& lower) {
  netdev::MacvlanOptions options;
  options.mode = static_cast<uint32_t>(netdev::MacvlanMode::kBridge);
  return *netdev::CreateMacvlan(lower.context(), lower.ifindex(), options);
}

// Two devices that hear each other.
std::pair<netdev::NetDevice*, netdev::NetDevice*> MakeWire(netdev::NetContext& context, Wire wire) {
  if (wire != Wire::kMacvlans) {
    const auto pair = *netdev::CreateVethPair(context, {});
    if (wire == Wire::kVethWithIdleMacvlan) AddMacvlan(*pair.second)->Up().IgnoreError();
    return pair;
  }
  netdev::NetDevice& lower = **netdev::CreateDummy(context, {.name = "lower", .offloads = false});
  lower.Up().IgnoreError();
  return {AddMacvlan(lower), AddMacvlan(lower)};
}

class TcpHosts {
 public:
  explicit TcpHosts(IpFamily family, Wire wire = Wire::kVeth)
      : family_(family), context_(system_.environment()) {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.link_local_address = false;
    const auto pair = MakeWire(context_, wire);
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    Interface* ia = *a_->AddInterface(*pair.first);
    Interface* ib = *b_->AddInterface(*pair.second);
    pair.first->Up().IgnoreError();
    pair.second->Up().IgnoreError();
    ia->AddAddress({a(), v4() ? 24 : 64}).IgnoreError();
    ib->AddAddress({b(), v4() ? 24 : 64}).IgnoreError();
    client_tcp_ = &tcp::Tcp::Install(*a_);
    server_tcp_ = &tcp::Tcp::Install(*b_);
    listener_ = *server_tcp_->Listen({IpAddress::Unspecified(family_), 7, 0}, 128, {}, nullptr);
  }
  ~TcpHosts() { server_tcp_->CloseListener(*listener_); }

  bool v4() const { return family_ == IpFamily::kV4; }
  IpAddress a() const { return *IpAddress::Parse(v4() ? "10.0.0.1" : "fd00::1"); }
  IpAddress b() const { return *IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"); }
  void Run() { context_.RunOnce(); }

  // A connection, from both ends.
  bool Open(Quiet& client, Quiet& server) {
    auto opened =
        client_tcp_->Connect({IpAddress::Unspecified(family_), 0, 0}, {b(), 7, 0}, {}, &client);
    if (!opened.ok()) return false;
    client_end = *opened;
    server_end = nullptr;
    for (int i = 0; i < 100 && server_end == nullptr; ++i) {
      Run();
      server_end = listener_->Accept();
    }
    if (server_end == nullptr) return false;
    server_end->set_observer(&server);
    return true;
  }

  Connection* client_end = nullptr;
  Connection* server_end = nullptr;
  Stack& a_stack() { return *a_; }

 private:
  IpFamily family_;
  SystemEnvironment system_;
  netdev::NetContext context_;
  std::unique_ptr<Stack> a_, b_;
  tcp::Tcp* client_tcp_ = nullptr;
  tcp::Tcp* server_tcp_ = nullptr;
  tcp::Listener* listener_ = nullptr;
};

void TcpStream(benchmark::State& state, IpFamily family, Wire wire) {
  TcpHosts hosts(family, wire);
  Quiet client, server;
  if (!hosts.Open(client, server)) return state.SkipWithError("no connection");
  std::vector<uint8_t> out(16384, 0x5a), in(16384);
  int64_t received = 0;
  for (auto _ : state) {
    while (hosts.client_end->SendCopy(out) == out.size()) {
    }
    hosts.Run();
    while (size_t n = hosts.server_end->Read(in)) {
      hosts.server_end->Consumed(n);
      received += static_cast<int64_t>(n);
    }
  }
  state.SetBytesProcessed(received);
  state.counters["Gbit_per_s"] =
      benchmark::Counter(static_cast<double>(received) * 8e-9, benchmark::Counter::kIsRate);
  state.counters["retrans"] = static_cast<double>(hosts.client_end->Info().total_retrans_segs);
  hosts.client_end->Abort();
  hosts.server_end->Abort();
  hosts.Run();
}
BENCHMARK_CAPTURE(TcpStream, v4, IpFamily::kV4, Wire::kVeth);
BENCHMARK_CAPTURE(TcpStream, v6, IpFamily::kV6, Wire::kVeth);
BENCHMARK_CAPTURE(TcpStream, macvlan_v4, IpFamily::kV4, Wire::kMacvlans);
BENCHMARK_CAPTURE(TcpStream, macvlan_v6, IpFamily::kV6, Wire::kMacvlans);

// One byte there and back.
void TcpRoundTrip(benchmark::State& state, IpFamily family, Wire wire) {
  TcpHosts hosts(family, wire);
  Quiet client, server;
  if (!hosts.Open(client, server)) return state.SkipWithError("no connection");
  std::vector<uint8_t> byte(1), in(1);
  for (auto _ : state) {
    hosts.client_end->SendCopy(byte);
    for (int i = 0; i < 100 && hosts.server_end->readable_bytes() == 0; ++i) hosts.Run();
    hosts.server_end->Consumed(hosts.server_end->Read(in));
    hosts.server_end->SendCopy(byte);
    for (int i = 0; i < 100 && hosts.client_end->readable_bytes() == 0; ++i) hosts.Run();
    hosts.client_end->Consumed(hosts.client_end->Read(in));
  }
  state.SetItemsProcessed(state.iterations());
  hosts.client_end->Abort();
  hosts.server_end->Abort();
  hosts.Run();
}
BENCHMARK_CAPTURE(TcpRoundTrip, v4, IpFamily::kV4, Wire::kVeth);
BENCHMARK_CAPTURE(TcpRoundTrip, v6, IpFamily::kV6, Wire::kVeth);
BENCHMARK_CAPTURE(TcpRoundTrip, macvlan_v4, IpFamily::kV4, Wire::kMacvlans);
BENCHMARK_CAPTURE(TcpRoundTrip, macvlan_v6, IpFamily::kV6, Wire::kMacvlans);
BENCHMARK_CAPTURE(TcpRoundTrip, idle_macvlan_v4, IpFamily::kV4, Wire::kVethWithIdleMacvlan);

// A connection, one byte there and back, closed by the client: with TIME-WAIT as it is.
void TcpConnectionPerRequest(benchmark::State& state, IpFamily family, Wire wire) {
  TcpHosts hosts(family, wire);
  std::vector<uint8_t> byte(1), in(1);
  for (auto _ : state) {
    Quiet client, server;
    if (!hosts.Open(client, server)) return state.SkipWithError("no connection");
    hosts.client_end->SendCopy(byte);
    for (int i = 0; i < 100 && hosts.server_end->readable_bytes() == 0; ++i) hosts.Run();
    hosts.server_end->Consumed(hosts.server_end->Read(in));
    hosts.server_end->SendCopy(byte);
    for (int i = 0; i < 100 && hosts.client_end->readable_bytes() == 0; ++i) hosts.Run();
    hosts.client_end->Consumed(hosts.client_end->Read(in));
    hosts.client_end->ShutdownWrite();
    for (int i = 0; i < 100 && !hosts.server_end->read_closed(); ++i) hosts.Run();
    hosts.server_end->ShutdownWrite();
    for (int i = 0; i < 100 && !(client.gone && server.gone); ++i) hosts.Run();
    if (!client.gone || !server.gone) return state.SkipWithError("a connection did not close");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(TcpConnectionPerRequest, v4, IpFamily::kV4, Wire::kVeth);
BENCHMARK_CAPTURE(TcpConnectionPerRequest, v6, IpFamily::kV6, Wire::kVeth);
BENCHMARK_CAPTURE(TcpConnectionPerRequest, macvlan_v4, IpFamily::kV4, Wire::kMacvlans);
BENCHMARK_CAPTURE(TcpConnectionPerRequest, macvlan_v6, IpFamily::kV6, Wire::kMacvlans);

}  // namespace
}  // namespace tapwire
