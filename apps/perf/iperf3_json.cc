// SPDX-License-Identifier: Apache-2.0
// The report as one JSON object, printed when a test has ended. Key names and their order are those
// of iperf3 3.12; sums are over the direction of the first stream, the other one of a bidirectional
// test has its own ("…_bidir_reverse").
#include <algorithm>
#include <utility>

#include "apps/perf/iperf3_report.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps::iperf3 {
namespace {

using Json = nlohmann::ordered_json;

double Rate(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) * 8 / seconds : 0;
}

// start, end, seconds, bytes and bits_per_second, which every entry begins with.
void AddSpan(Json& entry, double start, double end, uint64_t bytes) {
  entry["start"] = start;
  entry["end"] = end;
  entry["seconds"] = end - start;
  entry["bytes"] = bytes;
  entry["bits_per_second"] = Rate(bytes, end - start);
}

class JsonReport final : public Report {
 public:
  JsonReport(ReportOptions options, Output output)
      : options_(std::move(options)), output_(std::move(output)) {
    Clear();
  }

  void OnListening(uint16_t, int) override { Clear(); }
  void OnOpening(const Opening& opening) override;
  void OnStreams(const std::vector<StreamInfo>& streams) override;
  void OnTestStart() override;
  void OnInterval(const Interval& interval) override;
  void OnSummary(const Summary& summary) override;
  bool OnEnd(const std::string& message) override;

 private:
  void Clear();
  Json SumInterval(const Interval& interval, bool sender) const;
  Json SumSummary(const Summary& summary, bool sender, bool sent) const;
  Json SenderEnd(const StreamSummary& stream) const;
  Json ReceiverEnd(const StreamSummary& stream) const;

  ReportOptions options_;
  Output output_;
  Params params_;
  std::vector<StreamInfo> streams_;
  bool first_sends_ = true;
  Json start_, intervals_, end_;
};

void JsonReport::Clear() {
  streams_.clear();
  params_ = Params();
  start_ = Json::object();
  start_["connected"] = Json::array();
  start_["version"] = options_.version;
  start_["system_info"] = options_.system_info;
  intervals_ = Json::array();
  end_ = Json::object();
}

void JsonReport::OnOpening(const Opening& opening) {
  params_ = opening.params;
  start_["timestamp"] = {{"time", FormatHttpDate(opening.unix_time)},
                         {"timesecs", opening.unix_time}};
  const bool client = options_.role == Role::kClient;
  start_[client ? "connecting_to" : "accepted_connection"] = {{"host", opening.peer_host},
                                                              {"port", opening.peer_port}};
  start_["cookie"] = opening.cookie;
  if (params_.mss != 0) {
    start_["tcp_mss"] = params_.mss;
  } else {
    start_["tcp_mss_default"] = opening.mss;
  }
  start_["target_bitrate"] = params_.bandwidth;
  start_["sock_bufsize"] = params_.window;
  start_["sndbuf_actual"] = opening.send_buffer;
  start_["rcvbuf_actual"] = opening.receive_buffer;
}

void JsonReport::OnStreams(const std::vector<StreamInfo>& streams) {
  streams_ = streams;
  first_sends_ = streams.empty() || streams.front().sender;
  for (const StreamInfo& stream : streams) {
    Json entry;
    entry["socket"] = stream.number;
    entry["local_host"] = stream.local.address.ToString();
    entry["local_port"] = stream.local.port;
    entry["remote_host"] = stream.remote.address.ToString();
    entry["remote_port"] = stream.remote.port;
    start_["connected"].push_back(std::move(entry));
  }
}

void JsonReport::OnTestStart() {
  Json test;
  test["protocol"] = "TCP";
  test["num_streams"] = params_.parallel;
  test["blksize"] = params_.length;
  test["omit"] = params_.omit_s;
  test["duration"] = params_.time_s;
  test["bytes"] = params_.num;
  test["blocks"] = params_.blockcount;
  test["reverse"] = params_.reverse ? 1 : 0;
  test["tos"] = params_.tos;
  test["target_bitrate"] = params_.bandwidth;
  test["bidir"] = params_.bidirectional ? 1 : 0;
  start_["test_start"] = std::move(test);
}

Json JsonReport::SumInterval(const Interval& interval, bool sender) const {
  uint64_t bytes = 0, retransmits = 0;
  double start = 0, end = 0;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].sender != sender) continue;
    const StreamInterval& stream = interval.streams[i];
    bytes += stream.bytes;
    retransmits += stream.retransmits;
    start = stream.start_s;
    end = stream.end_s;
  }
  Json sum;
  AddSpan(sum, start, end, bytes);
  if (sender) sum["retransmits"] = retransmits;
  sum["omitted"] = interval.omitted;
  sum["sender"] = sender;
  return sum;
}

void JsonReport::OnInterval(const Interval& interval) {
  Json entry;
  entry["streams"] = Json::array();
  for (size_t i = 0; i < streams_.size(); ++i) {
    const StreamInterval& stream = interval.streams[i];
    Json item;
    item["socket"] = streams_[i].number;
    AddSpan(item, stream.start_s, stream.end_s, stream.bytes);
    if (streams_[i].sender) {
      item["retransmits"] = stream.retransmits;
      item["snd_cwnd"] = stream.tcp.cwnd;
      item["snd_wnd"] = stream.tcp.snd_wnd;
      item["rtt"] = stream.tcp.rtt_us;
      item["rttvar"] = stream.tcp.rttvar_us;
      item["pmtu"] = stream.tcp.pmtu;
    }
    item["omitted"] = interval.omitted;
    item["sender"] = streams_[i].sender;
    entry["streams"].push_back(std::move(item));
  }
  entry["sum"] = SumInterval(interval, first_sends_);
  if (params_.bidirectional) entry["sum_bidir_reverse"] = SumInterval(interval, !first_sends_);
  intervals_.push_back(std::move(entry));
}

Json JsonReport::SenderEnd(const StreamSummary& stream) const {
  const EndTotals end = stream.sender.value_or(EndTotals{.seconds = stream.local.seconds});
  Json entry;
  entry["socket"] = stream.info.number;
  AddSpan(entry, 0, end.seconds, end.bytes);
  if (end.retransmits) {
    entry["retransmits"] = *end.retransmits;
    entry["max_snd_cwnd"] = stream.local.max_cwnd;
    entry["max_snd_wnd"] = stream.local.max_snd_wnd;
    entry["max_rtt"] = stream.local.max_rtt_us;
    entry["min_rtt"] = stream.local.min_rtt_us;
    entry["mean_rtt"] = stream.local.mean_rtt_us();
  }
  entry["sender"] = stream.info.sender;
  return entry;
}

Json JsonReport::ReceiverEnd(const StreamSummary& stream) const {
  const EndTotals end = stream.receiver.value_or(EndTotals{.seconds = stream.local.seconds});
  Json entry;
  entry["socket"] = stream.info.number;
  AddSpan(entry, 0, end.seconds, end.bytes);
  entry["sender"] = stream.info.sender;
  return entry;
}

// `sent`: as the senders counted; otherwise as the receivers did.
Json JsonReport::SumSummary(const Summary& summary, bool sender, bool sent) const {
  uint64_t bytes = 0, retransmits = 0;
  double seconds = 0;
  bool known = sent;
  for (const StreamSummary& stream : summary.streams) {
    if (stream.info.sender != sender) continue;
    const EndTotals end = (sent ? stream.sender : stream.receiver)
                              .value_or(EndTotals{.seconds = stream.local.seconds});
    bytes += end.bytes;
    seconds = std::max(seconds, end.seconds);
    known = known && end.retransmits.has_value();
    retransmits += end.retransmits.value_or(0);
  }
  Json sum;
  AddSpan(sum, 0, seconds, bytes);
  if (known) sum["retransmits"] = retransmits;
  sum["sender"] = sender;
  return sum;
}

void JsonReport::OnSummary(const Summary& summary) {
  end_["streams"] = Json::array();
  for (const StreamSummary& stream : summary.streams) {
    Json entry;
    entry["sender"] = SenderEnd(stream);
    entry["receiver"] = ReceiverEnd(stream);
    end_["streams"].push_back(std::move(entry));
  }
  end_["sum_sent"] = SumSummary(summary, first_sends_, true);
  end_["sum_received"] = SumSummary(summary, first_sends_, false);
  if (params_.bidirectional) {
    end_["sum_sent_bidir_reverse"] = SumSummary(summary, !first_sends_, true);
    end_["sum_received_bidir_reverse"] = SumSummary(summary, !first_sends_, false);
  }
  Json cpu;
  cpu["host_total"] = summary.local_cpu.total;
  cpu["host_user"] = summary.local_cpu.user;
  cpu["host_system"] = summary.local_cpu.system;
  cpu["remote_total"] = summary.remote_cpu.total;
  cpu["remote_user"] = summary.remote_cpu.user;
  cpu["remote_system"] = summary.remote_cpu.system;
  end_["cpu_utilization_percent"] = std::move(cpu);
  const std::string& sender = first_sends_ ? summary.local_congestion : summary.remote_congestion;
  const std::string& receiver = first_sends_ ? summary.remote_congestion : summary.local_congestion;
  if (!sender.empty()) end_["sender_tcp_congestion"] = sender;
  if (!receiver.empty()) end_["receiver_tcp_congestion"] = receiver;
}

bool JsonReport::OnEnd(const std::string& message) {
  Json object;
  object["start"] = start_;
  object["intervals"] = intervals_;
  object["end"] = end_;
  if (!message.empty()) object["error"] = message;
  output_(object.dump(1, '\t', false, Json::error_handler_t::replace) + "\n");
  Clear();
  return !message.empty();
}

}  // namespace

std::unique_ptr<Report> MakeJsonReport(ReportOptions options, Report::Output output) {
  return std::make_unique<JsonReport>(std::move(options), std::move(output));
}

}  // namespace tapwire::apps::iperf3
