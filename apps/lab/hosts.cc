// SPDX-License-Identifier: Apache-2.0
// Set-ups on one thread.

#include "apps/lab/hosts.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/dummy.h"
#include "netdev/veth.h"
#include "stack/interface.h"
#include "stack/sockets/system_environment.h"
#include "stack/tcp/tcp.h"

namespace tapwire::apps::lab {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(10);

absl::StatusOr<netdev::Macvlan*> BridgeMacvlan(netdev::NetDevice& lower,
                                               netdev::MacvlanOptions options) {
  options.mode = static_cast<uint32_t>(netdev::MacvlanMode::kBridge);
  return netdev::CreateMacvlan(lower.context(), lower.ifindex(), std::move(options));
}

}  // namespace

Endpoint ServerEndpoint() { return {IpPrefix::Parse(kServerAddress)->address, kPort, 0}; }

absl::StatusOr<std::unique_ptr<Stack>> MakeHost(netdev::NetDevice& device,
                                                absl::string_view address, tcp::GsoMode gso) {
  StackConfig config;
  config.duplicate_address_detection = false;
  config.link_local_address = false;
  auto stack = std::make_unique<Stack>(device.context(), config);
  tcp::Config tcp_config = tcp::Config::Linux();
  tcp_config.gso = gso;
  tcp::Tcp::Install(*stack, tcp_config);
  TW_ASSIGN_OR_RETURN(Interface * interface, stack->AddInterface(device));
  TW_RETURN_IF_ERROR(device.Up());
  TW_RETURN_IF_ERROR(interface->AddAddress(*IpPrefix::Parse(address)));
  return stack;
}

// ---- macvlan-features ----

absl::StatusOr<double> RunFeatureVariant(const FeatureVariant& variant, const RunTime& time) {
  SystemEnvironment system;
  netdev::NetContext context(system.environment());
  TW_ASSIGN_OR_RETURN(netdev::NetDevice * lower,
                      netdev::CreateDummy(context, {.name = "lower", .offloads = false}));
  TW_RETURN_IF_ERROR(lower->Up());
  netdev::MacvlanOptions options;
  options.always_on = variant.always_on;
  TW_ASSIGN_OR_RETURN(netdev::Macvlan * near, BridgeMacvlan(*lower, options));
  TW_ASSIGN_OR_RETURN(netdev::Macvlan * far, BridgeMacvlan(*lower, options));
  TW_ASSIGN_OR_RETURN(const auto client, MakeHost(*near, kClientAddress, variant.gso));
  TW_ASSIGN_OR_RETURN(const auto server, MakeHost(*far, kServerAddress, variant.gso));
  TW_ASSIGN_OR_RETURN(const auto sink, BulkSink::Listen(*server));
  TW_ASSIGN_OR_RETURN(const auto source, BulkSource::Connect(*client, ServerEndpoint()));
  const auto spin = [&](absl::FunctionRef<bool()> done, Duration limit) {
    return SpinUntil(context, done, limit);
  };
  if (!spin([&] { return sink->bytes() > 0; }, kConnectLimit)) {
    TW_RETURN_IF_ERROR(source->status());
    return absl::DeadlineExceededError(absl::StrCat(variant.name, ": nothing arrives"));
  }
  TW_ASSIGN_OR_RETURN(const double bytes, MeasureRate(context, spin, sink->bytes(), time));
  TW_RETURN_IF_ERROR(source->status());
  TW_RETURN_IF_ERROR(sink->status());
  return bytes * 8;
}

// ---- macvlan-rx ----

absl::StatusOr<std::unique_ptr<RxServer>> RxServer::Create(netdev::NetDevice& lower,
                                                           netdev::MacvlanRx rx) {
  std::unique_ptr<RxServer> server(new RxServer());
  TW_RETURN_IF_ERROR(lower.Up());
  netdev::MacvlanOptions options;
  options.rx = rx;
  TW_ASSIGN_OR_RETURN(server->macvlan_, BridgeMacvlan(lower, options));
  TW_ASSIGN_OR_RETURN(server->stack_, MakeHost(*server->macvlan_, kServerAddress));
  TW_ASSIGN_OR_RETURN(server->responders_, Responders::Listen(*server->stack_));
  return server;
}

absl::StatusOr<RxServer::Figure> RxServer::Measure(RunUntil run, size_t flows,
                                                   const RunTime& time) {
  const Responders& responders = *responders_;
  const auto all_connected = [&] { return responders.connections() == flows; };
  if (!run(all_connected, kConnectLimit)) {
    return absl::DeadlineExceededError(absl::StrCat("only ", responders.connections(), " of ",
                                                    flows, " connections were opened within 10 s"));
  }
  const uint64_t answers = responders.transactions();
  const uint64_t packets = macvlan_->stats().rx_packets.value();
  TW_ASSIGN_OR_RETURN(const double rate,
                      MeasureRate(macvlan_->context(), run, responders.transactions(), time));
  TW_RETURN_IF_ERROR(responders.status());
  const auto answered = static_cast<double>(responders.transactions() - answers);
  const auto received = static_cast<double>(macvlan_->stats().rx_packets.value() - packets);
  if (answered == 0) return absl::DeadlineExceededError("nothing was answered");
  return Figure{rate, received / answered};
}

absl::StatusOr<RxServer::Figure> RunRxVeth(const RxRun& run, const RunTime& time) {
  SystemEnvironment system;
  netdev::NetContext context(system.environment());
  netdev::VethOptions veth;
  veth.name_a = "lower";
  veth.name_b = "far";
  TW_ASSIGN_OR_RETURN(const auto ends, netdev::CreateVethPair(context, veth));
  TW_ASSIGN_OR_RETURN(const auto server, RxServer::Create(*ends.first, run.rx));
  TW_ASSIGN_OR_RETURN(const auto client, MakeHost(*ends.second, kClientAddress));
  TW_ASSIGN_OR_RETURN(const auto load, Requesters::Connect(*client, ServerEndpoint(), run.flows));
  const auto spin = [&](absl::FunctionRef<bool()> done, Duration limit) {
    return SpinUntil(context, done, limit);
  };
  TW_ASSIGN_OR_RETURN(const RxServer::Figure figure, server->Measure(spin, run.flows, time));
  TW_RETURN_IF_ERROR(load->status());
  return figure;
}

}  // namespace tapwire::apps::lab
