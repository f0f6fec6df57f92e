// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/buffer_chain.h"

#include <algorithm>
#include <cstring>

namespace tapwire {

using internal::SliceNode;

// Memory a slice is charged with. Slices of one slab are charged each, which errs on the safe side.
size_t BufferChain::Charge(const BufferSlice& slice) {
  return slice.slab_.capacity() + sizeof(SliceNode);
}

// ---- Nodes ----

void BufferChain::PushNode(BufferSlice slice) {
  SliceNode* node = slice.slab_->pool->TakeNode();
  size_ += slice.length_;
  true_size_ += static_cast<uint32_t>(Charge(slice));
  node->slice = std::move(slice);
  (head_ == nullptr ? head_ : tail_->next) = node;
  tail_ = node;
}

void BufferChain::PopNode() {
  SliceNode* node = head_;
  SlabPool* pool = node->slice.slab_->pool;
  size_ -= node->slice.length_;
  true_size_ -= static_cast<uint32_t>(Charge(node->slice));
  head_ = std::exchange(node->next, nullptr);
  if (head_ == nullptr) {
    tail_ = nullptr;
  }
  pool->ReturnNode(node);
}

void BufferChain::Clear() {
  while (head_ != nullptr) {
    PopNode();
  }
}

size_t BufferChain::slice_count() const {
  size_t count = 0;
  for (const SliceNode* node = head_; node != nullptr; node = node->next) {
    ++count;
  }
  return count;
}

// ---- Appending ----

// Bytes that may be written behind the last slice; see Slab::used.
size_t BufferChain::TailRoom() const {
  if (tail_ == nullptr) {
    return 0;
  }
  const BufferSlice& last = tail_->slice;
  Slab& slab = *last.slab_.get();
  const uint32_t end = last.offset_ + last.length_;
  if (last.slab_.unique() && slab.slab_class != SlabClass::kForeign) {
    slab.used = end;  // whatever lay behind is nobody's any more
  }
  return slab.used == end ? slab.capacity - end : 0;
}

void BufferChain::CopyBehindTail(std::span<const uint8_t> bytes) {
  BufferSlice& last = tail_->slice;
  const auto n = static_cast<uint32_t>(bytes.size());
  std::memcpy(last.slab_.data() + last.slab_->used, bytes.data(), n);
  last.slab_->used += n;
  last.length_ += n;
  size_ += n;
}

// Puts the last slice and `slice` together into a fresh small slab.
bool BufferChain::MergeIntoNewSlab(const BufferSlice& slice) {
  BufferSlice& last = tail_->slice;
  SlabRef slab = last.slab_->pool->AllocateSlab(SlabClass::kSmall);
  if (!slab) {
    return false;
  }
  std::memcpy(slab.data(), last.bytes().data(), last.size());
  true_size_ -= static_cast<uint32_t>(Charge(last));
  last = BufferSlice(std::move(slab), 0, last.size());
  true_size_ += static_cast<uint32_t>(Charge(last));
  CopyBehindTail(slice.bytes());
  return true;
}

// True if the slice needs no node of its own.
bool BufferChain::MergeWithTail(const BufferSlice& slice) {
  if (tail_ == nullptr) {
    return false;
  }
  BufferSlice& last = tail_->slice;
  if (last.slab_ == slice.slab_ && last.offset_ + last.length_ == slice.offset_) {
    last.length_ += slice.length_;
    size_ += slice.length_;
    return true;
  }
  if (slice.size() <= TailRoom()) {
    CopyBehindTail(slice.bytes());
    return true;
  }
  return last.size() + slice.size() <= kSmallSlabBytes && MergeIntoNewSlab(slice);
}

void BufferChain::Append(BufferSlice slice) {
  if (!slice.empty() && !MergeWithTail(slice)) {
    PushNode(std::move(slice));
  }
}

void BufferChain::Append(BufferChain&& other) {
  while (!other.empty() && MergeWithTail(other.front())) {
    other.PopNode();
  }
  if (other.empty()) {
    return;
  }
  (head_ == nullptr ? head_ : tail_->next) = std::exchange(other.head_, nullptr);
  tail_ = std::exchange(other.tail_, nullptr);
  size_ += std::exchange(other.size_, 0);
  true_size_ += std::exchange(other.true_size_, 0);
}

size_t BufferChain::AppendCopy(SlabPool& pool, std::span<const uint8_t> bytes) {
  const size_t given = bytes.size();
  const size_t behind = std::min(TailRoom(), bytes.size());
  if (behind > 0) {
    CopyBehindTail(bytes.first(behind));
    bytes = bytes.subspan(behind);
  }
  while (!bytes.empty()) {
    // A little data gets a small slab, so that idle connections cost little.
    const bool small = size_ + bytes.size() <= 2 * kSmallSlabBytes;
    SlabRef slab = pool.AllocateSlab(small ? SlabClass::kSmall : SlabClass::kLarge);
    if (!slab && !small) {
      slab = pool.AllocateSlab(SlabClass::kSmall);
    }
    if (!slab) {
      break;
    }
    const size_t n = std::min(bytes.size(), slab.capacity());
    std::memcpy(slab.data(), bytes.data(), n);
    PushNode(BufferSlice(std::move(slab), 0, n));
    bytes = bytes.subspan(n);
  }
  return given - bytes.size();
}

void BufferChain::AppendPacket(PacketPtr packet, size_t offset, size_t length) {
  const auto append = [&](const SlabRef& slab, size_t start, size_t size) {
    if (offset >= size) {
      offset -= size;
      return;
    }
    const size_t n = std::min(length, size - offset);
    Append(BufferSlice(slab, start + offset, n));
    length -= n;
    offset = 0;
  };
  append(packet->head_slab(), packet->data_offset(), packet->head_length());
  for (size_t i = 0; i < packet->frag_count() && length > 0; ++i) {
    const PacketFrag& frag = packet->frag_ref(i);
    append(frag.slab, frag.offset, frag.length);
  }
}

// ---- Removing ----

void BufferChain::Consume(size_t n) {
  while (head_ != nullptr && n >= head_->slice.size()) {
    n -= head_->slice.size();
    PopNode();
  }
  if (head_ != nullptr && n > 0) {
    head_->slice.RemovePrefix(n);
    size_ -= static_cast<uint32_t>(n);
  }
}

void BufferChain::Trim(size_t new_size) {
  if (new_size < size_) {
    *this = Split(new_size);
  }
}

BufferSlice BufferChain::PopFront() {
  if (head_ == nullptr) {
    return BufferSlice();
  }
  BufferSlice slice = head_->slice;
  PopNode();
  return slice;
}

BufferChain BufferChain::Split(size_t n) {
  BufferChain front;
  while (head_ != nullptr && n >= head_->slice.size()) {
    n -= head_->slice.size();
    // The node moves as it is, so a split costs no copy.
    SliceNode* node = head_;
    const auto charge = static_cast<uint32_t>(Charge(node->slice));
    size_ -= node->slice.length_;
    true_size_ -= charge;
    head_ = std::exchange(node->next, nullptr);
    (front.head_ == nullptr ? front.head_ : front.tail_->next) = node;
    front.tail_ = node;
    front.size_ += node->slice.length_;
    front.true_size_ += charge;
  }
  if (head_ == nullptr) {
    tail_ = nullptr;
  } else if (n > 0) {
    front.PushNode(head_->slice.Part(0, n));
    Consume(n);
  }
  return front;
}

// ---- Reading ----

BufferChain BufferChain::Slice(size_t offset, size_t length) const {
  BufferChain result;
  ForEachSlice(offset, length, [&result](BufferSlice slice) { result.PushNode(std::move(slice)); });
  return result;
}

size_t BufferChain::CopyOut(size_t offset, std::span<uint8_t> out) const {
  size_t copied = 0;
  ForEachSlice(offset, out.size(), [&](const BufferSlice& slice) {
    std::memcpy(out.data() + copied, slice.bytes().data(), slice.size());
    copied += slice.size();
  });
  return copied;
}

}  // namespace tapwire
