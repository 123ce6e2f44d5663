# PALMIST_PLOTLY_JS: the plotly.min.js that reports carry inside, from the plotly wheel in .venv
# (made by tools/setup.sh).
file(GLOB palmist_plotly_dirs ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/plotly/package_data)
find_file(PALMIST_PLOTLY_JS plotly.min.js PATHS ${palmist_plotly_dirs} NO_DEFAULT_PATH
  DOC "plotly.min.js, embedded in reports")
