// SPDX-License-Identifier: Apache-2.0
// Reassembly: data received ahead of RCV.NXT (RFC 9293 SHLD-31), bounded in bytes and in ranges,
// and the SACK blocks that tell of it (RFC 2018 §4).
//
//   RCV.NXT                                                    FIN
//   |  hole  | range: one BufferChain | hole | range | hole    |
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "netdev/packet/buffer_chain.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/tcp_options.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

class Reassembly {
 public:
  struct Limits {
    size_t max_bytes = 0;     // true memory charged to this connection's out-of-order data
    size_t max_ranges = 256;  // disjoint ranges
  };
  struct InsertResult {
    // False: no room, or nothing of it lies before the FIN; nothing changed (the caller counts the
    // drop).
    bool stored = false;
    bool duplicate = false;  // every byte was there already
    // The first part of the segment that was there already (RFC 2883 §4), for the next SACK.
    std::optional<wire::TcpSackBlock> dsack = {};
  };

  // Adds all bytes of `packet`, the first of which is number `seq`. What is there already stays as
  // it is (first come, first kept); the rest fills the gaps. An empty packet is not stored.
  InsertResult Insert(Seq seq, PacketPtr packet, const Limits& limits);
  // RFC 9293 §3.10.7.4, eighth: a FIN was seen at `seq` (after the last data byte). What lies at or
  // behind it is discarded; a later FIN at another place is ignored.
  void InsertFin(Seq seq);

  // Moves everything that continues `rcv_nxt` to the end of `out`; returns how many bytes.
  uint32_t TakeContiguous(Seq rcv_nxt, BufferChain& out);
  // Whether the FIN's place has been reached.
  bool FinAt(Seq rcv_nxt) const { return fin_ && *fin_ == rcv_nxt; }
  const std::optional<Seq>& fin() const { return fin_; }

  // Up to `out.size()` blocks, the one with the latest arrival first (RFC 2018 §4); how many.
  size_t SackBlocks(std::span<wire::TcpSackBlock> out) const;

  bool empty() const { return ranges_.empty(); }
  size_t range_count() const { return ranges_.size(); }
  // Memory charged for what is held; never more than Limits::max_bytes after an Insert().
  size_t true_size() const { return true_size_; }
  Seq highest_end() const { return ranges_.back().end(); }  // must not be empty
  // Forgets the data and the FIN.
  void Clear();

 private:
  struct Range {
    Seq start;
    uint32_t arrival = 0;  // order of the last change, for RFC 2018 §4
    BufferChain data;
    Seq end() const { return start + static_cast<uint32_t>(data.size()); }
  };

  // The bytes of one gap that an arriving segment fills.
  struct Piece {
    Seq start;
    BufferChain data;
  };
  using Pieces = absl::InlinedVector<Piece, 2>;

  size_t FirstEndingAtOrBehind(Seq seq) const;
  size_t FirstStartingBehind(Seq seq) const;
  Pieces CutGaps(Seq seq, BufferChain data, size_t first, size_t last, InsertResult& result) const;
  void Merge(Pieces pieces, size_t first, size_t last);

  std::vector<Range> ranges_;  // in order of sequence, disjoint and not adjacent
  std::optional<Seq> fin_;
  uint32_t arrivals_ = 0;
  size_t true_size_ = 0;  // sum over ranges_
};

}  // namespace tapwire::tcp
