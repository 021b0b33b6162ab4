#!/usr/bin/python3
"""Results of bench/run and bench/gpu/resnet50.py as the tables of docs/performance.md.

    bench/to_markdown.py RESULT.json...      a part that is in several is taken from the last
"""

import json
import pathlib
import statistics
import sys

median = statistics.median


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def number(x):
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def rates(times, size, limit, device=None):
    rows = []
    for name, t in times.items():
        row = [name, f"{median(t):.2f}", number(size / median(t) / 1e6),
               f"{median(times[limit]) / median(t):.0%}"]
        if device is not None:
            row.insert(3, number(median(device[name]) / 1e6) if device[name] else "?")
        rows.append(row)
    return rows


def best(times, prefix):
    return min((n for n in times if n.startswith(prefix)), key=lambda n: median(times[n]))


def load(part):
    if "cold" in part:
        cold = part["cold"]
        for title, key in (("in order", "in_order"), ("random samples", "random")):
            times = cold[f"{key}_s"]
            limit = best(times, "fio")
            print(f"### Cold, {title}: {part['bytes'] / 1e9:.1f} GB, samples of 80–140 KB"
                  f" (`make bench ARGS=load`)\n")
            table(["", "s", "MB/s", "MB from the device", "of fio's best"],
                  rates(times, part["bytes"], limit, cold[f"{key}_device_bytes"]))
    warm = part["warm"]
    print(f"### Warm, in order, one core: {warm['bytes'] / 1e9:.1f} GB, samples of 80–140 KB\n")
    table(["", "s", "MB/s", "of the pread loop"],
          rates(warm["seconds"], warm["bytes"], next(iter(warm["seconds"]))))
    print("### Samples of 2 KB as views, warm, one core, C API\n")
    table(["", "million samples/s"], [[n, f"{part['small']['samples'] / median(t) / 1e6:.2f}"]
                                      for n, t in part["small"]["seconds"].items()])
    print(f"### From opening {part['first_batch_samples']:,} indexed samples to the first batch\n")
    first = part["first_batch"]
    table(["shuffle", "warm, ms", "cold, ms"],
          [[how, *(f"{median(first[state][how]) * 1e3:.1f}" for state in ("warm", "cold"))]
           for how in first["warm"]])


def jpeg(part):
    found, cores = part["images_per_s"], part["cores"]
    print(f"### JPEG decoding, 500x375, about 110 KB, {cores} cores (`make bench ARGS=jpeg`)\n")
    rows = []
    for what in found["one"][0]:
        if what == "image":
            continue
        one = median([r[what] for r in found["one"]])
        together = median([r[what] for r in found["all"]])
        ours = median(found[what] if what in found else found["image"])
        rows.append([what, number(one), number(together), number(ours), f"{ours / cores / one:.0%}"])
    table(["", "one thread, images/s", f"{cores} threads at once", "the loader",
           f"loader of {cores} × one thread"], rows)


def slowfs(part):
    print("### A busy shared file system: 2 ms an open, 1 ms a read, 500 MB/s"
          " (`make bench ARGS=slowfs`)\n")
    rows = []
    for key, n, size in (("packed_s", part["samples"], part["bytes"]),
                         ("files_s", part["files"], part["files_bytes"])):
        for name, t in part[key].items():
            rows.append([name, number(n / median(t)), number(size / median(t) / 1e6),
                         f"{size / median(t) / 500e6:.0%}", number(part["samples"] * median(t) / n)])
    table(["", "samples/s", "MB/s", "of the bandwidth", f"s for {part['samples']:,}"], rows)


def peers(part):
    print("### Python: the same samples through other loaders (`make bench ARGS=peers`)\n")
    for which, data in part["data"].items():
        for order in ("shuffled", "sequential"):
            cells = [part["cells"][f"{which}, {order}, {state}"] for state in ("warm", "cold")]
            print(f"{data['samples']:,} samples of {number(data['bytes'] / data['samples'] / 1e3)} KB,"
                  f" {order}:\n")
            rows = []
            for name in cells[0]:
                row = [name]
                for cell in cells:
                    if name not in cell:
                        row += ["–", "–"]
                        continue
                    ours = median(next(iter(cell.values()))["seconds"])
                    if "seconds" not in cell[name]:
                        row += [cell[name]["trouble"], "–"]
                        continue
                    t = median(cell[name]["seconds"])
                    row += [number(data["samples"] / t), f"{t / ours:.1f}"]
                rows.append(row)
            table(["", "warm, samples/s", "stoker is × as fast", "cold, samples/s",
                   "stoker is × as fast"], rows)
    print("Versions: " + "; ".join(sorted(set(part["versions"].values()))) + ".\n")


def gpu(part):
    print(f"### ResNet-50, bf16, channels_last, batch {part['settings']['batch']}, {part['device']},"
          f" {part['cores']} cores (`bench/gpu/resnet50.py`)\n")
    rounds = part["rounds"]
    limit = median([r["images_per_s"] for r in next(iter(rounds.values()))])
    rows = []
    for name, runs in rounds.items():
        rate = median([r["images_per_s"] for r in runs])
        alone = part["alone_images_per_s"].get(name)
        rows.append([name, number(rate), f"{rate / limit:.1%}",
                     f"{median([r['cores_busy'] for r in runs]):.1f}", number(alone) if alone else ""])
    table(["", "images/s", "of the limit", "cores busy", "feed alone, images/s"], rows)


def profile(part):
    print(f"### What a profiler adds to a call: {part['calls']:,} preads of 4 KiB, cached"
          " (`make bench ARGS=profile`)\n")
    how = {"1": "1 thread", "1 random": "1 thread, random", "2": "2 threads"}
    keys = list(part["added_ns"])
    rows = [[name, *(f"{median(part['added_ns'][key][name]):+,.0f} ns" for key in keys)]
            for name in part["added_ns"]["1"]]
    rows.insert(0, ["a call by itself", *(f"{median(part['bare_ns'][key]['bare']):,.0f} ns"
                                          for key in keys)])
    table(["", *(how[key] for key in keys)], rows)


def stage(part):
    copies = part["copies"]
    print("### Staging against other tools, each with a final sync, s (`make bench ARGS=stage`)\n")
    names = list(next(iter(copies.values()))["seconds"])
    table(["", *copies], [[name, *(f"{median(c['seconds'][name]):.2f}"
                                   f" ({median(c['seconds'][name]) / median(c['seconds'][names[0]]):.2f} ×)"
                                   for c in copies.values())] for name in names])
    if "nodes" in part:
        nodes = part["nodes"]
        one = median(nodes["seconds"]["one node alone"])
        print(f"### Eight nodes, {nodes['bytes'] / 1e6:,.0f} MB from one narrow source\n")
        table(["", "s", "× one node", "bytes read / dataset"],
              [[name, f"{median(t):.2f}", f"{median(t) / one:.2f}",
                f"{median(nodes['bytes_read'][name]) / nodes['bytes']:.3f}"]
               for name, t in nodes["seconds"].items()])
    if "while_training" in part:
        both = part["while_training"]
        print(f"### Training meanwhile, {both['bytes'] / 1e6:,.0f} MB on slowfs\n")
        rows = [[name, f"{median(t):.2f}"] for name, t in both["seconds"].items()]
        table(["", "s"], rows + [["total / the longer of the two", f"{median(both['ratios']):.2f}"]])
    if "first_batch" in part:
        first = part["first_batch"]
        print(f"First batch after {median(first['first_batch_s']):.3f} s, staging {first['bytes'] / 1e9:.1f} GB"
              f" takes {first['staging_s']:.2f} s.\n")
    rows = [[f"filled tier, {name}", f"{median(t):.3f}"] for name, t in part["tier"]["cpu_s"].items()]
    for what, cost in part["checksums"].items():
        rows += [[f"{what}, {name}", f"{median(t):.3f}"] for name, t in cost["cpu_s"].items()]
    print("### CPU seconds\n")
    table(["", "CPU s"], rows)


def main():
    parts, about = {}, None
    for path in sys.argv[1:]:
        found = json.loads(pathlib.Path(path).read_text())
        about = found.get("machine", about)
        parts.update(found.get("parts") or {"gpu": found})
    if about:
        print(f"<!-- {about['cpu']}, {about['cores']} cores, {about['memory']}, Linux"
              f" {about['kernel']}, {about['file_system']} -->\n")
    for name, show in (("load", load), ("jpeg", jpeg), ("slowfs", slowfs), ("peers", peers),
                       ("gpu", gpu), ("profile", profile), ("stage", stage)):
        if name in parts:
            show(parts[name])


if __name__ == "__main__":
    main()
