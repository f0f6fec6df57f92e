// SPDX-License-Identifier: Apache-2.0
// Against bytes that iperf3 3.12 and its successors have put on a wire.

#include "apps/perf/iperf3_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "netdev/base/seeded_random.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps::iperf3 {
namespace {

using ::testing::HasSubstr;

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The parameters of `iperf3 -c … -t 3 -l 4096 -b 800K`, version 3.12.
constexpr char kRealParams[] =
    R"({"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"parallel":1,"len":4096,)"
    R"("bandwidth":800000,"pacing_timer":1000,"client_version":"3.12"})";
// What a 3.12 receiver told at the end; it writes -1 as an unsigned number.
constexpr char kRealReceiverResults[] =
    R"({"cpu_util_total":0.0957452197374455,"cpu_util_user":0,)"
    R"("cpu_util_system":0.095711893866910644,"sender_has_retransmits":18446744073709551615,)"
    R"("congestion_used":"bbr","streams":[{"id":1,"bytes":303104,)"
    R"("retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,)"
    R"("end_time":3.000659}]})";
// And its sender.
constexpr char kRealSenderResults[] =
    R"({"cpu_util_total":3.3199750088659972,"cpu_util_user":1.5949812793972396,)"
    R"("cpu_util_system":1.7249937289827014,"sender_has_retransmits":1,"congestion_used":"bbr",)"
    R"("streams":[{"id":1,"bytes":303104,"retransmits":0,"jitter":0,"errors":0,"packets":0,)"
    R"("start_time":0,"end_time":3.000081}]})";

TEST(Iperf3ProtocolTest, ReadsTheParametersOfTheRealClient) {
  Params params;
  ASSERT_FALSE(ParseParams(kRealParams, params).has_value());
  EXPECT_EQ(params.protocol, Protocol::kTcp);
  EXPECT_EQ(params.time_s, 3);
  EXPECT_EQ(params.length, 4096);
  EXPECT_EQ(params.bandwidth, 800'000);
  EXPECT_EQ(params.parallel, 1);
  EXPECT_EQ(params.client_version, "3.12");
  EXPECT_FALSE(params.reverse);
  EXPECT_TRUE(params.client_sends());
  EXPECT_FALSE(params.server_sends());
}

TEST(Iperf3ProtocolTest, WritesParametersUnderTheirRealNames) {
  const Params params{.omit_s = 1,
                      .time_s = 2,
                      .parallel = 4,
                      .window = 65'536,
                      .mss = 1'000,
                      .tos = 16,
                      .nodelay = true,
                      .bidirectional = true,
                      .congestion = "reno",
                      .client_version = "x"};
  const auto json = nlohmann::json::parse(EncodeParams(params), nullptr, false);
  ASSERT_TRUE(json.is_object());
  const auto expected = nlohmann::json::parse(
      R"({"tcp":true,"omit":1,"time":2,"num":0,"blockcount":0,"MSS":1000,"nodelay":true,
          "parallel":4,"bidirectional":true,"window":65536,"len":131072,"pacing_timer":1000,
          "TOS":16,"congestion":"reno","client_version":"x"})",
      nullptr, false);
  EXPECT_EQ(json, expected);
}

TEST(Iperf3ProtocolTest, PresenceIsEnoughForSwitchesOfOldPeers) {
  Params params;
  ASSERT_FALSE(ParseParams(R"({"tcp":1,"reverse":1,"nodelay":"yes","time":1e1})", params));
  EXPECT_TRUE(params.reverse);
  EXPECT_TRUE(params.nodelay);
  EXPECT_EQ(params.time_s, 10);
  ASSERT_FALSE(ParseParams(R"({"tcp":true,"reverse":false,"bidirectional":0})", params));
  EXPECT_FALSE(params.reverse);
  EXPECT_FALSE(params.bidirectional);
}

TEST(Iperf3ProtocolTest, BadParametersAreRefusedWithTheRightCode) {
  const std::pair<const char*, ErrorCode> cases[] = {
      {"", ErrorCode::kReceiveParams},
      {"garbage", ErrorCode::kReceiveParams},
      {"[]", ErrorCode::kReceiveParams},
      {"17", ErrorCode::kReceiveParams},
      {R"({"tcp":true)", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"time":-1})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"num":-5})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"time":"10"})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"time":1e300})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"parallel":{}})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"bandwidth":9e15})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"burst":1001})", ErrorCode::kReceiveParams},
      {R"({"tcp":true,"time":86401})", ErrorCode::kDuration},
      {R"({"tcp":true,"parallel":0})", ErrorCode::kStreamCount},
      {R"({"tcp":true,"parallel":129})", ErrorCode::kStreamCount},
      {R"({"tcp":true,"omit":601})", ErrorCode::kOmit},
      {R"({"tcp":true,"len":1048577})", ErrorCode::kBlockSize},
      {R"({"tcp":true,"window":536870913})", ErrorCode::kBufferSize},
      {R"({"tcp":true,"MSS":32768})", ErrorCode::kMss},
      {R"({"tcp":true,"TOS":256})", ErrorCode::kTos},
      {R"({"udp":true})", ErrorCode::kProtocol},
      {R"({"sctp":true})", ErrorCode::kProtocol},
  };
  for (const auto& [text, code] : cases) {
    Params params;
    const std::optional<Error> error = ParseParams(text, params);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(error->code, code) << text;
    EXPECT_NE(ErrorText(*error), "") << text;
  }
}

TEST(Iperf3ProtocolTest, NamesOfPeersAreMadePrintable) {
  Params params;
  ASSERT_FALSE(ParseParams("{\"tcp\":true,\"congestion\":\"a\\u001b[2Jb\",\"client_version\":\"" +
                               std::string(5'000, 'x') + "\"}",
                           params));
  EXPECT_EQ(params.congestion, "a?[2Jb");
  EXPECT_LE(params.client_version.size(), 256u);
}

TEST(Iperf3ProtocolTest, ReadsRealResults) {
  Results results;
  ASSERT_FALSE(ParseResults(kRealSenderResults, results).has_value());
  EXPECT_DOUBLE_EQ(results.cpu.total, 3.3199750088659972);
  EXPECT_EQ(results.sender_has_retransmits, 1);
  EXPECT_EQ(results.congestion, "bbr");
  ASSERT_EQ(results.streams.size(), 1u);
  EXPECT_EQ(results.streams[0].id, 1);
  EXPECT_EQ(results.streams[0].bytes, 303'104u);
  EXPECT_EQ(results.streams[0].retransmits, 0);
  EXPECT_DOUBLE_EQ(results.streams[0].end_s, 3.000081);
  ASSERT_FALSE(ParseResults(kRealReceiverResults, results).has_value());
  EXPECT_EQ(results.sender_has_retransmits, -1);
  EXPECT_EQ(results.streams[0].retransmits, -1);
}

TEST(Iperf3ProtocolTest, ResultsSurviveTheWayThere) {
  const Results sent{.cpu = {.total = 3, .user = 1, .system = 2},
                     .sender_has_retransmits = 1,
                     .congestion = "cubic",
                     .streams = {{.id = 1, .bytes = 5'000'000'000, .retransmits = 7, .end_s = 2.5},
                                 {.id = 3, .bytes = 1}},
                     .server_output = "two\nlines"};
  Results got;
  ASSERT_FALSE(ParseResults(EncodeResults(sent), got).has_value());
  EXPECT_EQ(EncodeResults(got), EncodeResults(sent));
  EXPECT_EQ(got.streams[0].bytes, 5'000'000'000u);
  EXPECT_EQ(got.streams[1].retransmits, -1);
  EXPECT_EQ(got.server_output, "two\nlines");
}

// Each of these keys is required by the real reader.
TEST(Iperf3ProtocolTest, ResultsMustBeComplete) {
  auto real = nlohmann::json::parse(kRealSenderResults, nullptr, false);
  for (const char* key : {"cpu_util_total", "cpu_util_user", "cpu_util_system",
                          "sender_has_retransmits", "streams"}) {
    for (const bool wrong_kind : {false, true}) {
      auto json = real;
      if (wrong_kind) {
        json[key] = "text";
      } else {
        json.erase(key);
      }
      Results results;
      const auto error = ParseResults(json.dump(), results);
      ASSERT_TRUE(error.has_value()) << key;
      EXPECT_EQ(error->code, ErrorCode::kReceiveResults);
    }
  }
  for (const char* key : {"id", "bytes", "retransmits", "jitter", "errors", "packets"}) {
    auto json = real;
    json["streams"][0].erase(key);
    Results results;
    EXPECT_TRUE(ParseResults(json.dump(), results).has_value()) << key;
  }
  auto json = real;
  json["streams"][0].erase("start_time");
  json["streams"][0].erase("end_time");
  Results results;
  EXPECT_FALSE(ParseResults(json.dump(), results).has_value());
  for (const char* stream : {"5", "null", R"({"id":0})"}) {
    json["streams"] = nlohmann::json::array({nlohmann::json::parse(stream)});
    EXPECT_TRUE(ParseResults(json.dump(), results).has_value()) << stream;
  }
  json = real;
  json["streams"] = std::vector<nlohmann::json>(257, real["streams"][0]);
  EXPECT_TRUE(ParseResults(json.dump(), results).has_value());
}

TEST(Iperf3ProtocolTest, SecondStreamIsNumberThree) {
  EXPECT_EQ(StreamId(0), 1);
  EXPECT_EQ(StreamId(1), 3);
  EXPECT_EQ(StreamId(2), 4);
  EXPECT_EQ(StreamId(3), 5);
}

TEST(Iperf3ProtocolTest, CookiesAreRandomBase32) {
  SeededRandom random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string cookie = MakeCookie(random);
    ASSERT_EQ(cookie.size(), 37u);
    EXPECT_EQ(cookie.back(), '\0');
    EXPECT_EQ(cookie.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567"), 36u);
    EXPECT_TRUE(CookieText(cookie).has_value());
    seen.insert(cookie);
  }
  EXPECT_EQ(seen.size(), 100u);
  // One that was seen on a wire.
  const std::string real("civmktgynck2lotrf3pvtbawok6j6wfgyr2\0", 36);
  EXPECT_FALSE(CookieText(real).has_value());  // one short
  EXPECT_FALSE(CookieText(std::string(37, 'a')).has_value());
  EXPECT_FALSE(CookieText(std::string(35, 'a') + std::string("\n\0", 2)).has_value());
}

TEST(Iperf3ProtocolTest, ServerErrorsHaveTwoNumbers) {
  // A 3.21 server with a rate limit sent exactly this.
  const std::string real("\xfe\0\0\0\x1b\0\0\0\0", 9);
  EXPECT_EQ(EncodeServerError({static_cast<ErrorCode>(27)}), real);
  ControlInput input;
  input.Append(Bytes(real));
  EXPECT_EQ(input.TakeState(), State::kServerError);
  const auto codes = input.TakeErrorCodes();
  ASSERT_TRUE(codes.has_value());
  EXPECT_EQ(codes->code, 27);
  EXPECT_EQ(codes->sys_errno, 0);
  EXPECT_THAT(ErrorText({static_cast<ErrorCode>(27)}), HasSubstr("27"));
}

TEST(Iperf3ProtocolTest, MessagesMayComeInPiecesOrTogether) {
  // As the real client sent it: the length of 140 bytes apart from the text.
  const std::string message = std::string("\0\0\0\x8c", 4) + kRealParams;
  ASSERT_EQ(message.size(), 144u);
  EXPECT_EQ(EncodeJson(kRealParams), message);
  ControlInput input;
  std::string text;
  for (const char c : message) {
    EXPECT_EQ(input.TakeJson(kMaxParamsSize, text), ControlInput::JsonStatus::kMore);
    input.Append(Bytes(std::string(1, c)));
  }
  ASSERT_EQ(input.TakeJson(kMaxParamsSize, text), ControlInput::JsonStatus::kReady);
  EXPECT_EQ(text, kRealParams);
  EXPECT_EQ(input.size(), 0u);
  input.Append(Bytes("\x01\x02"));
  EXPECT_EQ(input.TakeState(), State::kTestStart);
  EXPECT_EQ(input.TakeState(), State::kTestRunning);
  EXPECT_EQ(input.TakeState(), std::nullopt);
}

TEST(Iperf3ProtocolTest, LengthsOutOfRangeAreKnownAtOnce) {
  std::string text;
  for (const std::string& length : {std::string("\0\0\0\0", 4), std::string("\0\0\x20\x01", 4),
                                    std::string("\xff\xff\xff\xff")}) {
    ControlInput input;
    input.Append(Bytes(length));
    EXPECT_EQ(input.TakeJson(kMaxParamsSize, text), ControlInput::JsonStatus::kWrong);
  }
  ControlInput input;
  input.Append(Bytes(std::string("\0\0\x20\0", 4)));  // 8 KiB
  EXPECT_EQ(input.TakeJson(kMaxParamsSize, text), ControlInput::JsonStatus::kMore);
}

}  // namespace
}  // namespace tapwire::apps::iperf3
