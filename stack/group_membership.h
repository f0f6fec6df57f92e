// SPDX-License-Identifier: Apache-2.0
// GroupMembership: the host side of IGMPv3 (RFC 9776 §5) and MLDv2 (RFC 9777 §6) for one interface,
// which are the same machine with other packets. Any-source membership only: a joined group is
// EXCLUDE mode with no sources. The packets are made by GroupReporter (igmp.cc, mld.cc).
//
// Timers: per group, repetition of a state change and response to a group query; per interface,
// response to a general query and presence of an older querier.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/time.h"
#include "netdev/base/timer_queue.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

class Stack;

struct GroupReport {
  uint8_t record_type = 0;  // wire::GroupRecordType
  IpAddress group;
};

class GroupReporter {
 public:
  virtual ~GroupReporter() = default;
  // One current-version report with these records, split over packets as the MTU demands.
  virtual void SendReport(std::span<const GroupReport> records) = 0;
  // The messages of older versions.
  virtual void SendOldReport(const IpAddress& group, int version) = 0;
  virtual void SendOldLeave(const IpAddress& group, int version) = 0;
};

class GroupMembership {
 public:
  GroupMembership(Stack& stack, GroupReporter& reporter);
  ~GroupMembership();

  void Join(const IpAddress& group);
  void Leave(const IpAddress& group);
  void Up();    // tells the link about all groups again
  void Down();  // cancels everything; joined groups are kept

  static constexpr int kCurrentVersion = 0;
  struct Query {
    int version = kCurrentVersion;        // or 1, 2: an older querier is on the link
    std::optional<IpAddress> group = {};  // none: general query
    Duration max_delay = {};
    int robustness = 0;  // 0: not told
  };
  // RFC 9776 §5.2, RFC 9777 §6.2. False: a query about a group that is not joined here.
  bool OnQuery(const Query& query);
  // Another host reported `group` by an older message: ours is not needed (RFC 2236 §3).
  void OnOldReport(const IpAddress& group);

  int version() const { return version_; }

 private:
  struct Group;
  Group* Find(const IpAddress& group);
  void StartChange(Group& group, uint8_t record_type);
  void SendChange(Group& group);
  void ScheduleResponses(Duration max_delay);
  void ScheduleResponse(Group& group, Duration max_delay);
  void Respond(const Group& group);
  void RespondToAll();
  void HearOldQuerier(int version);
  void UpdateVersion();
  void CancelPending();
  Duration RandomUpTo(Duration limit);

  Stack& stack_;
  GroupReporter& reporter_;
  std::vector<std::unique_ptr<Group>> groups_;
  FunctionTimer general_response_, old_querier_;
  std::array<Time, 3> old_querier_until_{};  // by version: until when one counts as present
  int robustness_;
  int version_ = kCurrentVersion;
  bool up_ = false;
};

}  // namespace tapwire
