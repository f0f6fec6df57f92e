// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/socket_table_epoll.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tapwire::internal {
namespace {

constexpr uint32_t kAlwaysWanted = EPOLLERR | EPOLLHUP;

}  // namespace

// A descriptor told of `events`: those who want one of them have something to look at.
void Descriptor::Changed(uint32_t events) {
  for (EpollItem* item : watchers_) {
    if (((item->wanted.events | kAlwaysWanted) & events) != 0) item->owner->MarkReady(*item);
  }
  host_.waiter.Notify();
}

void Descriptor::LeaveEpollSets() {
  while (!watchers_.empty()) watchers_.back()->owner->Remove(*watchers_.back());
}

uint32_t EpollDescriptor::EventsOf(const EpollItem& item) const {
  if (item.disarmed) return 0;
  return item.target->Events() & (item.wanted.events | kAlwaysWanted);
}

void EpollDescriptor::MarkReady(EpollItem& item) {
  if (item.ready || item.disarmed) return;
  item.ready = true;
  ready_.push_back(&item);
  Changed(EPOLLIN);
}

void EpollDescriptor::Remove(EpollItem& item) {
  std::erase(item.target->watchers_, &item);
  ready_.remove(&item);
  items_.erase(item.fd);
}

bool EpollDescriptor::Watches(const Descriptor& what) const {
  return std::any_of(items_.begin(), items_.end(), [&what](const auto& entry) {
    const Descriptor* target = entry.second->target;
    if (target == &what) return true;
    const auto* nested = dynamic_cast<const EpollDescriptor*>(target);
    return nested != nullptr && nested->Watches(what);
  });
}

int EpollDescriptor::Control(int operation, int fd, Descriptor& target, const epoll_event* event) {
  const auto found = items_.find(fd);
  if (operation == EPOLL_CTL_DEL) {
    if (found == items_.end()) return -ENOENT;
    Remove(*found->second);
    return 0;
  }
  if (operation == EPOLL_CTL_ADD) {
    if (found != items_.end()) return -EEXIST;
    const auto* nested = dynamic_cast<const EpollDescriptor*>(&target);
    if (nested != nullptr && nested->Watches(*this)) return -ELOOP;
    auto item = std::make_unique<EpollItem>();
    item->owner = this;
    item->target = &target;
    item->fd = fd;
    target.watchers_.push_back(item.get());
    items_[fd] = std::move(item);
  } else if (operation != EPOLL_CTL_MOD) {
    return -EINVAL;
  } else if (found == items_.end()) {
    return -ENOENT;
  }
  EpollItem& item = *items_[fd];
  item.wanted = *event;
  item.disarmed = false;
  if (EventsOf(item) != 0) MarkReady(item);
  return 0;
}

int EpollDescriptor::Collect(std::span<epoll_event> out) {
  size_t count = 0;
  std::list<EpollItem*> again;
  while (count < out.size() && !ready_.empty()) {
    EpollItem* item = ready_.front();
    const uint32_t events = EventsOf(*item);
    if (events == 0 || (item->wanted.events & (EPOLLET | EPOLLONESHOT)) != 0) {
      ready_.pop_front();
      item->ready = false;
    } else {
      again.splice(again.end(), ready_, ready_.begin());
    }
    if (events == 0) continue;
    item->disarmed = (item->wanted.events & EPOLLONESHOT) != 0;
    out[count].events = events;
    out[count++].data = item->wanted.data;
  }
  ready_.splice(ready_.end(), again);
  return static_cast<int>(count);
}

uint32_t EpollDescriptor::Events() {
  const bool ready = std::any_of(ready_.begin(), ready_.end(),
                                 [this](const EpollItem* item) { return EventsOf(*item) != 0; });
  return ready ? EPOLLIN | EPOLLRDNORM : 0U;
}

void EpollDescriptor::Close() {
  while (!items_.empty()) Remove(*items_.begin()->second);
}

}  // namespace tapwire::internal
