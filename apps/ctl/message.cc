// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/message.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::ctl {
namespace {

void Put32(uint32_t value, std::string& out) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift & 0xff);
}

uint32_t Get32(absl::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

absl::StatusOr<std::string> EncodeRequest(const std::vector<std::string>& argv) {
  std::string words;
  for (const std::string& word : argv) {
    if (word.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError("a word with a zero byte in it");
    }
    words += word;
    words += '\0';
  }
  if (words.empty()) return absl::InvalidArgumentError("no command");
  if (words.size() > kMaxRequest) {
    return absl::InvalidArgumentError(
        absl::StrCat("the command has ", words.size(), " bytes; at most ", kMaxRequest, " fit"));
  }
  std::string out;
  Put32(static_cast<uint32_t>(words.size()), out);
  return out + words;
}

absl::StatusOr<std::optional<size_t>> RequestLength(absl::string_view bytes) {
  if (bytes.size() < kRequestHeader) return std::optional<size_t>();
  const size_t length = Get32(bytes, 0);
  if (length == 0 || length > kMaxRequest) {
    return absl::InvalidArgumentError(absl::StrCat("a request of ", length, " bytes"));
  }
  return std::optional<size_t>(kRequestHeader + length);
}

absl::StatusOr<std::vector<std::string>> DecodeRequest(absl::string_view bytes) {
  TW_ASSIGN_OR_RETURN(const std::optional<size_t> length, RequestLength(bytes));
  if (!length || *length != bytes.size() || bytes.back() != '\0') {
    return absl::InvalidArgumentError("a request that is not whole");
  }
  bytes.remove_prefix(kRequestHeader);
  bytes.remove_suffix(1);
  return std::vector<std::string>(absl::StrSplit(bytes, '\0'));
}

std::string EncodeReply(const Reply& reply) {
  std::string bytes;
  bytes.reserve(kReplyHeader + reply.out.size() + reply.err.size());
  Put32(static_cast<uint32_t>(reply.exit_code), bytes);
  Put32(static_cast<uint32_t>(reply.out.size()), bytes);
  Put32(static_cast<uint32_t>(reply.err.size()), bytes);
  return absl::StrCat(bytes, reply.out, reply.err);
}

absl::StatusOr<std::optional<size_t>> ReplyLength(absl::string_view bytes) {
  if (bytes.size() < kReplyHeader) return std::optional<size_t>();
  const size_t length = size_t{Get32(bytes, 4)} + Get32(bytes, 8);
  if (Get32(bytes, 0) > 255 || length > kMaxReply) {
    return absl::InvalidArgumentError("not the answer of a tapwire process");
  }
  return std::optional<size_t>(kReplyHeader + length);
}

absl::StatusOr<Reply> DecodeReply(absl::string_view bytes) {
  TW_ASSIGN_OR_RETURN(const std::optional<size_t> length, ReplyLength(bytes));
  if (!length || *length != bytes.size()) {
    return absl::InvalidArgumentError("an answer that is not whole");
  }
  const size_t out = Get32(bytes, 4);
  Reply reply;
  reply.exit_code = static_cast<int>(Get32(bytes, 0));
  reply.out = std::string(bytes.substr(kReplyHeader, out));
  reply.err = std::string(bytes.substr(kReplyHeader + out));
  return reply;
}

}  // namespace tapwire::apps::ctl
