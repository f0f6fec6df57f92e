// SPDX-License-Identifier: Apache-2.0
//
// Application data without headers: ranges of shared slabs in order. What sockets read and write
// and what send and receive buffers hold.
//
// A chain stays dense: copying writes fill the tail slab first, and a slice that fits behind the
// tail's bytes, or into one small slab together with them, is copied there, so no chain of
// nearly empty slabs can pin memory. Memory is charged by slab (true_size).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "netdev/packet/packet.h"
#include "netdev/packet/slab_pool.h"

namespace tapwire {

// Read-only range of a slab; keeps the slab alive.
class BufferSlice {
 public:
  BufferSlice() = default;
  // The range must lie inside the slab and must not be written any more.
  BufferSlice(SlabRef slab, size_t offset, size_t length)
      : slab_(std::move(slab)),
        offset_(static_cast<uint32_t>(offset)),
        length_(static_cast<uint32_t>(length)) {
    if (slab_) {
      slab_->used = std::max(slab_->used, offset_ + length_);
    }
  }

  BufferSlice(const BufferSlice&) = default;
  BufferSlice& operator=(const BufferSlice&) = default;
  BufferSlice(BufferSlice&& other) noexcept
      : slab_(std::move(other.slab_)),
        offset_(std::exchange(other.offset_, 0)),
        length_(std::exchange(other.length_, 0)) {}
  BufferSlice& operator=(BufferSlice&& other) noexcept {
    slab_ = std::move(other.slab_);
    offset_ = std::exchange(other.offset_, 0);
    length_ = std::exchange(other.length_, 0);
    return *this;
  }
  ~BufferSlice() = default;

  std::span<const uint8_t> bytes() const {
    return length_ == 0 ? std::span<const uint8_t>()
                        : std::span<const uint8_t>(slab_.data() + offset_, length_);
  }
  size_t size() const { return length_; }
  bool empty() const { return length_ == 0; }
  const SlabRef& slab() const { return slab_; }
  size_t offset() const { return offset_; }

  // The part [from, from + length), cut to what there is; shares the slab.
  BufferSlice Part(size_t from, size_t length) const {
    from = std::min(from, size());
    return BufferSlice(slab_, offset_ + from, std::min(length, size() - from));
  }

  // Removes up to n bytes from the front or the back.
  void RemovePrefix(size_t n) {
    const auto cut = static_cast<uint32_t>(std::min(n, size()));
    offset_ += cut;
    length_ -= cut;
  }
  void RemoveSuffix(size_t n) { length_ -= static_cast<uint32_t>(std::min(n, size())); }

 private:
  friend class BufferChain;

  SlabRef slab_;
  uint32_t offset_ = 0;
  uint32_t length_ = 0;
};

namespace internal {
// Link of a chain, from the pool's own free list.
struct SliceNode {
  BufferSlice slice;
  SliceNode* next = nullptr;
};
}  // namespace internal

// Move-only sequence of slices of one pool; 24 bytes, nothing allocated while empty. At most 4 GiB.
class BufferChain {
 public:
  BufferChain() = default;
  BufferChain(BufferChain&& other) noexcept
      : head_(std::exchange(other.head_, nullptr)),
        tail_(std::exchange(other.tail_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        true_size_(std::exchange(other.true_size_, 0)) {}
  BufferChain& operator=(BufferChain&& other) noexcept {
    if (this != &other) {
      Clear();
      std::swap(head_, other.head_);
      std::swap(tail_, other.tail_);
      std::swap(size_, other.size_);
      std::swap(true_size_, other.true_size_);
    }
    return *this;
  }
  ~BufferChain() { Clear(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Memory charged: the slabs and links behind the bytes.
  size_t true_size() const { return true_size_; }

  // Appends without copying, unless the slice fits in with the tail. No effect if it is empty.
  void Append(BufferSlice slice);
  // Moves all of `other` to the end.
  void Append(BufferChain&& other);
  // Copies bytes in: fills the tail slab, then takes new slabs. Returns how many were taken, which
  // is fewer than given only if the pool is at its budget.
  [[nodiscard]] size_t AppendCopy(SlabPool& pool, std::span<const uint8_t> bytes);
  // Appends bytes [offset, offset + length) of the packet, cut to what there is, and frees it.
  void AppendPacket(PacketPtr packet, size_t offset, size_t length);

  // Removes up to n bytes from the front.
  void Consume(size_t n);
  // Removes bytes from the back until new_size are left; no effect if there are no more.
  void Trim(size_t new_size);
  void Clear();

  // First slice; the chain must not be empty.
  const BufferSlice& front() const { return head_->slice; }
  // Takes the first slice out; empty if there is none.
  BufferSlice PopFront();

  // A chain that shares bytes [offset, offset + length), cut to what there is.
  BufferChain Slice(size_t offset, size_t length) const;
  // Moves the first n bytes, cut to what there is, into a chain of their own.
  BufferChain Split(size_t n);

  // Copies bytes from `offset` on; returns how many there were, at most out.size().
  size_t CopyOut(size_t offset, std::span<uint8_t> out) const;

  // Calls fn(BufferSlice) for the slices that make up [offset, offset + length), cut to what there
  // is. For attaching data to packets without copying.
  template <typename Fn>
  void ForEachSlice(size_t offset, size_t length, Fn&& fn) const {
    for (const internal::SliceNode* node = head_; node != nullptr && length > 0;
         node = node->next) {
      const size_t here = node->slice.size();
      if (offset >= here) {
        offset -= here;
        continue;
      }
      const size_t n = std::min(length, here - offset);
      fn(node->slice.Part(offset, n));
      length -= n;
      offset = 0;
    }
  }

  // Number of slices; walks the chain.
  size_t slice_count() const;

 private:
  void PushNode(BufferSlice slice);
  void PopNode();
  size_t TailRoom() const;
  void CopyBehindTail(std::span<const uint8_t> bytes);
  bool MergeIntoNewSlab(const BufferSlice& slice);
  bool MergeWithTail(const BufferSlice& slice);
  static size_t Charge(const BufferSlice& slice);

  internal::SliceNode* head_ = nullptr;
  internal::SliceNode* tail_ = nullptr;
  uint32_t size_ = 0;
  uint32_t true_size_ = 0;
};

static_assert(sizeof(BufferChain) <= 24);

}  // namespace tapwire
