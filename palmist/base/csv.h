/// CSV from outside (RFC 4180): bounded, with the line of whatever is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/base/units.h"

namespace palmist {

/// What is refused before anything is allocated for it.
struct CsvLimits {
  std::int64_t max_bytes = 64 * kMiB;
  std::int64_t max_columns = 1000;
  std::int64_t max_cells = 4'000'000;  ///< Bounds the memory to some 200 MB beside the text.
};

class CsvTable;

/// One row of a table; the table must outlive it.
class CsvRow {
 public:
  /// Returns the cell of `column`; empty where the table has no such column.
  const std::string& Text(std::string_view column) const;

  /// Returns true where the cell of `column` is not empty.
  bool Has(std::string_view column) const { return !Text(column).empty(); }

  /// Returns the line of the text on which the row begins, counted from 1.
  int line() const;

 private:
  friend class CsvTable;
  CsvRow(const CsvTable& table, std::size_t index) : table_(&table), index_(index) {}

  const CsvTable* table_;
  std::size_t index_;
};

/// A table whose first row names the columns; all rows have as many cells.
class CsvTable {
 public:
  const std::vector<std::string>& columns() const { return columns_; }
  bool HasColumn(std::string_view name) const { return index_.contains(name); }
  std::size_t size() const { return lines_.size(); }

  /// @pre index < size()
  CsvRow operator[](std::size_t index) const { return {*this, index}; }

 private:
  friend class CsvRow;
  friend Result<CsvTable> ParseCsv(std::string_view text, const CsvLimits& limits);

  std::vector<std::string> columns_;
  std::map<std::string, std::size_t, std::less<>> index_;  // column's name to its place
  std::vector<std::string> cells_;                         // row by row
  std::vector<int> lines_;                                 // of each row
};

/// Returns the table that `text` holds, or an input error with the line.
///
/// Text must be UTF-8; a byte order mark is skipped, and so are empty lines. Lines end with LF or
/// CRLF. A cell that holds a comma, a quote or a line break stands in double quotes, and a quote
/// inside it is doubled. Column names are neither empty nor equal. Linear time.
Result<CsvTable> ParseCsv(std::string_view text, const CsvLimits& limits = {});

}  // namespace palmist
