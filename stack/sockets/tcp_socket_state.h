// SPDX-License-Identifier: Apache-2.0
// What stands between a Connection and the user's callbacks. Private to tcp_socket*.cc.
//
// The socket owns it; deferred events share it, since a callback may destroy the socket. Rare parts
// are allocated when needed (Writer, Rare, Ended), so that an idle connection costs little.
//
//   SYN ──OnConnected──► connected ──OnGone──► ended (connection == nullptr, ended != nullptr)
//                           │                      ▲
//                           └─Close()─► closing ───┘   released to the core, observed for its end
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "netdev/packet/buffer_chain.h"
#include "stack/sockets/callback_slot.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/tcp/connection.h"

namespace tapwire {

namespace netdev {
class NetContext;
}

struct TcpSocket::State final : public tcp::ConnectionObserver,
                                public std::enable_shared_from_this<TcpSocket::State> {
  // A Write() that waits for room or whose callback has not run yet, or a shutdown among them.
  struct PendingWrite {
    BufferChain data;
    WriteCallback done;
    absl::Status status;  // for `done`
    bool fin = false;
    std::unique_ptr<PendingWrite> next;
  };
  // Made by the first Write(), ShutdownWrite() or SetWritableCallback().
  struct Writer {
    CallbackSlot<void()> on_writable;
    std::unique_ptr<PendingWrite> first;  // oldest first: accepted ones, then waiting ones
    PendingWrite* last = nullptr;
    PendingWrite* waiting = nullptr;  // the first that is not accepted yet
    size_t waiting_bytes = 0;
  };
  struct Rare {
    ConnectCallback on_connect;
    CallbackSlot<void()> on_readable;
    CallbackSlot<void()> on_urgent;
    std::vector<CloseCallback> on_closed;
  };
  // What is kept of a connection that is gone.
  struct Ended {
    BufferChain unread;
    Endpoint local, remote;
    tcp::TcpInfo info;
    Options options;
  };
  enum class ReadMode : uint8_t { kStopped, kSlices, kReadiness };

  explicit State(Stack& s);
  ~State() override;

  // ---- ConnectionObserver: after the batch, but for OnGone when the stack is destroyed ----
  void OnConnected() override;
  void OnReadable() override;
  void OnWritable() override;
  void OnUrgent() override;
  void OnGone(const absl::Status& status) override;

  // ---- For the socket ----
  // Runs the events that calls of the user have caused, after this batch.
  void Schedule();
  absl::Status CheckOpen() const;      // OK unless the user closed it,
  absl::Status CheckReadable() const;  // nor did it fail with nothing left to read,
  absl::Status CheckWritable() const;  // nor fail, end, or was it shut down
  size_t readable_bytes() const;
  bool at_end() const;  // behind the readable bytes comes the end or an error
  void AddWrite(BufferChain data, WriteCallback done, bool fin);
  void PumpWrites();
  void StopCallbacks();
  // Gives the connection back to the core, with all that was written. `observe`: its end is wanted.
  void ReleaseConnection(bool observe);
  void AbortConnection();
  void FailWrites(const absl::Status& status);
  void DropWrites();
  bool has_waiting_write() const {
    return writer_part != nullptr && writer_part->waiting != nullptr;
  }
  size_t waiting_bytes() const { return writer_part != nullptr ? writer_part->waiting_bytes : 0; }
  Writer& writer();
  Rare& rare();
  Endpoint LocalEndpoint() const;
  Endpoint RemoteEndpoint() const;

  Stack* stack;
  netdev::NetContext* context;
  tcp::Connection* connection = nullptr;  // null once it is gone
  CallbackSlot<void(absl::StatusOr<BufferSlice>)> on_read;
  std::unique_ptr<Writer> writer_part;
  std::unique_ptr<Rare> rare_parts;
  std::unique_ptr<Ended> ended;
  absl::Status status;  // of the end
  uint32_t zone = 0;    // of link-local addresses
  ReadMode read_mode = ReadMode::kStopped;
  bool auto_consume = true;
  bool connected = false;
  bool shut_down = false;      // ShutdownWrite() was called
  bool closing = false;        // Close() or Abort() was called
  bool write_blocked = false;  // TryWrite took less than it was given
  bool end_was_read = false;   // TryRead returned 0
  bool event_pending = false;

 private:
  void RunEvents();
  void RunConnect();
  void RunWrites();
  void RunRead();
  void RunSlices();
  void RunReadEnd();
  void RunWritable();
  void RunClosed();
  BufferSlice TakeSlice();
  bool WillReset() const;
  void ForceWrites();
  void KeepFacts();
};

}  // namespace tapwire
