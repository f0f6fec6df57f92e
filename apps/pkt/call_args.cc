// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/call_args.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pkt/symbols.h"

namespace tapwire::pkt {
namespace {

// What one call may read or write; scripts stay far below.
constexpr int64_t kMaxBuffer = 64 << 20;

const Expr* FirstWithText(const Expr& expr) {
  if (expr.kind == Expr::Kind::kString) return &expr;
  for (const Expr& item : expr.items) {
    if (const Expr* found = FirstWithText(item)) return found;
  }
  return nullptr;
}

}  // namespace

sockaddr_storage ToSockaddr(const Endpoint& endpoint, bool v6) {
  sockaddr_storage storage{};
  if (endpoint.address.is_v4() && !v6) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    endpoint.address.v4().CopyTo(reinterpret_cast<uint8_t*>(&in.sin_addr));
    std::memcpy(&storage, &in, sizeof(in));
    return storage;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(endpoint.port);
  const Ipv6Address address = endpoint.address.is_v6()
                                  ? endpoint.address.v6()
                                  : Ipv6Address::FromV4Mapped(endpoint.address.v4());
  address.CopyTo(in6.sin6_addr.s6_addr);
  std::memcpy(&storage, &in6, sizeof(in6));
  return storage;
}

Endpoint FromSockaddr(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage, sizeof(in));
    return {Ipv4Address::FromHostOrder(ntohl(in.sin_addr.s_addr)), ntohs(in.sin_port), 0};
  }
  sockaddr_in6 in6{};
  std::memcpy(&in6, &storage, sizeof(in6));
  const Ipv6Address address = Ipv6Address::FromBytes(in6.sin6_addr.s6_addr);
  const uint16_t port = ntohs(in6.sin6_port);
  if (address.IsV4Mapped()) return {address.EmbeddedV4(), port, 0};
  return {address, port, 0};
}

bool CallArgs::Count(size_t least, size_t most) {
  if (size() >= least && size() <= most) return true;
  Fail(absl::StrCat(call_.name, "() with ", size(), " arguments"));
  return false;
}

int64_t CallArgs::WordValue(const std::string& word) {
  const auto value = FindSymbol(word);
  if (!value) Unsupported(absl::StrCat("name ", word));
  return value.value_or(0);
}

int64_t CallArgs::Number(const Expr& expr) {
  int64_t value = 0;
  switch (expr.kind) {
    case Expr::Kind::kInteger:
      return expr.integer;
    case Expr::Kind::kWord:
      return WordValue(expr.text);
    case Expr::Kind::kOr:
      for (const Expr& item : expr.items) value |= Number(item);
      return value;
    case Expr::Kind::kArray:
    case Expr::Kind::kCall:
      if (expr.items.size() == 1) return Number(expr.items[0]);
      break;
    default:
      break;
  }
  Fail(absl::StrCat("argument of ", call_.name, "() is not a number"));
  return 0;
}

sockaddr_storage CallArgs::Address(const Expr& expr, const ScriptSocket* socket,
                                   const Endpoint& fallback) {
  const bool v6 = socket != nullptr && socket->v6;
  if (expr.IsEllipsis()) return ToSockaddr(fallback, v6);
  if (expr.kind != Expr::Kind::kStruct) {
    Fail("an address is {…} or ...");
    return {};
  }
  int64_t family = v6 ? AF_INET6 : AF_INET;
  Endpoint endpoint = fallback;
  for (const Field& field : expr.fields) {
    if (absl::EndsWith(field.name, "family")) {
      family = Number(field.get());
    } else if (absl::EndsWith(field.name, "port")) {
      endpoint.port = static_cast<uint16_t>(Number(field.get()));
    } else if (absl::EndsWith(field.name, "addr")) {
      if (field.get().IsEllipsis()) continue;
      const Expr* text = FirstWithText(field.get());
      const auto address = text != nullptr ? IpAddress::Parse(text->text) : std::nullopt;
      if (address) {
        endpoint.address = *address;
      } else if (field.get().kind == Expr::Kind::kWord && field.get().text == "INADDR_ANY") {
        endpoint.address = IpAddress::Unspecified(IpFamily::kV4);
      } else {
        Fail("address that is none");
      }
    }
  }
  sockaddr_storage storage = ToSockaddr(endpoint, family == AF_INET6);
  storage.ss_family = static_cast<sa_family_t>(family);
  return storage;
}

void CallArgs::AddBuffer(IoBuffers& buffers, const Expr& data, int64_t length) {
  if (length < 0 || length > kMaxBuffer ||
      buffers.total() + static_cast<size_t>(length) > kMaxBuffer) {
    return Fail("buffer length out of range");
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  if (data.kind == Expr::Kind::kString) {
    std::copy_n(data.text.begin(), std::min(data.text.size(), bytes.size()), bytes.begin());
  }
  buffers.data.push_back(std::move(bytes));
}

namespace {

void PointInto(IoBuffers& buffers) {
  buffers.iov.clear();
  for (std::string& part : buffers.data) buffers.iov.push_back({part.data(), part.size()});
}

}  // namespace

IoBuffers CallArgs::Buffers(const Expr& array) {
  IoBuffers buffers;
  if (array.kind != Expr::Kind::kArray) Fail("expected a list of buffers");
  for (const Expr& item : array.items) {
    if (item.kind != Expr::Kind::kStruct || item.fields.size() != 2) {
      Fail("a buffer is {…, length}");
      break;
    }
    AddBuffer(buffers, item.fields[0].get(), Number(item.fields[1].get()));
  }
  PointInto(buffers);
  return buffers;
}

IoBuffers CallArgs::Buffer(const Expr& data, const Expr& length) {
  IoBuffers buffers;
  AddBuffer(buffers, data, Number(length));
  PointInto(buffers);
  return buffers;
}

}  // namespace tapwire::pkt
