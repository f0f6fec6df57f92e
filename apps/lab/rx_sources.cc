// SPDX-License-Identifier: Apache-2.0
// The second mail's experiment with a client that is not on the server's thread.

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/lab/hosts.h"
#include "apps/lab/kernel_net.h"
#include "apps/lab/kernel_traffic.h"
#include "apps/lab/process.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/status_util.h"
#include "netdev/pipe.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_runner.h"

namespace tapwire::apps::lab {
namespace {

// Waking a thread that sleeps on another processor takes longer than all the rest of a transaction.
constexpr Duration kBusyPoll = std::chrono::microseconds(100);
constexpr double kSpareSeconds = 15;

// A client with a thread of its own, until it is destroyed.
class ClientThread {
 public:
  ClientThread(netdev::PipeEnd end, const RxRun& run)
      : end_(std::move(end)), run_(run), thread_([this] { status_ = Main(); }) {}
  ~ClientThread() { Stop().IgnoreError(); }
  ClientThread(const ClientThread&) = delete;
  ClientThread& operator=(const ClientThread&) = delete;

  // Ends it; what went wrong there.
  absl::Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  absl::Status Main() {
    if (run_.client_cpu.has_value()) OneProcessor::MoveTo(*run_.client_cpu);
    SystemEnvironment system;
    netdev::NetContext context(system.environment());
    TW_ASSIGN_OR_RETURN(netdev::NetDevice * device,
                        netdev::AttachPipe(context, std::move(end_), {.name = "far"}));
    TW_ASSIGN_OR_RETURN(const auto host, MakeHost(*device, kClientAddress));
    TW_ASSIGN_OR_RETURN(const auto load, Requesters::Connect(*host, ServerEndpoint(), run_.flows));
    TW_ASSIGN_OR_RETURN(const auto runner, ThreadRunner::Create(&context));
    if (run_.client_cpu.has_value()) runner->SetBusyPoll(kBusyPoll);
    while (!stop_) {
      runner->RunUntil([this] { return stop_.load(); }, std::chrono::milliseconds(50));
    }
    return load->status();
  }

  netdev::PipeEnd end_;
  const RxRun run_;
  std::atomic<bool> stop_{false};
  absl::Status status_;  // the thread's until it has ended
  std::thread thread_;   // last: it uses the others
};

// Measures on the runner of the server's context.
absl::StatusOr<RxServer::Figure> MeasureOn(ThreadRunner& runner, RxServer& server, const RxRun& run,
                                           const RunTime& time) {
  const auto until = [&](absl::FunctionRef<bool()> done, Duration limit) {
    return runner.RunUntil([&] { return done() || Interruption::requested(); }, limit);
  };
  return server.Measure(until, run.flows, time);
}

}  // namespace

absl::StatusOr<RxServer::Figure> RunRxThread(const RxRun& run, const RunTime& time) {
  TW_ASSIGN_OR_RETURN(auto ends, netdev::CreatePipe({}));
  SystemEnvironment system;
  netdev::NetContext context(system.environment());
  TW_ASSIGN_OR_RETURN(netdev::NetDevice * lower,
                      netdev::AttachPipe(context, std::move(ends.first), {.name = "lower"}));
  TW_ASSIGN_OR_RETURN(const auto server, RxServer::Create(*lower, run.rx));
  TW_ASSIGN_OR_RETURN(const auto runner, ThreadRunner::Create(&context));
  if (run.client_cpu.has_value()) runner->SetBusyPoll(kBusyPoll);
  ClientThread client(std::move(ends.second), run);
  absl::StatusOr<RxServer::Figure> figure = MeasureOn(*runner, *server, run, time);
  TW_RETURN_IF_ERROR(client.Stop());
  return figure;
}

absl::StatusOr<RxServer::Figure> RunRxTap(const RxRun& run, const RunTime& time) {
  TW_ASSIGN_OR_RETURN(const Namespace kernel_side, Namespace::Create());
  TW_ASSIGN_OR_RETURN(const NamespaceVisit visit, NamespaceVisit::Enter(kernel_side));
  SystemEnvironment system;
  netdev::NetContext context(system.environment());
  drivers::TapOptions options;
  options.name = "lower";
  options.kernel_addrs = {*IpPrefix::Parse(kClientAddress)};
  TW_ASSIGN_OR_RETURN(auto tap, drivers::TapDevice::Open(context, options));
  TW_ASSIGN_OR_RETURN(netdev::NetDevice * lower, context.registry().Register(std::move(tap)));
  TW_ASSIGN_OR_RETURN(const auto server, RxServer::Create(*lower, run.rx));
  TW_ASSIGN_OR_RETURN(const auto runner, ThreadRunner::Create(&context));
  const double limit_s = time.warm_up_s + time.measured_s + kSpareSeconds;
  TW_ASSIGN_OR_RETURN(const Child client, StartKernelRequesters(run.flows, limit_s));
  return MeasureOn(*runner, *server, run, time);
}

}  // namespace tapwire::apps::lab
