// SPDX-License-Identifier: Apache-2.0
// Reassembly of IP fragments for one family: keyed by source, destination, protocol (IPv4) and
// identification; overlaps give the whole datagram up (RFC 5722 §4, RFC 8200 §4.5; used for IPv4
// too, RFC 8900), exact duplicates are ignored; bounded in bytes, per source, in datagrams, in
// fragments and in time (StackConfig). The idea of looking at holes rather than at bytes is that of
// RFC 815.
//
//   live datagrams, oldest first:   pieces in order of offset, disjoint; charged with true memory
//   given-up ones, oldest first:    only the key, so that later fragments are refused until the
//   timer
//
// Timers: one per datagram, armed when its first fragment comes and never moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

struct FragmentKey {
  IpAddress source, destination;
  uint32_t identification = 0;
  uint8_t protocol = 0;  // IPv4; 0 for IPv6 (RFC 8200 §4.5 leaves it out)
  // Interface index for addresses that mean something on one link only (RFC 4007 §6), else 0.
  uint32_t zone = 0;
  friend bool operator==(const FragmentKey&, const FragmentKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const FragmentKey& k) {
    return H::combine(std::move(h), k.source, k.destination, k.identification, k.protocol, k.zone);
  }
};

class Reassembler {
 public:
  // What the length field of either family can say.
  static constexpr uint32_t kMaxLength = 65535;

  Reassembler(Stack& stack, IpFamily family);
  ~Reassembler();
  Reassembler(const Reassembler&) = delete;
  Reassembler& operator=(const Reassembler&) = delete;

  struct Fragment {
    FragmentKey key;
    uint32_t offset = 0;  // bytes from the start of the fragmentable part, a multiple of eight
    bool more = false;
    // Bytes before the fragmentable part that the family's length field counts: the IPv4 header, or
    // the IPv6 extension headers that every fragment carries.
    uint32_t header_length = 0;
    PacketPtr packet;  // data() at the fragment's payload, trimmed; meta l3_offset at its IP header
    IpPacketInfo info;  // of this fragment; the first fragment's is the datagram's
  };
  struct Result {
    PacketPtr datagram;  // complete: data() at the payload, l3_offset at the first fragment's IP
                         // header, which is unchanged; null while incomplete
    IpPacketInfo info;
    DropReason reason =
        DropReason::kNone;  // why this fragment or the datagram was dropped; counted
  };
  // Consumes the fragment. ECN of the pieces is combined by RFC 3168 §5.3 into info.tos.
  Result Add(Fragment fragment);

  // What is wrong with a fragment by itself: kFragmentEmpty, kFragmentBadLength, kFragmentTooBig or
  // kNone. Add() refuses the same ones; for callers that answer before the packet is consumed.
  static DropReason CheckBounds(const Fragment& fragment);

  // Datagrams begun, given-up ones that are remembered included.
  size_t datagrams() const { return datagrams_.size(); }
  // True memory of all fragments held.
  size_t bytes() const { return bytes_; }
  // Work done since the start: pieces looked at or moved. For tests of the bound per fragment.
  uint64_t work() const { return work_; }

 private:
  struct Datagram;
  struct Source;
  struct AgeTag;     // position among the live or the given-up datagrams
  struct SourceTag;  // position among the live datagrams of one source

  Datagram* FindOrCreate(const FragmentKey& key);
  bool MakeRoomForDatagram(const FragmentKey& key);
  bool MakeRoomForBytes(Datagram& datagram, size_t charge);
  DropReason Check(Datagram& datagram, const Fragment& fragment);
  void Insert(Datagram& datagram, Fragment fragment, size_t charge);
  Result Finish(Datagram& datagram, Interface* arrival);
  PacketPtr Join(Datagram& datagram);
  PacketPtr Repack(Datagram& datagram);
  void OnTimeout(Datagram& datagram);

  Result Refuse(PacketPtr packet, DropReason reason);
  void DropPieces(Datagram& datagram, DropReason reason);
  void GiveUp(Datagram& datagram, DropReason reason);
  void Evict(Datagram& datagram);
  void Uncharge(Datagram& datagram);
  void Erase(Datagram& datagram);
  Interface* InterfaceOf(uint32_t ifindex, Interface* otherwise) const;

  Stack& stack_;
  IpFamily family_;
  size_t bytes_ = 0;
  uint64_t work_ = 0;
  absl::flat_hash_map<IpAddress, std::unique_ptr<Source>> sources_;  // of live datagrams
  absl::flat_hash_map<FragmentKey, std::unique_ptr<Datagram>> datagrams_;
  IntrusiveList<Datagram, AgeTag> live_;
  IntrusiveList<Datagram, AgeTag> given_up_;
};

}  // namespace tapwire
