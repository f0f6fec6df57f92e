// SPDX-License-Identifier: Apache-2.0
// The capture checker: looks at frames one by one and says what no correct host would have sent.
//
//   frames ─► CaptureChecker::Check ─► link ─► ARP
//                                         └──► IPv4 / IPv6 ─► fragments ─► UDP, TCP, ICMP, ND, MLD,
//                                         IGMP
//
// Used by `tapwire pcap check` on files and by the tests on every frame of every simulated run. It
// parses by hand and knows nothing of the stack. What cannot be judged (a frame cut by the snap
// length, an unknown protocol) is noted, never guessed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tapwire::capture {

// kError: a MUST of a specification or an impossible length. kWarning: a SHOULD. kNote: not judged,
// or worth knowing.
enum class Severity : uint8_t { kNote, kWarning, kError };
absl::string_view SeverityName(Severity severity);

// X(id, "name", severity, "what it means")
#define TAPWIRE_CAPTURE_RULES(X)                                                                  \
  X(kSnapped, "snapped", kNote,                                                                   \
    "Frame was cut by the snap length; what is missing was not judged")                           \
  X(kNotJudged, "not-judged", kNote, "Protocol or link type this checker does not know")          \
  X(kFrameShort, "frame-short", kError, "Frame or packet ends before its header does")            \
  X(kEthSource, "eth-source", kError, "Source MAC address is zero, multicast or broadcast")       \
  X(kEthLength, "eth-length", kError, "802.3 length or EtherType is impossible")                  \
  X(kVlan, "vlan", kError, "VLAN tag with the reserved VID 4095 or more than two tags")           \
  X(kMtu, "mtu", kError, "Packet longer than the MTU and not marked for segmentation")            \
  X(kGso, "gso", kError, "Segmentation mark that cannot be true")                                 \
  X(kTrailer, "trailer", kWarning, "Bytes behind the packet in a frame that needs no padding")    \
  X(kPadding, "padding", kWarning, "Padding that is not zero (RFC 894: octets of zero)")          \
  X(kArp, "arp", kError, "ARP packet with wrong fields (RFC 826)")                                \
  X(kArpSender, "arp-sender", kError,                                                             \
    "ARP sender that is no single host or not the frame's source")                                \
  X(kIpv4Header, "ipv4-header", kError,                                                           \
    "IPv4 version, header length or total length is impossible")                                  \
  X(kIpv4Checksum, "ipv4-checksum", kError, "IPv4 header checksum is wrong (RFC 791 §3.1)")       \
  X(kIpv4Flags, "ipv4-flags", kError, "IPv4 reserved flag set, or DF on a fragment")              \
  X(kIpv4Options, "ipv4-options", kError, "Malformed IPv4 options (RFC 791 §3.1)")                \
  X(kIpv4Id, "ipv4-id", kError, "IPv4 identification used again too early (RFC 6864 §4.3)")       \
  X(kIpv4Copy, "ipv4-copy", kNote, "The same IPv4 datagram twice")                                \
  X(kTtl, "ttl", kError, "TTL or hop limit 0 was sent (RFC 1122 §3.2.1.7)")                       \
  X(kMartianSource, "martian-source", kError,                                                     \
    "Source address no host may send from (RFC 1122 §3.2.1.3)")                                   \
  X(kMartianDestination, "martian-destination", kError,                                           \
    "Destination address that never goes on a wire")                                              \
  X(kLinkDestination, "link-destination", kError,                                                 \
    "Link-layer and IP destination do not fit each other")                                        \
  X(kIpv6Header, "ipv6-header", kError, "IPv6 version or payload length is impossible")           \
  X(kIpv6Extension, "ipv6-extension", kError, "IPv6 extension header malformed or out of place")  \
  X(kIpv6Atomic, "ipv6-atomic", kError, "Atomic fragment sent (RFC 8504 §5.1)")                   \
  X(kFragment, "fragment", kError, "Fragment with an impossible length or offset")                \
  X(kFragmentOverlap, "fragment-overlap", kError,                                                 \
    "Fragments that overlap or contradict (RFC 5722)")                                            \
  X(kFragmentCopy, "fragment-copy", kNote, "The same fragment twice")                             \
  X(kFragmentNeedless, "fragment-needless", kError,                                               \
    "IPv6 datagram in fragments though it fits 1280 bytes")                                       \
  X(kChecksum, "checksum", kError, "Transport checksum is wrong")                                 \
  X(kPartial, "partial", kNote,                                                                   \
    "Checksum left to the device: only the pseudo-header sum is there")                           \
  X(kPartialSum, "partial-sum", kError,                                                           \
    "Marked as partial checksum, but not the pseudo-header sum")                                  \
  X(kUdpLength, "udp-length", kError, "UDP length below 8 or beyond the IP payload (RFC 768)")    \
  X(kUdpSurplus, "udp-surplus", kWarning, "IP payload longer than the UDP length")                \
  X(kUdpPort, "udp-port", kError, "UDP destination port 0")                                       \
  X(kTcpHeader, "tcp-header", kError, "TCP data offset, port or destination is impossible")       \
  X(kTcpFlags, "tcp-flags", kError, "TCP flags that never go together")                           \
  X(kTcpOptions, "tcp-options", kError, "Malformed TCP options (RFC 9293 §3.1)")                  \
  X(kTcpSynOption, "tcp-syn-option", kError, "SYN-only TCP option on another segment (MUST-65)")  \
  X(kTcpPadding, "tcp-padding", kError, "TCP header padding that is not zero (MUST-69)")          \
  X(kTcpWindowShrunk, "tcp-window-shrunk", kWarning,                                              \
    "Right edge of the advertised window moved left (RFC 9293 SHLD-14)")                          \
  X(kTcpMss, "tcp-mss", kError, "Segment larger than the peer's MSS allows (RFC 9293 MUST-16)")   \
  X(kTcpBeyondWindow, "tcp-beyond-window", kError,                                                \
    "Data beyond the peer's window that is no probe (RFC 9293 §3.8.6)")                           \
  X(kTcpResetAnswered, "tcp-reset-answered", kError,                                              \
    "A reset was answered (RFC 9293 §3.10.7, RFC 5961 §3.2)")                                     \
  X(kTcpAckAnswered, "tcp-ack-answered", kError,                                                  \
    "An acceptable acknowledgment without text was answered (RFC 9293 §3.10.7.4)")                \
  X(kTcpNoBackOff, "tcp-no-back-off", kError,                                                     \
    "The same segment again and again without a longer wait (RFC 6298 §5.5)")                     \
  X(kIcmpHeader, "icmp-header", kError, "ICMP message too short, or type or code never sent")     \
  X(kIcmpAbout, "icmp-about", kError, "ICMP error about something that must not cause one")       \
  X(kIcmpQuote, "icmp-quote", kError, "ICMP error quotes too little or too much")                 \
  X(kNdHopLimit, "nd-hop-limit", kError, "Neighbour discovery with a hop limit other than 255")   \
  X(kNdMessage, "nd-message", kError, "Neighbour discovery message with wrong fields (RFC 4861)") \
  X(kNdOption, "nd-option", kError, "Malformed neighbour discovery option")                       \
  X(kNdFragment, "nd-fragment", kError, "Fragmented neighbour discovery (RFC 6980)")              \
  X(kMld, "mld", kError, "MLD message with wrong hop limit, router alert or fields (RFC 9777)")   \
  X(kIgmp, "igmp", kError, "IGMP message with wrong TTL, router alert or fields (RFC 9776)")

enum class Rule : uint8_t {
#define TAPWIRE_RULE_ID(id, name, severity, help) id,
  TAPWIRE_CAPTURE_RULES(TAPWIRE_RULE_ID)
#undef TAPWIRE_RULE_ID
      kCount,
};
inline constexpr size_t kRuleCount = static_cast<size_t>(Rule::kCount);
absl::string_view RuleName(Rule rule);
absl::string_view RuleHelp(Rule rule);
Severity RuleSeverity(Rule rule);
std::optional<Rule> RuleByName(absl::string_view name);

enum class Direction : uint8_t { kUnknown, kReceive, kTransmit };
enum class LinkType : uint8_t { kEthernet, kRawIp };

// One frame and what is known about it from outside.
struct Frame {
  uint64_t number = 0;     // for findings; 0: the checker counts from 1
  int64_t time_ns = 0;     // any epoch, not going back by much
  uint32_t interface = 0;  // which interface saw it, any numbering
  Direction direction = Direction::kUnknown;
  LinkType link = LinkType::kEthernet;
  bool loopback = false;         // seen on a loopback interface: its addresses are right there
  uint32_t original_length = 0;  // larger than bytes.size(): cut by a snap length; 0: not cut
  uint32_t mtu = 0;              // bytes of network packet; 0: unknown, not judged
  uint32_t gso_size = 0;         // payload bytes per segment of a super-packet; 0: none
  struct Partial {
    uint32_t start = 0;   // as in virtio: where the sum begins, from the link header
    uint32_t offset = 0;  // where it is stored, from `start`
  };
  // The transport checksum is declared unfinished.
  std::optional<Partial> partial = {};
  std::span<const uint8_t> bytes = {};
};

struct Finding {
  uint64_t frame = 0;
  Rule rule = Rule::kCount;
  Severity severity = Severity::kError;
  std::string reason;
  // "frame 12: error: ipv4-checksum: is 0x1234, should be 0x4321".
  std::string ToString() const;
};

struct CheckerOptions {
  // A wrong transport checksum equal to the pseudo-header sum is a note, not an error: captures
  // taken on a host whose device finishes checksums look like that.
  bool accept_pseudo_sums = false;
  // False: received frames are not judged (a test feeds broken ones on purpose); of TCP it is
  // noted what they said, since what is sent is judged by it.
  bool judge_received = true;
  // RFC 6864 §4.3 asks that an identification is not used again within the maximum datagram life
  // time; 2 minutes is the usual value. 0 turns the rule off.
  int64_t ipv4_id_window_ns = int64_t{120} * 1'000'000'000;
  std::set<Rule> ignored = {};  // rules that are not reported
  size_t max_findings = 1000;   // kept with their text; all are counted
};

struct CheckReport {
  uint64_t frames = 0;
  uint64_t snapped = 0;
  std::array<uint64_t, kRuleCount> counts{};
  std::vector<Finding> findings;  // in order of frames
  std::string incomplete;         // why the capture ended before its end; empty if it did not

  uint64_t count(Rule rule) const { return counts[static_cast<size_t>(rule)]; }
  uint64_t count(Severity severity) const;
  uint64_t errors() const { return count(Severity::kError); }
  uint64_t warnings() const { return count(Severity::kWarning); }
  // No error and no warning; notes do not matter.
  bool clean() const { return errors() == 0 && warnings() == 0; }
  // One line per finding of at least `from`, then a summary line.
  std::string ToString(Severity from = Severity::kNote) const;
};

class CaptureChecker {
 public:
  explicit CaptureChecker(CheckerOptions options = {});
  ~CaptureChecker();
  CaptureChecker(const CaptureChecker&) = delete;
  CaptureChecker& operator=(const CaptureChecker&) = delete;

  // Judges one frame; memory for what spans frames (fragments, identifications) is bounded.
  void Check(const Frame& frame);

  const CheckReport& report() const { return report_; }

 private:
  struct Memory;

  CheckerOptions options_;
  CheckReport report_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tapwire::capture
