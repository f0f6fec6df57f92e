// SPDX-License-Identifier: Apache-2.0
// `tapwire run` and `tapwire echo`: a host that stays up until it is interrupted, with services.

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/command.h"
#include "apps/ctl/ctl.h"
#include "apps/ctl/server.h"
#include "apps/ctl/socket_path.h"
#include "apps/host.h"
#include "apps/report.h"
#include "apps/tcp_echo.h"
#include "apps/udp_echo.h"
#include "apps/uv_timer.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {
namespace {

// The services of one host.
struct Echo {
  std::unique_ptr<TcpEcho> tcp;
  std::unique_ptr<UdpEcho> udp;

  absl::Status Start(Stack& stack, uint16_t port) {
    TW_ASSIGN_OR_RETURN(tcp, TcpEcho::Start(stack, port));
    TW_ASSIGN_OR_RETURN(udp, UdpEcho::Start(stack, port));
    return absl::OkStatus();
  }
  void Print(std::FILE* out) const {
    if (tcp != nullptr) {
      std::fprintf(out, "echo: %llu connections, %llu bytes, %llu errors\n",
                   static_cast<unsigned long long>(tcp->connections()),
                   static_cast<unsigned long long>(tcp->bytes()),
                   static_cast<unsigned long long>(tcp->errors()));
    }
    if (udp != nullptr) {
      std::fprintf(out, "echo: %llu datagrams, %llu bytes, %llu send errors\n",
                   static_cast<unsigned long long>(udp->datagrams()),
                   static_cast<unsigned long long>(udp->bytes()),
                   static_cast<unsigned long long>(udp->send_errors()));
    }
  }
};

struct ServiceFlags {
  HostFlags host = {};
  uint16_t echo_port = 0;            // 0: no echo service
  std::string control = kNoControl;  // path of the control socket; empty: the default one

  static constexpr char kNoControl[] = "off";
};

// `tapwire ctl` at this host.
class Control {
 public:
  // Without a path of the user's own the host does without a socket that cannot be had.
  absl::Status Start(Host& host, const std::string& path) {
    if (path == ServiceFlags::kNoControl) return absl::OkStatus();
    world_ = std::make_unique<ctl::World>(ctl::World{.context = host.context(), .stacks = {}});
    world_->stacks.push_back({kOwnStackName, &host.stack()});
    for (const auto& named : host.topology().stacks()) {
      world_->stacks.push_back({named->spec.name, named->stack.get()});
    }
    if (!path.empty()) return Listen(host, path);
    absl::Status status;
    for (const std::string& candidate : ctl::DefaultSocketPaths()) {
      status = ctl::MakeSocketFolder(candidate);
      if (status.ok()) status = Listen(host, candidate);
      // A socket that is taken is the one that others look at first: no use in going on.
      if (status.ok() || StatusToErrno(status) == EADDRINUSE) break;
    }
    if (!status.ok()) {
      std::fprintf(stderr, "tapwire run: %s (--ctl); goes on without one\n",
                   OneLine(status.message()).c_str());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Listen(Host& host, const std::string& path) {
    ctl::Server::Options options;
    options.path = path;
    TW_ASSIGN_OR_RETURN(server_, ctl::Server::Start(host.loop(), std::move(options),
                                                    [this](const std::vector<std::string>& argv) {
                                                      world_->context.RefreshNow();
                                                      return ctl::Execute(*world_, argv);
                                                    }));
    return absl::OkStatus();
  }

  std::unique_ptr<ctl::World> world_;
  std::unique_ptr<ctl::Server> server_;
};

int RunHost(const char* command, const ServiceFlags& service) {
  const HostFlags& flags = service.host;
  const uint16_t echo_port = service.echo_port;
  absl::StatusOr<HostOptions> options = ParseHostFlags(flags);
  if (!options.ok()) return ReportError(command, options.status());
  absl::StatusOr<std::unique_ptr<UvLoop>> loop = UvLoop::Create();
  if (!loop.ok()) return ReportError(command, loop.status());
  absl::StatusOr<std::unique_ptr<Host>> created = Host::Create((*loop)->get(), *options);
  if (!created.ok()) return ReportError(command, created.status());
  Host& host = **created;
  Control control;
  if (const absl::Status status = control.Start(host, service.control); !status.ok()) {
    return ReportError(command, status);
  }
  Echo echo;
  const absl::Status status = host.Run([&](absl::Status ready) {
    if (ready.ok() && echo_port != 0) ready = echo.Start(host.stack(), echo_port);
    if (!ready.ok()) return host.Stop(ready);
    const std::string services =
        echo_port == 0 ? "" : absl::StrCat(" echo ", echo_port, "/tcp echo ", echo_port, "/udp");
    std::printf("ready: %s%s\n", host.Describe().c_str(), services.c_str());
    FlushOutput();
  });
  echo.Print(stdout);
  if (host.wants_stats()) host.PrintStats(stdout);
  if (!status.ok()) return ReportError(command, status);
  return host.capture_failed() ? 1 : 0;
}

}  // namespace

void RegisterEcho(CLI::App& root, int& exit_code) {
  CLI::App* command =
      root.add_subcommand("echo", "send back what comes over TCP and UDP until interrupted");
  auto flags = std::make_shared<ServiceFlags>();
  flags->echo_port = 7;
  AddHostFlags(*command, flags->host);
  command->add_option("-p,--port", flags->echo_port, "port of both")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = RunHost("echo", *flags); });
}

void RegisterRun(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand("run", "be a host on the network until interrupted");
  auto flags = std::make_shared<ServiceFlags>();
  flags->control.clear();
  AddHostFlags(*command, flags->host);
  command
      ->add_option("--echo", flags->echo_port, "send back what comes over TCP and UDP to this port")
      ->check(CLI::Range(1, 65535));
  command->add_option("--ctl", flags->control,
                      "path of the socket that 'tapwire ctl' talks to, or off "
                      "($XDG_RUNTIME_DIR/tapwire/run.sock, /run/tapwire/run.sock for root, else "
                      "/tmp/tapwire-UID/run.sock)");
  command->callback([flags, &exit_code] { exit_code = RunHost("run", *flags); });
}

}  // namespace tapwire::apps
