// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_server.h"

#include <iterator>
#include <utility>

#include "apps/perf/iperf3_client.h"
#include "apps/perf/iperf3_session.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::iperf3 {
namespace {

constexpr double kRefusalTime = 5;
constexpr size_t kMaxRefusals = 64;  // beyond, strangers are reset

}  // namespace

// A connection that came while the server is busy: is told so, and closed once its cookie is read.
// Closing before would be a reset, which may overtake the answer.
class Server::Refusal {
 public:
  Refusal(uv_loop_t* loop, std::unique_ptr<TcpSocket> socket)
      : socket_(std::move(socket)), timer_(loop) {}

  void Start(std::function<void()> on_end) {
    on_end_ = std::move(on_end);
    const auto denied = static_cast<uint8_t>(State::kAccessDenied);
    (void)socket_->TryWrite({&denied, 1});
    timer_.Start(kRefusalTime, [this] { Leave(); });
    if (!socket_->ReadyStart([this] { Read(); }).ok()) End();
  }

 private:
  void Read() {
    uint8_t buffer[256];
    absl::StatusOr<size_t> got = socket_->TryRead(buffer);
    if (!got.ok() && IsWouldBlock(got.status())) return;
    read_ += got.ok() ? *got : 0;
    if (!got.ok() || *got == 0 || read_ >= kCookieSize) End();
  }
  void End() {
    socket_->ReadStop();
    timer_.Start(0, [this] { Leave(); });
  }
  // Destroys this.
  void Leave() {
    const std::function<void()> on_end = std::move(on_end_);
    on_end();
  }

  std::unique_ptr<TcpSocket> socket_;
  UvTimer timer_;
  std::function<void()> on_end_;
  size_t read_ = 0;
};

Server::Server(uv_loop_t* loop, Stack& stack, const Options& options, Report& report,
               DoneCallback done)
    : loop_(loop),
      stack_(stack),
      options_(options),
      report_(report),
      done_(std::move(done)),
      next_timer_(loop) {}

Server::~Server() = default;

absl::Status Server::Start() {
  if (options_.bind) {
    TW_RETURN_IF_ERROR(Listen(*options_.bind));
  } else {
    if (options_.v4) TW_RETURN_IF_ERROR(Listen(IpAddress::Unspecified(IpFamily::kV4)));
    if (options_.v6) TW_RETURN_IF_ERROR(Listen(IpAddress::Unspecified(IpFamily::kV6)));
  }
  report_.OnListening(options_.port, test_number_);
  return absl::OkStatus();
}

absl::Status Server::Listen(const IpAddress& address) {
  TcpSocket::Options options;
  options.nodelay = true;
  options.v6_only = true;
  TW_ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener,
                      TcpListener::Listen(stack_, Endpoint{address, options_.port, 0},
                                          TcpListener::kDefaultBacklog, options));
  TW_RETURN_IF_ERROR(listener->AcceptStart(
      [this](std::unique_ptr<TcpSocket> socket) { OnAccept(std::move(socket)); }));
  listeners_.push_back(std::move(listener));
  return absl::OkStatus();
}

void Server::OnAccept(std::unique_ptr<TcpSocket> socket) {
  if (session_ && session_->wants_streams()) return session_->AddCandidate(std::move(socket));
  if (session_ && session_ended_ && !waiting_ && !interrupted_) {
    waiting_ = std::move(socket);  // its turn is next
    return;
  }
  if (session_ || interrupted_) return Refuse(std::move(socket));
  StartSession(std::move(socket));
}

void Server::StartSession(std::unique_ptr<TcpSocket> socket) {
  session_ended_ = false;
  session_ =
      std::make_unique<Session>(loop_, stack_, report_, options_.interval_s, std::move(socket));
  session_->Start([this](const std::optional<Error>& error) { OnSessionEnd(error); });
}

void Server::Refuse(std::unique_ptr<TcpSocket> socket) {
  if (refusals_.size() >= kMaxRefusals) return socket->Abort();
  refusals_.emplace_back(loop_, std::move(socket));
  const auto refusal = std::prev(refusals_.end());
  refusal->Start([this, refusal] { refusals_.erase(refusal); });
}

void Server::OnSessionEnd(const std::optional<Error>& error) {
  session_ended_ = true;
  const int exit_code = error ? 1 : 0;
  next_timer_.Start(0, [this, exit_code] {
    if (options_.one_off || interrupted_) {
      return session_->Close([this, exit_code] { Leave(exit_code); });
    }
    session_->Close([] {});
    session_.reset();  // what is still to be sent goes on without it
    session_ended_ = false;
    ++test_number_;
    report_.OnListening(options_.port, test_number_);
    if (waiting_) StartSession(std::move(waiting_));
  });
}

void Server::Interrupt() {
  if (std::exchange(interrupted_, true)) return;
  if (session_ && !session_ended_) return session_->Terminate();
  if (session_ended_) return;
  const std::string message = "interrupt - the server has terminated";
  if (!report_.OnEnd(message)) PrintError(message);
  next_timer_.Start(0, [this] { Leave(1); });
}

void Server::Leave(int exit_code) {
  listeners_.clear();
  done_(exit_code);
}

}  // namespace tapwire::apps::iperf3
