// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_session.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/perf/iperf3_client.h"

namespace tapwire::apps::iperf3 {
namespace {

// From the connection of a client until its test starts, and from its end until the results are
// exchanged.
constexpr double kSetUpTime = 15;
constexpr double kResultsTime = 30;
// A test may last so much longer than its client said.
constexpr double kExtraTime = 40;
// Without a byte moved for so long, a test is given up.
constexpr double kIdleTime = 120;
constexpr double kCloseTime = 1;

}  // namespace

Session::Session(uv_loop_t* loop, Stack& stack, Report& report, double interval_s,
                 std::unique_ptr<TcpSocket> control)
    : report_(report),
      control_socket_(std::move(control)),
      control_(*this),
      run_(loop, stack.context(), report, interval_s),
      limit_timer_(loop),
      watch_timer_(loop),
      close_timer_(loop) {}

Session::~Session() = default;

void Session::Start(EndCallback on_end) {
  on_end_ = std::move(on_end);
  limit_timer_.Start(kSetUpTime, [this] {
    control_.Fail({ErrorCode::kNoData, "the client did not start its test", 0});
  });
  channel_ = std::make_unique<ControlChannel>(
      std::move(control_socket_),
      ControlChannel::Callbacks{
          .on_bytes = [this](std::span<const uint8_t> bytes) { control_.OnBytes(bytes); },
          .on_closed = [this] { control_.OnClosed(); }});
}

void Session::SendControl(std::string bytes) { channel_->Send(bytes); }

std::optional<Error> Session::OnParams(const Params& params) {
  // What we do not have matters only where we send.
  if (params.server_sends() && !params.congestion.empty() &&
      !IsKnownCongestionControl(params.congestion)) {
    return Error{ErrorCode::kCongestion, params.congestion, 0};
  }
  params_ = params;
  const TcpSocket& socket = channel_->socket();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  report_.OnOpening({.params = params,
                     .peer_host = socket.remote().address.ToString(),
                     .peer_port = socket.remote().port,
                     .cookie = *CookieText(control_.cookie()),
                     .mss = socket.Info().snd_mss,
                     .unix_time = std::chrono::duration_cast<std::chrono::seconds>(wall).count(),
                     .send_buffer = static_cast<uint64_t>(params.window),
                     .receive_buffer = socket.Info().rcv_space});
  run_.SetUp(
      params, /*counts_amount=*/false,
      {.on_amount = [] {}, .on_error = [this](const Error& error) { control_.Fail(error); }});
  return std::nullopt;
}

// ---- Data connections ----

void Session::AddCandidate(std::unique_ptr<TcpSocket> socket) {
  // More than the test has streams are strangers.
  if (candidates_.size() >= static_cast<size_t>(params_.stream_count())) return socket->Abort();
  candidates_.push_back({.socket = std::move(socket)});
  const auto candidate = std::prev(candidates_.end());
  const absl::Status status =
      candidate->socket->ReadyStart([this, candidate] { ReadCookie(candidate); });
  if (!status.ok()) candidates_.erase(candidate);
}

// Not a byte more than the cookie: what follows is the stream's.
void Session::ReadCookie(std::list<Candidate>::iterator candidate) {
  uint8_t buffer[kCookieSize];
  const std::span<uint8_t> room(buffer, kCookieSize - candidate->cookie.size());
  const absl::StatusOr<size_t> got = candidate->socket->TryRead(room);
  if (!got.ok() && IsWouldBlock(got.status())) return;
  if (!got.ok() || *got == 0) {
    candidates_.erase(candidate);
    return;
  }
  candidate->cookie.append(buffer, buffer + *got);
  if (candidate->cookie.size() < kCookieSize) return;
  if (candidate->cookie == control_.cookie() && control_.wants_streams()) return Accept(candidate);
  const uint8_t denied = static_cast<uint8_t>(State::kAccessDenied);
  (void)candidate->socket->TryWrite({&denied, 1});
  candidates_.erase(candidate);  // closes behind it
}

void Session::Accept(std::list<Candidate>::iterator candidate) {
  std::unique_ptr<TcpSocket> socket = std::move(candidate->socket);
  socket->ReadStop();
  candidates_.erase(candidate);
  socket->options() = SocketOptionsOf(params_);
  socket->OptionsChanged();
  // Of a bidirectional test the client sends on the first half.
  const bool first_half = run_.size() < static_cast<size_t>(params_.parallel);
  run_.AddStream(std::move(socket), params_.bidirectional ? !first_half : params_.reverse);
  if (run_.size() < static_cast<size_t>(params_.stream_count())) return;
  report_.OnStreams(run_.infos());
  control_.StreamsReady();
}

// ---- The test ----

void Session::OnTestStart() {
  limit_timer_.Stop();
  if (params_.time_s > 0) {
    const double limit = static_cast<double>(params_.time_s + params_.omit_s) + kExtraTime;
    limit_timer_.Start(limit, [this] { control_.Fail({ErrorCode::kServerDuration}); });
  }
  report_.OnTestStart();
  run_.Start();
  run_.StartSending();
  Watch(0);
}

void Session::Watch(uint64_t moved_before) {
  watch_timer_.Start(kIdleTime, [this, moved_before] {
    const uint64_t moved = run_.moved_bytes();
    if (moved == moved_before) return control_.Fail({ErrorCode::kNoData});
    Watch(moved);
  });
}

void Session::OnTestEnd() {
  watch_timer_.Stop();
  limit_timer_.Start(kResultsTime, [this] {
    control_.Fail({ErrorCode::kReceiveResults, "the client did not send them", 0});
  });
  run_.Finish();
  run_.Close([] {});
}

Results Session::LocalResults() { return run_.MakeResults(); }

void Session::OnDisplayResults(const Results& peer) {
  report_.OnSummary(MakeSummary(run_.meter(), run_.MakeResults(), &peer));
}

// ---- The end ----

void Session::OnFinished(std::optional<Error> error) {
  limit_timer_.Stop();
  watch_timer_.Stop();
  candidates_.clear();
  std::string message;
  absl::string_view prefix = "error - ";
  if (error) {
    message = ErrorText(*error);
    const bool terminated =
        error->code == ErrorCode::kClientTerminated || error->code == ErrorCode::kServerTerminated;
    if (terminated && run_.started()) {
      run_.Finish();
      report_.OnSummary(MakeSummary(run_.meter(), run_.MakeResults(), nullptr));
    }
    if (error->code == ErrorCode::kControlClosed) {
      message = "the client has unexpectedly closed the connection";
    }
    if (terminated || error->code == ErrorCode::kControlClosed) prefix = "";
    if (error->code == ErrorCode::kServerTerminated) message = "interrupt - " + message;
  }
  if (!report_.OnEnd(message) && error) PrintError(absl::StrCat(prefix, message));
  on_end_(error);
}

void Session::Close(std::function<void()> closed) {
  closed_ = std::move(closed);
  open_parts_ = 2;
  close_timer_.Start(kCloseTime, [this] {
    open_parts_ = 1;
    OnClosed();
  });
  channel_->Close([this] { OnClosed(); });
  run_.Close([this] { OnClosed(); });
}

void Session::OnClosed() {
  if (open_parts_ == 0 || --open_parts_ > 0) return;
  close_timer_.Stop();
  closed_();
}

}  // namespace tapwire::apps::iperf3
