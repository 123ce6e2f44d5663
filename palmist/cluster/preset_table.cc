#include "palmist/cluster/preset_table.h"

#include <charconv>
#include <sstream>

#include "palmist/base/csv.h"
#include "palmist/base/error.h"
#include "palmist/cluster/preset_files.h"

namespace palmist::cluster {

const std::string& PresetRow::Text(std::string_view column) const {
  const auto found = cells_.find(column);
  PALMIST_ASSERT(found != cells_.end());
  return found->second;
}

double PresetRow::Number(std::string_view column) const {
  const std::string& text = Text(column);
  double value = 0.0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  PALMIST_ASSERT(read.ec == std::errc() && read.ptr == text.data() + text.size());
  return value;
}

std::vector<std::string> PresetRow::Words(std::string_view column) const {
  std::istringstream stream(Text(column));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

namespace {

std::vector<PresetRow> ReadRows(std::string_view text) {
  const CsvTable table = ParseCsv(text).value();
  std::vector<PresetRow> rows;
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::map<std::string, std::string, std::less<>> cells;
    for (const std::string& column : table.columns()) cells[column] = table[i].Text(column);
    rows.emplace_back(std::move(cells));
  }
  return rows;
}

}  // namespace

const std::vector<PresetRow>& PresetTable(std::string_view name) {
  static const auto* const tables = [] {
    auto* result = new std::map<std::string, std::vector<PresetRow>, std::less<>>;
    for (const EmbeddedFile& file : kPresetFiles)
      (*result)[std::string(file.name)] = ReadRows(file.content);
    return result;
  }();
  const auto found = tables->find("presets/" + std::string(name) + ".csv");
  PALMIST_ASSERT(found != tables->end());
  return found->second;
}

}  // namespace palmist::cluster
