// Shared libraries opened at run time: plait starts where they are missing and says which one is needed for what.
#pragma once
#include <string>
#include <vector>

namespace plait {

class Library {
public:
    // The first of `candidates` that opens; `chosen` (a setting's value), where not empty, is the only candidate.
    // DeviceError otherwise: `purpose` is what the library is needed for ("launching on a GPU"), hint what to do.
    static Library open(const std::string& purpose, std::vector<std::string> candidates, const std::string& chosen = "",
                        const std::string& hint = "");
    ~Library();
    Library(Library&& other) noexcept;
    Library& operator=(Library&& other) noexcept;
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    const std::string& path() const { return path_; }
    void* find(const std::string& symbol) const;  // nullptr where there is none
    template <class Function>
    Function* function(const std::string& symbol) const {  // DeviceError where there is none
        return reinterpret_cast<Function*>(require(symbol));
    }
    // Keeps the library loaded after destruction: drivers leave threads behind that run its code.
    void keep_loaded() { resident_ = true; }

private:
    Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
    void* require(const std::string& symbol) const;
    void* handle_ = nullptr;
    std::string path_;
    bool resident_ = false;
};

}  // namespace plait
