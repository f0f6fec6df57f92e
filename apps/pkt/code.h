// SPDX-License-Identifier: Apache-2.0
// The code between %{ and }%: the part of Python that scripts use for assertions. Statements
// `assert test[, message]`, `name = value`, `print …` (ignored), `pass`; numbers, strings, names,
// parentheses, arithmetic, comparisons (also chained), in, and/or/not, abs, int, float, min, max,
// round.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tapwire::pkt {

struct CodeValue {
  enum class Kind : uint8_t { kInteger, kFloat, kString };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  double real = 0;
  std::string text = {};

  static CodeValue Integer(int64_t value) { return {.integer = value}; }
  static CodeValue Float(double value) { return {.kind = Kind::kFloat, .real = value}; }
  static CodeValue Text(std::string value) {
    return {.kind = Kind::kString, .text = std::move(value)};
  }

  bool IsNumber() const { return kind != Kind::kString; }
  double AsFloat() const { return kind == Kind::kFloat ? real : static_cast<double>(integer); }
  bool Truth() const;
  std::string ToString() const;
};

enum class CodeOutcome : uint8_t {
  kPassed,
  kFailed,       // an assertion does not hold, or the code is wrong
  kUnsupported,  // beyond the part of Python above, or a name nobody knows
};

struct CodeResult {
  CodeOutcome outcome = CodeOutcome::kPassed;
  std::string message;
  int line = 0;  // within the code, from 0
};

// Variables that code has set; they live as long as the script.
using CodeVariables = std::map<std::string, CodeValue, std::less<>>;
// Facts of the connection: tcpi_rto, TCP_ESTABLISHED … None: not known.
using CodeLookup = std::function<std::optional<CodeValue>(absl::string_view name)>;

CodeResult RunCode(absl::string_view code, CodeVariables& variables, const CodeLookup& lookup);

}  // namespace tapwire::pkt
