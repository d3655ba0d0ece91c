#include "compiler/codegen/source_writer.h"

#include "runtime/base/error.h"

namespace plait {

void SourceWriter::line(std::string_view text) { text_.append(4 * depth_, ' ').append(text).push_back('\n'); }

void SourceWriter::blank() {
    if (!text_.empty() && !text_.ends_with("\n\n")) text_.push_back('\n');
}

void SourceWriter::comment(std::string_view text) {
    if (!comments_ || text.empty()) return;
    while (true) {
        std::size_t end = text.find('\n');
        std::string piece(text.substr(0, end));
        // A backslash at the end of a comment would swallow the statement below it.
        while (!piece.empty() && (piece.back() == '\\' || piece.back() == ' ')) piece.pop_back();
        line(piece.empty() ? "//" : "// " + piece);
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
}

void SourceWriter::open(std::string_view text) {
    line(std::string(text) + " {");
    ++depth_;
}

void SourceWriter::close(std::string_view text) {
    if (depth_ == 0) throw InternalError("source writer closes a block that is not open");
    --depth_;
    line(text);
}

void SourceWriter::trailing(std::string_view text, std::string_view comment) {
    if (!comments_ || comment.empty()) return line(text);
    line(std::string(text) + "   // " + std::string(comment));
}

}  // namespace plait
