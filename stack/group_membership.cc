// SPDX-License-Identifier: Apache-2.0
#include "stack/group_membership.h"

#include <algorithm>
#include <utility>

#include "netdev/wire/group_record.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

using wire::GroupRecordType;

// RFC 9776 §8 and RFC 9777 §9.
constexpr int kDefaultRobustness = 2;
constexpr Duration kUnsolicitedReportInterval = std::chrono::seconds(1);
constexpr Duration kQueryInterval = std::chrono::seconds(125);
constexpr Duration kQueryResponseInterval = std::chrono::seconds(10);

}  // namespace

struct GroupMembership::Group {
  Group(GroupMembership& owner, const IpAddress& a)
      : address(a),
        change_timer([this, &owner] { owner.SendChange(*this); }),
        response_timer([this, &owner] { owner.Respond(*this); }) {}

  IpAddress address;
  bool joined = true;  // false: left, kept until the change was repeated
  uint8_t change_type = 0;
  int changes_left = 0;  // state-change reports still to be sent
  FunctionTimer change_timer, response_timer;
};

GroupMembership::GroupMembership(Stack& stack, GroupReporter& reporter)
    : stack_(stack),
      reporter_(reporter),
      general_response_([this] { RespondToAll(); }),
      old_querier_([this] { UpdateVersion(); }),
      robustness_(kDefaultRobustness) {}

GroupMembership::~GroupMembership() = default;

GroupMembership::Group* GroupMembership::Find(const IpAddress& group) {
  auto it = std::find_if(groups_.begin(), groups_.end(),
                         [&](const auto& g) { return g->address == group; });
  return it == groups_.end() ? nullptr : it->get();
}

void GroupMembership::Join(const IpAddress& group) {
  Group* g = Find(group);
  if (g == nullptr) g = groups_.emplace_back(std::make_unique<Group>(*this, group)).get();
  g->joined = true;
  StartChange(*g, GroupRecordType::kChangeToExclude);
}

void GroupMembership::Leave(const IpAddress& group) {
  Group* g = Find(group);
  if (g == nullptr || !g->joined) return;
  g->joined = false;
  stack_.timers().Cancel(g->response_timer);
  StartChange(*g, GroupRecordType::kChangeToInclude);
}

void GroupMembership::Up() {
  up_ = true;
  for (const auto& g : groups_) {
    if (g->joined) StartChange(*g, GroupRecordType::kChangeToExclude);
  }
}

void GroupMembership::Down() {
  up_ = false;
  CancelPending();
  // Another link may have other queriers.
  stack_.timers().Cancel(old_querier_);
  old_querier_until_ = {};
  version_ = kCurrentVersion;
  robustness_ = kDefaultRobustness;
}

void GroupMembership::CancelPending() {
  stack_.timers().Cancel(general_response_);
  std::erase_if(groups_, [](const auto& g) { return !g->joined; });
  for (const auto& g : groups_) {
    stack_.timers().Cancel(g->change_timer);
    stack_.timers().Cancel(g->response_timer);
    g->changes_left = 0;
  }
}

// RFC 9776 §5.1: a change is reported at once and repeated, [Robustness Variable] times in all. A
// newer change of the same group replaces the older one.
void GroupMembership::StartChange(Group& group, uint8_t record_type) {
  group.change_type = record_type;
  group.changes_left = robustness_;
  if (up_) {
    SendChange(group);
  } else if (!group.joined) {
    std::erase_if(groups_, [&](const auto& g) { return g.get() == &group; });
  }
}

void GroupMembership::SendChange(Group& group) {
  if (version_ == kCurrentVersion) {
    const GroupReport record{group.change_type, group.address};
    reporter_.SendReport({&record, 1});
  } else if (group.joined) {
    reporter_.SendOldReport(group.address, version_);
  } else {
    reporter_.SendOldLeave(group.address, version_);
    group.changes_left = 1;  // RFC 2236 §3, RFC 2710 §4: one leave message
  }
  if (--group.changes_left > 0) {
    stack_.timers().Arm(group.change_timer, stack_.now() + RandomUpTo(kUnsolicitedReportInterval));
  } else if (!group.joined) {
    // The group's own timer may be what runs here: it may destroy itself.
    std::erase_if(groups_, [&](const auto& g) { return g.get() == &group; });
  }
}

bool GroupMembership::OnQuery(const Query& query) {
  if (query.robustness > 0) robustness_ = query.robustness;
  if (query.version != kCurrentVersion) HearOldQuerier(query.version);
  if (!query.group) {
    ScheduleResponses(query.max_delay);
    return true;
  }
  Group* g = Find(*query.group);
  if (g == nullptr || !g->joined) return false;
  ScheduleResponse(*g, query.max_delay);
  return true;
}

void GroupMembership::ScheduleResponses(Duration max_delay) {
  if (version_ != kCurrentVersion) {
    // RFC 2236 §3, RFC 2710 §4: a delay per group, so that reports of others may take their place.
    for (const auto& g : groups_) {
      if (g->joined) ScheduleResponse(*g, max_delay);
    }
    return;
  }
  const Time due = stack_.now() + RandomUpTo(max_delay);
  if (general_response_.armed() && general_response_.deadline() <= due) return;
  stack_.timers().Arm(general_response_, due);
}

// RFC 9776 §5.2: nothing more is said about a group than what an earlier response will say.
void GroupMembership::ScheduleResponse(Group& group, Duration max_delay) {
  const Time due = stack_.now() + RandomUpTo(max_delay);
  for (const FunctionTimer* pending : {&general_response_, &group.response_timer}) {
    if (pending->armed() && pending->deadline() <= due) return;
  }
  stack_.timers().Arm(group.response_timer, due);
}

void GroupMembership::OnOldReport(const IpAddress& group) {
  Group* g = Find(group);
  if (g != nullptr && version_ != kCurrentVersion) stack_.timers().Cancel(g->response_timer);
}

// RFC 9776 §7.2.1, RFC 9777 §8.2.1: the oldest version of which a querier was heard within Older
// Version Querier Present Timeout is the one to speak.
void GroupMembership::HearOldQuerier(int version) {
  const Duration timeout = robustness_ * kQueryInterval + kQueryResponseInterval;
  old_querier_until_[static_cast<size_t>(version)] = stack_.now() + timeout;
  UpdateVersion();
}

void GroupMembership::UpdateVersion() {
  int version = kCurrentVersion;
  for (const int old : {2, 1}) {
    if (old_querier_until_[static_cast<size_t>(old)] > stack_.now()) version = old;
  }
  if (version != version_) CancelPending();  // RFC 9776 §7.2.1
  version_ = version;
  if (version == kCurrentVersion) return;
  stack_.timers().Arm(old_querier_, old_querier_until_[static_cast<size_t>(version)]);
}

void GroupMembership::Respond(const Group& group) {
  if (version_ != kCurrentVersion) return reporter_.SendOldReport(group.address, version_);
  const GroupReport record{GroupRecordType::kModeIsExclude, group.address};
  reporter_.SendReport({&record, 1});
}

void GroupMembership::RespondToAll() {
  std::vector<GroupReport> records;
  for (const auto& g : groups_) {
    if (g->joined) records.push_back({GroupRecordType::kModeIsExclude, g->address});
  }
  if (!records.empty()) reporter_.SendReport(records);
}

// Uniform in [0, limit], in milliseconds.
Duration GroupMembership::RandomUpTo(Duration limit) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  return std::chrono::milliseconds(stack_.random().Uniform(static_cast<uint32_t>(ms) + 1));
}

}  // namespace tapwire
