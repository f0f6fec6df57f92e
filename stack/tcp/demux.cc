// SPDX-License-Identifier: Apache-2.0
// Which connection or listener a segment belongs to, which addresses and ports may be taken, and
// the two OPEN calls (RFC 9293 §3.10.1) up to the first segment.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/interface.h"
#include "stack/port_allocator.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

// Whether two bound addresses on one port would take each other's segments.
bool AddressesOverlap(const IpAddress& a, bool a_v6_only, const IpAddress& b, bool b_v6_only) {
  if (a.family() == b.family()) return a == b || a.IsUnspecified() || b.IsUnspecified();
  const bool six_takes_four =
      a.is_v6() ? a.IsUnspecified() && !a_v6_only : b.IsUnspecified() && !b_v6_only;
  return six_takes_four;
}

absl::Status InUse(const Endpoint& local) {
  return ErrnoStatus(EADDRINUSE, absl::StrCat("tcp ", local.ToString(), ": address in use"));
}

}  // namespace

// ---- Look-up ----

Connection* Tcp::FindConnection(const FlowKey& flow) const {
  const auto it = connections_.find(flow);
  return it == connections_.end() ? nullptr : *it;
}

// The most specific first: the address itself, then any address of the family, then (for IPv4) an
// IPv6 wildcard that takes IPv4 too.
Listener* Tcp::FindListener(const Endpoint& local) const {
  const auto it = listeners_.find(local.port);
  if (it == listeners_.end()) return nullptr;
  Listener* best = nullptr;
  int best_rank = 0;
  for (const auto& listener : it->second) {
    const IpAddress& bound = listener->local().address;
    const SocketOptions& options = *listener->options_;
    if (options.ifindex != 0 && options.ifindex != local.zone) continue;
    int rank = 0;
    if (bound == local.address) {
      rank = 3;
    } else if (bound.IsUnspecified()) {
      if (bound.family() == local.address.family()) rank = 2;
      if (bound.is_v6() && local.address.is_v4() && !options.v6_only) rank = 1;
    }
    if (rank > best_rank) {
      best = listener.get();
      best_rank = rank;
    }
  }
  return best;
}

// ---- Addresses and ports ----

absl::Status Tcp::CheckLocalAddress(const Endpoint& local) const {
  const IpAddress& a = local.address;
  if (a.IsUnspecified() || (!a.IsMulticast() && stack_.FindLocalAddress(a) != nullptr))
    return absl::OkStatus();
  return ErrnoStatus(EADDRNOTAVAIL,
                     absl::StrCat("tcp ", local.ToString(), ": not an address of this host"));
}

bool Tcp::IsPortFree(const Endpoint& local, const SocketOptions& options) const {
  if (const auto it = listeners_.find(local.port); it != listeners_.end()) {
    for (const auto& other : it->second) {
      if (AddressesOverlap(local.address, options.v6_only, other->local().address,
                           other->options_->v6_only))
        return false;
    }
  }
  if (const auto it = reservations_.find(local.port); it != reservations_.end()) {
    for (const Reservation& other : it->second) {
      if (options.reuse_address && other.reuse) continue;
      if (AddressesOverlap(local.address, options.v6_only, other.address, other.v6_only))
        return false;
    }
  }
  return true;
}

void Tcp::UnusePort(uint16_t port) {
  const auto it = port_use_.find(port);
  if (it != port_use_.end() && --it->second == 0) port_use_.erase(it);
}

// As Linux: a connection or a TIME-WAIT on the port is in the way of a bind(), unless both have
// SO_REUSEADDR. Looks at all of them, but only if one has the port.
bool Tcp::IsTakenByConnections(const Endpoint& local, const SocketOptions& options) const {
  if (!port_use_.contains(local.port)) return false;
  const auto in_the_way = [&](const FlowKey& flow, bool reuse) {
    if (flow.local_port != local.port || (options.reuse_address && reuse)) return false;
    return AddressesOverlap(local.address, options.v6_only, flow.local, true);
  };
  return std::any_of(connections_.begin(), connections_.end(),
                     [&](const Connection* c) {
                       return in_the_way(c->flow(), c->options().reuse_address);
                     }) ||
         time_wait_.Any([&](const TimeWait& w) { return in_the_way(w.flow, w.reuse); });
}

absl::StatusOr<Endpoint> Tcp::ReservePort(const Endpoint& local, const SocketOptions& options) {
  TW_RETURN_IF_ERROR(CheckLocalAddress(local));
  Endpoint chosen = local;
  if (local.port == 0) {
    const StackConfig& c = stack_.config();
    const auto port =
        AllocatePort(stack_.random(), c.ephemeral_port_low, c.ephemeral_port_high, [&](uint16_t p) {
          chosen.port = p;
          return IsPortFree(chosen, options) && !port_use_.contains(p);
        });
    if (!port) return InUse(local);
    chosen.port = *port;
  } else if (!IsPortFree(chosen, options) || IsTakenByConnections(chosen, options)) {
    return InUse(local);
  }
  reservations_[chosen.port].push_back({chosen.address, options.reuse_address, options.v6_only});
  return chosen;
}

void Tcp::ReleasePort(const Endpoint& local) {
  const auto it = reservations_.find(local.port);
  if (it == reservations_.end()) return;
  auto& all = it->second;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Reservation& r) { return r.address == local.address; });
  if (found != all.end()) all.erase(found);
  if (all.empty()) reservations_.erase(it);
}

// A tuple in TIME-WAIT may be used again when timestamps tell old segments from new (RFC 6191).
bool Tcp::IsTupleFree(const FlowKey& flow) const {
  if (connections_.contains(flow)) return false;
  const TimeWaitEntry* waiting = time_wait_.Find(flow);
  return waiting == nullptr || (config_.timestamps && time_wait_.MayReuseForConnect(*waiting));
}

// MUST-44, RFC 6056.
absl::StatusOr<FlowKey> Tcp::ChooseFlow(const Endpoint& local, const Endpoint& remote,
                                        const Route& route) {
  FlowKey flow{route.source, remote.address, local.port, remote.port};
  const Endpoint self{flow.local, local.port, 0};
  if (local.port != 0) {
    if (!IsTupleFree(flow)) return InUse(self);
    return flow;
  }
  const StackConfig& c = stack_.config();
  const auto port =
      AllocatePort(stack_.random(), c.ephemeral_port_low, c.ephemeral_port_high, [&](uint16_t p) {
        flow.local_port = p;
        // Not a port that somebody listens on or has reserved: its own peers may want the tuple.
        return IsTupleFree(flow) && !listeners_.contains(p) && !reservations_.contains(p);
      });
  if (!port) {
    return ErrnoStatus(EADDRNOTAVAIL,
                       absl::StrCat("tcp connect ", remote.ToString(), ": no free local port"));
  }
  flow.local_port = *port;
  return flow;
}

Connection* Tcp::AddConnection(const FlowKey& flow, const Route& route,
                               std::shared_ptr<SocketOptions> options) {
  if (connections_.size() >= config_.max_connections) return nullptr;
  auto* connection = new Connection(*this, flow, route, std::move(options));
  connections_.insert(connection);
  UsePort(flow.local_port);
  return connection;
}

// MUST-8, SHLD-1; above the last number of the tuple's previous life (RFC 6191 §2, RFC 1122
// §4.2.2.13).
Seq Tcp::ChooseIss(const FlowKey& flow) {
  const Seq iss = isn_.Isn(flow, stack_.now());
  if (!min_isn_ || iss > *min_isn_) return iss;
  return *min_isn_ + 1 + stack_.random().Uniform(1u << 16);
}

// ---- OPEN ----

// A program opens most of its connections alike: one copy serves them all.
std::shared_ptr<SocketOptions> Tcp::ShareOptions(const SocketOptions& options) {
  if (shared_options_ == nullptr || *shared_options_ != options) {
    shared_options_ = std::make_shared<SocketOptions>(options);
  }
  return shared_options_;
}

absl::StatusOr<Connection*> Tcp::Connect(const Endpoint& local, const Endpoint& remote,
                                         const SocketOptions& options,
                                         ConnectionObserver* observer) {
  // MUST-46.
  if (remote.port == 0 || remote.address.IsUnspecified() || remote.address.IsMulticast()) {
    return absl::InvalidArgumentError(absl::StrCat("tcp connect ", remote.ToString(),
                                                   ": needs the address and the port of one host"));
  }
  TW_RETURN_IF_ERROR(CheckLocalAddress(local));
  Stack::RouteRequest request{.destination = remote.address};
  request.ifindex = remote.zone != 0 ? remote.zone : options.ifindex;
  if (!local.address.IsUnspecified()) request.source = local.address;
  absl::StatusOr<Route> route = stack_.FindRoute(request);
  if (!route.ok()) return route.status();
  if (route->kind == RouteKind::kBroadcast || route->kind == RouteKind::kMulticast) {
    return ErrnoStatus(ENETUNREACH, absl::StrCat("tcp connect ", remote.ToString(),
                                                 ": not the address of one host"));
  }
  absl::StatusOr<FlowKey> flow = ChooseFlow(local, remote, *route);
  if (!flow.ok()) return flow.status();
  Connection* connection = AddConnection(*flow, *route, ShareOptions(options));
  if (connection == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tcp connect ", remote.ToString(), ": ", config_.max_connections,
                     " connections are open; raise max_connections"));
  }
  if (const TimeWaitEntry* waiting = time_wait_.Find(*flow)) {
    min_isn_ = waiting->snd_nxt;
    time_wait_.Remove(*flow);
  }
  connection->set_observer(observer);
  connection->StartActive(ChooseIss(*flow));
  min_isn_.reset();
  return connection;
}

absl::StatusOr<Listener*> Tcp::Listen(const Endpoint& local, size_t backlog,
                                      const SocketOptions& options, ListenerObserver* observer) {
  TW_RETURN_IF_ERROR(CheckLocalAddress(local));
  Endpoint chosen = local;
  if (local.port == 0) {
    absl::StatusOr<Endpoint> reserved = ReservePort(local, options);
    if (!reserved.ok()) return reserved.status();
    chosen = *reserved;
    ReleasePort(chosen);
  }
  // A port that its own holder reserved before is no conflict; another listener is.
  if (const auto it = listeners_.find(chosen.port); it != listeners_.end()) {
    for (const auto& other : it->second) {
      if (AddressesOverlap(chosen.address, options.v6_only, other->local().address,
                           other->options_->v6_only)) {
        return InUse(chosen);
      }
    }
  }
  auto listener = std::make_unique<Listener>(*this, chosen, backlog, options);
  listener->set_observer(observer);
  Listener* result = listener.get();
  listeners_[chosen.port].push_back(std::move(listener));
  return result;
}

void Tcp::CloseListener(Listener& listener) {
  std::vector<Connection*> its;
  for (Connection* connection : connections_) {
    if (connection->listener_ == &listener) its.push_back(connection);
  }
  // In an order that does not depend on the hash table.
  std::sort(its.begin(), its.end(), [](const Connection* a, const Connection* b) {
    return std::pair(a->flow().remote, a->flow().remote_port) <
           std::pair(b->flow().remote, b->flow().remote_port);
  });
  for (Connection* connection : its) connection->Abort();
  std::vector<Connection*> gone;
  listener.TakeGone(gone);
  for (Connection* connection : gone) Bury(*connection);
  for (auto* pending : {&accept_events_, accepting_}) {
    if (pending != nullptr)
      std::replace(pending->begin(), pending->end(), &listener, static_cast<Listener*>(nullptr));
  }
  const auto it = listeners_.find(listener.local().port);
  if (it == listeners_.end()) return;
  std::erase_if(it->second, [&](const auto& l) { return l.get() == &listener; });
  if (it->second.empty()) listeners_.erase(it);
}

}  // namespace tapwire::tcp
