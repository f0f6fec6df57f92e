// SPDX-License-Identifier: Apache-2.0
// System calls that move data. What is written is a pattern that the packets are compared with,
// what is read is compared with the pattern of the peer's packets (PeerByte).

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/pkt/calls.h"
#include "apps/pkt/datagram.h"

namespace tapwire::pkt {
namespace {

// Bytes that the script leaves open (`...`) get a pattern by their place in the stream.
void FillPattern(std::string& data, size_t place) {
  for (size_t i = 0; i < data.size(); ++i) {
    const size_t at = place + i;
    data[i] = static_cast<char>(at * 13 + (at >> 8) + 5);
  }
}

bool IsOpen(const Expr& data) { return data.kind != Expr::Kind::kString; }

// Which of the buffers of a call were left open.
void Fill(IoBuffers& buffers, const std::vector<const Expr*>& exprs, size_t place) {
  for (size_t i = 0; i < buffers.data.size(); ++i) {
    if (i < exprs.size() && IsOpen(*exprs[i])) FillPattern(buffers.data[i], place);
    place += buffers.data[i].size();
  }
}

std::vector<const Expr*> DataExprs(const Expr& array) {
  std::vector<const Expr*> exprs;
  for (const Expr& item : array.items) {
    if (!item.fields.empty()) exprs.push_back(&item.fields[0].get());
  }
  return exprs;
}

std::string Joined(const IoBuffers& buffers, size_t length) {
  std::string all;
  for (const std::string& part : buffers.data) all += part;
  all.resize(std::min(all.size(), length));
  return all;
}

// The first byte that is not what the peer sent.
std::string WrongByte(const std::string& data, uint32_t first) {
  for (size_t i = 0; i < data.size(); ++i) {
    const uint32_t at = first + static_cast<uint32_t>(i);
    if (static_cast<uint8_t>(data[i]) == PeerByte(at)) continue;
    return absl::StrCat("byte ", i, " of the data read is not what the peer sent at ", at);
  }
  return "";
}

}  // namespace

int64_t Calls::Receive(CallArgs& args, IoBuffers& buffers, msghdr& message, int flags) {
  if (args.failed()) return 0;
  message.msg_iov = buffers.iov.data();
  message.msg_iovlen = buffers.iov.size();
  const int fd = args.ScriptFd(0);
  const int64_t result = table().RecvMsg(args.Fd(0), &message, flags);
  const ScriptSocket* socket = session_.Find(fd);
  if (result <= 0 || socket == nullptr) return result;
  const auto count = static_cast<size_t>(result);
  std::string why;
  if (socket->udp) {
    why = WrongByte(Joined(buffers, count), 0);
  } else if (const auto& flow = socket->flow; flow && flow->first_peer_byte()) {
    const uint32_t first = *flow->first_peer_byte() + static_cast<uint32_t>(flow->bytes_read);
    const bool plain = !flow->urgent_seen && (flags & (MSG_OOB | MSG_TRUNC)) == 0;
    if (plain) why = WrongByte(Joined(buffers, count), first);
    if ((flags & (MSG_PEEK | MSG_OOB)) == 0) flow->bytes_read += count;
  }
  if (!why.empty()) args.Fail(why);
  return result;
}

int64_t Calls::Transmit(CallArgs& args, IoBuffers& buffers, msghdr& message, int flags) {
  if (args.failed()) return 0;
  message.msg_iov = buffers.iov.data();
  message.msg_iovlen = buffers.iov.size();
  const int fd = args.ScriptFd(0);
  const ScriptSocket* socket = session_.Find(fd);
  const auto flow = socket != nullptr ? socket->flow : nullptr;
  // Noted before the call: what is sent while it blocks is compared with it.
  const size_t before = flow ? flow->written.size() : 0;
  if (flow) {
    flow->written += Joined(buffers, buffers.total());
    if ((flags & MSG_OOB) != 0) flow->urgent_seen = true;
  }
  const int64_t result = table().SendMsg(args.Fd(0), &message, flags);
  if (flow) flow->written.resize(before + static_cast<size_t>(std::max<int64_t>(result, 0)));
  return result;
}

namespace {

size_t Place(CallArgs& args) {
  const ScriptSocket* socket = args.session().Find(args.ScriptFd(0));
  return socket != nullptr && socket->flow ? socket->flow->written.size() : 0;
}

}  // namespace

int64_t Calls::Read(CallArgs& args) {
  if (!args.Count(3)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  msghdr message{};
  return Receive(args, buffers, message, 0);
}

int64_t Calls::Readv(CallArgs& args) {
  if (!args.Count(3)) return 0;
  IoBuffers buffers = args.Buffers(args.at(1));
  msghdr message{};
  return Receive(args, buffers, message, 0);
}

int64_t Calls::Recv(CallArgs& args) {
  if (!args.Count(4)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  const int flags = args.Int(3);
  msghdr message{};
  return Receive(args, buffers, message, flags);
}

int64_t Calls::RecvFrom(CallArgs& args) {
  if (!args.Count(6)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  const int flags = args.Int(3);
  sockaddr_storage address{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof(address);
  const int64_t result = Receive(args, buffers, message, flags);
  if (result >= 0 && message.msg_namelen != 0) CheckAddress(args, 4, address);
  return result;
}

// Each message that the script names must be there, in that order.
void Calls::CheckControl(CallArgs& args, const Expr& wanted, msghdr& message) {
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  for (const Expr& item : wanted.items) {
    const Expr* level = item.Find("cmsg_level");
    const Expr* type = item.Find("cmsg_type");
    const Expr* data = item.Find("cmsg_data");
    const bool number =
        data != nullptr && (data->kind == Expr::Kind::kInteger || data->kind == Expr::Kind::kWord);
    if (level == nullptr || type == nullptr || !number) {
      return args.Unsupported("ancillary data other than a number");
    }
    if (header == nullptr) return args.Fail("no more ancillary data came");
    int value = 0;
    std::memcpy(&value, CMSG_DATA(header), sizeof(value));
    CheckNumber(args, "cmsg_level", *level, header->cmsg_level);
    CheckNumber(args, "cmsg_type", *type, header->cmsg_type);
    CheckNumber(args, "cmsg_data", *data, value);
    header = CMSG_NXTHDR(&message, header);
  }
}

int64_t Calls::RecvMsg(CallArgs& args) {
  if (!args.Count(3)) return 0;
  const int flags = args.Int(2);
  if (args.at(1).kind != Expr::Kind::kStruct) {
    args.Fail("a message is {msg_name(…)=…, msg_iov(…)=[…], msg_flags=…}");
    return 0;
  }
  const Expr* control = args.at(1).Find("msg_control");
  const bool checks_control =
      control != nullptr && control->kind == Expr::Kind::kArray && !control->items.empty();
  const Expr* iov = args.at(1).Find("msg_iov");
  IoBuffers buffers = iov != nullptr ? args.Buffers(*iov) : IoBuffers();
  msghdr message{};
  alignas(cmsghdr) std::array<char, 512> room = {};
  if (checks_control) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
  }
  const int64_t result = Receive(args, buffers, message, flags);
  if (result >= 0 && checks_control) CheckControl(args, *control, message);
  const Expr* wanted = args.at(1).Find("msg_flags");
  if (result >= 0 && wanted != nullptr) CheckNumber(args, "msg_flags", *wanted, message.msg_flags);
  return result;
}

int64_t Calls::Write(CallArgs& args) {
  if (!args.Count(3)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  Fill(buffers, {&args.at(1)}, Place(args));
  msghdr message{};
  return Transmit(args, buffers, message, 0);
}

int64_t Calls::Writev(CallArgs& args) {
  if (!args.Count(3)) return 0;
  IoBuffers buffers = args.Buffers(args.at(1));
  Fill(buffers, DataExprs(args.at(1)), Place(args));
  msghdr message{};
  return Transmit(args, buffers, message, 0);
}

int64_t Calls::Send(CallArgs& args) {
  if (!args.Count(4)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  Fill(buffers, {&args.at(1)}, Place(args));
  const int flags = args.Int(3);
  msghdr message{};
  return Transmit(args, buffers, message, flags);
}

int64_t Calls::SendTo(CallArgs& args) {
  if (!args.Count(6)) return 0;
  IoBuffers buffers = args.Buffer(args.at(1), args.at(2));
  Fill(buffers, {&args.at(1)}, Place(args));
  const int flags = args.Int(3);
  ScriptSocket* socket = session_.Find(args.ScriptFd(0));
  const NetSetup& setup = session_.setup();
  sockaddr_storage address{};
  msghdr message{};
  const bool null = args.at(4).kind == Expr::Kind::kInteger ||
                    (args.at(4).kind == Expr::Kind::kWord && args.at(4).text == "NULL");
  if (!null) {
    address = args.Address(args.at(4), socket, {setup.remote(), setup.connect_port, 0});
    message.msg_name = &address;
    message.msg_namelen = SockaddrLength(address);
    const bool fresh = socket != nullptr && socket->udp && !socket->flow;
    if (fresh) UseNewFlow(args.ScriptFd(0), *socket, FromSockaddr(address));
  }
  return Transmit(args, buffers, message, flags);
}

int64_t Calls::SendMsg(CallArgs& args) {
  if (!args.Count(3)) return 0;
  const int flags = args.Int(2);
  const Expr& message_expr = args.at(1);
  if (message_expr.kind != Expr::Kind::kStruct) {
    args.Fail("a message is {msg_name(…)=…, msg_iov(…)=[…], msg_flags=…}");
    return 0;
  }
  const Expr* control = message_expr.Find("msg_control");
  if (control != nullptr && !control->IsEllipsis() && !control->items.empty()) {
    args.Unsupported("ancillary data");
    return 0;
  }
  const Expr* iov = message_expr.Find("msg_iov");
  IoBuffers buffers = iov != nullptr ? args.Buffers(*iov) : IoBuffers();
  if (iov != nullptr) Fill(buffers, DataExprs(*iov), Place(args));
  ScriptSocket* socket = session_.Find(args.ScriptFd(0));
  sockaddr_storage address{};
  msghdr message{};
  // A connected stream needs no name, and only a datagram socket without a peer has one to give.
  if (const Expr* name = message_expr.Find("msg_name"); name && socket && socket->udp) {
    const NetSetup& setup = session_.setup();
    address = args.Address(*name, socket, {setup.remote(), setup.connect_port, 0});
    message.msg_name = &address;
    message.msg_namelen = SockaddrLength(address);
    if (!socket->flow) UseNewFlow(args.ScriptFd(0), *socket, FromSockaddr(address));
  }
  return Transmit(args, buffers, message, flags);
}

}  // namespace tapwire::pkt
