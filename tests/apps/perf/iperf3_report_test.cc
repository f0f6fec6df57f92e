// SPDX-License-Identifier: Apache-2.0
// Reports from fixed numbers, compared with lines that iperf3 3.12 printed for the same numbers.

#include "apps/perf/iperf3_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/perf/iperf3_meter.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps::iperf3 {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;
constexpr uint64_t kKiB = 1024;

StreamInfo Info(int id, int number, bool sender, uint16_t client_port, Role role = Role::kClient) {
  const Endpoint client{Ipv4Address(10, 77, 0, 1), client_port, 0};
  const Endpoint server{Ipv4Address(10, 77, 0, 2), 5201, 0};
  const bool ours = role == Role::kClient;
  return {.id = id,
          .number = number,
          .sender = sender,
          .local = ours ? client : server,
          .remote = ours ? server : client};
}

StreamInterval Span(double start, double end, uint64_t bytes, uint64_t retransmits = 0,
                    uint64_t cwnd = 0) {
  return {.start_s = start,
          .end_s = end,
          .bytes = bytes,
          .retransmits = retransmits,
          .tcp = {.cwnd = cwnd}};
}

StreamSummary Ends(const StreamInfo& info, std::optional<EndTotals> sender,
                   std::optional<EndTotals> receiver, double local_s) {
  StreamSummary stream{.info = info, .sender = sender, .receiver = receiver};
  stream.local.seconds = local_s;
  return stream;
}

class Iperf3TextTest : public ::testing::Test {
 protected:
  void Make(Role role, const Params& params, bool verbose = false, char unit = 'a') {
    text_.clear();
    report_ = MakeTextReport({.role = role,
                              .verbose = verbose,
                              .unit = unit,
                              .version = "tapwire 0.1.0",
                              .system_info = "Linux host"},
                             [this](const std::string& text) { text_ += text; });
    if (role == Role::kServer) report_->OnListening(5201, 1);
    report_->OnOpening({.params = params,
                        .peer_host = role == Role::kClient ? "10.77.0.2" : "10.77.0.1",
                        .peer_port = static_cast<uint16_t>(role == Role::kClient ? 5201 : 52956),
                        .cookie = "qhtdwqzwtqkcsgrjiuyzpb4v5e7mgkouaetp",
                        .mss = 1448,
                        .unix_time = 1'796'033'337});
  }
  void Start(const std::vector<StreamInfo>& streams) {
    streams_ = streams;
    report_->OnStreams(streams);
    report_->OnTestStart();
  }

  std::unique_ptr<Report> report_;
  std::vector<StreamInfo> streams_;
  std::string text_;
};

TEST_F(Iperf3TextTest, ClientThatSends) {
  Make(Role::kClient, {});
  Start({Info(1, 5, true, 52960)});
  report_->OnInterval({{Span(0, 1.0003, 595 * kMiB, 0, 2'023'752)}, false});
  report_->OnInterval({{Span(1.0003, 2.0016, 678 * kMiB, 596, 335'936)}, false});
  report_->OnInterval({{Span(2.0016, 3.0041, 521 * kMiB, 1503, 512'592)}, false});
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{3.0041, 1794 * kMiB, 2099},
                                       EndTotals{3.0042, 1794 * kMiB, std::nullopt}, 3.0041)}});
  EXPECT_FALSE(report_->OnEnd(""));
  EXPECT_EQ(text_,
            "Connecting to host 10.77.0.2, port 5201\n"
            "[  5] local 10.77.0.1 port 52960 connected to 10.77.0.2 port 5201\n"
            "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
            "[  5]   0.00-1.00   sec   595 MBytes  4.99 Gbits/sec    0   1.93 MBytes       \n"
            "[  5]   1.00-2.00   sec   678 MBytes  5.68 Gbits/sec  596    328 KBytes       \n"
            "[  5]   2.00-3.00   sec   521 MBytes  4.36 Gbits/sec  1503    501 KBytes       \n"
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
            "[ ID] Interval           Transfer     Bitrate         Retr\n"
            "[  5]   0.00-3.00   sec  1.75 GBytes  5.01 Gbits/sec  2099             sender\n"
            "[  5]   0.00-3.00   sec  1.75 GBytes  5.01 Gbits/sec                  receiver\n"
            "\n"
            "iperf Done.\n");
}

TEST_F(Iperf3TextTest, ServerThatReceives) {
  Make(Role::kServer, {});
  Start({Info(1, 5, false, 52960, Role::kServer)});
  report_->OnInterval({{Span(0, 1.0035, 591 * kMiB)}, false});
  report_->OnInterval({{Span(2.9997, 3.0041, 640 * kKiB)}, false});
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{3, 1, 7},
                                       EndTotals{3.0041, 1794 * kMiB, std::nullopt}, 3.0041)}});
  EXPECT_FALSE(report_->OnEnd(""));
  EXPECT_EQ(text_,
            "-----------------------------------------------------------\n"
            "Server listening on 5201 (test #1)\n"
            "-----------------------------------------------------------\n"
            "Accepted connection from 10.77.0.1, port 52956\n"
            "[  5] local 10.77.0.2 port 5201 connected to 10.77.0.1 port 52960\n"
            "[ ID] Interval           Transfer     Bitrate\n"
            "[  5]   0.00-1.00   sec   591 MBytes  4.94 Gbits/sec                  \n"
            "[  5]   3.00-3.00   sec   640 KBytes  1.19 Gbits/sec                  \n"
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
            "[ ID] Interval           Transfer     Bitrate\n"
            "[  5]   0.00-3.00   sec  1.75 GBytes  5.01 Gbits/sec                  receiver\n");
}

TEST_F(Iperf3TextTest, SeveralStreamsHaveSumsAndOmittedPartsAreMarked) {
  Make(Role::kClient, {.omit_s = 1, .parallel = 2});
  Start({Info(1, 5, true, 43938), Info(3, 7, true, 43948)});
  text_.clear();
  report_->OnInterval(
      {{Span(0, 1, 1280 * kKiB, 0, 1174405), Span(0, 1, 1280 * kKiB, 0, 1174405)}, true});
  report_->OnInterval(
      {{Span(0, 1.0004, 238 * kMiB, 89, 670 * kKiB), Span(0, 1.0004, 234 * kMiB, 1076, 665 * kKiB)},
       false});
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{2.007, 536 * kMiB, 798},
                                       EndTotals{2.0075, 532 * kMiB, std::nullopt}, 2.007),
                                  Ends(streams_[1], EndTotals{2.007, 518 * kMiB, 1607},
                                       EndTotals{2.0075, 516 * kMiB, std::nullopt}, 2.007)}});
  EXPECT_EQ(
      text_,
      "[  5]   0.00-1.00   sec  1.25 MBytes  10.5 Mbits/sec    0   1.12 MBytes       (omitted)\n"
      "[  7]   0.00-1.00   sec  1.25 MBytes  10.5 Mbits/sec    0   1.12 MBytes       (omitted)\n"
      "[SUM]   0.00-1.00   sec  2.50 MBytes  21.0 Mbits/sec    0             (omitted)\n"
      "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
      "[  5]   0.00-1.00   sec   238 MBytes  2.00 Gbits/sec   89    670 KBytes       \n"
      "[  7]   0.00-1.00   sec   234 MBytes  1.96 Gbits/sec  1076    665 KBytes       \n"
      "[SUM]   0.00-1.00   sec   472 MBytes  3.96 Gbits/sec  1165             \n"
      "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
      "[ ID] Interval           Transfer     Bitrate         Retr\n"
      "[  5]   0.00-2.01   sec   536 MBytes  2.24 Gbits/sec  798             sender\n"
      "[  5]   0.00-2.01   sec   532 MBytes  2.22 Gbits/sec                  receiver\n"
      "[  7]   0.00-2.01   sec   518 MBytes  2.17 Gbits/sec  1607             sender\n"
      "[  7]   0.00-2.01   sec   516 MBytes  2.16 Gbits/sec                  receiver\n"
      "[SUM]   0.00-2.01   sec  1.03 GBytes  4.41 Gbits/sec  2405             sender\n"
      "[SUM]   0.00-2.01   sec  1.02 GBytes  4.38 Gbits/sec                  receiver\n");
}

TEST_F(Iperf3TextTest, ReverseClientShowsTheRetransmitsOfTheServer) {
  Make(Role::kClient, {.reverse = true});
  Start({Info(1, 5, false, 51810)});
  report_->OnInterval({{Span(0, 1.0003, 100 * kKiB)}, false});
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{3.0001, 296 * kKiB, 0},
                                       EndTotals{3.0004, 296 * kKiB, std::nullopt}, 3.0004)}});
  EXPECT_EQ(text_,
            "Connecting to host 10.77.0.2, port 5201\n"
            "Reverse mode, remote host 10.77.0.2 is sending\n"
            "[  5] local 10.77.0.1 port 51810 connected to 10.77.0.2 port 5201\n"
            "[ ID] Interval           Transfer     Bitrate\n"
            "[  5]   0.00-1.00   sec   100 KBytes   819 Kbits/sec                  \n"
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
            "[ ID] Interval           Transfer     Bitrate         Retr\n"
            "[  5]   0.00-3.00   sec   296 KBytes   808 Kbits/sec    0             sender\n"
            "[  5]   0.00-3.00   sec   296 KBytes   808 Kbits/sec                  receiver\n");
}

// A sender that does not know its retransmits has no column.
TEST_F(Iperf3TextTest, UnknownRetransmitsLeaveNoColumn) {
  Make(Role::kClient, {.reverse = true});
  Start({Info(1, 5, false, 51810)});
  text_.clear();
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{3.0001, 296 * kKiB, std::nullopt},
                                       std::nullopt, 3.0004)}});
  EXPECT_EQ(text_,
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
            "[ ID] Interval           Transfer     Bitrate\n"
            "[  5]   0.00-3.00   sec   296 KBytes   808 Kbits/sec                  sender\n"
            "[  5]   0.00-3.00   sec  0.00 Bytes  0.00 bits/sec                  receiver\n");
}

TEST_F(Iperf3TextTest, BidirectionalLinesNameTheirRole) {
  Make(Role::kServer, {.parallel = 1, .bidirectional = true});
  Start({Info(1, 5, false, 43968, Role::kServer), Info(3, 8, true, 43970, Role::kServer)});
  report_->OnInterval(
      {{Span(2.0034, 2.0094, 2176 * kKiB), Span(2.0034, 2.0094, 0, 0, 523 * kKiB)}, false});
  report_->OnSummary(
      {.streams = {Ends(streams_[0], std::nullopt, EndTotals{2.006, 552 * kMiB, std::nullopt}, 2),
                   Ends(streams_[1], EndTotals{2.006, 712 * kMiB, 2211}, std::nullopt, 2)}});
  const std::string expected =
      "[  5] local 10.77.0.2 port 5201 connected to 10.77.0.1 port 43968\n"
      "[  8] local 10.77.0.2 port 5201 connected to 10.77.0.1 port 43970\n"
      "[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd\n"
      "[  5][RX-S]   2.00-2.01   sec  2.12 MBytes  2.97 Gbits/sec                  \n"
      "[  8][TX-S]   2.00-2.01   sec  0.00 Bytes  0.00 bits/sec    0    523 KBytes       \n"
      "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
      "[ ID][Role] Interval           Transfer     Bitrate         Retr\n"
      "[  5][RX-S]   0.00-2.01   sec   552 MBytes  2.31 Gbits/sec                  receiver\n"
      "[  8][TX-S]   0.00-2.01   sec   712 MBytes  2.98 Gbits/sec  2211             sender\n";
  EXPECT_TRUE(absl::EndsWith(text_, expected)) << text_;
}

TEST_F(Iperf3TextTest, VerboseHasItsBanner) {
  Make(Role::kClient, {.time_s = 2, .bandwidth = 20'000'000}, /*verbose=*/true);
  Start({Info(1, 5, true, 44000)});
  report_->OnSummary({.streams = {Ends(streams_[0], EndTotals{2.0, 4992 * kKiB, 0},
                                       EndTotals{2.0, 4992 * kKiB, std::nullopt}, 2.0)},
                      .local_cpu = {3.0, 0.04, 2.9},
                      .remote_cpu = {0.2, 0.1, 0.1},
                      .local_congestion = "cubic",
                      .remote_congestion = "bbr"});
  report_->OnEnd("");
  EXPECT_EQ(text_,
            "tapwire 0.1.0\n"
            "Linux host\n"
            "Control connection MSS 1448\n"
            "Time: Mon, 30 Nov 2026 10:08:57 GMT\n"
            "Connecting to host 10.77.0.2, port 5201\n"
            "      Cookie: qhtdwqzwtqkcsgrjiuyzpb4v5e7mgkouaetp\n"
            "      TCP MSS: 1448 (default)\n"
            "      Target Bitrate: 20000000\n"
            "[  5] local 10.77.0.1 port 44000 connected to 10.77.0.2 port 5201\n"
            "Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, "
            "2 second test, tos 0\n"
            "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
            "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
            "Test Complete. Summary Results:\n"
            "[ ID] Interval           Transfer     Bitrate         Retr\n"
            "[  5]   0.00-2.00   sec  4.88 MBytes  20.4 Mbits/sec    0             sender\n"
            "[  5]   0.00-2.00   sec  4.88 MBytes  20.4 Mbits/sec                  receiver\n"
            "CPU Utilization: local/sender 3.0% (0.0%u/2.9%s), remote/receiver 0.2% "
            "(0.1%u/0.1%s)\n"
            "snd_tcp_congestion cubic\n"
            "rcv_tcp_congestion bbr\n"
            "\n"
            "iperf Done.\n");
}

TEST_F(Iperf3TextTest, UnitOfTheRateCanBeFixed) {
  Make(Role::kClient, {}, false, 'k');
  Start({Info(1, 5, true, 36928)});
  text_.clear();
  report_->OnInterval({{Span(0, 1.0001, 1280 * kKiB, 0, 1174405)}, false});
  EXPECT_EQ(text_,
            "[  5]   0.00-1.00   sec  1.25 MBytes  10485 Kbits/sec    0   1.12 MBytes       \n");
}

// ---- JSON ----

nlohmann::json RunJson(Role role, const Params& params, const std::vector<StreamInfo>& streams,
                       const Interval& interval, const Summary& summary) {
  std::string text;
  auto report = MakeJsonReport({.role = role, .version = "tapwire 0.1.0"},
                               [&](const std::string& more) { text += more; });
  if (role == Role::kServer) report->OnListening(5201, 1);
  report->OnOpening({.params = params,
                     .peer_host = "10.77.0.2",
                     .peer_port = 5201,
                     .cookie = "225ka5q675v6gmibxvyrb4ftyoqiugiay5kt",
                     .mss = 1448,
                     .unix_time = 1'796'033'343});
  report->OnStreams(streams);
  report->OnTestStart();
  report->OnInterval(interval);
  report->OnSummary(summary);
  EXPECT_EQ(text, "");  // one object, at the end
  EXPECT_FALSE(report->OnEnd(""));
  return nlohmann::json::parse(text, nullptr, false);
}

// Every key that 3.12 writes for the same test must be there.
TEST(Iperf3JsonTest, SenderHasEveryKeyOfTheRealOne) {
  const std::vector<StreamInfo> streams = {Info(1, 5, true, 43008)};
  StreamSummary stream = Ends(streams[0], EndTotals{2.0, 1'371'668'480, 5481},
                              EndTotals{2.5, 1'370'357'760, std::nullopt}, 2.0);
  stream.local.max_cwnd = 2'505'040;
  const auto json = RunJson(Role::kClient, {.time_s = 2}, streams,
                            {{Span(0, 1, 717'619'200, 2691, 364'896)}, false},
                            {.streams = {stream}, .local_congestion = "cubic"});
  ASSERT_TRUE(json.is_object());
  const auto keys = [](const nlohmann::json& object) {
    std::string text;
    for (const auto& item : object.items()) absl::StrAppend(&text, item.key(), " ");
    return text;
  };
  EXPECT_EQ(keys(json), "end intervals start ");
  EXPECT_EQ(keys(json["start"]),
            "connected connecting_to cookie rcvbuf_actual sndbuf_actual sock_bufsize system_info "
            "target_bitrate tcp_mss_default test_start timestamp version ");
  EXPECT_EQ(keys(json["start"]["connected"][0]),
            "local_host local_port remote_host remote_port socket ");
  EXPECT_EQ(
      keys(json["start"]["test_start"]),
      "bidir blksize blocks bytes duration num_streams omit protocol reverse target_bitrate tos ");
  EXPECT_EQ(keys(json["intervals"][0]["streams"][0]),
            "bits_per_second bytes end omitted pmtu retransmits rtt rttvar seconds sender snd_cwnd "
            "snd_wnd socket start ");
  EXPECT_EQ(keys(json["intervals"][0]["sum"]),
            "bits_per_second bytes end omitted retransmits seconds sender start ");
  EXPECT_EQ(keys(json["end"]),
            "cpu_utilization_percent sender_tcp_congestion streams sum_received sum_sent ");
  EXPECT_EQ(keys(json["end"]["streams"][0]["sender"]),
            "bits_per_second bytes end max_rtt max_snd_cwnd max_snd_wnd mean_rtt min_rtt "
            "retransmits seconds sender socket start ");
  EXPECT_EQ(keys(json["end"]["sum_sent"]),
            "bits_per_second bytes end retransmits seconds sender start ");
  EXPECT_EQ(json["start"]["timestamp"]["time"], "Mon, 30 Nov 2026 10:09:03 GMT");
  EXPECT_EQ(json["start"]["connected"][0]["local_port"], 43008);
  EXPECT_EQ(json["intervals"][0]["streams"][0]["bits_per_second"], 717'619'200.0 * 8);
  EXPECT_EQ(json["end"]["sum_sent"]["retransmits"], 5481);
  EXPECT_EQ(json["end"]["sum_received"]["bits_per_second"], 1'370'357'760.0 * 8 / 2.5);
  EXPECT_EQ(json["end"]["streams"][0]["sender"]["max_snd_cwnd"], 2'505'040);
}

TEST(Iperf3JsonTest, BidirectionalHasTwoSums) {
  const std::vector<StreamInfo> streams = {Info(1, 5, true, 1), Info(3, 7, false, 2)};
  const auto json =
      RunJson(Role::kClient, {.bidirectional = true}, streams,
              {{Span(0, 1, 100, 3, 10), Span(0, 1, 200)}, true},
              {.streams = {Ends(streams[0], EndTotals{1, 100, 3}, EndTotals{1, 90, {}}, 1),
                           Ends(streams[1], EndTotals{1, 210, 4}, EndTotals{1, 200, {}}, 1)}});
  EXPECT_EQ(json["intervals"][0]["sum"]["bytes"], 100);
  EXPECT_EQ(json["intervals"][0]["sum"]["omitted"], true);
  EXPECT_EQ(json["intervals"][0]["sum_bidir_reverse"]["bytes"], 200);
  EXPECT_EQ(json["end"]["sum_sent"]["bytes"], 100);
  EXPECT_EQ(json["end"]["sum_received"]["bytes"], 90);
  EXPECT_EQ(json["end"]["sum_sent_bidir_reverse"]["bytes"], 210);
  EXPECT_EQ(json["end"]["sum_sent_bidir_reverse"]["retransmits"], 4);
  EXPECT_EQ(json["end"]["sum_received_bidir_reverse"]["bytes"], 200);
}

TEST(Iperf3JsonTest, FailureIsAKeyOfTheObject) {
  std::string text;
  auto report = MakeJsonReport({.role = Role::kClient, .version = "tapwire 0.1.0"},
                               [&](const std::string& more) { text += more; });
  EXPECT_TRUE(report->OnEnd("unable to connect to server: Connection refused"));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_EQ(json["error"], "unable to connect to server: Connection refused");
  EXPECT_TRUE(json["intervals"].empty());
  EXPECT_TRUE(json["start"]["connected"].empty());
}

TEST(Iperf3JsonTest, ServerNamesWhoItAccepted) {
  const std::vector<StreamInfo> streams = {Info(1, 5, false, 43008, Role::kServer)};
  const auto json = RunJson(Role::kServer, {}, streams, {{Span(0, 1, 100)}, false},
                            {.streams = {Ends(streams[0], {}, EndTotals{1, 100, {}}, 1)}});
  EXPECT_EQ(json["start"]["accepted_connection"]["port"], 5201);
  EXPECT_EQ(json["end"]["streams"][0]["sender"]["bytes"], 0);
  EXPECT_FALSE(json["intervals"][0]["streams"][0].contains("retransmits"));
}

// ---- Numbers ----

constexpr Time At(double seconds) {
  return Time(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

TEST(Iperf3MeterTest, CountsByIntervalAndInTotal) {
  Meter meter;
  meter.AddStream(Info(1, 5, true, 1));
  meter.AddStream(Info(3, 7, false, 2));
  const auto sample = [](uint64_t retransmits, uint64_t cwnd, uint32_t rtt) {
    return std::vector<TcpSample>{{.retransmits = retransmits, .cwnd = cwnd, .rtt_us = rtt}, {}};
  };
  meter.Start(At(100), /*omit=*/true);
  meter.Add(0, 1'000);
  const Interval omitted = meter.EndInterval(At(101), sample(5, 10, 100));
  EXPECT_TRUE(omitted.omitted);
  EXPECT_EQ(omitted.streams[0].retransmits, 5u);
  meter.EndOmit(At(101), sample(6, 10, 100));
  EXPECT_FALSE(meter.omitting());
  EXPECT_EQ(meter.total_bytes(true), 0u);

  meter.Add(0, 300);
  meter.Add(1, 20);
  const Interval first = meter.EndInterval(At(102), sample(8, 50, 40));
  EXPECT_EQ(first.streams[0].bytes, 300u);
  EXPECT_EQ(first.streams[0].retransmits, 2u);
  EXPECT_EQ(first.streams[1].bytes, 20u);
  EXPECT_DOUBLE_EQ(first.streams[0].start_s, 0);
  EXPECT_DOUBLE_EQ(first.streams[0].end_s, 1);
  meter.Add(0, 4);
  EXPECT_EQ(meter.interval_bytes(), 4u);
  const Interval second = meter.EndInterval(At(102.5), sample(8, 40, 80));
  EXPECT_DOUBLE_EQ(second.streams[0].seconds(), 0.5);
  EXPECT_EQ(second.streams[0].retransmits, 0u);
  meter.Finish(At(102.5), sample(9, 40, 80));

  EXPECT_EQ(meter.total_bytes(true), 304u);
  EXPECT_EQ(meter.total_bytes(false), 20u);
  const StreamTotals& totals = meter.totals(0);
  EXPECT_DOUBLE_EQ(totals.seconds, 1.5);
  EXPECT_EQ(totals.retransmits, 3u);
  EXPECT_EQ(totals.max_cwnd, 50u);
  EXPECT_EQ(totals.min_rtt_us, 40u);
  EXPECT_EQ(totals.max_rtt_us, 80u);
  EXPECT_EQ(totals.mean_rtt_us(), 60u);

  const std::vector<StreamResult> results = meter.ToResults();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].id, 1);
  EXPECT_EQ(results[0].retransmits, 3);
  EXPECT_EQ(results[1].id, 3);
  EXPECT_EQ(results[1].retransmits, -1);
  EXPECT_EQ(results[1].bytes, 20u);
  EXPECT_DOUBLE_EQ(results[1].end_s, 1.5);
}

TEST(Iperf3MeterTest, SummaryJoinsBothEndsById) {
  Meter meter;
  meter.AddStream(Info(1, 5, true, 1));
  meter.AddStream(Info(3, 7, false, 2));
  meter.Start(At(0), false);
  meter.Add(0, 100);
  meter.Add(1, 200);
  meter.Finish(At(2), std::vector<TcpSample>(2));
  const Results local{.streams = meter.ToResults()};
  const Results peer{.sender_has_retransmits = 1,
                     .streams = {{.id = 3, .bytes = 210, .retransmits = 9, .end_s = 1.5},
                                 {.id = 1, .bytes = 90, .end_s = 0}}};
  const Summary summary = MakeSummary(meter, local, &peer);
  EXPECT_EQ(summary.streams[0].sender->bytes, 100u);
  EXPECT_EQ(summary.streams[0].receiver->bytes, 90u);
  EXPECT_DOUBLE_EQ(summary.streams[0].receiver->seconds, 2);  // not told: ours
  EXPECT_EQ(summary.streams[1].sender->bytes, 210u);
  EXPECT_EQ(summary.streams[1].sender->retransmits, 9u);
  EXPECT_DOUBLE_EQ(summary.streams[1].sender->seconds, 1.5);
  EXPECT_EQ(summary.streams[1].receiver->bytes, 200u);
  const Summary alone = MakeSummary(meter, local, nullptr);
  EXPECT_FALSE(alone.streams[0].receiver.has_value());
  EXPECT_FALSE(alone.streams[1].sender.has_value());
}

}  // namespace
}  // namespace tapwire::apps::iperf3
