/// What the subcommands share. Each subcommand is one file with one `Add…Command` function.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "palmist/base/error.h"
#include "palmist/base/result.h"
#include "palmist/cluster/calibration.h"

namespace palmist::cli {

/// The program's global state while one command runs.
struct Context {
  std::ostream* out = nullptr;  ///< results
  std::ostream* err = nullptr;  ///< everything else
  bool json = false;            ///< machine-readable result alone on `out`
  bool quiet = false;
  std::function<int()> command;  ///< set by the subcommand that was chosen; returns the exit code
};

/// Adds a subcommand with `--json` and an example at the end of its help.
/// @param run called when the command was chosen and its options are read; returns the exit code.
CLI::App* AddCommand(CLI::App& app,
                     Context& context,
                     const std::string& name,
                     const std::string& description,
                     const std::string& example,
                     std::function<int()> run);

/// Returns the calibration file at `path`, with defaults for what it lacks, or the defaults where
/// `path` is empty.
cluster::Calibration CalibrationFor(const std::string& path, const cluster::Cluster& cluster);

/// Reads `parse(text)`; an error names `option`.
template <typename T>
T ReadOption(const std::string& option,
             const std::string& text,
             Result<T> (*parse)(std::string_view)) {
  Result<T> result = parse(text);
  if (result.ok()) return std::move(result).value();
  throw UsageError(option, result.error().message(), result.error().hint());
}

/// Prints `json` and a line's end.
void PrintJson(Context& context, const nlohmann::ordered_json& json);

void AddPlanCommand(CLI::App& app, Context& context);
void AddPredictCommand(CLI::App& app, Context& context);
void AddExplainCommand(CLI::App& app, Context& context);
void AddWhatIfCommand(CLI::App& app, Context& context);
void AddModelsCommand(CLI::App& app, Context& context);
void AddClustersCommand(CLI::App& app, Context& context);
void AddValidateCommand(CLI::App& app, Context& context);
void AddDoctorCommand(CLI::App& app, Context& context);
void AddGraspCommand(CLI::App& app, Context& context);

/// Runs the program; returns its exit code. `main` calls it, tests too.
int Main(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace palmist::cli
