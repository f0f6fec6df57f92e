// SPDX-License-Identifier: Apache-2.0
// RFC 6724: the examples of §10.1 and one row per rule of §5; RFC 1122 §3.3.4.3 for IPv4.
#include "stack/source_select.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tapwire {
namespace {

enum Mark : int { kDeprecated = 1, kElsewhere = 2, kTemporary = 4, kFromNextHop = 8 };

struct Candidate {
  const char* prefix;
  int marks = 0;
};

struct Row {
  const char* name;
  const char* destination;
  std::vector<Candidate> candidates;
  int expected;  // index; -1: none
  const char* next_hop = nullptr;
};

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      // RFC 6724 §10.1, in its order (the home address example has no counterpart).
      {"appropriate scope", "2001:db8:1::1", {{"2001:db8:3::1/64"}, {"fe80::1/64"}}, 0},
      {"scope, reversed", "2001:db8:1::1", {{"fe80::1/64"}, {"2001:db8:3::1/64"}}, 1},
      {"scope of a group", "ff05::1", {{"2001:db8:3::1/64"}, {"fe80::1/64"}}, 0},
      {"same address",
       "2001:db8:1::1",
       {{"2001:db8:1::1/64", kDeprecated}, {"2001:db8:2::1/64"}},
       0},
      {"link-local", "fe80::1", {{"fe80::2/64", kDeprecated}, {"2001:db8:1::1/64"}}, 0},
      {"longest prefix", "2001:db8:1::1", {{"2001:db8:1::2/64"}, {"2001:db8:3::2/64"}}, 0},
      {"longest prefix, reversed",
       "2001:db8:1::1",
       {{"2001:db8:3::2/64"}, {"2001:db8:1::2/64"}},
       1},
      {"matching label",
       "2002:c633:6401::1",
       {{"2001:db8:1::2/64"}, {"2002:c633:6401::d5e3:7953:13eb:22e8/64", kTemporary}},
       1},
      {"temporary",
       "2001:db8:1::d5e3:0:0:1",
       {{"2001:db8:1::2/64"}, {"2001:db8:1::d5e3:7953:13eb:22e8/64", kTemporary}},
       1},

      // §5, rule by rule, each against a candidate that the later rules would prefer.
      {"rule 2: link-local group", "ff02::1", {{"2001:db8::1/64"}, {"fe80::1/64"}}, 1},
      {"rule 2: no sufficient scope", "2001:db8::9", {{"fe80::1/64"}}, 0},
      {"rule 3: deprecated loses",
       "2001:db8:1::9",
       {{"2001:db8:1::1/64", kDeprecated}, {"2001:db8:2::1/64"}},
       1},
      {"rule 5: outgoing interface",
       "2001:db8:1::9",
       {{"2001:db8:1::1/64", kElsewhere}, {"2001:db8:2::1/64"}},
       1},
      {"rule 5.5: prefix of the next hop",
       "2001:db8:1::9",
       {{"2001:db8:1::1/64"}, {"2001:db8:2::1/64", kFromNextHop}},
       1},
      {"rule 6: unique local to unique local",
       "fd00:1::1",
       {{"2001:db8::1/64"}, {"fd00:2::1/64"}},
       1},
      {"rule 6: global to global", "2001:db8::1", {{"fd00:2::1/64"}, {"2001:db9::1/64"}}, 1},
      {"rule 8: not beyond the prefix length",
       "2001:db8:1::8",
       {{"2001:db8:1::1/48"}, {"2001:db8:1::c/48"}},
       0},
      {"tie: the first", "2001:db8:1::8", {{"2001:db8:1::1/64"}, {"2001:db8:1::2/64"}}, 0},
      {"other family is no candidate", "2001:db8::1", {{"10.0.0.1/8"}}, -1},
      {"no candidate", "2001:db8::1", {}, -1},

      // IPv4.
      {"v4: subnet of the destination", "10.1.2.3", {{"10.2.0.1/16"}, {"10.1.0.1/16"}}, 1},
      {"v4: subnet of the gateway", "8.8.8.8", {{"10.2.0.1/16"}, {"10.1.0.1/16"}}, 1, "10.1.0.254"},
      {"v4: first of a subnet", "10.1.2.3", {{"10.1.0.5/16"}, {"10.1.0.1/16"}}, 0},
      {"v4: same address", "10.1.0.9", {{"10.1.0.5/16"}, {"10.1.0.9/16", kElsewhere}}, 1},
      {"v4: outgoing interface", "10.1.2.3", {{"10.1.0.1/16", kElsewhere}, {"192.0.2.1/24"}}, 1},
      {"v4: not deprecated", "10.1.2.3", {{"10.1.0.1/16", kDeprecated}, {"10.2.0.1/16"}}, 1},
      {"v4: not link-local to elsewhere",
       "8.8.8.8",
       {{"169.254.1.1/16"}, {"10.1.0.1/16"}},
       1,
       "169.254.9.9"},
      {"v4: link-local to link-local", "169.254.7.7", {{"10.1.0.1/16"}, {"169.254.1.1/16"}}, 1},
      {"v4: nothing else", "8.8.8.8", {{"169.254.1.1/16"}}, 0},
      {"v4: no candidate", "8.8.8.8", {{"2001:db8::1/64"}}, -1},
  };
  return rows;
}

// Covers: rfc:ADDR-1 (demand 72)
TEST(SourceSelectTest, FollowsTheRules) {
  for (const Row& row : Rows()) {
    std::vector<SourceCandidate> candidates;
    for (const Candidate& c : row.candidates) {
      const IpPrefix prefix = *IpPrefix::Parse(c.prefix);
      candidates.push_back({.address = prefix.address,
                            .prefix_length = prefix.length,
                            .deprecated = (c.marks & kDeprecated) != 0,
                            .on_outgoing_interface = (c.marks & kElsewhere) == 0,
                            .temporary = (c.marks & kTemporary) != 0,
                            .advertised_by_next_hop = (c.marks & kFromNextHop) != 0});
    }
    const IpAddress destination = Ip(row.destination);
    const IpAddress next_hop = row.next_hop != nullptr ? Ip(row.next_hop) : destination;
    const auto chosen = SelectSource({destination, next_hop}, candidates);
    EXPECT_EQ(chosen ? static_cast<int>(*chosen) : -1, row.expected) << row.name;
  }
}

// Covers: rfc:ADDR-1 RFC 6724 §2.1, the default table
TEST(SourceSelectTest, PolicyTableIsTheDefaultOne) {
  struct {
    const char* address;
    int precedence, label;
  } const kRows[] = {
      {"::1", 50, 0},     {"2001:db8::1", 40, 1},   {"::ffff:192.0.2.1", 35, 4}, {"2002::1", 30, 2},
      {"2001::1", 5, 5},  {"2001:0:ffff::1", 5, 5}, {"2001:1::1", 40, 1},        {"fc00::1", 3, 13},
      {"fdff::1", 3, 13}, {"::192.0.2.1", 1, 3},    {"fec0::1", 1, 11},          {"3ffe::1", 1, 12},
      {"fe80::1", 40, 1}, {"ff02::1", 40, 1},
  };
  for (const auto& row : kRows) {
    const AddressPolicy& policy = PolicyOf(*Ipv6Address::Parse(row.address));
    EXPECT_EQ(policy.precedence, row.precedence) << row.address;
    EXPECT_EQ(policy.label, row.label) << row.address;
  }
}

TEST(SourceSelectTest, CommonPrefixEndsWithTheSourcesPrefix) {
  const auto length = [](const char* a, const char* b, int limit) {
    return CommonPrefixLength(*Ipv6Address::Parse(a), *Ipv6Address::Parse(b), limit);
  };
  EXPECT_EQ(length("2001:db8::", "2001:db8::", 128), 128);
  EXPECT_EQ(length("2001:db8::", "2001:db8::", 64), 64);
  EXPECT_EQ(length("2001:db8:8000::", "2001:db8::", 64), 32);
  EXPECT_EQ(length("2001:db8::1", "2001:db8::2", 128), 126);
  EXPECT_EQ(length("8000::", "::", 128), 0);
}

}  // namespace
}  // namespace tapwire
