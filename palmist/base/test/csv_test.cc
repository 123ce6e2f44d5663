#include "palmist/base/csv.h"

#include <gtest/gtest.h>

#include <string>

namespace palmist {
namespace {

CsvTable Parse(std::string_view text) { return ParseCsv(text).value(); }

std::string ErrorOf(std::string_view text, const CsvLimits& limits = {}) {
  const auto table = ParseCsv(text, limits);
  return table.ok() ? "no error" : table.error().what();
}

TEST(CsvTest, ReadsRowsByColumn) {
  const CsvTable table = Parse("name,count\nfirst,1\nsecond,\n");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"name", "count"}));
  EXPECT_EQ(table[0].Text("name"), "first");
  EXPECT_EQ(table[0].Text("count"), "1");
  EXPECT_TRUE(table[0].Has("count"));
  EXPECT_EQ(table[1].Text("name"), "second");
  EXPECT_FALSE(table[1].Has("count"));
  EXPECT_TRUE(table.HasColumn("count"));
  EXPECT_FALSE(table.HasColumn("Count"));
  EXPECT_EQ(table[1].Text("no such column"), "");
}

TEST(CsvTest, ReadsQuotedCells) {
  const CsvTable table = Parse("a,b\n\"x, \"\"y\"\"\nz\",\"\"\nlast,2");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].Text("a"), "x, \"y\"\nz");
  EXPECT_EQ(table[0].Text("b"), "");
  EXPECT_EQ(table[0].line(), 2);
  EXPECT_EQ(table[1].Text("a"), "last");
  EXPECT_EQ(table[1].line(), 4) << "the cell before holds a line break";
}

TEST(CsvTest, AcceptsByteOrderMarkCarriageReturnsAndEmptyLines) {
  const CsvTable table = Parse(
      "\xEF\xBB\xBF"
      "a,b\r\n\r\n1,2\r\n\n3,4");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table.columns().front(), "a");
  EXPECT_EQ(table[0].Text("b"), "2");
  EXPECT_EQ(table[1].Text("b"), "4");
}

TEST(CsvTest, KeepsCarriageReturnsInsideALine) {
  EXPECT_EQ(Parse("a,b\n1\r2,3\r")[0].Text("a"), "1\r2");
}

TEST(CsvTest, ATableMayHaveNoRows) { EXPECT_EQ(Parse("a,b\n").size(), 0u); }

TEST(CsvTest, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOf("a,b\n1,2\n3\n4,5\n"), "line 3: expected 2 cells as in the first line, got 1");
  EXPECT_EQ(ErrorOf("a,b\n1,2\n3"),
            "line 3: expected 2 cells as in the first line, got 1 (the file may be cut off)");
  EXPECT_EQ(ErrorOf("a,b\n1,2,3\n"), "line 2: expected at most 2 cells, got more");
  EXPECT_EQ(ErrorOf("a,b\n1,\"2\n3,4\n"),
            "line 2: expected the quote that closes a cell, got the end of the text "
            "(the file may be cut off)");
  EXPECT_NE(ErrorOf("a,b\n1,\"2\"x\n").find("line 2: expected a comma"), std::string::npos);
  EXPECT_NE(ErrorOf("a,b\n1,2\"x\n").find("line 2: expected quotes around"), std::string::npos);
  EXPECT_EQ(ErrorOf("a,a\n"),
            "line 1: expected columns with names of their own, got two called \"a\"");
  EXPECT_EQ(ErrorOf("a,\n"), "line 1: expected a name for column 2, got none");
  EXPECT_EQ(ErrorOf(""), "expected a line that names the columns, got an empty text");
  EXPECT_EQ(ErrorOf("\n\n"), "expected a line that names the columns, got an empty text");
  EXPECT_EQ(ErrorOf("a,b\n1,\xFF\n"), "expected CSV in UTF-8, got other bytes");
}

TEST(CsvTest, LimitsAreCheckedBeforeTheCellsAreKept) {
  EXPECT_EQ(ErrorOf("a,b,c\n", {.max_columns = 2}), "line 1: expected at most 2 cells, got more");
  EXPECT_EQ(ErrorOf("a,b\n1,2\n3,4\n", {.max_cells = 3}),
            "line 3: expected at most 3 cells in all, got more");
  EXPECT_EQ(ErrorOf("a,b\n1,2\n", {.max_bytes = 4}), "expected at most 4 B of CSV, got 8 B");
}

}  // namespace
}  // namespace palmist
