// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/kernel_column.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace tapwire::apps::lab {
namespace {

constexpr double kTimeShare = 0.5;

}  // namespace

KernelColumn::KernelColumn(bool wanted, KernelClient where) {
  if (!wanted) {
    problem_ = "left out, as asked for";
    return;
  }
  if (geteuid() != 0) {
    problem_ = "only root can measure them: they need network namespaces";
    return;
  }
  for (const KernelPath path :
       {KernelPath::kMacvlans, KernelPath::kMacvlansOneSegment, KernelPath::kVethNoOffloads}) {
    absl::StatusOr<KernelPair> pair = MakeKernelPair(path, where);
    if (!pair.ok()) {
      problem_ = absl::StrCat("cannot be had: ", pair.status().message());
      entries_.clear();
      return;
    }
    entries_.push_back(std::make_unique<Entry>(Entry{path, *std::move(pair)}));
  }
}

void KernelColumn::AddTo(std::vector<Variant>& variants, absl::FunctionRef<Run()> make_run) const {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    variants.push_back({.name = std::string(KernelPathName(entry->path)),
                        .run = [pair = &entry->pair, run = make_run()](
                                   const RunTime& time) mutable { return run(*pair, time); },
                        .optional = true,
                        .time_share = kTimeShare});
  }
}

}  // namespace tapwire::apps::lab
