"""Writes the page as a C array, compressed; without a page, an empty one: embed.py [PAGE.html] OUT.c"""
import sys
import zlib

page = open(sys.argv[1], "rb").read() if len(sys.argv) > 2 else b""
packed = zlib.compress(page, 9)
with open(sys.argv[-1], "w") as out:
    out.write("#include <stddef.h>\n"
              "extern const unsigned char stk_page_shell[];\n"
              "extern const size_t stk_page_shell_packed, stk_page_shell_bytes;\n"
              f"const size_t stk_page_shell_packed = {len(packed)}, stk_page_shell_bytes = {len(page)};\n"
              "const unsigned char stk_page_shell[] = {\n")
    for i in range(0, len(packed), 64):
        out.write(",".join(map(str, packed[i:i + 64])) + ",\n")
    out.write("};\n")
