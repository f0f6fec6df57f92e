// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/tcp_listener.h"

#include <utility>

#include "netdev/net_context.h"
#include "stack/sockets/callback_slot.h"
#include "stack/stack.h"
#include "stack/tcp/listener.h"
#include "stack/tcp/tcp.h"

namespace tapwire {

struct TcpListener::State final : public tcp::ListenerObserver,
                                  public std::enable_shared_from_this<TcpListener::State> {
  void OnAcceptable() override {
    const std::shared_ptr<State> self = shared_from_this();
    Run();
  }
  void OnListenerGone() override { listener = nullptr; }

  std::unique_ptr<TcpSocket> Take() {
    tcp::Connection* connection = listener != nullptr ? listener->Accept() : nullptr;
    return connection != nullptr ? TcpSocket::Adopt(*connection) : nullptr;
  }
  // A callback may stop, replace itself, or destroy the listener: each ends or changes the loop.
  void Run() {
    while (on_accept) {
      std::unique_ptr<TcpSocket> socket = Take();
      if (socket == nullptr) return;
      on_accept.Call(std::move(socket));
    }
    if (on_ready && listener != nullptr && listener->waiting() > 0) on_ready.Call();
  }
  // For a call of the user that finds connections waiting.
  void Schedule() {
    if (listener == nullptr || listener->waiting() == 0) return;
    tcp->stack().context().Defer([self = shared_from_this()] { self->Run(); });
  }

  tcp::Tcp* tcp = nullptr;
  tcp::Listener* listener = nullptr;  // null once the stack or the TcpListener is gone
  Endpoint local;
  CallbackSlot<void(std::unique_ptr<TcpSocket>)> on_accept;
  CallbackSlot<void()> on_ready;
};

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Listen(
    Stack& stack, const Endpoint& local, size_t backlog, const TcpSocket::Options& options) {
  auto state = std::make_shared<State>();
  state->tcp = &tcp::Tcp::Install(stack);
  absl::StatusOr<tcp::Listener*> listener =
      state->tcp->Listen(local, backlog, options, state.get());
  if (!listener.ok()) return listener.status();
  state->listener = *listener;
  state->local = (*listener)->local();
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(state)));
}

TcpListener::~TcpListener() {
  State& s = *state_;
  s.on_accept.Clear();
  s.on_ready.Clear();
  if (tcp::Listener* listener = std::exchange(s.listener, nullptr)) s.tcp->CloseListener(*listener);
}

absl::Status TcpListener::AcceptStart(AcceptCallback on_accept) {
  if (!on_accept) return absl::InvalidArgumentError("tcp accept: no callback given");
  if (state_->listener == nullptr) {
    return absl::FailedPreconditionError("tcp accept: the stack no longer exists");
  }
  state_->on_accept.Set(std::move(on_accept));
  state_->Schedule();
  return absl::OkStatus();
}

void TcpListener::AcceptStop() { state_->on_accept.Clear(); }

std::unique_ptr<TcpSocket> TcpListener::TryAccept() { return state_->Take(); }

void TcpListener::SetReadyCallback(absl::AnyInvocable<void()> on_ready) {
  state_->on_ready.Set(std::move(on_ready));
  state_->Schedule();
}

Endpoint TcpListener::local() const { return state_->local; }

size_t TcpListener::waiting() const {
  return state_->listener != nullptr ? state_->listener->waiting() : 0;
}

}  // namespace tapwire
