// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/state.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace tapwire::tcp {
namespace {

constexpr State kAll[] = {State::kClosed,      State::kSynSent,  State::kSynReceived,
                          State::kEstablished, State::kFinWait1, State::kFinWait2,
                          State::kCloseWait,   State::kClosing,  State::kLastAck,
                          State::kTimeWait};

// The arrows of RFC 9293 §3.3.2, figure 5, read off the figure: with LISTEN taken as CLOSED, notes
// 1 to 3, and the abort of §3.10.5 from everywhere.
TEST(TcpStateTest, TransitionsAreThoseOfTheFigure) {
  const std::map<std::string, std::set<std::string>> figure = {
      {"CLOSED", {"SYN-SENT", "SYN-RECEIVED"}},
      {"SYN-SENT", {"SYN-RECEIVED", "ESTABLISHED", "CLOSED"}},
      {"SYN-RECEIVED", {"ESTABLISHED", "FIN-WAIT-1", "CLOSED"}},
      {"ESTABLISHED", {"FIN-WAIT-1", "CLOSE-WAIT", "CLOSED"}},
      {"FIN-WAIT-1", {"FIN-WAIT-2", "CLOSING", "TIME-WAIT", "CLOSED"}},
      {"FIN-WAIT-2", {"TIME-WAIT", "CLOSED"}},
      {"CLOSE-WAIT", {"LAST-ACK", "CLOSED"}},
      {"CLOSING", {"TIME-WAIT", "CLOSED"}},
      {"LAST-ACK", {"CLOSED"}},
      {"TIME-WAIT", {"CLOSED"}}};
  ASSERT_EQ(figure.size(), std::size(kAll));
  for (const State from : kAll) {
    const auto row = figure.find(std::string(StateName(from)));
    ASSERT_NE(row, figure.end()) << StateName(from);
    for (const State to : kAll) {
      EXPECT_EQ(IsLegalTransition(from, to), row->second.count(std::string(StateName(to))) == 1)
          << StateName(from) << " -> " << StateName(to);
    }
  }
}

TEST(TcpStateTest, ValuesOutsideTheTableAreHarmless) {
  const auto bad = static_cast<State>(200);
  EXPECT_EQ(StateName(bad), "?");
  EXPECT_FALSE(IsLegalTransition(bad, State::kClosed));
  EXPECT_FALSE(IsLegalTransition(State::kClosed, bad));
}

}  // namespace
}  // namespace tapwire::tcp
