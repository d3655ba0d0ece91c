"""plait: weaves compute, NVLink traffic and RDMA traffic into one persistent kernel.

    import plait

    @plait.jit
    def ag_gemm(a, b, bias):
        return plait.gelu(plait.all_gather(a, dim=0) @ b + bias)

    outputs = ag_gemm(a_shards, b_per_rank, bias, session=plait.SimSession("2x2"))
"""

from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    Error,
    InternalError,
    ScheduleError,
    SimulationFault,
    StallError,
    TransportError,
)
from .jit import JitFunction, jit
from .language import all_gather, attention, cast, gelu, gelu_tanh, grouped_matmul, matmul, relu, silu, silu_mul
from .session import Session, SimSession, open_session, topology

__version__ = "0.1.0"
__all__ = [
    "ArgumentError", "CompileError", "DeviceError", "Error", "InternalError", "JitFunction", "ScheduleError", "Session",
    "SimSession", "SimulationFault", "StallError", "TransportError", "all_gather", "attention", "cast", "gelu", "gelu_tanh",
    "grouped_matmul", "jit", "matmul", "open_session", "relu", "silu", "silu_mul", "topology",
]
