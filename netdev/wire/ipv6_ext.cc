// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ipv6_ext.h"

#include <algorithm>

namespace tapwire::wire {
namespace {

// The length of the extension header that `bytes` begin with, or 0 if they cannot hold it.
// RFC 8200 §4: units of eight bytes without the first eight; the fragment header has no length
// field; RFC 4302 §2.2: the authentication header counts four-byte units less two.
size_t ExtensionLength(uint8_t type, std::span<const uint8_t> bytes) {
  if (bytes.size() < 8) return 0;
  size_t length = (bytes[1] + size_t{1}) * 8;
  if (type == IpProtocol::kIpv6Fragment) length = Ipv6FragmentHeader::kLength;
  if (type == IpProtocol::kAh) length = std::max<size_t>((bytes[1] + size_t{2}) * 4, 8);
  return length <= bytes.size() ? length : 0;
}

}  // namespace

std::optional<Ipv6Option> Ipv6OptionIterator::Next() {
  if (malformed_ || pos_ >= header_.size()) return std::nullopt;
  const uint8_t type = header_[pos_];
  // RFC 8200 §4.2: Pad1 has neither length nor data.
  if (type == Ipv6OptionType::kPad1) return Ipv6Option{.type = type, .offset = pos_++};
  const size_t left = header_.size() - pos_;
  if (left < 2 || size_t{2} + header_[pos_ + 1] > left) {
    malformed_ = true;
    return std::nullopt;
  }
  const size_t data_length = header_[pos_ + 1];
  const Ipv6Option option{
      .type = type, .offset = pos_, .data = header_.subspan(pos_ + 2, data_length)};
  pos_ += 2 + data_length;
  return option;
}

void Ipv6OptionsFields::Emit(std::span<uint8_t> out) const {
  const size_t total = length();
  out[0] = next_header;
  out[1] = static_cast<uint8_t>(total / 8 - 1);
  uint8_t* pad = std::copy(options.begin(), options.end(), out.data() + 2);
  uint8_t* const end = out.data() + total;
  if (pad == end) return;
  if (end - pad == 1) {
    *pad = Ipv6OptionType::kPad1;
    return;
  }
  pad[0] = Ipv6OptionType::kPadN;
  pad[1] = static_cast<uint8_t>(end - pad - 2);
  std::fill(pad + 2, end, uint8_t{0});
}

Ipv6OptionsFields Ipv6OptionsFields::From(const Ipv6OptionsHeader& h) {
  const auto options = h.bytes().subspan(2);
  return {.next_header = h.next_header(), .options = {options.begin(), options.end()}};
}

void Ipv6RoutingFields::Emit(std::span<uint8_t> out) const {
  const size_t total = length();
  out[0] = next_header;
  out[1] = static_cast<uint8_t>(total / 8 - 1);
  out[2] = routing_type;
  out[3] = segments_left;
  uint8_t* end = std::copy(data.begin(), data.end(), out.data() + 4);
  std::fill(end, out.data() + total, uint8_t{0});
}

Ipv6RoutingFields Ipv6RoutingFields::From(const Ipv6RoutingHeader& h) {
  return {.next_header = h.next_header(),
          .routing_type = h.routing_type(),
          .segments_left = h.segments_left(),
          .data = {h.data().begin(), h.data().end()}};
}

std::optional<Ipv6Extension> Ipv6ExtensionIterator::Next() {
  if (end_ != Ipv6ChainEnd::kNone) return std::nullopt;
  if (non_first_fragment_) return Stop(Ipv6ChainEnd::kFragmentPayload);
  if (next_header_ == IpProtocol::kIpv6NoNext) return Stop(Ipv6ChainEnd::kNoNextHeader);
  if (!IsIpv6Extension(next_header_)) return Stop(Ipv6ChainEnd::kUpperLayer);
  if (headers_left_ == 0) return Stop(Ipv6ChainEnd::kTooManyHeaders);
  const size_t length = ExtensionLength(next_header_, rest_);
  if (length == 0) return Stop(Ipv6ChainEnd::kTruncated);

  const Ipv6Extension extension{.type = next_header_,
                                .offset = offset_,
                                .next_header_offset = next_header_offset_,
                                .bytes = rest_.first(length)};
  if (next_header_ == IpProtocol::kIpv6Fragment) {
    non_first_fragment_ = Ipv6FragmentHeader::Parse(rest_)->fragment_offset() != 0;
  }
  --headers_left_;
  next_header_ = rest_[0];
  next_header_offset_ = offset_;
  offset_ += length;
  rest_ = rest_.subspan(length);
  return extension;
}

}  // namespace tapwire::wire
