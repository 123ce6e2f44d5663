#include <iostream>

#include "palmist/cli/command.h"

int main(int argc, char** argv) { return palmist::cli::Main(argc, argv, std::cout, std::cerr); }
