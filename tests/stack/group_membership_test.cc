// SPDX-License-Identifier: Apache-2.0
// The machine behind IGMP and MLD, without packets: what is said when.
#include "stack/group_membership.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/stack.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

const IpAddress kA = Ipv4Address(239, 0, 0, 1);
const IpAddress kB = Ipv4Address(239, 0, 0, 2);

// Writes down what is to be sent: "to_ex 239.0.0.1", "v2 report 239.0.0.1", "v2 leave …".
class Recorder final : public GroupReporter {
 public:
  void SendReport(std::span<const GroupReport> records) override {
    static const char* const kNames[] = {"?", "is_in", "is_ex", "to_in", "to_ex"};
    std::vector<std::string> parts;
    for (const GroupReport& r : records) {
      parts.push_back(absl::StrCat(kNames[r.record_type], " ", r.group.ToString()));
    }
    std::string line;
    for (const std::string& part : parts) absl::StrAppend(&line, line.empty() ? "" : ", ", part);
    lines.push_back(line);
  }
  void SendOldReport(const IpAddress& group, int version) override {
    lines.push_back(absl::StrCat("v", version, " report ", group.ToString()));
  }
  void SendOldLeave(const IpAddress& group, int version) override {
    lines.push_back(absl::StrCat("v", version, " leave ", group.ToString()));
  }
  std::vector<std::string> Take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
};

class GroupMembershipTest : public testutil::HostTest {
 protected:
  void SetUp() override {
    Make(Quiet(), /*addresses=*/false);
    membership = std::make_unique<GroupMembership>(*stack, recorder);
    membership->Up();
  }
  void TearDown() override { membership.reset(); }
  std::vector<std::string> After(Duration time) {
    net->Advance(time);
    return recorder.Take();
  }
  size_t armed() { return net->context().timers().armed_count(); }

  Recorder recorder;
  std::unique_ptr<GroupMembership> membership;
};

// ---- State changes ----

TEST_F(GroupMembershipTest, ChangeIsSaidAtOnceAndRepeatedOnce) {
  membership->Join(kA);
  EXPECT_THAT(recorder.Take(), ElementsAre("to_ex 239.0.0.1"));
  EXPECT_THAT(After(1s), ElementsAre("to_ex 239.0.0.1"));
  EXPECT_THAT(After(1h), IsEmpty());
  membership->Leave(kA);
  EXPECT_THAT(recorder.Take(), ElementsAre("to_in 239.0.0.1"));
  EXPECT_THAT(After(1s), ElementsAre("to_in 239.0.0.1"));
  EXPECT_EQ(armed(), 0u);
}

// RFC 9776 §5.1: of two changes in a row the repetitions of the first are replaced.
TEST_F(GroupMembershipTest, NewerChangeReplacesTheOlder) {
  membership->Join(kA);
  membership->Leave(kA);
  EXPECT_THAT(recorder.Take(), ElementsAre("to_ex 239.0.0.1", "to_in 239.0.0.1"));
  EXPECT_THAT(After(5s), ElementsAre("to_in 239.0.0.1"));
  membership->Join(kA);
  membership->Leave(kA);
  membership->Join(kA);
  recorder.Take();
  EXPECT_THAT(After(5s), ElementsAre("to_ex 239.0.0.1"));
  EXPECT_TRUE(membership->OnQuery({.group = kA}));
}

TEST_F(GroupMembershipTest, LeavingWhatWasNotJoinedSaysNothing) {
  membership->Leave(kA);
  membership->Join(kA);
  membership->Leave(kA);
  recorder.Take();
  membership->Leave(kA);  // its repetition is still to come
  EXPECT_THAT(recorder.Take(), IsEmpty());
  EXPECT_THAT(After(5s), SizeIs(1));
}

TEST_F(GroupMembershipTest, GroupsAreIndependent) {
  membership->Join(kA);
  membership->Join(kB);
  membership->Leave(kA);
  recorder.Take();
  EXPECT_THAT(After(5s), UnorderedElementsAre("to_in 239.0.0.1", "to_ex 239.0.0.2"));
  EXPECT_FALSE(membership->OnQuery({.group = kA}));
  EXPECT_TRUE(membership->OnQuery({.group = kB}));
}

TEST_F(GroupMembershipTest, RobustnessOfOneMeansNoRepetition) {
  membership->OnQuery({.robustness = 1});
  membership->Join(kA);
  membership->Leave(kA);
  EXPECT_THAT(recorder.Take(), SizeIs(2));
  EXPECT_THAT(After(10s), IsEmpty());
  EXPECT_EQ(armed(), 0u);
}

// ---- Queries ----

TEST_F(GroupMembershipTest, AnswerComesWithinTheTimeGiven) {
  membership->Join(kA);
  After(5s);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(membership->OnQuery({.max_delay = 700ms}));
    EXPECT_THAT(After(700ms), ElementsAre("is_ex 239.0.0.1"));
    EXPECT_TRUE(membership->OnQuery({.group = kA, .max_delay = 700ms}));
    EXPECT_THAT(After(700ms), ElementsAre("is_ex 239.0.0.1"));
  }
  membership->OnQuery({});  // at once
  EXPECT_THAT(After(Duration(0)), ElementsAre("is_ex 239.0.0.1"));
}

// RFC 9776 §5.2: a repeated query moves an answer forward, never back, and makes no second one.
TEST_F(GroupMembershipTest, RepeatedQueriesHaveOneAnswer) {
  membership->Join(kA);
  After(5s);
  for (const std::optional<IpAddress>& group : {std::optional<IpAddress>(), std::optional(kA)}) {
    for (int i = 0; i < 100; ++i) membership->OnQuery({.group = group, .max_delay = 1000s});
    membership->OnQuery({.group = group, .max_delay = 1s});
    for (int i = 0; i < 100; ++i) membership->OnQuery({.group = group, .max_delay = 1000s});
    EXPECT_THAT(After(1s), SizeIs(1));
    EXPECT_THAT(After(2000s), IsEmpty());
  }
}

// RFC 9776 §5.2, rule 1.
TEST_F(GroupMembershipTest, SoonerGeneralAnswerCoversAGroupQuery) {
  membership->Join(kA);
  membership->Join(kB);
  After(5s);
  membership->OnQuery({.max_delay = 1ms});
  membership->OnQuery({.group = kA, .max_delay = 1000s});
  EXPECT_THAT(After(2000s), ElementsAre("is_ex 239.0.0.1, is_ex 239.0.0.2"));
}

TEST_F(GroupMembershipTest, LeavingBeforeTheAnswerIsDueCancelsIt) {
  membership->Join(kA);
  After(5s);
  membership->OnQuery({.group = kA, .max_delay = 1000s});
  membership->OnQuery({.max_delay = 1000s});
  membership->Leave(kA);
  EXPECT_THAT(After(2000s), ElementsAre("to_in 239.0.0.1", "to_in 239.0.0.1"));
  EXPECT_EQ(armed(), 0u);
}

// ---- Older versions ----

TEST_F(GroupMembershipTest, OldestVersionHeardIsSpokenAsLongAsItIsPresent) {
  membership->Join(kA);
  After(5s);
  EXPECT_EQ(membership->version(), GroupMembership::kCurrentVersion);
  membership->OnQuery({.version = 2});
  EXPECT_EQ(membership->version(), 2);
  EXPECT_THAT(After(100s), ElementsAre("v2 report 239.0.0.1"));
  membership->OnQuery({.version = 1});
  EXPECT_EQ(membership->version(), 1);
  EXPECT_THAT(After(100s), ElementsAre("v1 report 239.0.0.1"));
  membership->OnQuery({.version = 2});
  EXPECT_EQ(membership->version(), 1);
  membership->OnQuery({});
  EXPECT_THAT(After(159s), Each("v1 report 239.0.0.1"));
  EXPECT_EQ(membership->version(), 1);
  After(1s);  // 260 s after the query of version 1
  EXPECT_EQ(membership->version(), 2);
  After(99s);
  EXPECT_EQ(membership->version(), 2);
  After(1s);  // 260 s after the last one of version 2
  EXPECT_EQ(membership->version(), GroupMembership::kCurrentVersion);
  EXPECT_EQ(armed(), 0u);
}

// RFC 9776 §7.2.1: what is pending is cancelled when the version changes.
TEST_F(GroupMembershipTest, ChangeOfVersionCancelsWhatIsPending) {
  membership->Join(kB);
  After(5s);
  membership->OnQuery({.max_delay = 1000s});
  membership->OnQuery({.group = kB, .max_delay = 1000s});
  membership->Join(kA);
  membership->Leave(kB);
  recorder.Take();
  membership->OnQuery({.version = 2, .group = kA, .max_delay = 10s});
  EXPECT_THAT(After(200s), ElementsAre("v2 report 239.0.0.1"));
  EXPECT_FALSE(membership->OnQuery({.group = kB}));
  // And on the way back.
  membership->OnQuery({.group = kA, .max_delay = 0s});
  recorder.Take();
  membership->Join(kB);
  EXPECT_THAT(After(10s), SizeIs(3));
  After(49'999ms);
  EXPECT_EQ(membership->version(), 2);
  membership->Leave(kB);
  membership->OnQuery({.group = kA, .max_delay = 1000s});
  recorder.Take();
  EXPECT_THAT(After(2000s), IsEmpty());
  EXPECT_EQ(membership->version(), GroupMembership::kCurrentVersion);
}

TEST_F(GroupMembershipTest, OldVersionReportsPerGroupAndLeavesOnce) {
  membership->OnQuery({.version = 2});
  membership->Join(kA);
  EXPECT_THAT(After(5s), ElementsAre("v2 report 239.0.0.1", "v2 report 239.0.0.1"));
  membership->Join(kB);
  After(5s);
  membership->OnQuery({.max_delay = 100s});
  membership->OnOldReport(kB);
  membership->OnOldReport(Ipv4Address(239, 0, 0, 3));  // not ours
  EXPECT_THAT(After(100s), ElementsAre("v2 report 239.0.0.1"));
  membership->Leave(kA);
  EXPECT_THAT(After(5s), ElementsAre("v2 leave 239.0.0.1"));
}

TEST_F(GroupMembershipTest, OldReportOfOthersMeansNothingToTheCurrentVersion) {
  membership->Join(kA);
  After(5s);
  membership->OnQuery({.group = kA, .max_delay = 100s});
  membership->OnOldReport(kA);
  EXPECT_THAT(After(100s), ElementsAre("is_ex 239.0.0.1"));
}

// ---- The link ----

TEST_F(GroupMembershipTest, NothingIsSaidWhileDownAndAllOnReturn) {
  membership->Join(kA);
  After(5s);
  membership->OnQuery({.version = 2, .robustness = 5});
  membership->Down();
  EXPECT_EQ(armed(), 0u);
  recorder.Take();
  membership->Join(kB);
  membership->Leave(kA);
  EXPECT_THAT(After(1h), IsEmpty());
  membership->Up();
  EXPECT_EQ(membership->version(), GroupMembership::kCurrentVersion);
  EXPECT_THAT(After(10s), ElementsAre("to_ex 239.0.0.2", "to_ex 239.0.0.2"));
}

TEST_F(GroupMembershipTest, LeaveUnderWayIsForgottenWhenTheLinkGoes) {
  membership->Join(kA);
  membership->Leave(kA);
  membership->Down();
  recorder.Take();
  EXPECT_EQ(armed(), 0u);
  membership->Up();
  EXPECT_THAT(After(10s), IsEmpty());
}

TEST_F(GroupMembershipTest, DestructionLeavesNoTimer) {
  membership->OnQuery({.version = 2, .max_delay = 100s});
  membership->Join(kA);
  membership->Join(kB);
  membership->Leave(kB);
  membership->OnQuery({.group = kA, .max_delay = 100s});
  EXPECT_GT(armed(), 0u);
  membership.reset();
  EXPECT_EQ(armed(), 0u);
}

}  // namespace
}  // namespace tapwire
