// SPDX-License-Identifier: Apache-2.0
//
// Doubly linked list whose links live in the elements: no allocation, O(1) removal, and an element
// that is destroyed leaves its list by itself. The price: the list cannot count its elements
// cheaply.
//
//   struct ReadyTag {};
//   class Connection : public ListHook<ReadyTag> { … };
//   IntrusiveList<Connection, ReadyTag> ready;
#pragma once

#include <cstddef>
#include <iterator>

namespace tapwire {

template <typename T, typename Tag>
class IntrusiveList;

// Base class that lets an object be on one list at a time per Tag.
template <typename Tag>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { Unlink(); }

  bool linked() const { return next_ != nullptr; }

  // Leaves the list; no effect if on none.
  void Unlink() {
    if (next_ == nullptr) {
      return;
    }
    prev_->next_ = next_;
    next_->prev_ = prev_;
    prev_ = next_ = nullptr;
  }

 private:
  template <typename T, typename OtherTag>
  friend class IntrusiveList;

  ListHook* prev_ = nullptr;
  ListHook* next_ = nullptr;
};

// List of T, which derives from ListHook<Tag>. Does not own its elements; they may outlive it.
template <typename T, typename Tag>
class IntrusiveList {
  using Hook = ListHook<Tag>;

 public:
  // Removing the element an iterator stands on invalidates that iterator and no other.
  template <typename Value, typename HookPointer>
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = Value*;
    using reference = Value&;

    Iterator() = default;
    explicit Iterator(HookPointer hook) : hook_(hook) {}

    Value& operator*() const { return static_cast<Value&>(*hook_); }
    Value* operator->() const { return &**this; }
    Iterator& operator++() {
      hook_ = hook_->next_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    Iterator& operator--() {
      hook_ = hook_->prev_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    HookPointer hook_ = nullptr;
  };
  using iterator = Iterator<T, Hook*>;
  using const_iterator = Iterator<const T, const Hook*>;

  IntrusiveList() { Reset(); }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    Clear();
    head_.next_ = head_.prev_ = nullptr;
  }

  bool empty() const { return head_.next_ == &head_; }

  // Walks the list: O(n).
  size_t size() const {
    size_t n = 0;
    for (const Hook* hook = head_.next_; hook != &head_; hook = hook->next_) {
      ++n;
    }
    return n;
  }

  // First and last element; null if empty.
  T* front() { return empty() ? nullptr : static_cast<T*>(head_.next_); }
  T* back() { return empty() ? nullptr : static_cast<T*>(head_.prev_); }

  // An element that is on a list of this Tag already moves over.
  void PushBack(T& element) { InsertBefore(head_, element); }
  void PushFront(T& element) { InsertBefore(*head_.next_, element); }

  // Puts `element` before `position`, which is on this list.
  void Insert(T& position, T& element) { InsertBefore(position, element); }

  // Takes the first element off the list; null if empty.
  T* PopFront() {
    T* element = front();
    if (element != nullptr) {
      static_cast<Hook*>(element)->Unlink();
    }
    return element;
  }

  void Remove(T& element) { static_cast<Hook&>(element).Unlink(); }

  // Moves all elements of `other` to the end of this list: O(1).
  void Splice(IntrusiveList& other) {
    if (other.empty() || &other == this) {
      return;
    }
    head_.prev_->next_ = other.head_.next_;
    other.head_.next_->prev_ = head_.prev_;
    other.head_.prev_->next_ = &head_;
    head_.prev_ = other.head_.prev_;
    other.Reset();
  }

  // Takes all elements off the list: O(n), since each must know that it is free.
  void Clear() {
    while (!empty()) {
      head_.next_->Unlink();
    }
  }

  iterator begin() { return iterator(head_.next_); }
  iterator end() { return iterator(&head_); }
  const_iterator begin() const { return const_iterator(head_.next_); }
  const_iterator end() const { return const_iterator(&head_); }

 private:
  void Reset() { head_.prev_ = head_.next_ = &head_; }

  static void InsertBefore(Hook& position, Hook& hook) {
    if (&position == &hook) {
      return;
    }
    hook.Unlink();
    hook.prev_ = position.prev_;
    hook.next_ = &position;
    position.prev_->next_ = &hook;
    position.prev_ = &hook;
  }

  Hook head_;  // sentinel of the ring
};

}  // namespace tapwire
