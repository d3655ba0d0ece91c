// Statements shared by the programs that copy rows: a software pipeline of bulk copies through shared memory.
#pragma once
#include <string>

#include "compiler/passes/block.h"
#include "compiler/passes/choices.h"

namespace plait {

struct PieceCopy {
    std::string slots;          // shared array of copy buffers
    std::string barrier;        // one per slot
    std::string edge;           // of the hand-over inside the pipeline
    std::string source;         // tensor or buffer of this rank
    std::string source_offset;  // bytes
    std::string source_pitch;   // where the source's rows may lie apart: the name of their distance; else empty
    std::string target_offset;  // bytes in a_full
    std::string bytes;
    bool to_peers = false;  // to every other local rank; else to this rank's own a_full
};

// Before the first copy of a program: its positions in the ring of copy buffers.
void declare_piece_pipes(Block& block);
// Rows that lie apart are copied one by one, each in a pipeline run of its own: several times slower than one piece.
// Loads run `lag` pieces ahead of puts. At the end all puts are issued and committed, none is waited for.
void copy_pieces(Block& block, const Choices& choices, const PieceCopy& copy);
// Worker number and count of a program that runs on CTAs [first, last).
void declare_workers(Block& block, const ProgramDef& program);

}  // namespace plait
