# HiGHS, the MILP solver behind palmist/solve/highs, from the highsbox wheel or an install of HiGHS.
# Sets PALMIST_HAS_HIGHS; without it palmist/solve/no_highs.cc is built instead.
#
#   PALMIST_WITH_HIGHS  ON, OFF or AUTO (ON where it is found)
#   HIGHS_ROOT          folder with lib/libhighs.so and include/highs/; default: the highsbox of .venv
#
# Only the C interface is used: the wheel's C++ interface has the old binary interface of libstdc++.
# Its CMake config is not called, since it asks for a BLAS.
set(PALMIST_WITH_HIGHS AUTO CACHE STRING "Build the MILP solver on HiGHS: ON, OFF, or AUTO (where it is found)")
set_property(CACHE PALMIST_WITH_HIGHS PROPERTY STRINGS AUTO ON OFF)
set(HIGHS_ROOT "" CACHE PATH "Folder with lib/libhighs.so and include/highs/ of HiGHS")
set(PALMIST_HAS_HIGHS OFF)
if(NOT PALMIST_WITH_HIGHS)
  return()
endif()
# A wheel of the Python package must load where no HiGHS is. The thread sanitizer does not see the
# locks of a library that was built without it, and would report races.
if(PALMIST_WITH_HIGHS STREQUAL "AUTO" AND (SKBUILD OR PALMIST_SANITIZE STREQUAL "thread"))
  return()
endif()

if(HIGHS_ROOT)
  set(palmist_highs_root ${HIGHS_ROOT})
else()
  file(GLOB palmist_highs_root ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/highsbox/highs_dist)
endif()
find_library(palmist_highs_library highs PATHS ${palmist_highs_root} PATH_SUFFIXES lib lib64
  NO_DEFAULT_PATH NO_CACHE)
find_path(palmist_highs_include interfaces/highs_c_api.h PATHS ${palmist_highs_root}
  PATH_SUFFIXES include/highs include NO_DEFAULT_PATH NO_CACHE)
if(NOT palmist_highs_library OR NOT palmist_highs_include)
  if(HIGHS_ROOT OR NOT PALMIST_WITH_HIGHS STREQUAL "AUTO")
    message(FATAL_ERROR "PALMIST_WITH_HIGHS: expected lib/libhighs.so and include/highs/ below "
      "'${palmist_highs_root}'. Run tools/setup.sh build, or set HIGHS_ROOT to an install of HiGHS, "
      "or PALMIST_WITH_HIGHS=OFF.")
  endif()
  message(STATUS "HiGHS: not found, so no MILP solver (tools/setup.sh build installs it)")
  # Looked for again when CMake runs next.
  return()
endif()
set(PALMIST_HAS_HIGHS ON)
message(STATUS "HiGHS: ${palmist_highs_library}")

add_library(palmist_highs SHARED IMPORTED GLOBAL)
set_target_properties(palmist_highs PROPERTIES IMPORTED_LOCATION ${palmist_highs_library})
target_include_directories(palmist_highs SYSTEM INTERFACE ${palmist_highs_include})

# Links the library `target` against HiGHS. An installed tree carries a copy of it, which installed
# programs find beside themselves and users of the libraries link by its path.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
file(REAL_PATH ${palmist_highs_library} palmist_highs_file)
cmake_path(GET palmist_highs_file FILENAME palmist_highs_name)
set(palmist_highs_license ${palmist_highs_root}/share/doc/HIGHS/LICENSE.txt)
function(palmist_use_highs target)
  target_link_libraries(${target} PRIVATE
    $<BUILD_INTERFACE:palmist_highs>
    $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/${palmist_highs_name}>)
  install(FILES ${palmist_highs_file} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(EXISTS ${palmist_highs_license})
    install(FILES ${palmist_highs_license} DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME LICENSE.HiGHS)
  endif()
endfunction()
