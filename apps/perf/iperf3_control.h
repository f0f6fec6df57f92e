// SPDX-License-Identifier: Apache-2.0
// The two ends of a control connection as state machines without input and output: bytes go in,
// calls to the owner come out. An owner may destroy its machine only outside of a call from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/perf/iperf3_protocol.h"

namespace tapwire::apps::iperf3 {

// What a client machine asks for, in the order of a test.
class ClientOwner {
 public:
  virtual ~ClientOwner() = default;
  virtual void SendControl(std::string bytes) = 0;
  virtual void OnParamExchange() = 0;  // the server has taken us
  virtual void OnCreateStreams() = 0;  // open the data connections now
  virtual void OnTestStart() = 0;      // set counters and clocks to zero
  virtual void OnTestRunning() = 0;    // send
  virtual Results LocalResults() = 0;  // the test is over: stop counting
  virtual void OnDisplayResults(const Results& peer) = 0;
  // The last call of every test, at once or after the above: the error, or none.
  virtual void OnFinished(std::optional<Error> error) = 0;
};

class ClientControl {
 public:
  // `owner` outlives the machine. `cookie` is one of MakeCookie().
  ClientControl(const Params& params, std::string cookie, ClientOwner& owner);

  void Start();  // the control connection is up
  void OnBytes(std::span<const uint8_t> bytes);
  void OnClosed();  // by the peer, or by an error
  // The duration or the amount has been reached. Ignored unless the test runs.
  void EndTest();
  // The user's interrupt: tells the server, and finishes with kClientTerminated.
  void Terminate();
  // Something failed on our side.
  void Fail(const Error& error);

  bool running() const { return phase_ == Phase::kRunning; }
  bool finished() const { return phase_ == Phase::kFinished; }

 private:
  enum class Phase {
    kIdle,
    kCookieSent,
    kParamsSent,
    kStreams,   // opened as the server accepts them
    kStarting,  // TEST_START has come
    kRunning,
    kEnding,   // TEST_END is sent
    kResults,  // ours are sent
    kResultsReceived,
    kErrorCodes,  // SERVER_ERROR has come
    kFinished,
  };
  bool TakeMessage();
  void OnState(State state);
  bool OnExpectedState(State state);
  bool TakeResults();
  bool TakeErrorCodes();
  void Finish(std::optional<Error> error);

  Params params_;
  std::string cookie_;
  ClientOwner& owner_;
  Phase phase_ = Phase::kIdle;
  ControlInput input_;
  Results peer_;
};

class ServerOwner {
 public:
  virtual ~ServerOwner() = default;
  virtual void SendControl(std::string bytes) = 0;
  // The parameters are in range. An error refuses them; otherwise data connections follow.
  virtual std::optional<Error> OnParams(const Params& params) = 0;
  virtual void OnTestStart() = 0;  // all streams are there: counters to zero, and send
  virtual void OnTestEnd() = 0;    // stop counting, close the data connections
  virtual Results LocalResults() = 0;
  virtual void OnDisplayResults(const Results& peer) = 0;
  virtual void OnFinished(std::optional<Error> error) = 0;
};

class ServerControl {
 public:
  explicit ServerControl(ServerOwner& owner) : owner_(owner) {}

  void OnBytes(std::span<const uint8_t> bytes);
  void OnClosed();
  // Every data connection of the test has been accepted.
  void StreamsReady();
  // The user's interrupt: tells the client, and finishes with kServerTerminated.
  void Terminate();
  // Tells the client, and finishes.
  void Fail(const Error& error);

  // The 37 bytes that data connections of this test must start with.
  const std::string& cookie() const { return cookie_; }
  bool wants_streams() const { return phase_ == Phase::kStreams; }
  bool running() const { return phase_ == Phase::kRunning; }

 private:
  enum class Phase { kCookie, kParams, kStreams, kRunning, kResults, kDone, kFinished };
  bool TakeMessage();
  bool TakeCookie();
  bool TakeParams();
  bool TakeResults();
  bool TakeState();
  void Finish(std::optional<Error> error);

  ServerOwner& owner_;
  Phase phase_ = Phase::kCookie;
  ControlInput input_;
  std::string cookie_;
  Params params_;
};

// True if `results` has one entry for each of `count` streams and no other.
bool CoversStreams(const Results& results, size_t count);

}  // namespace tapwire::apps::iperf3
