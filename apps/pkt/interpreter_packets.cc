// SPDX-License-Identifier: Apache-2.0
// Packets of the script: those it sends and those it waits for.

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pkt/interpreter.h"
#include "apps/pkt/match.h"
#include "apps/pkt/packet_text.h"

namespace tapwire::pkt {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08;
// Payload that fits in a datagram with the largest headers.
constexpr uint32_t kMaxPiece = 65000;

}  // namespace

// ---- To the stack ----

void Interpreter::Inject(const Event& event, const PacketSpec& packet) {
  Note(event, PacketText(packet, family()));
  bool injected = true;
  if (std::holds_alternative<TcpSpec>(packet.body)) {
    injected = InjectTcp(packet);
  } else if (std::holds_alternative<UdpSpec>(packet.body)) {
    Flow& flow = session_.ForInbound(/*udp=*/true);
    injected = host_->Inject(BuildDatagram(flow.Inbound(), packet, 0));
  } else {
    injected = InjectIcmp(event, packet);
  }
  if (!injected) return Fail(event, "no memory for the packet");
  if (stopped()) return;
  Settle();
  Finish(event, now());
}

// A segment that no datagram holds goes in several.
bool Interpreter::InjectTcp(const PacketSpec& packet) {
  Flow& flow = session_.ForInbound(/*udp=*/false);
  const TcpSpec script = std::get<TcpSpec>(packet.body);
  const TcpSpec wire = flow.ToWire(script);
  const uint32_t first = script.seq + ((script.flags & kSyn) != 0 ? 1u : 0u);
  uint32_t done = 0;
  do {
    PacketSpec piece = packet;
    TcpSpec& tcp = piece.body.emplace<TcpSpec>(wire);
    tcp.length = std::min(wire.length - done, kMaxPiece);
    tcp.seq = wire.seq + done;
    const bool last = done + tcp.length == wire.length;
    if (!last) tcp.flags = static_cast<uint8_t>(tcp.flags & ~(kFin | kPsh));
    if (done > 0) {
      tcp.flags = static_cast<uint8_t>(tcp.flags & ~kSyn);
      tcp.seq = wire.seq + done + (first - script.seq);
    }
    if (!host_->Inject(BuildDatagram(flow.Inbound(), piece, first + done))) return false;
    done += tcp.length;
  } while (done < wire.length);
  return true;
}

bool Interpreter::InjectIcmp(const Event& event, const PacketSpec& packet) {
  IcmpSpec icmp = std::get<IcmpSpec>(packet.body);
  Ends quoted{{options_.net.local(), 0, 0}, {options_.net.remote(), 0, 0}};
  if (icmp.quote) {
    const auto& flow = session_.current();
    if (!flow || flow->udp() != icmp.quote->udp) {
      Fail(event, "the packet quoted belongs to no connection");
      return true;
    }
    quoted = flow->Outbound();
    icmp.quote->seq = flow->LocalToWire(icmp.quote->seq);
  }
  const auto bytes = BuildIcmp(quoted, packet.ip, icmp);
  if (!bytes) {
    Fail(event, "no such ICMP message in this IP version");
    return true;
  }
  return host_->Inject(*bytes);
}

// ---- From the stack ----

Interpreter::Progress Interpreter::Expect(const Event& event, const PacketSpec& packet) {
  const Time latest = window_->end + window_->tolerance;
  for (;;) {
    const Progress progress = TakeSent(event, packet);
    if (progress != Progress::kMore) return progress;
    if (now() >= latest) {
      ReportMissing(event, packet);
      return Progress::kDone;
    }
    if (Interrupted()) return Progress::kInterrupted;
    Time limit = latest;
    if (blocked_ != nullptr && blocked_->deadline) limit = std::min(limit, *blocked_->deadline);
    AdvanceStep(limit);
    if (stopped()) return Progress::kDone;
  }
}

// What the stack has sent so far, until the packet is there.
Interpreter::Progress Interpreter::TakeSent(const Event& event, const PacketSpec& expected) {
  auto& sent = host_->sent();
  while (!sent.empty()) {
    const SentDatagram datagram = std::move(sent.front());
    sent.pop_front();
    std::optional<ParsedDatagram> actual = ParseDatagram(datagram.bytes);
    if (!actual) continue;
    if (!actual->damage.empty()) {
      Fail(event, absl::StrCat("the stack sent a damaged packet: ", actual->damage,
                               "\n  actual:   ", TimeText(Elapsed(datagram.time)), " ",
                               PacketText(actual->packet, family())));
      return Progress::kDone;
    }
    if (!Belongs(expected, *actual)) continue;
    const Progress progress = Compare(event, expected, *actual, datagram.time);
    if (progress != Progress::kMore) return progress;
  }
  return Progress::kMore;
}

bool Interpreter::Belongs(const PacketSpec& expected, const ParsedDatagram& actual) {
  if (std::holds_alternative<IcmpSpec>(actual.packet.body)) {
    return std::holds_alternative<IcmpSpec>(expected.body);
  }
  const auto& flow = session_.current();
  const bool udp = std::holds_alternative<UdpSpec>(actual.packet.body);
  return flow && flow->Owns(actual.ends, udp);
}

Interpreter::Progress Interpreter::Compare(const Event& event, const PacketSpec& expected,
                                           ParsedDatagram& actual, Time when) {
  PacketSpec whole = actual.packet;
  const auto* wanted = std::get_if<TcpSpec>(&expected.body);
  if (auto* tcp = std::get_if<TcpSpec>(&whole.body); tcp != nullptr && session_.current()) {
    Flow& flow = *session_.current();
    if (wanted != nullptr) flow.LearnIsn(*wanted, *tcp);
    *tcp = flow.ToScript(*tcp);
    std::string why = PayloadProblem(actual, tcp->seq);
    if (!why.empty()) {
      ReportMismatch(event, expected, whole, why, when);
      return Progress::kDone;
    }
    if (wanted != nullptr && partial_) {
      TcpSpec sum = std::get<TcpSpec>(partial_->packet.body);
      if (!Append(sum, *tcp)) {
        ReportMismatch(event, expected, whole, "another segment amid an expected one", when);
        return Progress::kDone;
      }
      sum.window = tcp->window;
      *tcp = sum;
      when = partial_->when;
    }
    const bool shorter = wanted != nullptr && !options_.strict_segments && tcp->length > 0 &&
                         tcp->length < wanted->length && tcp->seq == wanted->seq &&
                         (tcp->flags & (kSyn | kRst | kFin)) == 0;
    if (shorter) {
      partial_ = Partial{whole, when};
      return Progress::kMore;
    }
  }
  std::string why = Mismatch(expected, whole, family());
  if (why.empty() && wanted != nullptr) {
    why = TimestampProblem(*wanted, std::get<TcpSpec>(whole.body));
  }
  if (why.empty()) why = TimeProblem(when);
  if (!why.empty()) {
    window_->start = window_->any ? when : window_->start;
    ReportMismatch(event, expected, whole, why, when);
    return Progress::kDone;
  }
  if (wanted != nullptr) {
    const OptionSpec* script = FindTimestamps(*wanted);
    const OptionSpec* wire = FindTimestamps(std::get<TcpSpec>(whole.body));
    if (script != nullptr && wire != nullptr) {
      session_.current()->LearnTimestamp(script->value, wire->value);
    }
  }
  Note(event, PacketText(whole, family()));
  partial_.reset();
  Finish(event, when);
  return Progress::kDone;
}

// The bytes are those that were written, wherever the segment says they belong.
std::string Interpreter::PayloadProblem(const ParsedDatagram& actual, uint32_t script_seq) const {
  const auto& flow = session_.current();
  const auto offset = flow->StreamOffset(script_seq);
  if (!offset || flow->urgent_seen) return "";
  const std::string& written = flow->written;
  for (size_t i = 0; i < actual.payload.size(); ++i) {
    const uint64_t at = uint64_t{*offset} + i;
    if (at >= written.size()) return "";
    if (static_cast<uint8_t>(written[at]) != actual.payload[i]) {
      return absl::StrCat("payload byte ", i, " is not what was written at ", at);
    }
  }
  return "";
}

std::string Interpreter::TimeProblem(Time when) const {
  if (window_->any) return "";
  const bool early = when < window_->start - window_->tolerance;
  const bool late = when > window_->end + window_->tolerance;
  if (!early && !late) return "";
  return absl::StrCat("sent at ", TimeText(Elapsed(when)), ", expected at ",
                      TimeText(Elapsed(window_->start)));
}

// With a tick given our clock must advance between two packets as the script says.
std::string Interpreter::TimestampProblem(const TcpSpec& expected, const TcpSpec& actual) const {
  const OptionSpec* script = FindTimestamps(expected);
  const OptionSpec* wire = FindTimestamps(actual);
  if (!options_.timestamp_tick || script == nullptr || wire == nullptr) return "";
  // From the first timestamp on; ours ticks in milliseconds.
  const auto origin = session_.current()->first_timestamp();
  if (!origin) return "";
  const Duration wanted =
      *options_.timestamp_tick * static_cast<int32_t>(script->value - origin->first);
  const Duration found =
      std::chrono::milliseconds(static_cast<int32_t>(wire->value - origin->second));
  const Duration off = wanted > found ? wanted - found : found - wanted;
  if (off <= std::max<Duration>(window_->tolerance, *options_.timestamp_tick)) return "";
  return absl::StrCat("TS val has moved by ", TimeText(found), " s, expected ", TimeText(wanted));
}

// ---- Messages ----

std::string Interpreter::ExpectedLine(const PacketSpec& expected) const {
  const std::string time = window_->any ? "*" : TimeText(Elapsed(window_->start));
  return absl::StrCat("\n  expected: ", time, " ", PacketText(expected, family()));
}

void Interpreter::ReportMismatch(const Event& event, const PacketSpec& expected,
                                 const PacketSpec& actual, const std::string& why, Time when) {
  partial_.reset();
  PacketSpec shown = actual;
  // What the script leaves open is no difference.
  if (expected.ip.ecn == EcnSpec::kUnchecked) shown.ip = {};
  FailPacket(event, absl::StrCat(why, ExpectedLine(expected), "\n  actual:   ",
                                 TimeText(Elapsed(when)), " ", PacketText(shown, family())));
}

// Looks on a little, since what comes next may say why.
void Interpreter::ReportMissing(const Event& event, const PacketSpec& expected) {
  std::string actual = "nothing was sent";
  if (partial_) {
    PacketSpec packet = partial_->packet;
    packet.ip = {};
    actual = absl::StrCat(TimeText(Elapsed(partial_->when)), " ", PacketText(packet, family()),
                          ", and nothing more");
  } else if (blocked_ == nullptr) {
    const Time limit = now() + std::min<Duration>(std::chrono::minutes(5), host_->patience() / 20);
    auto& sent = host_->sent();
    for (int steps = 0; sent.empty() && now() < limit && steps < 10'000; ++steps) {
      AdvanceStep(limit);
    }
    if (!sent.empty()) {
      std::optional<ParsedDatagram> next = ParseDatagram(sent.front().bytes);
      if (next && Belongs(expected, *next)) {
        PacketSpec packet = next->packet;
        packet.ip = {};
        auto* tcp = std::get_if<TcpSpec>(&packet.body);
        if (tcp != nullptr) *tcp = session_.current()->ToScript(*tcp);
        actual =
            absl::StrCat(TimeText(Elapsed(sent.front().time)), " ", PacketText(packet, family()));
      }
    }
  }
  partial_.reset();
  FailPacket(event, absl::StrCat("the packet was not sent", ExpectedLine(expected),
                                 "\n  actual:   ", actual));
}

}  // namespace tapwire::pkt
