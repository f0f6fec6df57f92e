// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/igmp.h"

#include <algorithm>

namespace tapwire::wire {
namespace {

// RFC 9776 §4.1.2: over the whole message, with the field zero.
void FillChecksum(std::span<uint8_t> message) {
  StoreBe16(message.data() + 2, 0);
  StoreBe16(message.data() + 2, ChecksumOf(message));
}

}  // namespace

void IgmpFields::Emit(std::span<uint8_t> out) const {
  out[0] = type;
  out[1] = max_resp_code;
  group_address.CopyTo(out.data() + 4);
  FillChecksum(out.first(length()));
}

void Igmpv3QueryFields::Emit(std::span<uint8_t> out) const {
  out[0] = IgmpType::kQuery;
  out[1] = max_resp_code;
  group_address.CopyTo(out.data() + 4);
  out[8] = static_cast<uint8_t>((suppress_router_processing ? 0x08 : 0) | (qrv & 0x07));
  out[9] = qqic;
  StoreBe16(out.data() + 10, static_cast<uint16_t>(sources.size()));
  uint8_t* p = out.data() + Igmpv3QueryHeader::kMinLength;
  for (const Ipv4Address& source : sources) {
    source.CopyTo(p);
    p += Ipv4Address::kLength;
  }
  FillChecksum(out.first(length()));
}

Igmpv3QueryFields Igmpv3QueryFields::From(const Igmpv3QueryHeader& h) {
  Igmpv3QueryFields fields{.max_resp_code = h.max_resp_code(),
                           .group_address = h.group_address(),
                           .suppress_router_processing = h.suppress_router_processing(),
                           .qrv = h.qrv(),
                           .qqic = h.qqic()};
  for (size_t i = 0; i < h.number_of_sources(); ++i) fields.sources.push_back(h.source(i));
  return fields;
}

std::optional<Igmpv3RecordView> Igmpv3RecordIterator::Next() {
  if (malformed_ || left_ == 0) return std::nullopt;
  size_t length = 0;
  if (rest_.size() >= Igmpv3RecordView::kMinLength) {
    // RFC 9776 §4.2.6: auxiliary data is counted in units of four bytes.
    length = Igmpv3RecordView::kMinLength + size_t{4} * LoadBe16(rest_.data() + 2) +
             size_t{4} * rest_[1];
  }
  if (length == 0 || length > rest_.size()) {
    malformed_ = true;
    return std::nullopt;
  }
  const Igmpv3RecordView record(rest_.first(length));
  rest_ = rest_.subspan(length);
  --left_;
  return record;
}

size_t Igmpv3ReportFields::length() const {
  size_t total = Igmpv3ReportHeader::kMinLength;
  for (const Igmpv3Record& record : records) total += record.length();
  return total;
}

void Igmpv3ReportFields::Emit(std::span<uint8_t> out) const {
  out[0] = IgmpType::kV3Report;
  out[1] = 0;
  StoreBe16(out.data() + 4, 0);
  StoreBe16(out.data() + 6, static_cast<uint16_t>(records.size()));
  uint8_t* p = out.data() + Igmpv3ReportHeader::kMinLength;
  for (const Igmpv3Record& record : records) {
    p[0] = record.record_type;
    p[1] = 0;
    StoreBe16(p + 2, static_cast<uint16_t>(record.sources.size()));
    record.multicast_address.CopyTo(p + 4);
    p += Igmpv3RecordView::kMinLength;
    for (const Ipv4Address& source : record.sources) {
      source.CopyTo(p);
      p += Ipv4Address::kLength;
    }
  }
  FillChecksum(out.first(length()));
}

Igmpv3ReportFields Igmpv3ReportFields::From(const Igmpv3ReportHeader& h) {
  Igmpv3ReportFields fields;
  auto it = h.records();
  while (const auto view = it.Next()) {
    Igmpv3Record& record = fields.records.emplace_back();
    record.record_type = view->record_type();
    record.multicast_address = view->multicast_address();
    for (size_t i = 0; i < view->number_of_sources(); ++i) {
      record.sources.push_back(view->source(i));
    }
  }
  return fields;
}

}  // namespace tapwire::wire
