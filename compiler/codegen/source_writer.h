// Lines of C++ text with indentation. Comments can be switched off: the cache key hashes the text without them.
#pragma once
#include <string>
#include <string_view>

namespace plait {

class SourceWriter {
public:
    explicit SourceWriter(bool comments) : comments_(comments) {}

    void line(std::string_view text);
    void blank();                         // one empty line; none at the start, never two in a row
    void comment(std::string_view text);  // each line of `text` as a // line; nothing where comments are off
    void open(std::string_view text);     // "text {", deeper from here on
    void close(std::string_view text = "}");
    void trailing(std::string_view text, std::string_view comment);  // text, then the comment on the same line
    const std::string& text() const { return text_; }

private:
    std::string text_;
    int depth_ = 0;
    bool comments_ = true;
};

}  // namespace plait
