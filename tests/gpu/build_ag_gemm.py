"""Compiles ag_gemm.cu for the configurations that run_ag_gemm.py launches: cubins and configs.json into one folder.

    python3 tests/gpu/build_ag_gemm.py OUT_FOLDER build/bin/wgmma_shapes

Needs nvcc, no GPU. Prints each kernel's spills; fails on ptxas' messages that it serialised wgmma or ignored setmaxnreg.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def config(n, k, world, tile, layout, stages, shard_max, comm_ctas=0, raster=8, epilogue=0):
    tile_m, tile_n = tile
    nn = int(layout == "nn")
    return dict(name=f"w{world}_n{n}_k{k}_{tile_m}x{tile_n}_{layout}_s{stages}_g{raster}_c{comm_ctas}{'_e' * epilogue}", n=n, k=k, world=world,
                tile_m=tile_m, tile_n=tile_n, nn=nn, stages=stages, shard_max=shard_max, comm_ctas=comm_ctas, raster=raster, epilogue=epilogue)


def configs():
    square, wide, fit = (128, 256), (256, 192), (256, 176)
    found = [config(3648, 1088, 1, square, "nn", 4, 1152), config(3648, 1088, 1, square, "nt", 4, 1152),
             config(3648, 1088, 1, wide, "nn", 3, 1152), config(3648, 1088, 1, fit, "nn", 3, 1152),
             config(3648, 1088, 1, square, "nn", 4, 1152, epilogue=1), config(3648, 1088, 1, wide, "nn", 3, 1152, epilogue=1)]
    for n, k in ((4096, 4096), (8192, 8192), (14336, 8192)):
        for raster in (8, 16):
            found.append(config(n, k, 1, square, "nn", 4, 8192, raster=raster))
        found.append(config(n, k, 1, square, "nt", 4, 8192))
        found.append(config(n, k, 1, square, "nn", 4, 8192, epilogue=1))
        found.append(config(n, k, 1, wide, "nn", 3, 8192))
        found.append(config(n, k, 1, fit, "nn", 3, 8192))
    found.append(config(1088, 1024, 2, square, "nn", 4, 640, comm_ctas=2))
    for n, shard in ((14336, 1024), (4096, 4096)):
        for comm_ctas in (4, 8, 16):
            found.append(config(n, 8192, 2, square, "nn", 4, shard, comm_ctas=comm_ctas))
    return found


def build(c, out, shapes_tool):
    folder = out / c["name"]
    folder.mkdir(parents=True, exist_ok=True)
    shapes = subprocess.run([shapes_tool, str(c["tile_n"]), str(c["nn"]), "bf16"], check=True, capture_output=True, text=True)
    (folder / "kernel_shapes.h").write_text(shapes.stdout)
    words = {"N": "n", "K": "k", "WORLD": "world", "TILE_M": "tile_m", "TILE_N": "tile_n", "NN": "nn", "STAGES": "stages",
             "SHARD_MAX": "shard_max", "COMM_CTAS": "comm_ctas", "RASTER": "raster"}
    command = ["nvcc", "-std=c++20", "-cubin", "-gencode", "arch=compute_90a,code=sm_90a", "-Xptxas", "-v", "--fmad=false",
               f"-I{ROOT}/templates", f"-I{folder}", *(f"-DP_{word}={c[field]}" for word, field in words.items()), *(["-DP_EPILOGUE"] if c["epilogue"] else []),
               str(ROOT / "tests/gpu/ag_gemm.cu"), "-o", str(out / (c["name"] + ".cubin"))]
    done = subprocess.run(command, capture_output=True, text=True)
    report = done.stdout + done.stderr
    if done.returncode != 0:
        sys.exit(report)
    if re.search(r"C75\d\d", report):
        sys.exit(f"{c['name']}: ptxas serialised wgmma or ignored setmaxnreg\n{report}")
    spills = re.search(r"(\d+) bytes spill stores", report)
    print(c["name"], spills.group(0) if spills else "")


def main():
    out, shapes_tool = pathlib.Path(sys.argv[1]), sys.argv[2]
    out.mkdir(parents=True, exist_ok=True)
    for c in configs():
        build(c, out, shapes_tool)
    (out / "configs.json").write_text(json.dumps(configs(), indent=1))


if __name__ == "__main__":
    main()
