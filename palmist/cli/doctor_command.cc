#include <ostream>

#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/base/version.h"
#include "palmist/cli/command.h"
#include "palmist/cluster/presets.h"
#include "palmist/model/zoo.h"
#include "palmist/report/page.h"
#include "palmist/solve/milp.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::cli {

void AddDoctorCommand(CLI::App& app, Context& context) {
  AddCommand(
      app,
      context,
      "doctor",
      "show what this build and machine can do, and what is missing",
      "palmist doctor",
      [&context] {
        const cluster::Cluster here = cluster::LoadCluster("cpu-1x1").value();
        const auto solver = solve::MakeLabelSearch();
        const bool charts = !report::PlotlyScript().empty();
        nlohmann::ordered_json json = {
            {"version", Version()},
            {"build", BuildOptions()},
            {"threads", HardwareThreads()},
            {"memory_bytes", here.groups.front().device.memory_bytes},
            {"models", model::ZooNames().size()},
            {"solvers",
             nlohmann::ordered_json{{solver->name(), solver->available()},
                                    {"highs", solve::MakeMilpSolver()->available()}}},
            {"charts", charts},
            {"torch", false},
            {"missing", nlohmann::ordered_json::array()}};
        if (!charts) {
          json["missing"].push_back("charts in reports: build with -DPALMIST_WITH_PLOTLY=ON");
        }
        json["missing"].push_back("training and the operators: this version is the planner alone");
        if (context.json) {
          PrintJson(context, json);
          return 0;
        }
        *context.out << "palmist " << Version() << " (" << BuildOptions() << ")\n"
                     << "machine   " << HardwareThreads() << " threads, "
                     << FormatBytes(here.groups.front().device.memory_bytes) << " memory\n"
                     << "models    " << model::ZooNames().size() << " built in\n"
                     << "solver    " << solver->name() << " search (exact)\n"
                     << "reports   " << (charts ? "with charts" : "tables only") << '\n';
        for (const auto& missing : json["missing"]) {
          *context.out << "missing   " << missing.get<std::string>() << '\n';
        }
        return 0;
      });
}

}  // namespace palmist::cli
