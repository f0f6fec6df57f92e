// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_client.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/report.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::iperf3 {
namespace {

// How long connections may take to close before we leave.
constexpr double kCloseTime = 1.0;

std::string HostOf(const Endpoint& endpoint) { return endpoint.address.ToString(); }

Error ConnectError(ErrorCode code, const absl::Status& status) {
  const int number = absl::IsNotFound(status) ? ENETUNREACH : StatusToErrno(status);  // no route
  return {code, number == 0 ? std::string(status.message()) : "", number};
}

}  // namespace

void PrintError(const std::string& message) {
  FlushOutput();
  std::fprintf(stderr, "iperf3: %s\n", message.c_str());
}

Client::Client(uv_loop_t* loop, Stack& stack, Options options, Report& report, DoneCallback done)
    : stack_(stack),
      options_(std::move(options)),
      report_(report),
      done_(std::move(done)),
      cookie_(MakeCookie(stack.context().random())),
      control_(options_.params, cookie_, *this),
      run_(loop, stack.context(), report, options_.interval_s),
      end_timer_(loop),
      close_timer_(loop) {
  run_.SetUp(options_.params, /*counts_amount=*/true,
             {.on_amount = [this] { EndTest(); },
              .on_error = [this](const Error& error) { control_.Fail(error); }});
}

absl::StatusOr<std::unique_ptr<TcpSocket>> Client::Connect(const TcpSocket::Options& socket,
                                                           TcpSocket::ConnectCallback done) {
  TcpSocket::ConnectOptions options{.socket = socket};
  if (options_.bind) options.local = Endpoint{*options_.bind, 0, options_.server.zone};
  return TcpSocket::Connect(stack_, options_.server, options, std::move(done));
}

void Client::Start() {
  TcpSocket::Options options;
  options.nodelay = true;
  auto socket =
      Connect(options, [this](const absl::Status& status) { OnControlConnected(status); });
  if (!socket.ok()) return control_.Fail(ConnectError(ErrorCode::kConnect, socket.status()));
  connecting_ = *std::move(socket);
}

void Client::OnControlConnected(const absl::Status& status) {
  if (!status.ok()) return control_.Fail(ConnectError(ErrorCode::kConnect, status));
  channel_ = std::make_unique<ControlChannel>(
      std::move(connecting_),
      ControlChannel::Callbacks{
          .on_bytes = [this](std::span<const uint8_t> bytes) { control_.OnBytes(bytes); },
          .on_closed = [this] { control_.OnClosed(); }});
  control_.Start();
}

void Client::SendControl(std::string bytes) {
  if (channel_) channel_->Send(bytes);
}

void Client::OnParamExchange() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const TcpSocket& socket = channel_->socket();
  report_.OnOpening({.params = options_.params,
                     .peer_host = HostOf(options_.server),
                     .peer_port = options_.server.port,
                     .cookie = *CookieText(cookie_),
                     .mss = socket.Info().snd_mss,
                     .unix_time = std::chrono::duration_cast<std::chrono::seconds>(wall).count(),
                     .send_buffer = static_cast<uint64_t>(options_.params.window),
                     .receive_buffer = socket.Info().rcv_space});
}

// One after the other: the server numbers streams in the order they come.
void Client::OnCreateStreams() { ConnectStream(); }

void Client::ConnectStream() {
  auto socket = Connect(SocketOptionsOf(options_.params),
                        [this](const absl::Status& status) { OnStreamConnected(status); });
  if (!socket.ok()) return control_.Fail(ConnectError(ErrorCode::kStreamConnect, socket.status()));
  connecting_ = *std::move(socket);
}

void Client::OnStreamConnected(const absl::Status& status) {
  if (!status.ok()) return control_.Fail(ConnectError(ErrorCode::kStreamConnect, status));
  // The buffer of a new connection takes a cookie.
  const auto* bytes = reinterpret_cast<const uint8_t*>(cookie_.data());
  const absl::StatusOr<size_t> sent = connecting_->TryWrite({bytes, cookie_.size()});
  if (!sent.ok() || *sent != cookie_.size()) {
    return control_.Fail(ConnectError(ErrorCode::kStreamConnect, sent.status()));
  }
  const Params& params = options_.params;
  // Of a bidirectional test the first half sends.
  const auto half = static_cast<size_t>(params.parallel);
  const bool sender = params.bidirectional ? run_.size() < half : !params.reverse;
  run_.AddStream(std::move(connecting_), sender);
  if (run_.size() < static_cast<size_t>(params.stream_count())) return ConnectStream();
  report_.OnStreams(run_.infos());
}

void Client::OnTestStart() {
  if (run_.size() < static_cast<size_t>(options_.params.stream_count())) {
    return control_.Fail({ErrorCode::kUnknownMessage, "the test starts without its streams", 0});
  }
  report_.OnTestStart();
  run_.Start();
}

void Client::OnTestRunning() {
  const Params& params = options_.params;
  if (params.time_s > 0) {
    end_timer_.Start(static_cast<double>(params.omit_s + params.time_s), [this] { EndTest(); });
  }
  run_.StartSending();
}

void Client::EndTest() {
  if (!control_.running()) return;
  run_.Finish();
  control_.EndTest();
}

// The server may also end the test itself.
Results Client::LocalResults() {
  end_timer_.Stop();
  run_.Finish();
  return run_.MakeResults();
}

void Client::OnDisplayResults(const Results& peer) {
  report_.OnSummary(MakeSummary(run_.meter(), run_.MakeResults(), &peer));
}

void Client::Interrupt() { control_.Terminate(); }

void Client::OnFinished(std::optional<Error> error) {
  end_timer_.Stop();
  exit_code_ = error ? 1 : 0;
  std::string message;
  if (error) {
    const bool terminated =
        error->code == ErrorCode::kClientTerminated || error->code == ErrorCode::kServerTerminated;
    if (terminated && run_.started()) {
      run_.Finish();
      report_.OnSummary(MakeSummary(run_.meter(), run_.MakeResults(), nullptr));
    }
    message = ErrorText(*error);
    if (error->code == ErrorCode::kClientTerminated) message = "interrupt - " + message;
  }
  if (!report_.OnEnd(message) && error) {
    const bool interrupt = error->code == ErrorCode::kClientTerminated;
    PrintError(interrupt ? message : absl::StrCat("error - ", message));
  }
  // From the loop: we are in a callback of what is to be closed.
  close_timer_.Start(0, [this] { CloseAll(); });
}

void Client::CloseAll() {
  connecting_.reset();
  open_parts_ = channel_ ? 2 : 1;
  close_timer_.Start(kCloseTime, [this] {
    open_parts_ = 1;
    OnClosed();
  });
  if (channel_) channel_->Close([this] { OnClosed(); });
  run_.Close([this] { OnClosed(); });
}

void Client::OnClosed() {
  if (open_parts_ == 0 || --open_parts_ > 0) return;
  close_timer_.Stop();
  done_(exit_code_);
}

}  // namespace tapwire::apps::iperf3
