#!/usr/bin/env python3
"""Makes the files of testdata/files by programs other than ours, with known values.

Made with numpy 2.4.6, pillow 13.0.0, scipy 1.17.1, tifffile 2026.3.3, imagecodecs 2026.3.6.
"""
import pathlib

import numpy as np
import scipy.io
import tifffile
from PIL import Image, PngImagePlugin

OUT = pathlib.Path(__file__).parent / "files"
HEIGHT, WIDTH = 3, 5

# Value of a pixel (u, v): 1000 v + 7 u in 16 bits, 40 v + 7 u in 8.
v, u = np.mgrid[0:HEIGHT, 0:WIDTH]
grey16 = (1000 * v + 7 * u).astype(np.uint16)
grey8 = (40 * v + 7 * u).astype(np.uint8)
metres = (grey16 / 1000).astype(np.float32)
rgb = np.stack([grey8, 255 - grey8, 3 * u.astype(np.uint8)], axis=-1)
rgba = np.dstack([rgb, np.full_like(grey8, 128)])

gamma = PngImagePlugin.PngInfo()
gamma.add(b"gAMA", (100000).to_bytes(4, "big"))
Image.fromarray(grey16).save(OUT / "grey16_gamma.png", pnginfo=gamma)
Image.fromarray(grey8).save(OUT / "grey8.png")
Image.fromarray(rgb).save(OUT / "rgb.png")
Image.fromarray(rgba).save(OUT / "rgba.png")
Image.fromarray(rgb).quantize(15, method=Image.Quantize.MAXCOVERAGE).save(OUT / "palette.png")
Image.new("1", (4000, 4000)).save(OUT / "black_1bit.png")
tifffile.imwrite(OUT / "grey16_big_endian.tif", grey16, byteorder=">", rowsperstrip=2)
tifffile.imwrite(OUT / "grey16_deflate.tif", grey16, compression="zlib", predictor=True)
tifffile.imwrite(OUT / "metres_lzw.tif", metres, compression="lzw")
tifffile.imwrite(OUT / "grey8_packbits.tif", grey8, compression="packbits")
tifffile.imwrite(OUT / "grey8_bigtiff.tif", grey8, bigtiff=True)
tifffile.imwrite(OUT / "rgb.tif", rgb, photometric="rgb", rowsperstrip=1)
tifffile.imwrite(OUT / "rgb16.tif", rgb.astype(np.uint16) * 257, photometric="rgb")
tifffile.imwrite(OUT / "tiles.tif", np.zeros((16, 16), np.uint16), tile=(16, 16))

arrays = {"points": np.arange(6, dtype=np.float64).reshape(2, 3) / 8,
          "collision": np.array([True, False, True])}
np.savez(OUT / "stored.npz", **arrays)
np.savez_compressed(OUT / "deflated.npz", **arrays)

meta = {"intrinsic_matrix": np.array([[927.17, 0, 651.32], [0, 927.37, 349.62], [0, 0, 1]]),
        "factor_depth": np.array([[1000]], np.uint16),
        "cls_indexes": np.array([[6, 2]], np.uint8),
        "poses": np.arange(24, dtype=np.float32).reshape(3, 4, 2),
        "remark": "text is skipped"}
scipy.io.savemat(OUT / "plain.mat", meta)
scipy.io.savemat(OUT / "compressed.mat", meta, do_compression=True)
meta["cls_indexes"] = np.array([[6]])
meta["poses"] = meta["poses"][:, :, 0]
scipy.io.savemat(OUT / "one_object.mat", meta, do_compression=True)
