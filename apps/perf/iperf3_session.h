// SPDX-License-Identifier: Apache-2.0
// One test as the server holds it: the control connection, the data connections that belong to it,
// and the time limits that keep a silent client from blocking the server.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "apps/perf/iperf3_channel.h"
#include "apps/perf/iperf3_control.h"
#include "apps/perf/iperf3_run.h"
#include "apps/uv_timer.h"
#include "stack/stack.h"

namespace tapwire::apps::iperf3 {

class Session final : private ServerOwner {
 public:
  // Called once, from within the session: destroy it later.
  using EndCallback = std::function<void(const std::optional<Error>&)>;

  Session(uv_loop_t* loop, Stack& stack, Report& report, double interval_s,
          std::unique_ptr<TcpSocket> control);
  ~Session() override;
  void Start(EndCallback on_end);

  bool wants_streams() const { return control_.wants_streams(); }
  // A connection that says it belongs to this test: it must begin with the cookie.
  void AddCandidate(std::unique_ptr<TcpSocket> socket);
  void Terminate() { control_.Terminate(); }
  // `closed` runs once, when the connections are gone or a second has passed.
  void Close(std::function<void()> closed);

 private:
  struct Candidate {
    std::unique_ptr<TcpSocket> socket;
    std::string cookie = {};
  };

  void SendControl(std::string bytes) override;
  std::optional<Error> OnParams(const Params& params) override;
  void OnTestStart() override;
  void OnTestEnd() override;
  Results LocalResults() override;
  void OnDisplayResults(const Results& peer) override;
  void OnFinished(std::optional<Error> error) override;

  void ReadCookie(std::list<Candidate>::iterator candidate);
  void Accept(std::list<Candidate>::iterator candidate);
  void Watch(uint64_t moved_before);
  void OnClosed();

  Report& report_;
  std::unique_ptr<TcpSocket> control_socket_;
  std::unique_ptr<ControlChannel> channel_;
  EndCallback on_end_;
  ServerControl control_;
  TestRun run_;
  Params params_;
  std::list<Candidate> candidates_;
  UvTimer limit_timer_, watch_timer_, close_timer_;
  std::function<void()> closed_;
  int open_parts_ = 0;
};

}  // namespace tapwire::apps::iperf3
