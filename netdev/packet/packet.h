// SPDX-License-Identifier: Apache-2.0
//
// A frame on its way through the stack: a linear head with room for headers, references to payload
// slabs, and the metadata that offloads need.
//
//   head slab                                               fragments (0 … 64)
//   +----------+---------------------------+----------+     +--------+   +--------+
//   | headroom |   head_bytes()            | tailroom | --> | slab   |   | slab   | …
//   +----------+---------------------------+----------+     +--------+   +--------+
//   ^          ^ data()                                       shared, read-only
//   slab start: base of l2/l3/l4_offset and csum_start, so Push and Pull do not disturb them
//
// Exactly one holder at a time (PacketPtr); payload slabs may be shared, the head never is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "netdev/base/time.h"
#include "netdev/packet/slab_pool.h"

namespace tapwire {

// What is known about the transport checksum. Names and meaning as in Linux.
enum class CsumState : uint8_t {
  kNone,         // rx: to be verified in software; tx: complete, or not needed
  kUnnecessary,  // rx: csum_level + 1 checksums have been verified, counted from the outside
  kComplete,     // rx: csum_value is the one's complement sum over all data behind the link header
  kPartial,      // tx: pseudo-header sum is in place; sum from csum_start, store at csum_offset
};

// How an oversized packet is to be cut. A bit set; the order of the bits is that of the device
// features from tx-tcp-segmentation on, so a required feature is one shift away.
enum class GsoType : uint32_t {
  kNone = 0,
  kTcpv4 = 1U << 0,
  kDodgy = 1U << 1,    // the headers come from an untrusted source
  kTcpEcn = 1U << 2,   // CWR only on the first segment
  kFixedId = 1U << 3,  // all segments carry the same IPv4 id
  kTcpv6 = 1U << 4,
  kFcoe = 1U << 5,
  kGre = 1U << 6,
  kGreCsum = 1U << 7,
  kIpXIp4 = 1U << 8,
  kIpXIp6 = 1U << 9,
  kUdpTunnel = 1U << 10,
  kUdpTunnelCsum = 1U << 11,
  kPartial = 1U << 12,
  kTunnelRemCsum = 1U << 13,
  kSctp = 1U << 14,
  kEsp = 1U << 15,
  kUdp = 1U << 16,    // one datagram to IP fragments (UFO)
  kUdpL4 = 1U << 17,  // one payload to many datagrams (USO)
  kFragList = 1U << 18,
  kTcpAccEcn = 1U << 19,     // CWR untouched on every segment
  kFixedIdInner = 1U << 31,  // as kFixedId, for the inner IPv4 header
};

constexpr GsoType operator|(GsoType a, GsoType b) {
  return static_cast<GsoType>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr GsoType operator&(GsoType a, GsoType b) {
  return static_cast<GsoType>(static_cast<uint32_t>(a) & static_cast<uint32_t>(b));
}
constexpr GsoType operator~(GsoType a) { return static_cast<GsoType>(~static_cast<uint32_t>(a)); }
constexpr GsoType& operator|=(GsoType& a, GsoType b) { return a = a | b; }
constexpr GsoType& operator&=(GsoType& a, GsoType b) { return a = a & b; }

// True if `set` has any bit of `bits`.
constexpr bool HasAny(GsoType set, GsoType bits) { return (set & bits) != GsoType::kNone; }

struct GsoInfo {
  GsoType type = GsoType::kNone;
  uint16_t size = 0;  // payload bytes of each segment but the last; 0: not to be segmented
  uint16_t segs = 0;  // number of segments; 0: not known

  bool Has(GsoType bits) const { return HasAny(type, bits); }
  bool operator==(const GsoInfo&) const = default;
};

// Who a received frame is for.
enum class LinkTarget : uint8_t {
  kByAddress,  // as its destination address says
  kHost,       // the device it is on, whatever the address: an upper device decided so
  kOtherHost,  // nobody here, whatever the address: a tag of a VLAN that is not configured
};

// Everything about a packet that is not its bytes. Survives every copy.
struct PacketMeta {
  static constexpr int32_t kUnset = -1;

  Time rx_time{};  // arrival, set by the driver
  // From the start of the head slab; use the accessors of Packet.
  int32_t l2_offset = kUnset;
  int32_t l3_offset = kUnset;
  int32_t l4_offset = kUnset;
  int32_t inner_l3_offset = kUnset;  // with `encapsulated`
  int32_t inner_l4_offset = kUnset;
  int32_t csum_start = kUnset;  // kPartial: first byte to sum
  GsoInfo gso;
  uint32_t flow_hash = 0;        // 0: not computed
  uint32_t rx_device = 0;        // interface index, 0: none
  uint16_t ether_type = 0;       // host order
  uint16_t csum_offset = 0;      // kPartial: where to store, from csum_start
  uint16_t csum_value = 0;       // kComplete
  uint16_t vlan_tci = 0;         // tag carried outside the data, host order, if vlan_present
  uint16_t vlan_proto = 0x8100;  // its TPID
  uint16_t tx_queue = 0;
  CsumState csum_state = CsumState::kNone;
  uint8_t csum_level = 0;
  bool vlan_present = false;
  bool late = false;  // rx_time may be far from the arrival: take no RTT from it
  bool link_broadcast = false;
  bool link_multicast = false;
  bool encapsulated = false;
  LinkTarget link_target = LinkTarget::kByAddress;

  bool operator==(const PacketMeta&) const = default;
};

// A range of a shared slab.
struct PacketFrag {
  SlabRef slab;
  uint32_t offset = 0;
  uint32_t length = 0;

  std::span<const uint8_t> bytes() const { return {slab.data() + offset, length}; }
};

class Packet {
 public:
  // Merging 1,448-byte segments to 64 KiB needs 46.
  static constexpr size_t kMaxFrags = 64;
  static constexpr size_t kInlineFrags = 6;

  PacketMeta meta;

  // ---- Sizes ----

  // All data bytes, head and fragments.
  size_t length() const { return (tail_ - data_) + frag_bytes_; }
  size_t head_length() const { return tail_ - data_; }
  bool is_linear() const { return frag_count_ == 0; }
  // Free bytes before the data.
  size_t headroom() const { return data_; }
  // Free bytes after the head; 0 if there are fragments, since nothing may be put before them.
  size_t tailroom() const { return frag_count_ == 0 ? head_->capacity - tail_ : 0; }
  // Memory charged for this packet: itself and all its slabs, shared or not.
  size_t true_size() const;

  SlabPool& pool() const { return *head_->pool; }

  // ---- Bytes ----

  uint8_t* data() { return head_->data + data_; }
  const uint8_t* data() const { return head_->data + data_; }
  // The linear part. The head is never shared, so it may be written.
  std::span<uint8_t> head_bytes() { return {data(), head_length()}; }
  std::span<const uint8_t> head_bytes() const { return {data(), head_length()}; }

  size_t frag_count() const { return frag_count_; }
  std::span<const uint8_t> frag(size_t i) const { return frag_ref(i).bytes(); }
  const PacketFrag& frag_ref(size_t i) const {
    return i < kInlineFrags ? frags_[i] : overflow()[i - kInlineFrags];
  }

  // Calls fn(std::span<const uint8_t>) for the head, if it has bytes, and each fragment.
  template <typename Fn>
  void ForEachSpan(Fn&& fn) const {
    if (head_length() > 0) {
      fn(head_bytes());
    }
    for (size_t i = 0; i < frag_count_; ++i) {
      fn(frag(i));
    }
  }

  // Copies out.size() bytes from `offset` on; the range must lie inside the packet.
  void CopyOut(size_t offset, std::span<uint8_t> out) const;

  // ---- Front ----

  // Prepends n bytes of header and returns them to be filled. Headroom is the caller's duty: too
  // little is fatal.
  std::span<uint8_t> Push(size_t n) {
    if (n > data_) [[unlikely]] {
      FailNoRoom();
    }
    data_ -= static_cast<uint32_t>(n);
    return {data(), n};
  }

  // Removes n bytes from the front and returns them; they stay readable until the packet is
  // changed. Bytes that lie in fragments are moved to the head. nullopt, and no change, if the
  // packet is shorter or (counted by the pool) there is no memory to make them contiguous.
  std::optional<std::span<const uint8_t>> Pull(size_t n) {
    if (n > head_length() && !EnsureLinear(n)) [[unlikely]] {
      return std::nullopt;
    }
    const uint8_t* front = data();
    data_ += static_cast<uint32_t>(n);
    return std::span<const uint8_t>(front, n);
  }

  // Removes up to n bytes from the front without making them contiguous.
  void TrimFront(size_t n);

  // Makes at least n bytes of headroom, moving the head to a larger slab if needed. False if there
  // is no memory. Header positions follow.
  [[nodiscard]] bool EnsureHeadroom(size_t n);

  // Makes the first n bytes contiguous in the head. False, and no change, if the packet is shorter
  // or there is no memory.
  [[nodiscard]] bool EnsureLinear(size_t n);

  // EnsureLinear for the whole packet.
  [[nodiscard]] bool Linearize() { return EnsureLinear(length()); }

  // ---- Back ----

  // Appends n bytes to the head and returns them to be filled. Too little tailroom() is fatal.
  std::span<uint8_t> Put(size_t n) {
    if (n > tailroom()) [[unlikely]] {
      FailNoRoom();
    }
    std::span<uint8_t> added(head_->data + tail_, n);
    tail_ += static_cast<uint32_t>(n);
    return added;
  }

  // Appends a copy: fills the tail, then new slabs. False, and no change, if there is no memory or
  // there are too many fragments.
  [[nodiscard]] bool AppendBytes(std::span<const uint8_t> bytes);

  // Appends a reference to slab bytes [offset, offset + length), which must not be written any
  // more. Extends the last fragment if the range continues it. False, and no change, beyond
  // kMaxFrags or without memory.
  [[nodiscard]] bool AddFrag(SlabRef slab, size_t offset, size_t length);

  // Appends the data of `other`, without copying, and consumes it. False, and no change to either,
  // if the fragments would be too many. The metadata of `other` is dropped.
  [[nodiscard]] bool AppendPacket(PacketPtr& other);

  // Cuts the packet to new_length bytes; no effect if it is not longer.
  void Trim(size_t new_length);

  // ---- Copies; null if there is no memory ----

  // Own head, shared fragments, all metadata.
  PacketPtr Clone() const;
  // Nothing shared. The same bytes and metadata; fragment borders may differ.
  PacketPtr CopyDeep() const;
  // Bytes [offset, offset + length), which must lie inside: head bytes copied, fragments shared,
  // the given headroom before them. All metadata is kept, except that positions of headers outside
  // the copied head bytes become unset, and that kComplete, or kPartial without its start, becomes
  // kNone.
  PacketPtr Slice(size_t offset, size_t length, size_t headroom = kDefaultHeadroom) const;

  // ---- Header positions ----

  // Marks the present front of the data as the start of a layer.
  void set_l2_here() { meta.l2_offset = static_cast<int32_t>(data_); }
  void set_l3_here() { meta.l3_offset = static_cast<int32_t>(data_); }
  void set_l4_here() { meta.l4_offset = static_cast<int32_t>(data_); }

  // As above, for a layer that starts `from_data` bytes behind (or, negative, before) data().
  void set_l2_in_data(int32_t from_data) { meta.l2_offset = SlabOffset(from_data); }
  void set_l3_in_data(int32_t from_data) { meta.l3_offset = SlabOffset(from_data); }
  void set_l4_in_data(int32_t from_data) { meta.l4_offset = SlabOffset(from_data); }
  void set_csum_start_in_data(int32_t from_data) { meta.csum_start = SlabOffset(from_data); }

  bool has_l2() const { return meta.l2_offset >= 0; }
  bool has_l3() const { return meta.l3_offset >= 0; }
  bool has_l4() const { return meta.l4_offset >= 0; }

  // Distance of a position from data(); negative if it has been pulled. The position must be set.
  int32_t l2_in_data() const { return meta.l2_offset - static_cast<int32_t>(data_); }
  int32_t l3_in_data() const { return meta.l3_offset - static_cast<int32_t>(data_); }
  int32_t l4_in_data() const { return meta.l4_offset - static_cast<int32_t>(data_); }
  int32_t csum_start_in_data() const { return meta.csum_start - static_cast<int32_t>(data_); }

  // From the start of the layer to the end of the head, also after Pull; empty if unset.
  std::span<uint8_t> l2_bytes() { return HeadFrom(meta.l2_offset); }
  std::span<uint8_t> l3_bytes() { return HeadFrom(meta.l3_offset); }
  std::span<uint8_t> l4_bytes() { return HeadFrom(meta.l4_offset); }
  std::span<const uint8_t> l2_bytes() const { return HeadFrom(meta.l2_offset); }
  std::span<const uint8_t> l3_bytes() const { return HeadFrom(meta.l3_offset); }
  std::span<const uint8_t> l4_bytes() const { return HeadFrom(meta.l4_offset); }

  // From the start of the layer to the end of the packet; the position must be set.
  size_t l2_length() const { return LengthFrom(meta.l2_offset); }
  size_t l3_length() const { return LengthFrom(meta.l3_offset); }
  size_t l4_length() const { return LengthFrom(meta.l4_offset); }

  // The head's slab. A reference to it outlives the packet, but the bytes may be read only once the
  // packet is gone.
  const SlabRef& head_slab() const { return head_; }
  // Position of data() in the head slab.
  size_t data_offset() const { return data_; }

 private:
  friend class PacketList;
  friend class SlabPool;
  friend struct PacketFree;

  Packet() = default;
  ~Packet() = default;

  [[noreturn]] static void FailNoRoom();

  int32_t SlabOffset(int32_t from_data) const { return static_cast<int32_t>(data_) + from_data; }
  std::span<uint8_t> HeadFrom(int32_t offset) const {
    return offset < 0 || static_cast<uint32_t>(offset) > tail_
               ? std::span<uint8_t>()
               : std::span<uint8_t>(head_->data + offset, tail_ - static_cast<uint32_t>(offset));
  }
  size_t LengthFrom(int32_t offset) const {
    return (tail_ - static_cast<uint32_t>(offset)) + frag_bytes_;
  }

  PacketFrag* overflow() const { return reinterpret_cast<PacketFrag*>(overflow_->data); }
  PacketFrag& MutableFrag(size_t i) {
    return i < kInlineFrags ? frags_[i] : overflow()[i - kInlineFrags];
  }
  bool ReserveFrags(size_t count);
  void DropFrontFrags(size_t bytes);
  void DropBackFrags(size_t bytes);
  void ClearFrags();
  size_t RoomBehindLastFrag() const;
  void CopyBehindLastFrag(std::span<const uint8_t> bytes);
  uint32_t FirstKeptByte() const;
  bool MoveHead(size_t new_data, size_t tailroom);
  PacketPtr CopyHead() const;
  PacketMeta MetaOfSlice(size_t offset, size_t length, size_t head, size_t headroom) const;

  SlabRef head_;
  uint32_t data_ = 0;  // from the start of the head slab
  uint32_t tail_ = 0;
  uint32_t frag_bytes_ = 0;
  uint32_t frag_count_ = 0;
  std::array<PacketFrag, kInlineFrags> frags_;
  SlabRef overflow_;  // small slab that holds the fragments beyond the inline ones
  Packet* next_ = nullptr;
};

static_assert(sizeof(Packet) <= 256);

// A packet with a copy of `bytes`: the head as far as a small slab reaches, the rest in fragments.
// Null if there is no memory.
PacketPtr PacketFromBytes(SlabPool& pool, std::span<const uint8_t> bytes);

}  // namespace tapwire
