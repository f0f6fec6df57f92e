// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ipv4.h"

#include "netdev/wire/checksum.h"

namespace tapwire::wire {

std::optional<Ipv4Option> Ipv4OptionIterator::Next() {
  if (malformed_ || pos_ >= options_.size()) return std::nullopt;
  const uint8_t type = options_[pos_];
  if (type == Ipv4OptionType::kEndOfList) {
    pos_ = options_.size();
    return std::nullopt;
  }
  if (type == Ipv4OptionType::kNop) return Ipv4Option{.type = type, .offset = pos_++};
  // RFC 791 §3.1: the length counts the type and length bytes too.
  const size_t left = options_.size() - pos_;
  const size_t length = left >= 2 ? options_[pos_ + 1] : 0;
  if (length < 2 || length > left) {
    malformed_ = true;
    return std::nullopt;
  }
  const Ipv4Option option{
      .type = type, .offset = pos_, .data = options_.subspan(pos_ + 2, length - 2)};
  pos_ += length;
  return option;
}

bool Ipv4Header::HeaderChecksumOk() const { return ChecksumOf(bytes()) == 0; }

void Ipv4Fields::Emit(std::span<uint8_t> out) const {
  const size_t header_length = length();
  const uint32_t flags = (dont_fragment ? 0x4000u : 0u) | (more_fragments ? 0x2000u : 0u);
  const uint32_t offset = static_cast<uint32_t>(fragment_offset / 8) & 0x1fff;
  const auto start = static_cast<uint16_t>(0x4000 | header_length / 4 << 8 | tos);
  const auto fragment = static_cast<uint16_t>(flags | offset);
  const auto ttl_protocol = static_cast<uint16_t>(ttl << 8 | protocol);
  StoreBe16(out.data(), start);
  StoreBe16(out.data() + 2, total_length);
  StoreBe16(out.data() + 4, identification);
  StoreBe16(out.data() + 6, fragment);
  StoreBe16(out.data() + 8, ttl_protocol);
  source.CopyTo(out.data() + 12);
  destination.CopyTo(out.data() + 16);
  uint8_t* end = std::copy_n(options.data(), options.size(), out.data() + Ipv4Header::kMinLength);
  std::fill(end, out.data() + header_length, uint8_t{0});

  // Summed from the values: wide loads of bytes just stored one by one would stall.
  InternetChecksum sum;
  sum.AddBe16(start);
  sum.AddBe16(total_length);
  sum.AddBe16(identification);
  sum.AddBe16(fragment);
  sum.AddBe16(ttl_protocol);
  sum.AddBe32(source.value());
  sum.AddBe32(destination.value());
  sum.Add(out.subspan(Ipv4Header::kMinLength, header_length - Ipv4Header::kMinLength));
  StoreBe16(out.data() + 10, sum.Finish());
}

Ipv4Fields Ipv4Fields::From(const Ipv4Header& h) {
  return {.tos = h.tos(),
          .total_length = h.total_length(),
          .identification = h.identification(),
          .dont_fragment = h.dont_fragment(),
          .more_fragments = h.more_fragments(),
          .fragment_offset = h.fragment_offset(),
          .ttl = h.ttl(),
          .protocol = h.protocol(),
          .source = h.source(),
          .destination = h.destination(),
          .options = InlineBytes<40>(h.options())};
}

Ipv4HeaderError ValidateIpv4Header(std::span<const uint8_t> bytes) {
  if (bytes.size() < Ipv4Header::kMinLength) return Ipv4HeaderError::kTruncated;
  if (bytes[0] >> 4 != 4) return Ipv4HeaderError::kVersion;
  const size_t header_length = size_t{4} * (bytes[0] & 0x0f);
  if (header_length < Ipv4Header::kMinLength) return Ipv4HeaderError::kIhl;
  if (header_length > bytes.size()) return Ipv4HeaderError::kTruncated;
  const size_t total_length = LoadBe16(bytes.data() + 2);
  if (total_length < header_length || total_length > bytes.size()) {
    return Ipv4HeaderError::kTotalLength;
  }
  return Ipv4HeaderError::kNone;
}

}  // namespace tapwire::wire
