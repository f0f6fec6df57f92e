// SPDX-License-Identifier: Apache-2.0
// What a lab has measured, and how it is said: the mail's own table beside ours, or one JSON
// object.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "apps/lab/turns.h"

namespace tapwire::apps::lab {

// The same for all runs of a lab.
struct Conditions {
  int pairs = 0;
  double seconds = 0;       // of a run
  double side_seconds = 0;  // of one beside the experiment itself
  int cpu = -1;             // -1: not kept on one
  int repeated = 0, disturbed = 0;
};

// The kernel in the place of ours. plain, gso_max_segs_1, veth_no_offloads; empty with a reason.
struct KernelPoint {
  size_t flows = 0;  // macvlan-rx
  std::vector<Series> series = {};
};
struct KernelResult {
  std::string release = {};
  std::string problem = {};
  std::vector<KernelPoint> points = {};
};

struct FeaturesResult {
  Conditions conditions;
  std::vector<Series> variants;  // in the order of kFeatureVariants, bits per second
  KernelResult kernel;
};

struct RxPoint {
  size_t flows = 0;
  Series reinject = {}, queue = {};  // transactions per second
  double packets_per_transaction = 0;
};
// Nanoseconds per packet that queue takes longer, of each pair.
std::vector<double> QueueCosts(const RxPoint& point);

struct RxSource {
  std::string title = {};
  std::string problem = {};  // why there is no point, or not all
  std::vector<RxPoint> points = {};
};
struct RxResult {
  Conditions conditions;
  RxSource veth;                 // the experiment itself
  std::vector<RxSource> others;  // a thread, a TAP
  KernelResult kernel;
};

// That other load spoilt runs, a line each; empty if none did.
std::string Quietness(const Conditions& conditions);

// The point of lowest median ratio, which is what the lab is judged by.
const RxPoint& WorstPoint(const RxResult& result);

std::string FeaturesText(const FeaturesResult& result);
std::string RxText(const RxResult& result);
// One line each.
std::string FeaturesJson(const FeaturesResult& result);
std::string RxJson(const RxResult& result);
std::string ErrorJson(absl::string_view experiment, absl::string_view message);

// ---- The mails' figures ----

struct MailRxRow {
  size_t flows;
  double before, after;  // transactions per second
  double change_percent;
};
inline constexpr double kMailInherited = 1204.61, kMailAlwaysOn = 5507.35;  // 10^6 bits/s
inline constexpr double kMailFeaturesRatio = 4.57;
inline constexpr MailRxRow kMailRx[] = {
    {10, 208101, 211534, 1.6},  {100, 839493, 850162, 1.3}, {200, 845071, 844053, -0.12},
    {300, 816330, 819623, 0.4}, {400, 778700, 789938, 1.4}, {500, 735984, 754408, 2.5},
};

}  // namespace tapwire::apps::lab
