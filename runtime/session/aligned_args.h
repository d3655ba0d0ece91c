// The bytes of a kernel's Args at the alignment that host code expects of them.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "templates/abi/kernel_args.h"

namespace plait {

class AlignedArgs {
public:
    explicit AlignedArgs(const std::vector<unsigned char>& bytes) : storage_(bytes.size() + alignof(TensorMap)) {
        const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
        offset_ = (alignof(TensorMap) - address % alignof(TensorMap)) % alignof(TensorMap);
        std::memcpy(storage_.data() + offset_, bytes.data(), bytes.size());
    }
    const void* data() const { return storage_.data() + offset_; }

private:
    std::vector<unsigned char> storage_;
    std::uint64_t offset_ = 0;
};

}  // namespace plait
