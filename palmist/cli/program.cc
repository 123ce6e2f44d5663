#include <algorithm>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "palmist/base/interrupt.h"
#include "palmist/base/log.h"
#include "palmist/base/nearest.h"
#include "palmist/base/progress.h"
#include "palmist/base/text.h"
#include "palmist/base/version.h"
#include "palmist/cli/command.h"

namespace palmist::cli {
namespace {

void ReportError(Context& context, const Error& error) {
  if (context.json) {
    PrintJson(context,
              {{"error",
                {{"kind", ToString(error.kind())},
                 {"message", error.message()},
                 {"field", error.field()},
                 {"hint", error.hint()}}}});
    return;
  }
  *context.err << "palmist: " << Printable(error.what()) << '\n';
}

/// CLI11's own errors, as ours: they name what is unknown and what comes close.
Error FromParseError(const CLI::ParseError& error, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  std::string hint = "see palmist --help";
  std::string path = "palmist";
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = chosen.front()->get_subcommands()) {
    const CLI::App* command = chosen.front();
    path += " " + command->get_name();
    names.clear();
    for (const CLI::App* known : {command, &app}) {
      for (const CLI::Option* option : known->get_options()) names.push_back(option->get_name());
    }
    for (const CLI::App* below : command->get_subcommands({})) names.push_back(below->get_name());
    hint = "see " + path + " --help";
    if (!command->get_subcommands().empty()) continue;
    // What a command does not know falls through to the program. Options before their values.
    std::vector<std::string> unknown = app.remaining(true);
    std::stable_partition(unknown.begin(), unknown.end(), [](const std::string& argument) {
      return argument.starts_with('-');
    });
    if (!unknown.empty()) {
      const std::vector<std::string> near = NearestNames(unknown.front(), names, 1);
      return UsageError("",
                        "unknown argument '" + unknown.front() + "'",
                        (near.empty() ? "" : "did you mean " + near.front() + "? ") + hint);
    }
  }
  if (app.get_subcommands().empty() && !app.remaining().empty()) {
    const std::vector<std::string> near = NearestNames(app.remaining().front(), names, 1);
    return UsageError("",
                      "unknown command '" + app.remaining().front() + "'",
                      (near.empty() ? "" : "did you mean palmist " + near.front() + "? ") + hint);
  }
  return UsageError("", error.what(), hint);
}

int RunCommand(Context& context) {
  try {
    const int code = context.command();
    context.out->flush();
    if (!*context.out) {
      throw Error(ErrorKind::kRuntime,
                  "the result could not be written to standard output",
                  "",
                  "is the disk full, or the reader gone?");
    }
    return code;
  } catch (const Error& error) {
    ReportError(context, error);
    return ExitCode(error.kind());
  } catch (const std::bad_alloc&) {
    ReportError(context,
                Error(ErrorKind::kRuntime,
                      "out of memory",
                      "",
                      "use a smaller model or cluster, or more host memory"));
    return ExitCode(ErrorKind::kRuntime);
  } catch (const std::exception& error) {
    ReportError(context, Error(ErrorKind::kInternal, error.what(), "", "please report this"));
    return ExitCode(ErrorKind::kInternal);
  }
}

}  // namespace

CLI::App* AddCommand(CLI::App& app,
                     Context& context,
                     const std::string& name,
                     const std::string& description,
                     const std::string& example,
                     std::function<int()> run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag(
      "--json", context.json, "print the result as JSON, and nothing else, on stdout");
  command->footer("Example:\n  " + example);
  command->callback([&context, run = std::move(run)] { context.command = run; });
  return command;
}

cluster::Calibration CalibrationFor(const std::string& path, const cluster::Cluster& cluster) {
  if (path.empty()) return cluster::DefaultCalibration(cluster);
  return cluster::WithDefaults(cluster::ReadCalibration(path).value(), cluster);
}

void PrintJson(Context& context, const nlohmann::ordered_json& json) {
  *context.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

int Main(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  Context context{.out = &out, .err = &err, .json = false, .quiet = false, .command = {}};
  // An error before --json is parsed should still come as JSON.
  for (int i = 1; i < argc; ++i) context.json = context.json || std::string(argv[i]) == "--json";

  CLI::App app{"Finds the fastest way to train a model on a cluster, within memory.", "palmist"};
  std::string log_level = "info", color = "auto";
  app.set_version_flag("--version", [] {
    return std::string("palmist ") + Version() + "\n" + BuildOptions() +
           "\nsolvers: label search\nlibtorch: none";
  });
  app.add_option("--log-level", log_level, "debug, info, warning, error or off");
  app.add_flag("--quiet", context.quiet, "no progress and no notes, errors only");
  app.add_option("--color", color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.require_subcommand(1);
  app.fallthrough();
  AddPlanCommand(app, context);
  AddPredictCommand(app, context);
  AddExplainCommand(app, context);
  AddWhatIfCommand(app, context);
  AddModelsCommand(app, context);
  AddClustersCommand(app, context);
  AddValidateCommand(app, context);
  AddDoctorCommand(app, context);
  AddGraspCommand(app, context);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success, out, err);  // --help and --version
  } catch (const CLI::ParseError& error) {
    if (argc <= 1) {
      err << app.help();
      return ExitCode(ErrorKind::kUsage);
    }
    ReportError(context, FromParseError(error, app));
    return ExitCode(ErrorKind::kUsage);
  }
  const auto run = context.command;
  context.command = [&]() -> int {
    SetLogLevel(context.quiet ? LogLevel::kError : ParseLogLevel(log_level).value());
    SetLogColor(color == "always"  ? ColorMode::kAlways
                : color == "never" ? ColorMode::kNever
                                   : ColorMode::kAuto);
    SetProgressEnabled(!context.quiet);
    InstallInterruptHandler();
    return run();
  };
  return RunCommand(context);
}

}  // namespace palmist::cli
