// SPDX-License-Identifier: Apache-2.0
// bench_tap_peer: what bench_peer's server does, by the library on a TAP: a program that embeds it
// as any application would, sockets with callbacks on a runner. Every byte is copied into or out of
// a buffer of the program, as a socket of the kernel would, but on the ports of --zero-copy.
//
//   bench_tap_peer --name tw0 --kernel 10.9.0.1/24 --addr 10.9.0.2/24      prints "ready cubic"
//
// Serves until SIGTERM or SIGINT, on ports from --port on (IPv4 and IPv6):
//   +0 stream in   +1 stream out   +2 rr and crr, over UDP udp_rr
//   +3 stream in and +4 stream out with slices of the stack's own buffers (zero-copy)

#include <signal.h>
#include <sys/prctl.h>
#include <uv.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "drivers/tap/tap_device.h"
#include "netdev/base/status_util.h"
#include "netdev/net_context.h"
#include "netdev/packet/buffer_chain.h"
#include "netdev/registry.h"
#include "stack/interface.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/sockets/thread_runner.h"
#include "stack/sockets/udp_socket.h"
#include "stack/sockets/uv/uv_runner.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"

namespace tapwire {
namespace {

struct Options {
  std::string name = "twbench0";
  std::string node = "/dev/net/tun";
  std::vector<std::string> kernel;
  std::vector<std::string> addresses;
  uint16_t port = 5001;
  size_t size = 128 * 1024;
  uint32_t busy_poll_us = 0;
  int poll_budget = netdev::NetContext::Options().poll_budget_packets;
  bool uv = false;
};

// ---- Sessions: one per connection, destroyed by their service ----

class Session {
 public:
  explicit Session(std::unique_ptr<TcpSocket> socket) : socket_(std::move(socket)) {}
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // `end` destroys the session.
  void Start(absl::AnyInvocable<void()> end) {
    end_ = std::move(end);
    if (!OnStart().ok()) End();
  }

 protected:
  virtual absl::Status OnStart() = 0;
  // Last call of the session: nothing of it is there afterwards.
  void End() {
    absl::AnyInvocable<void()> end = std::move(end_);
    end();
  }
  TcpSocket& socket() { return *socket_; }

 private:
  std::unique_ptr<TcpSocket> socket_;
  absl::AnyInvocable<void()> end_;
};

// What sessions need of the program.
struct Shared {
  std::vector<uint8_t> buffer;  // the program's, that bytes are copied into and out of
  SlabPool& pool;
};

class StreamIn final : public Session {
 public:
  StreamIn(std::unique_ptr<TcpSocket> socket, Shared& shared)
      : Session(std::move(socket)), shared_(shared) {}

 private:
  absl::Status OnStart() override {
    return socket().ReadyStart([this] { Read(); });
  }
  void Read() {
    for (;;) {
      const absl::StatusOr<size_t> n = socket().TryRead(shared_.buffer);
      if (!n.ok() && IsWouldBlock(n.status())) return;
      if (!n.ok() || *n == 0) return End();
    }
  }
  Shared& shared_;
};

class StreamOut final : public Session {
 public:
  StreamOut(std::unique_ptr<TcpSocket> socket, Shared& shared)
      : Session(std::move(socket)), shared_(shared) {}

 private:
  absl::Status OnStart() override {
    socket().SetWritableCallback([this] { Write(); });
    TW_RETURN_IF_ERROR(socket().ReadyStart([this] { OnReadable(); }));
    return WriteAll();
  }
  // The client sends nothing: this is its end.
  void OnReadable() {
    uint8_t byte;
    const absl::StatusOr<size_t> n = socket().TryRead({&byte, 1});
    if (n.ok() || !IsWouldBlock(n.status())) End();
  }
  void Write() {
    if (!WriteAll().ok()) End();
  }
  absl::Status WriteAll() {
    for (;;) {
      const absl::StatusOr<size_t> n = socket().TryWrite(shared_.buffer);
      if (!n.ok() && !IsWouldBlock(n.status())) return n.status();
      if (!n.ok() || *n < shared_.buffer.size()) return absl::OkStatus();
    }
  }
  Shared& shared_;
};

// Requests and answers, until the client's FIN.
class Echo final : public Session {
 public:
  Echo(std::unique_ptr<TcpSocket> socket, Shared& shared)
      : Session(std::move(socket)), shared_(shared) {}

 private:
  absl::Status OnStart() override {
    return socket().ReadyStart([this] { Answer(); });
  }
  void Answer() {
    const absl::StatusOr<size_t> n = socket().TryRead(shared_.buffer);
    if (!n.ok() && IsWouldBlock(n.status())) return;
    if (!n.ok() || *n == 0) return End();
    // The client waits for each answer, so there is room for it.
    if (!socket().TryWrite(std::span(shared_.buffer).first(*n)).ok()) End();
  }
  Shared& shared_;
};

class ZeroCopyIn final : public Session {
 public:
  ZeroCopyIn(std::unique_ptr<TcpSocket> socket, Shared& /*shared*/) : Session(std::move(socket)) {}

 private:
  absl::Status OnStart() override {
    return socket().ReadStart([this](absl::StatusOr<BufferSlice> slice) {
      if (!slice.ok() || slice->empty()) End();
    });
  }
};

class ZeroCopyOut final : public Session {
 public:
  ZeroCopyOut(std::unique_ptr<TcpSocket> socket, Shared& shared)
      : Session(std::move(socket)), shared_(shared) {}

 private:
  absl::Status OnStart() override { return Write(); }
  absl::Status Write() {
    BufferChain chain;
    while (chain.size() < shared_.buffer.size()) {
      SlabRef slab = shared_.pool.AllocateSlab(SlabClass::kLarge);
      if (!slab) return absl::ResourceExhaustedError("no slab");
      chain.Append(BufferSlice(std::move(slab), 0, kLargeSlabBytes));
    }
    return socket().Write(std::move(chain), [this](const absl::Status& status) {
      if (!status.ok() || !Write().ok()) End();
    });
  }
  Shared& shared_;
};

// ---- Services ----

// Everything that is served; one per stack.
class Services {
 public:
  Services(Stack& stack, netdev::NetContext& context, const Options& options)
      : stack_(stack),
        options_(options),
        shared_{std::vector<uint8_t>(options.size, 'x'), context.pool()} {}

  absl::Status Start() {
    for (const IpFamily family : {IpFamily::kV4, IpFamily::kV6}) {
      TW_RETURN_IF_ERROR(Listen<StreamIn>(family, 0));
      TW_RETURN_IF_ERROR(Listen<StreamOut>(family, 1));
      TW_RETURN_IF_ERROR(Listen<Echo>(family, 2));
      TW_RETURN_IF_ERROR(Listen<ZeroCopyIn>(family, 3));
      TW_RETURN_IF_ERROR(Listen<ZeroCopyOut>(family, 4));
      TW_RETURN_IF_ERROR(OpenUdp(family));
    }
    return absl::OkStatus();
  }

 private:
  Endpoint LocalEnd(IpFamily family, int service) const {
    return {IpAddress::Unspecified(family), static_cast<uint16_t>(options_.port + service), 0};
  }

  template <typename Kind>
  absl::Status Listen(IpFamily family, int service) {
    TcpSocket::Options options;
    options.v6_only = true;
    TW_ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener,
                        TcpListener::Listen(stack_, LocalEnd(family, service),
                                            TcpListener::kDefaultBacklog, options));
    TW_RETURN_IF_ERROR(listener->AcceptStart([this](std::unique_ptr<TcpSocket> socket) {
      sessions_.push_front(std::make_unique<Kind>(std::move(socket), shared_));
      sessions_.front()->Start([this, self = sessions_.begin()] { sessions_.erase(self); });
    }));
    listeners_.push_back(std::move(listener));
    return absl::OkStatus();
  }

  absl::Status OpenUdp(IpFamily family) {
    TW_ASSIGN_OR_RETURN(std::unique_ptr<UdpSocket> socket,
                        UdpSocket::Create(stack_, {.family = family, .v6_only = true}));
    TW_RETURN_IF_ERROR(socket->Bind(LocalEnd(family, 2)));
    TW_RETURN_IF_ERROR(socket->ReceiveStart([this, raw = socket.get()](const Datagram& datagram) {
      const size_t n = datagram.CopyTo(shared_.buffer);
      // A lost answer is asked for again.
      raw->Send(std::span(shared_.buffer).first(n), datagram.source()).IgnoreError();
    }));
    udp_.push_back(std::move(socket));
    return absl::OkStatus();
  }

  Stack& stack_;
  const Options& options_;
  Shared shared_;
  std::vector<std::unique_ptr<TcpListener>> listeners_;
  std::vector<std::unique_ptr<UdpSocket>> udp_;
  std::list<std::unique_ptr<Session>> sessions_;
};

absl::StatusOr<std::vector<IpPrefix>> ParsePrefixes(const std::vector<std::string>& texts) {
  std::vector<IpPrefix> prefixes;
  for (const std::string& text : texts) {
    const std::optional<IpPrefix> prefix = IpPrefix::Parse(text);
    if (!prefix) {
      return absl::InvalidArgumentError("'" + text + "' is not ADDRESS/LENGTH, as 10.9.0.2/24");
    }
    prefixes.push_back(*prefix);
  }
  return prefixes;
}

// ---- Loops ----

void Ready() {
  std::printf("ready %s\n", tcp::Config::Linux().congestion_control.c_str());
  std::fflush(stdout);
}

ThreadRunner* g_runner = nullptr;  // for the signal handler

absl::Status RunThread(netdev::NetContext& context, Duration busy_poll) {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadRunner> runner, ThreadRunner::Create(&context));
  runner->SetBusyPoll(busy_poll);
  g_runner = runner.get();
  struct sigaction action = {};
  action.sa_handler = [](int) { g_runner->Stop(); };  // an atomic store and a write(2)
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  Ready();
  runner->Run();
  action.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  return absl::OkStatus();
}

absl::Status RunUv(netdev::NetContext& context, Duration busy_poll) {
  uv_loop_t* const loop = uv_default_loop();
  TW_ASSIGN_OR_RETURN(std::unique_ptr<UvRunner> runner, UvRunner::Attach(loop, &context));
  runner->SetBusyPoll(busy_poll);
  uv_signal_t signals[2];
  for (int i = 0; i < 2; ++i) {
    uv_signal_init(loop, &signals[i]);
    uv_signal_start(
        &signals[i], [](uv_signal_t* handle, int) { uv_stop(handle->loop); },
        i == 0 ? SIGTERM : SIGINT);
  }
  Ready();
  uv_run(loop, UV_RUN_DEFAULT);
  runner.reset();
  for (uv_signal_t& signal : signals) uv_close(reinterpret_cast<uv_handle_t*>(&signal), nullptr);
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);
  return absl::OkStatus();
}

absl::Status Serve(const Options& options) {
  drivers::TapOptions tap_options;
  tap_options.name = options.name;
  tap_options.device_path = options.node;
  TW_ASSIGN_OR_RETURN(tap_options.kernel_addrs, ParsePrefixes(options.kernel));
  TW_ASSIGN_OR_RETURN(const std::vector<IpPrefix> addresses, ParsePrefixes(options.addresses));
  SystemEnvironment system;
  netdev::NetContext::Options context_options;
  context_options.poll_budget_packets = options.poll_budget;
  netdev::NetContext context(system.environment(), context_options);
  StackConfig config;
  config.duplicate_address_detection = false;  // alone with the kernel
  Stack stack(context, config);
  TW_ASSIGN_OR_RETURN(auto tap, drivers::TapDevice::Open(context, tap_options));
  TW_ASSIGN_OR_RETURN(netdev::NetDevice* const device, context.registry().Register(std::move(tap)));
  TW_ASSIGN_OR_RETURN(Interface* const interface, stack.AddInterface(*device));
  TW_RETURN_IF_ERROR(device->Up());
  for (const IpPrefix& address : addresses) TW_RETURN_IF_ERROR(interface->AddAddress(address));
  Services services(stack, context, options);
  TW_RETURN_IF_ERROR(services.Start());
  const Duration busy_poll = std::chrono::microseconds(options.busy_poll_us);
  return options.uv ? RunUv(context, busy_poll) : RunThread(context, busy_poll);
}

void AddOptions(CLI::App& app, Options& options) {
  static const std::map<std::string, bool> kLoops = {{"thread", false}, {"uv", true}};
  app.add_option("--name", options.name, "of the TAP interface")->capture_default_str();
  app.add_option("--node", options.node, "device node")->capture_default_str();
  app.add_option("--kernel", options.kernel, "address of the kernel's end, ADDRESS/LENGTH; repeat")
      ->expected(1)
      ->take_all();
  app.add_option("--addr", options.addresses, "address of the stack, ADDRESS/LENGTH; repeat")
      ->required()
      ->expected(1)
      ->take_all();
  app.add_option("--port", options.port, "first of the five ports")
      ->check(CLI::Range(1, 65'531))
      ->capture_default_str();
  app.add_option("--size", options.size, "bytes of each read and write")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app.add_option("--busy-poll", options.busy_poll_us,
                 "microseconds of polling after work before going to sleep")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--poll-budget", options.poll_budget,
                 "packets of the TAP in each round of a batch")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--loop", options.uv, "thread or uv: whose loop runs it")
      ->transform(CLI::CheckedTransformer(kLoops));
}

int Main(int argc, char** argv) {
  Options options;
  if (const char* node = std::getenv("TAPWIRE_TUN")) options.node = node;
  CLI::App app("The server of bench_peer's tests on a TAP.", "bench_tap_peer");
  AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const absl::Status status = Serve(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_tap_peer: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace tapwire

int main(int argc, char** argv) { return tapwire::Main(argc, argv); }
