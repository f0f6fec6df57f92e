// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/calls.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "apps/pkt/symbols.h"

namespace tapwire::pkt {

const Calls::Entry Calls::kEntries[] = {
    {"socket", &Calls::Socket},
    {"bind", &Calls::Bind},
    {"listen", &Calls::Listen},
    {"accept", &Calls::Accept},
    {"accept4", &Calls::Accept4},
    {"connect", &Calls::Connect},
    {"shutdown", &Calls::Shutdown},
    {"close", &Calls::Close},
    {"getsockname", &Calls::GetSockName},
    {"getpeername", &Calls::GetPeerName},
    {"read", &Calls::Read},
    {"readv", &Calls::Readv},
    {"recv", &Calls::Recv},
    {"recvfrom", &Calls::RecvFrom},
    {"recvmsg", &Calls::RecvMsg},
    {"write", &Calls::Write},
    {"writev", &Calls::Writev},
    {"send", &Calls::Send},
    {"sendto", &Calls::SendTo},
    {"sendmsg", &Calls::SendMsg},
    {"getsockopt", &Calls::GetSockOpt},
    {"setsockopt", &Calls::SetSockOpt},
    {"fcntl", &Calls::Fcntl},
    {"ioctl", &Calls::Ioctl},
    {"poll", &Calls::Poll},
    {"epoll_create", &Calls::EpollCreate},
    {"epoll_create1", &Calls::EpollCreate1},
    {"epoll_ctl", &Calls::EpollCtl},
    {"epoll_wait", &Calls::EpollWait},
    {nullptr, nullptr},
};

const Calls::Entry* Calls::FindEntry(const std::string& name) {
  for (const Entry* entry = kEntries; entry->name != nullptr; ++entry) {
    if (name == entry->name) return entry;
  }
  return nullptr;
}

bool Calls::IsKnown(const std::string& name) { return FindEntry(name) != nullptr; }

CallOutcome Calls::Run(const SyscallSpec& call) {
  const Entry* entry = FindEntry(call.name);
  if (entry == nullptr) return {absl::StrCat("system call ", call.name), true};
  CallArgs args(call, session_);
  const int64_t result = (this->*entry->method)(args);
  if (!args.failed()) CheckResult(args, result);
  return {args.problem(), args.unsupported()};
}

namespace {

std::string ResultText(int64_t result) {
  return result < 0 ? absl::StrCat("-1 ", ErrnoName(static_cast<int>(-result)))
                    : absl::StrCat(result);
}

}  // namespace

void Calls::CheckResult(CallArgs& args, int64_t result) {
  const SyscallSpec& call = args.call();
  if (call.result.IsEllipsis()) return;
  const int64_t expected = args.Number(call.result);
  if (args.failed()) return;
  if (!call.error.empty()) {
    const auto error = FindErrno(call.error);
    if (!error) return args.Fail(absl::StrCat("unknown errno ", call.error));
    if (result == -*error) return;
    return args.Fail(
        absl::StrCat(call.name, "() gave ", ResultText(result), ", expected -1 ", call.error));
  }
  const bool makes_fd = call.name == "socket" || call.name == "accept" || call.name == "accept4" ||
                        call.name == "epoll_create" || call.name == "epoll_create1";
  // The script's number for a new descriptor is its own.
  const bool same = makes_fd && expected >= 0 ? result >= 0
                    : expected == -1          ? result < 0
                                              : result == expected;
  if (same) return;
  args.Fail(absl::StrCat(call.name, "() gave ", ResultText(result), ", expected ", expected));
}

void Calls::CheckNumber(CallArgs& args, absl::string_view what, const Expr& expected,
                        int64_t actual) {
  if (expected.IsEllipsis()) return;
  const int64_t wanted = args.Number(expected);
  if (args.failed() || wanted == actual) return;
  args.Fail(absl::StrCat(what, " is ", actual, ", expected ", wanted));
}

void Calls::CheckAddress(CallArgs& args, size_t i, const sockaddr_storage& address) {
  if (i >= args.size() || args.at(i).kind != Expr::Kind::kStruct) return;
  const Endpoint actual = FromSockaddr(address);
  const Endpoint wanted = FromSockaddr(args.Address(args.at(i), nullptr, actual));
  if (args.failed() || wanted == actual) return;
  args.Fail(absl::StrCat("address is ", actual.ToString(), ", expected ", wanted.ToString()));
}

int64_t Calls::Socket(CallArgs& args) {
  if (!args.Count(3)) return 0;
  const int fallback = session_.setup().version == IpVersion::kIpv4 ? AF_INET : AF_INET6;
  const int domain = args.at(0).IsEllipsis() ? fallback : args.Int(0);
  const int type = args.Int(1);
  const int protocol = args.Int(2);
  if (args.failed()) return 0;
  const int live = table().Socket(domain, type, protocol);
  const int64_t fd = args.Number(args.call().result);
  if (live < 0 || fd < 0) return live;
  ScriptSocket& socket = session_.Open(static_cast<int>(fd), live);
  socket.udp = (type & 0xf) == SOCK_DGRAM;
  socket.v6 = domain == AF_INET6;
  return live;
}

int64_t Calls::Bind(CallArgs& args) {
  if (!args.Count(3)) return 0;
  ScriptSocket* socket = session_.Find(args.ScriptFd(0));
  const NetSetup& setup = session_.setup();
  const sockaddr_storage address =
      args.Address(args.at(1), socket, {setup.local(), setup.bind_port, 0});
  const socklen_t length =
      args.at(2).IsEllipsis() ? SockaddrLength(address) : static_cast<socklen_t>(args.Number(2));
  if (args.failed()) return 0;
  if (length > sizeof(address)) return -EINVAL;
  const int result = table().Bind(args.Fd(0), reinterpret_cast<const sockaddr*>(&address), length);
  if (result != 0 || socket == nullptr) return result;
  socket->bound = FromSockaddr(address);
  if (socket->udp) {
    UseNewFlow(args.ScriptFd(0), *socket, {setup.remote(), setup.connect_port, 0});
  }
  return result;
}

int64_t Calls::Listen(CallArgs& args) {
  if (!args.Count(2)) return 0;
  const int result = table().Listen(args.Fd(0), args.Int(1));
  ScriptSocket* socket = session_.Find(args.ScriptFd(0));
  if (result == 0 && socket != nullptr) {
    const uint16_t port = socket->bound.port;
    session_.Listen(port != 0 ? port : session_.setup().bind_port);
  }
  return result;
}

int64_t Calls::Accept(CallArgs& args) { return args.Count(3) ? AcceptWith(args, 0) : 0; }

int64_t Calls::Accept4(CallArgs& args) { return args.Count(4) ? AcceptWith(args, args.Int(3)) : 0; }

int64_t Calls::AcceptWith(CallArgs& args, int flags) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const ScriptSocket* listener = session_.Find(args.ScriptFd(0));
  const bool v6 = listener != nullptr && listener->v6;
  const int live =
      table().Accept4(args.Fd(0), reinterpret_cast<sockaddr*>(&address), &length, flags);
  const int64_t fd = args.Number(args.call().result);
  if (live < 0 || fd < 0) return live;
  ScriptSocket& socket = session_.Open(static_cast<int>(fd), live);
  socket.v6 = v6;
  if (const auto& flow = session_.current(); flow && flow->fd < 0) {
    flow->fd = static_cast<int>(fd);
    socket.flow = flow;
  }
  CheckAddress(args, 1, address);
  return live;
}

void Calls::UseNewFlow(int fd, ScriptSocket& socket, const Endpoint& remote) {
  Endpoint local = socket.bound;
  local.address = remote.address.is_v4() ? IpAddress(session_.setup().local4)
                                         : IpAddress(session_.setup().local6);
  socket.flow = std::make_shared<Flow>(local, remote, socket.udp);
  socket.flow->fd = fd;
  session_.Use(socket.flow);
}

int64_t Calls::Connect(CallArgs& args) {
  if (!args.Count(3)) return 0;
  ScriptSocket* socket = session_.Find(args.ScriptFd(0));
  const NetSetup& setup = session_.setup();
  const sockaddr_storage address =
      args.Address(args.at(1), socket, {setup.remote(), setup.connect_port, 0});
  const socklen_t length =
      args.at(2).IsEllipsis() ? SockaddrLength(address) : static_cast<socklen_t>(args.Number(2));
  if (args.failed()) return 0;
  if (length > sizeof(address)) return -EINVAL;
  const bool flow_is_alive = socket != nullptr && socket->flow != nullptr && !socket->udp;
  // Before the call, which may block while its packets come and go.
  if (socket != nullptr && !flow_is_alive && address.ss_family != AF_UNSPEC) {
    UseNewFlow(args.ScriptFd(0), *socket, FromSockaddr(address));
  }
  const int64_t result =
      table().Connect(args.Fd(0), reinterpret_cast<const sockaddr*>(&address), length);
  socket = session_.Find(args.ScriptFd(0));
  // Refused or timed out: the next try is another connection.
  const bool over = result < 0 && result != -EINPROGRESS && result != -EALREADY &&
                    result != -EISCONN && result != -EINTR;
  if (over && socket != nullptr) socket->flow = nullptr;
  return result;
}

int64_t Calls::Shutdown(CallArgs& args) {
  return args.Count(2) ? table().Shutdown(args.Fd(0), args.Int(1)) : 0;
}

int64_t Calls::Close(CallArgs& args) {
  if (!args.Count(1)) return 0;
  const int fd = args.ScriptFd(0);
  const int live = args.Fd(0);
  session_.Close(fd);
  return table().Close(live);
}

int64_t Calls::GetSockName(CallArgs& args) {
  if (!args.Count(3)) return 0;
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const int result =
      table().GetSockName(args.Fd(0), reinterpret_cast<sockaddr*>(&address), &length);
  if (result == 0) CheckAddress(args, 1, address);
  return result;
}

int64_t Calls::GetPeerName(CallArgs& args) {
  if (!args.Count(3)) return 0;
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const int result =
      table().GetPeerName(args.Fd(0), reinterpret_cast<sockaddr*>(&address), &length);
  if (result == 0) CheckAddress(args, 1, address);
  return result;
}

}  // namespace tapwire::pkt
