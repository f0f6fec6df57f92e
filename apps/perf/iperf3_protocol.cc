// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/iperf3_protocol.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "netdev/base/byteorder.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps::iperf3 {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
// A double holds every integer up to here.
constexpr double kMaxExact = 9007199254740992.0;
constexpr double kMaxRate = 1e15;
constexpr int64_t kMaxTos = 255;
constexpr size_t kMaxText = 256;
constexpr size_t kMaxStreams = 2 * kMaxParallel;

struct CodeText {
  ErrorCode code;
  const char* text;
};
constexpr CodeText kTexts[] = {
    {ErrorCode::kDuration, "test duration too long (maximum = 86400 seconds)"},
    {ErrorCode::kStreamCount, "number of parallel streams too large (maximum = 128)"},
    {ErrorCode::kBlockSize, "block size invalid (maximum = 1048576 bytes)"},
    {ErrorCode::kBufferSize, "socket buffer size too large (maximum = 512 MBytes)"},
    {ErrorCode::kMss, "TCP MSS too large (maximum = 32767 bytes)"},
    {ErrorCode::kOmit, "time to omit invalid (maximum = 600 seconds)"},
    {ErrorCode::kTos, "type of service invalid (0 to 255)"},
    {ErrorCode::kConnect, "unable to connect to server"},
    {ErrorCode::kReceiveCookie, "unable to receive cookie from client"},
    {ErrorCode::kControlWrite, "unable to write to the control connection"},
    {ErrorCode::kControlRead, "unable to read from the control connection"},
    {ErrorCode::kControlClosed, "control socket has closed unexpectedly"},
    {ErrorCode::kUnknownMessage, "received an unknown control message"},
    {ErrorCode::kReceiveParams, "unable to receive parameters from client"},
    {ErrorCode::kReceiveResults, "unable to receive results"},
    {ErrorCode::kClientTerminated, "the client has terminated"},
    {ErrorCode::kServerTerminated, "the server has terminated"},
    {ErrorCode::kBusy, "the server is busy running a test. try again later"},
    {ErrorCode::kProtocol, "this protocol is not served"},
    {ErrorCode::kCongestion, "unable to set TCP congestion control"},
    {ErrorCode::kNoData, "idle timeout for receiving data"},
    {ErrorCode::kServerDuration, "server test duration expired"},
    {ErrorCode::kStreamConnect, "unable to connect stream"},
    {ErrorCode::kStreamWrite, "unable to write to stream socket"},
    {ErrorCode::kStreamRead, "unable to read from stream socket"},
    {ErrorCode::kStreamId, "stream id of the peer's results is unknown"},
};

const Json* Find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// A whole number; clients write large ones with an exponent.
std::optional<int64_t> AsInteger(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number) || std::abs(number) > kMaxExact) return std::nullopt;
  return static_cast<int64_t>(number);
}

// Old peers only test whether the key is there, and send true.
bool IsSet(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  return !value->is_null() && AsInteger(*value).value_or(1) != 0;
}

Error BadParams(const std::string& detail) { return {ErrorCode::kReceiveParams, detail, 0}; }
Error BadResults(const std::string& detail) { return {ErrorCode::kReceiveResults, detail, 0}; }

struct IntegerKey {
  const char* key;
  int64_t Params::*field;
};
constexpr IntegerKey kIntegers[] = {
    {"omit", &Params::omit_s},
    {"time", &Params::time_s},
    {"num", &Params::num},
    {"blockcount", &Params::blockcount},
    {"parallel", &Params::parallel},
    {"len", &Params::length},
    {"bandwidth", &Params::bandwidth},
    {"burst", &Params::burst},
    {"pacing_timer", &Params::pacing_timer_us},
    {"window", &Params::window},
    {"MSS", &Params::mss},
    {"TOS", &Params::tos},
};

// Text of the peer, which ends up on our terminal: printable, and not too long.
std::string SafeText(const std::string& text) {
  std::string safe = text.substr(0, kMaxText);
  for (char& c : safe) c = absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?';
  return safe;
}

std::optional<Error> ParseIntegers(const Json& object, Params& params) {
  for (const IntegerKey& entry : kIntegers) {
    const Json* value = Find(object, entry.key);
    if (value == nullptr) continue;
    const std::optional<int64_t> number = AsInteger(*value);
    if (!number || *number < 0) {
      return BadParams(absl::StrCat("'", entry.key, "' is not a number from 0 up"));
    }
    params.*entry.field = *number;
  }
  return std::nullopt;
}

std::string TextOf(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_string() ? SafeText(value->get<std::string>()) : "";
}

// -1 in any of its costumes: some peers write it as an unsigned number of 64 bits.
std::optional<int64_t> AsCount(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!std::isfinite(number)) return std::nullopt;
  if (number < 0 || number > kMaxExact) return -1;
  return static_cast<int64_t>(number);
}

std::optional<double> AsDouble(const Json& object, const char* key) {
  const Json* value = Find(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  return std::isfinite(number) ? std::optional<double>(number) : std::nullopt;
}

bool ParseStream(const Json& object, StreamResult& stream) {
  if (!object.is_object()) return false;
  int64_t id = 0, bytes = 0;
  const std::pair<const char*, int64_t*> counts[] = {{"id", &id},
                                                     {"bytes", &bytes},
                                                     {"retransmits", &stream.retransmits},
                                                     {"errors", &stream.errors},
                                                     {"packets", &stream.packets}};
  for (const auto& [key, target] : counts) {
    const Json* value = Find(object, key);
    const std::optional<int64_t> count = value == nullptr ? std::nullopt : AsCount(*value);
    if (!count) return false;
    *target = *count;
  }
  if (id < 1 || id > static_cast<int64_t>(kMaxStreams) + 1 || bytes < 0) return false;
  stream.id = static_cast<int>(id);
  stream.bytes = static_cast<uint64_t>(bytes);
  const std::optional<double> jitter = AsDouble(object, "jitter");
  stream.jitter_s = jitter.value_or(0);
  stream.start_s = std::clamp(AsDouble(object, "start_time").value_or(0), 0.0, 1e9);
  stream.end_s = std::clamp(AsDouble(object, "end_time").value_or(0), stream.start_s, 1e9);
  return jitter.has_value();
}

}  // namespace

std::string ErrorText(const Error& error) {
  std::string text = absl::StrCat("the server reported error ", static_cast<int>(error.code));
  for (const CodeText& entry : kTexts) {
    if (entry.code == error.code) text = entry.text;
  }
  if (!error.detail.empty()) absl::StrAppend(&text, ": ", error.detail);
  if (error.sys_errno > 0) absl::StrAppend(&text, ": ", std::strerror(error.sys_errno));
  return text;
}

std::string EncodeParams(const Params& params) {
  Json object;
  object["tcp"] = true;
  object["omit"] = params.omit_s;
  object["time"] = params.time_s;
  object["num"] = params.num;
  object["blockcount"] = params.blockcount;
  if (params.mss != 0) object["MSS"] = params.mss;
  if (params.nodelay) object["nodelay"] = true;
  object["parallel"] = params.parallel;
  if (params.reverse) object["reverse"] = true;
  if (params.bidirectional) object["bidirectional"] = true;
  if (params.window != 0) object["window"] = params.window;
  object["len"] = params.length;
  if (params.bandwidth != 0) object["bandwidth"] = params.bandwidth;
  object["pacing_timer"] = params.pacing_timer_us;
  if (params.burst != 0) object["burst"] = params.burst;
  if (params.tos != 0) object["TOS"] = params.tos;
  if (!params.congestion.empty()) object["congestion"] = params.congestion;
  if (params.get_server_output) object["get_server_output"] = 1;
  object["client_version"] = params.client_version;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Error> CheckParams(const Params& params) {
  const auto outside = [](int64_t value, int64_t low, int64_t high) {
    return value < low || value > high;
  };
  if (params.protocol != Protocol::kTcp) return Error{ErrorCode::kProtocol, "TCP only", 0};
  if (outside(params.parallel, 1, kMaxParallel)) return Error{ErrorCode::kStreamCount};
  if (outside(params.time_s, 0, kMaxTime)) return Error{ErrorCode::kDuration};
  if (outside(params.omit_s, 0, kMaxOmit)) return Error{ErrorCode::kOmit};
  if (outside(params.length, 1, kMaxBlock)) return Error{ErrorCode::kBlockSize};
  if (outside(params.window, 0, kMaxWindow)) return Error{ErrorCode::kBufferSize};
  if (outside(params.mss, 0, kMaxMss)) return Error{ErrorCode::kMss};
  if (outside(params.tos, 0, kMaxTos)) return Error{ErrorCode::kTos};
  if (params.bandwidth < 0 || static_cast<double>(params.bandwidth) > kMaxRate) {
    return BadParams("'bandwidth' is out of range");
  }
  if (params.num < 0 || params.blockcount < 0) return BadParams("an amount below 0");
  if (outside(params.burst, 0, 1'000)) return BadParams("'burst' is not from 0 to 1000");
  return std::nullopt;
}

std::optional<Error> ParseParams(absl::string_view text, Params& params) {
  const Json object = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded() || !object.is_object()) return BadParams("not a JSON object");
  params = Params();
  params.time_s = 0;
  if (IsSet(object, "udp")) params.protocol = Protocol::kUdp;
  if (IsSet(object, "sctp")) params.protocol = Protocol::kSctp;
  if (std::optional<Error> error = ParseIntegers(object, params)) return error;
  params.nodelay = IsSet(object, "nodelay");
  params.reverse = IsSet(object, "reverse");
  params.bidirectional = IsSet(object, "bidirectional");
  params.get_server_output = IsSet(object, "get_server_output");
  params.congestion = TextOf(object, "congestion");
  params.client_version = TextOf(object, "client_version");
  if (params.length == 0) params.length = Params().length;
  return CheckParams(params);
}

std::string EncodeResults(const Results& results) {
  Json object;
  object["cpu_util_total"] = results.cpu.total;
  object["cpu_util_user"] = results.cpu.user;
  object["cpu_util_system"] = results.cpu.system;
  object["sender_has_retransmits"] = results.sender_has_retransmits;
  if (!results.congestion.empty()) object["congestion_used"] = results.congestion;
  if (results.server_output) object["server_output_text"] = *results.server_output;
  Json streams = Json::array();
  for (const StreamResult& stream : results.streams) {
    Json entry;
    entry["id"] = stream.id;
    entry["bytes"] = stream.bytes;
    entry["retransmits"] = stream.retransmits;
    entry["jitter"] = stream.jitter_s;
    entry["errors"] = stream.errors;
    entry["packets"] = stream.packets;
    entry["start_time"] = stream.start_s;
    entry["end_time"] = stream.end_s;
    streams.push_back(std::move(entry));
  }
  object["streams"] = std::move(streams);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Error> ParseResults(absl::string_view text, Results& results) {
  const Json object = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded() || !object.is_object()) return BadResults("not a JSON object");
  results = Results();
  const std::pair<const char*, double*> shares[] = {{"cpu_util_total", &results.cpu.total},
                                                    {"cpu_util_user", &results.cpu.user},
                                                    {"cpu_util_system", &results.cpu.system}};
  for (const auto& [key, target] : shares) {
    const std::optional<double> value = AsDouble(object, key);
    if (!value) return BadResults(absl::StrCat("'", key, "' is missing"));
    *target = *value;
  }
  const Json* retransmits = Find(object, "sender_has_retransmits");
  const std::optional<int64_t> has = retransmits == nullptr ? std::nullopt : AsCount(*retransmits);
  if (!has) return BadResults("'sender_has_retransmits' is missing");
  results.sender_has_retransmits = *has > 0 ? 1 : static_cast<int>(*has);
  results.congestion = TextOf(object, "congestion_used");
  const Json* output = Find(object, "server_output_text");
  if (output != nullptr && output->is_string()) results.server_output = output->get<std::string>();
  const Json* streams = Find(object, "streams");
  if (streams == nullptr || !streams->is_array() || streams->size() > kMaxStreams) {
    return BadResults("'streams' is missing");
  }
  for (const Json& entry : *streams) {
    StreamResult stream;
    if (!ParseStream(entry, stream)) return BadResults("a stream is incomplete");
    results.streams.push_back(stream);
  }
  return std::nullopt;
}

int StreamId(size_t index) { return index == 0 ? 1 : static_cast<int>(index) + 2; }

std::string MakeCookie(Random& random) {
  std::string cookie;
  while (cookie.size() < kCookieSize - 1) cookie.push_back(kAlphabet[random.Uniform(32)]);
  cookie.push_back('\0');
  return cookie;
}

std::optional<std::string> CookieText(absl::string_view cookie) {
  if (cookie.size() != kCookieSize || cookie.back() != '\0') return std::nullopt;
  cookie.remove_suffix(1);
  const bool printable = std::all_of(cookie.begin(), cookie.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  return printable ? std::optional<std::string>(std::string(cookie)) : std::nullopt;
}

std::string EncodeState(State state) { return std::string(1, static_cast<char>(state)); }

namespace {

std::string Encode32(uint32_t value) {
  uint8_t bytes[4];
  StoreBe32(bytes, value);
  return std::string(reinterpret_cast<const char*>(bytes), sizeof(bytes));
}

uint32_t Decode32(const std::string& text, size_t at) {
  return LoadBe32(reinterpret_cast<const uint8_t*>(text.data()) + at);
}

}  // namespace

std::string EncodeJson(absl::string_view text) {
  return absl::StrCat(Encode32(static_cast<uint32_t>(text.size())), text);
}

std::string EncodeServerError(const Error& error) {
  return absl::StrCat(EncodeState(State::kServerError), Encode32(static_cast<uint32_t>(error.code)),
                      Encode32(static_cast<uint32_t>(error.sys_errno)));
}

std::optional<std::string> ControlInput::Take(size_t size) {
  if (data_.size() < size) return std::nullopt;
  std::string taken = data_.substr(0, size);
  data_.erase(0, size);
  return taken;
}

std::optional<State> ControlInput::TakeState() {
  const std::optional<std::string> byte = Take(1);
  if (!byte) return std::nullopt;
  return static_cast<State>(static_cast<int8_t>(byte->front()));
}

std::optional<std::string> ControlInput::TakeCookie() { return Take(kCookieSize); }

std::optional<ControlInput::Codes> ControlInput::TakeErrorCodes() {
  const std::optional<std::string> bytes = Take(8);
  if (!bytes) return std::nullopt;
  return Codes{.code = static_cast<int32_t>(Decode32(*bytes, 0)),
               .sys_errno = static_cast<int32_t>(Decode32(*bytes, 4))};
}

ControlInput::JsonStatus ControlInput::TakeJson(size_t limit, std::string& text) {
  if (data_.size() < 4) return JsonStatus::kMore;
  const size_t size = Decode32(data_, 0);
  if (size == 0 || size > limit) return JsonStatus::kWrong;
  if (data_.size() < 4 + size) return JsonStatus::kMore;
  text = data_.substr(4, size);
  data_.erase(0, 4 + size);
  return JsonStatus::kReady;
}

}  // namespace tapwire::apps::iperf3
