#include "palmist/accuracy/runs.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "palmist/accuracy/cells.h"
#include "palmist/accuracy/readers.h"
#include "palmist/base/csv.h"
#include "palmist/base/text.h"

namespace palmist::accuracy {

void RequireColumns(const CsvTable& table, std::initializer_list<std::string_view> columns) {
  for (const std::string_view column : columns) {
    if (!table.HasColumn(column)) {
      throw InputError("line 1", fmt::format("expected a column {}, got none", column));
    }
  }
}

std::vector<RowRange> RunsOf(const CsvTable& table) {
  std::vector<RowRange> runs;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string& id = table[i].Text("run_id");
    if (!runs.empty() && table[runs.back().first].Text("run_id") == id) {
      runs.back().second = i + 1;
    } else if (seen.insert(id).second) {
      runs.emplace_back(i, i + 1);
    } else {
      Cells(table[i]).Fail("run_id",
                           "expected the rows of run " + Quote(id) +
                               " one after the other, got another run between them");
    }
  }
  return runs;
}

void CheckSame(const CsvTable& table,
               RowRange rows,
               std::initializer_list<std::string_view> columns) {
  const CsvRow first = table[rows.first];
  for (std::size_t i = rows.first + 1; i < rows.second; ++i) {
    for (const std::string_view column : columns) {
      if (table[i].Text(column) == first.Text(column)) continue;
      Cells(table[i]).FailExpected(column,
                                   Quote(first.Text(column)) + " as in the other rows of the run");
    }
  }
}

Result<RunsFile> ReadRuns(std::string_view text) {
  PALMIST_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text));
  try {
    RunsFile file;
    if (table.HasColumn("ckpt_layers")) {
      file.schema = "mist";
      ReadMistRuns(table, file);
    } else if (table.HasColumn("num_recompute_ops")) {
      file.schema = "aceso";
      ReadAcesoRuns(table, file);
    } else if (table.HasColumn("n_gpu") && table.HasColumn("global_batch")) {
      file.schema = "public";
      ReadPublicRuns(table, file);
    } else {
      return InputError("line 1",
                        "expected the columns of a runs file (a run a row with n_gpu and "
                        "global_batch, a stage a row with ckpt_layers, or a rank a row with "
                        "num_recompute_ops), got others",
                        "docs/guide/validation.md lists the columns");
    }
    return file;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return error;
  }
}

}  // namespace palmist::accuracy
