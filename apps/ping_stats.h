// SPDX-License-Identifier: Apache-2.0
// What ping counts and how it says so, in the layout of iputils. No I/O.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "netdev/base/time.h"

namespace tapwire::apps {

class PingStats {
 public:
  void OnSent() { ++sent_; }
  void OnReply(Duration rtt);
  void OnDuplicate() { ++duplicates_; }
  void OnError() { ++errors_; }

  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t errors() const { return errors_; }

  // "3 packets transmitted, 3 received, 0% packet loss, time 434ms" and, with replies that could be
  // timed, "rtt min/avg/max/mdev = a/b/c/d ms".
  std::string Summary(absl::string_view target, Duration elapsed) const;
  // The one-line interim form of SIGQUIT: "2/3 packets, 33% loss, min/avg/max/mdev = …".
  std::string Interim() const;

 private:
  double LossPercent() const;
  std::string RttText() const;  // "a/b/c/d", milliseconds with three decimals

  uint64_t sent_ = 0, received_ = 0, duplicates_ = 0, errors_ = 0, timed_ = 0;
  double sum_ms_ = 0, sum_squares_ms_ = 0;
  double min_ms_ = 0, max_ms_ = 0;
};

// "0.095", "12.3", "456": as many digits as iputils gives a single reply.
std::string FormatRtt(Duration rtt);

}  // namespace tapwire::apps
