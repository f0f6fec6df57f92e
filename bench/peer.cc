// SPDX-License-Identifier: Apache-2.0
// bench_peer: one end of a measurement over kernel sockets, blocking, one process per test. It runs
// unchanged at the kernel's side of two kinds of wire: against itself over a veth pair, and against
// bench_tap_peer over a TAP. Uses nothing of the library.
//
//   bench_peer server --test stream --address 10.8.0.2      prints "ready", then one JSON line
//   bench_peer client --test stream --address 10.8.0.2 --size 131072 --seconds 1
//
// stream: bytes one way, counted where they are read. The sending client waits for the server's
// FIN, so all it counts has been read there. rr: `size` bytes there and back. crr: the same with a
// connection for each, which the client closes first. udp_rr: over UDP.
//
// A server of stream or rr ends with its client, the others with SIGTERM.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"

namespace {

using SteadyClock = std::chrono::steady_clock;

enum class Test { kStream, kRr, kCrr, kUdpRr };

struct Options {
  bool server = false;
  Test test = Test::kStream;
  std::string address;
  uint16_t port = 5001;
  size_t size = 0;  // 0: the test's own
  double seconds = 1;
  bool client_sends = true;
  std::string congestion = "cubic";
  bool spin = false;
};

struct Count {
  uint64_t bytes = 0;
  uint64_t transactions = 0;
  uint64_t lost = 0;  // UDP: asked again
};

// For the signal handler.
int g_listener = -1;
volatile std::sig_atomic_t g_stop = 0;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_peer: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// ---- Sockets ----

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

bool ParseAddress(const std::string& text, uint16_t port, Address& out) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out.length = sizeof(*v4);
    return true;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out.length = sizeof(*v6);
    return true;
  }
  return false;
}

void SetOption(int fd, int level, int option, int value) {
  if (setsockopt(fd, level, option, &value, sizeof(value)) != 0) Fail("setsockopt");
}

// Per socket, which root of the namespace may do whatever tcp_allowed_congestion_control says.
void SetCongestion(int fd, const std::string& name) {
  if (name.empty()) return;
  const auto length = static_cast<socklen_t>(name.size());
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), length) != 0) {
    Fail("congestion control '" + name +
         "' (see net.ipv4.tcp_available_congestion_control, tcp_allowed_congestion_control)");
  }
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Address& address, int type) : fd_(socket(address.family(), type | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) Fail("socket");
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  std::string congestion() const {
    char name[16] = {};
    socklen_t length = sizeof(name) - 1;
    return getsockopt(fd_, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
  }

 private:
  int fd_;
};

bool SendAll(const Socket& socket, const std::vector<char>& data) {
  size_t sent = 0;
  while (sent < data.size()) {
    const ssize_t n = send(socket.fd(), data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

// As recv(2); with `spin` without ever sleeping.
ssize_t Receive(const Socket& socket, char* into, size_t size, bool spin) {
  if (!spin) return recv(socket.fd(), into, size, 0);
  ssize_t n = 0;
  do {
    n = recv(socket.fd(), into, size, MSG_DONTWAIT);
  } while (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
  return n;
}

bool ReceiveAll(const Socket& socket, std::vector<char>& into, bool spin) {
  size_t got = 0;
  while (got < into.size()) {
    const ssize_t n = Receive(socket, into.data() + got, into.size() - got, spin);
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return true;
}

// ---- Measuring ----

double CpuSeconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

class Meter {
 public:
  Meter() : start_(SteadyClock::now()) { getrusage(RUSAGE_SELF, &usage_); }
  double seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - start_).count();
  }
  void Print(const Options& options, const Count& count, const std::string& congestion) const {
    static const std::map<Test, const char*> kNames = {{Test::kStream, "stream"},
                                                       {Test::kRr, "rr"},
                                                       {Test::kCrr, "crr"},
                                                       {Test::kUdpRr, "udp_rr"}};
    rusage now;
    getrusage(RUSAGE_SELF, &now);
    std::printf(
        "{\"role\": \"%s\", \"test\": \"%s\", \"direction\": \"client-%s\", \"family\": %d, "
        "\"congestion_control\": \"%s\", \"size\": %zu, \"seconds\": %.6f, \"bytes\": %llu, "
        "\"transactions\": %llu, \"lost\": %llu, \"cpu_user_s\": %.6f, \"cpu_system_s\": %.6f}\n",
        options.server ? "server" : "client", kNames.at(options.test),
        options.client_sends ? "sends" : "receives",
        options.address.find(':') == std::string::npos ? 4 : 6, congestion.c_str(), options.size,
        seconds(), static_cast<unsigned long long>(count.bytes),
        static_cast<unsigned long long>(count.transactions),
        static_cast<unsigned long long>(count.lost),
        CpuSeconds(now.ru_utime) - CpuSeconds(usage_.ru_utime),
        CpuSeconds(now.ru_stime) - CpuSeconds(usage_.ru_stime));
    std::fflush(stdout);
  }

 private:
  SteadyClock::time_point start_;
  rusage usage_;
};

// Bytes until the end of the stream, an error or the end of the time.
uint64_t Drain(const Socket& socket, size_t size, const Meter& meter, double limit) {
  std::vector<char> buffer(size);
  uint64_t bytes = 0;
  while (meter.seconds() < limit) {
    const ssize_t n = recv(socket.fd(), buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    bytes += static_cast<uint64_t>(n);
  }
  return bytes;
}

uint64_t Fill(const Socket& socket, size_t size, const Meter& meter, double limit) {
  const std::vector<char> buffer(size, 'x');
  uint64_t bytes = 0;
  while (meter.seconds() < limit && SendAll(socket, buffer)) bytes += size;
  return bytes;
}

// ---- Client ----

void ConnectTo(const Socket& socket, const Address& address) {
  if (connect(socket.fd(), address.get(), address.length) != 0) Fail("connect");
}

// One request and its answer.
bool Transact(const Socket& socket, std::vector<char>& data, bool spin) {
  return SendAll(socket, data) && ReceiveAll(socket, data, spin);
}

Count ClientStream(const Options& options, const Socket& socket, const Meter& meter) {
  if (!options.client_sends) return {.bytes = Drain(socket, options.size, meter, options.seconds)};
  const uint64_t bytes = Fill(socket, options.size, meter, options.seconds);
  shutdown(socket.fd(), SHUT_WR);
  Drain(socket, options.size, meter, HUGE_VAL);  // nothing but the FIN
  return {.bytes = bytes};
}

Count ClientRr(const Options& options, const Socket& socket, const Meter& meter) {
  std::vector<char> data(options.size, 'x');
  Count count;
  while (meter.seconds() < options.seconds) {
    if (!Transact(socket, data, options.spin)) Fail("the connection ended");
    ++count.transactions;
  }
  return count;
}

// Source ports one after the other instead of by connect(2), which would look for one that is not
// in TIME-WAIT for longer and longer. The namespace has to allow their reuse (tcp_tw_reuse).
class SourcePorts {
 public:
  explicit SourcePorts(int family) : family_(family) {}

  // A connected socket.
  int Connect(const Options& options, const Address& to) {
    for (int tries = 0; tries < kLast - kFirst; ++tries) {
      const int fd = socket(family_, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0) Fail("socket");
      if (TryConnect(fd, options, to)) return fd;
      close(fd);
    }
    Fail("no free port");
  }

 private:
  static constexpr int kFirst = 10'000;
  static constexpr int kLast = 65'000;

  // False if the port is still in use.
  bool TryConnect(int fd, const Options& options, const Address& to) {
    SetCongestion(fd, options.congestion);
    SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    Address from;
    ParseAddress(family_ == AF_INET ? "0.0.0.0" : "::", Next(), from);
    if (bind(fd, from.get(), from.length) != 0) {
      if (errno != EADDRINUSE) Fail("bind");
      return false;
    }
    if (connect(fd, to.get(), to.length) == 0) return true;
    if (errno != EADDRNOTAVAIL) Fail("connect");
    return false;
  }

  uint16_t Next() {
    next_ = next_ + 1 > kLast ? kFirst : next_ + 1;
    return static_cast<uint16_t>(next_);
  }

  int family_;
  int next_ = kFirst + static_cast<int>(SteadyClock::now().time_since_epoch().count() / 1000 %
                                        (kLast - kFirst));
};

void CloseConnection(const Socket& socket) {
  char byte;
  shutdown(socket.fd(), SHUT_WR);
  (void)!recv(socket.fd(), &byte, 1, 0);  // the server's FIN
}

Count ClientCrr(const Options& options, const Address& address, const Meter& meter) {
  std::vector<char> data(options.size, 'x');
  SourcePorts ports(address.family());
  Count count;
  while (meter.seconds() < options.seconds) {
    const Socket socket(ports.Connect(options, address));
    if (!Transact(socket, data, options.spin)) Fail("the connection ended");
    CloseConnection(socket);
    ++count.transactions;
  }
  return count;
}

Count ClientUdp(const Options& options, const Socket& socket, const Meter& meter) {
  const timeval limit{.tv_sec = 0, .tv_usec = 200'000};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  std::vector<char> data(options.size, 'x');
  Count count;
  while (meter.seconds() < options.seconds) {
    if (Transact(socket, data, false)) {
      ++count.transactions;
    } else {
      ++count.lost;
    }
  }
  return count;
}

void RunClient(const Options& options, const Address& address) {
  alarm(static_cast<unsigned>(options.seconds) + 20);  // a peer that is silent must not hold us up
  const Socket socket(address, options.test == Test::kUdpRr ? SOCK_DGRAM : SOCK_STREAM);
  if (options.test != Test::kUdpRr) SetCongestion(socket.fd(), options.congestion);
  if (options.test != Test::kCrr) ConnectTo(socket, address);
  const std::string congestion = socket.congestion();
  const Meter meter;
  Count count;
  switch (options.test) {
    case Test::kStream:
      count = ClientStream(options, socket, meter);
      break;
    case Test::kRr:
      count = ClientRr(options, socket, meter);
      break;
    case Test::kCrr:
      count = ClientCrr(options, address, meter);
      break;
    case Test::kUdpRr:
      count = ClientUdp(options, socket, meter);
      break;
  }
  meter.Print(options, count, congestion);
}

// ---- Server ----

// Answers until the client's FIN.
uint64_t Answer(const Options& options, const Socket& socket) {
  std::vector<char> data(options.size);
  uint64_t transactions = 0;
  while (ReceiveAll(socket, data, options.spin) && SendAll(socket, data)) ++transactions;
  return transactions;
}

Count ServeConnection(const Options& options, const Socket& socket, const Meter& meter) {
  if (options.test != Test::kStream) return {.transactions = Answer(options, socket)};
  return {.bytes = options.client_sends ? Drain(socket, options.size, meter, HUGE_VAL)
                                        : Fill(socket, options.size, meter, HUGE_VAL)};
}

// Connections until SIGTERM.
Count ServeCrr(const Options& options, const Socket& listener) {
  Count count;
  for (;;) {
    const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return count;
    count.transactions += Answer(options, Socket(fd));
  }
}

Count ServeUdp(const Options& options, const Socket& socket) {
  std::vector<char> data(65'536);
  Count count;
  for (;;) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    auto* const peer = reinterpret_cast<sockaddr*>(&from);
    const ssize_t n = recvfrom(socket.fd(), data.data(), data.size(),
                               options.spin ? MSG_DONTWAIT : 0, peer, &length);
    if (n < 0 && errno == EAGAIN) continue;
    if (n < 0 || g_stop != 0) return count;
    if (sendto(socket.fd(), data.data(), static_cast<size_t>(n), 0, peer, length) == n)
      ++count.transactions;
  }
}

// shutdown(2) ends a call that blocks, also one that has not begun yet.
void EndOnSignal() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    g_stop = 1;
    shutdown(g_listener, SHUT_RDWR);
  };
  sigaction(SIGTERM, &action, nullptr);
}

void RunServer(const Options& options, const Address& address) {
  const bool udp = options.test == Test::kUdpRr;
  const Socket listener(address, udp ? SOCK_DGRAM : SOCK_STREAM);
  g_listener = listener.fd();
  EndOnSignal();
  SetOption(listener.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!udp) SetCongestion(listener.fd(), options.congestion);
  if (bind(listener.fd(), address.get(), address.length) != 0) Fail("bind");
  if (!udp && listen(listener.fd(), 128) != 0) Fail("listen");
  std::puts("ready");
  std::fflush(stdout);
  if (udp || options.test == Test::kCrr) {
    const Meter meter;
    const Count count = udp ? ServeUdp(options, listener) : ServeCrr(options, listener);
    return meter.Print(options, count, listener.congestion());
  }
  const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) Fail("accept");
  const Socket socket(fd);
  const Meter meter;
  const Count count = ServeConnection(options, socket, meter);
  meter.Print(options, count, socket.congestion());
}

// ---- Command line ----

void AddOptions(CLI::App& command, Options& options) {
  static const std::map<std::string, Test> kTests = {
      {"stream", Test::kStream}, {"rr", Test::kRr}, {"crr", Test::kCrr}, {"udp_rr", Test::kUdpRr}};
  static const std::map<std::string, bool> kDirections = {{"client-sends", true},
                                                          {"client-receives", false}};
  const auto is_address = [](const std::string& text) {
    Address ignored;
    return ParseAddress(text, 1, ignored) ? "" : "'" + text + "' is no IPv4 or IPv6 address";
  };
  command.add_option("--test", options.test, "stream, rr, crr or udp_rr")
      ->required()
      ->transform(CLI::CheckedTransformer(kTests));
  command.add_option("--address", options.address, "of the server, IPv4 or IPv6")
      ->required()
      ->check(is_address);
  command.add_option("--port", options.port, "of the server")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command
      .add_option("--size", options.size,
                  "bytes of each write and read, or of request and answer (default: 16384, or 1)")
      ->check(CLI::Range(1, 1 << 24));
  command.add_option("--direction", options.client_sends, "client-sends or client-receives")
      ->transform(CLI::CheckedTransformer(kDirections));
  command.add_option("--congestion", options.congestion, "congestion control; '' is the system's")
      ->capture_default_str();
  command.add_flag("--spin", options.spin, "rr, crr: poll for what arrives instead of sleeping");
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("One end of a measurement over kernel sockets; prints one JSON line.", "bench_peer");
  app.require_subcommand(1);
  CLI::App* const server = app.add_subcommand("server", "answers one client, or until SIGTERM");
  CLI::App* const client = app.add_subcommand("client", "measures");
  AddOptions(*server, options);
  AddOptions(*client, options);
  client->add_option("--seconds", options.seconds, "length of the run")
      ->check([](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool good = *end == '\0' && value >= 0.01 && value <= 3600;  // NaN is not
        return good ? "" : "'" + text + "' is not a number from 0.01 to 3600";
      })
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.server = server->parsed();
  if (options.size == 0) options.size = options.test == Test::kStream ? 16'384 : 1;
  Address address;
  ParseAddress(options.address, options.port, address);
  if (options.server) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunServer(options, address);
  } else {
    RunClient(options, address);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Main(argc, argv); }
