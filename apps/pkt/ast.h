// SPDX-License-Identifier: Apache-2.0
// What a script says, as plain data. Sequence numbers are the script's own, not those on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/pkt/lexer.h"
#include "netdev/base/time.h"

namespace tapwire::pkt {

// ---- When ----

enum class TimeKind : uint8_t {
  kAbsolute,       // 0.1
  kRelative,       // +0.1, counted from the event before
  kAny,            // *
  kAbsoluteRange,  // 0.1~0.2
  kRelativeRange,  // +0.1~+0.2
};

struct TimeSpec {
  TimeKind kind = TimeKind::kRelative;
  Duration start{};
  Duration end{};                         // of a range; else equal to start
  std::optional<Duration> blocking = {};  // 0.1...0.2: when a blocking call returns
};

// ---- Expressions in system calls ----

struct Expr;

// One member of a `{…}`: `name = value`, `name(size) = value`, or the value alone.
struct Field {
  std::string name;
  std::vector<Expr> size;   // one or none
  std::vector<Expr> value;  // exactly one

  inline const Expr& get() const;
};

struct Expr {
  enum class Kind : uint8_t {
    kEllipsis,
    kInteger,
    kWord,  // symbolic constant, or a name nobody knows
    kString,
    kOr,      // items or-ed together
    kArray,   // [ items ]
    kStruct,  // { fields }
    kCall,    // text(items): htons(80), inet_addr("…")
  };
  Kind kind = Kind::kEllipsis;
  Pos pos;
  int64_t integer = 0;
  std::string text;
  std::vector<Expr> items;
  std::vector<Field> fields;

  bool IsEllipsis() const { return kind == Kind::kEllipsis; }
  // The member of that name; null if there is none.
  const Expr* Find(absl::string_view name) const {
    for (const Field& field : fields) {
      if (field.name == name) return &field.get();
    }
    return nullptr;
  }
};

inline const Expr& Field::get() const { return value.front(); }

// ---- Packets ----

enum class EcnSpec : uint8_t { kUnchecked, kNotEct, kEct0, kEct1, kEct01, kCe };

struct IpSpec {
  EcnSpec ecn = EcnSpec::kUnchecked;
  std::optional<uint8_t> tos = {};  // or traffic class
  std::optional<uint8_t> ttl = {};  // or hop limit
  std::optional<uint32_t> flow_label = {};
};

enum class OptionKind : uint8_t {
  kEol,
  kNop,
  kMss,
  kWindowScale,
  kSackPermitted,
  kSack,
  kTimestamps,
  kFastOpen,              // kind 34
  kFastOpenExperimental,  // kind 254, 0xf989
  kMd5,                   // kind 19
  kOther,                 // only in what the stack sent: value is the kind
};

struct OptionSpec {
  OptionKind kind = OptionKind::kNop;
  uint32_t value = 0;  // MSS, shift, TSval
  uint32_t echo = 0;   // TSecr
  std::vector<std::pair<uint32_t, uint32_t>> sacks = {};
  std::vector<uint8_t> bytes = {};  // cookie, digest
};

struct TcpSpec {
  uint8_t flags = 0;  // as on the wire
  uint32_t seq = 0;
  uint32_t length = 0;  // of the payload
  std::optional<uint32_t> ack = {};
  std::optional<uint16_t> window = {};  // as on the wire, not scaled
  std::optional<uint16_t> urgent = {};
  bool any_options = false;  // <...>
  std::vector<OptionSpec> options = {};
};

struct UdpSpec {
  uint32_t length = 0;
};

// The packet of ours that an ICMP error quotes.
struct QuoteSpec {
  bool udp = false;
  uint32_t seq = 0;
  uint32_t length = 0;
};

struct IcmpSpec {
  std::string type;       // a name of the script's language, or a number
  std::string code = {};  // the same; empty: 0
  std::optional<uint32_t> mtu = {};
  std::optional<uint16_t> id = {};
  std::optional<uint16_t> sequence = {};
  uint32_t length = 0;  // payload of an echo
  std::optional<QuoteSpec> quote = {};
};

struct PacketSpec {
  bool inbound = true;  // '<': to the stack
  IpSpec ip;
  std::variant<TcpSpec, UdpSpec, IcmpSpec> body;
};

// ---- Events ----

struct SyscallSpec {
  std::string name;
  std::vector<Expr> args;
  Expr result;        // kEllipsis: anything
  std::string error;  // "EAGAIN"; empty: none
};

struct ShellSpec {
  std::string command;
};

struct CodeSpec {
  std::string text;
};

struct Event {
  Pos pos;
  TimeSpec time;
  std::variant<PacketSpec, SyscallSpec, ShellSpec, CodeSpec> what;
};

struct ScriptOption {
  std::string name, value;
  Pos pos;
};

struct Script {
  std::vector<ScriptOption> options;
  std::vector<Event> events;  // the commands before the first time too, at time 0
};

}  // namespace tapwire::pkt
