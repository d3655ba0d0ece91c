// The part of the CUDA driver API that plait uses, declared by hand: the project builds where no CUDA header exists.
// Names are ours, layouts and values are those of cuda.h of CUDA 13.0; runtime/device/README.md says how to check them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace plait::cu {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle

struct ContextObject;
struct StreamObject;
struct EventObject;
struct ModuleObject;
struct FunctionObject;
using Context = ContextObject*;
using Stream = StreamObject*;
using Event = EventObject*;
using Module = ModuleObject*;
using Function = FunctionObject*;

// CUresult
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidValue = 1;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorNotInitialized = 3;
inline constexpr Result kErrorInvalidImage = 200;
inline constexpr Result kErrorNoBinaryForGpu = 209;
inline constexpr Result kErrorNotFound = 500;
inline constexpr Result kErrorNotReady = 600;
inline constexpr Result kErrorLaunchFailed = 719;
inline constexpr Result kErrorCooperativeLaunchTooLarge = 720;
inline constexpr Result kErrorNotSupported = 801;
inline constexpr Result kErrorStreamCaptureFirst = 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ...
inline constexpr Result kErrorStreamCaptureLast = 908;   // ... _WRONG_THREAD

// CUdevice_attribute
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kCooperativeLaunch = 95;
inline constexpr int kMaxRegistersPerMultiprocessor = 82;
inline constexpr int kMaxSharedMemoryPerBlockOptin = 97;
inline constexpr int kVirtualMemoryManagementSupported = 102;
inline constexpr int kPosixFileDescriptorSupported = 103;
inline constexpr int kGpuDirectRdmaWithVmmSupported = 110;

// CUfunction_attribute
inline constexpr int kLocalSizeBytes = 3;
inline constexpr int kNumRegisters = 4;
inline constexpr int kMaxDynamicSharedSizeBytes = 8;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;  // under capture: an event record node
inline constexpr unsigned kEventWaitExternal = 1;    // under capture: an event wait node
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr unsigned kWriteValueDefault = 0;  // fences earlier writes of the stream at system scope

enum class CaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

// CUmemAllocationProp
struct MemoryLocation {
    int type;  // kLocationDevice
    int id;
};
struct MemoryProperties {
    int type;                    // kAllocationPinned
    int requested_handle_types;  // kHandlePosixFileDescriptor
    MemoryLocation location;
    void* win32_metadata;
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
};
struct MemoryAccess {
    MemoryLocation location;
    int flags;  // kAccessReadWrite
};
static_assert(sizeof(MemoryProperties) == 32 && offsetof(MemoryProperties, location) == 8);
static_assert(offsetof(MemoryProperties, win32_metadata) == 16 &&
              offsetof(MemoryProperties, gpu_direct_rdma_capable) == 25);
static_assert(sizeof(MemoryAccess) == 12 && offsetof(MemoryAccess, flags) == 8);
inline constexpr int kAllocationPinned = 1;
inline constexpr int kHandlePosixFileDescriptor = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;

// CUlaunchConfig
struct LaunchAttribute {
    int id;  // kAttributeCooperative
    char pad[4];
    union {
        char bytes[64];
        int cooperative;
    } value;
};
struct LaunchConfig {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    Stream stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);
static_assert(offsetof(LaunchConfig, attributes) == 40 && offsetof(LaunchConfig, attribute_count) == 48);
inline constexpr int kAttributeCooperative = 2;

// cuTensorMapEncodeTiled
struct alignas(128) EncodedTensorMap {
    unsigned long long word[16];
};
static_assert(sizeof(EncodedTensorMap) == 128);
inline constexpr int kTensorFloat16 = 6;
inline constexpr int kTensorFloat32 = 7;
inline constexpr int kTensorBfloat16 = 9;
inline constexpr int kInterleaveNone = 0;
inline constexpr int kSwizzle128B = 3;
inline constexpr int kL2Promotion128B = 2;
inline constexpr int kOutOfBoundsZero = 0;

struct Uuid {
    unsigned char bytes[16];
};

}  // namespace plait::cu
