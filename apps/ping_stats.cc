// SPDX-License-Identifier: Apache-2.0
#include "apps/ping_stats.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire::apps {
namespace {

double Milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace

void PingStats::OnReply(Duration rtt) {
  const double ms = Milliseconds(rtt);
  min_ms_ = timed_ == 0 ? ms : std::min(min_ms_, ms);
  max_ms_ = timed_ == 0 ? ms : std::max(max_ms_, ms);
  sum_ms_ += ms;
  sum_squares_ms_ += ms * ms;
  ++timed_;
  ++received_;
}

double PingStats::LossPercent() const {
  if (sent_ == 0) return 0;
  const uint64_t lost = sent_ - std::min(sent_, received_);
  return static_cast<double>(lost) * 100 / static_cast<double>(sent_);
}

std::string PingStats::RttText() const {
  const double count = static_cast<double>(timed_);
  const double mean = sum_ms_ / count;
  const double variance = std::max(0.0, sum_squares_ms_ / count - mean * mean);
  return absl::StrFormat("%.3f/%.3f/%.3f/%.3f", min_ms_, mean, max_ms_, std::sqrt(variance));
}

std::string PingStats::Summary(absl::string_view target, Duration elapsed) const {
  std::string text = absl::StrCat("\n--- ", target, " ping statistics ---\n", sent_,
                                  " packets transmitted, ", received_, " received");
  if (duplicates_ > 0) absl::StrAppend(&text, ", +", duplicates_, " duplicates");
  if (errors_ > 0) absl::StrAppend(&text, ", +", errors_, " errors");
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  absl::StrAppendFormat(&text, ", %g%% packet loss, time %dms\n", LossPercent(), ms);
  absl::StrAppend(&text,
                  timed_ > 0 ? absl::StrCat("rtt min/avg/max/mdev = ", RttText(), " ms\n") : "\n");
  return text;
}

std::string PingStats::Interim() const {
  std::string text =
      absl::StrCat(received_, "/", sent_, " packets, ", static_cast<int>(LossPercent()), "% loss");
  if (timed_ > 0) absl::StrAppend(&text, ", min/avg/max/mdev = ", RttText(), " ms");
  return text;
}

std::string FormatRtt(Duration rtt) {
  const double ms = Milliseconds(rtt);
  // The borders lie where rounding would give a digit more.
  if (ms >= 99.95) return absl::StrFormat("%.0f", ms);
  if (ms >= 9.995) return absl::StrFormat("%.1f", ms);
  if (ms >= 0.9995) return absl::StrFormat("%.2f", ms);
  return absl::StrFormat("%.3f", ms);
}

}  // namespace tapwire::apps
