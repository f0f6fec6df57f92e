// SPDX-License-Identifier: Apache-2.0
// The state table of RFC 4861 Appendix C, row by row, for both families. Where the appendix and the
// text of §7.2.5 differ (advertisement without a MAC; S=0, O=0 with another MAC), the text counts.
#include "stack/neighbor.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testutil::kOtherMac;
using testutil::kPeerMac;
using State = NeighborState;

class SilentResolver final : public NeighborResolver {
 public:
  void Solicit(const IpAddress&, std::optional<MacAddress> unicast_to, const IpAddress&) override {
    ++questions;
    last_was_unicast = unicast_to.has_value();
  }
  void ReportUnreachable(PacketPtr, const IpAddress&) override { ++reports; }
  int questions = 0;
  int reports = 0;
  bool last_was_unicast = false;
};

enum class Event {
  kPacket,
  kTimeout,        // of the timer that is armed
  kSolicitation,   // NS or ARP request with the neighbour's MAC
  kAdvertisement,  // NA or ARP reply
  kConfirmation,   // from above
};
enum class Mac { kNone, kSame, kOther };

struct Row {
  const char* name;
  std::optional<State> before;
  Event event;
  Mac mac = Mac::kNone;
  bool solicited = false;
  bool override = false;
  std::optional<State> after;
  Mac mac_after = Mac::kSame;
};

// Before each row the cached MAC, if there is one, is kPeerMac ("same").
const Row kRows[] = {
    {"packet to send", std::nullopt, Event::kPacket, Mac::kNone, 0, 0, State::kIncomplete,
     Mac::kNone},
    {"NS makes an entry", std::nullopt, Event::kSolicitation, Mac::kOther, 0, 0, State::kStale,
     Mac::kOther},
    {"NA makes none", std::nullopt, Event::kAdvertisement, Mac::kSame, 1, 1, std::nullopt,
     Mac::kNone},

    {"INCOMPLETE asks again", State::kIncomplete, Event::kTimeout, Mac::kNone, 0, 0,
     State::kIncomplete, Mac::kNone},
    {"INCOMPLETE, NA S=0 O=0", State::kIncomplete, Event::kAdvertisement, Mac::kOther, 0, 0,
     State::kDelay, Mac::kOther},  // STALE, and at once in use by the packet that waited
    {"INCOMPLETE, NA S=0 O=1", State::kIncomplete, Event::kAdvertisement, Mac::kOther, 0, 1,
     State::kDelay, Mac::kOther},
    {"INCOMPLETE, NA S=1 O=0", State::kIncomplete, Event::kAdvertisement, Mac::kOther, 1, 0,
     State::kReachable, Mac::kOther},
    {"INCOMPLETE, NA S=1 O=1", State::kIncomplete, Event::kAdvertisement, Mac::kOther, 1, 1,
     State::kReachable, Mac::kOther},
    {"INCOMPLETE, NA without MAC", State::kIncomplete, Event::kAdvertisement, Mac::kNone, 1, 1,
     State::kIncomplete, Mac::kNone},
    {"INCOMPLETE, NS", State::kIncomplete, Event::kSolicitation, Mac::kOther, 0, 0, State::kDelay,
     Mac::kOther},
    {"INCOMPLETE, confirmation means nothing", State::kIncomplete, Event::kConfirmation, Mac::kNone,
     0, 0, State::kIncomplete, Mac::kNone},

    {"REACHABLE, packet", State::kReachable, Event::kPacket, Mac::kNone, 0, 0, State::kReachable},
    {"REACHABLE, NS same", State::kReachable, Event::kSolicitation, Mac::kSame, 0, 0,
     State::kReachable},
    {"REACHABLE, NS other", State::kReachable, Event::kSolicitation, Mac::kOther, 0, 0,
     State::kStale, Mac::kOther},
    {"REACHABLE, NA S=1 O=0 same", State::kReachable, Event::kAdvertisement, Mac::kSame, 1, 0,
     State::kReachable},
    {"REACHABLE, NA S=1 O=0 other", State::kReachable, Event::kAdvertisement, Mac::kOther, 1, 0,
     State::kStale, Mac::kSame},
    {"REACHABLE, NA S=0 O=0 other", State::kReachable, Event::kAdvertisement, Mac::kOther, 0, 0,
     State::kStale, Mac::kSame},
    {"REACHABLE, NA S=1 O=1 other", State::kReachable, Event::kAdvertisement, Mac::kOther, 1, 1,
     State::kReachable, Mac::kOther},
    {"REACHABLE, NA S=0 O=1 other", State::kReachable, Event::kAdvertisement, Mac::kOther, 0, 1,
     State::kStale, Mac::kOther},
    {"REACHABLE, NA S=0 O=1 same", State::kReachable, Event::kAdvertisement, Mac::kSame, 0, 1,
     State::kReachable},
    {"REACHABLE, NA S=0 O=0 same", State::kReachable, Event::kAdvertisement, Mac::kSame, 0, 0,
     State::kReachable},

    {"STALE, packet", State::kStale, Event::kPacket, Mac::kNone, 0, 0, State::kDelay},
    {"STALE, NS same", State::kStale, Event::kSolicitation, Mac::kSame, 0, 0, State::kStale},
    {"STALE, NS other", State::kStale, Event::kSolicitation, Mac::kOther, 0, 0, State::kStale,
     Mac::kOther},
    {"STALE, NA S=1 O=0 same", State::kStale, Event::kAdvertisement, Mac::kSame, 1, 0,
     State::kReachable},
    {"STALE, NA S=1 O=0 other", State::kStale, Event::kAdvertisement, Mac::kOther, 1, 0,
     State::kStale, Mac::kSame},
    {"STALE, NA S=1 O=1 other", State::kStale, Event::kAdvertisement, Mac::kOther, 1, 1,
     State::kReachable, Mac::kOther},
    {"STALE, NA S=0 O=0 other", State::kStale, Event::kAdvertisement, Mac::kOther, 0, 0,
     State::kStale, Mac::kSame},
    {"STALE, NA S=0 O=1 other", State::kStale, Event::kAdvertisement, Mac::kOther, 0, 1,
     State::kStale, Mac::kOther},
    {"STALE, NA S=0 O=1 same", State::kStale, Event::kAdvertisement, Mac::kSame, 0, 1,
     State::kStale},
    {"STALE, NA S=1 without MAC", State::kStale, Event::kAdvertisement, Mac::kNone, 1, 0,
     State::kReachable},
    {"STALE, NA S=0 without MAC", State::kStale, Event::kAdvertisement, Mac::kNone, 0, 1,
     State::kStale},
    {"STALE, confirmation", State::kStale, Event::kConfirmation, Mac::kNone, 0, 0,
     State::kReachable},

    {"DELAY, packet", State::kDelay, Event::kPacket, Mac::kNone, 0, 0, State::kDelay},
    {"DELAY, timeout", State::kDelay, Event::kTimeout, Mac::kNone, 0, 0, State::kProbe},
    {"DELAY, NS other", State::kDelay, Event::kSolicitation, Mac::kOther, 0, 0, State::kStale,
     Mac::kOther},
    {"DELAY, NA S=1 O=0 same", State::kDelay, Event::kAdvertisement, Mac::kSame, 1, 0,
     State::kReachable},
    {"DELAY, NA S=1 O=0 other", State::kDelay, Event::kAdvertisement, Mac::kOther, 1, 0,
     State::kDelay, Mac::kSame},
    {"DELAY, NA S=0 O=1 other", State::kDelay, Event::kAdvertisement, Mac::kOther, 0, 1,
     State::kStale, Mac::kOther},
    {"DELAY, NA S=1 O=1 other", State::kDelay, Event::kAdvertisement, Mac::kOther, 1, 1,
     State::kReachable, Mac::kOther},
    {"DELAY, confirmation", State::kDelay, Event::kConfirmation, Mac::kNone, 0, 0,
     State::kReachable},

    {"PROBE, packet", State::kProbe, Event::kPacket, Mac::kNone, 0, 0, State::kProbe},
    {"PROBE, timeout", State::kProbe, Event::kTimeout, Mac::kNone, 0, 0, State::kProbe},
    {"PROBE, NS same", State::kProbe, Event::kSolicitation, Mac::kSame, 0, 0, State::kProbe},
    {"PROBE, NS other", State::kProbe, Event::kSolicitation, Mac::kOther, 0, 0, State::kStale,
     Mac::kOther},
    {"PROBE, NA S=1 O=0 same", State::kProbe, Event::kAdvertisement, Mac::kSame, 1, 0,
     State::kReachable},
    {"PROBE, NA S=1 O=0 other", State::kProbe, Event::kAdvertisement, Mac::kOther, 1, 0,
     State::kProbe, Mac::kSame},
    {"PROBE, NA S=0 O=0 same", State::kProbe, Event::kAdvertisement, Mac::kSame, 0, 0,
     State::kProbe},
    {"PROBE, NA S=0 O=1 same", State::kProbe, Event::kAdvertisement, Mac::kSame, 0, 1,
     State::kProbe},
    {"PROBE, NA S=0 O=1 other", State::kProbe, Event::kAdvertisement, Mac::kOther, 0, 1,
     State::kStale, Mac::kOther},
    {"PROBE, NA S=1 O=1 other", State::kProbe, Event::kAdvertisement, Mac::kOther, 1, 1,
     State::kReachable, Mac::kOther},
    {"PROBE, NA S=1 without MAC", State::kProbe, Event::kAdvertisement, Mac::kNone, 1, 0,
     State::kReachable},
    {"PROBE, confirmation", State::kProbe, Event::kConfirmation, Mac::kNone, 0, 0,
     State::kReachable},
};

std::optional<MacAddress> MacOf(Mac mac) {
  if (mac == Mac::kNone) return std::nullopt;
  return mac == Mac::kSame ? kPeerMac : kOtherMac;
}

class NeighborStatesTest : public testutil::HostFamilyTest {
 protected:
  void SetUp() override {
    Make();
    table = std::make_unique<NeighborTable>(*stack, device(), resolver, family());
  }
  void Send() {
    const auto bytes = v4() ? testutil::Frame()
                                  .Ipv4({.source = testutil::kHost4,
                                         .destination = testutil::kPeer4,
                                         .protocol = 253})
                                  .Payload("packet")
                                  .Build()
                            : testutil::Frame()
                                  .Ipv6({.source = testutil::kHost6,
                                         .destination = testutil::kPeer6,
                                         .next_header = 253})
                                  .Payload("packet")
                                  .Build();
    table->Output(PacketFromBytes(stack->pool(), bytes), peer(), host());
    net->Run();
  }
  void Bring(State state) {
    if (state == State::kIncomplete) return Send();
    table->OnSolicited(peer(), kPeerMac, true);
    if (state == State::kReachable) return table->Confirm(peer());
    if (state == State::kStale) return;
    Send();
    if (state == State::kProbe) net->Advance(5s);
  }
  void Happen(const Row& row) {
    const auto mac = MacOf(row.mac);
    switch (row.event) {
      case Event::kPacket:
        return Send();
      case Event::kTimeout:
        return net->Advance(*net->context().next_deadline() - net->now());
      case Event::kSolicitation:
        return table->OnSolicited(peer(), *mac, true);
      case Event::kAdvertisement:
        static_cast<void>(table->OnAdvertisement(
            {.address = peer(), .mac = mac, .solicited = row.solicited, .override = row.override}));
        return net->Run();
      case Event::kConfirmation:
        return table->Confirm(peer());
    }
  }

  SilentResolver resolver;
  std::unique_ptr<NeighborTable> table;
};

INSTANTIATE_TEST_SUITE_P(Family, NeighborStatesTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

// Covers: rfc:ND-05 rfc:ND-06 RFC 4861 Appendix C
TEST_P(NeighborStatesTest, FollowsAppendixC) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    if (row.before) {
      Bring(*row.before);
      ASSERT_EQ(table->Find(peer())->state, *row.before);
    }
    Happen(row);
    const auto info = table->Find(peer());
    ASSERT_EQ(info.has_value(), row.after.has_value());
    if (info) {
      EXPECT_EQ(NeighborStateName(info->state), NeighborStateName(*row.after));
      EXPECT_EQ(info->mac, MacOf(row.mac_after).value_or(MacAddress()));
    }
    static_cast<void>(table->Remove(peer()));
    EXPECT_EQ(net->context().timers().armed_count(), 0u);
  }
}

// RFC 4861 Appendix C: INCOMPLETE, "N or more retransmissions": discard the entry, send ICMP
// errors.
TEST_P(NeighborStatesTest, IncompleteEndsAfterThreeQuestions) {
  Send();
  net->Advance(3s);
  EXPECT_EQ(resolver.questions, 3);
  EXPECT_EQ(resolver.reports, 1);
  net->Advance(1s);
  EXPECT_EQ(table->Find(peer()), std::nullopt);
}

// Covers: rfc:ND-06
TEST_P(NeighborStatesTest, IsRouterFollowsTheAdvertisement) {
  Bring(State::kReachable);
  table->OnAdvertisement({.address = peer(), .mac = kPeerMac, .is_router = true});
  EXPECT_TRUE(table->Find(peer())->is_router);
  // RFC 4861 §7.2.5 I.: an ignored advertisement changes nothing.
  table->OnAdvertisement({.address = peer(), .mac = kOtherMac, .is_router = false});
  EXPECT_TRUE(table->Find(peer())->is_router);
  table->OnAdvertisement({.address = peer(), .mac = kPeerMac, .is_router = false});
  EXPECT_FALSE(table->Find(peer())->is_router);
}

TEST_P(NeighborStatesTest, NamesAreThoseOfIpNeigh) {
  EXPECT_EQ(NeighborStateName(State::kIncomplete), "INCOMPLETE");
  EXPECT_EQ(NeighborStateName(State::kReachable), "REACHABLE");
  EXPECT_EQ(NeighborStateName(State::kStale), "STALE");
  EXPECT_EQ(NeighborStateName(State::kDelay), "DELAY");
  EXPECT_EQ(NeighborStateName(State::kProbe), "PROBE");
  EXPECT_EQ(NeighborStateName(State::kFailed), "FAILED");
  EXPECT_EQ(NeighborStateName(State::kPermanent), "PERMANENT");
}

}  // namespace
}  // namespace tapwire
