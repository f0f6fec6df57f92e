// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/mld.h"

#include <algorithm>

namespace tapwire::wire {

void Mldv2QueryFields::Emit(std::span<uint8_t> out) const {
  Icmpv6Fields{.type = Icmpv6Type::kMldQuery, .rest = uint32_t{maximum_response_code} << 16}.Emit(
      out);
  multicast_address.CopyTo(out.data() + 8);
  out[24] = static_cast<uint8_t>((suppress_router_processing ? 0x08 : 0) | (qrv & 0x07));
  out[25] = qqic;
  StoreBe16(out.data() + 26, static_cast<uint16_t>(sources.size()));
  uint8_t* p = out.data() + Mldv2QueryHeader::kMinLength;
  for (const Ipv6Address& source : sources) {
    source.CopyTo(p);
    p += Ipv6Address::kLength;
  }
}

Mldv2QueryFields Mldv2QueryFields::From(const Mldv2QueryHeader& h) {
  Mldv2QueryFields fields{.maximum_response_code = h.maximum_response_code(),
                          .multicast_address = h.multicast_address(),
                          .suppress_router_processing = h.suppress_router_processing(),
                          .qrv = h.qrv(),
                          .qqic = h.qqic()};
  for (size_t i = 0; i < h.number_of_sources(); ++i) fields.sources.push_back(h.source(i));
  return fields;
}

std::optional<Mldv2RecordView> Mldv2RecordIterator::Next() {
  if (malformed_ || left_ == 0) return std::nullopt;
  size_t length = 0;
  if (rest_.size() >= Mldv2RecordView::kMinLength) {
    // RFC 9777 §5.2.6: auxiliary data is counted in units of four bytes.
    length = Mldv2RecordView::kMinLength + size_t{16} * LoadBe16(rest_.data() + 2) +
             size_t{4} * rest_[1];
  }
  if (length == 0 || length > rest_.size()) {
    malformed_ = true;
    return std::nullopt;
  }
  const Mldv2RecordView record(rest_.first(length));
  rest_ = rest_.subspan(length);
  --left_;
  return record;
}

size_t Mldv2ReportFields::length() const {
  size_t total = Mldv2ReportHeader::kMinLength;
  for (const Mldv2Record& record : records) total += record.length();
  return total;
}

void Mldv2ReportFields::Emit(std::span<uint8_t> out) const {
  Icmpv6Fields{.type = Icmpv6Type::kMldv2Report, .rest = static_cast<uint16_t>(records.size())}
      .Emit(out);
  uint8_t* p = out.data() + Mldv2ReportHeader::kMinLength;
  for (const Mldv2Record& record : records) {
    p[0] = record.record_type;
    p[1] = 0;
    StoreBe16(p + 2, static_cast<uint16_t>(record.sources.size()));
    record.multicast_address.CopyTo(p + 4);
    p += Mldv2RecordView::kMinLength;
    for (const Ipv6Address& source : record.sources) {
      source.CopyTo(p);
      p += Ipv6Address::kLength;
    }
  }
}

Mldv2ReportFields Mldv2ReportFields::From(const Mldv2ReportHeader& h) {
  Mldv2ReportFields fields;
  auto it = h.records();
  while (const auto view = it.Next()) {
    Mldv2Record& record = fields.records.emplace_back();
    record.record_type = view->record_type();
    record.multicast_address = view->multicast_address();
    for (size_t i = 0; i < view->number_of_sources(); ++i) {
      record.sources.push_back(view->source(i));
    }
  }
  return fields;
}

}  // namespace tapwire::wire
