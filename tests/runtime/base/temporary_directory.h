// A fresh folder for one test.
#pragma once
#include <filesystem>
#include <string>

#include "runtime/base/files.h"

namespace plait::testing {

class TemporaryDirectory {
public:
    TemporaryDirectory() : path_(make_temporary_directory(std::filesystem::temp_directory_path().string())) {}
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

}  // namespace plait::testing
