// SPDX-License-Identifier: Apache-2.0
// `tapwire run` and `tapwire echo`: a host that stays up until it is interrupted, with services.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/command.h"
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

// 0: no echo service.
int RunHost(const char* command, const HostFlags& flags, uint16_t echo_port) {
  absl::StatusOr<HostOptions> options = ParseHostFlags(flags);
  if (!options.ok()) return ReportError(command, options.status());
  absl::StatusOr<std::unique_ptr<UvLoop>> loop = UvLoop::Create();
  if (!loop.ok()) return ReportError(command, loop.status());
  absl::StatusOr<std::unique_ptr<Host>> created = Host::Create((*loop)->get(), *options);
  if (!created.ok()) return ReportError(command, created.status());
  Host& host = **created;
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
  auto host = std::make_shared<HostFlags>();
  auto port = std::make_shared<uint16_t>(uint16_t{7});
  AddHostFlags(*command, *host);
  command->add_option("-p,--port", *port, "port of both")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->callback([host, port, &exit_code] { exit_code = RunHost("echo", *host, *port); });
}

void RegisterRun(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand("run", "be a host on the network until interrupted");
  auto host = std::make_shared<HostFlags>();
  auto port = std::make_shared<uint16_t>(uint16_t{0});
  AddHostFlags(*command, *host);
  command->add_option("--echo", *port, "send back what comes over TCP and UDP to this port")
      ->check(CLI::Range(1, 65535));
  command->callback([host, port, &exit_code] { exit_code = RunHost("run", *host, *port); });
}

}  // namespace tapwire::apps
