// Topology of this machine: the GPUs that the driver shows, taken as `nodes` nodes of `gpus_per_node`.
#pragma once
#include "runtime/device/driver.h"
#include "runtime/topology/topology.h"

namespace plait {

// Reads GPU 0 and requires all of the driver's GPUs to be alike: one artifact serves every rank. Between several nodes
// stand loopback NICs, one a GPU: NICs are described by a topology file. ranks may exceed the GPUs (several share one).
// DeviceError: no GPU, GPUs that differ (SMs, shared memory), or one that is not compute capability 9.0.
Topology machine_topology(const Driver& driver, int nodes, int gpus_per_node);

}  // namespace plait
