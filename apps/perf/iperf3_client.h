// SPDX-License-Identifier: Apache-2.0
// The client: one test against one server, over TcpSockets of a stack on a libuv loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/perf/iperf3_channel.h"
#include "apps/perf/iperf3_control.h"
#include "apps/perf/iperf3_run.h"
#include "apps/uv_timer.h"
#include "stack/stack.h"

namespace tapwire::apps::iperf3 {

class Client final : private ClientOwner {
 public:
  struct Options {
    Params params;
    Endpoint server;
    std::optional<IpAddress> bind = {};
    double interval_s = 1;
  };
  // The exit code: 0 good, 1 failed or interrupted. Runs once, when the connections are closed.
  using DoneCallback = std::function<void(int exit_code)>;

  // `loop`, `stack` and `report` outlive the client.
  Client(uv_loop_t* loop, Stack& stack, Options options, Report& report, DoneCallback done);

  void Start();
  // Tells the server, prints what there is, and ends.
  void Interrupt();

 private:
  void SendControl(std::string bytes) override;
  void OnParamExchange() override;
  void OnCreateStreams() override;
  void OnTestStart() override;
  void OnTestRunning() override;
  Results LocalResults() override;
  void OnDisplayResults(const Results& peer) override;
  void OnFinished(std::optional<Error> error) override;

  void OnControlConnected(const absl::Status& status);
  void ConnectStream();
  void OnStreamConnected(const absl::Status& status);
  void EndTest();
  void CloseAll();
  void OnClosed();
  absl::StatusOr<std::unique_ptr<TcpSocket>> Connect(const TcpSocket::Options& socket,
                                                     TcpSocket::ConnectCallback done);

  Stack& stack_;
  Options options_;
  Report& report_;
  DoneCallback done_;
  std::string cookie_;
  ClientControl control_;
  TestRun run_;
  std::unique_ptr<TcpSocket> connecting_;
  std::unique_ptr<ControlChannel> channel_;
  UvTimer end_timer_, close_timer_;
  int exit_code_ = 1;
  int open_parts_ = 0;  // channel and streams that are still being closed
};

// Prints "iperf3: …" on standard error.
void PrintError(const std::string& message);

}  // namespace tapwire::apps::iperf3
