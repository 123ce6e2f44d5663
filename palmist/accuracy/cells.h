/// Typed reading of a row's cells. For the readers of this folder.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/csv.h"

namespace palmist::accuracy {

/// One row. Getters throw Error(kInput) that names line and column of a cell they cannot read, and
/// return nothing for an empty one.
class Cells {
 public:
  explicit Cells(const CsvRow& row) : row_(row) {}

  int line() const { return row_.line(); }
  const std::string& Text(std::string_view column) const { return row_.Text(column); }
  bool Has(std::string_view column) const { return row_.Has(column); }

  /// Returns a whole number in `min` ... `max`. "~250000" (about) is read as the number.
  std::optional<std::int64_t> Whole(std::string_view column,
                                    std::int64_t min = 1,
                                    std::int64_t max = kMaxWhole) const;
  /// The same for a cell that must not be empty.
  std::int64_t RequireWhole(std::string_view column,
                            std::int64_t min = 1,
                            std::int64_t max = kMaxWhole) const;
  /// Returns a finite number of at least 0.
  std::optional<double> Number(std::string_view column) const;
  /// Returns a finite number above 0.
  std::optional<double> Positive(std::string_view column) const;
  /// Returns a number in [0, 1]; 0 for an empty cell.
  double Ratio(std::string_view column) const;
  /// Returns true for 1, false for 0 and for an empty cell.
  bool Flag(std::string_view column) const;

  /// Reads a cell that holds one number for each stage, joined with "|"; empty for an empty cell.
  std::vector<std::int64_t> Wholes(std::string_view column,
                                   std::int64_t min = 1,
                                   std::int64_t max = kMaxWhole) const;
  std::vector<double> Numbers(std::string_view column) const;

  /// Returns the JSON in a cell.
  nlohmann::json Json(std::string_view column) const;

  /// Throws an input error about the cell of `column`.
  [[noreturn]] void Fail(std::string_view column, const std::string& message) const;
  /// Throws "expected ..., got" with the cell's text.
  [[noreturn]] void FailExpected(std::string_view column, const std::string& expected) const;

  static constexpr std::int64_t kMaxWhole = 2'147'483'647;

 private:
  std::string Place(std::string_view column) const;
  std::int64_t ParseWhole(std::string_view column,
                          std::string_view text,
                          std::int64_t min,
                          std::int64_t max) const;
  double ParseDouble(std::string_view column, std::string_view text) const;

  CsvRow row_;
};

/// Returns the parts of `text` between separators; one empty part for an empty text.
std::vector<std::string_view> Split(std::string_view text, char separator);

}  // namespace palmist::accuracy
