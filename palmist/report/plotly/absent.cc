// A build without Plotly: pages show the tables of their charts.
#include "palmist/report/page.h"

namespace palmist::report {

std::string_view PlotlyScript() { return {}; }

}  // namespace palmist::report
