"""Pages of docs/ and the code blocks in them."""

import re

from helpers.builders import CONF

ROOT = CONF.parent


CODE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
