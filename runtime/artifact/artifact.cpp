#include "runtime/artifact/artifact.h"

#include <fmt/format.h>

#include <set>

#include "runtime/artifact/manifest_fields.h"
#include "runtime/base/files.h"
#include "runtime/base/json_reader.h"
#include "templates/abi/kernel_args.h"

namespace plait {
namespace {

using nlohmann::ordered_json;

class JsonWriter {
public:
    explicit JsonWriter(ordered_json& json) : json_(json) {}
    template <class T>
    void operator()(const char* key, const T& value) {
        json_[key] = to_json(value);
    }

private:
    template <class T>
    static ordered_json to_json(const T& value) {
        return value;
    }
    static ordered_json to_json(const Expr& value) {
        if (value.kind() == ExprKind::Integer) return value.integer();
        return value.print();
    }
    static ordered_json to_json(const ManifestTensor& value) { return from_fields(value); }
    static ordered_json to_json(const ManifestMap& value) { return from_fields(value); }
    static ordered_json to_json(const ManifestParam& value) { return from_fields(value); }
    static ordered_json to_json(const ManifestLet& value) { return from_fields(value); }
    static ordered_json to_json(const WaitSite& value) { return from_fields(value); }
    static ordered_json to_json(const ManifestFlags& value) { return from_fields(value); }
    template <class T>
    static ordered_json to_json(const std::vector<T>& values) {
        ordered_json json = ordered_json::array();
        for (const T& value : values) json.push_back(to_json(value));
        return json;
    }
    template <class T>
    static ordered_json from_fields(const T& value) {
        ordered_json json = ordered_json::object();
        JsonWriter writer(json);
        visit_fields(writer, value);
        return json;
    }
    ordered_json& json_;
};

// Every field must be there: a manifest is written by a program of the same ABI version.
class FieldReader {
public:
    explicit FieldReader(JsonObject& object) : object_(object) {}
    template <class T>
    void operator()(const char* key, T& value) {
        object_.read(key, value);
    }
    void operator()(const char* key, std::vector<ManifestTensor>& values) { read_objects(key, values); }
    void operator()(const char* key, std::vector<ManifestMap>& values) { read_objects(key, values); }
    void operator()(const char* key, std::vector<ManifestParam>& values) { read_objects(key, values); }
    void operator()(const char* key, std::vector<ManifestLet>& values) { read_objects(key, values); }
    void operator()(const char* key, std::vector<WaitSite>& values) { read_objects(key, values); }
    void operator()(const char* key, std::vector<ManifestFlags>& values) { read_objects(key, values); }

private:
    template <class T>
    void read_objects(const char* key, std::vector<T>& values) {
        if (!object_.require(key)) return;
        object_.each(key, [&](JsonObject& object) {
            FieldReader reader(object);
            values.emplace_back();
            visit_fields(reader, values.back());
        });
    }
    JsonObject& object_;
};

class ManifestChecker {
public:
    ManifestChecker(const Manifest& manifest, JsonFindings& findings) : m_(manifest), findings_(findings) {}

    void check() {
        if (m_.arch != "host" && m_.arch != "sm_90a")
            findings_.add("/arch", fmt::format("arch `{}` is neither sm_90a nor host", m_.arch));
        if (m_.world != m_.nodes * m_.locals) {
            findings_.add("/world", fmt::format("world is {}, but {} nodes of {} ranks are {}", m_.world, m_.nodes,
                                                m_.locals, m_.nodes * m_.locals));
        }
        for (const auto& [key, value] : {std::pair{"world", m_.world},
                                         {"nodes", m_.nodes},
                                         {"locals", m_.locals},
                                         {"m_max", m_.m_max},
                                         {"threads", m_.threads},
                                         {"min_ctas", m_.min_ctas},
                                         {"cluster", m_.cluster},
                                         {"args_bytes", m_.args_bytes}}) {
            if (value < 1)
                findings_.add(fmt::format("/{}", key), fmt::format("{} is {}, at least 1 is needed", key, value));
        }
        if (m_.cluster > 1 && m_.min_ctas % m_.cluster != 0)
            findings_.add("/min_ctas",
                          fmt::format("min_ctas is {}, no multiple of a cluster of {}", m_.min_ctas, m_.cluster));
        if (m_.shared_bytes < 0) findings_.add("/shared_bytes", fmt::format("shared_bytes is {}", m_.shared_bytes));
        check_params();
        check_lets();
        check_tensors();
        check_maps();
        check_wait_sites();
    }

private:
    void check_names(const std::string& pointer, const Expr& expr) {
        for (const std::string& name : expr.names()) {
            if (known_.count(name) == 0)
                findings_.add(pointer,
                              fmt::format("`{}` uses the name {}, which is neither a launch value nor an earlier let",
                                          expr.print(), name));
        }
    }
    void check_names(const std::string& pointer, const std::vector<Expr>& exprs) {
        for (std::size_t i = 0; i < exprs.size(); ++i) check_names(fmt::format("{}/{}", pointer, i), exprs[i]);
    }
    void check_offset(const std::string& pointer, std::uint64_t offset, std::uint64_t bytes, const std::string& what) {
        const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(m_.args_bytes, 0));
        if (offset > size || bytes > size - offset) {
            findings_.add(pointer, fmt::format("{} at {} does not fit into {} bytes of arguments", what, offset, size));
        }
    }
    void check_params() {
        for (std::size_t i = 0; i < m_.params.size(); ++i) {
            const std::string pointer = fmt::format("/params/{}", i);
            const ManifestParam& param = m_.params[i];
            if (!known_.insert(param.name).second)
                findings_.add(pointer + "/name", fmt::format("{} is already a launch value", param.name));
            if (param.max < 1) findings_.add(pointer + "/max", fmt::format("max is {}, at least 1 is needed", param.max));
            check_offset(pointer + "/args_offset", param.args_offset, sizeof(std::int64_t), "param " + param.name);
        }
    }
    void check_lets() {
        for (std::size_t i = 0; i < m_.lets.size(); ++i) {
            check_names(fmt::format("/lets/{}/value", i), m_.lets[i].value);
            known_.insert(m_.lets[i].name);
        }
    }
    void check_tensors() {
        for (std::size_t i = 0; i < m_.tensors.size(); ++i) {
            const std::string pointer = fmt::format("/tensors/{}", i);
            const ManifestTensor& tensor = m_.tensors[i];
            check_dtype(pointer, tensor.dtype);
            check_names(pointer + "/shape", tensor.shape);
            check_offset(pointer + "/args_offset", tensor.args_offset, sizeof(void*),
                         "pointer of tensor " + tensor.name);
            if (!tensor.pitch.empty()) {
                check_offset(pointer + "/pitch_offset", tensor.pitch_offset, sizeof(std::int64_t), "pitch of tensor " + tensor.name);
                if (!known_.insert(tensor.pitch).second)
                    findings_.add(pointer + "/pitch", fmt::format("{} is already a launch value", tensor.pitch));
            }
            if (!tensors_.insert(tensor.name).second)
                findings_.add(pointer + "/name", fmt::format("tensor {} stands twice", tensor.name));
        }
    }
    void check_maps() {
        for (std::size_t i = 0; i < m_.maps.size(); ++i) {
            const std::string pointer = fmt::format("/maps/{}", i);
            const ManifestMap& map = m_.maps[i];
            check_dtype(pointer, map.dtype);
            if (map.memory != "workspace" && tensors_.count(map.memory) == 0) {
                findings_.add(pointer + "/memory",
                              fmt::format("map {}[{}] lies in `{}`, which is neither a tensor nor workspace", map.name,
                                          map.index, map.memory));
            }
            check_count(pointer + "/extent", map.extent.size(), 3);
            check_count(pointer + "/stride_bytes", map.stride_bytes.size(), 2);
            check_count(pointer + "/box", map.box.size(), 3);
            check_names(pointer + "/base_bytes", map.base_bytes);
            check_names(pointer + "/extent", map.extent);
            check_names(pointer + "/stride_bytes", map.stride_bytes);
            check_offset(pointer + "/args_offset", map.args_offset, sizeof(TensorMap),
                         fmt::format("map {}[{}]", map.name, map.index));
        }
    }
    void check_wait_sites() {
        std::set<std::int64_t> ids;
        for (std::size_t i = 0; i < m_.wait_sites.size(); ++i) {
            if (!ids.insert(m_.wait_sites[i].id).second)
                findings_.add(fmt::format("/wait_sites/{}/id", i),
                              fmt::format("wait site {} stands twice", m_.wait_sites[i].id));
        }
    }
    void check_count(const std::string& pointer, std::size_t count, std::size_t wanted) {
        if (count != wanted) findings_.add(pointer, fmt::format("{} numbers, {} are needed", count, wanted));
    }
    void check_dtype(const std::string& pointer, const std::string& dtype) {
        if (dtype != "bf16" && dtype != "f16" && dtype != "f32" && dtype != "i32")
            findings_.add(pointer + "/dtype", fmt::format("dtype `{}` is none of bf16, f16, f32, i32", dtype));
    }

    const Manifest& m_;
    JsonFindings& findings_;
    std::set<std::string> known_ = {"M", "rank", "world", "node", "nodes", "local", "locals"}, tensors_;
};

constexpr const char* kCodeFiles[] = {"kernel.cubin", "kernel.o", "kernel.so"};

void check_code_kind(const Manifest& manifest, const std::string& directory, const std::string& file) {
    const bool cubin = file == "kernel.cubin";
    if (cubin == (manifest.arch == "sm_90a")) return;
    throw ArgumentError(fmt::format("artifact {} is for {}, but its code is {}", directory, manifest.arch, file),
                        "write it again with plaitc");
}

}  // namespace

std::string Manifest::to_json_text() const {
    ordered_json json = ordered_json::object();
    JsonWriter writer(json);
    visit_fields(writer, *this);
    return json.dump(2) + "\n";
}

Manifest Manifest::from_json_text(const std::string& text, const std::string& origin) {
    JsonFindings findings;
    const auto json = parse_json(text, findings);
    findings.throw_if_any<ArgumentError>(origin);
    JsonObject object(JsonValue(*json, "", findings));
    Manifest manifest;
    // The version first: another version's fields mean nothing here.
    object.read("abi_version", manifest.abi_version);
    if (findings.empty() && manifest.abi_version != static_cast<std::int64_t>(kAbiVersion)) {
        findings.add("/abi_version",
                     fmt::format("abi version is {}, this runtime has {}", manifest.abi_version, kAbiVersion),
                     "compile the artifact again with this version of plait");
    }
    findings.throw_if_any<ArgumentError>(origin);
    FieldReader reader(object);
    visit_fields(reader, manifest);
    object.finish();
    if (findings.empty()) ManifestChecker(manifest, findings).check();
    findings.throw_if_any<ArgumentError>(origin);
    return manifest;
}

Artifact load_artifact(const std::string& directory) {
    Artifact artifact;
    artifact.manifest = Manifest::from_json_text(read_file(directory + "/manifest.json"), directory + "/manifest.json");
    artifact.source = read_file(directory + "/kernel.cu");
    std::string found;
    for (const char* file : kCodeFiles) {
        if (!file_exists(directory + "/" + file)) continue;
        if (!found.empty())
            throw ArgumentError(fmt::format("artifact {} has both {} and {}", directory, found, file),
                                "remove one of them");
        found = file;
    }
    if (found.empty())
        throw ArgumentError(
            fmt::format("artifact {} has no code: neither kernel.cubin, kernel.o nor kernel.so", directory),
            "write it again with plaitc");
    check_code_kind(artifact.manifest, directory, found);
    artifact.code_file = directory + "/" + found;
    artifact.code = read_file(artifact.code_file);
    if (artifact.code.empty())
        throw ArgumentError(fmt::format("{} is empty", artifact.code_file), "write it again with plaitc");
    return artifact;
}

}  // namespace plait
