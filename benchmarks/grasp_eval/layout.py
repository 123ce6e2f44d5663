"""Lays the golden vectors out as a dataset in GraspNet-1Billion's folders, with a dump of grasps."""

import json
from pathlib import Path

import numpy as np

OBJECT = """    <obj>
        <obj_id>{object}</obj_id>
        <obj_name>{object:03d}.ply</obj_name>
        <obj_path>models/{object:03d}/nontextured.ply</obj_path>
        <pos_in_world>{position}</pos_in_world>
        <ori_in_world>{quaternion_wxyz}</ori_in_world>
    </obj>
"""


def write_ply(path: Path, points: np.ndarray) -> None:
    """Writes points [N, 3] as a binary .ply of doubles."""
    header = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(points)}\n"
        "property double x\nproperty double y\nproperty double z\nend_header\n"
    )
    path.write_bytes(header.encode() + np.ascontiguousarray(points, "<f8").tobytes())


def write_sdf(path: Path, values: np.ndarray, origin: list[float], resolution: float) -> None:
    """Writes distances [X, Y, Z] as text, x fastest, so that each float32 is read back as it is."""
    lines = [
        " ".join(map(str, values.shape)),
        " ".join(f"{x:.17g}" for x in origin),
        f"{resolution:.17g}",
        *(f"{value:.9g}" for value in values.transpose(2, 1, 0).ravel()),
    ]
    path.write_text("\n".join(lines) + "\n")


def write_dataset(golden: Path, root: Path) -> tuple[list[int], int]:
    """Writes `root`/{models,scenes,dump}; returns the scenes and the frames of each."""
    for about in json.loads((golden / "objects/objects.json").read_text()):
        folder = root / f"models/{about['id']:03d}"
        folder.mkdir(parents=True)
        cloud = golden / (about["raw_cloud"] or about["cloud"])
        write_ply(folder / "nontextured.ply", np.load(cloud))
        values = np.load(golden / about["sdf"])
        write_sdf(folder / "textured.sdf", values, about["origin"], about["resolution"])
        # The public package wants a mesh to be there; no number depends on it.
        (folder / "textured.obj").write_text(
            "v 0 0 0\nv 0.01 0 0\nv 0 0.01 0\nv 0 0 0.01\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
        )
    scenes, frames = [], 0
    for source in sorted((golden / "scenes").iterdir()):
        scene = json.loads((source / "scene.json").read_text())
        number, frames = scene["scene"], scene["frames"]
        scenes.append(number)
        folder = root / f"scenes/scene_{number:04d}"
        camera = folder / "realsense"
        (camera / "annotations").mkdir(parents=True)
        (folder / "object_id_list.txt").write_text("".join(f"{o}\n" for o in scene["objects"]))
        for name in ("camera_poses.npy", "cam0_wrt_table.npy"):
            (camera / name).write_bytes((source / name).read_bytes())
        dump = root / f"dump/scene_{number:04d}/realsense"
        dump.mkdir(parents=True)
        for frame, poses in enumerate(scene["pose_text"]):
            objects = "".join(OBJECT.format(**pose) for pose in poses)
            text = f'<?xml version="1.0" ?>\n<scene>\n{objects}</scene>\n'
            (camera / f"annotations/{frame:04d}.xml").write_text(text)
            grasps = (source / f"frame_{frame:04d}/grasps.npy").read_bytes()
            (dump / f"{frame:04d}.npy").write_bytes(grasps)
    return scenes, frames
