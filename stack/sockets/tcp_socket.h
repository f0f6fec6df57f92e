// SPDX-License-Identifier: Apache-2.0
// TcpSocket: one connection with callbacks, in the manner of uv_tcp_t.
//
// Contract. All calls on the context's thread. Argument errors are returned, never called back. No
// callback runs inside a call: callbacks run after the batch. A callback may destroy any socket,
// its own included; after the destructor returned none runs. One-shot callbacks (connect, write,
// shutdown, close) run exactly once each, unless the destructor destroys them uncalled; any of them
// may be null. A destroyed socket closes gracefully in the background, or resets if it had unread
// data or a zero linger. The stack must outlive the socket's use: once it is gone calls return
// kFailedPrecondition, or what had ended the connection before. The context must outlive the
// socket, and every slice that came from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "netdev/packet/buffer_chain.h"
#include "netdev/wire/ip_address.h"
#include "stack/tcp/options.h"
#include "stack/tcp/tcp_info.h"

namespace tapwire {

class Stack;
namespace tcp {
class Connection;
}

// Nothing can be read or written now, but may be later: EAGAIN. (Its code, kUnavailable, is that of
// other errors too.)
bool IsWouldBlock(const absl::Status& status);

class TcpSocket final {
 public:
  using ConnectCallback = absl::AnyInvocable<void(absl::Status) &&>;
  // An empty slice is the end of the stream (the peer's FIN); an error ends reading too, after the
  // data that came before it. After either the callback is not called again.
  using ReadCallback = absl::AnyInvocable<void(absl::StatusOr<BufferSlice>)>;
  using WriteCallback = absl::AnyInvocable<void(absl::Status) &&>;
  using CloseCallback = absl::AnyInvocable<void() &&>;
  using Options = tcp::SocketOptions;

  struct ConnectOptions {
    std::optional<Endpoint> local = {};  // address unspecified: chosen; port 0: chosen
    Options socket = {};
  };
  struct ReadOptions {
    // Opens the window when the callback returns; otherwise Consumed() does.
    bool auto_consume = true;
  };

  // Active open. `done` gets OK, or ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ECONNRESET
  // (StatusToErrno); ECONNABORTED if the socket was closed first. Returned errors: those of
  // tcp::Tcp::Connect. Reading and writing may start at once.
  static absl::StatusOr<std::unique_ptr<TcpSocket>> Connect(Stack& stack, const Endpoint& remote,
                                                            const ConnectOptions& options,
                                                            ConnectCallback done);
  ~TcpSocket();
  TcpSocket(const TcpSocket&) = delete;
  TcpSocket& operator=(const TcpSocket&) = delete;

  // ---- Reading. Slices, readiness or neither: the last of the three calls counts ----

  // Like uv_read_start: each slice as it lies in the receive queue, no copy. A slice kept by the
  // user stays charged to the receive buffer until Consumed(), its slab until it is destroyed, also
  // after the socket is gone. Not connected yet or at the end of the stream is no error: what there
  // is is called back. A failed connection with nothing left to read: its error.
  absl::Status ReadStart(ReadCallback on_read, ReadOptions options);
  absl::Status ReadStart(ReadCallback on_read) {
    return ReadStart(std::move(on_read), ReadOptions());
  }
  // Readiness for TryRead: called after each batch that brought data, the end of the stream or an
  // error, and again after a TryRead that left some of it. A call that reads nothing is not
  // repeated, so a slow reader does not keep the loop busy. Errors as ReadStart.
  absl::Status ReadyStart(absl::AnyInvocable<void()> on_readable);
  void ReadStop();  // back-pressure: what arrives waits, and the window closes
  // Gives receive credit back for slices taken with auto_consume = false; what is more than was
  // taken is ignored.
  void Consumed(size_t bytes);
  // Copying read; what was copied is consumed. 0: end of stream. EAGAIN (IsWouldBlock): nothing
  // now; kFailedPrecondition while slices are read; else the connection's error.
  absl::StatusOr<size_t> TryRead(std::span<uint8_t> into);
  size_t readable_bytes() const;

  // ---- Writing ----

  // Queues all of `data`. `done`: every byte has been accepted into the send buffer (as uv_write,
  // not: acknowledged), or the connection failed first. Beyond the send buffer the data waits here:
  // write_queue_size(). EPIPE after ShutdownWrite(); a failed connection: its error.
  absl::Status Write(BufferChain data, WriteCallback done);
  // Copies as much as the send buffer takes now (like uv_try_write). EAGAIN (IsWouldBlock) if
  // nothing fits or earlier writes wait; kResourceExhausted if the context's pool is at its budget;
  // EPIPE after ShutdownWrite(); else the connection's error.
  absl::StatusOr<size_t> TryWrite(std::span<const uint8_t> data);
  // Called when TryWrite would make progress, or fail for good, after it took less than was given.
  void SetWritableCallback(absl::AnyInvocable<void()> on_writable);
  size_t write_queue_size() const;  // bytes waiting for room in the send buffer
  size_t unacked_bytes() const;     // in the send buffer: sent and unsent
  // FIN behind the queued data; reading goes on. `done`: the FIN is queued behind all data, or the
  // connection failed first. Called before the connection is established it waits for that. EPIPE
  // if called before.
  absl::Status ShutdownWrite(WriteCallback done);
  // One byte of urgent data (MSG_OOB; RFC 9293 §3.8.5). For old protocols only (SHLD-13). Errors as
  // TryWrite.
  absl::Status SendUrgent(uint8_t byte);
  void SetUrgentCallback(absl::AnyInvocable<void()> on_urgent);
  std::optional<size_t> urgent_offset()
      const;  // of the end of the urgent data; none: nothing there

  // ---- Ending ----

  // Graceful: queued data and a FIN are sent in the background; with data unread or a zero linger a
  // reset instead, as in the destructor. `closed` runs when the connection has left the tables
  // (entering TIME-WAIT counts as that). Of the other callbacks only one-shots that are pending run
  // after Close(), each before `closed`. Every later call returns kFailedPrecondition, but for
  // another Close(), whose callback runs too.
  void Close(CloseCallback closed);
  // RST, like uv_tcp_close_reset. Pending connect, write and shutdown callbacks get ECONNABORTED;
  // later calls fail as after Close().
  void Abort();

  // ---- Facts. After the end: those of the moment it came ----

  bool connected() const;  // established and not ended
  Endpoint local() const;
  Endpoint remote() const;
  tcp::TcpInfo Info() const;
  // Change options, then call OptionsChanged().
  Options& options();
  void OptionsChanged();
  // Why the connection ended; OK while it lives or if it ended in order.
  absl::Status status() const;
  // A soft error (MUST-47) that was noted; taken by the call.
  absl::Status TakeSoftError();
  // Must not be called once the stack is gone.
  Stack& stack() const;

 private:
  friend class TcpListener;
  struct State;
  explicit TcpSocket(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // Front of an accepted connection that has no observer yet.
  static std::unique_ptr<TcpSocket> Adopt(tcp::Connection& connection);

  std::shared_ptr<State> state_;  // shared with deferred events, which may outlive the socket
};

}  // namespace tapwire
