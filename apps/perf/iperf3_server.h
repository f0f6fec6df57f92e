// SPDX-License-Identifier: Apache-2.0
// The server: one test at a time, on listeners of a stack on a libuv loop, until it is interrupted.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/perf/iperf3_protocol.h"
#include "apps/perf/iperf3_report.h"
#include "apps/uv_timer.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/stack.h"

namespace tapwire::apps::iperf3 {

class Session;

class Server {
 public:
  struct Options {
    uint16_t port = kDefaultPort;
    std::optional<IpAddress> bind = {};  // none: every address of `families`
    bool v4 = true, v6 = true;
    double interval_s = 1;
    bool one_off = false;
  };
  // Runs when a one-off server has served, or when the interrupt has been dealt with.
  using DoneCallback = std::function<void(int exit_code)>;

  // `loop`, `stack` and `report` outlive the server.
  Server(uv_loop_t* loop, Stack& stack, const Options& options, Report& report, DoneCallback done);
  ~Server();

  // kAlreadyExists and the like, with the address in the message.
  absl::Status Start();
  void Interrupt();

 private:
  friend class Session;
  class Refusal;

  absl::Status Listen(const IpAddress& address);
  void OnAccept(std::unique_ptr<TcpSocket> socket);
  void Refuse(std::unique_ptr<TcpSocket> socket);
  void StartSession(std::unique_ptr<TcpSocket> socket);
  // The session has said its last word; called from within it.
  void OnSessionEnd(const std::optional<Error>& error);
  void Leave(int exit_code);

  uv_loop_t* loop_;
  Stack& stack_;
  Options options_;
  Report& report_;
  DoneCallback done_;
  std::vector<std::unique_ptr<TcpListener>> listeners_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<TcpSocket> waiting_;  // came when the session had ended but was still there
  std::list<Refusal> refusals_;
  UvTimer next_timer_;
  int test_number_ = 1;
  bool session_ended_ = false;
  bool interrupted_ = false;
};

}  // namespace tapwire::apps::iperf3
