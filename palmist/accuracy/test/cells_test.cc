#include "palmist/accuracy/cells.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace palmist::accuracy {
namespace {

class CellsTest : public testing::Test {
 protected:
  /// Returns the cells of a table with the one column x.
  Cells Of(const std::string& cell) {
    table_ = ParseCsv("x,y\n\"" + cell + "\",-\n").value();
    return Cells(table_[0]);
  }

  static std::string ErrorOf(const std::function<void()>& read) {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "no error";
  }

  CsvTable table_;
};

TEST_F(CellsTest, ReadsNumbers) {
  EXPECT_EQ(Of("12").Whole("x"), 12);
  EXPECT_EQ(Of("12.0").Whole("x"), 12);
  EXPECT_EQ(Of("~250000").Whole("x"), 250'000);
  EXPECT_EQ(Of("").Whole("x"), std::nullopt);
  EXPECT_EQ(Of("").Whole("no such column"), std::nullopt);
  EXPECT_EQ(Of("0.25").Number("x"), 0.25);
  EXPECT_EQ(Of("8.03e9").Number("x"), 8.03e9);
  EXPECT_EQ(Of("0.25").Ratio("x"), 0.25);
  EXPECT_EQ(Of("").Ratio("x"), 0);
  EXPECT_TRUE(Of("1").Flag("x"));
  EXPECT_FALSE(Of("0").Flag("x"));
  EXPECT_EQ(Of("2|3|4").Wholes("x"), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(Of("19.21|19.83").Numbers("x"), (std::vector<double>{19.21, 19.83}));
  EXPECT_TRUE(Of("").Numbers("x").empty());
  EXPECT_EQ(Of("[1,2]").Json("x").size(), 2u);
}

TEST_F(CellsTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(ErrorOf([&] { Of("many").RequireWhole("x"); }),
            "line 2, x: expected a whole number from 1 to 2147483647, got \"many\"");
  EXPECT_EQ(ErrorOf([&] { Of("9").RequireWhole("x", 1, 8); }),
            "line 2, x: expected a whole number from 1 to 8, got \"9\"");
  EXPECT_EQ(ErrorOf([&] { Of("1|x").Wholes("x"); }),
            "line 2, x: expected a whole number from 1 to 2147483647, got \"1|x\"");
  for (const std::string bad : {"nan", "inf", "-1", "1e999", "1,5", "0x10", "12 GiB"}) {
    EXPECT_EQ(ErrorOf([&] { Of(bad).Number("x"); }),
              "line 2, x: expected a finite number of at least 0, got \"" + bad + "\"");
  }
  for (const std::string bad : {"0", "-3", "2.5", "99999999999999999999"}) {
    EXPECT_NE(ErrorOf([&] { Of(bad).Whole("x"); }), "no error") << bad;
  }
  EXPECT_NE(ErrorOf([&] { Of("").RequireWhole("x"); }), "no error");
  EXPECT_NE(ErrorOf([&] { Of("0").Positive("x"); }), "no error");
  EXPECT_NE(ErrorOf([&] { Of("1.5").Ratio("x"); }), "no error");
  EXPECT_NE(ErrorOf([&] { Of("2").Flag("x"); }), "no error");
  EXPECT_NE(ErrorOf([&] { Of("[1,").Json("x"); }).find("line 2, x: expected JSON"),
            std::string::npos);
}

TEST_F(CellsTest, SplitKeepsEmptyParts) {
  EXPECT_EQ(Split("a||b", '|'), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(Split("", '|').size(), 1u);
}

}  // namespace
}  // namespace palmist::accuracy
