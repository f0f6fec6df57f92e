// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/server.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/ctl/message.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::ctl {

// One connection. Lives until both of its handles are closed, which may be after the server.
class Server::Client {
 public:
  explicit Client(Server& server) : server_(&server) {}

  // False if it cannot be had; then it has closed itself.
  bool Accept(uv_loop_t* loop, uv_stream_t* listener) {
    pipe_.data = timer_.data = this;
    uv_pipe_init(loop, &pipe_, 0);
    uv_timer_init(loop, &timer_);
    if (uv_accept(listener, stream()) != 0) return Close();
    uv_unref(handle());
    uv_unref(reinterpret_cast<uv_handle_t*>(&timer_));
    // The cached time may be as old as a long batch.
    uv_update_time(loop);
    uv_timer_start(
        &timer_, [](uv_timer_t* t) { From(t)->Close(); }, server_->options_.timeout_ms, 0);
    return uv_read_start(stream(), &Allocate, &OnRead) == 0 || Close();
  }

  // Idempotent. Always false.
  bool Close() {
    if (std::exchange(closing_, true)) return false;
    if (server_ != nullptr) server_->Forget(*this);
    server_ = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&timer_), &OnClosed);
    uv_close(handle(), &OnClosed);
    return false;
  }

 private:
  template <typename Handle>
  static Client* From(Handle* handle) {
    return static_cast<Client*>(handle->data);
  }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&pipe_); }
  uv_handle_t* handle() { return reinterpret_cast<uv_handle_t*>(&pipe_); }

  static void Allocate(uv_handle_t* handle, size_t /*suggested*/, uv_buf_t* buffer) {
    Client* client = From(handle);
    *buffer = uv_buf_init(client->chunk_.data(), static_cast<unsigned>(client->chunk_.size()));
  }
  static void OnRead(uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
    if (count == 0) return;  // not now
    Client* client = From(stream);
    if (count < 0) {
      client->Close();
    } else {
      client->Take(absl::string_view(buffer->base, static_cast<size_t>(count)));
    }
  }
  static void OnClosed(uv_handle_t* handle) {
    Client* client = From(handle);
    if (++client->closed_ == 2) delete client;
  }

  void Take(absl::string_view bytes) {
    // A request and one chunk at most: the length is known before more is kept.
    request_.append(bytes.data(), bytes.size());
    const absl::StatusOr<std::optional<size_t>> length = RequestLength(request_);
    if (!length.ok())
      return Answer({1, "", absl::StrCat("tapwire: ", length.status().message(), "\n")});
    if (!length->has_value() || request_.size() < **length) return;
    const auto argv = DecodeRequest(request_);
    if (!argv.ok())
      return Answer({1, "", absl::StrCat("tapwire: ", argv.status().message(), "\n")});
    uv_read_stop(stream());
    Reply reply = server_->handler_(*argv);
    if (!closing_) Answer(reply);
  }

  void Answer(const Reply& reply) {
    uv_read_stop(stream());
    reply_ = EncodeReply(reply);
    write_.data = this;
    const uv_buf_t buffer = uv_buf_init(reply_.data(), static_cast<unsigned>(reply_.size()));
    // The request object is ours until the callback, which comes before the close callback.
    const int err = uv_write(&write_, stream(), &buffer, 1,
                             [](uv_write_t* write, int) { From(write)->Close(); });
    if (err != 0) Close();
  }

  Server* server_;  // null once closing
  uv_pipe_t pipe_;
  uv_timer_t timer_;
  uv_write_t write_;
  std::array<char, 4096> chunk_;
  std::string request_, reply_;
  bool closing_ = false;
  int closed_ = 0;  // of the two handles
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(uv_loop_t* loop, Options options,
                                                      Handler handler) {
  std::unique_ptr<Server> server(new Server(std::move(options), std::move(handler)));
  TW_RETURN_IF_ERROR(server->Listen(loop));
  return server;
}

absl::Status Server::Listen(uv_loop_t* loop) {
  TW_ASSIGN_OR_RETURN(drivers::UniqueFd fd, ListenAt(options_.path));
  file_ = std::make_unique<SocketFile>(options_.path);
  listener_ = new uv_pipe_t;
  listener_->data = this;
  uv_pipe_init(loop, listener_, 0);
  uv_stream_t* stream = reinterpret_cast<uv_stream_t*>(listener_);
  int err = uv_pipe_open(listener_, fd.get());
  if (err == 0) {
    (void)fd.Release();
    err = uv_listen(stream, static_cast<int>(options_.max_clients), [](uv_stream_t* s, int status) {
      if (status == 0) static_cast<Server*>(s->data)->OnConnection();
    });
  }
  uv_unref(reinterpret_cast<uv_handle_t*>(listener_));
  return ErrnoStatus(-err, absl::StrCat("control socket ", options_.path));
}

Server::~Server() {
  while (!clients_.empty()) clients_.back()->Close();
  if (listener_ == nullptr) return;
  uv_close(reinterpret_cast<uv_handle_t*>(listener_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_pipe_t*>(handle); });
}

void Server::OnConnection() {
  Client* client = new Client(*this);
  clients_.push_back(client);
  const bool full = clients_.size() > options_.max_clients;
  if (!client->Accept(listener_->loop, reinterpret_cast<uv_stream_t*>(listener_))) return;
  if (!full) return;
  ++refused_;
  client->Close();
}

void Server::Forget(Client& client) {
  clients_.erase(std::remove(clients_.begin(), clients_.end(), &client), clients_.end());
}

}  // namespace tapwire::apps::ctl
