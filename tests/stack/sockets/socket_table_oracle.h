// SPDX-License-Identifier: Apache-2.0
// The kernel as the judge of SocketTable: one script of socket calls is run on the kernel's own
// loopback addresses and on a stack's, and what each call said is compared line by line.
//
// Scripts use loopback addresses only, and ports that the system chooses. Where packets travel, a
// script waits with Await() before it looks.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "netdev/base/seeded_random.h"
#include "netdev/net_context.h"
#include "stack/sockets/sim_waiter.h"
#include "stack/sockets/socket_table.h"
#include "stack/stack.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::testutil {

// The calls, with results as SocketTable gives them.
class SocketApi {
 public:
  virtual ~SocketApi() = default;
  virtual int Socket(int domain, int type, int protocol) = 0;
  virtual int Bind(int fd, const sockaddr* a, socklen_t n) = 0;
  virtual int Listen(int fd, int backlog) = 0;
  virtual int Accept4(int fd, sockaddr* a, socklen_t* n, int flags) = 0;
  virtual int Connect(int fd, const sockaddr* a, socklen_t n) = 0;
  virtual int Shutdown(int fd, int how) = 0;
  virtual int Close(int fd) = 0;
  virtual ssize_t Read(int fd, void* p, size_t n) = 0;
  virtual ssize_t Readv(int fd, const iovec* iov, int n) = 0;
  virtual ssize_t Recv(int fd, void* p, size_t n, int flags) = 0;
  virtual ssize_t RecvFrom(int fd, void* p, size_t n, int flags, sockaddr* a, socklen_t* l) = 0;
  virtual ssize_t RecvMsg(int fd, msghdr* m, int flags) = 0;
  virtual ssize_t Write(int fd, const void* p, size_t n) = 0;
  virtual ssize_t Writev(int fd, const iovec* iov, int n) = 0;
  virtual ssize_t Send(int fd, const void* p, size_t n, int flags) = 0;
  virtual ssize_t SendTo(int fd, const void* p, size_t n, int flags, const sockaddr* a,
                         socklen_t l) = 0;
  virtual ssize_t SendMsg(int fd, const msghdr* m, int flags) = 0;
  virtual int GetSockName(int fd, sockaddr* a, socklen_t* n) = 0;
  virtual int GetPeerName(int fd, sockaddr* a, socklen_t* n) = 0;
  virtual int GetSockOpt(int fd, int level, int name, void* v, socklen_t* n) = 0;
  virtual int SetSockOpt(int fd, int level, int name, const void* v, socklen_t n) = 0;
  virtual int Fcntl(int fd, int command, long argument) = 0;
  virtual int Ioctl(int fd, unsigned long request, void* argument) = 0;
  virtual int Poll(pollfd* fds, nfds_t n, int timeout_ms) = 0;
  virtual int EpollCreate(int size) = 0;
  virtual int EpollCtl(int ep, int op, int fd, epoll_event* e) = 0;
  virtual int EpollWait(int ep, epoll_event* e, int n, int timeout_ms) = 0;
};

class KernelApi final : public SocketApi {
 public:
  int Socket(int d, int t, int p) override { return R(::socket(d, t, p)); }
  int Bind(int fd, const sockaddr* a, socklen_t n) override { return R(::bind(fd, a, n)); }
  int Listen(int fd, int b) override { return R(::listen(fd, b)); }
  int Accept4(int fd, sockaddr* a, socklen_t* n, int f) override {
    return R(::accept4(fd, a, n, f));
  }
  int Connect(int fd, const sockaddr* a, socklen_t n) override { return R(::connect(fd, a, n)); }
  int Shutdown(int fd, int how) override { return R(::shutdown(fd, how)); }
  int Close(int fd) override { return R(::close(fd)); }
  ssize_t Read(int fd, void* p, size_t n) override { return R(::read(fd, p, n)); }
  ssize_t Readv(int fd, const iovec* iov, int n) override { return R(::readv(fd, iov, n)); }
  ssize_t Recv(int fd, void* p, size_t n, int f) override { return R(::recv(fd, p, n, f)); }
  ssize_t RecvFrom(int fd, void* p, size_t n, int f, sockaddr* a, socklen_t* l) override {
    return R(::recvfrom(fd, p, n, f, a, l));
  }
  ssize_t RecvMsg(int fd, msghdr* m, int f) override { return R(::recvmsg(fd, m, f)); }
  // SIGPIPE is not part of the comparison; write() has no flag for it, so the test ignores it.
  ssize_t Write(int fd, const void* p, size_t n) override { return R(::write(fd, p, n)); }
  ssize_t Writev(int fd, const iovec* iov, int n) override { return R(::writev(fd, iov, n)); }
  ssize_t Send(int fd, const void* p, size_t n, int f) override {
    return R(::send(fd, p, n, f | MSG_NOSIGNAL));
  }
  ssize_t SendTo(int fd, const void* p, size_t n, int f, const sockaddr* a, socklen_t l) override {
    return R(::sendto(fd, p, n, f | MSG_NOSIGNAL, a, l));
  }
  ssize_t SendMsg(int fd, const msghdr* m, int f) override {
    return R(::sendmsg(fd, m, f | MSG_NOSIGNAL));
  }
  int GetSockName(int fd, sockaddr* a, socklen_t* n) override { return R(::getsockname(fd, a, n)); }
  int GetPeerName(int fd, sockaddr* a, socklen_t* n) override { return R(::getpeername(fd, a, n)); }
  int GetSockOpt(int fd, int level, int name, void* v, socklen_t* n) override {
    return R(::getsockopt(fd, level, name, v, n));
  }
  int SetSockOpt(int fd, int level, int name, const void* v, socklen_t n) override {
    return R(::setsockopt(fd, level, name, v, n));
  }
  int Fcntl(int fd, int c, long a) override { return R(::fcntl(fd, c, a)); }
  int Ioctl(int fd, unsigned long r, void* a) override { return R(::ioctl(fd, r, a)); }
  int Poll(pollfd* fds, nfds_t n, int t) override { return R(::poll(fds, n, t)); }
  int EpollCreate(int size) override { return R(::epoll_create(size)); }
  int EpollCtl(int ep, int op, int fd, epoll_event* e) override {
    return R(::epoll_ctl(ep, op, fd, e));
  }
  int EpollWait(int ep, epoll_event* e, int n, int t) override {
    return R(::epoll_wait(ep, e, n, t));
  }

 private:
  template <typename T>
  static T R(T result) {
    return result < 0 ? static_cast<T>(-errno) : result;
  }
};

class TableApi final : public SocketApi {
 public:
  explicit TableApi(SocketTable& table) : t_(table) {}
  int Socket(int d, int t, int p) override { return t_.Socket(d, t, p); }
  int Bind(int fd, const sockaddr* a, socklen_t n) override { return t_.Bind(fd, a, n); }
  int Listen(int fd, int b) override { return t_.Listen(fd, b); }
  int Accept4(int fd, sockaddr* a, socklen_t* n, int f) override { return t_.Accept4(fd, a, n, f); }
  int Connect(int fd, const sockaddr* a, socklen_t n) override { return t_.Connect(fd, a, n); }
  int Shutdown(int fd, int how) override { return t_.Shutdown(fd, how); }
  int Close(int fd) override { return t_.Close(fd); }
  ssize_t Read(int fd, void* p, size_t n) override { return t_.Read(fd, p, n); }
  ssize_t Readv(int fd, const iovec* iov, int n) override { return t_.Readv(fd, iov, n); }
  ssize_t Recv(int fd, void* p, size_t n, int f) override { return t_.Recv(fd, p, n, f); }
  ssize_t RecvFrom(int fd, void* p, size_t n, int f, sockaddr* a, socklen_t* l) override {
    return t_.RecvFrom(fd, p, n, f, a, l);
  }
  ssize_t RecvMsg(int fd, msghdr* m, int f) override { return t_.RecvMsg(fd, m, f); }
  ssize_t Write(int fd, const void* p, size_t n) override { return t_.Write(fd, p, n); }
  ssize_t Writev(int fd, const iovec* iov, int n) override { return t_.Writev(fd, iov, n); }
  ssize_t Send(int fd, const void* p, size_t n, int f) override { return t_.Send(fd, p, n, f); }
  ssize_t SendTo(int fd, const void* p, size_t n, int f, const sockaddr* a, socklen_t l) override {
    return t_.SendTo(fd, p, n, f, a, l);
  }
  ssize_t SendMsg(int fd, const msghdr* m, int f) override { return t_.SendMsg(fd, m, f); }
  int GetSockName(int fd, sockaddr* a, socklen_t* n) override { return t_.GetSockName(fd, a, n); }
  int GetPeerName(int fd, sockaddr* a, socklen_t* n) override { return t_.GetPeerName(fd, a, n); }
  int GetSockOpt(int fd, int level, int name, void* v, socklen_t* n) override {
    return t_.GetSockOpt(fd, level, name, v, n);
  }
  int SetSockOpt(int fd, int level, int name, const void* v, socklen_t n) override {
    return t_.SetSockOpt(fd, level, name, v, n);
  }
  int Fcntl(int fd, int c, long a) override { return t_.Fcntl(fd, c, a); }
  int Ioctl(int fd, unsigned long r, void* a) override { return t_.Ioctl(fd, r, a); }
  int Poll(pollfd* fds, nfds_t n, int t) override { return t_.Poll(fds, n, t); }
  int EpollCreate(int size) override { return t_.EpollCreate(size); }
  int EpollCtl(int ep, int op, int fd, epoll_event* e) override {
    return t_.EpollCtl(ep, op, fd, e);
  }
  int EpollWait(int ep, epoll_event* e, int n, int t) override { return t_.EpollWait(ep, e, n, t); }

 private:
  SocketTable& t_;
};

// One stack with its loopback device, virtual time, and a table on it.
class SimSockets {
 public:
  SimSockets()
      : context_({&clock_, &random_}),
        stack_(std::make_unique<Stack>(context_)),
        waiter_(context_,
                [this](std::optional<Time> next) {
                  if (!next) return false;
                  clock_.Set(std::max(*next, clock_.Now()));
                  return true;
                }),
        table_(std::make_unique<SocketTable>(*stack_, waiter_)) {}
  ~SimSockets() {
    table_.reset();
    stack_.reset();
    waiter_.Settle();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_EQ(context_.pool().stats().slabs_in_use(), 0u);
  }
  SocketTable& table() { return *table_; }
  Stack& stack() { return *stack_; }
  FakeClock& clock() { return clock_; }
  SimWaiter& waiter() { return waiter_; }

 private:
  FakeClock clock_;
  SeededRandom random_{7};
  netdev::NetContext context_;
  std::unique_ptr<Stack> stack_;
  SimWaiter waiter_;
  std::unique_ptr<SocketTable> table_;
};

enum class Flavour { kV4, kV6, kMapped };

inline std::string FlavourName(Flavour f) {
  return f == Flavour::kV4 ? "V4" : f == Flavour::kV6 ? "V6" : "Mapped";
}

struct Address {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

inline Address MakeAddress(int family, const char* text, uint16_t port) {
  Address a;
  if (family == AF_INET) {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    inet_pton(AF_INET, text, &in.sin_addr);
    std::memcpy(&a.storage, &in, sizeof(in));
    a.length = sizeof(in);
  } else {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    inet_pton(AF_INET6, text, &in.sin6_addr);
    std::memcpy(&a.storage, &in, sizeof(in));
    a.length = sizeof(in);
  }
  return a;
}

// A running script: makes the calls and writes down what they said.
class Session {
 public:
  Session(SocketApi& socket_api, Flavour flavour) : api(socket_api), flavour_(flavour) {}
  ~Session() {
    for (int fd : open_) api.Close(fd);
  }

  SocketApi& api;

  const std::vector<std::string>& log() const { return log_; }
  int domain() const { return flavour_ == Flavour::kV4 ? AF_INET : AF_INET6; }
  bool v4() const { return flavour_ == Flavour::kV4; }
  Flavour flavour() const { return flavour_; }
  Address Loopback(uint16_t port) const {
    return MakeAddress(domain(),
                       flavour_ == Flavour::kV4   ? "127.0.0.1"
                       : flavour_ == Flavour::kV6 ? "::1"
                                                  : "::ffff:127.0.0.1",
                       port);
  }
  Address Any(uint16_t port) const { return MakeAddress(domain(), v4() ? "0.0.0.0" : "::", port); }

  // Writes a result down: the number, or the name of the error.
  int64_t Note(const std::string& what, int64_t result) {
    const std::string said =
        result < 0 ? std::string(strerrorname_np(static_cast<int>(-result))) : absl::StrCat(result);
    log_.push_back(absl::StrCat(what, ": ", said));
    return result;
  }
  void Note(const std::string& text) { log_.push_back(text); }

  // Descriptors are numbered by the script, since the numbers differ. Not logged unless it fails.
  int Socket(int type, int flags = 0) {
    const int fd = api.Socket(domain(), type | flags, 0);
    if (fd < 0) Note("socket", fd);
    return Own(fd);
  }
  int Tcp(int flags = 0) { return Socket(SOCK_STREAM, flags); }
  int Udp(int flags = 0) { return Socket(SOCK_DGRAM, flags); }
  int Own(int fd) {
    if (fd >= 0) open_.insert(fd);
    return fd;
  }
  int Close(int fd) {
    open_.erase(fd);
    return static_cast<int>(Note("close", api.Close(fd)));
  }
  uint16_t PortOf(int fd) {
    Address a;
    a.length = sizeof(a.storage);
    api.GetSockName(fd, a.get(), &a.length);
    return a.storage.ss_family == AF_INET
               ? ntohs(reinterpret_cast<sockaddr_in*>(&a.storage)->sin_port)
               : ntohs(reinterpret_cast<sockaddr_in6*>(&a.storage)->sin6_port);
  }
  Address NameOf(int fd) { return Loopback(PortOf(fd)); }
  int Bind(int fd, const Address& a) {
    return static_cast<int>(Note("bind", api.Bind(fd, a.get(), a.length)));
  }
  int Connect(int fd, const Address& a) {
    return static_cast<int>(Note("connect", api.Connect(fd, a.get(), a.length)));
  }
  int Listen(int fd, int backlog = 5) {
    return static_cast<int>(Note("listen", api.Listen(fd, backlog)));
  }
  // Waits for `events`, and notes all that poll says then.
  void Await(int fd, short events) {
    pollfd p = {fd, events, 0};
    Note("await", api.Poll(&p, 1, 3000));
    Events(fd);
  }
  // All that poll says now.
  void Events(int fd) {
    pollfd p = {fd, static_cast<short>(0x7fff & ~POLLNVAL), 0};
    api.Poll(&p, 1, 0);
    Note(absl::StrCat("events ", EventText(static_cast<uint32_t>(p.revents))));
  }
  static std::string EventText(uint32_t events) {
    static constexpr std::pair<uint32_t, const char*> kNames[] = {
        {POLLIN, "IN"},    {POLLPRI, "PRI"},   {POLLOUT, "OUT"},  {POLLERR, "ERR"},
        {POLLHUP, "HUP"},  {POLLNVAL, "NVAL"}, {0x40, "RDNORM"},  {0x80, "RDBAND"},
        {0x100, "WRNORM"}, {0x200, "WRBAND"},  {0x2000, "RDHUP"},
    };
    std::vector<std::string> set;
    for (const auto& [bit, name] : kNames) {
      if ((events & bit) != 0) set.emplace_back(name);
    }
    return absl::StrJoin(set, "|");
  }
  // recv with the bytes.
  int64_t Recv(int fd, size_t size, int flags = MSG_DONTWAIT) {
    std::string data(size, '\0');
    const int64_t n = api.Recv(fd, data.data(), size, flags);
    Note(absl::StrCat("recv(", size, ") ",
                      n > 0 ? data.substr(0, std::min(static_cast<size_t>(n), size)) : ""),
         n);
    return n;
  }
  int64_t Send(int fd, const std::string& data, int flags = MSG_DONTWAIT) {
    return Note("send", api.Send(fd, data.data(), data.size(), flags));
  }
  void GetInt(int fd, int level, int name, const std::string& what) {
    int value = -12345;
    socklen_t size = sizeof(value);
    const int result = api.GetSockOpt(fd, level, name, &value, &size);
    Note(absl::StrCat("getsockopt ", what, " value=", result == 0 ? value : 0, " size=", size),
         result);
  }
  void SetInt(int fd, int level, int name, int value, const std::string& what) {
    Note(absl::StrCat("setsockopt ", what, "=", value),
         api.SetSockOpt(fd, level, name, &value, sizeof(value)));
  }
  void Inq(int fd, unsigned long request, const std::string& what) {
    int value = -1;
    const int result = api.Ioctl(fd, request, &value);
    Note(absl::StrCat(what, "=", result == 0 ? value : 0), result);
  }
  // Address and whether the port is `port`; ports themselves differ.
  void NoteName(const std::string& what, int result, const Address& a, uint16_t port) {
    if (result < 0) {
      Note(what, result);
      return;
    }
    char text[INET6_ADDRSTRLEN] = "?";
    uint16_t its_port = 0;
    const int family = a.length == 0 ? AF_UNSPEC : a.storage.ss_family;
    if (family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(&a.storage);
      inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
      its_port = ntohs(in->sin_port);
    } else if (family == AF_INET6) {
      const auto* in = reinterpret_cast<const sockaddr_in6*>(&a.storage);
      inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
      its_port = ntohs(in->sin6_port);
    }
    Note(absl::StrCat(what, " ", text, its_port == port ? " expected" : " other",
                      its_port == 0 ? " zero" : "", " port, length ", a.length));
  }
  void SockName(int fd, uint16_t port) {
    Address a;
    a.length = sizeof(a.storage);
    const int result = api.GetSockName(fd, a.get(), &a.length);
    NoteName("getsockname", result, a, port);
  }
  void PeerName(int fd, uint16_t port) {
    Address a;
    a.length = sizeof(a.storage);
    const int result = api.GetPeerName(fd, a.get(), &a.length);
    NoteName("getpeername", result, a, port);
  }

  struct Connected {
    int listener, client, server;
    uint16_t port;
  };
  int Listener(int backlog = 5) {
    const int fd = Tcp();
    Bind(fd, Loopback(0));
    Listen(fd, backlog);
    return fd;
  }
  Connected Pair() {
    Connected c = {};
    c.listener = Listener();
    c.port = PortOf(c.listener);
    c.client = Tcp();
    Connect(c.client, Loopback(c.port));
    c.server = Own(api.Accept4(c.listener, nullptr, nullptr, 0));
    if (c.server < 0) Note("accept", c.server);
    return c;
  }

 private:
  Flavour flavour_;
  std::vector<std::string> log_;
  std::set<int> open_;
};

// What a TCP socket says without being changed.
inline void AskEverything(Session& s, int fd) {
  char byte = 0;
  s.Note("read 0", s.api.Read(fd, &byte, 0));
  s.Recv(fd, 1);
  s.Recv(fd, 0);
  s.Recv(fd, 1, MSG_DONTWAIT | MSG_PEEK);
  s.Recv(fd, 1, MSG_DONTWAIT | MSG_OOB);
  s.Recv(fd, 1, MSG_DONTWAIT | MSG_ERRQUEUE);
  s.Events(fd);
  s.Inq(fd, SIOCINQ, "SIOCINQ");
  s.Inq(fd, SIOCOUTQ, "SIOCOUTQ");
  s.Inq(fd, SIOCOUTQNSD, "SIOCOUTQNSD");
  s.Inq(fd, SIOCATMARK, "SIOCATMARK");
  s.GetInt(fd, SOL_SOCKET, SO_ERROR, "SO_ERROR");
  s.GetInt(fd, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
}

struct Script {
  const char* name;
  void (*run)(Session&);
};

inline void PrintTo(const Script& script, std::ostream* out) { *out << script.name; }

// Runs the script on both and compares.
inline void CompareWithKernel(const Script& script, Flavour flavour) {
  KernelApi kernel_api;
  Session kernel(kernel_api, flavour);
  if (const int probe = kernel_api.Socket(kernel.domain(), SOCK_DGRAM, 0); probe >= 0) {
    const Address here = kernel.Loopback(0);
    const int bound = kernel_api.Bind(probe, here.get(), here.length);
    kernel_api.Close(probe);
    if (bound != 0) GTEST_SKIP() << "the kernel has no such loopback address";
  } else {
    GTEST_SKIP() << "the kernel has no such sockets";
  }
  script.run(kernel);
  SimSockets sim;
  TableApi table_api(sim.table());
  {
    Session table(table_api, flavour);
    script.run(table);
    for (size_t i = 0; i < std::max(kernel.log().size(), table.log().size()); ++i) {
      const std::string k = i < kernel.log().size() ? kernel.log()[i] : "(end)";
      const std::string t = i < table.log().size() ? table.log()[i] : "(end)";
      EXPECT_EQ(t, k) << "step " << i << " of " << script.name
                      << "; before it: " << (i > 0 ? kernel.log()[i - 1] : "");
    }
  }
  EXPECT_EQ(sim.table().size(), 0u);
}

// Base of the suites that run call scripts on the table and on the kernel.
class KernelComparison : public ::testing::TestWithParam<std::tuple<Script, Flavour>> {
 protected:
  KernelComparison() { std::signal(SIGPIPE, SIG_IGN); }
  void Compare() { CompareWithKernel(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

inline auto InEveryFlavour(const std::vector<Script>& scripts) {
  return ::testing::Combine(::testing::ValuesIn(scripts),
                            ::testing::Values(Flavour::kV4, Flavour::kV6, Flavour::kMapped));
}

inline std::string ComparisonName(
    const ::testing::TestParamInfo<std::tuple<Script, Flavour>>& info) {
  return std::string(std::get<0>(info.param).name) + FlavourName(std::get<1>(info.param));
}

}  // namespace tapwire::testutil
