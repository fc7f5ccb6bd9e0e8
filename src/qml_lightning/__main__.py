"""`python -m qml_lightning` is `qml-lightning`."""

import sys

from .cli import main

sys.exit(main())
