// SPDX-License-Identifier: Apache-2.0
//
// Owning first-in-first-out batch of packets: the unit that crosses layers. Links live in the
// packets, so nothing is allocated.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "netdev/packet/packet.h"

namespace tapwire {

class PacketList {
 public:
  template <typename Value>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Packet;
    using difference_type = std::ptrdiff_t;
    using pointer = Value*;
    using reference = Value&;

    Iterator() = default;
    explicit Iterator(Value* packet) : packet_(packet) {}

    Value& operator*() const { return *packet_; }
    Value* operator->() const { return packet_; }
    Iterator& operator++() {
      packet_ = Next(*packet_);
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Value* packet_ = nullptr;
  };
  using iterator = Iterator<Packet>;
  using const_iterator = Iterator<const Packet>;

  PacketList() = default;
  PacketList(PacketList&& other) noexcept
      : head_(std::exchange(other.head_, nullptr)),
        tail_(std::exchange(other.tail_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  PacketList& operator=(PacketList&& other) noexcept {
    if (this != &other) {
      Clear();
      Splice(std::move(other));
    }
    return *this;
  }
  ~PacketList() { Clear(); }

  bool empty() const { return head_ == nullptr; }
  size_t size() const { return size_; }

  // First packet; null if empty.
  Packet* front() { return head_; }
  const Packet* front() const { return head_; }

  // `packet` must not be null.
  void PushBack(PacketPtr packet) {
    Packet* added = packet.release();
    added->next_ = nullptr;
    (head_ == nullptr ? head_ : tail_->next_) = added;
    tail_ = added;
    ++size_;
  }

  void PushFront(PacketPtr packet) {
    Packet* added = packet.release();
    added->next_ = head_;
    head_ = added;
    if (tail_ == nullptr) {
      tail_ = added;
    }
    ++size_;
  }

  // Null if empty.
  PacketPtr PopFront() {
    Packet* packet = head_;
    if (packet != nullptr) {
      head_ = std::exchange(packet->next_, nullptr);
      if (head_ == nullptr) {
        tail_ = nullptr;
      }
      --size_;
    }
    return PacketPtr(packet);
  }

  // Moves all packets of `other` to the end: O(1).
  void Splice(PacketList&& other) {
    if (other.empty() || &other == this) {
      return;
    }
    (head_ == nullptr ? head_ : tail_->next_) = other.head_;
    tail_ = other.tail_;
    size_ += other.size_;
    other.head_ = other.tail_ = nullptr;
    other.size_ = 0;
  }

  // Frees all packets.
  void Clear() {
    while (!empty()) {
      PopFront();
    }
  }

  iterator begin() { return iterator(head_); }
  iterator end() { return iterator(); }
  const_iterator begin() const { return const_iterator(head_); }
  const_iterator end() const { return const_iterator(); }

 private:
  static Packet* Next(const Packet& packet) { return packet.next_; }

  Packet* head_ = nullptr;
  Packet* tail_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tapwire
