// SPDX-License-Identifier: Apache-2.0
// The life of a TCP socket of the table: bind, listen, accept, connect, shutdown, close, options.

#include "stack/sockets/socket_table_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netdev/base/status_util.h"
#include "stack/interface.h"
#include "stack/sockets/socket_table_address.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire::internal {
namespace {

using tcp::State;

constexpr int kMaxBacklog = 4096;  // net.core.somaxconn

// What connect() makes of an error of Tcp::Connect, whose route errors carry no errno.
int ConnectErrno(const absl::Status& status) {
  const int err = StatusToErrno(status);
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return ENETUNREACH;
    case absl::StatusCode::kUnavailable:
      return err == ECONNREFUSED ? ENETDOWN : err;
    case absl::StatusCode::kFailedPrecondition:
      return err == EINVAL ? EADDRNOTAVAIL : err;
    default:
      return err;
  }
}

Endpoint WithZone(Endpoint endpoint, const tcp::Connection& connection) {
  const Interface* interface = connection.route().interface;
  if (endpoint.address.is_v6() && endpoint.address.IsLinkLocal() && interface != nullptr) {
    endpoint.zone = interface->index();
  }
  return endpoint;
}

}  // namespace

TcpDescriptor::TcpDescriptor(SocketHost& host, const CommonOptions& options)
    : SocketDescriptor(host, options) {
  OnCommonChanged();
}

State TcpDescriptor::state() const {
  return connection_ == nullptr ? State::kClosed : connection_->state();
}

bool TcpDescriptor::handshaking() const {
  return state() == State::kSynSent || state() == State::kSynReceived;
}

// ---- Passive side ----

int TcpDescriptor::Bind(const sockaddr* address, socklen_t length) {
  Endpoint local;
  if (const int bad = ParseAddress(family(), AddressUse::kBind, address, length, local)) return bad;
  const bool mapped = family() == IpFamily::kV6 && local.address.is_v4();
  if (mapped && common_.v6_only) return -EINVAL;
  if (bound_ || listener_ != nullptr || state() != State::kClosed) return -EINVAL;
  if (local.address.is_v6() && local.address.IsLinkLocal() && local.zone == 0) return -EINVAL;
  absl::StatusOr<Endpoint> reserved = host_.tcp.ReservePort(local, tcp_.socket);
  if (!reserved.ok()) return -StatusToErrno(reserved.status());
  bound_ = local_ = *reserved;
  return 0;
}

void TcpDescriptor::Unbind() {
  if (bound_) host_.tcp.ReleasePort(*bound_);
  bound_.reset();
}

int TcpDescriptor::Listen(int backlog) {
  if (phase_ != Phase::kUnconnected || state() != State::kClosed) return -EINVAL;
  // As Linux: a negative one is a large unsigned number, and cut.
  const auto limit =
      static_cast<size_t>(backlog < 0 ? kMaxBacklog : std::min(backlog, kMaxBacklog));
  if (listener_ != nullptr) {
    listener_->set_backlog(limit);
    return 0;
  }
  const Endpoint local = bound_.value_or(Endpoint{IpAddress::Unspecified(family()), 0, 0});
  absl::StatusOr<tcp::Listener*> listener = host_.tcp.Listen(local, limit, tcp_.socket, this);
  if (!listener.ok()) return -StatusToErrno(listener.status());
  listener_ = *listener;
  local_ = listener_->local();
  return 0;
}

void TcpDescriptor::StopListening() {
  if (listener_ != nullptr) host_.tcp.CloseListener(*std::exchange(listener_, nullptr));
}

std::shared_ptr<Descriptor> TcpDescriptor::Accept(int& result) {
  result = listener_ == nullptr ? -EINVAL : -EAGAIN;
  tcp::Connection* connection = listener_ == nullptr ? nullptr : listener_->Accept();
  if (connection == nullptr) return nullptr;
  result = 0;
  auto accepted = std::make_shared<TcpDescriptor>(host_, common_);
  accepted->tcp_ = tcp_;
  accepted->phase_ = Phase::kConnected;
  accepted->Adopt(*connection);
  // One that was reset while it waited: the error is there from the first call on.
  if (connection->state() == State::kClosed) host_.tcp.TellNow(*connection);
  return accepted;
}

void TcpDescriptor::Adopt(tcp::Connection& connection) {
  connection_ = &connection;
  connection.set_observer(this);
  const FlowKey& flow = connection.flow();
  local_ = WithZone({flow.local, flow.local_port, 0}, connection);
  remote_ = WithZone({flow.remote, flow.remote_port, 0}, connection);
}

void TcpDescriptor::OnAcceptable() { Changed(EPOLLIN | EPOLLRDNORM); }

void TcpDescriptor::OnListenerGone() {
  listener_ = nullptr;
  bound_.reset();
  Changed(EPOLLIN | EPOLLRDNORM | EPOLLHUP);
}

// ---- connect() ----

// Where a connection to `remote` starts: an AF_INET6 wildcard stands for both families.
std::optional<Endpoint> TcpDescriptor::LocalFor(const Endpoint& remote) const {
  const IpFamily wanted = remote.address.family();
  if (!bound_) return Endpoint{IpAddress::Unspecified(wanted), 0, 0};
  if (bound_->address.family() == wanted) return bound_;
  if (!bound_->address.IsUnspecified()) return std::nullopt;
  return Endpoint{IpAddress::Unspecified(wanted), bound_->port, 0};
}

int TcpDescriptor::StartConnect(const Endpoint& to) {
  Endpoint remote = to;
  if (remote.address.IsUnspecified()) {  // Linux: this host
    remote.address = remote.address.is_v4() ? IpAddress(Ipv4Address::kLoopback)
                                            : IpAddress(Ipv6Address::kLoopback);
  }
  if (remote.address.is_v4() && family() == IpFamily::kV6 && common_.v6_only) return -ENETUNREACH;
  if (remote.address.IsMulticast() || remote.address.IsLimitedBroadcast()) return -ENETUNREACH;
  if (remote.address.is_v6() && remote.address.IsLinkLocal() && remote.zone == 0) return -EINVAL;
  const std::optional<Endpoint> local = LocalFor(remote);
  if (!local) return -EINVAL;
  absl::StatusOr<tcp::Connection*> connection =
      host_.tcp.Connect(*local, remote, tcp_.socket, this);
  if (!connection.ok()) return -ConnectErrno(connection.status());
  Adopt(**connection);
  remote_.zone = remote.zone;
  stream_offset_ = 0;
  OnCommonChanged();
  return 0;
}

int TcpDescriptor::Connect(const sockaddr* address, socklen_t length) {
  if (address == nullptr) return -EFAULT;
  if (length < sizeof(sa_family_t)) return -EINVAL;
  if (address->sa_family == AF_UNSPEC) {
    Disconnect();
    return 0;
  }
  if (phase_ == Phase::kConnected) return -EISCONN;
  if (phase_ == Phase::kDisconnecting) return -EINVAL;
  if (phase_ == Phase::kConnecting) return FinishConnect(-EALREADY);
  if (listener_ != nullptr || state() != State::kClosed) return -EISCONN;
  Endpoint remote;
  const int bad = ParseAddress(family(), AddressUse::kConnect, address, length, remote);
  if (bad != 0) return bad;
  if (const int failed = StartConnect(remote)) return failed;
  phase_ = Phase::kConnecting;
  return FinishConnect(-EINPROGRESS);
}

int TcpDescriptor::FinishConnect(int pending) {
  if (handshaking()) return pending;
  if (state() != State::kClosed) {
    phase_ = Phase::kConnected;
    return 0;
  }
  // Reset, timed out, unreachable; the socket is as new afterwards.
  const int err = error_ != 0 ? TakeError() : -ECONNABORTED;
  Disconnect();
  return err;
}

void TcpDescriptor::Disconnect() {
  StopListening();
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->Abort();
  phase_ = Phase::kUnconnected;
  shut_read_ = shut_write_ = fin_ = no_space_ = corked_for_more_ = false;
  leftover_.Clear();
  urgent_taken_.reset();
  remote_ = {};
  local_ = bound_.value_or(Endpoint{});
  last_info_ = {};
  Changed(EPOLLIN | EPOLLOUT | EPOLLHUP);
}

void TcpDescriptor::OnConnected() {
  if (phase_ == Phase::kConnecting) Changed(EPOLLIN | EPOLLOUT | EPOLLWRNORM);
}

void TcpDescriptor::OnReadable() { Changed(EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLHUP); }

void TcpDescriptor::OnWritable() {
  if (std::exchange(no_space_, false)) Changed(EPOLLOUT | EPOLLWRNORM);
}

void TcpDescriptor::OnUrgent() { Changed(EPOLLPRI | EPOLLIN | EPOLLRDNORM); }

void TcpDescriptor::OnGone(const absl::Status& status) {
  tcp::Connection& connection = *std::exchange(connection_, nullptr);
  last_info_ = ToLinux(connection.Info());
  fin_ = connection.read_closed();
  while (connection.readable_bytes() > 0) leftover_.Append(connection.TakeSlice());
  if (!status.ok()) {
    error_ = StatusToErrno(status);
    // Linux: after the peer's FIN its reset says that nobody reads what we write.
    if (error_ == ECONNRESET && fin_ && !shut_write_) error_ = EPIPE;
  }
  shut_read_ = shut_write_ = true;
  Changed(EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
}

// ---- The end ----

int TcpDescriptor::Shutdown(int how) {
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
  if (phase_ == Phase::kConnecting) {
    phase_ = handshaking() || state() == State::kClosed ? Phase::kDisconnecting : Phase::kConnected;
  }
  if (listener_ != nullptr) {
    if (how != SHUT_WR) Disconnect();
    return 0;
  }
  if (state() == State::kSynSent) {
    Disconnect();
    error_ = ECONNRESET;  // for a connect() that another thread waits in
    Changed(EPOLLERR | EPOLLHUP);
    return 0;
  }
  const int result = state() == State::kClosed ? -ENOTCONN : 0;
  shut_read_ |= how != SHUT_WR;
  shut_write_ |= how != SHUT_RD;
  if (how != SHUT_RD && connection_ != nullptr) connection_->ShutdownWrite();
  Changed(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
  return result;
}

std::optional<Duration> TcpDescriptor::BeginClose() {
  const std::optional<Duration>& linger = tcp_.socket.linger;
  if (!linger || *linger == Duration::zero() || connection_ == nullptr) return std::nullopt;
  if (handshaking() || readable() > 0) return std::nullopt;
  connection_->ShutdownWrite();
  return linger;
}

bool TcpDescriptor::Lingers() const {
  const State s = state();
  return s == State::kFinWait1 || s == State::kClosing || s == State::kLastAck;
}

void TcpDescriptor::Close() {
  StopListening();
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->Release();
  leftover_.Clear();
  Unbind();
}

// ---- Names and options ----

int TcpDescriptor::SockName(Endpoint& out) {
  out = local_.port == 0 && !bound_ ? Endpoint{IpAddress::Unspecified(family()), 0, 0} : local_;
  return 0;
}

int TcpDescriptor::PeerName(Endpoint& out) {
  if (remote_.port == 0 || state() == State::kClosed || state() == State::kSynSent) {
    return -ENOTCONN;
  }
  out = remote_;
  return 0;
}

// Linux grows it with the handshake: room for two initial windows, overhead included.
size_t TcpDescriptor::ToldSendBuffer() const {
  const tcp::Config& config = host_.tcp.config();
  if (config.told_send_buffer == 0) return config.send_buffer_initial;
  if (connection_ == nullptr || handshaking()) return config.told_send_buffer;
  constexpr size_t kHeaders = 640, kPacket = 256;
  size_t room = 1;
  while (room < connection_->Info().snd_mss + kHeaders) room *= 2;
  return std::max(config.told_send_buffer,
                  2 * size_t{config.initial_window_segments} * (room + kPacket));
}

SocketFacts TcpDescriptor::Facts() const {
  const tcp::Config& config = host_.tcp.config();
  SocketFacts facts;
  facts.error = error_;
  facts.listening = listener_ != nullptr;
  facts.bound = bound_.has_value() || listener_ != nullptr || connection_ != nullptr;
  facts.send_buffer = ToldSendBuffer();
  facts.receive_buffer =
      config.told_receive_buffer != 0 ? config.told_receive_buffer : config.receive_buffer_initial;
  facts.send_buffer_max = config.send_buffer_max;
  facts.receive_buffer_max = config.receive_buffer_max;
  facts.default_ttl = host_.stack.config().default_ttl;
  facts.default_hop_limit = host_.stack.config().default_hop_limit;
  if (connection_ != nullptr) facts.path_mtu = connection_->route().mtu;
  return facts;
}

TcpFacts TcpDescriptor::FactsOfTcp() const {
  TcpFacts facts;
  facts.config = &host_.tcp.config();
  facts.listening = listener_ != nullptr;
  facts.closed = state() == State::kClosed && !facts.listening;
  facts.info = last_info_;
  facts.info.state = kLinuxTcpClose;
  if (facts.listening) {
    facts.info.state = kLinuxTcpListen;
    facts.info.unacked = static_cast<uint32_t>(listener_->waiting());
    facts.info.sacked = static_cast<uint32_t>(listener_->backlog());
  } else if (connection_ != nullptr) {
    facts.info = ToLinux(connection_->Info());
    facts.mss = facts.info.snd_mss;
    facts.take_saved_syn = [c = connection_] { return c->TakeSavedSyn(); };
  }
  return facts;
}

int TcpDescriptor::GetOwnOption(const OptionBuffer& out) {
  if (out.level == IPPROTO_TCP) return GetTcpOption(out, tcp_, FactsOfTcp());
  return GetCommonOption(out, common_, Facts());
}

int TcpDescriptor::SetOwnOption(const OptionInput& in) {
  if (in.level != IPPROTO_TCP) return SetCommonOption(in, common_, Facts());
  const bool corked = tcp_.socket.cork;
  if (const int bad = SetTcpOption(in, tcp_, FactsOfTcp())) return bad;
  ApplyOptions();
  if (corked && !tcp_.socket.cork && connection_ != nullptr) connection_->PushPending();
  return 0;
}

void TcpDescriptor::OnCommonChanged() {
  tcp::SocketOptions& o = tcp_.socket;
  const bool v6 = family() == IpFamily::kV6 && !(remote_.port != 0 && remote_.address.is_v4());
  o.keepalive = common_.keepalive;
  o.linger = common_.linger;
  o.send_buffer = common_.send_buffer;
  o.receive_buffer = common_.receive_buffer;
  o.reuse_address = common_.reuse_address;
  o.v6_only = common_.v6_only;
  o.ttl = static_cast<uint8_t>(std::max(v6 ? common_.hop_limit : common_.ttl, 0));
  o.tos = static_cast<uint8_t>(v6 ? common_.traffic_class : common_.tos);
  ApplyOptions();
}

void TcpDescriptor::ApplyOptions() {
  if (listener_ != nullptr) listener_->options() = tcp_.socket;
  if (connection_ == nullptr) return;
  connection_->options() = tcp_.socket;
  connection_->options().cork |= corked_for_more_;
  connection_->OnOptionsChanged();
}

}  // namespace tapwire::internal
