import sys
from pathlib import Path

# A script finds the packages beside it, and so must its tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
