// SPDX-License-Identifier: Apache-2.0
// The control socket of a running process, on its libuv loop: takes one request per connection,
// answers and closes. Whatever a client does costs one of a few connections for a few seconds and a
// bounded buffer, never more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "apps/ctl/ctl.h"
#include "apps/ctl/socket_path.h"
#include "uv.h"

namespace tapwire::apps::ctl {

class Server final {
 public:
  using Handler = absl::AnyInvocable<Reply(const std::vector<std::string>&)>;
  struct Options {
    std::string path;
    size_t max_clients = 16;      // further ones are closed at once
    uint64_t timeout_ms = 5'000;  // for request and reply together
  };

  // `handler` runs on the loop's thread, between batches, and may do all that a program may.
  // `loop` outlives the server, which does not keep it alive. Errors as ListenAt().
  static absl::StatusOr<std::unique_ptr<Server>> Start(uv_loop_t* loop, Options options,
                                                       Handler handler);
  // Closes the socket, removes its file and drops all clients. Not from inside the handler.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& path() const { return file_->path(); }
  size_t clients() const { return clients_.size(); }
  uint64_t refused() const { return refused_; }  // connections over the limit

 private:
  class Client;
  Server(Options options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}
  absl::Status Listen(uv_loop_t* loop);
  void OnConnection();
  void Forget(Client& client);

  Options options_;
  Handler handler_;
  std::unique_ptr<SocketFile> file_;
  uv_pipe_t* listener_ = nullptr;  // frees itself in its close callback
  std::vector<Client*> clients_;   // likewise
  uint64_t refused_ = 0;
};

}  // namespace tapwire::apps::ctl
