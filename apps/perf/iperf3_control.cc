// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_control.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tapwire::apps::iperf3 {
namespace {

Error Unknown(State state) {
  return {ErrorCode::kUnknownMessage, absl::StrCat("state ", static_cast<int>(state)), 0};
}

Error ResultsSize() { return {ErrorCode::kReceiveResults, "their size is out of range", 0}; }

}  // namespace

bool CoversStreams(const Results& results, size_t count) {
  std::vector<bool> seen(count, false);
  for (const StreamResult& stream : results.streams) {
    size_t index = 0;
    while (index < count && StreamId(index) != stream.id) ++index;
    if (index == count || seen[index]) return false;
    seen[index] = true;
  }
  return results.streams.size() == count;
}

// ---- Client ----

ClientControl::ClientControl(const Params& params, std::string cookie, ClientOwner& owner)
    : params_(params), cookie_(std::move(cookie)), owner_(owner) {}

void ClientControl::Start() {
  phase_ = Phase::kCookieSent;
  owner_.SendControl(cookie_);
}

void ClientControl::OnBytes(std::span<const uint8_t> bytes) {
  if (finished()) return;
  input_.Append(bytes);
  while (!finished() && TakeMessage()) {
  }
}

void ClientControl::OnClosed() { Finish(Error{ErrorCode::kControlClosed}); }

bool ClientControl::TakeMessage() {
  if (phase_ == Phase::kErrorCodes) return TakeErrorCodes();
  if (phase_ == Phase::kResults) return TakeResults();
  const std::optional<State> state = input_.TakeState();
  if (!state) return false;
  OnState(*state);
  return true;
}

void ClientControl::OnState(State state) {
  switch (state) {
    case State::kAccessDenied:
      return Finish(Error{ErrorCode::kBusy});
    case State::kServerError:
      phase_ = Phase::kErrorCodes;
      return;
    case State::kServerTerminate:
      return Finish(Error{ErrorCode::kServerTerminated});
    default:
      if (!OnExpectedState(state)) Finish(Unknown(state));
  }
}

// False: the state does not belong here.
bool ClientControl::OnExpectedState(State state) {
  if (state == State::kParamExchange && phase_ == Phase::kCookieSent) {
    phase_ = Phase::kParamsSent;
    owner_.OnParamExchange();
    owner_.SendControl(EncodeJson(EncodeParams(params_)));
  } else if (state == State::kCreateStreams && phase_ == Phase::kParamsSent) {
    phase_ = Phase::kStreams;
    owner_.OnCreateStreams();
  } else if (state == State::kTestStart && phase_ == Phase::kStreams) {
    phase_ = Phase::kStarting;
    owner_.OnTestStart();
  } else if (state == State::kTestRunning && phase_ == Phase::kStarting) {
    phase_ = Phase::kRunning;
    owner_.OnTestRunning();
  } else if (state == State::kExchangeResults &&
             (phase_ == Phase::kEnding || phase_ == Phase::kRunning)) {
    phase_ = Phase::kResults;
    owner_.SendControl(EncodeJson(EncodeResults(owner_.LocalResults())));
  } else if (state == State::kDisplayResults && phase_ == Phase::kResultsReceived) {
    owner_.OnDisplayResults(peer_);
    owner_.SendControl(EncodeState(State::kDone));
    Finish(std::nullopt);
  } else {
    return false;
  }
  return true;
}

bool ClientControl::TakeResults() {
  std::string text;
  switch (input_.TakeJson(kMaxResultsSize, text)) {
    case ControlInput::JsonStatus::kMore:
      return false;
    case ControlInput::JsonStatus::kWrong:
      Finish(ResultsSize());
      return false;
    case ControlInput::JsonStatus::kReady:
      break;
  }
  if (std::optional<Error> error = ParseResults(text, peer_)) {
    Finish(std::move(error));
  } else if (!CoversStreams(peer_, static_cast<size_t>(params_.stream_count()))) {
    Finish(Error{ErrorCode::kStreamId});
  } else {
    phase_ = Phase::kResultsReceived;
  }
  return true;
}

bool ClientControl::TakeErrorCodes() {
  const std::optional<ControlInput::Codes> codes = input_.TakeErrorCodes();
  if (!codes) return false;
  Finish(Error{static_cast<ErrorCode>(codes->code), "", codes->sys_errno});
  return true;
}

void ClientControl::EndTest() {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kEnding;
  owner_.SendControl(EncodeState(State::kTestEnd));
}

void ClientControl::Terminate() {
  if (finished()) return;
  if (phase_ != Phase::kIdle) owner_.SendControl(EncodeState(State::kClientTerminate));
  Finish(Error{ErrorCode::kClientTerminated});
}

void ClientControl::Fail(const Error& error) { Finish(error); }

void ClientControl::Finish(std::optional<Error> error) {
  if (finished()) return;
  phase_ = Phase::kFinished;
  owner_.OnFinished(std::move(error));
}

// ---- Server ----

void ServerControl::OnBytes(std::span<const uint8_t> bytes) {
  if (phase_ == Phase::kFinished) return;
  input_.Append(bytes);
  while (phase_ != Phase::kFinished && TakeMessage()) {
  }
}

bool ServerControl::TakeMessage() {
  switch (phase_) {
    case Phase::kCookie:
      return TakeCookie();
    case Phase::kParams:
      return TakeParams();
    case Phase::kResults:
      return TakeResults();
    default:
      return TakeState();
  }
}

bool ServerControl::TakeCookie() {
  std::optional<std::string> cookie = input_.TakeCookie();
  if (!cookie) return false;
  if (!CookieText(*cookie)) {
    Finish(Error{ErrorCode::kReceiveCookie, "it is no text of 36 characters", 0});
    return false;
  }
  cookie_ = *std::move(cookie);
  phase_ = Phase::kParams;
  owner_.SendControl(EncodeState(State::kParamExchange));
  return true;
}

bool ServerControl::TakeParams() {
  std::string text;
  switch (input_.TakeJson(kMaxParamsSize, text)) {
    case ControlInput::JsonStatus::kMore:
      return false;
    case ControlInput::JsonStatus::kWrong:
      Fail({ErrorCode::kReceiveParams, "their size is out of range", 0});
      return false;
    case ControlInput::JsonStatus::kReady:
      break;
  }
  std::optional<Error> error = ParseParams(text, params_);
  if (!error) error = owner_.OnParams(params_);
  if (error) {
    Fail(*error);
    return false;
  }
  phase_ = Phase::kStreams;
  owner_.SendControl(EncodeState(State::kCreateStreams));
  return true;
}

bool ServerControl::TakeState() {
  const std::optional<State> state = input_.TakeState();
  if (!state) return false;
  if (*state == State::kClientTerminate) {
    Finish(Error{ErrorCode::kClientTerminated});
  } else if (*state == State::kTestEnd && phase_ == Phase::kRunning) {
    phase_ = Phase::kResults;
    owner_.OnTestEnd();
    owner_.SendControl(EncodeState(State::kExchangeResults));
  } else if (*state == State::kDone && phase_ == Phase::kDone) {
    Finish(std::nullopt);
  } else {
    Fail(Unknown(*state));
  }
  return true;
}

bool ServerControl::TakeResults() {
  std::string text;
  switch (input_.TakeJson(kMaxResultsSize, text)) {
    case ControlInput::JsonStatus::kMore:
      return false;
    case ControlInput::JsonStatus::kWrong:
      Fail(ResultsSize());
      return false;
    case ControlInput::JsonStatus::kReady:
      break;
  }
  Results peer;
  std::optional<Error> error = ParseResults(text, peer);
  if (!error && !CoversStreams(peer, static_cast<size_t>(params_.stream_count()))) {
    error = Error{ErrorCode::kStreamId};
  }
  if (error) {
    Fail(*error);
    return false;
  }
  phase_ = Phase::kDone;
  owner_.SendControl(EncodeJson(EncodeResults(owner_.LocalResults())));
  owner_.SendControl(EncodeState(State::kDisplayResults));
  owner_.OnDisplayResults(peer);
  return true;
}

void ServerControl::StreamsReady() {
  if (phase_ != Phase::kStreams) return;
  phase_ = Phase::kRunning;
  owner_.SendControl(
      absl::StrCat(EncodeState(State::kTestStart), EncodeState(State::kTestRunning)));
  owner_.OnTestStart();
}

// A client that has its results may go without a last word.
void ServerControl::OnClosed() {
  if (phase_ == Phase::kDone) return Finish(std::nullopt);
  Finish(Error{ErrorCode::kControlClosed});
}

void ServerControl::Terminate() {
  if (phase_ == Phase::kFinished) return;
  owner_.SendControl(EncodeState(State::kServerTerminate));
  Finish(Error{ErrorCode::kServerTerminated});
}

void ServerControl::Fail(const Error& error) {
  if (phase_ == Phase::kFinished) return;
  owner_.SendControl(EncodeServerError(error));
  Finish(error);
}

void ServerControl::Finish(std::optional<Error> error) {
  if (phase_ == Phase::kFinished) return;
  phase_ = Phase::kFinished;
  owner_.OnFinished(std::move(error));
}

}  // namespace tapwire::apps::iperf3
