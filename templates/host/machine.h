// The host tile machine: the names of ../machine.h as calls of a HostEngine (../abi/host_engine.h). The one header that
// emitted source includes. Freestanding C++20: no header from outside templates/, no library call but libm's.
#pragma once
#include "../abi/host_engine.h"
#include "../abi/kernel_args.h"
#include "../arithmetic.h"
#include "accumulator.h"
#include "address.h"
#include "agent.h"
#include "bulk_copy.h"
#include "epilogue.h"
#include "fifo.h"
#include "flag.h"
#include "launch.h"
#include "mma.h"
#include "number.h"
#include "pipeline.h"
#include "pointwise.h"
#include "relay.h"
