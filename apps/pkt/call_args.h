// SPDX-License-Identifier: Apache-2.0
// Arguments of scripted system calls: expressions to numbers, addresses and buffers. The first
// problem stays; after it all results are meaningless.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/pkt/ast.h"
#include "apps/pkt/session.h"

namespace tapwire::pkt {

// A buffer or a list of them.
struct IoBuffers {
  std::vector<std::string> data;
  std::vector<iovec> iov;  // into data

  size_t total() const {
    size_t sum = 0;
    for (const std::string& part : data) sum += part.size();
    return sum;
  }
};

class CallArgs {
 public:
  CallArgs(const SyscallSpec& call, Session& session) : call_(call), session_(session) {}

  const SyscallSpec& call() const { return call_; }
  Session& session() { return session_; }
  size_t size() const { return call_.args.size(); }
  // Whether there are as many arguments as that.
  bool Count(size_t least, size_t most);
  bool Count(size_t exact) { return Count(exact, exact); }
  const Expr& at(size_t i) const { return call_.args[i]; }

  // Numbers, constants, constants or-ed; [n] stands for a pointer to n.
  int64_t Number(const Expr& expr);
  int64_t Number(size_t i) { return Number(at(i)); }
  int Int(size_t i) { return static_cast<int>(Number(i)); }
  // The table's descriptor for the script's; one that is closed if there is none.
  int Fd(size_t i) { return session_.Live(Number(i)); }
  int ScriptFd(size_t i) { return Int(i); }

  // An address for a socket; `...`: `fallback`.
  sockaddr_storage Address(const Expr& expr, const ScriptSocket* socket, const Endpoint& fallback);

  // Buffers of `[{…, n}, …]`, or of one buffer and its length.
  IoBuffers Buffers(const Expr& array);
  IoBuffers Buffer(const Expr& data, const Expr& length);

  bool failed() const { return !problem_.empty(); }
  void Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  void Unsupported(std::string reason) {
    if (problem_.empty()) unsupported_ = true;
    Fail(std::move(reason));
  }
  const std::string& problem() const { return problem_; }
  bool unsupported() const { return unsupported_; }

 private:
  int64_t WordValue(const std::string& word);
  void AddBuffer(IoBuffers& buffers, const Expr& data, int64_t length);

  const SyscallSpec& call_;
  Session& session_;
  std::string problem_;
  bool unsupported_ = false;
};

// A socket address of the stack's, and back. With `v6` an IPv4 address is mapped.
sockaddr_storage ToSockaddr(const Endpoint& endpoint, bool v6);
Endpoint FromSockaddr(const sockaddr_storage& address);  // mapped ones become IPv4
inline socklen_t SockaddrLength(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? socklen_t{28} : socklen_t{16};
}

}  // namespace tapwire::pkt
