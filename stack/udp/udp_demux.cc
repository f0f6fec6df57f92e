// SPDX-License-Identifier: Apache-2.0
// Who gets a UDP datagram: the binding tables and their conflict rules.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/port_allocator.h"
#include "stack/stack.h"
#include "stack/udp/udp.h"

namespace tapwire {
namespace {

FlowKey KeyOf(const UdpBinding& b) {
  return {.local = b.local.address,
          .remote = b.remote.address,
          .local_port = b.local.port,
          .remote_port = b.remote.port};
}

// Whether a wildcard or specific local address covers datagrams for `address`.
bool Covers(const UdpBinding& b, const IpAddress& address) {
  if (b.local.address == address) return true;
  if (!b.local.address.IsUnspecified()) return false;
  return b.local.address.family() == address.family() || (b.local.address.is_v6() && !b.v6_only);
}

bool Overlap(const UdpBinding& a, const UdpBinding& b) {
  return Covers(a, b.local.address) || Covers(b, a.local.address);
}

// Link-local peers on different interfaces are different peers.
bool ZoneMatches(const Endpoint& remote, const Endpoint& source) {
  return remote.zone == 0 || source.zone == 0 || remote.zone == source.zone;
}

}  // namespace

bool Udp::Conflicts(const UdpBinding& binding) const {
  auto it = by_port_.find(binding.local.port);
  if (it == by_port_.end()) return false;
  return std::any_of(it->second.begin(), it->second.end(), [&](const UdpBinding* other) {
    return Overlap(*other, binding) && !(other->reuse_address && binding.reuse_address);
  });
}

bool Udp::IsPortFree(const UdpBinding& binding, uint16_t port) const {
  UdpBinding candidate = binding;
  candidate.local.port = port;
  return !Conflicts(candidate);
}

absl::Status Udp::Bind(UdpBinding& binding) {
  const StackConfig& config = stack_.config();
  if (bound_count_ >= config.max_udp_sockets) {
    return absl::ResourceExhaustedError(absl::StrCat("udp bind: the limit of ",
                                                     config.max_udp_sockets,
                                                     " sockets (max_udp_sockets) is reached"));
  }
  if (binding.local.port == 0) {
    std::optional<uint16_t> port =
        AllocatePort(stack_.random(), config.ephemeral_port_low, config.ephemeral_port_high,
                     [&](uint16_t p) { return IsPortFree(binding, p); });
    if (!port) return absl::ResourceExhaustedError("udp bind: no free ephemeral port");
    binding.local.port = *port;
  } else if (Conflicts(binding)) {
    return ErrnoStatus(EADDRINUSE, absl::StrCat("udp bind ", binding.local.ToString()));
  }
  by_port_[binding.local.port].push_back(&binding);
  ++bound_count_;
  return absl::OkStatus();
}

void Udp::Unbind(UdpBinding& binding) {
  auto it = by_port_.find(binding.local.port);
  if (it == by_port_.end()) return;
  auto position = std::find(it->second.begin(), it->second.end(), &binding);
  if (position == it->second.end()) return;
  it->second.erase(position);
  if (it->second.empty()) by_port_.erase(it);
  --bound_count_;
  if (binding.connected()) connected_.erase(KeyOf(binding));
}

absl::Status Udp::SetRemote(UdpBinding& binding, const Endpoint& remote) {
  UdpBinding wanted = binding;
  wanted.remote = remote;
  if (remote.port != 0) {
    auto it = connected_.find(KeyOf(wanted));
    if (it != connected_.end() && it->second != &binding) {
      return ErrnoStatus(EADDRINUSE, absl::StrCat("udp connect ", remote.ToString()));
    }
  }
  if (binding.connected()) connected_.erase(KeyOf(binding));
  binding.remote = remote;
  if (binding.connected()) connected_[KeyOf(binding)] = &binding;
  return absl::OkStatus();
}

UdpBinding* Udp::FindUnicast(const UdpDatagramInfo& d) const {
  if (!connected_.empty()) {
    auto it = connected_.find(FlowKey{.local = d.destination.address,
                                      .remote = d.source.address,
                                      .local_port = d.destination.port,
                                      .remote_port = d.source.port});
    if (it != connected_.end() && ZoneMatches(it->second->remote, d.source)) return it->second;
  }
  return FindBound(d.destination.address, d.destination.port);
}

// The most recent binding with the most specific address; connected ones take only their peer.
UdpBinding* Udp::FindBound(const IpAddress& local, uint16_t port) const {
  auto it = by_port_.find(port);
  if (it == by_port_.end()) return nullptr;
  UdpBinding* best = nullptr;
  int best_score = 0;
  for (UdpBinding* b : it->second) {
    if (b->connected() || !Covers(*b, local)) continue;
    const int score = b->local.address == local                     ? 3
                      : b->local.address.family() == local.family() ? 2
                                                                    : 1;
    if (score >= best_score) {
      best = b;
      best_score = score;
    }
  }
  return best;
}

// RFC 1122 §4.1.3.6 says nothing of who gets a group datagram; as Linux, each matching socket.
DropReason Udp::DeliverToGroup(PacketPtr packet, const UdpDatagramInfo& datagram) {
  const IpFamily family = datagram.source.address.family();
  auto it = by_port_.find(datagram.destination.port);
  Bindings takers;
  if (it != by_port_.end()) {
    for (UdpBinding* b : it->second) {
      if (!Covers(*b, datagram.destination.address)) continue;
      if (b->connected() && !(b->remote.address == datagram.source.address &&
                              b->remote.port == datagram.source.port)) {
        continue;
      }
      if (datagram.delivery == IpDelivery::kMulticast &&
          !b->receiver->HasJoined(datagram.destination.address, datagram.ifindex)) {
        continue;
      }
      takers.push_back(b);
    }
  }
  if (takers.empty()) {
    UdpCounters& counters = family == IpFamily::kV4 ? stack_.mib().udp : stack_.mib().udp6;
    counters.ignored_multi.Inc();
    return stack_.Drop(std::move(packet), DropReason::kUdpNoMatch);
  }
  for (size_t i = 0; i + 1 < takers.size(); ++i) {
    if (PacketPtr copy = packet->Clone()) {
      HandOver(*takers[i], std::move(copy), datagram);
    } else {
      CountDrop(nullptr, family, DropReason::kLinkNoBuffer);
    }
  }
  return HandOver(*takers.back(), std::move(packet), datagram);
}

}  // namespace tapwire
