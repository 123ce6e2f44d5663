/// The readers of the three schemas. For runs.cc.
#pragma once

#include "palmist/accuracy/run_plan.h"
#include "palmist/accuracy/runs.h"
#include "palmist/base/csv.h"

namespace palmist::accuracy {

/// One run a row: public_runs.csv, with or without the columns of sailor/ and moe/. Throws input
/// errors.
void ReadPublicRuns(const CsvTable& table, RunsFile& file);

/// One stage a row: mist/l4_measured_runs.csv. Throws input errors.
void ReadMistRuns(const CsvTable& table, RunsFile& file);

/// One rank a row: mist/aceso_measured_runs.csv. Throws input errors.
void ReadAcesoRuns(const CsvTable& table, RunsFile& file);

/// Throws where the table lacks one of `columns`.
void RequireColumns(const CsvTable& table, std::initializer_list<std::string_view> columns);

/// A run's rows, one after the other.
using RowRange = std::pair<std::size_t, std::size_t>;

/// Returns the ranges of rows with the same `run_id`; throws where one comes back after another.
std::vector<RowRange> RunsOf(const CsvTable& table);

/// Throws where the cells of `columns` differ within a run.
void CheckSame(const CsvTable& table,
               RowRange rows,
               std::initializer_list<std::string_view> columns);

}  // namespace palmist::accuracy
