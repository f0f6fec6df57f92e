// SPDX-License-Identifier: Apache-2.0
// What a test tells its user: as text in iperf3's columns, or as one JSON object at the end.
// Reports turn facts into text and hand it to their output; they read no clock and no socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/perf/iperf3_meter.h"
#include "apps/perf/iperf3_protocol.h"

namespace tapwire::apps::iperf3 {

enum class Role { kClient, kServer };

// The control connection stands, and the parameters are known.
struct Opening {
  Params params;
  std::string peer_host;  // client: the server it connects to
  uint16_t peer_port = 0;
  std::string cookie;
  uint32_t mss = 0;       // of the control connection
  int64_t unix_time = 0;  // seconds
  uint64_t send_buffer = 0, receive_buffer = 0;
};

// One direction of one stream as its sender or its receiver saw it.
struct EndTotals {
  double seconds = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> retransmits = {};  // none: a receiver, or not known
};

struct StreamSummary {
  StreamInfo info = {};
  std::optional<EndTotals> sender = {}, receiver = {};  // none: that end has not told
  StreamTotals local = {};
};

struct Summary {
  std::vector<StreamSummary> streams = {};
  CpuUse local_cpu = {}, remote_cpu = {};
  std::string local_congestion = {}, remote_congestion = {};
};
// Joins both ends' results by stream id. `peer` is null if there are none.
Summary MakeSummary(const Meter& meter, const Results& local, const Results* peer);

class Report {
 public:
  // Receives whole lines of standard output.
  using Output = std::function<void(const std::string&)>;

  virtual ~Report() = default;
  virtual void OnListening(uint16_t port, int test_number) = 0;  // server, before each test
  virtual void OnOpening(const Opening& opening) = 0;
  virtual void OnStreams(const std::vector<StreamInfo>& streams) = 0;
  virtual void OnTestStart() = 0;
  virtual void OnInterval(const Interval& interval) = 0;
  virtual void OnSummary(const Summary& summary) = 0;
  // The end of every test. `message`: "error - …" or what else is to be said; empty: all is good.
  // True if the report shows it itself; otherwise it belongs on standard error.
  virtual bool OnEnd(const std::string& message) = 0;
};

struct ReportOptions {
  Role role = Role::kClient;
  bool verbose = false;
  char unit = 'a';
  std::string version = {};      // "tapwire 0.1.0"
  std::string system_info = {};  // as uname has it
};
std::unique_ptr<Report> MakeTextReport(ReportOptions options, Report::Output output);
std::unique_ptr<Report> MakeJsonReport(ReportOptions options, Report::Output output);

// "Mon, 30 Nov 2026 10:08:57 GMT" (RFC 9110 §5.6.7).
std::string FormatHttpDate(int64_t unix_time);

}  // namespace tapwire::apps::iperf3
