// Plotly, carried inside the program.
#include "palmist/report/page.h"
#include "palmist/report/plotly_files.h"

namespace palmist::report {

std::string_view PlotlyScript() { return kPlotlyFiles.front().content; }

}  // namespace palmist::report
