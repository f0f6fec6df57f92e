// SPDX-License-Identifier: Apache-2.0
// The traffic of the labs, as an application would make it: callback sockets, ordinary copying
// reads and writes, everything on the thread of the stack's context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/lab/turns.h"
#include "netdev/base/time.h"
#include "netdev/net_context.h"
#include "netdev/wire/ip_address.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/stack.h"

namespace tapwire::apps::lab {

inline constexpr size_t kBlockBytes = 16384;  // of one read or write: netperf's default
inline constexpr uint16_t kPort = 5001;

// Writes blocks for as long as it lives.
class BulkSource {
 public:
  static absl::StatusOr<std::unique_ptr<BulkSource>> Connect(Stack& stack, const Endpoint& server);
  BulkSource(const BulkSource&) = delete;
  BulkSource& operator=(const BulkSource&) = delete;
  // Why it writes no more.
  const absl::Status& status() const { return status_; }

 private:
  BulkSource();
  void Pump();

  std::vector<uint8_t> block_;
  size_t written_ = 0;  // of the block
  absl::Status status_;
  std::unique_ptr<TcpSocket> socket_;
};

// Reads what one client sends.
class BulkSink {
 public:
  static absl::StatusOr<std::unique_ptr<BulkSink>> Listen(Stack& stack);
  BulkSink(const BulkSink&) = delete;
  BulkSink& operator=(const BulkSink&) = delete;
  const uint64_t& bytes() const { return bytes_; }
  const absl::Status& status() const { return status_; }

 private:
  BulkSink();
  void Drain();

  std::vector<uint8_t> block_;
  uint64_t bytes_ = 0;
  absl::Status status_;
  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> socket_;
};

// `count` connections, each of which sends a byte, waits for the answer, and so on.
class Requesters {
 public:
  static absl::StatusOr<std::unique_ptr<Requesters>> Connect(Stack& stack, const Endpoint& server,
                                                             size_t count);
  Requesters(const Requesters&) = delete;
  Requesters& operator=(const Requesters&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  Requesters() = default;
  void Ask(TcpSocket& socket);
  void OnAnswer(TcpSocket& socket);

  absl::Status status_;
  std::vector<std::unique_ptr<TcpSocket>> sockets_;
};

// Answers each byte with a byte.
class Responders {
 public:
  static absl::StatusOr<std::unique_ptr<Responders>> Listen(Stack& stack);
  Responders(const Responders&) = delete;
  Responders& operator=(const Responders&) = delete;
  const uint64_t& transactions() const { return transactions_; }
  size_t connections() const { return sockets_.size(); }
  const absl::Status& status() const { return status_; }

 private:
  Responders() = default;
  void Answer(TcpSocket& socket);

  uint64_t transactions_ = 0;
  absl::Status status_;
  std::unique_ptr<TcpListener> listener_;
  std::vector<std::unique_ptr<TcpSocket>> sockets_;
};

// Runs a context until `done`, asked after each batch, or for `limit`; the last answer of `done`.
using RunUntil = absl::FunctionRef<bool(absl::FunctionRef<bool()> done, Duration limit)>;

// On the calling thread, which never sleeps meanwhile.
bool SpinUntil(netdev::NetContext& context, absl::FunctionRef<bool()> done, Duration limit);

// How fast `count` grows, per second, after the warm-up. kCancelled after Ctrl-C.
absl::StatusOr<double> MeasureRate(netdev::NetContext& context, RunUntil run, const uint64_t& count,
                                   const RunTime& time);

}  // namespace tapwire::apps::lab
