// SPDX-License-Identifier: Apache-2.0
//
// ARP (RFC 826) for IPv4 over Ethernet, the only combination in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::wire {

struct ArpOperation {
  static constexpr uint16_t kRequest = 1;
  static constexpr uint16_t kReply = 2;
};

inline constexpr uint16_t kArpHardwareEthernet = 1;

class ArpHeader {
 public:
  static constexpr size_t kLength = 28;
  static constexpr size_t kMinLength = kLength;

  // nullopt if there are fewer than 28 bytes. The address accessors make sense only when
  // IsIpv4OverEthernet(); otherwise the sender and target lie elsewhere.
  static std::optional<ArpHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return ArpHeader(bytes.first(kLength));
  }

  // RFC 826 "Packet format" names: ar$hrd, ar$pro, ar$hln, ar$pln, ar$op.
  uint16_t hardware_type() const { return LoadBe16(bytes_.data()); }
  uint16_t protocol_type() const { return LoadBe16(bytes_.data() + 2); }
  uint8_t hardware_length() const { return bytes_[4]; }
  uint8_t protocol_length() const { return bytes_[5]; }
  uint16_t operation() const { return LoadBe16(bytes_.data() + 6); }
  MacAddress sender_hardware_address() const { return MacAddress::FromBytes(bytes_.subspan(8, 6)); }
  Ipv4Address sender_protocol_address() const {
    return Ipv4Address::FromBytes(bytes_.subspan(14, 4));
  }
  MacAddress target_hardware_address() const {
    return MacAddress::FromBytes(bytes_.subspan(18, 6));
  }
  Ipv4Address target_protocol_address() const {
    return Ipv4Address::FromBytes(bytes_.subspan(24, 4));
  }

  // RFC 826 "Packet Reception": the type checks, with the optional length checks.
  bool IsIpv4OverEthernet() const {
    return hardware_type() == kArpHardwareEthernet && protocol_type() == EtherType::kIpv4 &&
           hardware_length() == 6 && protocol_length() == 4;
  }

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit ArpHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct ArpFields {
  uint16_t hardware_type = kArpHardwareEthernet;
  uint16_t protocol_type = EtherType::kIpv4;
  uint8_t hardware_length = 6;
  uint8_t protocol_length = 4;
  uint16_t operation = ArpOperation::kRequest;
  MacAddress sender_hardware_address = {};
  Ipv4Address sender_protocol_address = {};
  MacAddress target_hardware_address = {};
  Ipv4Address target_protocol_address = {};

  static constexpr size_t length() { return ArpHeader::kLength; }
  void Emit(std::span<uint8_t> out) const {
    StoreBe16(out.data(), hardware_type);
    StoreBe16(out.data() + 2, protocol_type);
    out[4] = hardware_length;
    out[5] = protocol_length;
    StoreBe16(out.data() + 6, operation);
    sender_hardware_address.CopyTo(out.data() + 8);
    sender_protocol_address.CopyTo(out.data() + 14);
    target_hardware_address.CopyTo(out.data() + 18);
    target_protocol_address.CopyTo(out.data() + 24);
  }
  static ArpFields From(const ArpHeader& h) {
    return {.hardware_type = h.hardware_type(),
            .protocol_type = h.protocol_type(),
            .hardware_length = h.hardware_length(),
            .protocol_length = h.protocol_length(),
            .operation = h.operation(),
            .sender_hardware_address = h.sender_hardware_address(),
            .sender_protocol_address = h.sender_protocol_address(),
            .target_hardware_address = h.target_hardware_address(),
            .target_protocol_address = h.target_protocol_address()};
  }
  bool operator==(const ArpFields&) const = default;
};

}  // namespace tapwire::wire
