// SPDX-License-Identifier: Apache-2.0
// The text report. Columns are those of iperf3 3.12, blanks at line ends included: scripts cut
// them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "apps/perf/iperf3_report.h"
#include "apps/perf/units.h"

namespace tapwire::apps::iperf3 {

std::string FormatHttpDate(int64_t unix_time) {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::FromUnixSeconds(unix_time),
                          absl::UTCTimeZone());
}

Summary MakeSummary(const Meter& meter, const Results& local, const Results* peer) {
  Summary summary{.local_cpu = local.cpu, .local_congestion = local.congestion};
  if (peer != nullptr) {
    summary.remote_cpu = peer->cpu;
    summary.remote_congestion = peer->congestion;
  }
  for (size_t i = 0; i < meter.size(); ++i) {
    const StreamTotals& totals = meter.totals(i);
    StreamSummary stream{.info = meter.info(i), .local = totals};
    const bool sender = stream.info.sender;
    EndTotals ours{.seconds = totals.seconds, .bytes = totals.bytes};
    if (sender) ours.retransmits = totals.retransmits;
    (sender ? stream.sender : stream.receiver) = ours;
    if (peer != nullptr) {
      const auto it =
          std::find_if(peer->streams.begin(), peer->streams.end(),
                       [&](const StreamResult& result) { return result.id == stream.info.id; });
      if (it != peer->streams.end()) {
        // An end that tells no times saw it as we did.
        EndTotals theirs{
            .seconds = it->end_s > it->start_s ? it->end_s - it->start_s : totals.seconds,
            .bytes = it->bytes};
        if (!sender && peer->sender_has_retransmits > 0 && it->retransmits >= 0) {
          theirs.retransmits = static_cast<uint64_t>(it->retransmits);
        }
        (sender ? stream.receiver : stream.sender) = theirs;
      }
    }
    summary.streams.push_back(stream);
  }
  return summary;
}

namespace {

constexpr char kDashes[] = "-----------------------------------------------------------\n";
constexpr char kSeparator[] = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
constexpr char kTitles[] = " Interval           Transfer     Bitrate";

struct Line {
  int number = 0;  // 0: the sum
  std::string role;
  double start_s = 0, end_s = 0;
  uint64_t bytes = 0;
};

class TextReport final : public Report {
 public:
  TextReport(ReportOptions options, Output output)
      : options_(std::move(options)), output_(std::move(output)) {}

  void OnListening(uint16_t port, int test_number) override;
  void OnOpening(const Opening& opening) override;
  void OnStreams(const std::vector<StreamInfo>& streams) override;
  void OnTestStart() override;
  void OnInterval(const Interval& interval) override;
  void OnSummary(const Summary& summary) override;
  bool OnEnd(const std::string& message) override;

 private:
  bool client() const { return options_.role == Role::kClient; }
  bool many() const { return params_.parallel > 1; }
  std::string RoleOf(bool sender) const;
  std::string Format(const Line& line) const;
  void PrintDirection(const Interval& interval, bool sender, std::string& text) const;
  void PrintSummaryDirection(const Summary& summary, bool sender, std::string& text) const;
  std::string FormatEnd(const StreamInfo* stream, bool sender, const EndTotals& end,
                        bool as_sender) const;
  std::string FormatCpu(const Summary& summary, bool sender) const;

  ReportOptions options_;
  Output output_;
  Params params_;
  std::vector<StreamInfo> streams_;
  bool banner_done_ = false;
  bool separated_ = false;
};

void TextReport::OnListening(uint16_t port, int test_number) {
  std::string text;
  if (options_.verbose && !std::exchange(banner_done_, true)) {
    absl::StrAppend(&text, options_.version, "\n", options_.system_info, "\n");
  }
  absl::StrAppend(&text, kDashes,
                  absl::StrFormat("Server listening on %d (test #%d)\n", port, test_number),
                  kDashes);
  output_(text);
}

void TextReport::OnOpening(const Opening& opening) {
  params_ = opening.params;
  streams_.clear();
  separated_ = false;
  std::string text;
  if (options_.verbose) {
    if (client()) {
      absl::StrAppend(&text, options_.version, "\n", options_.system_info, "\n",
                      "Control connection MSS ", opening.mss, "\n");
    }
    absl::StrAppend(&text, "Time: ", FormatHttpDate(opening.unix_time), "\n");
  }
  absl::StrAppend(&text, client() ? "Connecting to host " : "Accepted connection from ",
                  opening.peer_host, ", port ", opening.peer_port, "\n");
  if (client() && params_.reverse) {
    absl::StrAppend(&text, "Reverse mode, remote host ", opening.peer_host, " is sending\n");
  }
  if (options_.verbose) {
    absl::StrAppend(&text, "      Cookie: ", opening.cookie, "\n");
    if (params_.mss != 0) {
      absl::StrAppend(&text, "      TCP MSS: ", params_.mss, "\n");
    } else {
      absl::StrAppend(&text, "      TCP MSS: ", opening.mss, " (default)\n");
    }
    if (params_.bandwidth != 0) {
      absl::StrAppend(&text, "      Target Bitrate: ", params_.bandwidth, "\n");
    }
  }
  output_(text);
}

void TextReport::OnStreams(const std::vector<StreamInfo>& streams) {
  streams_ = streams;
  std::string text;
  for (const StreamInfo& stream : streams) {
    absl::StrAppendFormat(&text, "[%3d] local %s port %d connected to %s port %d\n", stream.number,
                          stream.local.address.ToString(), stream.local.port,
                          stream.remote.address.ToString(), stream.remote.port);
  }
  output_(text);
}

void TextReport::OnTestStart() {
  std::string text;
  if (options_.verbose) {
    text = absl::StrFormat(
        "Starting Test: protocol: TCP, %d streams, %d byte blocks, omitting %d seconds, ",
        params_.parallel, params_.length, params_.omit_s);
    if (params_.num != 0) {
      absl::StrAppend(&text, params_.num, " bytes to send");
    } else if (params_.blockcount != 0) {
      absl::StrAppend(&text, params_.blockcount, " blocks to send");
    } else {
      absl::StrAppend(&text, params_.time_s, " second test");
    }
    absl::StrAppend(&text, ", tos ", params_.tos, "\n");
  }
  const bool sends = client() ? params_.client_sends() : params_.server_sends();
  absl::StrAppend(&text, params_.bidirectional ? "[ ID][Role]" : "[ ID]", kTitles,
                  sends ? "         Retr  Cwnd\n" : "\n");
  output_(text);
}

std::string TextReport::RoleOf(bool sender) const {
  if (!params_.bidirectional) return "";
  return absl::StrCat(sender ? "[TX-" : "[RX-", client() ? "C]" : "S]");
}

std::string TextReport::Format(const Line& line) const {
  const double seconds = line.end_s - line.start_s;
  const double rate = seconds > 0 ? static_cast<double>(line.bytes) * 8 / seconds : 0;
  const std::string id =
      line.number == 0 ? std::string("[SUM]") : absl::StrFormat("[%3d]", line.number);
  return absl::StrFormat("%s%s %6.2f-%-6.2f sec  %s  %s/sec", id, line.role, line.start_s,
                         line.end_s, perf::FormatBytes(static_cast<double>(line.bytes)),
                         perf::FormatRate(rate, options_.unit));
}

void TextReport::PrintDirection(const Interval& interval, bool sender, std::string& text) const {
  const char* const omitted = interval.omitted ? "(omitted)\n" : "\n";
  Line sum{.role = RoleOf(sender)};
  uint64_t retransmits = 0;
  bool any = false;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].sender != sender) continue;
    const StreamInterval& stream = interval.streams[i];
    if (!std::exchange(any, true)) {
      sum.start_s = stream.start_s;
      sum.end_s = stream.end_s;
    }
    sum.bytes += stream.bytes;
    retransmits += stream.retransmits;
    absl::StrAppend(&text, Format({.number = streams_[i].number,
                                   .role = RoleOf(sender),
                                   .start_s = stream.start_s,
                                   .end_s = stream.end_s,
                                   .bytes = stream.bytes}));
    if (sender) {
      absl::StrAppendFormat(&text, "  %3u   %s       %s", stream.retransmits,
                            perf::FormatBytes(static_cast<double>(stream.tcp.cwnd)), omitted);
    } else {
      absl::StrAppendFormat(&text, "%18s%s", "", omitted);
    }
  }
  if (!any || !many()) return;
  absl::StrAppend(&text, Format(sum));
  if (sender) {
    absl::StrAppendFormat(&text, "  %3u%13s%s", retransmits, "", omitted);
  } else {
    absl::StrAppendFormat(&text, "%18s%s", "", omitted);
  }
}

// The direction of the first stream comes first: of the client its sending, of the server its
// receiving.
void TextReport::OnInterval(const Interval& interval) {
  std::string text;
  const bool first = streams_.empty() || streams_.front().sender;
  PrintDirection(interval, first, text);
  PrintDirection(interval, !first, text);
  if (many()) {
    text += kSeparator;
    separated_ = true;
  }
  output_(text);
}

// The line of one end of a stream, or of the sum for a null stream.
std::string TextReport::FormatEnd(const StreamInfo* stream, bool sender, const EndTotals& end,
                                  bool as_sender) const {
  std::string text = Format({.number = stream == nullptr ? 0 : stream->number,
                             .role = RoleOf(sender),
                             .end_s = end.seconds,
                             .bytes = end.bytes});
  if (as_sender && end.retransmits) {
    absl::StrAppendFormat(&text, "  %3u%13ssender\n", *end.retransmits, "");
  } else {
    absl::StrAppendFormat(&text, "%18s%s\n", "", as_sender ? "sender" : "receiver");
  }
  return text;
}

void AddEnd(const EndTotals& end, std::optional<EndTotals>& sum) {
  if (!sum) {
    sum = end;
    return;
  }
  sum->seconds = std::max(sum->seconds, end.seconds);
  sum->bytes += end.bytes;
  if (end.retransmits && sum->retransmits) {
    *sum->retransmits += *end.retransmits;
  } else {
    sum->retransmits.reset();
  }
}

// Client: both ends of each stream. Server: its own.
void TextReport::PrintSummaryDirection(const Summary& summary, bool sender,
                                       std::string& text) const {
  std::optional<EndTotals> sum_sent, sum_received;
  for (const StreamSummary& stream : summary.streams) {
    if (stream.info.sender != sender) continue;
    // Nothing is known of an end that has not told: shown as nothing transferred.
    const EndTotals nothing{.seconds = stream.local.seconds};
    if (client() || sender) {
      const EndTotals end = stream.sender.value_or(nothing);
      absl::StrAppend(&text, FormatEnd(&stream.info, sender, end, true));
      AddEnd(end, sum_sent);
    }
    if (client() || !sender) {
      const EndTotals end = stream.receiver.value_or(nothing);
      absl::StrAppend(&text, FormatEnd(&stream.info, sender, end, false));
      AddEnd(end, sum_received);
    }
  }
  if (!many()) return;
  if (sum_sent) absl::StrAppend(&text, FormatEnd(nullptr, sender, *sum_sent, true));
  if (sum_received) absl::StrAppend(&text, FormatEnd(nullptr, sender, *sum_received, false));
}

std::string TextReport::FormatCpu(const Summary& summary, bool sender) const {
  const CpuUse& local = summary.local_cpu;
  const CpuUse& remote = summary.remote_cpu;
  return absl::StrFormat(
      "CPU Utilization: local/%s %.1f%% (%.1f%%u/%.1f%%s), remote/%s %.1f%% (%.1f%%u/%.1f%%s)\n",
      sender ? "sender" : "receiver", local.total, local.user, local.system,
      sender ? "receiver" : "sender", remote.total, remote.user, remote.system);
}

void TextReport::OnSummary(const Summary& summary) {
  std::string text;
  if (!separated_) text += kSeparator;
  if (options_.verbose) text += "Test Complete. Summary Results:\n";
  const bool retransmits =
      std::any_of(summary.streams.begin(), summary.streams.end(), [&](const StreamSummary& s) {
        return s.sender && s.sender->retransmits && (client() || s.info.sender);
      });
  absl::StrAppend(&text, params_.bidirectional ? "[ ID][Role]" : "[ ID]", kTitles,
                  retransmits ? "         Retr\n" : "\n");
  const bool first = summary.streams.empty() || summary.streams.front().info.sender;
  PrintSummaryDirection(summary, first, text);
  PrintSummaryDirection(summary, !first, text);
  if (options_.verbose) {
    if (client()) text += FormatCpu(summary, first);
    const std::string& sender = first ? summary.local_congestion : summary.remote_congestion;
    const std::string& receiver = first ? summary.remote_congestion : summary.local_congestion;
    if (!sender.empty()) absl::StrAppend(&text, "snd_tcp_congestion ", sender, "\n");
    if (!receiver.empty()) absl::StrAppend(&text, "rcv_tcp_congestion ", receiver, "\n");
  }
  output_(text);
}

bool TextReport::OnEnd(const std::string& message) {
  if (client() && message.empty()) output_("\niperf Done.\n");
  return false;
}

}  // namespace

std::unique_ptr<Report> MakeTextReport(ReportOptions options, Report::Output output) {
  return std::make_unique<TextReport>(std::move(options), std::move(output));
}

}  // namespace tapwire::apps::iperf3
