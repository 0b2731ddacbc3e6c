"""Checks that a folder holds a model, before an engine is started on it: check_model.py FOLDER GLOB…"""

import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
try:
    entries = list(folder.iterdir())
except OSError as error:
    sys.exit(f"{folder}: {error.strerror}; set model.localPath to the model's folder on the node")
if not entries:
    sys.exit(f"{folder} is empty; put the model into model.localPath on the node, or keep the pods on nodes that have it")
# A link that leads out of what is mounted is there, and the file is not.
missing = [glob for glob in sys.argv[2:] if not any(entry.match(glob) and entry.exists() for entry in entries)]
if missing:
    sys.exit(f"{folder} has nothing that matches {', '.join(missing)}; is the download complete?")
print(f"{folder} has {len(entries)} entries, and all that is required")
