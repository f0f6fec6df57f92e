// SPDX-License-Identifier: Apache-2.0
//
// Memory for packets: fixed-size slabs cut from large chunks under a byte budget, and the Packet
// objects themselves. One pool per context, one thread, so reference counts are plain integers;
// debug builds check the thread.
//
//   small  2 KiB   heads and small data
//   large 16 KiB   payload
//   jumbo 72 KiB   only to make a 64 KiB frame contiguous; counted
//
// Free lists are LIFO (the slab freed last is warm in the cache). Reaching the budget is an
// ordinary failure: an empty SlabRef or PacketPtr and a counter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "netdev/packet/chunk_source.h"

namespace tapwire {

class Packet;
class SlabPool;

namespace internal {
struct PoolChunk;
struct SliceNode;
}  // namespace internal

enum class SlabClass : uint8_t { kSmall, kLarge, kJumbo, kForeign };

inline constexpr size_t kSlabClasses = 3;  // those with memory of the pool
inline constexpr size_t kSmallSlabBytes = 2 * 1024;
inline constexpr size_t kLargeSlabBytes = 16 * 1024;
inline constexpr size_t kJumboSlabBytes = 72 * 1024;

// Room before the data of a fresh packet: virtio-net header 12, Ethernet 14, two tags 8, IPv6 40,
// extension headers 40, TCP 60, spare 18.
inline constexpr size_t kDefaultHeadroom = 192;

// Returns a packet to its pool.
struct PacketFree {
  void operator()(Packet* packet) const noexcept;
};
// The one holder of a packet.
using PacketPtr = std::unique_ptr<Packet, PacketFree>;

// Control block of one slab; lives beside the memory, not in it.
struct alignas(64) Slab {
  // Called when the last reference to foreign memory goes.
  using ReleaseFn = void (*)(Slab& slab, void* argument);

  uint8_t* data = nullptr;
  uint32_t capacity = 0;
  uint32_t refs = 0;
  // End of the bytes that anyone has claimed. Whoever holds a range that ends here may append in
  // place, even if the slab is shared, by moving the mark.
  uint32_t used = 0;
  uint32_t chunk_id = 0;  // see SlabPool::chunk(); meaningless for foreign memory
  SlabPool* pool = nullptr;
  internal::PoolChunk* chunk = nullptr;  // null for foreign memory
  union {
    Slab* next_free = nullptr;
    void* release_argument;
  };
  ReleaseFn release = nullptr;
  SlabClass slab_class = SlabClass::kSmall;
};

// Counted reference to a slab.
class SlabRef {
 public:
  SlabRef() = default;
  SlabRef(const SlabRef& other) : slab_(other.slab_) {
    if (slab_ != nullptr) {
      ++slab_->refs;
    }
  }
  SlabRef(SlabRef&& other) noexcept : slab_(std::exchange(other.slab_, nullptr)) {}
  SlabRef& operator=(const SlabRef& other) {
    SlabRef copy(other);
    std::swap(slab_, copy.slab_);
    return *this;
  }
  SlabRef& operator=(SlabRef&& other) noexcept {
    SlabRef moved(std::move(other));
    std::swap(slab_, moved.slab_);
    return *this;
  }
  ~SlabRef() { reset(); }

  // Takes over one reference that the caller counted.
  static SlabRef Adopt(Slab* slab) {
    SlabRef ref;
    ref.slab_ = slab;
    return ref;
  }

  void reset() {
    if (slab_ != nullptr && --slab_->refs == 0) {
      Release(slab_);
    }
    slab_ = nullptr;
  }

  explicit operator bool() const { return slab_ != nullptr; }
  bool operator==(const SlabRef&) const = default;
  Slab* get() const { return slab_; }
  Slab* operator->() const { return slab_; }

  uint8_t* data() const { return slab_->data; }
  size_t capacity() const { return slab_->capacity; }
  std::span<uint8_t> bytes() const { return {slab_->data, slab_->capacity}; }
  // True if no one else refers to the slab.
  bool unique() const { return slab_->refs == 1; }

 private:
  static void Release(Slab* slab) noexcept;

  Slab* slab_ = nullptr;
};

struct SlabPoolOptions {
  // Upper limit of the memory of all chunks. A chunk that has become free serves any class.
  size_t budget_bytes = size_t{64} << 20;
  // Not owned, outlives the pool; null stands for anonymous memory.
  ChunkSource* chunk_source = nullptr;
};

struct SlabPoolStats {
  struct Class {
    size_t total = 0;       // slabs cut
    size_t in_use = 0;      // slabs with a reference
    size_t high_water = 0;  // largest in_use so far
    uint64_t failures = 0;  // requests that the budget or the chunk source refused
  };
  std::array<Class, kSlabClasses> classes;  // by SlabClass
  size_t foreign_in_use = 0;
  size_t packets_in_use = 0;
  size_t packets_high_water = 0;
  size_t chunk_bytes = 0;          // memory taken from the chunk source
  uint64_t jumbo_allocations = 0;  // a sign that something linearizes
  uint64_t oversize_requests = 0;  // larger than the largest class

  const Class& operator[](SlabClass c) const { return classes[static_cast<size_t>(c)]; }
  size_t slabs_in_use() const {
    return classes[0].in_use + classes[1].in_use + classes[2].in_use + foreign_in_use;
  }
  uint64_t failures() const {
    return classes[0].failures + classes[1].failures + classes[2].failures + oversize_requests;
  }
};

// One piece of memory as the chunk source gave it.
struct ChunkInfo {
  uint32_t id = 0;
  std::span<uint8_t> bytes;
  ChunkFile file;  // fd −1 if the memory cannot be shared
};

class SlabPool {
 public:
  using Options = SlabPoolOptions;

  explicit SlabPool(const Options& options = Options());
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;
  // Everything must have come back: a packet or slab still in use is a fatal error.
  ~SlabPool();

  // A packet with `headroom` free bytes, no data and at least `linear_capacity` bytes of tailroom.
  // Null if the budget is reached or the sum exceeds the jumbo class.
  PacketPtr AllocatePacket(size_t linear_capacity, size_t headroom = kDefaultHeadroom);

  // A slab with one reference and unspecified content; empty if the budget is reached.
  SlabRef AllocateSlab(SlabClass slab_class);

  // The smallest slab with `bytes` bytes; empty as above or if no class is large enough.
  SlabRef AllocateSlabFor(size_t bytes);

  // Lends memory that is not the pool's to packets and chains. `release` runs on the pool's thread
  // when the last reference goes; until then the memory must stay and must not be written.
  SlabRef WrapForeign(std::span<uint8_t> memory, Slab::ReleaseFn release, void* argument);

  const SlabPoolStats& stats() const { return stats_; }
  size_t budget_bytes() const { return budget_bytes_; }
  size_t in_use_bytes() const;

  // How full it is. Queues of user data heed this: they stop growing when memory is tight, so that
  // what drains them still finds some: acknowledgments, and the buffers of a driver for the frames
  // that carry them.
  bool is_tight() const { return in_use_bytes() > budget_bytes_ / 4 * 3; }
  bool is_nearly_full() const { return in_use_bytes() > budget_bytes_ / 8 * 7; }
  bool is_full() const { return in_use_bytes() > budget_bytes_ / 16 * 15; }

  // The chunks taken so far, for devices that map the pool. Chunks are never returned while the
  // pool lives, so an id stays valid.
  size_t chunk_count() const { return chunks_.size(); }
  ChunkInfo chunk(uint32_t id) const;

  // Calls `observer` for every chunk taken from now on, before any slab of it is handed out. The
  // observer must not use the pool. Returns a handle for RemoveChunkObserver.
  int AddChunkObserver(absl::AnyInvocable<void(const ChunkInfo&)> observer);
  void RemoveChunkObserver(int handle);

  // Lets the next call come from another thread; for hand-over before a runner thread starts.
  void DetachFromThread() { owner_ = std::thread::id(); }

 private:
  friend class BufferChain;
  friend class Packet;
  friend class SlabRef;
  friend struct PacketFree;

  struct ObjectBlock {
    std::unique_ptr<std::byte[]> memory;
    size_t size;
  };
  struct ChunkObserver {
    int handle;
    absl::AnyInvocable<void(const ChunkInfo&)> function;
  };

  void ReturnSlab(Slab* slab);
  void ReturnForeign(Slab* slab);
  bool Grow(SlabClass slab_class);
  bool AddChunk(SlabClass slab_class, size_t bytes);
  bool ReuseIdleChunk(SlabClass slab_class);
  void CutChunk(internal::PoolChunk& chunk, SlabClass slab_class);
  void DropFromFreeList(const internal::PoolChunk& chunk);

  PacketPtr MakePacket(SlabRef head, size_t headroom);

  // Nodes of buffer chains; never fails.
  internal::SliceNode* TakeNode();
  void ReturnNode(internal::SliceNode* node);

  // Free lists of constructed objects, linked through the member kNext.
  template <auto kNext, typename Object>
  void AddObjects(Object*& free_list);
  template <auto kNext, typename Object>
  Object* TakeObject(Object*& free_list);
  template <auto kNext, typename Object>
  static void PutObject(Object* object, Object*& free_list);
  template <typename Object>
  static void MarkObject(Object* object, bool used);

  void CheckThread();

  std::array<Slab*, kSlabClasses> free_slabs_{};
  Packet* free_packets_ = nullptr;
  internal::SliceNode* free_nodes_ = nullptr;
  SlabPoolStats stats_;
  size_t budget_bytes_;
  std::thread::id owner_;

  std::unique_ptr<ChunkSource> own_source_;
  ChunkSource* source_;
  std::vector<std::unique_ptr<internal::PoolChunk>> chunks_;
  std::vector<ObjectBlock> object_blocks_;  // packets and nodes
  std::vector<std::unique_ptr<Slab>> foreign_slabs_;
  Slab* free_foreign_ = nullptr;
  std::vector<ChunkObserver> observers_;
  int next_observer_ = 0;
};

inline size_t SlabPool::in_use_bytes() const {
  return stats_.classes[0].in_use * kSmallSlabBytes + stats_.classes[1].in_use * kLargeSlabBytes +
         stats_.classes[2].in_use * kJumboSlabBytes;
}

}  // namespace tapwire
