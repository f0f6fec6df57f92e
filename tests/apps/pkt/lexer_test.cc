// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/lexer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tapwire::pkt {
namespace {

std::vector<std::string> Texts(absl::string_view source, const Defines& defines = {}) {
  const LexResult result = Lex(source, defines);
  EXPECT_FALSE(result.error) << result.error->message;
  std::vector<std::string> texts;
  for (const Token& token : result.tokens) texts.push_back(token.text);
  texts.pop_back();
  return texts;
}

using Strings = std::vector<std::string>;

TEST(LexerTest, NumbersEndBeforeAnEllipsis) {
  EXPECT_EQ(Texts("0...0.2"), (Strings{"0", "...", "0.2"}));
  EXPECT_EQ(Texts("+.1...1"), (Strings{"+", ".1", "...", "1"}));
  EXPECT_EQ(Texts("0.1~0.25"), (Strings{"0.1", "~", "0.25"}));
  EXPECT_EQ(Texts("1:1001(1000)"), (Strings{"1", ":", "1001", "(", "1000", ")"}));
}

TEST(LexerTest, FlagsAreTokensThatTouch) {
  const LexResult result = Lex("S. 0:0(0)");
  ASSERT_GE(result.tokens.size(), 3u);
  EXPECT_TRUE(result.tokens[0].IsWord("S"));
  EXPECT_TRUE(result.tokens[1].Is('.'));
  EXPECT_TRUE(result.tokens[0].Touches(result.tokens[1]));
  EXPECT_FALSE(result.tokens[1].Touches(result.tokens[2]));
}

TEST(LexerTest, CommentsAreSkipped) {
  EXPECT_EQ(Texts("1 // one\n# all\n/* a\nb */ 2"), (Strings{"1", "2"}));
}

TEST(LexerTest, StringsCodeAndCommands) {
  const LexResult result = Lex("\"a\\n\\\"b\" `x y` %{ a > 1 }%");
  ASSERT_EQ(result.tokens.size(), 4u);
  EXPECT_EQ(result.tokens[0].kind, TokenKind::kString);
  EXPECT_EQ(result.tokens[0].text, "a\n\"b");
  EXPECT_EQ(result.tokens[1].kind, TokenKind::kBacktick);
  EXPECT_EQ(result.tokens[1].text, "x y");
  EXPECT_EQ(result.tokens[2].kind, TokenKind::kCode);
  EXPECT_EQ(result.tokens[2].text, " a > 1 ");
}

TEST(LexerTest, OptionsStandAtTheStartOfALine) {
  const LexResult result = Lex("--mtu=1000\n --a=\"b c\"\n0 x--y");
  EXPECT_EQ(result.tokens[0].kind, TokenKind::kOption);
  EXPECT_EQ(result.tokens[0].text, "mtu=1000");
  EXPECT_EQ(result.tokens[1].text, "a=\"b c\"");
  EXPECT_EQ(result.tokens[2].kind, TokenKind::kNumber);
  EXPECT_TRUE(result.tokens[4].Is('-'));
}

TEST(LexerTest, PositionsCountFromOne) {
  const LexResult result = Lex("a\n  bc");
  EXPECT_EQ(result.tokens[0].pos, (Pos{1, 1}));
  EXPECT_EQ(result.tokens[1].pos, (Pos{2, 3}));
}

TEST(LexerTest, DefinesReplaceWords) {
  EXPECT_EQ(Texts("FO COOKIE X", {{"COOKIE", "ab12 7"}}), (Strings{"FO", "ab12", "7", "X"}));
  EXPECT_EQ(Texts("--define=N=5\nN"), (Strings{"define=N=5", "5"}));
  EXPECT_EQ(Texts("--define=N=5\nN", {{"N", "6"}}), (Strings{"define=N=5", "6"}));
}

TEST(LexerTest, UnterminatedThingsAreErrors) {
  for (const char* source : {"\"abc", "`abc", "%{ abc", "/* abc", "\"a\nb\""}) {
    const LexResult result = Lex(source);
    ASSERT_TRUE(result.error) << source;
    EXPECT_EQ(result.error->pos, (Pos{1, 1})) << source;
  }
}

TEST(LexerTest, AnyBytesAreTokens) {
  std::string all;
  for (int c = 1; c < 256; ++c) {
    if (c != '"' && c != '`' && c != '#') all += static_cast<char>(c);
  }
  EXPECT_FALSE(Lex(all).error);
  EXPECT_EQ(Lex(absl::string_view("\0\0", 2)).tokens.size(), 3u);
}

}  // namespace
}  // namespace tapwire::pkt
