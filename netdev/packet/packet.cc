// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/packet.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "netdev/base/check.h"

namespace tapwire {
namespace {

static_assert(Packet::kMaxFrags - Packet::kInlineFrags <= kSmallSlabBytes / sizeof(PacketFrag));

// All positions in the metadata that count from the start of the head slab.
template <typename Meta, typename Fn>
void ForEachOffset(Meta& meta, Fn&& fn) {
  for (auto* offset : {&meta.l2_offset, &meta.l3_offset, &meta.l4_offset, &meta.inner_l3_offset,
                       &meta.inner_l4_offset, &meta.csum_start}) {
    if (*offset != PacketMeta::kUnset) {
      fn(*offset);
    }
  }
}

void CopyBytes(uint8_t* to, const uint8_t* from, size_t n) {
  if (n > 0) {  // memcpy may not be given null, not even for no bytes
    std::memcpy(to, from, n);
  }
}

}  // namespace

void Packet::FailNoRoom() {
  CheckFailed(__FILE__, __LINE__, "n <= room", "Push or Put beyond the slab");
}

// ---- Reading ----

size_t Packet::true_size() const {
  size_t size = sizeof(Packet) + head_.capacity();
  if (overflow_) {
    size += overflow_.capacity();
  }
  for (size_t i = 0; i < frag_count_; ++i) {
    size += frag_ref(i).slab.capacity();
  }
  return size;
}

void Packet::CopyOut(size_t offset, std::span<uint8_t> out) const {
  TW_CHECK(offset <= length() && out.size() <= length() - offset, "range outside the packet");
  ForEachSpan([&](std::span<const uint8_t> part) {
    if (offset >= part.size()) {
      offset -= part.size();
      return;
    }
    const size_t n = std::min(part.size() - offset, out.size());
    CopyBytes(out.data(), part.data() + offset, n);
    out = out.subspan(n);
    offset = 0;
  });
}

// ---- Head ----

// Lowest position that must survive a move of the head: headers that were pulled stay readable.
uint32_t Packet::FirstKeptByte() const {
  uint32_t first = data_;
  ForEachOffset(
      meta, [&first](int32_t offset) { first = std::min(first, static_cast<uint32_t>(offset)); });
  return first;
}

// Moves the head into a new slab, with the data at new_data >= data_ and `tailroom` bytes after it.
bool Packet::MoveHead(size_t new_data, size_t tailroom) {
  SlabRef slab = pool().AllocateSlabFor(new_data + head_length() + tailroom);
  if (!slab) {
    return false;
  }
  const uint32_t first = FirstKeptByte();
  const auto delta = static_cast<uint32_t>(new_data) - data_;
  CopyBytes(slab.data() + first + delta, head_.data() + first, tail_ - first);
  head_ = std::move(slab);
  data_ += delta;
  tail_ += delta;
  ForEachOffset(meta, [delta](int32_t& offset) { offset += static_cast<int32_t>(delta); });
  return true;
}

bool Packet::EnsureHeadroom(size_t n) { return n <= data_ || MoveHead(n, 0); }

bool Packet::EnsureLinear(size_t n) {
  if (n <= head_length()) {
    return true;
  }
  if (n > length()) {
    return false;
  }
  const size_t missing = n - head_length();
  if (head_.capacity() - tail_ < missing && !MoveHead(data_, missing)) {
    return false;
  }
  CopyOut(head_length(), {head_.data() + tail_, missing});
  DropFrontFrags(missing);
  tail_ += static_cast<uint32_t>(missing);
  return true;
}

void Packet::TrimFront(size_t n) {
  n = std::min(n, length());
  const size_t from_head = std::min(n, head_length());
  data_ += static_cast<uint32_t>(from_head);
  DropFrontFrags(n - from_head);
}

void Packet::Trim(size_t new_length) {
  if (new_length >= length()) {
    return;
  }
  if (new_length >= head_length()) {
    DropBackFrags(length() - new_length);
    return;
  }
  ClearFrags();
  tail_ = data_ + static_cast<uint32_t>(new_length);
}

// ---- Fragments ----

// Makes sure that `count` fragments have a place.
bool Packet::ReserveFrags(size_t count) {
  if (count > kMaxFrags) {
    return false;
  }
  if (count <= kInlineFrags || overflow_) {
    return true;
  }
  SlabRef slab = pool().AllocateSlab(SlabClass::kSmall);
  if (!slab) {
    return false;
  }
  overflow_ = std::move(slab);
  std::uninitialized_value_construct_n(overflow(), kMaxFrags - kInlineFrags);
  return true;
}

bool Packet::AddFrag(SlabRef slab, size_t offset, size_t length) {
  TW_DCHECK(offset <= slab.capacity() && length <= slab.capacity() - offset);
  if (length == 0) {
    return true;
  }
  const auto from = static_cast<uint32_t>(offset);
  const auto bytes = static_cast<uint32_t>(length);
  Slab* control = slab.get();
  PacketFrag* last = frag_count_ == 0 ? nullptr : &MutableFrag(frag_count_ - 1);
  if (last != nullptr && last->slab == slab && last->offset + last->length == from) {
    last->length += bytes;
  } else {
    if (!ReserveFrags(frag_count_ + 1)) {
      return false;
    }
    PacketFrag& added = MutableFrag(frag_count_++);
    added.slab = std::move(slab);
    added.offset = from;
    added.length = bytes;
  }
  control->used = std::max(control->used, from + bytes);
  frag_bytes_ += bytes;
  return true;
}

void Packet::DropFrontFrags(size_t bytes) {
  frag_bytes_ -= static_cast<uint32_t>(bytes);
  size_t whole = 0;
  while (bytes > 0 && bytes >= frag_ref(whole).length) {
    bytes -= frag_ref(whole).length;
    MutableFrag(whole++).slab.reset();
  }
  if (bytes > 0) {
    MutableFrag(whole).offset += static_cast<uint32_t>(bytes);
    MutableFrag(whole).length -= static_cast<uint32_t>(bytes);
  }
  if (whole > 0) {
    for (size_t i = whole; i < frag_count_; ++i) {
      MutableFrag(i - whole) = std::move(MutableFrag(i));
    }
    frag_count_ -= static_cast<uint32_t>(whole);
  }
}

void Packet::DropBackFrags(size_t bytes) {
  frag_bytes_ -= static_cast<uint32_t>(bytes);
  while (bytes > 0) {
    PacketFrag& last = MutableFrag(frag_count_ - 1);
    if (bytes < last.length) {
      last.length -= static_cast<uint32_t>(bytes);
      return;
    }
    bytes -= last.length;
    last.slab.reset();
    --frag_count_;
  }
}

void Packet::ClearFrags() {
  for (size_t i = 0; i < frag_count_; ++i) {
    MutableFrag(i).slab.reset();
  }
  frag_count_ = 0;
  frag_bytes_ = 0;
}

// Free bytes behind the last fragment that may be written in place; see Slab::used.
size_t Packet::RoomBehindLastFrag() const {
  if (frag_count_ == 0) {
    return 0;
  }
  const PacketFrag& last = frag_ref(frag_count_ - 1);
  const uint32_t end = last.offset + last.length;
  return last.slab->used == end ? last.slab.capacity() - end : 0;
}

void Packet::CopyBehindLastFrag(std::span<const uint8_t> bytes) {
  PacketFrag& last = MutableFrag(frag_count_ - 1);
  CopyBytes(last.slab.data() + last.slab->used, bytes.data(), bytes.size());
  last.slab->used += static_cast<uint32_t>(bytes.size());
  last.length += static_cast<uint32_t>(bytes.size());
  frag_bytes_ += static_cast<uint32_t>(bytes.size());
}

bool Packet::AppendBytes(std::span<const uint8_t> bytes) {
  const size_t old_length = length();
  const size_t to_head = std::min(tailroom(), bytes.size());
  CopyBytes(Put(to_head).data(), bytes.data(), to_head);
  bytes = bytes.subspan(to_head);
  const size_t to_last = std::min(RoomBehindLastFrag(), bytes.size());
  if (to_last > 0) {
    CopyBehindLastFrag(bytes.first(to_last));
    bytes = bytes.subspan(to_last);
  }
  while (!bytes.empty()) {
    SlabRef slab =
        pool().AllocateSlab(bytes.size() > kSmallSlabBytes ? SlabClass::kLarge : SlabClass::kSmall);
    const size_t n = slab ? std::min(slab.capacity(), bytes.size()) : 0;
    if (n == 0 || !AddFrag(slab, 0, n)) {
      Trim(old_length);
      return false;
    }
    CopyBytes(slab.data(), bytes.data(), n);
    bytes = bytes.subspan(n);
  }
  return true;
}

bool Packet::AppendPacket(PacketPtr& other) {
  if (other->is_linear()) {
    // Behind our bytes, if it fits: cheaper than holding a slab for it.
    const std::span<const uint8_t> bytes = other->head_bytes();
    if (bytes.size() <= std::max(tailroom(), RoomBehindLastFrag())) {
      const bool appended = AppendBytes(bytes);
      TW_DCHECK(appended);
      other.reset();
      return appended;
    }
  }
  const size_t pieces = (other->head_length() > 0 ? 1 : 0) + other->frag_count();
  if (!ReserveFrags(frag_count_ + pieces)) {
    return false;
  }
  bool added = AddFrag(other->head_, other->data_, other->head_length());
  for (size_t i = 0; i < other->frag_count(); ++i) {
    const PacketFrag& frag = other->frag_ref(i);
    added = added && AddFrag(frag.slab, frag.offset, frag.length);
  }
  TW_DCHECK(added);
  other.reset();
  return added;
}

// ---- Copies ----

// A packet with the same head, positions and metadata, and no fragments.
PacketPtr Packet::CopyHead() const {
  PacketPtr copy = pool().MakePacket(pool().AllocateSlab(head_->slab_class), data_);
  if (copy != nullptr) {
    const uint32_t first = FirstKeptByte();
    CopyBytes(copy->head_.data() + first, head_.data() + first, tail_ - first);
    copy->tail_ = tail_;
    copy->meta = meta;
  }
  return copy;
}

PacketPtr Packet::Clone() const {
  PacketPtr copy = CopyHead();
  if (copy == nullptr || !copy->ReserveFrags(frag_count_)) {
    return nullptr;
  }
  for (size_t i = 0; i < frag_count_; ++i) {
    copy->MutableFrag(i) = frag_ref(i);
  }
  copy->frag_count_ = frag_count_;
  copy->frag_bytes_ = frag_bytes_;
  return copy;
}

PacketPtr Packet::CopyDeep() const {
  PacketPtr copy = CopyHead();
  for (size_t i = 0; i < frag_count_ && copy != nullptr; ++i) {
    if (!copy->AppendBytes(frag(i))) {
      return nullptr;
    }
  }
  return copy;
}

// Metadata of the bytes [offset, offset + length): `head` of them lie in the copy's head.
PacketMeta Packet::MetaOfSlice(size_t offset, size_t length, size_t head, size_t headroom) const {
  PacketMeta result = meta;
  const auto first = static_cast<int32_t>(data_ + offset);
  ForEachOffset(result, [&](int32_t& position) {
    const bool inside = position >= first && position < first + static_cast<int32_t>(head);
    position = inside ? position - first + static_cast<int32_t>(headroom) : PacketMeta::kUnset;
  });
  const bool whole = offset == 0 && length == this->length();
  if ((meta.csum_state == CsumState::kComplete && !whole) ||
      (meta.csum_state == CsumState::kPartial && result.csum_start == PacketMeta::kUnset)) {
    result.csum_state = CsumState::kNone;
    result.csum_value = 0;
  }
  return result;
}

PacketPtr Packet::Slice(size_t offset, size_t length, size_t headroom) const {
  TW_CHECK(offset <= this->length() && length <= this->length() - offset,
           "range outside the packet");
  const size_t from_head = offset < head_length() ? std::min(length, head_length() - offset) : 0;
  PacketPtr slice = pool().AllocatePacket(from_head, headroom);
  if (slice == nullptr) {
    return nullptr;
  }
  CopyBytes(slice->Put(from_head).data(), data() + offset, from_head);
  slice->meta = MetaOfSlice(offset, length, from_head, headroom);
  size_t skip = offset > head_length() ? offset - head_length() : 0;
  size_t left = length - from_head;
  for (size_t i = 0; left > 0; ++i) {
    const PacketFrag& frag = frag_ref(i);
    if (skip >= frag.length) {
      skip -= frag.length;
      continue;
    }
    const size_t n = std::min<size_t>(left, frag.length - skip);
    if (!slice->AddFrag(frag.slab, frag.offset + skip, n)) {
      return nullptr;
    }
    left -= n;
    skip = 0;
  }
  return slice;
}

PacketPtr PacketFromBytes(SlabPool& pool, std::span<const uint8_t> bytes) {
  PacketPtr packet =
      pool.AllocatePacket(std::min(bytes.size(), kSmallSlabBytes - kDefaultHeadroom));
  if (packet == nullptr || !packet->AppendBytes(bytes)) {
    return nullptr;
  }
  return packet;
}

}  // namespace tapwire
