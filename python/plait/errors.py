"""Typed errors, the same names as in C++. What comes from the outside world carries a hint."""

from __future__ import annotations


class Error(Exception):
    """Base of all plait errors.

    Attributes:
        message: what is wrong, where, with the numbers.
        hint: what to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ScheduleError(Error):
    """Graph, schedule, topology or plan is not legal. The message lists every finding."""


class CompileError(Error):
    """NVRTC, ptxas or Clang refused the source, or its result breaks a rule."""


class DeviceError(Error):
    """Driver or device."""


class TransportError(Error):
    """Proxy session, NIC or rendezvous."""


class StallError(Error):
    """A wait reached its deadline, nothing could move any more, or the Session was aborted."""


class ArgumentError(Error):
    """A call's arguments: shape, dtype, device or number of tensors."""


class SimulationFault(Error):
    """The simulated machine saw an access that nothing orders, or one out of bounds: the kernel is wrong."""


class InternalError(Error):
    """A bug of plait itself; please report it."""
