// The sm90 tile machine: the names of ../machine.h in PTX. The one header that emitted source includes; kernel_shapes.h,
// generated, follows it.
#pragma once
#include "../abi/kernel_args.h"
#include "../arithmetic.h"
#include "sync/address.cuh"
#include "sync/bulk_copy.cuh"
#include "sync/fifo.cuh"
#include "sync/flag.cuh"
#include "sync/launch.cuh"
#include "sync/pipeline.cuh"
#include "sync/relay.cuh"
#include "sync/turn.cuh"
#include "tile/epilogue.cuh"
#include "tile/mma.cuh"
#include "tile/operand.cuh"
#include "tile/pointwise.cuh"
#include "tile/softmax.cuh"
#include "tile/softmax_operand.cuh"
