// SPDX-License-Identifier: Apache-2.0
// Both machines, against what real ends said to each other and against nonsense.

#include "apps/perf/iperf3_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tapwire::apps::iperf3 {
namespace {

using ::testing::ElementsAre;
using Calls = std::vector<std::string>;

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Cookie() { return std::string("p3ni3x5ipiwvvuayyy2am7ifhpdww55lukwn\0", 37); }

constexpr char kParams[] =
    R"({"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"parallel":1,"len":4096,)"
    R"("bandwidth":800000,"pacing_timer":1000,"client_version":"3.12"})";
constexpr char kClientResults[] =
    R"({"cpu_util_total":3.3199750088659972,"cpu_util_user":1.5949812793972396,)"
    R"("cpu_util_system":1.7249937289827014,"sender_has_retransmits":1,"congestion_used":"bbr",)"
    R"("streams":[{"id":1,"bytes":303104,"retransmits":0,"jitter":0,"errors":0,"packets":0,)"
    R"("start_time":0,"end_time":3.000081}]})";
constexpr char kServerResults[] =
    R"({"cpu_util_total":0.0957452197374455,"cpu_util_user":0,)"
    R"("cpu_util_system":0.095711893866910644,"sender_has_retransmits":18446744073709551615,)"
    R"("congestion_used":"bbr","streams":[{"id":1,"bytes":303104,)"
    R"("retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,)"
    R"("end_time":3.000659}]})";

std::string ErrorCall(const std::optional<Error>& error) {
  return error ? absl::StrCat("finished ", static_cast<int>(error->code)) : "finished";
}

class Client final : public ClientOwner {
 public:
  explicit Client(const Params& params = {}) : control(params, Cookie(), *this) {}
  void SendControl(std::string bytes) override { sent += bytes; }
  void OnParamExchange() override { calls.push_back("params"); }
  void OnCreateStreams() override { calls.push_back("streams"); }
  void OnTestStart() override { calls.push_back("start"); }
  void OnTestRunning() override { calls.push_back("running"); }
  Results LocalResults() override {
    calls.push_back("results");
    return {.streams = {{.id = 1, .bytes = 303'104, .retransmits = 0, .end_s = 3.0}}};
  }
  void OnDisplayResults(const Results& peer) override {
    calls.push_back(absl::StrCat("display ", peer.streams.at(0).bytes));
  }
  void OnFinished(std::optional<Error> error) override { calls.push_back(ErrorCall(error)); }
  void Feed(const std::string& bytes) { control.OnBytes(Bytes(bytes)); }

  std::string sent;
  Calls calls;
  ClientControl control;
};

class Server final : public ServerOwner {
 public:
  void SendControl(std::string bytes) override { sent += bytes; }
  std::optional<Error> OnParams(const Params& params) override {
    calls.push_back(absl::StrCat("params ", params.time_s));
    return refusal;
  }
  void OnTestStart() override { calls.push_back("start"); }
  void OnTestEnd() override { calls.push_back("end"); }
  Results LocalResults() override {
    calls.push_back("results");
    return {.streams = {{.id = 1, .bytes = 303'104, .end_s = 3.0}}};
  }
  void OnDisplayResults(const Results& peer) override {
    calls.push_back(absl::StrCat("display ", peer.streams.at(0).bytes));
  }
  void OnFinished(std::optional<Error> error) override { calls.push_back(ErrorCall(error)); }
  void Feed(const std::string& bytes) { control.OnBytes(Bytes(bytes)); }
  void Reach(int step) {
    if (step >= 1) Feed(Cookie());
    if (step >= 2) Feed(EncodeJson(kParams));
    if (step >= 3) control.StreamsReady();
    if (step >= 4) Feed("\x04");
    if (step >= 5) Feed(EncodeJson(kClientResults));
  }

  std::string sent;
  Calls calls;
  std::optional<Error> refusal;
  ServerControl control{*this};
};

TEST(Iperf3ClientControlTest, HoldsTheConversationOfARealTest) {
  Client client;
  client.control.Start();
  EXPECT_EQ(client.sent, Cookie());
  client.sent.clear();
  client.Feed("\x09");
  EXPECT_EQ(client.sent, EncodeJson(EncodeParams(Params())));
  client.sent.clear();
  client.Feed("\x0a");
  client.Feed("\x01\x02");  // in one segment
  EXPECT_TRUE(client.control.running());
  EXPECT_EQ(client.sent, "");
  client.control.EndTest();
  EXPECT_EQ(client.sent, "\x04");
  client.control.EndTest();
  EXPECT_EQ(client.sent, "\x04");
  client.sent.clear();
  client.Feed("\x0d");
  EXPECT_EQ(client.sent.substr(4, 16), R"({"cpu_util_total)");
  client.sent.clear();
  const std::string end = EncodeJson(kServerResults) + "\x0e";
  for (const char c : end) client.Feed(std::string(1, c));
  EXPECT_EQ(client.sent, "\x10");
  EXPECT_THAT(client.calls, ElementsAre("params", "streams", "start", "running", "results",
                                        "display 303104", "finished"));
  client.Feed("\x0e");
  client.control.OnClosed();
  client.control.Terminate();
  EXPECT_EQ(client.sent, "\x10");
  EXPECT_EQ(client.calls.back(), "finished");
  EXPECT_EQ(client.calls.size(), 7u);
}

TEST(Iperf3ClientControlTest, SaysWhatTheServerSaid) {
  const std::pair<std::string, const char*> cases[] = {
      {"\xff", "finished 121"},     {std::string("\xfe\0\0\0\x1b\0\0\0\0", 9), "finished 27"},
      {"\x0b", "finished 120"},     {"\x0d", "finished 110"},  // results before the test
      {"\x09\x01", "finished 110"}, {"\x09\x09", "finished 110"},
      {"\x63", "finished 110"},
  };
  for (const auto& [bytes, expected] : cases) {
    Client client;
    client.control.Start();
    client.Feed(bytes);
    ASSERT_FALSE(client.calls.empty());
    EXPECT_EQ(client.calls.back(), expected);
  }
}

TEST(Iperf3ClientControlTest, BadResultsFailTheTest) {
  std::string two_streams = kServerResults;
  two_streams.replace(two_streams.find("\"id\":1"), 6, "\"id\":4");
  const std::pair<std::string, const char*> cases[] = {
      {EncodeJson("{}"), "finished 117"},        {EncodeJson("garbage"), "finished 117"},
      {std::string(4, '\0'), "finished 117"},    {"\xff\xff\xff\xff", "finished 117"},
      {EncodeJson(two_streams), "finished 208"},
  };
  for (const auto& [bytes, expected] : cases) {
    Client client;
    client.control.Start();
    client.Feed("\x09\x0a\x01\x02");
    client.control.EndTest();
    client.Feed("\x0d");
    client.Feed(bytes);
    EXPECT_EQ(client.calls.back(), expected) << bytes;
  }
}

TEST(Iperf3ClientControlTest, InterruptTellsTheServer) {
  Client client;
  client.control.Start();
  client.Feed("\x09\x0a\x01\x02");
  client.sent.clear();
  client.control.Terminate();
  EXPECT_EQ(client.sent, "\x0c");
  EXPECT_EQ(client.calls.back(), "finished 119");
  Client idle;  // not connected yet
  idle.control.Terminate();
  EXPECT_EQ(idle.sent, "");
  EXPECT_EQ(idle.calls.back(), "finished 119");
}

TEST(Iperf3ServerControlTest, HoldsTheConversationOfARealTest) {
  Server server;
  std::string all = Cookie();
  server.Feed(all.substr(0, 20));
  EXPECT_EQ(server.sent, "");
  server.Feed(all.substr(20));
  EXPECT_EQ(server.sent, "\x09");
  EXPECT_EQ(server.control.cookie(), Cookie());
  server.Feed(EncodeJson(kParams).substr(0, 4));
  server.Feed(kParams);
  EXPECT_EQ(server.sent, "\x09\x0a");
  EXPECT_TRUE(server.control.wants_streams());
  server.control.StreamsReady();
  EXPECT_EQ(server.sent, "\x09\x0a\x01\x02");
  server.sent.clear();
  server.Feed("\x04");
  EXPECT_EQ(server.sent, "\x0d");
  server.sent.clear();
  server.Feed(EncodeJson(kClientResults));
  EXPECT_EQ(server.sent.back(), '\x0e');
  server.Feed("\x10");
  EXPECT_THAT(server.calls,
              ElementsAre("params 3", "start", "end", "results", "display 303104", "finished"));
}

TEST(Iperf3ServerControlTest, EndOfTheConnectionIsAnErrorUnlessAllIsSaid) {
  for (int step = 0; step <= 5; ++step) {
    Server server;
    server.Reach(step);
    server.control.OnClosed();
    EXPECT_EQ(server.calls.back(), step == 5 ? "finished" : "finished 109") << step;
    const size_t calls = server.calls.size();
    server.control.OnClosed();
    server.Feed("\x04");
    server.control.Terminate();
    server.control.StreamsReady();
    EXPECT_EQ(server.calls.size(), calls);
  }
}

TEST(Iperf3ServerControlTest, ClientMayTerminate) {
  for (const int step : {2, 3, 5}) {
    Server server;
    server.Reach(step);
    server.Feed("\x0c");
    EXPECT_EQ(server.calls.back(), "finished 119") << step;
  }
}

TEST(Iperf3ServerControlTest, InterruptTellsTheClient) {
  Server server;
  server.Reach(3);
  server.sent.clear();
  server.control.Terminate();
  EXPECT_EQ(server.sent, "\x0b");
  EXPECT_EQ(server.calls.back(), "finished 120");
}

TEST(Iperf3ServerControlTest, NonsenseIsAnsweredWithAnError) {
  struct Case {
    int step;
    std::string bytes;
    int code;
  };
  const Case cases[] = {
      {1, std::string(4, '\0'), 114},
      {1, std::string("\0\0\x20\x01", 4), 114},  // 8 KiB and one
      {1, EncodeJson("garbage"), 114},
      {1, EncodeJson(R"({"tcp":true,"time":-1})"), 114},
      {1, EncodeJson(R"({"tcp":true,"parallel":1000})"), 6},
      {1, EncodeJson(R"({"udp":true})"), 131},
      {2, "\x04", 110},  // the end before the start
      {3, "\x63", 110},
      {3, "\x10", 110},
      {4, EncodeJson("{}"), 117},
      {4, std::string("\x7f\xff\xff\xff", 4), 117},
      {5, "\x04", 110},
  };
  for (const Case& c : cases) {
    Server server;
    server.Reach(c.step);
    server.sent.clear();
    server.Feed(c.bytes);
    EXPECT_EQ(server.sent,
              absl::StrCat("\xfe", std::string(3, '\0'), std::string(1, static_cast<char>(c.code)),
                           std::string(4, '\0')))
        << c.step << " " << c.code;
    EXPECT_EQ(server.calls.back(), absl::StrCat("finished ", c.code));
  }
}

TEST(Iperf3ServerControlTest, WrongCookieEndsWithoutAWord) {
  Server server;
  server.Feed(std::string(37, 'a'));
  EXPECT_EQ(server.sent, "");
  EXPECT_EQ(server.calls.back(), "finished 106");
}

TEST(Iperf3ServerControlTest, OwnerMayRefuseParameters) {
  Server server;
  server.refusal = Error{ErrorCode::kCongestion};
  server.Reach(2);
  EXPECT_EQ(server.calls.back(), "finished 134");
  EXPECT_FALSE(server.control.wants_streams());
}

// The two machines with each other, byte by byte.
TEST(Iperf3ControlTest, BothEndsAgree) {
  Client client(Params{.time_s = 3});
  Server server;
  size_t to_server = 0, to_client = 0;
  const auto exchange = [&] {
    for (bool moved = true; moved;) {
      moved = false;
      while (to_server < client.sent.size()) {
        server.Feed(client.sent.substr(to_server++, 1));
        moved = true;
      }
      if (server.control.wants_streams()) server.control.StreamsReady();
      while (to_client < server.sent.size()) {
        client.Feed(server.sent.substr(to_client++, 1));
        moved = true;
      }
    }
  };
  client.control.Start();
  exchange();
  EXPECT_TRUE(client.control.running());
  EXPECT_TRUE(server.control.running());
  client.control.EndTest();
  exchange();
  EXPECT_EQ(client.calls.back(), "finished");
  EXPECT_EQ(server.calls.back(), "finished");
}

}  // namespace
}  // namespace tapwire::apps::iperf3
