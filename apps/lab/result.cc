// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/result.h"

#include <algorithm>

#include "apps/lab/statistics.h"

namespace tapwire::apps::lab {

std::vector<double> QueueCosts(const RxPoint& point) {
  std::vector<double> costs;
  const std::vector<double>& with = point.queue.values;
  const std::vector<double>& without = point.reinject.values;
  if (point.packets_per_transaction <= 0) return costs;
  for (size_t i = 0; i < std::min(with.size(), without.size()); ++i) {
    costs.push_back((1 / with[i] - 1 / without[i]) * 1e9 / point.packets_per_transaction);
  }
  return costs;
}

const RxPoint& WorstPoint(const RxResult& result) {
  const auto ratio = [](const RxPoint& p) {
    return Summarize(PairedRatios(p.reinject.values, p.queue.values)).median;
  };
  return *std::min_element(result.veth.points.begin(), result.veth.points.end(),
                           [&](const RxPoint& a, const RxPoint& b) { return ratio(a) < ratio(b); });
}

}  // namespace tapwire::apps::lab
