// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "apps/lab/result.h"
#include "apps/lab/statistics.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMegabits[] = "Mbit/s";
constexpr char kTransactions[] = "transactions/s";

Json VariantJson(std::vector<double> values, double unit_size, const char* unit) {
  for (double& value : values) value /= unit_size;
  const Summary summary = Summarize(std::move(values));
  return {{"median", summary.median}, {"min", summary.min}, {"max", summary.max}, {"unit", unit}};
}

Json RatioJson(const Series& first, const Series& second) {
  const Summary summary = Summarize(PairedRatios(first.values, second.values));
  return {{"median", summary.median}, {"min", summary.min}, {"max", summary.max}};
}

// Null without any figure.
Json KernelJson(const KernelPoint* point, double unit_size, const char* unit) {
  if (point == nullptr) return nullptr;
  Json variants = Json::object();
  for (const Series& series : point->series) {
    if (series.values.empty()) continue;
    variants[series.name] = VariantJson(series.values, unit_size, unit);
  }
  if (variants.empty()) return nullptr;
  return {{"variants", variants}};
}

Json RxVariants(const RxPoint& point) {
  return {{"reinject", VariantJson(point.reinject.values, 1, kTransactions)},
          {"queue", VariantJson(point.queue.values, 1, kTransactions)}};
}

Json MailRxJson() {
  Json points = Json::array();
  for (const MailRxRow& row : kMailRx) {
    points.push_back({{"n", row.flows},
                      {"before", row.before},
                      {"after", row.after},
                      {"change_percent", row.change_percent}});
  }
  return {{"date", "2014-10-10"}, {"unit", kTransactions}, {"points", points}};
}

// That of the number of flows nearest to the one given.
const KernelPoint* NearestPoint(const KernelResult& kernel, size_t flows) {
  const KernelPoint* best = nullptr;
  const auto distance = [&](const KernelPoint& p) {
    return std::abs(static_cast<double>(p.flows) - static_cast<double>(flows));
  };
  for (const KernelPoint& point : kernel.points) {
    if (best == nullptr || distance(point) < distance(*best)) best = &point;
  }
  return best;
}

std::string OneLineOf(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string FeaturesJson(const FeaturesResult& result) {
  Json variants = Json::object();
  for (const Series& series : result.variants) {
    variants[series.name] = VariantJson(series.values, 1e6, kMegabits);
  }
  Json object;
  object["experiment"] = "macvlan-features";
  object["variants"] = variants;
  object["ratio"] = RatioJson(result.variants[0], result.variants[1]);
  object["mail"] = {{"date", "2014-03-03"},
                    {"unit", kMegabits},
                    {"always_on", kMailAlwaysOn},
                    {"inherited", kMailInherited},
                    {"ratio", kMailFeaturesRatio}};
  object["kernel"] = KernelJson(NearestPoint(result.kernel, 0), 1e6, kMegabits);
  object["runs"] = result.conditions.pairs;
  return OneLineOf(object);
}

std::string RxJson(const RxResult& result) {
  const RxPoint& worst = WorstPoint(result);
  Json points = Json::array();
  for (const RxPoint& point : result.veth.points) {
    points.push_back({{"n", point.flows},
                      {"variants", RxVariants(point)},
                      {"ratio", RatioJson(point.reinject, point.queue)}});
  }
  Json object;
  object["experiment"] = "macvlan-rx";
  object["variants"] = RxVariants(worst);
  object["ratio"] = RatioJson(worst.reinject, worst.queue);
  object["mail"] = MailRxJson();
  object["kernel"] = KernelJson(NearestPoint(result.kernel, worst.flows), 1, kTransactions);
  object["runs"] = result.conditions.pairs;
  object["points"] = points;
  return OneLineOf(object);
}

std::string ErrorJson(absl::string_view experiment, absl::string_view message) {
  return OneLineOf({{"experiment", std::string(experiment)}, {"error", std::string(message)}});
}

}  // namespace tapwire::apps::lab
