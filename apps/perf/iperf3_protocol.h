// SPDX-License-Identifier: Apache-2.0
// The control protocol of iperf3 as bytes: state bytes, cookie, parameters, results, error codes.
// No input or output in here: the machines of iperf3_control.h say when what is sent.
//
// A test: the client sends a cookie of 37 bytes; the server asks for parameters, then for data
// connections (each starts with the cookie), then says start; the client says when it ends; results
// are exchanged as JSON, the client's first; IPERF_DONE ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "netdev/base/random.h"

namespace tapwire::apps::iperf3 {

inline constexpr uint16_t kDefaultPort = 5201;
inline constexpr size_t kCookieSize = 37;  // 36 characters of a-z 2-7 and a NUL
inline constexpr size_t kMaxParamsSize = 8 * 1024;
inline constexpr size_t kMaxResultsSize = 16 * 1024 * 1024;

// One signed byte each, on the control connection.
enum class State : int8_t {
  kServerError = -2,  // an error code and an errno follow, 32 bits each
  kAccessDenied = -1,
  kTestStart = 1,
  kTestRunning = 2,
  kTestEnd = 4,
  kParamExchange = 9,
  kCreateStreams = 10,
  kServerTerminate = 11,
  kClientTerminate = 12,
  kExchangeResults = 13,
  kDisplayResults = 14,
  kDone = 16,
};

// The numbers that travel behind kServerError; the peer prints its own text for them.
enum class ErrorCode : int32_t {
  kNone = 0,
  kDuration = 5,
  kStreamCount = 6,
  kBlockSize = 7,
  kBufferSize = 8,
  kMss = 10,
  kOmit = 12,
  kTos = 21,
  kConnect = 103,
  kReceiveCookie = 106,
  kControlWrite = 107,
  kControlRead = 108,
  kControlClosed = 109,
  kUnknownMessage = 110,
  kReceiveParams = 114,
  kReceiveResults = 117,
  kClientTerminated = 119,
  kServerTerminated = 120,
  kBusy = 121,
  kProtocol = 131,
  kCongestion = 134,
  kNoData = 144,
  kServerDuration = 160,
  kStreamConnect = 203,
  kStreamWrite = 205,
  kStreamRead = 206,
  kStreamId = 208,
};

struct Error {
  ErrorCode code = ErrorCode::kNone;
  std::string detail = {};  // behind the code's own text
  int32_t sys_errno = 0;    // as the peer sent it
};
// "the server is busy running a test. try again later", "unable to connect to server: …".
std::string ErrorText(const Error& error);

enum class Protocol { kTcp, kUdp, kSctp };

// What a test is: the client's options, sent in the parameter exchange. 0 is "not set" unless said.
struct Params {
  Protocol protocol = Protocol::kTcp;
  int64_t omit_s = 0;
  int64_t time_s = 10;       // 0: until `num` or `blockcount` is reached
  int64_t num = 0;           // bytes of all streams together
  int64_t blockcount = 0;    // blocks of all streams together
  int64_t parallel = 1;      // streams in each direction
  int64_t length = 131'072;  // bytes of a block
  int64_t bandwidth = 0;     // bits per second of each stream; 0: no limit
  int64_t burst = 0;         // blocks sent in a row
  int64_t pacing_timer_us = 1'000;
  int64_t window = 0;  // socket buffers in bytes
  int64_t mss = 0;
  int64_t tos = 0;
  bool nodelay = false;
  bool reverse = false;
  bool bidirectional = false;
  bool get_server_output = false;
  std::string congestion = {};
  std::string client_version = {};

  bool client_sends() const { return bidirectional || !reverse; }
  bool server_sends() const { return bidirectional || reverse; }
  int64_t stream_count() const { return bidirectional ? 2 * parallel : parallel; }
};

// Upper limits of what a peer or a user may ask for.
inline constexpr int64_t kMaxTime = 86'400;
inline constexpr int64_t kMaxOmit = 600;
inline constexpr int64_t kMaxParallel = 128;
inline constexpr int64_t kMaxBlock = 1024 * 1024;
inline constexpr int64_t kMaxWindow = 512 * 1024 * 1024;
inline constexpr int64_t kMaxMss = 32'767;

std::string EncodeParams(const Params& params);
// Error: not a JSON object, a number that is none or out of its range, another protocol than TCP.
// Unknown keys are ignored.
std::optional<Error> ParseParams(absl::string_view text, Params& params);
// The range checks alone.
std::optional<Error> CheckParams(const Params& params);

struct StreamResult {
  int id = 0;
  uint64_t bytes = 0;
  int64_t retransmits = -1;  // -1: not the sender, or not known
  double jitter_s = 0;
  int64_t errors = 0;
  int64_t packets = 0;
  double start_s = 0;
  double end_s = 0;
};

struct CpuUse {  // per cent of one processor
  double total = 0;
  double user = 0;
  double system = 0;
};

struct Results {
  CpuUse cpu = {};
  int sender_has_retransmits = -1;  // 1: yes; 0: not known; -1: does not send
  std::string congestion = {};
  std::vector<StreamResult> streams = {};
  std::optional<std::string> server_output = {};
};

std::string EncodeResults(const Results& results);
// Error: a required key is missing or of the wrong kind.
std::optional<Error> ParseResults(absl::string_view text, Results& results);

// Ids are 1, 3, 4, 5, …: the second is 3 in every version.
int StreamId(size_t index);

// 36 random characters of the base-32 alphabet and a NUL.
std::string MakeCookie(Random& random);
// The 36 characters of a cookie as it came; nothing if it cannot be one (no NUL at its end, or a
// control character).
std::optional<std::string> CookieText(absl::string_view cookie);

std::string EncodeState(State state);
// A JSON text behind its length of 4 bytes.
std::string EncodeJson(absl::string_view text);
std::string EncodeServerError(const Error& error);

// Collects what came on a control connection and cuts it into messages; the caller knows from its
// state what comes next.
class ControlInput {
 public:
  void Append(std::span<const uint8_t> bytes) { data_.append(bytes.begin(), bytes.end()); }

  size_t size() const { return data_.size(); }
  std::optional<State> TakeState();
  std::optional<std::string> TakeCookie();
  struct Codes {
    int32_t code;
    int32_t sys_errno;
  };
  std::optional<Codes> TakeErrorCodes();
  // kWrong: a length of 0 or above `limit`, known as soon as the length has come.
  enum class JsonStatus { kMore, kReady, kWrong };
  JsonStatus TakeJson(size_t limit, std::string& text);

 private:
  std::optional<std::string> Take(size_t size);

  std::string data_;
};

}  // namespace tapwire::apps::iperf3
