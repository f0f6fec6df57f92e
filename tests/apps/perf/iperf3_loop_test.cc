// SPDX-License-Identifier: Apache-2.0
// Client and server of one process, on the two ends of a veth pair, over our own TCP.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/host.h"
#include "apps/perf/iperf3_client.h"
#include "apps/perf/iperf3_server.h"
#include "apps/uv_timer.h"

namespace tapwire::apps::iperf3 {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint16_t kPort = 5201;

// One client and what it said.
struct TestClient {
  std::string text;
  std::unique_ptr<Report> report;
  std::unique_ptr<Client> client;
  std::optional<int> exit_code;
};

class Iperf3LoopTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  Iperf3LoopTest() {
    HostFlags flags;
    flags.net = {"veth"};
    flags.dad = "off";
    auto options = ParseHostFlags(flags);
    EXPECT_TRUE(options.ok()) << options.status();
    auto host = Host::Create(loop_->get(), *options);
    EXPECT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    server_report_ = MakeTextReport({.role = Role::kServer},
                                    [this](const std::string& text) { server_text_ += text; });
  }
  ~Iperf3LoopTest() override {
    clients_.clear();
    server_.reset();
    host_.reset();
  }

  Endpoint server_endpoint() const {
    const auto prefix = IpPrefix::Parse(GetParam() == IpFamily::kV4 ? kVethPeer4 : kVethPeer6);
    return {prefix->address, kPort, 0};
  }
  absl::Status StartServer(bool one_off) {
    server_ = std::make_unique<Server>(loop_->get(), *host_->peer_stack(),
                                       Server::Options{.port = kPort, .one_off = one_off},
                                       *server_report_, [this](int exit_code) {
                                         server_exit_ = exit_code;
                                         StopIfDone();
                                       });
    return server_->Start();
  }
  TestClient& StartClient(const Params& params, double interval_s = 1) {
    clients_.push_back(std::make_unique<TestClient>());
    TestClient& test = *clients_.back();
    test.report = MakeTextReport({.role = Role::kClient},
                                 [&test](const std::string& text) { test.text += text; });
    test.client = std::make_unique<Client>(
        loop_->get(), host_->stack(),
        Client::Options{.params = params, .server = server_endpoint(), .interval_s = interval_s},
        *test.report, [this, &test](int exit_code) {
          test.exit_code = exit_code;
          StopIfDone();
        });
    test.client->Start();
    return test;
  }
  void StopIfDone() {
    bool done = !server_ || server_exit_.has_value();
    for (const auto& test : clients_) done = done && test->exit_code.has_value();
    if (done) host_->Stop();
  }
  // Runs `begin` when the host is up, and the loop until everybody is done.
  template <typename Begin>
  void Run(Begin begin) {
    UvTimer limit(loop_->get());
    limit.Start(30, [this] {
      ADD_FAILURE() << "does not end: " << server_text_;
      host_->Stop();
    });
    const absl::Status status = host_->Run([&](absl::Status ready) {
      ASSERT_TRUE(ready.ok()) << ready;
      begin();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  void RunOne(const Params& params, double interval_s = 1) {
    Run([&] {
      ASSERT_TRUE(StartServer(true).ok());
      StartClient(params, interval_s);
    });
    EXPECT_EQ(server_exit_, 0) << server_text_;
    EXPECT_EQ(client().exit_code, 0) << client().text;
    EXPECT_THAT(client().text, HasSubstr("\niperf Done.\n"));
  }
  TestClient& client() { return *clients_.at(0); }

  std::unique_ptr<UvLoop> loop_ = *UvLoop::Create();
  std::unique_ptr<Host> host_;
  std::string server_text_;
  std::unique_ptr<Report> server_report_;
  std::unique_ptr<Server> server_;
  std::optional<int> server_exit_;
  std::vector<std::unique_ptr<TestClient>> clients_;
};

INSTANTIATE_TEST_SUITE_P(Families, Iperf3LoopTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(Iperf3LoopTest, AmountArrivesInFull) {
  RunOne({.time_s = 0, .num = 4 * 1024 * 1024});
  EXPECT_THAT(client().text, ContainsRegex("sec  4\\.00 MBytes .* sender\n"));
  EXPECT_THAT(server_text_, ContainsRegex("Accepted connection from .*, port [0-9]+\n"));
  EXPECT_THAT(server_text_, ContainsRegex("sec .* MBytes .* receiver\n"));
}

TEST_P(Iperf3LoopTest, BlocksAreCountedByTheReceiverToo) {
  RunOne({.time_s = 0, .blockcount = 32, .length = 65'536, .reverse = true});
  EXPECT_THAT(client().text, ContainsRegex("sec  2\\.[01][0-9] MBytes .* receiver\n"));
  EXPECT_THAT(server_text_, ContainsRegex("sec .* MBytes .* sender\n"));
}

TEST_P(Iperf3LoopTest, IntervalsFollowEachOther) {
  RunOne({.time_s = 1, .bandwidth = 40'000'000}, 0.25);
  for (const char* interval :
       {"  0.00-0.2[5-9] ", "  0.2[5-9]-0.5. ", "  0.5.-0.7[5-9] ", "  0.7[5-9]-1.0. "}) {
    EXPECT_THAT(client().text, ContainsRegex(interval));
  }
  EXPECT_THAT(client().text, ContainsRegex("0.00-1.0. +sec  (4.[5-9]|5.[01])[0-9] MBytes"));
}

TEST_P(Iperf3LoopTest, ParallelStreamsHaveTheirOwnLines) {
  RunOne({.time_s = 1, .parallel = 3, .bandwidth = 10'000'000});
  for (const char* id : {"\n[  5] ", "\n[  7] ", "\n[  9] ", "\n[SUM] "}) {
    EXPECT_THAT(client().text, HasSubstr(id));
    EXPECT_THAT(server_text_, HasSubstr(id));
  }
}

TEST_P(Iperf3LoopTest, BothSendInABidirectionalTest) {
  RunOne({.omit_s = 1, .time_s = 1, .bandwidth = 10'000'000, .bidirectional = true});
  EXPECT_THAT(client().text, ContainsRegex("\\[TX-C\\] .* 1.[0-9]+ MBytes .* receiver\n"));
  EXPECT_THAT(client().text, ContainsRegex("\\[RX-C\\] .* 1.[0-9]+ MBytes .* receiver\n"));
  EXPECT_THAT(server_text_, ContainsRegex("\\[TX-S\\] .* 1.[0-9]+ MBytes .* sender\n"));
  EXPECT_THAT(client().text, HasSubstr("(omitted)\n"));
}

TEST_P(Iperf3LoopTest, TinyBlocksDoNotStarveTheTimers) {
  RunOne({.time_s = 1, .length = 1});
  EXPECT_THAT(client().text, ContainsRegex("0.00-1.[0-4]. "));
}

TEST_P(Iperf3LoopTest, ClosedPortIsAnError) {
  Run([&] { StartClient({.time_s = 1}); });
  EXPECT_EQ(client().exit_code, 1);
  EXPECT_EQ(client().text, "");
}

TEST_P(Iperf3LoopTest, SecondClientIsRefusedAndTheServerServesOn) {
  UvTimer later(loop_->get()), last(loop_->get());
  Run([&] {
    ASSERT_TRUE(StartServer(false).ok());
    StartClient({.time_s = 1, .bandwidth = 1'000'000});
    later.Start(0.5, [&] { StartClient({.time_s = 1}); });
    last.Start(1.8, [&] {
      StartClient({.time_s = 0, .num = 1'000'000});
      later.Start(1, [&] { server_->Interrupt(); });
    });
  });
  EXPECT_EQ(clients_.at(0)->exit_code, 0);
  EXPECT_EQ(clients_.at(1)->exit_code, 1);
  EXPECT_EQ(clients_.at(2)->exit_code, 0);
  EXPECT_EQ(server_exit_, 1);
  EXPECT_THAT(server_text_, HasSubstr("Server listening on 5201 (test #3)\n"));
  EXPECT_THAT(server_text_, Not(HasSubstr("(test #4)")));
}

TEST_P(Iperf3LoopTest, InterruptOfEitherEndEndsBoth) {
  for (const bool by_client : {true, false}) {
    clients_.clear();
    server_exit_.reset();
    server_text_.clear();
    UvTimer later(loop_->get());
    Run([&] {
      ASSERT_TRUE(StartServer(true).ok());
      StartClient({.time_s = 0});
      later.Start(0.5, [&] { by_client ? client().client->Interrupt() : server_->Interrupt(); });
    });
    EXPECT_EQ(client().exit_code, 1);
    EXPECT_EQ(server_exit_, 1);
    EXPECT_THAT(client().text, ContainsRegex("sec .* sender\n"));
    EXPECT_THAT(server_text_, ContainsRegex("sec .* receiver\n"));
    EXPECT_THAT(client().text, Not(HasSubstr("iperf Done.")));
    server_.reset();
  }
}

TEST_P(Iperf3LoopTest, PortInUseIsAnError) {
  Run([&] {
    ASSERT_TRUE(StartServer(true).ok());
    std::string text;
    const auto report = MakeTextReport({.role = Role::kServer}, [](const std::string&) {});
    Server second(loop_->get(), *host_->peer_stack(), {.port = kPort}, *report, [](int) {});
    EXPECT_FALSE(second.Start().ok());
    StartClient({.time_s = 0, .num = 1'000'000});
  });
  EXPECT_EQ(client().exit_code, 0);
}

}  // namespace
}  // namespace tapwire::apps::iperf3
