// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/turns.h"

#include <algorithm>
#include <utility>

#include "apps/lab/process.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {
namespace {

constexpr int kTriesPerRun = 3;
// Of one lab: a machine that is never quiet must not make it endless.
constexpr int kMaxRepeats = 8;

RunTime TimeFor(double seconds) { return {std::min(0.1, seconds / 4), seconds}; }

void GiveUp(Series& series, const absl::Status& status) {
  series.values.clear();
  series.problem = std::string(status.message());
}

}  // namespace

// Of a run that cannot be had in quiet the last one counts.
absl::StatusOr<double> Turns::RunQuietly(Variant& variant, const RunTime& time) {
  for (int tries = 1;; ++tries) {
    TW_RETURN_IF_ERROR(Interruption::Check());
    const ForeignLoad load;
    absl::StatusOr<double> rate = variant.run(time);
    TW_RETURN_IF_ERROR(Interruption::Check());
    if (!rate.ok() || !load.disturbed()) return rate;
    if (tries == kTriesPerRun || repeated_ >= kMaxRepeats) {
      ++disturbed_;
      return rate;
    }
    ++repeated_;
  }
}

absl::StatusOr<std::vector<Series>> Turns::Measure(std::vector<Variant>& variants, double seconds) {
  std::vector<Series> all;
  all.reserve(variants.size());
  for (const Variant& variant : variants) all.push_back({.name = variant.name});
  for (int round = -1; round < pairs_; ++round) {
    const bool warm_up = round < 0;
    for (size_t i = 0; i < variants.size(); ++i) {
      if (!all[i].problem.empty()) continue;
      const absl::StatusOr<double> rate =
          warm_up ? variants[i].run(TimeFor(std::min(0.1, seconds)))
                  : RunQuietly(variants[i], TimeFor(seconds * variants[i].time_share));
      TW_RETURN_IF_ERROR(Interruption::Check());
      if (!rate.ok() && !variants[i].optional) return rate.status();
      if (!rate.ok()) {
        GiveUp(all[i], rate.status());
      } else if (!warm_up) {
        all[i].values.push_back(*rate);
      }
    }
  }
  return all;
}

}  // namespace tapwire::apps::lab
