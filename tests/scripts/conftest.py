import sys
from pathlib import Path

# `python scripts/make_demo_corpus.py` finds its package beside itself; so do the tests of it.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
