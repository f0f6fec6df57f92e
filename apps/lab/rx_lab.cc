// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/lab/hosts.h"
#include "apps/lab/kernel_column.h"
#include "apps/lab/kernel_traffic.h"
#include "apps/lab/lab.h"
#include "apps/lab/process.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {
namespace {

using RunRx = absl::StatusOr<RxServer::Figure> (*)(const RxRun&, const RunTime&);

constexpr double kOthersTimeShare = 0.5;

class RxLab {
 public:
  explicit RxLab(LabOptions& options)
      : options_(options), kernel_(options.kernel, KernelClient::kFarEnd), turns_(options.pairs) {
    result_.kernel = {.release = KernelRelease(), .problem = kernel_.problem()};
  }

  absl::StatusOr<RxResult> Run() {
    TW_RETURN_IF_ERROR(MeasureVeth());
    if (options_.others) {
      TW_RETURN_IF_ERROR(MeasureOther(Thread()));
      TW_RETURN_IF_ERROR(MeasureOther(Tap()));
    }
    result_.conditions = {.pairs = options_.pairs,
                          .seconds = options_.seconds,
                          .side_seconds = options_.seconds * kOthersTimeShare,
                          .cpu = processor_.cpu(),
                          .repeated = turns_.repeated(),
                          .disturbed = turns_.disturbed()};
    return std::move(result_);
  }

 private:
  struct Source {
    RxSource result = {};
    RunRx run = nullptr;
    std::optional<int> client_cpu = {};
  };

  // Where things are measured that take too long everywhere.
  bool IsCorner(size_t flows) const {
    return flows == options_.flows.front() || flows == options_.flows.back();
  }

  Source Thread() const {
    const std::optional<int> cpu = processor_.other_cpu();
    return {.result = {.title = absl::StrCat(
                           "The client on another thread, behind a pipe, ",
                           cpu ? absl::StrCat("on CPU ", *cpu,
                                              "; both look for frames for 100 us before they sleep")
                               : "on the same CPU, since there is no other")},
            .run = &RunRxThread,
            .client_cpu = cpu};
  }

  Source Tap() const {
    Source tap{.result = {.title = "A program on the kernel's sockets, behind a TAP, on the same "
                                   "CPU as the server"},
               .run = &RunRxTap};
    if (geteuid() != 0) tap.result.problem = "only root can make its network namespace";
    return tap;
  }

  absl::StatusOr<RxPoint> MeasurePoint(const Source& source, size_t flows, double time_share,
                                       std::vector<Series>* kernel) {
    RxPoint point{.flows = flows};
    std::vector<Variant> variants;
    for (const netdev::MacvlanRx rx : {netdev::MacvlanRx::kReinject, netdev::MacvlanRx::kQueue}) {
      const RxRun run{.rx = rx, .flows = flows, .client_cpu = source.client_cpu};
      variants.push_back({.name = rx == netdev::MacvlanRx::kReinject ? "reinject" : "queue",
                          .run = [&, run](const RunTime& time) -> absl::StatusOr<double> {
                            TW_ASSIGN_OR_RETURN(const RxServer::Figure figure,
                                                source.run(run, time));
                            point.packets_per_transaction = figure.packets_per_transaction;
                            return figure.transactions_per_s;
                          },
                          .time_share = time_share});
    }
    if (kernel != nullptr) {
      kernel_.AddTo(variants, [flows] {
        return KernelColumn::Run([flows](const KernelPair& pair, const RunTime& time) {
          return RunKernelRr(pair, flows, time);
        });
      });
    }
    TW_ASSIGN_OR_RETURN(std::vector<Series> all, turns_.Measure(variants, options_.seconds));
    point.reinject = std::move(all[0]);
    point.queue = std::move(all[1]);
    if (kernel != nullptr) {
      kernel->assign(std::make_move_iterator(all.begin() + 2), std::make_move_iterator(all.end()));
    }
    return point;
  }

  absl::Status MeasureVeth() {
    result_.veth.title = "The client on the same thread, on the far end of a veth";
    const Source source{.run = &RunRxVeth};
    for (const size_t flows : options_.flows) {
      options_.progress(absl::StrCat("veth, N = ", flows));
      KernelPoint kernel{.flows = flows};
      const bool with_kernel = kernel_.problem().empty() && IsCorner(flows);
      TW_ASSIGN_OR_RETURN(RxPoint point,
                          MeasurePoint(source, flows, 1, with_kernel ? &kernel.series : nullptr));
      result_.veth.points.push_back(std::move(point));
      if (with_kernel) result_.kernel.points.push_back(std::move(kernel));
    }
    return absl::OkStatus();
  }

  // A source that cannot be had says why.
  absl::Status MeasureOther(Source source) {
    for (const size_t flows : options_.flows) {
      if (!IsCorner(flows) || !source.result.problem.empty()) continue;
      options_.progress(absl::StrCat(source.result.title, ", N = ", flows));
      absl::StatusOr<RxPoint> point = MeasurePoint(source, flows, kOthersTimeShare, nullptr);
      TW_RETURN_IF_ERROR(Interruption::Check());
      if (point.ok()) {
        source.result.points.push_back(*std::move(point));
      } else {
        source.result.problem = std::string(point.status().message());
      }
    }
    result_.others.push_back(std::move(source.result));
    return absl::OkStatus();
  }

  LabOptions& options_;
  const OneProcessor processor_;
  const KernelColumn kernel_;
  Turns turns_;
  RxResult result_;
};

}  // namespace

absl::StatusOr<RxResult> RunRxLab(LabOptions& options) { return RxLab(options).Run(); }

}  // namespace tapwire::apps::lab
