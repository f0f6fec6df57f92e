// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/slab_pool.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "netdev/base/check.h"
#include "netdev/packet/buffer_chain.h"
#include "netdev/packet/packet.h"

#if defined(__SANITIZE_ADDRESS__)
#define TAPWIRE_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPWIRE_POOL_ASAN 1
#endif
#endif
#ifdef TAPWIRE_POOL_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace tapwire {

namespace internal {

// Memory of the chunk source, cut into slabs of one class.
struct PoolChunk {
  ChunkInfo info;
  SlabClass slab_class = SlabClass::kSmall;
  std::unique_ptr<Slab[]> slabs;
  size_t count = 0;
  size_t in_use = 0;
};

}  // namespace internal

namespace {

using internal::PoolChunk;
using internal::SliceNode;

constexpr size_t kMaxChunkBytes = size_t{2} << 20;
// A small budget is taken in small steps, so that one class cannot take all of it at once.
constexpr size_t kChunksPerBudget = 32;
constexpr size_t kObjectsPerBlock = 64;
constexpr std::array<size_t, kSlabClasses> kSlabBytes = {kSmallSlabBytes, kLargeSlabBytes,
                                                         kJumboSlabBytes};

// Copied as a whole: compilers build a temporary field by field and then stall on reading it back.
constexpr PacketMeta kFreshMeta;

size_t IndexOf(SlabClass slab_class) { return static_cast<size_t>(slab_class); }

// Memory that is free must not be touched: AddressSanitizer reports it, other debug builds fill it
// with a pattern that is easy to recognise.
void MarkFree(void* memory, size_t size) {
#ifdef TAPWIRE_POOL_ASAN
  ASAN_POISON_MEMORY_REGION(memory, size);
#elif !defined(NDEBUG)
  std::memset(memory, 0xdb, size);
#else
  static_cast<void>(memory);
  static_cast<void>(size);
#endif
}

void MarkUsed(const void* memory, size_t size) {
#ifdef TAPWIRE_POOL_ASAN
  ASAN_UNPOISON_MEMORY_REGION(memory, size);
#else
  static_cast<void>(memory);
  static_cast<void>(size);
#endif
}

}  // namespace

void SlabRef::Release(Slab* slab) noexcept { slab->pool->ReturnSlab(slab); }

SlabPool::SlabPool(const Options& options)
    : budget_bytes_(options.budget_bytes),
      own_source_(options.chunk_source == nullptr ? std::make_unique<AnonymousChunkSource>()
                                                  : nullptr),
      source_(options.chunk_source == nullptr ? own_source_.get() : options.chunk_source) {}

SlabPool::~SlabPool() {
  TW_CHECK(stats_.packets_in_use == 0, "packets outlive their pool");
  TW_CHECK(stats_.slabs_in_use() == 0, "slabs outlive their pool");
  for (const auto& block : object_blocks_) {
    MarkUsed(block.memory.get(), block.size);
  }
  for (const auto& chunk : chunks_) {
    MarkUsed(chunk->info.bytes.data(), chunk->info.bytes.size());
    source_->Free(chunk->info.bytes);
  }
}

void SlabPool::CheckThread() {
#ifndef NDEBUG
  if (owner_ == std::thread::id()) {
    owner_ = std::this_thread::get_id();
  }
  TW_CHECK(owner_ == std::this_thread::get_id(), "slab pool used from two threads");
#endif
}

// ---- Slabs ----

SlabRef SlabPool::AllocateSlab(SlabClass slab_class) {
  CheckThread();
  const size_t index = IndexOf(slab_class);
  SlabPoolStats::Class& stats = stats_.classes[index];
  if (free_slabs_[index] == nullptr && !Grow(slab_class)) {
    ++stats.failures;
    return SlabRef();
  }
  Slab* slab = free_slabs_[index];
  free_slabs_[index] = slab->next_free;
  MarkUsed(slab->data, slab->capacity);
  slab->refs = 1;
  slab->used = 0;
  ++slab->chunk->in_use;
  stats.high_water = std::max(stats.high_water, ++stats.in_use);
  if (slab_class == SlabClass::kJumbo) {
    ++stats_.jumbo_allocations;
  }
  return SlabRef::Adopt(slab);
}

SlabRef SlabPool::AllocateSlabFor(size_t bytes) {
  if (bytes <= kSmallSlabBytes) {
    return AllocateSlab(SlabClass::kSmall);
  }
  if (bytes <= kLargeSlabBytes) {
    return AllocateSlab(SlabClass::kLarge);
  }
  if (bytes <= kJumboSlabBytes) {
    return AllocateSlab(SlabClass::kJumbo);
  }
  ++stats_.oversize_requests;
  return SlabRef();
}

void SlabPool::ReturnSlab(Slab* slab) {
  CheckThread();
  if (slab->slab_class == SlabClass::kForeign) {
    ReturnForeign(slab);
    return;
  }
  const size_t index = IndexOf(slab->slab_class);
  MarkFree(slab->data, slab->capacity);
  --slab->chunk->in_use;
  --stats_.classes[index].in_use;
  slab->next_free = free_slabs_[index];
  free_slabs_[index] = slab;
}

SlabRef SlabPool::WrapForeign(std::span<uint8_t> memory, Slab::ReleaseFn release, void* argument) {
  CheckThread();
  if (free_foreign_ == nullptr) {
    foreign_slabs_.push_back(std::make_unique<Slab>());
    free_foreign_ = foreign_slabs_.back().get();
  }
  Slab* slab = free_foreign_;
  free_foreign_ = slab->next_free;
  slab->data = memory.data();
  slab->capacity = static_cast<uint32_t>(memory.size());
  slab->refs = 1;
  slab->used = slab->capacity;  // nobody may append to it
  slab->pool = this;
  slab->release_argument = argument;
  slab->release = release;
  slab->slab_class = SlabClass::kForeign;
  ++stats_.foreign_in_use;
  return SlabRef::Adopt(slab);
}

void SlabPool::ReturnForeign(Slab* slab) {
  --stats_.foreign_in_use;
  if (slab->release != nullptr) {
    slab->release(*slab, slab->release_argument);
  }
  slab->next_free = free_foreign_;
  free_foreign_ = slab;
}

// ---- Chunks ----

bool SlabPool::Grow(SlabClass slab_class) {
  const size_t slab_bytes = kSlabBytes[IndexOf(slab_class)];
  const size_t left = budget_bytes_ - stats_.chunk_bytes;
  const size_t step = std::clamp(budget_bytes_ / kChunksPerBudget, slab_bytes, kMaxChunkBytes);
  const size_t bytes = std::min(step, left);
  return (bytes >= slab_bytes && AddChunk(slab_class, bytes)) || ReuseIdleChunk(slab_class);
}

bool SlabPool::AddChunk(SlabClass slab_class, size_t bytes) {
  const std::span<uint8_t> memory = source_->Allocate(bytes);
  if (memory.empty()) {
    return false;
  }
  auto chunk = std::make_unique<PoolChunk>();
  chunk->info.id = static_cast<uint32_t>(chunks_.size());
  chunk->info.bytes = memory;
  chunk->info.file = source_->FileOf(memory).value_or(ChunkFile());
  stats_.chunk_bytes += bytes;
  MarkFree(memory.data(), memory.size());
  chunks_.push_back(std::move(chunk));
  for (ChunkObserver& observer : observers_) {
    observer.function(chunks_.back()->info);
  }
  CutChunk(*chunks_.back(), slab_class);
  return true;
}

// The budget is used up, but a chunk of another class may lie idle.
bool SlabPool::ReuseIdleChunk(SlabClass slab_class) {
  for (const auto& chunk : chunks_) {
    if (chunk->in_use == 0 && chunk->slab_class != slab_class &&
        chunk->info.bytes.size() >= kSlabBytes[IndexOf(slab_class)]) {
      DropFromFreeList(*chunk);
      CutChunk(*chunk, slab_class);
      return true;
    }
  }
  return false;
}

void SlabPool::DropFromFreeList(const PoolChunk& chunk) {
  Slab** link = &free_slabs_[IndexOf(chunk.slab_class)];
  while (*link != nullptr) {
    if ((*link)->chunk == &chunk) {
      *link = (*link)->next_free;
    } else {
      link = &(*link)->next_free;
    }
  }
  stats_.classes[IndexOf(chunk.slab_class)].total -= chunk.count;
}

void SlabPool::CutChunk(PoolChunk& chunk, SlabClass slab_class) {
  const size_t index = IndexOf(slab_class);
  const size_t slab_bytes = kSlabBytes[index];
  chunk.slab_class = slab_class;
  chunk.count = chunk.info.bytes.size() / slab_bytes;
  chunk.slabs = std::make_unique<Slab[]>(chunk.count);
  for (size_t i = chunk.count; i-- > 0;) {  // so that the lowest address is used first
    Slab& slab = chunk.slabs[i];
    slab.data = chunk.info.bytes.data() + i * slab_bytes;
    slab.capacity = static_cast<uint32_t>(slab_bytes);
    slab.chunk_id = chunk.info.id;
    slab.pool = this;
    slab.chunk = &chunk;
    slab.slab_class = slab_class;
    slab.next_free = std::exchange(free_slabs_[index], &slab);
  }
  stats_.classes[index].total += chunk.count;
}

ChunkInfo SlabPool::chunk(uint32_t id) const {
  TW_CHECK(id < chunks_.size());
  return chunks_[id]->info;
}

int SlabPool::AddChunkObserver(absl::AnyInvocable<void(const ChunkInfo&)> observer) {
  observers_.push_back({next_observer_, std::move(observer)});
  return next_observer_++;
}

void SlabPool::RemoveChunkObserver(int handle) {
  std::erase_if(observers_,
                [handle](const ChunkObserver& observer) { return observer.handle == handle; });
}

// ---- Packets and nodes ----
//
// Not under the budget themselves: each packet holds a head slab, each node refers to a slab.

template <auto kNext, typename Object>
void SlabPool::AddObjects(Object*& free_list) {
  const size_t size = kObjectsPerBlock * sizeof(Object);
  object_blocks_.push_back({std::make_unique<std::byte[]>(size), size});
  std::byte* memory = object_blocks_.back().memory.get();
  for (size_t i = kObjectsPerBlock; i-- > 0;) {
    PutObject<kNext>(new (memory + i * sizeof(Object)) Object(), free_list);
  }
}

template <auto kNext, typename Object>
Object* SlabPool::TakeObject(Object*& free_list) {
  if (free_list == nullptr) [[unlikely]] {
    AddObjects<kNext>(free_list);
  }
  Object* object = free_list;
  MarkObject(object, true);
  free_list = std::exchange(object->*kNext, nullptr);
  return object;
}

template <auto kNext, typename Object>
void SlabPool::PutObject(Object* object, Object*& free_list) {
  object->*kNext = std::exchange(free_list, object);
  MarkObject(object, false);
}

// Objects keep their content while free, so only AddressSanitizer guards them.
template <typename Object>
void SlabPool::MarkObject([[maybe_unused]] Object* object, [[maybe_unused]] bool used) {
#ifdef TAPWIRE_POOL_ASAN
  used ? MarkUsed(object, sizeof(Object)) : MarkFree(object, sizeof(Object));
#endif
}

PacketPtr SlabPool::AllocatePacket(size_t linear_capacity, size_t headroom) {
  if (linear_capacity > kJumboSlabBytes || headroom > kJumboSlabBytes) {
    ++stats_.oversize_requests;
    return nullptr;
  }
  return MakePacket(AllocateSlabFor(linear_capacity + headroom), headroom);
}

PacketPtr SlabPool::MakePacket(SlabRef head, size_t headroom) {
  if (!head) {
    return nullptr;
  }
  Packet* packet = TakeObject<&Packet::next_>(free_packets_);
  packet->head_ = std::move(head);
  packet->data_ = packet->tail_ = static_cast<uint32_t>(headroom);
  packet->frag_bytes_ = 0;
  packet->frag_count_ = 0;
  packet->meta = kFreshMeta;
  stats_.packets_high_water = std::max(stats_.packets_high_water, ++stats_.packets_in_use);
  return PacketPtr(packet);
}

void PacketFree::operator()(Packet* packet) const noexcept {
  SlabPool& pool = packet->pool();
  if (packet->frag_count_ > 0) {
    packet->ClearFrags();
  }
  packet->overflow_.reset();
  packet->head_.reset();
  --pool.stats_.packets_in_use;
  pool.PutObject<&Packet::next_>(packet, pool.free_packets_);
}

SliceNode* SlabPool::TakeNode() { return TakeObject<&SliceNode::next>(free_nodes_); }

void SlabPool::ReturnNode(SliceNode* node) {
  node->slice = BufferSlice();
  PutObject<&SliceNode::next>(node, free_nodes_);
}

}  // namespace tapwire
