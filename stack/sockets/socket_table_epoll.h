// SPDX-License-Identifier: Apache-2.0
// EpollDescriptor: an epoll set. Descriptors tell it of events (Descriptor::Changed); what was told
// and not looked at since is in the ready list, so a wait costs what is ready, not what is watched.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "stack/sockets/socket_table_descriptor.h"

namespace tapwire::internal {

struct EpollItem {
  EpollDescriptor* owner = nullptr;
  Descriptor* target = nullptr;  // leaves the set before it dies
  int fd = -1;
  epoll_event wanted = {};
  bool ready = false;     // in the ready list
  bool disarmed = false;  // EPOLLONESHOT was reported
};

class EpollDescriptor final : public Descriptor {
 public:
  using Descriptor::Descriptor;

  int Control(int operation, int fd, Descriptor& target, const epoll_event* event);
  // As Linux: those told longest ago first; level-triggered ones go to the end of the list again.
  int Collect(std::span<epoll_event> out);

  int64_t Receive(Transfer&) override { return -ENOTSOCK; }
  bool is_socket() const override { return false; }
  uint32_t Events() override;
  void Close() override;

 private:
  friend class Descriptor;

  void MarkReady(EpollItem& item);
  void Remove(EpollItem& item);
  // Items whose target is `what`, at any depth.
  bool Watches(const Descriptor& what) const;
  uint32_t EventsOf(const EpollItem& item) const;

  std::map<int, std::unique_ptr<EpollItem>> items_;
  std::list<EpollItem*> ready_;
};

}  // namespace tapwire::internal
