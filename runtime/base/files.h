// Files that several processes share: whole or not at all.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

namespace plait {

std::string read_file(const std::string& path);  // ArgumentError: path and reason
bool file_exists(const std::string& path);
void make_directories(const std::string& path);

// Readers see the old content or the new one, never a part: temporary file beside it, fsync, rename, fsync of the
// folder.
void write_file_atomically(const std::string& path, std::string_view content);

// Adds `line` and a newline to a file that several processes write, unless the file holds that line. What a writer that
// died left of a line is removed first.
void add_line_once(const std::string& path, const std::string& line);

// A fresh folder in `parent` (made where missing), on the same file system as what is published there.
std::string make_temporary_directory(const std::string& parent);
// Renames `staged` to `target` after an fsync of its files. False where target was published by another: `staged` is
// removed then, and target stays as it is.
bool publish_directory(const std::string& staged, const std::string& target);
void remove_recursively(const std::string& path);

// Exclusive lock between processes and threads, held until destruction. flock(2): the kernel frees it when the holder
// dies, so a killed holder blocks nobody. The file stays; it carries the holder's process id for the timeout's error.
class FileLock {
public:
    explicit FileLock(const std::string& path, std::chrono::milliseconds timeout = std::chrono::minutes(10));
    ~FileLock();
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

private:
    int descriptor_ = -1;
};

}  // namespace plait
