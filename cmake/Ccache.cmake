# Compiles through ccache where it is installed; paths below the checkout are hashed relative to it.
find_program(PALMIST_CCACHE ccache)
mark_as_advanced(PALMIST_CCACHE)
if(PALMIST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${PALMIST_CCACHE})
endif()
