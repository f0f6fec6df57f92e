// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/tap_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "drivers/tap/tap_device.h"
#include "netdev/net_context.h"

namespace tapwire::drivers {
namespace {

iovec Vector(std::span<const uint8_t> bytes) {
  return {.iov_base = const_cast<uint8_t*>(bytes.data()), .iov_len = bytes.size()};
}

// Calls until it is not a signal that ended the call.
template <typename Fn>
ssize_t RetryInterrupted(Fn&& fn) {
  ssize_t n;
  do {
    n = fn();
  } while (n == -EINTR);
  return n;
}

}  // namespace

ssize_t SystemTapIo::Readv(int fd, const iovec* vectors, int count) {
  const ssize_t n = readv(fd, vectors, count);
  return n < 0 ? -errno : n;
}

ssize_t SystemTapIo::Writev(int fd, const iovec* vectors, int count) {
  // For one piece write() is cheaper: no array to be copied in and checked.
  const ssize_t n =
      count == 1 ? write(fd, vectors[0].iov_base, vectors[0].iov_len) : writev(fd, vectors, count);
  return n < 0 ? -errno : n;
}

TapLinkState SystemTapIo::LinkState(int fd) { return ReadTapLinkState(fd); }

TapQueue::TapQueue(TapDevice& device, int fd, const TapLink& link, TapIo& io)
    : PollContext(device.context(), device),
      tap_(device),
      fd_(fd),
      hdr_size_(link.vnet_hdr_size),
      order_(link.order),
      io_(io) {}

bool TapQueue::Post() {
  Replacement fresh;
  if (!Replace(kSlabs, fresh)) {
    return false;
  }
  PostHead(std::move(fresh.head));
  for (size_t i = 0; i < kSlabs; ++i) {
    PostSlab(i, std::move(fresh.slabs[i]));
  }
  return true;
}

void TapQueue::Unpost() {
  Unlink();
  head_.reset();
  for (SlabRef& slab : slabs_) {
    slab.reset();
  }
}

void TapQueue::PostHead(PacketPtr head) {
  head_ = std::move(head);
  vectors_[0] = {.iov_base = head_->data() - hdr_size_, .iov_len = hdr_size_ + kHeadBytes};
}

void TapQueue::PostSlab(size_t i, SlabRef slab) {
  slabs_[i] = std::move(slab);
  vectors_[1 + i] = Vector(slabs_[i].bytes());
}

bool TapQueue::Replace(size_t slabs, Replacement& fresh) {
  SlabPool& pool = context().pool();
  fresh.head = pool.AllocatePacket(kHeadBytes);
  if (fresh.head == nullptr) {
    return false;
  }
  for (size_t i = 0; i < slabs; ++i) {
    fresh.slabs[i] = pool.AllocateSlab(SlabClass::kLarge);
    if (!fresh.slabs[i]) {
      return false;
    }
  }
  return true;
}

ssize_t TapQueue::ReadFrame() {
  return RetryInterrupted(
      [this] { return io_.Readv(fd_, vectors_.data(), static_cast<int>(kVectors)); });
}

int TapQueue::Poll(int budget) {
  if (!tap_.BeforePoll()) {
    return 0;
  }
  const Time now = context().now();
  late_ = now - last_poll_ > kLateAfter;
  last_poll_ = now;
  int taken = 0;
  size_t bytes = 0;
  while (taken < budget) {
    if (bytes >= kPollBytes) {
      Schedule();  // there may be more, after the others have had their turn
      break;
    }
    if (taken == 1 && lone_polls_ >= kLoneFrames && ++lone_polls_ % kLookEvery != 0) {
      break;  // the descriptor tells if there is another one after all
    }
    const ssize_t got = ReadFrame();
    if (got == -EAGAIN) {
      break;
    }
    if (got <= 0) {
      // A TAP never reads as empty; what does has come to its end.
      tap_.OnReadError(got == 0 ? ENODEV : static_cast<int>(-got));
      break;
    }
    ++taken;
    bytes += static_cast<size_t>(got);
    HandleFrame(static_cast<size_t>(got));
  }
  if (taken != 1) {
    lone_polls_ = 0;
  } else if (lone_polls_ < kLoneFrames) {
    ++lone_polls_;
  }
  return taken;
}

void TapQueue::HandleFrame(size_t length) {
  tap_.tap_stats_.rx_reads.Inc();
  if (length < hdr_size_) {
    tap_.FailRx(nullptr, DropReason::kTapShortHeader);
    return;
  }
  const size_t frame_bytes = length - hdr_size_;
  if (frame_bytes >= kCapacity) {
    // The kernel cut it off; it is longer than any frame may be.
    tap_.FailRx(nullptr, DropReason::kTapOversize);
    return;
  }
  const size_t in_slabs = frame_bytes - std::min(frame_bytes, kHeadBytes);
  Replacement fresh;
  if (!Replace((in_slabs + kLargeSlabBytes - 1) / kLargeSlabBytes, fresh)) {
    // As a network card does: the frame is lost, its buffers take the next one.
    tap_.tap_stats_.rx_no_buffer.Inc();
    tap_.DropRx(nullptr, DropReason::kLinkNoBuffer);
    return;
  }
  PacketPtr packet = TakeFrame(frame_bytes, std::move(fresh));
  packet->meta.rx_time = last_poll_;
  packet->meta.late = late_;
  if (hdr_size_ != 0) {
    const std::optional<VnetHdr> hdr =
        VnetHdr::Parse({packet->data() - hdr_size_, hdr_size_}, order_);
    if (const DropReason reason = ToMeta(*hdr, tap_.rx_policy(), *packet);
        reason != DropReason::kNone) {
      tap_.FailRx(std::move(packet), reason);
      return;
    }
    if (packet->meta.gso.size != 0) {
      tap_.tap_stats_.rx_gso_frames.Inc();
    }
  }
  Deliver(std::move(packet));
}

PacketPtr TapQueue::TakeFrame(size_t length, Replacement fresh) {
  PacketPtr packet = std::move(head_);
  PostHead(std::move(fresh.head));
  const size_t in_head = std::min(length, kHeadBytes);
  packet->Put(in_head);
  size_t rest = length - in_head;
  for (size_t i = 0; rest > 0; ++i) {
    const size_t here = std::min(rest, kLargeSlabBytes);
    // Never more than the packet's own room for fragments.
    (void)packet->AddFrag(std::move(slabs_[i]), 0, here);
    PostSlab(i, std::move(fresh.slabs[i]));
    rest -= here;
  }
  return packet;
}

int TapQueue::Write(Packet& packet) {
  const VnetHdr hdr = FromMeta(packet);
  if (!packet.EnsureHeadroom(hdr_size_)) {
    return ENOMEM;
  }
  if (hdr_size_ != 0) {
    hdr.Emit(packet.Push(hdr_size_), order_);
  }
  std::array<iovec, 1 + Packet::kMaxFrags> vectors;
  size_t count = 0;
  packet.ForEachSpan([&](std::span<const uint8_t> bytes) { vectors[count++] = Vector(bytes); });
  const ssize_t n =
      RetryInterrupted([&] { return io_.Writev(fd_, vectors.data(), static_cast<int>(count)); });
  (void)packet.Pull(hdr_size_);
  return n < 0 ? static_cast<int>(-n) : 0;
}

int TapQueue::WriteRaw(const VnetHdr& hdr, std::span<const uint8_t> frame) {
  std::array<uint8_t, VnetHdr::kLength> bytes;
  hdr.Emit(std::span(bytes).first(hdr_size_), order_);
  const std::array<iovec, 2> vectors = {Vector(std::span(bytes).first(hdr_size_)), Vector(frame)};
  const ssize_t n = RetryInterrupted([&] { return io_.Writev(fd_, vectors.data(), 2); });
  return n < 0 ? static_cast<int>(-n) : 0;
}

void TapQueue::DiscardPending() {
  // More than any transmit queue of a TAP holds (txqueuelen is 500 or 1000), and an end in any
  // case.
  constexpr int kMostFrames = 65'536;
  for (int i = 0; i < kMostFrames && ReadFrame() >= 0; ++i) {
  }
}

}  // namespace tapwire::drivers
