// SPDX-License-Identifier: Apache-2.0
// Calls: runs scripted system calls on a host and compares what they give.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/pkt/ast.h"
#include "apps/pkt/call_args.h"
#include "apps/pkt/host.h"
#include "apps/pkt/session.h"

namespace tapwire::pkt {

struct CallOutcome {
  std::string problem;  // empty: as the script expects
  bool unsupported = false;
};

class Calls {
 public:
  // Both outlive it; there need not be a host yet.
  Calls(const std::unique_ptr<Host>& host, Session& session) : host_(host), session_(session) {}

  // Returns when the call does; a call that blocks goes through the waiter of the world.
  CallOutcome Run(const SyscallSpec& call);
  // Whether there is such a call. Others are unsupported.
  static bool IsKnown(const std::string& name);

 private:
  using Method = int64_t (Calls::*)(CallArgs& args);
  struct Entry {
    const char* name;
    Method method;
  };
  static const Entry kEntries[];
  static const Entry* FindEntry(const std::string& name);

  SocketCalls& table() { return host_->calls(); }
  void CheckResult(CallArgs& args, int64_t result);
  // Compares an address the call gave with what the script writes.
  void CheckAddress(CallArgs& args, size_t i, const sockaddr_storage& address);
  void CheckNumber(CallArgs& args, absl::string_view what, const Expr& expected, int64_t actual);

  // calls.cc: sockets.
  int64_t Socket(CallArgs& args);
  int64_t Bind(CallArgs& args);
  int64_t Listen(CallArgs& args);
  int64_t Accept(CallArgs& args);
  int64_t Accept4(CallArgs& args);
  int64_t AcceptWith(CallArgs& args, int flags);
  int64_t Connect(CallArgs& args);
  int64_t Shutdown(CallArgs& args);
  int64_t Close(CallArgs& args);
  int64_t GetSockName(CallArgs& args);
  int64_t GetPeerName(CallArgs& args);
  void UseNewFlow(int fd, ScriptSocket& socket, const Endpoint& remote);

  // calls_io.cc: data.
  int64_t Read(CallArgs& args);
  int64_t Readv(CallArgs& args);
  int64_t Recv(CallArgs& args);
  int64_t RecvFrom(CallArgs& args);
  int64_t RecvMsg(CallArgs& args);
  void CheckControl(CallArgs& args, const Expr& wanted, msghdr& message);
  int64_t Write(CallArgs& args);
  int64_t Writev(CallArgs& args);
  int64_t Send(CallArgs& args);
  int64_t SendTo(CallArgs& args);
  int64_t SendMsg(CallArgs& args);
  int64_t Receive(CallArgs& args, IoBuffers& buffers, msghdr& message, int flags);
  int64_t Transmit(CallArgs& args, IoBuffers& buffers, msghdr& message, int flags);

  // calls_options.cc: options and readiness.
  int64_t GetSockOpt(CallArgs& args);
  int64_t SetSockOpt(CallArgs& args);
  int64_t Fcntl(CallArgs& args);
  int64_t Ioctl(CallArgs& args);
  int64_t Poll(CallArgs& args);
  int64_t EpollCreate(CallArgs& args);
  int64_t EpollCreate1(CallArgs& args);
  int64_t EpollCtl(CallArgs& args);
  int64_t EpollWait(CallArgs& args);

  const std::unique_ptr<Host>& host_;
  Session& session_;
};

}  // namespace tapwire::pkt
