// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/socket_table_udp.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netdev/base/status_util.h"
#include "stack/sockets/socket_table_address.h"
#include "stack/stack.h"

namespace tapwire::internal {
namespace {

constexpr size_t kMaxDatagram = 65535;
constexpr size_t kDefaultSendBuffer = 212992;  // net.core.wmem_default

// Errors of the UDP socket as sendto() and connect() name them.
int UdpErrno(const absl::Status& status) {
  if (status.ok()) return 0;
  const int err = StatusToErrno(status);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return ENETUNREACH;
    case absl::StatusCode::kOutOfRange:
      return EMSGSIZE;
    case absl::StatusCode::kUnavailable:
      return err == ECONNREFUSED ? ENETDOWN : err;
    default:
      return err;
  }
}

}  // namespace

UdpDescriptor::UdpDescriptor(SocketHost& host, const CommonOptions& options)
    : SocketDescriptor(host, options) {
  MakeSocket(family());
}

// The family is the one of the addresses that the socket uses: IPv4 for an AF_INET6 socket that is
// bound to a mapped address.
void UdpDescriptor::MakeSocket(IpFamily socket_family) {
  socket_family_ = socket_family;
  has_port_ = false;
  if (socket_ != nullptr) {
    while (std::optional<Datagram> datagram = socket_->TryReceive()) {
      front_.push_back(*std::move(datagram));
    }
  }
  socket_.reset();  // gives its port back first
  UdpSocketOptions options;
  options.family = socket_family;
  absl::StatusOr<std::unique_ptr<UdpSocket>> made = UdpSocket::Create(host_.stack, options);
  socket_ = *std::move(made);
  OnCommonChanged();
  socket_->SetReadyCallback([this] { Changed(EPOLLIN | EPOLLRDNORM); });
  socket_->SetErrorCallback(
      [this](const absl::Status& status, const Endpoint&) { OnError(status); });
}

// Linux: errors are for connected sockets, and those that may pass do not count.
void UdpDescriptor::OnError(const absl::Status& status) {
  const int err = StatusToErrno(status);
  const bool hard = err == ECONNREFUSED || err == ENOPROTOOPT || err == EPROTO || err == EACCES ||
                    (err == EMSGSIZE && common_.mtu_discover != IP_PMTUDISC_DONT);
  if (!connected() || !hard) return;
  error_ = err;
  Changed(EPOLLERR | EPOLLIN | EPOLLOUT);
}

int UdpDescriptor::Bind(const sockaddr* address, socklen_t length) {
  Endpoint local;
  if (const int bad = ParseAddress(family(), AddressUse::kBind, address, length, local)) return bad;
  if (local.address.is_v4() && family() == IpFamily::kV6 && common_.v6_only) return -EINVAL;
  if (local.address.is_v6() && local.address.IsLinkLocal() && local.zone == 0) return -EINVAL;
  if (has_port_) return -EINVAL;
  if (local.address.family() != socket_family_) MakeSocket(local.address.family());
  if (const int err = UdpErrno(socket_->Bind(local))) return -err;
  has_port_ = true;
  asked_ = local;
  return 0;
}

// As Linux, before anything is sent, and whether or not it can be.
int UdpDescriptor::AutoBind() {
  if (has_port_) return 0;
  const Endpoint local = asked_.value_or(Endpoint{IpAddress::Unspecified(family()), 0, 0});
  if (const int err = UdpErrno(socket_->Bind(local))) return -err;
  has_port_ = true;
  return 0;
}

// connect(AF_UNSPEC): back to what bind() asked for. A port that was chosen is given back.
int UdpDescriptor::Disconnect() {
  if (!connected()) return 0;
  remote_.reset();
  MakeSocket(asked_ ? asked_->address.family() : family());
  return asked_ && asked_->port != 0 ? AutoBind() : 0;
}

int UdpDescriptor::Connect(const sockaddr* address, socklen_t length) {
  if (address == nullptr) return -EFAULT;
  if (length < sizeof(sa_family_t)) return -EINVAL;
  if (address->sa_family == AF_UNSPEC) return Disconnect();
  // An AF_INET6 socket takes an AF_INET address here.
  const bool v4_for_v6 = family() == IpFamily::kV6 && address->sa_family == AF_INET;
  if (v4_for_v6 && common_.v6_only) return -EAFNOSUPPORT;
  Endpoint remote;
  const IpFamily as = v4_for_v6 ? IpFamily::kV4 : family();
  if (const int bad = ParseAddress(as, AddressUse::kConnect, address, length, remote)) return bad;
  if (remote.address.is_v4() && family() == IpFamily::kV6 && common_.v6_only) return -ENETUNREACH;
  if (remote.address.is_v6() && remote.address.IsLinkLocal() && remote.zone == 0) return -EINVAL;
  if (remote.address.IsUnspecified()) {
    remote.address = remote.address.is_v4() ? IpAddress(Ipv4Address::kLoopback)
                                            : IpAddress(Ipv6Address::kLoopback);
  }
  // The source was chosen for the old peer; the port stays.
  if (connected() && !(asked_ && !asked_->address.IsUnspecified())) {
    const uint16_t port = socket_->local().port;
    MakeSocket(asked_ ? asked_->address.family() : family());
    const IpAddress any = asked_ ? asked_->address : IpAddress::Unspecified(family());
    if (const int err = UdpErrno(socket_->Bind({any, port, 0}))) return -err;
  }
  if (const int err = UdpErrno(socket_->Connect(remote))) return -err;
  has_port_ = true;
  remote_ = remote;
  return 0;
}

int UdpDescriptor::Shutdown(int how) {
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
  shut_read_ |= how != SHUT_WR;
  shut_write_ |= how != SHUT_RD;
  Changed(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
  return connected() ? 0 : -ENOTCONN;
}

// The oldest datagram, which stays until Receive() drops it.
const Datagram* UdpDescriptor::Front() {
  if (front_.empty()) {
    std::optional<Datagram> next = socket_->TryReceive();
    if (!next) return nullptr;
    front_.push_back(*std::move(next));
  }
  return &front_.front();
}

int64_t UdpDescriptor::Receive(Transfer& transfer) {
  if ((transfer.flags & MSG_ERRQUEUE) != 0) return -EAGAIN;
  if (error_ != 0) return TakeError();
  const Datagram* datagram = Front();
  if (datagram == nullptr) return shut_read_ && transfer.may_block ? 0 : -EAGAIN;
  std::vector<uint8_t> bytes(std::min(datagram->size(), transfer.size));
  (void)datagram->CopyTo(bytes);
  for (std::span<const uint8_t> left = bytes; !left.empty();) {
    const std::span<uint8_t> into = transfer.Next();
    const size_t n = std::min(into.size(), left.size());
    std::copy_n(left.begin(), n, into.begin());
    left = left.subspan(n);
    transfer.done += n;
  }
  Endpoint source = datagram->source();
  const int bad = StoreAddress(family(), source, transfer.from, transfer.from_length);
  transfer.named = true;
  if (bytes.size() < datagram->size()) transfer.result_flags |= MSG_TRUNC;
  const size_t whole = datagram->size();
  if ((transfer.flags & MSG_PEEK) == 0) front_.pop_front();
  if (bad != 0) return bad;
  return static_cast<int64_t>((transfer.flags & MSG_TRUNC) != 0 ? whole : bytes.size());
}

int UdpDescriptor::Destination(const Transfer& transfer, std::optional<Endpoint>& to) const {
  const bool unspecified = transfer.to != nullptr && family() == IpFamily::kV6 &&
                           transfer.to_length >= sizeof(sa_family_t) &&
                           transfer.to->sa_family == AF_UNSPEC;
  if (transfer.to == nullptr || unspecified) return connected() ? 0 : -EDESTADDRREQ;
  Endpoint endpoint;
  const int bad =
      ParseAddress(family(), AddressUse::kSendTo, transfer.to, transfer.to_length, endpoint);
  if (bad != 0) return bad;
  if (endpoint.port == 0) return -EINVAL;
  const bool v4_for_v6 = family() == IpFamily::kV6 && endpoint.address.is_v4();
  if (v4_for_v6 && common_.v6_only) return -ENETUNREACH;
  if (endpoint.address.IsLimitedBroadcast() && !common_.broadcast) return -EACCES;
  if (endpoint.address.IsUnspecified()) {
    endpoint.address = endpoint.address.is_v4() ? IpAddress(Ipv4Address::kLoopback)
                                                : IpAddress(Ipv6Address::kLoopback);
  }
  to = endpoint;
  return 0;
}

int UdpDescriptor::SendNow(std::span<const uint8_t> data, const std::optional<Endpoint>& to) {
  if (error_ != 0) return TakeError();
  if (shut_write_) return -EPIPE;
  return -UdpErrno(socket_->Send(data, to));
}

int64_t UdpDescriptor::Transmit(Transfer& transfer) {
  if (transfer.size > kMaxDatagram) return -EMSGSIZE;
  if (const int bad = AutoBind()) return bad;
  std::optional<Endpoint> to;
  if (!corked_) {
    if (const int bad = Destination(transfer, to)) return bad;
    // Linux looks at the flag on the IPv4 way only.
    const bool v4 = (to ? *to : *remote_).address.is_v4();
    if (v4 && (transfer.flags & MSG_OOB) != 0) return -EOPNOTSUPP;
  }
  std::vector<uint8_t> data;
  if (corked_) {
    data = std::move(corked_->data);
    to = corked_->to;
    corked_.reset();
  }
  const size_t before = data.size();
  while (transfer.done < transfer.size) {
    const std::span<uint8_t> next = transfer.Next();
    data.insert(data.end(), next.begin(), next.end());
    transfer.done += next.size();
  }
  if (data.size() > kMaxDatagram) return -EMSGSIZE;
  const auto sent = static_cast<int64_t>(data.size() - before);
  if ((transfer.flags & MSG_MORE) != 0) {
    corked_ = Corked{std::move(data), to};
    return sent;
  }
  const int failed = SendNow(data, to);
  transfer.done = 0;
  return failed != 0 ? failed : sent;
}

int UdpDescriptor::SockName(Endpoint& out) {
  out = socket_->local();
  if (has_port_) return 0;
  out = Endpoint{asked_ ? asked_->address : IpAddress::Unspecified(family()), 0, 0};
  return 0;
}

int UdpDescriptor::PeerName(Endpoint& out) {
  if (!connected()) return -ENOTCONN;
  out = *remote_;
  return 0;
}

int UdpDescriptor::Ioctl(unsigned long request, int& value) {
  switch (request) {
    case SIOCINQ: {
      const Datagram* datagram = Front();
      value = datagram == nullptr ? 0 : static_cast<int>(datagram->size());
      return 0;
    }
    case SIOCOUTQ:
      value = 0;  // handed on at once
      return 0;
    default:
      return -ENOTTY;
  }
}

uint32_t UdpDescriptor::Events() {
  uint32_t events = EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND;
  if (error_ != 0) events |= EPOLLERR;
  if (shut_read_) events |= EPOLLRDHUP | EPOLLIN | EPOLLRDNORM;
  if (shut_read_ && shut_write_) events |= EPOLLHUP;
  if (!front_.empty() || socket_->queued_datagrams() > 0) events |= EPOLLIN | EPOLLRDNORM;
  return events;
}

void UdpDescriptor::Close() {
  socket_.reset();
  front_.clear();
  corked_.reset();
}

SocketFacts UdpDescriptor::Facts() const {
  SocketFacts facts;
  facts.error = error_;
  facts.bound = has_port_;
  facts.send_buffer = facts.send_buffer_max = kDefaultSendBuffer;
  facts.receive_buffer = host_.stack.config().udp_receive_buffer_bytes;
  facts.receive_buffer_max = std::max<size_t>(facts.receive_buffer, size_t{1} << 22);
  facts.default_ttl = host_.stack.config().default_ttl;
  facts.default_hop_limit = host_.stack.config().default_hop_limit;
  if (connected()) {
    const absl::StatusOr<Route> route =
        host_.stack.FindRoute({.destination = remote_->address, .ifindex = remote_->zone});
    if (route.ok()) facts.path_mtu = route->mtu;
  }
  return facts;
}

int UdpDescriptor::GetOwnOption(const OptionBuffer& out) {
  return GetCommonOption(out, common_, Facts());
}

int UdpDescriptor::SetOwnOption(const OptionInput& in) {
  return SetCommonOption(in, common_, Facts());
}

void UdpDescriptor::OnCommonChanged() {
  UdpSocketOptions& o = socket_->options();
  const bool v6 = family() == IpFamily::kV6;
  o.v6_only = common_.v6_only;
  o.reuse_address = common_.reuse_address || common_.reuse_port;
  o.broadcast = common_.broadcast;
  o.dont_fragment = common_.mtu_discover >= IP_PMTUDISC_DO;
  o.ttl = static_cast<uint8_t>(std::max(v6 ? common_.hop_limit : common_.ttl, 0));
  o.tos = static_cast<uint8_t>(v6 ? common_.traffic_class : common_.tos);
  o.receive_buffer_bytes = 2 * common_.receive_buffer;
}

}  // namespace tapwire::internal
