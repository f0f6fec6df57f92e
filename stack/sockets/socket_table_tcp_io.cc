// SPDX-License-Identifier: Apache-2.0
// Moving data through a TCP socket of the table: the rules of Linux's tcp_recvmsg, tcp_sendmsg and
// tcp_poll, in their order, since programs and scripts depend on which answer comes first.

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "netdev/base/status_util.h"
#include "stack/sockets/socket_table_tcp.h"

namespace tapwire::internal {

using tcp::State;

// ---- Received data, of a live connection or left over from one ----

size_t TcpDescriptor::readable() const {
  return connection_ != nullptr ? connection_->readable_bytes() : leftover_.size();
}

void TcpDescriptor::CopyReceived(size_t offset, std::span<uint8_t> out) const {
  const BufferChain& chain = connection_ != nullptr ? connection_->receive_queue() : leftover_;
  (void)chain.CopyOut(offset, out);
}

void TcpDescriptor::DropReceived(size_t count) {
  stream_offset_ += count;
  if (connection_ == nullptr) return leftover_.Consume(count);
  std::array<uint8_t, 512> scratch;
  for (size_t left = count; left > 0;) {
    left -= connection_->Read(std::span(scratch).first(std::min(left, scratch.size())));
  }
  connection_->Consumed(count);
}

// Where the urgent byte lies, from the first unread one: it is the one before the urgent pointer
// (RFC 6093 §3.1).
std::optional<size_t> TcpDescriptor::UrgentMark() const {
  if (connection_ == nullptr) return std::nullopt;
  const std::optional<size_t> end = connection_->urgent_offset();
  if (!end || *end == 0) return std::nullopt;
  return *end - 1;
}

bool TcpDescriptor::UrgentByteWaits() const {
  const std::optional<size_t> mark = UrgentMark();
  return mark && *mark < readable() && urgent_taken_ != stream_offset_ + *mark;
}

// Copies what there is into the transfer. True: reading stops here, at the urgent mark.
bool TcpDescriptor::TakeReceived(Transfer& transfer) {
  const bool peek = (transfer.flags & MSG_PEEK) != 0;
  size_t offset = 0;  // of a peek
  if (peek) transfer.done = 0;
  while (transfer.done < transfer.size && offset < readable()) {
    size_t n = std::min(transfer.size - transfer.done, readable() - offset);
    if (const std::optional<size_t> mark = UrgentMark(); mark && *mark >= offset) {
      if (*mark == offset && transfer.done > 0) return true;
      if (*mark == offset && !common_.oob_inline) {
        peek ? void(++offset) : DropReceived(1);
        continue;
      }
      if (*mark > offset) n = std::min(n, *mark - offset);
    }
    if ((transfer.flags & MSG_TRUNC) == 0) {
      const std::span<uint8_t> into = transfer.Next();
      n = std::min(n, into.size());
      CopyReceived(offset, into.first(n));
    }
    transfer.done += n;
    peek ? void(offset += n) : DropReceived(n);
  }
  return false;
}

int64_t TcpDescriptor::EndOfReading() {
  if (fin_received()) return 0;
  if (error_ != 0) return TakeError();
  if (shut_read_) return 0;
  return state() == State::kClosed ? -ENOTCONN : -EAGAIN;
}

int64_t TcpDescriptor::Receive(Transfer& transfer) {
  const int64_t result = ReceiveOnce(transfer);
  // As Linux: the peer's FIN counts, so that its end is read too.
  if (result >= 0 && tcp_.tell_unread) {
    transfer.unread = static_cast<int>(readable() + (fin_received() ? 1 : 0));
  }
  return result;
}

int64_t TcpDescriptor::ReceiveOnce(Transfer& transfer) {
  if ((transfer.flags & MSG_ERRQUEUE) != 0) return -EAGAIN;
  if (listener_ != nullptr) return -ENOTCONN;
  if ((transfer.flags & MSG_OOB) != 0) return ReceiveUrgent(transfer);
  const bool had_data = readable() > 0;
  const bool at_mark = TakeReceived(transfer);
  const auto done = static_cast<int64_t>(transfer.done);
  if (at_mark || (transfer.size == 0 ? had_data : transfer.done == transfer.size)) return done;
  const auto low_water = static_cast<size_t>(common_.receive_low_water);
  const size_t target = (transfer.flags & MSG_WAITALL) != 0
                            ? transfer.size
                            : std::max<size_t>(std::min(low_water, transfer.size), 1);
  if (transfer.done == 0) return EndOfReading();
  const bool ended = read_ended() || error_ != 0 || state() == State::kClosed;
  return transfer.done >= target || ended || !transfer.may_block ? done : -EAGAIN;
}

int64_t TcpDescriptor::ReceiveUrgent(Transfer& transfer) {
  const std::optional<size_t> mark = UrgentMark();
  if (common_.oob_inline || !mark || urgent_taken_ == stream_offset_ + *mark) return -EINVAL;
  if (*mark >= readable()) return read_ended() ? 0 : -EAGAIN;
  transfer.result_flags |= MSG_OOB;
  if ((transfer.flags & MSG_PEEK) == 0) urgent_taken_ = stream_offset_ + *mark;
  const std::span<uint8_t> into = transfer.Next();
  if (into.empty()) {
    transfer.result_flags |= MSG_TRUNC;
    return 0;
  }
  CopyReceived(*mark, into.first(1));
  return 1;
}

// ---- Sending ----

// MSG_MORE holds back the end of this write only, TCP_CORK that of all.
void TcpDescriptor::CorkForMore(bool more) {
  if (more == corked_for_more_ || tcp_.socket.cork) return;
  corked_for_more_ = more;
  connection_->options().cork = more;
  if (!more) connection_->PushPending();
}

namespace {

// TCP_NOTSENT_LOWAT. As Linux, which looks at it only when it begins a large segment.
size_t RoomBelowLowWater(const tcp::Connection& connection) {
  const uint32_t low_water = connection.notsent_low_water();
  if (low_water == UINT32_MAX) return SIZE_MAX;
  const tcp::TcpInfo info = connection.Info();
  const uint32_t most = info.snd_wnd > 1 ? std::min(65535u, info.snd_wnd / 2) : 65535u;
  const uint32_t whole = std::max(most / info.snd_mss, 1u) * info.snd_mss;
  const uint32_t begun = info.notsent_bytes % whole;
  return info.notsent_bytes >= low_water && begun == 0 ? 0 : whole - begun;
}

}  // namespace

int TcpDescriptor::SendError() { return error_ != 0 ? TakeError() : -EPIPE; }

int64_t TcpDescriptor::Transmit(Transfer& transfer) {
  if ((transfer.flags & MSG_FASTOPEN) != 0) return -EOPNOTSUPP;
  if (handshaking()) return error_ != 0 ? TakeError() : -EAGAIN;
  if (!tcp::CanSendData(state()) || shut_write_ || error_ != 0) {
    return transfer.done > 0 ? static_cast<int64_t>(transfer.done) : SendError();
  }
  CorkForMore((transfer.flags & MSG_MORE) != 0);
  bool full = false;
  while (transfer.done < transfer.size && !full) {
    const size_t room = RoomBelowLowWater(*connection_);
    if (room == 0) {
      connection_->RequestLowUnsent();
      full = true;
      break;
    }
    const std::span<uint8_t> rest = transfer.Next();
    const std::span<uint8_t> next = rest.first(std::min(rest.size(), room));
    const size_t taken = connection_->SendCopy(next);
    transfer.done += taken;
    full = taken < next.size();
  }
  const auto done = static_cast<int64_t>(transfer.done);
  if (!full) {
    if ((transfer.flags & MSG_OOB) != 0 && transfer.size > 0) connection_->SendUrgent();
    if ((transfer.flags & MSG_EOR) != 0) connection_->EndRecord();
    return done;
  }
  no_space_ = true;
  if (transfer.done > 0 && !transfer.may_block) return done;
  // Room, and yet nothing was taken: the pool is at its budget.
  const bool low = RoomBelowLowWater(*connection_) > 0;
  const bool no_memory = connection_->send_space() > 0 || connection_->is_starved();
  return low && no_memory && transfer.done == 0 ? -ENOBUFS : -EAGAIN;
}

// ---- Readiness: tcp_poll ----

uint32_t TcpDescriptor::Events() {
  if (listener_ != nullptr) return listener_->waiting() > 0 ? EPOLLIN | EPOLLRDNORM : 0U;
  const bool closed_state = state() == State::kClosed;
  uint32_t events = 0;
  if ((read_ended() && shut_write_) || closed_state) events |= EPOLLHUP;
  if (read_ended()) events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
  if (error_ != 0) events |= EPOLLERR;
  if (handshaking()) return events;
  // The urgent byte at the front is not read as data.
  const bool urgent_first = UrgentMark() == 0U && !common_.oob_inline;
  const size_t target = static_cast<size_t>(std::max(common_.receive_low_water, 1)) +
                        (urgent_first ? size_t{1} : size_t{0});
  if (readable() >= target) events |= EPOLLIN | EPOLLRDNORM;
  if (UrgentByteWaits()) events |= EPOLLPRI;
  if (closed_state || shut_write_) return events | EPOLLOUT | EPOLLWRNORM;
  const size_t space = connection_->send_space();
  if (space == 0) {
    // Asks to be told when there is room: a write that takes nothing.
    const uint8_t nothing = 0;
    (void)connection_->SendCopy({&nothing, 1});
    no_space_ = true;
  }
  // Linux: after a write that did not fit, not before a third of the buffer is free.
  bool writable = no_space_ ? 2 * space >= connection_->unacked_bytes() : space > 0;
  if (!connection_->HasLowUnsent()) {
    connection_->RequestLowUnsent();
    no_space_ = true;
    writable = false;
  }
  if (writable) events |= EPOLLOUT | EPOLLWRNORM;
  return events;
}

int TcpDescriptor::Ioctl(unsigned long request, int& value) {
  const bool counted = connection_ != nullptr && !handshaking();
  switch (request) {
    case SIOCINQ: {
      if (listener_ != nullptr) return -EINVAL;
      const std::optional<size_t> mark = UrgentMark();
      const bool to_mark = mark && !common_.oob_inline && *mark < readable();
      value = static_cast<int>(to_mark ? *mark : readable());
      return 0;
    }
    case SIOCATMARK:
      value = UrgentMark() == 0U ? 1 : 0;
      return 0;
    case SIOCOUTQ: {
      if (listener_ != nullptr) return -EINVAL;
      // Linux counts the FIN, which takes a sequence number, as a byte.
      const State s = state();
      const bool fin = s == State::kFinWait1 || s == State::kClosing || s == State::kLastAck;
      value = counted ? static_cast<int>(connection_->unacked_bytes() + (fin ? 1 : 0)) : 0;
      return 0;
    }
    case SIOCOUTQNSD:
      if (listener_ != nullptr) return -EINVAL;
      value = counted ? static_cast<int>(connection_->unsent_bytes()) : 0;
      return 0;
    default:
      return -ENOTTY;
  }
}

}  // namespace tapwire::internal
