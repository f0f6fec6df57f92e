// SPDX-License-Identifier: Apache-2.0
// `tapwire ping`: echo requests from our own stack, printed as iputils prints them.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/command.h"
#include "apps/host.h"
#include "apps/ping_stats.h"
#include "apps/report.h"
#include "apps/uv_timer.h"
#include "netdev/base/status_util.h"
#include "stack/sockets/ping_socket.h"
#include "stack/stack.h"

namespace tapwire::apps {
namespace {

constexpr int kNoReply = 1, kOtherError = 2;  // as iputils
constexpr size_t kMaxOutstanding = 65536;     // one slot per sequence number

struct PingFlags {
  std::string target;
  uint64_t count = 0;  // 0: until interrupted
  double interval_s = 1.0;
  double timeout_s = 10.0;  // how long to wait for the last replies
  double deadline_s = 0;    // 0: none
  uint32_t size = 56;
  int ttl = 0;
  std::string pmtu = "want";
  bool quiet = false, numeric = false, timestamps = false;
  bool v4 = false, v6 = false;
};

bool IsBroadcast(Host& host, const IpAddress& address) {
  if (address.IsLimitedBroadcast()) return true;
  for (const InterfaceAddress& own : host.interface().addresses()) {
    const std::optional<Ipv4Address> broadcast = own.prefix().Broadcast();
    if (broadcast.has_value() && address == IpAddress(*broadcast)) return true;
  }
  return false;
}

// A number in this range; unlike CLI::Range, NaN is not.
CLI::Validator SecondsFrom(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        double seconds = 0;
        const bool good = absl::SimpleAtod(text, &seconds) && seconds >= low && seconds <= high;
        return good ? std::string()
                    : absl::StrCat("'", text, "' is not a number from ", low, " to ", high);
      },
      absl::StrCat("SECONDS in [", low, " - ", high, "]"));
}

// One run of ping: sends on a timer, prints what comes back, stops the host when it is done.
class PingRun {
 public:
  PingRun(Host& host, const PingFlags& flags, const Endpoint& target)
      : host_(host),
        flags_(flags),
        target_(target),
        to_one_host_(!target.address.IsMulticast() && !IsBroadcast(host, target.address)),
        send_timer_(host.loop()),
        end_timer_(host.loop()) {}

  absl::Status Start();
  void PrintError(const EchoError& error);
  void FinishIfAnswered();
  void Finish();  // prints the summary and stops the host
  void PrintInterim() const { std::fprintf(stderr, "%s\n", stats_.Interim().c_str()); }
  int exit_code() const { return exit_code_; }

 private:
  struct Outstanding {
    Time sent;
    bool answered = false;
  };

  void SendNext();
  void OnReply(EchoReply reply);
  void OnError(const EchoError& error);
  void PrintReply(const EchoReply& reply, size_t size, Duration rtt, bool duplicate) const;
  bool IsDone() const { return flags_.count != 0 && stats_.sent() >= flags_.count; }

  Host& host_;
  const PingFlags& flags_;
  Endpoint target_;
  const bool to_one_host_;  // no group and no broadcast, where anybody may answer
  std::unique_ptr<PingSocket> socket_;
  UvTimer send_timer_, end_timer_;
  PingStats stats_;
  std::vector<uint8_t> data_;
  std::vector<Outstanding> outstanding_;
  uint64_t next_ = 1;
  Time started_, last_event_;
  int exit_code_ = kNoReply;
  bool finished_ = false;
};

absl::Status PingRun::Start() {
  // Without a route nothing is printed but the reason, as ping does.
  const absl::StatusOr<Route> route = host_.stack().FindRoute(
      {.destination = target_.address, .source = std::nullopt, .ifindex = target_.zone});
  if (!route.ok()) return route.status();
  TW_ASSIGN_OR_RETURN(socket_, PingSocket::Create(host_.stack(), target_.address.family()));
  socket_->SetReplyCallback([this](EchoReply reply) { OnReply(std::move(reply)); });
  socket_->SetErrorCallback([this](const EchoError& error) { OnError(error); });
  data_.resize(flags_.size);
  for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(i);
  outstanding_.resize(kMaxOutstanding);
  const bool v4 = target_.address.is_v4();
  const std::string name = target_.address.ToString();
  if (v4) {
    std::printf("PING %s (%s) %u(%u) bytes of data.\n", name.c_str(), name.c_str(), flags_.size,
                flags_.size + 28);
  } else {
    std::printf("PING %s (%s) %u data bytes\n", name.c_str(), name.c_str(), flags_.size);
  }
  FlushOutput();
  started_ = last_event_ = host_.context().RefreshNow();
  if (flags_.deadline_s > 0) end_timer_.Start(flags_.deadline_s, [this] { Finish(); });
  SendNext();
  return absl::OkStatus();
}

void PingRun::SendNext() {
  const uint64_t number = next_++;
  EchoRequest request{.destination = target_.address,
                      .ifindex = target_.zone,
                      .source = std::nullopt,
                      .sequence = static_cast<uint16_t>(number),
                      .data = data_,
                      .ttl = static_cast<uint8_t>(flags_.ttl),
                      .dont_fragment = flags_.pmtu == "do"};
  last_event_ = host_.context().RefreshNow();
  outstanding_[request.sequence] = {.sent = last_event_};
  const absl::StatusOr<IpAddress> sent = socket_->Send(request);
  if (!sent.ok()) {
    stats_.OnError();
    std::fprintf(stderr, "tapwire ping: %s\n", std::string(sent.status().message()).c_str());
    if (stats_.sent() == 0 && stats_.received() == 0) {  // it will not get better
      exit_code_ = kOtherError;
      host_.Stop();
      return;
    }
  }
  stats_.OnSent();
  if (!IsDone()) {
    send_timer_.Start(flags_.interval_s, [this] { SendNext(); });
  } else if (flags_.deadline_s <= 0) {
    end_timer_.Start(flags_.timeout_s, [this] { Finish(); });
  }
}

void PingRun::OnReply(EchoReply reply) {
  Outstanding& slot = outstanding_[reply.sequence];
  if (slot.sent == Time()) return;  // never asked
  const bool duplicate = slot.answered;
  slot.answered = true;
  // A reply of the same batch (both ends in this process) carries the batch's time: look again.
  const Time now = reply.rx_time > slot.sent ? reply.rx_time : host_.context().RefreshNow();
  const Duration rtt = now - slot.sent;
  last_event_ = now;
  if (duplicate) {
    stats_.OnDuplicate();
  } else {
    stats_.OnReply(rtt);
    exit_code_ = 0;
  }
  if (!flags_.quiet) PrintReply(reply, reply.packet->length(), rtt, duplicate);
  FinishIfAnswered();
}

void PingRun::PrintReply(const EchoReply& reply, size_t size, Duration rtt, bool duplicate) const {
  std::string stamp;
  if (flags_.timestamps) {
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    stamp = absl::StrFormat("[%.6f] ", std::chrono::duration<double>(wall).count());
  }
  const bool different = to_one_host_ && reply.source != target_.address;
  std::printf("%s%zu bytes from %s: icmp_seq=%u ttl=%u time=%s ms%s%s\n", stamp.c_str(), size + 8,
              reply.source.ToString().c_str(), reply.sequence, reply.ttl, FormatRtt(rtt).c_str(),
              duplicate ? " (DUP!)" : "", different ? " (DIFFERENT ADDRESS!)" : "");
  FlushOutput();
}

void PingRun::OnError(const EchoError& error) {
  stats_.OnError();
  last_event_ = host_.context().now();
  if (!flags_.quiet) PrintError(error);
  FinishIfAnswered();
}

void PingRun::PrintError(const EchoError& error) {
  std::printf("From %s icmp_seq=%u %s\n", error.reporter.ToString().c_str(), error.sequence,
              DescribeIcmpError(error.kind, error.value).c_str());
  FlushOutput();
}

// As iputils: an error answers a request too.
void PingRun::FinishIfAnswered() {
  if (IsDone() && stats_.received() + stats_.errors() >= flags_.count) Finish();
}

void PingRun::Finish() {
  if (std::exchange(finished_, true)) return;
  const std::string summary = stats_.Summary(target_.address.ToString(), last_event_ - started_);
  std::fputs(summary.c_str(), stdout);
  host_.Stop();
}

// "fe80::1%tw0" names the interface; our own one is the only choice and the default for link-local.
absl::StatusOr<Endpoint> ResolveTarget(const PingFlags& flags, Host& host) {
  const size_t percent = flags.target.find('%');
  std::optional<IpAddress> address = IpAddress::Parse(flags.target.substr(0, percent));
  if (!address)
    return absl::InvalidArgumentError(
        absl::StrCat(flags.target, ": is not an IPv4 or IPv6 address"));
  if ((flags.v4 && !address->is_v4()) || (flags.v6 && !address->is_v6())) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.target, ": is not of the family asked for"));
  }
  Endpoint target{*address, 0, 0};
  const std::string zone = percent == std::string::npos ? "" : flags.target.substr(percent + 1);
  const std::string& name = host.interface().device().name();
  if (!zone.empty() && zone != name && zone != absl::StrCat(host.interface().index())) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.target, ": no interface '", zone, "'; there is ", name));
  }
  if (!zone.empty() || address->IsLinkLocal() || address->IsMulticast())
    target.zone = host.interface().index();
  return target;
}

int RunPing(const HostFlags& host_flags, const PingFlags& flags) {
  absl::StatusOr<HostOptions> options = ParseHostFlags(host_flags);
  if (!options.ok()) return ReportError("ping", options.status(), kOtherError);
  absl::StatusOr<std::unique_ptr<UvLoop>> loop = UvLoop::Create();
  if (!loop.ok()) return ReportError("ping", loop.status(), kOtherError);
  absl::StatusOr<std::unique_ptr<Host>> created = Host::Create((*loop)->get(), *options);
  if (!created.ok()) return ReportError("ping", created.status(), kOtherError);
  Host& host = **created;
  absl::StatusOr<Endpoint> target = ResolveTarget(flags, host);
  if (!target.ok()) return ReportError("ping", target.status(), kOtherError);
  PingRun run(host, flags, *target);
  host.SetInterruptCallback([&] { run.Finish(); });
  absl::Status status = host.SetQuitCallback([&] { run.PrintInterim(); });
  if (!status.ok()) return ReportError("ping", status, kOtherError);
  status = host.Run([&](absl::Status ready) {
    if (ready.ok()) ready = run.Start();
    if (!ready.ok()) host.Stop(ready);
  });
  if (host.wants_stats()) host.PrintStats(stdout);
  if (!status.ok()) return ReportError("ping", status, kOtherError);
  return host.capture_failed() ? kOtherError : run.exit_code();
}

}  // namespace

void RegisterPing(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand("ping", "send echo requests, as ping does");
  auto host = std::make_shared<HostFlags>();
  auto flags = std::make_shared<PingFlags>();
  AddHostFlags(*command, *host);
  command->add_option("target", flags->target, "IPv4 or IPv6 address; fe80::1%tw0 for link-local")
      ->required();
  command->add_option("-c", flags->count, "stop after this many requests")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000'000}));
  command->add_option("-i", flags->interval_s, "seconds between requests")
      ->check(SecondsFrom(0.001, 86400.0));
  command->add_option("-W", flags->timeout_s, "seconds to wait for the last replies")
      ->check(SecondsFrom(0.0, 86400.0));
  command->add_option("-w", flags->deadline_s, "seconds after which to stop")
      ->check(SecondsFrom(0.0, 1e9));
  command->add_option("-s", flags->size, "bytes of data")->check(CLI::Range(0, 65527));
  command->add_option("-t", flags->ttl, "TTL or hop limit")->check(CLI::Range(1, 255));
  command->add_option("-M", flags->pmtu, "do: set DF; want, dont: allow fragments")
      ->check(CLI::IsMember({"do", "want", "dont"}));
  command->add_flag("-q", flags->quiet, "only the summary");
  command->add_flag("-n", flags->numeric, "numeric output; always so here, taken for habit");
  command->add_flag("-D", flags->timestamps, "print a time stamp before each line");
  command->add_flag("-4", flags->v4, "the target must be an IPv4 address");
  command->add_flag("-6", flags->v6, "the target must be an IPv6 address");
  command->callback([host, flags, &exit_code] { exit_code = RunPing(*host, *flags); });
}

}  // namespace tapwire::apps
