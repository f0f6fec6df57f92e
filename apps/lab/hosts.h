// SPDX-License-Identifier: Apache-2.0
// The set-ups of the two mails in process: hosts on macvlans, built anew for each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "apps/lab/turns.h"
#include "apps/lab/workload.h"
#include "netdev/device.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"

namespace tapwire::apps::lab {

inline constexpr char kClientAddress[] = "10.77.0.1/24";
inline constexpr char kServerAddress[] = "10.77.0.2/24";
Endpoint ServerEndpoint();

// A host with one address on `device`, which is brought up.
absl::StatusOr<std::unique_ptr<Stack>> MakeHost(netdev::NetDevice& device,
                                                absl::string_view address,
                                                tcp::GsoMode gso = tcp::GsoMode::kAlways);

// ---- macvlan-features ----

struct FeatureVariant {
  absl::string_view name;
  bool always_on;    // the macvlans' own offloads, whatever the lower device lacks
  tcp::GsoMode gso;  // of both stacks
};
inline constexpr FeatureVariant kFeatureVariants[] = {
    {"always_on", true, tcp::GsoMode::kAlways},
    // The kernel of the mail: TCP builds large segments only if the device takes them.
    {"inherited", false, tcp::GsoMode::kDevice},
    {"inherited_late", false, tcp::GsoMode::kAlways},
};

// Two hosts on two macvlans in bridge mode on a dummy without offloads; one thread. Bits per second
// of TCP from one to the other.
absl::StatusOr<double> RunFeatureVariant(const FeatureVariant& variant, const RunTime& time);

// ---- macvlan-rx ----

// A host on a macvlan that answers requests.
class RxServer {
 public:
  // Brings up `lower`, which must outlive this, as must its context.
  static absl::StatusOr<std::unique_ptr<RxServer>> Create(netdev::NetDevice& lower,
                                                          netdev::MacvlanRx rx);

  struct Figure {
    double transactions_per_s = 0;
    double packets_per_transaction = 0;  // that the macvlan received
  };
  // Waits until `flows` connections are there, then measures.
  absl::StatusOr<Figure> Measure(RunUntil run, size_t flows, const RunTime& time);

 private:
  RxServer() = default;

  netdev::Macvlan* macvlan_ = nullptr;
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<Responders> responders_;
};

struct RxRun {
  netdev::MacvlanRx rx = netdev::MacvlanRx::kReinject;
  size_t flows = 10;
  std::optional<int> client_cpu = {};  // of a client on another thread
};
// The lower device is a veth; the client, a third host, is on its far end.
absl::StatusOr<RxServer::Figure> RunRxVeth(const RxRun& run, const RunTime& time);
// The lower device is a pipe; the client is on another thread.
absl::StatusOr<RxServer::Figure> RunRxThread(const RxRun& run, const RunTime& time);
// The lower device is a TAP; the client is a program on the kernel's sockets. Needs root.
absl::StatusOr<RxServer::Figure> RunRxTap(const RxRun& run, const RunTime& time);

}  // namespace tapwire::apps::lab
