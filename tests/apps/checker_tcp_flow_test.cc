// SPDX-License-Identifier: Apache-2.0
// The checker's rules that follow TCP connections. The host whose capture it is has number 1000 as
// its ISN, the peer 5000.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/checker_util.h"

namespace tapwire::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testutil::Hex;
using testutil::Pattern;
using testutil::TcpArgs;

class CheckerTcpFlowTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool v6() { return GetParam(); }

  void Feed(const TcpArgs& args, size_t payload, Direction direction, uint32_t gso = 0) {
    const bool from_host = direction == Direction::kTransmit;
    TcpArgs tcp = args;
    tcp.source_port = from_host ? 1000 : 80;
    tcp.destination_port = from_host ? 80 : 1000;
    Build frame;
    frame.Eth(from_host ? kMacA : kMacB, from_host ? kMacB : kMacA);
    if (v6()) {
      frame.Ipv6({.source = from_host ? kA6 : kB6, .destination = from_host ? kB6 : kA6});
    } else {
      frame.Ipv4({.source = from_host ? kA : kB, .destination = from_host ? kB : kA});
    }
    const ByteVector bytes = frame.Tcp(tcp).Payload(Pattern(payload)).Build();
    checker_.Check({.time_ns = now_,
                    .direction = between_ ? Direction::kUnknown : direction,
                    .gso_size = gso,
                    .bytes = bytes});
  }
  void Host(const TcpArgs& args, size_t payload = 0, uint32_t gso = 0) {
    Feed(args, payload, Direction::kTransmit, gso);
  }
  void Peer(const TcpArgs& args, size_t payload = 0) { Feed(args, payload, Direction::kReceive); }

  // The host opens. Options: MSS of the host and of the peer, and both window scales.
  void Open(absl::string_view host_options = "020405b4 01030307",
            absl::string_view peer_options = "020405b4 01030302", uint16_t peer_window = 20'000) {
    Host({.seq = 1000, .flags = "S", .window = 64'000, .options = Hex(host_options)});
    Peer({.seq = 5000,
          .ack = 1001,
          .flags = "SA",
          .window = peer_window,
          .options = Hex(peer_options)});
    Host({.seq = 1001, .ack = 5001, .window = 1'000});
    Wait(10);
  }
  void Wait(int64_t ms) { now_ += ms * 1'000'000; }
  // Names of the rules broken since the last call.
  std::vector<std::string> Breaches() {
    std::vector<std::string> names;
    const auto& findings = checker_.report().findings;
    for (; told_ < findings.size(); ++told_) {
      if (findings[told_].severity != Severity::kNote)
        names.emplace_back(RuleName(findings[told_].rule));
    }
    return names;
  }

  CaptureChecker checker_{CheckerOptions{.judge_received = false}};
  bool between_ = false;
  int64_t now_ = 0;
  size_t told_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Families, CheckerTcpFlowTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "V6" : "V4"; });

// Covers: RFC 9293 SHLD-14
TEST_P(CheckerTcpFlowTest, RightEdgeMayNotMoveLeft) {
  // The scale is 7: 1,000 stands for 128,000.
  Open();
  Peer({.seq = 5001, .ack = 1001}, 1'280);
  Host({.seq = 1001, .ack = 6281, .window = 990});
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 1001, .ack = 6281, .window = 989});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-window-shrunk"));
  // A rest of less than one unit is rounding.
  Peer({.seq = 6281, .ack = 1001}, 100);
  Host({.seq = 1001, .ack = 6381, .window = 989});
  EXPECT_THAT(Breaches(), IsEmpty());
}

TEST_P(CheckerTcpFlowTest, WindowIsNotScaledUnlessBothOffer) {
  Open("020405b4 01030307", "020405b4");
  EXPECT_THAT(Breaches(), ElementsAre("tcp-window-shrunk"));  // 64,000, then 1,000
}

// Between the hosts an older segment may come later.
TEST_P(CheckerTcpFlowTest, ReorderedWindowsAreNotJudgedInBetween) {
  between_ = true;
  Open();
  Peer({.seq = 5001, .ack = 1001, .window = 5'000});
  Peer({.seq = 5001, .ack = 1001, .window = 4'000});
  Host({.seq = 1001, .ack = 5001, .window = 900});
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 1001, .ack = 5002, .window = 900});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-window-shrunk"));
}

// Covers: RFC 9293 MUST-16
TEST_P(CheckerTcpFlowTest, MssOfThePeerIsObeyed) {
  Open("020405b4 01030307", "020403e8 01030302");  // 1,000
  Host({.seq = 1001, .ack = 5001, .window = 1'000}, 1'000);
  Host({.seq = 2001, .ack = 5001, .window = 1'000}, 3'000, 1'000);
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 5001, .ack = 5001, .window = 1'000}, 1'001);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-mss"));
  // Options are part of it (RFC 9293 §3.7.1).
  const ByteVector stamps = Hex("0101 080a 0102030405060708");
  Host({.seq = 6002, .ack = 5001, .window = 1'000, .options = stamps}, 988);
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 6990, .ack = 5001, .window = 1'000, .options = stamps}, 989);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-mss"));
}

// Covers: RFC 9293 MUST-15
TEST_P(CheckerTcpFlowTest, MssHasItsDefault) {
  Open("020405b4", "", 20'000);
  Breaches();
  Host({.seq = 1001, .ack = 5001, .window = 64'000}, v6() ? 1'220 : 536);
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 1001, .ack = 5001, .window = 64'000}, v6() ? 1'221 : 537);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-mss"));
}

TEST_P(CheckerTcpFlowTest, DataStaysInsideTheWindow) {
  for (const bool between : {false, true}) {
    between_ = between;
    Open("020405b4 01030307", "020405b4 01030302", 1'500);  // a SYN's window is not scaled
    Host({.seq = 1001, .ack = 5001, .window = 1'000}, 1'000);
    Host({.seq = 2001, .ack = 5001, .window = 1'000}, 500);
    EXPECT_THAT(Breaches(), IsEmpty());
    Host({.seq = 2501, .ack = 5001, .window = 1'000}, 2);
    EXPECT_THAT(Breaches(), ElementsAre("tcp-beyond-window"));
    // A probe of one byte, and a FIN.
    Wait(1'000);
    Host({.seq = 2501, .ack = 5001, .window = 1'000}, 1);
    Host({.seq = 2501, .ack = 5001, .flags = "FA", .window = 1'000});
    EXPECT_THAT(Breaches(), IsEmpty());
    // 4 * 500 from 2501 on; what was promised earlier stays promised when the peer takes it back.
    Peer({.seq = 5001, .ack = 2501, .window = 500});
    Host({.seq = 2501, .ack = 5001, .window = 1'000}, 1'000);
    Peer({.seq = 5001, .ack = 2501, .window = 0});
    Host({.seq = 3501, .ack = 5001, .window = 1'000}, 1'000);
    EXPECT_THAT(Breaches(), IsEmpty());
    Host({.seq = 3502, .ack = 5001, .window = 1'000}, 1'000);
    EXPECT_THAT(Breaches(), ElementsAre("tcp-beyond-window"));
  }
}

// Without the handshake neither scale nor MSS is known.
TEST_P(CheckerTcpFlowTest, ConnectionWithoutItsStartIsNotJudged) {
  Peer({.seq = 5001, .ack = 1001, .window = 1});
  Host({.seq = 1001, .ack = 5001, .window = 100}, 1'400);
  Host({.seq = 2401, .ack = 5001, .window = 10}, 1'400);
  EXPECT_THAT(Breaches(), IsEmpty());
}

TEST_P(CheckerTcpFlowTest, AcknowledgmentIsNotAnswered) {
  Open();
  Peer({.seq = 5001, .ack = 1001, .window = 100});
  Host({.seq = 1001, .ack = 5001, .window = 1'000});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-ack-answered"));
  // What tells something new, or what comes by itself later, is no answer.
  Peer({.seq = 5001, .ack = 1001, .window = 101});
  Host({.seq = 1001, .ack = 5001, .window = 1'001});
  Peer({.seq = 5001, .ack = 1001, .window = 102});
  Wait(100);
  Host({.seq = 1001, .ack = 5001, .window = 1'001});
  EXPECT_THAT(Breaches(), IsEmpty());
}

TEST_P(CheckerTcpFlowTest, WhatMustBeAnsweredMayBe) {
  Open();
  const struct {
    const char* what;
    TcpArgs args;
    size_t payload;
  } cases[] = {
      {"keepalive", {.seq = 5000, .ack = 1001}, 0},
      {"old data", {.seq = 4001, .ack = 1001}, 1'000},
      {"acknowledges what was not sent", {.seq = 5001, .ack = 2001}, 0},
      {"SYN", {.seq = 5001, .flags = "S"}, 0},
      {"FIN", {.seq = 5001, .ack = 1001, .flags = "FA"}, 0},
      {"reset inside the window (RFC 5961)", {.seq = 5002, .ack = 1001, .flags = "RA"}, 0},
  };
  for (const auto& test : cases) {
    Peer(test.args, test.payload);
    // What the peer said last time does not matter.
    Host({.seq = 1001, .ack = 5001, .window = 1'000});
    EXPECT_THAT(Breaches(), IsEmpty()) << test.what;
  }
}

TEST_P(CheckerTcpFlowTest, ResetIsNotAnswered) {
  Open();
  Peer({.seq = 5001, .flags = "R"});
  Host({.seq = 1001, .ack = 5001, .window = 1'000});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-reset-answered"));
  Peer({.seq = 1, .flags = "R"});  // outside of the window
  Host({.seq = 1001, .ack = 5001, .window = 1'000});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-reset-answered"));
  // As if there were no connection (RFC 9293 §3.10.7.1).
  Peer({.seq = 5001, .flags = "R"});
  Host({.seq = 0, .ack = 5001, .flags = "RA"});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-reset-answered"));
  Peer({.seq = 5001, .ack = 1234, .flags = "RA"});
  Host({.seq = 1234, .flags = "R"});
  EXPECT_THAT(Breaches(), ElementsAre("tcp-reset-answered"));
  // The host's own wish to abort.
  Peer({.seq = 1, .flags = "R"});
  Host({.seq = 1001, .ack = 5001, .flags = "RA"});
  EXPECT_THAT(Breaches(), IsEmpty());
}

// Covers: bug:B44
TEST_P(CheckerTcpFlowTest, RetransmissionsBackOff) {
  Open();
  const auto send = [&](int64_t after_ms, size_t length = 1'000) {
    Wait(after_ms);
    Host({.seq = 1001, .ack = 5001, .window = 1'000}, length);
  };
  send(0);
  for (int64_t gap : {50, 200, 400, 800, 1'600, 60'000, 60'000, 60'000, 60'000}) send(gap);
  EXPECT_THAT(Breaches(), IsEmpty());
  for (int i = 0; i < 3; ++i) send(100);
  EXPECT_THAT(Breaches(), IsEmpty());
  send(100, 500);  // smaller
  for (int i = 0; i < 3; ++i) send(100, 500);
  EXPECT_THAT(Breaches(), IsEmpty());
  send(100, 500);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-no-back-off"));
  // Said once for a run; progress ends it.
  send(100, 500);
  Peer({.seq = 5001, .ack = 1501, .window = 1'000});
  for (int i = 0; i < 4; ++i) {
    Wait(100);
    Host({.seq = 1501, .ack = 5001, .window = 1'000}, 500);
  }
  EXPECT_THAT(Breaches(), IsEmpty());
}

TEST_P(CheckerTcpFlowTest, NewConnectionOfTheSameNumbersStartsAnew) {
  Open();
  Peer({.seq = 5001, .ack = 1001, .flags = "RA"});
  Wait(1'000);
  Host({.seq = 9000, .flags = "S", .window = 500});
  Peer({.seq = 100, .ack = 9001, .flags = "SA", .window = 100});
  Host({.seq = 9001, .ack = 101, .window = 500});
  EXPECT_THAT(Breaches(), IsEmpty());
  Host({.seq = 9001, .ack = 101, .window = 500}, 101);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-beyond-window"));
}

TEST_P(CheckerTcpFlowTest, SimultaneousOpenIsFollowed) {
  Host({.seq = 1000, .flags = "S", .window = 500});
  Peer({.seq = 5000, .flags = "S", .window = 100});
  Host({.seq = 1000, .ack = 5001, .flags = "SA", .window = 500});
  Peer({.seq = 5000, .ack = 1001, .flags = "SA", .window = 100});
  Host({.seq = 1001, .ack = 5001, .window = 500}, 101);
  EXPECT_THAT(Breaches(), ElementsAre("tcp-beyond-window"));
}

// Every rule can be switched off.
TEST_P(CheckerTcpFlowTest, RulesCanBeIgnored) {
  for (const bool ignore : {false, true}) {
    CheckerOptions options{.judge_received = false};
    const Rule rules[] = {Rule::kTcpWindowShrunk,  Rule::kTcpMss,         Rule::kTcpBeyondWindow,
                          Rule::kTcpResetAnswered, Rule::kTcpAckAnswered, Rule::kTcpNoBackOff};
    if (ignore) options.ignored.insert(std::begin(rules), std::end(rules));
    CaptureChecker checker(options);
    const auto host = [&](const TcpArgs& args, size_t payload = 0) {
      const ByteVector bytes = Tcp4(args).Payload(Pattern(payload)).Build();
      checker.Check({.direction = Direction::kTransmit, .bytes = bytes});
    };
    const auto peer = [&](TcpArgs args) {
      args.source_port = 80;
      args.destination_port = 1000;
      const ByteVector bytes =
          Build().Eth(kMacB, kMacA).Ipv4({.source = kB, .destination = kA}).Tcp(args).Build();
      checker.Check({.direction = Direction::kReceive, .bytes = bytes});
    };
    host({.seq = 1000, .flags = "S", .window = 500});
    peer({.seq = 5000, .ack = 1001, .flags = "SA", .window = 100, .options = Hex("02040064")});
    host({.seq = 1001, .ack = 5001, .window = 500});
    peer({.seq = 5001, .ack = 1001, .window = 100});
    host({.seq = 1001, .ack = 5001, .window = 500});
    peer({.seq = 5001, .flags = "R"});
    host({.seq = 1001, .ack = 5001, .window = 500});
    host({.seq = 1001, .ack = 5001, .window = 400});
    for (int i = 0; i < 5; ++i) host({.seq = 1001, .ack = 5001, .window = 500}, 101);
    for (Rule rule : rules) EXPECT_EQ(checker.report().count(rule) > 0, !ignore) << RuleName(rule);
  }
}

// Memory is bounded whatever a capture holds.
TEST(CheckerTcpFlowsTest, ManyFlowsAreForgotten) {
  CaptureChecker checker;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const ByteVector bytes =
        Tcp4({.source_port = static_cast<uint16_t>(1 + i % 60'000), .seq = i, .flags = "S"})
            .Build();
    checker.Check({.direction = Direction::kTransmit, .bytes = bytes});
  }
  EXPECT_TRUE(checker.report().clean());
}

}  // namespace
}  // namespace tapwire::capture
