/// The tables carried in the program (presets/*.csv): trusted, so a bad one is our bug.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace palmist::cluster {

/// One row: column name to cell.
class PresetRow {
 public:
  explicit PresetRow(std::map<std::string, std::string, std::less<>> cells)
      : cells_(std::move(cells)) {}

  /// Returns the cell of `column`. @pre the table has that column
  const std::string& Text(std::string_view column) const;

  /// Returns true where the cell of `column` is not empty.
  bool Has(std::string_view column) const { return !Text(column).empty(); }

  /// Returns the number in the cell of `column`. @pre it holds one
  double Number(std::string_view column) const;

  /// Returns the words of the cell of `column`, which spaces part.
  std::vector<std::string> Words(std::string_view column) const;

 private:
  std::map<std::string, std::string, std::less<>> cells_;
};

/// Returns the rows of the table carried as presets/`name`.csv. @pre there is one
const std::vector<PresetRow>& PresetTable(std::string_view name);

}  // namespace palmist::cluster
