// SPDX-License-Identifier: Apache-2.0
//
// Log lines for operators. Not for the per-packet path, which counts instead; messages that a peer
// can cause go through TW_LOG_EVERY_N.
//
//   TW_LOG(kWarning) << "tap0: write failed: " << status;
//   TW_LOG_EVERY_N(kInfo, log_state_, 1000) << "carrier flaps";
#pragma once

#include <cstdint>
#include <sstream>

#include "absl/strings/string_view.h"
#include "netdev/base/log_every_n.h"

namespace tapwire {

enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

// "error", "warning", "info" or "debug".
absl::string_view LogLevelName(LogLevel level);

// Receives complete lines without the line end. May be called from any thread.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(LogLevel level, const char* file, int line, absl::string_view text) = 0;
};

// Replaces the sink and returns the one before; null stands for standard error. The sink must
// outlive its use.
LogSink* SetLogSink(LogSink* sink);

// The most detailed level that is written; kWarning at start.
void SetLogVerbosity(LogLevel level);
LogLevel LogVerbosity();
bool LogEnabled(LogLevel level);

namespace internal {

// One line under construction; written when it is destroyed.
class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line);
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;
  ~LogMessage();

  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

// Gives both branches of the macro's conditional the type void.
struct LogVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace internal
}  // namespace tapwire

#define TW_LOG_IF_(level, condition)                                                        \
  !(::tapwire::LogEnabled(::tapwire::LogLevel::level) && (condition))                       \
      ? static_cast<void>(0)                                                                \
      : ::tapwire::internal::LogVoidify() &                                                 \
            ::tapwire::internal::LogMessage(::tapwire::LogLevel::level, __FILE__, __LINE__) \
                .stream()

// The operands are evaluated only if the level is enabled.
#define TW_LOG(level) TW_LOG_IF_(level, true)

// Writes the first of every n calls; `state` is a LogEveryN owned by the caller.
#define TW_LOG_EVERY_N(level, state, n) TW_LOG_IF_(level, (state).ShouldLog(n))
