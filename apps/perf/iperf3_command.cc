// SPDX-License-Identifier: Apache-2.0
// `tapwire iperf3`: throughput tests with real iperf3 peers, from our own stack.

#include <sys/utsname.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/command.h"
#include "apps/host.h"
#include "apps/perf/iperf3_client.h"
#include "apps/perf/iperf3_server.h"
#include "apps/perf/target.h"
#include "apps/perf/units.h"
#include "apps/report.h"
#include "apps/uv_timer.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {
namespace {

using iperf3::Params;

struct Iperf3Flags {
  bool server = false, one_off = false;
  std::string client;
  uint16_t port = iperf3::kDefaultPort;
  int64_t time_s = 10, omit_s = 0, parallel = 1, mss = 0, tos = 0;
  std::string bytes, blocks, length, window, bitrate, congestion;
  double interval_s = 1;
  bool reverse = false, bidirectional = false, nodelay = false;
  bool json = false, verbose = false;
  bool v4 = false, v6 = false;
  std::string bind;
  std::string format = "a";
};

absl::Status ParseInto(const std::string& text, const char* flag, uint64_t step, int64_t& value) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<uint64_t> amount = perf::ParseAmount(text, step);
  if (!amount.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", amount.status().message()));
  }
  value = static_cast<int64_t>(*amount);
  return absl::OkStatus();
}

// "10M" or "10M/5": five blocks in a row.
absl::Status ParseBitrate(const std::string& text, Params& params) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  if (!parts.second.empty() && !absl::SimpleAtoi(parts.second, &params.burst)) {
    return absl::InvalidArgumentError(absl::StrCat("-b ", text, ": the burst is not a number"));
  }
  return ParseInto(parts.first, "-b", 1000, params.bandwidth);
}

absl::StatusOr<Params> MakeParams(const Iperf3Flags& flags) {
  Params params{.omit_s = flags.omit_s,
                .time_s = flags.time_s,
                .parallel = flags.parallel,
                .mss = flags.mss,
                .tos = flags.tos,
                .nodelay = flags.nodelay,
                .reverse = flags.reverse,
                .bidirectional = flags.bidirectional,
                .congestion = flags.congestion,
                .client_version = "tapwire " TAPWIRE_VERSION};
  TW_RETURN_IF_ERROR(ParseInto(flags.bytes, "-n", 1024, params.num));
  TW_RETURN_IF_ERROR(ParseInto(flags.blocks, "-k", 1024, params.blockcount));
  TW_RETURN_IF_ERROR(ParseInto(flags.length, "-l", 1024, params.length));
  TW_RETURN_IF_ERROR(ParseInto(flags.window, "-w", 1024, params.window));
  TW_RETURN_IF_ERROR(ParseBitrate(flags.bitrate, params));
  if (params.num != 0 || params.blockcount != 0) params.time_s = 0;
  if (const std::optional<iperf3::Error> error = iperf3::CheckParams(params)) {
    return absl::InvalidArgumentError(iperf3::ErrorText(*error));
  }
  if (!params.congestion.empty() && !iperf3::IsKnownCongestionControl(params.congestion)) {
    return absl::InvalidArgumentError(
        absl::StrCat("-C ", params.congestion, ": there are cubic and reno"));
  }
  return params;
}

std::string SystemInfo() {
  utsname name = {};
  if (uname(&name) != 0) return "";
  return absl::StrCat(name.sysname, " ", name.nodename, " ", name.release, " ", name.version, " ",
                      name.machine);
}

std::unique_ptr<iperf3::Report> MakeReport(const Iperf3Flags& flags) {
  iperf3::ReportOptions options{
      .role = flags.server ? iperf3::Role::kServer : iperf3::Role::kClient,
      .verbose = flags.verbose,
      .unit = flags.format.front(),
      .version = "tapwire " TAPWIRE_VERSION,
      .system_info = SystemInfo()};
  const iperf3::Report::Output output = [](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    FlushOutput();
  };
  return flags.json ? MakeJsonReport(std::move(options), output)
                    : MakeTextReport(std::move(options), output);
}

// Client or server, once the host is ready. The exit code comes through the callback of either.
class Iperf3Run {
 public:
  Iperf3Run(Host& host, const Iperf3Flags& flags, Params params)
      : host_(host), flags_(flags), params_(std::move(params)), report_(MakeReport(flags)) {}

  absl::Status Start() {
    std::optional<IpFamily> family;
    if (flags_.v4) family = IpFamily::kV4;
    if (flags_.v6) family = IpFamily::kV6;
    std::optional<IpAddress> bind;
    if (!flags_.bind.empty()) {
      TW_ASSIGN_OR_RETURN(const Endpoint local, perf::ParseTarget(flags_.bind, 0, family, host_));
      bind = local.address;
    }
    const auto done = [this](int exit_code) {
      exit_code_ = exit_code;
      host_.Stop();
    };
    if (flags_.server) return StartServer(bind, done);
    TW_ASSIGN_OR_RETURN(const Endpoint target,
                        perf::ParseTarget(flags_.client, flags_.port, family, host_));
    client_ = std::make_unique<iperf3::Client>(
        host_.loop(), host_.stack(),
        iperf3::Client::Options{
            .params = params_, .server = target, .bind = bind, .interval_s = flags_.interval_s},
        *report_, done);
    client_->Start();
    return absl::OkStatus();
  }

  void Interrupt() {
    if (client_) return client_->Interrupt();
    if (server_) return server_->Interrupt();
    host_.Stop();
  }

  int exit_code() const { return exit_code_; }

 private:
  absl::Status StartServer(const std::optional<IpAddress>& bind,
                           iperf3::Server::DoneCallback done) {
    server_ =
        std::make_unique<iperf3::Server>(host_.loop(), host_.stack(),
                                         iperf3::Server::Options{.port = flags_.port,
                                                                 .bind = bind,
                                                                 .v4 = !flags_.v6,
                                                                 .v6 = !flags_.v4,
                                                                 .interval_s = flags_.interval_s,
                                                                 .one_off = flags_.one_off},
                                         *report_, std::move(done));
    return server_->Start();
  }

  Host& host_;
  const Iperf3Flags& flags_;
  Params params_;
  std::unique_ptr<iperf3::Report> report_;
  std::unique_ptr<iperf3::Client> client_;
  std::unique_ptr<iperf3::Server> server_;
  int exit_code_ = 1;
};

int RunIperf3(const HostFlags& host_flags, const Iperf3Flags& flags) {
  const absl::StatusOr<Params> params = MakeParams(flags);
  if (!params.ok()) return ReportError("iperf3", params.status());
  const absl::StatusOr<HostOptions> options = ParseHostFlags(host_flags);
  if (!options.ok()) return ReportError("iperf3", options.status());
  absl::StatusOr<std::unique_ptr<UvLoop>> loop = UvLoop::Create();
  if (!loop.ok()) return ReportError("iperf3", loop.status());
  absl::StatusOr<std::unique_ptr<Host>> created = Host::Create((*loop)->get(), *options);
  if (!created.ok()) return ReportError("iperf3", created.status());
  Host& host = **created;
  Iperf3Run run(host, flags, *params);
  host.SetInterruptCallback([&] { run.Interrupt(); });
  const absl::Status status = host.Run([&](absl::Status ready) {
    if (ready.ok()) ready = run.Start();
    if (!ready.ok()) host.Stop(ready);
  });
  if (host.wants_stats()) host.PrintStats(flags.json ? stderr : stdout);
  if (!status.ok()) return ReportError("iperf3", status);
  return host.capture_failed() ? 1 : run.exit_code();
}

void AddTestFlags(CLI::App& command, Iperf3Flags& flags) {
  auto* time = command.add_option("-t,--time", flags.time_s, "seconds to send for (0: for ever)")
                   ->check(CLI::Range(int64_t{0}, iperf3::kMaxTime));
  auto* bytes = command.add_option("-n,--bytes", flags.bytes, "bytes to send, instead of -t");
  auto* blocks =
      command.add_option("-k,--blockcount", flags.blocks, "blocks to send, instead of -t");
  bytes->excludes(time)->excludes(blocks);
  blocks->excludes(time);
  command.add_option("-O,--omit", flags.omit_s, "seconds at the start that do not count")
      ->check(CLI::Range(int64_t{0}, iperf3::kMaxOmit));
  command.add_option("-P,--parallel", flags.parallel, "streams at a time")
      ->check(CLI::Range(int64_t{1}, iperf3::kMaxParallel));
  command.add_option("-l,--length", flags.length, "bytes of a block (128K)");
  command.add_option("-w,--window", flags.window, "socket buffers in bytes");
  command.add_option("-b,--bitrate", flags.bitrate, "bits per second of each stream [/BURST]");
  command.add_option("-M,--set-mss", flags.mss, "maximum segment size")
      ->check(CLI::Range(int64_t{88}, iperf3::kMaxMss));
  command.add_option("-S,--tos", flags.tos, "type of service, 0 to 255")
      ->check(CLI::Range(int64_t{0}, int64_t{255}));
  command.add_option("-C,--congestion", flags.congestion, "congestion control: cubic or reno");
  command.add_flag("-N,--no-delay", flags.nodelay, "no Nagle algorithm");
  auto* reverse = command.add_flag("-R,--reverse", flags.reverse, "the server sends");
  command.add_flag("--bidir", flags.bidirectional, "both send")->excludes(reverse);
}

}  // namespace

void RegisterIperf3(CLI::App& root, int& exit_code) {
  CLI::App* command =
      root.add_subcommand("iperf3", "measure TCP throughput with iperf3 at the other end");
  auto host = std::make_shared<HostFlags>();
  auto flags = std::make_shared<Iperf3Flags>();
  AddHostFlags(*command, *host);
  // Of an option that is given twice the last one counts, as with getopt.
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  auto* roles = command->add_option_group("role");
  roles->add_flag("-s,--server", flags->server, "be the server");
  roles->add_option("-c,--client", flags->client, "be the client of the server at this address");
  roles->require_option(1);
  command->add_option("-p,--port", flags->port, "port of the server (5201)")
      ->check(CLI::Range(1, 65535));
  command->add_flag("-1,--one-off", flags->one_off, "server: end after one test");
  command->add_option("-i,--interval", flags->interval_s, "seconds between reports; 0: at the end")
      ->check(CLI::Range(0.0, 0.0) | CLI::Range(0.1, 60.0));
  command->add_option("-B,--bind", flags->bind, "local address");
  command->add_option("-f,--format", flags->format, "unit of rates: k m g t, or K M G T for bytes")
      ->check(CLI::IsMember({"k", "m", "g", "t", "K", "M", "G", "T", "a"}));
  command->add_flag("-J,--json", flags->json, "one JSON object for each test");
  command->add_flag("-V,--verbose", flags->verbose, "more about the test");
  auto* v4 = command->add_flag("-4", flags->v4, "IPv4 only");
  command->add_flag("-6", flags->v6, "IPv6 only")->excludes(v4);
  AddTestFlags(*command, *flags);
  command->callback([host, flags, &exit_code] { exit_code = RunIperf3(*host, *flags); });
}

}  // namespace tapwire::apps
