// Prints kernel_shapes.h for the shapes given as triples `n transpose_b dtype`: what build_ag_gemm.py needs of the
// compiler. wgmma_shapes 256 1 bf16 > kernel_shapes.h
#include <cstdio>
#include <exception>
#include <string>

#include "compiler/codegen/wgmma_text.h"

int main(int count, char** arguments) {
    if (count < 4 || (count - 1) % 3 != 0) {
        std::fputs("usage: wgmma_shapes (N TRANSPOSE_B DTYPE)...\n", stderr);
        return 2;
    }
    try {
        std::set<plait::WgmmaShapeKey> shapes;
        for (int i = 1; i < count; i += 3) {
            shapes.insert({std::stoll(arguments[i]), std::string(arguments[i + 1]) == "1", arguments[i + 2]});
        }
        std::fputs(plait::wgmma_text(shapes).c_str(), stdout);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wgmma_shapes: %s\n", error.what());
        return 1;
    }
    return 0;
}
