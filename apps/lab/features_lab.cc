// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "apps/lab/hosts.h"
#include "apps/lab/kernel_column.h"
#include "apps/lab/kernel_traffic.h"
#include "apps/lab/lab.h"
#include "apps/lab/process.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {

absl::StatusOr<FeaturesResult> RunFeaturesLab(LabOptions& options) {
  const OneProcessor processor;
  const KernelColumn kernel(options.kernel, KernelClient::kSecondMacvlan);
  std::vector<Variant> variants;
  for (const FeatureVariant& variant : kFeatureVariants) {
    variants.push_back({.name = std::string(variant.name), .run = [&variant](const RunTime& time) {
                          return RunFeatureVariant(variant, time);
                        }});
  }
  const size_t ours = variants.size();
  kernel.AddTo(variants, [] { return KernelColumn::Run(RunKernelBulk); });

  options.progress("all variants");
  Turns turns(options.pairs);
  TW_ASSIGN_OR_RETURN(std::vector<Series> series, turns.Measure(variants, options.seconds));
  FeaturesResult result;
  result.kernel = {.release = KernelRelease(), .problem = kernel.problem()};
  if (series.size() > ours) {
    result.kernel.points.push_back(
        {.series = {std::make_move_iterator(series.begin() + static_cast<ptrdiff_t>(ours)),
                    std::make_move_iterator(series.end())}});
    series.resize(ours);
  }
  result.variants = std::move(series);
  result.conditions = {.pairs = options.pairs,
                       .seconds = options.seconds,
                       .side_seconds = options.seconds / 2,
                       .cpu = processor.cpu(),
                       .repeated = turns.repeated(),
                       .disturbed = turns.disturbed()};
  return result;
}

}  // namespace tapwire::apps::lab
